//! The experiments of the reference documents, each under the name of its figure or table: what is
//! measured for it, how it is drawn, and the numbers that the document prints. Owns the table;
//! refuses to invent a number: where a document has a picture alone, its experiment has none.
//!
//! Names are `DOCUMENT/figN`, `DOCUMENT/tabN` or `DOCUMENT/secN`. Numbers are typed from the
//! documents; one that is a quotient of two printed numbers names both.

mod captions;
mod command;
mod computed;
mod couples;
mod duarte;
mod energy;
mod formula;
mod matsentidou;
mod measure;
mod models;
mod piispanen;
mod report;
mod session;
mod volkov;

pub use captions::{Caption, Standing, captions};
pub use command::Ran;
pub use computed::Computed;
pub use energy::{Energy, Part as EnergyPart};
pub use formula::{Formula, formula};
pub use measure::{cases, settings};
pub use models::Worst;
pub use report::{Curve, Number, On, Point, Printed, Report, Reported, SCHEMA, State, together};
pub use session::{News, SessionError, Wanted, along, measure, named, needs_device, with};

use crate::sweep::Axis;
use clscope_microbench::job::Scalar;
use clscope_models::prior::Model;

/// A reference document.
#[derive(Debug, PartialEq, Eq)]
pub struct Document {
    /// What its experiments' names begin with.
    pub key: &'static str,
    /// Author, year and title.
    pub title: &'static str,
}

/// The values of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    /// The usual ones of the device.
    Usual,
    /// These, as far as the device and the case take them.
    Numbers(&'static [usize]),
    /// These types.
    Types(&'static [Scalar]),
    /// Work-groups at both sides of the rounds of the compute units: few, for what takes a second
    /// at each.
    Rounds,
    /// These of a device of so many compute units; more in proportion where the device has more.
    OfUnits(usize, &'static [usize]),
    /// Powers of two up to the compute units, and those.
    Powers,
}

/// `number` of something that belongs to a device of `of` compute units, on one of `units`: the
/// same where it has no more, else in proportion. One stays one.
pub(crate) fn of_units(number: usize, of: usize, units: usize) -> usize {
    if number <= 1 { number } else { number.saturating_mul(units.max(of)) / of.max(1) }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Cases: with axes the ids of cases, without parts of ids, as the command takes them.
    pub cases: &'static [&'static str],
    /// Axes; none: the cases as they are.
    pub along: &'static [(Axis, Span)],
    /// Power is watched in each.
    pub power: bool,
    /// Turns of the kernels' loop, where the document says how many.
    pub iterations: Option<u32>,
}

/// What stands along the horizontal axis of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq)]
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
        /// Vertically, with the name of what all of them are.
        y: (&'static str, &'static [&'static str]),
    },
    /// A figure over work-items on a unit beside Little's law: in proportion from the fewest
    /// work-items, up to the largest that was measured (Volkov 2016, section 3.8).
    LittlesLaw(&'static str),
    /// What cases gave along something that is not swept.
    Series,
    /// Work-items of a unit that give 90 % of the best throughput, over additions for each access,
    /// measured and by these models.
    Needed(&'static [Model]),
    /// Throughput over occupancy at each of these numbers of additions for each access (0:
    /// accesses alone, `ALONE`: additions alone), measured and estimated by these models.
    Estimates(&'static [usize], &'static [Model]),
    /// The largest and smallest quotient of estimate and measurement over additions for each
    /// access, of these models.
    Ratios(&'static [Model]),
    /// Numbers alone.
    Numbers,
}

/// Where a number of ours comes from: among the points of a part, those of a case at these values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick {
    /// The figure.
    pub figure: &'static str,
    /// A part of the case's id.
    pub case: &'static str,
    /// Values of axes, as `--sweep` takes them.
    pub at: &'static [(Axis, &'static str)],
    /// Where the numbers of work-groups in `at` are those of a device of so many compute units:
    /// that number, as in [`Span::OfUnits`].
    pub units: Option<usize>,
}

/// What of ours is put beside a document's number.
#[derive(Clone, Copy, Debug, PartialEq)]
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
        alpha: Option<u32>,
    },
    /// The largest share of the device's arithmetic peak, percent.
    OfPeak,
    /// At the most work-items that were measured, at so many additions for each access, as in
    /// [`Draw::Estimates`].
    AtFull(AtFull, usize),
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

/// Additions for each access where there are no accesses.
pub(crate) const ALONE: usize = usize::MAX;

/// What stands at the most work-items: GB/s of accesses alone, else additions of work-items, a
/// cycle and unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AtFull {
    /// As measured.
    Measured,
    /// What a model estimates.
    Estimate(Model),
    /// Estimate / measurement.
    Quotient(Model),
}

/// What of a curve of [`Draw::Needed`].
#[derive(Clone, Copy, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Per {
    /// Nothing: it is of the device.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// What it is.
    pub what: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What the document prints, a number for each of the experiment's devices.
    pub printed: &'static [Option<f64>],
    /// Ours.
    pub ours: Ours,
    /// Ours in the document's unit: times this,
    pub times: f64,
    /// and divided by this.
    pub per: Per,
}

