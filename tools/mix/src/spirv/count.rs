//! SPIR-V that counts: each block adds to a variable of its function, and where the function
//! returns the variables are added to a buffer that each kernel takes as a further, last argument.
//! Functions that kernels call are handed the buffer, too. Where sizes have 64 bits the buffer holds
//! several copies: each kernel goes by its work-group to one of them.

use super::{HEADER, Layout, Module, Type, Word, op};
use crate::Error;
use crate::program::{Counted, Function, shards};
use std::collections::{BTreeMap, BTreeSet};

const INT64: u32 = 11;
const INT64_ATOMICS: u32 = 12;
/// SPV_INTEL_function_pointers: calls whose target is not known.
const FUNCTION_POINTERS: u32 = 5603;
/// Promises of functions: they write no memory, they read none either.
const PURE: u32 = 4;
const CONST: u32 = 8;
const CROSS_WORKGROUP: u32 = 5;
const FUNCTION: u32 = 7;
const INPUT: u32 = 1;
/// What a decoration says of a variable, and what such a variable holds: the number of groups, and
/// which of them this one is, in each dimension.
const BUILT_IN: u32 = 11;
const GROUPS: u32 = 24;
const GROUP: u32 = 26;

/// Words that are put in front of the word at a place.
type Insertions = BTreeMap<usize, Vec<u32>>;

/// Writes the module with counters.
///
/// # Errors
/// If it cannot be read, has constants that an application may specialise, or calls functions
/// through pointers.
pub fn counted(bytes: &[u8]) -> Result<Counted, Error> {
    let mut module = Module::read(bytes)?;
    let layout = module.layout()?;
    if layout.specialised {
        return Err(Error::Unsupported { what: "has specialization constants" });
    }
    if layout.capabilities.contains(&FUNCTION_POINTERS) {
        return Err(Error::Unsupported { what: "calls functions through pointers" });
    }
    let mut writer =
        Writer { bound: layout.bound, new: Insertions::new(), longer: BTreeMap::new() };
    writer.capabilities(&layout);
    let common = writer.common(&layout);
    let kernels = layout.kernels();
    let are_apart = layout.is_wide && !layout.others_call(&kernels);
    let copies = if are_apart { shards(layout.program.blocks.len()) } else { 1 };
    let own_copy = (copies > 1).then(|| writer.copies(&layout, &common, copies));
    let mut patched = Vec::new();
    let kinds = writer.function_types(&layout, &common);
    for (places, function) in layout.functions.iter().zip(&layout.program.functions) {
        if places.blocks.is_empty() {
            continue;
        }
        if let Some(kind) = kinds.get(&places.kind) {
            patched.push((places.open + 4, *kind));
        }
        // It writes memory now: calls of it must not be merged or left out.
        patched.push((places.open + 3, places.control & !(PURE | CONST)));
        let buffer = writer.id();
        writer.put(places.parameters_end, op::FUNCTION_PARAMETER, &[common.buffer_pointer, buffer]);
        let variables: Vec<u32> = function.blocks.clone().map(|_| writer.id()).collect();
        for variable in &variables {
            writer.put(
                places.variables,
                op::VARIABLE,
                &[common.variable_pointer, *variable, FUNCTION],
            );
        }
        let first = places.blocks.first().copied().unwrap_or(places.variables);
        for variable in &variables {
            writer.put(first, op::STORE, &[*variable, common.zero]);
        }
        let given = buffer;
        let buffer = match &own_copy {
            Some(copies) if kernels.contains(&places.id) => {
                writer.own_copy(first, &common, copies, given)
            }
            _ => given,
        };
        for (place, variable) in places.blocks.iter().zip(&variables) {
            let (before, after) = (writer.id(), writer.id());
            writer.put(*place, op::LOAD, &[common.word, before, *variable]);
            writer.put(*place, op::IADD, &[common.word, after, before, common.one]);
            writer.put(*place, op::STORE, &[*variable, after]);
        }
        for exit in &places.exits {
            for (variable, block) in variables.iter().zip(function.blocks.clone()) {
                let (value, pointer, old) = (writer.id(), writer.id(), writer.id());
                let index = common.indices.get(block).copied().unwrap_or(common.zero);
                writer.put(*exit, op::LOAD, &[common.word, value, *variable]);
                writer.put(
                    *exit,
                    op::IN_BOUNDS_PTR_ACCESS_CHAIN,
                    &[common.buffer_pointer, pointer, buffer, index],
                );
                writer.put(
                    *exit,
                    op::ATOMIC_IADD,
                    &[common.word, old, pointer, common.device, common.relaxed, value],
                );
            }
        }
        for (end, callee) in &places.calls {
            let has_body = layout.functions.iter().any(|f| f.id == *callee && !f.blocks.is_empty());
            if has_body {
                // A kernel goes to its copy by itself.
                writer.lengthen(*end, if kernels.contains(callee) { given } else { buffer });
            }
        }
    }
    for (at, value) in patched {
        if let Some(word) = module.words.get_mut(at) {
            *word = value;
        }
    }
    let program = layout.program.clone().within_limits()?;
    let code = writer.woven(&module);
    Ok(Counted {
        code,
        program,
        shards: copies,
        warps: false,
        accesses: Vec::new(),
        reuse: 0,
        dump: None,
    })
}

