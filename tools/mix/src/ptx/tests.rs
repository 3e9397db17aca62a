//! PTX as basic blocks and classes, and the copies that count: on programs of `tests/data`.

use super::*;
use crate::program::Counted;
use crate::{Counts, Mix, Precision, Space};
use proptest::prelude::*;

const BLOCKS: &str = include_str!("../../tests/data/blocks.ptx");

fn classes(program: &Program, block: usize) -> Vec<Class> {
    program.blocks[block].instructions.iter().map(|i| i.class).collect()
}

#[test]
fn functions_and_blocks_are_found() {
    use Class as C;
    let program = read(BLOCKS).unwrap();
    assert_eq!((program.version.as_str(), program.newer), ("8.4", false));
    let names: Vec<_> =
        program.functions.iter().map(|f| (f.name.as_str(), f.kernel, f.blocks.clone())).collect();
    assert_eq!(names, [("twice", false, 0..1), ("walk", true, 1..5)]);
    assert_eq!(program.unknown, ["frobnicate.b32"]);
    assert_eq!(classes(&program, 0), [C::Move, C::IntLogic, C::Move, C::Call]);
    assert!(program.loops.keys().eq(&[3]), "{:?}", program.loops);
    // Up to the guarded return; behind it; the loop; behind that.
    assert_eq!(classes(&program, 1).last(), Some(&C::Call));
    assert_eq!(classes(&program, 2), [C::Move]);
    assert_eq!(
        classes(&program, 3),
        [
            C::IntMul,
            C::LongArith,
            C::LoadGlobal,
            C::SingleFma,
            C::StoreLocal,
            C::Move,
            C::Call,
            C::Move,
            C::IntArith,
            C::IntCompare,
            C::Branch
        ]
    );
    assert_eq!(
        classes(&program, 4),
        [C::Barrier, C::Convert, C::DoubleDiv, C::Unknown, C::AtomicGlobal, C::Call]
    );
    let load = &program.blocks[3].instructions[2];
    assert_eq!((load.bytes, load.writes.len(), load.reads.len()), (16, 4, 1));
    assert!(program.blocks[3].instructions[8].predicated);
}

#[test]
fn what_stands_behind_the_last_function_stays_there() {
    let metadata = ".metadata_section {\n.metadata 0 {\n\"cl_kernel_attributes\",\n\"k\"\n}\n}\n";
    assert_eq!(read(&format!("{BLOCKS}\n{metadata}")).unwrap().functions.len(), 2);
    let text = format!("{BLOCKS}\n.frobnicate 1, 2\n");
    assert_eq!(read(&text).unwrap().functions.len(), 2);
    let counted = counted(text.as_bytes(), false, None).unwrap();
    let written = String::from_utf8(counted.code).unwrap();
    let (dump, tail) = (written.find(".entry clscope_dump"), written.find(".frobnicate"));
    assert!(dump.is_some() && dump < tail);
    assert!(read(&written).unwrap().kernel("clscope_dump").is_some());
}

#[test]
fn a_mix_is_what_the_blocks_hold() {
    let program = read(BLOCKS).unwrap();
    let counts = Counts { threads: vec![500, 100, 60, 500, 60], ..Counts::default() };
    let mix: Mix = program.mix(&counts);
    assert_eq!((mix.flop(Precision::Single), mix.flop(Precision::Double)), (1000, 60));
    assert_eq!(mix.bytes(Space::Global), 500 * 16 + 60 * 4);
    assert_eq!(mix.bytes(Space::Local), 500 * 4);
    assert_eq!((mix.barriers(), mix.atomics()), (60, 60));
    assert_eq!(mix.classes[&Class::IntArith].predicated, 500);
    assert_eq!(program.entered("walk", &counts), Some(100));
    assert_eq!(mix.lanes_busy(32), None);
}

