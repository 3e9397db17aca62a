//! What is known of a kernel's launches on a device: times, geometry, instructions, joules. Every
//! input may be absent; what is computed of it then says what it lacks.

use crate::device::{Device, name};
use crate::explain::Measurement;
use crate::figure::{Evidence, Figure, Missing};
use crate::latency;
use crate::roofline::Resource;
use crate::traffic::Traffic;
use clscope_mix::{Block, Class, Follows, Instruction, Mix, Precision, Space, Tally};
use std::collections::{BTreeMap, BTreeSet};

/// What the compiler and the launch set aside for work-items and groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a work-item.
    pub registers: Option<u64>,
    /// Bytes of local memory of a group.
    pub local_bytes: Option<u64>,
    /// Bytes of private memory of an item that are not in registers.
    pub private_bytes: Option<u64>,
    /// Most items that a group may have.
    pub most_items: Option<u64>,
    /// Items that each group must have, where the kernel's code says so.
    pub required: Option<u64>,
}

/// Launches that took longer than the others, and do not stand for them: first ones, as where the
/// runtime compiles a kernel when it is launched first, those that the recorder held up, or the only launch, of which
/// nobody knows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct First {
    /// How many first ones: of each program and geometry one.
    pub launches: u64,
    /// How many that began when the recorder had let the device rest.
    pub held_up: u64,
    /// Launches beside each, at least: fewer than two confirm nothing.
    pub others: u64,
    /// What they took beyond the median of the others, all together, ns: none of it at least
    /// where fewer than two launches show that.
    pub excess_ns: Figure,
    /// Mean time of all launches without that, ns.
    pub later_ns: Figure,
}

/// Bytes of a line of a CPU's caches.
const LINE_OF_CPU: f64 = 64.0;

/// Launches of one kernel; of one size where the caller separated sizes. All figures are of one
/// launch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kernel {
    /// What its code does by its statements, where nothing was counted: ranks its causes.
    pub by_code: Option<Mix>,
    /// Its name, with what separates it from others of the name.
    pub name: String,
    /// CL_DEVICE_NAME.
    pub device: String,
    /// Compute units of the device, as the runtime states them.
    pub compute_units: Option<u32>,
    /// The highest clock of the device that the runtime states, MHz.
    pub clock_mhz: Option<u32>,
    /// Launches.
    pub launches: u64,
    /// Time of all of them, ns.
    pub total_ns: Option<f64>,
    /// Mean time of all, first ones with them, ns.
    pub time_ns: Option<Figure>,
    /// What sets first launches apart; absent where nothing does.
    pub first: Option<First>,
    /// What of it is the runtime's own work, ns (`clscope doctor --calibrate`).
    pub bias_ns: Option<Figure>,
    /// Work-items; absent where launches differ.
    pub items: Option<u64>,
    /// Items of a group; absent where launches differ, or the runtime chose.
    pub local: Option<u64>,
    /// How many times as long as the mean of its groups the longest one is, by instructions.
    pub longest_group: Option<f64>,
    /// Sizes of launches that were seen.
    pub sizes: usize,
    /// Instructions, mean over launches where several were counted.
    pub mix: Option<Mix>,
    /// Of its launches those that were counted.
    pub counted_launches: u64,
    /// Least and most instructions of the launches that were counted, where they differ.
    pub spread: Option<(u64, u64)>,
    /// Shortest and longest time of its launches, ns, where they differ by more than chance.
    pub times_differ: Option<(f64, f64)>,
    /// Why there is no mix.
    pub uncounted: Option<String>,
    /// Floating-point operations as the user states them.
    pub flop: Option<f64>,
    /// Bytes of memory as the user states them.
    pub bytes: Option<f64>,
    /// Blocks of the code, each with how often warps enter it in a launch; empty where the code is
    /// not known.
    pub blocks: Vec<(Block, f64)>,
    /// Bytes of its buffers: what it can touch at most.
    pub footprint: Option<f64>,
    /// The same by their argument's index.
    pub buffers: BTreeMap<u32, f64>,
    /// Of them, bytes of those that it both loads from and stores to; 0 where that is not known.
    pub in_place: f64,
    /// Bytes of the images that a launch reads or writes.
    pub images: f64,
    /// What is set aside for it.
    pub resources: Resources,
    /// Bytes of an item's registers that lie in private memory: of code without arrays.
    pub spilled: Option<u64>,
    /// Share of memory's bandwidth in use, from counters, of what they call 100 %.
    pub dram_share: Option<Figure>,
    /// Bytes that memory moved, from counters.
    pub dram_bytes: Option<Figure>,
    /// Bytes that came from memory at least, and from behind the nearest cache, from counters that do
    /// not see what is fetched ahead.
    pub at_least: Option<Traffic>,
    /// Share of the time that a unit was busy, from counters.
    pub busy: BTreeMap<Resource, Figure>,
    /// Share of the time that a compute unit had work, from counters.
    pub units_busy: Option<Figure>,
    /// Joules.
    pub joules: Option<Figure>,
    /// Watts of the floor that the joules stand on.
    pub floor_watts: Option<Figure>,
    /// Why there are no joules.
    pub unmetered: Option<String>,
    /// What the trace holds already: nothing of it is advised again.
    pub held: BTreeSet<Measurement>,
}

