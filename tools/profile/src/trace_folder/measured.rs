//! What was measured of captured launches when the application had ended (`clscope replay`): lines
//! of JSON in the trace's file [`MEASURED`], one for each launch and each time it was measured, the
//! newest last. Owns the format; gives counted instructions to the definitions of the process that
//! they are of. Refuses to measure, and to believe a line that contradicts itself.
//!
//! A line is written whole or not at all; what a full disk or an end by force left of the last one
//! is no line. All numbers are of one launch where nothing else is said; what is not known is null.

use crate::interval::Interval;
use crate::mixes::Argument;
use clscope_analysis::input::Definitions;
use clscope_io::input;
use clscope_mix::reuse::Reuse;
use clscope_trace::defs;
use clscope_trace::record::CommandKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

pub use clscope_trace::directory::MEASURED;

/// What the field `schema` says.
pub const SCHEMA: u32 = 1;
/// Most bytes of the file.
const MOST_BYTES: u64 = 256 << 20;
/// Most lines that are looked at, the newest.
const MOST_LINES: usize = 1 << 16;

/// A captured launch, measured once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Measured {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the program that measured.
    pub clscope: String,
    /// When it had been measured, nanoseconds since 1970.
    pub at_ns: u64,
    /// Which launch.
    pub launch: Which,
    /// Where it was measured.
    pub on: On,
    /// Form of the program that ran: `source`, `il` or `binary`; null where none did.
    pub form: Option<String>,
    /// Whether the launch gave what the application's gave: `same`, `within-tolerance`, `differs`,
    /// or `varies` where it does not give the same twice; null where the capture does not hold what
    /// the application's gave, or nothing ran.
    pub results: Option<String>,
    /// Time by the device's stamps; null where there are none.
    pub time: Option<Time>,
    /// The sensor, in words; null where there is none.
    pub sensor: Option<String>,
    /// Windows in which the launch ran over and over while the sensor was read.
    pub windows: Vec<Window>,
    /// Why there is no window.
    pub energy_missing: Option<String>,
    /// Performance counters while it ran.
    pub counters: Vec<Counter>,
    /// What the launch executed; null where that was not counted.
    pub mix: Option<Executed>,
    /// Why it was asked for and not counted.
    pub mix_missing: Option<String>,
    /// Why nothing was measured; null where something was.
    pub failed: Option<String>,
    /// What else has to be known.
    pub notes: Vec<String>,
}

/// A captured launch by its place in the trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Which {
    /// The process, `PID-N`.
    pub process: String,
    /// Id of the kernel.
    pub kernel: u32,
    /// Id of the device.
    pub device: u32,
    /// Name of the capture's folder.
    pub capture: String,
    /// Name of the kernel.
    pub name: String,
    /// Number of the launch, from 1.
    pub number: u64,
    /// Global offset; empty where the application gave none.
    pub offset: Vec<u64>,
    /// Global size.
    pub global: Vec<u64>,
    /// Local size; empty where the application gave none.
    pub local: Vec<u64>,
    /// The transfer that it is instead of a launch: then `name` is its direction and `global` its
    /// bytes; null of a launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<Transfer>,
}

/// Transfers of a run that are alike.
#[derive(
    Debug,
    Clone,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
pub struct Transfer {
    /// The command, as `ReadBuffer`.
    pub command: String,
    /// Bytes of one, on average.
    pub bytes: u64,
}

impl Transfer {
    /// The command's kind; `None` of what no reader of this version knows.
    pub fn kind(&self) -> Option<CommandKind> {
        CommandKind::ALL.iter().copied().find(|kind| kind.name() == self.command)
    }
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct On {
    /// CL_DEVICE_NAME.
    pub name: String,
    /// CL_PLATFORM_NAME.
    pub platform: String,
    /// CL_DRIVER_VERSION.
    pub driver: String,
    /// PCI address; null where it is not known.
    pub pci: Option<String>,
    /// Whether it is the device that the application used, with the same driver: joules of another
    /// one are no joules of this run.
    pub is_same: bool,
}

/// Times of launches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Time {
    /// Their median, nanoseconds.
    pub median_ns: Interval,
    /// How many.
    pub launches: usize,
    /// Whether memories were restored before each.
    pub restored: bool,
}

