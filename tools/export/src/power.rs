//! Owns what sensors add to a timeline: a track of watts per domain, tracks of clocks, temperatures
//! and counters, and of each device span its joules and what its counters read on average while its
//! kernel ran. Refuses to draw power between readings that are missing.

use super::arguments::{Argument, Sink};
use super::repeated::{self, Batch};
use clscope_analysis::Trace;
use clscope_analysis::energy::{self, GAP_PERIODS};
use clscope_analysis::event::{Command, Event, Outcome};
use clscope_analysis::time::HostNs;
use clscope_profile::counters::result::Counters;
use clscope_profile::energy::activity::{Grouping, class_name};
use clscope_profile::energy::around::LaunchEnergy;
use clscope_profile::energy::readings::{Readings, Sensor};
use clscope_profile::energy::result::{Class, DeviceEnergy, Energy, PartOf};
use clscope_profile::error::ReadingsError;
use clscope_profile::interval::Interval;
use clscope_profile::profile::View;
use clscope_trace::ids::{normal_pci, normal_uuid};
use clscope_trace::sensors::Quantity;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;

/// Shortest stretch whose mean power is drawn of an energy counter, ns: ten updates of a RAPL
/// counter.
const STRETCH_NS: i64 = 10_000_000;

/// A track of figures.
pub struct Counter {
    /// Its name, with the unit.
    pub name: String,
    /// The unit: the name of the figure on the track.
    pub unit: Cow<'static, str>,
    /// From when on which value holds. Where it is not finite none is known, as behind the last.
    pub points: Vec<(HostNs, f64)>,
    /// Host of the sensor, as an index into the timeline's.
    pub host: usize,
    /// PCI address of its device, as sensors write it.
    pub pci: Option<String>,
    /// UUID of its device: hexadecimal digits only.
    pub uuid: Option<String>,
}

/// Counters of a class: name with unit, mean.
type Means = Vec<(String, Interval)>;

/// What is known of a class's energy.
#[derive(Clone)]
struct Figures {
    watts: Interval,
    /// Floating-point operations of a launch, in billions, where they are known.
    gflop: Option<f64>,
    /// Joules from one of its launches to the next, where each begins an iteration.
    iteration: Option<Interval>,
    /// Part of its spans that is its own where others run beside them: time that several share is
    /// shared among them, as their joules are.
    own: f64,
}

impl Figures {
    fn read(device: &DeviceEnergy, class: &Class) -> Option<Self> {
        let kernel = class.kind == "kernel";
        Some(Self {
            watts: class.watts?,
            gflop: class
                .gflop_per_joule
                .zip(class.joules_per_launch)
                .map(|(per, joules)| per.value * joules.value),
            iteration: device
                .iteration
                .as_ref()
                .filter(|i| kernel && i.kernel == class.name)
                .map(|i| i.joules),
            own: 1.0,
        })
    }
}

/// Joules of one kernel or direction of transfers in the whole run, or of several that are known
/// only together.
pub struct Joules {
    /// Of what: classes of the energy's.
    pub names: Vec<String>,
    /// On what.
    pub device: String,
    /// Joules.
    pub all: Interval,
}

/// Power of device spans: figures by (process, device, class, is it a kernel).
#[derive(Default)]
pub struct Power {
    figures: HashMap<(u32, u32), HashMap<(String, bool), Figures>>,
    /// Counters in the same way.
    means: HashMap<(u32, u32), HashMap<(String, bool), Means>>,
    /// What single commands counted, by process and id.
    commands: clscope_profile::counters::snapshots::Figured,
    /// Tracks.
    pub counters: Vec<Counter>,
    /// Joules of all launches, spans or not; no class is in two.
    pub joules: Vec<Joules>,
    /// Energy of single commands, by process and device, in order of time.
    launches: HashMap<(u32, u32), Vec<LaunchEnergy>>,
    /// What the recorder ran itself.
    pub repeated: Vec<Batch>,
    /// For the document's head: how the figures were obtained.
    pub told: Value,
}

