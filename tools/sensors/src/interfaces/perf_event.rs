//! perf_event_open(2): opens a counting event. Owns the structure that the kernel takes and the one
//! unsafe call; refuses to sample, and to know what is counted.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// `struct perf_event_attr` in its first published size (PERF_ATTR_SIZE_VER0), which every kernel
/// takes.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    config1: u64,
}

const _: () = assert!(size_of::<Attr>() == 64, "PERF_ATTR_SIZE_VER0");

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerfEvent {
    /// The PMU's number.
    pub kind: u32,
    /// The event's configuration word.
    pub config: u64,
    /// PERF_FORMAT_* bits: what a read gives beside the count.
    pub read_format: u64,
    /// The attribute's flags (`inherit` and the like), as bits.
    pub flags: u64,
}

/// Opens an event: of everything on one CPU, or of a thread wherever it runs.
///
/// # Errors
/// The system's.
pub fn open(event: PerfEvent, thread: Option<u32>, cpu: Option<u32>) -> io::Result<OwnedFd> {
    let PerfEvent { kind, config, read_format, flags } = event;
    let attr = Attr {
        kind,
        size: size_of::<Attr>() as u32,
        config,
        read_format,
        flags,
        ..Attr::default()
    };
    let number = |of: Option<u32>| {
        of.map_or(Ok(-1), |n| libc::c_int::try_from(n).map_err(|_| io::ErrorKind::InvalidInput))
    };
    let (thread, cpu, no_group): (libc::pid_t, _, libc::c_int) =
        (number(thread)?, number(cpu)?, -1);
    // PERF_FLAG_FD_CLOEXEC (linux/perf_event.h).
    let flags: libc::c_ulong = 1 << 3;
    // SAFETY: `attr` outlives the call and its `size` field tells the kernel how much of it to
    // read; the other arguments are plain numbers of the types the system call takes.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &raw const attr, thread, cpu, no_group, flags)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let fd = libc::c_int::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel just returned this descriptor to us and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
