//! What a launch moves through the last cache and through memory, and how much of it in pieces that lie
//! apart: by counters where there are any, by how soon pieces were touched again where that was
//! counted, else by what caches are likely to serve. Refuses where no bytes are known.

use crate::device::{Device, name};
use crate::figure::Figure;
use crate::kernel::{KEPT, Kernel, STREAMED, held_in};
use clscope_mix::{Class, Instruction, LINE, SECTOR, Space, Tally};
use std::ops::{Add, Mul};

/// Accesses of an item to global memory up to which it is taken to find nothing of a piece again.
const FEW: u64 = 4;

/// Bytes that a miss of the nearest cache fetches for each that is asked for, where pieces were not
/// counted: between one, of neighbours, and eight, of scattered words.
const PIECES: f64 = 2.0;

/// Share of a set that misses where it is gone through again and again, and is so many times as large
/// as a cache that replaces lines at random: of a line to survive as many replacements as there are
/// misses in a turn, `1 - m = exp(-m x)`. 0 up to 1.
fn passed_over(times: f64) -> f64 {
    if times.is_nan() || times <= 1.0 {
        return 0.0;
    }
    (0..64).fold(1.0, |missed, _| -f64::exp_m1(-missed * times))
}

/// Share of so many bytes that the last cache does not keep until they are wanted again. That of a CPU
/// drops what was used least recently, and so all of a set that it has no room for: it has for half of
/// its size for certain, and for three quarters at most. That of a GPU has room for half, since its
/// parts keep copies of each other's lines: an H200 reads 32 MB again as fast as 4 MB, and 64 and 128 MB as
/// if memory gave 0.77 and 0.94 of them.
pub fn missed(set: f64, device: &Device) -> f64 {
    let kept = KEPT * device.last_cache().unwrap_or(0.0);
    match device.is_cpu() {
        true => ((set - kept) / (0.5 * kept).max(1.0)).clamp(0.0, 1.0),
        false => passed_over(set / kept),
    }
}

/// Part of what the last cache holds that is surely there until all that is touched soon has been. Judged.
const SOON: f64 = 0.25;

/// Part of the nearest cache that holds what was touched last whatever else it holds: lines have few
/// places to lie in, and stores and other groups take some. Judged.
const CERTAIN: f64 = 0.25;

/// Whether accesses of a class take the nearest cache: those to global memory, and of a CPU those to
/// constant memory, which is memory that is read.
pub(crate) fn is_cached(class: Class, device: &Device) -> bool {
    match class.memory() {
        Some(Space::Global | Space::Generic) => true,
        Some(Space::Constant) => device.is_cpu(),
        _ => false,
    }
}

/// Bytes that are moved, and those of them in pieces that each stand alone: neighbours do not want
/// what lies beside them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Moved {
    /// All.
    pub bytes: f64,
    /// Of them those that are loaded in single pieces.
    pub gathered: f64,
    /// Of them those that are stored in single pieces.
    pub scattered: f64,
    /// Of them those that are stored side by side.
    pub stored: f64,
}

impl Moved {
    /// So many bytes side by side.
    pub fn dense(bytes: f64) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// As many bytes as `bytes`, of which the same shares stand alone.
    fn of_bytes(self, bytes: f64) -> Self {
        if self.bytes > 0.0 { self * (bytes / self.bytes) } else { Self::dense(bytes) }
    }

    /// Bytes that are loaded side by side.
    fn streamed(self) -> f64 {
        (self.bytes - self.gathered - self.scattered - self.stored).max(0.0)
    }

    /// Time of it, ns: what is loaded side by side at `rate` (GB/s), the rest at the rates of the
    /// device that are known.
    pub fn ns(self, device: &Device, rate: f64, of: Rates) -> f64 {
        let at =
            |key: &str, bytes: f64| device.get(key).map_or(rate, |of| rate.min(of.value * bytes));
        let single = SECTOR as f64;
        self.streamed() / rate
            + self.gathered / at(of.gather, single)
            + self.scattered / at(of.scatter, single)
            + self.stored / at(of.store, 1.0)
    }
}

/// Names of what a cache or memory does with anything but loads side by side: single pieces that are
/// loaded and stored (pieces a ns), and stores side by side (GB/s).
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    gather: &'static str,
    scatter: &'static str,
    store: &'static str,
}

/// Of the last cache.
pub const LAST: Rates =
    Rates { gather: name::GATHER_LAST, scatter: name::SCATTER_LAST, store: name::STORE_LAST };

