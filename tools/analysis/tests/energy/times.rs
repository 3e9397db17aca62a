//! Times of classes that are estimated, not those of their spans: what that changes of joules and
//! watts, and what it does not. Refuses to estimate times.

use crate::{assert_conserved, known, model, problem, scenario};
use clscope_analysis::energy::{Activity, EstimatedTime, attribute};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    /// Energy above idle is that of launches, whatever they took; idle energy is that of the time, and as
    /// uncertain as it; what was measured is shared out all the same.
    #[test]
    fn a_longer_time_takes_more_of_idle_energy_alone(
        ratio in 0.7f64..1.2, relative in 0.0f64..0.3, seed in 0u64..1000
    ) {
        let scenario = scenario(seed);
        let run = scenario.run();
        let floors = known(scenario.floor);
        let activity = Activity::new(&run.spans, scenario.kernels.len());
        let of = |activity: &Activity| {
            attribute(&problem(activity, &run.series, &floors, model(scenario.sensor))).unwrap()
        };
        let plain = of(&activity);
        let mut times = vec![EstimatedTime::TIMED; scenario.kernels.len()];
        times[1] = EstimatedTime { ratio, relative };
        let other = of(&activity.clone().with_times(&times));
        assert_conserved(&other);
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9 * b.abs();
        for (k, (a, b)) in plain.classes.iter().zip(&other.classes).enumerate() {
            let ratio = times[k].ratio;
            prop_assert!(near(b.busy.0, ratio * a.busy.0));
            prop_assert!(near(b.covered.0, ratio * a.covered.0));
            let (above, same) = (a.dynamic.unwrap(), b.dynamic.unwrap());
            prop_assert!(near(same.value, above.value) && (same.half() / above.half() - 1.0).abs() < 1e-3);
            let (stood, longer) = (a.idle.unwrap(), b.idle.unwrap());
            prop_assert!(near(longer.value, ratio * stood.value));
            let open = times[k].relative * longer.value;
            let half = (ratio * stood.half()).hypot(open);
            prop_assert!((longer.half() - half).abs() < 1e-3 * half);
            let (joules, each) = (b.joules.unwrap(), b.joules_per_launch.unwrap());
            prop_assert!((joules.value - same.value - longer.value).abs() < 1e-6 * joules.value);
            prop_assert!(near(each.value * b.launches, joules.value * b.busy.0 / b.covered.0));
            prop_assert!(joules.half() >= open);
            prop_assert!(near(b.watts.unwrap().value, joules.value / b.covered.0));
            // Above idle watts fall as the time rises: of those at rest nothing is doubted.
            let watts = b.watts.unwrap();
            let doubt = times[k].relative * same.value / b.covered.0;
            prop_assert!(watts.half() >= doubt * 0.999 || watts.low > 0.0 && relative > 0.2);
        }
    }

    /// A time of which nobody knows how far it is off leaves no figure of what it is a part of.
    #[test]
    fn a_time_that_is_not_known_leaves_no_joules(seed in 0u64..1000) {
        let scenario = scenario(seed);
        let run = scenario.run();
        let floors = known(scenario.floor);
        let mut times = vec![EstimatedTime::TIMED; scenario.kernels.len()];
        times[2].relative = f64::INFINITY;
        let activity = Activity::new(&run.spans, scenario.kernels.len()).with_times(&times);
        let of = attribute(&problem(&activity, &run.series, &floors, model(scenario.sensor))).unwrap();
        prop_assert!(of.classes[2].joules.is_none() && of.classes[2].watts.is_none());
        prop_assert!(of.classes[0].joules.is_some());
    }
}
