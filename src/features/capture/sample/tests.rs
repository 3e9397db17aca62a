//! Tests of `sample`.

use super::*;

fn kernel_on(device: usize) -> OnDevice {
    ("k".into(), 0, device)
}

/// Numbers of the launches in the sample, by place, behind so many launches.
fn sample(seed: u64, launches: u64) -> [u64; SLOTS] {
    let mut all = Samples::new(seed, SLOTS);
    let mut held = [0; SLOTS];
    for n in 1..=launches {
        let seen = all.launched(kernel_on(1), 1, 0.0);
        assert_eq!(seen.launch, n);
        if let Some(draw) = seen.draw {
            assert_eq!(draw.at, n);
            held[draw.slot] = n;
        }
    }
    held
}

/// Every launch is as likely in the sample as every other: by an exact count over fixed seeds
/// against the binomial law, each launch and all together.
#[test]
fn each_launch_is_as_likely_to_be_drawn() {
    const SEEDS: u64 = 20_000;
    for launches in [5u64, 10, 37] {
        let mut times = vec![0u64; launches as usize + 1];
        for seed in 0..SEEDS {
            let held = sample(seed, launches);
            let mut distinct = held;
            distinct.sort_unstable();
            assert!(distinct.windows(2).all(|pair| pair[0] < pair[1]), "{held:?}");
            held.iter().for_each(|n| times[*n as usize] += 1);
        }
        let share = SLOTS as f64 / launches as f64;
        let (expected, variance) = (SEEDS as f64 * share, SEEDS as f64 * share * (1.0 - share));
        let mut sum = 0.0;
        for (n, times) in times.iter().enumerate().skip(1) {
            let off = *times as f64 - expected;
            assert!(off * off <= 16.0 * variance, "launch {n} of {launches}: {times}");
            sum += off * off / variance;
        }
        // Chi-square of `launches - 1` degrees, but for the factor of a fixed number of draws:
        // within four standard deviations of its mean.
        let degrees = (launches - 1) as f64;
        let scaled = sum * degrees / launches as f64;
        assert!((scaled - degrees).abs() <= 4.0 * (2.0 * degrees).sqrt(), "{scaled}");
    }
}

#[test]
fn captures_of_a_class_grow_with_the_logarithm_of_its_launches() {
    let draws = |launches: u64| {
        let mut all = Samples::new(7, SLOTS);
        let drawn = |_: &u64| all.launched(kernel_on(1), 1, 0.0).draw.is_some();
        (0..launches).filter(drawn).count() as f64
    };
    for (launches, expected) in [(100u64, 16.9), (10_000, 35.3), (300_000, 48.9)] {
        let found = draws(launches);
        assert!((found - expected).abs() < 3.0 * expected.sqrt(), "{launches}: {found}");
    }
}

#[test]
fn sizes_and_devices_have_classes_of_their_own_up_to_some() {
    let mut all = Samples::new(3, SLOTS);
    let mut class = |device, sizes| all.launched(kernel_on(device), sizes, 0.0).class;
    assert_eq!((class(1, 10), class(1, 11), class(1, 10), class(2, 10)), (0, 1, 0, 2));
    let more: Vec<u32> = (12..30).map(|sizes| class(1, sizes)).collect();
    // Eight of device 1, the last of which takes the rest.
    assert_eq!(more[..6], [3, 4, 5, 6, 7, 8]);
    assert!(more[6..].iter().all(|class| *class == 8), "{more:?}");
    assert_eq!(all.seen().iter().sum::<u64>(), 22);
}

#[test]
fn kernels_of_one_name_and_several_programs_have_classes_of_their_own() {
    let mut all = Samples::new(3, SLOTS);
    let mut seen = |program| all.launched(("k".into(), program, 1), 1, 0.0);
    let both: Vec<Seen> = [7, 8, 7, 8].into_iter().map(&mut seen).collect();
    // Numbered by the name, drawn by the program.
    let numbers = |f: fn(&Seen) -> u64| both.iter().map(f).collect::<Vec<_>>();
    assert_eq!(numbers(|of| of.launch), [1, 2, 3, 4]);
    assert_eq!(numbers(|of| of.class.into()), [0, 1, 0, 1]);
    assert_eq!(numbers(|of| of.draw.map_or(0, |draw| draw.at)), [1, 1, 2, 2]);
}

