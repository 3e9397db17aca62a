//! Which processes of a trace still run, and which may still come to record. Refuses to wait for
//! them.
#![forbid(unsafe_code)]

use clscope_io::mapped;
use clscope_trace::variables;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// How often processes are listed to find those that came meanwhile.
const LISTINGS: usize = 10;

/// Processes of the trace that still run and hold its files open.
pub fn still_running(directory: &Path, unended: &[(u32, u64)]) -> Vec<u32> {
    // Ids of another pid namespace mean nothing here.
    let own = mapped::own_namespace();
    let holds = |pid: &u32| {
        let in_directory = |path: PathBuf| {
            std::fs::read_link(path).is_ok_and(|target| target.starts_with(directory))
        };
        let list = |what: &str| {
            let path = format!("/proc/{}/{what}", mapped::living(*pid));
            std::fs::read_dir(path).into_iter().flatten().flatten()
        };
        let maps = || mapped::files(*pid).unwrap_or_default();
        list("map_files").chain(list("fd")).any(|entry| in_directory(entry.path()))
            || maps().iter().any(|(_, path)| path.starts_with(directory))
    };
    let mut running: Vec<u32> = unended
        .iter()
        .filter(|(_, space)| *space == own || *space == 0)
        .map(|(pid, _)| *pid)
        .filter(holds)
        .collect();
    running.sort_unstable();
    running.dedup();
    running
}

/// Processes that were started with the recorder for this trace and still run, whether they have
/// called OpenCL or not: a daemon that has left its parent behind.
pub fn recorders(directory: &Path) -> Vec<u32> {
    use std::os::unix::ffi::OsStrExt;
    let wanted = [variables::TRACE.as_bytes(), b"=", directory.as_os_str().as_bytes()].concat();
    let own = std::process::id();
    // A parent that was listed may leave a child behind that was not, and end before it is read; a
    // process amid `exec` has no environment for a moment.
    let (mut seen, mut found) = (BTreeSet::from([own]), Vec::new());
    for _ in 0..LISTINGS {
        let mut unseen: Vec<u32> = processes().filter(|pid| !seen.contains(pid)).collect();
        if unseen.is_empty() {
            break;
        }
        unseen.retain(|pid| {
            let all = std::fs::read(format!("/proc/{}/environ", mapped::living(*pid)));
            if all.as_ref().is_ok_and(Vec::is_empty) && is_program(*pid) {
                return true;
            }
            let mut variables = all.iter().flat_map(|all| all.split(|byte| *byte == 0));
            if variables.any(|variable| variable == wanted) {
                found.push(*pid);
            }
            seen.insert(*pid);
            false
        });
        if !unseen.is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    found.sort_unstable();
    found
}

/// Whether a process has a program: threads of the kernel and ended processes have none.
fn is_program(pid: u32) -> bool {
    std::fs::read_link(format!("/proc/{}/exe", mapped::living(pid))).is_ok()
}

/// Processes that are recorded into other traces than this one and share its devices, as far as this
/// user may see them: those that have a GPU open, and other ranks of a job.
pub fn sharing(directory: &Path) -> Vec<u32> {
    use std::os::unix::ffi::OsStrExt;
    let name = [variables::TRACE.as_bytes(), b"="].concat();
    let own = [&name, directory.as_os_str().as_bytes()].concat();
    let is_rank = |variable: &[u8]| {
        let name = variable.split(|byte| *byte == b'=').next().unwrap_or_default();
        variables::RANKS.iter().any(|rank| rank.as_bytes() == name)
    };
    let has_gpu = |pid: &u32| {
        let files = format!("/proc/{}/fd", mapped::living(*pid));
        let open = std::fs::read_dir(files).into_iter().flatten().flatten();
        let mut targets = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.any(|target| {
            ["/dev/nvidia", "/dev/dri/", "/dev/kfd"]
                .iter()
                .any(|device| target.as_os_str().as_bytes().starts_with(device.as_bytes()))
        })
    };
    let shares = |pid: &u32| {
        let environment = format!("/proc/{}/environ", mapped::living(*pid));
        let environment = std::fs::read(environment).unwrap_or_default();
        let variables = || environment.split(|byte| *byte == 0);
        variables().any(|variable| variable.starts_with(&name) && variable != own)
            && (variables().any(is_rank) || has_gpu(pid))
    };
    processes().filter(shares).collect()
}

/// All that this process may see.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The process that a process was started by, or was left to.
pub(crate) fn parent(process: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold anything, spaces and parentheses too: fields count from its last
    // parenthesis.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::process::{Child, Command, Stdio};

    /// A process that is certainly behind `exec`: right behind it, before the kernel has laid the new
    /// environment out, `/proc` shows none, which is where `spawn` may come back.
    fn started(command: &mut Command) -> Child {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    #[test]
    fn a_process_is_known_by_the_trace_that_it_was_started_for() {
        let folder = tempfile::tempdir().unwrap();
        let start = |trace: &Path| started(Command::new("cat").env(variables::TRACE, trace));
        let (mut ours, mut other) = (start(folder.path()), start(&folder.path().join("other")));
        assert_eq!(recorders(folder.path()), [ours.id()]);
        for child in [&mut ours, &mut other] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
        assert!(recorders(folder.path()).is_empty());
    }

    /// However a process passes its work on, one of its line is there all the time.
    #[test]
    fn a_line_of_children_that_outlive_their_parents_is_never_missed() {
        let folder = tempfile::tempdir().unwrap();
        // Each leaves a child behind and ends; the last ends with its standard input.
        let script =
            "exec 3<&0; if [ $1 = 0 ]; then cat; else sh -c \"$0\" \"$0\" $(($1 - 1)) <&3 & fi";
        let mut command = Command::new("sh");
        command.args(["-c", script, script, "60"]).env(variables::TRACE, folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        let ended = std::thread::spawn(move || out.read_exact(&mut [0]).unwrap());
        while !ended.is_finished() {
            assert!(!recorders(folder.path()).is_empty());
        }
        drop(child.stdin.take());
        child.wait().unwrap();
        ended.join().unwrap();
    }

    #[test]
    fn other_ranks_share_a_host_and_other_recordings_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let start = |trace: &str, rank: Option<&str>| {
            let mut command = Command::new("cat");
            command.env(variables::TRACE, folder.path().join(trace));
            rank.map(|rank| command.env("PMIX_RANK", rank));
            started(&mut command)
        };
        let mut all = [start("own", Some("0")), start("b", Some("1")), start("c", None)];
        let found = sharing(&folder.path().join("own"));
        let is_found = |child: &std::process::Child| found.contains(&child.id());
        assert_eq!([0, 1, 2].map(|at: usize| is_found(&all[at])), [false, true, false]);
        for child in &mut all {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn this_process_holds_what_it_has_open() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let space = std::fs::metadata("/proc/self/ns/pid").unwrap().ino();
        let own = [(std::process::id(), space)];
        assert!(still_running(&path, &own).is_empty());
        let _open = File::create(path.join("x.ring")).unwrap();
        assert_eq!(still_running(&path, &own), [std::process::id()]);
        assert!(still_running(&path, &[(std::process::id(), space + 1)]).is_empty());
    }
}
