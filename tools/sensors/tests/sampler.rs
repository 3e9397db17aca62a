//! The sampler over scripted sources and a scripted thread: time passes only when it sleeps or when
//! a source says that reading takes time.

use clscope_sensors::liveness::Verdict;
use clscope_sensors::sampler::{Sampler, SamplerEvent, SamplerHost, SeriesId, Settings, Sink};
use clscope_sensors::source::{
    Domain, DomainId, Pace, Quantity, Range, Reading, SensorSource, Value, stamped,
};
use clscope_sensors::{Clock, EnergyUnit, RawNs, SensorError};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// Time and CPU time, moved by the script alone.
#[derive(Clone, Default)]
struct World(Arc<[AtomicU64; 2]>);

impl World {
    fn now(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }
    fn spend(&self, wall: u64, cpu: u64) {
        self.0[0].fetch_add(wall, Ordering::Relaxed);
        self.0[1].fetch_add(cpu, Ordering::Relaxed);
    }
}

impl Clock for World {
    fn raw(&mut self) -> RawNs {
        RawNs(SECOND + self.now())
    }
}

impl SamplerHost for World {
    fn thread_cpu_ns(&mut self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }
    fn sleep_until(&mut self, until: RawNs) {
        let now = self.raw();
        self.spend(until.since(now), 0);
    }
}

/// A counter whose value is a function of time.
struct Counter {
    name: String,
    domains: Vec<Domain>,
    pace: Pace,
    world: World,
    cost_cpu: u64,
    cost_wall: u64,
    value: Box<dyn Fn(u64) -> Result<u64, SensorError> + Send>,
}

fn counter(
    name: &str,
    world: &World,
    value: impl Fn(u64) -> Result<u64, SensorError> + Send + 'static,
) -> Counter {
    let quantity =
        Quantity::Energy { unit: EnergyUnit::MICROJOULE, range: Range::Wraps(262_143_328_850) };
    Counter {
        name: name.to_owned(),
        domains: vec![Domain::new(name, quantity)],
        pace: Pace { fastest_ns: MS / 2, slowest_ns: 10 * SECOND, adaptive: true },
        world: world.clone(),
        cost_cpu: 2_000,
        cost_wall: 2_000,
        value: Box::new(value),
    }
}

impl SensorSource for Counter {
    fn about(&self) -> (&str, &[Domain], Pace) {
        (&self.name, &self.domains, self.pace)
    }
    fn read(
        &mut self,
        clock: &mut dyn Clock,
        out: &mut dyn FnMut(Reading),
    ) -> Result<(), SensorError> {
        let (stamp, counts) = stamped(clock, || {
            let value = (self.value)(self.world.now());
            self.world.spend(self.cost_wall, self.cost_cpu);
            value
        })?;
        out(Reading::now(DomainId(0), stamp, Value::Counter(counts)));
        Ok(())
    }
}

#[derive(Default)]
struct Kept {
    series: Vec<String>,
    readings: Vec<(SeriesId, u64, u64)>,
    events: Vec<String>,
    paced: Vec<(String, u64, Option<f64>)>,
}

impl Sink for Kept {
    fn series(&mut self, id: SeriesId, source: &str, domain: &Domain) {
        assert_eq!(id.0 as usize, self.series.len());
        self.series.push(format!("{source}:{}", domain.name));
    }
    fn reading(&mut self, id: SeriesId, reading: &Reading) {
        let Value::Energy(energy) = reading.value else {
            panic!("counters arrive as energy: {reading:?}")
        };
        self.readings.push((id, reading.stamp.mid().0, energy.0));
    }
    fn event(&mut self, event: SamplerEvent<'_>) {
        if let SamplerEvent::Paced { source, updates: (_, estimate), every_ns } = &event {
            self.paced.push(((*source).to_owned(), *every_ns, estimate.ok().map(|u| u.period_ns)));
        }
        let text = format!("{event:?}");
        self.events.push(text.split([' ', '(']).next().unwrap_or_default().to_owned());
    }
}

