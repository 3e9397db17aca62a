//! How soon pieces of global memory are touched again, sampled beside transactions: of some pieces,
//! chosen by a hash of their address, every touch is seen. A clock counts those touches; a table has
//! the time of each piece's last one. What lies between two is counted by its power of two.
//!
//! * **Near**: a clock and a table for each compute unit, of loads.
//! * **Far**: one of each for the device, of all accesses.
//!
//! A piece that another one drove out of its place in the table is touched for the first time again:
//! tables have eight times the places that the caches they stand for would need.
//!
//! Turns of atomics are counted by the part of the last cache that takes them, for which a hash of the
//! address stands: where most queue is known then.
//!
//! Source: C. Waldspurger et al., *Efficient MRC Construction with SHARDS*, USENIX FAST 2015 (all
//! touches of pieces that are chosen by a hash are the touches of a cache as many times smaller).

use crate::program::SECTOR;
use crate::reuse::{Histogram, Lines, POWERS, Reuse};
use std::fmt::Write;

/// One piece of so many is seen, as a power of two.
const NEAR: u32 = 4;
const FAR: u32 = 8;
/// Places of a compute unit's table, and of the device's, as powers of two.
const NEAR_PLACES: u32 = 12;
const FAR_PLACES: u32 = 18;
/// Compute units that have tables of their own; more share them.
const UNITS: usize = 256;

/// Parts of the last cache, and bytes side by side that one part takes, as powers of two: an H200 does
/// 4 million atomics on words that lie anywhere in 2 KB to 8 MB in the time of as many parts.
const PARTS: u32 = 6;
const OF_PART: u32 = 8;

/// The upper bits of a product with it are the hash of a number: 2^64 over the golden ratio (D. Knuth,
/// *The Art of Computer Programming*, volume 3, section 6.4).
const HASH: i64 = -7_046_029_254_386_353_131;

/// Counters of a histogram: powers of two, and first touches.
const EACH: usize = POWERS + 1;
/// Counters of both, and behind them one of passes of loads through banks, those of lines that are
/// loaded and stored, and those of atomics.
pub(crate) const WORDS: usize = HOT + (1 << PARTS);
pub(super) const PASSES: usize = 2 * EACH;
pub(super) const LINES: usize = PASSES + 1;
pub(super) const HOT: usize = LINES + 2;

/// Clocks and tables, in front of the program.
pub(super) fn tables(p: &str) -> String {
    let mut out = String::from("\n");
    put!(out, ".global .align 8 .u64 {p}far[{}];", 1 << FAR_PLACES);
    put!(out, ".global .align 8 .u64 {p}near[{}];", UNITS << NEAR_PLACES);
    put!(out, ".global .align 4 .u32 {p}clocks[{}];", UNITS + 1);
    out
}

/// Registers of a function.
pub(super) fn registers(p: &str) -> String {
    format!(
        ".reg .b64 %{p}h, %{p}e, %{p}o;\n.reg .b32 %{p}c, %{p}d, %{p}q, %{p}z;\n.reg .pred %{p}y, %{p}w;\n"
    )
}

/// Sets the tables to 0, by each of `items` work-items of which `r1` is the number.
pub(super) fn cleared(p: &str, items: usize) -> String {
    let mut out = String::from("\n");
    for (table, places) in [("far", 1 << FAR_PLACES), ("near", UNITS << NEAR_PLACES)] {
        put!(out, "mov.u32 %{p}r2, %{p}r1;\nmov.u64 %{p}d5, 0;\n${p}clear_{table}:");
        put!(out, "setp.ge.u32 %{p}q, %{p}r2, {places};\n@%{p}q bra ${p}cleared_{table};");
        put!(out, "mul.wide.u32 %{p}d1, %{p}r2, 8;\nmov.u64 %{p}d2, {p}{table};");
        put!(out, "add.s64 %{p}d2, %{p}d2, %{p}d1;\nst.global.u64 [%{p}d2], %{p}d5;");
        put!(out, "add.u32 %{p}r2, %{p}r2, {items};\nbra ${p}clear_{table};");
        put!(out, "${p}cleared_{table}:");
    }
    out
}

