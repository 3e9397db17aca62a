//! What would ask less of the resource that is the limit: a table of advice, each with the types,
//! devices and launches that it holds for. Refuses advice about what the kernel does not have.

use super::words::Sentence;
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;
use crate::predict::MOST_ITEMS;
use crate::roofline::{Resource, ceiling_of};
use clscope_mix::{Class, Mix, Precision, Space};

/// A kernel on a device, as advice sees it.
struct Of<'k> {
    kernel: &'k Kernel,
    device: &'k Device,
    limit: Resource,
}

impl Of<'_> {
    fn is_gpu(&self) -> bool {
        self.device.kind == "gpu"
    }

    fn mix(&self) -> Option<&Mix> {
        self.kernel.mix.as_ref()
    }

    /// Instructions of work-items of some classes.
    fn threads(&self, of: &[Class]) -> u64 {
        let classes = self.mix().map(|mix| &mix.classes);
        classes.map_or(0, |all| of.iter().filter_map(|c| all.get(c)).map(|t| t.threads).sum())
    }

    /// What was counted is PTX, whose special functions are the device's own.
    fn is_ptx(&self) -> bool {
        self.mix().is_some_and(|mix| mix.total().warps.is_some())
    }

    /// Another size of groups can be asked for.
    fn may_resize(&self) -> bool {
        self.kernel.resources.required.is_none() && self.kernel.local.is_some()
    }

    /// Smaller groups fill their warps, too.
    fn may_shrink(&self) -> bool {
        let lanes = u64::from(self.device.lanes.unwrap_or(1).max(1));
        self.may_resize() && self.kernel.local.is_some_and(|local| local > lanes)
    }

    /// Items of a group of twice the size, where the launch, the kernel and the device take it.
    fn doubled(&self) -> Option<u64> {
        let twice = 2 * self.kernel.local.filter(|_| self.may_resize())?;
        let most = if self.is_gpu() { MOST_ITEMS_GPU } else { MOST_ITEMS };
        let most = self.kernel.resources.most_items.unwrap_or(most);
        (twice <= most && self.kernel.items.is_none_or(|items| twice <= items)).then_some(twice)
    }

    /// What the same operations take in another type, as a share, where they take less.
    fn instead(&self, of: &str, other: &str) -> Option<Figure> {
        let (own, other) = (self.device.get(of).ok()?, self.device.get(other).ok()?);
        Some(own.over(other)).filter(|share| share.value < 1.0)
    }

    /// What single precision takes of the time of double precision.
    fn single(&self) -> Option<Figure> {
        let rate = |precision| name::rate(precision, "fma");
        match self.device.is_cpu() && !self.device.joins_items() {
            true => self.instead(name::ITEMS_DOUBLE, name::ITEMS_SINGLE),
            false => self.instead(&rate(Precision::Double), &rate(Precision::Single)),
        }
    }

    /// Items ask for words more than once, or it is not known whether they do.
    fn asks_again(&self) -> bool {
        let asked = self.kernel.requested().ok();
        asked.zip(self.kernel.footprint).is_none_or(|(asked, all)| asked.value > all)
    }

    /// Bytes of the mean access to global memory.
    fn width(&self) -> Option<f64> {
        let classes = self.mix()?.classes.iter();
        let global = classes.filter(|(c, _)| c.memory() == Some(Space::Global));
        let (bytes, n) = global.fold((0, 0), |(b, n), (_, t)| (b + t.bytes, n + t.threads));
        (n > 0).then(|| bytes as f64 / n as f64)
    }
}

/// Items of a group that GPUs take at most: CL_DEVICE_MAX_WORK_GROUP_SIZE of NVIDIA's and Intel's;
/// AMD's take fewer unless a kernel asks for more.
const MOST_ITEMS_GPU: u64 = 1024;

/// All that convert.
const CONVERSIONS: [Class; 3] = [Class::Convert, Class::ConvertSaturated, Class::ConvertHalf];

