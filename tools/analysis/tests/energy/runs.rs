//! Several runs of one device, at several temperatures.

use super::*;

/// Runs of a chip that leaks more the warmer it is and tells whole degrees, from these temperatures on.
fn runs_from(from: &[f64], seed: u64, of: Heat) -> Vec<Heated> {
    from.iter()
        .zip(seed..)
        .map(|(from, seed)| {
            let heat = Some(Heat { from: *from, ..of });
            let scenario = Scenario { seconds: 20.0, seed, heat, ..scenario(seed) };
            let run = scenario.run();
            let activity = Activity::new(&run.spans, scenario.kernels.len());
            let idle = idle_levels(&activity, &run.series, Seconds(0.1), &run.degrees);
            Heated { floors: idle.floors(), states: idle.states, activity, run }
        })
        .collect()
}

const HEAT: Heat = Heat { from: 0.0, rise: (6.0, 8.0), idle: 0.018, above: 0.001, rest: 2 };

/// A simulated run, with its idle power.
struct Heated {
    run: Run,
    activity: Activity,
    floors: Vec<Floor>,
    states: Vec<StateSpan>,
}

impl Heated {
    fn problem(&self) -> Problem<'_> {
        Problem {
            temperature: &self.run.degrees,
            states: &self.states,
            ..problem(&self.activity, &self.run.series, &self.floors, model(SAMPLES))
        }
    }
}

/// Joules at 50 C of runs that are fitted together are those of each other within 2 %, and their
/// intervals hold the truth; so do those of each run by itself.
#[test]
fn joules_at_one_temperature_are_those_of_a_cool_run_and_of_a_warm_one() {
    let (mut inside, mut all) = ([0u32; 2], 0u32);
    for seed in 0..6 {
        for from in [[41.0, 53.0], [38.7, 41.3]] {
            let runs = runs_from(&from, 900 + 10 * seed, HEAT);
            let problems: Vec<Problem<'_>> = runs.iter().map(Heated::problem).collect();
            let alone: Vec<Attribution> =
                problems.iter().map(|of| attribute(of).expect("a usable run")).collect();
            let together = attribute_runs(&problems).expect("usable runs");
            let degrees: Vec<_> = together.iter().filter_map(|of| of.temperature).collect();
            assert_eq!((degrees.len(), degrees[0].runs), (2, 2));
            assert!(
                (degrees[0].idle_per_degree.value / degrees[1].idle_per_degree.value - 1.0).abs()
                    < 1e-3
            );
            for k in 0..4 {
                let at_50 = |of: &Attribution| of.classes[k].per_launch_at_reference.unwrap();
                let of_launch = |of: &Attribution| of.classes[k].busy.0 / of.classes[k].launches;
                for (run, (alone, together)) in runs.iter().zip(alone.iter().zip(&together)) {
                    let truth = run.run.watts_at_50[k] * of_launch(alone);
                    all += 1;
                    for (inside, of) in inside.iter_mut().zip([alone, together].map(at_50)) {
                        *inside += u32::from(of.low <= truth && truth <= of.high);
                    }
                }
                let watts: Vec<f64> =
                    together.iter().map(|of| at_50(of).value / of_launch(of)).collect();
                let truth: Vec<f64> = runs.iter().map(|of| of.run.watts_at_50[k]).collect();
                let apart = watts[0] / watts[1] / (truth[0] / truth[1]) - 1.0;
                assert!(apart.abs() < 0.02, "{from:?} {seed} {k}: {apart}");
            }
        }
    }
    let (mean, sd) = (0.95 * f64::from(all), (f64::from(all) * 0.95 * 0.05).sqrt());
    for inside in inside {
        assert!(f64::from(inside) > mean - 3.9 * sd, "{inside} of {all} intervals hold the truth");
    }
}

/// The order of runs changes nothing, one run by itself is what it is alone, and a run that says
/// nothing of temperature changes no other.
#[test]
fn runs_are_fitted_together_in_any_order() {
    let runs = runs_from(&[41.0, 53.0], 700, HEAT);
    let problems: Vec<Problem<'_>> = runs.iter().map(Heated::problem).collect();
    let figures = |of: &Attribution| -> Vec<Interval> {
        of.classes.iter().filter_map(|class| class.per_launch_at_reference).collect()
    };
    let (forth, back) = (
        attribute_runs(&problems).unwrap(),
        attribute_runs(&[problems[1].clone(), problems[0].clone()]).unwrap(),
    );
    for (a, b) in figures(&forth[0]).iter().zip(figures(&back[1])) {
        assert!((a.value / b.value - 1.0).abs() < 1e-9 && (a.half() / b.half() - 1.0).abs() < 1e-6);
    }
    let alone = attribute(&problems[0]).unwrap();
    let only = attribute_runs(&problems[..1]).unwrap();
    assert_eq!(figures(&only[0]), figures(&alone));
    // What another run says moves and narrows a figure.
    assert!(figures(&forth[0]) != figures(&alone));
    let silent = Problem { temperature: &[], ..problems[1].clone() };
    let beside = attribute_runs(&[problems[0].clone(), silent]).unwrap();
    for (a, b) in figures(&beside[0]).iter().zip(figures(&alone)) {
        assert!((a.value / b.value - 1.0).abs() < 2e-3, "{a:?} {b:?}");
    }
}

/// Of a sum of two runs the errors that both have add up, and of their difference those that move
/// both alike cancel.
#[test]
fn errors_that_runs_share_are_in_sums_and_cancel_in_differences() {
    let runs = runs_from(&[41.0, 41.0], 800, HEAT);
    let problems: Vec<Problem<'_>> = runs.iter().map(Heated::problem).collect();
    let both = attribute_runs(&problems).unwrap();
    let sum = together(&both).unwrap();
    let norm = |of: [f64; 2]| 1.96 * of[0].hypot(of[1]);
    for k in 0..4 {
        let class = |of: &Attribution| of.classes[k];
        let each = [class(&both[0]), class(&both[1])];
        let loads = each.map(|of| of.loads.at_reference);
        let halves = each.map(|of| of.per_launch_at_reference.unwrap().half());
        for (load, half) in loads.iter().zip(halves) {
            assert!(norm(*load) > 0.1 * half && norm(*load) < 1.01 * half, "{load:?} {half}");
        }
        let difference = [0, 1].map(|i| loads[0][i] - loads[1][i]);
        assert!(norm(difference) < 0.3 * norm(loads[0]), "{loads:?}");
        let found = class(&sum).per_launch_at_reference.unwrap().half();
        let independent = halves[0].hypot(halves[1]) / 2.0;
        assert!(found > independent && found < 1.01 * f64::midpoint(halves[0], halves[1]));
    }
}