#[test]
fn instructions_have_classes_and_sizes() {
    use Class as C;
    for (line, class, flop, bytes) in [
        ("add.s32 %r1, %r2, %r3", C::IntArith, 0, 0),
        ("mad.lo.s32 %r1, %r2, %r3, %r4", C::IntMul, 0, 0),
        ("mul.wide.u32 %rd1, %r2, %r3", C::IntMul, 0, 0),
        ("add.s64 %rd1, %rd2, %rd3", C::LongArith, 0, 0),
        ("mad.lo.u64 %rd1, %rd2, %rd3, %rd4", C::LongMul, 0, 0),
        ("div.s64 %rd1, %rd2, %rd3", C::LongDiv, 0, 0),
        ("and.b64 %rd1, %rd2, %rd3", C::LongLogic, 0, 0),
        ("shl.b64 %rd1, %rd2, 2", C::IntLogic, 0, 0),
        ("popc.b32 %r1, %r2", C::IntBits, 0, 0),
        ("brev.b64 %rd1, %rd2", C::IntBits, 0, 0),
        ("mad.rn.f32 %f1, %f2, %f3, %f4", C::SingleFma, 2, 0),
        ("fma.rn.f16x2 %h1, %h2, %h3, %h4", C::HalfFma, 4, 0),
        ("add.f64 %fd1, %fd2, %fd3", C::DoubleArith, 1, 0),
        ("max.f32 %f1, %f2, %f3", C::SingleOther, 0, 0),
        ("rem.u32 %r1, %r2, %r3", C::IntDiv, 0, 0),
        ("div.full.f32 %f1, %f2, %f3", C::SingleDiv, 1, 0),
        ("rcp.approx.ftz.f32 %f1, %f2", C::SingleDiv, 1, 0),
        ("rsqrt.approx.f32 %f1, %f2", C::SingleSpecial, 1, 0),
        ("setp.eq.f64 %p1, %fd1, %fd2", C::FloatCompare, 0, 0),
        ("selp.b32 %r1, %r2, %r3, %p1", C::IntCompare, 0, 0),
        ("lop3.b32 %r1, %r2, %r3, %r4, 120", C::IntLogic, 0, 0),
        ("ld.const.v2.u32 {%r1, %r2}, [c]", C::LoadConstant, 0, 8),
        ("ld.global.nc.f64 %fd1, [%rd1]", C::LoadGlobal, 0, 8),
        ("ld.volatile.shared.u8 %rs1, [%r1]", C::LoadLocal, 0, 1),
        ("st.local.v4.u32 [%rd1], {%r1, %r2, %r3, %r4}", C::StorePrivate, 0, 16),
        ("ld.u32 %r1, [%rd1]", C::LoadGeneric, 0, 4),
        ("red.shared.add.u32 [%r1], %r2", C::AtomicLocal, 0, 4),
        ("atom.acq_rel.gpu.global.cas.b64 %rd1, [%rd2], %rd3, %rd4", C::AtomicGlobal, 0, 8),
        ("cvt.rn.f32.s32 %f1, %r1", C::Convert, 0, 0),
        ("cvt.f64.f32 %fd1, %f1", C::Convert, 0, 0),
        ("cvt.s64.s32 %rd1, %r1", C::Move, 0, 0),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}", C::Matrix, 0, 0),
        ("shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1", C::Exchange, 0, 0),
        ("barrier.sync 0", C::Barrier, 0, 0),
        ("tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [t, s, {%r1, %r2}]", C::LoadImage, 0, 0),
        ("cp.async.bulk.shared::cluster.global [%r1], [%rd1], 16", C::Unknown, 0, 0),
    ] {
        let text = format!(
            ".version 7.8\n.target sm_90\n.address_size 64\n.entry k()\n{{\n{line};\nret;\n}}\n"
        );
        let program = read(&text).unwrap();
        let found = &program.blocks[0].instructions[0];
        assert_eq!((found.class, found.flop, found.bytes), (class, flop, bytes), "{line}");
        assert_eq!(program.unknown.is_empty(), class != C::Unknown, "{line}");
    }
}

/// The lines of a text, without what only lays it out.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect()
}

