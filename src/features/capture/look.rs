//! Owns the end of captures: launches whose copies are under way are looked after whenever the
//! application has waited, what is whole gets its name, and what came to nothing is told. Refuses to
//! wait for anything but reads of the recorder's own memory, and for those not long.
#![forbid(unsafe_code)]

use super::description::{Description, Launched};
use super::flight::{Asked, Far, Flight};
use super::log;
use super::memories::set;
use super::sample::Draw;
use super::{FLYING, State, state};
use crate::os::locks::lock::clock;
use crate::recording;
use crate::recording::files::captures::Whole;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A launch came to nothing, and copies of it may be under way: its place is kept until they have
/// ended.
pub fn abandon(mut flight: Box<Flight>) {
    flight.parts.clear();
    flight.files = None;
    state(|s| s.bytes = s.bytes.saturating_sub(std::mem::take(&mut flight.reserved)));
    keep(flight);
}

/// A flight is looked after from here on.
pub fn keep(flight: Box<Flight>) {
    FLYING.fetch_add(1, Ordering::Relaxed);
    // Where the state cannot be had its place is lost, and nothing else.
    if state(|s| s.flights.push(flight)).is_none() {
        FLYING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How far flights are brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Nothing is waited for.
    None,
    /// The application has waited: reads are waited for, so long.
    Some(Duration),
    /// The context, or all where there is none, is about to end: what is not whole by then never is.
    Last(Option<usize>, Duration),
}

/// Looks after the flights.
pub fn look(effort: Effort) {
    if FLYING.load(Ordering::Relaxed) == 0 {
        return;
    }
    let taken = state(|s| {
        let free = !std::mem::replace(&mut s.is_looking, true);
        free.then(|| std::mem::take(&mut s.flights))
    });
    // Another thread is looking.
    let Some(Some(flights)) = taken else { return };
    let until = match effort {
        Effort::None => None,
        Effort::Some(time) | Effort::Last(_, time) => Some(clock() + time),
    };
    let mut kept = Vec::new();
    // Asked once, and only where there is something to write.
    let mut answer = None;
    let mut is_free = || *answer.get_or_insert_with(super::is_free);
    for flight in flights {
        kept.extend(looked_after(flight, until, effort, &mut is_free));
    }
    state(|s| {
        s.is_looking = false;
        // Those that have begun meanwhile come behind.
        kept.append(&mut s.flights);
        s.flights = std::mem::take(&mut kept);
    });
}

/// Why a launch whose copies are gone is not captured.
const LACKED: &str = "the application was refused memory, and got back what the copies had";

/// A flight that is not over.
fn looked_after(
    mut flight: Box<Flight>,
    until: Option<Instant>,
    effort: Effort,
    is_free: &mut dyn FnMut() -> Option<bool>,
) -> Option<Box<Flight>> {
    let begun = recording::now();
    let command = flight.def.command.unwrap_or(0);
    let (at, region) = (flight.pool, flight.region);
    let (known, holds) = state(|s| {
        let mut pools = s.pools.iter();
        let holds = region.is_empty() || pools.any(|pool| pool.is(at) && pool.holds(&region));
        (s.traffic.watched(command).copied(), holds)
    })
    .unwrap_or((None, true));
    if let Some(why) = known.and_then(|known| known.unchecked) {
        flight.uncheck(why);
    }
    let far = match (flight.copied(), holds) {
        // Nothing to write yet, or no time to.
        (Ok(is_there), true) if !is_there || until.is_none() => Far::Pending,
        (copied, _) => match (copied, is_free()) {
            (Ok(_), Some(true)) if holds => flight.go_on(until),
            // There may be an answer later.
            (Ok(_), None) if holds && !matches!(effort, Effort::Last(..)) => Far::Pending,
            (copied, free) => {
                if free != Some(true) {
                    flight.leave();
                }
                Far::Refused(match (copied, free) {
                    (Err(why), _) => why,
                    (Ok(_), _) if !holds => LACKED.to_owned(),
                    (Ok(_), None) => super::why_not_now().to_owned(),
                    (Ok(_), Some(_)) => super::SANDBOXED.to_owned(),
                })
            }
        },
    };
    flight.took = flight.took.saturating_add(recording::now().wrapping_sub(begun));
    if flight.copies.is_empty() {
        state(|s| s.traffic.watched(command).map(|known| known.is_copying = false));
    }
    let is_last = match effort {
        Effort::Last(None, _) => true,
        Effort::Last(Some(context), _) => flight.pool.1 == context,
        _ => false,
    };
    let ended = known.is_none_or(|known| known.ended);
    match far {
        Far::Whole if ended || is_last => whole(flight, known.and_then(|known| known.stamps)),
        Far::Refused(why) => {
            refused(&mut flight, &why);
            if !flight.copies.is_empty() && !is_last {
                flight.parts.clear();
                flight.files = None;
                return Some(flight);
            }
            given_back(flight);
        }
        _ if is_last => {
            if is_free() != Some(true) {
                flight.leave();
            }
            refused(
                &mut flight,
                "the application ended, or gave its context back, before the copies of its memory had been read",
            );
            given_back(flight);
        }
        _ => return Some(flight),
    }
    None
}

/// Gives back what a flight has of the recorder's memory, and the runtime's events.
fn given_back(mut flight: Box<Flight>) {
    let at = flight.pool;
    // What the runtime may still be at keeps its place for ever.
    let free = matches!(flight.copied(), Ok(true));
    flight.let_go();
    state(|s| {
        if let Some(pool) = s.pools.iter_mut().find(|pool| pool.is(at)).filter(|_| free) {
            pool.give_back(&flight.region);
        }
        if let Some(samples) = &mut s.samples {
            samples.pends(flight.draw, flight.pending, false);
        }
        s.traffic.unwatch(flight.def.command.unwrap_or(0));
    });
    FLYING.fetch_sub(1, Ordering::Relaxed);
}

/// All is in files: the capture gets its description and its name.
fn whole(mut flight: Box<Flight>, stamps: Option<(u64, u64)>) {
    if matches!(flight.asked, Asked::Nobody) {
        given_back(flight);
        return;
    }
    let begun = recording::now();
    match named(&mut flight, stamps) {
        Ok(whole) => {
            let took = recording::now().wrapping_sub(begun);
            flight.took = flight.took.saturating_add(took);
            captured(&mut flight, &whole);
        }
        Err(why) => refused(&mut flight, &why),
    }
    given_back(flight);
}

fn launch_of(flight: &Flight) -> Launched<'_> {
    let def = &flight.def;
    Launched { kernel: &flight.kernel, number: def.launch, command: def.command }
}

