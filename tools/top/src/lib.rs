//! The screen of `clscope top`: what a running application does, as of now. Owns what is looked at
//! ([`target`]), what keys do (`state`), the drawing (`draw`) and the terminal while the screen
//! stands. Refuses to read records and to compute figures: `clscope-live` does, without the
//! application noticing; and to know options of a command line.
#![forbid(unsafe_code)]

mod draw;
mod error;
mod print;
mod screen;
mod state;
pub mod target;
mod whole;

pub use draw::Look;
pub use error::TopError;
pub use print::{once, text};
pub use screen::show;
pub use state::Sort;

use clscope_profile::energy::attribute;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What is shown, and how often.
pub struct Options<'a> {
    /// Between two readings.
    pub interval: Duration,
    /// What kernels are sorted by at first.
    pub sort: Sort,
    /// How joules are attributed.
    pub energy: attribute::Options,
    /// The same for `clscope report`, which writes pages.
    pub energy_arguments: Vec<OsString>,
    /// What the terminal can show.
    pub look: Look,
    /// Where the command lies.
    pub program: Program<'a>,
}

/// Where the command `clscope` lies, or why that is not known. Asked when it is needed.
pub type Program<'a> = &'a dyn Fn() -> Result<PathBuf, String>;
