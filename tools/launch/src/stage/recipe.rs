//! What of a capture is built, and how; why it cannot be put on a device.

use crate::progress::Who;
use crate::read::CaptureError;
use clscope_opencl::{ClError, Kernel, Program, Range};

/// Which form of a program is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Source in OpenCL C.
    Source,
    /// SPIR-V.
    Il,
    /// The device's binary.
    Binary,
}

impl Form {
    /// Every form, the best first.
    pub const ALL: [Self; 3] = [Self::Source, Self::Il, Self::Binary];

    /// Its name on the command line and in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Il => "il",
            Self::Binary => "binary",
        }
    }

    pub(super) const fn language(self) -> &'static str {
        match self {
            Self::Source => "opencl-c",
            Self::Il => "spirv",
            Self::Binary => "binary",
        }
    }
}

/// Why a launch cannot be put on a device.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum StageError {
    /// The capture.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// OpenCL.
    #[error(transparent)]
    Cl(#[from] ClError),
    /// There is no program of the form.
    #[error("the capture has no program as {form}: {why}; {next}")]
    NoProgram { form: String, why: String, next: String },
    /// The captured binary is of another device or driver.
    #[error(
        "{device} does not take the captured binary ({why}), which was made for {of}: {lack}; {next}"
    )]
    Elsewhere { device: String, why: Box<ClError>, of: String, lack: String, next: String },
    /// The device lacks something.
    #[error("{device} {lack}, which the launch needs; choose another with --device")]
    Lacks { device: String, lack: String },
    /// The sizes do not fit.
    #[error("the launch of {kernel} is refused: {why}")]
    Sizes { kernel: String, why: String },
    /// The kernel is another than was captured.
    #[error(
        "{kernel} of {program} takes {found} arguments, {captured} were captured: name a source whose kernel takes the same"
    )]
    Arguments { kernel: String, program: String, found: u32, captured: usize },
}

/// What differs from the capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recipe {
    /// The form of the captured program; none: the best that is there.
    pub form: Option<Form>,
    /// Another source: what it is called, and its text.
    pub source: Option<(String, String)>,
    /// Other build options.
    pub options: Option<String>,
    /// Other work-items.
    pub global: Option<Vec<usize>>,
    /// Other groups; `Some(None)`: the runtime chooses.
    pub local: Option<Option<Vec<usize>>>,
}

/// A kernel that can be launched.
pub struct Built {
    /// The program's name: a file's.
    pub name: String,
    /// Its form.
    pub form: Form,
    /// Build options.
    pub options: String,
    /// Sizes.
    pub range: Range,
    /// The kernel, whose arguments are set.
    pub kernel: Kernel,
    /// Which version it is.
    pub who: Who,
    /// What its program has of atomics, in words, as far as that is known.
    pub atomics: Option<String>,
    /// The source of a version that is not the captured one.
    pub source: Option<String>,
    pub(super) program: Program,
}

impl Built {
    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }
}
