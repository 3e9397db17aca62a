//! Owns the document of a difference: rows, what differs between the sides, and which rows break
//! the limits that the user set. Times are nanoseconds, energies joules, changes ratios less one;
//! what is not known is null.
//!
//! `tools/compare/diff.schema.json` describes it (JSON Schema, draft 2020-12); a test makes that of
//! these types. Its version is raised when a field changes its meaning or goes.

mod reasons;

use crate::integrity::broken;
use crate::outcome::{Change, Outcome, RUN_TO_RUN, RUN_TO_RUN_OF_PROCESSORS, Sample, change};
use crate::run::{Key, Run};
use crate::unlike::unlike;
use clscope_profile::energy::result::Window;
use clscope_profile::report::data::{Commands, Report};
use reasons::{apart, differences, not_known, ordered, remedy, sums_only};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Name and version of the document's schema.
pub const SCHEMA: &str = "clscope-diff/3";
/// Kernels below this share of the time of all are listed and not judged: there are many, and none
/// of them matters.
const MINOR: f64 = 0.005;
/// Why no row is judged where [`Diff::incomparable`] forbids it.
const INCOMPARABLE: &str = "the runs cannot be compared";
/// Transfers whose bytes differ by less than this share take as long.
const ALIKE: f64 = 0.001;
/// Kernels that are named where a limit could not be judged.
const SHOWN: usize = 5;

/// What is compared of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Mean time, ns.
    Time,
    /// Joules of a launch.
    Energy,
    /// Commands or calls.
    Count,
    /// Bytes moved.
    Bytes,
}

/// A limit: the metric may rise by this share.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Limit {
    /// Of what.
    pub metric: Metric,
    /// 0.05 for 5 %.
    pub rise: f64,
}

/// A figure on both sides.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// `total`, `kernel`, `transfer` or `function`.
    pub section: &'static str,
    /// Kernel, kind of transfer or function.
    pub name: String,
    /// Device, or direction of a transfer.
    pub of: String,
    /// What is compared.
    pub metric: Metric,
    /// Mean over the runs of the base: of counts and bytes the arithmetic one, of times and joules
    /// the geometric one, of which `change` is the ratio.
    pub base: Option<f64>,
    /// The same over the new runs.
    pub new: Option<f64>,
    /// The change. Its interval is null where the row is not judged.
    pub change: Option<Change>,
    /// Relative standard deviation between runs that the interval assumes, because a side is a
    /// single run, which does not show it; null where runs show their spread, and for exact
    /// numbers.
    pub assumed_spread: Option<f64>,
    /// What it is.
    pub outcome: Outcome,
    /// Why it is not judged.
    pub why: Option<String>,
    /// Whether it breaks a limit.
    pub breaks: bool,
}

impl Row {
    /// Without a change, a reason and a limit.
    fn new(
        (section, key, metric): (&'static str, &Key, Metric),
        base: Option<f64>,
        new: Option<f64>,
        outcome: Outcome,
    ) -> Self {
        let (name, of) = key.clone();
        let (change, assumed_spread, why, breaks) = (None, None, None, false);
        Self { section, name, of, metric, base, new, change, assumed_spread, outcome, why, breaks }
    }
}

/// What the sides differ in besides figures.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Difference {
    /// In what: `devices or drivers`, `device timing` or `correction of span bias`.
    pub what: String,
    /// In the base.
    pub base: String,
    /// On the new side.
    pub new: String,
}

/// The whole document.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Diff {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Traces of the base.
    pub base: Vec<String>,
    /// Traces of the new side.
    pub new: Vec<String>,
    /// The part of each run that all joules are of (`--window`); null: all of it.
    pub window: Option<Window>,
    /// Whether the sides can be compared; if not, no row is judged: rows of what only one side has
    /// are told as such.
    pub comparable: bool,
    /// What runs changed of their application on request, with the side: they are no plain runs.
    pub changed: Vec<String>,
    /// What differs, each of which forbids an outcome.
    pub differences: Vec<Difference>,
    /// Runs that ended early, not alike on both sides, or whose traces are damaged, each of which
    /// forbids an outcome.
    pub broken_runs: Vec<String>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// Limits that the user set.
    pub limits: Vec<Limit>,
    /// Limits that could not be judged, and why: what they are of is not known on a side.
    pub unjudged: Vec<String>,
    /// Readable names of kernels, by their names in this document, which are those of the trace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub display_names: BTreeMap<String, String>,
    /// Relative standard deviation between runs that is assumed, where a side is a single run.
    #[serde(skip)]
    pub assumed: Option<f64>,
    /// Totals, then kernels, transfers and functions; by time in the base.
    pub rows: Vec<Row>,
}