#[test]
fn a_launch_that_was_none_is_not_counted_and_its_draw_is_the_next_ones() {
    let mut all = Samples::new(3, SLOTS);
    let first = all.launched(kernel_on(1), 1, 0.0);
    all.failed("k", first.class, first.draw);
    let again = all.launched(kernel_on(1), 1, 0.0);
    assert_eq!((again.launch, again.draw.map(|d| (d.slot, d.at))), (1, Some((0, 1))));
    assert_eq!(all.seen(), [1]);
    // In a long run, too.
    let mut all = Samples::new(5, SLOTS);
    let mut refused = 0;
    for _ in 0..1000 {
        let seen = all.launched(kernel_on(1), 1, 0.0);
        if let Some(draw) = seen.draw.filter(|_| refused % 2 == 0) {
            refused += 1;
            all.failed("k", seen.class, Some(draw));
            let next = all.launched(kernel_on(1), 1, 0.0);
            assert_eq!(next.draw.map(|d| (d.slot, d.at)), Some((draw.slot, draw.at)));
        }
    }
}

/// However long one capture takes the memory, no kernel of a round stays without.
#[test]
fn each_kernel_of_a_round_comes_to_its_capture() {
    let names: Vec<Arc<str>> = ["a", "b", "c", "d", "e"].map(Arc::from).to_vec();
    for (seed, takes) in (0..16).zip([0u64, 1, 20, 150].into_iter().cycle()) {
        let mut all = Samples::new(seed, SLOTS);
        let mut free_at = 0;
        for round in 0..6_000u64 {
            for name in &names {
                let Some(draw) = all.launched((Arc::clone(name), 0, 1), 1, 0.0).draw else {
                    continue;
                };
                if round < free_at || all.is_behind(&draw) {
                    all.moved(&draw, 0.0, 0.0);
                } else {
                    free_at = round + takes;
                    all.captured(
                        &draw,
                        &Whole { folder: String::new(), files: Vec::new(), bytes: 1 },
                    );
                }
            }
            all.waited();
        }
        let held = |of: &Class| of.held.iter().flatten().count();
        let counts: Vec<usize> = all.classes.iter().map(held).collect();
        assert!(counts.iter().all(|count| *count > 0), "seed {seed}, {takes}: {counts:?}");
        assert_eq!(all.lacking, 0);
    }
}

#[test]
fn a_draw_that_finds_the_memory_in_use_moves_to_the_same_position_of_a_later_round() {
    let mut all = Samples::new(11, SLOTS);
    // Rounds of three launches.
    let round = |all: &mut Samples| {
        let seen: Vec<_> = (0..3).map(|_| all.launched(kernel_on(1), 1, 0.0)).collect();
        all.waited();
        seen
    };
    let first = round(&mut all)[1].draw.unwrap();
    assert!(all.moved(&first, 0.0, 0.0));
    let mut found = None;
    for _ in 0..40 {
        for (position, seen) in round(&mut all).iter().enumerate() {
            if let Some(draw) = seen.draw.filter(|d| d.moves == 1) {
                assert_eq!((draw.slot, position), (first.slot, 1));
                found = Some(draw);
            }
        }
    }
    // It came, or a later draw took its place.
    assert!(found.is_some() || all.classes[0].moved.is_empty());
    let last = Draw { moves: MOVES, ..first };
    assert!(!all.moved(&last, 0.0, 0.0));
}

