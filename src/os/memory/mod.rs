//! The recorder's memory: an arena of its own, the C library's for what is large, and a reserve for
//! when that gives no more (`ulimit -v`, a cgroup, strict overcommit). Rust ends the process where
//! memory is refused; the application may go on without it, and so must the recorder. What was
//! refused once counts as short for good: recording ends then, and asks for little more.

mod arena;
pub mod readable;

use crate::os::limits::limit;
use crate::os::memory::arena::Arena;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Enough for the messages and calls that are under way when memory ends.
const RESERVE: usize = 256 * 1024;

/// Memory that is handed out once.
#[repr(align(64))]
struct Reserve {
    bytes: UnsafeCell<[u8; RESERVE]>,
    used: AtomicUsize,
}

// SAFETY: each byte of it is handed out once, by an atomic counter.
unsafe impl Sync for Reserve {}

/// In pages that are not touched before.
static OURS: Reserve = Reserve::new();
static SHORT: AtomicBool = AtomicBool::new(false);
static ARENA: Arena = Arena::new();

/// Maps memory of the recorder's own: from here on it asks for little of the application's. Not
/// where the address space is limited, which the application may need.
pub fn begin() {
    if !is_limited() {
        ARENA.begin();
    }
}

impl Reserve {
    const fn new() -> Self {
        Self { bytes: UnsafeCell::new([0; RESERVE]), used: AtomicUsize::new(0) }
    }

    /// A piece of it, zeroed; NULL where it is used up.
    fn take(&self, layout: Layout) -> *mut u8 {
        let place = |used: usize| used.checked_next_multiple_of(layout.align());
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            // The reserve is aligned to 64 bytes: no value of ours to more.
            let end = place(used)?.checked_add(layout.size())?;
            (layout.align() <= 64 && end <= RESERVE).then_some(end)
        });
        match taken.ok().and_then(place) {
            // SAFETY: inside the reserve, as was checked.
            Some(at) => unsafe { self.bytes.get().cast::<u8>().add(at) },
            None => std::ptr::null_mut(),
        }
    }

    fn has(&self, at: *mut u8) -> bool {
        (at as usize).wrapping_sub(self.bytes.get() as usize) < RESERVE
    }
}

/// Whether memory was ever refused.
pub fn is_short() -> bool {
    SHORT.load(Ordering::Relaxed)
}

/// Whether the page that an address lies in is not mapped: certainly.
pub fn is_unmapped(address: usize) -> bool {
    // SAFETY: no preconditions.
    let Ok(page) = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }) else {
        return false;
    };
    let mut resident = 0_u8;
    let begin = address & !page.wrapping_sub(1);
    // SAFETY: the address is looked up, not used; one byte for one page.
    let found = unsafe { libc::mincore(begin as *mut libc::c_void, page, &raw mut resident) };
    found != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOMEM)
}

/// Whether a limit is set on the process's address space, or on its memory of its own.
pub fn is_limited() -> bool {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA].into_iter().any(|of| limit(of).is_some())
}

/// Whether the process may map so many bytes more, at this moment.
pub fn can_map(bytes: usize) -> bool {
    // SAFETY: a new private mapping, which nobody knows, and which is given back at once.
    unsafe {
        let (none, private) =
            (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // What can be written counts for each limit.
        let own = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(none, bytes, own, private, -1, 0);
        at != libc::MAP_FAILED && libc::munmap(at, bytes) == 0
    }
}

/// What stands in for memory that was refused.
#[cold]
fn reserved(layout: Layout) -> *mut u8 {
    SHORT.store(true, Ordering::Relaxed);
    OURS.take(layout)
}

/// The allocator of this library alone: the application's is its own.
pub struct Memory;

// SAFETY: what the C library gives is given back to it; pieces of the reserve do not overlap, are
// aligned and large enough, and stay.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let at = ARENA.take(layout);
        if !at.is_null() {
            return at;
        }
        // SAFETY: the caller's promise.
        let at = unsafe { System.alloc(layout) };
        if at.is_null() { reserved(layout) } else { at }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let at = ARENA.take(layout);
        if !at.is_null() {
            // SAFETY: a piece of that size, which nobody else has.
            unsafe { at.write_bytes(0, layout.size()) };
            return at;
        }
        // SAFETY: the caller's promise. The reserve is zero, and each byte is handed out once.
        let at = unsafe { System.alloc_zeroed(layout) };
        if at.is_null() { reserved(layout) } else { at }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if ARENA.has(at) {
            ARENA.give_back(at, layout);
        } else if !OURS.has(at) {
            // SAFETY: the caller's promise; it is the C library's.
            unsafe { System.dealloc(at, layout) };
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises a size that is none of an overflow, of the same alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if ARENA.has(at) {
            if Arena::same(layout, new) {
                return at;
            }
        } else if !OURS.has(at) {
            // SAFETY: the caller's promise; it is the C library's.
            let grown = unsafe { System.realloc(at, layout, size) };
            if !grown.is_null() {
                return grown;
            }
        }
        // SAFETY: as above; the old piece is still there, and both are at least so large.
        unsafe {
            let to = self.alloc(new);
            if !to.is_null() {
                std::ptr::copy_nonoverlapping(at, to, layout.size().min(size));
                self.dealloc(at, layout);
            }
            to
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_mapped_is_said_not_to_be() {
        let here = 0_u8;
        assert!(!is_unmapped(&raw const here as usize));
        // The first page never is (vm.mmap_min_addr), nor what no address reaches.
        assert!(is_unmapped(8) && is_unmapped(usize::MAX >> 1));
    }

    #[test]
    fn the_reserve_gives_pieces_that_do_not_overlap_until_it_is_used_up() {
        let reserve = Box::new(Reserve::new());
        let layouts = [(24, 8), (1, 1), (100, 64), (64 * 1024, 16)];
        let (mut end, mut pieces) = (std::ptr::null_mut(), 0);
        for (size, align) in layouts.into_iter().cycle() {
            let at = reserve.take(Layout::from_size_align(size, align).unwrap());
            if at.is_null() {
                break;
            }
            assert!(reserve.has(at) && (at as usize).is_multiple_of(align));
            assert!(at >= end, "it overlaps the piece before");
            end = at.wrapping_add(size);
            assert!(reserve.has(end.wrapping_sub(1)));
            pieces += 1;
        }
        assert!(pieces >= 12, "{pieces}");
        assert!(reserve.take(Layout::from_size_align(RESERVE, 1).unwrap()).is_null());
    }

    #[test]
    fn memory_that_is_there_grows_and_is_given_back() {
        let old = Layout::from_size_align(4, 4).unwrap();
        // SAFETY: allocated, grown and given back with its layouts.
        unsafe {
            let at = Memory.alloc(old);
            at.copy_from_nonoverlapping(b"abcd".as_ptr(), 4);
            let at = Memory.realloc(at, old, 400);
            assert_eq!(std::slice::from_raw_parts(at, 4), b"abcd");
            Memory.dealloc(at, Layout::from_size_align(400, 4).unwrap());
        }
        assert!(can_map(4096) && !can_map(usize::MAX / 2));
    }
}
