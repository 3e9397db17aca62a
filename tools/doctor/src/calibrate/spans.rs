//! Calibrates devices: the span bias, which is what a span reports beyond the time at which
//! launches follow each other, and what timing costs. Owns the conclusions from streams of
//! launches; refuses to call a difference a bias that the runtime's pauses between commands explain
//! as well.
//!
//! A device that runs equal kernels back to back completes one every so many nanoseconds: that
//! spacing, of launches without events, is what a launch costs there. A span that is longer holds
//! work of the runtime's or of the device's front end, so the sum of spans exceeds the time they
//! took. A span that is shorter does not show its bias: between commands the runtime pauses.
//! Spacing and span are measured in turns, at several lengths, and the bias has to be the same at
//! all.
#![forbid(unsafe_code)]

use super::Calibration;
use super::looped::Measurements;
use super::streams::{Costs, DeviceStreams, Length, QUESTION};
use crate::{Finding, Status, child};
use clscope_analysis::quantile;
use clscope_analysis::stats::SPAN_BIAS;
use clscope_profile::calibration::{Entry, Subject};
use std::path::Path;
use std::time::Duration;

/// Figure: time between the end of a command and the begin of the next that waits, where spans are
/// shorter than the spacing.
pub const GAP: &str = "command-gap-ns";
/// Figure: the upper limit of a span bias that could not be distinguished from none.
pub const LIMIT: &str = "span-bias-below-ns";
/// Slow devices compile for long, and there may be several.
const PATIENCE: Duration = Duration::from_secs(180);
/// Above this share of the time the host may be what sets the pace.
const HOST_BOUND: f64 = 0.8;

/// Measures every device, in a child.
pub fn calibrate(program: &Path) -> Calibration {
    let mut out = Calibration::default();
    let warn = |what: &str, text: String| Finding::warning("calibration", what, text);
    match child::ask_for::<Measurements<DeviceStreams>>(program, &[QUESTION], PATIENCE) {
        Err(error) => out.findings.push(warn(
            "devices",
            format!("an OpenCL driver {error} while launches were measured"),
        )),
        Ok(Err(error)) => out.findings.push(warn("devices", error)),
        Ok(Ok(devices)) => devices.into_iter().for_each(|(name, streams)| match streams {
            Ok(streams) => conclude(&streams, &mut out),
            Err(error) => {
                let text = format!("launches could not be measured: {error}");
                out.findings.push(warn(&name, text));
            }
        }),
    }
    out
}

/// A value and the half-width of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Value {
    value: f64,
    uncertainty: f64,
}

/// Median, and a distribution-free interval for it; of few values all of them.
fn median(values: Vec<f64>) -> Option<Value> {
    let value = quantile::median(values.iter().copied())?;
    let all = || {
        let of = |f: fn(f64, f64) -> f64| values.iter().copied().fold(value, f);
        (of(f64::min), of(f64::max))
    };
    let (low, high) = quantile::median_interval(&values).unwrap_or_else(all);
    Some(Value { value, uncertainty: (value - low).max(high - value) })
}

/// The difference of span and spacing over all lengths, with the sides of the single ones. What
/// differs from length to length is added to the uncertainty: it is no constant then.
fn bias(lengths: &[Length]) -> Option<(Value, Vec<(f64, Value)>)> {
    let usable = lengths.iter().filter(|l| l.enqueueing < HOST_BOUND);
    let each: Vec<(f64, Value)> = usable
        .filter_map(|l| {
            Some((
                l.wanted_ns,
                median(l.rounds.iter().map(|(span, spacing)| span - spacing).collect())?,
            ))
        })
        .filter(|(_, v)| v.value.is_finite())
        .collect();
    if each.len() < 2 {
        return None;
    }
    let n = each.len() as f64;
    let mean = each.iter().map(|(_, v)| v.value).sum::<f64>() / n;
    let own = each.iter().map(|(_, v)| v.uncertainty.powi(2)).sum::<f64>().sqrt() / n;
    let apart = each.iter().map(|(_, v)| (v.value - mean).abs()).fold(0.0, f64::max);
    Some((Value { value: mean, uncertainty: own.hypot(apart) }, each))
}

