//! The only reader of clocks. Host times are ticks of the fastest clock that is steady over cores
//! and time: the TSC where the processor says it is invariant and the kernel trusts it, the virtual
//! counter on Arm, else CLOCK_MONOTONIC_RAW. Ticks become nanoseconds offline, through [`anchor`]s:
//! this crate never estimates a rate.

use clscope_trace::{Clock, defs::Anchor};

/// A host time in ticks of the process's [`Clock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ticks(pub u64);

/// A time of one of the kernel's clocks, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Nanoseconds(pub u64);

/// Reads one of the kernel's clocks; zero only where the clock does not exist.
fn kernel(clock: libc::clockid_t) -> Nanoseconds {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; an unknown clock leaves it untouched.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Nanoseconds((time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
}

/// CLOCK_MONOTONIC_RAW: steady, not slewed, the clock that sensors stamp with.
pub fn monotonic_raw() -> Nanoseconds {
    kernel(libc::CLOCK_MONOTONIC_RAW)
}

/// CLOCK_MONOTONIC.
pub fn monotonic() -> Nanoseconds {
    kernel(libc::CLOCK_MONOTONIC)
}

/// CLOCK_REALTIME.
pub fn realtime() -> Nanoseconds {
    kernel(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Nanoseconds {
    kernel(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Chooses the host clock of this machine. Costs some system calls: ask once and keep the answer.
pub fn choose() -> Clock {
    #[cfg(target_arch = "x86_64")]
    {
        if tsc_is_invariant() && kernel_trusts_tsc() { Clock::Tsc } else { Clock::MonotonicRaw }
    }
    #[cfg(target_arch = "aarch64")]
    {
        Clock::Cntvct
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        Clock::MonotonicRaw
    }
}

/// CPUID 8000_0007h, EDX bit 8 (AMD APM volume 3, appendix E; Intel SDM volume 2, CPUID).
#[cfg(target_arch = "x86_64")]
fn tsc_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    #[allow(unused_unsafe, reason = "safe in newer toolchains")]
    // SAFETY: CPUID exists on every x86-64 processor.
    unsafe {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
}

/// The kernel watches the TSC and takes it from its list when it misbehaves. An unreadable list
/// says nothing against it.
#[cfg(target_arch = "x86_64")]
fn kernel_trusts_tsc() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .map_or(true, |list| {
            list.split_whitespace().any(|name| name == "tsc" || name == "kvm-clock")
        })
}

/// Reads the clock. On the hot path `clock` is a value the caller holds in a register or a hot
/// line.
#[inline(always)]
pub fn now(clock: Clock) -> Ticks {
    match clock {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: RDTSC exists on every x86-64 processor; a kernel that forbids it to user code
        // (PR_SET_TSC) delivers a signal, which `choose` cannot foresee and no sane application
        // asks for.
        Clock::Tsc => Ticks(unsafe { std::arch::x86_64::_rdtsc() }),
        #[cfg(target_arch = "aarch64")]
        Clock::Cntvct => {
            let ticks: u64;
            // SAFETY: CNTVCT_EL0 is readable from user code on Linux.
            unsafe {
                std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack))
            };
            Ticks(ticks)
        }
        _ => raw_ticks(),
    }
}

/// Out of line: where it is the clock the system call dominates, elsewhere it would only fatten
/// every caller.
#[cold]
#[inline(never)]
fn raw_ticks() -> Ticks {
    Ticks(monotonic_raw().0)
}

/// Reads all clocks together: the narrowest of eight tries, so that an interrupt in the middle does
/// not count. The kernel clocks are read between two readings of the host clock; `width` is the
/// distance of these two.
pub fn anchor(clock: Clock) -> Anchor {
    let mut best = Anchor { width: u64::MAX, ..Anchor::default() };
    for _ in 0..8 {
        let before = now(clock).0;
        let raw = monotonic_raw().0;
        let after = now(clock).0;
        let width = after.wrapping_sub(before);
        if width < best.width {
            best = Anchor { ticks: before + width / 2, raw, width, ..best };
        }
    }
    // These two are only compared between hosts and with users' clocks: a separate, equally narrow
    // reading will do.
    let mut narrowest = u64::MAX;
    for _ in 0..4 {
        let before = monotonic_raw().0;
        let (monotonic, realtime) = (monotonic().0, realtime().0);
        let after = monotonic_raw().0;
        let width = after.wrapping_sub(before);
        if width < narrowest {
            narrowest = width;
            // Moved to the moment of `raw`; the clocks run within 500 ppm of each other.
            let shift = (before + width / 2).wrapping_sub(best.raw);
            best.monotonic = monotonic.wrapping_sub(shift);
            best.realtime = realtime.wrapping_sub(shift);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_do_not_run_backwards() {
        let clock = choose();
        let mut last = now(clock);
        for _ in 0..10_000 {
            let next = now(clock);
            assert!(next >= last);
            last = next;
        }
    }

    #[test]
    fn two_anchors_give_one_rate_for_all_clocks() {
        let clock = choose();
        let first = anchor(clock);
        let mut second = anchor(clock);
        while second.raw - first.raw < 5_000_000 {
            second = anchor(clock);
        }
        let raw = (second.raw - first.raw) as f64;
        let monotonic = (second.monotonic - first.monotonic) as f64;
        assert!((monotonic / raw - 1.0).abs() < 0.05, "monotonic against raw: {}", monotonic / raw);
        assert!(second.ticks > first.ticks);
    }
}
