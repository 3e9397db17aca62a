//! What one measurement needs: a kernel, its memory and arguments, how long to run it and how to
//! tell that it was right. Owns the description and the needs of a case; refuses to run anything.

use crate::cl::{Buffer, ClError, DeviceFacts, Session};
use crate::source::Source;
use std::rc::Rc;

/// The element type of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scalar {
    /// 16-bit floating point.
    Half,
    /// 32-bit floating point.
    Float,
    /// 64-bit floating point.
    Double,
    /// 32-bit signed integer.
    Int,
}

impl Scalar {
    /// All, in the order of reports.
    pub const ALL: [Scalar; 4] = [Scalar::Float, Scalar::Double, Scalar::Half, Scalar::Int];

    /// Its name in OpenCL C.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::Half => "half",
            Scalar::Float => "float",
            Scalar::Double => "double",
            Scalar::Int => "int",
        }
    }

    /// Bytes.
    pub fn bytes(self) -> usize {
        match self {
            Scalar::Half => 2,
            Scalar::Float | Scalar::Int => 4,
            Scalar::Double => 8,
        }
    }

    /// `value` as the device takes it, rounded to the type.
    pub fn encode(self, value: f64) -> Vec<u8> {
        match self {
            Scalar::Half => crate::half::from_f64(value).to_ne_bytes().to_vec(),
            Scalar::Float => (value as f32).to_ne_bytes().to_vec(),
            Scalar::Double => value.to_ne_bytes().to_vec(),
            Scalar::Int => (value as i32).to_ne_bytes().to_vec(),
        }
    }

    /// The value of the first element in `bytes`; nothing where there are too few.
    pub fn decode(self, bytes: &[u8]) -> Option<f64> {
        Some(match self {
            Scalar::Half => {
                crate::half::to_f64(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?))
            }
            Scalar::Float => f64::from(f32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)),
            Scalar::Double => f64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?),
            Scalar::Int => f64::from(i32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?)),
        })
    }

    /// What a program with this type is built with.
    pub fn defines(self, width: usize) -> Vec<String> {
        let mut defines = vec![format!("-DSCALAR={}", self.name()), format!("-DWIDTH={width}")];
        match self {
            Scalar::Half => defines.push("-DNEEDS_HALF".to_owned()),
            Scalar::Double => defines.push("-DNEEDS_DOUBLE".to_owned()),
            Scalar::Int => defines.push("-DINTEGER".to_owned()),
            Scalar::Float => {}
        }
        defines
    }
}

/// What a device must have for a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Arithmetic of this type.
    Type(Scalar),
    /// FMA of single precision.
    Fma,
    /// Bytes of local memory in a group.
    Local(u64),
    /// Work-items in a group.
    Group(usize),
}

impl Need {
    /// Why the device cannot, if it cannot.
    pub fn missing(self, device: &DeviceFacts) -> Option<String> {
        match self {
            Need::Type(Scalar::Half) if !device.has_half => {
                Some("the device has no half arithmetic (cl_khr_fp16)".to_owned())
            }
            Need::Type(Scalar::Double) if !device.has_double => {
                Some("the device has no double arithmetic (cl_khr_fp64)".to_owned())
            }
            Need::Fma if !device.has_fma => {
                Some("the device has no single FMA (CL_FP_FMA): it would be emulated".to_owned())
            }
            Need::Local(bytes) if bytes > device.local_bytes => Some(format!(
                "{bytes} bytes of local memory are needed, the device has {}",
                device.local_bytes
            )),
            Need::Group(items) if items > device.max_group => {
                Some(format!("groups of {items} are needed, the device takes {}", device.max_group))
            }
            _ => None,
        }
    }
}

/// A kernel argument.
#[derive(Clone, Debug)]
pub enum Arg {
    /// The buffer of this number.
    Buffer(usize),
    /// The number of turns.
    Trips,
    /// A value.
    Value(Vec<u8>),
    /// Local memory, bytes.
    Local(usize),
    /// An image of [`TEXELS`] squared texels of one 32-bit integer, texel t of which is t *
    /// 2654435761.
    Image,
}

/// Texels of a side of [`Arg::Image`].
pub const TEXELS: usize = 1024;

impl Arg {
    /// A `uint` argument.
    pub fn uint(value: u32) -> Arg {
        Arg::Value(value.to_ne_bytes().to_vec())
    }
}

