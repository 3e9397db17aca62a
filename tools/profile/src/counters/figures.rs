//! Owns the figures of a recorded source: its metric set, read back from the trace, evaluated over
//! counts. Refuses figures whose inputs are not known.
#![allow(missing_docs)] // fields are named as in the JSON document

use clscope_metrics::rpn::Equation;
use clscope_metrics::set::{Metric, MetricSet, Origin};
use clscope_metrics::variables::{Provenance, Variables};
use clscope_oa::{Counter, Counts, Format, Layout, Published};
use clscope_trace::sensors::CounterSource;

/// What forms figures of counts.
pub enum Figures {
    /// A metric set over reports of a format.
    Set { set: MetricSet, layout: &'static Layout, variables: Variables },
    /// The counts themselves, per second.
    Plain(Vec<String>),
}

impl Figures {
    /// Of a source as the trace describes it.
    pub fn of_source(about: &CounterSource) -> Self {
        let layout = Format::by_name(&about.format).map(|f| f.layout(Published::Tables));
        let Some(layout) = layout.filter(|l| {
            !about.figures.is_empty() && l.counters().count() + 2 == about.counters.len()
        }) else {
            return Self::Plain(about.counters.clone());
        };
        let mut variables = Variables::new();
        for (name, value) in about.variables.iter().zip(&about.values) {
            variables.set(name, *value, Provenance::Recording);
        }
        let rows =
            about.figures.iter().zip(&about.units).zip(about.equations.iter().zip(&about.meanings));
        let metric =
            |((symbol, unit), (equation, meaning)): ((&String, &String), (&String, &String))| {
                Some(Metric {
                    symbol: symbol.clone(),
                    name: symbol.clone(),
                    description: meaning.clone(),
                    unit: unit.clone(),
                    group: String::new(),
                    equation: Equation::parse(equation).ok()?,
                    max: None,
                    availability: None,
                })
            };
        let set = MetricSet {
            symbol: about.set.clone(),
            name: about.set.clone(),
            chipset: String::new(),
            uuid: None,
            metrics: rows.filter_map(metric).collect(),
            lists: Vec::new(),
            origin: Origin::File("the trace".to_owned()),
        };
        Self::Set { set, layout, variables }
    }

    /// Names and units; whether a figure is a mean by itself, or counts, which are given per
    /// second.
    pub fn columns(&self) -> Vec<(String, String, bool)> {
        match self {
            Self::Plain(names) => {
                names.iter().map(|n| (n.clone(), "/s".to_owned(), false)).collect()
            }
            Self::Set { set, .. } => {
                let column = |m: &Metric| match m.unit.to_ascii_lowercase().as_str() {
                    "percent" | "%" => (m.symbol.clone(), "%".to_owned(), true),
                    unit if is_mean(unit) => (m.symbol.clone(), m.unit.clone(), true),
                    unit => (m.symbol.clone(), format!("{unit}/s"), false),
                };
                set.metrics.iter().map(column).collect()
            }
        }
    }

    /// Figures of counts over `seconds`.
    pub fn evaluate(&self, counts: &[u64], known: &[bool], seconds: f64) -> Vec<Option<f64>> {
        match self {
            Self::Plain(_) => counts
                .iter()
                .zip(known)
                .map(|(n, known)| known.then_some(*n as f64 / seconds))
                .collect(),
            Self::Set { set, layout, variables } => {
                let mut of = Counts::zero(layout);
                of.set_clocks(
                    counts.first().copied().unwrap_or(0),
                    counts.get(1).copied().unwrap_or(0),
                );
                let names: Vec<Counter> = layout.counters().collect();
                for (counter, n) in names.iter().zip(counts.iter().skip(2)) {
                    of.set(*counter, *n);
                }
                let outcomes = set.evaluate_all(&of, variables);
                let scaled = outcomes.iter().zip(&set.metrics).map(|(outcome, metric)| {
                    let value = outcome.value.as_ref().ok()?.as_f64();
                    Some(if is_mean(&metric.unit) { value } else { value / seconds })
                });
                scaled.collect()
            }
        }
    }
}

/// Whether figures of a unit are means by themselves.
fn is_mean(unit: &str) -> bool {
    ["percent", "%", "hz", "number", ""].iter().any(|mean| unit.eq_ignore_ascii_case(mean))
}
