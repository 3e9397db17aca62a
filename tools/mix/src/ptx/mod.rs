//! PTX: the text that NVIDIA's OpenCL runtime gives as a program's binary. Owns its functions and
//! blocks; refuses what is not PTX with the line at which that shows. What a statement means is
//! known to `classify` alone, so that an instruction of a later version is counted as unknown, not
//! refused.
//!
//! Source of the grammar: NVIDIA, Parallel Thread Execution ISA, sections 4 (syntax), 5 (state
//! spaces, types) and 9 (instructions).

/// Writing to a string cannot fail.
macro_rules! put {
    ($to:expr, $($what:tt)*) => {{ let _ = writeln!($to, $($what)*); }};
}

mod classify;
mod count;
mod data;
mod merge;
mod reach;
pub(crate) mod reuse;
mod scan;
mod transactions;

pub use count::counted;

use crate::class::Space;
use crate::program::{Block, Function, Program, loops};
use crate::{Class, Error, Follows, Instruction};
use scan::{Body, Guard, Statement};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// The newest version that this reader was written for.
pub const NEWEST: (u32, u32) = (9, 0);

/// Whether a program's binary is PTX.
pub fn is_ptx(binary: &[u8]) -> bool {
    text(binary).is_some_and(|text| {
        let mut scanner = scan::Scanner::new(text);
        scanner.skip_blank();
        scanner.rest().starts_with(".version")
    })
}

/// The text of a binary, without the zeros behind it.
pub(crate) fn text(binary: &[u8]) -> Option<&str> {
    let end = binary.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    std::str::from_utf8(&binary[..end]).ok()
}

/// Reads a program.
///
/// # Errors
/// If the text breaks the grammar, or has no code.
pub fn read(text: &str) -> Result<Program, Error> {
    layout(text)?.program.within_limits()
}

/// What the writer of counters needs to know beside the program.
pub(crate) struct Layout<'t> {
    pub program: Program,
    pub version: (u32, u32),
    pub functions: Vec<Places<'t>>,
    /// Of the device that the text is for: the 90 of `sm_90`; 0 where it is not known.
    pub target: u32,
    /// Where declarations of the module may be inserted.
    pub head: usize,
    /// Where functions may be added: behind the last one.
    pub tail: usize,
    pub address_size: u32,
}

/// Places of a function in the text, as offsets in bytes.
pub(crate) struct Places<'t> {
    /// Where counters are declared: behind the opening brace.
    pub begin: usize,
    /// Where the closing brace is.
    pub end: usize,
    /// Where they are set to 0: before the first label or instruction. `None` without code.
    pub first: Option<usize>,
    /// Where each block counts itself.
    pub blocks: Vec<usize>,
    /// Statements that leave the function: where, and their guard.
    pub exits: Vec<(Range<usize>, Option<Guard<'t>>)>,
    /// Where control falls out of the body, if it can.
    pub falls_out: Option<usize>,
    /// It ends work-items wherever it was called from.
    pub ends_threads: bool,
    /// Instructions that access memory.
    pub accesses: Vec<Place<'t>>,
}

/// Place of an instruction that accesses memory.
pub(crate) struct Place<'t> {
    pub at: usize,
    pub guard: Option<Guard<'t>>,
    pub operands: &'t str,
    /// Among those of the program.
    pub block: usize,
    pub class: Class,
    /// Bytes of one work-item.
    pub bytes: u32,
    /// It counts by one, and nobody reads the result.
    pub tallies: bool,
}

pub(crate) fn layout(text: &str) -> Result<Layout<'_>, Error> {
    let module = scan::module(text)?;
    let mut program = Program {
        version: format!("{}.{}", module.version.0, module.version.1),
        newer: module.version > NEWEST,
        ..Program::default()
    };
    let mut unknown = BTreeSet::new();
    let mut functions = Vec::new();
    for body in &module.bodies {
        let first = program.blocks.len();
        let flow = data::Flow::new(body);
        functions.push(function(body, &flow, &mut program, &mut unknown));
        program.functions.push(Function {
            name: body.name.to_owned(),
            kernel: body.entry,
            blocks: first..program.blocks.len(),
            arguments: arguments(body),
            in_place: in_place(body, functions.last().map_or(&[], |f| &f.accesses)),
            data: flow.data(body),
        });
    }
    program.unknown = unknown.into_iter().collect();
    Ok(Layout {
        program,
        version: module.version,
        functions,
        target: module.target,
        head: module.head,
        tail: module.tail,
        address_size: module.address_size,
    })
}

/// Arguments that a kernel reads: as their names are in operands, `NAME_param_N`.
fn arguments(body: &Body<'_>) -> BTreeSet<u32> {
    let begin = format!("{}_param_", body.name);
    let operands = body.statements.iter().filter_map(|statement| match statement {
        Statement::Instruction { operands, .. } => Some(*operands),
        Statement::Label { .. } => None,
    });
    operands.filter_map(|operands| reach::argument(operands, &begin)).collect()
}

/// Arguments of which memory is both loaded and stored.
fn in_place(body: &Body<'_>, accesses: &[Place<'_>]) -> BTreeSet<u32> {
    let reaches = reach::Reaches::new(&body.statements, body.entry);
    let begin = format!("{}_param_", body.name);
    let (mut loaded, mut stored) = (BTreeSet::new(), BTreeSet::new());
    for access in accesses.iter().filter(|a| a.class.memory() == Some(Space::Global)) {
        let of = reaches.arguments(access.operands, &begin);
        let (stores, does_both) = (access.class.stores(), access.class == Class::AtomicGlobal);
        if !stores {
            loaded.extend(&of);
        }
        if stores || does_both {
            stored.extend(of);
        }
    }
    &loaded & &stored
}

