//! GPU power from what the sensors count: the selectable formulas, what each includes, the choice
//! among them, and the containment self-test. Pure: planes in, watts or joules out. Refuses to use
//! 0 for a plane that is missing: that is an error that names it.
#![forbid(unsafe_code)]

use crate::source::Plane;
use std::fmt;
use std::ops::Sub;
use std::str::FromStr;
use thiserror::Error;

/// What each plane drew over one and the same span; watts or joules, `None` where no working sensor
/// is.
///
/// Several packages: one such value per package, or their sums; never a sum over some of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planes<T> {
    /// RAPL package.
    pub pkg: Option<T>,
    /// RAPL PP0: all cores. A single core's counter does not belong here.
    pub pp0: Option<T>,
    /// RAPL PP1: graphics.
    pub pp1: Option<T>,
    /// RAPL DRAM.
    pub dram: Option<T>,
    /// NVML board power.
    pub nvml: Option<T>,
    /// hwmon card or package power of a discrete GPU.
    pub hwmon: Option<T>,
    /// An external meter.
    pub meter: Option<T>,
}

impl<T> Default for Planes<T> {
    fn default() -> Planes<T> {
        Planes { pkg: None, pp0: None, pp1: None, dram: None, nvml: None, hwmon: None, meter: None }
    }
}

/// How GPU power is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Formula {
    /// RAPL's graphics plane itself.
    Pp1,
    /// P_PKG - P_PP0.
    PkgPp0,
    /// The formula of the Gen9.5 thesis: P_iGPU = P_PKG - P_PP0 - P_DRAM (Duarte 2018, eq. 4.3).
    PkgPp0Dram,
    /// The board's power as NVML gives it.
    Nvml,
    /// The card's or GPU package's power as its hwmon driver gives it.
    Hwmon,
    /// All that an external meter feeds.
    Meter,
}

/// What the user may ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The best that works.
    #[default]
    Auto,
    /// This one or an error.
    Fixed(Formula),
}

/// A formula lacks planes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("GPU power by {formula}: no working sensor for {}", list(missing))]
pub struct MissingPlanes {
    /// Which formula.
    pub formula: Formula,
    /// The planes it needs and has not.
    pub missing: Vec<&'static str>,
}

/// Nothing gives GPU power here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum NoFormula {
    /// Every candidate lacks planes.
    #[error("no GPU power formula can be used: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Missing(Vec<MissingPlanes>),
    /// The one asked for speaks of other hardware.
    #[error(
        "GPU power by {formula} does not apply: it is formed of {}, and this GPU {}; leave --gpu-power out, or use auto",
        list(formula.needs()),
        place.words()
    )]
    Elsewhere { formula: Formula, place: GpuPlace },
}

/// A name is no formula's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no GPU power formula; use auto, pp1, pkg-pp0, pkg-pp0-dram, nvml, hwmon or meter"
)]
pub struct UnknownFormula(pub String);

