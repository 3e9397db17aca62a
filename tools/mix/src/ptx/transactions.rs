//! Transactions of memory, counted beside blocks: how many pieces of global memory a warp's access
//! touches, how many lines of constant memory, how many words of private memory, and how often it
//! passes through the banks of local memory. Lanes of a warp compare
//! their addresses where the access stands (`match`), so that any address is counted, computed or
//! loaded.
//!
//! * **Global memory**: caches move pieces of 32 bytes. Of the lanes that touch one, the lowest
//!   counts it.
//! * **Constant memory** whose address differs between lanes is read through the nearest cache, as
//!   long as its lines take: an H200 reads tables of any size as fast as those of global memory.
//!   **Private memory** lays the words of one index side by side. Of the lanes that access a line, or
//!   a word, the lowest counts it.
//! * **Local memory**: 32 banks of 4 bytes give one word each in a pass. Lanes that ask for 16 bytes
//!   pass in two halves of a warp. Of lanes that read one word, the lowest stands for all; the bank of
//!   which most words are wanted says how many passes there are. Atomics pass once for each lane,
//!   but where they count by one and nobody wants the result: lanes of one word add up first
//!   (`ATOMS.POPC.INC` of NVIDIA's devices; an H200 counts 33 million hot ones in 8 us).
//! * **Atomics on global memory**: a part of the last cache takes a piece of a warp in a turn, but
//!   lanes that want one word one after the other.
//!
//! Source: NVIDIA, *CUDA C++ Programming Guide*, compute capability 5.x to 9.0, global and shared
//! memory; Parallel Thread Execution ISA, `match.sync` (6.0, sm_70), `redux.sync` (7.0, sm_80).

use super::Place;
use super::reuse;
use super::scan::Guard;
use crate::class::{Class, Space};
use crate::program::{Access, LINE, PASS, SECTOR, Transactions};
use std::collections::HashMap;
use std::fmt::Write;

/// Bytes of a word.
const WORD: u64 = 4;

/// The counters of a program, given out function by function.
pub(super) struct Counters<'t> {
    pub accesses: Vec<Access>,
    text: &'t str,
    /// Whether registers have 64 bits, by what their names begin with; `None` for those that hold
    /// no address.
    registers: HashMap<&'t str, Option<bool>>,
    count: usize,
    sectors: bool,
    pub banks: bool,
}

/// The counters of how soon global memory is touched again.
pub(super) struct Again {
    /// The first one.
    pub first: usize,
    /// What adds up passes of loads through banks: a register, or an address in brackets.
    pub passes: Option<String>,
    /// The same for lines that are loaded, and stored.
    pub lines: [String; 2],
}

/// An access with a counter.
pub(super) struct Counting<'t> {
    pub at: usize,
    pub counter: usize,
    guard: Option<Guard<'t>>,
    class: Class,
    bytes: u32,
    /// It counts by one, and nobody wants to know how far.
    tallies: bool,
    address: Address<'t>,
}

/// An address that differs between lanes.
struct Address<'t> {
    register: &'t str,
    /// Of 64 bits; else of 32.
    wide: bool,
    offset: i64,
}

