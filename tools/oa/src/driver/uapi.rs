//! The calls of i915 and xe as bytes: numbers, structures, and the buffers they point to. Owns
//! every layout that crosses the boundary to the kernel; refuses to make calls (that is
//! [`crate::device`]).
//!
//! Sources: i915_drm.h and xe_drm.h of Linux 6.12. All structures are little-endian; pointers are
//! filled in at the call, so that what is here is plain bytes and can be compared in tests.
#![forbid(unsafe_code)]

use crate::config::{Register, Uuid};

/// Request numbers.
pub mod request {
    /// GETPARAM {s32 param, pad, *s32 value}.
    pub const I915_GETPARAM: u32 = 0xc010_6446;
    /// REG_READ {u64 offset, u64 value}.
    pub const I915_REG_READ: u32 = 0xc010_6471;
    /// QUERY {u32 items, u32 flags, *items}.
    pub const I915_QUERY: u32 = 0xc010_6479;
    /// PERF_OPEN {u32 flags, u32 properties, *(u64 id, u64 value)}.
    pub const I915_PERF_OPEN: u32 = 0x4010_6476;
    /// PERF_ADD_CONFIG, 72 bytes.
    pub const I915_PERF_ADD_CONFIG: u32 = 0x4048_6477;
    /// PERF_REMOVE_CONFIG {u64 id}.
    pub const I915_PERF_REMOVE_CONFIG: u32 = 0x4008_6478;
    /// OBSERVATION {u64 extensions, u64 type, u64 op, *param}.
    pub const XE_OBSERVATION: u32 = 0x4020_644b;
    /// DEVICE_QUERY `{u64 extensions, u32 query, u32 size, *data, u64[2]}`.
    pub const XE_DEVICE_QUERY: u32 = 0xc028_6440;
    /// On a stream of xe: what was lost.
    pub const XE_STREAM_STATUS: u32 = 0x6903;
}

/// How a structure gives the length of a buffer that it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    /// The offset of the u32 with the length.
    pub at: usize,
    /// Bytes per item counted.
    pub item: usize,
}

/// A pointer in a structure.
#[derive(Debug)]
pub(crate) struct Link {
    /// Where the u64 stands.
    pub at: usize,
    /// What it points to.
    pub block: Block,
    /// How its length is given; `None` where it is fixed by the interface.
    pub count: Option<Count>,
}

/// A structure and what it points to.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub bytes: Vec<u8>,
    pub links: Vec<Link>,
}

impl Block {
    fn new(bytes: usize) -> Block {
        Block { bytes: vec![0; bytes], links: Vec::new() }
    }

    fn put(mut self, at: usize, bytes: &[u8]) -> Block {
        if let Some(to) = self.bytes.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
        self
    }

    fn u32(self, at: usize, value: u32) -> Block {
        self.put(at, &value.to_le_bytes())
    }

    fn u64(self, at: usize, value: u64) -> Block {
        self.put(at, &value.to_le_bytes())
    }

    /// Points at a buffer whose length the interface fixes.
    fn link(mut self, at: usize, block: Block) -> Block {
        self.links.push(Link { at, block, count: None });
        self
    }

    /// Points at a buffer of counted items, and writes the count.
    fn counted(self, at: usize, count: Count, block: Block) -> Block {
        let items = u32::try_from(block.bytes.len() / count.item.max(1)).unwrap_or(0);
        let mut whole = self.u32(count.at, items);
        // The kernel takes a null pointer for an empty list.
        if items > 0 {
            whole.links.push(Link { at, block, count: Some(count) });
        }
        whole
    }

    fn of_registers(registers: &[Register]) -> Block {
        let words = registers.iter().flat_map(|r| [r.address, r.value]).flat_map(u32::to_le_bytes);
        Block { bytes: words.collect(), links: Vec::new() }
    }

    /// Whether every count agrees with its buffer.
    pub fn is_consistent(&self) -> bool {
        self.links.iter().all(|link| {
            let counted = link.count.is_none_or(|count| {
                let said = self
                    .bytes
                    .get(count.at..count.at + 4)
                    .and_then(|b| b.try_into().ok())
                    .map(u32::from_le_bytes);
                said.is_some_and(|n| n as usize * count.item == link.block.bytes.len())
            });
            counted && self.bytes.len() >= link.at + 8 && link.block.is_consistent()
        })
    }
}

/// One call, ready to be made: made only here, so that whoever makes it may rely on its lengths.
#[derive(Debug)]
pub struct Call {
    pub(crate) request: u32,
    pub(crate) argument: Block,
    pub(crate) answered: bool,
}

