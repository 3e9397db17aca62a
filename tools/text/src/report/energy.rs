//! Owns the energy section of the report for people: joules per kernel with what they rest on,
//! floors, sums, and why there is none where there is none.

use super::{Shown, limited};
use crate::figure::{dash, or_bound, plus_minus, si, some_names};
use crate::table::{Column, PLUS_MINUS, Table, percent, time};
use clscope_io::text::{Page, count};
use clscope_profile::energy::activity::CAPTURED;
use clscope_profile::energy::explained::{Explained, Window};
use clscope_profile::energy::result::{Class, DeviceEnergy, Energy};
use clscope_profile::interval::Interval;
use std::fmt::Write;

/// The section.
pub(super) fn render(energy: &Energy, shown: &Shown, out: &mut Page) {
    if let Some(why) = &energy.absent {
        put!(out, "\nEnergy: absent: {why}");
    }
    let explained: Vec<_> =
        energy.devices.iter().filter_map(|d| Some((d, d.explained.as_ref()?))).collect();
    for (device, of) in &explained {
        explain(device, of, shown, out);
    }
    if !explained.is_empty() {
        return;
    }
    for device in &energy.devices {
        write_device(device, shown, out);
    }
    for other in energy.unmeasured.iter().filter(|_| energy.absent.is_none()) {
        put!(out, "\nEnergy of {}: absent: {}", other.device, other.why);
    }
    if !energy.application.is_empty() {
        out.push_str("\nEnergy counters from start to end of the application\n");
        let mut table = Table::new(&["energy", "within", "mean", "samples", "counter"]);
        for c in &energy.application {
            let includes = c.includes.as_ref().map_or_else(String::new, |i| format!(": {i}"));
            let differ = dash(c.samples_differ.map(|d| format!("{:+.2}%", d * 100.0)));
            let name = format!("{} ({}{includes})", c.sensor, c.plane);
            table.row(vec![
                si(c.joules, "J"),
                si(c.within, "J"),
                si(c.joules / c.seconds, "W"),
                differ,
                name,
            ]);
        }
        out.push_str(&table.render(shown.width));
    }
    if let Some(s) = energy.sampler.as_ref().filter(|_| energy.absent.is_none()) {
        let cpu = time(s.cpu_seconds * 1e9);
        put!(
            out,
            "  Sampling took {cpu} of CPU time in {}: {} of a core",
            time(s.seconds * 1e9),
            percent(Some(s.share))
        );
    }
    for note in &energy.notes {
        put!(out, "  note: {note}");
    }
}

