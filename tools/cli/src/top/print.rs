//! `clscope top --once`: what is known, as tables or JSON. Refuses to draw a screen.
#![forbid(unsafe_code)]

use super::state::{View, rows, sorted};
use super::target::Target;
use super::{Args, Format, draw};
use crate::output;
use anyhow::{Context, Result};
use clscope_io::text::Page;
use clscope_live::document::Document;
use clscope_live::whole::Whole;
use std::io::Write;
use std::time::{Duration, Instant};

/// Prints what is known, after an interval that rates are of where a process runs.
///
/// # Errors
/// If the trace cannot be read.
pub fn once(target: &mut Target, args: &Args) -> Result<()> {
    target.wait()?;
    let mut follower = target.follower()?.context("there is no trace to read")?;
    let state = |stem: &str| target.state(stem);
    let mut document = follower.poll(&state)?;
    if document.processes.iter().any(|p| p.state == "recording") {
        std::thread::sleep(args.interval);
        document = follower.poll(&state)?;
    }
    for text in follower.changes() {
        output::say(format_args!("the run was changed: {text}"));
    }
    if document.lacks_the_whole() {
        let begin = Instant::now();
        Whole::of(&target.path, args.energy.options())?.enter(&mut document, Duration::ZERO);
        document.joules_age_ns = document.joules_age_ns.map(|_| begin.elapsed().as_nanos() as u64);
    }
    sorted(&mut document, args.sort);
    match args.format {
        Format::Json => {
            let mut out = output::json();
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
            Ok(out.flush()?)
        }
        Format::Table => {
            let mut out = output::screen();
            out.write_all(text(&document).as_bytes())?;
            Ok(out.flush()?)
        }
    }
}

/// The tables.
fn text(document: &Document) -> String {
    let width = terminal_size::terminal_size().map_or(100, |(w, _)| usize::from(w.0));
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
