//! What a thread computes and calls with: `errno`, and how its floating-point unit rounds and traps,
//! with the flags that it has raised. Our code neither changes the application's nor goes by it:
//! an inexact division must not trap, where the application has asked for traps.

use std::ffi::c_int;

/// How the floating-point unit of a new thread is set: it rounds to nearest, without traps; and where
/// the flags lie that it raises.
#[cfg(target_arch = "x86_64")]
const NEW: (u64, u64) = (0x1f80, 0x3f);
#[cfg(not(target_arch = "x86_64"))]
const NEW: (u64, u64) = (0, u32::MAX as u64);

/// How the calling thread's floating-point unit is set, with its flags.
#[inline(always)]
fn floats() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut word = 0u32;
        // SAFETY: stores four bytes where there is room for them.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack)) };
        u64::from(word)
    }
    #[cfg(target_arch = "aarch64")]
    {
        let (control, flags): (u64, u64);
        // SAFETY: reads two registers.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) flags)
        };
        control << 32 | flags & NEW.1
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    0
}

/// Sets it so.
#[inline(always)]
fn set_floats(to: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a value that was read, or a new thread's.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const to, options(nostack))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) to >> 32, in(reg) to & NEW.1)
    };
    let _ = to;
}

/// The application's, until this is dropped: then they are put back.
pub struct ThreadState {
    errno: c_int,
    floats: u64,
}

impl ThreadState {
    /// Keeps them; the floating-point unit is as a new thread's from here on.
    #[inline(always)]
    pub fn keep() -> Self {
        let floats = floats();
        if floats & !NEW.1 != NEW.0 {
            set_floats(NEW.0);
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
        if floats() != self.floats {
            set_floats(self.floats);
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
        let begun = floats();
        for bits in 0..16u64 {
            // How to round, what becomes of subnormal numbers, and whether what is inexact traps.
            let theirs = 0xf80 + bits % 4 * 0x2000 + bits / 4 % 2 * 0x8040 + bits / 8 * 0x1000;
            set_floats(theirs);
            let third = {
                let _state = ThreadState::keep();
                // SAFETY: the calling thread's own.
                unsafe { *libc::__errno_location() = libc::ENOSPC };
                black_box(1.0f64) / black_box(3.0)
            };
            let left = floats();
            set_floats(begun);
            assert_eq!((left, third.to_bits()), (theirs, 0x3fd5_5555_5555_5555), "{theirs:#x}");
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