impl Call {
    fn block(request: u32, block: Block) -> Call {
        Call { request, argument: block, answered: false }
    }

    /// The request's number.
    pub fn request(&self) -> u32 {
        self.request
    }

    /// Whether its result is the descriptor of a new stream.
    pub fn opens_stream(&self) -> bool {
        match self.request {
            request::I915_PERF_OPEN => true,
            request::XE_OBSERVATION => self.u64_at(&[], 16) == 0,
            _ => false,
        }
    }

    /// The bytes of the structure, or of what it points to along `path`: the offsets of pointers.
    pub fn bytes(&self, path: &[usize]) -> Option<&[u8]> {
        let mut block = &self.argument;
        for at in path {
            block = &block.links.iter().find(|l| l.at == *at)?.block;
        }
        Some(&block.bytes)
    }

    /// For emulators: writes an answer where the kernel would. Such a call cannot be made for real
    /// any more.
    pub fn answer(&mut self, path: &[usize], at: usize, bytes: &[u8]) -> bool {
        self.answered = true;
        let mut block = &mut self.argument;
        for step in path {
            match block.links.iter_mut().find(|l| l.at == *step) {
                Some(link) => block = &mut link.block,
                None => return false,
            }
        }
        block.bytes.get_mut(at..at + bytes.len()).map(|to| to.copy_from_slice(bytes)).is_some()
    }

    pub(crate) fn u32_at(&self, path: &[usize], at: usize) -> u32 {
        self.bytes(path)
            .and_then(|b| b.get(at..at + 4))
            .and_then(|b| b.try_into().ok())
            .map_or(0, u32::from_le_bytes)
    }

    pub(crate) fn u64_at(&self, path: &[usize], at: usize) -> u64 {
        u64::from(self.u32_at(path, at)) | u64::from(self.u32_at(path, at + 4)) << 32
    }
}

/// GETPARAM.
pub(crate) fn get_param(param: u32) -> Call {
    Call::block(request::I915_GETPARAM, Block::new(16).u32(0, param).link(8, Block::new(4)))
}

/// REG_READ.
pub(crate) fn reg_read(offset: u64) -> Call {
    Call::block(request::I915_REG_READ, Block::new(16).u64(0, offset))
}

/// QUERY of one item, with `length` bytes for the answer; 0 asks how many there are.
pub(crate) fn i915_query(id: u64, length: u32) -> Call {
    let item = Block::new(24).u64(0, id).counted(
        16,
        Count { at: 8, item: 1 },
        Block::new(length as usize),
    );
    Call::block(request::I915_QUERY, Block::new(16).counted(8, Count { at: 0, item: 24 }, item))
}

/// PERF_OPEN.
pub(crate) fn perf_open(flags: u32, properties: &[(u64, u64)]) -> Call {
    let list: Vec<u8> = properties
        .iter()
        .flat_map(|(id, value)| [*id, *value])
        .flat_map(u64::to_le_bytes)
        .collect();
    let list = Block { bytes: list, links: Vec::new() };
    Call::block(
        request::I915_PERF_OPEN,
        Block::new(16).u32(0, flags).counted(8, Count { at: 4, item: 16 }, list),
    )
}

/// PERF_ADD_CONFIG.
pub(crate) fn perf_add_config(
    uuid: &Uuid,
    mux: &[Register],
    boolean: &[Register],
    flex: &[Register],
) -> Call {
    let lists = [(48, 36, mux), (56, 40, boolean), (64, 44, flex)];
    let whole = Block::new(72).put(0, uuid.as_bytes());
    let whole = lists.into_iter().fold(whole, |whole, (pointer, count, list)| {
        whole.counted(pointer, Count { at: count, item: 8 }, Block::of_registers(list))
    });
    Call::block(request::I915_PERF_ADD_CONFIG, whole)
}

/// PERF_REMOVE_CONFIG.
pub(crate) fn perf_remove_config(id: u64) -> Call {
    Call::block(request::I915_PERF_REMOVE_CONFIG, Block::new(8).u64(0, id))
}

fn observation(operation: u64, parameter: Block) -> Call {
    Call::block(request::XE_OBSERVATION, Block::new(32).u64(16, operation).link(24, parameter))
}

/// OBSERVATION, open: a chain of 48-byte properties {u64 next, u32 name, u32 pad, u32 property, u32
/// pad, u64 value, u64[2]}.
pub(crate) fn xe_open(properties: &[(u32, u64)]) -> Call {
    let chain = properties.iter().rev().fold(None, |next, (property, value)| {
        let one = Block::new(48).u32(16, *property).u64(24, *value);
        Some(match next {
            Some(next) => one.link(0, next),
            None => one,
        })
    });
    observation(0, chain.unwrap_or_else(|| Block::new(48)))
}