#[test]
fn a_program_that_counts_holds_the_program() {
    let counted = counted(BLOCKS.as_bytes(), false, None).unwrap();
    let text = String::from_utf8(counted.code.clone()).unwrap();
    // Every statement of the program is there, in its order.
    let new = lines(&text);
    let mut at = 0;
    for line in lines(BLOCKS) {
        let found = new[at..].iter().position(|l| *l == line || l.ends_with(&line));
        at += 1 + found.unwrap_or_else(|| panic!("{line:?} is gone behind line {at}"));
    }
    let again = read(&text).unwrap();
    assert_eq!(again.unknown, ["frobnicate.b32"], "what is added is known");
    let kernels: Vec<_> =
        again.functions.iter().filter(|f| f.kernel).map(|f| f.name.as_str()).collect();
    assert_eq!(kernels, ["walk", "clscope_dump"]);
    assert_eq!(counted.dump.as_deref(), Some("clscope_dump"));
    // Five blocks with two counters each.
    assert_eq!((counted.words(), counted.shards, counted.warps), (640, 64, true));
    for (block, times) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)] {
        let add = format!("add.u32 %clscope_t{block}, %clscope_t{block}, 1;");
        assert_eq!(text.matches(&add).count(), times, "{text}");
    }
    // Two ways out of the kernel, one of them guarded.
    assert_eq!(text.matches("cvt.u64.u32 %clscope_v, %clscope_t4;").count(), 2);
    assert!(text.contains("@!%p1 bra $clscope_stay_1_0;"), "{text}");
}

#[test]
fn names_that_a_program_uses_are_left_to_it() {
    let mine = BLOCKS.replace("walk", "clscope_walk");
    let counted = counted(mine.as_bytes(), false, None).unwrap();
    assert_eq!(counted.dump.as_deref(), Some("clscope1_dump"));
}

#[test]
fn functions_with_many_blocks_add_at_once() {
    let mut body = String::new();
    for n in 0..80 {
        body.push_str(&format!("$L{n}:\nadd.s32 %r1, %r1, {n};\n@%p1 bra $L{n};\n"));
    }
    let text = format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.entry k()\n{{\n.reg .pred %p<2>;\n.reg .b32 %r<2>;\n{body}ret;\n}}\n"
    );
    let counted = counted(text.as_bytes(), false, None).unwrap();
    let text = String::from_utf8(counted.code).unwrap();
    assert_eq!(text.matches("popc.b32 %clscope_s, %clscope_m;").count(), 81);
    assert!(!text.contains("%clscope_t0"));
}

#[test]
fn a_function_that_ends_threads_makes_all_add_at_once() {
    let text = BLOCKS.replace("st.param.b32 	[func_retval0+0], %r2;\n	ret;", "exit;");
    assert_ne!(text, BLOCKS);
    let counted = counted(text.as_bytes(), false, None).unwrap();
    assert!(!String::from_utf8(counted.code).unwrap().contains("%clscope_t1"));
}

#[test]
fn old_versions_count_threads_alone_and_new_ones_are_told() {
    let counted =
        counted(BLOCKS.replace(".version 8.4", ".version 6.0").as_bytes(), false, None).unwrap();
    assert!(!counted.warps && !String::from_utf8(counted.code).unwrap().contains("activemask"));
    assert!(read(&BLOCKS.replace(".version 8.4", ".version 12.1")).unwrap().newer);
}

#[test]
fn what_is_not_ptx_is_refused() {
    assert!(is_ptx(BLOCKS.as_bytes()) && !is_ptx(b"\x7fELF") && !is_ptx(b"") && !is_ptx(&[0; 9]));
    for (text, words) in [
        ("", "does not begin"),
        (".version x\n", "no number"),
        (".version 7.0\n.target sm_50\n.entry k() { ret;", "has no end"),
        (".version 7.0\n.target sm_50\n.entry k() { ret }", "no end"),
        (".version 7.0\n.target sm_50\n", "has no code"),
    ] {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text:?}: {error}");
    }
    let narrow = BLOCKS.replace(".address_size 64", ".address_size 32");
    assert!(matches!(counted(narrow.as_bytes(), false, None), Err(Error::Unsupported { .. })));
}

proptest! {
    #[test]
    fn no_text_panics(text in "(?s).{0,400}") {
        let _ = read(&text);
        let _ = counted(text.as_bytes(), false, None);
    }

    #[test]
    fn no_damage_panics(at in 0..BLOCKS.len(), bytes in proptest::collection::vec(0u8..128, 0..6), cut in 0..8usize) {
        let mut damaged = BLOCKS.as_bytes().to_vec();
        let end = (at + cut).min(damaged.len());
        damaged.splice(at..end, bytes);
        if let Ok(counted) = counted(&damaged, at % 2 == 0, None) {
            prop_assert!(counted.words() >= counted.program.blocks.len());
            // What could be read once can be read again.
            prop_assert!(super::text(&counted.code).is_some());
        }
        let _ = is_ptx(&damaged);
    }
}