#[test]
fn what_a_capture_takes_is_found_whatever_the_others_were() {
    let of = |all: &[(f64, f64)]| {
        let mut line = Line::assumed();
        all.iter().for_each(|(bytes, seconds)| line.add(*bytes, *seconds));
        line
    };
    // Nothing is known: about a gigabyte a second.
    assert!((of(&[]).at(1e9) - 1.0).abs() < 0.01);
    // Tiny ones say nothing of great ones, one that was held up little of tiny ones.
    let tiny = of(&[(16.0, 1e-3); 20]);
    assert!(tiny.at(1e8) < 0.12 && tiny.at(16.0) < 1.1e-3, "{tiny:?}");
    let held_up = of(&[(16.0, 2.0), (16.0, 1e-3), (1e6, 2e-3)]);
    assert!(held_up.at(1e6) < 0.7, "{}", held_up.at(1e6));
    // A slow disk, a fast one.
    for rate in [1e7, 1e8, 4e9] {
        let found = of(&[(1e7, 1e7 / rate), (2e8, 2e8 / rate), (1e8, 1e8 / rate)]).at(2e8);
        assert!((found * rate / 2e8 - 1.0).abs() < 0.6, "{rate}: {found}");
    }
    // Never less than none, nor less for more.
    for first in [0.0, 1.0, 1e5, 1e9] {
        let line = of(&[(first, 3.0), (10.0, 1.0)]);
        let all: Vec<f64> = (0..12).map(|n| line.at(10f64.powi(n))).collect();
        assert!(all[0] >= 0.0 && all.windows(2).all(|two| two[0] <= two[1]), "{all:?}");
    }
}

#[test]
fn captures_keep_to_their_share_of_time() {
    let mut all = Samples::new(1, SLOTS);
    let draw = all.launched(kernel_on(1), 1, 100.0).draw.unwrap();
    let affords = |all: &Samples, draw: &Draw, bytes, now| all.affords(draw, bytes, now) <= 0.0;
    // Nothing is known: a gigabyte a second. Two seconds for what has none, half for one.
    assert!(affords(&all, &draw, 900_000_000, 100.0));
    // A twentieth of a run of 44 s is 2.2 s.
    assert!((all.affords(&draw, 1_100_000_000, 100.0) - 44.0).abs() < 0.5);
    // What is under way counts, and is of a class that has it: others keep to their own share.
    let other = all.launched(kernel_on(2), 1, 100.0).draw.unwrap();
    all.pends(Some(draw), 500_000_000, true);
    assert!(affords(&all, &other, 740_000_000, 100.0));
    assert!(!affords(&all, &other, 760_000_000, 100.0));
    all.pends(Some(draw), 500_000_000, false);
    all.pends(Some(draw), 0, true);
    let second = Draw { slot: 1, ..draw };
    assert!(affords(&all, &second, 90_000_000, 100.0));
    assert!((all.affords(&second, 110_000_000, 100.0) - 2.2).abs() < 0.1);
    all.pends(Some(draw), 0, false);
    // Half a gigabyte a second, now.
    all.spent(&draw, 1.0, 500_000_000);
    assert!(affords(&all, &other, 200_000_000, 100.0));
    assert!(!affords(&all, &other, 300_000_000, 100.0));
    let whole = |n: u64| Whole { folder: format!("k.{n}"), files: Vec::new(), bytes: n };
    assert_eq!(all.captured(&draw, &whole(1)), []);
    // The place of a capture has a fiftieth of the run, and a tenth of a second at least.
    assert!(affords(&all, &draw, 1, 100.0));
    assert!(!affords(&all, &draw, 60_000_000, 100.0));
    assert!(affords(&all, &draw, 90_000_000, 110.0));
    assert!(!affords(&all, &draw, 130_000_000, 110.0));
    // Other places share the two seconds: one is spent, of which a twentieth of 22 s is more.
    assert!(affords(&all, &second, 45_000_000, 100.0));
    assert!(affords(&all, &second, 450_000_000, 120.0));
    assert!(!affords(&all, &second, 600_000_000, 120.0));
    all.spent(&second, 0.1, 50_000_000);
    assert_eq!(all.captured(&second, &whole(2)), []);
    assert!(!affords(&all, &Draw { slot: 2, ..draw }, 50_000_000, 100.0));
    assert_eq!(all.captured(&second, &whole(3)), [(second, whole(2))]);
    assert!(all.holds(&second));
}

