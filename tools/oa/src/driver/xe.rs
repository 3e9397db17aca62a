//! xe: OA units, clocks, topology, configurations and observation streams. Owns the order of calls
//! and the meaning of their errors; refuses to map the OA buffer and to change any setting of the
//! system.
//!
//! Source: xe_drm.h and xe_oa.c of Linux 6.12. Decoded as specified: not run on a device.
#![forbid(unsafe_code)]

use crate::config::{self, ConfigId, Registers, Uuid};
use crate::device::StreamDevice;
use crate::error::OaError;
use crate::format::Format;
use crate::i915::sysctl;
use crate::time::{ClockPair, narrowest};
use crate::topology::Topology;
use crate::uapi;
use clscope_sensors::files::{Files, Roots};
use clscope_sensors::units::{RawNs, Stamp};
use std::io;

/// The switch that decides over privilege.
pub const PARANOID: &str = "dev.xe.observation_paranoid";
const OPEN: &str = "opening an OA stream of xe";
const ADD: &str = "adding an OA configuration to xe";
const CLOCK: &str = "reading the GPU's clock through xe (engine cycles)";

/// An engine of the driver: class (0 render), instance, GT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Engine {
    /// Class.
    pub class: u16,
    /// Instance.
    pub instance: u16,
    /// GT.
    pub gt: u16,
}

/// An OA unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its number.
    pub id: u32,
    /// 0 OAG, 1 OAM.
    pub kind: u32,
    /// Frequency of its timestamp, Hz.
    pub hz: u64,
    /// The engines it watches.
    pub engines: Vec<Engine>,
}

/// What a stream is to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// The unit.
    pub unit: u32,
    /// The configuration.
    pub config: ConfigId,
    /// The reports' format.
    pub format: Format,
    /// Exponent of the period.
    pub exponent: u32,
}

/// What a stream has lost since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Reports were lost.
    pub reports_lost: bool,
    /// The buffer overflowed.
    pub buffer_overflow: bool,
}

/// A GPU of xe.
pub struct Xe<'a> {
    device: &'a dyn StreamDevice,
    files: &'a dyn Files,
    roots: &'a Roots,
}

