//! What an instruction of SPIR-V is for. An instruction on vectors counts once, with the FLOP of
//! all of its components. Source: SPIR-V specification, section 3.49; OpenCL extended instruction
//! set, section 2.

use super::{Type, Word, op};
use crate::class::{Class, Float, Instruction, Precision};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Facts<'a> {
    pub types: &'a BTreeMap<u32, Type>,
    /// Types of values.
    pub values: &'a BTreeMap<u32, u32>,
    /// Ids of the OpenCL instruction set.
    pub standard: &'a BTreeSet<u32>,
    /// Results of conversions that saturate.
    pub saturated: &'a BTreeSet<u32>,
    /// Numbers by their ids.
    pub constants: &'a BTreeMap<u32, u32>,
}

/// Storage classes of pointers.
pub(super) mod storage {
    pub const UNIFORM_CONSTANT: u32 = 0;
    pub const INPUT: u32 = 1;
    pub const WORKGROUP: u32 = 4;
    pub const CROSS_WORKGROUP: u32 = 5;
    pub const FUNCTION: u32 = 7;
    pub const GENERIC: u32 = 8;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Float(Precision),
    Other,
}

impl Facts<'_> {
    /// Kind and components of a type.
    fn kind(&self, of: u32) -> (Kind, u32) {
        match self.types.get(&of) {
            Some(Type::Float(16)) => (Kind::Float(Precision::Half), 1),
            Some(Type::Float(32)) => (Kind::Float(Precision::Single), 1),
            Some(Type::Float(64)) => (Kind::Float(Precision::Double), 1),
            // A vector's components are no vectors.
            Some(Type::Vector(of, lanes)) => match self.types.get(of) {
                Some(Type::Vector(..)) => (Kind::Other, 1),
                _ => (self.kind(*of).0, *lanes),
            },
            _ => (Kind::Other, 1),
        }
    }

    fn is_half(&self, of: u32) -> bool {
        self.kind(of).0 == Kind::Float(Precision::Half)
    }

    /// Whether it is an integer of 64 bits, or a vector of such.
    fn is_long(&self, of: u32) -> bool {
        match self.types.get(&of) {
            Some(Type::Integer(64)) => true,
            Some(Type::Vector(of, _)) => matches!(self.types.get(of), Some(Type::Integer(64))),
            _ => false,
        }
    }

    fn bytes(&self, of: u32) -> u32 {
        match self.types.get(&of) {
            Some(Type::Integer(bits) | Type::Float(bits)) => bits.div_ceil(8),
            Some(Type::Vector(of, lanes)) => match self.types.get(of) {
                Some(Type::Integer(bits) | Type::Float(bits)) => {
                    // Three components take the room of four, and are moved as three.
                    bits.div_ceil(8).saturating_mul(*lanes)
                }
                _ => 0,
            },
            Some(Type::Pointer(..)) => 8,
            _ => 0,
        }
    }

    /// Bytes of what lies in memory.
    ///
    /// # Errors
    /// Of structures and arrays, whose layout is not read.
    fn moved(&self, word: Word<'_>, of: u32) -> Result<u32, String> {
        match self.types.get(&of) {
            Some(Type::Aggregate) => Err(format!("opcode {} on a structure", word.opcode)),
            _ => Ok(self.bytes(of)),
        }
    }

    /// What a pointer points to.
    fn pointee(&self, pointer: u32) -> u32 {
        match self.types.get(&self.type_of(pointer)) {
            Some(Type::Pointer(_, to)) => *to,
            _ => 0,
        }
    }

    fn type_of(&self, value: u32) -> u32 {
        self.values.get(&value).copied().unwrap_or(0)
    }

    fn storage(&self, pointer: u32) -> u32 {
        match self.types.get(&self.type_of(pointer)) {
            Some(Type::Pointer(storage, _)) => *storage,
            _ => storage::GENERIC,
        }
    }
}

