//! Owns whether memory of the application's may be read: it may have taken the right away
//! (`mprotect`), to see what is touched, or a mapping may go on behind the end of its file; and
//! whether a stack has room. Raises no signal, and changes nothing. Refuses to say how long that
//! holds.

use crate::os::limits::limit;
use crate::os::thread_state::ThreadState;
use crate::os::undisturbed::undisturbed;

/// Smallest page of any machine.
pub const PAGE: usize = 4096;

/// Less than what lies between the first stack of a process and its other memory.
const NEAR: u64 = 64 << 20;

/// Whether so many bytes are known to be left of the stack that this runs on: the process's first
/// one, which grows, or its thread's. Asks the system.
pub fn has_stack(bytes: usize) -> bool {
    let local = 0u8;
    let here = std::hint::black_box(&raw const local).expose_provenance();
    // SAFETY: asks for an address that the system laid at the top of the first stack.
    let top = unsafe { libc::getauxval(libc::AT_RANDOM) } as usize;
    let limit = limit(libc::RLIMIT_STACK).map_or(NEAR, |most| most.min(NEAR)) as usize;
    if let Some(used) = top.checked_sub(here).filter(|used| *used < limit) {
        return limit - used > bytes;
    }
    match undisturbed(thread_stack) {
        Some((begin, size)) if here.wrapping_sub(begin) < size => here - begin > bytes,
        // Nobody knows where one ends that the application has made.
        _ => false,
    }
}

/// Where the calling thread's stack begins, and its size.
fn thread_stack() -> Option<(usize, usize)> {
    let (mut begin, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: zeros are room for attributes, which the first call fills and the last one ends.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
            return None;
        }
        let code = libc::pthread_attr_getstack(&attributes, &mut begin, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
        (code == 0).then(|| (begin.expose_provenance(), size))
    }
}

/// Whether so many bytes from an address on may be read now.
pub fn is_readable(address: usize, bytes: usize) -> bool {
    if bytes == 0 {
        return true;
    }
    let end = address.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE));
    let maps = undisturbed(|| std::fs::read_to_string("/proc/self/maps"));
    let (Some(end), Ok(maps)) = (end, maps) else { return false };
    covers(&maps, address - address % PAGE, end, is_there)
}

/// Whether eight bytes can be read: of a file's mapping those behind its last page cannot. The system
/// looks, whatever its version and its pages: it takes the set of signals before it refuses what to
/// do with it.
#[cold]
pub fn is_there(at: usize) -> bool {
    let nothing_to_do = -1i32;
    let _state = ThreadState::keep();
    // SAFETY: an invalid operation changes nothing, whatever the address; errno is the calling
    // thread's own.
    unsafe {
        let nowhere = std::ptr::null_mut::<u64>();
        libc::syscall(libc::SYS_rt_sigprocmask, nothing_to_do, at, nowhere, 8usize);
        *libc::__errno_location() != libc::EFAULT
    }
}

/// Whether a range is mapped without a gap and readable, by `/proc/self/maps`, and the last page of
/// each part of a file is there.
fn covers(maps: &str, begin: usize, end: usize, is_there: impl Fn(usize) -> bool) -> bool {
    let mut at = begin;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let mapping = fields.next().and_then(|range| {
            let (first, last) = range.split_once('-')?;
            let address = |text| usize::from_str_radix(text, 16).ok();
            Some((address(first)?, address(last)?))
        });
        let Some((first, last)) = mapping.filter(|(first, last)| *first <= at && at < *last) else {
            continue;
        };
        let is_allowed = fields.next().is_some_and(|rights| rights.starts_with('r'));
        let is_file = fields.nth(2).is_some_and(|inode| inode != "0");
        let upto = last.min(end);
        if !is_allowed || is_file && !is_there(upto.saturating_sub(PAGE).max(first)) {
            return false;
        }
        at = upto;
        if at >= end {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// Pages of which some may not be read.
    struct Pages(usize, usize);

    impl Pages {
        fn new(pages: usize, file: Option<&std::fs::File>) -> Self {
            let kind = if file.is_some() { libc::MAP_SHARED } else { libc::MAP_ANONYMOUS };
            let fd = file.map_or(-1, AsRawFd::as_raw_fd);
            let private = if file.is_some() { 0 } else { libc::MAP_PRIVATE };
            // SAFETY: a new mapping.
            let at = unsafe {
                let hint = std::ptr::null_mut();
                libc::mmap(hint, pages * PAGE, libc::PROT_READ, kind | private, fd, 0)
            };
            assert_ne!(at, libc::MAP_FAILED);
            Self(at.expose_provenance(), pages * PAGE)
        }

        fn protect(&self, page: usize) {
            let at = std::ptr::with_exposed_provenance_mut(self.0 + page * PAGE);
            // SAFETY: a page of its own.
            assert_eq!(unsafe { libc::mprotect(at, PAGE, libc::PROT_NONE) }, 0);
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: its own mapping.
            unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.0), self.1) };
        }
    }

    #[test]
    fn what_is_left_of_a_stack_is_less_than_it_has() {
        // The thread of a test has 2 MiB.
        assert!(has_stack(64 << 10));
        let asked = |size: usize| {
            let thread = std::thread::Builder::new().stack_size(size);
            let asked = || [has_stack(size / 8), has_stack(size)];
            std::thread::scope(|all| thread.spawn_scoped(all, asked).unwrap().join().unwrap())
        };
        for size in [128 << 10, 1 << 20, 16 << 20] {
            assert_eq!(asked(size), [true, false], "{size}");
        }
    }

    #[test]
    fn a_range_is_readable_where_each_of_its_pages_is() {
        let pages = Pages::new(9, None);
        assert!(is_readable(pages.0, pages.1));
        pages.protect(4);
        for (begin, bytes) in [(0, 4), (0, 5), (4, 1), (3, 3), (5, 4), (0, 9)] {
            let is_there = begin + bytes <= 4 || begin > 4;
            let (at, size) = (pages.0 + begin * PAGE, bytes * PAGE);
            assert_eq!(is_readable(at, size), is_there, "{begin} {bytes}");
            assert_eq!(is_readable(at + 1, size - 2), is_there, "{begin} {bytes}: not whole pages");
        }
        assert!(!is_readable(0, 1) && is_readable(0, 0) && !is_readable(usize::MAX, 2));
    }

    /// Has `madvise` refused on the calling thread as Linux before 5.14 does what it does not know.
    fn forget_madvise() {
        let [load, jump, end] = [0x20, 0x15, 0x06];
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let mut filter = [
            step(load, 0, 0, 0),
            step(jump, 0, 1, libc::SYS_madvise as u32),
            step(end, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
            step(end, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        // SAFETY: a program of that length, of the calling thread alone.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program), 0);
        }
    }

    /// By every version of the system.
    #[test]
    fn pages_behind_the_end_of_a_file_are_not_readable() {
        find_the_end();
        let old = || {
            forget_madvise();
            find_the_end();
        };
        std::thread::scope(|all| all.spawn(old).join().unwrap());
    }

    fn find_the_end() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * PAGE as u64 + 1).unwrap();
        let pages = Pages::new(8, Some(&file));
        assert!(is_readable(pages.0, 4 * PAGE));
        assert!(!is_readable(pages.0, 4 * PAGE + 1));
    }
}
