//! The files of one process: definitions, ring file, data segments. All are opened with high
//! descriptor numbers, so that the application's own numbering stays as it is without us.

pub mod captures;
pub mod meta;
pub mod programs;
mod reopened_file;
mod segments;

pub use segments::{Place, Segments, write_block};

use crate::abi::{entry::ID_BITS, functions};
use crate::os::locks::robust::Robust;
use crate::os::memory;
use crate::os::plain_write;
use crate::os::undisturbed::{uncancelled, undisturbed};
use crate::recording::Recording;
use crate::recording::diag;
use crate::recording::files::reopened_file::{Folder, ReopenedFile};
use crate::recording::ring::pool::{self, Pool};
use crate::settings::config;
use clscope_io::output::Access;
use clscope_readings::host;
use clscope_trace::defs::{self, Argument, Def, Function, Small};
use clscope_trace::ring_file::{RING_FIRST, control};
use clscope_trace::{Clock, FileHeader, FileKind, VERSION};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Who may read what is made: arguments, names and paths are in it.
pub fn access() -> Access {
    if config::get().shared { Access::Umask } else { Access::Private }
}

/// The files of one incarnation.
pub struct Files {
    pub directory: PathBuf,
    pub folder: Arc<Folder>,
    /// `PID-N`.
    pub stem: String,
    pub header: FileHeader,
    pub first_anchor: defs::Anchor,
    /// Whether rings lie in the mapped file.
    pub rings_survive: bool,
    defs: ReopenedFile,
    /// Where the next definition goes. Held while it is written: only the last definition of a
    /// killed process may be torn, and one that a handler's jump tore is overwritten by the next.
    defs_end: Robust<u64>,
    defs_failed: AtomicBool,
    /// The definitions file, mapped where [`pool`](Self::pool) is.
    mapped: Option<MmapRaw>,
    /// Definitions found no room since the last that did.
    unwritten: AtomicBool,
    /// The other process's sign of life as it was last, and the time since when it is that.
    beat: [AtomicU64; 2],
    ring: Option<ReopenedFile>,
    /// Where another process wrote the segments when this one began.
    pub pool: Option<Pool>,
    /// The first page of the ring file, or of anonymous memory; of the pool where there is one.
    control: Option<MmapRaw>,
}

/// A file that grows at its end: what is not ours to frame.
pub struct Appended {
    kept: ReopenedFile,
    end: u64,
}

impl Appended {
    /// Makes it.
    pub fn create(files: &Files, name: String) -> io::Result<Self> {
        Ok(Self { kept: undisturbed(|| ReopenedFile::create(&files.folder, name))?, end: 0 })
    }
}

