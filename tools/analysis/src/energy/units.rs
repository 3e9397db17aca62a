//! Owns the units and ids of the energy module, so that joules, watts and stamps cannot be mixed.
//! Refuses to know clocks: a [`HostNs`] is a stamp of the one timeline that the caller aligned
//! everything to.

pub use crate::time::HostNs;

/// Energy in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Joules(pub f64);

/// Power in watts.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Watts(pub f64);

/// Duration in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

/// A class of device work that gets one row of the result: a kernel name (or kernel and NDRange, or
/// call site), or a transfer direction. Dense: the caller numbers classes from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub u32);

impl ClassId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A device whose overlapping commands share its time. Commands of different devices do not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceIndex(pub u16);
