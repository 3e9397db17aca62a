//! What a resource needs for the classes whose time it is: at least, at most, and likely, by how many
//! of a warp's items meet in one place. Refuses a time where a class has no ceiling.
//!
//! * **Atomics on global memory**: a part of the last cache serves one piece of one warp in a turn, of
//!   lanes that want one word one after the other, unless the compiler joined them, as it does where
//!   all have one address. Words far apart lie in different parts; which have most turns is counted.
//! * **Integers** have units of several kinds: each kind of operation takes its own, and all together
//!   are no faster than additions, which any of them makes.
//! * **Constant memory** gives a warp one word in a turn.
//! * **Sums of 64 bits** are addresses in part, and an access adds an offset by itself.
//! * **Images** have a unit of their own, which interpolates four texels at no cost.
//! * **Private memory** lays words of one index side by side: items that index their arrays differently
//!   fetch a piece for each word.
//!
//! Source: NVIDIA, *CUDA C++ Programming Guide*, sections on device memory accesses and atomic
//! functions; on an H200 one word takes an atomic each 0.73 ns, of a warp's 32 lanes together where
//! their address is one, and 122 pieces a nanosecond go to words that lie apart.

use super::classes::{Counted, ceiling_of};
use super::{Ceiling, Resource};
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::{KEPT, Kernel};
use crate::traffic::{LAST, MEMORY, Traffic, lanes_of};
use clscope_mix::{Class, SECTOR, Tally};

/// Times of a resource, ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Takes {
    pub least: Figure,
    pub likely: Figure,
    pub most: Figure,
}

impl Takes {
    fn exactly(time: Figure) -> Self {
        Self { least: time, likely: time, most: time }
    }

    /// Between two times, of which nothing says where.
    fn between(least: Figure, most: Figure) -> Self {
        let most = most.larger(least);
        Self { least, likely: least.times((most.value / least.value.max(1e-300)).sqrt()), most }
    }

    /// If so many items are done at once, or one.
    pub(super) fn joined(self, items: f64) -> Self {
        Self::between(self.least.times(items.recip()), self.most)
    }

    fn larger(self, other: Self) -> Self {
        Self {
            least: self.least.larger(other.least),
            likely: self.likely.larger(other.likely),
            most: self.most.larger(other.most),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            least: self.least.plus(other.least),
            likely: self.likely.plus(other.likely),
            most: self.most.plus(other.most),
        }
    }
}

/// Words of a piece that caches move at once.
const PIECE: f64 = SECTOR as f64 / 4.0;

/// Words that [`name::ATOMIC_FEW`] and [`name::ATOMIC_SOME`] are measured on.
const FEW: f64 = 64.0;
const SOME: f64 = 1024.0;

/// Turns of local memory that a warp takes to reduce its lanes and to add once, from an H200: 64
/// additions of each item to one word.
const JOINED: f64 = 3.0;

/// Values of an item that registers hold, and that an item of a CPU may keep across a barrier: the
/// vector registers of AVX-512 (Intel, *Software Developer's Manual*, volume 1).
const KEPT_VALUES: f64 = 32.0;

/// Times that private arrays which caches have no room for take longer than as much that is only
/// read: 1.4 to 2.0 on an H200, of 512 bytes to 4 kB an item.
const PUSHED: f64 = 2.0;

/// Share of a mix's instructions from which on a class without a ceiling is worth a word.
const WORTH: f64 = 0.01;