impl io::Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        undisturbed(|| self.kept.write_at(bytes, self.end))?;
        self.end += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Files {
    /// Makes the trace directory if needed and this process's files in it.
    pub fn create(
        clock: Clock,
        parent: Option<&'static Recording>,
        layer: bool,
    ) -> Result<Self, String> {
        let settings = config::get();
        let directory = match (&settings.trace, parent) {
            (_, Some(parent)) => parent.files.directory.clone(),
            (Some(path), None) => path.clone(),
            (None, None) => {
                PathBuf::from(format!("{}-{}.clscope", meta::program_name(), std::process::id()))
            }
        };
        // The application may change its directory later.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(access().directory());
        builder.create(&directory).map_err(|e| {
            format!(
                "cannot make the trace directory {}: {e}; name a writable one with {}",
                directory.display(),
                clscope_trace::variables::TRACE
            )
        })?;
        // Another user could have made it to have us write elsewhere: its default name can be
        // guessed.
        let folder = Folder::open(&directory).map_err(|e| {
            format!(
                "cannot use {} as the trace directory: {e}; name another one with {}",
                directory.display(),
                clscope_trace::variables::TRACE
            )
        })?;
        let mut header = FileHeader {
            version: VERSION,
            kind: FileKind::Defs,
            pid: std::process::id(),
            // SAFETY: no preconditions.
            ppid: unsafe { libc::getppid() } as u32,
            pid_ns: host::pid_namespace().unwrap_or(0),
            incarnation: 0,
            segment: 0,
            clock,
            host: host::machine_id(),
            boot: host::boot_id(),
            created: crate::recording::now(),
        };
        let (defs, stem) = loop {
            let stem = format!("{}-{}", header.pid, header.incarnation);
            match ReopenedFile::create(&folder, format!("{stem}.defs")) {
                Ok(kept) => break (kept, stem),
                Err(e)
                    if e.kind() == io::ErrorKind::AlreadyExists && header.incarnation < 10_000 =>
                {
                    header.incarnation += 1
                }
                Err(e) => {
                    return Err(format!(
                        "cannot write {stem}.defs in {}: {e}",
                        directory.display()
                    ));
                }
            }
        };
        let first_anchor = clscope_clock::anchor(clock);
        let name = format!("{stem}.ring");
        let of_ring = FileHeader { kind: FileKind::Ring, ..header.clone() };
        let beside = folder
            .is_attended(&header.boot)
            .then(|| beside(&folder, &name, &of_ring, &defs, settings.max_size).ok())
            .flatten();
        let (ring, control, why, pool, mapped) = match beside {
            Some((ring, pool, mapped)) => (Some(ring), Ok(None), None, Some(pool), Some(mapped)),
            None => {
                let (ring, control, why) = ring_file(&folder, name, &of_ring);
                (ring, control.map(Some), why, None, None)
            }
        };
        let files = Self {
            directory,
            folder,
            stem,
            first_anchor: first_anchor.clone(),
            rings_survive: ring.is_some(),
            defs,
            defs_end: Robust::new(0),
            defs_failed: AtomicBool::new(false),
            mapped,
            unwritten: AtomicBool::new(false),
            beat: [const { AtomicU64::new(0) }; 2],
            ring,
            pool,
            control: control.map_err(|e| format!("no memory for the control page: {e}"))?,
            header,
        };
        let mut bytes = files.header.encode().to_vec();
        defs::encode(&meta::process(&files, settings, layer).into(), &mut bytes);
        defs::encode(&first_anchor.into(), &mut bytes);
        for (id, info) in functions::FUNCTIONS.iter().enumerate() {
            let arguments = info.arguments.iter();
            let plain = || (0..).zip(info.arguments).filter(|(_, a)| a.bits > 0);
            let definition = Function {
                id: id as u16,
                name: info.name.to_string_lossy().into_owned(),
                origin: info.origin.to_owned(),
                group: info.group.to_owned(),
                arguments: arguments
                    .map(|a| Argument { name: a.name.to_owned(), kind: a.kind })
                    .collect(),
                small: plain()
                    .filter(|(_, a)| a.bits != ID_BITS)
                    .map(|(argument, a)| Small { argument, bits: a.bits })
                    .collect(),
                object: plain().find(|(_, a)| a.bits == ID_BITS).map(|(argument, _)| argument),
            };
            defs::encode(&definition.into(), &mut bytes);
        }
        if let Some(why) = why {
            let text = format!(
                "the trace directory refuses shared mappings ({why}): what the last moments recorded is lost if the process is killed"
            );
            defs::encode(
                &defs::Warning { code: "no-shared-mapping".into(), text }.into(),
                &mut bytes,
            );
        }
        files.append(&bytes).map_err(|e| {
            // An empty file says that the process has no trace. Half of it would say no call.
            _ = files.defs.with(|file| file.set_len(0));
            files.folder.remove(&format!("{}.ring", files.stem));
            format!("cannot write {}: {e}", files.defs.path().display())
        })?;
        if parent.is_none() {
            meta::begin(&files);
        }
        Ok(files)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        // A handler that runs in the middle of this has nothing to define: its calls are not
        // recorded.
        let Some(mut end) = self.defs_end.lock() else { return Ok(()) };
        let next = *end + bytes.len() as u64;
        if let (Some(map), Some(pool)) = (&self.mapped, &self.pool) {
            if next <= pool.long(control::DEFS_ROOM).load(Ordering::Acquire) {
                // SAFETY: the other process says that the file is as long, and the mapping is; who
                // holds the lock is the only one to write there.
                unsafe {
                    let to = map.as_mut_ptr().add(*end as usize);
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
                }
                pool.long(control::DEFS_END).store(next, Ordering::Release);
                *end = next;
                return Ok(());
            }
            if self.is_attended() {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        match self.defs.number(next) {
            Some(file) => plain_write::write_at(file, bytes, *end),
            None => undisturbed(|| self.defs.write_at(bytes, *end)),
        }?;
        *end = next;
        Ok(())
    }

    /// Appends a definition. Whether it is in the trace.
    pub fn define(&self, def: &Def) -> bool {
        let mut bytes = Vec::with_capacity(256);
        defs::encode(def, &mut bytes);
        // A torn definition would end the file for readers: after a failure nothing more is
        // appended.
        if self.defs_failed.load(Ordering::Relaxed) {
            return false;
        }
        let mut written = self.append(&bytes);
        if written.is_err() && self.is_attended() && self.takes_over(crate::recording::now()) {
            written = self.append(&bytes);
        }
        let Err(error) = written else {
            if self.unwritten.load(Ordering::Relaxed)
                && self.unwritten.swap(false, Ordering::Relaxed)
            {
                diag::warn(
                    "no-room",
                    "names of some objects are missing from the trace: `clscope record` did not make room for them in time",
                );
            }
            return true;
        };
        if self.is_attended() {
            // Room may be made yet.
            self.unwritten.store(true, Ordering::Relaxed);
            return false;
        }
        if !self.defs_failed.swap(true, Ordering::Relaxed) {
            // The end of the process will be missing, too.
            if let Some(failure) = self.control_at(control::FAILURE) {
                failure.store(error.raw_os_error().unwrap_or(-1) as u32, Ordering::Relaxed);
            }
            diag::warn(
                "disk-full",
                &format!(
                    "{} cannot be written ({error}): names of objects made from now on are missing from the trace, the application runs on",
                    self.defs.path().display()
                ),
            );
        }
        false
    }

    /// The word through which recording is paused.
    pub fn control_word(&self) -> &'static AtomicU32 {
        self.control_at(control::WORD).unwrap_or(&NEVER_PAUSED)
    }

    /// A word of the control page.
    fn control_at(&self, at: usize) -> Option<&'static AtomicU32> {
        let page = match (&self.pool, &self.control) {
            (Some(pool), _) => pool.page(),
            (None, page) => page.as_ref()?.as_mut_ptr(),
        };
        // SAFETY: the control page is mapped and never unmapped (the process's files are leaked);
        // the offset of a word is aligned.
        Some(unsafe { AtomicU32::from_ptr(page.add(at).cast()) })
    }

    /// Whether another process writes the segments, at this moment.
    #[inline]
    pub fn is_attended(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| {
            pool.word(control::WRITER).load(Ordering::Relaxed) == control::WRITER_BESIDE
        })
    }

    /// Whether the process that writes the segments says that it cannot.
    pub fn cannot_be_written(&self) -> bool {
        let failure = |pool: &Pool| pool.word(control::FAILURE).load(Ordering::Relaxed);
        self.pool.as_ref().is_some_and(|pool| failure(pool) != 0)
    }

    /// For who finds no room: goes over to writing in this process where the other one is gone, which
    /// can be told by loads alone. Not in a sandbox, which may forbid it. Whether this process
    /// writes from here on.
    pub fn takes_over(&self, time: u64) -> bool {
        let (Some(pool), [beat, since]) = (&self.pool, &self.beat) else { return false };
        let found = pool.long(control::BEAT).load(Ordering::Relaxed);
        if beat.swap(found, Ordering::Relaxed) != found || since.load(Ordering::Relaxed) == 0 {
            since.store(time, Ordering::Relaxed);
            return false;
        }
        if time.saturating_sub(since.load(Ordering::Relaxed)) < crate::recording::ticks_of(PATIENCE)
        {
            return false;
        }
        if pool.word(control::SANDBOXED).load(Ordering::Relaxed) != 0 {
            diag::warn(
                "writer-gone",
                "records are being dropped: `clscope record` has ended, and this process is in a sandbox (seccomp), where it cannot write its trace",
            );
            return false;
        }
        pool.word(control::WRITER).store(control::WRITER_GONE, Ordering::Relaxed);
        diag::warn(
            "writer-gone",
            "`clscope record` has ended: this process writes its trace itself from here on",
        );
        true
    }

    /// Whether the process is known to be in a sandbox.
    pub fn is_sandboxed(&self) -> bool {
        let of = |pool: &Pool| pool.word(control::SANDBOXED).load(Ordering::Acquire) != 0;
        self.pool.as_ref().is_some_and(of)
    }

    /// Whether something may be asked of the system that neither the application nor its runtime
    /// asks of it: the process that writes the segments looks whether this one is in a sandbox. Its
    /// answer is waited for without a system call. `None` where it is late.
    pub fn is_free(&self) -> Option<bool> {
        let Some(pool) = self.pool.as_ref().filter(|_| self.is_attended()) else {
            return Some(!self.is_sandboxed());
        };
        if self.is_sandboxed() {
            return Some(false);
        }
        let begun = crate::recording::now();
        let asked = pool.word(control::ASKED).fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        let answer = || pool.word(control::ANSWERED).load(Ordering::Acquire);
        while (answer().wrapping_sub(asked) as i32) < 0 {
            if crate::recording::now().saturating_sub(begun)
                > crate::recording::ticks_of(ANSWERED_WITHIN)
            {
                return None;
            }
            for _ in 0..100 {
                std::hint::spin_loop();
            }
        }
        Some(!self.is_sandboxed())
    }

    /// In a forked child, of its parent's: whether the child may make no files, since its parent is
    /// in a sandbox. Then the child's calls are not recorded, and the parent's trace says so.
    pub fn refuses_child(&self) -> bool {
        let Some(pool) = &self.pool else { return false };
        let refuses = pool.word(control::SANDBOXED).load(Ordering::Relaxed) != 0;
        if refuses {
            pool.word(control::UNRECORDED).fetch_add(1, Ordering::Relaxed);
        }
        refuses
    }

    /// Runs what takes no lock that a handler could leave taken, and writes to no file, where another
    /// process writes the segments: then nothing is asked of the system to hold signals back.
    pub fn undisturbed<R>(&self, run: impl FnOnce() -> R) -> R {
        if self.is_attended() { uncancelled(run) } else { undisturbed(run) }
    }

    /// Maps a new region for a ring at `offset` of the ring file; anonymous memory where there is
    /// no file.
    pub fn map_region(&self, offset: u64, size: usize) -> io::Result<MmapRaw> {
        let Some(kept) = &self.ring else {
            return MmapOptions::new().len(size).map_anon().map(MmapRaw::from);
        };
        kept.with(|file| {
            reserve(file, offset, size)?;
            let map = MmapOptions::new().offset(offset).len(size).map_raw(file)?;
            prefault(&map)?;
            Ok(map)
        })
    }
}

