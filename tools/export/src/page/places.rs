//! The page's table of ranks or hosts.

use super::ROWS;
use super::html::{Html, joules, time};
use super::tables::{count, figure, interval, more, notes, percent, table};
use clscope_profile::report::Report;
use clscope_profile::report::places::{Place, PlaceBy};

/// Ranks or hosts, where they were asked for.
pub fn places(page: &mut Html, report: &Report) {
    let Some(places) = &report.places else { return };
    let title = if places.by == PlaceBy::Rank { "Ranks" } else { "Hosts" };
    page.raw("<section id=\"places\"><h2>").raw(title).raw("</h2>\n");
    let columns = [
        "Where",
        "Device time#",
        "Of the mean#",
        "Host waits#",
        "Joules#",
        "Launches#",
        "Processes#",
    ];
    let mut rows: Vec<&Place> = places.rows.iter().collect();
    let device = |place: &Place| place.device_ns.map_or(-1.0, |t| t.value);
    rows.sort_by(|a, b| device(b).total_cmp(&device(a)));
    table(page, &columns, rows.iter().take(ROWS), |page, place| {
        page.raw("<td class=\"name\">").name(&place.name()).raw("</td>");
        interval(page, place.device_ns.as_ref(), time);
        figure(page, place.of_mean, percent);
        figure(page, Some(place.wait_ns as f64), time);
        interval(page, place.joules.as_ref(), joules);
        figure(page, Some(place.launches as f64), count);
        figure(page, Some(place.processes as f64), count);
    });
    more(page, rows.len());
    if let Some(imbalance) = places.imbalance {
        page.raw("<p>The largest is ").put(percent(imbalance)).raw(" above the mean");
        if let Some(slowest) = &places.slowest
            && let Some(place) = places.rows.get(slowest.row)
        {
            page.raw("; slowest: ").name(&place.name());
            if let (Some(kernel), Some(more)) = (&slowest.name, slowest.more_ns) {
                page.raw(", ").put(time(more)).raw(" more than the mean in ").name(kernel);
            }
            if let Some(launches) = slowest.launches_of_mean {
                page.raw(", with ").put(percent(launches)).raw(" of the mean's launches");
            }
        }
        page.raw(".</p>\n");
    }
    notes(page, &places.doubts());
    page.raw("</section>\n");
}
