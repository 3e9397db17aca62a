//! The table of ranks or hosts.

use super::Shown;
use crate::figure::{dash, or_bound, plus_minus, si};
use crate::table::{PLUS_MINUS, Table, percent, time};
use clscope_io::text::{Page, count};
use clscope_profile::report::places::{Place, PlaceBy, Places};
use std::fmt::Write;

/// Appends the table and what it says.
pub fn render(places: &Places, shown: &Shown, out: &mut Page) {
    let what = match places.by {
        PlaceBy::Rank => {
            let ranks = places.rows.iter().filter(|row| row.rank.is_some()).count();
            count(ranks as u64, "rank", "ranks")
        }
        PlaceBy::Host => count(places.rows.len() as u64, "host", "hosts"),
    };
    let _ = writeln!(out, "\n{what}, by time of their kernels and transfers on devices");
    let titles = [
        "of mean",
        "device time",
        PLUS_MINUS,
        "waits",
        "joules",
        PLUS_MINUS,
        "launches",
        "processes",
        "where",
    ];
    let mut table = Table::new(&titles);
    let mut rows: Vec<&Place> = places.rows.iter().collect();
    // A stable sort: equal ones stay by rank.
    let device = |place: &Place| place.device_ns.map_or(-1.0, |t| t.value);
    rows.sort_by(|a, b| device(b).total_cmp(&device(a)));
    let most = shown.limit(rows.len());
    for place in &rows[..most] {
        table.row(vec![
            percent(place.of_mean),
            dash(
                place.device_ns.map(|t| {
                    format!("{}{}", if t.estimated { "~" } else { "" }, or_bound(&t, time))
                }),
            ),
            dash(place.device_ns.filter(|t| t.estimated).as_ref().map(plus_minus)),
            time(place.wait_ns as f64),
            dash(place.joules.map(|j| or_bound(&j, |j| si(j, "J")))),
            dash(place.joules.as_ref().map(plus_minus)),
            place.launches.to_string(),
            place.processes.to_string(),
            place.name(),
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
        let _ = write!(out, "; slowest: {}", place.name());
        if let (Some(kernel), Some(more)) = (&slowest.name, slowest.more_ns) {
            let _ = write!(out, ", {} more than the mean in {}", time(more), kernel);
        }
        if let Some(launches) = slowest.launches_of_mean {
            let _ = write!(out, ", with {} of the mean's launches", percent(Some(launches)));
        }
        let _ = writeln!(out);
    }
    for doubt in places.doubts() {
        let _ = writeln!(out, "  {doubt}");
    }
}
