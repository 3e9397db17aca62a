//! What a thread computes and calls with: `errno`, and how its floating-point unit rounds and traps,
//! with the flags that it has raised. Our code neither changes the application's nor goes by it:
//! an inexact division must not trap, where the application has asked for traps.

use std::ffi::c_int;

/// How the floating-point unit is set, and its flags.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Floats(u64, u64);

/// A new thread's: round to nearest, no traps. The flags that it has raised do not matter to us.
#[cfg(target_arch = "x86_64")]
const NEW: Floats = Floats(0x1f80, 0);
#[cfg(not(target_arch = "x86_64"))]
const NEW: Floats = Floats(0, 0);

impl Floats {
    #[inline(always)]
    fn now() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let mut word = 0u32;
            // SAFETY: stores four bytes where there is room for them.
            unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack)) };
            Self(u64::from(word & !FLAGS), u64::from(word & FLAGS))
        }
        #[cfg(target_arch = "aarch64")]
        {
            let (control, flags): (u64, u64);
            // SAFETY: reads two registers.
            unsafe {
                std::arch::asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) flags);
            }
            Self(control, flags)
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        {
            NEW
        }
    }

    #[inline(always)]
    fn set(self) {
        #[cfg(target_arch = "x86_64")]
        {
            let word = (self.0 | self.1) as u32;
            // SAFETY: a value that was read, or a new thread's.
            unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const word, options(nostack)) };
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) self.0, in(reg) self.1);
        }
    }
}

/// Flags of inexact results and the like.
#[cfg(target_arch = "x86_64")]
const FLAGS: u32 = 0x3f;

/// The application's, until this is dropped: then they are put back.
pub struct ThreadState {
    errno: c_int,
    floats: Floats,
}

impl ThreadState {
    /// Keeps them; the floating-point unit is as a new thread's from here on.
    #[inline(always)]
    pub fn keep() -> Self {
        let floats = Floats::now();
        if floats.0 != NEW.0 {
            NEW.set();
        }
        // SAFETY: the calling thread's own.
        Self { errno: unsafe { *libc::__errno_location() }, floats }
    }
}

impl Drop for ThreadState {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the calling thread's own.
        unsafe { *libc::__errno_location() = self.errno };
        if Floats::now() != self.floats {
            self.floats.set();
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Whatever the application computes with, our code raises no trap, rounds as it always does,
    /// and leaves nothing behind.
    #[test]
    fn no_setting_of_a_thread_is_seen_or_changed() {
        let begun = Floats::now();
        let rounding = [0u64, 0x2000, 0x4000, 0x6000];
        let masks = [0x1f80u64, 0];
        let zeros = [0u64, 0x8040];
        for (round, (mask, zero)) in rounding.iter().flat_map(|r| {
            masks.iter().flat_map(|m| zeros.iter().map(move |z| (m, z))).map(move |of| (r, of))
        }) {
            let theirs = Floats(round | mask | zero, 0);
            theirs.set();
            let third = {
                let _state = ThreadState::keep();
                // SAFETY: the calling thread's own.
                unsafe { *libc::__errno_location() = libc::ENOSPC };
                black_box(1.0f64) / black_box(3.0)
            };
            let left = Floats::now();
            begun.set();
            assert!(left == theirs, "{:#x}, flags {:#x}", left.0, left.1);
            assert_eq!(third.to_bits(), 0x3fd5_5555_5555_5555);
        }
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = 77 };
        drop(ThreadState::keep());
        {
            let _state = ThreadState::keep();
            // SAFETY: as above.
            unsafe { *libc::__errno_location() = libc::ENOSPC };
        }
        // SAFETY: as above.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
    }
}
