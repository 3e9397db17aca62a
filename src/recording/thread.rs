//! What each thread keeps between calls, and the way to it. On x86-64 the way is a TLS descriptor,
//! which works in a library that is loaded with the program and in one that is opened late. If its
//! resolver only returns a distance from the thread pointer, the same in each thread, that distance
//! is kept and the resolver is not called again. `thread_local!` calls the dynamic linker each
//! time, since the stable compiler has no option for descriptors.
//!
//! Sources: "ELF Handling For Thread-Local Storage" and "Thread-Local Storage Descriptors for IA32
//! and AMD64/EM64T".

use crate::recording::ring::{Owned, SCRATCH};
use std::cell::Cell;
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicUsize, Ordering};

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
    /// The last record in the ring: what a [`plain`](clscope_trace::record::plain) record of it
    /// says but its times, if it is one or a run of such; else 0.
    pub key: Cell<u64>,
    /// The ring's owner entry, NULL without a ring.
    pub ring: Cell<*mut Owned>,
    /// What the layers above keep for the thread, NULL before they do.
    pub kept: Cell<*mut Kept>,
    /// Whether the thread is inside a recorded call: 0 outside, [`FRESH`] outside and never inside
    /// before, [`OWN`] in the recorder's own calls, else 1 + the slot of the way that it came in
    /// by.
    pub depth: Cell<u8>,
    /// Whether it is in the middle of writing a record.
    pub writing: Cell<bool>,
    /// Where on the stack `depth` was set to what it is (`frames`).
    pub frame: Cell<u32>,
}

/// The beginning of what the layers above keep for a thread.
#[repr(C)]
pub struct Kept {
    /// Gives all of it back.
    ///
    /// # Safety
    /// Of the value itself, which is not used afterwards.
    pub free: unsafe fn(*mut Kept),
}

/// Depth of a thread that calls OpenCL on our own account.
pub const OWN: u8 = u8::MAX;

/// Depth of a thread that has no ring yet: it takes one before its first call is made, so that the
/// call is named should the process die in it.
pub const FRESH: u8 = u8::MAX - 1;

impl Thread {
    /// Gives back what the layers above keep: the thread ends, or is another process's.
    pub fn forget_kept(&self) {
        let kept = self.kept.replace(std::ptr::null_mut());
        if !kept.is_null() {
            // SAFETY: set to a live value by the layer whose function this is; taken off above.
            unsafe { ((*kept).free)(kept) };
        }
    }

    /// Whether the thread is in no recorded call and no call of the recorder's.
    #[inline(always)]
    pub fn outside(&self) -> bool {
        matches!(self.depth.get(), 0 | FRESH)
    }
}

/// Distance from the thread pointer, the same in each thread, once it is known to be; 0 before and
/// where it is not.
#[cfg(target_arch = "x86_64")]
static OFFSET: AtomicUsize = AtomicUsize::new(0);

/// The calling thread's state.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn thread() -> &'static Thread {
    let offset = OFFSET.load(Ordering::Relaxed);
    if offset == 0 {
        return by_descriptor();
    }
    let pointer: usize;
    // SAFETY: the word at the thread pointer is the thread pointer itself (the ABI's variant II).
    unsafe {
        std::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(pure, nomem, nostack, preserves_flags))
    };
    let at = pointer.wrapping_add(offset) as *const Thread;
    // SAFETY: as in `by_descriptor`. It is said that it is not NULL, since nothing else tells the
    // compiler.
    unsafe {
        std::hint::assert_unchecked(!at.is_null());
        &*at
    }
}

#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
fn by_descriptor() -> &'static Thread {
    let (at, descriptor): (*const Thread, *const [usize; 2]);
    // SAFETY: the sequence that the ABI gives for a TLS descriptor: it changes rax and the flags.
    // Descriptors that are not resolved statically may change vector registers in older versions of
    // glibc, so these count as changed too. The value has no destructor and lives as long as its
    // thread; the reference never leaves the thread (Thread is not Sync, and no caller stores it).
    unsafe {
        std::arch::asm!(
            "lea rax, [rip + clscope_thread@TLSDESC]",
            "mov {descriptor}, rax",
            "call qword ptr [rax + clscope_thread@TLSCALL]",
            "add rax, qword ptr fs:[0]",
            descriptor = out(reg) descriptor,
            out("rax") at,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
        // A resolver that only returns the descriptor's second word shows that it is the distance
        // in each thread: endbr64 at most, then mov rax, [rax+8]; ret.
        let resolver = (*descriptor)[0] as *const [u8; 9];
        let code = resolver.read_unaligned();
        let code =
            if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { &code[4..] } else { &code[..5] };
        if code == [0x48, 0x8b, 0x40, 0x08, 0xc3] {
            OFFSET.store((*descriptor)[1], Ordering::Relaxed);
        }
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
    ".byte {fresh}",
    ".zero 64 - {depth} - 1",
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
    /// No destructor: access costs no registration check. The ring goes back through a pthread key
    /// (`recording::ring`).
    static THREAD: Thread = const {
        Thread {
            cursor: Cell::new(std::ptr::null_mut()),
            limit: Cell::new(std::ptr::null_mut()),
            header: Cell::new((&raw const SCRATCH).cast_mut().cast()),
            last: Cell::new(0),
            key: Cell::new(0),
            ring: Cell::new(std::ptr::null_mut()),
            kept: Cell::new(std::ptr::null_mut()),
            depth: Cell::new(FRESH),
            writing: Cell::new(false),
            frame: Cell::new(0),
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