/// What the runs of both sides changed, each once.
fn changed(base: &[Run], new: &[Run]) -> Vec<String> {
    let of = |side: &str, runs: &[Run]| -> BTreeSet<String> {
        let changes = runs.iter().filter_map(|run| run.report.changes.as_ref());
        changes.flat_map(|c| c.lines()).map(|text| format!("{side}: {text}")).collect()
    };
    of("base", base).into_iter().chain(of("new", new)).collect()
}

impl Diff {
    /// Rows that break a limit.
    pub fn broken(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.breaks)
    }

    /// What forbids an outcome, in words: [`differences`](Self::differences) and
    /// [`broken_runs`](Self::broken_runs). Empty where the sides can be compared without being told
    /// to.
    pub fn incomparable(&self) -> Vec<String> {
        let differ = |d: &Difference| {
            format!("the sides differ in {}: base {}; new {}", d.what, d.base, d.new)
        };
        self.differences.iter().map(differ).chain(self.broken_runs.iter().cloned()).collect()
    }

    /// Compares two sides of at least one run each. `anyway`: differences are told, and outcomes
    /// given all the same.
    pub fn new(base: &[Run], new: &[Run], limits: &[Limit], anyway: bool) -> Self {
        let names = |side: &[Run]| side.iter().flat_map(|r| r.report.traces.clone()).collect();
        let differences = differences(base, new);
        let whole = |side: &[Run]| side.iter().map(|r| r.integrity.clone()).collect::<Vec<_>>();
        let broken = broken(&whole(base), &whole(new));
        let comparable = anyway || (differences.is_empty() && broken.runs.is_empty());
        let single = base.len() < 2 || new.len() < 2;
        let mut notes = Vec::new();
        let spread = match base.iter().chain(new).any(|run| run.on_processor) {
            true => RUN_TO_RUN_OF_PROCESSORS,
            false => RUN_TO_RUN,
        };
        let assumed = single.then_some(spread);
        if let Some(assumed) = assumed.filter(|_| comparable) {
            notes.push(format!(
                "a single run does not show how much runs differ: intervals and outcomes assume a standard deviation of {} % between runs, which was not measured; name several runs for each side (b1,b2,b3 n1,n2,n3)",
                100.0 * assumed
            ));
        }
        notes.extend(broken.note);
        notes.extend(unlike(base, new));
        notes.extend(sums_only("base", base));
        notes.extend(sums_only("new side", new));
        let mut out = Self {
            schema: SCHEMA,
            display_names: BTreeMap::new(),
            base: names(base),
            new: names(new),
            window: base.iter().chain(new).find_map(|run| run.window()),
            changed: changed(base, new),
            comparable,
            differences,
            broken_runs: broken.runs,
            notes,
            limits: limits.to_vec(),
            unjudged: Vec::new(),
            assumed,
            rows: Vec::new(),
        };
        out.kernels(base, new);
        out.transfers(base, new);
        out.functions(base, new);
        out.totals(base, new);
        for row in &mut out.rows {
            let limit = limits.iter().find(|l| l.metric == row.metric);
            row.breaks = limit.is_some_and(|l| match (row.metric, row.change) {
                // Counts have no noise. What is equal did not rise, whatever the limit.
                (Metric::Count | Metric::Bytes, Some(c)) => {
                    row.outcome != Outcome::NotJudged && c.value > 0.0 && c.value >= l.rise
                }
                // It surely rose, and the limit is within what is known of it.
                (_, Some(c)) => row.outcome == Outcome::More && c.high >= l.rise,
                (_, None) => false,
            });
        }
        out.unjudged =
            limits.iter().filter_map(|limit| out.unjudged_of(limit.metric, base, new)).collect();
        out
    }

    /// Why a limit of a metric says nothing of the kernels that both sides launched, and what would
    /// make it known.
    fn unjudged_of(&self, metric: Metric, base: &[Run], new: &[Run]) -> Option<String> {
        let word = match metric {
            Metric::Time => "time",
            Metric::Energy => "energy",
            // They are known of all.
            Metric::Count | Metric::Bytes => return None,
        };
        let launched = |r: &&Row| {
            let both = [r.base, r.new].iter().all(|n| n.is_some_and(|n| n > 0.0));
            r.section == "kernel" && r.metric == Metric::Count && both
        };
        let of = |launches: &Row| {
            let same = |r: &&Row| {
                r.section == "kernel"
                    && r.metric == metric
                    && (&r.name, &r.of) == (&launches.name, &launches.of)
            };
            self.rows.iter().find(same)
        };
        let all: Vec<(&Row, Option<&Row>)> =
            self.rows.iter().filter(launched).map(|r| (r, of(r))).collect();
        let lacks =
            |side: fn(&Row) -> Option<f64>| all.iter().all(|(_, row)| row.and_then(side).is_none());
        match (lacks(|r| r.base), lacks(|r| r.new)) {
            _ if all.is_empty() => Some(format!("{word}: no kernel was launched on both sides")),
            (no_base @ true, no_new) | (no_base, no_new @ true) => {
                let place = match (no_base, no_new) {
                    (true, true) => "on either side",
                    (true, false) => "in the base",
                    _ => "on the new side",
                };
                let bases = base.iter().filter(|_| no_base);
                let why = remedy(metric, bases.chain(new.iter().filter(|_| no_new)));
                Some(format!("{word} of no kernel is known {place}: {why}"))
            }
            (false, false) => {
                let partly =
                    |row: &Option<&Row>| row.is_some_and(|r| r.base.is_some() != r.new.is_some());
                let names: Vec<&str> = all
                    .iter()
                    .filter(|(_, row)| partly(row))
                    .map(|(r, _)| r.name.as_str())
                    .take(SHOWN)
                    .collect();
                (!names.is_empty()).then(|| {
                    format!(
                        "{word} is known on one side only of {}: {}",
                        names.join(", "),
                        remedy(metric, base.iter().chain(new))
                    )
                })
            }
        }
    }

    /// A row of a figure with noise. `exists`: what it is of is there on both sides, so that a
    /// figure that is missing is not known, for these reasons in the base and on the new side.
    fn row(
        &mut self,
        (section, key, metric): (&'static str, &Key, Metric),
        (base, new): (&[Option<Sample>], &[Option<Sample>]),
        exists: Option<[String; 2]>,
        judged: Result<usize, String>,
    ) {
        let known = |side: &[Option<Sample>]| side.iter().copied().collect::<Option<Vec<_>>>();
        let mean = |side: &Option<Vec<Sample>>| {
            let side = side.as_ref().filter(|s| !s.is_empty())?;
            // Of the same kind as the change.
            Some((side.iter().map(|s| s.value.ln()).sum::<f64>() / side.len() as f64).exp())
        };
        let (base, new) = (known(base), known(new));
        let found = base.as_deref().zip(new.as_deref()).and_then(|(a, b)| {
            let together = judged.as_ref().copied().unwrap_or(1);
            change(a, b, together, self.assumed.unwrap_or(RUN_TO_RUN))
        });
        let (outcome, why) = match (&found, &base, &new, exists) {
            (None, None, None, _) => return,
            (None, Some(_), None, Some([_, why])) => (Outcome::NotJudged, Some(why)),
            (None, None, Some(_), Some([why, _])) => (Outcome::NotJudged, Some(why)),
            (None, Some(_), None, None) => (Outcome::Gone, None),
            (None, None, Some(_), None) => (Outcome::Added, None),
            (None, ..) => (Outcome::NotJudged, Some("a figure is 0".to_owned())),
            (Some(_), ..) if !self.comparable => {
                (Outcome::NotJudged, Some(INCOMPARABLE.to_owned()))
            }
            (Some(change), ..) => match judged {
                Ok(_) => (change.outcome(), None),
                Err(why) => (Outcome::NotJudged, Some(why)),
            },
        };
        // An interval is the ground of an outcome; without one it would rest on what was refused.
        let is_judged = outcome != Outcome::NotJudged;
        let change = found.map(|c| if is_judged { c } else { c.without_interval() });
        let assumed_spread = self.assumed.filter(|_| is_judged && change.is_some());
        let row = Row::new((section, key, metric), mean(&base), mean(&new), outcome);
        self.rows.push(Row { change, assumed_spread, why, ..row });
    }

    /// A row of exact numbers.
    fn count(&mut self, section: &'static str, key: &Key, metric: Metric, base: f64, new: f64) {
        let value = new / base - 1.0;
        let change = (base > 0.0).then_some(Change { value, low: value, high: value });
        let outcome = match () {
            () if base == 0.0 && new == 0.0 => return,
            () if base == 0.0 => Outcome::Added,
            () if new == 0.0 => Outcome::Gone,
            () if !self.comparable => Outcome::NotJudged,
            () if new > base => Outcome::More,
            () if new < base => Outcome::Less,
            () => Outcome::Same,
        };
        let why = (outcome == Outcome::NotJudged).then(|| INCOMPARABLE.to_owned());
        let row = Row::new((section, key, metric), Some(base), Some(new), outcome);
        self.rows.push(Row { change, why, ..row });
    }

    fn kernels(&mut self, base: &[Run], new: &[Run]) {
        let rows = |r: &Report| -> Vec<(Key, f64)> {
            let key = |k: &Commands| (k.name.clone(), k.device.clone().unwrap_or_default());
            r.kernels.iter().map(|k| (key(k), k.total())).collect()
        };
        let order = ordered(base, new, rows);
        let whole: f64 = order.iter().map(|(_, total)| total).sum();
        let judged = order.iter().filter(|(_, t)| *t >= MINOR * whole).count();
        for (key, total) in &order {
            let time = |run: &Run| run.kernel(key).and_then(|row| run.time(row, key));
            let outcome = match apart(base, new, key) {
                Some(why) => Err(why),
                None if *total < MINOR * whole => {
                    Err("less than 0.5 % of the time of all kernels".to_owned())
                }
                // Time and joules are two rows.
                None => Ok(2 * judged),
            };
            let sides = |of: &dyn Fn(&Run) -> Option<Sample>| -> (Vec<_>, Vec<_>) {
                (base.iter().map(of).collect(), new.iter().map(of).collect())
            };
            let exists =
                [base, new].iter().all(|side| side.iter().any(|r| r.kernel(key).is_some()));
            let (a, b) = sides(&time);
            let unknown = exists.then(not_known);
            self.row(("kernel", key, Metric::Time), (&a, &b), unknown, outcome.clone());
            // A warmer chip draws more: joules are compared at one temperature, where every run tells them.
            let runs = || base.iter().chain(new);
            let is_told =
                |run: &Run| run.energy(key).is_none() || run.energy_at_reference(key).is_some();
            let devices: BTreeSet<&str> =
                runs().filter_map(|run| Some(run.energy_at_reference(key)?.1)).collect();
            let at_reference = |run: &Run| {
                let (sample, _) = run.energy_at_reference(key)?;
                // Runs of several devices have nothing in common.
                Some(if devices.len() > 1 {
                    Sample::own(sample.value, sample.error)
                } else {
                    sample
                })
            };
            let (a, b) = match runs().all(is_told) {
                true => sides(&at_reference),
                false => sides(&|run| run.energy(key)),
            };
            let unknown = exists.then(|| {
                let mut why = not_known();
                for ((why, side), word) in
                    why.iter_mut().zip([base, new]).zip(["in the base", "on the new side"])
                {
                    if side.iter().any(|run| run.is_in_a_sum(key)) {
                        *why = format!("{word} joules are known only as a sum with other kernels");
                    }
                }
                why
            });
            self.row(("kernel", key, Metric::Energy), (&a, &b), unknown, outcome);
            let launches = |side: &[Run]| {
                let n = side.iter().filter_map(|r| Some(r.kernel(key)?.count as f64));
                n.sum::<f64>() / side.len() as f64 + 0.0
            };
            self.count("kernel", key, Metric::Count, launches(base), launches(new));
        }
    }

    fn transfers(&mut self, base: &[Run], new: &[Run]) {
        let rows = |r: &Report| -> Vec<(Key, f64)> {
            let key = |t: &Commands| (t.name.clone(), t.direction.unwrap_or_default().to_owned());
            r.transfers.iter().map(|t| (key(t), t.total())).collect()
        };
        let order = ordered(base, new, rows);
        for (key, _) in &order {
            let find = |run: &Run| -> Option<usize> {
                run.report
                    .transfers
                    .iter()
                    .position(|t| t.name == key.0 && t.direction.unwrap_or_default() == key.1)
            };
            let time = |run: &Run| find(run).and_then(|i| run.time(&run.report.transfers[i], key));
            let (a, b): (Vec<_>, Vec<_>) =
                (base.iter().map(time).collect(), new.iter().map(time).collect());
            let bytes = |side: &[Run]| {
                let n = side.iter().filter_map(|r| Some(r.report.transfers[find(r)?].bytes as f64));
                n.sum::<f64>() / side.len() as f64 + 0.0
            };
            let (before, after) = (bytes(base), bytes(new));
            // Times are of one transfer: those of as many bytes each are compared.
            let each = |side: &[Run]| {
                let rows = side.iter().filter_map(|r| Some(&r.report.transfers[find(r)?]));
                let (bytes, count) =
                    rows.fold((0, 0), |sum, t| (sum.0 + u128::from(t.bytes), sum.1 + t.count));
                bytes as f64 / count as f64
            };
            let (of_base, of_new) = (each(base), each(new));
            let alike = (of_base - of_new).abs() <= ALIKE * of_base;
            let outcome = match before == after || alike {
                true => Ok(order.len()),
                false => Err("a transfer's bytes differ".to_owned()),
            };
            let exists = [base, new].iter().all(|side| side.iter().any(|r| find(r).is_some()));
            let unknown = exists.then(not_known);
            self.row(("transfer", key, Metric::Time), (&a, &b), unknown, outcome);
            self.count("transfer", key, Metric::Bytes, before, after);
        }
    }

    fn functions(&mut self, base: &[Run], new: &[Run]) {
        let rows = |r: &Report| -> Vec<(Key, f64)> {
            let key = |name: &str| (name.to_owned(), String::new());
            r.functions.iter().map(|f| (key(&f.name), f.time_ns.total as f64)).collect()
        };
        let order = ordered(base, new, rows);
        let judged = if base.len() > 1 && new.len() > 1 {
            Ok(order.len())
        } else {
            // Host times of single runs differ for reasons that no run shows by itself.
            Err("host times need several runs on each side".to_owned())
        };
        for (key, _) in &order {
            let mean = |run: &Run| {
                let row = run.report.functions.iter().find(|f| f.name == key.0)?;
                Some(Sample::own(row.time_ns.mean?, 0.0))
            };
            let (a, b): (Vec<_>, Vec<_>) =
                (base.iter().map(mean).collect(), new.iter().map(mean).collect());
            self.row(("function", key, Metric::Time), (&a, &b), None, judged.clone());
        }
    }

    fn totals(&mut self, base: &[Run], new: &[Run]) {
        let several = base.len() > 1 && new.len() > 1;
        let why = || "totals need several runs on each side".to_owned();
        let joules = |r: &Report| {
            let devices = &r.energy.as_ref()?.devices;
            // One whose joules are not known leaves the sum unknown.
            let own = devices.iter().map(|d| d.own_joules().map(|joules| joules.value));
            let sum = own.sum::<Option<f64>>();
            sum.filter(|_| !devices.is_empty())
        };
        let time = |r: &Report| r.own_ns().map(|ns| ns as f64);
        let kernels = |r: &Report| {
            (!r.kernels.is_empty()).then(|| r.kernels.iter().map(Commands::total).sum())
        };
        type Figure<'f> = &'f dyn Fn(&Report) -> Option<f64>;
        let figures: [(&str, Metric, Figure<'_>); 3] = [
            ("first begin to last end", Metric::Time, &time),
            ("all kernels", Metric::Time, &kernels),
            ("energy of all devices", Metric::Energy, &joules),
        ];
        let from = self.rows.len();
        for (name, metric, of) in figures {
            let side = |runs: &[Run]| -> Vec<Option<Sample>> {
                let sample = |value| Sample::own(value, 0.0);
                runs.iter().map(|r| of(&r.report).map(sample)).collect()
            };
            let judged = if several { Ok(figures.len()) } else { Err(why()) };
            let key = (name.to_owned(), String::new());
            self.row(("total", &key, metric), (&side(base), &side(new)), Some(not_known()), judged);
        }
        // They are read first.
        let totals = self.rows.split_off(from);
        self.rows.splice(0..0, totals);
    }
}