fn list(names: &[&'static str]) -> String {
    names.join(", ")
}

impl Formula {
    /// All of them, the most trusted first: the order in which `auto` tries them. A discrete GPU's
    /// own sensor goes before the planes of the processor. The formula with DRAM is last: it is
    /// right only if PKG contains DRAM; an external meter, which measures much
    /// else, comes behind all.
    pub const ALL: [Formula; 6] = [
        Formula::Nvml,
        Formula::Hwmon,
        Formula::Pp1,
        Formula::PkgPp0,
        Formula::PkgPp0Dram,
        Formula::Meter,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Formula::Pp1 => "pp1",
            Formula::PkgPp0 => "pkg-pp0",
            Formula::PkgPp0Dram => "pkg-pp0-dram",
            Formula::Nvml => "nvml",
            Formula::Hwmon => "hwmon",
            Formula::Meter => "meter",
        }
    }

    /// The formula written out.
    pub fn equation(self) -> &'static str {
        match self {
            Formula::Pp1 => "P_GPU = P_PP1",
            Formula::PkgPp0 => "P_GPU = P_PKG - P_PP0",
            Formula::PkgPp0Dram => "P_iGPU = P_PKG - P_PP0 - P_DRAM",
            Formula::Nvml => "P_GPU = P_board (NVML)",
            Formula::Hwmon => "P_GPU = P_card (hwmon)",
            Formula::Meter => "P = P_meter (external)",
        }
    }

    /// What the figure includes, for the reader of a report.
    pub fn includes(self) -> &'static str {
        match self {
            Formula::Pp1 => "graphics plane (PP1)",
            Formula::PkgPp0 => {
                "upper bound: includes uncore (system agent, last-level cache, memory controller)"
            }
            Formula::PkgPp0Dram => {
                "formula of the Gen9.5 thesis, for comparison: includes uncore; too low by all of DRAM where PKG does not contain DRAM"
            }
            Formula::Nvml => {
                "the whole board: GPU, memory, voltage regulators, as far as its sensor reaches"
            }
            Formula::Hwmon => "the card or GPU package its driver names; on an APU the CPU too",
            Formula::Meter => {
                "all that the external meter feeds: other devices, the host and losses of its supply too"
            }
        }
    }

    /// The planes it needs.
    pub fn needs(self) -> &'static [&'static str] {
        match self {
            Formula::Pp1 => &["PP1"],
            Formula::PkgPp0 => &["PKG", "PP0"],
            Formula::PkgPp0Dram => &["PKG", "PP0", "DRAM"],
            Formula::Nvml => &["NVML"],
            Formula::Hwmon => &["hwmon"],
            Formula::Meter => &["meter"],
        }
    }

    /// Applies it. Works on watts and on joules of one span alike. A negative result is returned as
    /// it is: it shows that the planes do not nest as the formula assumes.
    ///
    /// # Errors
    /// Names every plane that is needed and missing.
    pub fn apply<T: Copy + Sub<Output = T>>(self, planes: &Planes<T>) -> Result<T, MissingPlanes> {
        let value = match self {
            Formula::Pp1 => planes.pp1,
            Formula::PkgPp0 => planes.pkg.zip(planes.pp0).map(|(pkg, pp0)| pkg - pp0),
            Formula::PkgPp0Dram => planes
                .pkg
                .zip(planes.pp0)
                .zip(planes.dram)
                .map(|((pkg, pp0), dram)| pkg - pp0 - dram),
            Formula::Nvml => planes.nvml,
            Formula::Hwmon => planes.hwmon,
            Formula::Meter => planes.meter,
        };
        value.ok_or_else(|| {
            let has = |name: &str| match name {
                "PKG" => planes.pkg.is_some(),
                "PP0" => planes.pp0.is_some(),
                "PP1" => planes.pp1.is_some(),
                "DRAM" => planes.dram.is_some(),
                "NVML" => planes.nvml.is_some(),
                "meter" => planes.meter.is_some(),
                _ => planes.hwmon.is_some(),
            };
            let missing = self.needs().iter().copied().filter(|name| !has(name)).collect();
            MissingPlanes { formula: self, missing }
        })
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Choice {
    /// The word that gives it again.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Fixed(formula) => formula.name(),
        }
    }
}

impl FromStr for Choice {
    type Err = UnknownFormula;

    fn from_str(text: &str) -> Result<Choice, UnknownFormula> {
        if text == "auto" {
            return Ok(Choice::Auto);
        }
        let formula = Formula::ALL.into_iter().find(|f| f.name() == text);
        formula.map(Choice::Fixed).ok_or_else(|| UnknownFormula(text.to_owned()))
    }
}

/// What was chosen and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The formula.
    pub formula: Formula,
    /// Why this one, in words for the report.
    pub reason: String,
}

/// Where the GPU in question sits: decides which sensors can belong to it at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuPlace {
    /// In the processor's package: RAPL planes, and an APU's hwmon.
    Integrated,
    /// On a card of its own: its own sensors only.
    Discrete,
    /// Not known: everything is considered, the card's sensors first.
    Unknown,
}

