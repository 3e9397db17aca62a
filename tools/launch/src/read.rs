//! Opening a capture. Owns the checks: nothing in the folder is trusted, since it may come from
//! anywhere. Files are regular, lie inside the folder, and have the size and the hash that
//! `launch.json` says; counts and sizes are bounded. Refuses to change anything in it.

use crate::capture::{FILE, Given, Launch, Memory, MemoryKind, ProgramFile, SCHEMA};
use crate::element::bytes_of_hex;
use clscope_io::{input, output};
use clscope_trace::directory;
use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Most bytes of `launch.json`.
const MOST_DESCRIPTION: u64 = 16 << 20;
/// Most bytes of a text or binary of a program.
const MOST_PROGRAM: u64 = 256 << 20;
/// Most bytes of all memories together: more than any device has.
const MOST_MEMORY: u64 = 1 << 42;
/// Most arguments, and most memories.
const MOST_ITEMS: usize = 4096;
/// Most captures that are looked at in a trace.
const MOST_CAPTURES: usize = 4096;
/// Most captures that an error names.
const NAMED: usize = 20;

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum CaptureError {
    /// There is none.
    #[error(
        "{path} is no capture and no trace with captures: {why}; `clscope record --capture KERNEL -- APP` makes one"
    )]
    None { path: String, why: String },
    /// It is not whole.
    #[error(
        "the capture {path} is not whole: recording ended while it was written; record the application again"
    )]
    Part { path: String },
    /// It says nothing of what memory held.
    #[error(
        "{path} describes a launch without what its memory held ({why}), so that it cannot run; `clscope record --capture KERNEL -- APP` keeps that"
    )]
    Described { path: String, why: String },
    /// There are several to choose from.
    #[error("{path} has {count} captures; name one of them: {names}")]
    Several { path: String, count: usize, names: String },
    /// A file cannot be read.
    #[error("cannot read {file} of the capture: {why}; copy the whole folder, or record again")]
    File { file: String, why: io::Error },
    /// The description cannot be understood.
    #[error("{path} cannot be understood: {why}; record the application again")]
    Json { path: String, why: serde_json::Error },
    /// It is of a later version.
    #[error(
        "the capture has version {0} of the format, this program reads {SCHEMA}; use a newer one"
    )]
    Version(u32),
    /// The description contradicts itself.
    #[error("{FILE} is wrong: {0}; record the application again")]
    Wrong(String),
    /// A file has another size than the description says.
    #[error(
        "{file} has {found} bytes, {FILE} says {said}: the capture is damaged; record it again"
    )]
    Size { file: String, found: u64, said: u64 },
    /// A file has other bytes than the description says.
    #[error(
        "{file} has other bytes than when it was captured (its hash differs): the capture is damaged; record it again"
    )]
    Hash { file: String },
}

/// Why what a path holds is not run.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum OwnerError {
    /// It is another user's.
    #[error(
        "{path} is of the user with id {owner}, and what is captured in it would run as you: look at it, then add --trust"
    )]
    Foreign { path: String, owner: u32 },
    /// It cannot be looked at.
    #[error("cannot look at {path}")]
    Look { path: String, source: io::Error },
}

/// Holds that a file or folder is this user's: what is captured runs with this user's rights.
///
/// # Errors
/// [`OwnerError`].
pub fn owned(path: &Path) -> Result<(), OwnerError> {
    let shown = || path.display().to_string();
    let found = std::fs::symlink_metadata(path)
        .map_err(|source| OwnerError::Look { path: shown(), source })?;
    match (found.uid(), output::user()) {
        (owner, user) if owner == user => Ok(()),
        (owner, _) => Err(OwnerError::Foreign { path: shown(), owner }),
    }
}

/// A capture whose description was checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Capture {
    /// Its folder.
    pub folder: PathBuf,
    /// The description.
    pub launch: Launch,
}

