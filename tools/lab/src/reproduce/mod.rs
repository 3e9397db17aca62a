//! The experiments of the reference documents, each under the name of its figure or table: what is
//! measured for it, how it is drawn, and the numbers that the document prints. Owns the form of the
//! tables, which are in `documents/`; refuses to invent a number: where a document has a picture
//! alone, its experiment has none.
//!
//! Names are `DOCUMENT/figN`, `DOCUMENT/tabN` or `DOCUMENT/secN`. Numbers are typed from the
//! documents; one that is a quotient of two printed numbers is written as both: `"192/154"`.

mod captions;
mod command;
mod computed;
mod energy;
mod formula;
mod measure;
mod models;
mod report;
mod session;

pub use captions::{Caption, Standing, captions};
pub use command::Ran;
pub use computed::Computed;
#[cfg(test)]
pub(crate) use computed::MAXWELL;
pub use energy::{Energy, Part as EnergyPart};
pub use formula::{Formula, formula};
pub use measure::{cases, settings};
pub use models::Worst;
pub use report::{Curve, Number, On, Point, Printed, Report, Reported, SCHEMA, State, together};
pub use session::{News, SessionError, Wanted, along, measure, named, needs_device, with};

use crate::sweep::Axis;
use clscope_microbench::job::Scalar;
use clscope_models::prior::Model;
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A reference document, as its table in `documents/` has it.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// What its experiments' names begin with.
    pub key: &'static str,
    /// Author, year and title.
    pub title: &'static str,
    /// Where its numbers come from, for those who edit the table.
    #[serde(default, rename = "notes")]
    _notes: IgnoredAny,
    /// What experiments measure, by name: several share one.
    parts: BTreeMap<&'static str, Part>,
    /// Its experiments.
    pub experiments: Vec<Experiment>,
    /// Figures and tables that another experiment shows, too.
    shown_by: BTreeMap<&'static str, &'static str>,
    /// Those without an experiment: why, and what they show, in our words.
    without: BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>,
}

/// A list that lasts as long as the program.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(of: D) -> Result<&'static [T], D::Error> {
    Ok(Vec::leak(Vec::deserialize(of)?))
}

/// A number, or products and quotients of numbers: `"1.4*128/177.4"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quotient(f64);

impl<'de> Deserialize<'de> for Quotient {
    fn deserialize<D: Deserializer<'de>>(of: D) -> Result<Self, D::Error> {
        let written = serde_json::Value::deserialize(of)?;
        let product =
            |text: &str| text.split('*').map(str::parse::<f64>).product::<Result<f64, _>>();
        let value = match (written.as_f64(), written.as_str()) {
            (Some(number), _) => number,
            (None, text) => {
                let mut factors = text.unwrap_or_default().split('/').map(product);
                let first = factors.next().unwrap_or(Ok(f64::NAN));
                factors.fold(first, |all, by| Ok(all? / by?)).map_err(D::Error::custom)?
            }
        };
        Ok(Self(value))
    }
}

fn number<'de, D: Deserializer<'de>>(of: D) -> Result<f64, D::Error> {
    Ok(Quotient::deserialize(of)?.0)
}

fn printed<'de, D: Deserializer<'de>>(of: D) -> Result<&'static [Option<f64>], D::Error> {
    let all: Vec<Option<Quotient>> = Vec::deserialize(of)?;
    Ok(all.into_iter().map(|n| n.map(|n| n.0)).collect::<Vec<_>>().leak())
}