/// Of memory.
pub const MEMORY: Rates =
    Rates { gather: name::GATHER_MEMORY, scatter: name::SCATTER_MEMORY, store: name::DRAM };

impl Add for Moved {
    type Output = Self;
    fn add(self, more: Self) -> Self {
        Self {
            bytes: self.bytes + more.bytes,
            gathered: self.gathered + more.gathered,
            scattered: self.scattered + more.scattered,
            stored: self.stored + more.stored,
        }
    }
}

impl Mul<f64> for Moved {
    type Output = Self;
    fn mul(self, by: f64) -> Self {
        Self {
            bytes: self.bytes * by,
            gathered: self.gathered * by,
            scattered: self.scattered * by,
            stored: self.stored * by,
        }
    }
}

/// What a launch moves.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traffic {
    /// Through the last cache.
    pub last: Moved,
    /// Through memory.
    pub memory: Moved,
}

impl Add for Traffic {
    type Output = Self;
    fn add(self, more: Self) -> Self {
        Self { last: self.last + more.last, memory: self.memory + more.memory }
    }
}

/// Operations with the lanes that rest, where warps were counted: work of a unit follows warps.
pub(crate) fn lanes_of(tally: &Tally, device: &Device) -> u64 {
    let width = u64::from(device.lanes.unwrap_or(1).max(1));
    tally.warps.map_or(tally.threads, |warps| warps.saturating_mul(width))
}

impl Kernel {
    /// What private memory and images move, which accesses to global memory do not say.
    pub fn traffic_beside(&self, device: &Device) -> Traffic {
        let classes = self.mix.iter().flat_map(|mix| &mix.classes).filter(|(_, t)| t.threads > 0);
        let each = classes.filter_map(|(class, tally)| match class.memory()? {
            Space::Image => Some(self.traffic_of_images(*class, tally, device)),
            Space::Private => self.traffic_of_private(*class, tally, device),
            _ => None,
        });
        each.fold(Traffic::default(), Traffic::add)
    }

