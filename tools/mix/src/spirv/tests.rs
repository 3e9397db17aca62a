//! SPIR-V as basic blocks and classes, and the copies that count: on modules of `tests/data`.

use super::*;
use crate::{Class, Counts, Precision, Space};
use proptest::prelude::*;

const LOOP: &[u8] = include_bytes!("../../tests/data/loop.spv");

fn kernel<'p>(program: &'p Program, name: &str) -> &'p Function {
    program.functions.iter().find(|f| f.kernel && f.name == name).unwrap()
}

/// The function of that name that does the work: entry points of this compiler only call it.
fn inner<'p>(program: &'p Program, name: &str) -> &'p Function {
    program.functions.iter().find(|f| !f.kernel && f.name == name).unwrap()
}

#[test]
fn functions_and_blocks_are_found() {
    let program = read(LOOP).unwrap();
    assert_eq!((program.version.as_str(), program.newer), ("1.0", false));
    let kernels: Vec<_> =
        program.functions.iter().filter(|f| f.kernel).map(|f| f.name.as_str()).collect();
    assert_eq!(kernels, ["collatz", "axpy", "reduce"]);
    assert!(program.unknown.is_empty(), "{:?}", program.unknown);
    // One in each of these, none elsewhere.
    for name in ["collatz", "reduce"] {
        let blocks = inner(&program, name).blocks.clone();
        assert_eq!(program.loops.keys().filter(|at| blocks.contains(at)).count(), 1, "{name}");
    }
    assert_eq!(program.loops.len(), 2);
    let axpy = inner(&program, "axpy");
    let block = &program.blocks[axpy.blocks.start];
    let fma = block.instructions.iter().find(|i| i.class == Class::SingleFma).unwrap();
    assert_eq!(fma.flop, 8, "of four components");
    let bytes: u32 = block
        .instructions
        .iter()
        .filter(|i| i.class.memory() == Some(Space::Global))
        .map(|i| i.bytes)
        .sum();
    assert_eq!(bytes, 48);
}

/// Of `vectors.cl`, whose comments say what an item moves.
#[test]
fn vectors_at_any_address_and_half_precision_move_their_bytes() {
    let program = read(include_bytes!("../../tests/data/vectors.spv")).unwrap();
    assert!(program.unknown.is_empty(), "{:?}", program.unknown);
    let moved = |space, stores| {
        let of = program.blocks.iter().flat_map(|b| &b.instructions);
        let of = of.filter(|i| i.class.memory() == Some(space) && i.class.stores() == stores);
        of.map(|i| i.bytes).sum::<u32>()
    };
    assert_eq!((moved(Space::Global, false), moved(Space::Global, true)), (13, 26));
    assert_eq!((moved(Space::Local, false), moved(Space::Local, true)), (8, 0));
}

/// Of `data.cl`: what no kernel called `fixed` executes depends on what memory holds, and all of the
/// others do, whatever the compiler made of them.
#[test]
fn what_depends_on_memory_is_known() {
    let optimized = read(include_bytes!("../../tests/data/data.spv")).unwrap();
    let plain = read(include_bytes!("../../tests/data/data_unoptimized.spv")).unwrap();
    for (program, how) in [(&optimized, "-O2"), (&plain, "-O0")] {
        let kernels: std::collections::BTreeSet<&str> =
            program.functions.iter().filter(|f| f.kernel).map(|f| &*f.name).collect();
        assert_eq!(kernels.len(), 22);
        for kernel in kernels {
            let data = program.data(kernel);
            // Unoptimized, a choice between values is a branch.
            let is_branch = how == "-O0" && kernel == "fixed_chosen";
            assert_eq!(data.blocks, kernel.starts_with("loaded") || is_branch, "{kernel}, {how}");
        }
        for (kernel, depends) in [("fixed_loop", false), ("fixed_lookup", true)] {
            assert_eq!(program.data(kernel).addresses, depends, "{kernel}, {how}");
        }
    }
}

