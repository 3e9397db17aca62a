//! Memory that is used by its address: shared virtual memory, and that of the host on the other
//! side of transfers. Owns which allocation an address lies in, and what kernels were given.
//! Refuses to judge order.

use super::part::Range;
use crate::document::{Findings, Key};
use crate::rules::Rule;
use crate::seen::Seen;
use clscope_trace::codes as cl;
use clscope_trace::record::{Detail, detail};
use std::collections::{BTreeMap, HashMap};

/// What bytes belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Object {
    /// A memory object, by its id.
    Memory(u32),
    /// An allocation of shared virtual memory, by its number from 1. Bytes are addresses.
    Svm(u64),
    /// The host's memory. Bytes are addresses.
    Host,
}

impl Object {
    /// What a finding calls it beside its text; nothing for memory objects.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Memory(_) => "",
            Self::Svm(_) => " (shared virtual memory)",
            Self::Host => " (memory of the host)",
        }
    }
}

/// An allocation of shared virtual memory.
#[derive(Debug, Clone, Copy)]
pub struct Svm {
    /// Its number, from 1.
    pub number: u64,
    /// Its addresses.
    pub range: Range,
    /// `cl_svm_mem_flags`.
    pub flags: u64,
}

/// Memory by addresses, of one process.
#[derive(Default)]
pub struct Addresses {
    made: u64,
    /// By the first address.
    allocations: BTreeMap<u64, Svm>,
    /// Where each of them was made that is not given back, by its first address.
    places: BTreeMap<u64, Option<String>>,
    /// Addresses among the arguments of kernels.
    arguments: HashMap<u32, BTreeMap<u32, u64>>,
    /// What kernels reach beside their arguments.
    beside: HashMap<u32, Vec<u64>>,
    /// Where allocations are mapped for writing.
    mapped: HashMap<u64, Vec<Range>>,
}

impl Addresses {
    /// Memory was allocated.
    pub fn made(&mut self, of: &Detail) {
        let [address, bytes, flags] = of.values;
        let range = Range::new(address, bytes.max(1));
        // What lay there was given back.
        self.allocations.retain(|_, known| !known.range.overlaps(range));
        self.made += 1;
        self.places.retain(|address, _| self.allocations.contains_key(address));
        self.places.insert(address, None);
        self.allocations.insert(address, Svm { number: self.made, range, flags });
    }

    /// Memory was given back: what it was.
    pub fn freed(&mut self, address: u64) -> Option<Svm> {
        self.given_back(address);
        self.allocations.remove(&address).filter(|svm| svm.is_coarse())
    }

    /// The call that made memory, which it returns, has this place.
    pub fn placed(&mut self, seen: &Seen<'_>) {
        let made = seen.argument("return").and_then(|address| self.places.get_mut(&address));
        if let Some(place) = made {
            *place = seen.place.map(str::to_owned);
        }
    }

    /// It is given back, or a command does that when its time has come.
    pub fn given_back(&mut self, address: u64) {
        self.places.remove(&address);
    }

    /// The end of the process, in order: what was not given back.
    pub fn finish(&self, to: &mut Findings) {
        for (address, place) in &self.places {
            let Some(svm) = self.allocations.get(address) else { continue };
            let text = "clSVMAlloc made shared virtual memory that is not freed".to_owned();
            let key = Key::new(Rule::NeverReleased, text).at("clSVMAlloc", place.as_deref());
            let bytes = svm.range.end - svm.range.begin;
            to.add(key, None, Some(format!("{address:#x} ({bytes} bytes)")));
        }
    }

    /// The allocation in which an address lies.
    pub fn find(&self, address: u64) -> Option<Svm> {
        let (_, svm) = self.allocations.range(..=address).next_back()?;
        svm.range.overlaps(Range::new(address, 1)).then_some(*svm)
    }

    /// An argument was set to an address.
    pub fn argument(&mut self, of: &Detail) {
        let (kernel, index) = (of.values[0] as u32, of.values[0] >> 32);
        match (index, of.values[1]) {
            (detail::BESIDE, 0) => drop(self.beside.remove(&kernel)),
            (detail::BESIDE, address) => self.beside.entry(kernel).or_default().push(address),
            (index, address) => {
                self.arguments.entry(kernel).or_default().insert(index as u32, address);
            }
        }
    }