    /// The mean of a property of the instructions of a class, by how often they ran; `None` where
    /// none ran that is known.
    pub(crate) fn mean_of(&self, class: Class, of: fn(&Instruction) -> f64) -> Option<f64> {
        let each = self.blocks.iter().flat_map(|(block, times)| {
            let own = block.instructions.iter().filter(|i| i.class == class);
            own.map(move |i| (of(i) * times, *times))
        });
        let (sum, all) = each.fold((0.0, 0.0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        (all > 0.0).then(|| sum / all)
    }

    /// What a class of image accesses moves. Where coordinates were loaded, each item wants a piece of
    /// its own, which comes from where the images fit.
    pub(crate) fn traffic_of_images(
        &self,
        class: Class,
        tally: &Tally,
        device: &Device,
    ) -> Traffic {
        if class.stores() {
            return Traffic::default();
        }
        let apart = self.mean_of(class, |i| f64::from(u8::from(i.gathers.is_some())));
        let pieces = lanes_of(tally, device) as f64 * apart.unwrap_or(0.0) * SECTOR as f64;
        let cache = self.nearest_cache(device).unwrap_or(0.0);
        let moved = Moved { gathered: pieces, ..Moved::dense(pieces) };
        let last = moved * (1.0 - (cache / self.images.max(1.0)).min(1.0));
        Traffic { last, memory: last * missed(self.images, device) }
    }

    /// What a class of accesses to private memory moves; `None` where words were not counted.
    pub(crate) fn traffic_of_private(
        &self,
        class: Class,
        tally: &Tally,
        device: &Device,
    ) -> Option<Traffic> {
        let (words, warps) = (tally.transactions? as f64, tally.warps? as f64);
        let (threads, asked) = (tally.threads as f64, tally.bytes as f64);
        let alone = ((words - warps) / (threads - warps).max(1.0)).clamp(0.0, 1.0) * threads;
        let dense = asked * (1.0 - alone / threads);
        let single = alone * SECTOR as f64;
        let moved = match class.stores() {
            true => {
                Moved { bytes: dense + single, scattered: single, stored: dense, gathered: 0.0 }
            }
            false => Moved { gathered: single, ..Moved::dense(dense + single) },
        };
        let set = self.private_set(device);
        let units = f64::from(device.compute_units.max(1));
        let own = self.nearest_cache(device).map_or(0.0, |each| each * units);
        let past_near = match set {
            _ if class.stores() => 1.0,
            set => set.map_or(0.0, |set| 1.0 - held_in(own, set)),
        };
        let last = moved * past_near;
        Some(Traffic { last, memory: last * set.map_or(0.0, |set| missed(set, device)) })
    }

    /// Pieces of global memory that warps touch, of loads and of what changes memory, by how they
    /// lie; `None` where they were not counted. A warp's lanes that each touch a piece of their own
    /// share none of it: that share of them stands alone, where lines were counted as far as pieces
    /// do that are the only one of theirs.
    fn touched(&self) -> Option<(Moved, Moved)> {
        let mix = self.mix.as_ref()?;
        let global = mix.classes.iter().filter(|(c, _)| c.memory() == Some(Space::Global));
        let (mut loads, mut stores) = (Moved::default(), Moved::default());
        for (class, tally) in global.filter(|(_, t)| t.threads > 0) {
            let (pieces, lanes) = (tally.transactions? as f64, tally.threads as f64);
            let bytes = pieces * SECTOR as f64;
            // Side by side each lane takes its part of a piece, and alone a whole one.
            let dense = tally.bytes as f64 / lanes / SECTOR as f64;
            let apart = ((pieces / lanes - dense) / (1.0 - dense).max(1e-9)).clamp(0.0, 1.0);
            let apart = if dense < 1.0 { apart } else { 0.0 };
            // Of lines that are touched all, or one piece of each: `a + f` lines, `a + 4 f` pieces.
            let alone = |lines: u64| {
                let full = (LINE / SECTOR) as f64;
                ((full * lines as f64 - pieces) / (full - 1.0)).max(0.0) * SECTOR as f64
            };
            let lines = mix.reuse.as_ref().and_then(|reuse| reuse.lines);
            let of = match class {
                Class::LoadGlobal => {
                    let gathered = lines.map_or(f64::INFINITY, |lines| alone(lines.loaded));
                    let gathered = gathered.min(apart * bytes);
                    (&mut loads, Moved { gathered, ..Moved::dense(bytes) })
                }
                // What atomics take beyond has a ceiling of its own.
                Class::AtomicGlobal => (&mut stores, Moved::dense(bytes)),
                // A piece that is stored in part takes its time whoever stores the rest of it.
                _ => {
                    let scattered = lines.map_or(f64::INFINITY, |lines| alone(lines.stored));
                    let scattered = scattered.min(apart * lanes * SECTOR as f64).min(bytes);
                    let stored = bytes - scattered;
                    (&mut stores, Moved { bytes, gathered: 0.0, scattered, stored })
                }
            };
            *of.0 = *of.0 + of.1;
        }
        Some((loads, stores))
    }

    /// Accesses of a CPU's items whose addresses follow from what was loaded: the bytes of the set over
    /// which each of them scatters, how many there are, and how long all take, ns, at the rate of scattered
    /// words of such a set.
    pub fn gathered(&self, device: &Device) -> Vec<(f64, f64, f64)> {
        let each = self.blocks.iter().filter(|_| device.is_cpu()).flat_map(|(block, entered)| {
            // Atomics have a ceiling of their own.
            let own = block
                .instructions
                .iter()
                .filter(|i| i.gathers.is_some() && i.class != Class::AtomicGlobal);
            own.filter(|i| is_cached(i.class, device)).map(move |i| (i, *entered))
        });
        let known = each.filter_map(|(access, n)| {
            let set = self.set_of(access)?;
            let each = self.over_places(access, |set| Some(device.gathers_of(set)?.recip()))?;
            Some((set, n, n * each))
        });
        known.filter(|of| of.1 > 0.0).collect()
    }

    /// How long such accesses take in all, ns, that the nearest cache serves, farther ones, and memory.
    pub fn gathering(&self, device: &Device) -> [f64; 3] {
        let mut out = [0.0; 3];
        for (set, _, ns) in self.gathered(device) {
            let near = set <= device.own_cache();
            // Of a device whose last cache is not known all caches are one.
            let memory = if device.last_cache().is_some() { missed(set, device) } else { 0.0 };
            out[usize::from(!near)] += ns * (1.0 - memory);
            out[2] += ns * memory;
        }
        out
    }

    /// Bytes that are stored beyond local memory.
    fn stored(&self) -> f64 {
        let beyond = |c: &Class| c.stores() && c.memory() != Some(Space::Local);
        let classes = self.mix.iter().flat_map(|mix| &mix.classes);
        classes.filter(|(c, _)| beyond(c)).map(|(_, t)| t.bytes as f64).sum()
    }

    /// Items ask for little, and find nothing of it in the nearest cache: all goes through the last
    /// one.
    pub fn passes_on(&self, device: &Device) -> bool {
        let traffic = self.traffic(device).filter(|of| of.last.bytes > 0.0);
        let asked = self.cached().ok().zip(self.items);
        traffic.zip(asked).is_some_and(|(of, (asked, items))| {
            asked.value <= STREAMED * items as f64 && of.last.bytes >= asked.value
        })
    }

    /// Share of the pieces of a warp's loads that stand alone; 0 where that is not known.
    pub fn gathers(&self) -> f64 {
        let loads = self.touched().map(|of| of.0).unwrap_or_default();
        if loads.bytes > 0.0 { loads.gathered / loads.bytes } else { 0.0 }
    }

    /// Bytes that the banks of the nearest cache give for loads in all passes, at their full width; 0
    /// where passes were not counted.
    pub fn banked(&self) -> f64 {
        let reuse = self.mix.as_ref().and_then(|mix| mix.reuse.as_ref());
        reuse.map_or(0.0, |reuse| reuse.passes as f64 * clscope_mix::PASS as f64)
    }

    /// Lines of the nearest cache that loads take: those that were counted, or the pieces that lie
    /// alone.
    pub fn lines(&self) -> f64 {
        let reuse = self.mix.as_ref().and_then(|mix| mix.reuse.as_ref());
        let counted = reuse.and_then(|reuse| reuse.lines).map(|lines| lines.loaded as f64);
        let alone = || self.touched().map_or(0.0, |of| of.0.gathered / SECTOR as f64);
        counted.unwrap_or_else(alone)
    }

    /// What goes beyond the nearest cache, and beyond the last one. Where it was counted how soon
    /// pieces are touched again, caches of the device's size miss what that says; the last cache keeps
    /// from launch to launch what it has room for. Else an item that asks for little streams: all of
    /// it goes through the last cache, once over each buffer through memory. One that asks for much
    /// reads again what others read: the nearest cache is taken to serve all but the first time.
    /// Counters bound what memory moved. `None` where no bytes are known.
    pub fn traffic(&self, device: &Device) -> Option<Traffic> {
        let requested = self.requested().ok()?.value;
        let seen = self.reused(device).unwrap_or_else(|| self.assumed(device, requested));
        let least = self.at_least.unwrap_or_default();
        // What is loaded and stored in place moves in both directions, and takes a cache twice: an H200
        // adds to 64 MB as slowly as memory lets it.
        let both = seen.first + self.in_place.min(self.stored());
        // Of what the launch touches, what the last cache does not keep from the one before.
        let missed = missed(both, device);
        let memory = (both * missed + seen.again).max(least.memory.bytes);
        // Counters say between which two it lies. They see twice a piece that stands alone: memory
        // gives 64 bytes at once (an H200 counts 4.3 GB where 67 million are gathered).
        let alone = (seen.all.gathered + seen.all.scattered) / seen.all.bytes.max(1.0);
        let low = |b: Figure| b.low / (1.0 + alone);
        let memory = self.dram_bytes.map_or(memory, |b| memory.min(b.high).max(low(b)));
        let last = seen.last.bytes.max(memory.min(requested)).max(least.last.bytes);
        let last = seen.last.of_bytes(last);
        // What lies side by side is mostly touched once; pieces that lie alone find what others
        // fetched, until all of it was. The rest of both comes again.
        let beside = seen.all.streamed() + seen.all.stored;
        let beside = Moved { bytes: beside, gathered: 0.0, scattered: 0.0, ..seen.all };
        let single = seen.all.gathered + seen.all.scattered;
        let single = Moved { bytes: single, stored: 0.0, ..seen.all };
        let once = (seen.first * missed).min(beside.bytes);
        let alone = (both * missed - once).min(single.bytes);
        let rest = beside.of_bytes(beside.bytes - once) + single.of_bytes(single.bytes - alone);
        // Pieces of which others soon touch the rest are whole ones behind the last cache.
        let whole = alone * self.filled(device, single.bytes, beside.bytes).unwrap_or(0.0);
        let first = beside.of_bytes(once) + Moved::dense(whole) + single.of_bytes(alone - whole);
        let moved = first + rest.of_bytes(seen.again);
        Some(Traffic { last, memory: moved.of_bytes(memory) })
    }

    /// Share of the pieces that warps load which the nearest cache misses, and of all that they touch
    /// which the last one misses, by how soon they were touched again; `None` where that was not
    /// counted, or caches are not known.
    pub fn misses(&self, device: &Device) -> Option<(Option<f64>, f64)> {
        let reuse = self.mix.as_ref()?.reuse.as_ref()?;
        // Of a kernel that loads nothing there is no share.
        let loads = self.touched()?.0.bytes > 0.0;
        let past_near = if loads { Some(self.past_nearest(device, 1.0)?) } else { None };
        Some((past_near, reuse.far.missed(device.kept_at_random()? / SECTOR as f64)?))
    }

    /// Share of the pieces that warps load which so small a part of the nearest cache misses, by how
    /// soon they were touched again.
    fn past_nearest(&self, device: &Device, part: f64) -> Option<f64> {
        let reuse = self.mix.as_ref()?.reuse.as_ref()?;
        let near = self.nearest_cache(device)?;
        reuse.near.missed(part * near / SECTOR as f64)
    }

    /// Bytes that go beyond the nearest cache at most, where it was counted how soon pieces are
    /// touched again.
    pub fn beyond_nearest_at_most(&self, device: &Device) -> Option<f64> {
        let (loads, stores) = self.touched()?;
        Some(loads.bytes * self.past_nearest(device, CERTAIN)? + stores.bytes)
    }

    /// Share of so many bytes of pieces that lie alone, beside others, that are whole when the last cache
    /// drops them: 0 where only what one access wants of each is wanted soon. `None` where that was not
    /// counted.
    fn filled(&self, device: &Device, alone: f64, beside: f64) -> Option<f64> {
        let mix = self.mix.as_ref()?;
        let far = &mix.reuse.as_ref()?.far;
        let soon = SOON * device.kept_at_random()? / SECTOR as f64;
        let soon = far.again.iter().take(soon.log2().max(0.0) as usize).sum::<u64>();
        let touches = (far.first + soon) as f64 / far.first.max(1) as f64;
        let piece = SECTOR as f64;
        let each = (mix.bytes(Space::Global) as f64 - beside) / (alone / piece).max(1.0);
        let each = each.clamp(1.0, piece - 1.0);
        Some(((touches - 1.0) * each / (piece - each)).clamp(0.0, 1.0))
    }

    /// By how soon pieces were touched again; `None` where that was not counted.
    fn reused(&self, device: &Device) -> Option<Seen> {
        let (past_near, past_last) = self.misses(device)?;
        let far = &self.mix.as_ref()?.reuse.as_ref()?.far;
        let first = far.first as f64 / far.total() as f64;
        let (loads, stores) = self.touched()?;
        let all = loads + stores;
        Some(Seen {
            last: loads * past_near.unwrap_or(0.0) + stores,
            first: all.bytes * first,
            again: all.bytes * (past_last - first).max(0.0),
            all,
        })
    }

    /// By what caches are likely to serve.
    fn assumed(&self, device: &Device, requested: f64) -> Seen {
        let (loads, stores) = self.touched().unwrap_or_default();
        let streams = self.items.is_none_or(|n| requested <= STREAMED * n as f64);
        let touched = match (self.footprint, streams) {
            (Some(bytes), _) => bytes.min(requested),
            (None, true) => requested,
            // Two matrices in, one out.
            (None, false) => (3.0 * self.stored()).min(requested),
        };
        // What streams passes the nearest cache in pieces: those that a warp touches, where an item
        // is soon done. One with many accesses finds the rest of a piece again in its next ones.
        let global = |c: &Class| c.memory() == Some(Space::Global);
        let accesses: u64 = self.mix.as_ref().map_or(0, |mix| {
            mix.classes.iter().filter(|(c, _)| global(c)).map(|(_, t)| t.threads).sum()
        });
        let few = self.items.is_some_and(|n| accesses <= FEW.saturating_mul(n));
        let beyond = self.beyond();
        let moved = (requested + beyond.filter(|b| few || *b < 0.0).unwrap_or(0.0)).max(0.0);
        let last = if streams { moved } else { touched };
        // What the nearest cache does not hold until it is wanted again is fetched again, in
        // pieces.
        let pieces = self.pieces().map_or(PIECES * requested, |pieces| pieces.value);
        let held = if few { 1.0 } else { self.held(device, touched) };
        let again = touched + (1.0 - held) * (pieces - touched).max(0.0);
        let all = loads + stores;
        Seen { last: all.of_bytes(last.max(again)), first: touched, again: 0.0, all }
    }
}

/// What goes beyond the nearest cache, and what of it may go beyond the last one.
struct Seen {
    last: Moved,
    /// Bytes that are touched for the first time in the launch.
    first: f64,
    /// Bytes that the last cache has dropped when they are touched again.
    again: f64,
    /// All that warps touch.
    all: Moved,
}

#[cfg(test)]
mod tests;
