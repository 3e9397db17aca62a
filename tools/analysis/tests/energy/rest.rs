//! A device at rest whose power changes as it likes: what it took then is what was read.

use super::{Activity, SAMPLES, Series, assert_conserved, attribute, known, model, problem, span};
use clscope_analysis::energy::HostNs;

#[test]
fn energy_at_rest_is_what_was_read_then() {
    const TICK: i64 = 1_000_000;
    for (level, swing, period) in
        [(118.0, 0.0, 1.0), (122.7, 0.0, 1.0), (118.0, 4.0, 9.0), (121.0, 2.0, 40.0)]
    {
        // A launch of 30 ms five times a second for eight of ten seconds, at no multiple of the sensor's
        // period.
        let is_busy =
            |at: i64| at % (193 * TICK) < 30 * TICK && (965..8_685).contains(&(at / TICK));
        let spans: Vec<_> =
            (5..45).map(|i| span(0, i * 193 * TICK, i * 193 * TICK + 30 * TICK)).collect();
        let idle = |at: i64| {
            let turns = at as f64 * 1e-9 / period;
            level + swing * (turns * std::f64::consts::TAU).sin()
        };
        let power = |at: i64| idle(at) + if is_busy(at) { 250.0 } else { 0.0 };
        // The sensor follows with a lag of 14 ms, and tells its value every 20.
        let (mut shown, mut readings, mut rested) = (idle(0), Vec::new(), 0.0);
        for at in (0..10_000).map(|i| i * TICK) {
            shown += (power(at) - shown) / 14.0;
            rested += if is_busy(at) { 0.0 } else { idle(at) * 1e-3 };
            if at % (20 * TICK) == 0 {
                readings.push((HostNs(at), shown));
            }
        }
        let (activity, series) = (Activity::new(&spans, 1), Series::Instant(readings));
        // What the run is told of idle power is wrong for most of it.
        let result =
            attribute(&problem(&activity, &series, &known(118.0), model(SAMPLES))).unwrap();
        assert_conserved(&result);
        let at_rest = result.floors[0].joules.unwrap().value;
        assert!((at_rest / rested - 1.0).abs() < 0.02, "{at_rest} J at rest, {rested} in truth");
        let left = result.unattributed.value / result.measured.value;
        assert!(left.abs() < 0.01, "{level} +- {swing} W: {left} is nobody's");
    }
}