const ACCESSES: &str = include_str!("../../tests/data/accesses.ptx");

#[test]
fn accesses_count_their_transactions() {
    use crate::{Access, Transactions as T};
    let counted = counted(ACCESSES.as_bytes(), true, None).unwrap();
    let found: Vec<_> = counted.accesses.iter().map(|a| (a.class, a.transactions)).collect();
    // Of generic addresses, which may be of any memory, nothing is counted.
    let want = [
        (Class::LoadGlobal, T::Counter(0)),
        (Class::LoadGlobal, T::Counter(1)),
        (Class::LoadGlobal, T::OneAWarp),
        (Class::StoreLocal, T::Counter(2)),
        (Class::StoreLocal, T::Counter(3)),
        (Class::StoreLocal, T::Counter(4)),
        (Class::LoadLocal, T::OneAWarp),
        (Class::LoadLocal, T::Counter(5)),
        (Class::AtomicLocal, T::Counter(6)),
        (Class::AtomicGlobal, T::Counter(7)),
        (Class::StoreGlobal, T::Counter(8)),
    ];
    assert_eq!(found, want);
    assert_eq!(counted.accesses[0], Access { block: 0, class: want[0].0, transactions: want[0].1 });
    // One block with two counters, nine more, and those of reuse.
    assert_eq!(counted.words(), counted.shards * (11 + reuse::WORDS));
    let text = String::from_utf8(counted.code).unwrap();
    for line in [
        "add.s64 %clscope_k, %rd4, -4;",
        // Lanes that a guard keeps from an access touch nothing.
        "selp.b64 %clscope_k, %clscope_k, -1, %p1;",
        "selp.b64 %clscope_k, -1, %clscope_k, %p1;",
        "setp.eq.and.u32 %clscope_p, %clscope_m, 0, !%p1;",
        // Addresses of 32 bits, and words of 8 and 16 bytes in two and four passes.
        "cvt.u64.u32 %clscope_k, %r4;",
        "and.b32 %clscope_b, %clscope_b, 15;",
        "and.b32 %clscope_b, %clscope_b, 7;",
        "@%clscope_p add.u32 %clscope_x4, %clscope_x4, %clscope_n;",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(read(&text).unwrap().unknown.len(), 0, "what is added is known");
    let plain = super::counted(ACCESSES.as_bytes(), false, None).unwrap();
    assert!(plain.accesses.is_empty() && plain.words() == plain.shards * 2);
}

#[test]
fn older_devices_and_versions_count_fewer_transactions() {
    let of = |from: &str, to: &str| {
        let counted = counted(ACCESSES.replace(from, to).as_bytes(), true, None).unwrap();
        let mut classes: Vec<_> = counted.accesses.iter().map(|a| a.class).collect();
        classes.dedup();
        classes
    };
    let global = [Class::LoadGlobal, Class::AtomicGlobal, Class::StoreGlobal];
    assert_eq!(of("sm_90", "sm_75"), global);
    assert_eq!(of(".version 8.4", ".version 6.4"), global);
    assert_eq!(of("sm_90", "sm_61"), []);
    assert_eq!(of("sm_90", "unheard"), []);
    assert_eq!(of(".version 8.4", ".version 6.1"), []);
    assert!(of("sm_90", "sm_90a").contains(&Class::AtomicLocal));
}

#[test]
fn registers_of_no_known_size_make_a_class_unknown() {
    use crate::Transactions as T;
    let text =
        ACCESSES.replace(".reg .b64 	%rd<9>", ".reg .b64 	%rd1, %rd2, %rd3, %rd4, %rd5, %rd6");
    assert_ne!(text, ACCESSES);
    let counted = counted(text.as_bytes(), true, None).unwrap();
    assert_eq!(counted.accesses[0].transactions, T::Unknown);
}

#[test]
fn functions_with_many_accesses_add_at_once() {
    let mut body = String::new();
    for n in 0..80 {
        body.push_str(&format!("@%p1 ld.global.u32 %r1, [%rd1+{}];\n", 4 * n));
        body.push_str(&format!("st.shared.u32 [%rd1+{}], %r1;\n", 4 * n));
    }
    let text = format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.entry k()\n{{\n.reg .pred %p<2>;\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n{body}ret;\n}}\n"
    );
    let counted = counted(text.as_bytes(), true, None).unwrap();
    let text = String::from_utf8(counted.code).unwrap();
    assert!(!text.contains("%clscope_x0"));
    // Behind the block's two counters.
    assert!(text.contains("@%clscope_p red.global.add.u64 [%clscope_a+16], %clscope_v;"), "{text}");
    // Pieces and lines of each load.
    assert_eq!(text.matches("vote.sync.ballot.b32").count(), 160);
}