impl Layout {
    /// Entry points, and functions of their names: an entry point may be no more than a call of one,
    /// which runtimes leave out.
    fn kernels(&self) -> BTreeSet<u32> {
        let all = || self.functions.iter().zip(&self.program.functions);
        let names: BTreeSet<&str> =
            all().filter(|(_, of)| of.kernel).map(|(_, of)| of.name.as_str()).collect();
        let is_one = |of: &Function| of.kernel || names.contains(of.name.as_str());
        all().filter(|(_, of)| is_one(of)).map(|(places, _)| places.id).collect()
    }

    /// Whether functions that are none of these call any.
    fn others_call(&self, kernels: &BTreeSet<u32>) -> bool {
        let mut others = self.functions.iter().filter(|of| !kernels.contains(&of.id));
        others.any(|of| of.calls.iter().any(|(_, callee)| kernels.contains(callee)))
    }
}

/// Ids that all functions use.
struct Common {
    word: u32,
    buffer_pointer: u32,
    variable_pointer: u32,
    zero: u32,
    one: u32,
    /// Scope and semantics of the additions.
    device: u32,
    relaxed: u32,
    /// A constant for each block.
    indices: Vec<u32>,
}

/// What tells which copy of the counters a group adds to.
struct Copies {
    /// Variables with the group and the number of groups, and the type of what they hold.
    group: u32,
    groups: u32,
    vector: u32,
    /// Constants: of the copies, a power of two, less 1, and its bits; counters of a copy.
    mask: u32,
    bits: u32,
    length: u32,
}

struct Writer {
    bound: u32,
    new: Insertions,
    /// Words that instructions have more, by where they end.
    longer: BTreeMap<usize, u32>,
}

impl Writer {
    fn id(&mut self) -> u32 {
        let id = self.bound;
        self.bound = self.bound.wrapping_add(1);
        id
    }

    fn put(&mut self, at: usize, opcode: u16, operands: &[u32]) {
        let to = self.new.entry(at).or_default();
        to.push((operands.len() as u32 + 1) << 16 | u32::from(opcode));
        to.extend_from_slice(operands);
    }

    /// Gives the instruction that ends there one more operand, before anything else that is put there.
    fn lengthen(&mut self, end: usize, operand: u32) {
        self.new.entry(end).or_default().insert(0, operand);
        *self.longer.entry(end).or_default() += 1;
    }

    fn capabilities(&mut self, layout: &Layout) {
        for wanted in [INT64, INT64_ATOMICS] {
            if !layout.capabilities.contains(&wanted) {
                self.put(HEADER, op::CAPABILITY, &[wanted]);
            }
        }
    }

    /// A type that the module has, or a new one: types must not be declared twice.
    fn of_type(&mut self, layout: &Layout, wanted: &Type, opcode: u16, operands: &[u32]) -> u32 {
        let known = layout.types.iter().find(|(_, of)| *of == wanted).map(|(id, _)| *id);
        known.unwrap_or_else(|| {
            let id = self.id();
            self.put(layout.first_function, opcode, &[&[id], operands].concat());
            id
        })
    }

    fn constant(&mut self, layout: &Layout, kind: u32, value: &[u32]) -> u32 {
        let id = self.id();
        self.put(layout.first_function, op::CONSTANT, &[&[kind, id], value].concat());
        id
    }

    /// Declares what tells groups apart, and names it at every entry point.
    fn copies(&mut self, layout: &Layout, common: &Common, copies: usize) -> Copies {
        let wanted = Type::Vector(common.word, 3);
        let vector = self.of_type(layout, &wanted, op::TYPE_VECTOR, &[common.word, 3]);
        let wanted = Type::Pointer(INPUT, vector);
        let pointer = self.of_type(layout, &wanted, op::TYPE_POINTER, &[INPUT, vector]);
        let [group, groups] = [GROUP, GROUPS].map(|builtin| {
            let known = layout.builtins.get(&builtin).copied();
            let variable = known.unwrap_or_else(|| {
                let id = self.id();
                self.put(layout.first_type, op::DECORATE, &[id, BUILT_IN, builtin]);
                self.put(layout.first_function, op::VARIABLE, &[pointer, id, INPUT]);
                id
            });
            for (end, _, named) in &layout.entries {
                if !named.contains(&variable) {
                    self.lengthen(*end, variable);
                }
            }
            variable
        });
        let mask = self.constant(layout, common.word, &[copies as u32 - 1, 0]);
        let bits = self.constant(layout, common.word, &[copies.ilog2(), 0]);
        let length = layout.program.blocks.len() as u32;
        let length = self.constant(layout, common.word, &[length, 0]);
        Copies { group, groups, vector, mask, bits, length }
    }