/// The values of an axis.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Span {
    /// The usual ones of the device.
    Usual,
    /// These, as far as the device and the case take them.
    Numbers(#[serde(deserialize_with = "list")] &'static [usize]),
    /// These types.
    Types(#[serde(deserialize_with = "list")] &'static [Scalar]),
    /// Work-groups at both sides of the rounds of the compute units: few, for what takes a second
    /// at each.
    Rounds,
    /// These of a device of so many compute units; more in proportion where the device has more.
    OfUnits(usize, #[serde(deserialize_with = "list")] &'static [usize]),
    /// Powers of two up to the compute units, and those.
    Powers,
}

/// `number` of something that belongs to a device of `of` compute units, on one of `units`: the
/// same where it has no more, else in proportion. One stays one.
pub(crate) fn of_units(number: usize, of: usize, units: usize) -> usize {
    if number <= 1 { number } else { number.saturating_mul(units.max(of)) / of.max(1) }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'static"))]
pub struct Part {
    /// Cases: with axes the ids of cases, without parts of ids, as the command takes them.
    #[serde(deserialize_with = "list")]
    pub cases: &'static [&'static str],
    /// Axes; none: the cases as they are.
    #[serde(default, deserialize_with = "list")]
    pub along: &'static [(Axis, Span)],
    /// Power is watched in each.
    #[serde(default)]
    pub power: bool,
    /// Turns of the kernels' loop, where the document says how many.
    #[serde(default)]
    pub iterations: Option<u32>,
}

/// What stands along the horizontal axis of a curve.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum X {
    /// The axis of the sweep of this number.
    Axis(usize),
    /// All work-items of the launch.
    Items,
    /// A figure.
    Figure(&'static str),
    /// A parameter of cases that are not swept.
    Parameter(&'static str),
}

/// How an experiment is drawn.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// Curves of a figure, one for each value of the other axis and each case.
    Curves {
        /// Horizontally.
        x: X,
        /// What that is called.
        label: &'static str,
        /// Vertically.
        y: &'static str,
    },
    /// Several figures with one unit, a curve for each of them in each sweep.
    Figures {
        /// Horizontally.
        x: X,
        /// What that is called.
        label: &'static str,
        /// Vertically: what all of them are.
        y: &'static str,
        /// The figures.
        #[serde(deserialize_with = "list")]
        figures: &'static [&'static str],
    },
    /// A figure over work-items on a unit beside Little's law: in proportion from the fewest
    /// work-items, up to the largest that was measured (Volkov 2016, section 3.8).
    LittlesLaw(&'static str),
    /// What cases gave along something that is not swept.
    Series,
    /// Work-items of a unit that give 90 % of the best throughput, over additions for each access,
    /// measured and by these models.
    Needed(#[serde(deserialize_with = "list")] &'static [Model]),
    /// Throughput over occupancy at each of these numbers of additions for each access (0:
    /// accesses alone, none: additions alone), measured and estimated by these models.
    Estimates(
        #[serde(deserialize_with = "list")] &'static [Option<u32>],
        #[serde(deserialize_with = "list")] &'static [Model],
    ),
    /// The largest and smallest quotient of estimate and measurement over additions for each
    /// access, of these models.
    Ratios(#[serde(deserialize_with = "list")] &'static [Model]),
    /// Numbers alone.
    Numbers,
}

/// Where a number of ours comes from: among the points of a part, those of a case at these values.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pick {
    /// The figure.
    pub figure: &'static str,
    /// A part of the case's id.
    #[serde(default)]
    pub case: &'static str,
    /// Values of axes, as `--sweep` takes them.
    #[serde(default, deserialize_with = "list")]
    pub at: &'static [(Axis, &'static str)],
    /// Where the numbers of work-groups in `at` are those of a device of so many compute units:
    /// that number, as in [`Span::OfUnits`].
    #[serde(default)]
    pub units: Option<usize>,
}

/// What of ours is put beside a document's number.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ours {
    /// The largest.
    Most(Pick),
    /// The smallest.
    Least(Pick),
    /// The mean.
    Mean(Pick),
    /// The largest of one over the largest of the other.
    Ratio(Pick, Pick),
    /// The largest value of the first axis up to which the figure stays within 5 % of its first;
    /// at least the last one, where it never leaves that.
    Level(Pick),
    /// The fewest work-items on a unit with which the first figure reaches so many percent of what
    /// both reach.
    Reaches(Pick, Pick, u8),
    /// A figure where another one, the load, is largest or smallest.
    Under {
        /// The figure.
        figure: &'static str,
        /// The load.
        load: &'static str,
        /// Whether at the most.
        most: bool,
    },
    /// A figure of a finding.
    Found(&'static str, &'static str),
    /// A figure of a finding over one of another.
    FoundRatio([&'static str; 2], [&'static str; 2]),
    /// The same, less one of another.
    FoundDifference([&'static str; 2], [&'static str; 2]),
    /// A figure at the last point of the first curve, less that at 1.
    Span(&'static str),
    /// The largest quotient of a model's estimate and what was measured; smallest without `over`.
    Worst {
        /// The model.
        model: Model,
        /// Whether the largest.
        over: bool,
        /// Among points of so many additions for each access, or of the number nearest to it that
        /// was measured; of all without.
        #[serde(default)]
        alpha: Option<u32>,
    },
    /// The largest share of the device's arithmetic peak, percent.
    OfPeak,
    /// At the most work-items that were measured, at so many additions for each access, as in
    /// [`Draw::Estimates`].
    AtFull(AtFull, Option<u32>),
    /// A parameter that the models take.
    Input(Input),
    /// The largest quotient of what waves of groups give and what was measured, over numbers of
    /// groups up to 4 times the compute units; smallest without `over`.
    SawTooth {
        /// The figure along the groups.
        figure: &'static str,
        /// Whether the largest.
        over: bool,
    },
    /// Of the work-items of a unit that hide latency over additions for each instruction of a case.
    Needed(&'static str, Needed),
    /// A number of the energy model.
    Energy(Energy),
    /// What this program computes without a device.
    Computed(Computed),
    /// Nothing, because of this.
    Nothing(&'static str),
}

/// What stands at the most work-items: GB/s of accesses alone, else additions of work-items, a
/// cycle and unit.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtFull {
    /// As measured.
    Measured,
    /// What a model estimates.
    Estimate(Model),
    /// Estimate / measurement.
    Quotient(Model),
}

/// What of a curve of [`Draw::Needed`].
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Needed {
    /// Work-items at the fewest additions.
    Fewest,
    /// Work-items at the most additions.
    Most,
    /// Work-items at the cusp.
    Cusp,
    /// Additions at the cusp.
    Additions,
}

/// A parameter of the models, in cycles, or instructions a cycle and unit.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Latency of an access.
    MemoryLatency,
    /// Most accesses.
    MemoryThroughput,
    /// Latency of an addition.
    AddLatency,
    /// Most additions.
    AddThroughput,
    /// Most instructions.
    IssueThroughput,
    /// Latency of memory without load, by the fit of its growth.
    A,
    /// How fast it grows.
    B,
    /// The throughput that is never reached, GB/s.
    C,
    /// Warps that hide the latency of accesses alone: latency x most accesses.
    HideAccesses,
    /// The same of additions.
    HideAdditions,
    /// Warps that hide both where both are at their most.
    HideBoth,
    /// Additions for each access where both are at their most.
    Balanced,
}

/// What a number of ours is divided by before it is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// Nothing: it is of the device.
    #[default]
    Device,
    /// Compute units.
    Unit,
    /// Work-items of a warp.
    Warp,
    /// Schedulers of a compute unit.
    Scheduler,
    /// Both.
    WarpOfScheduler,
}

