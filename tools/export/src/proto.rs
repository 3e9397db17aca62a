//! Owns the wire format of protocol buffers, as far as writing needs it: varints, 64-bit words,
//! nested messages (protobuf.dev, "Encoding"). Refuses to know any message: field numbers are the
//! caller's; and to write a character without a glyph, since readers print names on terminals.

use clscope_io::text::line;

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;

/// A message being written into one buffer, with all that is nested in it.
#[derive(Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// What was written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what was written, and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// An unsigned number, an enum value, or a bool as 0 or 1.
    pub fn uint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        varint(&mut self.bytes, value);
    }

    /// A signed number of a field of type int64: negative ones take ten bytes.
    pub fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value as u64);
    }

    /// A double.
    pub fn double(&mut self, field: u32, value: f64) {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes: a string, or a message that was written elsewhere.
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, BYTES);
        varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// A string, on one line.
    pub fn text(&mut self, field: u32, value: &str) {
        self.bytes(field, line(value).as_bytes());
    }

    /// A nested message.
    pub fn nested(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, BYTES);
        let at = self.bytes.len();
        // Nearly all messages are shorter than 128 bytes: one byte is kept for the length.
        self.bytes.push(0);
        write(self);
        let length = self.bytes.len() - at - 1;
        if length < 0x80
            && let Some(kept) = self.bytes.get_mut(at)
        {
            *kept = length as u8;
            return;
        }
        let mut prefix = [0; 10];
        let n = into(&mut prefix, length as u64);
        self.bytes.splice(at..=at, prefix.iter().take(n).copied());
    }

    fn key(&mut self, field: u32, kind: u64) {
        varint(&mut self.bytes, u64::from(field) << 3 | kind);
    }
}

fn varint(out: &mut Vec<u8>, value: u64) {
    if value < 0x80 {
        out.push(value as u8);
        return;
    }
    let mut buffer = [0; 10];
    let n = into(&mut buffer, value);
    out.extend_from_slice(buffer.get(..n).unwrap_or_default());
}

/// Writes a varint and gives its length.
fn into(buffer: &mut [u8; 10], mut value: u64) -> usize {
    let mut n = 0;
    for byte in buffer.iter_mut() {
        *byte = (value & 0x7f) as u8;
        value >>= 7;
        n += 1;
        if value == 0 {
            break;
        }
        *byte |= 0x80;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the encoding's own description, and the ends of the range.
    #[test]
    fn numbers_texts_and_nested_messages_are_as_documented() {
        let mut m = Message::default();
        m.uint(1, 150);
        assert_eq!(m.as_slice(), [0x08, 0x96, 0x01]);
        m.clear();
        m.text(2, "testing");
        assert_eq!(m.as_slice(), b"\x12\x07testing");
        m.clear();
        m.text(2, "\u{1b}ä\u{200f}\n");
        assert_eq!(m.as_slice(), "\x12\x12\\u{1b}ä\\u{200f}\\n".as_bytes());
        m.clear();
        m.nested(3, |m| m.uint(1, 150));
        assert_eq!(m.as_slice(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        m.clear();
        m.int(1, -1);
        assert_eq!(m.as_slice(), [&[0x08][..], &[0xff; 9], &[0x01]].concat());
    }

    #[test]
    fn a_long_nested_message_has_a_long_length() {
        let mut m = Message::default();
        m.nested(1, |m| m.nested(2, |m| m.text(3, &"x".repeat(300))));
        // 300 bytes with key and length are 303, and 306 in the message between.
        assert_eq!(m.as_slice()[..9], [0x0a, 0xb2, 0x02, 0x12, 0xaf, 0x02, 0x1a, 0xac, 0x02]);
        assert_eq!(m.as_slice().len(), 309);
    }
}
