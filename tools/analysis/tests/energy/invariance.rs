//! What changes nothing, or changes joules as it should, whatever was measured.

use super::*;
use proptest::prelude::*;

/// A small run: spans of up to three classes, samples that follow some function of time.
fn small_run() -> impl Strategy<Value = (Vec<Span>, Vec<(HostNs, f64)>)> {
    let spans = prop::collection::vec((0u32..3, 0i64..40_000_000, 1i64..60_000_000), 20..60)
        .prop_map(|parts| {
            let mut now = 0;
            parts
                .into_iter()
                .map(|(class, gap, length)| {
                    let start = now + gap - 10_000_000;
                    now = start.max(0) + length;
                    span(class, start.max(0), now)
                })
                .collect::<Vec<_>>()
        });
    let values = prop::collection::vec(50.0f64..400.0, 60..120);
    (spans, values).prop_map(|(spans, values)| {
        let samples = values
            .into_iter()
            .enumerate()
            .map(|(i, v)| (HostNs(i as i64 * 20_000_000), v))
            .collect();
        (spans, samples)
    })
}

fn small_solve(spans: &[Span], series: &Series) -> Option<Attribution> {
    let activity = Activity::new(spans, 3);
    let floors = known(40.0);
    let response = fixed(Response { window: 0.0, lag: 0.014, delay: 0.003 });
    attribute(&problem(&activity, series, &floors, response)).ok()
}

fn assert_close(a: &Attribution, b: &Attribution, factor: f64) {
    let scale = a.measured.value.abs().max(1.0) * factor;
    assert_eq!(a.groups.len(), b.groups.len());
    assert!((a.unattributed.value * factor - b.unattributed.value).abs() < 1e-6 * scale);
    for (x, y) in a.groups.iter().zip(&b.groups) {
        assert!((x.joules.value * factor - y.joules.value).abs() < 1e-6 * scale, "{x:?} {y:?}");
        assert!(
            (x.joules.high * factor - y.joules.high).abs() < 1e-5 * y.joules.high.max(scale),
            "{x:?} {y:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn energy_is_conserved((spans, samples) in small_run()) {
        if let Some(result) = small_solve(&spans, &Series::Instant(samples)) {
            assert_conserved(&result);
            for group in &result.groups {
                prop_assert!(group.joules.low <= group.joules.value && group.joules.value <= group.joules.high);
                prop_assert!(group.dynamic.low >= 0.0);
                prop_assert!(group.dynamic.value <= group.joules.high);
            }
        }
    }

    #[test]
    fn splitting_a_span_changes_nothing((spans, samples) in small_run(), at in 0.01f64..0.99) {
        // Where commands overlap, two halves are two commands only if both run at once, which
        // halves never do.
        let halves: Vec<Span> = spans.iter().flat_map(|s| {
            let middle = HostNs(s.start.0 + ((s.end.0 - s.start.0) as f64 * at) as i64);
            [Span { end: middle, ..*s }, Span { start: middle, ..*s }]
        }).collect();
        let series = Series::Instant(samples);
        if let (Some(whole), Some(split)) = (small_solve(&spans, &series), small_solve(&halves, &series)) {
            assert_close(&whole, &split, 1.0);
        }
    }

    #[test]
    fn a_shift_of_everything_changes_nothing((spans, samples) in small_run(), shift in 0i64..2_000_000_000_000_000_000) {
        let moved: Vec<Span> = spans.iter().map(|s| Span { start: HostNs(s.start.0 + shift), end: HostNs(s.end.0 + shift), ..*s }).collect();
        let later = samples.iter().map(|(at, v)| (HostNs(at.0 + shift), *v)).collect();
        if let (Some(here), Some(there)) = (small_solve(&spans, &Series::Instant(samples)), small_solve(&moved, &Series::Instant(later))) {
            assert_close(&here, &there, 1.0);
        }
    }

    #[test]
    fn twice_the_power_is_twice_the_energy((spans, samples) in small_run(), factor in 0.1f64..10.0) {
        let activity = Activity::new(&spans, 3);
        let response = fixed(Response { window: 0.0, lag: 0.014, delay: 0.003 });
        let solve = |factor: f64| {
            let series = Series::Instant(samples.iter().map(|(at, v)| (*at, v * factor)).collect());
            let floors = [Floor::Known { rate: 40.0 * factor, sd: 0.2 * factor }];
            attribute(&problem(&activity, &series, &floors, response)).ok()
        };
        if let (Some(one), Some(scaled)) = (solve(1.0), solve(factor)) {
            assert_close(&one, &scaled, factor);
        }
    }

    #[test]
    fn no_input_panics(
        spans in prop::collection::vec((0u32..4, any::<i64>(), any::<i64>(), -0.5f64..1.5), 0..20),
        readings in prop::collection::vec((any::<i64>(), prop::num::f64::ANY), 0..60),
        kind in 0u8..3,
    ) {
        let spans: Vec<Span> = spans.into_iter().map(|(class, a, b, p)| Span {
            timing: if p < 0.5 { Timing::Timed } else { Timing::Estimated { sd_ns: p - 1.0 } },
            ..span(class, a, b)
        }).collect();
        let points: Vec<(HostNs, f64)> = readings.iter().map(|(at, v)| (HostNs(*at), *v)).collect();
        let series = match kind {
            0 => Series::Instant(points),
            1 => Series::Cumulative(points),
            _ => Series::WindowMean(points.windows(2).map(|w| (w[0].0, w[1].0, w[0].1)).collect()),
        };
        let activity = Activity::new(&spans, 3);
        let floors = [Floor::Fitted];
        let _ = attribute(&problem(&activity, &series, &floors, ResponseModel::lagged_samples(0.02)));
    }
}
