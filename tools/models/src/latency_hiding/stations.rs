//! clscope's own model of latency hiding, beside those of the documents: additions and memory are
//! two stations that warps go to in turns, and each is known by what so many warps reach there
//! alone. Owns the two bounds and their mean; refuses to measure, and to know more of a device than
//! the two curves.
//!
//! * **Independent**: at each moment a random part of the warps is at memory. A closed network of
//!   two stations whose rates depend on their load has a product form (Gordon and Newell 1967;
//!   Buzen 1973), and a station measured alone stands for itself in it (Chandy, Herzog and Woo
//!   1975). Right where latency bounds.
//! * **In step**: all warps are at memory, then all add: nothing is hidden. Warps that a scheduler
//!   serves in turns and that begin together stay together once additions are the bottleneck: those
//!   that wait for an adder leave it one behind the other, and find memory empty.
//! * The **mean** of both times of a turn, where it is not known which of them a scheduler does.
//! * **By utilisation**: warps fall in step behind adders that are busy. The time in step enters
//!   with half of the additions' utilisation among independent warps. The half is no derivation: it
//!   is the mean, of which nothing is left where additions are never waited for.
//!
//! Throughputs are turns (an access and its additions) per cycle and compute unit, n warps of a
//! unit.

/// Most warps of a unit for which the network is solved.
const MOST_WARPS: f64 = 4096.0;

/// What warps reach at one station alone: throughput over warps, from 1 on.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve(Vec<(f64, f64)>);

impl Curve {
    /// From points (warps, throughput) in any order. More warps are taken to reach no less: where
    /// fewer were seen to reach more, that holds for more, too. `None` without a usable point.
    pub fn of(points: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let usable = |(n, x): &(f64, f64)| n.is_finite() && x.is_finite() && *n > 0.0 && *x > 0.0;
        let mut points: Vec<(f64, f64)> = points.into_iter().filter(usable).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut most = 0.0f64;
        for point in &mut points {
            most = most.max(point.1);
            point.1 = most;
        }
        points.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1;
            }
            same
        });
        (!points.is_empty()).then_some(Self(points))
    }

    /// Throughput with `n` warps: a straight line between points, from nothing at none, and level
    /// behind the last.
    pub fn at(&self, n: f64) -> f64 {
        // Behind the last point it is level, at infinity too.
        let after = self.0.partition_point(|p| p.0 < n);
        let (low, high) = match (after.checked_sub(1).map(|i| self.0[i]), self.0.get(after)) {
            (low, Some(high)) => (low.unwrap_or_default(), *high),
            (Some(last), None) => return last.1,
            (None, None) => return 0.0,
        };
        low.1 + (high.1 - low.1) * (n - low.0) / (high.0 - low.0)
    }
}

/// The two stations of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Stations {
    /// Accesses per cycle and unit of chains that are nothing but accesses.
    pub memory: Curve,
    /// Additions per cycle and unit of chains that are nothing but additions.
    pub additions: Curve,
}

