//! Texts and binaries of programs, kept in the trace's folder `programs` once for equal bytes, so
//! that what a kernel executed can be looked up later. Owns their names and their limit; refuses to
//! know what is in them.
#![forbid(unsafe_code)]

use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashSet;
use crate::recording::files::reopened_file::Folder;
use crate::recording::{self, Recording};
use crate::settings::config;
use clscope_trace::directory::{PROGRAMS, program_file};
use clscope_trace::{defs, hash};
use std::io;
use std::os::unix::fs::FileExt;

/// Most bytes that a process keeps.
const MOST: u64 = 16 << 20;

/// What this process has kept.
#[derive(Default)]
struct ReopenedFile {
    names: HashSet<String>,
    bytes: u64,
    /// Temporary names that were used.
    turns: u64,
}

static KEPT: ForkSafe<ReopenedFile> = ForkSafe::new();

/// Keeps the bytes of a program, and defines them. `device` is 0 for what is of all devices of the
/// program. Gives their hash.
pub fn keep(program: u32, device: u32, language: &str, bytes: &[u8]) -> String {
    let hash = hash(bytes);
    let missing = match program_file(&hash, language) {
        _ if !config::get().programs => "programs are not kept (--without programs)".to_owned(),
        _ if bytes.is_empty() => "it is empty".to_owned(),
        None => format!("{language} is no language that is kept"),
        Some(name) => stored(name, bytes).err().unwrap_or_default(),
    };
    recording::define(
        &defs::Code {
            program,
            device,
            language: language.to_owned(),
            hash: hash.clone(),
            bytes: bytes.len() as u64,
            missing,
        }
        .into(),
    );
    hash
}

fn stored(name: String, bytes: &[u8]) -> Result<(), String> {
    let Some(recording) = recording::current() else {
        return Err("nothing is recorded".to_owned());
    };
    // Signals wait: a handler that left by `siglongjmp` would leave the lock taken.
    recording.files.undisturbed(|| {
        let length = bytes.len() as u64;
        // Written without the lock: a disk may take longer than anybody waits.
        let turn = KEPT.with(|kept| {
            if kept.names.contains(&name) {
                return Ok(None);
            }
            if kept.bytes.saturating_add(length) > MOST {
                return Err(format!("the process has kept {MOST} bytes of programs, the most"));
            }
            kept.turns += 1;
            kept.bytes += length;
            kept.names.insert(name.clone());
            Ok(Some(kept.turns))
        });
        match turn {
            Some(Ok(None)) => Ok(()),
            Some(Ok(Some(turn))) => write(recording, &name, turn, bytes).map_err(|error| {
                KEPT.with(|kept| {
                    kept.names.remove(&name);
                    kept.bytes = kept.bytes.saturating_sub(length);
                });
                format!("it cannot be written: {error}")
            }),
            Some(Err(why)) => Err(why),
            None => Err("other threads kept programs at the same time".to_owned()),
        }
    })
}

/// Writes a file that appears whole. Another process may have written the same bytes before.
fn write(recording: &Recording, name: &str, turn: u64, bytes: &[u8]) -> io::Result<()> {
    if let Some(pool) = recording.files.pool.as_ref().filter(|_| recording.files.is_attended()) {
        let sent = pool.send(turn, name, bytes);
        return if sent { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) };
    }
    let folder = Folder::inside(&recording.files.folder, PROGRAMS)?;
    let temporary = format!(".{}-{turn}", recording.files.stem);
    let file = folder.create(&temporary)?;
    let done = file.write_all_at(bytes, 0).and_then(|()| folder.rename(&temporary, name));
    if done.is_err() {
        folder.remove(&temporary);
    }
    folder.close();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_differ_where_bytes_do() {
        let names: HashSet<String> =
            [&b""[..], b"a", b"b", b"ab", b"ba", b"aa"].into_iter().map(hash).collect();
        assert_eq!(names.len(), 6);
        assert!(names.iter().all(|name| program_file(name, "cl").is_some()));
    }
}
