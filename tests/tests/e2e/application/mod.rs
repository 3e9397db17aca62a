//! The application runs with the recorder as without it.

pub mod balance;
pub mod conform;
pub mod disturbances;
pub mod endings;
pub mod faults;
pub mod generated;
pub mod own_state;
pub mod real_apps;
pub mod refusals;
pub mod sandboxes;
pub mod transparency;
pub mod untouched;
pub mod waits;