impl Stations {
    /// Turns per cycle of `n` independent warps, whole ones; `None` for more than are solved for.
    pub fn independent(&self, n: f64, alpha: f64) -> Option<f64> {
        let n = n.round().max(1.0);
        if n > MOST_WARPS {
            return None;
        }
        if alpha <= 0.0 {
            return Some(self.memory.at(n));
        }
        let warps = n as usize;
        // Logarithms of the weights of 0 to n warps at a station: one over the product of its
        // rates.
        let weights = |rate: &dyn Fn(f64) -> f64| {
            let mut all = vec![0.0f64];
            for j in 1..=warps {
                all.push(all[j - 1] - rate(j as f64).ln());
            }
            all
        };
        let memory = weights(&|j| self.memory.at(j));
        let additions = weights(&|j| self.additions.at(j) / alpha);
        let joint: Vec<f64> = (0..=warps).map(|j| memory[j] + additions[warps - j]).collect();
        let largest = joint.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut turns) = (0.0, 0.0);
        for (j, weight) in joint.iter().enumerate() {
            let p = (weight - largest).exp();
            sum += p;
            turns += p * self.memory.at(j as f64);
        }
        Some(turns / sum)
    }

    /// Turns per cycle of `n` warps that all access memory, then all add.
    pub fn in_step(&self, n: f64, alpha: f64) -> f64 {
        let add = if alpha > 0.0 { alpha / self.additions.at(n) } else { 0.0 };
        1.0 / (1.0 / self.memory.at(n) + add)
    }

    /// Turns per cycle by the mean of both times of a turn.
    pub fn mean(&self, n: f64, alpha: f64) -> Option<f64> {
        self.between(n, alpha, |_| 0.5)
    }

    /// Turns per cycle where warps are in step as far as additions are busy.
    pub fn by_utilisation(&self, n: f64, alpha: f64) -> Option<f64> {
        let most = self.additions.at(f64::INFINITY);
        self.between(n, alpha, |independent| (independent * alpha / most).min(1.0) / 2.0)
    }

    /// By the times of a turn, of which the one in step enters with this share.
    fn between(&self, n: f64, alpha: f64, share: impl Fn(f64) -> f64) -> Option<f64> {
        let independent = self.independent(n, alpha)?;
        let share = share(independent);
        Some(1.0 / ((1.0 - share) / independent + share / self.in_step(n, alpha)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64) -> bool {
        (a / b - 1.0).abs() < 1e-9
    }

    /// A single server of rate 1 and one of rate 1/2: P(n) of the textbook's closed form.
    #[test]
    fn two_single_servers_as_in_closed_form() {
        let server = |rate| Curve::of((1..=8).map(|n| (f64::from(n), rate))).unwrap();
        let of = Stations { memory: server(1.0), additions: server(1.0) };
        for n in 1..=8u32 {
            // Balanced: n / (n + 1) of the rate.
            let n = f64::from(n);
            assert!(near(of.independent(n, 1.0).unwrap(), n / (n + 1.0)), "{n}");
            // Twice the additions: rho = 2, 1 - 1/(1 + 2 + .. + 2^n) of the slower rate.
            let states = 2f64.powf(n + 1.0) - 1.0;
            assert!(near(of.independent(n, 2.0).unwrap(), 0.5 * (1.0 - 1.0 / states)), "{n}");
        }
    }

    /// Stations that delay and never queue: n over the sum of their latencies, whatever the phases.
    #[test]
    fn pure_delays_add() {
        let delay = |latency: f64| Curve::of([(64.0, 64.0 / latency)]).unwrap();
        let of = Stations { memory: delay(400.0), additions: delay(4.0) };
        for n in [1.0, 7.0, 64.0] {
            let want = n / (400.0 + 32.0 * 4.0);
            assert!(near(of.independent(n, 32.0).unwrap(), want));
            assert!(near(of.in_step(n, 32.0), want) && near(of.mean(n, 32.0).unwrap(), want));
        }
        assert!(near(of.independent(8.0, 0.0).unwrap(), 8.0 / 400.0));
    }

    #[test]
    fn curves_never_fall_and_begin_at_nothing() {
        let of = Curve::of([(32.0, 3.0), (16.0, 3.5), (32.0, 3.2), (4.0, 1.0), (f64::NAN, 9.0)]);
        let of = of.unwrap();
        for (n, want) in [(2.0, 0.5), (4.0, 1.0), (16.0, 3.5), (24.0, 3.5), (99.0, 3.5)] {
            assert!((of.at(n) - want).abs() < 1e-12, "{n}: {}", of.at(n));
        }
        assert_eq!(Curve::of([(0.0, 1.0), (1.0, 0.0)]), None);
        let of = Stations { memory: of.clone(), additions: of };
        assert_eq!(of.independent(1e5, 1.0), None);
    }

    proptest! {
        #[test]
        fn in_step_is_never_faster(
            memory in prop::collection::vec(0.001f64..0.5, 1..8),
            additions in prop::collection::vec(0.1f64..4.0, 1..8),
            n in 1u32..64,
            alpha in 0.0f64..600.0,
        ) {
            let curve = |rates: Vec<f64>| {
                // As devices have them: a warp more adds no more than the one before.
                let mut rates = rates;
                rates.sort_by(|a, b| b.total_cmp(a));
                let mut sum = 0.0;
                let points: Vec<(f64, f64)> = rates
                    .iter()
                    .enumerate()
                    .map(|(i, r)| { sum += r; (i as f64 + 1.0, sum) })
                    .collect();
                Curve::of(points).unwrap()
            };
            let of = Stations { memory: curve(memory), additions: curve(additions) };
            let n = f64::from(n);
            let (fast, slow) = (of.independent(n, alpha).unwrap(), of.in_step(n, alpha));
            prop_assert!(slow <= fast * (1.0 + 1e-9), "{slow} {fast}");
            for between in [of.mean(n, alpha), of.by_utilisation(n, alpha)] {
                let x = between.unwrap();
                prop_assert!(slow <= x * (1.0 + 1e-9) && x <= fast * (1.0 + 1e-9));
            }
            prop_assert!(fast <= of.memory.at(n) * (1.0 + 1e-9));
        }
    }
}