/// A window in which a launch ran over and over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Window {
    /// Its length.
    pub seconds: f64,
    /// Launches in it.
    pub launches: u64,
    /// Mean power.
    pub watts: Interval,
    /// Mean power of the device without work, with its context, right before and right behind.
    pub idle_watts: Interval,
    /// What restoring memories took of it; null where nothing was restored.
    pub restoring: Option<Restoring>,
}

/// What restoring memories before each launch took, measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Restoring {
    /// Mean power.
    pub watts: Interval,
    /// Seconds for each launch.
    pub seconds: f64,
}

/// A performance counter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Its mean while the launch ran over and over.
    pub mean: Interval,
}

/// What a launch executed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Executed {
    /// Language that was counted: `ptx` or `spv`.
    pub language: String,
    /// Hash of the code that was counted.
    pub code: String,
    /// Work-items that entered the kernel.
    pub entered: u64,
    /// Instructions of the longest group, of warps where those are counted; null where groups are not
    /// told apart.
    #[serde(default)]
    pub longest_group: Option<u64>,
    /// How soon warps touched the same pieces of 32 bytes of global memory again; null where that was
    /// not counted.
    #[serde(default)]
    pub reuse: Option<Reuse>,
    /// By class of instruction.
    pub classes: Vec<Class>,
    /// How often each block was entered; those that never were are left out.
    pub blocks: Vec<Block>,
    /// Blocks at which loops begin.
    pub loops: Vec<u32>,
    /// Instructions that are not known, by name.
    pub unknown: Vec<String>,
    /// Arguments of the launch.
    pub arguments: Vec<Argument>,
}

/// What was executed of a class of instruction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Class {
    /// Its name.
    pub class: String,
    /// One for each work-item.
    pub threads: u64,
    /// One for each warp; null where warps were not counted.
    pub warps: Option<u64>,
    /// Floating-point operations.
    pub flop: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Of the instructions, those under a predicate.
    pub predicated: u64,
    /// Of global memory the pieces of 32 bytes that warps touched, of constant memory the lines of
    /// 128 bytes, of private memory the words, of local memory the passes through its banks; null where they were not counted.
    pub transactions: Option<u64>,
}

/// How often a block was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Block {
    /// Its index in the code.
    pub block: u32,
    /// By work-items.
    pub threads: u64,
    /// By warps; null where they were not counted.
    pub warps: Option<u64>,
}

impl Which {
    /// Whether it is a launch of the same kernel at the same size on the same device.
    pub fn is_alike(&self, other: &Self) -> bool {
        let of = |which: &Self| (which.kernel, which.device);
        let is_alike = |a: &Option<Transfer>, b: &Option<Transfer>| {
            a.as_ref().map(|of| &of.command) == b.as_ref().map(|of| &of.command)
        };
        self.process == other.process
            && of(self) == of(other)
            && self.global == other.global
            && is_alike(&self.transfer, &other.transfer)
    }
}

impl Measured {
    /// Whether its joules are of the trace's device.
    pub fn has_joules(&self) -> bool {
        self.on.is_same && self.failed.is_none() && !self.windows.is_empty()
    }

    /// What contradicts itself in it.
    fn contradiction(&self) -> Option<&'static str> {
        let known = |of: &Interval| of.value.is_finite() && of.value >= 0.0;
        let is_window = |w: &Window| {
            let restored = |r: &Restoring| {
                known(&r.watts) && r.seconds >= 0.0 && r.seconds * (w.launches as f64) < w.seconds
            };
            w.seconds > 0.0
                && w.seconds.is_finite()
                && w.launches > 0
                && known(&w.watts)
                && known(&w.idle_watts)
                && w.restoring.as_ref().is_none_or(restored)
        };
        if self.schema != SCHEMA {
            return Some("it is of another version of clscope");
        }
        if !self.windows.iter().all(is_window) {
            return Some("a window of it has no length, no launches or no power");
        }
        (!(1..=3).contains(&self.launch.global.len())).then_some("its launch has no size")
    }
}

