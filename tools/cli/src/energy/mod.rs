//! Owns energy in the command: which sensors are opened ([`sources`]), how their readings are stored ([`store`]) and, for
//! `report` and `export`, what became of them. Refuses to fit anything: the analysis does that.
#![forbid(unsafe_code)]

pub mod sources;
pub mod store;