/// What a resource needs for all classes whose time it is, by their ceilings on the whole device.
/// `Ok(None)` where the mix has none of them.
pub(super) fn takes(
    kernel: &Kernel,
    device: &Device,
    resource: Resource,
) -> Result<Option<Takes>, Missing> {
    let Some(mix) = &kernel.mix else { return Ok(None) };
    match resource {
        Resource::Integer => return integers(kernel, device),
        Resource::PrivateMemory if kernel.spilled.is_some() => return Ok(spilled(kernel, device)),
        _ => {}
    }
    let all = mix.total().threads.max(1) as f64;
    let (mut sum, mut lacks): (Option<Takes>, _) = (None, None);
    for (class, tally) in mix.classes.iter().filter(|(_, t)| t.threads > 0) {
        let Some(ceiling) = ceiling_of(*class).filter(|c| c.resource == resource) else { continue };
        let Some(best) = ceiling.best.iter().find_map(|key| device.get(key).ok()) else {
            if tally.threads as f64 >= WORTH * all {
                lacks = ceiling.best.first().and_then(|key| device.get(key).err());
            }
            continue;
        };
        let of = Of { kernel, device, class: *class, tally, best, worst: worst(&ceiling, device) };
        let takes = match resource {
            Resource::Atomics => of.atomics(),
            Resource::ConstantMemory => of.constants(),
            Resource::PrivateMemory => of.private_of_warps().unwrap_or_else(|| of.private()),
            Resource::Barriers if device.is_cpu() => of.barriers(),
            Resource::Images => of.images(),
            _ if ceiling.counted == Counted::Bytes => {
                Takes::exactly(Figure::counted(tally.bytes).over(best))
            }
            _ => Takes::exactly(Figure::counted(of.lanes()).over(best)),
        };
        sum = Some(sum.map_or(takes, |sum| sum.plus(takes)));
    }
    match (sum, lacks) {
        (None, Some(lacks)) => Err(lacks),
        (sum, _) => Ok(sum),
    }
}

/// What registers need that are spilled. How often is not known: each is stored and loaded once at
/// least, and a word is loaded for each instruction at most.
fn spilled(kernel: &Kernel, device: &Device) -> Option<Takes> {
    let (bytes, items) = (kernel.spilled?, kernel.items?);
    let lanes = u64::from(device.lanes.unwrap_or(1).max(1));
    let best = device.get(name::PRIVATE).ok()?;
    let of = |class, threads: u64| {
        let warps = threads.div_ceil(lanes);
        let bytes = threads.saturating_mul(4);
        let (warps, transactions) = (Some(warps), Some(warps));
        let tally = Tally { threads, warps, bytes, transactions, ..Tally::default() };
        Of { kernel, device, class, tally: &tally, best, worst: None }.private_of_warps()
    };
    let once = items.saturating_mul(bytes / 4);
    let least = of(Class::StorePrivate, once)?.plus(of(Class::LoadPrivate, once)?);
    let most = of(Class::LoadPrivate, kernel.mix.as_ref()?.total().threads)?;
    Some(Takes::between(least.least, most.most))
}

/// What a launch's integers need, products and divisions apart: as long as all of them take where
/// additions are made, or as the operations of one kind take in their own unit.
fn integers(kernel: &Kernel, device: &Device) -> Result<Option<Takes>, Missing> {
    let classes = kernel.mix.iter().flat_map(|mix| &mix.classes).filter(|(_, t)| t.threads > 0);
    let (mut all, mut logic, mut bits): (Option<Takes>, _, _) = (None, 0.0, 0.0);
    for (class, tally) in classes {
        if ceiling_of(*class).is_none_or(|c| c.resource != Resource::Integer) {
            continue;
        }
        let is_long = matches!(class, Class::LongArith | Class::LongLogic);
        let sums = device.get(if is_long { name::LONG } else { name::INTEGER });
        let best = sums.or_else(|_| device.get(name::INTEGER))?;
        let of = Of { kernel, device, class: *class, tally, best, worst: None };
        let turns = if *class == Class::IntBits { 1.0 } else { of.turns() };
        let own = of.lanes() as f64 * turns;
        let takes = match class {
            Class::LongArith => of.addresses(),
            _ => Takes::exactly(Figure::exact(own, Evidence::Counted).over(best)),
        };
        // As many operations on 32 bits as they take the time of.
        let lanes = own * (device.get(name::INTEGER)?.value / best.value);
        match class {
            Class::IntLogic | Class::IntCompare | Class::LongLogic => logic += lanes,
            Class::IntBits => bits += lanes,
            _ => {}
        }
        all = Some(all.map_or(takes, |all| all.plus(takes)));
    }
    let own = |lanes: f64, class| {
        let keys = ceiling_of(class).map_or(&[][..], |ceiling| ceiling.best);
        let rate = keys.iter().find_map(|key| device.get(key).ok())?;
        (lanes > 0.0).then(|| Takes::exactly(Figure::exact(lanes, Evidence::Counted).over(rate)))
    };
    let units = [own(logic, Class::IntLogic), own(bits, Class::IntBits)];
    Ok(all.map(|all| units.into_iter().flatten().fold(all, Takes::larger)))
}

