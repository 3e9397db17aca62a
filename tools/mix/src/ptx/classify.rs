//! What an instruction of PTX is for: its class, its FLOP, the bytes that it moves, and the
//! registers that it needs and writes. Source: PTX ISA, section 9.

use crate::class::{Class, Float, Instruction, Precision};
use std::collections::BTreeMap;

/// The type that an instruction works on: the last that its name says.
#[derive(Clone, Copy)]
enum Type {
    Integer(u32),
    Float(Precision, u32),
    Predicate,
}

fn type_of(part: &str) -> Option<Type> {
    Some(match part {
        "pred" => Type::Predicate,
        "f16" | "bf16" => Type::Float(Precision::Half, 1),
        "f16x2" | "bf16x2" => Type::Float(Precision::Half, 2),
        "f32" | "tf32" => Type::Float(Precision::Single, 1),
        "f32x2" => Type::Float(Precision::Single, 2),
        "f64" => Type::Float(Precision::Double, 1),
        _ => {
            let (kind, bits) = part.split_at_checked(1)?;
            let bits: u32 = bits.parse().ok()?;
            if !matches!(kind, "s" | "u" | "b") || !matches!(bits, 8 | 16 | 32 | 64 | 128) {
                return None;
            }
            Type::Integer(bits)
        }
    })
}

fn bytes_of(of: Option<Type>) -> u32 {
    match of {
        None | Some(Type::Predicate) => 0,
        Some(Type::Integer(bits)) => bits / 8,
        Some(Type::Float(Precision::Half, lanes)) => 2 * lanes,
        Some(Type::Float(Precision::Single, lanes)) => 4 * lanes,
        Some(Type::Float(Precision::Double, lanes)) => 8 * lanes,
    }
}

/// Which memory an access goes to.
fn space(opcode: &str) -> &str {
    opcode
        .split('.')
        .map(|part| part.split("::").next().unwrap_or(part))
        .find(|part| matches!(*part, "global" | "shared" | "local" | "const" | "param"))
        .unwrap_or("")
}

/// What is known of the instruction, `None` if nothing.
pub(super) fn instruction<'t>(
    opcode: &'t str,
    operands: &'t str,
    registers: &mut BTreeMap<&'t str, u32>,
) -> Option<Instruction> {
    let base = opcode.split('.').next().unwrap_or_default();
    let (class, flop, bytes) = meaning(base, opcode)?;
    let pinned = matches!(class, Class::LoadGlobal | Class::LoadGeneric) && !opcode.contains(".nc");
    let steps = steps(base, opcode);
    let mut out = Instruction { class, flop, bytes, steps, pinned, ..Instruction::new(class) };
    let writes_nothing = class.stores()
        || matches!(class, Class::Branch | Class::Barrier | Class::Fence)
        || base == "red";
    // The first operand is what is written: one register, or several in braces or joined by `|`.
    let end = match operands.trim_start().strip_prefix('{') {
        Some(_) => operands.find('}').map_or(operands.len(), |at| at + 1),
        None => operands.find(',').unwrap_or(operands.len()),
    };
    let (first, rest) = operands.split_at_checked(end).unwrap_or((operands, ""));
    let (written, read) = if writes_nothing { ("", operands) } else { (first, rest) };
    for (text, to) in [(written, &mut out.writes), (read, &mut out.reads)] {
        for name in text.split(|c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c))) {
            // Special registers have a value at any time, and symbols are addresses.
            if name.starts_with('%') && name.ends_with(|c: char| c.is_ascii_digit()) {
                let next = registers.len() as u32;
                to.push(*registers.entry(name).or_insert(next));
            }
        }
    }
    Some(out)
}

