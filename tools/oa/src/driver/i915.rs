//! i915: what the GPU is, its clock, its OA configurations and streams. Owns the order of calls and
//! the meaning of their errors; refuses to touch registers itself and to change any setting of the
//! system.
//!
//! Source: i915_drm.h and i915_perf.c of Linux 6.12. Decoded as specified: not run on a device.
#![forbid(unsafe_code)]

use crate::config::{self, ConfigId, Registers, Uuid};
use crate::device::StreamDevice;
use crate::error::OaError;
use crate::format::Format;
use crate::time::{ClockPair, engine_shift, narrowest};
use crate::topology::Topology;
use crate::uapi;
use clscope_sensors::files::{Files, Roots};
use clscope_sensors::units::{Clock, RawNs, Stamp};
use std::io;

/// The switch that decides over privilege.
pub const PARANOID: &str = "dev.i915.perf_stream_paranoid";
const OPEN: &str = "opening an OA stream of i915";
const ADD: &str = "adding an OA configuration to i915";
const CLOCK: &str = "reading the GPU's clock through i915 (REG_READ)";

/// A parameter of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// PCI device id.
    ChipsetId = 4,
    /// Frequency of the engines' timestamp, Hz.
    CsTimestampHz = 51,
    /// Revision of the perf interface.
    PerfRevision = 54,
    /// Frequency of the OA timestamp, Hz.
    OaTimestampHz = 57,
}

/// What a stream is to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// The configuration.
    pub config: ConfigId,
    /// The reports' format.
    pub format: Format,
    /// Exponent of the period (see [`crate::time::exponent_for`]).
    pub exponent: u32,
    /// How often the kernel looks for reports, nanoseconds (from 100 us); its default is 5 ms.
    pub poll_ns: Option<u64>,
}

/// A sysctl's value as text: `dev.i915.oa_max_sample_rate`.
pub(crate) fn sysctl(files: &dyn Files, roots: &Roots, name: &str) -> Option<String> {
    let path = roots.proc.join("sys").join(name.replace('.', "/"));
    files.text(&path).ok().map(|t| t.trim().to_owned())
}

/// A GPU of i915.
pub struct I915<'a> {
    device: &'a dyn StreamDevice,
    files: &'a dyn Files,
    roots: &'a Roots,
}

