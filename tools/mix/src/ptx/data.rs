//! Whether what a function executes depends on what memory holds, or on what is another thing in each
//! run: on values that are loaded, and on what is computed of them. Errs to the side of what does.
//! Source: PTX ISA, sections 9.7 (instructions) and 10 (special registers).

use super::reach::{argument, split};
use super::scan::{Body, Guard, Statement};
use crate::program::Data;
use std::collections::HashSet;

/// What of a function comes from memory: values of registers, and what the function itself stores to
/// local and to private memory.
#[derive(Default)]
pub(super) struct Flow<'t> {
    registers: HashSet<&'t str>,
    local: bool,
    private: bool,
    /// Names that anything writes.
    written: HashSet<&'t str>,
}

/// What carries from one addition to the next.
const CARRY: &str = "%cc";

/// Names in operands: registers, which inline text may call anything, and symbols, which nothing writes.
fn registers(of: &str) -> impl Iterator<Item = &str> {
    let names = of.split(|c: char| !(c.is_ascii_alphanumeric() || "_$%".contains(c)));
    names.filter(|name| *name != "_" && name.starts_with(|c: char| !c.is_ascii_digit()))
}

/// Registers that are the same in every run of the same launch are those of its geometry.
fn is_chance(register: &str) -> bool {
    ["%clock", "%globaltimer", "%smid", "%nsmid", "%warpid", "%nwarpid", "%gridid", "%pm"]
        .iter()
        .any(|name| register.starts_with(name))
}

impl<'t> Flow<'t> {
    /// Follows the values of a function.
    pub fn new(body: &Body<'t>) -> Self {
        let mut out = Self::default();
        for statement in &body.statements {
            if let Statement::Instruction { operands, .. } = statement {
                out.written.extend(registers(split(operands).0));
            }
        }
        while body.statements.iter().fold(false, |news, of| news | out.step(body, of)) {}
        out
    }

    /// Whether an operand comes from memory, or is another one in each run.
    pub fn has(&self, of: &str) -> bool {
        registers(of).any(|name| self.registers.contains(name) || is_chance(name))
    }

    /// Whether a guard comes from memory.
    fn guards(&self, guard: &Option<Guard<'t>>) -> bool {
        guard.as_ref().is_some_and(|guard| self.registers.contains(guard.predicate))
    }

    /// Adds what one statement does: whether that was news.
    fn step(&mut self, body: &Body<'t>, statement: &Statement<'t>) -> bool {
        let Statement::Instruction { guard, opcode, operands, .. } = statement else {
            return false;
        };
        let is_guarded = self.guards(guard);
        let mut parts = opcode.split('.');
        let base = parts.next().unwrap_or_default();
        let spaces: Vec<&str> = parts.map(|of| of.split("::").next().unwrap_or(of)).collect();
        let has_space = |name: &str| spaces.contains(&name);
        let (first, rest) = split(operands);
        match base {
            "st" | "red" | "atom" => {
                let of = is_guarded || base != "st" || self.has(operands);
                let is_named = ["global", "shared", "local", "param"].iter().any(|s| has_space(s));
                let news = [
                    (of && (has_space("shared") || !is_named), &mut self.local),
                    (of && base == "st" && (has_space("local") || !is_named), &mut self.private),
                ]
                .into_iter()
                .fold(false, |news, (of, known)| news | (of && !std::mem::replace(known, true)));
                // What an atomic returns depends on which came first.
                return news | (base == "atom" && self.registers_of(first));
            }
            "bra" | "brx" | "ret" | "exit" => return false,
            // Of other instructions that change memory it is not known which.
            _ if first.trim_start().starts_with('[') && !ELSEWHERE.contains(&base) => {
                let had = (self.local, self.private);
                (self.local, self.private) = (true, true);
                return had != (true, true);
            }
            _ => {}
        }
        let from_memory = match base {
            "ld" | "ldu" if has_space("param") => {
                // Of a call's result; arguments of other functions are not followed.
                !body.entry || argument(rest, &format!("{}_param_", body.name)).is_none()
            }
            "ld" | "ldu" if has_space("shared") => self.local || self.has(rest),
            "ld" | "ldu" if has_space("local") => self.private || self.has(rest),
            // The program's own tables.
            "ld" | "ldu"
                if has_space("const") && !registers(rest).any(|n| self.written.contains(n)) =>
            {
                false
            }
            "ld" | "ldu" | "tex" | "tld4" | "suld" | "ldmatrix" | "activemask" => true,
            "addc" | "subc" | "madc" if self.registers.contains(CARRY) => true,
            // What is asked about an image, or called, reads no memory by its brackets; all else does.
            _ if rest.contains('[') && !matches!(base, "txq" | "suq" | "call") => true,
            _ => is_guarded || self.has(rest),
        };
        let carries = from_memory && has_space("cc") && self.registers.insert(CARRY);
        carries | (from_memory && self.registers_of(first))
    }

    /// What is written comes from memory: whether that is news.
    fn registers_of(&mut self, written: &'t str) -> bool {
        registers(written).fold(false, |news, name| news | self.registers.insert(name))
    }

    /// What the function does otherwise where memory holds something else.
    pub fn data(&self, body: &Body<'t>) -> Data {
        let mut out = Data::default();
        for statement in &body.statements {
            let Statement::Instruction { guard, opcode, operands, .. } = statement else {
                continue;
            };
            let is_guarded = self.guards(guard);
            let base = opcode.split('.').next().unwrap_or_default();
            match base {
                "bra" | "ret" | "exit" | "trap" => out.blocks |= is_guarded,
                "brx" => out.blocks |= is_guarded || self.has(operands),
                // What is called is not followed.
                "call" => out.blocks |= !registers(operands).any(|name| name == "vprintf"),
                // How images lie in memory is not counted.
                "txq" | "suq" | "tex" | "tld4" | "suld" | "sust" | "sured" => {}
                _ if operands.contains('[') => {
                    let of = address(operands);
                    out.addresses |= is_guarded || of.is_none_or(|of| self.has(of));
                }
                _ => {}
            }
        }
        out
    }
}

/// What begins with an address, and changes neither local nor private memory.
const ELSEWHERE: [&str; 6] = ["prefetch", "prefetchu", "discard", "applypriority", "sust", "sured"];

/// What stands in the brackets of an access.
pub(super) fn address(operands: &str) -> Option<&str> {
    Some(operands.split_once('[')?.1.split_once(']')?.0)
}
