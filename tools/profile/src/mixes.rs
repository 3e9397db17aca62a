//! What kernels executed, by class of instruction, as the recorder counted it beside the
//! application's launches (`record --mix`), and what kernels take of their devices. Owns the sums;
//! refuses to estimate: what was not counted has a reason.

use clscope_analysis::Trace;
pub mod document;
mod reasons;
pub mod simulated;

use clscope_analysis::event::Event;
use clscope_analysis::input::Definitions;
use clscope_mix::{Class, Mix, Tally};
use clscope_trace::defs;
use clscope_trace::variables::SAMPLE;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What a kernel takes of a device. `None`: the runtime did not say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Resources {
    /// Most work-items of a work-group (CL_KERNEL_WORK_GROUP_SIZE).
    pub work_group_limit: Option<u64>,
    /// Preferred multiple of a work-group's size, in work-items: the width of a warp or vector.
    pub multiple: Option<u64>,
    /// Bytes of local memory a work-group, as the runtime said when the kernel was made: without
    /// local arguments.
    pub local_bytes: Option<u64>,
    /// Bytes of private memory a work-item.
    pub private_bytes: Option<u64>,
    /// The work-group size that the source requires.
    pub required: Option<[u64; 3]>,
    /// Registers of 32 bits a work-item.
    pub registers: Option<u64>,
    /// Bytes of spilled registers that are written, a work-item.
    pub spill_store_bytes: Option<u64>,
    /// Bytes of spilled registers that are read.
    pub spill_load_bytes: Option<u64>,
}

impl Resources {
    /// Takes over what another one knows.
    fn add(&mut self, from: &defs::Resources) {
        self.work_group_limit = from.work_group.or(self.work_group_limit);
        self.multiple = from.multiple.or(self.multiple);
        self.local_bytes = from.local.or(self.local_bytes);
        self.private_bytes = from.private.or(self.private_bytes);
        self.required = from.required.or(self.required);
        self.registers = from.registers.or(self.registers);
        self.spill_store_bytes = from.spill_stores.or(self.spill_store_bytes);
        self.spill_load_bytes = from.spill_loads.or(self.spill_load_bytes);
    }
}

/// An argument of a counted launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Argument {
    /// Its index.
    pub index: u32,
    /// `value`, `local`, `buffer`, `image`, `sampler`, `pipe` or `shared`.
    pub kind: String,
    /// Its size in bytes: of a buffer or image its memory's.
    pub size: Option<u64>,
    /// What a value of up to 8 bytes says, little end first.
    pub value: Option<u64>,
}

/// A loop of a kernel, or of a function that it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Loop {
    /// Block at which it begins, in the code.
    pub block: u32,
    /// Times that work-items came to its beginning, of all counted launches.
    pub threads: u64,
    /// Times that warps did.
    pub warps: Option<u64>,
}

/// The program that a kernel is of: what tells apart kernels of one name.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema,
)]
pub struct Program {
    /// Hash of its source or binary, as `clscope programs` lists it; empty where the recorder saw
    /// none.
    pub hash: String,
    /// Options of its newest build.
    pub options: String,
}

impl std::fmt::Display for Program {
    /// As people tell programs apart: the beginning of the hash, as `clscope programs --output`
    /// names files, and options.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.hash.get(..12) {
            Some(hash) => f.write_str(hash)?,
            None => f.write_str("without a source that was seen")?,
        }
        if self.options.is_empty() { Ok(()) } else { write!(f, ", built with {}", self.options) }
    }
}

/// Names that kernels of several programs have.
pub fn shared_names<'r>(rows: impl IntoIterator<Item = &'r KernelMix>) -> BTreeSet<&'r str> {
    let mut programs: BTreeMap<&str, BTreeSet<&Program>> = BTreeMap::new();
    for row in rows {
        programs.entry(&row.kernel).or_default().insert(&row.program);
    }
    programs.into_iter().filter(|(_, of)| of.len() > 1).map(|(name, _)| name).collect()
}

impl Program {
    fn identify(definitions: &Definitions, kernel: u32) -> Self {
        let id = definitions.kernels.get(&kernel).map_or(0, |kernel| kernel.program);
        Self {
            hash: definitions.programs.get(&id).map(|p| p.hash.clone()).unwrap_or_default(),
            options: definitions.build_options.get(&id).cloned().unwrap_or_default(),
        }
    }
}

