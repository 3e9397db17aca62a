//! Medians with their range, and Markdown tables. Refuses to round a figure away: three significant
//! digits.
#![forbid(unsafe_code)]

use clscope_analysis::quantile;

/// What several pairs of runs gave for one figure.
#[derive(Debug, Clone, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// One more pair's figure.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    /// Figures so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The median; NaN of nothing.
    pub fn median(&self) -> f64 {
        quantile::median(self.0.iter().copied()).unwrap_or(f64::NAN)
    }

    /// The quantile `q`, between neighbours by a straight line.
    pub fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
        let at = q * last as f64;
        let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        low + (high - low) * at.fract()
    }

    /// An interval of 95 % for the median; `None` of fewer than six figures.
    pub fn median_interval(&self) -> Option<(f64, f64)> {
        quantile::median_interval(&self.0)
    }

    /// `median [95 % interval of the median]`.
    pub fn show_interval(&self) -> String {
        match self.median_interval() {
            Some((low, high)) => {
                format!("{} [{}, {}]", digits(self.median()), digits(low), digits(high))
            }
            None => format!("{} (too few runs for an interval)", digits(self.median())),
        }
    }

    /// `median (lower quartile..upper quartile)`.
    pub fn show(&self) -> String {
        format!(
            "{} ({}..{})",
            digits(self.median()),
            digits(self.quantile(0.25)),
            digits(self.quantile(0.75))
        )
    }
}

/// One more pair's figure of each.
pub fn push_all<const N: usize>(samples: &mut [Sample; N], figures: [f64; N]) {
    for (sample, figure) in samples.iter_mut().zip(figures) {
        sample.push(figure);
    }
}

/// Three significant digits, whole numbers from 100 on.
pub fn digits(value: f64) -> String {
    match value.abs() {
        v if v.is_nan() => "-".to_owned(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Prints a table.
pub fn print(title: &str, heads: &[&str], rows: &[Vec<String>]) {
    println!("\n**{title}**\n");
    println!("| {} |", heads.join(" | "));
    println!(
        "|{}|",
        heads
            .iter()
            .enumerate()
            .map(|(i, _)| if i == 0 { "---" } else { "---:" })
            .collect::<Vec<_>>()
            .join("|")
    );
    for row in rows {
        println!("| {} |", row.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let mut sample = Sample::default();
        assert!(sample.median().is_nan());
        for value in [4.0, 1.0, 2.0, 3.0] {
            sample.push(value);
        }
        assert_eq!(sample.median(), 2.5);
        assert_eq!(sample.quantile(0.0), 1.0);
        assert_eq!(sample.quantile(1.0), 4.0);
    }

    #[test]
    fn digits_are_three() {
        for (value, text) in
            [(1.234, "1.23"), (12.34, "12.3"), (1234.4, "1234"), (-0.5, "-0.50"), (f64::NAN, "-")]
        {
            assert_eq!(digits(value), text);
        }
    }
}