fn run(
    sources: Vec<Box<dyn SensorSource>>,
    world: &World,
    seconds: u64,
    settings: Settings,
) -> (Kept, Sampler) {
    let mut kept = Kept::default();
    let mut sampler = Sampler::new(sources, settings, &mut kept);
    let mut host = world.clone();
    let end = world.now() + seconds * SECOND;
    let watch = world.clone();
    sampler.run(&mut host, &mut kept, &move || watch.now() >= end);
    (kept, sampler)
}

/// Steps of `step` microjoules every `period`.
fn stepping(period: u64, step: u64) -> impl Fn(u64) -> Result<u64, SensorError> + Send {
    move |t| Ok((262_143_000_000 + t / period * step) % 262_143_328_850)
}

#[test]
fn periods_are_learnt_and_totals_kept_through_a_wrap() {
    let world = World::default();
    let fast = counter("fast", &world, stepping(10 * MS, 500_000));
    let slow = counter("slow", &world, stepping(100 * MS, 5_000_000));
    let (kept, sampler) =
        run(vec![Box::new(fast), Box::new(slow)], &world, 10, Settings::default());
    assert_eq!(kept.series, ["fast:fast", "slow:slow"]);
    for (name, want) in [("fast", 10 * MS), ("slow", 100 * MS)] {
        let (_, every, period) = kept.paced.iter().find(|(n, ..)| n == name).unwrap();
        let period = period.unwrap();
        assert!((period - want as f64).abs() < 0.02 * want as f64, "{name}: {period}");
        assert!(every.abs_diff(want / 2) < want / 50, "{name}: {every}");
    }
    // 50 W for 10 s, to one step, with the wrap undone.
    for (id, step) in [(0, 500_000), (1, 5_000_000)] {
        let last =
            kept.readings.iter().filter(|(s, ..)| s.0 == id).map(|r| r.2).next_back().unwrap();
        assert!(last.abs_diff(500_000_000) <= step, "{last}");
    }
    let summary = sampler.summary();
    for source in &summary.sources {
        let (_, verdict, steps) = source.series[0];
        assert_eq!((verdict, steps.unwrap().wraps, steps.unwrap().jumps), (Verdict::Works, 1, 0));
    }
    assert!(
        kept.events.iter().all(|e| matches!(e.as_str(), "Works" | "Paced")),
        "{:?}",
        kept.events
    );
    assert_eq!(summary.cpu_ns, summary.sources.iter().map(|s| s.cpu_ns).sum::<u64>());
}

#[test]
fn the_budget_bounds_cpu_time() {
    // A read of 1 ms CPU on a source that moves every millisecond: 1 % of a core is ten reads a
    // second.
    let world = World::default();
    let mut dear = counter("dear", &world, stepping(MS, 50_000));
    (dear.cost_cpu, dear.cost_wall) = (MS, MS);
    dear.pace.fastest_ns = 5 * MS;
    let (_, sampler) = run(vec![Box::new(dear)], &world, 100, Settings::default());
    let summary = sampler.summary();
    let share = summary.cpu_ns as f64 / summary.wall_ns as f64;
    assert!(share < 0.0125, "{share}");
    assert!(summary.sources[0].every_ns >= 90 * MS, "{:?}", summary.sources[0]);
}

#[test]
fn calls_that_block_are_made_seldom() {
    let world = World::default();
    let mut slow = counter("blocking", &world, stepping(100 * MS, 5_000_000));
    (slow.cost_cpu, slow.cost_wall) = (1000, 4 * MS);
    let (_, sampler) = run(vec![Box::new(slow)], &world, 20, Settings::default());
    assert!(sampler.summary().sources[0].every_ns >= 80 * MS);
}