impl GpuPlace {
    fn words(self) -> &'static str {
        match self {
            GpuPlace::Integrated => "is a part of the processor",
            GpuPlace::Discrete => "is a card of its own",
            GpuPlace::Unknown => "sits where nobody says",
        }
    }

    fn admits(self, formula: Formula) -> bool {
        match (self, formula) {
            (GpuPlace::Integrated, Formula::Nvml) => false,
            (GpuPlace::Discrete, Formula::Pp1 | Formula::PkgPp0 | Formula::PkgPp0Dram) => false,
            // An APU's figure holds the CPU: anything of RAPL's is closer, so hwmon stays possible
            // but last.
            _ => true,
        }
    }
}

/// Chooses a formula for a GPU at `place` from the planes that work. Fill `works` with any value
/// (the readings, say) for planes whose sensors were seen to work.
///
/// # Errors
/// For a fixed choice, that it speaks of other hardware, or the planes it lacks; for `auto`, what
/// every candidate lacks.
pub fn select<T: Copy + Sub<Output = T>>(
    choice: Choice,
    place: GpuPlace,
    works: &Planes<T>,
) -> Result<Selected, NoFormula> {
    if let Choice::Fixed(formula) = choice {
        if !place.admits(formula) {
            return Err(NoFormula::Elsewhere { formula, place });
        }
        return match formula.apply(works) {
            Ok(_) => Ok(Selected { formula, reason: "asked for".to_owned() }),
            Err(missing) => Err(NoFormula::Missing(vec![missing])),
        };
    }
    let mut order = Formula::ALL;
    if place == GpuPlace::Integrated {
        // An APU's hwmon figure holds the CPU too: the planes of the processor come first.
        order = [
            Formula::Pp1,
            Formula::PkgPp0,
            Formula::Hwmon,
            Formula::PkgPp0Dram,
            Formula::Nvml,
            Formula::Meter,
        ];
    }
    let mut passed_over = Vec::new();
    for formula in order.into_iter().filter(|f| place.admits(*f)) {
        match formula.apply(works) {
            Ok(_) => {
                let why: Vec<String> = passed_over
                    .iter()
                    .map(|m: &MissingPlanes| format!("{} lacks {}", m.formula, list(&m.missing)))
                    .collect();
                let reason = if why.is_empty() {
                    "the best there is for this GPU, and it works".to_owned()
                } else {
                    format!("the best that works: {}", why.join("; "))
                };
                return Ok(Selected { formula, reason });
            }
            // Nobody misses a meter that was not named.
            Err(_) if formula == Formula::Meter => {}
            Err(missing) => passed_over.push(missing),
        }
    }
    Err(NoFormula::Missing(passed_over))
}

/// The result of the self-test whether DRAM is part of PKG. One-sided: containment can be
/// disproved, never proved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Containment {
    /// PKG, PP0 or DRAM is missing: nothing can be said.
    Untested,
    /// In no window did DRAM exceed what PKG leaves for it.
    NotDisproved {
        /// Windows looked at.
        windows: u64,
    },
    /// DRAM > PKG - PP0 - PP1 beyond the margin in some windows: PKG does not contain DRAM.
    Disproved {
        /// Windows looked at.
        windows: u64,
        /// Windows that disprove it.
        against: u64,
        /// The largest excess of DRAM, in the unit of the planes.
        largest_excess: f64,
    },
}

/// The containment self-test, fed with windows.
#[derive(Clone, Debug, Default)]
pub struct ContainmentTest {
    windows: u64,
    against: u64,
    largest_excess: f64,
}

impl ContainmentTest {
    /// Takes one window: plain numbers of one unit (joules or watts), and the margin below which an
    /// excess is taken for the counters' steps (two update steps' worth per plane is a sound one).
    /// A missing PP1 counts as 0, which makes the test weaker, never wrong.
    pub fn window(&mut self, planes: &Planes<f64>, margin: f64) {
        let (Some(pkg), Some(pp0), Some(dram)) = (planes.pkg, planes.pp0, planes.dram) else {
            return;
        };
        let excess = dram - (pkg - pp0 - planes.pp1.unwrap_or(0.0));
        if !excess.is_finite() {
            return;
        }
        self.windows += 1;
        if excess > margin {
            self.against += 1;
            self.largest_excess = self.largest_excess.max(excess);
        }
    }

