//! What follows from the latencies that were measured: the tables of the suite.

use super::*;

/// The tables: latency, peak, concurrency needed, and the additions that memory hides.
pub(super) fn conclude(device: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let units = f64::from(device.compute_units);
    for (kind, name) in KINDS {
        let ours: Vec<&CaseResult> =
            results.iter().filter(|r| r.parameter("kind") == Some(name)).collect();
        let value = |r: &CaseResult, figure: &str| r.estimate(figure);
        let plain: Vec<&&CaseResult> =
            ours.iter().filter(|r| r.parameter("sweep").is_none()).collect();
        let chains = plain.iter().filter(|r| r.number("ilp") == Some(1.0));
        let latency = chains
            .clone()
            .filter_map(|r| value(r, "latency"))
            .min_by(|a, b| a.value.total_cmp(&b.value));
        let peak = plain
            .iter()
            .filter_map(|r| value(r, "throughput"))
            .max_by(|a, b| a.value.total_cmp(&b.value));
        if let (Some(latency), Some(peak)) = (latency, peak) {
            // A share of the peak that gradual saturation still reaches: 90 % for memory, 95 % for
            // the rest (Volkov 2016, section 6.3).
            let share = if kind.is_global() { 0.9 } else { 0.95 };
            let needed_for = |share: f64| {
                chains
                    .clone()
                    .filter(|r| {
                        value(r, "throughput").is_some_and(|t| t.value >= share * peak.value)
                    })
                    .filter_map(|r| value(r, "items_per_unit"))
                    .map(|e| e.value)
                    .min_by(f64::total_cmp)
            };
            let needed = needed_for(share);
            let linear = latency.value * peak.value / units;
            let clock = ours.iter().find_map(|r| value(r, "clock")).map(|e| e.value);
            let mut figures = vec![
                Figure::new("latency", "ns", latency),
                Figure::new("peak", "Gop/s", peak),
                Figure::known("linear_concurrency", "items/unit", linear),
            ];
            let cycles = clock.map(|mhz| latency.times(mhz * 1e-3));
            figures.extend(cycles.map(|c| Figure::new("latency_cycles", "cycles", c)));
            figures.extend(clock.map(|mhz| {
                Figure::new("peak_per_cycle", "op/cycle/unit", peak.times(1e3 / mhz / units))
            }));
            let items = |name, n| Figure::known(name, "items/unit", n);
            figures.extend(needed.map(|n| items("concurrency_needed", n)));
            figures.extend(needed_for(0.95).map(|n| items("concurrency_needed_95", n)));
            // What chains reach at the concurrency that latency x peak asks for (table 6.4).
            let reached = chains.clone().filter_map(|r| {
                Some((value(r, "items_per_unit")?.value, value(r, "throughput")?.value))
            });
            let reached: Vec<(f64, f64)> = reached.collect();
            if reached.iter().any(|(items, _)| *items >= linear)
                && let Some(curve) = Curve::of(reached)
            {
                let share = 100.0 * curve.at(linear) / peak.value;
                let share = Interval::symmetric(share, 0.0);
                figures.push(Figure::new("share_at_linear", "%", share));
            }
            let in_cycles =
                cycles.map_or_else(String::new, |c| format!(" ({:.1} cycles)", c.value));
            let needs = needed.map_or_else(
                || {
                    format!(
                        "no occupancy without independent chains reaches {:.0} % of it",
                        share * 100.0
                    )
                },
                |n| format!("{:.0} % of it from {n:.0} items a unit", share * 100.0),
            );
            let peaks =
                || format!(", peak {:.1} Gop/s, {needs} (latency x peak: {linear:.0})", peak.value);
            let peaks = if kind.is_single() { String::new() } else { peaks() };
            let text = format!("{name}: latency {:.2} ns{in_cycles}{peaks}", latency.value);
            findings.push(Finding::new(
                format!("latency/{name}"),
                text,
                figures,
                "smallest and largest mean over occupancies",
            ));
        }
        let own: Vec<CaseResult> = ours.into_iter().cloned().collect();
        let walk = super::super::points(&own, "alpha", "alpha", "latency");
        // Hidden additions cost nothing: time is level, then rises.
        if let Some(knee) =
            change::bend(&walk, 0.5).filter(|k| k.behind > 0.0 && k.before.abs() < 0.3 * k.behind)
        {
            let text = format!(
                "{name}: between {} and {} additions for each access the time begins to grow: at this occupancy the rest is hidden",
                knee.after, knee.until
            );
            let at =
                Interval::estimated(f64::midpoint(knee.after, knee.until), knee.after, knee.until);
            let figures = vec![Figure::new("alpha", "additions", at)];
            findings.push(Finding {
                confidence: Some(knee.confidence),
                ..Finding::new(
                    format!("latency/{name}/ridge"),
                    text,
                    figures,
                    "two lines against one, F test",
                )
            });
        }
    }
    findings.extend(banks(&findings));
    findings
}

/// How much longer products and sums take on operands of one bank of registers: the difference
/// between distances of operands. A compiler may place them elsewhere than in a row.
fn banks(findings: &[Finding]) -> Option<Finding> {
    let of = |(kind, name): &(Kind, &str)| {
        let Kind::Operands(apart) = kind else { return None };
        let found = findings.iter().find(|f| f.name == format!("latency/{name}"))?;
        let latency = found.figures.iter().find(|f| f.name == "latency")?.estimate;
        Some((latency, *apart))
    };
    let all: Vec<(Interval, u32)> = KINDS.iter().filter_map(of).collect();
    let by = |a: &&(Interval, u32), b: &&(Interval, u32)| a.0.value.total_cmp(&b.0.value);
    let (least, most) = (all.iter().min_by(by)?, all.iter().max_by(by)?);
    if least.1 == most.1 {
        return None;
    }
    let conflict = most.0.minus(least.0);
    let seen = conflict.low > 0.0;
    let text = if seen {
        format!(
            "operands {} registers apart take {:.2} ns longer than those {} apart: banks of registers",
            most.1, conflict.value, least.1
        )
    } else {
        "operands take as long at every distance between registers: no conflict of banks is seen"
            .to_owned()
    };
    Some(Finding::new(
        "latency/banks",
        text,
        vec![Figure::new("conflict", "ns", conflict)],
        "largest less smallest latency over distances of operands; the compiler places them",
    ))
}
