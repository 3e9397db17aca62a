//! The kernels and the cache of their binaries. Owns the sources (files in kernels/, part of this
//! program) and the key of the cache; refuses to trust a cached file whose key is not the whole of
//! what it was built from.

use crate::cl::{ClError, DeviceFacts, Program, Session};
use clscope_io::input;
use clscope_io::output::{Access, Whole};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file of kernels.
#[allow(missing_docs)] // the names say it
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    Flop,
    Memory,
    Classes,
    Latency,
    Structure,
    Occupancy,
    Clock,
    Blend,
    Ceilings,
}

/// The files with their names, in the order of [`Source`].
const FILES: [(Source, &str, &str); 9] = [
    (Source::Flop, "flop.cl", include_str!("../kernels/flop.cl")),
    (Source::Memory, "memory.cl", include_str!("../kernels/memory.cl")),
    (Source::Classes, "classes.cl", include_str!("../kernels/classes.cl")),
    (Source::Latency, "latency.cl", include_str!("../kernels/latency.cl")),
    (Source::Structure, "structure.cl", include_str!("../kernels/structure.cl")),
    (Source::Occupancy, "occupancy.cl", include_str!("../kernels/occupancy.cl")),
    (Source::Clock, "clock.cl", include_str!("../kernels/clock.cl")),
    (Source::Blend, "blend.cl", include_str!("../kernels/blend.cl")),
    (Source::Ceilings, "ceilings.cl", include_str!("../kernels/ceilings.cl")),
];

impl Source {
    /// All.
    pub fn all() -> impl Iterator<Item = Source> {
        FILES.iter().map(|file| file.0)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        FILES[self as usize].1
    }

    /// What the compiler gets: the shared part, then the file.
    pub fn text(self) -> String {
        const COMMON: &str = include_str!("../kernels/common.clh");
        format!("{COMMON}\n#line 1\n{}", FILES[self as usize].2)
    }
}

/// Where binaries are kept between runs.
#[derive(Clone, Debug)]
pub struct BinaryCache(PathBuf);

impl BinaryCache {
    /// A cache in `directory`, which is made when something is first kept.
    pub fn new(directory: &Path) -> BinaryCache {
        BinaryCache(directory.to_owned())
    }

    /// Everything a binary depends on. It is stored in front of the binary and compared whole, so
    /// that the file's name may be a short hash.
    fn key(device: &DeviceFacts, source: &str, options: &str) -> String {
        let DeviceFacts { name, vendor, platform, version, driver, .. } = device;
        format!(
            "clscope-bench 1\n{platform}\n{vendor}\n{name}\n{version}\n{driver}\n{options}\n{source}\n\0"
        )
    }

    fn path(&self, key: &str) -> PathBuf {
        self.0.join(format!("{:016x}.bin", hash(key.as_bytes())))
    }
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xCBF2_9CE4_8422_2325u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3))
}

/// The binary in a cached file, if the file is whole: drivers were seen to crash on cut ones.
fn binary_in<'a>(file: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let (sum, binary) = file.strip_prefix(key.as_bytes())?.split_first_chunk::<8>()?;
    (hash(binary) == u64::from_le_bytes(*sum)).then_some(binary)
}

/// Builds a program, or loads it where the same was built before. A cache that cannot be read or
/// written only costs time.
///
/// # Errors
/// What the build returned.
pub fn program(
    session: &Session,
    cache: Option<&BinaryCache>,
    source: Source,
    options: &str,
) -> Result<Program, ClError> {
    let text = source.text();
    let Some(cache) = cache else { return session.build(source.name(), &text, options) };
    let key = BinaryCache::key(session.facts(), &text, options);
    let path = cache.path(&key);
    let file = input::read(&path, input::TEXT).unwrap_or_default();
    if let Some(Ok(program)) =
        binary_in(&file, &key).map(|binary| session.load(source.name(), binary, options))
    {
        return Ok(program);
    }
    let program = session.build(source.name(), &text, options)?;
    if let Some(binary) = program.binary() {
        let _ = keep(&path, key.as_bytes(), &binary);
    }
    Ok(program)
}

/// Writes under a temporary name and renames: two runs at once must not read halves.
fn keep(path: &Path, key: &[u8], binary: &[u8]) -> std::io::Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    std::fs::create_dir_all(directory)?;
    let mut file = Whole::create(path, Access::Private)?;
    [key, &hash(binary).to_le_bytes(), binary].iter().try_for_each(|part| file.write_all(part))?;
    file.finish()
}
