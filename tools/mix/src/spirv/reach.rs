//! How far the addresses of accesses reach, into which argument's memory, and whether they follow from
//! what was loaded, by the values that they are computed from. Source: SPIR-V specification, section 3.49.

use super::{Type, Word, op};
use crate::Follows;
use crate::reach::{DEPTH, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What values are computed from.
pub(super) struct Reaches<'m> {
    /// Instructions by the value that they give.
    pub made: BTreeMap<u32, Word<'m>>,
    /// Arguments of kernels, which all work-items of a launch share, by their index.
    pub shared: BTreeMap<u32, u32>,
    pub known: BTreeMap<u32, Value>,
}

/// Bits of a value of a type; of what is no number, those of an address.
fn bits_of(types: &BTreeMap<u32, Type>, of: u32) -> u32 {
    match types.get(&of) {
        Some(Type::Integer(bits)) => *bits,
        _ => 64,
    }
}

fn size_of(types: &BTreeMap<u32, Type>, of: u32) -> Option<u64> {
    Some(match types.get(&of)? {
        Type::Integer(bits) | Type::Float(bits) => u64::from(bits.div_ceil(8)),
        // Three components take the room of four; they are no vectors themselves.
        Type::Vector(of, lanes) => match types.get(of)? {
            Type::Integer(bits) | Type::Float(bits) => {
                u64::from(bits.div_ceil(8)) * u64::from(*lanes).next_power_of_two()
            }
            _ => return None,
        },
        Type::Pointer(..) => 8,
        Type::Function(_) | Type::Aggregate => return None,
    })
}

