//! OpenCL objects with owners: opened at run time, released when dropped, every failure an error
//! that names the call, its code and its object. [`survey`] examines loaders and drivers that may
//! not work. Refuses to measure or to judge, and never links an OpenCL library.

mod api;
mod device;
mod error;
mod kernels;
mod memory;
mod objects;
mod programs;
pub mod search;
mod session;
pub mod signatures;
pub mod survey;
mod svm;

pub use device::{ChoiceError, Device, DeviceFacts, DeviceKind, Limits, choose, list};
pub use error::ClError;
pub use kernels::{ArgumentInfo, Range};
pub use memory::{ACCESS_FLAGS, Image, Sampler, Shape, View};
pub use objects::{Argument, Buffer, Event, Kernel, Program};
pub use session::Session;
pub use svm::Svm;

use api::Api;
use std::sync::Arc;

/// Names by which applications ask for a loader.
const NAMES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

/// The OpenCL library of this process.
#[derive(Clone)]
pub struct OpenCl(Arc<Api>);

impl OpenCl {
    /// Opens OpenCL: `path`, or else the loader of the system.
    ///
    /// # Errors
    /// [`ClError::NoLibrary`] if nothing can be opened or entry points are missing.
    pub fn open(path: Option<&str>) -> Result<OpenCl, ClError> {
        let names: Vec<&str> = path.map_or_else(|| NAMES.to_vec(), |p| vec![p]);
        let mut why = String::new();
        for name in &names {
            match Api::open(name) {
                Ok(api) => return Ok(OpenCl(Arc::new(api))),
                Err(error) => why = error.to_string(),
            }
        }
        Err(ClError::NoLibrary { tried: names.join(", "), why })
    }
}
