//! One transfer of a run, measured by itself: as many bytes in the same direction, over and over,
//! between a buffer and memory of the host that is not pinned. Owns what is copied: random bytes,
//! because those of the application are not kept. Refuses other ways of moving bytes than plain reads
//! and writes of buffers.

use super::course::next_random;
use super::job::{EFFORT, Job, JobError, NOT_ASKED};
use crate::energy::{self, Repeated};
use crate::progress::{At, Step, Who};
use crate::run::{self, RunError, Watch};
use crate::stage::StageError;
use clscope_opencl::{Device, Event, Session};
use clscope_profile::measured::{self, Measured, Transfer};
use clscope_trace::record::CommandKind;
use std::cell::RefCell;

/// Whether transfers of a kind can be made again.
pub fn is_measurable(kind: CommandKind) -> bool {
    matches!(kind, CommandKind::ReadBuffer | CommandKind::WriteBuffer)
}

/// Bytes that are no pattern: what they are decides a part of what moving them draws.
fn random(bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || next_random(&mut state).to_le_bytes();
    std::iter::repeat_with(&mut next).flatten().take(bytes).collect()
}

/// Measures a transfer on a device: its time, and its joules if they are asked for. `out`: what is
/// known of it already.
///
/// # Errors
/// [`JobError`]: nothing was measured.
pub fn measure(
    device: &Device,
    (job, transfer): (&Job, &Transfer),
    mut out: Measured,
    watch: Watch<'_>,
) -> Result<Measured, JobError> {
    let lacks = |lack: String| StageError::Lacks { device: device.facts.name.clone(), lack };
    let kind = transfer.kind().filter(|kind| is_measurable(*kind));
    let kind = kind.ok_or_else(|| lacks(format!("cannot repeat {}", transfer.command)))?;
    let most = device.facts.largest_buffer;
    if transfer.bytes > most || transfer.bytes == 0 {
        let bytes = transfer.bytes;
        return Err(lacks(format!("copies 1 to {most} bytes at once, not {bytes}")).into());
    }
    let session = Session::new(device).map_err(StageError::from)?;
    let bytes = usize::try_from(transfer.bytes).unwrap_or(usize::MAX);
    let buffer = session.buffer(bytes, false).map_err(StageError::from)?;
    let host = RefCell::new(random(bytes));
    let write = || session.write(&buffer, 0, &host.borrow());
    let once = || -> Result<Event, StageError> {
        Ok(match kind {
            CommandKind::ReadBuffer => session.read(&buffer, 0, &mut host.borrow_mut())?,
            _ => write()?,
        })
    };
    write().map_err(StageError::from)?;
    let enter = |step| (watch.progress)(&At { who: Who::Captured, step });
    enter(Step::Timing);
    let mut samples = Vec::with_capacity(EFFORT.launches);
    for _ in 0..EFFORT.launches {
        let event = once()?;
        session.finish().map_err(StageError::from)?;
        samples.push(event.nanoseconds().map_err(StageError::from)? as f64);
        if (watch.stop)() {
            return Err(RunError::Interrupted.into());
        }
    }
    out.time = run::time_of(&samples, false).map(measured::Time::from);
    out.notes.push("random bytes were copied, from and to memory that is not pinned".to_owned());
    let Some(budget_ns) = job.budget_ns else {
        out.energy_missing = Some(NOT_ASKED.to_owned());
        return Ok(out);
    };
    enter(Step::Metering);
    let typical = out.time.map_or(0.0, |time| time.median_ns.value);
    let of = Repeated { session: &session, run: &|| once().map(drop), restore: None };
    let sensors = (job.sysfs_root.as_deref(), job.counters);
    energy::turns(&of, (typical, budget_ns), sensors, watch.stop)?.give_to(&mut out);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_are_as_many_as_asked_for_and_no_pattern() {
        for bytes in [0, 1, 7, 8, 9, 100_000] {
            assert_eq!(random(bytes).len(), bytes);
        }
        let ones: u32 = random(100_000).iter().map(|byte| byte.count_ones()).sum();
        assert!((ones as f64 / 400_000.0 - 1.0).abs() < 0.01, "{ones} bits of 800,000 are set");
    }

    #[test]
    fn kinds_that_can_be_made_again_have_a_direction() {
        for kind in CommandKind::ALL.iter().copied().filter(|kind| is_measurable(*kind)) {
            assert!(kind.direction().is_some() && kind.uses_host_memory());
            let of = Transfer { command: kind.name().to_owned(), bytes: 8 };
            assert_eq!(of.kind(), Some(kind));
        }
    }
}
