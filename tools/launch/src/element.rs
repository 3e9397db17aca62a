//! What the bytes of a memory mean: elements of a type, from an argument's type name, an image's
//! format, or what the user says. Refuses to guess: what is not known is bytes.

use clscope_microbench::half;

/// The type of a memory's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Element {
    /// Not known.
    #[default]
    Byte,
    /// An integer.
    Integer {
        /// Its size.
        bytes: usize,
        /// Whether it has a sign.
        signed: bool,
    },
    /// Half precision.
    Half,
    /// Single precision.
    Float,
    /// Double precision.
    Double,
}

/// A floating-point value as a number whose neighbours are the neighbours of the value, and whether
/// it is no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ordered {
    /// Zero for both zeros.
    pub rank: i64,
    /// NaN.
    pub is_nan: bool,
}

impl Element {
    /// By the name of a type in OpenCL C, as `float4*` or `const uchar *`. Vectors are their
    /// scalars.
    pub fn of_type(type_name: &str) -> Option<Self> {
        const QUALIFIERS: [&str; 12] = [
            "const",
            "volatile",
            "restrict",
            "global",
            "__global",
            "constant",
            "__constant",
            "__const",
            "read_only",
            "write_only",
            "read_write",
            "*",
        ];
        let spaced = type_name.replace('*', " * ");
        let words: Vec<&str> =
            spaced.split_whitespace().filter(|word| !QUALIFIERS.contains(word)).collect();
        let integer = |bytes, signed| Some(Self::Integer { bytes, signed });
        let joined = words.join(" ");
        let scalar = joined.trim_end_matches(|c: char| c.is_ascii_digit());
        let width = &joined[scalar.len()..];
        if !["", "2", "3", "4", "8", "16"].contains(&width) {
            return None;
        }
        match scalar {
            "half" => Some(Self::Half),
            "float" => Some(Self::Float),
            "double" => Some(Self::Double),
            "char" | "signed char" => integer(1, true),
            "uchar" | "unsigned char" | "bool" => integer(1, false),
            "short" | "signed short" => integer(2, true),
            "ushort" | "unsigned short" => integer(2, false),
            "int" | "signed int" | "signed" => integer(4, true),
            "uint" | "unsigned int" | "unsigned" => integer(4, false),
            "long" | "signed long" => integer(8, true),
            "ulong" | "unsigned long" => integer(8, false),
            _ => None,
        }
    }

    /// By the data type of an image's channels, as `CL_FLOAT`.
    pub fn of_channel(name: &str) -> Self {
        let integer = |bytes, signed| Self::Integer { bytes, signed };
        match name {
            "CL_FLOAT" => Self::Float,
            "CL_HALF_FLOAT" => Self::Half,
            "CL_SNORM_INT8" | "CL_SIGNED_INT8" => integer(1, true),
            "CL_UNORM_INT8" | "CL_UNSIGNED_INT8" => integer(1, false),
            "CL_SNORM_INT16" | "CL_SIGNED_INT16" => integer(2, true),
            "CL_UNORM_INT16" | "CL_UNSIGNED_INT16" => integer(2, false),
            "CL_SIGNED_INT32" => integer(4, true),
            "CL_UNSIGNED_INT32" => integer(4, false),
            _ => Self::Byte,
        }
    }