#[test]
fn addresses_reach_as_far_as_what_they_are_computed_from() {
    let text = "\
.version 8.4
.target sm_90, texmode_independent
.address_size 64
.entry count(.param .u64 .ptr .global .align 4 count_param_0, .param .u32 count_param_1, .param .u32 count_param_2)
{
	.reg .pred %p<2>;
	.reg .b32 %r<20>;
	.reg .b64 %rd<20>;
	.shared .align 4 .b8 bins[1024];
	ld.param.u64 %rd1, [count_param_0];
	ld.param.u32 %r1, [count_param_1];
	cvta.to.global.u64 %rd2, %rd1;
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mov.b32 %r15, %envreg3;
	add.s32 %r16, %r4, %r15;
	mad.lo.s32 %r5, %r2, %r3, %r16;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd2, %rd3;
	red.global.add.u32 [%rd4+8], 1;
$again:
	mad.lo.s32 %r5, %r5, 1664525, 1013904223;
	shr.u32 %r6, %r5, 26;
	mul.wide.u32 %rd5, %r6, 4;
	add.s64 %rd6, %rd2, %rd5;
	red.global.add.u32 [%rd6], 1;
	and.b32 %r7, %r5, 255;
	shl.b32 %r8, %r7, 2;
	mov.u32 %r9, bins;
	add.s32 %r10, %r9, %r8;
	atom.shared.add.u32 %r11, [%r10], 1;
	mul.wide.u32 %rd7, %r5, 4;
	add.s64 %rd8, %rd2, %rd7;
	red.global.add.u32 [%rd8], 1;
	add.s32 %r12, %r1, -1;
	and.b32 %r13, %r5, %r12;
	mul.wide.s32 %rd9, %r13, 4;
	add.s64 %rd10, %rd2, %rd9;
	ld.global.u8 %r14, [%rd10];
	mul.wide.u32 %rd11, %r14, 4;
	add.s64 %rd12, %rd2, %rd11;
	red.global.add.u32 [%rd12], 1;
	setp.lt.u32 %p1, %r5, %r1;
	@%p1 bra $again;
	ret;
}
";
    let read = read(text).unwrap();
    assert_eq!(read.arguments("count"), Some([0, 1].into()));
    assert_eq!(read.in_place("count"), [0].into());
    let all = read.blocks.iter().flat_map(|b| &b.instructions);
    let reach: Vec<_> =
        all.filter(|i| i.class.memory().is_some()).map(|i| i.reach.unwrap()).collect();
    // One word that nobody knows; 64 words; 256 of a group; anywhere, in two ways; a byte's bins.
    assert_eq!(reach, [4, 256, 1024, u64::MAX, u64::MAX, 1024]);
}

#[test]
fn atomics_that_nobody_reads_count_words_once_and_others_each_lane() {
    let tallies = |line: &str| {
        let text = format!(
            ".version 7.8\n.target sm_90\n.address_size 64\n.entry k()\n{{\n.reg .b32 %r<9>;\n{line}\nret;\n}}\n"
        );
        layout(&text).unwrap().functions[0].accesses[0].tallies
    };
    assert!(tallies("atom.shared.add.u32 %r1, [%r2], 1;"));
    assert!(tallies("atom.shared.add.u32 _, [%r2], 1;"));
    assert!(tallies("red.shared.add.u32 [%r2], 1;"));
    for line in [
        "atom.shared.add.u32 %r1, [%r2], %r3;",
        "atom.shared.add.u32 %r1, [%r2], 2;",
        "atom.shared.add.u32 %r1, [%r2], 1;\nadd.u32 %r4, %r1, 3;",
        "atom.shared.add.u64 %rd1, [%r2], 1;",
        "atom.shared.max.u32 %r1, [%r2], 1;",
        "red.global.add.u32 [%rd2], 1;",
    ] {
        assert!(!tallies(line), "{line}");
    }
}

