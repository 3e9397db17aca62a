//! How far the addresses of accesses reach, by the values that they are computed from. Source: SPIR-V
//! specification, section 3.49.

use super::{Type, Word, op};
use crate::reach::{DEPTH, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What values are computed from.
pub(super) struct Reaches<'m> {
    /// Instructions by the value that they give.
    pub made: BTreeMap<u32, Word<'m>>,
    /// Arguments of kernels, which all work-items of a launch share.
    pub shared: BTreeSet<u32>,
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
        // Three components take the room of four.
        Type::Vector(of, lanes) => size_of(types, *of)? * u64::from(lanes.next_power_of_two()),
        Type::Pointer(..) => 8,
        Type::Function(_) => return None,
    })
}

impl<'m> Reaches<'m> {
    /// Bytes that an access at a pointer can touch; `u64::MAX`: anywhere.
    pub fn reach(&mut self, types: &BTreeMap<u32, Type>, pointer: u32, bytes: u32) -> u64 {
        self.value(types, pointer, DEPTH).reach(bytes)
    }

    fn value(&mut self, types: &BTreeMap<u32, Type>, id: u32, depth: u32) -> Value {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        if self.shared.contains(&id) {
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
            169 => at(3).either(at(4)),
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
