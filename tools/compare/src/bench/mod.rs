//! Differences between results of `clscope-lab`: two devices, drivers or days. Owns which figures
//! belong together, which direction of a change is worse, and which changes break the user's limit;
//! refuses to print. Whether a change is more than noise says [`crate::outcome`].
//!
//! Figures belong together by case and name, and findings by theirs. What cannot be compared is a
//! row all the same, with the reason. `tools/compare/bench-diff.schema.json` describes the document
//! (JSON Schema, draft 2020-12).

mod read;

pub use read::{Key, MOST_BYTES, Origin, READS, Ran, Read, ReadError, Run};

use crate::diff::Difference;
use crate::outcome::{Change, Outcome, RUN_TO_RUN, RUN_TO_RUN_OF_PROCESSORS, Sample, change};
use clscope_analysis::quantile::NORMAL_95;
use clscope_profile::interval::Interval;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The document's schema.
pub const SCHEMA: &str = "clscope-bench-diff/2";

/// Which direction of a figure is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Rates, and rates for each watt.
    HigherIsBetter,
    /// Times, cycles, joules.
    LowerIsBetter,
    /// Neither: a clock, a size, the power that something draws.
    Neither,
}

impl Direction {
    /// By the unit, and for shares by the name: a share is better when what it is a share of is.
    pub fn classify(unit: &str, name: &str) -> Self {
        match unit {
            // What a device did is neither good nor bad.
            _ if name.starts_with("counter/") => Self::Neither,
            "ns" | "us" | "ms" | "s" | "cycles" | "pJ" | "nJ" | "uJ" | "mJ" | "J" => {
                Self::LowerIsBetter
            }
            "%" if name.starts_with("share_of_peak") => Self::HigherIsBetter,
            rate if rate.contains("/s") || rate.contains("/cycle") => Self::HigherIsBetter,
            _ => Self::Neither,
        }
    }
}

/// A figure on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// `case` or `finding`.
    pub kind: &'static str,
    /// The id of the case, or the name of the finding.
    pub id: String,
    /// The name of the figure; `None` where the row is about the case as a whole.
    pub figure: Option<String>,
    /// Its unit in the base, else on the new side.
    pub unit: Option<String>,
    /// Of each run of the base that has it.
    pub base: Vec<Interval>,
    /// Of each new run that has it.
    pub new: Vec<Interval>,
    /// The change with its interval.
    pub change: Option<Change>,
    /// What it is.
    pub outcome: Outcome,
    /// Which direction is the better one.
    pub direction: Direction,
    /// Whether it surely changed to the worse.
    pub worse: bool,
    /// Why it is not judged.
    pub why: Option<String>,
    /// Whether it breaks the limit.
    pub breaks: bool,
}

/// The whole document.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Diff {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Runs of the base.
    pub base: Vec<Origin>,
    /// Runs of the new side.
    pub new: Vec<Origin>,
    /// What differs between the sides besides figures.
    pub differences: Vec<Difference>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The largest change to the worse that is let pass: 0.03 for 3 %.
    pub limit: Option<f64>,
    /// Figures that were judged.
    pub judged: usize,
    /// In the order of the base; what only the new side has behind it.
    pub rows: Vec<Row>,
}

/// What a side says of something, all its runs together.
fn join_values(side: &[Run], of: impl Fn(&Run) -> String) -> String {
    let all: BTreeSet<String> = side.iter().map(of).collect();
    all.into_iter().collect::<Vec<_>>().join(" and ")
}

fn differences(base: &[Run], new: &[Run]) -> Vec<Difference> {
    type Of = fn(&Run) -> String;
    let facts: [(&str, Of); 5] = [
        ("device", |r| r.origin.device.clone()),
        ("platform", |r| r.origin.platform.clone()),
        ("driver", |r| r.origin.driver.clone()),
        ("clscope", |r| r.origin.version.clone()),
        ("power source", |r| r.origin.power_source.clone()),
    ];
    let mut out = Vec::new();
    let mut tell = |what: String, of: &dyn Fn(&Run) -> String| {
        let (a, b) = (join_values(base, of), join_values(new, of));
        if a != b {
            out.push(Difference { what, base: a, new: b });
        }
    };
    for (what, of) in facts {
        tell(what.to_owned(), &of);
    }
    let settings: BTreeSet<&String> =
        base.iter().chain(new).flat_map(|r| r.settings.keys()).collect();
    for name in settings {
        tell(format!("setting {name}"), &|run| {
            run.settings.get(name).map_or_else(|| "not stated".to_owned(), ToString::to_string)
        });
    }
    out
}