/// Adds to values that were loaded those of a function that follow from them. What a loop steps on lies
/// side by side wherever it begins: of a phi at its head what the turn before leaves counts. `body` has
/// words with their blocks, `turns` heads of loops with the blocks that lead back to them.
pub(super) fn add_followers(
    found: &mut BTreeMap<u32, Follows>,
    body: &[(usize, Word<'_>)],
    labels: &BTreeMap<u32, usize>,
    turns: &BTreeSet<(usize, usize)>,
) {
    let mut is_done = false;
    while !is_done {
        is_done = true;
        for (block, word) in body {
            let inputs = |from: usize| word.operands.get(from..).unwrap_or_default();
            let most = |of: &[u32]| of.iter().filter_map(|id| found.get(id)).max().copied();
            let follows = match word.opcode {
                op::PHI => {
                    let pairs = inputs(2).as_chunks::<2>().0;
                    let is_turn = |parent: &u32| {
                        labels.get(parent).is_some_and(|parent| turns.contains(&(*block, *parent)))
                    };
                    let has_turns = pairs.iter().any(|[_, parent]| is_turn(parent));
                    let own = pairs.iter().filter(|[_, parent]| is_turn(parent) == has_turns);
                    own.filter_map(|[of, _]| found.get(of)).max().copied()
                }
                op::SELECT => {
                    let chosen = most(&[word.operand(2)]).map(|_| Follows::Chosen);
                    most(inputs(3)).max(chosen)
                }
                // What memory holds is loaded, or as private as an index; of functions nothing is known.
                op::LOAD | op::FUNCTION_CALL => None,
                op::EXT_INST => most(inputs(4)),
                _ => most(inputs(2)),
            };
            let before = found.get(&word.operand(1)).copied();
            if let Some(follows) = follows.filter(|_| follows > before) {
                found.insert(word.operand(1), follows);
                is_done = false;
            }
        }
    }
}

impl<'m> Reaches<'m> {
    /// Bytes that an access at a pointer can touch; `u64::MAX`: anywhere.
    pub fn reach(&mut self, types: &BTreeMap<u32, Type>, pointer: u32, bytes: u32) -> u64 {
        self.value(types, pointer, DEPTH).reach(bytes)
    }

    /// The argument whose memory a pointer leads to.
    pub fn argument(&self, pointer: u32) -> Option<u32> {
        let (mut left, mut seen) = (vec![pointer], BTreeSet::new());
        while let Some(id) = left.pop() {
            if let Some(index) = self.shared.get(&id) {
                return Some(*index);
            }
            let Some(word) = self.made.get(&id).filter(|_| seen.insert(id)) else { continue };
            match word.opcode {
                op::PHI => left.extend(word.operands.iter().skip(2).step_by(2)),
                op::SELECT => left.extend([word.operand(3), word.operand(4)]),
                // Numbers of addresses, too.
                opcode if op::is_step(opcode) || matches!(opcode, 117 | 120) => {
                    left.push(word.operand(2));
                }
                _ => {}
            }
        }
        None
    }

    /// What a pointer is the address of, or of a part: a base and an index.
    pub fn element(&self, pointer: u32) -> (u32, u32) {
        match self.made.get(&pointer) {
            Some(word) if matches!(word.opcode, 67 | op::IN_BOUNDS_PTR_ACCESS_CHAIN) => {
                (word.operand(2), word.operand(3))
            }
            _ => (pointer, 0),
        }
    }

    fn value(&mut self, types: &BTreeMap<u32, Type>, id: u32, depth: u32) -> Value {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        if self.shared.contains_key(&id) {
            return Value::Around(0);
        }
        let Some(word) = self.made.get(&id).copied() else { return Value::Any };
        let any = Value::of_bits(bits_of(types, word.operand(0)));
        if depth == 0 {
            return any;
        }
        // What is computed of itself may be anything.
        self.known.insert(id, any);
        let value = self.result(types, word, depth - 1);
        self.known.insert(id, value);
        value
    }

    fn result(&mut self, types: &BTreeMap<u32, Type>, word: Word<'m>, depth: u32) -> Value {
        let bits = bits_of(types, word.operand(0));
        let mut at = |n: usize| self.value(types, word.operand(n), depth);
        match word.opcode {
            op::CONSTANT => {
                let high = if bits > 32 { u64::from(word.operand(3)) << 32 } else { 0 };
                Value::number((high | u64::from(word.operand(2))).cast_signed(), bits)
            }
            // Null.
            46 => Value::number(0, bits),
            op::VARIABLE => Value::Around(0),
            // Copies, casts of pointers and of their numbers.
            83 | 117 | 120..=124 => at(2),
            op::PHI => {
                let values = word.operands.get(2..).unwrap_or_default().as_chunks::<2>().0;
                let each = values.iter().map(|[value, _]| self.value(types, *value, depth));
                each.reduce(Value::either).unwrap_or(Value::Any)
            }
            op::SELECT => at(3).either(at(4)),
            113 | 114 => {
                let from =
                    self.made.get(&word.operand(2)).map_or(64, |w| bits_of(types, w.operand(0)));
                let of = self.value(types, word.operand(2), depth);
                of.resized(from, word.opcode == 114, bits)
            }
            op::IADD => at(2).plus(at(3), bits),
            130 => at(2).minus(at(3), bits),
            132 => at(2).times(at(3), bits),
            137 => at(2).rest(at(3), bits),
            194 => at(2).right(at(3), bits),
            195 => at(2).right_signed(at(3), bits),
            196 => at(2).left(at(3), bits),
            197 | 198 => at(2).or(at(3), bits),
            199 => at(2).and(at(3), bits),
            65..=67 | op::IN_BOUNDS_PTR_ACCESS_CHAIN => self.chain(types, word, depth),
            _ => Value::of_bits(bits),
        }
    }

    /// A pointer into what another one points to: its last index counts what it points to, and those
    /// before are of the first element where they are 0.
    fn chain(&mut self, types: &BTreeMap<u32, Type>, word: Word<'m>, depth: u32) -> Value {
        let Some(Type::Pointer(_, to)) = types.get(&word.operand(0)) else { return Value::Any };
        let Some(size) = size_of(types, *to) else { return Value::Any };
        let base = self.value(types, word.operand(2), depth);
        let Some((last, before)) = word.operands.get(3..).unwrap_or_default().split_last() else {
            return base;
        };
        for index in before {
            if self.value(types, *index, depth) != Value::Within(0, 0) {
                return Value::Any;
            }
        }
        let index = self.value(types, *last, depth);
        base.plus(index.times(Value::Within(size, size), 64), 64)
    }
}
