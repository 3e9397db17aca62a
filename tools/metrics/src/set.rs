//! Metric sets: figures with equations, and the registers the hardware needs for them. Owns the
//! evaluation of a whole set, with figures that refer to each other; refuses names that a set does
//! not have, and never puts a 0 where a figure is undefined.

use crate::rpn::{Environment, Equation, Evaluated, Input, Number, Undefined};
use crate::variables::Variables;
use clscope_oa::config::{Register, Registers, Uuid};
use clscope_oa::flex::{self, Programmed};
use clscope_oa::{Counter, Counts, Group};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use thiserror::Error;

/// A figure of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// The name in equations and tables: `EuActive`.
    pub symbol: String,
    /// For people: `EU Active`.
    pub name: String,
    /// What it says.
    pub description: String,
    /// `percent`, `ns`, `bytes`, ...
    pub unit: String,
    /// Group for listings.
    pub group: String,
    /// How it is computed.
    pub equation: Equation,
    /// The most it can be.
    pub max: Option<Equation>,
    /// On which GPUs it exists.
    pub availability: Option<Equation>,
}

/// Which list registers belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// Routing.
    Mux,
    /// Boolean counters.
    Boolean,
    /// EU counters.
    Flex,
}

/// Registers for some GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisterList {
    /// Which list they belong to.
    pub kind: ListKind,
    /// On which GPUs they are wanted.
    pub availability: Option<Equation>,
    /// Address and value.
    pub registers: Vec<Register>,
}

/// Where a set comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This program.
    BuiltIn,
    /// A file.
    File(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::BuiltIn => f.write_str("built in"),
            Origin::File(name) => f.write_str(name),
        }
    }
}

/// A metric set.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSet {
    /// The name users give: `ComputeBasic`.
    pub symbol: String,
    /// For people.
    pub name: String,
    /// The GPUs it is for, as its source calls them: `KBLGT2`.
    pub chipset: String,
    /// The configuration it needs.
    pub uuid: Option<Uuid>,
    /// Its figures.
    pub metrics: Vec<Metric>,
    /// Its registers; none where only a loaded configuration can serve.
    pub lists: Vec<RegisterList>,
    /// Where it comes from.
    pub origin: Origin,
}

/// A name that a set does not have.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the set {set} ({origin}) has no figure {name:?}{hint}")]
pub struct UnknownMetric {
    /// What was asked for.
    pub name: String,
    /// Of which set.
    pub set: String,
    /// Where that set comes from.
    pub origin: String,
    /// What may have been meant.
    pub hint: String,
}

/// What a figure came out as.
#[derive(Clone, Debug, PartialEq)]
pub struct SetFigure {
    /// The value, or why there is none.
    pub value: Result<Number, Undefined>,
    /// A division by zero inside counted as 0, as the sets' definition has it.
    pub divided_by_zero: bool,
    /// It exceeds its set's maximum: the counts or the variables are not this set's.
    pub exceeds_max: bool,
}

/// The state of one evaluation: every figure is computed once.
struct Evaluation<'a> {
    set: &'a MetricSet,
    counts: Option<&'a Counts>,
    variables: &'a Variables,
    done: BTreeMap<usize, Result<Evaluated, Undefined>>,
    /// Figures under way, to see circles.
    open: Vec<usize>,
}

impl Environment for Evaluation<'_> {
    fn input(&mut self, input: &Input) -> Result<u64, Undefined> {
        let value = self.counts.and_then(|counts| match input {
            Input::GpuTime => Some(counts.time_ticks()),
            Input::GpuClock => counts.gpu_ticks(),
            Input::Counter(counter) => counts.get(*counter),
            Input::Elsewhere(_) => None,
        });
        value.ok_or_else(|| Undefined::NotInReport(input.to_string()))
    }

    fn variable(&mut self, name: &str) -> Result<Evaluated, Undefined> {
        if let Some(value) = self.variables.get(name) {
            return Ok(Evaluated::plain(Number::Int(value.into())));
        }
        let Some(index) = self.set.index(name) else {
            return Err(Undefined::NoVariable(format!("${name}")));
        };
        self.figure(index).map_err(|cause| match cause {
            // The innermost reason is what helps.
            Undefined::Through { .. } | Undefined::Circular(_) => cause,
            cause => Undefined::Through { name: name.to_owned(), cause: Box::new(cause) },
        })
    }
}

/// Figures refer to figures a few deep; more is a circle or hostile.
const DEEPEST: usize = 64;

