//! The ways in which the recorder comes into an application, and what it does where it is not used.

mod loading;
mod starts;
mod symbols;
mod ways_in;
