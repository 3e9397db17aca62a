//! Owns `CLSCOPE_REPLAY`: launches and transfers are repeated before the application's own, in
//! batches long enough for a sensor, at moments that `schedule` chooses, with the memory that a
//! kernel may write saved before and restored after (`stage`), so that the application's command
//! finds everything as if nothing had run. Refuses launches of which it cannot know what they write
//! (`known`), with the reason in the trace; refuses to read sensors.
//!
//! Everything runs `beside` the application's commands, on a queue of our own, made for one
//! repetition and released after it.

mod schedule;
mod stage;

use super::beside::{self, Alone, Calls, Command, What};
use crate::abi::entry::H;
use crate::facts::arguments::{self, Kernel, SEED, word};
use crate::facts::{kernels, objects};
use crate::os::fork_safe::ForkSafe;
use crate::recording;
use crate::settings::config;
use clscope_trace::defs::Replay;
use clscope_trace::record::{CommandKind, size_class};
use schedule::{QUIET_MS, Refusal, Schedule, Turn};
use stage::{Stage, quiet};

static SCHEDULE: ForkSafe<Option<Schedule>> = ForkSafe::new();
/// Repeats a command whose turn it is, or notes why not.
///
/// # Safety
/// Arguments of a command by the specification, live during the call.
pub unsafe fn command(slot: usize, command: &Command<'_>) {
    let Some(wanted) = config::get().replay else { return };
    let mut out = Replay { queue: objects::id(command.queue), ..Replay::default() };
    let mut kernel = None;
    match &command.what {
        What::Launch { kernel: handle, dimensions, sizes } => {
            // SAFETY: the caller's promise.
            let Some(sizes) = (unsafe { beside::sizes(*dimensions, *sizes) }) else { return };
            if objects::id(*handle) == 0 || kernels::filtered_out(*handle) {
                return;
            }
            out.kernel = objects::id(*handle);
            out.command = CommandKind::NdRange as u8;
            // SAFETY: the caller's promise.
            let (of, same) = unsafe { arguments::kernel(slot, *handle) };
            (out.key, out.scalars) = of.key(slot, word(same, sizes.number()));
            (out.global, out.local) = (sizes.global, sizes.local);
            kernel = Some((*handle, of));
        }
        What::Transfer { kind, bytes, of } => {
            if of.iter().any(|handle| objects::id(*handle) == 0) || *bytes == 0 {
                return;
            }
            (out.command, out.bytes) = (*kind as u8, *bytes);
            out.key = word(word(SEED, *kind as u64), u64::from(size_class(*bytes)));
        }
    }
    let now = recording::now();
    let at = seconds(now);
    let is_kernel = kernel.is_some();
    let turn = SCHEDULE
        .with(|s| {
            s.get_or_insert_with(|| Schedule::new(wanted, at, now)).turn(out.key, is_kernel, at)
        })
        .unwrap_or(Turn::Pass);
    if turn == Turn::Pass {
        return;
    }
    let Some(alone) = Alone::take(now) else { return };
    out.before = objects::next_command();
    let mut refusal = Refusal::None;
    let mut settled = 0;
    if let Some(why) = beside::may_not_wait() {
        refusal = Refusal::Now;
        out.refused = why;
    } else if let Err(why) = repeat(slot, command, kernel, turn, (now, &mut settled), &mut out) {
        refusal = Refusal::Ever;
        out.refused = why;
        out.batches.clear();
    }
    // The application's own commands ran meanwhile: that adds nothing.
    let took = alone.took().saturating_sub(settled);
    let bursts = out.batches.iter().filter(|b| !b.restores_only).count() as u32;
    let news = SCHEDULE
        .with(|s| s.as_mut().is_none_or(|s| s.spent(out.key, seconds(took), bursts, refusal)))
        .unwrap_or(true);
    drop(alone);
    // What ran is told, so that its time and energy are not taken for the application's.
    let ran = !out.batches.is_empty() || !out.trials.is_empty();
    if ran || (!out.refused.is_empty() && news) {
        recording::define(&out.into());
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / recording::ticks_of(1_000_000_000) as f64
}

/// Gives what waiting for commands ahead took, in ticks, in `settled`.
fn repeat(
    slot: usize,
    command: &Command<'_>,
    kernel: Option<(H, Kernel)>,
    turn: Turn,
    (begun, settled): (u64, &mut u64),
    out: &mut Replay,
) -> Result<(), String> {
    let calls = Calls::of(slot).ok_or("the runtime lacks a function that is needed")?;
    let memory = match &kernel {
        Some((handle, of)) => beside::written(slot, *handle, of)?,
        None => Vec::new(),
    };
    let waited = recording::now();
    let all_done = beside::settle(slot, &calls, command);
    *settled = recording::now().wrapping_sub(waited);
    all_done?;
    let mut stage = Stage::new(slot, calls, command.queue, command.run)?;
    let saved = stage.save(&memory);
    out.saved = saved.inspect_err(|_| out.trials = std::mem::take(&mut stage.trials))?;
    let result = batches_of(&mut stage, turn, begun.wrapping_add(*settled), out);
    // Whatever happened, the application's command finds the buffers as they were.
    let back = stage.put_back();
    out.trials = std::mem::take(&mut stage.trials);
    result.and(back)
}

/// Tries the command, and repeats it where it is its turn.
fn batches_of(
    stage: &mut Stage<'_>,
    turn: Turn,
    begun: u64,
    out: &mut Replay,
) -> Result<(), String> {
    let Turn::Repeat { batches, milliseconds, quiet: rest, unsettled } = turn else {
        return Ok(());
    };
    let key = out.key;
    let tried = |alone: u64, restores| {
        SCHEDULE.with(|s| s.as_mut().map(|s| s.tried(key, alone as f64 * 1e-9, restores)));
    };
    let first = stage.first()?;
    let now = recording::now();
    let spent = seconds(now.wrapping_sub(begun));
    let afforded = SCHEDULE
        .with(|s| s.as_ref().is_none_or(|s| s.affords(4e-9 * first as f64, spent, seconds(now))))
        .unwrap_or(false);
    if !afforded {
        // It is so long that sensors follow the application's own.
        tried(first, false);
        return Ok(());
    }
    stage.compare()?;
    let (alone, restoring) = stage.alone()?;
    tried(if alone > 0 { alone } else { first }, stage.restores() || stage.settles());
    if batches == 0 {
        return Ok(());
    }
    if rest {
        out.quiet = quiet(QUIET_MS);
    }
    if unsettled {
        stage.unsettle();
    }
    let each = stage.per_restoration(alone, restoring);
    out.per_restoration = if stage.restores() { each as u32 } else { 0 };
    for _ in 0..batches {
        out.batches.push(stage.batch(milliseconds, 2, Some(each))?);
        if stage.restores() {
            out.batches.push(stage.batch(milliseconds, 2, None)?);
        }
    }
    out.stamped_ns = stage.stamped();
    Ok(())
}