/// How a buffer gets its contents before a launch whose result counts.
#[derive(Clone, Debug)]
pub enum Fill {
    /// A repeated pattern.
    Pattern {
        /// Which buffer.
        buffer: usize,
        /// The bytes: a power of two of them.
        pattern: Vec<u8>,
        /// How many bytes to fill.
        bytes: usize,
    },
    /// A kernel over `items` work-items.
    Kernel {
        /// Where it is.
        source: Source,
        /// Its name.
        entry: &'static str,
        /// What it is built with.
        defines: Vec<String>,
        /// Its arguments.
        args: Vec<Arg>,
        /// Work-items.
        items: usize,
    },
}

/// The turns of the kernel's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trips {
    /// As the case says.
    Fixed(u32),
    /// As many as make a launch last this many nanoseconds.
    Lasting(u64),
    /// The same, and at least so many, so that a launch reads more than caches keep of the one
    /// before: up to [`LONGER`](Trips::LONGER) times as long.
    Walking {
        /// Nanoseconds.
        ns: u64,
        /// Turns.
        least: u32,
    },
}

impl Trips {
    /// How much longer a launch may last for what it is to read.
    pub const LONGER: u32 = 8;
}

/// What a launch was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Work-groups.
    pub groups: usize,
    /// Work-items of a group.
    pub group: usize,
    /// Turns.
    pub trips: u32,
}

impl Geometry {
    /// Work-items.
    pub fn items(self) -> usize {
        self.groups * self.group
    }
}

/// What a check may look at.
pub struct Outcome<'a> {
    /// The queue to read with.
    pub session: &'a Session,
    /// The job's buffers.
    pub buffers: &'a [Rc<Buffer>],
    /// What was launched, with [`Job::check_args`].
    pub geometry: Geometry,
}

impl Outcome<'_> {
    /// The first `bytes` of a buffer.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn read(&self, buffer: usize, offset: usize, bytes: usize) -> Result<Vec<u8>, ClError> {
        let mut out = vec![0; bytes];
        self.session.read(&self.buffers[buffer], offset, &mut out)?;
        Ok(out)
    }

    /// So many words of a buffer behind the first `offset` bytes.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn words(&self, buffer: usize, offset: usize, count: usize) -> Result<Vec<u32>, ClError> {
        Ok(words(&self.read(buffer, offset, 4 * count)?))
    }
}

/// Whether a result is within a share of what it must be; where that is not known, a number at all.
pub fn is_right(got: f64, want: f64, tolerance: f64) -> bool {
    let near = got == want || (got - want).abs() <= tolerance * want.abs();
    if want.is_nan() { got.is_finite() } else { near }
}

/// Bytes as words.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
}

/// Compares with the host: nothing, or what is wrong.
pub type Check = Box<dyn Fn(&Outcome<'_>) -> Result<Option<String>, ClError>>;

/// One measurement.
pub struct Job {
    /// Where the kernel is.
    pub source: Source,
    /// Its name.
    pub entry: &'static str,
    /// What it is built with.
    pub defines: Vec<String>,
    /// What the device must have.
    pub needs: Vec<Need>,
    /// Work-groups.
    pub groups: usize,
    /// Work-items of a group.
    pub group: usize,
    /// Whether groups may be made smaller where the kernel demands it.
    pub may_shrink: bool,
    /// Bytes of each buffer.
    pub buffers: Vec<usize>,
    /// What is in them at first.
    pub fills: Vec<Fill>,
    /// Arguments in order.
    pub args: Vec<Arg>,
    /// Turns of timed launches.
    pub trips: Trips,
    /// Turns of the launch that is always checked.
    pub check_trips: u32,
    /// The check.
    pub check: Check,
    /// Arguments that differ in the checked launch: (index, bytes).
    pub check_args: Vec<(u32, Vec<u8>)>,
}

impl Job {
    /// One launch of a kernel in so many groups of so many items, without buffers and arguments: what
    /// else it has is set in the value.
    pub fn new(
        source: Source,
        entry: &'static str,
        (groups, group): (usize, usize),
        check: impl Fn(&Outcome<'_>) -> Result<Option<String>, ClError> + 'static,
    ) -> Self {
        Self {
            source,
            entry,
            defines: Vec::new(),
            needs: Vec::new(),
            groups,
            group,
            may_shrink: false,
            buffers: Vec::new(),
            fills: Vec::new(),
            args: Vec::new(),
            trips: Trips::Fixed(1),
            check_trips: 1,
            check: Box::new(check),
            check_args: Vec::new(),
        }
    }
}
