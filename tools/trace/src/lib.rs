//! The trace format, version 1. This page is its specification; the code beside it is the only
//! reader and writer of these bytes. The crate is pure: slices in, values out; mapping files and
//! talking to people happens elsewhere.
//!
//! # Files
//! A trace is a directory `NAME.clscope/`:
//!
//! | file | holds | written by |
//! |---|---|---|
//! | `meta.json` | command line, versions, times of start and end | `clscope record`, else the first process |
//! | `PID-N.defs` | definitions (module [`defs`]): never dropped, in order | recorder, one `write` each |
//! | `PID-N.SEG.clt` | data segment: framed blocks of records | `clscope record` beside the process, else the recorder; one `pwrite` a block |
//! | `PID-N.ring` | control word and the rings of all threads; holds what no segment holds yet | recorder, mapped |
//! | `sensors.clt` | readings of the sampler, in the same framing (module [`sensors`]) | `clscope record` |
//! | `programs/HASH.LANGUAGE` | texts and binaries of programs as they are, once for equal bytes ([`defs::Code`]) | recorder |
//! | `captures/KERNEL.N/` | a captured launch: `launch.json`, its program and memory ([`defs::Capture`]) | recorder |
//!
//! `PID` is the process id in its own pid namespace, `N` counts incarnations (a pid that comes
//! back, an `exec`). All numbers are little-endian; the header carries a byte-order mark so that a
//! foreign file is recognised, not misread.
//!
//! # File header, 128 bytes (defs, segments, rings, sensors alike)
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | 8 bytes | magic `89 63 6c 73 63 6f 70 65` (`\x89clscope`) |
//! | 8 | u32 | byte-order mark `0x01020304` |
//! | 12 | u16, u16 | format version major, minor. A reader refuses a larger major, and skips what it does not know of a larger minor |
//! | 16 | u32 | kind of file: 1 defs, 2 segment, 3 ring, 4 sensors |
//! | 20 | u32 | length of this header in bytes |
//! | 24 | u32, u32 | pid, parent pid |
//! | 32 | u64 | inode of the pid namespace, 0 if unknown |
//! | 40 | u32 | incarnation `N` |
//! | 44 | u32 | segment number, 0 outside segments |
//! | 48 | u8 | clock of all host times: 1 TSC, 2 CLOCK_MONOTONIC_RAW in ns, 3 CNTVCT |
//! | 49 | 7 bytes | reserved, 0 |
//! | 56 | 16 bytes | host id (`/etc/machine-id`), zero if unknown |
//! | 72 | 16 bytes | boot id, zero if unknown |
//! | 88 | u64 | host time at which the file was made, ticks of the clock above |
//! | 96 | 24 bytes | reserved, 0 |
//! | 120 | u64 | [`checksum`] of bytes 0..120 |
//!
//! # Blocks
//! A segment is, after its header, a sequence of blocks; each is a 64-byte header and `length`
//! bytes of records, and the next block begins at the following multiple of 8. Blocks of several
//! threads interleave in any order: a writer reserves its place by an atomic add, so a killed
//! process may leave a hole of zeros; readers search the next magic.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | u32 | magic `0x314b4c42` (`BLK1`) |
//! | 4 | u32 | thread index |
//! | 8 | u32 | sequence number of the block within its thread |
//! | 12 | u32 | length of the payload in bytes, a multiple of 8 |
//! | 16 | u64 | base: the host time to which the first record's delta is added |
//! | 24 | u64 | [`checksum`] of the payload |
//! | 32 | u64 | [`checksum`] of bytes 0..32 of this header |
//! | 40 | 24 bytes | reserved, 0 |
//!
//! # Rings
//! After the file header the ring file has a control page (offset 128: u32 control word, bit 0
//! paused, bit 1 resumed and not yet taken note of; then what a writer beside needs, see below; the
//! rest reserved, 0), then, from offset 4096, regions one after the other. A region begins with a
//! 128-byte header; its size gives the place of the next:
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | u32 | magic `0x31474e52` (`RNG1`) |
//! | 4 | u32 | size of the region in bytes, a multiple of 4096 |
//! | 8 | u32 | thread index + 1, 0 when the region is free. Bit 31: the thread has left the region, which waits to be written (from 1.9). `0xffff_ffff`: a piece of a file of `programs/` waits, which holds no records |
//! | 12 | u32 | 1 + how many of the records counted at 40 were dropped because the trace could not be written (at most 2^32 - 2); the others came in the middle of another call. 0 where that is not told (before 1.2) |
//! | 16 | u64 | base of the block being filled, as in a block header |
//! | 24 | u64 | position: sequence number (high 32 bits) and bytes published (low 32 bits) of the block being filled |
//! | 32 | u64 | drained: blocks of this thread with a smaller sequence number are in segments |
//! | 40 | u64 | records this thread dropped that no `Dropped` record reports yet |
//! | 48 | u64 | call in progress: function index + 1 (low 16 bits), 0 when the thread is in no call |
//! | 56 | u64 | host time at which that call began |
//! | 64 | 64 bytes | room for the block's header while it is written to a segment |
//!
//! A thread fills one region at a time; others may hold earlier blocks of it that wait to be
//! written. Such a region names no call.
//!
//! A record is complete before `position` covers it (release store), so whatever kills the process,
//! every record below `position` is whole. It does not change any more, but for a `Run` that is the
//! last one ([`record`]). A block is written to its segment before `position`
//! moves to the next sequence number or the region becomes free: a reader that finds a sequence
//! number both in a segment and in a ring takes it once. The guarantee is against the death of the
//! process, not of the machine.
//!
//! # A writer beside
//! From 1.9 another process may write the segments: `clscope record`, which holds a lock on the file
//! `.attended` of the directory ([`ring_file::attendance`]). The recorder then stores to two mapped files
//! and makes no system call for its records. A full region is left in the ring file; the writer
//! copies its block to a segment and frees the region. The writer also adds room: chunks of 64 KiB
//! behind the last region, each one region or sixteen small ones, and zeros behind the definitions.
//! The control page says how far both go ([`ring_file::control`]):
//!
//! | offset | type | content | stored by |
//! |---|---|---|---|
//! | 132 | u32 | who writes: 0 the process, 1 the writer beside, 2 the process since the writer has gone | both |
//! | 136 | u32 | error number while the writer cannot write, or once definitions could not be written, else 0 | writer; process without one |
//! | 140 | u32 | chunks that may be used | writer |
//! | 144 | u64 | bytes of the definitions file that hold definitions | process |
//! | 152 | u64 | bytes of the definitions file that may be stored to | writer |
//! | 160 | u64 | size at which segments are cut | process |
//! | 168 | u32 | how many segments are kept, 0 for all | process |
//! | 172 | u32 | most chunks that the process can use | process |
//! | 176 | u64 | most bytes of definitions that the process can store to | process |
//! | 184 | u32, u32 | small and large regions taken | process |
//! | 192 | u64 | the writer's sign of life, counted up | writer |
//! | 200 | u32 | 1 once a thread is in a sandbox that it entered by itself | writer |
//! | 204 | u32 | forked children that are not recorded because of it | process |
//! | 2048 | 2048 bytes | one bit for each 4096 bytes behind the control page: changes when the region there is left | process |
//!
//! A definitions file of a killed process may end in zeros: these zeros are room for more, and not torn.
//!
//! # Records
//! See [`record`] for the layout of each kind. Every record begins with a u32 head and a u32 time
//! delta. The delta counts ticks from the previous record's time in the same block (the block's
//! base for the first); a record's time is the last moment it describes: for a call its end. So
//! deltas never are negative, although calls nest. A `Run` grows while it is the last record, and
//! its delta leads to the end of its first call.
//!
//! # The next version
//! What is pinned: `tests/samples/v1.0/` is a trace with every kind of record, definition and
//! reading of version 1.0. Its bytes never change, and `tests/samples.rs` reads it with the
//! expected content, as it does with the sample of every later version (1.1 adds `Run` and fields
//! of `Replay`; 1.2 `Code`, `Resources`, `Mix` and `ReadTiming`; 1.3 `Detail`; 1.4 `Capture`; 1.5
//! `Replaced`, `LocalSize` and `AppendedOptions`; 1.6 trials of `Replay`; 1.7 transactions of
//! `Mix`; 1.8 `Detail` of the host's memory; 1.9 a writer beside; 1.10 copies of `Capture`). `tests/bytes/` states each layout a second time, in
//! offsets and bytes, so that a mistake made alike in writer and reader is seen.
//!
//! To add a kind of record, definition or reading (a **minor** version; readers before it skip the
//! kind and count it), or a field at the end of a definition (what an old file lacks reads as the
//! default):
//! 1. Give it the number that is kept for it in [`record::kind::RESERVED`] or [`defs::RESERVED`],
//!    else the next free one, and take that number out of the list. A number is never given twice.
//! 2. Add the row to the table in the module's page and the layout to `tests/bytes/`.
//! 3. Raise the minor half of [`VERSION`], once per release of the format.
//! 4. Write `tests/samples/v1_N.rs`: the content of the version before with what the new one adds.
//!    Enter it in the list of `tests/samples.rs`, teach `tests/samples/bytes.rs` to write it, and
//!    run `CLSCOPE_WRITE_SAMPLE=1 cargo test -p clscope-trace --test samples`: it writes the new
//!    folder, and refuses to touch one that exists. Commit it.
//!
//! To change a layout (a **major** version; readers before it refuse the file):
//! 1. Move today's decoding, unchanged, into a module `version1` whose functions give today's
//!    values: old bytes are lifted once, at the door, and nobody behind it knows of them. What the
//!    old version did not say becomes absent, never a guess.
//! 2. Choose by [`FileHeader::version`] where a file is opened: [`stream::Blocks`],
//!    [`stream::Rings`], [`defs::Defs`] and [`sensors::Records`] are the only places.
//! 3. Raise the major half of [`VERSION`], set the minor to 0, and write the new sample as above.
//!    The old samples' expected content stays; where today's types say more than the old ones, it
//!    says what the lifting makes of them.
#![forbid(unsafe_code)]