impl Kernel {
    /// With the bytes that memory moved, from the share that counters saw and what they read at the
    /// device's ceiling; as it is where either is not known.
    pub fn on(mut self, device: &Device) -> Self {
        let at_ceiling = device.get(name::DRAM_COUNTER).map(|percent| percent.times(0.01));
        if let (None, Some(share), Some(time), Ok(at_ceiling), Ok(ceiling)) =
            (self.dram_bytes, self.dram_share, self.time_ns, at_ceiling, device.get(name::DRAM))
        {
            let moved = share.over(at_ceiling).product(ceiling).product(time);
            // The share is a regression's, and may come out above what there is: no memory moves
            // more than its ceiling. Where even the low end is above it, one of them is wrong, and
            // it stays.
            let most = ceiling.product(time).value;
            self.dram_bytes = Some(if moved.value > most && moved.low <= most {
                Figure { value: most, high: most, ..moved }
            } else {
                moved
            });
        }
        self
    }

    /// An array that registers hold is not memory: where the runtime says that items of a GPU have none
    /// beyond them (CL_KERNEL_PRIVATE_MEM_SIZE is 0), what the code writes as an access to one is a
    /// move.
    pub(crate) fn keep_arrays_in_registers(&mut self) {
        if self.resources.private_bytes != Some(0) {
            return;
        }
        let is_private = |class: Class| class.memory() == Some(Space::Private);
        for mix in self.mix.iter_mut().chain(&mut self.by_code) {
            let own: Vec<Class> = mix.classes.keys().copied().filter(|c| is_private(*c)).collect();
            for class in own {
                let Some(was) = mix.classes.remove(&class) else { continue };
                let moves = Tally { flop: 0, bytes: 0, transactions: None, ..was };
                mix.classes.entry(Class::Move).or_default().add(&moves);
            }
        }
        let all = self.blocks.iter_mut().flat_map(|(block, _)| &mut block.instructions);
        for instruction in all.filter(|of| is_private(of.class)) {
            (instruction.class, instruction.bytes) = (Class::Move, 0);
        }
    }

    /// Groups.
    pub fn groups(&self) -> Option<u64> {
        Some(self.items?.div_ceil(self.local.filter(|n| *n > 0)?))
    }

    /// Share of its launches of which nobody knows what they do: those that were not counted, where
    /// launches differ in what was counted of them or in their times.
    pub fn uncounted_share(&self) -> f64 {
        let differ = self.spread.is_some() || self.times_differ.is_some();
        let left = self.launches.saturating_sub(self.counted_launches);
        match differ && self.mix.is_some() && self.launches > 0 {
            true => left as f64 / self.launches as f64,
            false => 0.0,
        }
    }