fn u16s(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32s(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64s(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The units of an answer: 16 bytes of head, then 72 bytes and the engines (8 bytes each) of every
/// unit.
fn parse_units(bytes: &[u8]) -> Option<Vec<Unit>> {
    let mut at = 16;
    let mut units = Vec::new();
    for _ in 0..u32s(bytes, 8)? {
        let engines = u64s(bytes, at + 64)?;
        let mut unit = Unit {
            id: u32s(bytes, at + 8)?,
            kind: u32s(bytes, at + 12)?,
            hz: u64s(bytes, at + 24)?,
            engines: Vec::new(),
        };
        at += 72;
        for _ in 0..engines {
            unit.engines.push(Engine {
                class: u16s(bytes, at)?,
                instance: u16s(bytes, at + 2)?,
                gt: u16s(bytes, at + 4)?,
            });
            at += 8;
        }
        units.push(unit);
    }
    Some(units)
}

impl<'a> Xe<'a> {
    /// Over an open node; `roots` is where sysctls are read for messages.
    pub fn new(device: &'a dyn StreamDevice, files: &'a dyn Files, roots: &'a Roots) -> Xe<'a> {
        Xe { device, files, roots }
    }

    fn error(&self, what: &'static str, error: io::Error, hint: &'static str) -> OaError {
        OaError::explain(what, error, (PARANOID, sysctl(self.files, self.roots, PARANOID)), hint)
    }

    fn query(&self, what: &'static str, id: u32) -> Result<Vec<u8>, OaError> {
        let hint = "this kernel has no such query";
        let mut ask = uapi::xe_query(id, Vec::new());
        self.device.call(&mut ask).map_err(|e| self.error(what, e, hint))?;
        let bytes = ask.u32_at(&[], 12) as usize;
        // No answer of this driver comes near a megabyte.
        if bytes == 0 || bytes > 1 << 20 {
            return Err(OaError::Answer { what, bytes });
        }
        let mut call = uapi::xe_query(id, vec![0; bytes]);
        self.device.call(&mut call).map_err(|e| self.error(what, e, hint))?;
        Ok(call.bytes(&[16]).unwrap_or_default().to_vec())
    }

    /// The OA units.
    ///
    /// # Errors
    /// Kernels before 6.11 have none.
    pub fn units(&self) -> Result<Vec<Unit>, OaError> {
        const WHAT: &str = "asking xe for its OA units";
        let answer = self.query(WHAT, 8)?;
        parse_units(&answer).ok_or(OaError::Answer { what: WHAT, bytes: answer.len() })
    }

    /// Frequency of the engines' timestamp of a GT, Hz: its `reference_clock`.
    ///
    /// # Errors
    /// Where the answer has no such GT.
    pub fn reference_hz(&self, gt: u16) -> Result<u64, OaError> {
        const WHAT: &str = "asking xe for its GTs";
        let answer = self.query(WHAT, 3)?;
        // 8 bytes of head, then 96 bytes each: u16 type, u16 tile, u16 id, u16[3], u32 clock.
        let clock = answer
            .get(8..)
            .unwrap_or_default()
            .chunks_exact(96)
            .find(|c| u16s(c, 4) == Some(gt))
            .and_then(|c| u32s(c, 12));
        clock
            .filter(|hz| *hz > 0)
            .map(u64::from)
            .ok_or(OaError::Answer { what: WHAT, bytes: answer.len() })
    }

    /// The topology of a GT.
    ///
    /// # Errors
    /// Where the answer does not have it.
    pub fn topology(&self, gt: u16) -> Result<Topology, OaError> {
        const WHAT: &str = "asking xe for the topology";
        let answer = self.query(WHAT, 5)?;
        Topology::from_xe(&answer, gt).ok_or(OaError::Answer { what: WHAT, bytes: answer.len() })
    }

    /// The host's CLOCK_MONOTONIC_RAW and an engine's clock at one moment, the latter shifted to OA
    /// ticks (see [`crate::time::engine_shift`]): three tries, the narrowest. Needs no privilege.
    ///
    /// # Errors
    /// Where the query fails.
    pub fn clock_pair(&self, engine: Engine, shift: u32) -> Result<ClockPair, OaError> {
        let mut tries = Vec::with_capacity(3);
        for _ in 0..3 {
            let mut data = vec![0; 40];
            let head = [engine.class, engine.instance, engine.gt, 0]
                .into_iter()
                .flat_map(u16::to_le_bytes);
            let head: Vec<u8> =
                head.chain((libc::CLOCK_MONOTONIC_RAW as u32).to_le_bytes()).collect();
            data[..12].copy_from_slice(&head);
            let mut call = uapi::xe_query(6, data);
            self.device
                .call(&mut call)
                .map_err(|e| self.error(CLOCK, e, "this kernel has no such query"))?;
            let width = call.u32_at(&[16], 12).clamp(1, 64);
            let ticks = call.u64_at(&[16], 16) & (u64::MAX >> (64 - width));
            let (at, delta) = (call.u64_at(&[16], 24), call.u64_at(&[16], 32));
            let host = Stamp { before: RawNs(at), after: RawNs(at.saturating_add(delta)) };
            tries.push(ClockPair { host, ticks: ticks << shift, bits: (width + shift).min(64) });
        }
        narrowest(&tries).ok_or(OaError::Answer { what: CLOCK, bytes: 0 })
    }

    /// Loads a configuration; the lists are joined.
    ///
    /// # Errors
    /// [`OaError::AlreadyLoaded`], or what the kernel has against it.
    pub fn add_config(&self, uuid: &Uuid, lists: &Registers) -> Result<ConfigId, OaError> {
        let hint = "a register is not on the kernel's list of allowed ones for this GPU";
        config::added(
            self.device.call(&mut uapi::xe_add_config(uuid, &lists.joined())),
            ADD,
            uuid,
            |e| self.error(ADD, e, hint),
        )
    }

    /// Unloads one.
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_config(&self, id: ConfigId) -> Result<(), OaError> {
        let called = self.device.call(&mut uapi::xe_remove_config(id.0));
        called.map(|_| ()).map_err(|e| {
            self.error("removing an OA configuration from xe", e, "there is no such configuration")
        })
    }

    /// The number of a configuration: looked up, else loaded from `lists`. Says whether it was
    /// loaded here.
    ///
    /// # Errors
    /// [`OaError::ConfigNotLoaded`] where it is not loaded and there are no lists; else as
    /// [`Xe::add_config`].
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

    /// Opens a stream: not blocking, enabled.
    ///
    /// # Errors
    /// Those of the kernel, in words.
    pub fn open(&self, options: &StreamOptions) -> Result<Box<dyn StreamDevice>, OaError> {
        let format = options.format.xe_word().ok_or_else(|| OaError::Unsupported {
            what: OPEN,
            reason: format!(
                "{} is a format of i915",
                options.format.layout(crate::Published::Tables).name
            ),
        })?;
        let properties = [
            (1, options.unit.into()),
            (2, 1),
            (3, options.config.0),
            (4, format),
            (5, options.exponent.into()),
        ];
        let hint = "the configuration is gone, the format is not for this GPU, or the period is out of range";
        self.device
            .open_stream(&mut uapi::xe_open(&properties))
            .map_err(|e| self.error(OPEN, e, hint))
    }
}

/// What a stream has lost since it was last asked: to be called when `read` fails with EIO.
///
/// # Errors
/// The kernel's.
pub fn status(stream: &dyn StreamDevice) -> Result<Status, OaError> {
    let mut call = uapi::xe_status();
    stream.call(&mut call).map_err(|source| OaError::Io {
        what: "asking an OA stream of xe for its status",
        source,
    })?;
    let bits = call.u64_at(&[], 8);
    let bit = |n: u32| bits >> n & 1 != 0;
    Ok(Status { reports_lost: bit(0), buffer_overflow: bit(1) })
}