/// The standard error of a figure, relative; or why there is none.
fn sample(of: Interval) -> Result<Sample, &'static str> {
    let longer = (of.value - of.low).max(of.high - of.value);
    match () {
        () if of.value <= 0.0 => Err("a figure is not above 0, and has no ratio"),
        () if !(of.low <= of.value && of.value <= of.high) => Err("an interval is not in order"),
        () if !longer.is_finite() => Err("an interval has no end: too few samples"),
        () => Ok(Sample::own(of.value, longer / of.value / NORMAL_95)),
    }
}

/// What forbids to compare a case, if something does.
fn apart(base: &[Run], new: &[Run], id: &str) -> Option<String> {
    let parameters: BTreeSet<String> = base
        .iter()
        .chain(new)
        .filter_map(|r| r.cases.get(id))
        .map(|ran| serde_json::to_string(&ran.parameters).unwrap_or_default())
        .collect();
    (parameters.len() > 1).then(|| {
        format!("its parameters differ: {}", parameters.into_iter().collect::<Vec<_>>().join(" | "))
    })
}

/// Why a side has no figure of a case, from its runs.
fn missing(side: &[Run], key: &Key) -> String {
    let of = |run: &Run| match run.cases.get(&key.id).filter(|_| key.kind == "case") {
        Some(ran) if ran.status != "measured" => match &ran.reason {
            Some(reason) => format!("{}: {reason}", ran.status),
            None => ran.status.clone(),
        },
        Some(_) => "measured without this figure".to_owned(),
        None if run.origin.interrupted => "the run was ended before it".to_owned(),
        None if key.kind == "case" => "not run".to_owned(),
        None => "not found".to_owned(),
    };
    join_values(side, of)
}

/// A row before the number of judged figures is known.
struct Pair {
    key: Key,
    unit: String,
    base: Vec<Interval>,
    new: Vec<Interval>,
    samples: Result<(Vec<Sample>, Vec<Sample>), (Outcome, String)>,
}

fn pair(base: &[Run], new: &[Run], key: &Key) -> Option<Pair> {
    let side = |runs: &[Run]| -> Vec<Option<Option<Read>>> {
        runs.iter().map(|r| r.figures.get(key).cloned()).collect()
    };
    let (a, b) = (side(base), side(new));
    let known = |side: &[Option<Option<Read>>]| -> Vec<Interval> {
        side.iter().flatten().flatten().filter_map(|r| r.interval).collect()
    };
    let (figures, others) = (known(&a), known(&b));
    let units: Vec<&str> = {
        let all = a.iter().chain(&b).flatten().flatten().map(|r| r.unit.as_str());
        let mut units: Vec<&str> = all.collect();
        units.dedup();
        units
    };
    let unit = (*units.first()?).to_owned();
    let (has_a, has_b) = (a.iter().all(Option::is_some), b.iter().all(Option::is_some));
    let judge = || -> Result<(Vec<Sample>, Vec<Sample>), (Outcome, String)> {
        let not = |why: String| (Outcome::NotJudged, why);
        if !has_b && has_a {
            return Err((Outcome::Gone, format!("on the new side: {}", missing(new, key))));
        }
        if !has_a && has_b {
            return Err((Outcome::Added, format!("in the base: {}", missing(base, key))));
        }
        if !has_a {
            return Err(not("not all runs have it".to_owned()));
        }
        if a.iter().chain(&b).any(|r| matches!(r, Some(None))) {
            return Err(not(format!("a file has several {} of {}", key.figure, key.id)));
        }
        if units.len() > 1 {
            return Err(not(format!("its units differ: {}", units.join(" | "))));
        }
        if figures.len() < a.len() || others.len() < b.len() {
            return Err(not("a value is not known".to_owned()));
        }
        if let Some(why) = apart(base, new, &key.id).filter(|_| key.kind == "case") {
            return Err(not(why));
        }
        let samples = |of: &[Interval]| -> Result<Vec<Sample>, (Outcome, String)> {
            of.iter().map(|i| sample(*i).map_err(|why| not(why.to_owned()))).collect()
        };
        Ok((samples(&figures)?, samples(&others)?))
    };
    let samples = judge();
    Some(Pair { key: key.clone(), unit, base: figures, new: others, samples })
}