/// The lines of a trace, oldest first, and what is wrong with others, a sentence each. A trace in
/// which nothing was measured has none.
///
/// # Errors
/// If the file is there and cannot be read.
pub fn read(trace: &Path) -> io::Result<(Vec<Measured>, Vec<String>)> {
    let path = trace.join(MEASURED);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Default::default()),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let bytes = input::read_inside(&path, MOST_BYTES)?;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let first = lines.len().saturating_sub(MOST_LINES);
    for (number, line) in (1..).zip(&lines).skip(first) {
        // The rest of a line that was never whole.
        let Some(line) = line.strip_suffix(b"\n") else { continue };
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Measured>(line) {
            Ok(row) => match row.contradiction() {
                None => rows.push(row),
                Some(why) => wrong.push(format!("line {number} of {MEASURED}: {why}")),
            },
            Err(why) => wrong.push(format!("line {number} of {MEASURED} is no measurement: {why}")),
        }
    }
    Ok((rows, wrong))
}

/// Gives what was counted of a process's launches to its definitions. `process` is its stem.
pub fn apply(rows: &[Measured], process: &str, definitions: &mut Definitions) {
    let of_process = || rows.iter().filter(|row| row.launch.process == process);
    // Of a launch that was counted several times what was counted last.
    let mut last: BTreeMap<&str, &Measured> = BTreeMap::new();
    for row in of_process().filter(|row| row.mix.is_some() || row.mix_missing.is_some()) {
        let known = last.entry(&row.launch.capture).or_insert(row);
        if row.mix.is_some() || known.mix.is_none() {
            *known = row;
        }
    }
    for row in last.into_values() {
        let launch = &row.launch;
        if !definitions.kernels.contains_key(&launch.kernel) {
            continue;
        }
        let refused = row.mix_missing.clone().unwrap_or_default();
        let counted = row.mix.as_ref().map(|of| of.definition(launch));
        let mix = counted.unwrap_or_else(|| defs::Mix { refused, ..head(launch) });
        let longest = row.mix.as_ref().and_then(|of| of.longest_group);
        definitions.longest_groups.extend(longest.map(|n| (definitions.mixes.len(), n)));
        let reuse = row.mix.as_ref().and_then(|of| of.reuse.clone());
        definitions.reuses.extend(reuse.map(|of| (definitions.mixes.len(), of)));
        definitions.mixes.push(mix);
    }
}

/// What a definition says of the launch.
fn head(launch: &Which) -> defs::Mix {
    defs::Mix {
        kernel: launch.kernel,
        device: launch.device,
        offset: launch.offset.clone(),
        global: launch.global.clone(),
        local: launch.local.clone(),
        ..defs::Mix::default()
    }
}