/// A kernel that branches on local memory, which one instruction has stored to: constants, through a
/// pointer into it. Without that instruction nothing depends on memory.
#[test]
fn instructions_that_are_not_known_may_write_memory() {
    let depends = |stores: Option<u16>| {
        let mut words = vec![0x0723_0203, 0x0001_0000, 0, 20, 0];
        let mut put = |opcode: u16, operands: &[u32]| {
            words.push((operands.len() as u32 + 1) << 16 | u32::from(opcode));
            words.extend(operands);
        };
        put(op::ENTRY_POINT, &[6, 8, u32::from(b'k')]);
        put(op::TYPE_FIRST, &[1]);
        put(op::TYPE_INT, &[2, 32, 0]);
        put(20, &[3]);
        put(op::TYPE_POINTER, &[4, classify::storage::WORKGROUP, 2]);
        put(op::TYPE_FUNCTION, &[5, 1]);
        put(op::CONSTANT, &[2, 6, 0]);
        put(op::CONSTANT, &[2, 15, 1]);
        put(op::VARIABLE, &[4, 7, classify::storage::WORKGROUP]);
        put(op::FUNCTION, &[1, 8, 0, 5]);
        put(op::LABEL, &[9]);
        put(op::IN_BOUNDS_PTR_ACCESS_CHAIN, &[4, 14, 7, 6]);
        if let Some(opcode) = stores {
            put(opcode, &[14, 6]);
        }
        put(op::LOAD, &[2, 10, 7]);
        put(176, &[3, 11, 15, 10]);
        put(op::BRANCH_CONDITIONAL, &[11, 12, 13]);
        for label in [12, 13] {
            put(op::LABEL, &[label]);
            put(op::RETURN, &[]);
        }
        put(op::FUNCTION_END, &[]);
        let module: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        read(&module).unwrap().data("k").blocks
    };
    // OpSubgroupBlockWriteINTEL, and one of no extension.
    assert_eq!(
        [None, Some(op::STORE), Some(5576), Some(9999)].map(depends),
        [false, false, true, true]
    );
}

/// Of `copies.cl`, whose comments say what an item moves: what is copied as a whole and what comes
/// as a second result counts as loaded and stored, and what is not known of an instruction is said.
#[test]
fn structures_and_second_results_move_their_bytes() {
    let program = read(include_bytes!("../../tests/data/copies.spv")).unwrap();
    assert_eq!(program.unknown, ["async_work_group_copy, whose bytes are in no figure"]);
    let moved = |name: &str| {
        let own = program.functions.iter().filter(|f| f.name == name && !f.kernel);
        let blocks = own.flat_map(|f| &program.blocks[f.blocks.clone()]);
        let all: Vec<_> = blocks.flat_map(|block| &block.instructions).collect();
        [(Space::Global, false), (Space::Global, true), (Space::Local, false)].map(|of| {
            let of =
                all.iter().filter(|i| (i.class.memory(), i.class.stores()) == (Some(of.0), of.1));
            of.map(|i| i.bytes).sum::<u32>()
        })
    };
    assert_eq!(moved("copy"), [32, 32, 0]);
    assert_eq!(moved("parts"), [4, 8, 0]);
    assert_eq!(moved("at_once"), [0, 4, 4]);
    let copy = program.functions.iter().find(|f| f.name == "copy").unwrap();
    let all = program.blocks[copy.blocks.clone()].iter().flat_map(|block| &block.instructions);
    let arguments = all.filter_map(|i| Some((i.argument?, i.class)));
    assert_eq!(arguments.collect::<Vec<_>>(), [(0, Class::LoadGlobal), (1, Class::StoreGlobal)]);
}

