//! Where memory objects are mapped: what no command may use meanwhile, and what the host may not
//! use any more afterwards. Refuses to judge order.

use super::order::Place;
use super::part::Range;
use std::collections::HashMap;

/// A mapping.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// What is mapped of the object.
    pub range: Range,
    /// The host may write it.
    pub writes: bool,
    /// The command that mapped it.
    pub at: Place,
    /// Where that was enqueued.
    pub place: Option<String>,
    /// Where it is mapped, 0 where that was not told.
    pub address: u64,
    /// Bytes there, 0 where that was not told.
    pub bytes: u64,
}

/// The mappings of objects, by the objects that they are parts of.
#[derive(Default)]
pub struct Mappings(HashMap<u32, Vec<Mapping>>);

impl Mappings {
    /// An object is mapped.
    pub fn map(&mut self, object: u32, mapping: Mapping) {
        self.0.entry(object).or_default().push(mapping);
    }

    /// A mapping of an object ends: which one, by its address, else the last one.
    pub fn unmap(&mut self, object: u32, address: Option<u64>) -> Option<Mapping> {
        let all = self.0.get_mut(&object)?;
        let at = match address {
            Some(address) => all.iter().rposition(|of| [address, 0].contains(&of.address))?,
            None => all.len().checked_sub(1)?,
        };
        Some(all.remove(at))
    }

    /// Mappings of an object.
    pub fn find(&self, object: u32) -> &[Mapping] {
        self.0.get(&object).map_or(&[], Vec::as_slice)
    }

    /// Whether another mapping holds some of these addresses.
    pub fn hold(&self, object: u32, of: &Mapping) -> bool {
        let range = Range::new(of.address, of.bytes);
        self.find(object).iter().any(|other| Range::new(other.address, other.bytes).overlaps(range))
    }
}
