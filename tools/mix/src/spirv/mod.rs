//! SPIR-V for OpenCL, as words. Owns its functions and blocks; refuses modules whose framing is
//! broken. Instructions that are not known keep their place: they are counted as unknown, and
//! copied as they are. A crate that builds a typed module (rspirv) would refuse them, and bring a
//! megabyte of tables into every process that is recorded.
//!
//! Source: Khronos, SPIR-V specification, sections 2.3 (physical layout), 2.4 (order of a module)
//! and 3.49 (instructions).

mod classify;
mod count;
mod data;
mod op;
mod reach;

pub use count::counted;

use crate::program::{Block, Data, Function, Program, loops};
use crate::{Error, Follows, Instruction};
use std::collections::{BTreeMap, BTreeSet};

/// First word of a module.
const MAGIC: u32 = 0x0723_0203;
/// Words of the header: magic, version, generator, bound of ids, reserved.
const HEADER: usize = 5;
/// The newest version that this reader was written for.
pub const NEWEST: (u32, u32) = (1, 6);

/// Whether bytes are a module, of either byte order.
pub fn is_spirv(bytes: &[u8]) -> bool {
    bytes.first_chunk::<4>().is_some_and(|first| {
        [*first, {
            let mut b = *first;
            b.reverse();
            b
        }]
        .contains(&MAGIC.to_le_bytes())
    })
}

/// Reads a module.
///
/// # Errors
/// If its framing is broken, or it has no code.
pub fn read(bytes: &[u8]) -> Result<Program, Error> {
    Module::read(bytes)?.layout()?.program.within_limits()
}

fn broken(at: usize, what: &'static str) -> Error {
    Error::Syntax { language: "SPIR-V", at, what }
}

/// A module as words of this machine's order.
struct Module {
    words: Vec<u32>,
}

/// An instruction: where it stands, its number, and its words behind the first.
#[derive(Clone, Copy)]
struct Word<'m> {
    at: usize,
    opcode: u16,
    operands: &'m [u32],
}

impl Word<'_> {
    fn operand(&self, n: usize) -> u32 {
        self.operands.get(n).copied().unwrap_or(0)
    }

    fn end(&self) -> usize {
        self.at + 1 + self.operands.len()
    }
}

/// A type, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Type {
    Integer(u32),
    Float(u32),
    Vector(u32, u32),
    Pointer(u32, u32),
    Function(Vec<u32>),
    /// A structure or an array.
    Aggregate,
}

/// A function's places, as indices of words.
struct Places {
    /// The instruction that opens it.
    open: usize,
    /// Behind its parameters.
    parameters_end: usize,
    /// Promises that it makes.
    control: u32,
    /// Id of its type.
    kind: u32,
    id: u32,
    /// Where each block may store and add: behind its label, variables and phis.
    blocks: Vec<usize>,
    /// Behind the first block's label: where variables go.
    variables: usize,
    /// Instructions that return.
    exits: Vec<usize>,
    /// Calls: where they end, and what they call.
    calls: Vec<(usize, u32)>,
}

struct Layout {
    program: Program,
    functions: Vec<Places>,
    types: BTreeMap<u32, Type>,
    capabilities: BTreeSet<u32>,
    /// Entry points: where they end, their functions, and the variables that they name.
    entries: Vec<(usize, u32, Vec<u32>)>,
    /// Variables that the environment sets, by what they hold.
    builtins: BTreeMap<u32, u32>,
    /// Sizes and addresses have 64 bits.
    is_wide: bool,
    /// The first type, before which decorations stand.
    first_type: usize,
    /// The first function.
    first_function: usize,
    bound: u32,
    /// It has constants that are to be specialised.
    specialised: bool,
}

impl Module {
    fn read(bytes: &[u8]) -> Result<Self, Error> {
        if !is_spirv(bytes) {
            return Err(Error::Language { what: "intermediate language" });
        }
        let little = bytes.first_chunk::<4>() == Some(&MAGIC.to_le_bytes());
        let words = bytes
            .chunks_exact(4)
            .filter_map(|chunk| <[u8; 4]>::try_from(chunk).ok())
            .map(|chunk| if little { u32::from_le_bytes(chunk) } else { u32::from_be_bytes(chunk) })
            .collect::<Vec<_>>();
        if words.len() < HEADER || !bytes.len().is_multiple_of(4) {
            return Err(broken(words.len(), "the module is cut off"));
        }
        Ok(Self { words })
    }