/// Each atomic on global memory counts turns once, wherever counters are kept; loads count none.
#[test]
fn atomics_on_global_memory_count_turns() {
    let turns = |line: &str, target: &str| {
        let text = format!(
            ".version 7.8\n.target {target}\n.address_size 64\n.entry k()\n{{\n.reg .pred %p<2>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n{line}\nret;\n}}\n"
        );
        let counted = counted(text.as_bytes(), true, None).unwrap();
        String::from_utf8(counted.code).unwrap().matches("redux.sync.max.u32").count()
    };
    let of_passes = turns("ld.global.u32 %r1, [%rd1];", "sm_90");
    for line in
        ["red.global.add.u32 [%rd1], %r1;", "@!%p1 atom.global.cas.b32 %r2, [%rd1+4], %r1, %r3;"]
    {
        assert_eq!(turns(line, "sm_90"), 1, "{line}");
        assert_eq!(turns(&format!("{line}\nld.global.u32 %r1, [%rd1];"), "sm_90"), 1 + of_passes);
        assert_eq!(turns(line, "sm_75"), 0, "{line}");
    }
}

/// A copy for one kernel has the code of no other, and counts it as a copy of all does.
#[test]
fn a_copy_for_one_kernel_has_no_other() {
    let both = format!(
        "{BLOCKS}\n.entry other()\n{{\n.reg .b32 %r<2>;\nadd.u32 %r1, %r1, 77;\nret;\n}}\n"
    );
    let of = |only| counted(both.as_bytes(), true, only).unwrap();
    let name = of(None).program.functions.iter().find(|f| f.kernel).unwrap().name.clone();
    let one = of(Some(&name));
    let text = String::from_utf8(one.code.clone()).unwrap();
    assert!(text.contains(".entry other()") && !text.contains("77"), "{text}");
    let code = of(Some("other")).code;
    assert!(String::from_utf8(code).unwrap().contains("77"));
    let without = |of: Counted| Counted { code: Vec::new(), ..of };
    assert_eq!(without(one), without(of(None)));
    let again = layout(&text).unwrap();
    assert_eq!(again.functions.len(), of(None).program.functions.len() + 1);
}

#[test]
fn instructions_that_the_device_lacks_are_several() {
    let steps = |line: &str| {
        let text = format!(
            ".version 7.8\n.target sm_90\n.address_size 64\n.entry k()\n{{\n{line};\nret;\n}}\n"
        );
        read(&text).unwrap().blocks[0].instructions[0].steps
    };
    assert_eq!(steps("rsqrt.approx.f32 %f1, %f2"), 4);
    assert_eq!(steps("rsqrt.approx.ftz.f32 %f1, %f2"), 1);
    assert_eq!(steps("fma.rn.f32 %f1, %f2, %f3, %f4"), 1);
    assert!(steps("div.rn.f64 %fd1, %fd2, %fd3") > steps("div.full.f32 %f1, %f2, %f3"));
    assert!(steps("rem.u64 %rd1, %rd2, %rd3") > steps("rem.u32 %r1, %r2, %r3"));
    assert_eq!(steps("mul.lo.s64 %rd1, %rd2, %rd3"), 4);
    assert_eq!((steps("mov.f64 %fd1, 0d3FF921FB54442D18"), steps("mov.f32 %f1, %f2")), (2, 1));
}

/// A kernel of these lines, with a pointer in `%rd1`, a number in `%r1` and its own number in `%r2`.
fn of_lines(lines: &str) -> crate::Data {
    let text = format!(
        ".version 7.8\n.target sm_90\n.address_size 64\n.const .align 4 .b8 table[16];\n\
         .shared .align 4 .b8 own[64];\n.entry k(.param .u64 k_param_0, .param .u32 k_param_1)\n{{\n\
         .reg .b32 %r<9>;\nld.param.u64 %rd1, [k_param_0];\nld.param.u32 %r1, [k_param_1];\n\
         mov.u32 %r2, %tid.x;\nmov.u32 %r3, own;\n{lines}\n$end:\nret;\n}}\n"
    );
    read(&text).unwrap().data("k")
}

