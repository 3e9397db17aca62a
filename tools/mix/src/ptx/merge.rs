//! Operations on bits that the device makes together: one instruction (LOP3) computes any function of
//! three words. Source: PTX ISA, `lop3`; ptxas joins chains of `and`, `or`, `xor` and `not` so.

use crate::program::Block;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Words that one instruction reads.
const INPUTS: usize = 3;

/// Whether an instruction is such an operation.
pub(super) fn is_bitwise(opcode: &str) -> bool {
    let base = opcode.split('.').next().unwrap_or_default();
    matches!(base, "and" | "or" | "xor" | "not" | "lop3") && !opcode.ends_with(".pred")
}

/// Makes parts of others those operations whose result one other alone reads, in the same block, as
/// long as that reads no more than three words. `bitwise`: by instruction, of one block; `used`: how
/// often each register is read in the function.
pub(super) fn merge(block: &mut Block, bitwise: &[bool], used: &HashMap<u32, u32>) {
    let mut made: BTreeMap<u32, (usize, BTreeSet<u32>)> = BTreeMap::new();
    for (at, is_bitwise) in bitwise.iter().enumerate() {
        let Some(instruction) = block.instructions.get(at).cloned() else { continue };
        if !is_bitwise {
            instruction.writes.iter().for_each(|register| drop(made.remove(register)));
            continue;
        }
        let mut inputs: BTreeSet<u32> = instruction.reads.iter().copied().collect();
        for register in &instruction.reads {
            if used.get(register) != Some(&1) {
                continue;
            }
            let Some((part, of)) = made.get(register) else { continue };
            let own = inputs.iter().filter(|input| *input != register);
            let all: BTreeSet<u32> = own.chain(of).copied().collect();
            if all.len() <= INPUTS
                && let Some(part) = block.instructions.get_mut(*part)
            {
                part.steps = 0;
                inputs = all;
            }
        }
        // One that some items leave out is a part of nothing.
        match instruction.writes[..] {
            [register] if !instruction.predicated => drop(made.insert(register, (at, inputs))),
            _ => instruction.writes.iter().for_each(|register| drop(made.remove(register))),
        }
    }
}
