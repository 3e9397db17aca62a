//! The files of a run: JSON, CSV, plots and the page that holds them, each whole or not at all.
//! Owns their names; refuses to compute figures.

use crate::output::csv::write_csv;
use crate::output::plot::{self, Plot, PlotError, page, plots};
#[cfg(feature = "png")]
use crate::output::png::{PngError, Renderer};
use crate::reproduce::{self, Report, Reported};
use clscope_microbench::files::{json, make, whole};
use clscope_microbench::results::Results;
use clscope_models::kept::FileError;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Files could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum WriteError {
    /// A file or a directory cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A plot cannot be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// A plot has no pixels.
    #[cfg(feature = "png")]
    #[error("cannot draw the plot {plot} as PNG")]
    Pixels { plot: String, source: PngError },
}

/// Writes JSON, CSV, every plot as SVG, where this build draws them as PNG too, and the page that holds them.
///
/// # Errors
/// Where a file cannot be written or a plot cannot be drawn.
pub fn results(results: &Results, directory: &Path) -> Result<(), WriteError> {
    let plots = plots(results)?;
    results_with(results, &plots, &page(results, &plots), directory)
}

fn results_with(
    results: &Results,
    plots: &[Plot],
    page: &str,
    directory: &Path,
) -> Result<(), WriteError> {
    json(&directory.join("results.json"), results)?;
    whole(&directory.join("results.csv"), |out| write_csv(results, out))?;
    for (n, table) in (1..).zip(&results.meter) {
        let name = if n == 1 { "meter.csv".to_owned() } else { format!("meter-{n}.csv") };
        whole(&directory.join(name), |out| out.write_all(table.as_bytes()))?;
    }
    // Where the system has no font, the SVG files stand alone.
    #[cfg(feature = "png")]
    let renderer = Renderer::new();
    for plot in plots {
        let path = directory.join(&plot.name);
        #[cfg(feature = "png")]
        if let Some(renderer) = &renderer {
            let pixels = renderer
                .png(&plot.svg)
                .map_err(|source| WriteError::Pixels { plot: plot.name.clone(), source })?;
            whole(&path.with_extension("png"), |out| out.write_all(&pixels))?;
        }
        whole(&path.with_extension("svg"), |out| out.write_all(plot.svg.as_bytes()))?;
    }
    Ok(whole(&directory.join("index.html"), |out| out.write_all(page.as_bytes()))?)
}

/// Where the files of an experiment are: in a folder of its own, unless it is the only one.
fn folder(directory: &Path, name: &str, alone: bool) -> PathBuf {
    if alone { directory.to_owned() } else { directory.join(name.replace('/', "-")) }
}

/// Writes the files of an experiment.
///
/// # Errors
/// As of [`results()`].
pub fn experiment(
    report: &Report,
    parts: &[&Results],
    directory: &Path,
    alone: bool,
) -> Result<(), WriteError> {
    let Some(results) = reproduce::together(report, parts) else { return Ok(()) };
    let directory = folder(directory, report.name, alone);
    make(&directory)?;
    let plots: Vec<Plot> = plot::reproduced(report, &results.device)?.into_iter().collect();
    let page = plot::experiment(report, &results, &plots);
    results_with(&results, &plots, &page, &directory)
}

/// Writes what became of experiments, and, where there are several, the page that leads to theirs.
///
/// # Errors
/// Where a file cannot be written.
pub fn reported(of: &Reported, directory: &Path, alone: bool) -> Result<(), WriteError> {
    json(&directory.join("reproduced.json"), of)?;
    if alone {
        return Ok(());
    }
    let link = |report: &Report| {
        let page = folder(Path::new(""), report.name, false).join("index.html");
        let there = directory.join(&page).is_file() && report.took_ns.is_some();
        there.then(|| page.display().to_string())
    };
    let page = plot::index(of, link);
    Ok(whole(&directory.join("index.html"), |out| out.write_all(page.as_bytes()))?)
}
