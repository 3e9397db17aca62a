//! Owns the figures of several runs as text for people.

use crate::figure::{dash, si};
use crate::table::{Table, time, wrapped};
use clscope_compare::repeat::{Repeated, Spread};
use clscope_io::text::Page;
use std::fmt::Write;

/// The half-width of the mean's interval as a share of it.
fn plus_minus(of: &Spread) -> String {
    match of.sd {
        Some(_) if of.mean.value > 0.0 => {
            format!("{:.2} %", 100.0 * of.mean.half() / of.mean.value)
        }
        _ => "-".to_owned(),
    }
}

/// All figures; at most so many rows of kernels and transfers, in so many columns.
pub fn render(of: &Repeated, most: usize, width: usize) -> String {
    let mut out = Page::default();
    let runs = if of.runs == 1 { "one run".to_owned() } else { format!("{} runs", of.runs) };
    let _ = writeln!(out, "\n{}: {runs}\n", of.command.join(" "));
    let mut table = Table::new(&["mean", "+-", "least", "most", "of a run"]);
    let mut row = |of: Option<&Spread>, text: &dyn Fn(f64) -> String, what: &str| {
        if let Some(of) = of {
            let cells = [text(of.mean.value), plus_minus(of), text(of.min), text(of.max)];
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
        let _ = writeln!(out, "\nEnergy: absent: {why}");
    }
    if !of.rows.is_empty() {
        out.push_str("\n");
        let titles =
            ["launches", "total", "+-", "a launch", "+-", "J a launch", "+-", "kernel or transfer"];
        let mut table = Table::new(&titles);
        for row in of.rows.iter().take(most) {
            let spread = |of: &Option<Spread>| {
                let (value, half) = (of.map(|s| time(s.mean.value)), of.as_ref().map(plus_minus));
                [dash(value), dash(half)]
            };
            let [total, total_half] = spread(&row.total_ns);
            let [launch, launch_half] = spread(&row.launch_ns);
            let joules = row.joules_per_launch;
            let half = joules.and_then(|j| j.relative()).map(|r| format!("{:.1} %", 100.0 * r));
            let name = match (&row.device, row.kind) {
                (Some(device), "kernel") => format!("{} on {device}", row.name),
                _ => row.name.clone(),
            };
            table.row(vec![
                format!("{:.0}", row.launches.mean.value),
                total,
                total_half,
                launch,
                launch_half,
                dash(joules.map(|j| si(j.value, "J"))),
                dash(half),
                name,
            ]);
        }
        out.push_str(&table.render(width));
        if of.rows.len() > most {
            let _ = writeln!(out, "  and {} more: --limit 0", of.rows.len() - most);
        }
    }
    out.push_str(
        "\n+- is half of the 95 % interval: of the mean over runs (Student's t), of joules from the \
         readings of all runs together.\n",
    );
    if let Some(next) = &of.next {
        let _ = writeln!(out, "{next}");
    }
    wrapped(&out.into_string(), width)
}