/// Stands in for a control word that cannot be missing.
static NEVER_PAUSED: AtomicU32 = AtomicU32::new(0);

/// Nanoseconds without a sign of life after which the other process is taken to be gone.
const PATIENCE: u64 = 2_000_000_000;
/// Nanoseconds within which an answer about a sandbox is waited for.
const ANSWERED_WITHIN: u64 = 100_000_000;

/// Bytes that the definitions file has at the beginning where another process makes room in it.
const FIRST_DEFS: usize = 256 * 1024;
/// Most bytes of it that are mapped.
const MOST_DEFS: usize = 64 << 20;
/// The same, and chunks of the ring file, where the address space is limited.
const FEW: (usize, usize) = (4 << 20, 64);

/// Both files as they are where another process writes the segments: mapped, and not open any more.
fn beside(
    folder: &Arc<Folder>,
    name: &str,
    header: &FileHeader,
    defs: &ReopenedFile,
    max_size: Option<u64>,
) -> io::Result<(ReopenedFile, Pool, MmapRaw)> {
    let (most_defs, most_chunks) =
        if memory::is_limited() { FEW } else { (MOST_DEFS, pool::MOST_CHUNKS) };
    let mapped = defs.with(|file| {
        reserve(file, 0, FIRST_DEFS)?;
        MmapOptions::new().len(most_defs).map_raw(file)
    });
    let made = mapped.and_then(|mapped| {
        let kept = ReopenedFile::create(folder, name.to_owned())?;
        let pool = kept.with(|file| {
            reserve(file, 0, Pool::first())?;
            file.write_all_at(&header.encode(), 0)?;
            Pool::new(file, most_chunks)
        })?;
        Ok((kept, pool, mapped))
    });
    let (kept, pool, mapped) = made.inspect_err(|_| {
        // As if nothing had been tried.
        _ = defs.with(|file| file.set_len(0));
        folder.remove(name);
    })?;
    let (limit, keep) = Segments::cut(max_size);
    pool.long(control::SEGMENT).store(limit, Ordering::Relaxed);
    pool.word(control::SEGMENTS).store(keep.map_or(0, |keep| keep + 1), Ordering::Relaxed);
    pool.long(control::DEFS_ROOM).store(FIRST_DEFS as u64, Ordering::Relaxed);
    pool.long(control::MOST_DEFS).store(most_defs as u64, Ordering::Relaxed);
    pool.word(control::WRITER).store(control::WRITER_BESIDE, Ordering::Release);
    defs.let_go();
    kept.let_go();
    Ok((kept, pool, mapped))
}

