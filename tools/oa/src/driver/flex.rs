//! Programmable EU counters: which event A7 to A20 count. Owns the text form, the encoding into
//! EU_PERF_CNTL0 to 6 and the meaning of the codes on Gen9; refuses to write registers itself: the
//! values go to the kernel as flexible registers of a configuration.
//!
//! Register i drives A(7+2i) from bits 11:0 and A(8+2i) from bits 23:12; each field is increment
//! 3:0, coarse 7:4, fine 11:8 (Gen9.5 thesis, Duarte 2018, tables 3.3 to 3.6; the increment has
//! four bits and the registers are seven: both as in the kernel and in Mesa's configurations). The
//! codes are Gen9's; later ones differ.
#![forbid(unsafe_code)]

use crate::config::Register;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Addresses of EU_PERF_CNTL0 to 6 (kernel, i915_perf_oa_regs.h).
pub const EU_PERF_CNTL: [u32; 7] = [0xe458, 0xe558, 0xe658, 0xe758, 0xe45c, 0xe55c, 0xe65c];

/// The first programmable counter.
pub const FIRST: u8 = 7;
/// The last.
pub const LAST: u8 = 20;

/// What one counter counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlexEvent {
    /// Fine event filter (0 to 15).
    pub fine: u8,
    /// Coarse event filter (0 to 15).
    pub coarse: u8,
    /// Increment event (0 to 15).
    pub increment: u8,
}

const FINE: [(u8, &str); 10] = [
    (0, "none"),
    (1, "hybrid instructions"),
    (2, "ternary instructions"),
    (3, "binary instructions"),
    (4, "mov instructions"),
    (5, "sends start"),
    (7, "EU 0 alone"),
    (8, "EU 1 alone"),
    (9, "EU 2 alone"),
    (10, "EU 3 alone"),
];
const COARSE: [(u8, &str); 9] = [
    (0, "no mask"),
    (1, "vertex-shader threads"),
    (2, "hull-shader threads"),
    (3, "domain-shader threads"),
    (4, "geometry-shader threads"),
    (5, "pixel-shader threads"),
    (6, "thread-spawner (TS) threads"),
    (7, "row 0"),
    (8, "row 1"),
];
const INCREMENT: [(u8, &str); 7] = [
    (0, "FPU0 active"),
    (1, "FPU1 active"),
    (2, "send pipe active"),
    (3, "FPU0 and FPU1 active together"),
    (4, "some pipe active"),
    (5, "threads loaded, no pipe active"),
    (8, "as many threads loaded as fit"),
];

impl FlexEvent {
    /// The twelve bits.
    pub fn bits(self) -> u32 {
        u32::from(self.increment & 15)
            | u32::from(self.coarse & 15) << 4
            | u32::from(self.fine & 15) << 8
    }

    /// From twelve bits.
    pub fn from_bits(bits: u32) -> FlexEvent {
        FlexEvent {
            increment: (bits & 15) as u8,
            coarse: (bits >> 4 & 15) as u8,
            fine: (bits >> 8 & 15) as u8,
        }
    }

    /// What it counts on Gen9, in words; codes without a published meaning are called so.
    pub fn meaning(self) -> String {
        let word = |table: &[(u8, &'static str)], code: u8| {
            table.iter().find(|(c, _)| *c == code).map_or_else(
                || format!("code {code} (no published meaning)"),
                |(_, w)| (*w).to_owned(),
            )
        };
        let mut text = format!("cycles with {}", word(&INCREMENT, self.increment));
        if self.coarse != 0 {
            text += &format!(", {}", word(&COARSE, self.coarse));
        }
        if self.fine != 0 {
            text += &format!(", {}", word(&FINE, self.fine));
        }
        text
    }
}

/// One programmable counter and its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Programmed {
    /// 7 to 20: A7 to A20.
    pub counter: u8,
    /// The event.
    pub event: FlexEvent,
}

