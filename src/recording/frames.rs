//! Tells whether the call that a thread counts as being in has been left behind our back: by
//! `siglongjmp` out of a signal's handler, which runs nothing of the recorder on its way. The guard
//! of a call belongs to a frame of the thread's stack, and goes with it.
//!
//! Asked only where a call meets the guard taken. Refuses to decide on a stack of its own
//! (`sigaltstack`), and where the stack cannot be unwound as far as the frame: then the guard
//! holds.

use crate::os::objects::is_ours;
use crate::os::unwind;
use std::ffi::c_void;

/// Bits of an address that a place on a stack is kept without: frames are aligned so.
const ALIGNED: u32 = 4;
/// Frames that are looked at between a signal's handler and the call that it interrupted.
const MOST: u32 = 1000;

/// The calling function's place on its stack, as it is kept with the guard: the lower half of its
/// address, without what is the same in each.
#[inline(always)]
pub fn here() -> u32 {
    let at: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) at, options(nomem, nostack, preserves_flags))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mov {}, sp", out(reg) at, options(nomem, nostack, preserves_flags))
    };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let local = 0u8;
        at = std::hint::black_box(&raw const local) as usize;
    }
    place(at)
}

fn place(address: usize) -> u32 {
    (address >> ALIGNED) as u32
}

/// How far `a` lies above `b` on a stack, negative where it lies below.
fn above(a: u32, b: u32) -> i32 {
    a.wrapping_sub(b) as i32
}

/// Whether the frame that took the guard at `taken` has been left, asked from a function at `at`.
/// `thoroughly`: also where only unwinding the stack can tell.
#[cold]
pub fn left(taken: u32, at: u32, thoroughly: bool) -> bool {
    // Stacks grow downwards: what a frame calls lies below it. The asker's own frame may cover the
    // place of one that was left.
    let certainly = above(at, taken) >= 0;
    (certainly || thoroughly)
        && !on_alternate_stack()
        && (certainly
            || owner(taken).is_some_and(|(ip, bottom)| {
                above(bottom, at) <= 0 || !is_ours(ip as *const c_void)
            }))
}

/// Whether the thread runs on the stack that it has given to signals' handlers.
fn on_alternate_stack() -> bool {
    // SAFETY: an all-zero stack_t is valid and writable; nothing is set.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(std::ptr::null(), &mut stack) == 0
            && stack.ss_flags & libc::SS_ONSTACK != 0
    }
}

/// The frame that a place on the stack belongs to: an address in its code, and its lowest place.
/// `None` where the stack cannot be unwound as far.
fn owner(wanted: u32) -> Option<(usize, u32)> {
    let (mut frames, mut last, mut passed) = (0, None, false);
    unwind::frames(&mut |ip, bottom| {
        frames += 1;
        passed = above(place(bottom), wanted) > 0;
        if !passed {
            last = Some((ip, place(bottom)));
        }
        !passed && frames < MOST
    });
    last.filter(|_| passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn below(taken: u32) -> (bool, bool) {
        (left(taken, here(), false), left(taken, here(), true))
    }

    #[test]
    fn a_live_frame_is_not_left_and_one_at_or_below_the_asker_is() {
        let taken = here();
        assert_eq!(below(taken), (false, false), "its own callee asks");
        assert!(left(taken, taken, false), "nobody below asks from the same place");
        assert!(left(taken, taken.wrapping_add(64), false), "or from above");
    }

    #[test]
    fn places_are_compared_across_the_half_of_the_address_that_is_kept() {
        assert!(above(place(0x7fff_0000_0010), place(0x7ffe_ffff_fff0)) > 0);
        assert!(above(place(0x10_0000_0000), place(0x0f_ffff_fff0)) > 0);
    }
}
