//! Sums over launches that follow each other, from which their mean and its error come. Refuses to
//! estimate a total.

/// Sums of powers of durations about a pivot, weighted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Powers(pub(super) [f64; 4]);

impl Powers {
    pub(super) fn add(&mut self, weight: f64, d: f64) {
        let mut power = weight;
        for sum in &mut self.0 {
            *sum += power;
            power *= d;
        }
    }

    /// The same sums about a pivot lower by `shift`.
    pub(super) fn moved(&self, shift: f64) -> Self {
        let [a, b, c, d] = self.0;
        let s = shift;
        Self([
            a,
            b + a * s,
            c + 2.0 * b * s + a * s * s,
            d + 3.0 * c * s + 3.0 * b * s * s + a * s * s * s,
        ])
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    /// Second and third sums about `mean`, which is relative to the pivot.
    pub(super) fn central(&self, mean: f64) -> (f64, f64) {
        let moved = self.moved(-mean).0;
        (moved[2].max(0.0), moved[3])
    }
}

/// Launches that follow each other, of those that were not certain to be timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Block {
    /// How many, timed or not.
    pub(super) launches: u64,
    /// Of them timed.
    pub(super) chosen: u64,
    /// Weights 1/p.
    pub(super) ratio: Powers,
    /// Weights (1-p)/p^2: the variance.
    pub(super) second: Powers,
    /// Weights (1-p)(2-p)/(2 p^3): the third cumulant, as Hall's transformation takes it.
    pub(super) third: Powers,
    /// Sum of squares of (1-p)/p^2.
    pub(super) second_squared: f64,
    /// The launch of the greatest influence: its duration about the pivot, and the root of its
    /// weight in the variance.
    pub(super) longest: (f64, f64),
}

/// The longer, each as often as it stands for launches.
pub(super) fn longer(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    if b.0 * b.1 > a.0 * a.1 || a.1 == 0.0 { b } else { a }
}

impl Block {
    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            launches: self.launches + other.launches,
            chosen: self.chosen + other.chosen,
            ratio: self.ratio.plus(&other.ratio),
            second: self.second.plus(&other.second),
            third: self.third.plus(&other.third),
            second_squared: self.second_squared + other.second_squared,
            longest: longer(self.longest, other.longest),
        }
    }

    /// With the pivot lower by `shift`.
    pub(super) fn moved(&self, shift: f64) -> Self {
        let [ratio, second, third] =
            [&self.ratio, &self.second, &self.third].map(|powers| powers.moved(shift));
        Self { ratio, second, third, longest: (self.longest.0 + shift, self.longest.1), ..*self }
    }

    /// Mean about the pivot, weighted by 1/p.
    pub(super) fn mean(&self) -> f64 {
        self.ratio.0[1] / self.ratio.0[0]
    }

    /// Effective number of timed launches.
    pub(super) fn effective(&self) -> f64 {
        self.second.0[0].powi(2) / self.second_squared
    }

    /// By how much a residual is smaller because its launch is in the mean: what divides it gives
    /// the residual of a mean without it.
    pub(super) fn cross_fitted(&self) -> f64 {
        let n = self.effective();
        n / (n - 1.0).max(1.0)
    }

    /// Influence of a launch of a block on the total per unit of residual.
    pub(super) fn scale(&self) -> f64 {
        self.launches as f64 / self.ratio.0[0] * self.cross_fitted()
    }
}