impl Pair {
    fn row(self, judged: usize, spread: f64, limit: Option<f64>) -> Row {
        let direction = Direction::classify(&self.unit, &self.key.figure);
        let found = self.samples.as_ref().ok().and_then(|(a, b)| change(a, b, judged, spread));
        let (outcome, why) = match (found, self.samples) {
            (Some(change), _) => (change.outcome(), None),
            (None, Err((outcome, why))) => (outcome, Some(why)),
            (None, Ok(_)) => (Outcome::NotJudged, Some("a figure has no ratio".to_owned())),
        };
        // How far it changed to the worse, where the interval leaves no doubt about the direction.
        let loss = found.and_then(|c| match direction {
            Direction::HigherIsBetter if c.high < 0.0 => Some(-c.value),
            Direction::LowerIsBetter if c.low > 0.0 => Some(c.value),
            _ => None,
        });
        Row {
            kind: self.key.kind,
            id: self.key.id,
            figure: Some(self.key.figure),
            unit: Some(self.unit),
            base: self.base,
            new: self.new,
            change: found,
            outcome,
            direction,
            worse: loss.is_some() && matches!(outcome, Outcome::More | Outcome::Less),
            why,
            breaks: loss.zip(limit).is_some_and(|(loss, limit)| loss > limit),
        }
    }
}

impl Diff {
    /// Compares two sides of at least one run each. `limit`: the largest change to the worse that
    /// is let pass. A row breaks it where the estimate is beyond it, and the interval, which is
    /// wide enough for all figures together, leaves no doubt that it became worse; a case that was
    /// measured and now gives wrong results or fails breaks any limit.
    pub fn new(base: &[Run], new: &[Run], limit: Option<f64>) -> Self {
        let mut seen = BTreeSet::new();
        let keys = base.iter().chain(new).flat_map(|r| &r.order).filter(|key| seen.insert(*key));
        let pairs: Vec<Pair> = keys.filter_map(|key| pair(base, new, key)).collect();
        let judged = pairs.iter().filter(|p| p.samples.is_ok()).count();
        let spread = match base.iter().chain(new).any(|r| r.is_processor) {
            true => RUN_TO_RUN_OF_PROCESSORS,
            false => RUN_TO_RUN,
        };
        let mut rows: Vec<Row> = pairs.into_iter().map(|p| p.row(judged, spread, limit)).collect();
        rows.extend(broken_cases(base, new, limit.is_some()));
        let mut notes = Vec::new();
        if base.len() < 2 || new.len() < 2 {
            notes.push(format!(
                "one run does not show how much runs differ: {} % is assumed; name several for each side (b1,b2,b3 n1,n2,n3)",
                100.0 * spread
            ));
        }
        let ended = base.iter().chain(new).filter(|r| r.origin.interrupted);
        notes.extend(ended.map(|r| format!("{} was ended early", r.origin.file)));
        let others = other_geometry(base, new);
        if others > 0 {
            notes.push(format!(
                "{others} cases ran with other numbers or sizes of work-groups: without --blocks and --tpb they are what keeps a device busy"
            ));
        }
        let origins = |side: &[Run]| side.iter().map(|r| r.origin.clone()).collect();
        Self {
            schema: SCHEMA,
            base: origins(base),
            new: origins(new),
            differences: differences(base, new),
            notes,
            limit,
            judged,
            rows,
        }
    }

    /// Rows that break the limit.
    pub fn broken(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|r| r.breaks)
    }
}

/// Cases that were measured in the base, and that the new side runs without getting them right.
fn broken_cases(base: &[Run], new: &[Run], judged: bool) -> Vec<Row> {
    let measured: BTreeSet<&String> = base
        .iter()
        .flat_map(|r| &r.cases)
        .filter(|(_, ran)| ran.status == "measured")
        .map(|(id, _)| id)
        .collect();
    let mut bad: BTreeMap<&String, &Ran> = BTreeMap::new();
    for (id, ran) in new.iter().flat_map(|r| &r.cases) {
        if matches!(ran.status.as_str(), "wrong" | "failed") && measured.contains(id) {
            bad.entry(id).or_insert(ran);
        }
    }
    let row = |(id, ran): (&String, &Ran)| Row {
        kind: "case",
        id: id.clone(),
        figure: None,
        unit: None,
        base: Vec::new(),
        new: Vec::new(),
        change: None,
        outcome: Outcome::Gone,
        direction: Direction::Neither,
        worse: true,
        why: Some(match &ran.reason {
            Some(reason) => format!("{}: {reason}", ran.status),
            None => ran.status.clone(),
        }),
        breaks: judged,
    };
    bad.into_iter().map(row).collect()
}

fn other_geometry(base: &[Run], new: &[Run]) -> usize {
    let ids: BTreeSet<&String> = base.iter().chain(new).flat_map(|r| r.cases.keys()).collect();
    let differs = |id: &&&String| {
        let of = base.iter().chain(new).filter_map(|r| r.cases.get(**id)?.geometry);
        of.collect::<BTreeSet<_>>().len() > 1
    };
    ids.iter().filter(differs).count()
}

#[cfg(test)]
mod tests;
