//! The table of ranks or hosts.
#![forbid(unsafe_code)]

use super::Shown;
use super::table::{Table, percent, time};
use crate::output::count;
use clscope_io::text::Page;
use clscope_profile::report::places::{Place, PlaceBy, Places};
use std::fmt::Write;

fn name(place: &Place) -> String {
    match (place.rank, &place.host) {
        (Some(rank), Some(host)) => format!("rank {rank} on {host}"),
        (Some(rank), None) => format!("rank {rank} on several hosts"),
        (None, host) => host.clone().unwrap_or_default(),
    }
}

/// Appends the table and what it says.
pub fn render(places: &Places, shown: &Shown, out: &mut Page) {
    let what = match places.by {
        PlaceBy::Rank => count(places.rows.len() as u64, "rank", "ranks"),
        PlaceBy::Host => count(places.rows.len() as u64, "host", "hosts"),
    };
    let _ = writeln!(out, "\n{what}, by time of their kernels and transfers on devices");
    let titles =
        ["of mean", "device time", "waits", "joules", "+-", "launches", "processes", "where"];
    let mut table = Table::new(&titles);
    let mut rows: Vec<&Place> = places.rows.iter().collect();
    // A stable sort: equal ones stay by rank.
    let device = |place: &Place| place.device_ns.map_or(-1.0, |t| t.value);
    rows.sort_by(|a, b| device(b).total_cmp(&device(a)));
    let dash = || "-".to_owned();
    let most = shown.limit(rows.len());
    for place in &rows[..most] {
        table.row(vec![
            percent(place.of_mean),
            place.device_ns.map_or_else(dash, |t| {
                format!("{}{}", if t.estimated { "~" } else { "" }, time(t.value))
            }),
            time(place.wait_ns as f64),
            place.joules.map_or_else(dash, |j| format!("{:.3}J", j.value)),
            percent(place.joules.and_then(|j| j.relative())),
            place.launches.to_string(),
            place.processes.to_string(),
            name(place),
        ]);
    }
    out.push_str(&table.render(shown.width));
    if most < rows.len() {
        let _ = writeln!(out, "  and {} more: --limit 0 shows all", rows.len() - most);
    }
    if let Some(imbalance) = places.imbalance {
        let _ =
            write!(out, "  imbalance: the largest is {} above the mean", percent(Some(imbalance)));
    }
    if let Some(slowest) = &places.slowest
        && let Some(place) = places.rows.get(slowest.row)
    {
        let _ = write!(out, "; slowest: {}", name(place));
        if let (Some(kernel), Some(more)) = (&slowest.name, slowest.more_ns) {
            let _ = write!(out, ", {} more than the mean in {}", time(more), kernel);
        }
        if let Some(launches) = slowest.launches_of_mean {
            let _ = write!(out, ", with {} of the mean's launches", percent(Some(launches)));
        }
        let _ = writeln!(out);
    }
}