/// A number of a document beside ours.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// What it is.
    pub what: &'static str,
    /// Its unit.
    #[serde(default)]
    pub unit: &'static str,
    /// What the document prints, a number for each of the experiment's devices.
    #[serde(deserialize_with = "printed")]
    pub printed: &'static [Option<f64>],
    /// Ours.
    pub ours: Ours,
    /// Ours in the document's unit: times this,
    #[serde(default = "once", deserialize_with = "number")]
    pub times: f64,
    /// and divided by this.
    #[serde(default)]
    pub per: Per,
}

/// How an experiment is made again.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// By measuring.
    Measure {
        /// What, by the names that the document's table gives.
        #[serde(deserialize_with = "list")]
        parts: &'static [&'static str],
        /// How it is drawn.
        draw: Draw,
    },
    /// By computing its numbers, without a device; by what.
    Compute(&'static str),
    /// Not: what is missing, and what comes near it.
    Cannot(&'static str),
}

/// A figure or table of a document.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// The section that has it.
    pub section: &'static str,
    /// What it shows.
    pub shows: &'static str,
    /// How it is made again.
    pub how: How,
    /// The document's devices.
    #[serde(deserialize_with = "list")]
    pub devices: &'static [&'static str],
    /// The numbers that the document prints.
    #[serde(deserialize_with = "list")]
    pub rows: &'static [Row],
}

fn once() -> f64 {
    1.0
}

/// The documents.
pub static DOCUMENTS: LazyLock<[Document; 5]> = LazyLock::new(|| {
    [
        include_str!("documents/000.json"),
        include_str!("documents/001.json"),
        include_str!("documents/002.json"),
        include_str!("documents/003.json"),
        include_str!("documents/004.json"),
    ]
    .map(|table| serde_json::from_str(table).expect("a table that is built in"))
});