    /// A count of the mean launch with what the others leave open: those that were not counted do
    /// nothing at least, and at most nobody knows what.
    pub fn of_all_launches(&self, count: Figure) -> Figure {
        match self.uncounted_share() {
            0.0 => count,
            share => Figure { low: count.low * (1.0 - share), high: f64::INFINITY, ..count },
        }
    }

    /// Whether a CPU takes its items one after another. Its compiler makes vectors of items that have
    /// no loops of their own, since it joins the turns of innermost loops alone (Jaaskelainen et al.,
    /// *pocl: A Performance-Portable OpenCL Implementation*, 2015); of others where the device says
    /// so. What is not known has loops.
    pub fn runs_apart(&self, device: &Device) -> bool {
        let again = |items: u64| self.blocks.iter().any(|(_, entered)| *entered > items as f64);
        let loops = self.blocks.is_empty() || self.items.is_none_or(again);
        device.is_cpu() && !device.joins_items() && loops
    }

    /// Mean time of a launch, without what first ones took beyond those after them, ns: what a
    /// launch takes again and again.
    pub fn later_ns(&self) -> Option<Figure> {
        self.first.map(|first| first.later_ns).or(self.time_ns)
    }

    /// The same without what is the runtime's own, ns.
    pub fn work_ns(&self) -> Option<Figure> {
        self.later_ns().map(|took| self.work_of(took))
    }

    /// What of a launch of so many nanoseconds is not the runtime's own.
    pub fn work_of(&self, took: Figure) -> Figure {
        let Some(bias) = self.bias_ns else { return took };
        Figure {
            value: (took.value - bias.value).max(0.0),
            low: (took.low - bias.high).max(0.0),
            high: took.high - bias.low,
            ..took
        }
    }

    /// FLOP of all types: counted, else as stated.
    ///
    /// # Errors
    /// Where neither is known.
    pub fn flop(&self) -> Result<Figure, Missing> {
        match (&self.mix, self.flop) {
            (Some(mix), _) => {
                let sum: u64 = Precision::ALL.iter().map(|p| mix.flop(*p)).sum();
                Ok(Figure::counted(sum))
            }
            (None, Some(flop)) => Ok(Figure::exact(flop, Evidence::Given)),
            (None, None) => self.counted().map(|_| Figure::counted(0)),
        }
    }

    /// The type of most FLOP; single precision where they are only stated.
    pub fn precision(&self) -> Precision {
        let Some(mix) = &self.mix else { return Precision::Single };
        let most = Precision::ALL.into_iter().max_by_key(|p| mix.flop(*p));
        most.filter(|p| mix.flop(*p) > 0).unwrap_or(Precision::Single)
    }

    /// Bytes asked of memory beyond the compute unit: of global, private and generic memory and
    /// images; caches may serve most of it.
    ///
    /// # Errors
    /// Where they are neither counted nor stated.
    pub fn requested(&self) -> Result<Figure, Missing> {
        match (&self.mix, self.bytes) {
            (Some(mix), _) => {
                let spaces = [Space::Global, Space::Private, Space::Generic, Space::Image];
                Ok(Figure::counted(spaces.iter().map(|s| mix.bytes(*s)).sum()))
            }
            (None, Some(bytes)) => Ok(Figure::exact(bytes, Evidence::Given)),
            (None, None) => self.counted().map(|_| Figure::counted(0)),
        }
    }

    /// Bytes that the nearest cache gives: what is asked for, or all of the pieces that scattered
    /// accesses touch, whichever is more.
    ///
    /// # Errors
    /// As for [`requested`](Self::requested).
    pub fn cached(&self) -> Result<Figure, Missing> {
        let requested = self.requested()?;
        let Some(beyond) = self.scattered() else { return Ok(requested) };
        Ok(Figure { evidence: Evidence::Counted, ..requested.plus(beyond) })
    }