fn write_device(d: &DeviceEnergy, shown: &Shown, out: &mut Page) {
    if let Some(joules) = d.measured_joules {
        let mean = dash(d.mean_watts.map(|w| si(w, "W")));
        let (joules, seconds) = (si(joules, "J"), time(d.seconds * 1e9));
        let part = d.in_window();
        let at = d.temperature.map_or_else(String::new, |t| format!(", at {}", t.range()));
        put!(out, "\nEnergy of {}{part}: {joules} in {seconds}, {mean} mean{at}", d.device);
    } else {
        put!(out, "\nEnergy of {}{}: not known", d.device, d.in_window());
    }
    put!(
        out,
        "  {} by {} ({}), matched by {}: {}",
        d.equation,
        d.formula,
        d.includes,
        d.matched,
        d.reason
    );
    if let Some(t) = d.temperature {
        let share =
            |of: &Interval| format!("{:.2} % +- {:.2}", 100.0 * of.value, 100.0 * of.longer());
        put!(
            out,
            "  a degree adds {} to idle power and {} above it, by {}",
            share(&t.idle_per_degree),
            share(&t.above_idle_per_degree),
            count(t.runs as u64, "run", "runs")
        );
    }
    if let Some(reference) = d.reference_joules {
        put!(out, "  by the formula pkg-pp0-dram: {}", si(reference, "J"));
    }
    if let Some(verdict) = &d.containment {
        put!(out, "  DRAM inside PKG: {verdict}");
    }
    if let Some(why) = &d.failed {
        put!(out, "  not attributed: {why}");
        alone(d, shown, out);
        notes(d, out);
        next(d, out);
        return;
    }
    let rows: Vec<&Class> =
        d.classes.iter().filter(|c| c.kind != "kernel" || shown.matches(&c.name)).collect();
    let order = |c: &&Class| c.joules.map_or(-1.0, |j| j.value);
    let mut rows = rows;
    rows.sort_by(|a, b| order(b).total_cmp(&order(a)));
    let reference = rows.iter().any(|c| c.reference_watts.is_some());
    let at_reference = rows.iter().any(|c| c.per_launch_at_reference.is_some());
    let watts = |w: &Interval| or_bound(w, |w| si(w, "W"));
    let share = |c: &Class| {
        let measured = d.own_joules().filter(|all| all.value > 0.0);
        percent(c.joules.zip(measured).map(|(j, all)| j.value / all.value))
    };
    let columns: [Column<'_, Class>; 11] = [
        ("share", true, &share),
        ("energy", true, &|c| dash(c.joules.map(|j| or_bound(&j, |j| si(j, "J"))))),
        ("launches", true, &|c| format!("{:.0}", c.launches)),
        ("J/launch", true, &|c| dash(joules_per_launch(c))),
        ("W", true, &|c| dash(c.watts.as_ref().map(watts))),
        (PLUS_MINUS, true, &|c| dash(c.watts.as_ref().map(plus_minus))),
        ("above idle", true, &|c| dash(dynamic(c))),
        ("idle", true, &|c| dash(c.idle_joules.as_ref().map(part))),
        ("J/launch at 50 C", at_reference, &|c| dash(c.per_launch_at_reference.as_ref().map(part))),
        ("pkg-pp0-dram", reference, &|c| {
            dash(c.reference_watts.map(|w| w.in_words(|w| si(w, "W"))))
        }),
        ("kernel or transfer", true, &|c| c.name.clone()),
    ];
    limited(rows.iter().copied(), &columns, shown, out);
    not_measured(&rows, !d.replays.is_empty(), out);
    for g in d.groups.iter().filter(|g| g.names.len() > 1) {
        let names = g.names.join(" + ");
        put!(
            out,
            "  only the sum is measurable: {names}: {}, {} while any of them runs",
            in_joules(&g.joules),
            g.watts.in_words(|w| si(w, "W"))
        );
    }
    for f in &d.floors {
        let level =
            f.watts.map_or_else(|| "not known".to_owned(), |watts| watts.in_words(|w| si(w, "W")));
        put!(
            out,
            "  idle power {}: {level}; for {}: {}",
            f.name,
            time(f.idle_seconds * 1e9),
            dash(f.joules.as_ref().map(in_joules))
        );
    }
    if let Some(g) = &d.gaps {
        put!(
            out,
            "  gaps between launches: {}, {}",
            time(g.seconds * 1e9),
            dash(g.joules.as_ref().map(in_joules))
        );
    }
    let part = d.unattributed_joules.zip(d.own_joules().filter(|all| all.value > 0.0));
    let part = percent(part.map(|(rest, all)| rest / all.value));
    let rest = dash(d.unattributed.map(|rest| rest.with_ends(|j| si(j, "J"))));
    put!(out, "  not assigned: {rest} ({part})");
    if let Some(i) = &d.iteration {
        put!(
            out,
            "  iteration ({}): {} in {}, {} of them",
            i.kernel,
            in_joules(&i.joules),
            time(i.seconds * 1e9),
            i.iterations
        );
    }
    let delays: Vec<String> = rows
        .iter()
        .filter(|c| c.kind == "kernel")
        .filter_map(|c| Some(format!("{} {}", c.name, si(c.energy_delay?, "Js"))))
        .take(3)
        .collect();
    if !delays.is_empty() {
        put!(out, "  energy-delay product of a launch: {}", delays.join(", "));
    }
    let per_watt: Vec<String> = rows
        .iter()
        .filter_map(|c| {
            c.gflop_per_joule.map(|g| format!("{} {}", c.name, g.in_words(|g| si(g, "GFLOP/s/W"))))
        })
        .collect();
    if !per_watt.is_empty() {
        put!(out, "  operations: {}", per_watt.join(", "));
    }
    repetitions(d, out);
    if let Some(r) = &d.response {
        put!(
            out,
            "  sensor {}: a reading every {}, window {}, lag {}, delay {}; {} readings",
            d.sensors.join(", "),
            time(r.period_seconds * 1e9),
            time(r.window_seconds * 1e9),
            time(r.lag_seconds * 1e9),
            time(r.delay_seconds * 1e9),
            d.readings
        );
    }
    notes(d, out);
    next(d, out);
}

