//! Options that several commands share, and what `--help` shows of them. Refuses to act on any.

pub(crate) mod args;
pub(crate) mod help;
pub(crate) mod parameters;
pub(crate) mod select;
