//! What one test makes and others of the same run use: texts that take long to make and are the same
//! for all. Under nextest each test is a process, so they lie in files, each with the run that made
//! it and under a lock. Refuses to keep anything for another run.

use std::fs;
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::artifacts::target;

/// The text of that name, which `make` makes unless a test of this run did. Others wait meanwhile.
///
/// # Panics
/// If `make` does, and if the file cannot be read or written.
pub fn shared(name: &str, make: impl FnOnce() -> String) -> String {
    let folder = target().join("e2e/shared");
    fs::create_dir_all(&folder).expect("a folder for what tests share");
    let mut options = fs::File::options();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join(name))
        .expect("a file for what tests share");
    // SAFETY: flock on a descriptor that `file` keeps open; it ends with the descriptor.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0, "lock of {name}");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("what another test left");
    if let Some((made_by, text)) = text.split_once('\n')
        && made_by == run()
    {
        return text.to_owned();
    }
    let text = make();
    file.set_len(0).and_then(|()| file.rewind()).expect("a file for what tests share");
    write!(file, "{}\n{text}", run()).expect("a file for what tests share");
    text
}

/// What this run is called: nextest's name for it, else one of this process.
fn run() -> &'static str {
    static RUN: OnceLock<String> = OnceLock::new();
    RUN.get_or_init(|| {
        std::env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            format!("{} {}", std::process::id(), now.unwrap_or_default().as_nanos())
        })
    })
}
