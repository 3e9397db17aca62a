//! Owns what an executable file shows about how it will be loaded: linked dynamically or not, by
//! which loader, with which libraries. Refuses to run anything or to resolve libraries: that is
//! ld.so's.
#![forbid(unsafe_code)]

use object::elf;
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _, Sym as _};
use object::{Endianness, FileKind};

/// What matters of an ELF file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elf {
    /// 64 or 32.
    pub bits: u8,
    /// `e_machine` of the ELF header.
    pub machine: u16,
    /// The dynamic loader asked for; `None` for a static executable.
    pub interpreter: Option<String>,
    /// Whether there is a dynamic section. A static-pie has one and no interpreter.
    pub dynamic: bool,
    /// DT_NEEDED, in order.
    pub needed: Vec<String>,
    /// Size in bytes of its thread-local storage, rounded up to its alignment; 0 without.
    pub tls: u64,
}

impl Elf {
    /// Reads the bytes of a file; `None` where they are no ELF executable that can be understood.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        match FileKind::parse(bytes).ok()? {
            FileKind::Elf64 => Self::read::<elf::FileHeader64<Endianness>>(bytes, 64),
            FileKind::Elf32 => Self::read::<elf::FileHeader32<Endianness>>(bytes, 32),
            _ => None,
        }
    }

    fn read<H: FileHeader<Endian = Endianness>>(bytes: &[u8], bits: u8) -> Option<Self> {
        let header = H::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, bytes).ok()?;
        let mut found = Self { bits, machine: header.e_machine(endian), ..Self::default() };
        let mut dynamic: Vec<(u32, u64)> = Vec::new();
        for segment in segments {
            if let Ok(Some(path)) = segment.interpreter(endian, bytes) {
                found.interpreter = Some(String::from_utf8_lossy(path).into_owned());
            }
            if let Ok(Some(entries)) = segment.dynamic(endian, bytes) {
                found.dynamic = true;
                dynamic.extend(
                    entries.iter().filter_map(|e| Some((e.tag32(endian)?, e.d_val(endian).into()))),
                );
            }
            if segment.p_type(endian) == elf::PT_TLS {
                let (size, align): (u64, u64) =
                    (segment.p_memsz(endian).into(), segment.p_align(endian).into());
                found.tls = size.checked_next_multiple_of(align.max(1)).unwrap_or(0);
            }
        }
        let value = |tag| dynamic.iter().find(|(t, _)| *t == tag).map(|(_, v)| *v);
        if let (Some(address), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) {
            let strings = segments
                .iter()
                .find_map(|s| s.data_range(endian, bytes, address, size).ok().flatten());
            let text = |at: u64| {
                let rest = strings?.get(usize::try_from(at).ok()?..)?;
                let end = rest.iter().position(|b| *b == 0)?;
                Some(String::from_utf8_lossy(&rest[..end]).into_owned())
            };
            found.needed = dynamic
                .iter()
                .filter(|(t, _)| *t == elf::DT_NEEDED)
                .filter_map(|(_, at)| text(*at))
                .collect();
        }
        Some(found)
    }

    /// Whether the library of these bytes exports this name.
    pub fn exports(bytes: &[u8], name: &str) -> bool {
        match FileKind::parse(bytes) {
            Ok(FileKind::Elf64) => Self::defines::<elf::FileHeader64<Endianness>>(bytes, name),
            Ok(FileKind::Elf32) => Self::defines::<elf::FileHeader32<Endianness>>(bytes, name),
            _ => None,
        }
        .unwrap_or(false)
    }

    fn defines<H: FileHeader<Endian = Endianness>>(bytes: &[u8], name: &str) -> Option<bool> {
        let header = H::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, bytes).ok()?;
        let symbols = sections.symbols(endian, bytes, elf::SHT_DYNSYM).ok()?;
        let mut defined = symbols.iter().filter(|symbol| !symbol.is_undefined(endian));
        Some(defined.any(|symbol| {
            symbol.name(endian, symbols.strings()).is_ok_and(|found| found == name.as_bytes())
        }))
    }

    /// Whether `LD_PRELOAD` cannot work because no dynamic loader runs.
    pub fn is_static(&self) -> bool {
        self.interpreter.is_none()
    }

    /// Whether the loader is musl's, which a library made for glibc cannot be loaded by.
    pub fn is_musl(&self) -> bool {
        self.interpreter.as_deref().is_some_and(|path| path.contains("ld-musl"))
    }

    /// The sanitizer runtime it is linked to, which must come before every other library.
    pub fn sanitizer(&self) -> Option<&str> {
        const RUNTIMES: [&str; 8] = [
            "libasan.so",
            "libclang_rt.asan",
            "libhwasan.so",
            "libclang_rt.hwasan",
            "libtsan.so",
            "libclang_rt.tsan",
            "liblsan.so",
            "libclang_rt.lsan",
        ];
        self.needed
            .iter()
            .map(String::as_str)
            .find(|name| RUNTIMES.iter().any(|runtime| name.starts_with(runtime)))
    }
}

/// `e_machine` of this very program, for comparison.
pub const fn own_machine() -> u16 {
    if cfg!(target_arch = "aarch64") {
        elf::EM_AARCH64
    } else if cfg!(target_arch = "x86_64") {
        elf::EM_X86_64
    } else {
        elf::EM_NONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_test() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let found = Elf::parse(&bytes).unwrap();
        assert_eq!(found.bits, if cfg!(target_pointer_width = "64") { 64 } else { 32 });
        assert_eq!(found.machine, own_machine());
        assert!(found.dynamic && !found.is_static() && !found.is_musl());
        assert!(found.needed.iter().any(|name| name.starts_with("libc.so")), "{:?}", found.needed);
        assert!(found.tls > 0, "std has thread-locals");
        assert_eq!(found.sanitizer(), None);
    }

    #[test]
    fn what_a_library_exports_is_read() {
        let c_library = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = c_library.lines().find_map(|line| {
            line.split_whitespace().last().filter(|path| path.contains("/libc.so"))
        });
        let bytes = std::fs::read(path.unwrap()).unwrap();
        assert!(Elf::exports(&bytes, "fopen") && !Elf::exports(&bytes, "clGetPlatformIDs"));
        assert!(!Elf::exports(b"#!/bin/sh", "fopen"));
        for cut in 0..4096 {
            assert!(!Elf::exports(&bytes[..cut], "fopen"));
        }
    }

    #[test]
    fn survives_every_cut_of_a_header_and_foreign_bytes() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        for cut in (0..4096).chain([bytes.len() / 2]) {
            let _ = Elf::parse(&bytes[..cut]);
        }
        for at in 0..1024 {
            let mut bad = bytes[..8192].to_vec();
            bad[at] ^= 0xff;
            let _ = Elf::parse(&bad);
        }
        assert_eq!(Elf::parse(b"#!/bin/sh\n"), None);
        assert_eq!(Elf::parse(b""), None);
    }

    #[test]
    fn sanitizers_are_known_by_name() {
        let with =
            |name: &str| Elf { needed: vec!["libm.so.6".into(), name.into()], ..Elf::default() };
        assert_eq!(with("libasan.so.8").sanitizer(), Some("libasan.so.8"));
        assert_eq!(
            with("libclang_rt.asan-x86_64.so").sanitizer(),
            Some("libclang_rt.asan-x86_64.so")
        );
        assert_eq!(with("libc.so.6").sanitizer(), None);
    }
}
