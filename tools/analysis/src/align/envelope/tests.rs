//! Tests of `envelope`.

use super::*;

/// A clock that steps at every bound: no stretch of it is steady.
fn wild(count: usize) -> Vec<Bound> {
    (0..count)
        .map(|i| {
            let low = (i as f64 * 0.618_033_988_7).fract() * 1e12;
            Bound { x: i as f64 * 1e3, low, high: low + 1.0 }
        })
        .collect()
}

#[test]
fn bounds_that_no_clock_explains_are_given_up() {
    let effort = Effort(Cell::new(3_000_000));
    assert!(fit(&wild(3000), &effort).is_none());
    let steady: Vec<Bound> =
        (0..3000).map(|i| Bound { x: f64::from(i) * 1e3, low: 0.0, high: 5.0 }).collect();
    let effort = Effort::of_a_trace();
    let fitted = fit(&steady, &effort).expect("a steady clock");
    assert_eq!((fitted.pieces.len(), fitted.left_out), (1, 0));
    let took = EFFORT - effort.0.get();
    assert!(took < 1_000_000, "it took {took}");
}

#[test]
fn the_point_farthest_in_a_direction_is_that_of_a_look_at_all() {
    let mut random = clscope_testing::Random::new(7);
    for n in [0usize, 1, 2, 3, 10, 500] {
        let points: Vec<(f64, f64)> =
            (0..n).map(|i| ((i / 2) as f64 * 1e3, random.uniform() * 1e3)).collect();
        for (sign, hull) in
            [1.0, -1.0].map(|s| (s, Hulls::chain(Vec::new(), points.iter().copied(), s)))
        {
            for step in -20..=20 {
                let slope = f64::from(step) * 0.05;
                let all = points.iter().map(|p| sign * (p.1 - slope * p.0));
                let want = all.reduce(f64::max).map(|w| sign * w);
                let got = Hulls::farthest(&hull, slope, sign);
                let close = |(a, b): (f64, f64)| (a - b).abs() < 1e-6;
                assert_eq!(got.is_some(), want.is_some());
                assert!(got.zip(want).is_none_or(close), "{n} {slope}: {got:?} {want:?}");
            }
        }
    }
}

#[test]
fn a_hull_without_a_point_and_one_of_more_points_are_those_of_all_points() {
    let mut random = clscope_testing::Random::new(11);
    for round in 0..60u32 {
        // Steep ones, and many in one line, where rounding decides.
        let height = [1e12, 1e3, 3.0][round as usize % 3];
        let drift = f64::from(round) * 1e-6;
        let mut bounds: Vec<Bound> = (0..random.below(300) + 3)
            .map(|i| {
                let x = (i * 65_537) as f64;
                let low = (drift * x + random.uniform() * height).round();
                let high = low + (random.uniform() * height).round();
                Bound { x, low, high }
            })
            .collect();
        let all = |bounds: &[Bound]| (Hulls::low(bounds), Hulls::high(bounds));
        let mut hulls = Hulls::build(&bounds);
        let half = Hulls::build(&bounds[..2]);
        let longer = half.extended(&bounds[2..]);
        assert_eq!((longer.low, longer.high), all(&bounds));
        for _ in 0..bounds.len() {
            let low = random.below(2) == 0;
            let hull = if low { &hulls.low } else { &hulls.high };
            let Some(at) = random.below(hull.len() as u64 + 1).checked_sub(1) else { continue };
            let x = hull[at as usize].0;
            let index = bounds.partition_point(|b| b.x < x);
            match low {
                true => bounds[index].low = f64::NEG_INFINITY,
                false => bounds[index].high = f64::INFINITY,
            }
            hulls = hulls.without(&bounds, low, x);
            assert_eq!((hulls.low.clone(), hulls.high.clone()), all(&bounds), "{round}");
        }
    }
}