/// Of `gathers.cl`: a loop that goes on from a loaded number has its words side by side, both halves of a
/// pair are one access, and what all items add to their addresses scatters nothing.
#[test]
fn addresses_that_follow_from_loaded_values_are_known() {
    let program = read(include_bytes!("../../tests/data/gathers.spv")).unwrap();
    let of = |name: &str| {
        let own = program.functions.iter().filter(|f| f.name == name);
        let blocks = own.flat_map(|f| &program.blocks[f.blocks.clone()]);
        blocks.flat_map(|block| &block.instructions).collect::<Vec<_>>()
    };
    let into = |name: &str| {
        let found = of(name).into_iter().filter(|i| i.gathers.is_some());
        found.map(|i| (i.argument.unwrap(), i.gathers.unwrap())).collect::<Vec<_>>()
    };
    for (name, argument) in [("lookup", 1), ("sparse", 3), ("follow", 0), ("pairs", 1)] {
        assert_eq!(into(name), [(argument, crate::Follows::Computed)], "{name}");
    }
    assert_eq!(into("search"), [(1, crate::Follows::Chosen)]);
    for name in ["in_order", "one_for_all", "saturate"] {
        assert_eq!(into(name), [], "{name}");
    }
    let saturated = of("saturate").into_iter().filter(|i| i.class == Class::ConvertSaturated);
    assert_eq!(saturated.count(), 1);
    let vectors = read(include_bytes!("../../tests/data/vectors.spv")).unwrap();
    let all = vectors.blocks.iter().flat_map(|block| &block.instructions);
    assert_eq!(all.filter(|i| i.class == Class::ConvertHalf).count(), 4);
}

#[test]
fn a_mix_is_what_the_blocks_hold() {
    let program = read(LOOP).unwrap();
    let mut counts = Counts { threads: vec![0; program.blocks.len()], ..Counts::default() };
    for function in [kernel(&program, "axpy"), inner(&program, "axpy")] {
        counts.threads[function.blocks.start] = 1000;
    }
    let mix = program.mix(&counts);
    assert_eq!((mix.flop(Precision::Single), mix.bytes(Space::Global)), (8000, 48_000));
    assert_eq!(program.entered("axpy", &counts), Some(1000));
}

#[test]
fn a_module_that_counts_can_be_read_and_has_one_argument_more() {
    let counted = counted(LOOP).unwrap();
    let (before, after) = (Module::read(LOOP).unwrap(), Module::read(&counted.code).unwrap());
    let (old, new) = (before.layout().unwrap(), after.layout().unwrap());
    assert_eq!(counted.words(), 64 * old.program.blocks.len());
    assert_eq!(new.program.blocks.len(), old.program.blocks.len());
    assert!(new.capabilities.contains(&11) && new.capabilities.contains(&12));
    for (old, new) in old.functions.iter().zip(&new.functions) {
        let arguments = |layout: &Layout, f: &Places| match &layout.types[&f.kind] {
            Type::Function(of) => of.len(),
            other => panic!("{other:?}"),
        };
        let (had, has) =
            (arguments(&before.layout().unwrap(), old), arguments(&after.layout().unwrap(), new));
        assert_eq!(has, had + usize::from(!old.blocks.is_empty()));
    }
    // Every entry point names what tells groups apart, once.
    for (_, _, named) in &new.entries {
        for builtin in [24, 26] {
            let times = named.iter().filter(|id| **id == new.builtins[&builtin]).count();
            assert_eq!(times, 1, "{builtin}");
        }
    }
    // What was there is there still, in its order, but for heads and types of functions and calls.
    let kept: Vec<u16> = before.instructions().map(|w| w.unwrap().opcode).collect();
    let mut all = after.instructions().map(|w| w.unwrap().opcode);
    assert!(kept.iter().all(|opcode| all.any(|o| o == *opcode)));
    // No promise stays that the counters break: `step` was pure.
    for word in after.instructions().flatten().filter(|w| w.opcode == op::FUNCTION) {
        assert_eq!(word.operand(2) & 12, 0);
    }
    // Ids stay below the bound, and none is given twice.
    let bound = after.words[3];
    let mut seen = BTreeSet::new();
    for word in after.instructions().flatten().filter(|w| op::has_result(w.opcode)) {
        assert!(word.operand(1) < bound && seen.insert(word.operand(1)));
    }
}