/// How an experiment is made again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    /// By measuring.
    Measure {
        /// What.
        parts: &'static [Part],
        /// How it is drawn.
        draw: Draw,
    },
    /// By computing its numbers, without a device; by what.
    Compute(&'static str),
    /// Not: what is missing, and what comes near it.
    Cannot(&'static str),
}

/// A figure or table of a document.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    pub devices: &'static [&'static str],
    /// The numbers that the document prints.
    pub rows: &'static [Row],
}

/// The devices of a document, where its experiments were made.
#[derive(Clone, Copy)]
struct Devices(&'static [&'static str]);

impl Devices {
    const fn experiment(
        self,
        name: &'static str,
        section: &'static str,
        shows: &'static str,
        how: How,
        rows: &'static [Row],
    ) -> Experiment {
        Experiment { name, section, shows, how, devices: self.0, rows }
    }

    const fn cannot(
        self,
        name: &'static str,
        section: &'static str,
        shows: &'static str,
        why: &'static str,
    ) -> Experiment {
        self.experiment(name, section, shows, How::Cannot(why), &[])
    }
}

const fn measured(parts: &'static [Part], draw: Draw) -> How {
    How::Measure { parts, draw }
}

/// The documents.
pub const DOCUMENTS: [Document; 5] = [
    Document {
        key: "000",
        title: "Duarte 2018, Performance Analysis of Intel Gen9.5 Integrated GPU Architecture (thesis)",
    },
    Document { key: "001", title: "Volkov 2016, Understanding Latency Hiding on GPUs" },
    Document {
        key: "002",
        title: "Matsentidou, Arm Mali T-624 GPU performance characterization and modeling",
    },
    Document { key: "003", title: "Duarte, the paper of the Gen9.5 thesis" },
    Document {
        key: "004",
        title: "Piispanen 2014, Simulating timing and energy consumption of accelerated processing",
    },
];

/// All experiments, in the order of the documents.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    [
        duarte::THESIS,
        computed::THESIS,
        volkov::ALL,
        volkov::kernels::ALL,
        volkov::models::ALL,
        computed::MODELS,
        matsentidou::GROUPS,
        couples::ALL,
        matsentidou::MEMORY,
        duarte::PAPER,
        piispanen::ALL,
    ]
    .into_iter()
    .flatten()
}

/// Figures and tables that another experiment shows, too.
pub const SHOWN_BY: [(&str, &str); 16] = [
    ("000/fig4.5", "000/fig4.4"),
    ("001/tab3.2", "001/tab3.4"),
    ("001/tab3.3", "001/tab3.4"),
    ("004/fig6.5", "004/sec6.1"),
    ("003/fig6", "003/fig5"),
    ("003/fig7", "003/fig5"),
    ("001/fig3.8", "001/fig3.7"),
    ("001/fig4.5", "001/fig4.6"),
    ("001/tab7.1", "001/fig7.7"),
    ("001/fig3.10", "001/fig3.9"),
    ("001/fig4.10", "001/tab4.3"),
    ("001/fig4.13", "001/fig4.11"),
    ("001/fig3.3", "001/fig5.1"),
    ("001/fig5.4", "001/fig5.1"),
    ("001/tab6.6", "001/fig6.5"),
    ("002/fig10.5", "002/fig10.2"),
];

/// The experiment of a name, or the one that shows what it names.
pub fn find(name: &str) -> Option<&'static Experiment> {
    let shown = SHOWN_BY.iter().find(|(other, _)| *other == name).map_or(name, |(_, by)| by);
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
    pub fn parts(&self) -> &'static [Part] {
        match self.how {
            How::Measure { parts, .. } => parts,
            How::Compute(_) | How::Cannot(_) => &[],
        }
    }
}

/// A part of one case along axes.
const fn sweep(cases: &'static [&'static str], along: &'static [(Axis, Span)]) -> Part {
    Part { cases, along, power: false, iterations: None }
}

/// The same with power watched.
const fn watched(cases: &'static [&'static str], along: &'static [(Axis, Span)]) -> Part {
    Part { power: true, ..sweep(cases, along) }
}

/// A figure anywhere in an experiment.
const fn any(figure: &'static str) -> Pick {
    Pick { figure, case: "", at: &[], units: None }
}

/// A figure of a case.
const fn of(case: &'static str, figure: &'static str) -> Pick {
    Pick { figure, case, at: &[], units: None }
}

/// A row in the unit that ours has, too.
const fn row(
    what: &'static str,
    unit: &'static str,
    printed: &'static [Option<f64>],
    ours: Ours,
) -> Row {
    Row { what, unit, printed, ours, times: 1.0, per: Per::Device }
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
                How::Measure { parts, .. } => {
                    assert!(!parts.is_empty(), "{}", e.name);
                    assert!(parts.iter().all(|p| !p.cases.is_empty() && p.along.len() <= 2));
                    // Points of equal ids would be one.
                    for (n, a) in parts.iter().enumerate() {
                        let same = |b: &Part| {
                            b.cases == a.cases
                                && b.along.iter().map(|x| x.0).eq(a.along.iter().map(|x| x.0))
                        };
                        assert!(!parts[..n].iter().any(same), "{}: {}", e.name, a.command());
                    }
                }
            }
        }
        for (other, by) in SHOWN_BY {
            assert!(!seen.contains(other) && find(other).is_some_and(|e| e.name == by), "{other}");
        }
        assert!(DOCUMENTS.iter().all(|d| all().any(|e| e.document() == d)));
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
        for (e, part) in all().flat_map(|e| e.parts().iter().map(move |p| (e, p))) {
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
