//! Laws of clock alignment: with a known truth, true times lie inside the stated bounds, whatever
//! the device clock's origin, drift and steps, and whatever a runtime writes into QUEUED; spans
//! keep their order and their causes.

use clscope_analysis::Trace;
use clscope_analysis::align::Queued;
use clscope_analysis::event::{Event, Placed};
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder};
use clscope_testing::Random;
use clscope_trace::defs::{ClockMarker, ClockMarkers, Platform};
use proptest::prelude::*;

/// What a runtime writes into QUEUED.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Behaviour {
    /// The truth: some moment inside the call.
    InCall,
    /// START itself.
    Start,
    /// A constant before START.
    BeforeStart(u64),
    /// A moment after the call has returned.
    AfterCall(u64),
    /// QUEUED and SUBMIT are read inside the call, 2.6 us each, which takes 9 to 12 us.
    TwoReadings,
}

/// A device clock: true host nanoseconds to device nanoseconds.
#[derive(Debug, Clone, Copy)]
struct DeviceModel {
    origin: u64,
    drift: f64,
    /// (true time, jump) of a step.
    step: Option<(u64, i64)>,
}

impl DeviceModel {
    fn at(&self, ns: u64) -> u64 {
        let jump = self.step.filter(|(at, _)| ns >= *at).map_or(0, |(_, jump)| jump);
        (self.origin + ns).wrapping_add_signed((ns as f64 * self.drift).round() as i64 + jump)
    }
}

#[derive(Debug, Clone, Copy)]
struct Workload {
    commands: u64,
    /// Typical time between enqueues, ns.
    gap: u64,
    /// Typical kernel, ns.
    kernel: u64,
    /// Wait for the device every so many commands.
    burst: u64,
    /// Of so many commands, one is noted as seen complete 40 us before it was (0: none).
    false_one_in: u64,
    /// CL_PLATFORM_NAME.
    platform: &'static str,
    /// Whether four markers of the recorder's own follow each wait, whose calls take 6.4 us.
    markers: bool,
}

const PLAIN: Workload = Workload {
    commands: 0,
    gap: 0,
    kernel: 0,
    burst: 1,
    false_one_in: 0,
    platform: "Test Platform",
    markers: false,
};

struct Sample {
    placed: Placed,
    begin: i64,
    observed: i64,
    true_start: i64,
    true_end: i64,
    raw: [u64; 4],
}

struct Run {
    samples: Vec<Sample>,
    queued: Queued,
    steps: usize,
    left_out: u64,
}