    /// Bytes of the touched pieces of global memory beyond those asked for; below 0 where items of
    /// a warp ask for the same.
    pub(crate) fn beyond(&self) -> Option<f64> {
        self.mix.as_ref()?.scattered_bytes()
    }

    /// Bytes of the pieces that warps touch, each time, where they were counted: fewer than are asked
    /// for where items of a warp share words, more where they scatter.
    pub fn pieces(&self) -> Option<Figure> {
        let all = self.requested().ok()?.value + self.beyond()?;
        Some(Figure::counted(all.max(0.0) as u64))
    }

    /// Bytes of touched pieces of global memory that nobody asked for.
    fn scattered(&self) -> Option<Figure> {
        self.beyond().filter(|b| *b > 0.0).map(|b| Figure::counted(b as u64))
    }

    /// Items that are on a compute unit at once, and bytes of its first-level cache beside their
    /// local memory. `None` where the device's limits are not known, or the two share nothing.
    fn beside_local_memory(&self, device: &Device) -> Option<(f64, f64)> {
        let occupancy = latency::occupancy_on(device, self)?;
        let local_bytes = self.resources.local_bytes.unwrap_or(0);
        let left = latency::first_cache(device, occupancy.groups, local_bytes)?;
        let resident = (occupancy.groups * self.local?) as f64;
        let share = self.items? as f64 / f64::from(device.compute_units.max(1));
        Some((resident.min(share.max(1.0)), left as f64))
    }

    /// Bytes of a compute unit's first-level cache beside the local memory of the groups on it.
    /// `None` where that is not known, or the two share nothing.
    pub fn first_cache(&self, device: &Device) -> Option<f64> {
        self.beside_local_memory(device).map(|(_, left)| left)
    }

    /// Bytes that an access can touch: those of its buffer, or of all, as far as its address reaches.
    pub(crate) fn set_of(&self, access: &Instruction) -> Option<f64> {
        let own = access.argument.and_then(|index| self.buffers.get(&index).copied());
        let reach = access.reach.filter(|bytes| *bytes < u64::MAX).map(|bytes| bytes as f64);
        own.or(self.footprint).into_iter().chain(reach).reduce(f64::min)
    }

    /// The mean of a figure of sets over the places that an access which gathers leads to: all of what it
    /// can touch, or where comparisons choose among more and more, from a line on twice as many each time.
    pub(crate) fn over_places(
        &self,
        access: &Instruction,
        of_set: impl Fn(f64) -> Option<f64>,
    ) -> Option<f64> {
        let set = self.set_of(access)?;
        let steps = match access.gathers? {
            Follows::Computed => 1,
            Follows::Chosen => (set / LINE_OF_CPU).log2().max(1.0) as i32,
        };
        let sum = (0..steps).try_fold(0.0, |sum, k| Some(sum + of_set(set / 2f64.powi(k))?))?;
        Some(sum / f64::from(steps))
    }

    /// Bytes of a compute unit's nearest cache: beside local memory, where the two share one, else all.
    pub(crate) fn nearest_cache(&self, device: &Device) -> Option<f64> {
        let units = f64::from(device.compute_units.max(1));
        let whole = || device.get(name::L1_BYTES).ok().map(|all| all.value / units);
        self.first_cache(device).or_else(whole)
    }

    /// Bytes of the private arrays of all items that are on the device at once; `None` where they are
    /// not known.
    pub fn private_set(&self, device: &Device) -> Option<f64> {
        let each = self.resources.private_bytes.filter(|bytes| *bytes > 0)? as f64;
        let units = f64::from(device.compute_units.max(1));
        let resident = match latency::occupancy_on(device, self).zip(self.local) {
            Some((occupancy, local)) => (occupancy.groups * local) as f64,
            None => device.get(name::RESIDENT).ok()?.value,
        };
        Some(each * (resident * units).min(self.items.map_or(f64::INFINITY, |n| n as f64)))
    }