pub mod codes;
pub mod defs;
pub mod directory;
mod field;
pub mod file;
pub mod ids;
pub mod names;
pub mod record;
pub mod replace;
pub mod ring_file;
pub mod sensors;
pub mod stream;
pub mod values;
pub mod variables;

pub use file::{Checksum, Clock, FileHeader, FileKind, checksum, hash, hash_of};
pub use record::{Record, Untimed};

/// Format version written by this code: major, minor.
pub const VERSION: (u16, u16) = (1, 10);

/// Why bytes could not be read as a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum Error {
    /// Shorter than a file header.
    #[error(
        "the file has {found} bytes, a header needs {needed}: it was never finished, or is not a clscope trace"
    )]
    TooShort { found: usize, needed: usize },
    /// Another kind of file altogether.
    #[error("not a clscope trace file (it begins with {found:02x?})")]
    Foreign { found: [u8; 8] },
    /// Written on a machine of the other byte order.
    #[error("the trace was written on a big-endian machine, which this version cannot read")]
    ByteOrder,
    /// A newer format.
    #[error("the trace has format version {major}.{minor}, this clscope reads up to {}.x: use a newer clscope", VERSION.0)]
    Newer { major: u16, minor: u16 },
    /// The header's checksum or one of its fields is wrong.
    #[error("the file header is damaged ({what})")]
    DamagedHeader { what: &'static str },
    /// A file of the right format and the wrong role.
    #[error("expected a {expected:?} file, found {found:?}")]
    WrongKind { expected: FileKind, found: FileKind },
}