type RingFile = (Option<ReopenedFile>, io::Result<MmapRaw>, Option<io::Error>);

/// The ring file with its control page; anonymous memory and the reason where it cannot be had.
fn ring_file(folder: &Arc<Folder>, name: String, header: &FileHeader) -> RingFile {
    let made = ReopenedFile::create(folder, name.clone()).and_then(|kept| {
        let map = kept.with(|file| {
            reserve(file, 0, RING_FIRST)?;
            file.write_all_at(&header.encode(), 0)?;
            let map = MmapOptions::new().len(RING_FIRST).map_raw(file)?;
            prefault(&map)?;
            Ok(map)
        })?;
        Ok((kept, map))
    });
    match made {
        Ok((kept, map)) => (Some(kept), Ok(map), None),
        Err(why) => {
            // A ring file that cannot be used must not be taken for an empty one.
            folder.remove(&name);
            (None, MmapOptions::new().len(RING_FIRST).map_anon().map(MmapRaw::from), Some(why))
        }
    }
}

/// Reserves space before it is stored to: on a full disk a store into a hole raises SIGBUS.
fn reserve(file: &File, offset: u64, size: usize) -> io::Result<()> {
    // SAFETY: a valid descriptor.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, offset as libc::off_t, size as libc::off_t) }
        == 0
    {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if !matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EPERM | libc::EINVAL)
    ) {
        return Err(error);
    }
    // No fallocate on this file system: zeros allocate as well.
    let zeros = [0u8; 4096];
    for at in (0..size).step_by(zeros.len()) {
        let piece = zeros.get(..size - at).unwrap_or(&zeros);
        file.write_all_at(piece, offset + at as u64)?;
    }
    Ok(())
}

/// Takes the page faults now instead of in the middle of a record.
fn prefault(map: &MmapRaw) -> io::Result<()> {
    // SAFETY: the whole mapping, which is ours and writable.
    if unsafe { libc::madvise(map.as_mut_ptr().cast(), map.len(), libc::MADV_POPULATE_WRITE) } == 0
    {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Kernels before 5.14 do not know the advice; the space is reserved, so touching would only
        // be earlier.
        Some(libc::EINVAL) => Ok(()),
        _ => Err(error),
    }
}