    /// Share of what resident items touch, of so many bytes of a launch, that the nearest cache
    /// holds until it is wanted again.
    pub(crate) fn held(&self, device: &Device, touched: f64) -> f64 {
        let known = self.beside_local_memory(device).zip(self.items.filter(|n| *n > 0));
        known.map_or(1.0, |((resident, left), items)| {
            held_in(left, resident * touched / items as f64)
        })
    }

    /// Most items whose accesses can be under way at once on a compute unit: what they wait for has
    /// its place in the nearest cache. `None` where nothing limits them so.
    pub fn under_way(&self, device: &Device) -> Option<f64> {
        let (_, left) = self.beside_local_memory(device)?;
        let beyond = self.beyond().filter(|b| *b > 0.0)?;
        let of_item = (self.requested().ok()?.value + beyond) / self.items? as f64;
        // An item with many accesses has some of them under way.
        (of_item > 0.0 && of_item <= STREAMED).then(|| left / of_item)
    }

    /// Bytes through local memory.
    ///
    /// # Errors
    /// Where instructions were not counted.
    pub fn local_traffic(&self) -> Result<Figure, Missing> {
        Ok(Figure::counted(self.counted()?.bytes(Space::Local)))
    }

    /// The mix.
    ///
    /// # Errors
    /// Where there is none, with the reason where it is known.
    pub fn counted(&self) -> Result<&Mix, Missing> {
        self.mix.as_ref().ok_or_else(|| match &self.uncounted {
            Some(why) => Missing::new("instructions of the kernel were not counted", why.clone()),
            None => Missing::mix(),
        })
    }

    /// Share of warps' lanes that are at work.
    pub fn lanes_busy(&self, lanes: Option<u32>) -> Option<f64> {
        self.mix.as_ref()?.lanes_busy(lanes?)
    }

    /// Classes by share of all instructions, largest first.
    pub fn shares(&self) -> Vec<(Class, f64)> {
        let Some(mix) = &self.mix else { return Vec::new() };
        let all = mix.total().threads.max(1) as f64;
        let mut out: Vec<(Class, f64)> =
            mix.classes.iter().map(|(c, t)| (*c, t.threads as f64 / all)).collect();
        out.sort_by(|a, b| b.1.total_cmp(&a.1));
        out
    }
}

/// Share of a set that a cache with so much room holds until it is gone through again: one that drops
/// what was used least recently holds nothing of what is twice its size.
pub(crate) fn held_in(room: f64, set: f64) -> f64 {
    (2.0 * room / set.max(1.0) - 1.0).clamp(0.0, 1.0)
}

/// Bytes that an item asks for, up to which it is taken to read each once.
pub const STREAMED: f64 = 256.0;

/// Share of the last cache that surely holds what launches before left.
pub(crate) const KEPT: f64 = 0.5;

