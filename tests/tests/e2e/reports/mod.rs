//! What commands say of a trace.

pub mod alike;
pub mod causes;
pub mod check;
pub mod ci;
pub mod differences;
pub mod hostile_traces;
pub mod models;
pub mod names;
pub mod patterns;
pub mod ranks;
pub mod select;
pub mod top;
pub mod views;
pub mod words;