/// What a word counts as, each with the pointer of its access: nothing, one instruction, or one for
/// each thing that it does. An error names what is not known of it.
pub(super) fn instructions(
    word: Word<'_>,
    facts: &Facts<'_>,
) -> Result<Vec<(Instruction, Option<u32>)>, String> {
    let access = |class, bytes, pointer| {
        let writes = Vec::new();
        let more = Instruction { class, bytes, writes, ..made((class, 0, bytes), word) };
        (more, Some(word.operand(pointer)))
    };
    let stored = |pointer: usize| -> Result<_, String> {
        let at = word.operand(pointer);
        Ok(access(store_to(facts.storage(at)), facts.moved(word, facts.pointee(at))?, pointer))
    };
    if let op::COPY | op::COPY_SIZED = word.opcode {
        let [to, from] = [0, 1].map(|n| facts.storage(word.operand(n)));
        let bytes = match word.opcode {
            op::COPY => facts.moved(word, facts.pointee(word.operand(0)))?,
            _ => *facts
                .constants
                .get(&word.operand(2))
                .ok_or("a copy whose size is computed".to_owned())?,
        };
        return Ok(vec![access(load_from(from), bytes, 1), access(store_to(to), bytes, 0)]);
    }
    let Some(first) = instruction(word, facts)? else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    if word.opcode == op::EXT_INST && facts.standard.contains(&word.operand(2)) {
        match word.operand(3) {
            // What is loaded or stored in half precision is converted.
            173..=181 => {
                let class = Class::ConvertHalf;
                out.push((Instruction { class, bytes: 0, ..first.clone() }, None));
            }
            // fract, frexp, lgamma_r, modf, sincos; remquo: their second result is stored.
            30 | 31 | 36 | 45 | 58 => out.push(stored(5)?),
            52 => out.push(stored(6)?),
            _ => {}
        }
    }
    let pointer = op::pointer(word.opcode).map(|n| word.operand(n));
    out.push((first, pointer));
    Ok(out)
}

/// What is known of an instruction: nothing to count, or not even that.
fn instruction(word: Word<'_>, facts: &Facts<'_>) -> Result<Option<Instruction>, String> {
    let of = word.operand(0);
    let (kind, lanes) = facts.kind(of);
    let float = |what: Float, otherwise: Class| match kind {
        Kind::Float(precision) => {
            (Class::float(precision, what), what.flop().saturating_mul(lanes), 0)
        }
        Kind::Other if facts.is_long(of) => (otherwise.long(), 0, 0),
        Kind::Other => (otherwise, 0, 0),
    };
    let plain = |class: Class| (class, 0, 0);
    use Class as C;
    let (class, flop, bytes) = match word.opcode {
        // Names, lines, merges, lifetimes, variables, phis: nothing that is executed.
        0 | 8 | 59 | 245..=247 | 256 | 257 | 317 | 1 => return Ok(None),
        op::EXT_INST if facts.standard.contains(&word.operand(2)) => {
            let number = word.operand(3);
            match vector_access(number, word, facts).or_else(|| standard(number, &float)) {
                Some(found) => found,
                None => return Err(format!("OpenCL.std {number}")),
            }
        }
        // Of other sets: debug information.
        op::EXT_INST => return Ok(None),
        op::FUNCTION_CALL | op::RETURN | op::RETURN_VALUE | 252 | 255 => plain(C::Call),
        op::LOAD => {
            // Built-in variables: ids and sizes.
            if facts.storage(word.operand(2)) == storage::INPUT {
                return Ok(Some(made(plain(C::Move), word)));
            }
            (load_from(facts.storage(word.operand(2))), 0, facts.moved(word, of)?)
        }
        op::STORE => {
            let bytes = facts.moved(word, facts.type_of(word.operand(1)))?;
            (store_to(facts.storage(word.operand(0))), 0, bytes)
        }
        60 | 65..=70 | 77..=84 | 86 | 100..=107 | 117 | 120..=124 => plain(C::Move),
        87..=98 => plain(C::LoadImage),
        99 => plain(C::StoreImage),
        // Integers that are made wider or narrower; all else has a float on one side.
        113 | 114 | 118 | 119 => plain(C::Move),
        109..=112 if facts.saturated.contains(&word.operand(1)) => plain(C::ConvertSaturated),
        115 if [of, facts.type_of(word.operand(2))].iter().any(|of| facts.is_half(*of)) => {
            plain(C::ConvertHalf)
        }
        109..=112 | 115 | 116 => plain(C::Convert),
        126 | 127 => float(Float::Other, C::IntArith),
        128..=131 | 149 | 150 => float(Float::Plain, C::IntArith),
        132 | 133 | 151 | 152 | 142 => float(Float::Plain, C::IntMul),
        134..=139 => float(Float::Division, C::IntDiv),
        140 | 141 => float(Float::Division, C::IntDiv),
        // A dot product: as many multiplications as components, one addition less.
        148 => {
            let (kind, lanes) = facts.kind(facts.type_of(word.operand(2)));
            match kind {
                Kind::Float(precision) => {
                    (C::float(precision, Float::Fused), (2 * lanes).saturating_sub(1), 0)
                }
                Kind::Other => plain(C::IntMul),
            }
        }
        154 | 155 | 164..=179 => plain(C::IntCompare),
        156..=163 | 180..=191 => plain(C::FloatCompare),
        204 | 205 => plain(C::IntBits),
        194..=203 => float(Float::Other, C::IntLogic),
        224 => plain(C::Barrier),
        225 => plain(C::Fence),
        227 | 229..=242 => atomic(facts.storage(word.operand(2)), facts.bytes(of)),
        228 => {
            let stored = facts.bytes(facts.type_of(word.operand(3)));
            atomic(facts.storage(word.operand(0)), stored)
        }
        249..=251 => plain(C::Branch),
        // A group does it once, however many items it has.
        259 => return Err("async_work_group_copy, whose bytes are in no figure".to_owned()),
        260..=271 | 333..=366 => plain(C::Exchange),
        other => return Err(format!("opcode {other}")),
    };
    Ok(Some(made((class, flop, bytes), word)))
}