/// A mix of which each count is a multiple.
pub fn scaled(mix: &Mix, by: f64) -> Mix {
    let mut out = mix.clone();
    let times = |n: u64| (n as f64 * by).round() as u64;
    for tally in out.classes.values_mut() {
        tally.threads = times(tally.threads);
        tally.warps = tally.warps.map(times);
        tally.flop = times(tally.flop);
        tally.bytes = times(tally.bytes);
        tally.predicated = times(tally.predicated);
        tally.transactions = tally.transactions.map(times);
    }
    // Shares of a sample stay.
    if let Some(reuse) = &mut out.reuse {
        reuse.passes = times(reuse.passes);
        reuse.hottest = reuse.hottest.map(times);
        if let Some(lines) = &mut reuse.lines {
            (lines.loaded, lines.stored) = (times(lines.loaded), times(lines.stored));
        }
    }
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use clscope_mix::Tally;

    /// A mix of so many threads of each class.
    pub fn mix(of: &[(Class, u64, u64, u64)]) -> Mix {
        let mut mix = Mix::default();
        for &(class, threads, flop, bytes) in of {
            let warps = Some(threads.div_ceil(32));
            let tally = Tally { threads, warps, flop, bytes, ..Tally::default() };
            mix.classes.insert(class, tally);
        }
        mix
    }

    /// Classes with FLOP, bytes and without either, as a launch of `n` items counts them.
    pub fn counted(counts: &[u64], n: u64) -> Mix {
        let each = Class::ALL.iter().filter(|c| **c != Class::Unknown).zip(counts);
        let rows: Vec<(Class, u64, u64, u64)> = each
            .filter(|(_, per_item)| **per_item > 0)
            .map(|(class, per_item)| {
                let threads = n * per_item;
                let flop = match class.name() {
                    name if name.ends_with("-fma") => 2 * threads,
                    name if name.starts_with("fp") && !name.ends_with("other") => threads,
                    _ => 0,
                };
                let flop = if class.precision().is_some() { flop } else { 0 };
                let bytes = if class.memory().is_some() { 4 * threads } else { 0 };
                (*class, threads, flop, bytes)
            })
            .collect();
        mix(&rows)
    }

    /// Three launches of a mix, in groups of 64 items.
    pub fn launched(mix: Mix, groups: u64, ns: f64) -> Kernel {
        Kernel {
            name: "made".to_owned(),
            device: "Made".to_owned(),
            launches: 3,
            total_ns: Some(3.0 * ns),
            time_ns: Some(Figure::exact(ns, Evidence::Measured)),
            items: Some(64 * groups),
            local: Some(64),
            sizes: 1,
            mix: Some(mix),
            ..Kernel::default()
        }
    }

    #[test]
    fn what_is_stated_stands_in_for_what_is_not_counted() {
        let mut kernel = Kernel { items: Some(1000), local: Some(64), ..Kernel::default() };
        assert_eq!(kernel.groups(), Some(16));
        assert!(kernel.flop().unwrap_err().remedy.contains("--mix"));
        kernel.uncounted = Some("the program was made from a binary".to_owned());
        assert!(kernel.requested().unwrap_err().remedy.contains("binary"));
        kernel.flop = Some(5e6);
        assert_eq!(kernel.flop().unwrap().evidence, Evidence::Given);
        kernel.mix = Some(mix(&[
            (Class::DoubleFma, 100, 200, 0),
            (Class::LoadGlobal, 50, 0, 400),
            (Class::LoadLocal, 10, 0, 40),
        ]));
        assert_eq!(kernel.flop().unwrap(), Figure::counted(200));
        assert_eq!(kernel.precision(), Precision::Double);
        assert_eq!(kernel.requested().unwrap().value, 400.0);
        assert_eq!(kernel.local_traffic().unwrap().value, 40.0);
        assert_eq!(kernel.shares()[0].0, Class::DoubleFma);
    }

    #[test]
    fn memory_moves_no_more_than_its_ceiling_unless_counters_insist() {
        let mut device = crate::device::tests::round();
        device.keep_parameter(
            name::DRAM_COUNTER,
            Figure::exact(90.0, Evidence::Measured),
            "%",
            "test",
        );
        let of = |low: f64, share: f64, high: f64| {
            let kernel = Kernel {
                time_ns: Some(Figure::exact(1e3, Evidence::Measured)),
                dram_share: Some(Figure::new(share, low, high, Evidence::Measured)),
                ..Kernel::default()
            };
            kernel.on(&device).dram_bytes.unwrap()
        };
        // 100 GB/s for 1 us are 100 kB, which the counter shows as 90 %.
        let moved = of(0.85, 0.99, 1.13);
        assert!((moved.value - 1e5).abs() < 1.0 && moved.high == moved.value, "{moved:?}");
        assert!((moved.low - 1e5 * 0.85 / 0.9).abs() < 1.0, "{moved:?}");
        assert!((of(0.4, 0.45, 0.5).value - 5e4).abs() < 1.0);
        assert!((of(0.95, 0.99, 1.0).value - 1.1e5).abs() < 1.0);
    }
}