#[test]
fn modules_of_the_other_byte_order_are_read() {
    let swapped: Vec<u8> =
        LOOP.chunks(4).flat_map(|c| c.iter().rev().copied().collect::<Vec<_>>()).collect();
    assert_eq!(read(&swapped), read(LOOP));
}

#[test]
fn what_is_no_module_is_refused() {
    assert!(!is_spirv(b"") && !is_spirv(b"kernel") && is_spirv(LOOP));
    for (bytes, words) in [
        (&LOOP[..3], "neither"),
        (&LOOP[..8], "cut off"),
        (&LOOP[..LOOP.len() - 4], "no end"),
        (&LOOP[..20], "no code"),
    ] {
        let error = read(bytes).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// The module with the blocks behind the first of each function in another order.
fn reordered(bytes: &[u8], order: &mut dyn FnMut(&mut Vec<Vec<u32>>)) -> Vec<u8> {
    let module = Module::read(bytes).unwrap();
    let mut words = module.words[..HEADER].to_vec();
    let mut blocks: Vec<Vec<u32>> = Vec::new();
    for word in module.instructions().map(Result::unwrap) {
        let own = &module.words[word.at..word.end()];
        if word.opcode == op::FUNCTION_END {
            let mut rest = blocks.split_off(blocks.len().min(1));
            order(&mut rest);
            words.extend(blocks.drain(..).chain(rest).flatten());
        } else if word.opcode == op::LABEL {
            blocks.push(Vec::new());
        }
        blocks.last_mut().unwrap_or(&mut words).extend(own);
    }
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

proptest! {
    /// Where a block stands changes nothing: values may be defined behind their uses.
    #[test]
    fn the_order_of_blocks_changes_nothing(with in proptest::collection::vec(any::<usize>(), 64)) {
        let other = reordered(LOOP, &mut |blocks| {
            for i in (1..blocks.len()).rev() {
                blocks.swap(i, with[i % with.len()] % (i + 1));
            }
        });
        let blocks = |bytes: &[u8]| {
            let program = read(bytes).unwrap();
            let mut all: Vec<String> = program
                .functions
                .iter()
                .flat_map(|f| f.blocks.clone().map(|b| format!("{} {:?}", f.name, program.blocks[b])))
                .collect();
            all.sort();
            (all, program.unknown, program.loops.len())
        };
        prop_assert_eq!(blocks(LOOP), blocks(&other));
    }

    #[test]
    fn no_damage_panics(at in 0..LOOP.len(), byte: u8, cut in 0..LOOP.len()) {
        let mut damaged = LOOP.to_vec();
        damaged[at] = byte;
        let _ = counted(&damaged);
        damaged.truncate(cut);
        let _ = counted(&damaged);
    }

    #[test]
    fn no_words_panic(words in proptest::collection::vec(any::<u32>(), 0..60)) {
        let mut bytes = LOOP[..20].to_vec();
        // Short instructions, so that some of them are well-formed.
        bytes.extend(words.iter().flat_map(|w| (w & 0x0003_01ff).to_le_bytes()));
        let _ = counted(&bytes);
    }
}

/// Numbers of components, bits and words as large as a word holds.
#[test]
fn no_large_number_panics() {
    for at in (3..LOOP.len()).step_by(4) {
        let mut damaged = LOOP.to_vec();
        damaged[at] |= 0x80;
        let _ = counted(&damaged);
    }
}

#[test]
fn arguments_that_the_code_reads_are_known() {
    let program = read(LOOP).unwrap();
    let all = |n: u32| Some((0..n).collect());
    assert_eq!(program.arguments("axpy"), all(3));
    assert_eq!(program.arguments("nobody"), None);
    // The entry point hands all over.
    assert!(kernel(&program, "axpy").arguments.len() == 3);
}