/// OBSERVATION, add: 56 bytes {u64 extensions, uuid[36], u32 n, *registers}.
pub(crate) fn xe_add_config(uuid: &Uuid, registers: &[Register]) -> Call {
    let config = Block::new(56).put(8, uuid.as_bytes());
    observation(1, config.counted(48, Count { at: 44, item: 8 }, Block::of_registers(registers)))
}

/// OBSERVATION, remove.
pub(crate) fn xe_remove_config(id: u64) -> Call {
    observation(2, Block::new(8).u64(0, id))
}

/// DEVICE_QUERY; no data asks how long the answer is.
pub(crate) fn xe_query(query: u32, data: Vec<u8>) -> Call {
    let data = Block { bytes: data, links: Vec::new() };
    Call::block(
        request::XE_DEVICE_QUERY,
        Block::new(40).u32(8, query).counted(16, Count { at: 12, item: 1 }, data),
    )
}

/// STATUS of an xe stream: {u64 extensions, u64 status, u64[3]}.
pub(crate) fn xe_status() -> Call {
    Call::block(request::XE_STREAM_STATUS, Block::new(40))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_size_their_number_says() {
        let uuid: Uuid = "12994724-3a5a-4303-bb3c-ba0175d2c200".parse().unwrap();
        let one = [Register { address: 0xe458, value: 1904 }];
        let calls = [
            get_param(57),
            reg_read(0x2359),
            i915_query(1, 0),
            i915_query(1, 40),
            perf_open(7, &[(2, 1), (3, 5)]),
            perf_add_config(&uuid, &one, &[], &one),
            perf_remove_config(2),
            xe_open(&[(1, 0), (3, 9)]),
            xe_add_config(&uuid, &one),
            xe_remove_config(1),
            xe_query(6, vec![0; 40]),
        ];
        for call in &calls {
            let block = &call.argument;
            assert_eq!(
                call.request >> 16 & 0x3fff,
                block.bytes.len() as u32,
                "{:#x}",
                call.request
            );
            assert!(block.is_consistent());
        }
        assert_eq!(xe_status().bytes(&[]).unwrap().len(), 40);
    }

    #[test]
    fn configurations_are_laid_out_as_documented() {
        let uuid: Uuid = "12994724-3a5a-4303-bb3c-ba0175d2c200".parse().unwrap();
        let flex =
            [Register { address: 0xe458, value: 1904 }, Register { address: 0xe558, value: 3 }];
        let call = perf_add_config(&uuid, &[], &flex[..1], &flex);
        let bytes = call.bytes(&[]).unwrap();
        assert_eq!(&bytes[..36], uuid.as_bytes());
        assert_eq!([call.u32_at(&[], 36), call.u32_at(&[], 40), call.u32_at(&[], 44)], [0, 1, 2]);
        assert_eq!(call.bytes(&[48]), None);
        assert_eq!(call.bytes(&[56]).unwrap(), [0x58, 0xe4, 0, 0, 0x70, 0x07, 0, 0]);
        assert_eq!(call.u32_at(&[64], 8), 0xe558);
        let xe = xe_add_config(&uuid, &flex);
        assert_eq!((xe.u64_at(&[], 16), xe.u32_at(&[24], 44), xe.u32_at(&[24, 48], 12)), (1, 2, 3));
        assert_eq!(&xe.bytes(&[24]).unwrap()[8..44], uuid.as_bytes());
    }

    #[test]
    fn property_chains_keep_their_order() {
        let call = xe_open(&[(1, 0), (2, 1), (3, 9)]);
        let steps = [vec![24], vec![24, 0], vec![24, 0, 0]];
        let got: Vec<(u32, u64)> =
            steps.iter().map(|s| (call.u32_at(s, 16), call.u64_at(s, 24))).collect();
        assert_eq!(got, [(1, 0), (2, 1), (3, 9)]);
        let open = perf_open(5, &[(2, 1), (5, 12)]);
        assert_eq!((open.u32_at(&[], 0), open.u32_at(&[], 4)), (5, 2));
        assert_eq!([0, 8, 16, 24].map(|at| open.u64_at(&[8], at)), [2, 1, 5, 12]);
    }

    #[test]
    fn answers_land_where_the_kernel_writes() {
        let mut call = get_param(51);
        assert!(call.answer(&[8], 0, &12u32.to_le_bytes()));
        assert_eq!(call.u32_at(&[8], 0), 12);
        assert!(!call.answer(&[8], 1, &[0; 4]));
        assert!(!call.answer(&[0], 0, &[0; 4]));
    }
}