/// All experiments, in the order of the documents.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    DOCUMENTS.iter().flat_map(|d| &d.experiments)
}

/// The experiment of a name, or the one that shows what it names.
pub fn find(name: &str) -> Option<&'static Experiment> {
    let shown = DOCUMENTS.iter().find_map(|d| d.shown_by.get(name)).map_or(name, |by| by);
    all().find(|e| e.name == shown)
}

impl Experiment {
    /// Its document.
    pub fn document(&self) -> &'static Document {
        let key = self.name.split('/').next().unwrap_or_default();
        // Every name begins with a key: a test holds that.
        DOCUMENTS.iter().find(|d| d.key == key).unwrap_or(&DOCUMENTS[0])
    }

    /// What is measured; nothing where it cannot be made again.
    pub fn parts(&self) -> Vec<&'static Part> {
        let How::Measure { parts, .. } = self.how else { return Vec::new() };
        let document = self.document();
        parts.iter().map(|name| &document.parts[name]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::SUITES;
    use clscope_microbench::settings::Settings;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_number_has_its_device() {
        let mut seen = BTreeSet::new();
        for e in all() {
            assert!(seen.insert(e.name), "{} is there twice", e.name);
            assert!(e.name.starts_with(&format!("{}/", e.document().key)), "{}", e.name);
            assert!(!e.section.is_empty() && !e.shows.is_empty(), "{}", e.name);
            for row in e.rows {
                assert_eq!(row.printed.len(), e.devices.len(), "{}: {}", e.name, row.what);
                assert!(row.printed.iter().flatten().all(|x| x.is_finite()), "{}", e.name);
            }
            match e.how {
                How::Cannot(why) | How::Compute(why) => assert!(!why.is_empty(), "{}", e.name),
                How::Measure { .. } => {
                    let parts = e.parts();
                    assert!(!parts.is_empty(), "{}", e.name);
                    assert!(parts.iter().all(|p| !p.cases.is_empty() && p.along.len() <= 2));
                    // Points of equal ids would be one.
                    for (n, a) in parts.iter().enumerate() {
                        let same = |b: &&Part| {
                            b.cases == a.cases
                                && b.along.iter().map(|x| x.0).eq(a.along.iter().map(|x| x.0))
                        };
                        assert!(!parts[..n].iter().any(same), "{}: {}", e.name, a.command());
                    }
                }
            }
        }
        for (other, by) in DOCUMENTS.iter().flat_map(|d| &d.shown_by) {
            assert!(!seen.contains(other) && find(other).is_some_and(|e| e.name == *by), "{other}");
        }
        for d in DOCUMENTS.iter() {
            assert!(!d.experiments.is_empty(), "{}", d.key);
            assert!(d.experiments.iter().all(|e| e.document().key == d.key), "{}", d.key);
            for name in d.parts.keys() {
                let measures = |e: &Experiment| matches!(e.how, How::Measure { parts, .. } if parts.contains(name));
                assert!(d.experiments.iter().any(measures), "{}: nothing measures {name}", d.key);
            }
        }
    }

    /// A case that is renamed, or loses an axis, would leave an experiment without points.
    #[test]
    fn every_part_has_its_cases_and_axes() {
        let device = report::tests::device();
        let cases = |full| {
            let settings = Settings { full, ..Settings::default() };
            SUITES.iter().flat_map(|s| (s.cases)(&device, &settings)).collect::<Vec<_>>()
        };
        let (quick, full) = (cases(false), cases(true));
        for (e, part) in all().flat_map(|e| e.parts().into_iter().map(move |p| (e, p))) {
            for name in part.cases {
                if part.along.is_empty() {
                    assert!(quick.iter().any(|c| c.id.contains(name)), "{}: {name}", e.name);
                    continue;
                }
                let case = full.iter().find(|c| c.id == *name);
                let case = case.unwrap_or_else(|| panic!("{}: no case {name}", e.name));
                let axes = case.swept.as_ref().map(|s| s.axes()).unwrap_or_default();
                for (axis, _) in part.along {
                    assert!(axes.contains(axis), "{}: {name} has no {}", e.name, axis.name());
                }
            }
        }
    }
}
