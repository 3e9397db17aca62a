//! What the simulator Oclgrind counted of an application's kernels (`oclgrind --inst-counts`),
//! beside what `record --mix` counted of the same application. Owns which figures both define
//! alike; refuses to compare what is a compiler's choice: integer arithmetic, moves, private
//! memory, branches.

use super::KernelMix;
use clscope_mix::{Class, Mix, Tally};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A text holds no histogram of instructions.
#[derive(Debug, thiserror::Error)]
#[error(
    "no line \"Instructions executed for kernel 'NAME':\" in it: write one with \
     `oclgrind --inst-counts ./app > FILE`"
)]
pub struct NoCounts;

/// How often one instruction was executed, by all launches of a kernel together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Executed {
    times: u64,
    /// Bytes of a load or store.
    bytes: u64,
}

/// What Oclgrind counted of a kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Its launches.
    pub launches: u64,
    instructions: BTreeMap<String, Executed>,
}

/// Reads the histograms in what Oclgrind and the application printed, by kernel.
///
/// # Errors
/// If there is none.
pub fn read(text: &str) -> Result<BTreeMap<String, Simulated>, NoCounts> {
    let mut out: BTreeMap<String, Simulated> = BTreeMap::new();
    let mut kernel: Option<String> = None;
    for line in text.lines() {
        // What the application printed without an end of line may stand before it.
        if let Some((_, head)) = line.split_once("Instructions executed for kernel '") {
            kernel = head.strip_suffix("':").map(str::to_owned);
            if let Some(name) = &kernel {
                let of = out.entry(name.clone()).or_default();
                of.launches = of.launches.saturating_add(1);
            }
            continue;
        }
        let Some(of) = kernel.as_ref().and_then(|name| out.get_mut(name)) else { continue };
        let Some((name, executed)) = instruction(line) else {
            kernel = None;
            continue;
        };
        let sum = of.instructions.entry(name).or_default();
        sum.times = sum.times.saturating_add(executed.times);
        sum.bytes = sum.bytes.saturating_add(executed.bytes);
    }
    if out.is_empty() { Err(NoCounts) } else { Ok(out) }
}

/// A line `2,048 - load global (8192 bytes)`. Thousands are apart where the locale says so.
fn instruction(line: &str) -> Option<(String, Executed)> {
    let whole = |text: &str| text.replace([',', '.', '\''], "").parse::<u64>().ok();
    let (times, name) = line.trim().split_once(" - ")?;
    let times = whole(times)?;
    let sized = name.strip_suffix(" bytes)").and_then(|rest| rest.rsplit_once(" ("));
    Some(match sized {
        Some((name, bytes)) => (name.to_owned(), Executed { times, bytes: whole(bytes)? }),
        None => (name.to_owned(), Executed { times, bytes: 0 }),
    })
}

/// The function that a line `call _Z7barrierj()` calls: `barrier`; of LLVM's own, the word behind
/// `llvm.`.
fn called(instruction: &str) -> Option<&str> {
    let name = instruction.strip_prefix("call ")?.trim_end_matches("()");
    if let Some(own) = name.strip_prefix("llvm.") {
        return own.split('.').next();
    }
    let Some(mangled) = name.strip_prefix("_Z") else { return Some(name) };
    let digits = mangled.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = mangled.get(..digits)?.parse().ok()?;
    mangled.get(digits..)?.get(..length)
}

impl Simulated {
    fn times(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        let of = self.instructions.iter().filter(|(name, _)| wanted(name));
        of.fold(0, |sum, (_, executed)| sum.saturating_add(executed.times))
    }

    fn calls(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        self.times(|name| called(name).is_some_and(&wanted))
    }

    fn bytes(&self, name: &str) -> u64 {
        self.instructions.get(name).map_or(0, |executed| executed.bytes)
    }
}

/// Whether Oclgrind executes a call of that function without counting what memory it touches.
fn hides_bytes(function: &str) -> bool {
    ["vload", "vstore", "async_work_group"].iter().any(|of| function.starts_with(of))
}