/// Whether an atomic adds 1 to a word of 32 bits, and no other statement reads what was there.
fn tallies(body: &Body<'_>, opcode: &str, operands: &str) -> bool {
    let is_sum =
        opcode.contains(".add.") && matches!(opcode.get(opcode.len() - 4..), Some(".u32" | ".s32"));
    let by_one = operands.rsplit(',').next().is_some_and(|last| last.trim() == "1");
    let result = operands.split(',').next().map_or("", str::trim);
    let is_register = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '_' | '$');
    let uses = body.statements.iter().filter(|statement| match statement {
        Statement::Instruction { operands, .. } => {
            operands.split(|c| !is_register(c)).any(|name| name == result)
        }
        Statement::Label { .. } => false,
    });
    let is_unread = opcode.starts_with("red") || result == "_" || uses.take(2).count() < 2;
    is_sum && by_one && is_unread
}

/// Splits a body: a block begins at a label and behind whatever may go elsewhere.
fn function<'t>(
    body: &Body<'t>,
    flow: &data::Flow<'t>,
    program: &mut Program,
    unknown: &mut BTreeSet<String>,
) -> Places<'t> {
    let Program { blocks, loops: all_loops, .. } = program;
    let first = blocks.len();
    let mut places = Places {
        begin: body.begin,
        end: body.end,
        first: None,
        blocks: Vec::new(),
        exits: Vec::new(),
        falls_out: None,
        ends_threads: false,
        accesses: Vec::new(),
    };
    let mut registers = BTreeMap::new();
    let mut bitwise: Vec<Vec<bool>> = Vec::new();
    let mut reaches = reach::Reaches::new(&body.statements, body.entry);
    // Blocks by the labels in front of them, where branches lead, and which blocks go on to the
    // next.
    let mut labels: BTreeMap<&str, usize> = BTreeMap::new();
    let mut branches: Vec<(usize, &str)> = Vec::new();
    let mut goes_on: Vec<(usize, usize)> = Vec::new();
    let mut open = false;
    let mut reachable = true;
    let mut falls = false;
    for statement in &body.statements {
        match statement {
            Statement::Label { at, name } => {
                places.first.get_or_insert(*at);
                labels.insert(name, blocks.len());
                (open, reachable) = (false, true);
            }
            Statement::Instruction { at, end, guard, opcode, operands } => {
                places.first.get_or_insert(*at);
                if !open {
                    places.blocks.push(*at);
                    if blocks.len() > first && falls {
                        goes_on.push((blocks.len() - 1, blocks.len()));
                    }
                    blocks.push(Block::default());
                    bitwise.push(Vec::new());
                    (open, reachable) = (true, true);
                }
                let mut instruction = classify::instruction(opcode, operands, &mut registers)
                    .unwrap_or_else(|| {
                        unknown.insert((*opcode).to_owned());
                        Instruction::new(Class::Unknown)
                    });
                instruction.predicated =
                    guard.is_some() && !matches!(instruction.class, Class::Branch | Class::Call);
                if instruction.class.memory().is_some() {
                    let (class, bytes) = (instruction.class, instruction.bytes);
                    if class.memory() == Some(Space::Image) {
                        let is_loaded = data::address(operands).is_some_and(|of| flow.has(of));
                        instruction.gathers = is_loaded.then_some(Follows::Computed);
                    } else {
                        instruction.reach = reaches.reach(operands, bytes);
                    }
                    let (at, guard, operands, block) = (*at, *guard, *operands, blocks.len() - 1);
                    let tallies = class == Class::AtomicLocal && tallies(body, opcode, operands);
                    places.accesses.push(Place {
                        at,
                        guard,
                        operands,
                        block,
                        class,
                        bytes,
                        tallies,
                    });
                }
                if let (Some(block), Some(bitwise)) = (blocks.last_mut(), bitwise.last_mut()) {
                    block.instructions.push(instruction);
                    bitwise.push(merge::is_bitwise(opcode));
                }
                let base = opcode.split('.').next().unwrap_or_default();
                falls = true;
                if base == "bra" {
                    branches.push((blocks.len() - 1, operands.trim()));
                }
                if matches!(base, "ret" | "exit") {
                    places.exits.push((*at..*end, *guard));
                }
                places.ends_threads |= base == "exit";
                if matches!(base, "bra" | "brx" | "ret" | "exit" | "trap") {
                    open = false;
                    reachable = guard.is_some();
                    falls = reachable;
                }
            }
        }
    }
    let mut used: HashMap<u32, u32> = HashMap::new();
    let own = blocks.get_mut(first..).unwrap_or_default();
    for register in own.iter().flat_map(|block| &block.instructions).flat_map(|i| &i.reads) {
        *used.entry(*register).or_default() += 1;
    }
    own.iter_mut().zip(&bitwise).for_each(|(block, of)| merge::merge(block, of, &used));
    let to_labels = branches.into_iter().filter_map(|(from, to)| Some((from, *labels.get(to)?)));
    all_loops.extend(loops(first, to_labels.chain(goes_on)));
    // A body without code returns at once, and has no block that could count it.
    places.falls_out = (reachable && places.first.is_some()).then_some(body.end);
    places
}

#[cfg(test)]
mod tests;