/// Characters of the line that shows residuals over time.
const COLUMNS: usize = 60;

/// What decides about the joules of one kernel or transfer.
fn explain(d: &DeviceEnergy, of: &Explained, shown: &Shown, out: &mut Page) {
    let (device, part) = (&d.device, d.in_window());
    put!(out, "\nEnergy of {} on {device}{part}: what decides about it", of.kernel);
    if let Some(why) = &of.absent {
        put!(out, "  absent: {why}");
    }
    let mut table = Table::new(&["above idle, a launch", "from"]);
    let windows = of.windows.len();
    let sources = [
        (&of.joules_per_launch, "all that is known: the report's figure".to_owned()),
        (&of.run_joules_per_launch, format!("the run's own {} readings", of.readings.len())),
        (
            &of.alone_joules_per_launch,
            match windows {
                1 => "one window in which it ran alone".to_owned(),
                _ => format!("{windows} windows in which it ran alone"),
            },
        ),
    ];
    for (at, (joules, from)) in sources.into_iter().enumerate() {
        let below = of.joules_per_launch_below.filter(|_| at == 0);
        table.row(vec![dash(or_below(joules.as_ref().map(in_joules), below)), from]);
    }
    out.push_str(&table.render(shown.width));
    if of.names.len() > 1 {
        let sum = of.run_joules.as_ref().map(in_joules);
        put!(out, "  the run's readings know only a sum: {}: {}", of.names.join(" + "), dash(sum));
    }
    if !of.windows.is_empty() {
        out.push_str(
            "  windows in which it ran alone: measured above idle, and predicted by the fit\n",
        );
        let columns: [Column<'_, Window>; 6] = [
            ("length", true, &|of| time(of.seconds * 1e9)),
            ("launches", true, &|of| format!("{:.0}", of.launches)),
            ("W", true, &|of| si(of.watts, "W")),
            ("J/launch", true, &|of| dash(of.joules_per_launch.map(|j| si(j, "J")))),
            ("predicted", true, &|of| dash(of.predicted_joules_per_launch.map(|j| si(j, "J")))),
            ("moves it by", true, &|of| dash(of.pull_watts.map(|w| si(w, "W")))),
        ];
        limited(of.windows.iter(), &columns, shown, out);
    }
    let Some(residual) = of.residual_watts.filter(|_| !of.readings.is_empty()) else { return };
    out.push_str("  readings of the run that move its power most\n");
    let mut table = Table::new(&["at", "measured", "predicted", "share", "moves it by"]);
    for reading in of.strongest.iter().filter_map(|at| of.readings.get(*at)) {
        table.row(vec![
            time(reading.at_ns as f64),
            si(reading.measured_watts, "W"),
            si(reading.predicted_watts, "W"),
            percent(Some(reading.share)),
            si(reading.pull_watts, "W"),
        ]);
    }
    out.push_str(&table.render(shown.width));
    let correlation = of.residual_correlation.unwrap_or(0.0);
    put!(
        out,
        "  measured less predicted over the run: {} in the root mean square, a reading and the next correlate by {correlation:.2}",
        si(residual, "W")
    );
    put!(out, "  {}  + above, - below, by more than that", signs(of, residual));
}

/// Measured less predicted power in pieces of the run, a character each: `+` where its mean is above
/// `scale`, `-` where it is below minus that, a space where there is no reading.
fn signs(of: &Explained, scale: f64) -> String {
    let ends = of.readings.first().zip(of.readings.last());
    let Some((first, last)) = ends else { return String::new() };
    let length = (last.at_ns - first.at_ns).max(1) as f64;
    let mut sums = [(0.0, 0u32); COLUMNS];
    for reading in &of.readings {
        let at = (reading.at_ns - first.at_ns) as f64 / length * COLUMNS as f64;
        let sum = &mut sums[(at as usize).min(COLUMNS - 1)];
        *sum = (sum.0 + reading.residual(), sum.1 + 1);
    }
    let sign = |(sum, n): (f64, u32)| match sum / f64::from(n) {
        _ if n == 0 => ' ',
        mean if mean > scale => '+',
        mean if mean < -scale => '-',
        _ => '.',
    };
    sums.map(sign).iter().collect()
}

