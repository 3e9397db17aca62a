//! An external meter beside the sensors of a run. Owns the place of its readings among the work of a
//! session; refuses to read it: [`clscope_capture::meter`] does.

use super::Series;
use crate::cl::Session;
use clscope_capture::meter::{Failure, Run, Running, Wanted};
use clscope_sensors::gpu_power::Formula;
use clscope_sensors::meter::{PLANE, SOURCE};
use clscope_sensors::source::{Domain, Plane, Quantity, Value};
use clscope_sensors::units::Microwatts;
use std::time::{Duration, Instant};

/// A meter that is read, with the clocks when that began.
pub(super) struct Metered {
    running: Running,
    wanted: Wanted,
    began: Moment,
}

/// How long a command may take until it reads.
const BEGINS: Duration = Duration::from_secs(5);

/// One moment by the clocks that are joined.
#[derive(Clone, Copy)]
struct Moment {
    instant: Instant,
    raw: i64,
    real: i64,
}

impl Moment {
    fn now() -> Moment {
        let of = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        Moment {
            instant: Instant::now(),
            raw: of(clscope_clock::monotonic_raw().0),
            real: of(clscope_clock::realtime().0),
        }
    }
}

/// What a meter gave: its table, and the readings or why there are none.
pub(super) struct OfMeter {
    pub(super) text: String,
    pub(super) read: Result<(Series, Vec<String>), Failure>,
}

impl Metered {
    /// Begins to read it.
    pub(super) fn start(wanted: &Wanted) -> Result<Metered, Failure> {
        let began = Moment::now();
        let running = Running::start(wanted)?;
        running.wait_until_it_reads(BEGINS);
        Ok(Metered { running, wanted: wanted.clone(), began })
    }

    /// Ends it, and places its readings by its clock or by the work of a session.
    pub(super) fn finish(self, session: &Session) -> OfMeter {
        let Metered { running, wanted, began } = self;
        let (what, printed) = match running.finish() {
            Ok(of) => of,
            Err(why) => return OfMeter { text: String::new(), read: Err(why) },
        };
        let ended = Moment::now();
        let since = |at: Instant| at.saturating_duration_since(began.instant).as_secs_f64();
        let run = Run {
            start: Some(began.raw),
            busy: session.worked().iter().map(|(from, to)| (since(*from), since(*to))).collect(),
            // The wall clock is steered, and goes between the moments as between these two.
            at_wall: &|real| {
                let pace = (ended.raw - began.raw) as f64 / (ended.real - began.real).max(1) as f64;
                Some(began.raw + ((real - began.real) as f64 * pace) as i64)
            },
            wall_ahead: began.real - began.raw,
        };
        let read = printed.placed(&what, &wanted.format, &run).and_then(|(table, placed)| {
            let step = table.step_ns().unwrap_or(0);
            let rows = placed.within(&what, (began.raw, ended.raw), step)?;
            let said = placed.said(&table);
            let reading = |row: &usize| {
                let at = u64::try_from(placed.times[*row]).unwrap_or(0);
                (at, Value::Power(Microwatts((table.points[*row].1 * 1e6).round() as u64)))
            };
            let readings: Vec<(u64, Value)> = rows.iter().map(reading).collect();
            let quantity = Quantity::Power { window_ns: u64::try_from(step).ok() };
            let domain = Domain {
                plane: Some(Plane::Other(PLANE.to_owned())),
                includes: Some(Formula::Meter.includes()),
                ..Domain::new(table.column.clone(), quantity)
            };
            let series = Series {
                source: SOURCE.to_owned(),
                domain,
                over_ns: vec![step.unsigned_abs(); readings.len()],
                // Of the step before it, which lies somewhere near.
                reach: (step.unsigned_abs() + placed.within_ns as u64, placed.within_ns as u64),
                readings,
                own_clock: false,
                dead: false,
            };
            Ok((series, said))
        });
        OfMeter { text: printed.text, read }
    }
}
