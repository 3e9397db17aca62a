//! The face of the library: exported symbols, the table that they are made from, and the ABI of
//! layers.

pub mod exports;
pub mod layer;
pub mod table;