    /// An argument was set to something else.
    pub fn other(&mut self, kernel: u32, index: u32) {
        if let Some(of) = self.arguments.get_mut(&kernel) {
            of.remove(&index);
        }
    }

    /// A kernel has the arguments of another.
    pub fn cloned(&mut self, from: u32, to: u32) {
        let same = self.arguments.get(&from).cloned().unwrap_or_default();
        self.arguments.insert(to, same);
        let same = self.beside.get(&from).cloned().unwrap_or_default();
        self.beside.insert(to, same);
    }

    /// The allocations that a kernel is given: number of the argument, none for those beside; the
    /// allocation; the address.
    pub fn of_kernel(&self, kernel: u32) -> Vec<(Option<u32>, Svm, u64)> {
        let arguments = self.arguments.get(&kernel).into_iter().flatten();
        let arguments = arguments.map(|(index, address)| (Some(*index), *address));
        let beside = self.beside.get(&kernel).into_iter().flatten();
        let all = arguments.chain(beside.map(|address| (None, *address)));
        all.filter_map(|(index, address)| Some((index, self.find(address)?, address))).collect()
    }

    /// It is mapped for writing from an address on.
    pub fn map(&mut self, address: u64, range: Range) {
        self.mapped.entry(address).or_default().push(range);
    }

    /// It is unmapped: where it could be written.
    pub fn unmap(&mut self, address: u64) -> Option<Range> {
        self.mapped.get_mut(&address).and_then(Vec::pop)
    }
}

impl Svm {
    /// Whether the host and the device take turns with it. Fine-grained memory is synchronised in
    /// ways that are not in a trace.
    pub const fn is_coarse(&self) -> bool {
        self.flags & cl::CL_MEM_SVM_FINE_GRAIN_BUFFER == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_detail(values: [u64; 3]) -> Detail {
        Detail { function: 0, what: 0, site: 0, values }
    }

    #[test]
    fn addresses_lie_in_the_allocation_of_the_moment() {
        let mut of = Addresses::default();
        of.made(&make_detail([0x1000, 0x100, 0]));
        assert_eq!(of.find(0x10ff).map(|s| s.number), Some(1));
        assert!(of.find(0x1100).is_none() && of.find(0xfff).is_none());
        // The same addresses again, given back in a way that is not followed.
        of.made(&make_detail([0x10f0, 0x100, 0]));
        assert_eq!(of.find(0x10ff).map(|s| s.number), Some(2));
        assert!(of.find(0x1000).is_none());
        assert!(of.freed(0x1000).is_none());
        assert_eq!(of.freed(0x10f0).map(|s| s.number), Some(2));
        assert!(of.find(0x10ff).is_none());
        of.made(&make_detail([0x1000, 0x100, cl::CL_MEM_SVM_FINE_GRAIN_BUFFER]));
        assert!(of.freed(0x1000).is_none());
    }

    #[test]
    fn kernels_have_what_they_were_given_last() {
        let mut of = Addresses::default();
        of.made(&make_detail([0x1000, 0x100, 0]));
        of.made(&make_detail([0x2000, 0x100, 0]));
        let given = |of: &Addresses, kernel| -> Vec<(Option<u32>, u64)> {
            of.of_kernel(kernel).into_iter().map(|(index, svm, _)| (index, svm.number)).collect()
        };
        of.argument(&make_detail([7 | 2 << 32, 0x1010, 0]));
        of.argument(&make_detail([7 | detail::BESIDE << 32, 0, 0]));
        of.argument(&make_detail([7 | detail::BESIDE << 32, 0x2000, 0]));
        assert_eq!(given(&of, 7), [(Some(2), 1), (None, 2)]);
        of.cloned(7, 8);
        of.argument(&make_detail([7 | detail::BESIDE << 32, 0, 0]));
        of.other(7, 2);
        assert_eq!(given(&of, 7), []);
        assert_eq!(given(&of, 8), [(Some(2), 1), (None, 2)]);
    }
}