    /// The copy of the group that runs: groups take them in turns, each time from the next one on, so
    /// that columns of a power of two of groups share none.
    fn own_copy(&mut self, at: usize, common: &Common, of: &Copies, buffer: u32) -> u32 {
        let mut value = |opcode, operands: &[u32]| {
            let id = self.id();
            let kind = if opcode == op::LOAD { of.vector } else { common.word };
            self.put(at, opcode, &[&[kind, id], operands].concat());
            id
        };
        let (group, groups) = (value(op::LOAD, &[of.group]), value(op::LOAD, &[of.groups]));
        let [x, y, z] = [0, 1, 2].map(|n| value(op::COMPOSITE_EXTRACT, &[group, n]));
        let [columns, rows] = [0, 1].map(|n| value(op::COMPOSITE_EXTRACT, &[groups, n]));
        let plane = value(op::IMUL, &[z, rows]);
        let row = value(op::IADD, &[plane, y]);
        let row = value(op::IMUL, &[row, columns]);
        let number = value(op::IADD, &[row, x]);
        let round = value(op::SHIFT_RIGHT_LOGICAL, &[number, of.bits]);
        let turn = value(op::IADD, &[number, round]);
        let turn = value(op::BITWISE_AND, &[turn, of.mask]);
        let place = value(op::IMUL, &[turn, of.length]);
        let pointer = self.id();
        let operands = [common.buffer_pointer, pointer, buffer, place];
        self.put(at, op::IN_BOUNDS_PTR_ACCESS_CHAIN, &operands);
        pointer
    }

    fn common(&mut self, layout: &Layout) -> Common {
        let word = self.of_type(layout, &Type::Integer(64), op::TYPE_INT, &[64, 0]);
        let half = self.of_type(layout, &Type::Integer(32), op::TYPE_INT, &[32, 0]);
        let mut pointer = |storage| {
            let wanted = Type::Pointer(storage, word);
            self.of_type(layout, &wanted, op::TYPE_POINTER, &[storage, word])
        };
        let (buffer_pointer, variable_pointer) = (pointer(CROSS_WORKGROUP), pointer(FUNCTION));
        let mut constant = |kind: u32, value: &[u32]| self.constant(layout, kind, value);
        let indices =
            (0..layout.program.blocks.len()).map(|n| constant(word, &[n as u32, 0])).collect();
        Common {
            word,
            buffer_pointer,
            variable_pointer,
            zero: constant(word, &[0, 0]),
            one: constant(word, &[1, 0]),
            device: constant(half, &[1]),
            relaxed: constant(half, &[0]),
            indices,
        }
    }

    /// The types of functions that get a further parameter, by their present ones.
    fn function_types(&mut self, layout: &Layout, common: &Common) -> BTreeMap<u32, u32> {
        let mut out = BTreeMap::new();
        for places in layout.functions.iter().filter(|f| !f.blocks.is_empty()) {
            if out.contains_key(&places.kind) {
                continue;
            }
            let Some(Type::Function(of)) = layout.types.get(&places.kind) else { continue };
            let mut wanted = of.clone();
            wanted.push(common.buffer_pointer);
            let id =
                self.of_type(layout, &Type::Function(wanted.clone()), op::TYPE_FUNCTION, &wanted);
            out.insert(places.kind, id);
        }
        out
    }

    /// The module with all that is new.
    fn woven(&self, module: &Module) -> Vec<u8> {
        let longer = |of: Word<'_>| Some((of.at, *self.longer.get(&of.end())?));
        let mut longer = module.instructions().flatten().filter_map(longer).peekable();
        let mut out: Vec<u32> = Vec::with_capacity(module.words.len() * 2);
        for (at, word) in module.words.iter().enumerate() {
            out.extend(self.new.get(&at).into_iter().flatten());
            let mut word = *word;
            if let Some((_, more)) = longer.next_if(|(place, _)| *place == at) {
                word = word.wrapping_add(more << 16);
            }
            out.push(if at == 3 { self.bound } else { word });
        }
        out.extend(self.new.get(&module.words.len()).into_iter().flatten());
        out.into_iter().flat_map(u32::to_le_bytes).collect()
    }
}