impl fmt::Display for Programmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FlexEvent { fine, coarse, increment } = self.event;
        write!(f, "a{}=fine:{fine},coarse:{coarse},inc:{increment}", self.counter)
    }
}

/// A counter that was not understood.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum FlexError {
    /// Not of the form.
    #[error("counter {text:?}: expected something like a7=fine:7,coarse:7,inc:0")]
    Form { text: String },
    /// Not programmable.
    #[error("counter A{counter}: only A7 to A20 are programmable")]
    Counter { counter: u8 },
    /// A code of more than four bits.
    #[error("counter {text:?}: {part}:{value} is out of range, the codes have four bits (0 to 15)")]
    Range { text: String, part: String, value: u32 },
    /// Named twice.
    #[error("counter A{counter} is programmed twice")]
    Twice { counter: u8 },
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => match text.strip_prefix("0b") {
            Some(binary) => u32::from_str_radix(binary, 2).ok(),
            None => text.parse().ok(),
        },
    }
}

impl FromStr for Programmed {
    type Err = FlexError;

    fn from_str(text: &str) -> Result<Programmed, FlexError> {
        let form = || FlexError::Form { text: text.to_owned() };
        let (name, parts) = text.trim().split_once('=').ok_or_else(form)?;
        let digits = name.strip_prefix(['a', 'A']).ok_or_else(form)?;
        let counter: u8 = digits.parse().map_err(|_| form())?;
        if !(FIRST..=LAST).contains(&counter) {
            return Err(FlexError::Counter { counter });
        }
        let mut event = FlexEvent::default();
        let mut seen = [false; 3];
        for part in parts.split(',') {
            let (key, value) = part.split_once(':').ok_or_else(form)?;
            let value = number(value.trim()).ok_or_else(form)?;
            let (slot, field) = match key.trim() {
                "fine" => (0, &mut event.fine),
                "coarse" => (1, &mut event.coarse),
                "inc" | "increment" => (2, &mut event.increment),
                _ => return Err(form()),
            };
            if std::mem::replace(&mut seen[slot], true) {
                return Err(form());
            }
            *field = u8::try_from(value).ok().filter(|v| *v < 16).ok_or_else(|| {
                FlexError::Range { text: text.to_owned(), part: key.trim().to_owned(), value }
            })?;
        }
        Ok(Programmed { counter, event })
    }
}

/// The register that drives a counter, and the lowest bit of its field.
pub fn place(counter: u8) -> Option<(usize, u32)> {
    (FIRST..=LAST)
        .contains(&counter)
        .then(|| (usize::from(counter - FIRST) / 2, u32::from(counter - FIRST) % 2 * 12))
}

/// Puts events into a list of flexible registers: fields of counters that are not named stay as
/// `base` has them (0 where it has none), and only registers that are named or in `base` are in the
/// result.
///
/// # Errors
/// [`FlexError::Counter`], [`FlexError::Twice`].
pub fn encode(base: &[Register], events: &[Programmed]) -> Result<Vec<Register>, FlexError> {
    let mut values: [Option<u32>; 7] = [None; 7];
    for register in base {
        if let Some(i) = EU_PERF_CNTL.iter().position(|a| *a == register.address) {
            values[i] = Some(register.value);
        }
    }
    let mut seen = [false; 32];
    for programmed in events {
        let counter = programmed.counter;
        let (register, shift) = place(counter).ok_or(FlexError::Counter { counter })?;
        if std::mem::replace(&mut seen[usize::from(counter)], true) {
            return Err(FlexError::Twice { counter });
        }
        let slot = &mut values[register];
        *slot = Some(slot.unwrap_or(0) & !(0xfff << shift) | programmed.event.bits() << shift);
    }
    let named = EU_PERF_CNTL.iter().zip(values);
    Ok(named
        .filter_map(|(address, value)| Some(Register { address: *address, value: value? }))
        .collect())
}

