//! The boundary between clscope and what it does not control: files that somebody else may have
//! made ([`input`], [`map`], [`mapped`]), places where somebody else may have made something already
//! ([`output`]), the terminal or spreadsheet that shows what a trace says ([`text`], [`shorten`]),
//! and signals that others send ([`signals`]). Refuses to know what is in a file.

pub mod input;
pub mod map;
pub mod mapped;
pub mod output;
pub mod shorten;
pub mod signals;
pub mod text;
