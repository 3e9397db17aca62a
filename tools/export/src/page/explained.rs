//! Owns the pictures of what decides about a kernel's joules (`report --explain-energy`): what the run
//! and workers say, power over the run, and what is left of it. Refuses to compute what they show.

use super::ROWS;
use super::charts::{bar, dot};
use super::html::{Html, joules, time};
use super::tables::{count, figure, format_interval, more, or_below, percent, table};
use clscope_profile::energy::explained::{Explained, Reading};
use clscope_profile::interval::Interval;

/// Most points of a line in a picture.
const POINTS: usize = 1200;
/// Pieces of the run of which residuals have a mean.
const PIECES: usize = 60;

/// All of it.
pub fn explained(page: &mut Html, of: &Explained) {
    page.raw("<h3>What decides about the joules of ").name(&of.kernel).raw("</h3>\n");
    if let Some(why) = &of.absent {
        page.raw("<p>Absent: ").prose(why).raw("</p>\n");
        return;
    }
    let each = [
        ("All that is known", of.joules_per_launch),
        ("Readings of the run alone", of.run_joules_per_launch),
        ("Windows in which it ran alone", of.alone_joules_per_launch),
    ];
    let rows = each.iter().zip([of.joules_per_launch_below, None, None]);
    table(page, &["From", "Above idle, a launch#"], rows, |page, ((from, figure), below)| {
        page.raw("<td>").raw(from).raw("</td>");
        or_below(page, figure.as_ref(), below);
    });
    if let Some(sum) = of.run_joules.filter(|_| of.names.len() > 1) {
        page.raw("<p>The run's readings know only a sum: ").name(&of.names.join(" + "));
        page.raw(": ").put(format_interval(&sum, joules)).raw(" above idle.</p>\n");
    }
    sources(page, of, &each);
    windows(page, of);
    let Some((first, last)) = of.readings.first().zip(of.readings.last()) else { return };
    let over = Time { begin: first.at_ns, end: last.at_ns };
    powers(page, of, &over);
    residuals(page, of, &over);
    deciding(page, of);
}

/// Windows of it alone: measured, and predicted by the fit.
fn windows(page: &mut Html, of: &Explained) {
    if of.windows.is_empty() {
        return;
    }
    let columns =
        ["Window alone#", "Launches#", "W#", "J/launch above idle#", "Predicted#", "Moves it by#"];
    table(page, &columns, of.windows.iter().take(ROWS), |page, window| {
        figure(page, Some(window.seconds * 1e9), time);
        figure(page, Some(window.launches), count);
        figure(page, Some(window.watts), watts);
        figure(page, window.joules_per_launch, joules);
        figure(page, window.predicted_joules_per_launch, joules);
        figure(page, window.pull_watts, watts);
    });
    more(page, of.windows.len());
}

/// The readings of the run that move its power most.
fn deciding(page: &mut Html, of: &Explained) {
    let columns = ["Reading at#", "Measured#", "Predicted#", "It ran#", "Moves it by#"];
    let strongest = of.strongest.iter().filter_map(|at| of.readings.get(*at));
    table(page, &columns, strongest, |page, reading| {
        figure(page, Some(reading.at_ns as f64), time);
        figure(page, Some(reading.measured_watts), watts);
        figure(page, Some(reading.predicted_watts), watts);
        figure(page, Some(reading.share), percent);
        figure(page, Some(reading.pull_watts), watts);
    });
}

fn watts(of: f64) -> String {
    format!("{of:.2} W")
}