    fn instructions(&self) -> impl Iterator<Item = Result<Word<'_>, Error>> {
        let mut at = HEADER;
        std::iter::from_fn(move || {
            let head = *self.words.get(at)?;
            let (length, opcode) = ((head >> 16) as usize, head as u16);
            let Some(operands) = self.words.get(at + 1..at + length.max(1)).filter(|_| length > 0)
            else {
                let error = broken(at, "an instruction is longer than the module, or empty");
                at = self.words.len();
                return Some(Err(error));
            };
            let word = Word { at, opcode, operands };
            at += length;
            Some(Ok(word))
        })
    }

    /// The type of every value, wherever it is defined; and what the types are.
    fn values_and_types(
        &self,
        types: &mut BTreeMap<u32, Type>,
    ) -> Result<BTreeMap<u32, u32>, Error> {
        let mut values = BTreeMap::new();
        for word in self.instructions() {
            let word = word?;
            if op::has_result(word.opcode) {
                values.insert(word.operand(1), word.operand(0));
            }
            match word.opcode {
                op::TYPE_INT => {
                    types.insert(word.operand(0), Type::Integer(word.operand(1)));
                }
                op::TYPE_FLOAT => {
                    types.insert(word.operand(0), Type::Float(word.operand(1)));
                }
                op::TYPE_VECTOR => {
                    types.insert(word.operand(0), Type::Vector(word.operand(1), word.operand(2)));
                }
                op::TYPE_POINTER => {
                    types.insert(word.operand(0), Type::Pointer(word.operand(1), word.operand(2)));
                }
                op::TYPE_ARRAY | op::TYPE_STRUCT => {
                    types.insert(word.operand(0), Type::Aggregate);
                }
                op::TYPE_FUNCTION => {
                    let of = word.operands.get(1..).unwrap_or_default().to_vec();
                    types.insert(word.operand(0), Type::Function(of));
                }
                _ => {}
            }
        }
        Ok(values)
    }

    /// What values are made of. A kernel's arguments are shared, and those of the function of the same
    /// name, which is all that an entry point calls.
    fn reaches(&self) -> Result<reach::Reaches<'_>, Error> {
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        let mut kernels = BTreeSet::new();
        let (mut made, mut shared) = (BTreeMap::new(), BTreeMap::new());
        let (mut is_kernel, mut index) = (false, 0..);
        for word in self.instructions() {
            let word = word?;
            match word.opcode {
                op::NAME => drop(names.insert(word.operand(0), string(word.operands.get(1..)))),
                op::ENTRY_POINT => {
                    kernels.insert(string(word.operands.get(2..)));
                    names.insert(word.operand(1), string(word.operands.get(2..)));
                }
                op::FUNCTION => {
                    is_kernel = names.get(&word.operand(1)).is_some_and(|n| kernels.contains(n));
                    index = 0..;
                }
                op::FUNCTION_PARAMETER if is_kernel => {
                    shared.extend(index.next().map(|index| (word.operand(1), index)));
                }
                _ => {}
            }
            if op::has_result(word.opcode) {
                made.insert(word.operand(1), word);
            }
        }
        Ok(reach::Reaches { made, shared, known: BTreeMap::new() })
    }

    fn layout(&self) -> Result<Layout, Error> {
        let version = self.words.get(1).copied().unwrap_or(0);
        let version = (version >> 16 & 0xff, version >> 8 & 0xff);
        let mut out = Layout {
            program: Program {
                version: format!("{}.{}", version.0, version.1),
                newer: version > NEWEST,
                ..Program::default()
            },
            functions: Vec::new(),
            types: BTreeMap::new(),
            capabilities: BTreeSet::new(),
            entries: Vec::new(),
            builtins: BTreeMap::new(),
            is_wide: false,
            first_type: self.words.len(),
            first_function: self.words.len(),
            bound: self.words.get(3).copied().unwrap_or(0),
            specialised: false,
        };
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        let mut kernels: BTreeMap<u32, String> = BTreeMap::new();
        // A block may stand before those that define what it uses.
        let values = self.values_and_types(&mut out.types)?;
        let mut reaches = self.reaches()?;
        let (mut standard, mut saturated) = (BTreeSet::new(), BTreeSet::new());
        let mut constants: BTreeMap<u32, u32> = BTreeMap::new();
        let mut unknown = BTreeSet::new();
        // Of the function that is read: blocks by their labels, and where they lead.
        let mut labels: BTreeMap<u32, usize> = BTreeMap::new();
        let mut edges: Vec<(usize, u32)> = Vec::new();
        // Its words by their blocks, values that are loaded, and pointers of accesses by their places.
        let mut body: Vec<(usize, Word<'_>)> = Vec::new();
        let mut loaded: BTreeMap<u32, Follows> = BTreeMap::new();
        let mut accesses: Vec<(usize, usize, u32)> = Vec::new();
        let mut open: Option<Places> = None;
        // Its parameters by their order, and those that its code reads.
        let mut parameters: BTreeMap<u32, u32> = BTreeMap::new();
        let mut read: BTreeSet<u32> = BTreeSet::new();
        let mut in_block = false;
        // Variables, phis and lines stand at a block's beginning.
        let mut at_head = false;
        // Of the block that is read, its label, and what a phi takes over from the turn before of a
        // loop that is this block alone.
        let mut label = 0;
        let mut carried: BTreeMap<u32, u32> = BTreeMap::new();
        for word in self.instructions() {
            let word = word?;
            match word.opcode {
                op::NAME => {
                    names.insert(word.operand(0), string(word.operands.get(1..)));
                }
                op::CAPABILITY => {
                    out.capabilities.insert(word.operand(0));
                }
                op::EXT_INST_IMPORT if string(word.operands.get(1..)) == "OpenCL.std" => {
                    standard.insert(word.operand(0));
                }
                // Physical64.
                op::MEMORY_MODEL => out.is_wide = word.operand(0) == 2,
                op::ENTRY_POINT => {
                    let name = string(word.operands.get(2..));
                    let variables = word.operands.get(3 + name.len() / 4..).unwrap_or_default();
                    out.entries.push((word.end(), word.operand(1), variables.to_vec()));
                    kernels.insert(word.operand(1), name);
                }
                // SpecId.
                op::DECORATE if word.operand(1) == 1 => out.specialised = true,
                // SaturatedConversion.
                op::DECORATE if word.operand(1) == 28 => drop(saturated.insert(word.operand(0))),
                // BuiltIn.
                op::DECORATE if word.operand(1) == 11 => {
                    out.builtins.insert(word.operand(2), word.operand(0));
                }
                op::CONSTANT => drop(constants.insert(word.operand(1), word.operand(2))),
                op::TYPE_FIRST..=op::TYPE_LAST => out.first_type = out.first_type.min(word.at),
                op::FUNCTION => {
                    out.first_function = out.first_function.min(word.at);
                    open = Some(Places {
                        open: word.at,
                        parameters_end: word.end(),
                        control: word.operand(2),
                        kind: word.operand(3),
                        id: word.operand(1),
                        blocks: Vec::new(),
                        variables: 0,
                        exits: Vec::new(),
                        calls: Vec::new(),
                    });
                }
                op::FUNCTION_PARAMETER => {
                    let index = parameters.len() as u32;
                    parameters.insert(word.operand(1), index);
                    if let Some(function) = &mut open {
                        function.parameters_end = word.end();
                    }
                }
                op::FUNCTION_END => {
                    let Some(function) = open.take() else {
                        return Err(broken(word.at, "a function ends that never began"));
                    };
                    let blocks = out.program.blocks.len();
                    let edges = std::mem::take(&mut edges).into_iter();
                    let edges = edges.filter_map(|(from, to)| Some((from, *labels.get(&to)?)));
                    let found = loops(blocks - function.blocks.len(), edges);
                    reach::add_followers(&mut loaded, &body, &labels, &found);
                    let mut elements = BTreeSet::new();
                    for (block, at, pointer) in accesses.drain(..) {
                        // Parts of one element lie side by side.
                        let is_first = elements.insert((block, reaches.element(pointer)));
                        let code = &mut out.program.blocks[block].instructions[at];
                        code.gathers = loaded.get(&pointer).copied().filter(|_| is_first);
                    }
                    out.program.loops.extend(found);
                    labels.clear();
                    (body, loaded) = (Vec::new(), BTreeMap::new());
                    out.program.functions.push(Function {
                        kernel: kernels.contains_key(&function.id),
                        name: kernels
                            .get(&function.id)
                            .or_else(|| names.get(&function.id))
                            .cloned()
                            .unwrap_or_default(),
                        blocks: blocks - function.blocks.len()..blocks,
                        arguments: std::mem::take(&mut read),
                        in_place: BTreeSet::new(),
                        data: Data::default(),
                    });
                    parameters.clear();
                    out.functions.push(function);
                }
                op::LABEL => {
                    let Some(function) = &mut open else {
                        return Err(broken(word.at, "a block stands outside of functions"));
                    };
                    if function.blocks.is_empty() {
                        function.variables = word.end();
                    }
                    function.blocks.push(word.end());
                    label = word.operand(0);
                    carried.clear();
                    labels.insert(label, out.program.blocks.len());
                    out.program.blocks.push(Block::default());
                    (in_block, at_head) = (true, true);
                }
                _ if in_block => {
                    let number = out.program.blocks.len().saturating_sub(1);
                    let (Some(function), Some(block)) = (&mut open, out.program.blocks.last_mut())
                    else {
                        return Err(broken(word.at, "an instruction stands outside of functions"));
                    };
                    at_head &=
                        matches!(word.opcode, op::VARIABLE | op::PHI | op::LINE | op::NO_LINE);
                    if at_head && let Some(place) = function.blocks.last_mut() {
                        *place = word.end();
                    }
                    // Whatever it does: numbers among its words at worst make one more of them read.
                    read.extend(word.operands.iter().filter_map(|id| parameters.get(id)));
                    match word.opcode {
                        op::PHI => {
                            let (pairs, _) =
                                word.operands.get(2..).unwrap_or_default().as_chunks::<2>();
                            let own = pairs.iter().find(|[_, parent]| *parent == label);
                            carried.extend(own.map(|[value, _]| (word.operand(1), *value)));
                        }
                        op::BRANCH => edges.push((number, word.operand(0))),
                        op::BRANCH_CONDITIONAL => {
                            edges.extend([1, 2].map(|at| (number, word.operand(at))));
                        }
                        // Between the labels stand the values, which are labels of nothing.
                        op::SWITCH => {
                            edges
                                .extend(word.operands.iter().skip(1).map(|label| (number, *label)));
                        }
                        op::RETURN | op::RETURN_VALUE => function.exits.push(word.at),
                        op::FUNCTION_CALL => function.calls.push((word.end(), word.operand(2))),
                        _ => {}
                    }
                    in_block = !op::ends_block(word.opcode);
                    if op::has_result(word.opcode) {
                        body.push((number, word));
                    }
                    let facts = classify::Facts {
                        types: &out.types,
                        values: &values,
                        standard: &standard,
                        saturated: &saturated,
                        constants: &constants,
                    };
                    match classify::instructions(word, &facts) {
                        Ok(found) => {
                            for (mut instruction, pointer) in found {
                                let space = instruction.class.memory();
                                let pointer = pointer.filter(|_| space.is_some());
                                instruction.reach = pointer
                                    .map(|p| reaches.reach(&out.types, p, instruction.bytes));
                                instruction.argument = pointer.and_then(|p| reaches.argument(p));
                                // One word for all items is no matter of an item.
                                let is_one =
                                    instruction.reach == Some(u64::from(instruction.bytes));
                                if space.is_some_and(|of| of != crate::Space::Private) && !is_one {
                                    let written = instruction.writes.iter();
                                    loaded.extend(written.map(|id| (*id, Follows::Computed)));
                                }
                                for id in &mut instruction.reads {
                                    *id = carried.get(id).copied().unwrap_or(*id);
                                }
                                let place = block.instructions.len();
                                accesses.extend(pointer.map(|p| (number, place, p)));
                                block.instructions.push(instruction);
                            }
                        }
                        Err(name) => {
                            block.instructions.push(Instruction::new(crate::Class::Unknown));
                            unknown.insert(name);
                        }
                    }
                }
                _ => {}
            }
        }
        if open.is_some() {
            return Err(broken(self.words.len(), "a function has no end"));
        }
        out.program.unknown = unknown.into_iter().collect();
        let words = self.instructions().filter_map(Result::ok);
        let code = data::Code::new(words, &reaches.made, &out.types);
        for (function, places) in out.program.functions.iter_mut().zip(&out.functions) {
            // Others are part of what kernels call.
            if function.kernel {
                function.data = code.data(places.id);
            }
        }
        Ok(out)
    }
}

/// A string of a module: UTF-8 in words, little end first, ended by a zero.
fn string(words: Option<&[u32]>) -> String {
    let bytes: Vec<u8> = words
        .unwrap_or_default()
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .take_while(|byte| *byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