/// Simulates an in-order queue and aligns the trace it leaves.
fn run(seed: u64, device: DeviceModel, behaviour: Behaviour, work: Workload) -> Run {
    let mut random = Random::new(seed);
    let host = HostModel::default();
    let mut p = ProcessBuilder::standard(host, 7, 1);
    p.block_len(1 << 16);
    p.define(Platform { id: 1, name: work.platform.into(), ..Default::default() });
    let (mut now, mut free) = (10_000u64, 0u64);
    let mut truth = Vec::new();
    let mut batch: Vec<(u64, u64, [u64; 4])> = Vec::new();
    for id in 1..=work.commands {
        now += 1 + random.below(2 * work.gap);
        let begin = now;
        let readings = behaviour == Behaviour::TwoReadings;
        let end_of_call =
            begin + if readings { 9_000 + random.below(3_000) } else { 300 + random.below(1_200) };
        let queued = begin + if readings { 3_000 } else { random.below(end_of_call - begin) };
        let submit = if readings {
            queued + 2_600 + random.below(400)
        } else {
            end_of_call + random.below(500)
        };
        let start = (submit + 600 + random.below(2_000)).max(free + 100);
        let end = start + 20 + random.below(2 * work.kernel);
        free = end;
        now = end_of_call;
        let told = match behaviour {
            Behaviour::InCall | Behaviour::TwoReadings => device.at(queued),
            Behaviour::Start => device.at(start),
            Behaviour::BeforeStart(ns) => device.at(start) - ns,
            Behaviour::AfterCall(ns) => device.at((end_of_call + ns).min(start)),
        };
        let submit =
            if readings || behaviour == Behaviour::InCall { device.at(submit) } else { told };
        let stamps = [told, submit.max(told), device.at(start), device.at(end)];
        p.thread(0).enqueue(begin, end_of_call, &CommandSpec::kernel(id, 1, 1));
        truth.push((begin, start, end, stamps));
        batch.push((id, end, stamps));
        if id % work.burst == 0 || id == work.commands {
            now = now.max(free) + 1_000 + random.below(30_000);
            for (id, _, stamps) in batch.drain(..) {
                now += 200;
                let noted = if work.false_one_in > 0 && id % work.false_one_in == 0 {
                    stamps.map(|s| s + 40_000)
                } else {
                    stamps
                };
                p.thread(0).timing(now, id, noted);
            }
            let mut markers = Vec::new();
            for _ in 0..if work.markers { 4 } else { 0 } {
                let (before, read) = (now, now + 1_500 + random.below(200));
                let again = read + 2_600 + random.below(400);
                now = again + 2_000 + random.below(200);
                markers.push((before, now, device.at(read), device.at(again)));
            }
            if !markers.is_empty() {
                let marker = |&(before, after, queued, submit): &_| ClockMarker {
                    before: host.ticks(before),
                    after: host.ticks(after),
                    queued,
                    submit,
                };
                p.define(ClockMarkers { queue: 1, markers: markers.iter().map(marker).collect() });
            }
        }
    }
    p.exit(now + 1_000, 0);
    let bytes = [p.build()];
    let trace = Trace::open(vec![bytes[0].files("t/7-0")]);
    let alignment = trace.align();
    let raw = host.raw as i64;
    let mut samples = Vec::new();
    for event in trace.events(Some(&alignment)) {
        if let Event::Command(c) = event
            && let Some(times) = c.timed()
        {
            let (begin, start, end, stamps) = truth[c.id().0 as usize - 1];
            samples.push(Sample {
                placed: times.placed.expect("aligned"),
                begin: raw + begin as i64,
                observed: times.observed.0,
                true_start: raw + start as i64,
                true_end: raw + end as i64,
                raw: stamps,
            });
        }
    }
    let device = &alignment.devices[0];
    Run {
        samples,
        queued: device.queued,
        steps: device.pieces().saturating_sub(1),
        left_out: device.left_out,
    }
}

impl Run {
    /// Share of spans whose true START and END lie inside the bound.
    fn honest(&self) -> f64 {
        let inside = |s: &&Sample| {
            let error =
                |placed: clscope_analysis::time::HostNs, truth: i64| placed.0.abs_diff(truth);
            error(s.placed.stamps[2], s.true_start).max(error(s.placed.stamps[3], s.true_end))
                <= s.placed.bound_ns + 1
        };
        self.samples.iter().filter(inside).count() as f64 / self.samples.len() as f64
    }

    fn causal(&self) -> bool {
        // A span with a forward step inside is longer than what the host saw: its begin counts
        // then.
        let fits = |s: &Sample| s.raw[3] - s.raw[2] <= s.observed.abs_diff(s.begin);
        self.samples.iter().all(|s| {
            s.placed.stamps[2].0 >= s.begin && (s.placed.stamps[3].0 <= s.observed || !fits(s))
        })
    }

    /// Spans that overlap on the timeline and not in the raw stamps.
    fn invented_overlaps(&self) -> usize {
        let mut order: Vec<&Sample> = self.samples.iter().collect();
        order.sort_by_key(|s| s.raw[2]);
        order
            .windows(2)
            .filter(|w| w[0].raw[3] <= w[1].raw[2] && w[0].placed.stamps[3] > w[1].placed.stamps[2])
            .count()
    }

    fn median_bound(&self) -> u64 {
        let mut bounds: Vec<u64> = self.samples.iter().map(|s| s.placed.bound_ns).collect();
        bounds.sort_unstable();
        bounds[bounds.len() / 2]
    }
}

fn steady() -> impl Strategy<Value = DeviceModel> {
    // Origins: the host's own clock, CLOCK_REALTIME's epoch, a GPU that was just started.
    (
        prop_oneof![Just(5_000_000_000u64), Just(1_700_000_000_000_000_000u64), 50_000u64..1 << 50],
        -1e-4f64..1e-4,
    )
        .prop_map(|(origin, drift)| DeviceModel { origin, drift, step: None })
}

