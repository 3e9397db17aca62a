//! Whether what kernels of a module execute depends on what memory holds, or on what is another thing
//! in each run: on values that are loaded, and on what is computed of them, through calls, too. Errs
//! to the side of what does. Source: SPIR-V specification, sections 3.7 (storage classes) and 3.49.

use super::classify::storage;
use super::{Type, Word, op};
use crate::program::Data;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// The instructions of a module.
pub(super) struct Code<'m> {
    /// Those that functions are made of, by the function.
    functions: BTreeMap<u32, Vec<Word<'m>>>,
    /// By the value that they give.
    made: &'m BTreeMap<u32, Word<'m>>,
    types: &'m BTreeMap<u32, Type>,
    /// Parameters by the function.
    parameters: BTreeMap<u32, Vec<u32>>,
}

impl<'m> Code<'m> {
    /// Of a module's instructions in order, and by the value that they give.
    pub fn new(
        words: impl Iterator<Item = Word<'m>>,
        made: &'m BTreeMap<u32, Word<'m>>,
        types: &'m BTreeMap<u32, Type>,
    ) -> Self {
        let (functions, parameters) = Default::default();
        let mut out = Self { functions, made, types, parameters };
        let mut function = None;
        for word in words {
            match (word.opcode, function) {
                (op::FUNCTION, _) => function = Some(word.operand(1)),
                (op::FUNCTION_END, _) => function = None,
                (op::FUNCTION_PARAMETER, Some(of)) => {
                    out.parameters.entry(of).or_default().push(word.operand(1));
                }
                // One that stands elsewhere has no blocks.
                (op::LABEL, Some(of)) => out.functions.entry(of).or_default().push(word),
                (_, Some(of)) => out.functions.get_mut(&of).into_iter().for_each(|w| w.push(word)),
                _ => {}
            }
        }
        out
    }

    /// Functions that a function calls, with itself.
    fn called(&self, function: u32) -> BTreeSet<u32> {
        let (mut left, mut out) = (vec![function], BTreeSet::new());
        while let Some(function) = left.pop() {
            let words = self.functions.get(&function).filter(|_| out.insert(function));
            let calls = words.into_iter().flatten().filter(|w| w.opcode == op::FUNCTION_CALL);
            left.extend(calls.map(|call| call.operand(2)));
        }
        out
    }

    /// What a function does otherwise where memory holds something else, with those that it calls.
    pub fn data(&self, function: u32) -> Data {
        let called = self.called(function);
        let each = called.iter().filter_map(|of| Some((of, self.functions.get(of)?)));
        let words: Vec<(u32, Word<'m>)> =
            each.flat_map(|(of, words)| words.iter().map(|word| (*of, *word))).collect();
        let mut flow = Flow {
            code: self,
            passed: HashMap::new(),
            known: HashMap::new(),
            values: HashSet::new(),
            holders: HashSet::new(),
            everywhere: false,
            returned: HashSet::new(),
        };
        for (_, call) in words.iter().filter(|(_, word)| word.opcode == op::FUNCTION_CALL) {
            let parameters = self.parameters.get(&call.operand(2)).into_iter().flatten();
            for (parameter, given) in parameters.zip(inputs(*call)) {
                flow.passed.entry(*parameter).or_default().push(*given);
            }
        }
        while words.iter().fold(false, |news, (of, word)| news | flow.step(*of, *word)) {}
        let mut out = Data::default();
        for (_, word) in &words {
            let inputs = inputs(*word);
            out.blocks |= match word.opcode {
                op::BRANCH_CONDITIONAL | op::SWITCH => {
                    flow.has(inputs.get(..1).unwrap_or_default())
                }
                // Kernels that a kernel launches.
                291..=303 => true,
                _ => false,
            };
            // Some say apart how far from a pointer they access, or where in an image.
            let is_apart = matches!(word.opcode, op::EXT_INST | 87..=99);
            out.addresses |= flow.has(&flow.pointers(inputs)) || is_apart && flow.has(inputs);
        }
        out
    }
}

/// The values of a function, and of those that it calls, which come from memory.
struct Flow<'c, 'm> {
    code: &'c Code<'m>,
    /// What calls pass for parameters.
    passed: HashMap<u32, Vec<u32>>,
    /// Where pointers lead that were asked about.
    known: HashMap<u32, Option<Rc<BTreeSet<u32>>>>,
    values: HashSet<u32>,
    /// Variables and parameters behind which such values lie; or they lie anywhere in local and in
    /// private memory.
    holders: HashSet<u32>,
    everywhere: bool,
    /// Functions whose result comes from memory.
    returned: HashSet<u32>,
}

impl<'m> Flow<'_, 'm> {
    /// The storage class that a value points to; none of what is no pointer.
    fn storage(&self, id: u32) -> Option<u32> {
        match self.code.types.get(&self.code.made.get(&id)?.operand(0))? {
            Type::Pointer(storage, _) => Some(*storage),
            _ => None,
        }
    }

