//! How far the addresses of a function's accesses reach, by the statements that compute them. Source:
//! PTX ISA, sections 9.7 (instructions) and 10 (special registers).

use super::scan::Statement;
use crate::reach::{DEPTH, Value};
use std::collections::{BTreeSet, HashMap};

/// Most work-items of a group along one dimension.
const GROUP: u64 = 1024;

/// The statements of a function that write registers.
pub(super) struct Reaches<'t> {
    writes: HashMap<&'t str, Vec<(&'t str, &'t str)>>,
    known: HashMap<&'t str, Value>,
    /// Its arguments are those of the launch, which all work-items share.
    kernel: bool,
}

/// The first operand, and the others.
pub(super) fn split(operands: &str) -> (&str, &str) {
    let end = match operands.trim_start().strip_prefix('{') {
        Some(_) => operands.find('}').map_or(operands.len(), |at| at + 1),
        None => operands.find(',').unwrap_or(operands.len()),
    };
    operands.split_at_checked(end).unwrap_or((operands, ""))
}

/// Sign and bits of the integers in an instruction's name, as it names them.
fn types(opcode: &str) -> impl Iterator<Item = (bool, u32)> {
    opcode.split('.').skip(1).filter_map(|part| {
        let (kind, bits) = part.split_at_checked(1)?;
        let bits: u32 = bits.parse().ok().filter(|bits| matches!(bits, 8 | 16 | 32 | 64))?;
        matches!(kind, "s" | "u" | "b").then_some((kind == "s", bits))
    })
}

/// The index N of an argument that is named in operands, as `NAME_param_N`; `begin` is all of it but
/// the number.
pub(super) fn argument(operands: &str, begin: &str) -> Option<u32> {
    let (_, rest) = operands.split_once(begin)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest.get(..digits)?.parse().ok()
}

/// The register in an access's brackets.
fn base(operands: &str) -> Option<&str> {
    let (_, rest) = operands.split_once('[')?;
    let (inside, _) = rest.split_once(']')?;
    Some(inside.split_once('+').map_or(inside, |(base, _)| base).trim())
}

impl<'t> Reaches<'t> {
    /// Arguments that an access's address is made of by sums: one of them is where its memory
    /// begins. Names of arguments begin so.
    pub fn arguments(&self, operands: &'t str, begin: &str) -> BTreeSet<u32> {
        let (mut out, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut next: Vec<&str> = base(operands).into_iter().collect();
        while let Some(register) = next.pop() {
            if !seen.insert(register) {
                continue;
            }
            for (opcode, rest) in self.writes.get(register).into_iter().flatten() {
                let of = opcode.split('.').next().unwrap_or_default();
                let operands = rest.split(',').map(str::trim).filter(|o| o.starts_with('%'));
                match of {
                    "ld" => out.extend(argument(rest, begin)),
                    "mov" | "cvta" | "add" | "sub" | "selp" => next.extend(operands),
                    // What is multiplied is an index.
                    "mad" => next.extend(operands.skip(2)),
                    _ => {}
                }
            }
        }
        out
    }

    pub fn new(statements: &[Statement<'t>], kernel: bool) -> Self {
        let mut writes: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
        for statement in statements {
            let Statement::Instruction { opcode, operands, .. } = statement else { continue };
            let (first, rest) = split(operands);
            for name in first.split(|c: char| "{},| \t".contains(c)).filter(|n| n.starts_with('%'))
            {
                writes.entry(name).or_default().push((opcode, rest));
            }
        }
        Self { writes, known: HashMap::new(), kernel }
    }

    /// Bytes that an access can touch; `u64::MAX`: anywhere. `None` where its operands have no
    /// address.
    pub fn reach(&mut self, operands: &'t str, bytes: u32) -> Option<u64> {
        Some(self.operand(base(operands)?, 64, DEPTH).reach(bytes))
    }

    fn operand(&mut self, of: &'t str, bits: u32, depth: u32) -> Value {
        match of {
            "%tid.x" | "%tid.y" | "%tid.z" => Value::Within(0, GROUP - 1),
            "%laneid" => Value::Within(0, 31),
            _ if ["%ntid", "%nctaid", "%envreg"].iter().any(|name| of.starts_with(name)) => {
                Value::Around(0)
            }
            _ if of.starts_with('%') => self.register(of, bits, depth),
            _ if of.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                let digits = of.trim_end_matches(['U', 'u']);
                let number = match digits.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).map(u64::cast_signed).ok(),
                    None => digits.parse().ok(),
                };
                number.map_or(Value::of_bits(bits), |n| Value::number(n, bits))
            }
            // A symbol's address.
            _ => Value::Around(0),
        }
    }

    fn register(&mut self, of: &'t str, bits: u32, depth: u32) -> Value {
        if let Some(known) = self.known.get(of) {
            return *known;
        }
        let writes = match self.writes.get(of) {
            Some(writes) if depth > 0 => writes.clone(),
            _ => return Value::of_bits(bits),
        };
        // What is computed of itself may be anything.
        self.known.insert(of, Value::of_bits(bits));
        let each = writes.into_iter().map(|(opcode, rest)| self.result(opcode, rest, depth - 1));
        let value = each.reduce(Value::either).unwrap_or(Value::of_bits(bits));
        self.known.insert(of, value);
        value
    }

    fn result(&mut self, opcode: &'t str, rest: &'t str, depth: u32) -> Value {
        let base = opcode.split('.').next().unwrap_or_default();
        let (signed, of) = types(opcode).last().unwrap_or((false, 64));
        let wide = opcode.contains(".wide");
        let bits = if wide { 2 * of } else { of };
        let operands: Vec<&str> =
            rest.split(',').map(str::trim).filter(|o| !o.is_empty()).collect();
        let is_argument = self.kernel && opcode.contains(".param");
        let mut at = |n: usize, bits| match operands.get(n) {
            Some(operand) => self.operand(operand, bits, depth),
            None => Value::of_bits(bits),
        };
        if opcode.contains(".hi") {
            return Value::of_bits(bits);
        }
        // A product of twice the bits has a sign.
        let product = |a: Value, b: Value| match wide {
            true => a.resized(of, signed, bits).times(b.resized(of, signed, bits), bits),
            false => a.times(b, bits),
        };
        match base {
            "mov" | "cvta" => at(0, bits),
            "cvt" => {
                let mut both = types(opcode);
                match (both.next(), both.next()) {
                    (Some((_, bits)), Some((signed, from))) => {
                        at(0, from).resized(from, signed, bits)
                    }
                    _ => Value::of_bits(bits),
                }
            }
            "ld" if is_argument => Value::Around(0),
            "add" => at(0, of).plus(at(1, of), bits),
            "sub" => at(0, of).minus(at(1, of), bits),
            "mul" => product(at(0, of), at(1, of)),
            "mad" => product(at(0, of), at(1, of)).plus(at(2, bits), bits),
            "and" => at(0, of).and(at(1, of), bits),
            "or" | "xor" => at(0, of).or(at(1, of), bits),
            "shl" => at(0, of).left(at(1, 32), bits),
            "shr" if signed => at(0, of).right_signed(at(1, 32), bits),
            "shr" => at(0, of).right(at(1, 32), bits),
            "bfe" if !signed => match at(2, 32) {
                Value::Within(_, length) if length < 32 => Value::of_bits(length as u32),
                _ => Value::of_bits(bits),
            },
            "rem" if !signed => at(0, of).rest(at(1, of), bits),
            "selp" => at(0, of).either(at(1, of)),
            _ => Value::of_bits(bits),
        }
    }
}