fn made((class, flop, bytes): (Class, u32, u32), word: Word<'_>) -> Instruction {
    let result = op::has_result(word.opcode);
    Instruction {
        flop,
        bytes,
        writes: if result { vec![word.operand(1)] } else { Vec::new() },
        // Literals among the operands name nothing that a block writes, or too much: no harm.
        reads: word.operands.get(if result { 2 } else { 0 }..).unwrap_or_default().to_vec(),
        ..Instruction::new(class)
    }
}

fn atomic(of: u32, bytes: u32) -> (Class, u32, u32) {
    let class = if of == storage::WORKGROUP { Class::AtomicLocal } else { Class::AtomicGlobal };
    (class, 0, bytes)
}

const fn load_from(of: u32) -> Class {
    match of {
        storage::CROSS_WORKGROUP => Class::LoadGlobal,
        storage::WORKGROUP => Class::LoadLocal,
        storage::FUNCTION => Class::LoadPrivate,
        storage::UNIFORM_CONSTANT => Class::LoadConstant,
        _ => Class::LoadGeneric,
    }
}

const fn store_to(of: u32) -> Class {
    match of {
        storage::CROSS_WORKGROUP => Class::StoreGlobal,
        storage::WORKGROUP => Class::StoreLocal,
        storage::FUNCTION => Class::StorePrivate,
        _ => Class::StoreGeneric,
    }
}

/// Instructions of OpenCL.std that read or write vectors at any address, or numbers in half precision
/// (OpenCL extended instruction set, section 2.7, vector data load and store). Operands: the result's
/// type and id, the set, the number; of loads offset and pointer, of stores data, offset and pointer.
fn vector_access(number: u32, word: Word<'_>, facts: &Facts<'_>) -> Option<(Class, u32, u32)> {
    let halves = |of: u32| facts.kind(of).1.saturating_mul(2);
    let (result, data) = (word.operand(0), facts.type_of(word.operand(4)));
    let load = |bytes| (load_from(facts.storage(word.operand(5))), 0, bytes);
    let store = |bytes| (store_to(facts.storage(word.operand(6))), 0, bytes);
    Some(match number {
        // vloadn, vstoren.
        171 => load(facts.bytes(result)),
        172 => store(facts.bytes(data)),
        // vload_half, vload_halfn, vloada_halfn.
        173 | 174 | 179 => load(halves(result)),
        // vstore_half, vstore_halfn, vstorea_halfn, and those with a rounding.
        175..=178 | 180 | 181 => store(halves(data)),
        _ => return None,
    })
}

/// Instructions of the OpenCL set by number.
fn standard(
    number: u32,
    float: &dyn Fn(Float, Class) -> (Class, u32, u32),
) -> Option<(Class, u32, u32)> {
    use Class as C;
    Some(match number {
        // fma, mad.
        26 | 42 => float(Float::Fused, C::Unknown),
        // ceil, copysign, fabs, fdim, floor, fmax, fmin, ldexp, maxmag, minmag, rint, round, trunc,
        // fclamp, fmax_common, fmin_common, step, sign.
        12 | 13 | 23 | 24 | 25 | 27 | 28 | 34 | 43 | 44 | 53 | 55 | 66 | 95 | 97 | 98 | 101
        | 103 => float(Float::Other, C::Unknown),
        // fmod, remainder, half_divide, half_recip, native_divide, native_recip.
        29 | 51 | 68 | 76 | 82 | 90 => float(Float::Division, C::Unknown),
        0..=94 | 96 | 99 | 100 | 102 | 104..=110 => float(Float::Special, C::Unknown),
        // mad_hi, mad_sat, mul_hi, mad24, mul24 and their unsigned kin.
        153..=155 | 160 | 167..=170 | 203 | 204 => (C::IntMul, 0, 0),
        // clz, ctz, popcount.
        151 | 152 | 166 => (C::IntBits, 0, 0),
        // rotate, upsample, bitselect.
        161 | 164 | 165 | 186 => (C::IntLogic, 0, 0),
        141..=150 | 156..=159 | 162 | 163 | 201 | 202 => (C::IntArith, 0, 0),
        182 | 183 => (C::Move, 0, 0),
        187 => (C::IntCompare, 0, 0),
        185 => (C::Move, 0, 0),
        184 => (C::Call, 0, 0),
        _ => return None,
    })
}
