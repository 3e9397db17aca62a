//! What the parameters of a device predict of further kernels, against their measured times: the
//! kernels of five suites, most of which the parameters do not come from. Owns the comparison;
//! refuses to change the parameters.

use crate::run::{self, Choice, Watch};
use clscope_microbench::bench::Settings;
use clscope_microbench::cl::{ClError, Device as Cl};
use clscope_microbench::power::Metering;
use clscope_microbench::results::{CaseResult, Status};
use clscope_models::device::Device;
use clscope_models::kernel::Kernel;
use clscope_models::roofline::{Bound, bounds, likely};
use clscope_models::{Evidence, Figure};
use std::io::Write;
use std::path::PathBuf;

/// One kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The case.
    pub case: String,
    /// Measured time of a launch, ns.
    pub measured_ns: f64,
    /// Predicted.
    pub predicted: Figure,
    /// All bounds, longest first.
    pub bounds: Vec<Bound>,
    /// Work-items, and items of a group.
    pub items: (u64, u64),
    /// Instructions of all items, and of all warps.
    pub instructions: (u64, Option<u64>),
}

impl Row {
    /// Predicted over measured, less one.
    pub fn error(&self) -> f64 {
        self.predicted.value / self.measured_ns - 1.0
    }
}

/// How well the model does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Kernels.
    pub kernels: usize,
    /// Median of the relative errors' sizes.
    pub median: f64,
    /// Their 90th percentile.
    pub p90: f64,
    /// Kernels faster than a certain bound by more than 5 %.
    pub beyond: usize,
}

impl Summary {
    /// Of all rows; `None` where there are none.
    pub fn of_rows(rows: &[Row]) -> Option<Self> {
        let mut errors: Vec<f64> = rows.iter().map(|r| r.error().abs()).collect();
        errors.sort_by(f64::total_cmp);
        let at = |q: f64| errors.get((errors.len().saturating_sub(1) as f64 * q).round() as usize);
        let faster =
            |r: &&Row| r.bounds.iter().any(|b| b.certain && b.ns.value > 1.05 * r.measured_ns);
        Some(Self {
            kernels: rows.len(),
            median: *at(0.5)?,
            p90: *at(0.9)?,
            beyond: rows.iter().filter(faster).count(),
        })
    }
}

/// Runs the suites of kernels and compares each whose instructions could be counted.
///
/// # Errors
/// If the device cannot be opened.
pub fn check(
    cl: &Cl,
    parameters: &Device,
    cache: Option<PathBuf>,
    watch: &mut dyn Watch,
) -> Result<Vec<Row>, ClError> {
    let settings = Settings { repeat: Some(5), mix: true, cache, ..Settings::default() };
    let suites = ["flop", "memory", "classes", "latency", "structure"];
    let choice = Choice {
        suites: suites.map(str::to_owned).to_vec(),
        sensors: Metering { off: true, ..Metering::default() },
        ..Choice::default()
    };
    let chosen = run::cases(cl, &settings, &choice);
    let results = run::run_cases(cl, &settings, &choice, &chosen, watch)?;
    Ok(results.cases.iter().filter_map(|case| row(case, parameters)).collect())
}

fn row(case: &CaseResult, parameters: &Device) -> Option<Row> {
    let (timing, counted) = (case.timing.as_ref()?, case.counted.as_ref()?);
    if case.status != Status::Measured {
        return None;
    }
    let items = (timing.groups * timing.group_size) as u64;
    let mean = timing.time_ns.mean;
    let kernel = Kernel {
        name: case.id.clone(),
        device: parameters.name.clone(),
        launches: 1,
        time_ns: Some(Figure::new(mean.value, mean.low, mean.high, Evidence::Measured)),
        items: Some(items),
        local: Some(timing.group_size as u64),
        mix: Some(counted.mix.clone()),
        blocks: counted.blocks.clone(),
        footprint: Some(counted.buffer_bytes as f64),
        ..Kernel::default()
    };
    let of = bounds(&kernel, parameters);
    let total = counted.mix.total();
    Some(Row {
        case: case.id.clone(),
        measured_ns: mean.value,
        predicted: likely(&kernel, parameters, &of)?,
        bounds: of.bounds,
        items: (items, timing.group_size as u64),
        instructions: (total.threads, total.warps),
    })
}

/// Writes one line for each kernel, with all of its bounds.
///
/// # Errors
/// What the writer returned.
pub fn write_csv(rows: &[Row], out: impl Write) -> Result<(), csv::Error> {
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record([
        "case",
        "measured_ns",
        "predicted_ns",
        "low_ns",
        "high_ns",
        "error",
        "items",
        "local",
        "instructions",
        "warp_instructions",
        "bounds",
    ])?;
    for r in rows {
        let bounds: Vec<String> =
            r.bounds.iter().map(|b| format!("{}={:.0}", b.resource.name(), b.ns.value)).collect();
        csv.write_record([
            r.case.clone(),
            r.measured_ns.to_string(),
            r.predicted.value.to_string(),
            r.predicted.low.to_string(),
            r.predicted.high.to_string(),
            r.error().to_string(),
            r.items.0.to_string(),
            r.items.1.to_string(),
            r.instructions.0.to_string(),
            r.instructions.1.map_or_else(String::new, |w| w.to_string()),
            bounds.join(";"),
        ])?;
    }
    csv.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_models::roofline::Resource;

    fn row(measured: f64, predicted: f64, certain: f64) -> Row {
        let exact = |v| Figure::exact(v, Evidence::Modelled);
        Row {
            case: "x".to_owned(),
            measured_ns: measured,
            predicted: exact(predicted),
            bounds: vec![Bound {
                likely: certain,
                resource: Resource::Fp32,
                ns: exact(certain),
                most: None,
                certain: true,
            }],
            items: (64, 64),
            instructions: (1, None),
        }
    }

    #[test]
    fn errors_are_summed_up_and_broken_bounds_counted() {
        let rows: Vec<Row> = (1..=11)
            .map(|n| row(100.0, 100.0 + f64::from(n), 90.0))
            .chain([row(100.0, 100.0, 110.0)])
            .collect();
        let s = Summary::of_rows(&rows).unwrap();
        assert_eq!((s.kernels, s.beyond), (12, 1));
        assert!((s.median - 0.06).abs() < 1e-9 && (s.p90 - 0.1).abs() < 1e-9, "{s:?}");
        assert_eq!(Summary::of_rows(&[]), None);
        let mut text = Vec::new();
        write_csv(&rows, &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap().lines().count(), 13);
    }
}