/// A kernel of one program at one geometry on one device.
#[derive(Debug, Clone, Default)]
pub struct KernelMix {
    /// Its name.
    pub kernel: String,
    /// The name of its row in a report, which tells programs apart.
    pub shown: String,
    /// Its program.
    pub program: Program,
    /// The device's name.
    pub device: String,
    /// Global offset, one number per dimension; empty where none was given.
    pub offset: Vec<u64>,
    /// Global size, one number per dimension.
    pub global: Vec<u64>,
    /// Local size, one number per dimension; empty where the runtime chose it.
    pub local: Vec<u64>,
    /// Launches of it in the trace.
    pub launches: u64,
    /// Launches that were counted.
    pub counted: u64,
    /// Why launches were not counted, each reason once.
    pub refused: BTreeSet<String>,
    /// Instructions of all counted launches: divide by `counted` for those of one.
    pub mix: Mix,
    /// Least and most instructions of work-items in a counted launch.
    pub spread: Option<(u64, u64)>,
    /// Instructions of the longest group of a counted launch, of warps where those are counted.
    pub longest_group: Option<u64>,
    /// Work-items that entered the kernel, in all counted launches.
    pub entered: u64,
    /// `ptx` or `spv`: the language whose instructions were counted.
    pub language: String,
    /// Hash of the code that was counted; see [`crate::programs`].
    pub code: String,
    /// How often each block of that code was entered, in all counted launches of it: work-items,
    /// warps.
    pub blocks: BTreeMap<u32, (u64, Option<u64>)>,
    /// Its loops that were entered.
    pub loops: Vec<Loop>,
    /// Instructions that this version's classes do not know.
    pub unknown: BTreeSet<String>,
    /// Arguments of the last counted launch.
    pub arguments: Vec<Argument>,
    /// What it takes of the device.
    pub resources: Resources,
}

impl KernelMix {
    /// Work-items of a launch.
    pub fn items(&self) -> u64 {
        self.global.iter().fold(1, |all, n| all.saturating_mul(*n))
    }

    /// Bytes of local memory that arguments of the last counted launch asked for, beside those of
    /// [`Resources::local_bytes`].
    pub fn local_argument_bytes(&self) -> u64 {
        self.arguments.iter().filter(|a| a.kind == "local").filter_map(|a| a.size).sum()
    }

    /// A figure of one launch, the mean of those counted; `None` where none was.
    pub fn per_launch(&self, figure: u64) -> Option<f64> {
        (self.counted > 0).then(|| figure as f64 / self.counted as f64)
    }

    /// Share of lanes at work, of warps as wide as the kernel's multiple says.
    pub fn lanes_busy(&self) -> Option<f64> {
        let lanes = u32::try_from(self.resources.multiple?).ok()?;
        self.mix.lanes_busy(lanes)
    }
}

/// What makes a row: kernel, program, device, offset, global and local size.
type Key = (String, Program, String, Vec<u64>, Vec<u64>, Vec<u64>);

/// All kernels of a trace, those with the most launches first.
pub fn kernel_mixes(trace: &Trace<'_>) -> Vec<KernelMix> {
    let mut rows: BTreeMap<Key, KernelMix> = BTreeMap::new();
    let resources: Vec<_> =
        trace.processes.iter().map(|p| ReportedResources::collect(&p.definitions)).collect();
    let mut seen: HashMap<(u32, u32, u32, u32), u64> = HashMap::new();
    for event in trace.events(None) {
        if let Event::Command(command) = &event {
            let record = &command.enqueued.record;
            if record.kind.is_kernel() {
                let at = (command.process.0, record.object, record.geometry, record.queue);
                *seen.entry(at).or_default() += 1;
            }
        }
    }
    for ((process, kernel, geometry, queue), launches) in seen {
        let definitions = &trace.processes[process as usize].definitions;
        let device = definitions.queues.get(&queue).map_or(0, |q| q.device);
        let shape = definitions.geometries.get(&geometry).map(shape).unwrap_or_default();
        let row = row(&mut rows, definitions, kernel, device, shape);
        row.launches += launches;
        resources[process as usize].add(definitions, kernel, device, &mut row.resources);
    }
    for (process, told) in trace.processes.iter().zip(&resources) {
        for (at, mix) in process.definitions.mixes.iter().enumerate() {
            let shape = (mix.offset.clone(), mix.global.clone(), mix.local.clone());
            // What was refused at once names no device but that of its queue.
            let of_queue = process.definitions.queues.get(&mix.queue).map_or(0, |q| q.device);
            let device = if mix.device == 0 { of_queue } else { mix.device };
            let row = row(&mut rows, &process.definitions, mix.kernel, device, shape);
            told.add(&process.definitions, mix.kernel, device, &mut row.resources);
            add(row, mix);
            let longest = process.definitions.longest_groups.get(&at).copied();
            row.longest_group = row.longest_group.max(longest);
            if let Some(reuse) = process.definitions.reuses.get(&at) {
                row.mix.reuse.get_or_insert_default().add(reuse);
            }
        }
    }
    let mut out: Vec<KernelMix> = rows.into_values().collect();
    reasons::add(trace, &mut out);
    out.sort_by_key(|row| std::cmp::Reverse(row.launches));
    out
}