/// Writes `launch.json`, and gives the folder the name of a whole one.
fn named(flight: &mut Flight, stamps: Option<(u64, u64)>) -> Result<Whole, String> {
    let mut files = flight.files.take().ok_or("there is no folder")?;
    let duration = stamps.map(|(start, end)| end.saturating_sub(start));
    set(&mut files.document, "duration_ns", duration);
    let missing = duration.is_none().then_some(
        "the runtime gives no times of the launch: its queue does not profile (--device-timing off, \
         or a launch that was left out of the sample)",
    );
    set(&mut files.document, "duration_missing", missing);
    files.whole(launch_of(flight), flight.unchecked)
}

/// Why the place of a capture of the beginning is empty.
const PASSED: &str = "its place was drawn anew, for a launch that could not be captured";

/// A capture is whole: who asked for it, and the trace, are told.
fn captured(flight: &mut Flight, whole: &Whole) {
    let asked = std::mem::replace(&mut flight.asked, Asked::Nobody);
    let (bytes, took) = (whole.bytes, flight.took);
    (flight.def.folder, flight.def.bytes) = (whole.folder.clone(), bytes);
    let reserved = std::mem::take(&mut flight.reserved);
    let copied_ns: u64 = flight.def.copies.iter().map(|copy| copy.end - copy.start).sum();
    let seconds = super::seconds(took) + copied_ns as f64 * 1e-9;
    let losers = state(|s| {
        s.bytes = s.bytes.saturating_sub(reserved).saturating_add(bytes);
        let Asked::Draw(draw) = &asked else { return Vec::new() };
        let Some(samples) = &mut s.samples else { return Vec::new() };
        samples.spent(draw, seconds, bytes);
        samples.captured(draw, whole)
    });
    if let Asked::Draw(draw) = &asked {
        for (place, loser) in losers.unwrap_or_default() {
            if place.slot != draw.slot {
                log::slot(&place, json!({ "missing": PASSED }));
            }
            loser.remove();
            state(|s| s.bytes = s.bytes.saturating_sub(loser.bytes));
        }
        log::slot(draw, json!({ "command": flight.def.command, "captured": whole.folder }));
    }
    flight.def.took = took.saturating_add(super::lifetimes::take_took());
    recording::define(&flight.def.clone().into());
}

/// Whether nothing is known of launches like one that was drawn.
pub fn is_unknown(draw: &Draw) -> bool {
    let is_unknown = |s: &mut State| s.samples.as_ref().is_some_and(|all| all.is_unknown(draw));
    state(is_unknown).unwrap_or(false)
}

/// What is left of a launch that was drawn and is not captured: what is known of it without what its
/// memory held, where its class has nothing yet. The name of its folder.
pub fn describe(draw: &Draw, files: Description, of: Launched<'_>, why: &str) -> Option<String> {
    is_unknown(draw).then_some(())?;
    let whole = files.alone(of, why).ok()?;
    state(|s| {
        s.bytes = s.bytes.saturating_add(whole.bytes);
        if let Some(samples) = &mut s.samples {
            samples.described(draw);
        }
    });
    Some(whole.folder)
}

/// A flight comes to nothing: who asked for it, and the trace, are told.
fn refused(flight: &mut Flight, why: &str) {
    let files = flight.files.take().zip(flight.draw);
    let described = files.and_then(|(files, draw)| describe(&draw, files, launch_of(flight), why));
    let asked = std::mem::replace(&mut flight.asked, Asked::Nobody);
    let reserved = std::mem::take(&mut flight.reserved);
    state(|s| s.bytes = s.bytes.saturating_sub(reserved));
    let mut def = flight.def.clone();
    (def.refused, def.folder) = (why.to_owned(), described.unwrap_or_default());
    def.took = flight.took;
    super::refuse(def, &flight.kernel, asked);
}
