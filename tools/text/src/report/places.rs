//! The table of ranks or hosts.

use super::{Shown, limited};
use crate::figure::{dash, or_bound, plus_minus, si};
use crate::table::{Column, PLUS_MINUS, percent, time};
use clscope_io::text::{Page, count};
use clscope_profile::interval::Interval;
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
    put!(out, "\n{what}, by time of their kernels and transfers on devices");
    let mut rows: Vec<&Place> = places.rows.iter().collect();
    // A stable sort: equal ones stay by rank.
    let device = |place: &Place| place.device_ns.map_or(-1.0, |t| t.value);
    rows.sort_by(|a, b| device(b).total_cmp(&device(a)));
    let device_time = |place: &Place| {
        let mark = |t: &Interval| if t.estimated { "~" } else { "" };
        dash(place.device_ns.map(|t| format!("{}{}", mark(&t), or_bound(&t, time))))
    };
    let device_half =
        |place: &Place| dash(place.device_ns.filter(|t| t.estimated).as_ref().map(plus_minus));
    let columns: [Column<'_, Place>; 9] = [
        ("of mean", true, &|place| percent(place.of_mean)),
        ("device time", true, &device_time),
        (PLUS_MINUS, true, &device_half),
        ("waits", true, &|place| time(place.wait_ns as f64)),
        ("joules", true, &|place| dash(place.joules.map(|j| or_bound(&j, |j| si(j, "J"))))),
        (PLUS_MINUS, true, &|place| dash(place.joules.as_ref().map(plus_minus))),
        ("launches", true, &|place| place.launches.to_string()),
        ("processes", true, &|place| place.processes.to_string()),
        ("where", true, &Place::name),
    ];
    limited(rows.iter().copied(), &columns, shown, out);
    if let Some(imbalance) = places.imbalance {
        add!(out, "  imbalance: the largest is {} above the mean", percent(Some(imbalance)));
    }
    if let Some(slowest) = &places.slowest
        && let Some(place) = places.rows.get(slowest.row)
    {
        add!(out, "; slowest: {}", place.name());
        if let (Some(kernel), Some(more)) = (&slowest.name, slowest.more_ns) {
            add!(out, ", {} more than the mean in {}", time(more), kernel);
        }
        if let Some(launches) = slowest.launches_of_mean {
            add!(out, ", with {} of the mean's launches", percent(Some(launches)));
        }
        put!(out, "");
    }
    for doubt in places.doubts() {
        put!(out, "  {doubt}");
    }
}