impl Capture {
    /// Opens a capture, or the only capture of a trace.
    ///
    /// # Errors
    /// [`CaptureError`]; of several captures in a trace, their names.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let out = Self::described(path)?;
        match out.launch.lacks() {
            None => Ok(out),
            Some(why) => {
                let path = out.folder.display().to_string();
                Err(CaptureError::Described { path, why: why.to_owned() })
            }
        }
    }

    /// The same, also of a launch that is described without what its memory held.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn described(path: &Path) -> Result<Self, CaptureError> {
        let folder = locate(path)?;
        let text = read(&folder, FILE, MOST_DESCRIPTION)?;
        let path = folder.join(FILE).display().to_string();
        let wrong = |why| CaptureError::Json { path: path.clone(), why };
        // The version first: a later one may not be read by today's types.
        let version: serde_json::Value = serde_json::from_slice(&text).map_err(wrong)?;
        let number = version.get("schema").and_then(serde_json::Value::as_u64);
        if let Some(later) = number.filter(|n| !(1..=u64::from(SCHEMA)).contains(n)) {
            return Err(CaptureError::Version(u32::try_from(later).unwrap_or(u32::MAX)));
        }
        let launch: Launch = serde_json::from_value(version).map_err(wrong)?;
        checked(&launch).map_err(CaptureError::Wrong)?;
        Ok(Self { folder, launch })
    }

    /// Holds that its folder and what is in it are this user's.
    ///
    /// # Errors
    /// [`OwnerError`].
    pub fn owned(&self) -> Result<(), OwnerError> {
        owned(&self.folder)?;
        owned(&self.folder.join(FILE))
    }

    /// Bytes of a memory before the launch.
    ///
    /// # Errors
    /// If the file is absent, or not what was captured.
    pub fn before(&self, memory: &Memory) -> Result<Vec<u8>, CaptureError> {
        let (Some(file), Some(hash)) = (&memory.before, &memory.hash_before) else {
            let why = format!("memory {} has no bytes before the launch", memory.id);
            return Err(CaptureError::Wrong(why));
        };
        self.file(file, memory.bytes, hash)
    }

    /// Bytes of a memory after the launch; none where the launch could not write it.
    ///
    /// # Errors
    /// As [`before`](Self::before).
    pub fn after(&self, memory: &Memory) -> Result<Option<Vec<u8>>, CaptureError> {
        let (Some(file), Some(hash)) = (&memory.after, &memory.hash_after) else { return Ok(None) };
        self.file(file, memory.bytes, hash).map(Some)
    }

    /// Bytes of a program's file.
    ///
    /// # Errors
    /// As [`before`](Self::before).
    pub fn program(&self, of: &ProgramFile) -> Result<Vec<u8>, CaptureError> {
        if of.bytes > MOST_PROGRAM {
            let why =
                format!("{} has {} bytes, a program has at most {MOST_PROGRAM}", of.file, of.bytes);
            return Err(CaptureError::Wrong(why));
        }
        self.file(&of.file, of.bytes, &of.hash)
    }

    fn file(&self, name: &str, bytes: u64, said: &str) -> Result<Vec<u8>, CaptureError> {
        let out = read(&self.folder, name, bytes)?;
        let found = out.len() as u64;
        if found != bytes {
            return Err(CaptureError::Size { file: name.to_owned(), found, said: bytes });
        }
        // Of memory in captures since schema 2 the checksum alone.
        let is_checksum = said.len() == 16;
        let own = match is_checksum {
            true => format!("{:016x}", clscope_trace::checksum(&out)),
            false => clscope_trace::hash(&out),
        };
        match own == said {
            true => Ok(out),
            false => Err(CaptureError::Hash { file: name.to_owned() }),
        }
    }
}