    /// Variables and kernels' parameters that a pointer may lead to; `None` where they are not known.
    fn roots(&mut self, pointer: u32) -> Option<Rc<BTreeSet<u32>>> {
        // Of a chain of steps the first one says it for all.
        let (mut first, mut steps) = (pointer, Vec::new());
        let known = loop {
            if let Some(known) = self.known.get(&first) {
                break known.clone();
            }
            let word = self.code.made.get(&first).filter(|_| steps.len() <= self.code.made.len());
            steps.push(first);
            match word.filter(|word| op::is_step(word.opcode)) {
                Some(word) => first = word.operand(2),
                None => break self.find_roots(first).map(Rc::new),
            }
        };
        self.known.extend(steps.into_iter().map(|step| (step, known.clone())));
        known
    }

    fn find_roots(&self, pointer: u32) -> Option<BTreeSet<u32>> {
        let (mut left, mut seen, mut out) = (vec![pointer], BTreeSet::new(), BTreeSet::new());
        while let Some(id) = left.pop() {
            if !seen.insert(id) {
                continue;
            }
            let word = self.code.made.get(&id)?;
            match (word.opcode, self.passed.get(&id)) {
                (op::FUNCTION_PARAMETER, Some(passed)) => left.extend(passed),
                (op::VARIABLE | op::FUNCTION_PARAMETER, _) => _ = out.insert(id),
                (op::PHI, _) => left.extend(word.operands.iter().skip(2).step_by(2)),
                (op::SELECT, _) => left.extend([word.operand(3), word.operand(4)]),
                (opcode, _) if op::is_step(opcode) => left.push(word.operand(2)),
                // Null leads nowhere.
                (46, _) => {}
                _ => return None,
            }
        }
        Some(out)
    }

    /// Whether what a pointer leads to may come from memory.
    fn holds(&mut self, pointer: u32) -> bool {
        let Some(roots) = self.roots(pointer) else {
            // It may lead to any of these.
            let is_own =
                matches!(self.storage(pointer), Some(storage::WORKGROUP | storage::FUNCTION));
            return !is_own || self.everywhere || !self.holders.is_empty();
        };
        roots.iter().any(|root| match self.storage(*root) {
            Some(storage::WORKGROUP | storage::FUNCTION) => {
                self.everywhere || self.holders.contains(root)
            }
            // Those that are passed to kernels are memory.
            Some(storage::UNIFORM_CONSTANT | storage::INPUT) => {
                self.code.made.get(root).is_none_or(|word| word.opcode != op::VARIABLE)
            }
            _ => true,
        })
    }

    /// What a pointer leads to comes from memory from here on: whether that is news.
    fn spoil(&mut self, pointer: u32) -> bool {
        match self.roots(pointer) {
            Some(roots) => roots.iter().fold(false, |news, of| news | self.holders.insert(*of)),
            // All that lies there is taken to come from memory anyway.
            None if self.storage(pointer) == Some(storage::CROSS_WORKGROUP) => false,
            None => !std::mem::replace(&mut self.everywhere, true),
        }
    }