fn conclude(device: &DeviceStreams, out: &mut Calibration) {
    let told =
        |status, text: String| Finding::new("calibration", device.name.clone(), status, text);
    let mut entry =
        Entry::new(Subject::Device { name: device.name.clone(), driver: device.driver.clone() });
    match bias(&device.lengths) {
        None => out.findings.push(told(
            Status::Warning,
            "the span bias is not known: launching takes as long as the kernels, so the host sets the pace".to_owned(),
        )),
        Some((all, each)) => {
            let of = each.iter().map(|(ns, v)| format!("{:.0} us: {:+.0} +- {:.0} ns", ns / 1e3, v.value, v.uncertainty));
            let lengths = of.collect::<Vec<_>>().join(", ");
            let Value { value, uncertainty } = all;
            let text = if value > uncertainty {
                entry = entry.with(SPAN_BIAS, value, Some(uncertainty));
                format!("a span is {value:.0} +- {uncertainty:.0} ns longer than what a launch takes of the device ({lengths})")
            } else if value < -uncertainty {
                entry = entry.with(GAP, -value, Some(uncertainty));
                format!(
                    "spans are {:.0} +- {uncertainty:.0} ns shorter than the spacing of launches: the runtime pauses between commands, and what its spans contain besides the kernel is not known ({lengths})",
                    -value
                )
            } else {
                entry = entry.with(LIMIT, value + uncertainty, None);
                format!("no span bias is seen; it is below {:.0} ns ({lengths})", value + uncertainty)
            };
            entry.notes.push(format!("span minus spacing by kernel length: {lengths}"));
            out.findings.push(told(Status::Info, text));
        }
    }
    let cost = |of: fn(&Costs) -> f64| median(device.costs.iter().map(of).collect());
    type Figure = (&'static str, fn(&Costs) -> f64);
    let figures: [Figure; 5] = [
        ("launch-ns", |c| c.launch_ns),
        ("timed-launch-added-ns", |c| c.timed_launch_ns - c.launch_ns),
        ("harvest-ns", |c| c.harvest_ns),
        ("stream-ns", |c| c.stream_ns),
        ("timed-stream-added-ns", |c| c.timed_stream_ns - c.stream_ns),
    ];
    for (name, of) in figures {
        if let Some(v) = cost(of) {
            entry = entry.with(name, v.value, Some(v.uncertainty));
        }
    }
    let figure = |name: &str| entry.figures.get(name).map_or(f64::NAN, |f| f.value);
    if !device.costs.is_empty() {
        out.findings.push(told(
            Status::Info,
            format!(
                "an empty launch takes {:.0} ns of the host; timing adds {:.0} ns to it, {:.0} ns to read the times, {:.0} ns to each launch of a stream",
                figure("launch-ns"),
                figure("timed-launch-added-ns"),
                figure("harvest-ns"),
                figure("timed-stream-added-ns")
            ),
        ));
    }
    out.entries.push(entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(wanted_ns: f64, bias: f64, noise: f64) -> Length {
        let rounds = (0..15)
            .map(|i| (wanted_ns + bias + noise * (f64::from(i) - 7.0) / 7.0, wanted_ns))
            .collect();
        Length { wanted_ns, rounds, enqueueing: 0.2 }
    }

    #[test]
    fn a_constant_difference_is_a_bias_and_one_that_grows_is_uncertain() {
        let constant = [length(25e3, 1_900.0, 50.0), length(100e3, 1_900.0, 50.0)];
        let (all, each) = bias(&constant).unwrap();
        assert!((all.value - 1_900.0).abs() < 1e-9 && all.uncertainty < 50.0, "{all:?}");
        assert_eq!(each.len(), 2);
        let growing = [length(25e3, 500.0, 1.0), length(100e3, 2_000.0, 1.0)];
        let (all, _) = bias(&growing).unwrap();
        assert!(all.uncertainty >= 750.0, "half the difference between the lengths: {all:?}");
    }

    #[test]
    fn where_the_host_sets_the_pace_nothing_is_told() {
        let bound = |ns| Length { enqueueing: 0.95, ..length(ns, 900.0, 1.0) };
        assert!(bias(&[bound(25e3), bound(50e3)]).is_none());
        let mut out = Calibration::default();
        let device =
            DeviceStreams { name: "d".into(), lengths: vec![bound(25e3)], ..Default::default() };
        conclude(&device, &mut out);
        assert!(out.findings[0].detail.contains("host sets the pace"));
        assert!(!out.entries[0].figures.contains_key(SPAN_BIAS));
    }

    #[test]
    fn spans_shorter_than_the_spacing_are_no_negative_bias() {
        let mut out = Calibration::default();
        let lengths = vec![length(25e3, -4_000.0, 100.0), length(100e3, -4_200.0, 100.0)];
        let costs =
            vec![Costs { launch_ns: 3_200.0, timed_launch_ns: 9_600.0, ..Default::default() }; 15];
        conclude(&DeviceStreams { lengths, costs, ..Default::default() }, &mut out);
        let figures = &out.entries[0].figures;
        assert!(
            !figures.contains_key(SPAN_BIAS) && (figures[GAP].value - 4_100.0).abs() < 1.0,
            "{figures:?}"
        );
        assert_eq!(figures["timed-launch-added-ns"].value, 6_400.0);
        assert!(out.findings[1].detail.contains("timing adds 6400 ns"));
    }

    #[test]
    fn what_noise_explains_is_no_bias() {
        let mut out = Calibration::default();
        let lengths = vec![length(25e3, 300.0, 2_000.0), length(100e3, -100.0, 2_000.0)];
        conclude(&DeviceStreams { lengths, ..Default::default() }, &mut out);
        let figures = &out.entries[0].figures;
        assert!(!figures.contains_key(SPAN_BIAS) && figures[LIMIT].value > 300.0, "{figures:?}");
    }

    #[test]
    fn the_median_has_a_distribution_free_interval() {
        assert_eq!(median(vec![]), None);
        let v = median((1..=15).map(f64::from).collect()).unwrap();
        // Ranks 4 and 12 of 15 hold the median in 96.5 % of samples; one rank more to either side
        // is on the safe side.
        assert_eq!((v.value, v.uncertainty), (8.0, 4.0));
        assert_eq!(median(vec![3.0, 9.0]).unwrap().uncertainty, 3.0);
    }
}