#[test]
fn what_follows_from_loaded_values_is_known_and_what_does_not_is_not_suspected() {
    let of = |lines: &str| {
        let data = of_lines(lines);
        (data.blocks, data.addresses)
    };
    // Neither: geometry and arguments; values that are only computed; a table of the program's own.
    for lines in [
        "setp.lt.u32 %p1, %r2, %r1;\n@%p1 bra $end;\nld.global.f32 %f1, [%rd1];\nst.global.f32 [%rd1+4], %f1;",
        "ld.global.u32 %r4, [%rd1];\nsetp.lt.u32 %p1, %r4, %r1;\nselp.b32 %r5, %r4, %r1, %p1;\nst.global.u32 [%rd1], %r5;",
        "st.shared.u32 [%r3], %r2;\nbar.sync 0;\nld.shared.u32 %r4, [%r3+4];\nsetp.lt.u32 %p1, %r4, 3;\n@%p1 bra $end;",
        "ld.const.u32 %r4, [table+4];\nsetp.lt.u32 %p1, %r4, 3;\n@%p1 bra $end;",
    ] {
        assert_eq!(of(lines), (false, false), "{lines}");
    }
    // Addresses.
    for lines in [
        "ld.global.u32 %r4, [%rd1];\nmad.wide.u32 %rd2, %r4, 4, %rd1;\nld.global.u32 %r5, [%rd2];",
        "atom.global.add.u32 %r4, [%rd1], 1;\nmad.wide.u32 %rd2, %r4, 4, %rd1;\nst.global.u32 [%rd2], %r2;",
        "ld.global.u32 %r4, [%rd1];\nsetp.lt.u32 %p1, %r4, %r1;\n@%p1 st.global.u32 [%rd1+8], %r2;",
    ] {
        assert_eq!(of(lines), (false, true), "{lines}");
    }
    // Blocks: by way of other registers, of local and of private memory, of atomics, of textures, of
    // results of calls, of a guard, of what changes from run to run.
    for lines in [
        "ld.global.u32 %r4, [%rd1];\nadd.u32 %r5, %r4, %r1;\nsetp.lt.u32 %p1, %r5, 3;\n@%p1 bra $end;",
        "ld.global.u32 %r4, [%rd1];\nst.shared.u32 [%r3], %r4;\nbar.sync 0;\nld.shared.u32 %r5, [%r3+4];\nsetp.lt.u32 %p1, %r5, 3;\n@!%p1 bra $end;",
        "ld.global.u32 %r4, [%rd1];\nst.local.u32 [%r6], %r4;\nld.local.u32 %r5, [%r6];\nsetp.lt.u32 %p1, %r5, 3;\n@%p1 exit;",
        "atom.shared.add.u32 %r4, [%r3], 1;\nsetp.lt.u32 %p1, %r4, 3;\n@%p1 bra $end;",
        "red.shared.add.u32 [%r3], 1;\nld.shared.u32 %r4, [%r3];\nsetp.lt.u32 %p1, %r4, 3;\n@%p1 bra $end;",
        "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];\nsetp.lt.f32 %p1, %f4, 0f3F800000;\n@%p1 bra $end;",
        "ld.param.u32 %r4, [retval0+0];\nsetp.lt.u32 %p1, %r4, 3;\n@%p1 bra $end;",
        "ld.global.u32 %r4, [%rd1];\nsetp.lt.u32 %p1, %r4, 3;\n@%p1 mov.u32 %r5, 1;\nsetp.eq.u32 %p2, %r5, 1;\n@%p2 bra $end;",
        "mov.u32 %r4, %clock;\nsetp.lt.u32 %p1, %r4, 3;\n@%p1 bra $end;",
        "ld.u32 %r4, [%rd1];\nsetp.lt.u32 %p1, %r4, 3;\n@%p1 bra $end;",
        "ld.global.u32 %r4, [%rd1];\nbrx.idx %r4, $labels;",
        "ld.global.u32 %r4, [%rd1];\nsetp.ne.u32 p, %r4, 0;\n@p bra $end;",
        "ld.global.u32 %r4, [%rd1];\nsetp.ne.u32 %p1, %r4, 0;\nbar.red.or.pred %p2, 0, %p1;\n@%p2 bra $end;",
        "cp.async.ca.shared.global [%r3], [%rd1], 16;\nld.shared.u32 %r4, [%r3];\nsetp.ne.u32 %p1, %r4, 0;\n@%p1 bra $end;",
        "ld.global.u32 %r4, [%rd1];\nadd.cc.u32 %r5, %r4, %r1;\naddc.u32 %r6, 0, 0;\nsetp.ne.u32 %p1, %r6, 0;\n@%p1 bra $end;",
        "call (retval0), my_vprintf2, (param0);",
    ] {
        assert!(of(lines).0, "{lines}");
    }
    let all = crate::Data { blocks: true, addresses: true };
    assert_eq!(read(MODULE_WITHOUT_K).unwrap().data("k"), all);
}