/// The slowest of the rates at worst that are known.
fn worst(ceiling: &Ceiling, device: &Device) -> Option<Figure> {
    let all = ceiling.worst.iter().filter_map(|key| device.get(key).ok());
    all.min_by(|a, b| a.value.total_cmp(&b.value))
}

/// A class of a kernel on a device, and its rates.
struct Of<'k> {
    kernel: &'k Kernel,
    device: &'k Device,
    class: Class,
    tally: &'k Tally,
    best: Figure,
    worst: Option<Figure>,
}

impl Of<'_> {
    /// Lanes of a warp; one where there are no warps.
    fn width(&self) -> u64 {
        u64::from(self.device.lanes.unwrap_or(1).max(1))
    }

    /// Operations with the lanes that rest: work of a unit follows warps.
    fn lanes(&self) -> u64 {
        lanes_of(self.tally, self.device)
    }

    /// Where the addresses of its accesses can lie: bytes and share of its accesses.
    fn reaches(&self) -> Vec<(Option<u64>, f64)> {
        let each = self.kernel.blocks.iter().flat_map(|(block, times)| {
            let own = block.instructions.iter().filter(|i| i.class == self.class);
            own.map(move |i| (i.reach, *times))
        });
        let each: Vec<(Option<u64>, f64)> = each.filter(|(_, times)| *times > 0.0).collect();
        let all: f64 = each.iter().map(|(_, times)| times).sum();
        match all > 0.0 {
            true => each.into_iter().map(|(reach, times)| (reach, times / all)).collect(),
            false => vec![(None, 1.0)],
        }
    }

    /// Instructions of the device that one of the class becomes, on average.
    fn turns(&self) -> f64 {
        self.kernel.mean_of(self.class, |i| f64::from(i.steps)).unwrap_or(1.0)
    }

    fn images(&self) -> Takes {
        let near = Figure::exact(self.lanes() as f64 * self.turns(), Evidence::Counted);
        let near = near.over(self.best);
        let traffic = self.kernel.traffic_of_images(self.class, self.tally, self.device);
        let behind = self.behind(traffic).map_or(0.0, |(last, memory)| last.max(memory));
        let likely = near.larger(Figure::exact(behind, Evidence::Modelled));
        Takes { least: near, likely, most: likely }
    }

    /// Times of what the last cache moves and of what memory does, ns; `None` without their rates.
    fn behind(&self, of: Traffic) -> Option<(f64, f64)> {
        let rate = |key: &str| self.device.get(key).ok().map(|rate| rate.value);
        let (last, memory) = rate(name::L2).zip(rate(name::DRAM))?;
        Some((of.last.ns(self.device, last, LAST), of.memory.ns(self.device, memory, MEMORY)))
    }

    fn atomics(&self) -> Takes {
        let none = Takes::exactly(Figure::exact(0.0, Evidence::Modelled));
        let is_local = self.class == Class::AtomicLocal;
        if let Some(counted) = self.queued() {
            return counted;
        }
        self.reaches().into_iter().fold(none, |sum, (reach, share)| {
            let of = if is_local { self.local_atomics(reach) } else { self.global_atomics(reach) };
            sum.plus(Takes {
                least: of.least.times(share),
                likely: of.likely.times(share),
                most: of.most.times(share),
            })
        })
    }

    /// Whether so many bytes are the word of one access.
    fn is_one_word(&self, reach: Option<u64>) -> bool {
        let each = (self.tally.bytes as f64 / self.tally.threads.max(1) as f64).round();
        reach.is_some_and(|bytes| bytes as f64 <= each)
    }

    /// Of atomics on global memory whose turns in parts of the last cache were counted; `None` where
    /// some are on one word, whose lanes compilers join. A turn takes as long as one on one word.
    fn queued(&self) -> Option<Takes> {
        let turns = self.kernel.mix.as_ref()?.reuse.as_ref()?.hottest?;
        let is_one = self.reaches().iter().any(|(reach, _)| self.is_one_word(*reach));
        let pieces =
            self.tally.transactions.filter(|_| self.class == Class::AtomicGlobal && !is_one);
        let (pieces, word) = (Figure::counted(pieces?), self.worst?);
        let least = pieces.times(PIECE).over(self.best);
        let apart = self.device.get(name::ATOMIC_APART).map_or(least, |rate| pieces.over(rate));
        let likely = Figure::counted(turns).over(word).larger(apart).larger(least);
        let most = Figure::counted(self.tally.threads).over(word).larger(likely);
        Some(Takes { least, likely, most })
    }

    /// If all of them lay within so many bytes.
    fn global_atomics(&self, reach: Option<u64>) -> Takes {
        // In turns of one slice: full pieces where they were counted, else single words.
        let (turns, words) = match self.tally.transactions {
            Some(pieces) => (Figure::counted(pieces), PIECE),
            None => (Figure::counted(self.tally.threads), 1.0),
        };
        let least = turns.times(words).over(self.best);
        let Some(word) = self.worst else { return Takes::exactly(least) };
        let most = Figure::counted(self.tally.threads).over(word).larger(least);
        let is_one = self.is_one_word(reach);
        match reach {
            // Compilers for warps join their lanes.
            Some(_) if is_one && self.width() > 1 => {
                let joined = Figure::counted(self.tally.warps.unwrap_or(self.tally.threads));
                Takes::exactly(joined.over(word).larger(least))
            }
            Some(_) if is_one => Takes::exactly(most),
            Some(u64::MAX) => Takes { least, likely: least, most },
            Some(bytes) => {
                let each = self.on_words(bytes as f64 / 4.0, word);
                let likely = turns.times(each).larger(least);
                Takes { least, likely, most: most.larger(likely) }
            }
            None => Takes::between(least, most),
        }
    }

    /// Nanoseconds of what one warp wants of one piece, if it may lie on any of so many words: each
    /// piece is a queue, and as many are served side by side, up to what the last cache does with
    /// pieces that nobody shares. Single items where pieces were not counted.
    fn on_words(&self, words: f64, one: Figure) -> f64 {
        let counted = self.tally.transactions.is_some();
        // Pieces that a warp touches for each of its lanes, of so many words.
        let pieces = |words: f64| {
            let (all, lanes) = ((words / PIECE).max(1.0), self.width() as f64);
            if counted { all * (1.0 - (1.0 - all.recip()).powf(lanes)) / lanes } else { 1.0 }
        };
        let rate = |key: &str, words: f64| {
            self.device.get(key).ok().map(|rate| rate.value * pieces(words))
        };
        let few = rate(name::ATOMIC_FEW, FEW).unwrap_or(one.value);
        let spread = rate(name::ATOMIC_APART, 1e9).unwrap_or(self.best.value / PIECE);
        let queues = rate(name::ATOMIC_SOME, SOME).map(|some| some.recip() - spread.recip());
        let of_word = queues.filter(|ns| *ns > 0.0).map_or(0.0, |ns| 1.0 / (SOME * ns));
        spread.recip() + few.max(words * of_word).recip()
    }

    /// If all of a group lay within so many bytes.
    fn local_atomics(&self, reach: Option<u64>) -> Takes {
        let least = Figure::counted(self.lanes()).over(self.best);
        let Some(word) = self.worst else { return Takes::exactly(least) };
        let is_one = self.is_one_word(reach);
        // Passes are turns of a bank; a lane that is alone in its bank has one with all others.
        let passes = Figure::counted(self.tally.transactions.unwrap_or(self.tally.threads));
        let most = passes.over(word).larger(least);
        match (reach, self.tally.transactions) {
            _ if is_one && self.width() > 1 => Takes::exactly(least.times(JOINED)),
            // Where they join items, those for CPUs do as much.
            _ if is_one && self.device.joins_items() => Takes::between(least, most),
            _ if is_one => Takes::exactly(most),
            // Lanes that share a bank share a word, or not: of one word compilers join them.
            (None, Some(_)) | (_, None) => Takes::between(least, most),
            _ => Takes::exactly(most),
        }
    }

    /// What is counted of SPIR-V are no addresses: those have instructions of their own.
    fn addresses(&self) -> Takes {
        let all = self.lanes();
        let classes = self.kernel.mix.iter().flat_map(|mix| &mix.classes);
        let accesses = classes.filter(|(class, _)| class.memory().is_some());
        let accesses: u64 = accesses
            .map(|(_, t)| t.warps.map_or(t.threads, |w| w.saturating_mul(self.width())))
            .sum();
        let folded = if self.device.is_cpu() { 0 } else { accesses.min(all) };
        let (least, most) = (Figure::counted(all - folded), Figure::counted(all));
        let (least, most) = (least.over(self.best), most.over(self.best));
        Takes { least, likely: least, most }
    }

    fn constants(&self) -> Takes {
        let least = Figure::counted(self.lanes()).over(self.best);
        let Some(apart) = self.worst else { return Takes::exactly(least) };
        match self.tally.transactions {
            Some(words) => Takes::exactly(Figure::counted(words).over(apart).larger(least)),
            None => {
                let most = Figure::counted(self.lanes()).over(apart);
                match self.device.is_cpu() {
                    true => Takes { likely: least, ..Takes::between(least, most) },
                    false => Takes::between(least, most),
                }
            }
        }
    }

    /// A CPU ends a loop over the items of a group at each barrier, and stores what every item keeps
    /// for the next loop. The rate is measured with items that keep hardly anything. Where items are
    /// joined to vectors that is a value that is stored and loaded, at least.
    fn barriers(&self) -> Takes {
        let measured = Figure::counted(self.tally.threads).over(self.best);
        let most = measured.times(KEPT_VALUES);
        let near = self.device.get(name::L1).ok().filter(|_| self.device.joins_items());
        let least = near.map(|near| Figure::counted(self.tally.threads).times(8.0).over(near));
        match least.filter(|least| least.value < measured.value) {
            Some(least) => Takes { most, ..Takes::between(least, measured) },
            None => Takes { least: measured, likely: measured, most },
        }
    }

    /// Where words that a warp wants were counted: words of one index lie side by side, in a line of
    /// the nearest cache. A load takes as long as another one of so many lines; what is stored goes
    /// through to the last cache, a piece for each item where they index differently. Arrays that the
    /// nearest cache has no room for are loaded from behind it, and those that the last one has none
    /// for from memory.
    fn private_of_warps(&self) -> Option<Takes> {
        let (device, tally) = (self.device, self.tally);
        let rate = |key: &str| device.get(key).ok().map(|rate| rate.value);
        let traffic = self.kernel.traffic_of_private(self.class, tally, device)?;
        let lines = rate(name::GATHER_NEAR).zip(tally.transactions);
        let lines = lines.map_or(0.0, |(rate, words)| words as f64 / rate);
        let asked = tally.bytes as f64 / rate(name::L1)?;
        let stores = self.class.stores();
        let near = if stores { 0.0 } else { asked.max(lines) };
        let (behind, beyond) = self.behind(traffic)?;
        let time = Figure::exact(near.max(behind).max(beyond), Evidence::Modelled);
        let passed = if stores { traffic.memory.bytes } else { traffic.last.bytes };
        // Lines that are written take part of what is read.
        Some(match self.kernel.private_set(device) {
            Some(_) if passed <= 0.0 => Takes::exactly(time),
            _ => Takes::between(time, time.times(PUSHED)),
        })
    }

    /// The rate is measured with items that index arrays of 128 bytes differently.
    fn private(&self) -> Takes {
        let least = Figure::counted(self.tally.bytes).over(self.best);
        let most = least.times(PIECE);
        // Arrays of many items lie in a farther cache, or in memory; those of a CPU's in the nearest.
        let kept = self.device.last_cache().map(|all| KEPT * all);
        let set = self.kernel.private_set(self.device);
        match set.zip(kept).is_some_and(|(set, kept)| set <= kept) {
            true => Takes::exactly(least),
            false if self.device.is_cpu() => Takes { least, likely: least, most },
            false => Takes::between(least, most),
        }
    }
}