/// What each source says, with its interval, and a small dot for each window.
fn sources(page: &mut Html, of: &Explained, each: &[(&'static str, Option<Interval>)]) {
    let known = each.iter().filter_map(|(_, figure)| *figure);
    let ends = known.flat_map(|figure| [figure.low, figure.value, figure.high]);
    let windows = || of.windows.iter().filter_map(|window| window.joules_per_launch);
    let all: Vec<f64> = ends.chain(windows()).filter(|end| end.is_finite()).collect();
    let (low, high) = all.iter().fold((f64::MAX, f64::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
    if low >= high {
        return;
    }
    let x = |joules: f64| 340.0 + (joules.clamp(low, high) - low) / (high - low) * 850.0;
    page.raw("<figure><figcaption>Joules above idle of a launch: what each source says (large dots), with 95 % intervals, and single windows (small dots).</figcaption><svg viewBox=\"0 0 1200 104\" role=\"img\" aria-label=\"What the run and windows say\">");
    for (row, (name, figure)) in each.iter().enumerate() {
        let y = 18.0 + 26.0 * row as f64;
        page.raw("<text x=\"4\" y=\"").put(y + 4.0).raw("\">").raw(name);
        page.raw(if figure.is_some() { "</text>" } else { ": not known</text>" });
        if let Some(figure) = figure {
            if figure.longer().is_finite() {
                let from = x(figure.low);
                bar(page, (from, y - 3.0), ((x(figure.high) - from).max(1.0), 6.0));
            }
            dot(page, "5", x(figure.value), y);
        }
    }
    windows().for_each(|joules| dot(page, "2", x(joules), 82.0));
    page.raw("<text x=\"340\" y=\"100\">").put(joules(low));
    page.raw("</text><text x=\"1190\" y=\"100\" text-anchor=\"end\">").put(joules(high));
    page.raw("</text></svg></figure>\n");
}

/// From the first reading to the last, ns.
struct Time {
    begin: i64,
    end: i64,
}

impl Time {
    fn share(&self, of: &Reading) -> f64 {
        (of.at_ns - self.begin) as f64 / (self.end - self.begin).max(1) as f64
    }

    fn x(&self, of: &Reading) -> f64 {
        self.share(of) * 1192.0 + 4.0
    }

    /// Both ends below a picture, which ends.
    fn close(&self, page: &mut Html, y: u32) {
        page.raw("<text x=\"4\" y=\"").put(y).raw("\">").put(time(self.begin as f64));
        page.raw("</text><text x=\"1196\" y=\"").put(y).raw("\" text-anchor=\"end\">");
        page.put(time(self.end as f64)).raw("</text></svg></figure>\n");
    }
}

/// Readings that are drawn.
fn drawn(of: &Explained) -> impl Iterator<Item = &Reading> {
    of.readings.iter().step_by(of.readings.len().div_ceil(POINTS).max(1))
}

/// Large dots for the readings that move the kernel's power most.
fn strongest(page: &mut Html, of: &Explained, at: impl Fn(&Reading) -> (f64, f64)) {
    for reading in of.strongest.iter().filter_map(|at| of.readings.get(*at)) {
        let (x, y) = at(reading);
        page.raw("<g><title>").put(format_args!(
            "{:.1} W measured, {:.1} W predicted: moves its power by {:+.2} W",
            reading.measured_watts, reading.predicted_watts, reading.pull_watts
        ));
        page.raw("</title>");
        dot(page, "5", x, y);
        page.raw("</g>");
    }
}

/// Measured and predicted power over the run.
fn powers(page: &mut Html, of: &Explained, over: &Time) {
    let watts = of.readings.iter().flat_map(|r| [r.measured_watts, r.predicted_watts]);
    let top = watts.fold(1e-9, f64::max);
    let level = |watts: f64| 142.0 - watts.max(0.0) / top * 122.0;
    page.raw("<figure><figcaption>Power measured (dots) and predicted (line), up to ");
    page.put(format_args!("{top:.1} W"));
    page.raw(". Large dots: readings that move its power most.</figcaption><svg viewBox=\"0 0 1200 160\" role=\"img\" aria-label=\"Measured and predicted power\"><polyline class=\"power\" points=\"");
    for reading in drawn(of) {
        page.put(format_args!("{:.1},{:.1} ", over.x(reading), level(reading.predicted_watts)));
    }
    page.raw("\"/>");
    drawn(of).for_each(|r| dot(page, "1.4", over.x(r), level(r.measured_watts)));
    strongest(page, of, |r| (over.x(r), level(r.measured_watts)));
    over.close(page, 156);
}

/// What the prediction leaves of each reading, over the run.
fn residuals(page: &mut Html, of: &Explained, over: &Time) {
    let most = of.readings.iter().map(|r| r.residual().abs()).fold(1e-9, f64::max);
    let typical = of.residual_watts.unwrap_or(0.0);
    let level = |watts: f64| 76.0 - watts / most * 62.0;
    page.raw("<figure><figcaption>Measured less predicted power, up to ");
    page.put(format_args!("{most:.1} W")).raw(" from 0. Bar: the root mean square, ");
    page.put(format_args!("{typical:.2} W")).raw(". Line: means over a ").put(PIECES);
    page.raw("th of the run, which stay near 0 unless power changed in a way that the model does not know.");
    if let Some(correlation) = of.residual_correlation {
        page.raw(" A reading and the next correlate by ").put(format_args!("{correlation:.2}."));
    }
    page.raw("</figcaption><svg viewBox=\"0 0 1200 160\" role=\"img\" aria-label=\"Measured less predicted power\">");
    bar(page, (4.0, level(typical)), (1192.0, (level(-typical) - level(typical)).max(1.0)));
    drawn(of).for_each(|r| dot(page, "1.4", over.x(r), level(r.residual())));
    strongest(page, of, |r| (over.x(r), level(r.residual())));
    let mut sums = [(0.0, 0u32); PIECES];
    for reading in &of.readings {
        let at = (over.share(reading) * PIECES as f64) as usize;
        let sum = &mut sums[at.min(PIECES - 1)];
        *sum = (sum.0 + reading.residual(), sum.1 + 1);
    }
    page.raw("<polyline class=\"power\" points=\"");
    for (piece, (sum, n)) in sums.iter().enumerate().filter(|(_, of)| of.1 > 0) {
        let x = (piece as f64 + 0.5) / PIECES as f64 * 1192.0 + 4.0;
        page.put(format_args!("{x:.1},{:.1} ", level(sum / f64::from(*n))));
    }
    page.raw("\"/>");
    over.close(page, 156);
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_profile::energy::explained::Window;

    /// A kernel of 21 mJ a launch; power rises by 2 W over the run, which the prediction does not know.
    fn example() -> Explained {
        let reading = |i: u32| {
            let busy = i % 40 < 30;
            let predicted = if busy { 380.0 } else { 126.0 };
            let off = 0.01 * f64::from(i) - 1.0 + 1.5 * f64::from(i * 7919 % 101) / 101.0;
            Reading {
                at_ns: 1_000_000_000 + 20_000_000 * i64::from(i),
                length_ns: 0,
                measured_watts: predicted + off,
                predicted_watts: predicted,
                share: f64::from(u8::from(busy)),
                pull_watts: 0.01 * off,
            }
        };
        let window = |i: u32| Window {
            seconds: 0.4,
            launches: 1e4,
            watts: 430.0,
            joules_per_launch: Some(0.021 + 1e-4 * f64::from(i)),
            predicted_joules_per_launch: Some(0.021),
            pull_watts: Some(0.1),
        };
        Explained {
            kernel: "stencil".to_owned(),
            names: vec!["stencil".to_owned(), "reduce".to_owned()],
            joules_per_launch: Some(Interval::estimated(0.0212, 0.0209, 0.0216)),
            alone_joules_per_launch: Some(Interval::estimated(0.0213, 0.0207, 0.0218)),
            run_joules: Some(Interval::estimated(214.0, 212.0, 216.0)),
            windows: (0..6).map(window).collect(),
            readings: (0..300).map(reading).collect(),
            strongest: vec![12, 80, 233],
            residual_watts: Some(1.4),
            residual_correlation: Some(0.62),
            ..Explained::default()
        }
    }

    fn drawn(of: &Explained) -> String {
        let mut page = Html::default();
        explained(&mut page, of);
        page.finish()
    }

    #[test]
    fn sources_powers_and_residuals_are_drawn_inside_their_pictures() {
        let page = drawn(&example());
        assert_eq!(page.matches("<svg").count(), 3, "{page}");
        assert!(page.contains("know only a sum: stencil + reduce") && page.contains("not known"));
        for picture in page.split("<svg viewBox=\"0 0 1200 ").skip(1) {
            let most: f64 = picture.split('"').next().unwrap().parse().unwrap();
            for (name, most) in [(" cy=\"", most), (" cx=\"", 1200.0), (" y=\"", most)] {
                for of in picture.split(name).skip(1) {
                    let at: f64 = of.split('"').next().unwrap().parse().unwrap();
                    assert!((0.0..=most).contains(&at), "{name}{at}: {picture}");
                }
            }
        }
        // What is not known is not drawn.
        let nothing =
            Explained { joules_per_launch: None, alone_joules_per_launch: None, ..example() };
        let nothing = Explained { windows: Vec::new(), readings: Vec::new(), ..nothing };
        assert_eq!(drawn(&nothing).matches("<svg").count(), 0);
        let absent = Explained { absent: Some("why".to_owned()), ..Explained::default() };
        assert!(drawn(&absent).contains("Absent: why"));
    }
}