/// What a list of flexible registers programs.
pub fn decode(registers: &[Register]) -> impl Iterator<Item = Programmed> + '_ {
    registers.iter().flat_map(|register| {
        let i = EU_PERF_CNTL.iter().position(|a| *a == register.address);
        let field = |half: u8| {
            let counter = FIRST + 2 * u8::try_from(i?).ok()? + half;
            Some(Programmed {
                counter,
                event: FlexEvent::from_bits(register.value >> (12 * u32::from(half)) & 0xfff),
            })
        };
        [field(0), field(1)].into_iter().flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_reference_example_is_1904() {
        let a7: Programmed = "a7=fine:7,coarse:7,inc:0".parse().unwrap();
        assert_eq!(a7.event.bits(), 1904);
        assert_eq!(encode(&[], &[a7]), Ok(vec![Register { address: 0xe458, value: 1904 }]));
        assert_eq!(a7.event.meaning(), "cycles with FPU0 active, row 0, EU 0 alone");
    }

    #[test]
    fn the_published_compute_configuration_decodes() {
        // KBL ComputeBasic: CNTL0 = 0x5004, CNTL1 = 3.
        let registers =
            [Register { address: 0xe458, value: 0x5004 }, Register { address: 0xe558, value: 3 }];
        let words: Vec<String> =
            decode(&registers).map(|p| format!("A{}: {}", p.counter, p.event.meaning())).collect();
        assert_eq!(
            words,
            [
                "A7: cycles with some pipe active",
                "A8: cycles with threads loaded, no pipe active",
                "A9: cycles with FPU0 and FPU1 active together",
                "A10: cycles with FPU0 active",
            ]
        );
        // One field is replaced, its neighbour stays.
        let a8: Programmed = "A8=inc:0x2".parse().unwrap();
        let got = encode(&registers, &[a8]).unwrap();
        assert_eq!(got, [Register { address: 0xe458, value: 0x2004 }, registers[1]]);
        assert!(
            FlexEvent { increment: 6, ..FlexEvent::default() }
                .meaning()
                .contains("no published meaning")
        );
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        let table = [
            ("a6=fine:0", "counter A6: only A7 to A20 are programmable"),
            ("a21=fine:0", "counter A21: only A7 to A20 are programmable"),
            (
                "b7=fine:0",
                "counter \"b7=fine:0\": expected something like a7=fine:7,coarse:7,inc:0",
            ),
            ("a7", "counter \"a7\": expected something like a7=fine:7,coarse:7,inc:0"),
            (
                "a7=fine:1,fine:2",
                "counter \"a7=fine:1,fine:2\": expected something like a7=fine:7,coarse:7,inc:0",
            ),
            (
                "a7=inc:16",
                "counter \"a7=inc:16\": inc:16 is out of range, the codes have four bits (0 to 15)",
            ),
        ];
        for (text, want) in table {
            assert_eq!(text.parse::<Programmed>().unwrap_err().to_string(), want);
        }
        let twice: Programmed = "a9=inc:1".parse().unwrap();
        assert_eq!(encode(&[], &[twice, twice]), Err(FlexError::Twice { counter: 9 }));
        let beyond = Programmed { counter: 21, event: FlexEvent::default() };
        assert_eq!(encode(&[], &[beyond]), Err(FlexError::Counter { counter: 21 }));
    }

    proptest! {
        /// What is encoded is decoded, and the text form leads back.
        #[test]
        fn encoding_leads_back(counter in FIRST..=LAST, fine in 0u8..16, coarse in 0u8..16, increment in 0u8..16) {
            let programmed = Programmed { counter, event: FlexEvent { fine, coarse, increment } };
            prop_assert_eq!(programmed.to_string().parse(), Ok(programmed));
            let registers = encode(&[], &[programmed]).unwrap();
            let found = decode(&registers).find(|p| p.counter == counter);
            prop_assert_eq!(found, Some(programmed));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,40}") {
            let _ = text.parse::<Programmed>();
        }
    }
}