/// Reads a file inside of the folder, of at most `most` bytes.
fn read(folder: &Path, name: &str, most: u64) -> Result<Vec<u8>, CaptureError> {
    let failed = |why| CaptureError::File { file: name.to_owned(), why };
    let mut path = folder.to_owned();
    for part in inside(name).map_err(CaptureError::Wrong)? {
        // Folders on the way must be no links either.
        if path != folder && !std::fs::symlink_metadata(&path).map_err(failed)?.is_dir() {
            return Err(failed(io::Error::other("a part of its path is no folder")));
        }
        path.push(part);
    }
    let file = input::open_inside(&path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?.len();
    if found > most {
        return Err(CaptureError::Size { file: name.to_owned(), found, said: most });
    }
    input::bytes(&file, most).map_err(failed)
}

/// The parts of a file's name, none of which leads out of the folder.
pub(crate) fn inside(name: &str) -> Result<Vec<&std::ffi::OsStr>, String> {
    let refused = || format!("the file name {name} leads out of the folder");
    let parts = Path::new(name).components().map(|part| match part {
        Component::Normal(part) => Ok(part),
        _ => Err(refused()),
    });
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    if parts.is_empty() || name.contains('\0') { Err(refused()) } else { Ok(parts) }
}

fn ends_in(path: &Path, ending: &str) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(ending.as_bytes()))
}

fn is_part(path: &Path) -> bool {
    ends_in(path, directory::PART)
}

/// The folder of a capture that a path means.
fn locate(path: &Path) -> Result<PathBuf, CaptureError> {
    let shown = || path.display().to_string();
    let trace = directory::as_recorded(path.to_owned());
    let none = |why: &str| CaptureError::None { path: shown(), why: why.to_owned() };
    let found = std::fs::metadata(&trace);
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(none("there is nothing of this name"));
        }
        Err(error) => return Err(none(&error.to_string())),
        Ok(found) if !found.is_dir() => return Err(none("it is no folder")),
        Ok(_) => {}
    }
    if is_part(&trace) {
        return Err(CaptureError::Part { path: shown() });
    }
    match trace.join(FILE).symlink_metadata() {
        Ok(_) => return Ok(trace),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(none(&error.to_string())),
    }
    let Folders { whole, parts, described } =
        captures(&trace).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => none("it has neither launch.json nor captures"),
            _ => none(&error.to_string()),
        })?;
    match (whole.as_slice(), parts.first(), described.first()) {
        ([only], _, _) => Ok(only.clone()),
        ([], Some(part), _) => Err(CaptureError::Part { path: part.display().to_string() }),
        ([], None, Some(described)) => Ok(described.clone()),
        ([], None, None) => Err(none("its folder of captures is empty")),
        (all, _, _) => {
            let mut names: Vec<String> =
                all.iter().take(NAMED).map(|one| one.display().to_string()).collect();
            if all.len() > NAMED {
                names.push("...".to_owned());
            }
            Err(CaptureError::Several { path: shown(), count: all.len(), names: names.join(" ") })
        }
    }
}

/// Folders of captures in a trace, each kind in the order of its names.
#[derive(Debug, Default)]
pub struct Folders {
    /// Of whole captures.
    pub whole: Vec<PathBuf>,
    /// Of captures that are not whole.
    pub parts: Vec<PathBuf>,
    /// Of launches that are described without what memory held.
    pub described: Vec<PathBuf>,
}

/// Folders of captures in a trace.
///
/// # Errors
/// If the trace has no folder of captures that can be listed.
pub fn captures(trace: &Path) -> io::Result<Folders> {
    let entries = std::fs::read_dir(trace.join(directory::CAPTURES))?;
    let folders = entries.take(MOST_CAPTURES).filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_type().ok()?.is_dir().then(|| entry.path())
    });
    let mut all: Vec<PathBuf> = folders.collect();
    all.sort();
    let mut out = Folders::default();
    for path in all {
        let kind = match () {
            () if is_part(&path) => &mut out.parts,
            () if ends_in(&path, directory::DESCRIBED) => &mut out.described,
            () => &mut out.whole,
        };
        kind.push(path);
    }
    Ok(out)
}