impl<'t> Counters<'t> {
    pub fn new(text: &'t str, version: (u32, u32), target: u32) -> Self {
        let sectors = version >= (6, 2) && target >= 70;
        let banks = version >= (7, 0) && target >= 80;
        let (accesses, registers) = (Vec::new(), HashMap::new());
        Self { accesses, text, registers, count: 0, sectors, banks }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Gives the accesses of a function their counters.
    pub fn of(&mut self, places: &[Place<'t>]) -> Vec<Counting<'t>> {
        let mut out = Vec::new();
        for place in places {
            let possible = match (place.class, place.class.memory()) {
                (_, Some(Space::Global | Space::Constant | Space::Private)) => self.sectors,
                (_, Some(Space::Local)) => self.banks,
                _ => continue,
            };
            if !possible {
                continue;
            }
            let transactions = match self.address(place.operands) {
                Some(None) if place.class != Class::AtomicLocal => Transactions::OneAWarp,
                Some(Some(address)) if place.bytes > 0 => {
                    let (at, guard) = (place.at, place.guard);
                    let (class, bytes, counter) = (place.class, place.bytes, self.count);
                    let tallies = place.tallies;
                    out.push(Counting { at, counter, guard, class, bytes, tallies, address });
                    self.count += 1;
                    Transactions::Counter(counter)
                }
                _ => Transactions::Unknown,
            };
            let (block, class) = (place.block, place.class);
            self.accesses.push(Access { block, class, transactions });
        }
        out
    }

    /// The address in brackets: `Some(None)` for a symbol's, which all lanes share; `None` for what
    /// is not understood.
    fn address(&mut self, operands: &'t str) -> Option<Option<Address<'t>>> {
        let (_, rest) = operands.split_once('[')?;
        let (inside, _) = rest.split_once(']')?;
        let (base, offset) = inside.split_once('+').unwrap_or((inside, "0"));
        let (register, offset) = (base.trim(), offset.trim().parse().ok()?);
        if !register.starts_with('%') {
            return Some(None);
        }
        let family = register.trim_end_matches(|c: char| c.is_ascii_digit());
        let text = self.text;
        let wide = (*self.registers.entry(family).or_insert_with(|| is_wide(text, family)))?;
        Some(Some(Address { register, wide, offset }))
    }
}

/// Whether registers of a name have 64 bits, as declared: `.reg .b64 %rd<7>;`.
fn is_wide(text: &str, family: &str) -> Option<bool> {
    let (before, _) = text.split_once(&format!("{family}<"))?;
    match before.split_whitespace().next_back()? {
        ".b64" | ".u64" | ".s64" => Some(true),
        ".b32" | ".u32" | ".s32" => Some(false),
        _ => None,
    }
}

/// Adds `n` of the lane with `p` to a register, or at an address in brackets.
fn add_up(out: &mut String, p: &str, sum: &str, direct: bool) {
    if direct {
        put!(out, "cvt.u64.u32 %{p}v, %{p}n;");
        put!(out, "@%{p}p red.global.add.u64 {sum}, %{p}v;");
    } else {
        put!(out, "@%{p}p add.u32 {sum}, {sum}, %{p}n;");
    }
}

/// Adds the lanes that have `p`: each to a register of its own, or all of them at an address in brackets.
fn add_lanes(out: &mut String, p: &str, sum: &str, direct: bool) {
    if !direct {
        put!(out, "@%{p}p add.u32 {sum}, {sum}, 1;");
        return;
    }
    put!(out, "vote.sync.ballot.b32 %{p}n, %{p}p, %{p}g;\npopc.b32 %{p}n, %{p}n;");
    put!(out, "and.b32 %{p}m, %{p}g, %{p}l;\nsetp.eq.u32 %{p}p, %{p}m, 0;");
    add_up(out, p, sum, direct);
}

impl Counting<'_> {
    pub fn memory(&self) -> Option<Space> {
        self.class.memory()
    }

    /// The statements in front of the access. `sum` is the register that adds up, or the address in
    /// brackets where counters are not kept in registers. Names begin with `p`.
    pub fn count(&self, p: &str, sum: &str, direct: bool, again: Option<&Again>) -> String {
        let mut out = String::from("\n");
        self.address(&mut out, p);
        if self.class.memory() == Some(Space::Local) {
            self.passes(&mut out, p);
            add_up(&mut out, p, sum, direct);
        } else {
            self.sectors(&mut out, p, again);
            add_lanes(&mut out, p, sum, direct);
        }
        if let Some(again) =
            again.filter(|a| a.passes.is_some() && self.class == Class::AtomicGlobal)
        {
            self.turns(&mut out, p, again.first);
        }
        if let Some(passes) =
            again.and_then(|a| a.passes.as_deref()).filter(|_| self.class == Class::LoadGlobal)
        {
            // Loads pass through the banks of the nearest cache as through those of local memory.
            self.address(&mut out, p);
            self.passes(&mut out, p);
            add_up(&mut out, p, passes, direct);
        }
        let lines = again.and_then(|again| match self.class {
            Class::LoadGlobal => Some(&again.lines[0]),
            Class::StoreGlobal => Some(&again.lines[1]),
            _ => None,
        });
        if let Some(lines) = lines {
            self.address(&mut out, p);
            put!(out, "shr.u64 %{p}k, %{p}k, {};", LINE.ilog2());
            self.lowest_of_equals(&mut out, p);
            add_lanes(&mut out, p, lines, direct);
        }
        out
    }

    /// Leaves the address in `k`, and in `g` the lanes that come together.
    fn address(&self, out: &mut String, p: &str) {
        let Address { register, wide, offset } = self.address;
        if wide {
            put!(out, "add.s64 %{p}k, {register}, {offset};");
        } else {
            put!(out, "cvt.u64.u32 %{p}k, {register};\nadd.s64 %{p}k, %{p}k, {offset};");
        }
        put!(out, "activemask.b32 %{p}g;");
    }

    /// Leaves in `p` whether the lane stands for a piece of memory, a line, or a word.
    fn sectors(&self, out: &mut String, p: &str, again: Option<&Again>) {
        let unit = match self.class.memory() {
            Some(Space::Global) => SECTOR,
            Some(Space::Constant) => LINE,
            _ => WORD,
        };
        put!(out, "shr.u64 %{p}k, %{p}k, {};", unit.ilog2());
        self.lowest_of_equals(out, p);
        if let Some(again) = again.filter(|_| unit == SECTOR) {
            *out += &reuse::touch(p, again.first, self.class == Class::LoadGlobal);
        }
    }

    /// Counts turns of the last cache: of a piece of memory as many as lanes want that word of it which
    /// most of them want.
    fn turns(&self, out: &mut String, p: &str, first: usize) {
        self.address(out, p);
        put!(out, "shr.u64 %{p}k, %{p}k, {};", WORD.ilog2());
        self.without_the_others(out, p, "b64", "k", "-1");
        put!(out, "match.any.sync.b64 %{p}m, %{p}k, %{p}g;\npopc.b32 %{p}n, %{p}m;");
        put!(out, "shr.u64 %{p}k, %{p}k, {};", SECTOR.ilog2() - WORD.ilog2());
        put!(out, "match.any.sync.b64 %{p}m, %{p}k, %{p}g;");
        put!(out, "redux.sync.max.u32 %{p}n, %{p}n, %{p}m;");
        self.lowest_of_equals(out, p);
        *out += &reuse::queued(p, first);
    }

    /// Leaves in `p` whether the lane is the lowest that has its `k`, and accesses memory at all.
    fn lowest_of_equals(&self, out: &mut String, p: &str) {
        self.without_the_others(out, p, "b64", "k", "-1");
        put!(out, "match.any.sync.b64 %{p}m, %{p}k, %{p}g;\nand.b32 %{p}m, %{p}m, %{p}l;");
        match self.guard {
            Some(guard) => put!(out, "setp.eq.and.u32 %{p}p, %{p}m, 0, {guard};"),
            None => put!(out, "setp.eq.u32 %{p}p, %{p}m, 0;"),
        }
    }

    /// Gives lanes that the guard keeps from the access another value.
    fn without_the_others(&self, out: &mut String, p: &str, kind: &str, of: &str, value: &str) {
        let Some(guard) = self.guard else { return };
        let own = format!("%{p}{of}");
        let (set, unset) = if guard.not { (value, &*own) } else { (&*own, value) };
        put!(out, "selp.{kind} {own}, {set}, {unset}, {};", guard.predicate);
    }

    /// Leaves in `n` the passes of the lanes that go together, and in `p` whether the lane is their
    /// lowest.
    fn passes(&self, out: &mut String, p: &str) {
        let word = self.bytes.next_power_of_two().clamp(4, 16);
        let words = PASS as u32 / word;
        // Lanes that pass together: halves of a warp that ask for the same 16 bytes pass once each, and
        // a warp that asks for the same 8 bytes once.
        let lanes = if word == 16 { 16u32 } else { 32 };
        put!(out, "mov.u32 %{p}i, %laneid;\nshr.u64 %{p}k, %{p}k, {};", word.ilog2());
        put!(out, "cvt.u32.u64 %{p}b, %{p}k;\nand.b32 %{p}b, %{p}b, {};", words - 1);
        let several = lanes < 32;
        if several {
            // Lanes of different passes have nothing in common.
            put!(out, "shr.u32 %{p}n, %{p}i, {};", lanes.ilog2());
            put!(out, "cvt.u64.u32 %{p}v, %{p}n;\nshl.b64 %{p}v, %{p}v, 48;");
            put!(out, "or.b64 %{p}k, %{p}k, %{p}v;");
            put!(out, "shl.b32 %{p}n, %{p}n, 5;\nor.b32 %{p}b, %{p}b, %{p}n;");
        }
        if self.class == Class::AtomicLocal && !self.tallies {
            match self.guard {
                Some(guard) => put!(out, "setp.eq.and.u32 %{p}p, %{p}i, %{p}i, {guard};"),
                None => put!(out, "setp.eq.u32 %{p}p, %{p}i, %{p}i;"),
            }
        } else {
            self.lowest_of_equals(out, p);
        }
        // Who stands for no word is in a bank of its own.
        put!(out, "add.u32 %{p}n, %{p}i, 256;\nselp.b32 %{p}b, %{p}b, %{p}n, %{p}p;");
        put!(out, "match.any.sync.b32 %{p}m, %{p}b, %{p}g;\npopc.b32 %{p}n, %{p}m;");
        put!(out, "selp.b32 %{p}n, %{p}n, 0, %{p}p;");
        if several {
            put!(out, "and.b32 %{p}i, %{p}i, {};", 32 - lanes);
            put!(out, "mov.u32 %{p}m, {};\nshl.b32 %{p}m, %{p}m, %{p}i;", (1u32 << lanes) - 1);
            put!(out, "and.b32 %{p}g, %{p}g, %{p}m;");
        }
        put!(out, "redux.sync.max.u32 %{p}n, %{p}n, %{p}g;");
        put!(out, "and.b32 %{p}m, %{p}g, %{p}l;\nsetp.eq.u32 %{p}p, %{p}m, 0;");
    }
}