    /// Its size.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Integer { bytes, .. } => bytes,
            Self::Half => 2,
            Self::Float => 4,
            Self::Double => 8,
        }
    }

    /// Its name in OpenCL C; `byte` where nothing is known.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Byte => "byte",
            Self::Half => "half",
            Self::Float => "float",
            Self::Double => "double",
            Self::Integer { bytes: 1, signed: true } => "char",
            Self::Integer { bytes: 1, .. } => "uchar",
            Self::Integer { bytes: 2, signed: true } => "short",
            Self::Integer { bytes: 2, .. } => "ushort",
            Self::Integer { bytes: 4, signed: true } => "int",
            Self::Integer { bytes: 4, .. } => "uint",
            Self::Integer { signed: true, .. } => "long",
            Self::Integer { .. } => "ulong",
        }
    }

    /// A floating-point element; nothing for others, and for bytes of another size.
    pub fn ordered(self, of: &[u8]) -> Option<Ordered> {
        // The sign and magnitude of IEEE 754 as two's complement: both zeros become 0.
        let rank = |bits: i64, lowest: i64| if bits < 0 { lowest - bits } else { bits };
        let (rank, is_nan) = match self {
            Self::Half => {
                let bits = i16::from_le_bytes(of.try_into().ok()?);
                let is_nan = bits & 0x7C00 == 0x7C00 && bits & 0x3FF != 0;
                (rank(bits.into(), i16::MIN.into()), is_nan)
            }
            Self::Float => {
                let bits = i32::from_le_bytes(of.try_into().ok()?);
                (rank(bits.into(), i32::MIN.into()), f32::from_bits(bits as u32).is_nan())
            }
            Self::Double => {
                let bits = i64::from_le_bytes(of.try_into().ok()?);
                (
                    if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits },
                    f64::from_bits(bits as u64).is_nan(),
                )
            }
            Self::Byte | Self::Integer { .. } => return None,
        };
        Some(Ordered { rank, is_nan })
    }

    /// The value of an element as a number; a 64-bit integer to the precision of one.
    pub fn value(self, of: &[u8]) -> Option<f64> {
        Some(match self {
            Self::Byte => f64::from(*of.first()?),
            Self::Half => half::to_f64(u16::from_le_bytes(of.try_into().ok()?)),
            Self::Float => f64::from(f32::from_le_bytes(of.try_into().ok()?)),
            Self::Double => f64::from_le_bytes(of.try_into().ok()?),
            Self::Integer { .. } => self.integer(of)? as f64,
        })
    }

    fn integer(self, of: &[u8]) -> Option<i128> {
        let Self::Integer { bytes, signed } = self else { return None };
        let mut wide = [0u8; 8];
        wide.get_mut(..bytes)?.copy_from_slice(of.get(..bytes)?);
        let value = u64::from_le_bytes(wide);
        let unused = 64 - 8 * u32::try_from(bytes).ok()?;
        Some(if signed { i128::from((value << unused) as i64 >> unused) } else { value.into() })
    }

    /// The value of an element for people; floating-point values to the last bit.
    pub fn shown(self, of: &[u8]) -> String {
        match self {
            Self::Byte => format!("{:#04x}", of.first().copied().unwrap_or_default()),
            Self::Integer { .. } => self.integer(of).map_or_else(String::new, |n| n.to_string()),
            Self::Float => of
                .try_into()
                .map_or_else(|_| String::new(), |b| format!("{:?}", f32::from_le_bytes(b))),
            _ => self.value(of).map_or_else(String::new, |x| format!("{x:?}")),
        }
    }
}

/// Bytes written in hexadecimal, two digits each.
pub fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |d: u8| char::from(d).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?).ok();
    digits.chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_their_names() {
        let integer = |bytes, signed| Some(Element::Integer { bytes, signed });
        for (name, want) in [
            ("float*", Some(Element::Float)),
            ("__global const float4 *", Some(Element::Float)),
            ("double16*", Some(Element::Double)),
            ("half *restrict", Some(Element::Half)),
            ("uchar*", integer(1, false)),
            ("unsigned int*", integer(4, false)),
            ("long3*", integer(8, true)),
            ("float5*", None),
            ("struct pair*", None),
            ("image2d_t", None),
            ("void*", None),
            ("", None),
        ] {
            assert_eq!(Element::of_type(name), want, "{name}");
        }
        assert_eq!(Element::of_channel("CL_UNORM_INT_101010"), Element::Byte);
    }

    #[test]
    fn values_are_shown_as_they_are() {
        assert_eq!(Element::Float.shown(&0.1f32.to_le_bytes()), "0.1");
        assert_eq!(Element::Double.shown(&f64::NAN.to_le_bytes()), "NaN");
        assert_eq!(Element::Half.shown(&0x3C00u16.to_le_bytes()), "1.0");
        assert_eq!(Element::Integer { bytes: 2, signed: true }.shown(&[0xFF, 0xFF]), "-1");
        assert_eq!(
            Element::Integer { bytes: 8, signed: false }.shown(&[0xFF; 8]),
            u64::MAX.to_string()
        );
        assert_eq!(Element::Byte.shown(&[9]), "0x09");
        assert_eq!(bytes_of_hex("00fFa1"), Some(vec![0, 255, 161]));
        assert_eq!(bytes_of_hex("0"), None);
        assert_eq!(bytes_of_hex("+1"), None);
        assert_eq!(bytes_of_hex("é0"), None);
    }
}
