//! Metric sets: from counts of GPU counters to figures with names and units.
//!
//! Owns the equations of the public metric XML, their evaluation, the sets that are built in, and
//! what is derived from them; refuses to read counters (`clscope_oa` does) and to give a figure
//! where its inputs are missing: such a figure is undefined, with the reason. Pure, but for
//! [`directory`], which reads the files a user names. Decoded as specified: no set was checked on a
//! device.
//!
//! | module | what it holds |
//! |---|---|
//! | [`rpn`] | equations in reverse Polish notation |
//! | [`variables`] | what equations call `$EuCoresTotalCount` and so on, with where each value comes from |
//! | [`set`] | sets, their evaluation, the registers they need |
//! | [`xml`], [`directory`] | sets from XML, and the files that hold them |
//! | [`decode`], [`intervals`] | recorded streams, decoded; their intervals as lines |
//! | [`builtin`] | sets of what the A counters give |

#![forbid(unsafe_code)]

pub mod builtin;
pub mod decode;
pub mod directory;
pub mod intervals;
pub mod rpn;
pub mod set;
pub mod variables;
pub mod xml;

pub use rpn::{Equation, Number, Undefined};
pub use set::{Metric, MetricSet, Origin, SetFigure, UnknownMetric};
pub use variables::{Provenance, Variables};
