//! What the libraries found, as text for people: a report, an explanation, results of benchmarks
//! and of captured launches. Values in, text out: into a string, or into a writer that is given.
//! Owns the layout of tables ([`table`]) and how figures are written ([`figure`]). Refuses to
//! compute, to read options and to print: how wide the terminal is and what is shown is said by
//! whoever asks.
//!
//! Names come from traces and may hold whatever an application chose: what is built here goes
//! through [`clscope_io::text::Page`], [`table::Table`] or [`clscope_io::text::line()`], except
//! where a writer is given, which then has to be a [`clscope_io::text::Screen`].
#![forbid(unsafe_code)]

/// Writing a line to a page or a string, which cannot fail.
macro_rules! put {
    ($to:expr, $($what:tt)*) => {{ let _ = writeln!($to, $($what)*); }};
}

/// The same without the end of the line.
macro_rules! add {
    ($to:expr, $($what:tt)*) => {{ let _ = write!($to, $($what)*); }};
}

pub mod bench;
pub mod check;
pub mod doctor;
pub mod explain;
pub mod figure;
pub mod kernel;
pub mod mix;
pub mod oa;
pub mod overhead;
pub mod predict;
pub mod programs;
pub mod report;
pub mod simulated;
pub mod stat;
pub mod table;
