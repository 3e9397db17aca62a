//! A prediction as text for people: what was measured, what is predicted, and why.

use clscope_io::text::line;
use clscope_models::Figure;
use clscope_models::predict::Prediction;
use std::io::{self, Write};

fn interval(of: Figure, unit: &str, scale: f64) -> String {
    let [value, low, high] = [of.value, of.low, of.high].map(|x| x * scale);
    format!("{value:.4} {unit} ({low:.4} to {high:.4})")
}

/// Writes a prediction beside what was measured.
///
/// # Errors
/// Where it cannot be written.
pub fn write(of: &Prediction, out: &mut impl Write) -> io::Result<()> {
    let forced = of.forced.as_ref().map(|of| format!(" (forced: {})", line(of)));
    writeln!(out, "{}{}", line(&of.kernel), forced.unwrap_or_default())?;
    let (unit, scale) = if of.ns.value < 1e5 { ("us", 1e-3) } else { ("ms", 1e-6) };
    writeln!(out, "  time    {} measured", interval(of.measured_ns, unit, scale))?;
    writeln!(
        out,
        "          {} predicted, {:.3} times as long",
        interval(of.ns, unit, scale),
        of.ns.value / of.measured_ns.value
    )?;
    if let Some(joules) = of.measured_joules {
        writeln!(out, "  joules  {} measured", interval(joules, "mJ", 1e3))?;
    }
    if let Some(joules) = of.joules {
        writeln!(out, "          {} predicted", interval(joules, "mJ", 1e3))?;
    }
    for reason in &of.reasons {
        writeln!(out, "  because {reason}")?;
    }
    for warning in &of.warnings {
        writeln!(out, "  but     {warning}")?;
    }
    for missing in &of.missing {
        writeln!(out, "  not known: {missing}")?;
    }
    Ok(())
}
