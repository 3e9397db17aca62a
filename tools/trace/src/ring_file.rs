//! Layout of a ring file: its control page, the header of a region, and how the process that writes
//! the segments says that it is there. Offsets and values alone: who stores them, and in which
//! order, is the recorder's.

/// Magic of a ring region.
pub const RING_MAGIC: u32 = u32::from_le_bytes(*b"RNG1");
/// Length of a ring region's header in bytes.
pub const RING_HEADER_LEN: usize = 128;
/// Where the first ring region begins in a ring file; the control page lies before it.
pub const RING_FIRST: usize = 4096;

/// Offsets of the control page's fields in a ring file.
pub mod control {
    /// Control word: bit 0 pauses recording.
    pub const WORD: usize = 128;
    /// Bit of the control word: recording is paused.
    pub const PAUSED: u32 = 1;
    /// Bit of the control word: recording goes on; the first call takes note and clears it.
    pub const RESUMED: u32 = 2;
    /// File of the trace directory with the initial state of later processes: [`BEGIN_PAUSED`] or
    /// [`BEGIN_RECORDING`], and a line break. Without it they begin as the environment says.
    pub const FILE: &str = "control";
    /// Content of [`FILE`].
    pub const BEGIN_PAUSED: &str = "paused";
    /// Content of [`FILE`].
    pub const BEGIN_RECORDING: &str = "recording";
    /// u32: who writes what the rings hold to the segments; 0 in files without a writer beside.
    pub const WRITER: usize = 132;
    /// Value of [`WRITER`]: another process does, see [`attendance`](super::attendance).
    pub const WRITER_BESIDE: u32 = 1;
    /// Value of [`WRITER`]: the process itself does, since the one beside has gone.
    pub const WRITER_GONE: u32 = 2;
    /// u32 error number of the writer beside, while it cannot write, or of a process without one, once
    /// its definitions could not be written; else 0.
    pub const FAILURE: usize = 136;
    /// Values of [`FAILURE`]: the disk is full (ENOSPC), a quota is (EDQUOT).
    pub const FULL: [u32; 2] = [28, 122];
    /// u32 chunks of regions that may be used (see [`CHUNK`](super::CHUNK)).
    pub const CHUNKS: usize = 140;
    /// u64 bytes of the definitions file that hold definitions; zeros lie behind.
    pub const DEFS_END: usize = 144;
    /// u64 bytes of the definitions file that may be stored to.
    pub const DEFS_ROOM: usize = 152;
    /// u64 size at which segments are cut.
    pub const SEGMENT: usize = 160;
    /// u32 how many segments are kept, the newest; 0: all.
    pub const SEGMENTS: usize = 168;
    /// u32 most chunks that the process can use.
    pub const MOST_CHUNKS: usize = 172;
    /// u64 most bytes of the definitions file that the process can store to.
    pub const MOST_DEFS: usize = 176;
    /// u32 small regions that were taken, less those that were given back unused. The process that
    /// writes the segments knows how many it freed.
    pub const SMALL_TAKEN: usize = 184;
    /// u32 the same of large regions.
    pub const LARGE_TAKEN: usize = 188;
    /// u64 that the process which writes the segments counts up several times a second, as long as
    /// it is there.
    pub const BEAT: usize = 192;
    /// u32: 1 once a thread of the process was seen in a sandbox (seccomp) that it entered by
    /// itself; else 0.
    pub const SANDBOXED: usize = 200;
    /// u32 forked children of the process whose calls are not recorded, because it was in a sandbox.
    pub const UNRECORDED: usize = 204;
    /// u32 how often the process has asked whether it is in a sandbox; it asks before it captures a
    /// launch, which needs the system.
    pub const ASKED: usize = 208;
    /// u32 value of [`ASKED`] for which [`SANDBOXED`] holds the answer.
    pub const ANSWERED: usize = 212;
    /// One bit for each [`RING_FIRST`](super::RING_FIRST) bytes behind the control page, up to its
    /// end: changed each time that the region which begins there is left.
    pub const LEFT: usize = 2048;
}

/// Bytes of a chunk: where another process writes the segments, the ring file is the control page
/// and chunks behind it. A chunk is one region, or [`CHUNK`] / [`RING_FIRST`] small ones.
pub const CHUNK: usize = 64 * 1024;

/// How the process that writes the segments says that it is there. It holds a lock (`flock`) on a
/// file of the trace directory: processes that begin while it is held, on the same boot of the same
/// machine, leave full rings to it. A process that leaves a region sets [`LEFT`](attendance::LEFT)
/// in its thread word and changes its bit at [`control::LEFT`]; the other one writes the block, sets
/// `DRAINED`, and frees the region. It also makes room in both files before it runs out, and never
/// moves what is there. When [`control::BEAT`] stands still for seconds and there is no room any
/// more, a process that is in no sandbox sets [`control::WRITER_GONE`] and writes by itself.
pub mod attendance {
    /// The file. It holds the id of the boot as 32 hexadecimal digits.
    pub const FILE: &str = ".attended";
    /// Bit of a ring's `THREAD`: its thread has left the region, which waits to be written.
    pub const LEFT: u32 = 1 << 31;
    /// Value of a ring's `THREAD` without [`LEFT`]: the region holds a piece of a file of the folder
    /// of programs. Its payload is four words (a number of the file in the process, the piece's
    /// offset, the bytes of the whole file, the bytes of its name), then the name, then the piece.
    pub const PIECE: u32 = LEFT - 1;
    /// Bytes of a piece's four words.
    pub const PIECE_HEAD: usize = 32;
}

/// Offsets of the fields of a ring region's header.
pub mod ring {
    /// u32 magic.
    pub const MAGIC: usize = 0;
    /// u32 size of the region.
    pub const SIZE: usize = 4;
    /// u32 thread index + 1.
    pub const THREAD: usize = 8;
    /// u32 1 + how many of [`DROPPED`] are for want of room in the trace; 0 where that is not told.
    pub const FAILED: usize = 12;
    /// u64 base time of the block being filled.
    pub const BASE: usize = 16;
    /// u64 sequence number and bytes published.
    pub const POSITION: usize = 24;
    /// u64 first sequence number that is not in a segment.
    pub const DRAINED: usize = 32;
    /// u64 dropped records not reported yet.
    pub const DROPPED: usize = 40;
    /// u64 function + 1 of the call in progress.
    pub const CALL: usize = 48;
    /// u64 host time at which it began.
    pub const CALL_BEGIN: usize = 56;
}