/// A piece of advice: for which limits, under which condition, in words.
type Advice = (&'static [Resource], fn(&Of<'_>) -> bool, fn(&Of<'_>) -> Option<Sentence>);

macro_rules! plain {
    ($text:literal) => {
        |_| Some(Sentence::from($text))
    };
}

/// Of several for one limit, the first that holds is given.
const TABLE: &[Advice] = &[
    (&[Resource::LocalMemory], |of| of.threads(&[Class::LoadLocal]) > 0, feeds),
    (
        &[Resource::Cache, Resource::LastCache],
        |of| of.is_gpu() && of.width().is_some() && of.asks_again(),
        plain!(
            "tiles in local memory or registers would ask less of the caches: half the requests halve this bound"
        ),
    ),
    (
        &[Resource::Cache, Resource::LastCache],
        |of| of.width().is_some() && of.asks_again(),
        plain!(
            "blocks of the data that fit the cache, or neighbours in one vector, would ask less of the caches"
        ),
    ),
    (
        &[Resource::Memory, Resource::MemoryIfMissed, Resource::Cache, Resource::LastCache],
        |of| of.width().is_none_or(|bytes| bytes > 1.0),
        plain!("half the bytes (narrower types, kernels joined) would halve this bound"),
    ),
    (
        &[Resource::Memory, Resource::MemoryIfMissed, Resource::Cache, Resource::LastCache],
        |_| true,
        plain!("half the bytes (kernels joined) would halve this bound"),
    ),
    (&[Resource::Groups], |of| of.doubled().is_some(), larger_groups),
    (
        &[Resource::Groups],
        |of| of.kernel.items.is_some_and(|n| n > 1),
        plain!("more work in each work-item would need fewer groups"),
    ),
    (
        &[Resource::UnevenGroups],
        |of| of.may_shrink(),
        plain!(
            "groups that do alike, or more and smaller ones, the longest first, would give all compute units work"
        ),
    ),
    (
        &[Resource::UnevenGroups],
        |_| true,
        plain!("groups that do alike, the longest first, would give all compute units work"),
    ),
    (&[Resource::Fp64], |of| of.single().is_some(), |of| Some(in_single(of.single()?))),
    (&[Resource::Issue, Resource::Integer], |of| of.mix().is_some(), fewer),
    (
        &[Resource::IntegerMultiply],
        |of| {
            of.threads(&[Class::LongMul]) > of.threads(&[Class::IntMul])
                && of.instead(name::LONG_MUL, name::INT_MUL).is_some()
        },
        |of| {
            let share = of.instead(name::LONG_MUL, name::INT_MUL)?;
            Some(takes_share(Sentence::from("products of int instead of long"), share))
        },
    ),
    (
        &[Resource::IntegerMultiply],
        |of| of.threads(&[Class::IntMul, Class::LongMul]) > 0,
        plain!(
            "additions instead of multiplications in loops (x += step), or shifts, would halve this bound"
        ),
    ),
    (
        &[Resource::IntegerDivision],
        |of| of.threads(&[Class::IntDiv, Class::LongDiv]) > 0,
        plain!(
            "a divisor that is known when the kernel is built (-D DIVISOR=...) is no division but a multiplication"
        ),
    ),
    // Of native_divide OpenCL C has float only, and runtimes for CPUs divide in it.
    (
        &[Resource::Division],
        |of| {
            let others = of.threads(&[Class::DoubleDiv, Class::HalfDiv]);
            of.is_gpu() && of.threads(&[Class::SingleDiv]) > others
        },
        plain!(
            "native_divide, or one reciprocal for several quotients, would take a fraction of this where its precision is enough"
        ),
    ),
    (
        &[Resource::Division],
        |_| true,
        plain!(
            "one reciprocal for several quotients would take a fraction of this where its precision is enough"
        ),
    ),
    (
        &[Resource::Special],
        |of| {
            let doubles = of.threads(&[Class::DoubleSpecial]);
            doubles > of.threads(&[Class::SingleSpecial, Class::HalfSpecial])
                && of.instead(name::SPECIAL_DOUBLE, name::SPECIAL).is_some()
        },
        |of| Some(in_single(of.instead(name::SPECIAL_DOUBLE, name::SPECIAL)?)),
    ),
    (
        &[Resource::Special],
        |of| {
            let others = of.threads(&[Class::DoubleSpecial, Class::HalfSpecial]);
            of.is_gpu() && !of.is_ptx() && of.threads(&[Class::SingleSpecial]) > others
        },
        plain!(
            "native_ functions or a table in place of half of the special functions would halve this bound"
        ),
    ),
    (
        &[Resource::Special],
        |_| true,
        plain!("a table in place of half of the special functions would halve this bound"),
    ),
    (
        &[Resource::Conversion],
        |of| of.threads(&CONVERSIONS) > 0,
        plain!("values kept in one type would need fewer conversions"),
    ),
    (
        &[Resource::Atomics],
        |of| of.is_gpu() && of.threads(&[Class::AtomicGlobal]) > 0,
        plain!(
            "sums in local memory or registers, and one atomic on global memory for each group, would need fewer atomics"
        ),
    ),
    (
        &[Resource::Atomics],
        |of| of.is_gpu() && of.threads(&[Class::AtomicLocal]) > 0,
        plain!(
            "sums in registers, or several copies of the words in local memory, would need fewer atomics on one word"
        ),
    ),
    // A group of a CPU is one thread.
    (
        &[Resource::Atomics],
        |of| of.threads(&[Class::AtomicGlobal, Class::AtomicLocal]) > 0,
        plain!("sums of each group, and one atomic for each of them, would need fewer atomics"),
    ),
    (
        &[Resource::Barriers],
        |of| of.is_gpu() && of.threads(&[Class::Barrier]) > 0 && of.may_shrink(),
        plain!("more work between two barriers, or smaller groups, would wait for fewer of them"),
    ),
    (
        &[Resource::Barriers],
        |of| of.threads(&[Class::Barrier]) > 0,
        plain!("more work between two barriers would need fewer of them"),
    ),
    (
        &[Resource::PrivateMemory],
        |of| of.kernel.spilled.is_some(),
        plain!(
            "smaller groups, or fewer values that are wanted later, leave each item more registers"
        ),
    ),
    (
        &[Resource::PrivateMemory],
        |of| of.threads(&[Class::LoadPrivate, Class::StorePrivate]) > 0,
        plain!(
            "arrays whose indices are known when the kernel is built (unrolled loops) stay in registers"
        ),
    ),
    (
        &[Resource::ConstantMemory],
        |of| of.is_gpu() && of.threads(&[Class::LoadConstant]) > 0,
        plain!(
            "tables of which items of a warp read neighbouring words take fewer lines of the nearest cache"
        ),
    ),
    (
        &[Resource::Latency],
        |of| of.is_gpu(),
        plain!("more independent work in each item, or more groups at once, would hide the waits"),
    ),
    // A thread of a CPU runs one group after another.
    (
        &[Resource::Latency],
        |_| true,
        plain!("more independent work in each item would hide the waits"),
    ),
];

/// What would ask less of a resource, of a kernel that asks something of it.
pub(super) fn advice(
    kernel: &Kernel,
    device: Option<&Device>,
    limit: Resource,
) -> Option<Sentence> {
    let of = Of { kernel, device: device?, limit };
    let mut all = TABLE.iter().filter(|(limits, ..)| limits.contains(&limit));
    all.find(|(_, holds, _)| holds(&of)).and_then(|(.., words)| words(&of))
}

fn feeds(of: &Of<'_>) -> Option<Sentence> {
    let mix = of.mix()?;
    let loads = of.threads(&[Class::LoadLocal]) as f64;
    let flop: f64 = Precision::ALL.iter().map(|p| mix.flop(*p) as f64).sum();
    let mut out = Sentence::default();
    if flop > 0.0 {
        let each = Figure::exact(flop / loads, Evidence::Counted);
        out = Sentence::from("each load from local memory feeds ")
            .tenths("FLOP of a load", "FLOP", each)
            .put(" FLOP: ");
    }
    Some(out.put("more results for each work-item would need fewer loads"))
}

fn larger_groups(of: &Of<'_>) -> Option<Sentence> {
    let out = Sentence::from("groups of ").whole("items of a group", of.doubled()?);
    let out = out.put(" items instead of ").whole("items of a group now", of.kernel.local?);
    Some(out.put(" would halve their number, and what starting them takes"))
}

fn takes_share(what: Sentence, share: Figure) -> Sentence {
    what.put(", where they are enough, take ").share("of the time now", share).put(" of this")
}

fn in_single(share: Figure) -> Sentence {
    takes_share(Sentence::from("numbers in single precision"), share.modelled())
}

fn fewer(of: &Of<'_>) -> Option<Sentence> {
    let theirs = |class: Class| {
        let ceiling = ceiling_of(class).map(|c| c.resource);
        of.limit == Resource::Issue || ceiling == Some(of.limit)
    };
    let shares = of.kernel.shares();
    let (most, _) = shares.iter().find(|(class, _)| theirs(*class))?;
    Some(
        Sentence::from("fewer instructions: ")
            .put(most.name())
            .put(" is the largest part of what is issued"),
    )
}