/// What would make more known.
fn next(d: &DeviceEnergy, out: &mut Page) {
    if let Some(next) = &d.next {
        put!(out, "  next: {next}");
    }
}

/// Repetitions of a run that is itself too short for its sensor.
fn alone(d: &DeviceEnergy, shown: &Shown, out: &mut Page) {
    let known: Vec<_> = d.replays.iter().filter_map(|r| Some((r, r.joules_per_launch?))).collect();
    if known.is_empty() {
        return;
    }
    out.push_str("  single launches repeated alone, with idle power and the gaps between them:\n");
    let mut table = Table::new(&["J/launch", PLUS_MINUS, "W", "batches", "kernel or transfer"]);
    for (r, joules) in known {
        table.row(vec![
            or_bound(&joules, |j| si(j, "J")),
            plus_minus(&joules),
            dash(r.watts.map(|w| or_bound(&w, |w| si(w, "W")))),
            r.batches.to_string(),
            r.name.clone(),
        ]);
    }
    out.push_str(&table.render(shown.width));
}

/// What was repeated, and what could not be.
fn repetitions(d: &DeviceEnergy, out: &mut Page) {
    if let Some(r) = &d.repetitions {
        if let Some(from) = &r.from {
            let batches: usize = d.replays.iter().map(|r| r.batches).sum();
            put!(out, "  measured alone: {batches} windows, from {from}");
        }
        if r.seconds > 0.0 {
            put!(
                out,
                "  repeated: {} in {}, {}, which are no part of the rows above",
                d.batches_told(),
                time(r.seconds * 1e9),
                in_joules(&r.joules)
            );
        }
    }
    let mut refused: Vec<(&str, &str)> =
        d.replays.iter().filter_map(|r| Some((r.name.as_str(), r.failed.as_deref()?))).collect();
    refused.sort_unstable();
    refused.dedup();
    for (name, why) in refused {
        put!(out, "  not measured alone: {name}: {why}");
    }
}

/// What running added, or its upper end.
fn dynamic(of: &Class) -> Option<String> {
    or_below(of.dynamic_joules.as_ref().map(part), of.dynamic_joules_below)
}

/// Joules of a launch, or their upper end.
fn joules_per_launch(of: &Class) -> Option<String> {
    let figure = of.joules_per_launch.map(|j| or_bound(&j, |j| si(j, "J")));
    or_below(figure, of.joules_per_launch_below)
}

/// A figure in joules, or what it is below.
fn or_below(figure: Option<String>, below: Option<f64>) -> Option<String> {
    figure.or_else(|| below.map(|most| format!("<{}", si(most, "J"))))
}

/// A part of a row's energy with its own interval.
fn part(of: &Interval) -> String {
    let half = of.spoken().plus_minus().map(|half| format!(" {half}"));
    or_bound(of, |j| si(j, "J")) + &half.unwrap_or_default()
}

/// Joules in a sentence.
fn in_joules(of: &Interval) -> String {
    of.in_words(|j| si(j, "J"))
}

/// Longest run that is worth naming as what a figure needs, in seconds.
const LONGEST: f64 = 3600.0;

/// Names in a line about what has no figure.
const NAMED: usize = 4;

/// What has no joules of its own and is in no sum, and what would measure it.
fn not_measured(rows: &[&Class], is_repeated: bool, out: &mut Page) {
    // What the recorder itself copied is nobody's question.
    let is_unknown = |c: &&&Class| c.joules.is_none() && !c.is_in_sum() && c.name != CAPTURED;
    let unknown: Vec<&&Class> = rows.iter().filter(is_unknown).collect();
    if unknown.is_empty() {
        return;
    }
    let names: Vec<&str> = unknown.iter().map(|c| c.name.as_str()).collect();
    let names = some_names(&names, NAMED).join(", ");
    let needed = unknown.iter().filter_map(|c| c.needed_seconds).reduce(f64::max);
    let how = match needed.filter(|s| *s <= LONGEST) {
        Some(s) => format!("record a run of {}", time(s * 1e9)),
        None if is_repeated => "record longer, or with a larger --replay".to_owned(),
        None => "record it with --replay, or longer".to_owned(),
    };
    put!(out, "  not measured: {names}: {how}");
}

fn notes(d: &DeviceEnergy, out: &mut Page) {
    for note in &d.notes {
        put!(out, "  note: {note}");
    }
}
