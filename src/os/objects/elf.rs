//! The little of ELF64 that finds functions without the dynamic linker: the dynamic section of a
//! loaded object, and the look-up of an exported function in its GNU or SysV hash table. It calls
//! nothing, takes no lock, and trusts only objects that ld.so has already loaded.
//!
//! The audit shim is built from this file, too: nothing of the standard library is used.
//!
//! Sources: System V gABI, chapter 5 "Dynamic Linking" and "Hash Table"; the GNU hash section as
//! glibc's `elf/dl-lookup.c` reads it.

/// First fields of glibc's `struct link_map`, its public part (`<link.h>`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LinkMap {
    /// Difference between the addresses in the file and in memory.
    pub addr: usize,
    /// Path of the object; empty for the executable.
    pub name: *const u8,
    /// Its dynamic section.
    pub dynamic: *const Dyn,
}

/// An entry of the dynamic section.
#[repr(C)]
pub struct Dyn {
    tag: i64,
    value: usize,
}

/// A symbol.
#[repr(C)]
pub struct Sym {
    name: u32,
    info: u8,
    _other: u8,
    shndx: u16,
    /// Address in the file; ld.so passes the address in memory to auditors.
    pub value: usize,
    _size: u64,
}

const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const STT_FUNC: u8 = 2;

/// The tables of one loaded object.
#[derive(Clone, Copy)]
pub struct Tables {
    base: usize,
    symbols: *const Sym,
    strings: *const u8,
    gnu_hash: *const u32,
    sysv_hash: *const u32,
}

/// The byte at `at`, for strings that end with 0.
///
/// # Safety
/// `text` is a C string, and no 0 lies before `at`.
pub unsafe fn byte(text: *const u8, at: usize) -> u8 {
    // SAFETY: the caller's promise.
    unsafe { *text.add(at) }
}

/// Whether two C strings are equal.
///
/// # Safety
/// Both are C strings.
pub unsafe fn same(a: *const u8, b: *const u8) -> bool {
    let mut at = 0;
    loop {
        // SAFETY: all bytes before `at` were equal and not 0, so neither string has ended.
        let (x, y) = unsafe { (byte(a, at), byte(b, at)) };
        if x != y {
            return false;
        }
        if x == 0 {
            return true;
        }
        at += 1;
    }
}

/// Hash of the GNU table.
///
/// # Safety
/// `name` is a C string.
unsafe fn gnu_hash(name: *const u8) -> u32 {
    let (mut hash, mut at) = (5381u32, 0);
    loop {
        // SAFETY: no 0 was met before `at`.
        let c = unsafe { byte(name, at) };
        if c == 0 {
            return hash;
        }
        hash = hash.wrapping_mul(33).wrapping_add(u32::from(c));
        at += 1;
    }
}

/// Hash of the SysV table.
///
/// # Safety
/// `name` is a C string.
unsafe fn sysv_hash(name: *const u8) -> u32 {
    let (mut hash, mut at) = (0u32, 0);
    loop {
        // SAFETY: no 0 was met before `at`.
        let c = unsafe { byte(name, at) };
        if c == 0 {
            return hash;
        }
        hash = (hash << 4).wrapping_add(u32::from(c));
        let high = hash & 0xf000_0000;
        hash = (hash ^ (high >> 24)) & !high;
        at += 1;
    }
}

impl Tables {
    /// Finds the tables of an object, `None` if it has no symbols or no hash table.
    ///
    /// # Safety
    /// `map` is a link map whose object is mapped, as ld.so gives it to `la_objopen`.
    pub unsafe fn find(map: &LinkMap) -> Option<Self> {
        let mut tables = Self {
            base: map.addr,
            symbols: core::ptr::null(),
            strings: core::ptr::null(),
            gnu_hash: core::ptr::null(),
            sysv_hash: core::ptr::null(),
        };
        let mut entry = map.dynamic;
        if entry.is_null() {
            return None;
        }
        loop {
            // SAFETY: the dynamic section ends with DT_NULL, which was not met yet.
            let Dyn { tag, value } = unsafe { &*entry };
            // ld.so relocates these addresses in place on most machines, and leaves them on those
            // with a read-only dynamic section. Addresses in a file are smaller than any address it
            // is loaded at.
            let address = if *value < map.addr { value.wrapping_add(map.addr) } else { *value };
            match *tag {
                0 => break,
                DT_SYMTAB => tables.symbols = address as *const Sym,
                DT_STRTAB => tables.strings = address as *const u8,
                DT_GNU_HASH => tables.gnu_hash = address as *const u32,
                DT_HASH => tables.sysv_hash = address as *const u32,
                _ => {}
            }
            // SAFETY: this entry was not the last.
            entry = unsafe { entry.add(1) };
        }
        let whole = !tables.symbols.is_null()
            && !tables.strings.is_null()
            && (!tables.gnu_hash.is_null() || !tables.sysv_hash.is_null());
        whole.then_some(tables)
    }

