//! What can go wrong with counters, each with the kernel's reason in words and the next step. Owns
//! the meaning of every errno of the OA interfaces; refuses to turn a refusal into a value.
#![forbid(unsafe_code)]

use super::config::Uuid;
use super::flex::FlexError;
use super::stream::StreamError;
use super::time::Unrelated;
use clscope_sensors::error::SensorError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Counters that cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum OaError {
    /// EBUSY: one user of an OA unit at a time.
    #[error(
        "{what}: another program has a stream of this OA unit open, and there can be one in the whole system"
    )]
    Busy { what: &'static str },
    /// EACCES or EPERM: no privilege.
    #[error("{what}: the kernel demands CAP_PERFMON ({sysctl} is {value})")]
    Denied { what: &'static str, sysctl: &'static str, value: String },
    /// EACCES: sampling faster than the administrator allows.
    #[error(
        "{what}: {wanted_hz} reports a second are more than {limit_hz}, which dev.i915.oa_max_sample_rate allows without CAP_PERFMON"
    )]
    TooFast { what: &'static str, wanted_hz: u64, limit_hz: u64 },
    /// EADDRINUSE: a configuration of this UUID is loaded.
    #[error("the configuration {uuid} is loaded already: its number is in sysfs")]
    AlreadyLoaded { uuid: Uuid },
    /// No configuration of this UUID is loaded.
    #[error("the configuration {uuid} is not loaded (no {})", path.display())]
    ConfigNotLoaded { uuid: Uuid, path: PathBuf },
    /// EINVAL.
    #[error("{what}: the kernel refused the request as invalid: {hint}")]
    Invalid { what: &'static str, hint: &'static str },
    /// ENODEV, EOPNOTSUPP, ENOTTY: not on this device or kernel.
    #[error("{what}: not offered by this device or kernel ({reason})")]
    Unsupported { what: &'static str, reason: String },
    /// EIO on a stream of i915: it was disabled.
    #[error("the OA stream is disabled (EIO)")]
    StreamDisabled,
    /// Anything else.
    #[error("{what} failed")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A node that cannot be opened.
    #[error("{}: cannot be opened", path.display())]
    Open {
        /// The node.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file of sysfs that makes no sense.
    #[error("{} holds {found:?}, expected a number", path.display())]
    Sysfs { path: PathBuf, found: String },
    /// A file of sysfs that cannot be read.
    #[error("{}: cannot be read", path.display())]
    SysfsIo {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The kernel's answer has not the promised shape.
    #[error("{what}: the kernel's answer of {bytes} bytes makes no sense")]
    Answer { what: &'static str, bytes: usize },
    /// A stream that cannot be parsed.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// A programmed counter that makes no sense.
    #[error(transparent)]
    Flex(#[from] FlexError),
    /// Clocks that cannot be related.
    #[error(transparent)]
    Clock(#[from] Unrelated),
    /// perf events of CPU devices.
    #[error("{what} of process {pid}: {reason}")]
    Perf { what: &'static str, pid: u32, reason: String, remedy: Option<String> },
}

impl OaError {
    /// Words for an errno of `what`. `sysctl` is the switch that decides over privilege, with its
    /// value.
    pub(super) fn explain(
        what: &'static str,
        error: io::Error,
        sysctl: (&'static str, Option<String>),
        invalid: &'static str,
    ) -> OaError {
        match error.raw_os_error() {
            Some(libc::EBUSY) => OaError::Busy { what },
            Some(libc::EACCES | libc::EPERM) => OaError::Denied {
                what,
                sysctl: sysctl.0,
                value: sysctl.1.unwrap_or_else(|| "not readable".to_owned()),
            },
            Some(libc::EINVAL) => OaError::Invalid { what, hint: invalid },
            Some(libc::ENODEV | libc::EOPNOTSUPP | libc::ENOTTY) => {
                OaError::Unsupported { what, reason: error.to_string() }
            }
            _ => OaError::Io { what, source: error },
        }
    }

    /// The one step that helps, where there is one.
    pub fn remedy(&self) -> Option<String> {
        match self {
            OaError::Busy { .. } => Some(
                "end the other program (fuser -v /dev/dri/renderD* lists candidates)".to_owned(),
            ),
            OaError::Denied { sysctl, .. } => Some(format!(
                "sudo sysctl {sysctl}=0 (opens the counters to every user), or CAP_PERFMON for the sampler alone"
            )),
            OaError::TooFast { wanted_hz, .. } => Some(format!(
                "sudo sysctl dev.i915.oa_max_sample_rate={wanted_hz}, or a longer period"
            )),
            OaError::ConfigNotLoaded { .. } => Some(
                "load it once as root, or name a directory with the metric set's XML".to_owned(),
            ),
            OaError::Open { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("sudo usermod -aG render $USER, then log in again".to_owned())
            }
            OaError::Perf { remedy, .. } => remedy.clone(),
            _ => None,
        }
    }

    /// Whether trying again can not succeed.
    pub fn is_fatal(&self) -> bool {
        !matches!(self, OaError::Busy { .. } | OaError::Io { .. } | OaError::SysfsIo { .. })
    }
}

impl From<OaError> for SensorError {
    fn from(error: OaError) -> SensorError {
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(e) = cause {
            message += &format!(": {e}");
            cause = e.source();
        }
        SensorError::Foreign {
            what: "GPU counters",
            message,
            remedy: error.remedy(),
            fatal: error.is_fatal(),
        }
    }
}