impl<'a> Evaluation<'a> {
    fn figure(&mut self, index: usize) -> Result<Evaluated, Undefined> {
        if let Some(done) = self.done.get(&index) {
            return done.clone();
        }
        let set: &'a MetricSet = self.set;
        let Some(metric) = set.metrics.get(index) else { return Err(Undefined::OutOfRange) };
        if self.open.contains(&index) || self.open.len() >= DEEPEST {
            return Err(Undefined::Circular(metric.symbol.clone()));
        }
        self.open.push(index);
        let result = match self.is_available(metric.availability.as_ref()) {
            Ok(true) => metric.equation.evaluate(self),
            Ok(false) => Err(Undefined::NotAvailable),
            Err(cause) => Err(cause),
        };
        self.open.pop();
        self.done.insert(index, result.clone());
        result
    }

    fn is_available(&mut self, condition: Option<&Equation>) -> Result<bool, Undefined> {
        condition.map_or(Ok(true), |c| c.evaluate(self).map(|e| e.value.as_f64() != 0.0))
    }
}

impl MetricSet {
    /// With these counters programmed to count something else than the set has them count: figures
    /// that are computed of them, directly or through others, are gone, and each event is a figure of
    /// its own.
    pub fn program(&mut self, events: &[Programmed]) {
        let own = self.lists.iter().filter(|list| list.kind == ListKind::Flex);
        let own: Vec<Programmed> = own.flat_map(|list| flex::decode(&list.registers)).collect();
        let replaced: Vec<Programmed> =
            events.iter().copied().filter(|event| !own.contains(event)).collect();
        let counter = |event: &Programmed| Counter { group: Group::A, index: event.counter };
        let is_replaced = |input: &Input| match input {
            Input::Counter(of) => replaced.iter().any(|event| counter(event) == *of),
            _ => false,
        };
        let mut gone: BTreeSet<String> = BTreeSet::new();
        loop {
            let reads = |m: &Metric| {
                m.equation.inputs().any(is_replaced)
                    || m.equation.names().any(|name| gone.contains(name.trim_start_matches('$')))
            };
            let more = self.metrics.iter().filter(|m| !gone.contains(&m.symbol) && reads(m));
            let more: Vec<String> = more.map(|m| m.symbol.clone()).collect();
            if more.is_empty() {
                break;
            }
            gone.extend(more);
        }
        self.metrics.retain(|m| !gone.contains(&m.symbol));
        let figure = |event: &Programmed| {
            Some(Metric {
                symbol: event.to_string(),
                name: event.to_string(),
                description: event.event.meaning(),
                unit: "events".to_owned(),
                group: "programmed".to_owned(),
                equation: Equation::parse(&format!("A {} READ", event.counter)).ok()?,
                max: None,
                availability: None,
            })
        };
        self.metrics.extend(events.iter().filter_map(figure));
    }

    /// The place of a figure.
    pub fn index(&self, symbol: &str) -> Option<usize> {
        self.metrics.iter().position(|m| m.symbol == symbol)
    }

    /// The places of figures, by symbol in any case.
    ///
    /// # Errors
    /// [`UnknownMetric`] for the first name that the set does not have.
    pub fn select<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<usize>, UnknownMetric> {
        let find = |name: &S| {
            let name = name.as_ref();
            let found = self.metrics.iter().position(|m| m.symbol.eq_ignore_ascii_case(name));
            found.ok_or_else(|| UnknownMetric {
                name: name.to_owned(),
                set: self.symbol.clone(),
                origin: self.origin.to_string(),
                hint: self.hint(name),
            })
        };
        names.iter().map(find).collect()
    }

    fn hint(&self, name: &str) -> String {
        let wanted = name.to_ascii_lowercase();
        let near = self.metrics.iter().map(|m| m.symbol.as_str()).filter(|s| {
            let symbol = s.to_ascii_lowercase();
            !wanted.is_empty() && (symbol.contains(&wanted) || wanted.contains(&symbol))
        });
        let near: Vec<&str> = near.take(5).collect();
        if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
    }