/// Whether launches of a process were counted, or were to be (`record --mix`).
pub fn are_wanted(of: &Definitions) -> bool {
    let asked = |s: &String| s.strip_prefix(SAMPLE) == Some("=1");
    !of.mixes.is_empty() || of.process.settings.iter().any(asked)
}

/// Offset, global and local size by their dimensions.
fn shape(of: &defs::Geometry) -> (Vec<u64>, Vec<u64>, Vec<u64>) {
    let dimensions = of.dimensions.clamp(1, 3) as usize;
    let sizes = |given: [u64; 3]| given.into_iter().take(dimensions).collect::<Vec<_>>();
    (
        of.offset.map(sizes).unwrap_or_default(),
        sizes(of.global),
        of.local.map(sizes).unwrap_or_default(),
    )
}

fn row<'r>(
    rows: &'r mut BTreeMap<Key, KernelMix>,
    definitions: &Definitions,
    kernel: u32,
    device: u32,
    (offset, global, local): (Vec<u64>, Vec<u64>, Vec<u64>),
) -> &'r mut KernelMix {
    let shown = definitions.kernel_name(kernel).into_owned();
    let known = definitions.kernels.get(&kernel);
    let name = known.map_or_else(|| shown.clone(), |kernel| kernel.name.clone());
    let program = Program::identify(definitions, kernel);
    let device = definitions.device_name(device).into_owned();
    let key = (
        name.clone(),
        program.clone(),
        device.clone(),
        offset.clone(),
        global.clone(),
        local.clone(),
    );
    rows.entry(key).or_insert_with(|| KernelMix {
        kernel: name,
        shown,
        program,
        device,
        offset,
        global,
        local,
        ..KernelMix::default()
    })
}

fn add(row: &mut KernelMix, from: &defs::Mix) {
    if !from.refused.is_empty() {
        row.refused.insert(from.refused.clone());
        return;
    }
    let mut mix = Mix::default();
    for count in &from.classes {
        // A class of a newer recorder is known by no name here.
        let class = Class::of_name(&count.class).unwrap_or(Class::Unknown);
        if class == Class::Unknown && count.class != class.name() {
            row.unknown.insert(format!("class {}", count.class));
        }
        mix.classes.entry(class).or_default().add(&Tally {
            threads: count.threads,
            warps: count.warps,
            flop: count.flop,
            bytes: count.bytes,
            predicated: count.predicated,
            transactions: None,
        });
    }
    for told in &from.transactions {
        if let Some(tally) =
            Class::of_name(&told.class).and_then(|class| mix.classes.get_mut(&class))
        {
            tally.transactions = Some(told.transactions);
        }
    }
    let all = mix.total().threads;
    row.spread =
        Some(row.spread.map_or((all, all), |(least, most)| (least.min(all), most.max(all))));
    row.mix.add(&mix);
    row.counted += 1;
    row.entered = row.entered.saturating_add(from.entered);
    // They are of the whole program: of kernels that ran none nothing is unknown.
    if mix.classes.contains_key(&Class::Unknown) {
        row.unknown.extend(from.unknown.iter().cloned());
    }
    row.arguments = from
        .arguments
        .iter()
        .map(|a| Argument { index: a.index, kind: a.kind.clone(), size: a.size, value: a.value })
        .collect();
    // Blocks of another text are other blocks.
    if row.code != from.code {
        row.blocks.clear();
        row.loops.clear();
        row.code.clone_from(&from.code);
        row.language.clone_from(&from.language);
    }
    for block in &from.blocks {
        let known = row.blocks.entry(block.block).or_insert((0, None));
        known.0 = known.0.saturating_add(block.threads);
        known.1 = match (known.1, block.warps) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        };
    }
    let heads: BTreeSet<u32> =
        from.loops.iter().copied().chain(row.loops.iter().map(|l| l.block)).collect();
    row.loops = heads
        .into_iter()
        .filter_map(|block| {
            let (threads, warps) = *row.blocks.get(&block)?;
            Some(Loop { block, threads, warps })
        })
        .collect();
}

