//! The objects of the process: its executable and its libraries. Which one holds an address, what
//! they are called, and which functions they export. Keeps nothing but where this library lies:
//! what is loaded changes.
//!
//! Objects are listed by `dl_iterate_phdr`, and their functions found in their own tables. Neither
//! takes the lock under which the dynamic linker opens libraries and runs their constructors, as
//! `dlsym` and `dladdr` do: a constructor may wait for the thread that asks here.

mod elf;

use crate::os::objects::elf::{Dyn, LinkMap, Tables};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An object of the process, as long as it is listed.
pub struct Object<'a> {
    /// Its place in the order of loading, the executable's 0.
    pub place: usize,
    /// What its file's addresses are moved by.
    pub base: usize,
    /// Its file, empty where the dynamic linker has no name for it, as for the executable.
    pub name: &'a CStr,
    headers: &'a [libc::Elf64_Phdr],
}

impl Object<'_> {
    /// Begin and end of each of its segments, with their flags.
    fn segments(&self) -> impl Iterator<Item = (usize, usize, u32)> {
        self.headers.iter().filter(|h| h.p_type == libc::PT_LOAD).map(|h| {
            let begin = self.base.wrapping_add(h.p_vaddr as usize);
            (begin, begin.wrapping_add(h.p_memsz as usize), h.p_flags)
        })
    }

    /// Whether an address lies in it.
    pub fn holds(&self, address: usize) -> bool {
        self.segments().any(|(begin, end, _)| (begin..end).contains(&address))
    }

    /// The function that it exports under this name.
    pub fn function(&self, name: &CStr) -> Option<*mut c_void> {
        let dynamic = self.headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC)?;
        let map = LinkMap {
            addr: self.base,
            name: self.name.as_ptr().cast(),
            dynamic: self.base.wrapping_add(dynamic.p_vaddr as usize) as *const Dyn,
        };
        // SAFETY: the object is listed, hence mapped and relocated, and the name is a C string.
        unsafe { Tables::find(&map)?.function(name.as_ptr().cast()) }.map(|at| at as *mut c_void)
    }
}

/// Shows the objects in the order in which they were loaded, until one gives something. They stay
/// mapped meanwhile: what is called must come back soon, and open and close no library.
pub fn find<R>(mut each: impl FnMut(&Object<'_>) -> Option<R>) -> Option<R> {
    struct Search<'a, R> {
        place: usize,
        each: &'a mut dyn FnMut(&Object<'_>) -> Option<R>,
        found: Option<R>,
    }
    unsafe extern "C" fn show<R>(
        info: *mut libc::dl_phdr_info,
        _: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: `info` is valid during the call; `search` is the one below, used by nobody else
        // meanwhile.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search<'_, R>>()) };
        let name = match info.dlpi_name.is_null() {
            true => c"",
            // SAFETY: names of the dynamic linker are C strings.
            false => unsafe { CStr::from_ptr(info.dlpi_name) },
        };
        // SAFETY: the object's program headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let base = info.dlpi_addr as usize;
        search.found = (search.each)(&Object { place: search.place, base, name, headers });
        search.place += 1;
        c_int::from(search.found.is_some())
    }
    let mut search = Search { place: 0, each: &mut each, found: None };
    // SAFETY: `show` has the right type for what it is given, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(show::<R>), (&raw mut search).cast()) };
    search.found
}

/// Runs `run` on base address and file of the object that holds an address; `None` if there is
/// none.
pub fn holding<R>(address: *const c_void, run: impl FnOnce(usize, &CStr) -> R) -> Option<R> {
    let mut run = Some(run);
    find(|object| {
        let run = object.holds(address as usize).then(|| run.take()).flatten()?;
        Some(run(object.base, object.name))
    })
}

/// Whether an address is that of code of a loaded object.
pub fn is_code(address: usize) -> bool {
    let holds = |object: &Object<'_>| {
        let mut segments = object.segments();
        segments
            .any(|(begin, end, flags)| flags & libc::PF_X != 0 && (begin..end).contains(&address))
    };
    find(|object| holds(object).then_some(())).is_some()
}

/// Where this library lies: begin and end; 0 before that is known.
static OURS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Whether an address lies in this library.
pub fn is_ours(address: *const c_void) -> bool {
    let [begin, end] = &OURS;
    if end.load(Ordering::Acquire) == 0 {
        let here = is_ours as *const c_void as usize;
        find(|object| {
            object.holds(here).then(|| {
                let all = object.segments().map(|(from, to, _)| (from, to));
                let (from, to) = all.fold((usize::MAX, 0), |(a, b), (c, d)| (a.min(c), b.max(d)));
                begin.store(from, Ordering::Relaxed);
                end.store(to, Ordering::Release);
            })
        });
    }
    (begin.load(Ordering::Relaxed)..end.load(Ordering::Acquire)).contains(&(address as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_told_apart_by_its_object() {
        assert!(is_ours(is_code as *const c_void));
        assert!(!is_ours(libc::abort as *const c_void));
        assert!(!is_ours(std::ptr::null()));
        let libc = holding(libc::abort as *const c_void, |_, name| name.to_owned()).unwrap();
        assert!(libc.to_bytes().windows(7).any(|part| part == b"libc.so"), "{libc:?}");
        assert!(is_code(libc::abort as *const c_void as usize) && !is_code(0));
        let here = 0_u8;
        assert!(!is_code(&raw const here as usize));
    }

    /// Functions are those that the dynamic linker finds.
    #[test]
    fn functions_are_found_as_the_linker_finds_them() {
        for name in [c"abort", c"dl_iterate_phdr", c"pthread_create", c"getpid"] {
            #[expect(clippy::disallowed_methods, reason = "of a test")]
            // SAFETY: a C string.
            let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert_eq!(find(|object| object.function(name)), Some(expected), "{name:?}");
        }
        assert!(find(|object| object.function(c"clThereIsNoSuchFunction")).is_none());
    }
}
