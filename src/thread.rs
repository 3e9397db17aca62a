//! What each thread keeps between calls, and the way to it. On x86-64 the way is a TLS descriptor: in a library that is
//! loaded with the program it costs two instructions, and it works in one that is opened late as well. `thread_local!`
//! asks the resolver of the dynamic linker in every call, since nothing tells the stable compiler to use descriptors.
//!
//! Sources: "ELF Handling For Thread-Local Storage" and "Thread-Local Storage Descriptors for IA32 and AMD64/EM64T".

use crate::sink::ring::{Owned, SCRATCH};
use std::cell::Cell;

/// What a thread keeps between calls.
#[repr(C)]
pub struct Thread {
    /// Next free word of the ring, and its end; both NULL without a ring.
    pub cursor: Cell<*mut u64>,
    pub limit: Cell<*mut u64>,
    /// The ring's header, or scratch memory without a ring.
    pub header: Cell<*mut u8>,
    /// Time of the last record.
    pub last: Cell<u64>,
    /// Value of the header's position.
    pub position: Cell<u64>,
    /// The ring's owner entry, NULL without a ring.
    pub ring: Cell<*mut Owned>,
    /// Interned geometries used lately, allocated at the first launch.
    pub geometries: Cell<*mut crate::hooks::geometry::Cache>,
    /// Whether the thread is inside a recorded call: 0 outside, [`FRESH`] outside and never inside before, [`OWN`] in calls of
    /// ours, else 1 + the slot of the way that it came in by.
    pub depth: Cell<u32>,
    /// Whether it is in the middle of writing a record.
    pub writing: Cell<bool>,
}

/// Depth of a thread that calls OpenCL on our own account.
pub const OWN: u32 = u32::MAX;

/// Depth of a thread that has no ring yet: it takes one before its first call is made, so that the call is named should the process
/// die in it.
pub const FRESH: u32 = u32::MAX - 1;

impl Thread {
    /// Whether the thread is in no recorded call and none of ours.
    #[inline(always)]
    pub fn outside(&self) -> bool {
        matches!(self.depth.get(), 0 | FRESH)
    }
}

/// The calling thread's state.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn thread() -> &'static Thread {
    let at: *const Thread;
    // SAFETY: the sequence that the ABI gives for a TLS descriptor: it changes rax and the flags. Descriptors that are
    // not resolved statically may change vector registers in older versions of glibc, so these count as changed too.
    // The value has no destructor and lives as long as its thread; the reference never leaves the thread (Thread is not
    // Sync, and no caller stores it).
    unsafe {
        std::arch::asm!(
            "lea rax, [rip + clscope_thread@TLSDESC]",
            "call qword ptr [rax + clscope_thread@TLSCALL]",
            "add rax, qword ptr fs:[0]",
            out("rax") at,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(pure, nomem),
        );
        &*at
    }
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .tdata.clscope_thread,\"awT\",@progbits",
    ".p2align 6",
    ".hidden clscope_thread",
    ".globl clscope_thread",
    ".type clscope_thread,@object",
    ".size clscope_thread,64",
    "clscope_thread:",
    ".zero {header}",
    ".quad {scratch}",
    ".zero {depth} - {header} - 8",
    ".long {fresh}",
    ".zero 64 - {depth} - 4",
    ".popsection",
    header = const std::mem::offset_of!(Thread, header),
    depth = const std::mem::offset_of!(Thread, depth),
    fresh = const FRESH,
    scratch = sym SCRATCH,
);

/// All of it is zero but the header and the depth, and it fills a cache line of its own.
const _: () = assert!(std::mem::size_of::<Thread>() == 64);

#[cfg(not(target_arch = "x86_64"))]
thread_local! {
    /// No destructor: access costs no registration check. The ring goes back through a pthread key (`sink::ring`).
    static THREAD: Thread = const {
        Thread {
            cursor: Cell::new(std::ptr::null_mut()),
            limit: Cell::new(std::ptr::null_mut()),
            header: Cell::new((&raw const SCRATCH).cast_mut().cast()),
            last: Cell::new(0),
            position: Cell::new(0),
            ring: Cell::new(std::ptr::null_mut()),
            geometries: Cell::new(std::ptr::null_mut()),
            depth: Cell::new(FRESH),
            writing: Cell::new(false),
        }
    };
}

/// The calling thread's state.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn thread() -> &'static Thread {
    // SAFETY: as on x86-64.
    THREAD.with(|t| unsafe { &*std::ptr::from_ref(t) })
}
