//! Owns the figures of several runs as text for people.

use crate::figure::{self, dash, or_bound, si};
use crate::table::{Column, PLUS_MINUS, Table, time, wrapped};
use clscope_compare::repeat::{Repeated, Row, Spread};
use clscope_io::text::Page;
use clscope_profile::interval::Interval;
use std::fmt::Write;

/// What stands behind the mean; a single run has none.
fn plus_minus(of: &Spread) -> String {
    dash(of.sd.map(|_| figure::plus_minus(&of.mean)))
}

/// All figures; at most so many rows of kernels and transfers, in so many columns.
pub fn render(of: &Repeated, most: usize, width: usize) -> String {
    let mut out = Page::default();
    let runs = if of.runs == 1 { "one run".to_owned() } else { format!("{} runs", of.runs) };
    put!(out, "\n{}: {runs}\n", of.command.join(" "));
    let mut table = Table::new(&["mean", PLUS_MINUS, "least", "most", "of a run"]);
    let mut row = |of: Option<&Spread>, text: &dyn Fn(f64) -> String, what: &str| {
        if let Some(of) = of {
            let cells = [or_bound(&of.mean, text), plus_minus(of), text(of.min), text(of.max)];
            table.row(cells.into_iter().chain([what.to_owned()]).collect());
        }
    };
    row(Some(&of.wall_ns), &time, "wall time");
    row(Some(&of.user_ns), &time, "CPU time in user mode");
    row(Some(&of.system_ns), &time, "CPU time in the kernel");
    row(of.kernel_ns.as_ref(), &time, "device time of kernels");
    row(of.transfer_ns.as_ref(), &time, "device time of transfers");
    for energy in &of.energy {
        let within = si(energy.within_joules, "J");
        let what = format!("{} (each run within {within})", energy.sensor);
        row(Some(&energy.joules), &|j| si(j, "J"), &what);
        row(Some(&energy.mean_watts), &|w| si(w, "W"), "  of it, mean power");
    }
    out.push_str(&table.render(width));
    if let Some(why) = &of.no_energy {
        put!(out, "\nEnergy: absent: {why}");
    }
    if !of.rows.is_empty() {
        out.push_str("\n");
        let spread = |of: &Option<Spread>| dash(of.map(|s| or_bound(&s.mean, time)));
        let half = |of: &Option<Spread>| dash(of.as_ref().map(plus_minus));
        let joules = |j: &Interval| or_bound(j, |j| si(j, "J"));
        let name = |row: &Row| match (&row.device, row.kind) {
            (Some(device), "kernel") => format!("{} on {device}", row.name),
            _ => row.name.clone(),
        };
        let columns: [Column<'_, Row>; 8] = [
            ("launches", true, &|row| format!("{:.0}", row.launches.mean.value)),
            ("total", true, &|row| spread(&row.total_ns)),
            (PLUS_MINUS, true, &|row| half(&row.total_ns)),
            ("a launch", true, &|row| spread(&row.launch_ns)),
            (PLUS_MINUS, true, &|row| half(&row.launch_ns)),
            ("J a launch", true, &|row| dash(row.joules_per_launch.as_ref().map(joules))),
            (PLUS_MINUS, true, &|row| dash(row.joules_per_launch.as_ref().map(figure::plus_minus))),
            ("kernel or transfer", true, &name),
        ];
        out.push_str(&Table::of_rows(of.rows.iter().take(most), &columns).render(width));
        if of.rows.len() > most {
            put!(out, "  and {} more: --limit 0", of.rows.len() - most);
        }
    }
    out.push_str(
        "\n+- is the 95 % interval, -a/+b where its sides differ: of the mean over runs (Student's t), of joules from the \
         readings of all runs together.\n",
    );
    if let Some(next) = &of.next {
        put!(out, "{next}");
    }
    wrapped(&out.into_string(), width)
}
