//! Which device a capture is run on. Refuses to judge whether it can be.

use crate::capture::Launch;
use crate::run::is_of;
use clscope_opencl::{ChoiceError, Device, choose};

/// The device that a number or a part of a name means; without one that of the capture, one like it
/// under another version of the driver, or else the first GPU.
///
/// # Errors
/// If there is none.
pub fn device_for<'a>(
    all: &'a [Device],
    of: &Launch,
    wanted: Option<&str>,
) -> Result<&'a Device, ChoiceError> {
    let same = || all.iter().find(|device| is_of(of, &device.facts));
    // Another version of the driver is nearer than another device.
    let near = || {
        all.iter().find(|d| d.facts.name == of.device.name && d.facts.platform == of.platform.name)
    };
    match wanted {
        None => same().or_else(near).map_or_else(|| choose(all, None), Ok),
        wanted => choose(all, wanted),
    }
}
