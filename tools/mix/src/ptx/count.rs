//! PTX that counts: each block adds to counters in registers, which are added to an array of the
//! module where a function is left, and a further kernel hands the array out. The program's own
//! kernels keep their arguments, and what they compute.
//!
//! Two counters a block: threads, and warps, which the lowest active lane counts. `activemask`
//! tells which lanes are active where the block begins; lanes that come in two goes are two warps,
//! as they are to the scheduler. Registers are short where a function has many blocks: then each
//! block adds to the array at once, once a warp.
//!
//! Registers have 32 bits, the array 64: a work-item that enters a block of a short function more
//! than 4,294,967,295 times is counted less by that, unseen. With 64 bits each count would be two
//! additions and twice the registers, which kernels with many warps lack.
//!
//! Accesses to memory have further counters, of their transactions: `transactions` holds those.

use super::reuse;
use super::scan::Guard;
use super::transactions::{Again, Counters, Counting};
use super::{Layout, Places, layout};
use crate::Error;
use crate::class::Space;
use crate::program::{Counted, shards};
use std::fmt::Write;

/// Counters of a function, by blocks and by accesses to memory, up to which they are kept in
/// registers.
const IN_REGISTERS: usize = 64;

/// Writes the program with counters. With `accesses` also those of transactions of memory, which
/// take much more time: lanes compare their addresses at every access. Where only one kernel is to be
/// launched, the bodies of others are left out: compilers take seconds for large ones.
///
/// # Errors
/// If the text cannot be read, addresses have 32 bits, or there are too many blocks.
pub fn counted(binary: &[u8], accesses: bool, only: Option<&str>) -> Result<Counted, Error> {
    let text = super::text(binary).ok_or(Error::Language { what: "binary" })?;
    let layout = layout(text)?;
    if layout.address_size != 64 {
        return Err(Error::Unsupported { what: "has addresses of 32 bits" });
    }
    let Layout { program, version, target, functions, head, tail, .. } = layout;
    let program = program.within_limits()?;
    // What names begin with must be in use nowhere.
    let prefix = (0..)
        .map(|n| if n == 0 { "clscope_".to_owned() } else { format!("clscope{n}_") })
        .find(|prefix| !text.contains(prefix.as_str()))
        .unwrap_or_default();
    let warps = version >= (6, 2);
    let each = if warps { 2 } else { 1 };
    let behind = program.blocks.len() * each;
    let mut counters = Counters::new(text, version, if accesses { target } else { 0 });
    let of_functions: Vec<_> =
        functions.iter().map(|places| counters.of(&places.accesses)).collect();
    let before_reuse = behind + counters.count();
    let global = of_functions.iter().flatten().any(|a| a.memory() == Some(Space::Global));
    let of_reuse = match (global, counters.banks) {
        (false, _) => 0,
        (true, false) => reuse::HOT,
        (true, true) => reuse::WORDS,
    };
    let words = before_reuse + of_reuse;
    let shards = shards(words);
    let reuse = global.then_some((before_reuse, counters.banks));
    let writer = Writer { prefix, warps, words, behind, reuse, shards };

    // A function that ends threads loses what its callers hold in registers.
    let lost = functions
        .iter()
        .zip(&program.functions)
        .any(|(places, function)| places.ends_threads && !function.kernel);
    let mut insertions: Vec<(usize, String)> = Vec::new();
    let mut replaced: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    insertions.push((head, writer.array()));
    for ((places, function), accesses) in
        functions.iter().zip(&program.functions).zip(&of_functions)
    {
        let Some(first) = places.first else { continue };
        if function.kernel && only.is_some_and(|only| only != function.name) {
            replaced.push((places.begin..places.end, "\nret;\n".to_owned()));
            continue;
        }
        let own = Own { blocks: function.blocks.clone(), accesses };
        let direct = lost || own.blocks.len().max(accesses.len()) > IN_REGISTERS;
        insertions.push((places.begin, writer.declarations(&own, direct)));
        insertions.push((first, writer.beginning(&own, direct)));
        for (at, block) in places.blocks.iter().zip(own.blocks.clone()) {
            insertions.push((*at, writer.count(block, direct)));
        }
        let again = writer.again(direct);
        for access in accesses {
            let sum = if direct {
                format!("[%{}a+{}]", writer.prefix, (behind + access.counter) * 8)
            } else {
                format!("%{}x{}", writer.prefix, access.counter)
            };
            insertions
                .push((access.at, access.count(&writer.prefix, &sum, direct, again.as_ref())));
        }
        if !direct {
            leave(&writer, places, &own, text, &mut insertions, &mut replaced);
        }
    }
    insertions.push((tail, writer.dump()));
    let code = woven(text, insertions, replaced);
    let dump = Some(format!("{}dump", writer.prefix));
    let accesses = counters.accesses;
    Ok(Counted { code: code.into_bytes(), program, shards, warps, accesses, reuse: of_reuse, dump })
}