/// Sums of a launch's classes.
fn sum_classes(mix: &Mix, classes: &[Class], figure: impl Fn(&Tally) -> u64) -> u64 {
    let tallies = classes.iter().filter_map(|class| mix.classes.get(class));
    tallies.fold(0, |sum, tally| sum.saturating_add(figure(tally)))
}

/// A figure that both count alike.
struct Figure {
    name: &'static str,
    /// Of all counted launches.
    counted: fn(&Mix) -> u64,
    simulated: fn(&Simulated) -> u64,
    /// Whether PTX counts something else by this name: kernel arguments are constant memory there,
    /// and vectors are scalars.
    but_ptx: bool,
}

use Class as C;

const FIGURES: &[Figure] = &[
    Figure {
        name: "global bytes read",
        counted: |mix| sum_classes(mix, &[C::LoadGlobal], |t| t.bytes),
        simulated: |it| it.bytes("load global"),
        but_ptx: false,
    },
    Figure {
        name: "global bytes written",
        counted: |mix| sum_classes(mix, &[C::StoreGlobal], |t| t.bytes),
        simulated: |it| it.bytes("store global"),
        but_ptx: false,
    },
    Figure {
        name: "local bytes read",
        counted: |mix| sum_classes(mix, &[C::LoadLocal], |t| t.bytes),
        simulated: |it| it.bytes("load local"),
        but_ptx: false,
    },
    Figure {
        name: "local bytes written",
        counted: |mix| sum_classes(mix, &[C::StoreLocal], |t| t.bytes),
        simulated: |it| it.bytes("store local"),
        but_ptx: false,
    },
    Figure {
        name: "constant bytes read",
        counted: |mix| sum_classes(mix, &[C::LoadConstant], |t| t.bytes),
        simulated: |it| it.bytes("load constant"),
        but_ptx: true,
    },
    Figure {
        name: "image reads",
        counted: |mix| sum_classes(mix, &[C::LoadImage], |t| t.threads),
        simulated: |it| it.calls(|name| name.starts_with("read_image")),
        but_ptx: false,
    },
    Figure {
        name: "image writes",
        counted: |mix| sum_classes(mix, &[C::StoreImage], |t| t.threads),
        simulated: |it| it.calls(|name| name.starts_with("write_image")),
        but_ptx: false,
    },
    Figure {
        name: "barriers",
        counted: Mix::barriers,
        simulated: |it| it.calls(|name| matches!(name, "barrier" | "work_group_barrier")),
        but_ptx: false,
    },
    Figure {
        name: "atomics",
        counted: Mix::atomics,
        simulated: |it| it.calls(|name| name.starts_with("atomic_") || name.starts_with("atom_")),
        but_ptx: false,
    },
    Figure {
        // One for an addition or multiplication, two for a fused one, however wide: compilers
        // choose whether to fuse, and a vector is one instruction in LLVM and SPIR-V.
        name: "fp additions, multiplications",
        counted: |mix| {
            let plain =
                sum_classes(mix, &[C::HalfArith, C::SingleArith, C::DoubleArith], |t| t.threads);
            let fused = sum_classes(mix, &[C::HalfFma, C::SingleFma, C::DoubleFma], |t| t.threads);
            plain.saturating_add(fused.saturating_mul(2))
        },
        simulated: |it| {
            let plain = it.times(|name| matches!(name, "fadd" | "fsub" | "fmul"));
            let fused = it.calls(|name| matches!(name, "fma" | "mad" | "fmuladd"));
            plain.saturating_add(fused.saturating_mul(2))
        },
        but_ptx: true,
    },
    Figure {
        name: "fp divisions",
        counted: |mix| sum_classes(mix, &[C::HalfDiv, C::SingleDiv, C::DoubleDiv], |t| t.threads),
        simulated: |it| {
            it.times(|name| name == "fdiv").saturating_add(it.calls(|name| {
                matches!(name, "native_divide" | "native_recip" | "half_divide" | "half_recip")
            }))
        },
        but_ptx: true,
    },
    Figure {
        name: "integer divisions",
        counted: |mix| sum_classes(mix, &[C::IntDiv], |t| t.threads),
        simulated: |it| it.times(|name| matches!(name, "sdiv" | "udiv" | "srem" | "urem")),
        but_ptx: true,
    },
];