impl Executed {
    fn definition(&self, launch: &Which) -> defs::Mix {
        let classes = self.classes.iter().map(|of| defs::ClassCount {
            class: of.class.clone(),
            threads: of.threads,
            warps: of.warps,
            flop: of.flop,
            bytes: of.bytes,
            predicated: of.predicated,
        });
        let blocks = self.blocks.iter().map(|of| defs::BlockCount {
            block: of.block,
            threads: of.threads,
            warps: of.warps,
        });
        let arguments = self.arguments.iter().map(|of| defs::KernelArgument {
            index: of.index,
            kind: of.kind.clone(),
            size: of.size,
            value: of.value,
        });
        let transactions = self.classes.iter().filter_map(|of| {
            let transactions = of.transactions?;
            Some(defs::ClassTransactions { class: of.class.clone(), transactions })
        });
        defs::Mix {
            transactions: transactions.collect(),
            language: self.language.clone(),
            code: self.code.clone(),
            entered: self.entered,
            classes: classes.collect(),
            blocks: blocks.collect(),
            loops: self.loops.clone(),
            unknown: self.unknown.clone(),
            arguments: arguments.collect(),
            ..head(launch)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(name: &str, global: &[u64]) -> Measured {
        let watts = |value| Interval::around(value, 1.0);
        Measured {
            schema: SCHEMA,
            clscope: "0".into(),
            at_ns: 1,
            launch: Which {
                process: "7-0".into(),
                kernel: 1,
                device: 1,
                capture: format!("{name}.1"),
                name: name.into(),
                number: 1,
                offset: Vec::new(),
                global: global.to_vec(),
                local: Vec::new(),
                transfer: None,
            },
            on: On { is_same: true, ..On::default() },
            form: Some("source".into()),
            results: Some("same".into()),
            time: None,
            sensor: Some("a meter".into()),
            windows: vec![Window {
                seconds: 1.0,
                launches: 100,
                watts: watts(200.0),
                idle_watts: watts(80.0),
                restoring: None,
            }],
            energy_missing: None,
            counters: Vec::new(),
            mix: None,
            mix_missing: None,
            failed: None,
            notes: Vec::new(),
        }
    }

    fn put(folder: &Path, text: &[u8]) {
        std::fs::write(folder.join(MEASURED), text).unwrap();
    }

    #[test]
    fn lines_are_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path()).unwrap(), (Vec::new(), Vec::new()));
        let line = |of: &Measured| serde_json::to_string(of).unwrap() + "\n";
        let (one, two) = (row("a", &[64]), row("b", &[8, 8]));
        let text = line(&one) + &line(&two);
        // Wherever writing ended: lines that are whole, and no complaint.
        for end in 0..=text.len() {
            put(folder.path(), &text.as_bytes()[..end]);
            let (rows, wrong) = read(folder.path()).unwrap();
            let whole = text[..end].matches('\n').count();
            assert_eq!(rows, [one.clone(), two.clone()][..whole], "{end}");
            assert!(wrong.is_empty(), "{end}: {wrong:?}");
        }
    }

    #[test]
    fn lines_that_contradict_themselves_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let with = |change: &dyn Fn(&mut Measured)| {
            let mut row = row("a", &[64]);
            change(&mut row);
            serde_json::to_string(&row).unwrap() + "\n"
        };
        let restored = |seconds| Some(Restoring { watts: Interval::around(90.0, 1.0), seconds });
        for (text, part) in [
            (with(&|row| row.schema = 2), "another version"),
            (with(&|row| row.windows[0].launches = 0), "no launches"),
            (with(&|row| row.windows[0].seconds = -1.0), "no launches"),
            (with(&|row| row.windows[0].restoring = restored(1.0)), "no launches"),
            (with(&|row| row.launch.global.clear()), "no size"),
            ("{}\n".to_owned(), "no measurement"),
            ("\u{0}\n".to_owned(), "no measurement"),
        ] {
            let good = with(&|_| {});
            put(folder.path(), (text.clone() + &good).as_bytes());
            let (rows, wrong) = read(folder.path()).unwrap();
            assert_eq!(rows.len(), 1, "{text}");
            assert!(wrong.len() == 1 && wrong[0].contains(part), "{text}: {wrong:?}");
            assert!(wrong[0].starts_with("line 1 of measured.jsonl"), "{wrong:?}");
        }
        let fine = with(&|row| row.windows[0].restoring = restored(0.001));
        put(folder.path(), fine.as_bytes());
        assert_eq!(read(folder.path()).unwrap().1, Vec::<String>::new());
    }

    #[test]
    fn counted_instructions_are_those_of_their_process_and_kernel() {
        let mut definitions = Definitions::default();
        let kernel = defs::Kernel { id: 1, name: "a".into(), ..Default::default() };
        definitions.kernels.insert(1, kernel);
        let mut counted = row("a", &[64]);
        let class = Class { class: "fp32-fma".into(), threads: 64, flop: 128, ..Class::default() };
        let mix = Executed {
            entered: 64,
            longest_group: Some(40),
            reuse: None,
            classes: vec![class],
            ..Executed::default()
        };
        counted.mix = Some(mix);
        let mut before = counted.clone();
        before.mix.as_mut().unwrap().entered = 63;
        let mut later = row("a", &[64]);
        later.mix_missing = Some("the device is gone".into());
        let mut refused = row("a", &[128]);
        refused.launch.capture = "a.2".into();
        refused.mix_missing = Some("it is a binary".into());
        let mut foreign = counted.clone();
        foreign.launch.process = "8-0".into();
        let mut unknown = counted.clone();
        (unknown.launch.kernel, unknown.launch.capture) = (9, "b.1".into());
        let plain = row("a", &[256]);
        apply(&[before, counted, later, refused, foreign, unknown, plain], "7-0", &mut definitions);
        assert_eq!(definitions.longest_groups, BTreeMap::from([(0, 40)]));
        let of: Vec<_> = definitions
            .mixes
            .iter()
            .map(|mix| (mix.global[0], mix.entered, mix.classes.len(), mix.refused.as_str()))
            .collect();
        assert_eq!(of, [(64, 64, 1, ""), (128, 0, 0, "it is a binary")]);
    }
}
