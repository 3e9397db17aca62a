//! Owns a kernel that is a loop whose length is an argument, ready on a device: what both
//! calibrations launch. Refuses to time it.
#![forbid(unsafe_code)]

use clscope_opencl::{
    Argument, Buffer, ClError, Device, DeviceFacts, Kernel, OpenCl, Session, list,
};

/// Above so many turns a compiler has left the loop out: the slowest device would take seconds for
/// them.
pub const MOST_TURNS: u32 = 1 << 28;

/// Why a device could not be measured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum MeasureError {
    /// The runtime refuses something.
    #[error(transparent)]
    Runtime(#[from] ClError),
    /// A loop that does not grow with its turns.
    #[error(
        "a loop of {turns} turns takes {seconds} s: its compiler left the loop out, or its times are wrong"
    )]
    NoLoop { turns: u32, seconds: f64 },
}

/// What was measured on each device, by its name, or why nothing was; or why there are no devices.
pub type Measurements<T> = Result<Vec<(String, Result<T, String>)>, String>;

/// Measures the wanted devices of the system's OpenCL loader, one after the other.
pub fn measure_each<T>(
    is_wanted: impl Fn(&DeviceFacts) -> bool,
    measure: impl Fn(&Device) -> Result<T, MeasureError>,
) -> Measurements<T> {
    let devices = OpenCl::open(None).and_then(|opencl| list(&opencl)).map_err(|e| e.to_string())?;
    let wanted = devices.iter().filter(|d| is_wanted(&d.facts));
    let measured = |d: &Device| measure(d).map_err(|e| e.to_string());
    Ok(wanted.map(|d| (d.facts.name.clone(), measured(d))).collect())
}

/// The kernel with what it needs.
pub struct Looped {
    /// Where it is launched.
    pub session: Session,
    /// Its arguments are a buffer and the turns.
    pub kernel: Kernel,
    /// Work-items of a group.
    pub group: usize,
    /// The kernel's argument, which it does not keep alive.
    _out: Buffer,
}

impl Looped {
    /// Builds the kernel `name` of `source`; groups have `largest` work-items, or as many as the
    /// device allows.
    ///
    /// # Errors
    /// What the runtime has against it.
    pub fn new(device: &Device, name: &str, source: &str, largest: usize) -> Result<Self, ClError> {
        let session = Session::new(device)?;
        let program = session.build(name, source, "")?;
        let kernel = session.kernel(&program, name)?;
        let out = session.buffer(64, false)?;
        kernel.set(0, &Argument::Buffer(&out))?;
        let group = kernel.largest_group().min(largest);
        Ok(Self { session, kernel, group, _out: out })
    }

    /// Sets the turns of the loop.
    ///
    /// # Errors
    /// The runtime's.
    pub fn turns(&self, turns: u32) -> Result<(), ClError> {
        self.kernel.set(1, &Argument::Bytes(&turns.to_ne_bytes()))
    }
}