/// A figure, of all launches of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Compared {
    /// What was counted.
    pub figure: String,
    /// By `record --mix`; where not every launch was counted, the mean of a geometry's counted ones
    /// times its launches.
    pub counted: f64,
    /// By Oclgrind.
    pub simulated: u64,
}

impl Compared {
    /// Whether both are the same number.
    pub fn agrees(&self) -> bool {
        self.counted == self.simulated as f64
    }

    /// How much more was counted here than there, as a share of the latter; `None` where that is
    /// zero.
    pub fn difference(&self) -> Option<f64> {
        (self.simulated > 0).then(|| self.counted / self.simulated as f64 - 1.0)
    }
}

/// A kernel in both.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct OfKernel {
    /// Its name.
    pub kernel: String,
    /// Its launches in the trace.
    pub launches: u64,
    /// Those of them that were counted.
    pub counted: u64,
    /// Its launches in Oclgrind.
    pub simulated_launches: u64,
    /// Why nothing is compared.
    pub not_compared: Option<String>,
    /// What is compared: what either of them executed.
    pub figures: Vec<Compared>,
    /// Functions whose bytes Oclgrind does not count.
    pub without_bytes: Vec<String>,
    /// Whether the application left the size of work-groups to the runtime: what is done once a
    /// group then differs.
    pub chosen_groups: bool,
}

/// Counts of a trace beside those of Oclgrind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Comparison {
    /// Kernels in both, in the order of their names.
    pub kernels: Vec<OfKernel>,
    /// Kernels of the trace alone.
    pub only_counted: Vec<String>,
    /// Kernels in Oclgrind alone.
    pub only_simulated: Vec<String>,
}

impl Comparison {
    /// Figures that agree, and all of them.
    pub fn agreement(&self) -> (usize, usize) {
        let all = || self.kernels.iter().flat_map(|kernel| &kernel.figures);
        (all().filter(|figure| figure.agrees()).count(), all().count())
    }
}

/// Compares what was counted of kernels with what Oclgrind counted of those of the same names.
pub fn compare(rows: &[&KernelMix], simulated: &BTreeMap<String, Simulated>) -> Comparison {
    let mut kernels: BTreeMap<&str, Vec<&KernelMix>> = BTreeMap::new();
    for row in rows {
        kernels.entry(row.kernel.as_str()).or_default().push(row);
    }
    let mut out = Comparison {
        only_simulated: simulated
            .keys()
            .filter(|name| !kernels.contains_key(name.as_str()))
            .cloned()
            .collect(),
        ..Comparison::default()
    };
    for (name, rows) in kernels {
        match simulated.get(name) {
            Some(theirs) => out.kernels.push(of_kernel(name, &rows, theirs)),
            None => out.only_counted.push(name.to_owned()),
        }
    }
    out
}

