//! Synthesised reports, for tests, benches and demonstrations. Owns the writing of every layout;
//! refuses to pass for recordings: nothing from here describes a device.
#![forbid(unsafe_code)]

use super::format::{Header, Layout, MAX_SLOTS, TICKS_SLOT, TIME_SLOT, Ticks, Width};

/// RPT_ID of a report written by the timer.
pub fn timer_id() -> u32 {
    1 << 19
}

/// RPT_ID of a report written at a context switch.
pub fn switch_id() -> u32 {
    1 << 22
}

/// A unit whose counters are set by hand.
pub struct Writer {
    layout: &'static Layout,
    slots: [u64; MAX_SLOTS],
}

impl Writer {
    /// With all counters 0.
    pub fn new(layout: &'static Layout) -> Writer {
        Writer { layout, slots: [0; MAX_SLOTS] }
    }

    /// Sets every field, time and ticks included.
    pub fn set_all(&mut self, value: u64) {
        self.slots = [value; MAX_SLOTS];
    }

    /// Sets the time.
    pub fn set_time(&mut self, ticks: u64) {
        self.slots[TIME_SLOT] = ticks;
    }

    /// Adds to every field.
    pub fn add_all(&mut self, delta: u64) {
        self.slots.iter_mut().for_each(|s| *s = s.wrapping_add(delta));
    }

    /// Lets time pass, and every counter count `events`.
    pub fn advance(&mut self, ticks: u64, events: u64) {
        self.add_all(events);
        self.slots[TIME_SLOT] = self.slots[TIME_SLOT].wrapping_sub(events).wrapping_add(ticks);
    }

    /// Adds to one slot.
    pub fn add(&mut self, slot: usize, delta: u64) {
        if let Some(s) = self.slots.get_mut(slot) {
            *s = s.wrapping_add(delta);
        }
    }

    /// The counters as a report.
    pub fn report(&self, id: u32, context: u32) -> Vec<u8> {
        let mut out = vec![0; self.layout.bytes];
        let mut put = |at: usize, value: u64, n: usize| {
            if let (Some(to), Some(from)) = (out.get_mut(at..at + n), value.to_le_bytes().get(..n))
            {
                to.copy_from_slice(from);
            }
        };
        match self.layout.header {
            Header::Bits32 => {
                put(0, id.into(), 4);
                put(4, self.slots[TIME_SLOT], 4);
                put(8, context.into(), 4);
            }
            Header::Bits64 => {
                put(0, id.into(), 8);
                put(8, self.slots[TIME_SLOT], 8);
                put(16, context.into(), 4);
            }
        }
        match self.layout.ticks {
            Ticks::None => {}
            Ticks::Bits32(at) => put(at.into(), self.slots[TICKS_SLOT], 4),
            Ticks::Bits64(at) => put(at.into(), self.slots[TICKS_SLOT], 8),
        }
        let mut slot = 2;
        for block in self.layout.blocks {
            for i in 0..usize::from(block.count) {
                let value = self.slots.get(slot).copied().unwrap_or(0);
                let at = usize::from(block.at);
                match block.width {
                    Width::Bits32 => put(at + 4 * i, value, 4),
                    Width::Bits40 { high } => {
                        put(at + 4 * i, value, 4);
                        put(usize::from(high) + i, value >> 32, 1);
                    }
                    Width::Bits64 => put(at + 8 * i, value, 8),
                }
                slot += 1;
            }
        }
        out
    }
}

/// An i915 record round a payload.
pub fn record(kind: u32, payload: &[u8]) -> Vec<u8> {
    let size = u16::try_from(payload.len() + 8).unwrap_or(u16::MAX);
    let mut out = kind.to_le_bytes().to_vec();
    out.extend([0, 0]);
    out.extend(size.to_le_bytes());
    out.extend(payload);
    out
}