    /// The verdict so far.
    pub fn verdict(&self) -> Containment {
        match (self.windows, self.against) {
            (0, _) => Containment::Untested,
            (windows, 0) => Containment::NotDisproved { windows },
            (windows, against) => {
                Containment::Disproved { windows, against, largest_excess: self.largest_excess }
            }
        }
    }
}

/// Which slot of [`Planes`] a sensor's plane fills, if any. `nvml` and `hwmon` tell board sensors
/// apart.
pub fn slot<'a, T>(
    planes: &'a mut Planes<T>,
    plane: &Plane,
    from_nvml: bool,
) -> Option<&'a mut Option<T>> {
    Some(match plane {
        Plane::Package => &mut planes.pkg,
        Plane::Cores => &mut planes.pp0,
        Plane::Graphics => &mut planes.pp1,
        Plane::Dram => &mut planes.dram,
        Plane::Gpu | Plane::GpuCard if from_nvml => &mut planes.nvml,
        Plane::Gpu | Plane::GpuCard | Plane::Apu => &mut planes.hwmon,
        Plane::Other(name) if name == crate::meter::PLANE => &mut planes.meter,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Watts;
    use proptest::prelude::*;

    fn rapl(pkg: f64, pp0: f64, pp1: f64, dram: f64) -> Planes<Watts> {
        Planes {
            pkg: Some(Watts(pkg)),
            pp0: Some(Watts(pp0)),
            pp1: Some(Watts(pp1)),
            dram: Some(Watts(dram)),
            ..Planes::default()
        }
    }

    #[test]
    fn formulas_by_table() {
        let planes = Planes {
            nvml: Some(Watts(300.0)),
            hwmon: Some(Watts(80.0)),
            meter: Some(Watts(500.0)),
            ..rapl(20.0, 5.0, 11.0, 2.5)
        };
        let table = [
            (Formula::Pp1, 11.0),
            (Formula::PkgPp0, 15.0),
            (Formula::PkgPp0Dram, 12.5),
            (Formula::Nvml, 300.0),
            (Formula::Hwmon, 80.0),
            (Formula::Meter, 500.0),
        ];
        for (formula, want) in table {
            assert_eq!(formula.apply(&planes), Ok(Watts(want)), "{formula}");
            assert_eq!(formula.name().parse(), Ok(Choice::Fixed(formula)));
        }
        // Kept negative: the reader must see that the planes do not nest.
        assert_eq!(Formula::PkgPp0Dram.apply(&rapl(5.0, 4.0, 0.0, 3.0)), Ok(Watts(-2.0)));
        assert_eq!("auto".parse(), Ok(Choice::Auto));
        assert!("pkg".parse::<Choice>().is_err());
    }

    #[test]
    fn missing_planes_are_named() {
        let none = Planes::<Watts>::default();
        let error = Formula::PkgPp0Dram.apply(&none).unwrap_err();
        assert_eq!(error.missing, ["PKG", "PP0", "DRAM"]);
        assert_eq!(
            error.to_string(),
            "GPU power by pkg-pp0-dram: no working sensor for PKG, PP0, DRAM"
        );
        let no_dram = Planes { dram: None, ..rapl(1.0, 1.0, 1.0, 1.0) };
        assert_eq!(Formula::PkgPp0Dram.apply(&no_dram).unwrap_err().missing, ["DRAM"]);
    }

    #[test]
    fn auto_takes_the_best_that_works() {
        let all =
            Planes { nvml: Some(Watts(1.0)), hwmon: Some(Watts(1.0)), ..rapl(1.0, 1.0, 1.0, 1.0) };
        let pick =
            |place, planes: &Planes<Watts>| select(Choice::Auto, place, planes).map(|s| s.formula);
        assert_eq!(pick(GpuPlace::Integrated, &all), Ok(Formula::Pp1));
        assert_eq!(pick(GpuPlace::Discrete, &all), Ok(Formula::Nvml));
        assert_eq!(pick(GpuPlace::Unknown, &all), Ok(Formula::Nvml));
        let no_pp1 = Planes { pp1: None, ..all };
        assert_eq!(pick(GpuPlace::Integrated, &no_pp1), Ok(Formula::PkgPp0));
        let chosen = select(Choice::Auto, GpuPlace::Integrated, &no_pp1).unwrap();
        assert_eq!(chosen.reason, "the best that works: pp1 lacks PP1");
        // A card is never measured by the processor's planes.
        let only_rapl = rapl(1.0, 1.0, 1.0, 1.0);
        let error = pick(GpuPlace::Discrete, &only_rapl).unwrap_err();
        assert!(matches!(&error, NoFormula::Missing(lacks) if lacks.len() == 2), "{error}");
        assert!(error.to_string().contains("NVML") && error.to_string().contains("hwmon"));
        let fixed =
            select(Choice::Fixed(Formula::Nvml), GpuPlace::Unknown, &only_rapl).unwrap_err();
        assert!(
            matches!(&fixed, NoFormula::Missing(lacks) if lacks[0].missing == ["NVML"]),
            "{fixed}"
        );
        // Planes that work and are of other hardware are no power of this GPU's.
        for (place, formula) in [
            (GpuPlace::Discrete, Formula::Pp1),
            (GpuPlace::Discrete, Formula::PkgPp0),
            (GpuPlace::Discrete, Formula::PkgPp0Dram),
            (GpuPlace::Integrated, Formula::Nvml),
        ] {
            let error = select(Choice::Fixed(formula), place, &all).unwrap_err();
            assert_eq!(error, NoFormula::Elsewhere { formula, place });
            assert!(error.to_string().contains("does not apply"), "{error}");
        }
    }

    #[test]
    fn containment_is_disproved_or_left_open() {
        let planes = |pkg, pp0, pp1, dram| Planes {
            pkg: Some(pkg),
            pp0: Some(pp0),
            pp1,
            dram,
            ..Planes::default()
        };
        let mut test = ContainmentTest::default();
        assert_eq!(test.verdict(), Containment::Untested);
        test.window(&planes(1.8, 0.4, None, None), 0.01);
        assert_eq!(test.verdict(), Containment::Untested);
        test.window(&planes(10.0, 4.0, Some(3.0), Some(3.005)), 0.01);
        assert_eq!(test.verdict(), Containment::NotDisproved { windows: 1 });
        // Published sample rows: package 1.8 W, memory 3.4 W.
        test.window(&planes(1.8, 0.4, Some(0.1), Some(3.4)), 0.01);
        match test.verdict() {
            Containment::Disproved { windows: 2, against: 1, largest_excess } => {
                assert!((largest_excess - 2.1).abs() < 1e-12);
            }
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        /// If PKG is in truth the sum of its parts and contains no DRAM, the formula with DRAM is
        /// low by exactly DRAM, and PKG - PP0 is high by exactly the uncore.
        #[test]
        fn what_each_formula_misses(pp0 in 0u32..1000, pp1 in 0u32..1000, rest in 0u32..1000, dram in 0u32..1000) {
            let [pp0, pp1, rest, dram] = [pp0, pp1, rest, dram].map(f64::from);
            let planes = rapl(pp0 + pp1 + rest, pp0, pp1, dram);
            prop_assert_eq!(Formula::Pp1.apply(&planes).unwrap().0, pp1);
            prop_assert_eq!(Formula::PkgPp0.apply(&planes).unwrap().0, pp1 + rest);
            prop_assert_eq!(Formula::PkgPp0Dram.apply(&planes).unwrap().0, pp1 + rest - dram);
        }
    }
}