impl<'a> I915<'a> {
    /// Over an open node; `roots` is where sysctls are read for messages.
    pub fn new(device: &'a dyn StreamDevice, files: &'a dyn Files, roots: &'a Roots) -> I915<'a> {
        I915 { device, files, roots }
    }

    fn error(&self, what: &'static str, error: io::Error, hint: &'static str) -> OaError {
        OaError::explain(what, error, (PARANOID, sysctl(self.files, self.roots, PARANOID)), hint)
    }

    /// A parameter; `None` where the kernel does not know it.
    ///
    /// # Errors
    /// Any errno but EINVAL.
    pub fn param(&self, param: Param) -> Result<Option<u32>, OaError> {
        let mut call = uapi::get_param(param as u32);
        match self.device.call(&mut call) {
            Ok(_) => Ok(Some(call.u32_at(&[8], 0))),
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            Err(e) => Err(self.error("asking i915 for a parameter", e, "")),
        }
    }

    /// Revision of the perf interface; kernels that do not say have the first.
    ///
    /// # Errors
    /// As [`I915::param`].
    pub fn perf_revision(&self) -> Result<u32, OaError> {
        Ok(self.param(Param::PerfRevision)?.unwrap_or(1))
    }

    /// Frequencies of the OA timestamp and of the engines' timestamp, Hz. Kernels before 6.1 or so
    /// know only the second, which is then used for both.
    ///
    /// # Errors
    /// Where the kernel knows neither.
    pub fn clocks(&self) -> Result<(u64, u64), OaError> {
        let engine = self.param(Param::CsTimestampHz)?.filter(|hz| *hz > 0);
        let oa = self.param(Param::OaTimestampHz)?.filter(|hz| *hz > 0).or(engine);
        match (oa, engine) {
            (Some(oa), Some(engine)) => Ok((oa.into(), engine.into())),
            _ => Err(OaError::Unsupported {
                what: CLOCK,
                reason: "the kernel does not say how fast it runs (parameters 51 and 57)"
                    .to_owned(),
            }),
        }
    }

    /// The topology.
    ///
    /// # Errors
    /// Kernels before 4.17 have no such query.
    pub fn topology(&self) -> Result<Topology, OaError> {
        const WHAT: &str = "asking i915 for the topology";
        let length = |call: &uapi::Call| call.u32_at(&[8], 8) as i32;
        let mut ask = uapi::i915_query(1, 0);
        self.device
            .call(&mut ask)
            .map_err(|e| self.error(WHAT, e, "this kernel has no such query"))?;
        // A negative length is an errno; a topology of more than a megabyte is none.
        let bytes = match length(&ask) {
            n @ 1..=0x10_0000 => n as u32,
            n if n < 0 => {
                return Err(self.error(
                    WHAT,
                    io::Error::from_raw_os_error(-n.max(-4095)),
                    "this GPU has none",
                ));
            }
            n => return Err(OaError::Answer { what: WHAT, bytes: n as usize }),
        };
        let mut call = uapi::i915_query(1, bytes);
        self.device
            .call(&mut call)
            .map_err(|e| self.error(WHAT, e, "this kernel has no such query"))?;
        if length(&call) < 0 {
            return Err(self.error(
                WHAT,
                io::Error::from_raw_os_error(-length(&call).max(-4095)),
                "this GPU has none",
            ));
        }
        let answer = call.bytes(&[8, 16]).unwrap_or_default();
        Topology::from_i915(answer).ok_or(OaError::Answer { what: WHAT, bytes: answer.len() })
    }

    /// The host's and the GPU's clock at one moment, the GPU's in OA ticks: three tries, the
    /// narrowest. Needs no privilege.
    ///
    /// # Errors
    /// Where the register cannot be read, or its ticks give no OA ticks.
    pub fn clock_pair(&self, clock: &mut dyn Clock) -> Result<ClockPair, OaError> {
        let (oa_hz, engine_hz) = self.clocks()?;
        let shift = engine_shift(oa_hz, engine_hz)?;
        self.clock_pair_shifted(clock, shift)
    }

    pub(crate) fn clock_pair_shifted(
        &self,
        clock: &mut dyn Clock,
        shift: u32,
    ) -> Result<ClockPair, OaError> {
        // The render engine's timestamp; flag 1 has the kernel read two halves (RCS_TIMESTAMP, 36
        // bits).
        const TIMESTAMP: u64 = 0x2358 | 1;
        let mut tries = Vec::with_capacity(3);
        for _ in 0..3 {
            let mut call = uapi::reg_read(TIMESTAMP);
            let before = clock.raw();
            self.device.call(&mut call).map_err(|e| {
                self.error(CLOCK, e, "this kernel does not let that register be read")
            })?;
            let after = RawNs(clock.raw().0.max(before.0));
            let ticks = call.u64_at(&[], 8) & ((1 << 36) - 1);
            tries.push(ClockPair {
                host: Stamp { before, after },
                ticks: ticks << shift,
                bits: 36 + shift,
            });
        }
        narrowest(&tries).ok_or(OaError::Answer { what: CLOCK, bytes: 0 })
    }

    /// Loads a configuration.
    ///
    /// # Errors
    /// [`OaError::AlreadyLoaded`], or what the kernel has against it.
    pub fn add_config(&self, uuid: &Uuid, lists: &Registers) -> Result<ConfigId, OaError> {
        let mut call = uapi::perf_add_config(uuid, &lists.mux, &lists.boolean, &lists.flex);
        let hint = "a register is not on the kernel's list of allowed ones for this GPU";
        config::added(self.device.call(&mut call), ADD, uuid, |e| self.error(ADD, e, hint))
    }

    /// Unloads one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_config(&self, id: ConfigId) -> Result<(), OaError> {
        let called = self.device.call(&mut uapi::perf_remove_config(id.0));
        called.map(|_| ()).map_err(|e| {
            self.error(
                "removing an OA configuration from i915",
                e,
                "there is no such configuration",
            )
        })
    }

    /// The number of a configuration: looked up, else loaded from `lists`. Says whether it was
    /// loaded here.
    ///
    /// # Errors
    /// [`OaError::ConfigNotLoaded`] where it is not loaded and there are no lists; else as
    /// [`I915::add_config`].
    pub fn ensure_config(
        &self,
        card: &str,
        uuid: &Uuid,
        lists: Option<&Registers>,
    ) -> Result<(ConfigId, bool), OaError> {
        config::ensure((self.files, self.roots, card), uuid, lists, |lists| {
            self.add_config(uuid, lists)
        })
    }

    /// Opens a stream: not blocking, enabled. An open stream keeps the GPU awake (its idle power is
    /// higher).
    ///
    /// # Errors
    /// Those of the kernel, in words.
    pub fn open(&self, options: &StreamOptions) -> Result<Box<dyn StreamDevice>, OaError> {
        let format = options.format.i915_value().ok_or_else(|| OaError::Unsupported {
            what: OPEN,
            reason: format!(
                "{} is a format of xe",
                options.format.layout(crate::Published::Tables).name
            ),
        })?;
        let mut properties =
            vec![(2, 1), (3, options.config.0), (4, format), (5, options.exponent.into())];
        if let Some(ns) = options.poll_ns
            && self.perf_revision()? >= 5
        {
            properties.push((8, ns.max(100_000)));
        }
        const CLOEXEC_NONBLOCK: u32 = 3;
        self.device.open_stream(&mut uapi::perf_open(CLOEXEC_NONBLOCK, &properties)).map_err(|e| {
            let rate = self.clocks().ok().and_then(|(hz, _)| hz.checked_shr(options.exponent.saturating_add(1)));
            let limit = sysctl(self.files, self.roots, "dev.i915.oa_max_sample_rate").and_then(|t| t.parse().ok());
            match (e.raw_os_error(), rate, limit) {
                (Some(libc::EACCES), Some(wanted_hz), Some(limit_hz)) if wanted_hz > limit_hz => {
                    OaError::TooFast { what: OPEN, wanted_hz, limit_hz }
                }
                _ => self.error(OPEN, e, "the configuration is gone, the format is not for this GPU, or the period is out of range"),
            }
        })
    }
}
