//! Owns `--correct-bias`: takes the measured span bias off the times of every kernel launch, in all
//! of a report's figures of kernels. Refuses to do it unasked, or to kernels whose device was not
//! calibrated; transfers and other commands were not calibrated and stay as they are.

use super::data::{Commands, Report, Summary};
use crate::error::UnknownBias;
use crate::interval::Interval;

/// Corrects the kernels of a report.
///
/// # Errors
/// If the bias of a kernel with times is not known: some figures would be corrected and others not.
pub fn apply(report: &mut Report) -> Result<(), UnknownBias> {
    let timed = |k: &&Commands| k.time_ns.count > 0;
    if let Some(kernel) = report.kernels.iter().filter(timed).find(|k| k.span_bias_ns.is_none()) {
        return Err(UnknownBias {
            device: kernel.device.clone().unwrap_or_else(|| "its device".to_owned()),
            kernel: kernel.name.clone(),
        });
    }
    let corrected = std::mem::take(&mut report.totals.kernel_corrected_ns);
    for kernel in &mut report.kernels {
        correct(kernel);
    }
    report.totals.kernel_ns = report.kernels.iter().map(|k| k.time_ns.total).sum();
    if report.totals.kernel_estimate_ns.is_some() {
        report.totals.kernel_estimate_ns = corrected;
    }
    let whole: f64 = report.kernels.iter().map(Commands::total).sum();
    for kernel in report.kernels.iter_mut().filter(|k| k.share.is_some() && whole > 0.0) {
        let share = kernel.total() / whole;
        // The interval moves with the share: to first order the bias changes all totals alike.
        if let Some(e) = kernel.estimate.as_mut().and_then(|e| e.share.as_mut()) {
            let moved = share - e.value;
            let end = |end: f64| if end.is_finite() { (end + moved).clamp(0.0, 1.0) } else { end };
            *e = Interval { value: share, low: end(e.low), high: end(e.high), ..*e };
        }
        kernel.share = Some(share);
    }
    report.bias_corrected = true;
    Ok(())
}

fn correct(kernel: &mut Commands) {
    let Some(bias) = kernel.span_bias_ns else { return };
    summary(&mut kernel.time_ns, bias.value);
    let total = kernel.corrected_total_ns.take();
    let Some(e) = &mut kernel.estimate else { return };
    let n = e.launches as f64;
    e.mean_ns = total.map(|t| t.times(1.0 / n));
    e.total_ns = total;
    for figure in [&mut e.median_ns, &mut e.p95_ns, &mut e.p99_ns].into_iter().flatten() {
        shift(figure, &bias);
    }
}

/// Takes `bias` off every value of a distribution. A span shorter than the bias took no time.
fn summary(s: &mut Summary, bias: f64) {
    let less = |x: f64| (x - bias).max(0.0);
    s.total = less(s.total as f64 - bias * s.count.saturating_sub(1) as f64).round() as u128;
    for figure in [&mut s.mean, &mut s.median, &mut s.p95, &mut s.p99] {
        *figure = figure.map(less);
    }
    for figure in [&mut s.min, &mut s.max] {
        *figure = figure.map(|x| less(x as f64).round() as u64);
    }
}

/// Sides add by squares: the sample and the calibration have nothing to do with each other.
fn shift(e: &mut Interval, bias: &Interval) {
    let value = (e.value - bias.value).max(0.0);
    let side = |end: f64| (end - e.value).hypot(bias.half());
    *e = Interval { value, low: (value - side(e.low)).max(0.0), high: value + side(e.high), ..*e };
}