#[test]
fn captures_of_the_beginning_go_where_their_places_were_drawn_anew() {
    let mut all = Samples::new(1, SLOTS);
    let first = all.launched(kernel_on(1), 1, 0.0).draw.unwrap();
    let whole = |n: u64| Whole { folder: format!("k.{n}"), files: Vec::new(), bytes: n };
    let draw = |slot, at| Draw { slot, at, ..first };
    for (slot, at) in [(0, 1), (1, 2), (2, 30)] {
        assert_eq!(all.captured(&draw(slot, at), &whole(at)), []);
    }
    // Places 0 and 2 are drawn anew: what they hold stays for want of others.
    all.refused(&draw(0, 40));
    assert!(all.moved(&draw(2, 50), 1.0, 2.0));
    assert_eq!(all.captured(&draw(3, 9), &whole(9)), []);
    // The second launch is in the sample: nothing came for its place.
    assert_eq!(
        all.captured(&draw(3, 100), &whole(100)),
        [(draw(0, 1), whole(1)), (draw(3, 9), whole(9))]
    );
    assert!(!all.holds(&draw(0, 1)) && all.holds(&draw(1, 2)) && all.holds(&draw(2, 30)));
    assert_eq!(all.captured(&draw(0, 300), &whole(300)), [(draw(2, 30), whole(30))]);
}

/// In a run of a third of a second each launch is as likely to be held as any other, though
/// captures take a hundredth of it each.
#[test]
fn short_runs_are_sampled_evenly() {
    let (launches, fifths) = (3_000u64, 5usize);
    let mut held = vec![0u64; fifths];
    for seed in 0..400 {
        let mut all = Samples::new(seed, SLOTS);
        let mut now = 0.0;
        for _ in 0..launches {
            now += 1e-4;
            let Some(draw) = all.launched(kernel_on(1), 1, now).draw else { continue };
            let wait = all.affords(&draw, 4_096, now);
            if wait > 0.0 {
                all.moved(&draw, wait, now);
            } else {
                now += 1e-3;
                all.spent(&draw, 1e-3, 4_096);
                let whole = Whole { folder: String::new(), files: Vec::new(), bytes: 1 };
                all.captured(&draw, &whole);
            }
            all.waited();
        }
        for (at, _) in all.classes.iter().flat_map(|of| of.held.iter().flatten()) {
            held[((at - 1) * fifths as u64 / launches) as usize] += 1;
        }
    }
    let all: u64 = held.iter().sum();
    assert_eq!(all, 400 * SLOTS as u64);
    // Binomial: within four standard deviations.
    let (mean, variance) = (all as f64 / 5.0, all as f64 * 0.16);
    let off = |of: &u64| (*of as f64 - mean).abs() <= 4.0 * variance.sqrt();
    assert!(held.iter().all(off), "{held:?}");
}

/// Captures that take long are spread over a run, within their time.
#[test]
fn captures_that_take_long_are_spread_over_the_run() {
    let mut late = 0;
    for seed in 0..20 {
        let mut all = Samples::new(seed, SLOTS);
        let (mut now, mut clock, mut took) = (0.0, 0u64, Vec::new());
        // Six seconds of two kernels a round, each of which takes 90 ms to capture.
        while now < 6.0 {
            for device in [1, 2] {
                let Some(draw) = all.launched(kernel_on(device), 1, now).draw else { continue };
                let wait = all.affords(&draw, 90_000_000, now);
                if wait > 0.0 {
                    all.moved(&draw, wait, now);
                    continue;
                }
                now += 0.09;
                all.spent(&draw, 0.09, 90_000_000);
                let whole = Whole { folder: String::new(), files: Vec::new(), bytes: 1 };
                all.captured(&draw, &whole);
                took.push(now);
            }
            all.waited();
            clock += 1;
            now += 0.0036;
        }
        assert!(all.classes.iter().all(|of| of.held.iter().any(Option::is_some)), "{clock}");
        let seconds = took.len() as f64 * 0.09;
        assert!(seconds <= 0.09 * 2.0 + 0.2 + 0.05 * now + 0.02 * now, "{seed}: {took:?}");
        late += took.iter().filter(|at| **at > 1.0).count();
    }
    // One or two in each run.
    assert!(late >= 20, "{late} behind the first second");
}

/// A kernel that is launched a few times is captured as soon as the memory is free.
#[test]
fn what_has_no_capture_tries_the_next_rounds() {
    for (seed, busy) in (0..64u64).flat_map(|seed| (0..4u64).map(move |busy| (seed, busy))) {
        let mut all = Samples::new(seed, 1);
        for round in 0..=busy {
            let draw = all.launched(kernel_on(1), 1, 0.0).draw;
            let draw = draw.unwrap_or_else(|| panic!("seed {seed}: none in round {round}"));
            assert!(all.moved(&draw, 0.0, 0.0));
            all.waited();
        }
    }
}