    /// Address of the function the object exports under `name`.
    ///
    /// # Safety
    /// `name` is a C string and the object is still mapped.
    pub unsafe fn function(&self, name: *const u8) -> Option<usize> {
        // SAFETY: the caller's promises are those asked for.
        let index = unsafe {
            if self.gnu_hash.is_null() { self.by_sysv_hash(name) } else { self.by_gnu_hash(name) }
        }?;
        // SAFETY: the hash table names only symbols that exist.
        Some(self.base.wrapping_add(unsafe { &*self.symbols.add(index as usize) }.value))
    }

    /// Whether symbol `index` is a defined function called `name`.
    ///
    /// # Safety
    /// As [`function`](Self::function); `index` comes from the object's hash table.
    unsafe fn is(&self, index: u32, name: *const u8) -> bool {
        // SAFETY: the hash table names only symbols that exist, and symbols only strings that
        // exist.
        unsafe {
            let symbol = &*self.symbols.add(index as usize);
            symbol.shndx != 0
                && symbol.info & 0xf == STT_FUNC
                && same(self.strings.add(symbol.name as usize), name)
        }
    }

    /// # Safety
    /// As [`function`](Self::function); `gnu_hash` is not null.
    unsafe fn by_gnu_hash(&self, name: *const u8) -> Option<u32> {
        // SAFETY: layout of the section: nbuckets, symoffset, bloom words (64 bits each), shift,
        // the words, the buckets, and one chain entry for each symbol from symoffset on; a chain
        // ends where bit 0 is set.
        unsafe {
            let [buckets, first, bloom] =
                [*self.gnu_hash, *self.gnu_hash.add(1), *self.gnu_hash.add(2)];
            if buckets == 0 {
                return None;
            }
            let table = self.gnu_hash.add(4 + 2 * bloom as usize);
            let chain = table.add(buckets as usize);
            let hash = gnu_hash(name);
            let mut index = *table.add((hash % buckets) as usize);
            if index < first {
                return None;
            }
            loop {
                let entry = *chain.add((index - first) as usize);
                if entry | 1 == hash | 1 && self.is(index, name) {
                    return Some(index);
                }
                if entry & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// # Safety
    /// As [`function`](Self::function); `sysv_hash` is not null.
    unsafe fn by_sysv_hash(&self, name: *const u8) -> Option<u32> {
        // SAFETY: layout of the section: nbucket, nchain, the buckets, the chains; a chain ends
        // with 0.
        unsafe {
            let buckets = *self.sysv_hash;
            if buckets == 0 {
                return None;
            }
            let table = self.sysv_hash.add(2);
            let chain = table.add(buckets as usize);
            let mut index = *table.add((sysv_hash(name) % buckets) as usize);
            while index != 0 {
                if self.is(index, name) {
                    return Some(index);
                }
                index = *chain.add(index as usize);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Values of the gABI's and glibc's functions for a known name.
    #[test]
    fn hashes_are_those_of_the_specifications() {
        // SAFETY: C strings.
        unsafe {
            assert_eq!(gnu_hash(c"".as_ptr().cast()), 5381);
            assert_eq!(gnu_hash(c"printf".as_ptr().cast()), 0x156b_2bb8);
            assert_eq!(sysv_hash(c"printf".as_ptr().cast()), 0x0779_05a6);
        }
    }

    /// The test binary's own C library, found as the shim finds the recorder, gives what dlsym
    /// gives.
    #[test]
    fn functions_of_a_loaded_object_are_found() {
        unsafe extern "C" {
            fn dlopen(name: *const u8, flags: i32) -> *mut LinkMap;
            fn dlsym(handle: *mut LinkMap, name: *const u8) -> usize;
        }
        // SAFETY: glibc's handles are link maps (dlinfo(3), RTLD_DI_LINKMAP); libm is there
        // wherever glibc is.
        unsafe {
            let map = dlopen(c"libm.so.6".as_ptr().cast(), 2);
            assert!(!map.is_null());
            let mut tables = Tables::find(&*map).expect("libm has symbols");
            for name in [c"ldexpf", c"frexp", c"modf"] {
                let found = tables.function(name.as_ptr().cast());
                assert_eq!(found, Some(dlsym(map, name.as_ptr().cast())), "{name:?}");
            }
            assert_eq!(tables.function(c"clFinish".as_ptr().cast()), None);
            if !tables.sysv_hash.is_null() {
                tables.gnu_hash = core::ptr::null();
                assert_eq!(
                    tables.function(c"frexp".as_ptr().cast()),
                    Some(dlsym(map, c"frexp".as_ptr().cast()))
                );
            }
        }
    }
}
