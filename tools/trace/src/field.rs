//! How a field of a definition or a reading becomes bytes: little-endian integers; strings and
//! lists as a count and their elements; an option as a byte and its value. Refuses to frame them.

/// How a field is written and read.
pub(crate) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! integers {
    ($($t:ty),*) => { $(impl Field for $t {
        fn put(&self, out: &mut Vec<u8>) { out.extend_from_slice(&self.to_le_bytes()); }
        fn get(from: &mut &[u8]) -> Option<Self> {
            let (head, rest) = from.split_first_chunk()?;
            *from = rest;
            Some(Self::from_le_bytes(*head))
        }
    })* };
}
integers!(u8, u16, u32, u64, i32, i64, f64);

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn get(from: &mut &[u8]) -> Option<Self> {
        u8::get(from).map(|b| b != 0)
    }
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn get(from: &mut &[u8]) -> Option<Self> {
        let length = u32::get(from)? as usize;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        for item in self {
            item.put(out);
        }
    }
    fn get(from: &mut &[u8]) -> Option<Self> {
        let count = u32::get(from)? as usize;
        // A hostile count must not reserve memory: every element has at least one byte.
        if count > from.len() {
            return None;
        }
        (0..count).map(|_| T::get(from)).collect()
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn get(from: &mut &[u8]) -> Option<Self> {
        if bool::get(from)? { T::get(from).map(Some) } else { Some(None) }
    }
}

impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    fn put(&self, out: &mut Vec<u8>) {
        for item in self {
            item.put(out);
        }
    }
    fn get(from: &mut &[u8]) -> Option<Self> {
        let mut out = [T::default(); N];
        for item in &mut out {
            *item = T::get(from)?;
        }
        Some(out)
    }
}