/// Mean power from each of a counter's readings on, to the last one.
fn watts(part: &[(energy::HostNs, f64)]) -> Vec<(HostNs, f64)> {
    let mut out: Vec<(HostNs, f64)> = Vec::new();
    let Some(mut from) = part.first() else { return out };
    for point in part {
        let length = point.0.0.saturating_sub(from.0.0);
        // A counter read faster than it steps: wait for a change.
        if length >= STRETCH_NS && (point.1 != from.1 || length >= 50 * STRETCH_NS) {
            if point.1 >= from.1 {
                out.push((HostNs(from.0.0), (point.1 - from.1) / (length as f64 * 1e-9)));
            }
            from = point;
        }
    }
    out.extend(out.last().map(|last| (HostNs(from.0.0), last.1)));
    out
}

/// The points of all stretches, in order of time: behind each nothing is known.
fn joined(stretches: impl Iterator<Item = Vec<(HostNs, f64)>>) -> Vec<(HostNs, f64)> {
    let with_end = |mut of: Vec<(HostNs, f64)>| {
        of.extend(of.last().map(|last| (HostNs(last.0.0.saturating_add(1)), f64::NAN)));
        of
    };
    stretches.flat_map(with_end).collect()
}

fn counter(sensor: &Sensor) -> Option<Counter> {
    // A counter that stands still shows nothing: no line at 0 W.
    let still =
        |points: &[(energy::HostNs, f64)]| points.windows(2).all(|pair| pair[0].1 == pair[1].1);
    if sensor.dead.is_some()
        || sensor.repeats
        || sensor.series.quantity == Quantity::Energy && still(&sensor.points)
    {
        return None;
    }
    let series = &sensor.series;
    let plane = if series.plane.is_empty() || series.name.contains(&series.plane) {
        String::new()
    } else {
        format!(" {}", series.plane)
    };
    let at = |t: &energy::HostNs| HostNs(t.0);
    let of = |name: String, unit: &'static str, points| Counter {
        name,
        unit: unit.into(),
        points,
        host: sensor.host,
        pci: series.pci.as_deref().and_then(normal_pci),
        uuid: series.uuid.as_deref().and_then(normal_uuid),
    };
    if !sensor.windows.is_empty() {
        // A mean holds from the beginning of its window on.
        let unit = series.quantity.unit();
        let stretches =
            sensor.windows.chunk_by(|last, next| !sensor.begins_between(last.end, next.begin));
        let points = joined(stretches.map(|windows| {
            let end = windows.last().map(|last| (at(&last.end), last.mean));
            windows.iter().map(|window| (at(&window.begin), window.mean)).chain(end).collect()
        }));
        return Some(of(format!("{} {} ({unit})", series.source, series.name), unit, points));
    }
    let unit = match series.quantity {
        Quantity::Energy | Quantity::Power => "W",
        Quantity::Clock => "MHz",
        Quantity::Temperature => "C",
        Quantity::Percent => "%",
        Quantity::Bandwidth => "MiB/s",
        _ => return None,
    };
    let is_counter = series.quantity == Quantity::Energy;
    // A counter goes on where it is not read.
    let stretches =
        sensor.parts().flat_map(|part| if is_counter { vec![part] } else { without_holes(part) });
    let points = joined(stretches.map(|part| match is_counter {
        true => watts(part),
        false => part.iter().map(|p| (at(&p.0), p.1)).collect(),
    }));
    // A counter that never went on for long enough says nothing.
    let name = format!("{} {}{plane} ({unit})", series.source, series.name);
    (!points.is_empty()).then(|| of(name, unit, points))
}

/// Stretches of readings without a hole: a step that is some times as long as both its neighbours, since
/// the sampler changes its pace.
fn without_holes(part: &[(energy::HostNs, f64)]) -> Vec<&[(energy::HostNs, f64)]> {
    let step = |at: usize| Some(part.get(at + 1)?.0.seconds_since(part.get(at)?.0));
    let (mut out, mut from) = (Vec::new(), 0);
    for at in 0..part.len().saturating_sub(1) {
        let around = [at.checked_sub(1).and_then(step), step(at + 1)].into_iter().flatten();
        let longest = around.reduce(f64::max).map(|longest| GAP_PERIODS * longest);
        if step(at).zip(longest).is_some_and(|(own, longest)| own > longest) {
            out.push(&part[from..=at]);
            from = at + 1;
        }
    }
    out.push(&part[from..]);
    out
}