/// What counts a touch of the piece whose number is in `k`, by lanes with `p`. `behind`: the first
/// counter among those of a copy, the first of which is taken.
pub(super) fn touch(p: &str, behind: usize, loads: bool) -> String {
    let mut out = String::new();
    // The upper half of the product is the hash.
    put!(out, "mul.lo.s64 %{p}h, %{p}k, {HASH};\nshr.u64 %{p}h, %{p}h, 32;");
    put!(out, "cvt.u32.u64 %{p}c, %{p}h;\ncvt.u32.u64 %{p}q, %{p}k;");
    put!(out, "shr.u32 %{p}d, %{p}c, {};", 32 - FAR);
    put!(out, "setp.eq.and.u32 %{p}y, %{p}d, 0, %{p}p;");
    put!(out, "mov.u64 %{p}o, {p}clocks;");
    put!(out, "and.b32 %{p}c, %{p}c, {};", (1u32 << FAR_PLACES) - 1);
    put!(out, "mov.u32 %{p}z, %{p}c;\nmov.u64 %{p}h, {p}far;");
    seen(&mut out, p, behind + EACH);
    if loads {
        put!(out, "and.b32 %{p}d, %{p}c, {};", (1u32 << NEAR) - 1);
        put!(out, "setp.eq.and.u32 %{p}y, %{p}d, 0, %{p}p;");
        put!(out, "mov.u32 %{p}z, %smid;\nand.b32 %{p}z, %{p}z, {};", UNITS - 1);
        put!(out, "mul.wide.u32 %{p}e, %{p}z, 4;\nmov.u64 %{p}o, {p}clocks;");
        put!(out, "add.s64 %{p}o, %{p}o, %{p}e;\nadd.s64 %{p}o, %{p}o, 4;");
        put!(out, "shl.b32 %{p}z, %{p}z, {NEAR_PLACES};");
        put!(out, "shr.u32 %{p}c, %{p}c, {NEAR};");
        put!(out, "and.b32 %{p}c, %{p}c, {};", (1u32 << NEAR_PLACES) - 1);
        put!(out, "or.b32 %{p}z, %{p}z, %{p}c;\nmov.u64 %{p}h, {p}near;");
        seen(&mut out, p, behind);
    }
    out
}

/// What counts `n` turns of the part of the last cache that has the piece whose number is in `k`, by
/// lanes with `p`; `behind` as above.
pub(super) fn queued(p: &str, behind: usize) -> String {
    let mut out = String::new();
    put!(out, "shr.u64 %{p}h, %{p}k, {};", OF_PART - SECTOR.ilog2());
    put!(out, "mul.lo.s64 %{p}h, %{p}h, {HASH};");
    put!(out, "shr.u64 %{p}h, %{p}h, {};\nshl.b64 %{p}h, %{p}h, 3;", u64::BITS - PARTS);
    put!(out, "mov.u64 %{p}o, {p}counts;\nadd.s64 %{p}o, %{p}o, %{p}h;");
    put!(out, "cvt.u64.u32 %{p}e, %{p}n;");
    put!(out, "@%{p}p red.global.add.u64 [%{p}o+{}], %{p}e;", (behind + HOT) * 8);
    out
}

