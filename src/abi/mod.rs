//! What every layer may know of OpenCL: types of handles and entry points, and the table of what
//! may differ from the application's calls. It uses no other layer.

pub mod changes;
pub mod entry;
pub mod error;
pub mod functions;
pub mod table;

pub use clscope_trace::codes as constants;
pub use functions::signatures;