impl Power {
    /// From a trace's readings and energy.
    fn new(readings: &Readings, energy: &Energy) -> Self {
        let mut out = Self {
            counters: readings.sensors.iter().filter_map(counter).collect(),
            ..Self::default()
        };
        let mut told = Vec::new();
        // Beside times of the run those of a part of it do not belong.
        for device in energy.devices.iter().filter(|device| device.window.is_none()) {
            let figures: HashMap<(String, bool), Figures> = device
                .classes
                .iter()
                .filter_map(|c| {
                    Some(((c.name.clone(), c.kind == "kernel"), Figures::read(device, c)?))
                })
                .collect();
            for (process, id) in &device.members {
                if !device.launches.is_empty() {
                    out.launches.insert((process.0, *id), device.launches.clone());
                }
                out.figures.insert((process.0, *id), figures.clone());
            }
            out.joules.extend(device.parts().into_iter().filter_map(|part| {
                let names = match part.of {
                    PartOf::Class(class) => vec![class.name.clone()],
                    PartOf::Sum(names) => names.to_vec(),
                    PartOf::Floor(_) | PartOf::Rest => return None,
                };
                Some(Joules { names, device: device.device.clone(), all: part.joules })
            }));
            told.push(serde_json::json!({
                "device": device.device,
                "formula": device.formula,
                "equation": device.equation,
                "includes": device.includes,
                "measured_J": device.measured_joules,
                "unattributed_J": device.unattributed_joules,
                "pkg_pp0_dram_J": device.reference_joules,
                "gaps": device.gaps,
                "iteration": device.iteration,
                "replays": device.replays,
                "shared": device.shared,
                "notes": device.notes,
                "not_attributed": device.failed,
            }));
        }
        out.told = match &energy.absent {
            Some(why) => serde_json::json!({ "absent": why }),
            None => told.into(),
        };
        out
    }

    /// Of a view: its readings, joules and counters.
    ///
    /// # Errors
    /// If a file of readings that the user named cannot be read.
    pub fn of_view(view: &View<'_>) -> Result<Self, ReadingsError> {
        let counters = view.counters()?.cloned();
        let mut out = Self::new(view.readings()?, view.energy()?).with_counters(counters);
        out.share(view)?;
        out.repeated = repeated::batches(view.trace(), view.alignment(), view.energy()?);
        Ok(out)
    }