/// Whether a description contradicts itself, or asks for what no device has.
fn checked(of: &Launch) -> Result<(), String> {
    let dimensions = of.dimensions as usize;
    let sizes = [
        ("global", Some(&of.global)),
        ("local", of.local.as_ref()),
        ("offset", of.offset.as_ref()),
    ];
    if !(1..=3).contains(&dimensions) {
        return Err(format!("it has {dimensions} dimensions"));
    }
    for (what, sizes) in sizes {
        let Some(sizes) = sizes else { continue };
        if sizes.len() != dimensions {
            return Err(format!("{what} has {} sizes for {dimensions} dimensions", sizes.len()));
        }
        if what != "offset" && sizes.contains(&0) {
            return Err(format!("a {what} size is 0"));
        }
    }
    if of.kernel.is_empty() || of.kernel.contains('\0') {
        return Err("the kernel has no name that can be".to_owned());
    }
    let items = of.global.iter().try_fold(1u64, |all, n| all.checked_mul(*n));
    items.ok_or("it has more work-items than 64 bits count")?;
    if of.memories.len() > MOST_ITEMS || of.arguments.len() > MOST_ITEMS {
        return Err(format!("it has more than {MOST_ITEMS} arguments or memories"));
    }
    let mut ids = HashSet::new();
    let mut total = 0u64;
    for memory in &of.memories {
        if !ids.insert(memory.id) {
            return Err(format!("there are two memories {}", memory.id));
        }
        total = total.saturating_add(memory.bytes);
        memory_is_sound(memory)?;
    }
    if total > MOST_MEMORY {
        return Err(format!("its memories have {total} bytes together, more than {MOST_MEMORY}"));
    }
    let mut indices = HashSet::new();
    for argument in &of.arguments {
        if argument.index as usize >= MOST_ITEMS || !indices.insert(argument.index) {
            return Err(format!("argument {} is there twice, or too high", argument.index));
        }
        given_is_sound(of, &argument.given)
            .map_err(|why| format!("argument {}: {why}", argument.index))?;
    }
    if of.program.files.len() > MOST_ITEMS {
        return Err(format!("its program has more than {MOST_ITEMS} files"));
    }
    for file in &of.program.files {
        inside(&file.file)?;
    }
    Ok(())
}

fn memory_is_sound(memory: &Memory) -> Result<(), String> {
    let id = memory.id;
    if let Some(before) = &memory.before {
        inside(before)?;
        if memory.hash_before.is_none() {
            return Err(format!("memory {id} has bytes before the launch without a hash"));
        }
    }
    if let Some(after) = &memory.after {
        inside(after)?;
        if memory.hash_after.is_none() {
            return Err(format!("memory {id} has bytes after the launch without a hash"));
        }
    }
    match (memory.kind, &memory.image) {
        (MemoryKind::Pipe, _) => Err(format!("memory {id} is a pipe, which cannot be read")),
        (MemoryKind::Image, None) => Err(format!("image {id} has no format")),
        (MemoryKind::Image, Some(image)) => {
            let shape = crate::stage::shape(image)?;
            match shape.bytes() == usize::try_from(memory.bytes).ok() {
                true => Ok(()),
                false => Err(format!("image {id} has another number of bytes than its texels")),
            }
        }
        _ => Ok(()),
    }
}

fn given_is_sound(of: &Launch, given: &Given) -> Result<(), String> {
    let memory = |id: u32| of.memory(id).ok_or_else(|| format!("there is no memory {id}"));
    match given {
        Given::Value { bytes, value } => {
            match bytes_of_hex(value).is_some_and(|v| v.len() as u64 == *bytes) {
                true => Ok(()),
                false => Err(format!("its value is no {bytes} bytes in hexadecimal")),
            }
        }
        Given::Memory { memory: id, offset, size, .. } => {
            let memory = memory(*id)?;
            let whole = *offset == 0 && *size == memory.bytes;
            let ends = offset.checked_add(*size).is_some_and(|end| end <= memory.bytes);
            match memory.kind {
                MemoryKind::Buffer if ends => Ok(()),
                MemoryKind::Image if whole => Ok(()),
                MemoryKind::Svm => Err(format!("memory {id} is no object")),
                _ => Err(format!("bytes {offset} to {offset}+{size} are not in memory {id}")),
            }
        }
        Given::Svm { memory: id, offset } => {
            let memory = memory(*id)?;
            match memory.kind == MemoryKind::Svm && *offset <= memory.bytes {
                true => Ok(()),
                false => Err(format!("byte {offset} is not in shared virtual memory {id}")),
            }
        }
        Given::Local { .. } | Given::Null { .. } | Given::Sampler { .. } => Ok(()),
    }
}
