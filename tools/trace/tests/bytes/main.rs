//! The layout of version 1 stated a second time, as bytes at offsets, without the code that writes
//! them: what writer and reader agree on by mistake is seen here. Numbers are little-endian.

mod definitions;
mod files;
mod records;
mod sampler;

/// Bytes that are 0 but for (offset, width, value).
fn at(length: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
    let mut out = vec![0; length];
    for (offset, width, value) in fields {
        out[*offset..offset + width].copy_from_slice(&value.to_le_bytes()[..*width]);
    }
    out
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}
/// Builders of a payload, one field after the other.
#[derive(Default)]
struct Payload(Vec<u8>);

impl Payload {
    fn n(mut self, width: usize, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_le_bytes()[..width]);
        self
    }
    fn s(mut self, text: &str) -> Self {
        self = self.n(4, text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
        self
    }
    /// An option that holds what is added next, or nothing.
    fn some(self) -> Self {
        self.n(1, 1)
    }
    fn none(self) -> Self {
        self.n(1, 0)
    }
}