    /// Finds the part of each class's spans that is its own.
    fn share(&mut self, view: &View<'_>) -> Result<(), ReadingsError> {
        if self.figures.is_empty() {
            return Ok(());
        }
        let trace = view.trace();
        let by = view.grouping();
        let variant = by.variant();
        // Seconds and number of a class's spans, by process and device.
        type Lengths = HashMap<(String, bool), (f64, f64)>;
        let mut lengths: HashMap<(u32, u32), Lengths> = HashMap::new();
        // The same by what decides the class, so that names are looked up once: process, object,
        // queue, variant, kind.
        let mut known: HashMap<(u32, u32, u32, u32, u8), usize> = HashMap::new();
        type Class = ((u32, u32), (String, bool));
        let mut sums: Vec<(Option<Class>, f64, f64)> = Vec::new();
        for event in trace.commands(Some(view.alignment())) {
            let Event::Command(command) = event else { continue };
            let Outcome::Timed(times) = &command.outcome else { continue };
            let record = &command.enqueued.record;
            let (process, variant) = (command.process.0, variant.map_or(0, |of| of(record)));
            let what = (process, record.object, record.queue, variant, record.kind as u8);
            let at = *known.entry(what).or_insert_with(|| {
                let definitions = &trace.process(command.process).definitions;
                let device = definitions.clock_device(record.queue);
                let class = device.zip(class_name(trace, &command, by));
                sums.push((class.map(|(device, class)| ((process, device), class)), 0.0, 0.0));
                sums.len() - 1
            });
            let Some(sum) = sums.get_mut(at) else { continue };
            (sum.1, sum.2) = (sum.1 + times.duration() as f64 * 1e-9, sum.2 + 1.0);
        }
        for (class, length, count) in sums {
            let Some((device, class)) = class else { continue };
            let sum = lengths.entry(device).or_default().entry(class).or_default();
            *sum = (sum.0 + length, sum.1 + count);
        }
        for device in &view.energy()?.devices {
            let members: Vec<(u32, u32)> =
                device.members.iter().map(|(p, id)| (p.0, *id)).collect();
            for class in &device.classes {
                let key = (class.name.clone(), class.kind == "kernel");
                let of = members.iter().filter_map(|m| lengths.get(m)?.get(&key));
                let (length, count) = of.fold((0.0, 0.0), |sum, l| (sum.0 + l.0, sum.1 + l.1));
                // Spans that sampling chose are not as long as the others: they do not tell
                // overlap.
                if count < class.launches {
                    continue;
                }
                let own = class.busy_seconds / length;
                // What differs by rounding is no overlap.
                if own.is_finite() && own < 0.98 {
                    for member in &members {
                        let known = self.figures.get_mut(member).and_then(|f| f.get_mut(&key));
                        known.into_iter().for_each(|figures| figures.own = own);
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds what counters say of kernels.
    fn with_counters(mut self, counters: Option<Counters>) -> Self {
        let Some(counters) = counters else { return self };
        self.commands = counters.commands;
        for source in &counters.sources {
            self.counters.extend(source.tracks.iter().map(|track| Counter {
                name: track.name.clone(),
                unit: track.unit.clone().into(),
                points: joined(track.stretches.iter().map(|stretch| {
                    stretch.iter().map(|(at, mean)| (HostNs(at.0), *mean)).collect()
                })),
                host: track.host,
                pci: track.pci.clone(),
                uuid: track.uuid.clone(),
            }));
            let moved: Vec<(&str, String)> = source
                .moved()
                .map(|c| (c.name.as_str(), format!("{} ({})", c.name, c.unit)))
                .collect();
            let figures =
                |class: &clscope_profile::counters::result::Class| -> Vec<(String, Interval)> {
                    moved
                        .iter()
                        .filter_map(|(name, shown)| {
                            Some((shown.clone(), class.values.get(*name)?.mean?))
                        })
                        .collect()
                };
            for (process, id) in &source.members {
                let known = self.means.entry((process.0, *id)).or_default();
                for class in &source.classes {
                    known
                        .entry((class.name.clone(), class.kind == "kernel"))
                        .or_default()
                        .extend(figures(class));
                }
            }
        }
        self
    }

    /// Whose energy a span's is: its own, its own within bounds, or its part of what all launches
    /// of its kernel took.
    pub fn energy_of(launch: Option<&LaunchEnergy>) -> &'static str {
        match launch {
            Some(launch) if launch.is_bounded => "bounds of this launch",
            Some(_) => "this launch",
            None => "mean of all launches",
        }
    }

    /// Energy of a command, where sensors were read around it.
    pub fn of_launch(&self, command: &Command<'_>, device: u32) -> Option<LaunchEnergy> {
        let launches = self.launches.get(&(command.process.0, device))?;
        let start = command.timed()?.placed?.span().begin.0;
        let at = launches.binary_search_by_key(&start, |launch| launch.start.0).ok()?;
        launches.get(at).copied()
    }

    /// Mean watts of the spans of a class (its name, and whether it is a kernel) on a device of a
    /// process, where they are known: of their own part, so that those of spans that run at once
    /// add up.
    pub fn watts(
        &self,
        process: clscope_analysis::time::ProcessIndex,
        device: u32,
        class: &(String, bool),
    ) -> Option<Interval> {
        let figures = self.figures.get(&(process.0, device))?.get(class)?;
        Some(figures.watts.times(figures.own))
    }

    /// Adds a span's counters and energy to its arguments: means while its kernel runs; joules and
    /// watts with half-widths of their 95 % intervals (joules that are bounded with their ends),
    /// energy-delay product, operations per joule; joules of an iteration, where it begins one.
    pub fn describe(
        &self,
        trace: &Trace<'_>,
        command: &Command<'_>,
        by: Grouping<'_>,
        duration_ns: u64,
        to: &mut impl Sink,
    ) {
        if self.figures.is_empty() && self.means.is_empty() && self.commands.is_empty() {
            return;
        }
        let definitions = &trace.process(command.process).definitions;
        let Some(device) = definitions.clock_device(command.enqueued.record.queue) else { return };
        let key = (command.process.0, device);
        let Some(class) = class_name(trace, command, by) else { return };
        let means = self.means.get(&key).and_then(|m| m.get(&class));
        for (name, mean) in means.into_iter().flatten() {
            to.put(name, Argument::Figure(mean.value));
        }
        // Its own figures instead of its kernel's, where it was read around.
        for (name, value) in
            self.commands.get(&(command.process.0, command.id().0)).into_iter().flatten()
        {
            to.put(name, Argument::Figure(*value));
        }
        let figures = self.figures.get(&key).and_then(|f| f.get(&class));
        let Some(figures) = figures else { return };
        let seconds = duration_ns as f64 * 1e-9;
        let launch = self.of_launch(command, device).filter(|_| seconds > 0.0);
        let watts = launch.map_or(figures.watts, |launch| launch.joules.times(1.0 / seconds));
        let own = if launch.is_some() { seconds } else { seconds * figures.own };
        to.put("energy_of", Argument::Text(Self::energy_of(launch.as_ref())));
        to.put("energy_J", Argument::Figure(watts.value * own));
        // Bounds lie where they lie around the value.
        let ends = launch.is_some_and(|launch| launch.is_bounded);
        if ends {
            to.put("energy_low_J", Argument::Figure(watts.low * own));
            to.put("energy_high_J", Argument::Figure(watts.high * own));
        } else {
            to.put("energy_plus_minus_J", Argument::Figure(watts.longer() * own));
        }
        to.put("power_W", Argument::Figure(watts.value));
        if !ends {
            to.put("power_plus_minus_W", Argument::Figure(watts.longer()));
        }
        to.put("energy_delay_Js", Argument::Figure(watts.value * own * seconds));
        if let Some(gflop) = figures.gflop.filter(|_| watts.value > 0.0 && seconds > 0.0) {
            to.put("GFLOP_per_s_per_W", Argument::Figure(gflop / (watts.value * own)));
        }
        if let Some(joules) = figures.iteration {
            to.put("iteration_energy_J", Argument::Figure(joules.value));
            to.put("iteration_energy_plus_minus_J", Argument::Figure(joules.longer()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sampler that slows down leaves no hole, one that pauses does.
    #[test]
    fn a_hole_is_longer_than_what_is_beside_it() {
        let steps = [vec![1; 3000], vec![50; 100], vec![900], vec![50; 10], vec![1; 10]].concat();
        let mut at = 0;
        let begun = std::iter::once(0);
        let ends = steps.iter().map(|ms| {
            at += ms;
            at
        });
        let part: Vec<(energy::HostNs, f64)> =
            begun.chain(ends).map(|ms| (energy::HostNs(ms * 1_000_000), 1.0)).collect();
        let found: Vec<usize> = without_holes(&part).iter().map(|part| part.len()).collect();
        assert_eq!(found, [3101, 21]);
        for few in 0..3 {
            assert_eq!(without_holes(&part[..few]).len(), 1);
        }
    }
    use clscope_profile::energy::readings::Window;
    use clscope_trace::sensors::Series;

    #[test]
    fn counters_become_watts_and_gaps_in_time_keep_energy() {
        let ns = energy::HostNs;
        // 20 W, read every millisecond; then 5 W.
        let points = (0..100)
            .map(|ms| {
                (
                    ns(ms * 1_000_000),
                    if ms < 50 { ms as f64 * 0.02 } else { 1.0 + (ms - 50) as f64 * 0.005 },
                )
            })
            .collect();
        let series = Series {
            quantity: Quantity::Energy,
            source: "powercap".into(),
            name: "package-0".into(),
            plane: "PKG".into(),
            ..Default::default()
        };
        let sensor = Sensor {
            host: 0,
            series,
            points,
            starts: Vec::new(),
            windows: Vec::new(),
            period_ns: None,
            dead: None,
            repeats: false,
        };
        let dead = Sensor { dead: Some("stands still".into()), ..sensor.clone() };
        assert!(counter(&dead).is_none());
        let mut still = sensor.clone();
        still.points.iter_mut().for_each(|point| point.1 = 5.0);
        assert!(counter(&still).is_none());
        // One that rose for less than can be told has no track.
        let short = Sensor { points: vec![(ns(0), 1.0), (ns(1_000_000), 1.02)], ..sensor.clone() };
        assert!(counter(&short).is_none());
        // Means over windows of two recordings: that of the first one ends with it.
        let window =
            |begin: i64, mean| Window { begin: ns(begin), end: ns(begin + 10), within_ns: 0, mean };
        let windows = vec![window(0, 5.0), window(10, 6.0), window(1_000, 7.0)];
        let of_windows = Sensor { windows, starts: vec![ns(1_000)], ..sensor.clone() };
        let points = counter(&of_windows).unwrap().points;
        let known: Vec<(i64, f64)> =
            points.iter().filter(|p| p.1.is_finite()).map(|p| (p.0.0, p.1)).collect();
        assert_eq!(known, [(0, 5.0), (10, 6.0), (20, 6.0), (1_000, 7.0), (1_010, 7.0)]);
        let ends: Vec<i64> = points.iter().filter(|p| !p.1.is_finite()).map(|p| p.0.0).collect();
        assert_eq!(ends, [21, 1_011]);
        // Power at moments, as far as they are read.
        let series = Series { quantity: Quantity::Power, ..sensor.series.clone() };
        let moments = (0..100).filter(|i| !(40..60).contains(i));
        let points = moments.map(|i| (ns(i * 20), 30.0)).collect();
        let points = counter(&Sensor { series, points, ..sensor.clone() }).unwrap().points;
        let ends = points.iter().filter(|p| !p.1.is_finite()).map(|p| p.0.0);
        assert_eq!(ends.collect::<Vec<_>>(), [39 * 20 + 1, 99 * 20 + 1]);
        // Where it begins anew, for ten seconds nobody knows of: at each place, with as much counted.
        for place in [40, 50, 60] {
            let mut sensor = sensor.clone();
            for (ms, point) in (0i64..).zip(&mut sensor.points) {
                let later = if ms >= place { 10_000 } else { 0 };
                *point = (ns((ms + later) * 1_000_000), 7.0 + 0.02 * ms as f64);
            }
            sensor.starts = vec![sensor.points[place as usize].0];
            let track = counter(&sensor).unwrap();
            let (known, unknown) =
                track.points.iter().partition::<Vec<(HostNs, f64)>, _>(|p| p.1.is_finite());
            assert!(known.iter().all(|p| (p.1 - 20.0).abs() < 1e-6), "{:?}", track.points);
            let ends: Vec<i64> = unknown.iter().map(|p| p.0.0 / 1_000_000).collect();
            let [end, _] = ends[..] else { panic!("{ends:?}") };
            assert!(end < place && end > place - 20, "{ends:?}");
        }
        let track = counter(&sensor).unwrap();
        assert_eq!((track.name.as_str(), &*track.unit), ("powercap package-0 PKG (W)", "W"));
        assert!(
            (track.points[1].1 - 20.0).abs() < 1e-6 && (track.points[7].1 - 5.0).abs() < 1e-6,
            "{:?}",
            track.points
        );
    }
}
