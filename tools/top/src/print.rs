//! What is known, once: as a value and as tables. Refuses to draw a screen.

use crate::Options;
use crate::draw;
use crate::error::TopError;
use crate::state::{View, rows, sorted};
use crate::target::Target;
use clscope_io::text::Page;
use clscope_live::document::Document;
use clscope_live::whole::Whole;
use std::time::{Duration, Instant};

/// What is known, after an interval that rates are of where a process runs. What was changed of the
/// run is told before the rest is read.
///
/// # Errors
/// If the trace cannot be read.
pub fn once(
    target: &mut Target,
    options: &Options<'_>,
    tell: &dyn Fn(&str),
) -> Result<Document, TopError> {
    target.wait()?;
    let mut follower = target.follower()?.ok_or(TopError::NoTrace)?;
    let state = |stem: &str| target.state(stem);
    let mut document = follower.poll(&state)?;
    if document.processes.iter().any(|p| p.state == "recording") {
        std::thread::sleep(options.interval);
        document = follower.poll(&state)?;
    }
    follower.changes().iter().for_each(|text| tell(text));
    if document.lacks_the_whole() {
        let begin = Instant::now();
        Whole::of_trace(&target.path, options.energy.clone())?.enter(&mut document, Duration::ZERO);
        document.joules_age_ns = document.joules_age_ns.map(|_| begin.elapsed().as_nanos() as u64);
    }
    sorted(&mut document, options.sort);
    Ok(document)
}

/// The tables, in so many columns.
pub fn text(document: &Document, width: usize) -> String {
    let mut page = Page::default();
    for line in draw::heading(document, None, width) {
        page.push_str(&format!("{line}\n"));
    }
    for (title, view) in [
        ("Kernels", View::Kernels),
        ("Transfers", View::Transfers),
        ("API calls", View::Calls),
        ("Processes", View::Processes),
    ] {
        let table = rows(document, view, "");
        if !table.rows.is_empty() {
            page.push_str(&format!("\n{title}\n"));
            page.push_str(&table.text().render(width));
        }
    }
    page.into_string()
}
