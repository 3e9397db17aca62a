//! The table of ranks or hosts.
#![forbid(unsafe_code)]

use super::Shown;
use super::table::{Table, percent, time};
use crate::output::count;
use clscope_io::text::Page;
use clscope_profile::report::places::{Place, PlaceBy, Places};
use std::fmt::Write;

/// Gaps between ranks that are named.
const SHOWN_GAPS: usize = 8;

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
    doubts(places, out);
}

/// What makes the table another than that of one whole job.
fn doubts(places: &Places, out: &mut Page) {
    let gaps = places.missing();
    let named = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    };
    let mut list: Vec<String> = gaps.iter().take(SHOWN_GAPS).map(named).collect();
    if gaps.len() > SHOWN_GAPS {
        list.push("others".to_owned());
    }
    if !list.is_empty() {
        let list = list.join(", ");
        let _ = writeln!(out, "  no trace of rank {list}: the mean is that of the ranks shown");
    }
    let said = |tell: &dyn Fn(&Place) -> Option<String>| {
        places.rows.iter().filter_map(tell).take(SHOWN_GAPS).collect::<Vec<String>>().join(", ")
    };
    let hosts = said(&|row| row.rank.filter(|_| row.host.is_none()).map(|rank| rank.to_string()));
    if !hosts.is_empty() {
        let _ = writeln!(out, "  more than one host has rank {hosts}: are the traces of one job?");
    }
    let traces = said(&|row| {
        let rank = row.rank.filter(|_| row.host.is_some() && row.traces > 1)?;
        Some(format!("rank {rank} is in {} traces", row.traces))
    });
    if !traces.is_empty() {
        let _ = writeln!(out, "  {traces}: are they of one job?");
    }
}