fn of_kernel(name: &str, rows: &[&KernelMix], theirs: &Simulated) -> OfKernel {
    let sum = |figure: fn(&KernelMix) -> u64| {
        rows.iter().fold(0u64, |sum, row| sum.saturating_add(figure(row)))
    };
    let launches = sum(|row| row.launches);
    let not_compared = if let Some(row) = rows.iter().find(|row| row.counted == 0) {
        let why = row.refused.iter().next().map_or("record it with --mix", String::as_str);
        Some(format!("not every geometry of it was counted: {why}"))
    } else if launches != theirs.launches {
        Some(format!(
            "launched {launches} times in the trace and {} times in Oclgrind: give the \
             application the same work",
            theirs.launches
        ))
    } else {
        None
    };
    let ptx = rows.iter().any(|row| row.language == "ptx");
    let figures =
        FIGURES.iter().filter(|figure| not_compared.is_none() && !(figure.but_ptx && ptx));
    let figures: Vec<Compared> = figures
        .filter_map(|figure| {
            let counted = rows.iter().filter_map(|row| {
                Some(row.per_launch((figure.counted)(&row.mix))? * row.launches as f64)
            });
            let compared = Compared {
                figure: figure.name.to_owned(),
                counted: counted.sum(),
                simulated: (figure.simulated)(theirs),
            };
            (compared.counted > 0.0 || compared.simulated > 0).then_some(compared)
        })
        .collect();
    let hidden: BTreeSet<&str> = theirs
        .instructions
        .keys()
        .filter_map(|name| called(name))
        .filter(|function| hides_bytes(function))
        .collect();
    OfKernel {
        kernel: name.to_owned(),
        launches,
        counted: sum(|row| row.counted),
        simulated_launches: theirs.launches,
        not_compared,
        figures,
        chosen_groups: rows.iter().any(|row| row.local.is_empty()),
        without_bytes: hidden.into_iter().map(str::to_owned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "result x 1\nInstructions executed for kernel 'k':
           8,192 - load global (32768 bytes)
            1024 - call _Z3fmafff()
             512 - call llvm.fmuladd.f32()
              64 - call _Z7barrierj()
              32 - fadd

no newlineInstructions executed for kernel 'k':
              64 - load global (256 bytes)
               7 - call _Z6vload4jPU3AS1Kf()
truth
              99 - load global (9999 bytes)
";

    fn row(classes: &[(Class, u64, u64)], launches: u64) -> KernelMix {
        let mut row = KernelMix {
            kernel: "k".to_owned(),
            launches,
            counted: 1,
            language: "spv".to_owned(),
            ..KernelMix::default()
        };
        for &(class, threads, bytes) in classes {
            row.mix.classes.insert(class, Tally { threads, bytes, ..Tally::default() });
        }
        row
    }

    #[test]
    fn histograms_of_a_kernel_are_added_and_end_where_they_end() {
        let read = read(TEXT).unwrap();
        let k = &read["k"];
        assert_eq!((read.len(), k.launches), (1, 2));
        assert_eq!(k.bytes("load global"), 32768 + 256);
        assert_eq!(k.times(|name| name == "load global"), 8192 + 64);
        assert_eq!(k.calls(|name| name == "barrier"), 64);
        assert_eq!(k.calls(|name| name == "fmuladd"), 512);
        assert!(super::read("nothing").is_err());
    }

    #[test]
    fn what_both_define_is_compared() {
        let simulated = read(TEXT).unwrap();
        let classes = [
            (C::LoadGlobal, 4128, 16512),
            (C::SingleFma, 768, 0),
            (C::SingleArith, 15, 0),
            (C::Barrier, 32, 0),
            (C::IntArith, 5, 0),
        ];
        let both = row(&classes, 2);
        let found = compare(&[&both], &simulated);
        let k = &found.kernels[0];
        assert_eq!((k.launches, k.counted, &k.not_compared), (2, 1, &None));
        let figures: Vec<(&str, f64, u64)> =
            k.figures.iter().map(|f| (f.figure.as_str(), f.counted, f.simulated)).collect();
        assert_eq!(
            figures,
            [
                ("global bytes read", 33024.0, 33024),
                ("barriers", 64.0, 64),
                ("fp additions, multiplications", 3102.0, 3104),
            ]
        );
        assert_eq!(found.agreement(), (2, 3));
        assert!((k.figures[2].difference().unwrap() + 2.0 / 3104.0).abs() < 1e-12);
        assert_eq!(
            (k.without_bytes.as_slice(), k.chosen_groups),
            (&["vload4".to_owned()][..], true)
        );
    }

    #[test]
    fn what_cannot_be_compared_has_a_reason() {
        let simulated = read(TEXT).unwrap();
        let once = compare(&[&row(&[], 1)], &simulated);
        assert!(once.kernels[0].not_compared.as_ref().unwrap().contains("1 times in the trace"));
        let mut refused = row(&[], 2);
        refused.counted = 0;
        refused.refused.insert("pipes".to_owned());
        let refused = compare(&[&refused], &simulated);
        assert!(refused.kernels[0].not_compared.as_ref().unwrap().ends_with("pipes"));
        let mut other = row(&[], 2);
        other.kernel = "j".to_owned();
        let other = compare(&[&other], &simulated);
        assert_eq!(
            (other.only_counted, other.only_simulated),
            (vec!["j".into()], vec!["k".into()])
        );
    }
}