const MODULE_WITHOUT_K: &str =
    ".version 7.8\n.target sm_90\n.address_size 64\n.entry other()\n{\nret;\n}\n";

/// Chains of operations on bits become as few instructions as three words each allow: the columns
/// and the rows of Keccak, and what is read elsewhere, too, stays.
#[test]
fn operations_on_bits_are_joined() {
    let steps = |lines: &str| {
        let text = format!(
            ".version 7.8\n.target sm_90\n.address_size 64\n.entry k()\n{{\n{lines}\nst.global.u32 [%rd9], %r9;\nret;\n}}\n"
        );
        let of = read(&text).unwrap();
        let all = of.blocks[0].instructions.iter();
        all.filter(|i| i.class == crate::Class::IntLogic).map(|i| i.steps).sum::<u32>()
    };
    let column = "xor.b32 %r5, %r0, %r1;\nxor.b32 %r6, %r5, %r2;\nxor.b32 %r7, %r6, %r3;\nxor.b32 %r9, %r7, %r4;";
    assert_eq!(steps(column), 2);
    let row = "not.b32 %r5, %r1;\nand.b32 %r6, %r5, %r2;\nxor.b32 %r9, %r6, %r0;";
    assert_eq!(steps(row), 1);
    let shared = "xor.b32 %r5, %r0, %r1;\nxor.b32 %r9, %r5, %r2;\nadd.u32 %r8, %r5, 1;";
    assert_eq!(steps(shared), 2);
    let guarded = "@%p1 xor.b32 %r5, %r0, %r1;\nxor.b32 %r9, %r5, %r2;";
    assert_eq!(steps(guarded), 2);
    let four = "xor.b32 %r5, %r0, %r1;\nxor.b32 %r6, %r2, %r3;\nxor.b32 %r9, %r5, %r6;";
    assert_eq!(steps(four), 2);
    let shifts = "shl.b32 %r5, %r0, 13;\nxor.b32 %r9, %r5, %r0;";
    assert_eq!(steps(shifts), 2);
}

#[test]
fn images_whose_coordinates_were_loaded_and_loads_that_stay_are_known() {
    let of = |line: &str| {
        let text = format!(
            ".version 7.8\n.target sm_90\n.address_size 64\n.entry k(.param .u64 k_param_0)\n{{\n\
             mov.u32 %r1, %tid.x;\nld.global.u32 %r2, [%rd1];\n{line}\nret;\n}}\n"
        );
        read(&text).unwrap().blocks[0].instructions[2].clone()
    };
    let read = |at: &str| {
        of(&format!("tex.2d.v4.f32.s32 {{%f1, %f2, %f3, %f4}}, [k_param_0, S, {{{at}, %r1}}];"))
    };
    let gathers = (read("%r1").gathers, read("%r2").gathers);
    assert_eq!(gathers, (None, Some(crate::Follows::Computed)));
    assert_eq!(read("%r1").steps, 1);
    let cube = "tex.3d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [k_param_0, S, {%f5, %f6, %f7, %f7}];";
    assert_eq!(of(cube).steps, 2);
    assert!(of("ld.global.f32 %f1, [%rd2];").pinned && of("ld.f32 %f1, [%rd2];").pinned);
    assert!(!of("ld.global.nc.f32 %f1, [%rd2];").pinned && !of("ld.shared.f32 %f1, [%r3];").pinned);
}
