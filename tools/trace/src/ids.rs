//! Spellings of what names a device or a file in a trace: PCI addresses, UUIDs, build ids. Refuses
//! to judge whether two of them name the same thing.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

/// Bytes as lower-case hexadecimal digits, two each.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Where a device is plugged in. Written `dddd:bb:dd.f`, as Linux does; reads NVML's eight digits
/// of domain, an address without domain, and one without function as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PciAddress {
    /// Domain; 0 on most machines.
    pub domain: u32,
    /// Bus.
    pub bus: u32,
    /// Device on the bus.
    pub device: u32,
    /// Function of the device; 0 of GPUs.
    pub function: u32,
}

impl PciAddress {
    /// From a slot as NVIDIA's OpenCL queries give it: device and function in one number.
    pub fn of_slot(domain: u32, bus: u32, slot: u32) -> Self {
        Self { domain, bus, device: slot >> 3, function: slot & 7 }
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// A text is no PCI address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a PCI address: 0000:3b:00.0")]
pub struct BadAddress;

impl FromStr for PciAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (rest, function) = text.trim().rsplit_once('.').unwrap_or((text.trim(), "0"));
        let number = |digits: &str| u32::from_str_radix(digits, 16).map_err(|_| BadAddress);
        let parts: Vec<&str> = rest.split(':').collect();
        let (domain, bus, device) = match parts[..] {
            [domain, bus, device] => (number(domain)?, bus, device),
            [bus, device] => (0, bus, device),
            _ => return Err(BadAddress),
        };
        let (bus, device, function) = (number(bus)?, number(device)?, number(function)?);
        Ok(Self { domain, bus, device, function })
    }
}

/// A PCI address in the one spelling; `None` where the text is none.
pub fn normal_pci(text: &str) -> Option<String> {
    text.parse().ok().map(|address: PciAddress| address.to_string())
}

/// The digits of a UUID: `GPU-01234567-89ab-...` and `0123456789ab...` are one. `None` where it is
/// not of 32 digits, or all are 0.
pub fn normal_uuid(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let digits: String =
        text.trim_start_matches("gpu-").chars().filter(char::is_ascii_hexdigit).collect();
    (digits.len() == 32 && digits.chars().any(|c| c != '0')).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_spelling() {
        for text in ["0000:3b:00.0", "00000000:3B:00.0", "3b:00.0", "0000:3b:00", " 3b:0 "] {
            let address: PciAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), "0000:3b:00.0", "{text}");
        }
        for text in ["nonsense", "", "3b", "0:0:0:0", "zz:00.0", "3b:00.g", "100000000:0:0.0"] {
            assert_eq!(text.parse::<PciAddress>(), Err(BadAddress), "{text}");
        }
        let (domain, bus) = (0x1_0000, 0xe3);
        assert_eq!(PciAddress::of_slot(domain, bus, 0x1a << 3 | 7).to_string(), "10000:e3:1a.7");
    }

    #[test]
    fn uuids_have_one_spelling() {
        let digits = "0123456789abcdef0123456789abcdef";
        for text in [
            digits,
            "GPU-01234567-89ab-cdef-0123-456789ABCDEF",
            " 0123456789abcdef0123456789abcdef ",
        ] {
            assert_eq!(normal_uuid(text).as_deref(), Some(digits), "{text}");
        }
        for text in ["00000000000000000000000000000000", "12", ""] {
            assert_eq!(normal_uuid(text), None, "{text}");
        }
    }

    #[test]
    fn bytes_are_two_digits_each() {
        assert_eq!(hex(&[0, 0x0f, 0xa0]), "000fa0");
        assert_eq!(hex(&[]), "");
    }
}