/// The clock at `o` counts, and place `z` of table `h` has its time, where `y` is set. Uses `d`,
/// `e`, `o`, `w`, `z`.
fn seen(out: &mut String, p: &str, behind: usize) {
    put!(out, "@%{p}y atom.global.add.u32 %{p}d, [%{p}o], 1;\nadd.u32 %{p}d, %{p}d, 1;");
    put!(out, "mul.wide.u32 %{p}o, %{p}z, 8;\nadd.s64 %{p}o, %{p}o, %{p}h;");
    put!(out, "mov.b64 %{p}e, {{%{p}d, %{p}q}};");
    put!(out, "@%{p}y atom.global.exch.b64 %{p}e, [%{p}o], %{p}e;");
    put!(out, "mov.b64 {{%{p}z, %{p}n}}, %{p}e;\nsetp.ne.u32 %{p}w, %{p}n, %{p}q;");
    put!(out, "setp.eq.or.u32 %{p}w, %{p}z, 0, %{p}w;");
    // Lanes that touch a piece at the same time may come in either order.
    put!(out, "sub.s32 %{p}d, %{p}d, %{p}z;\nabs.s32 %{p}d, %{p}d;\nor.b32 %{p}d, %{p}d, 1;");
    put!(out, "bfind.u32 %{p}d, %{p}d;\nselp.b32 %{p}d, {POWERS}, %{p}d, %{p}w;");
    put!(out, "mul.wide.u32 %{p}e, %{p}d, 8;\nmov.u64 %{p}o, {p}counts;");
    put!(out, "add.s64 %{p}o, %{p}o, %{p}e;\nmov.u64 %{p}e, 1;");
    put!(out, "@%{p}y red.global.add.u64 [%{p}o+{}], %{p}e;", behind * 8);
}

/// What the counters say, of a launch that touched so many pieces by loads, and in all.
pub(crate) fn read(words: &[u64], loads: u64, all: u64) -> Option<Reuse> {
    let (near, far) = words.get(..PASSES)?.split_at_checked(EACH)?;
    let of = |words: &[u64], seen: u32, touches: u64| {
        let (first, again) = words.split_last()?;
        // Between two touches that are seen lie as many more as there are pieces for one that is.
        let mut all = vec![0; seen as usize];
        all.extend(again);
        let last = all.iter().rposition(|n| *n > 0).map_or(0, |at| at + 1);
        all.truncate(last);
        Some(Histogram { first: *first, again: all }.adjusted(touches >> seen))
    };
    let passes = *words.get(PASSES)?;
    let lines = Some(Lines { loaded: *words.get(LINES)?, stored: *words.get(LINES + 1)? });
    // Devices before sm_80 count none.
    let hottest = words.get(HOT..WORDS).and_then(|turns| turns.iter().max().copied());
    let (near, far) = (of(near, NEAR, loads)?, of(far, FAR, all)?);
    let out = Reuse { near, far, passes, lines, hottest };
    (out.far.total() > 0 || out.near.total() > 0 || hottest > Some(0)).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stands_for_all_touches() {
        let mut words = [0; WORDS];
        // Near: 3 pieces for the first time, 5 again after 2 to 4 that are seen: after 32 to 64.
        (words[POWERS], words[1]) = (3, 5);
        // Far: 2 for the first time, 9 again at once.
        (words[EACH + POWERS], words[EACH]) = (2, 9);
        words[PASSES..HOT].copy_from_slice(&[77, 5, 6]);
        words[HOT..].fill(3);
        words[HOT + 20] = 40;
        let of = read(&words, 16 * 8, 256 * 11).unwrap();
        assert_eq!(of.near, Histogram { first: 3, again: vec![0, 0, 0, 0, 0, 5] });
        assert_eq!(of.far, Histogram { first: 2, again: [vec![0; 8], vec![9]].concat() });
        assert_eq!((of.passes, of.lines), (77, Some(Lines { loaded: 5, stored: 6 })));
        assert_eq!(of.hottest, Some(40));
        // One word that many warps read was chosen, or not: what differs is touched at once again.
        let few = read(&words, 16 * 20, 256 * 4).unwrap();
        assert_eq!((few.near.total(), few.near.first, few.near.again[5]), (20, 3, 17));
        assert_eq!((few.far.total(), few.far.first, few.far.again[8]), (4, 2, 2));
        let none = read(&[0; WORDS], 0, 0);
        assert_eq!(none, None);
        assert_eq!(read(&words[..HOT - 1], 1, 1), None);
        // Devices that cannot count queues have no counters of them, and nothing is known then.
        assert_eq!(read(&words[..HOT], 16 * 8, 256 * 11).unwrap().hottest, None);
    }
}
