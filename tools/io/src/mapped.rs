//! Which files a process has mapped: whether somebody still writes to a file through its memory.
//! Owns the reading of `/proc/PID/maps`, also where the first thread of PID
//! has ended and others run. Refuses to guess: where it may not be read is an error.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How often a process is looked at that is about to end.
const LOOKS: usize = 1000;

/// The inodes and paths of all files that a process has mapped.
///
/// # Errors
/// `NotFound` where there is no such process; `PermissionDenied` where it is another user's.
pub fn files(pid: u32) -> io::Result<Vec<(u64, PathBuf)>> {
    // A thread that ends meanwhile has given its memory back before it counts as ended.
    for _ in 0..LOOKS {
        match fs::read_to_string(format!("/proc/{}/maps", living(pid)))? {
            maps if !maps.is_empty() => return Ok(in_maps(&maps)),
            _ if has_ended(pid) => break,
            _ => std::thread::yield_now(),
        }
    }
    Ok(Vec::new())
}

/// The id under which `/proc` shows the memory and the files of a process: its own, or where its
/// first thread has ended that of a thread that still runs.
pub fn living(pid: u32) -> u32 {
    if !has_ended(pid) {
        return pid;
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    ids.find(|thread| !has_ended(*thread)).unwrap_or(pid)
}

/// Whether a thread has ended: `/proc` still shows it where others of its process, or its parent,
/// have not taken note of it.
fn has_ended(thread: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Inode of this process's pid namespace; 0 where `/proc` does not show it.
pub fn own_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino())
}

/// Whether a process of this namespace has a file mapped; `None` where that cannot be seen: of
/// another user, or a process of another namespace. `pid_ns` is the inode of its namespace, 0 where
/// that is not known.
pub fn has(pid: u32, pid_ns: u64, file: &File) -> Option<bool> {
    if pid_ns != 0 && pid_ns != own_namespace() {
        return None;
    }
    let inode = file.metadata().ok()?.ino();
    match files(pid) {
        Ok(mapped) => Some(mapped.iter().any(|(number, _)| *number == inode)),
        Err(error) => (error.kind() != io::ErrorKind::PermissionDenied).then_some(false),
    }
}

/// Mappings of files in the text of `/proc/PID/maps`.
fn in_maps(maps: &str) -> Vec<(u64, PathBuf)> {
    let file = |line: &str| {
        // address perms offset device inode path: the path may hold spaces.
        let mut rest = line;
        let mut inode = 0;
        for field in 0..5 {
            let (head, tail) = rest.trim_start().split_once(' ')?;
            if field == 4 {
                inode = head.parse().ok()?;
            }
            rest = tail;
        }
        let path = Path::new(rest.trim_start());
        (inode != 0).then(|| (inode, path.to_path_buf()))
    };
    maps.lines().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_files_are_found_in_maps() {
        let maps = "7f00-7f01 rw-s 00000000 fd:01 77                         /home/me/my runs/a b.clscope/12-0.ring\n\
            7f02-7f03 r-xp 00001000 fd:01 78 /usr/lib/libc.so.6\n\
            7f04-7f05 rw-p 00000000 00:00 0 \n\
            7f06-7f07 rw-p 00000000 00:00 0                          [heap]\nshort\n";
        let found = in_maps(maps);
        let path = |text: &str| PathBuf::from(text);
        assert_eq!(
            found,
            [
                (77, path("/home/me/my runs/a b.clscope/12-0.ring")),
                (78, path("/usr/lib/libc.so.6"))
            ]
        );
    }

    #[test]
    fn a_process_is_told_by_what_it_has_mapped() {
        let (own, program) = (std::process::id(), std::env::current_exe().unwrap());
        let program = File::open(program).unwrap();
        let other = tempfile::tempfile().unwrap();
        assert_eq!(has(own, 0, &program), Some(true));
        assert_eq!(has(own, 0, &other), Some(false));
        assert_eq!(has(own, 1, &program), None, "another namespace's process cannot be seen");
        assert_eq!(has(u32::MAX, 0, &program), Some(false), "no such process");
    }
}