    fn evaluation<'a>(
        &'a self,
        counts: Option<&'a Counts>,
        variables: &'a Variables,
    ) -> Evaluation<'a> {
        Evaluation { set: self, counts, variables, done: BTreeMap::new(), open: Vec::new() }
    }

    /// Evaluates the figures at `which` over the counts of an interval.
    pub fn evaluate(
        &self,
        counts: &Counts,
        variables: &Variables,
        which: &[usize],
    ) -> Vec<SetFigure> {
        let mut evaluation = self.evaluation(Some(counts), variables);
        let one = |index: &usize| {
            let result = evaluation.figure(*index);
            let max = self.metrics.get(*index).and_then(|m| m.max.as_ref());
            let exceeds = match (&result, max.map(|m| m.evaluate(&mut evaluation))) {
                (Ok(got), Some(Ok(max))) => got.value.as_f64() > max.value.as_f64(),
                _ => false,
            };
            SetFigure {
                divided_by_zero: result.as_ref().is_ok_and(|e| e.divided_by_zero),
                value: result.map(|e| e.value),
                exceeds_max: exceeds,
            }
        };
        which.iter().map(one).collect()
    }

    /// Evaluates every figure.
    pub fn evaluate_all(&self, counts: &Counts, variables: &Variables) -> Vec<SetFigure> {
        let all: Vec<usize> = (0..self.metrics.len()).collect();
        self.evaluate(counts, variables, &all)
    }

    /// The registers for a GPU: those lists whose condition holds.
    ///
    /// # Errors
    /// Where a condition cannot be decided.
    pub fn registers(&self, variables: &Variables) -> Result<Registers, Undefined> {
        let mut evaluation = self.evaluation(None, variables);
        let mut out = Registers::default();
        for list in &self.lists {
            if evaluation.is_available(list.availability.as_ref())? {
                match list.kind {
                    ListKind::Mux => &mut out.mux,
                    ListKind::Boolean => &mut out.boolean,
                    ListKind::Flex => &mut out.flex,
                }
                .extend_from_slice(&list.registers);
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::Provenance;
    use clscope_oa::{Format, Published};

    fn metric(symbol: &str, equation: &str) -> Metric {
        let equation = Equation::parse(equation).unwrap();
        let text = symbol.to_owned();
        Metric {
            symbol: text.clone(),
            name: text,
            description: String::new(),
            unit: String::new(),
            group: String::new(),
            equation,
            max: None,
            availability: None,
        }
    }

    fn set(metrics: Vec<Metric>) -> MetricSet {
        let name = "Test".to_owned();
        MetricSet {
            symbol: name.clone(),
            name,
            chipset: String::new(),
            uuid: None,
            metrics,
            lists: vec![],
            origin: Origin::BuiltIn,
        }
    }

    #[test]
    fn figures_refer_to_figures_and_circles_end() {
        let set = set(vec![
            metric("Twice", "$Once 2 UMUL"),
            metric("Once", "A 1 READ"),
            metric("Ring", "$Around 1 UADD"),
            metric("Around", "$Ring 1 UADD"),
            metric("Self", "$Self"),
            metric("Lost", "$Nowhere"),
            metric("AfterLost", "$Lost 1 UADD"),
        ]);
        let mut counts = Counts::zero(Format::A32u40A4u32B8C8.layout(Published::Tables));
        assert!(counts.set(clscope_oa::Counter::new(clscope_oa::Group::A, 1), 21));
        let got = set.evaluate_all(&counts, &Variables::new());
        let text: Vec<String> = got
            .iter()
            .map(|o| o.value.as_ref().map_or_else(ToString::to_string, ToString::to_string))
            .collect();
        assert_eq!(text[..2], ["42", "21"]);
        assert!(
            text[2].contains("leads back to itself")
                && text[3].contains("leads back to itself")
                && text[4].contains("leads back"),
            "{text:?}"
        );
        assert_eq!(text[5], "the value of $Nowhere is not known");
        assert_eq!(text[6], "Lost is undefined: the value of $Nowhere is not known");
    }

    #[test]
    fn unknown_names_are_refused_with_a_hint() {
        let set = set(vec![metric("EuActive", "1"), metric("EuStall", "1")]);
        assert_eq!(set.select(&["eustall", "EuActive"]), Ok(vec![1, 0]));
        let error = set.select(&["Active"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the set Test (built in) has no figure \"Active\"; did you mean EuActive?"
        );
        assert_eq!(set.select(&["L3Misses"]).unwrap_err().hint, "");
    }

    #[test]
    fn availability_and_maxima_are_looked_at() {
        let mut limited = metric("Busy", "A 0 READ");
        limited.max = Some(Equation::parse("100").unwrap());
        let mut elsewhere = metric("Sampler1", "1");
        elsewhere.availability = Some(Equation::parse("$SubsliceMask 0x12 AND").unwrap());
        let mut set = set(vec![limited, elsewhere]);
        let register = |value| vec![Register { address: 0x9888, value }];
        let only = |mask: &str| Some(Equation::parse(&format!("$SliceMask {mask} AND")).unwrap());
        set.lists = vec![
            RegisterList { kind: ListKind::Mux, availability: only("1"), registers: register(1) },
            RegisterList { kind: ListKind::Mux, availability: only("2"), registers: register(2) },
            RegisterList { kind: ListKind::Boolean, availability: None, registers: register(3) },
        ];
        let mut counts = Counts::zero(Format::A32u40A4u32B8C8.layout(Published::Tables));
        counts.set(clscope_oa::Counter::new(clscope_oa::Group::A, 0), 101);
        let mut variables = Variables::new();
        variables.set("SubsliceMask", 1, Provenance::User).set("SliceMask", 1, Provenance::User);
        let got = set.evaluate_all(&counts, &variables);
        assert_eq!((got[0].exceeds_max, &got[1].value), (true, &Err(Undefined::NotAvailable)));
        let registers = set.registers(&variables).unwrap();
        assert_eq!((registers.mux, registers.boolean), (register(1), register(3)));
        assert!(set.registers(&Variables::new()).is_err());
    }
}