fn meaning(base: &str, opcode: &str) -> Option<(Class, u32, u32)> {
    use Class as C;
    let of = opcode.split('.').skip(1).filter_map(type_of).last();
    let sized = |class: Class| match of {
        Some(Type::Integer(64)) => class.long(),
        _ => class,
    };
    let plain = |class| Some((sized(class), 0, 0));
    let float = |kind: Float, otherwise: Class| match of {
        Some(Type::Float(precision, lanes)) => {
            Some((C::float(precision, kind), kind.flop() * lanes, 0))
        }
        _ => plain(otherwise),
    };
    match base {
        "add" | "sub" => float(Float::Plain, C::IntArith),
        "addc" | "subc" | "sad" => plain(C::IntArith),
        "mul" => float(Float::Plain, C::IntMul),
        "fma" | "mad" => float(Float::Fused, C::IntMul),
        "mul24" | "mad24" | "madc" | "dp4a" | "dp2a" => plain(C::IntMul),
        "min" | "max" | "abs" | "neg" => float(Float::Other, C::IntArith),
        "copysign" => float(Float::Other, C::Unknown),
        "div" => float(Float::Division, C::IntDiv),
        "rcp" => float(Float::Division, C::Unknown),
        "rem" => plain(C::IntDiv),
        "sqrt" | "rsqrt" | "sin" | "cos" | "lg2" | "ex2" | "tanh" => {
            float(Float::Special, C::Unknown)
        }
        // Of 64 bits it is a part of an address, which takes what an addition of it does.
        "shl" => Some((C::IntLogic, 0, 0)),
        "and" | "or" | "xor" | "not" | "cnot" | "shr" | "shf" | "lop3" | "bfe" | "bfi" | "prmt"
        | "bmsk" | "szext" => plain(C::IntLogic),
        "popc" | "clz" | "bfind" | "brev" | "fns" => plain(C::IntBits),
        "setp" | "set" | "slct" | "testp" => match of {
            Some(Type::Float(..)) => plain(C::FloatCompare),
            _ => plain(C::IntCompare),
        },
        "selp" => plain(C::IntCompare),
        "ld" | "ldu" | "st" | "atom" | "red" => access(base, opcode, of),
        "tex" | "tld4" | "suld" => plain(C::LoadImage),
        "sust" | "sured" => plain(C::StoreImage),
        "bra" | "brx" => plain(C::Branch),
        "call" | "ret" | "exit" | "trap" | "brkpt" => plain(C::Call),
        "bar" | "barrier" => plain(C::Barrier),
        "membar" | "fence" => plain(C::Fence),
        "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => plain(C::Exchange),
        "wmma" | "mma" | "wgmma" => plain(C::Matrix),
        // A float on either side takes a unit of its own; integers are only made wider or narrower.
        "cvt" => {
            let mut types = opcode.split('.').skip(1).filter_map(type_of);
            let is_float = types.any(|of| matches!(of, Type::Float(..)));
            plain(if is_float { C::Convert } else { C::Move })
        }
        "mov" | "cvta" | "isspacep" | "prefetch" | "prefetchu" | "pmevent" | "nanosleep"
        | "txq" | "suq" | "istypep" | "alloca" | "stacksave" | "stackrestore" | "mapa"
        | "getctarank" | "discard" | "applypriority" | "griddepcontrol" | "setmaxnreg" => {
            plain(C::Move)
        }
        _ => None,
    }
}

/// Instructions of the device that one of PTX becomes: those of which ptxas 12.9 makes several for
/// `sm_90`, on the way that usual operands take; of images turns of their unit (H200). Additions of 64 bits are mostly parts of addresses,
/// which it merges with others.
fn steps(base: &str, opcode: &str) -> u32 {
    let has = |part: &str| opcode.split('.').any(|own| own == part);
    let is_long = has("s64") || has("u64");
    match base {
        // Without `ftz` small numbers are scaled in front and behind.
        "rsqrt" | "sqrt" | "lg2" | "ex2" if has("approx") && has("f32") => {
            if has("ftz") {
                1
            } else {
                4
            }
        }
        "sin" | "cos" => 2,
        "sqrt" | "rsqrt" if has("f64") => 17,
        "sqrt" => 12,
        "div" if has("full") => 7,
        "div" if has("approx") => 4,
        "rcp" if has("approx") && has("f32") => {
            if has("ftz") {
                1
            } else {
                6
            }
        }
        "div" if has("f64") => 20,
        "rcp" if has("f64") => 14,
        "div" | "rcp" if has("f32") => 12,
        "min" | "max" if has("f64") => 7,
        "div" | "rem" if is_long => 70,
        "div" | "rem" => 20,
        "mul" if is_long && has("hi") => 7,
        "mul" | "mad" if is_long && has("lo") => 4,
        // By halves.
        "mov" if has("f64") => 2,
        "selp" if has("f64") || has("b64") => 2,
        "clz" | "bfe" => 2,
        // The unit of images takes two turns, whether it interpolates or not.
        "tex" | "tld4" if has("3d") => 2,
        _ => 1,
    }
}

fn access(base: &str, opcode: &str, of: Option<Type>) -> Option<(Class, u32, u32)> {
    use Class as C;
    let wide = opcode.split('.').find_map(|part| match part {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    });
    let bytes = bytes_of(of) * wide.unwrap_or(1);
    let class = match (base, space(opcode)) {
        ("ld" | "ldu", "global") => C::LoadGlobal,
        ("ld" | "ldu", "shared") => C::LoadLocal,
        ("ld" | "ldu", "local") => C::LoadPrivate,
        ("ld" | "ldu", "const") => C::LoadConstant,
        // Arguments are operands of the device's instructions, and results of calls registers.
        ("ld" | "ldu", "param") => return Some((C::Move, 0, 0)),
        ("ld" | "ldu", _) => C::LoadGeneric,
        ("st", "global") => C::StoreGlobal,
        ("st", "shared") => C::StoreLocal,
        ("st", "local") => C::StorePrivate,
        // Arguments of calls, which are registers in the end.
        ("st", "param") => return Some((C::Move, 0, 0)),
        ("st", _) => C::StoreGeneric,
        (_, "shared") => C::AtomicLocal,
        _ => C::AtomicGlobal,
    };
    Some((class, 0, bytes))
}