#[test]
fn dead_stalled_and_jumping_counters_are_said() {
    let world = World::default();
    let zero = counter("zero", &world, |_| Ok(0));
    let stops = counter("stops", &world, |t| Ok(t.min(3 * SECOND) / 1000));
    let back = counter("back", &world, |t| {
        Ok(if t < 5 * SECOND { 1_000_000_000 + t / 1000 } else { t / 1000 })
    });
    let (kept, sampler) =
        run(vec![Box::new(zero), Box::new(stops), Box::new(back)], &world, 10, Settings::default());
    let count = |what: &str| kept.events.iter().filter(|e| *e == what).count();
    assert_eq!((count("Dead"), count("Stalled"), count("Jumped")), (1, 1, 1), "{:?}", kept.events);
    let summary = sampler.summary();
    assert!(matches!(summary.sources[0].series[0].1, Verdict::Dead { all_zero: true, .. }));
    // The total stays monotone over the jump and goes on behind it.
    let back: Vec<u64> = kept.readings.iter().filter(|(s, ..)| s.0 == 2).map(|r| r.2).collect();
    assert!(back.windows(2).all(|w| w[0] <= w[1]));
    assert!(back.last().unwrap().abs_diff(10_000_000) < 40_000, "{:?}", back.last());
}

fn gone() -> SensorError {
    SensorError::Vanished { what: "test", path: "x".into() }
}

#[test]
fn a_source_that_vanishes_is_dropped_and_the_others_go_on() {
    let world = World::default();
    let short = counter("short", &world, |t| if t < SECOND { Ok(t / 1000) } else { Err(gone()) });
    let long = counter("long", &world, stepping(10 * MS, 1000));
    let (kept, sampler) =
        run(vec![Box::new(short), Box::new(long)], &world, 3, Settings::default());
    assert_eq!(kept.events.iter().filter(|e| *e == "Lost").count(), 1);
    assert!(sampler.is_alive());
    let last = kept.readings.iter().filter(|(s, ..)| s.0 == 1).map(|r| r.1).next_back().unwrap();
    assert!(last >= 4 * SECOND, "the last reading lies behind the end");
    // When all are gone, sampling ends by itself.
    let world = World::default();
    let only = counter("only", &world, |_| Err(gone()));
    let (kept, sampler) = run(vec![Box::new(only)], &world, 1000, Settings::default());
    assert!(!sampler.is_alive() && kept.readings.is_empty());
    assert!(world.now() < SECOND);
}

#[test]
fn passing_trouble_is_said_once_and_outlived() {
    let io = || SensorError::Io {
        what: "test",
        path: "x".into(),
        source: std::io::ErrorKind::Other.into(),
    };
    let world = World::default();
    let flaky = counter("flaky", &world, move |t| {
        if (SECOND..2 * SECOND).contains(&t) { Err(io()) } else { Ok(t / 1000) }
    });
    let (kept, sampler) = run(vec![Box::new(flaky)], &world, 4, Settings::default());
    assert_eq!(kept.events.iter().filter(|e| *e == "Trouble").count(), 1, "{:?}", kept.events);
    assert!(sampler.is_alive() && sampler.summary().sources[0].failures > 1);
    assert!(kept.readings.last().unwrap().2.abs_diff(4_000_000) < 20_000);
    // For ever: given up.
    let world = World::default();
    let broken = counter("broken", &world, move |_| Err(io()));
    let (kept, sampler) = run(vec![Box::new(broken)], &world, 20, Settings::default());
    assert!(!sampler.is_alive());
    assert_eq!(kept.events, ["Trouble", "Lost"]);
}

#[test]
fn stopping_at_once_still_reads_once() {
    let world = World::default();
    let mut kept = Kept::default();
    let source = counter("x", &world, stepping(MS, 1));
    let mut sampler = Sampler::new(vec![Box::new(source)], Settings::default(), &mut kept);
    let asked = Rc::new(Cell::new(0));
    let asking = Rc::clone(&asked);
    sampler.run(&mut world.clone(), &mut kept, &move || {
        asking.set(asking.get() + 1);
        true
    });
    assert_eq!((asked.get(), kept.readings.len()), (1, 1));
}