fn workload() -> impl Strategy<Value = Workload> {
    (20u64..600, 100u64..100_000, 100u64..50_000, 1u64..60).prop_map(
        |(commands, gap, kernel, burst)| Workload { commands, gap, kernel, burst, ..PLAIN },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_steady_clock_is_found_whatever_queued_means(
        seed in any::<u64>(), device in steady(), work in workload(),
        behaviour in prop_oneof![
            Just(Behaviour::InCall), Just(Behaviour::Start), (0u64..20_000).prop_map(Behaviour::BeforeStart), (3_000u64..40_000).prop_map(Behaviour::AfterCall),
        ],
    ) {
        let run = run(seed, device, behaviour, work);
        prop_assert_eq!(run.samples.len() as u64, work.commands);
        prop_assert!(run.causal());
        prop_assert_eq!(run.invented_overlaps(), 0);
        prop_assert_eq!(run.steps, 0);
        // An invented QUEUED may pass for a real one where the data cannot distinguish them; then
        // it is nearly one.
        prop_assert!(run.honest() >= if behaviour == Behaviour::InCall { 1.0 } else { 0.99 }, "{} inside, QUEUED {:?}", run.honest(), run.queued);
    }
}

proptest! {
    // Each case looks for false bounds in vain before it finds the step.
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_step_is_found_and_each_side_aligned(
        seed in any::<u64>(), device in steady(), jump in prop_oneof![60_000i64..3_000_000, -3_000_000i64..-60_000], at in 0.2f64..0.8,
    ) {
        let work = Workload { commands: 800, gap: 20_000, kernel: 5_000, burst: 4, ..PLAIN };
        let length = work.commands as f64 * 26_000.0;
        let device = DeviceModel { step: Some(((length * at) as u64, jump)), origin: device.origin.max(10_000_000), ..device };
        let run = run(seed, device, Behaviour::InCall, work);
        prop_assert!(run.causal());
        prop_assert!(run.steps >= 1);
        prop_assert!(run.honest() >= 0.99, "{} inside, {} steps", run.honest(), run.steps);
    }
}

#[test]
fn bursts_on_a_clock_like_pocls_give_a_narrow_bound() {
    let pocl = DeviceModel { origin: HostModel::default().raw, drift: 0.0, step: None };
    let work = Workload { commands: 20_000, gap: 1_000, kernel: 2_000, burst: 100, ..PLAIN };
    let run = run(3, pocl, Behaviour::InCall, work);
    assert_eq!(
        (run.queued, run.honest(), run.invented_overlaps(), run.causal()),
        (Queued::Used, 1.0, 0, true)
    );
    assert!(run.median_bound() <= 300, "{} ns", run.median_bound());
}

#[test]
fn a_drifting_clock_over_seconds_stays_bounded() {
    // As seen on a GPU: the epoch of the wall clock, a millisecond away, 6 us a second.
    let gpu = DeviceModel { origin: 1_700_000_000_001_000_000, drift: 6e-6, step: None };
    let work = Workload { commands: 20_000, gap: 400_000, kernel: 8_000, burst: 50, ..PLAIN };
    let run = run(5, gpu, Behaviour::InCall, work);
    assert_eq!(
        (run.queued, run.honest(), run.invented_overlaps(), run.causal()),
        (Queued::Used, 1.0, 0, true)
    );
    assert!(run.median_bound() <= 2_000, "{} ns", run.median_bound());
}

#[test]
fn a_few_false_times_are_no_steps_and_widen_nothing() {
    let gpu = DeviceModel { origin: 1_700_000_000_001_000_000, drift: 6e-6, step: None };
    let work = Workload { commands: 10_000, gap: 20_000, kernel: 8_000, burst: 1, ..PLAIN };
    let (clean, soiled) = (
        run(11, gpu, Behaviour::InCall, work),
        run(11, gpu, Behaviour::InCall, Workload { false_one_in: 997, ..work }),
    );
    assert_eq!((clean.steps, clean.left_out, clean.queued), (0, 0, Queued::Used));
    assert_eq!((soiled.steps, soiled.queued), (0, Queued::Used));
    assert!((1..=40).contains(&soiled.left_out), "{}", soiled.left_out);
    assert!(soiled.honest() >= 0.998, "{} inside: all but the false ones", soiled.honest());
    assert!(
        soiled.median_bound() <= clean.median_bound() + 50,
        "{} and {} ns",
        soiled.median_bound(),
        clean.median_bound()
    );
}

#[test]
fn a_step_needs_support_on_both_sides() {
    for (after, steps) in [(2u64, 0), (300, 1)] {
        let work =
            Workload { commands: 600 + after, gap: 20_000, kernel: 5_000, burst: 1, ..PLAIN };
        let steady = DeviceModel { origin: 1 << 40, drift: 0.0, step: None };
        // Where the last `after` commands begin.
        let at = run(4, steady, Behaviour::InCall, work).samples[600].begin
            - HostModel::default().raw as i64;
        let stepped = DeviceModel { step: Some((at as u64, 400_000)), ..steady };
        assert_eq!(
            run(4, stepped, Behaviour::InCall, work).steps,
            steps,
            "{after} commands after it"
        );
    }
}

#[test]
fn a_runtime_known_to_stamp_in_the_call_is_not_believed_against_the_data() {
    let gpu = DeviceModel { origin: 1_700_000_000_001_000_000, drift: 4e-6, step: None };
    // SUBMIT comes after the call here, which such a runtime does not do: QUEUED alone is used.
    let work = Workload {
        commands: 2_000,
        gap: 15_000,
        kernel: 500,
        burst: 30,
        platform: "NVIDIA CUDA",
        ..PLAIN
    };
    let known = run(9, gpu, Behaviour::InCall, work);
    assert_eq!(
        (known.queued, known.honest(), known.causal(), known.steps, known.left_out),
        (Queued::Used, 1.0, true, 0, 0)
    );
    let liar = run(9, gpu, Behaviour::Start, Workload { kernel: 40_000, ..work });
    assert!(
        liar.queued == Queued::Contradicted && liar.honest() >= 0.99,
        "{:?} {}",
        liar.queued,
        liar.honest()
    );
}

#[test]
fn markers_of_our_own_narrow_the_bound() {
    let gpu = DeviceModel { origin: 1_700_000_000_001_000_000, drift: 5e-6, step: None };
    let work = Workload {
        commands: 3_000,
        gap: 15_000,
        kernel: 8_000,
        burst: 20,
        platform: "NVIDIA CUDA",
        ..PLAIN
    };
    let (without, with) = (
        run(21, gpu, Behaviour::TwoReadings, work),
        run(21, gpu, Behaviour::TwoReadings, Workload { markers: true, ..work }),
    );
    for run in [&without, &with] {
        assert_eq!((run.queued, run.honest(), run.steps, run.left_out), (Queued::Used, 1.0, 0, 0));
    }
    // A launch tells 9 us less the 2.6 of a reading, a marker 6.1 less 2.6; half of that is the
    // bound.
    assert!((2_800..3_800).contains(&without.median_bound()), "{}", without.median_bound());
    assert!((1_500..2_000).contains(&with.median_bound()), "{}", with.median_bound());
}

#[test]
fn markers_that_contradict_the_commands_are_not_believed() {
    let (gpu, other) = (DeviceModel { origin: 1 << 40, drift: 0.0, step: None }, 90_000);
    let host = HostModel::default();
    let mut p = ProcessBuilder::standard(host, 7, 1);
    p.define(Platform { id: 1, name: "NVIDIA CUDA".into(), ..Default::default() });
    for id in 1..=500u64 {
        let begin = 100_000 * id;
        p.thread(0).enqueue(begin, begin + 9_000, &CommandSpec::kernel(id, 1, 1));
        p.thread(0).timing(
            begin + 60_000,
            id,
            [begin + 3_000, begin + 6_000, begin + 10_000, begin + 50_000].map(|ns| gpu.at(ns)),
        );
        let marker = |ns| ClockMarker {
            before: host.ticks(ns),
            after: host.ticks(ns + 6_400),
            queued: gpu.at(ns + other),
            submit: gpu.at(ns + other + 2_600),
        };
        p.define(ClockMarkers { queue: 1, markers: vec![marker(begin + 62_000)] });
    }
    p.exit(60_000_000, 0);
    let bytes = [p.build()];
    let trace = Trace::open(vec![bytes[0].files("t/7-0")]);
    let alignment = trace.align();
    assert_eq!(alignment.devices[0].queued, Queued::Contradicted);
}
