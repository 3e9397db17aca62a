//! The face of the library: exported symbols, the ABI of layers,
//! and when things begin and end.

pub mod exports;
pub mod layer;
pub mod lifecycle;
