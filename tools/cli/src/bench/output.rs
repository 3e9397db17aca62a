//! What `bench` writes. Owns its files; refuses to compute figures.
#![forbid(unsafe_code)]

use super::png::Renderer;
use crate::output::write_whole;
use anyhow::{Context, Result};
use clscope_microbench::plot::{Plot, page, plots};
use clscope_microbench::results::{Results, write_csv};
use std::io::Write;
use std::path::Path;

/// Files: JSON, CSV, every plot as SVG, and the page that holds them.
///
/// # Errors
/// Where a file cannot be written or a plot cannot be drawn.
pub fn write(results: &Results, directory: &Path, png: bool) -> Result<()> {
    let plots = plots(results)?;
    write_with(results, &plots, &page(results, &plots), directory, png)
}

/// The same with these plots and this page.
///
/// # Errors
/// As [`write`].
pub fn write_with(
    results: &Results,
    plots: &[Plot],
    page: &str,
    directory: &Path,
    png: bool,
) -> Result<()> {
    write_whole(&directory.join("results.json"), |out| {
        Ok(serde_json::to_writer_pretty(out, results)?)
    })?;
    write_whole(&directory.join("results.csv"), |out| Ok(write_csv(results, out)?))?;
    let renderer = png.then(Renderer::new).transpose()?;
    for plot in plots {
        if let Some(renderer) = &renderer {
            let pixels = renderer
                .png(&plot.svg)
                .with_context(|| format!("cannot draw the plot {} as PNG", plot.name))?;
            write_whole(&directory.join(&plot.name).with_extension("png"), |out| {
                Ok(out.write_all(&pixels)?)
            })?;
        }
        write_whole(&directory.join(&plot.name).with_extension("svg"), |out| {
            Ok(out.write_all(plot.svg.as_bytes())?)
        })?;
    }
    write_whole(&directory.join("index.html"), |out| Ok(out.write_all(page.as_bytes())?))
}