/// Resources of a process's kernels by program, name and device.
struct ReportedResources<'d>(HashMap<(u32, &'d str, u32), Resources>);

impl<'d> ReportedResources<'d> {
    fn collect(definitions: &'d Definitions) -> Self {
        let mut out: HashMap<_, Resources> = HashMap::new();
        for told in &definitions.resources {
            if let Some(kernel) = definitions.kernels.get(&told.kernel) {
                let key = (kernel.program, kernel.name.as_str(), told.device);
                out.entry(key).or_default().add(told);
            }
        }
        Self(out)
    }

    /// Adds what is known of a kernel to a row. The row's kernels are of one name and text.
    fn add(&self, definitions: &Definitions, kernel: u32, device: u32, to: &mut Resources) {
        let Some(kernel) = definitions.kernels.get(&kernel) else { return };
        if let Some(known) = self.0.get(&(kernel.program, kernel.name.as_str(), device)) {
            to.clone_from(known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(threads: u64, code: &str) -> defs::Mix {
        defs::Mix {
            code: code.to_owned(),
            entered: 64,
            classes: vec![
                defs::ClassCount {
                    class: "fp32-fma".to_owned(),
                    threads,
                    warps: Some(threads / 32),
                    flop: 2 * threads,
                    ..defs::ClassCount::default()
                },
                defs::ClassCount {
                    class: "of-tomorrow".to_owned(),
                    threads: 1,
                    ..Default::default()
                },
            ],
            blocks: vec![defs::BlockCount { block: 2, threads, warps: Some(threads / 32) }],
            loops: vec![2, 7],
            ..defs::Mix::default()
        }
    }

    use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};

    /// A process of three programs that each have a kernel `scale` (4, 5, 6), launched at two
    /// geometries in turn (`matmul` is of a program that nobody saw): of the first two the sources
    /// differ, of the last two the options.
    fn several() -> ProcessBuilder {
        let mut p = ProcessBuilder::standard(HostModel::default(), 7, 1);
        p.define(defs::Geometry {
            id: 2,
            dimensions: 1,
            offset: None,
            global: [2048, 1, 1],
            local: None,
        });
        for (program, hash, options) in [(4, "aa", ""), (5, "bb", ""), (6, "bb", "-D N=2")] {
            p.define(defs::Program { id: program, hash: hash.repeat(16), ..Default::default() });
            let options = options.to_owned();
            p.define(defs::Build { program, options, ..Default::default() });
            p.define(defs::Kernel { id: program, program, name: "scale".to_owned() });
        }
        let thread = p.thread(0);
        for (at, kernel) in [4, 5, 6, 4, 5, 6, 1].into_iter().enumerate() {
            let (at, id) = (at as u64 * 1_000, at as u64 + 1);
            let geometry = if at < 3_000 { 1 } else { 2 };
            let launch = CommandSpec { geometry, ..CommandSpec::kernel(id, 2, kernel) };
            thread.enqueue(at + 100, at + 200, &launch);
            thread.timing(at + 900, id, [at + 110, at + 120, at + 300, at + 400]);
        }
        thread.plain(function::FINISH, 8_000, 8_100, 0, 1);
        p.exit(9_000, 1);
        p
    }

    fn rows(p: &ProcessBuilder) -> Vec<KernelMix> {
        let bytes = p.build();
        kernel_mixes(&Trace::open(vec![bytes.files("t.clscope/7-0")]))
    }

    #[test]
    fn kernels_of_one_name_and_several_programs_have_rows_of_their_own() {
        let rows = rows(&several());
        let of = |row: &KernelMix| (row.kernel.clone(), row.program.to_string(), row.launches);
        let mut found: Vec<_> = rows.iter().map(of).collect();
        found.sort();
        let unseen = "without a source that was seen";
        let mut want = vec![("matmul", unseen, 1)];
        for program in ["aaaaaaaaaaaa", "bbbbbbbbbbbb", "bbbbbbbbbbbb, built with -D N=2"] {
            // At each geometry.
            want.extend([("scale", program, 1); 2]);
        }
        let want: Vec<_> =
            want.into_iter().map(|(a, b, n)| (a.to_owned(), b.to_owned(), n)).collect();
        assert_eq!(found, want);
        assert_eq!(shared_names(&rows), BTreeSet::from(["scale"]));
        assert_eq!(shared_names(rows.iter().filter(|r| r.kernel == "matmul")), BTreeSet::new());
    }

    #[test]
    fn why_a_kernel_is_not_counted_stands_at_each_geometry_of_it_and_no_other_kernel() {
        let mut p = several();
        // Refused before its device was asked for, at its first geometry; of another program, the
        // second geometry was counted.
        let refused = defs::Mix {
            kernel: 4,
            queue: 2,
            global: vec![1024],
            local: vec![64],
            refused: "it has no text".to_owned(),
            ..defs::Mix::default()
        };
        p.define(refused.clone());
        p.define(defs::Mix { kernel: 5, device: 1, refused: "busy".to_owned(), ..refused });
        p.define(defs::Mix { kernel: 5, device: 1, global: vec![2048], ..counted(64, "a") });
        let refused = "no room".to_owned();
        p.define(defs::Capture { kernel: 6, queue: 2, refused, again: true, ..Default::default() });
        let rows = rows(&p);
        let of = |program: &str, global: u64| {
            let mut found = rows.iter().filter(|row| {
                row.program.to_string() == program
                    && row.global == [global]
                    && row.kernel == "scale"
            });
            let row = found.next().unwrap();
            assert!(found.next().is_none(), "{rows:?}");
            (row.counted, row.refused.iter().map(String::as_str).collect::<Vec<_>>().join(", "))
        };
        assert_eq!(of("aaaaaaaaaaaa", 1024), (0, "it has no text".to_owned()));
        assert_eq!(of("aaaaaaaaaaaa", 2048), (0, "it has no text".to_owned()));
        assert_eq!(of("bbbbbbbbbbbb", 1024), (0, "busy".to_owned()));
        assert_eq!(of("bbbbbbbbbbbb", 2048), (1, String::new()), "it was counted");
        let remedy = "`clscope record --mix --capture scale` tries until the application ends";
        for global in [1024, 2048] {
            let found = of("bbbbbbbbbbbb, built with -D N=2", global);
            assert_eq!(found, (0, format!("no room; {remedy}")));
        }
        // Of a launch of which the recorder said nothing.
        let matmul = rows.iter().find(|row| row.kernel == "matmul").unwrap();
        let why = matmul.refused.first().unwrap();
        assert!(
            why.starts_with("the run ended before") && why.contains("--capture matmul`"),
            "{why}"
        );
        assert_eq!(rows.len(), 7, "{rows:?}");
        // Nobody asked for counts.
        assert!(self::rows(&several()).iter().all(|row| row.refused.is_empty()));
    }

    #[test]
    fn launches_add_up_and_reasons_stay() {
        let mut row = KernelMix { global: vec![64, 3], local: vec![16, 2], ..KernelMix::default() };
        add(&mut row, &counted(640, "a"));
        add(&mut row, &counted(64, "a"));
        add(&mut row, &defs::Mix { refused: "no".to_owned(), ..defs::Mix::default() });
        assert_eq!((row.counted, row.spread, row.entered), (2, Some((65, 641)), 128));
        let fma = row.mix.classes[&Class::SingleFma];
        assert_eq!((fma.threads, fma.warps, fma.flop), (704, Some(22), 1408));
        assert_eq!(row.mix.classes[&Class::Unknown].threads, 2);
        assert_eq!(row.unknown.iter().collect::<Vec<_>>(), ["class of-tomorrow"]);
        assert_eq!(row.refused.iter().collect::<Vec<_>>(), ["no"]);
        // Block 7 was never entered.
        assert_eq!(row.loops, [Loop { block: 2, threads: 704, warps: Some(22) }]);
        // Another kernel of the program ran what is not known.
        let unknown = BTreeSet::from(["opcode 9".to_owned()]);
        let of = |class: &str| defs::Mix {
            classes: vec![defs::ClassCount { class: class.to_owned(), ..Default::default() }],
            unknown: unknown.iter().cloned().collect(),
            ..defs::Mix::default()
        };
        let found = ["branch", "unknown"].map(|class| {
            let mut row = KernelMix::default();
            add(&mut row, &of(class));
            row.unknown
        });
        assert_eq!(found, [BTreeSet::new(), unknown.clone()]);
        assert_eq!(row.items(), 192);
        assert_eq!(row.per_launch(fma.flop), Some(704.0));
        add(&mut row, &counted(32, "b"));
        assert_eq!(row.blocks, BTreeMap::from([(2, (32, Some(1)))]), "blocks of another text");
    }
}
