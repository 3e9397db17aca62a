//! Parameters of a device, as measured for the models, for people. Refuses to compute them.

use clscope_models::Device;
use clscope_models::idle::States;
use std::io::{self, Write};

/// Mean error of the energy model on what was left out of its fit.
pub fn accuracy(errors: &[f64]) -> Option<String> {
    if errors.is_empty() {
        return None;
    }
    let mut sizes: Vec<f64> = errors.iter().map(|e| e.abs() * 100.0).collect();
    sizes.sort_by(f64::total_cmp);
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let at = |q: f64| sizes[((sizes.len() - 1) as f64 * q).round() as usize];
    Some(format!(
        "energy model on {} kernels, each left out of its fit: mean error {mean:.1} %, median {:.1} %, 90th percentile {:.1} %",
        sizes.len(),
        at(0.5),
        at(0.9)
    ))
}

/// Idle states, a line each.
///
/// # Errors
/// Where it cannot be written.
pub fn states(out: &mut impl Write, of: &States) -> io::Result<()> {
    for (n, s) in of.states.iter().enumerate() {
        let hold =
            s.held().map_or_else(|| "until watching ended".to_owned(), |t| format!("for {t:.1} s"));
        let clock = s.clock_mhz.map_or_else(String::new, |c| format!(" at {c:.0} MHz"));
        writeln!(
            out,
            "  state {n}{:19}{:.1} W ({:.1} to {:.1}){clock} {hold}",
            "", s.watts.value, s.watts.low, s.watts.high
        )?;
    }
    Ok(())
}

/// All of a device's parameters.
///
/// # Errors
/// Where it cannot be written.
pub fn parameters(out: &mut impl Write, device: &Device) -> io::Result<()> {
    writeln!(
        out,
        "{} | {} | driver {} | measured {}{}",
        device.name,
        device.platform,
        device.driver,
        device.date,
        if device.quick { " (quick)" } else { "" }
    )?;
    writeln!(out, "power: {}", device.power_source)?;
    for (name, p) in &device.parameters {
        let (value, low, high) = (short(p.value), short(p.low), short(p.high));
        writeln!(out, "  {name:26} {value:>9} {:8} ({low} to {high})  {}", p.unit, p.source)?;
    }
    for link in &device.links {
        let parts: Vec<String> = link
            .segments
            .iter()
            .map(|s| {
                let from = if s.from_bytes > 0.0 {
                    format!("from {} B: ", s.from_bytes)
                } else {
                    String::new()
                };
                let us = s.latency_ns * 1e-3;
                format!("{from}{us:.1} us + size / {:.2} GB/s", s.gigabytes_per_second)
            })
            .collect();
        let watts = link.watts.as_ref().map_or_else(String::new, |w| {
            format!("; {} W ({} to {}) without pause", short(w.value), short(w.low), short(w.high))
        });
        writeln!(
            out,
            "  {:26} {} (errors of {:.0} %){watts}",
            format!("{} {}", link.memory, link.direction),
            parts.join("; "),
            link.misfit * 100.0
        )?;
    }
    if let Some(of) = &device.idle {
        states(out, of)?;
    }
    if let Some(energy) = &device.energy {
        writeln!(
            out,
            "  energy: idle power {:.1} W, errors of {:.1} % on kernels that are not in the fit",
            energy.floor_watts,
            energy.error * 100.0
        )?;
        for (term, unit) in clscope_models::energy::TERMS {
            if let Some(t) = energy.terms.get(term) {
                let of = t.joules;
                let (scale, joule) = joules(of.value.max(of.high));
                let [j, low, high] = [of.value, of.low, of.high].map(|x| x / scale);
                writeln!(out, "    {term:24} {j:.3} {joule} ({low:.3} to {high:.3}) of {unit}")?;
            }
        }
    }
    for (name, why) in &device.absent {
        writeln!(out, "  {name:26} absent: {why}")?;
    }
    Ok(())
}

/// The scale in which a number of joules is written.
fn joules(of: f64) -> (f64, &'static str) {
    let scales = [(1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ"), (1e-9, "nJ")];
    scales.into_iter().find(|(scale, _)| of >= *scale).unwrap_or((1e-12, "pJ"))
}

fn short(value: f64) -> String {
    match value.abs() {
        a if a >= 1e7 => format!("{value:.3e}"),
        a if a >= 1000.0 => format!("{value:.0}"),
        a if a >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_models::energy::{EnergyModel, Term};
    use clscope_profile::interval::Interval;

    #[test]
    fn joules_have_a_prefix_that_fits_them() {
        let term = |j: f64| Term { joules: Interval::estimated(j, 0.5 * j, 1.5 * j) };
        let terms = [("active", term(0.322)), ("fp32", term(2e-12))];
        let energy = EnergyModel {
            floor_watts: 100.0,
            terms: terms.map(|(name, term)| (name.to_owned(), term)).into(),
            error: 0.1,
            observations: 20,
        };
        let mut out = Vec::new();
        parameters(&mut out, &Device { energy: Some(energy), ..Device::default() }).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("322.000 mJ (161.000 to 483.000) of unit seconds"), "{out}");
        assert!(out.contains("2.000 pJ (1.000 to 3.000) of operations"), "{out}");
    }
}
