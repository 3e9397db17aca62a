//! A process's files, made by hand.

use super::*;
use clscope_trace::file::Clock;

const STEM: &str = "7-0";
const CHUNKS: u32 = 6;
const THREAD: u32 = 3;

/// The files of a process whose rings are chunks that nothing is in.
struct Made {
    folder: tempfile::TempDir,
    ring: File,
    sequence: u32,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let header = |kind| FileHeader {
            version: clscope_trace::VERSION,
            kind,
            pid: 7,
            ppid: 1,
            pid_ns: 1,
            incarnation: 0,
            segment: 0,
            clock: Clock::MonotonicRaw,
            host: [0; 16],
            boot: [0; 16],
            created: 0,
        };
        let make = |ending: &str| {
            let path = folder.path().join(format!("{STEM}.{ending}"));
            File::options().read(true).write(true).create_new(true).open(path).unwrap()
        };
        let (ring, defs) = (make("ring"), make("defs"));
        ring.write_all_at(&header(FileKind::Ring).encode(), 0).unwrap();
        defs.write_all_at(&header(FileKind::Defs).encode(), 0).unwrap();
        ring.set_len(RING_FIRST as u64 + u64::from(CHUNKS) * CHUNK as u64).unwrap();
        let made = Self { folder, ring, sequence: 0 };
        for chunk in 0..CHUNKS {
            made.word(Self::at(chunk) + ring::MAGIC, RING_MAGIC);
            made.word(Self::at(chunk) + ring::SIZE, CHUNK as u32);
        }
        made.word(control::CHUNKS, CHUNKS);
        made.word(control::MOST_CHUNKS, 1024);
        made.word(control::SEGMENT, 1 << 20);
        made.word(control::DEFS_END, HEADER_LEN as u32);
        made.word(control::WRITER, control::WRITER_BESIDE);
        made
    }

    fn at(chunk: u32) -> usize {
        RING_FIRST + chunk as usize * CHUNK
    }

    fn word(&self, at: usize, value: u32) {
        self.ring.write_all_at(&value.to_le_bytes(), at as u64).unwrap();
    }

    /// A thread fills a region of its own chunk and leaves it.
    fn leave(&mut self, chunk: u32) {
        let at = Self::at(chunk);
        self.word(at + ring::POSITION, 8);
        self.word(at + ring::POSITION + 4, self.sequence);
        self.word(at + ring::THREAD, THREAD | attendance::LEFT);
        self.sequence += 1;
        let slot = chunk as usize * (CHUNK / RING_FIRST);
        let mut bits = [0];
        let place = (control::LEFT + slot / 8) as u64;
        self.ring.read_exact_at(&mut bits, place).unwrap();
        bits[0] ^= 1 << (slot % 8);
        self.ring.write_all_at(&bits, place).unwrap();
        self.word(control::LARGE_TAKEN, self.sequence);
    }

    fn open(&self) -> Process {
        Process::open(self.folder.path(), STEM, Access::Private).unwrap()
    }

    /// The process says something.
    fn say(&self, code: &str) {
        let path = self.folder.path().join(format!("{STEM}.defs"));
        let defs = File::options().write(true).open(path).unwrap();
        let mut bytes = Vec::new();
        let warning = defs::Warning { code: code.to_owned(), text: String::new() };
        defs::encode(&warning.into(), &mut bytes);
        defs.write_all_at(&bytes, HEADER_LEN as u64).unwrap();
        self.word(control::DEFS_END, (HEADER_LEN + bytes.len()) as u32);
    }

    /// What the definitions say.
    fn said(&self) -> Vec<defs::Warning> {
        let bytes = std::fs::read(self.folder.path().join(format!("{STEM}.defs"))).unwrap();
        let warning = |def| if let Def::Warning(of) = def { Some(of) } else { None };
        Defs::behind(&bytes[HEADER_LEN..]).filter_map(warning).collect()
    }
}

/// Each time that they were, there are more: as many as [`LARGE_FREE`] at a look.
#[test]
fn rings_that_were_all_full_become_more() {
    let mut made = Made::new();
    let mut process = made.open();
    assert_eq!(process.chunks, [0, CHUNKS]);
    assert!(matches!(process.drain(), Ok(Wrote::Nothing)));
    // With the least of small ones.
    let first = process.chunks[1];
    assert_eq!(first, LARGE_FREE);
    assert_eq!(process.looks.late, 0);
    let mut before = first;
    for times in 1..=3 {
        let is_large = |chunk: &u32| process.is_large(*chunk);
        let large: Vec<u32> = (0..process.chunks.iter().sum()).filter(is_large).collect();
        assert_eq!(large.len() as u32, before);
        large.into_iter().for_each(|chunk| made.leave(chunk));
        assert!(matches!(process.drain(), Ok(Wrote::Something)));
        assert_eq!(process.looks.late, times);
        let now = process.chunks[1];
        assert_eq!(now, before + LARGE_FREE);
        before = now;
    }
    // Room that was made is not made again.
    assert!(matches!(process.drain(), Ok(Wrote::Nothing)));
    assert_eq!(process.chunks[1], before);
    assert_eq!(process.used(), [0, 0]);
}

#[test]
fn who_came_late_says_by_how_much_where_records_were_dropped() {
    for dropped in [false, true] {
        let mut made = Made::new();
        let mut process = made.open();
        (0..CHUNKS).for_each(|chunk| made.leave(chunk));
        made.say(if dropped { BEHIND } else { "other" });
        process.drain().unwrap();
        process.finish();
        let said = made.said();
        let own = said.iter().find(|warning| warning.code == "behind-by");
        assert_eq!(own.is_some(), dropped, "{said:?}");
        if let Some(own) = own {
            assert!(own.text.contains("found all rings full (once)"), "{own:?}");
            assert!(own.text.contains(" ms, "), "{own:?}");
        }
    }
}