    /// Those of some values that point somewhere.
    fn pointers(&self, of: &[u32]) -> Vec<u32> {
        of.iter().copied().filter(|id| self.storage(*id).is_some()).collect()
    }

    /// Whether any of some values comes from memory.
    fn has(&self, of: &[u32]) -> bool {
        of.iter().any(|id| self.values.contains(id))
    }

    /// Adds what one instruction of a function does: whether that was news.
    fn step(&mut self, function: u32, word: Word<'m>) -> bool {
        let inputs = inputs(word);
        match word.opcode {
            0 | op::LABEL | op::LINE | op::NO_LINE | 246..=253 | 255..=257 => false,
            op::RETURN_VALUE => self.has(inputs) && self.returned.insert(function),
            op::STORE => {
                let is_stored = self.has(inputs.get(..2).unwrap_or_default());
                is_stored && self.spoil(word.operand(0))
            }
            op::LOAD => {
                let comes =
                    self.has(inputs.get(..1).unwrap_or_default()) || self.holds(word.operand(2));
                comes && self.values.insert(word.operand(1))
            }
            // Where something lies is computed, or chosen; nothing is read there.
            op::VARIABLE | 65..=70 | 83 | 117 | 120..=124 | op::SELECT | op::PHI => {
                self.has(inputs) && self.values.insert(word.operand(1))
            }
            op::FUNCTION_CALL if self.code.functions.contains_key(&word.operand(2)) => {
                let parameters = self.code.parameters.get(&word.operand(2)).into_iter().flatten();
                let given = parameters.zip(inputs).filter(|(_, of)| self.values.contains(of));
                let given: Vec<u32> = given.map(|(parameter, _)| *parameter).collect();
                let news = given.into_iter().fold(false, |news, of| news | self.values.insert(of));
                let comes = self.returned.contains(&word.operand(2));
                news | (comes && self.values.insert(word.operand(1)))
            }
            // Any word of what is not known may be its result.
            opcode if !op::has_result(opcode) && !is_without_result(opcode) => {
                let news = inputs.iter().fold(false, |news, id| news | self.values.insert(*id));
                let pointers = self.pointers(inputs).into_iter();
                pointers.fold(news, |news, id| news | self.spoil(id))
            }
            opcode => {
                let pointers = self.pointers(inputs);
                // Functions that stand elsewhere may do anything, images and pipes are memory, and
                // what atomics leave depends on which came first.
                let comes = matches!(opcode, op::FUNCTION_CALL | 87..=98 | 227..=242)
                    || self.has(inputs)
                    || pointers.iter().any(|id| self.holds(*id));
                let is_load = opcode == op::EXT_INST && VLOADS.contains(&word.operand(3));
                let written = pointers.into_iter().filter(|_| comes && !is_load);
                let news = written.fold(false, |news, id| news | self.spoil(id));
                let is_result = comes && op::has_result(opcode);
                news | (is_result && self.values.insert(word.operand(1)))
            }
        }
    }
}

/// Functions of the OpenCL extended instruction set that load vectors, and halves (its section 2.7).
const VLOADS: [u32; 4] = [171, 173, 174, 179];

/// What an instruction computes with: its words behind its result; of calls those behind what is
/// called.
fn inputs<'m>(word: Word<'m>) -> &'m [u32] {
    let from = match word.opcode {
        op::FUNCTION_CALL => 3,
        op::EXT_INST => 4,
        opcode if op::has_result(opcode) => 2,
        _ => 0,
    };
    word.operands.get(from..).unwrap_or_default()
}

/// Instructions that give no value, but those that end blocks: copies of memory, writes to images,
/// barriers, atomic stores, waits for copies.
fn is_without_result(opcode: u16) -> bool {
    matches!(opcode, op::STORE | 63 | 64 | 99 | 224 | 225 | 228 | 260 | 319 | 329)
}