/// What a function counts.
struct Own<'c, 't> {
    blocks: std::ops::Range<usize>,
    accesses: &'c [Counting<'t>],
}

/// Adds the counters up wherever the function is left.
fn leave(
    writer: &Writer,
    places: &Places<'_>,
    own: &Own<'_, '_>,
    text: &str,
    insertions: &mut Vec<(usize, String)>,
    replaced: &mut Vec<(std::ops::Range<usize>, String)>,
) {
    for (n, (at, guard)) in places.exits.iter().enumerate() {
        match guard {
            None => insertions.push((at.start, writer.ending(own))),
            Some(guard) => {
                let statement = text.get(at.clone()).unwrap_or_default();
                let stays = Guard { not: !guard.not, ..*guard };
                let label = format!("${}stay_{}_{n}", writer.prefix, own.blocks.start);
                replaced.push((
                    at.clone(),
                    format!("@{stays} bra {label};\n{}{statement}\n{label}:\n", writer.ending(own)),
                ));
            }
        }
    }
    if let Some(end) = places.falls_out {
        insertions.push((end, writer.ending(own)));
    }
}

/// The text with what is inserted and replaced. At one place insertions come in the order given.
fn woven(
    text: &str,
    insertions: Vec<(usize, String)>,
    replaced: Vec<(std::ops::Range<usize>, String)>,
) -> String {
    let mut changes: Vec<(std::ops::Range<usize>, String)> =
        insertions.into_iter().map(|(at, new)| (at..at, new)).collect();
    changes.extend(replaced);
    // Stable: what was pushed first comes first; a replacement follows insertions at its beginning.
    changes.sort_by_key(|(at, _)| (at.start, at.end));
    let mut out = String::with_capacity(text.len() * 2);
    let mut from = 0;
    for (at, new) in changes {
        out.push_str(text.get(from..at.start).unwrap_or_default());
        out.push_str(&new);
        from = from.max(at.end);
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

struct Writer {
    prefix: String,
    warps: bool,
    /// 64-bit words of one copy of the counters.
    words: usize,
    /// Of them, those of blocks; those of accesses to memory follow.
    behind: usize,
    /// The first of those that say how soon memory is touched again, where they are, and whether
    /// passes through banks are counted.
    reuse: Option<(usize, bool)>,
    /// Copies, a power of two.
    shards: usize,
}

impl Writer {
    fn array(&self) -> String {
        let p = &self.prefix;
        let tables = self.reuse.map_or_else(String::new, |_| reuse::tables(p));
        format!("\n.global .align 8 .u64 {p}counts[{}];\n{tables}", self.words * self.shards)
    }

    /// Registers that add up of all accesses of a function, each with its counter: passes of loads
    /// through banks, lines that are loaded and stored.
    fn sums(&self, own: &Own<'_, '_>) -> Vec<(&'static str, usize)> {
        let Some((first, banks)) = self.reuse.filter(|_| !own.accesses.is_empty()) else {
            return Vec::new();
        };
        let passes = banks.then_some(("u", first + reuse::PASSES));
        let lines = [("j", first + reuse::LINES), ("f", first + reuse::LINES + 1)];
        passes.into_iter().chain(lines).collect()
    }

    /// Where a function counts how soon memory is touched again.
    fn again(&self, direct: bool) -> Option<Again> {
        let (first, banks) = self.reuse?;
        let p = &self.prefix;
        let sum = |register: &str, at: usize| match direct {
            true => format!("[%{p}a+{}]", (first + at) * 8),
            false => format!("%{p}{register}"),
        };
        let passes = banks.then(|| sum("u", reuse::PASSES));
        let lines = [sum("j", reuse::LINES), sum("f", reuse::LINES + 1)];
        Some(Again { first, passes, lines })
    }

    fn declarations(&self, own: &Own<'_, '_>, direct: bool) -> String {
        let p = &self.prefix;
        let mut out = String::from("\n");
        if self.warps {
            put!(out, ".reg .b32 %{p}m, %{p}l;");
        }
        put!(out, ".reg .b32 %{p}s;\n.reg .b64 %{p}a, %{p}v, %{p}one;\n.reg .pred %{p}p;");
        if !own.accesses.is_empty() {
            put!(out, ".reg .b32 %{p}b, %{p}g, %{p}i, %{p}n;\n.reg .b64 %{p}k;");
            out += &self.reuse.map_or_else(String::new, |_| reuse::registers(p));
        }
        if !direct {
            for block in own.blocks.clone() {
                put!(out, ".reg .b32 %{p}t{block};");
                if self.warps {
                    put!(out, ".reg .b32 %{p}w{block};");
                }
            }
            for access in own.accesses {
                put!(out, ".reg .b32 %{p}x{};", access.counter);
            }
            for (register, _) in self.sums(own) {
                put!(out, ".reg .b32 %{p}{register};");
            }
        }
        out
    }

    /// Leaves the address of this work-group's copy in `a`: groups take them in turns, each time from
    /// the next one on, so that columns of a power of two of groups share none.
    fn address(&self, out: &mut String) {
        let p = &self.prefix;
        let wide = |out: &mut String, to: &str, register: &str| {
            put!(out, "mov.u32 %{p}s, %{register};\ncvt.u64.u32 %{p}{to}, %{p}s;");
        };
        wide(out, "a", "ctaid.z");
        for dimension in ["y", "x"] {
            wide(out, "v", &format!("nctaid.{dimension}"));
            put!(out, "mul.lo.s64 %{p}a, %{p}a, %{p}v;");
            wide(out, "v", &format!("ctaid.{dimension}"));
            put!(out, "add.s64 %{p}a, %{p}a, %{p}v;");
        }
        put!(out, "shr.u64 %{p}v, %{p}a, {};", self.shards.ilog2());
        put!(out, "add.s64 %{p}a, %{p}a, %{p}v;");
        put!(out, "and.b64 %{p}a, %{p}a, {};", self.shards - 1);
        put!(out, "mul.lo.s64 %{p}a, %{p}a, {};", self.words * 8);
        put!(out, "mov.u64 %{p}v, {p}counts;");
        put!(out, "add.s64 %{p}a, %{p}a, %{p}v;");
    }

    fn beginning(&self, own: &Own<'_, '_>, direct: bool) -> String {
        let p = &self.prefix;
        let mut out = String::from("\n");
        if self.warps {
            put!(out, "mov.u32 %{p}l, %lanemask_lt;");
        }
        if direct {
            self.address(&mut out);
            put!(out, "mov.u64 %{p}one, 1;");
            return out;
        }
        for block in own.blocks.clone() {
            put!(out, "mov.u32 %{p}t{block}, 0;");
            if self.warps {
                put!(out, "mov.u32 %{p}w{block}, 0;");
            }
        }
        for access in own.accesses {
            put!(out, "mov.u32 %{p}x{}, 0;", access.counter);
        }
        for (register, _) in self.sums(own) {
            put!(out, "mov.u32 %{p}{register}, 0;");
        }
        out
    }

    fn count(&self, block: usize, direct: bool) -> String {
        let p = &self.prefix;
        let mut out = String::from("\n");
        let at = block * 8 * if self.warps { 2 } else { 1 };
        if !direct {
            put!(out, "add.u32 %{p}t{block}, %{p}t{block}, 1;");
        } else if !self.warps {
            put!(out, "red.global.add.u64 [%{p}a+{at}], %{p}one;");
        }
        if self.warps {
            put!(out, "activemask.b32 %{p}m;");
            if direct {
                put!(out, "popc.b32 %{p}s, %{p}m;\ncvt.u64.u32 %{p}v, %{p}s;");
            }
            put!(out, "and.b32 %{p}m, %{p}m, %{p}l;\nsetp.eq.u32 %{p}p, %{p}m, 0;");
            if direct {
                put!(out, "@%{p}p red.global.add.u64 [%{p}a+{at}], %{p}v;");
                put!(out, "@%{p}p red.global.add.u64 [%{p}a+{}], %{p}one;", at + 8);
            } else {
                put!(out, "@%{p}p add.u32 %{p}w{block}, %{p}w{block}, 1;");
            }
        }
        out
    }

    /// Adds the registers to the array. Most lanes lead no warp and have nothing to add there.
    fn ending(&self, own: &Own<'_, '_>) -> String {
        let p = &self.prefix;
        let mut out = String::from("\n");
        self.address(&mut out);
        let mut add = |register: &str, at: usize| {
            put!(out, "setp.ne.u32 %{p}p, %{p}{register}, 0;");
            put!(out, "cvt.u64.u32 %{p}v, %{p}{register};");
            put!(out, "@%{p}p red.global.add.u64 [%{p}a+{}], %{p}v;", at * 8);
        };
        for block in own.blocks.clone() {
            let kinds = if self.warps { &["t", "w"][..] } else { &["t"] };
            for (kind, at) in kinds.iter().zip(block * kinds.len()..) {
                add(&format!("{kind}{block}"), at);
            }
        }
        for access in own.accesses {
            add(&format!("x{}", access.counter), self.behind + access.counter);
        }
        for (register, at) in self.sums(own) {
            add(register, at);
        }
        out
    }

    fn dump(&self) -> String {
        let p = &self.prefix;
        let items = self.words * self.shards;
        let cleared = self.reuse.map_or_else(String::new, |_| reuse::cleared(p, items));
        format!(
            "\n.visible .entry {p}dump(\n\t.param .u64 .ptr .global .align 8 {p}dump_param_0\n)\n{{\n\
             .reg .b32 %{p}r<4>;\n.reg .b64 %{p}d<6>;\n.reg .pred %{p}q;\n\
             mov.u32 %{p}r1, %ctaid.x;\nmov.u32 %{p}r2, %tid.x;\nmov.u32 %{p}r3, %ntid.x;\n\
             mad.lo.s32 %{p}r1, %{p}r1, %{p}r3, %{p}r2;\n\
             setp.ge.u32 %{p}q, %{p}r1, {items};\n@%{p}q bra ${p}dump_end;\n\
             mul.wide.u32 %{p}d1, %{p}r1, 8;\nmov.u64 %{p}d2, {p}counts;\n\
             add.s64 %{p}d2, %{p}d2, %{p}d1;\nld.global.u64 %{p}d3, [%{p}d2];\n\
             ld.param.u64 %{p}d4, [{p}dump_param_0];\nadd.s64 %{p}d4, %{p}d4, %{p}d1;\n\
             st.global.u64 [%{p}d4], %{p}d3;\nmov.u64 %{p}d5, 0;\nst.global.u64 [%{p}d2], %{p}d5;\n\
             {cleared}${p}dump_end:\nret;\n}}\n"
        )
    }
}
