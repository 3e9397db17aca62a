//! Owns whether captures may ask something of the system now, and how much memory a copy of a launch's
//! memory may take: a quarter of what is free, a sixteenth where that is a guess, or where the
//! process's memory is limited: what a runtime makes of an allocation there is not known. Refuses to
//! take any.

use super::info::is_hosts;
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::ask;
use crate::os::descriptors::has_standard_descriptors;
use crate::os::limits::limit;
use crate::os::memory::readable::has_stack;
use crate::os::shared::local::Local;
use crate::os::undisturbed::undisturbed;
use crate::recording;
use crate::runtime::functions as api;

/// Part of what is known to be free, and of what is guessed to be.
const KNOWN: u64 = 4;
const GUESSED: u64 = 16;

/// Most bytes for copies on a device. `seen`: bytes that the application has made of its context.
pub fn most(slot: usize, device: H, seen: u64) -> u64 {
    let host = host().unwrap_or(0);
    if is_hosts(slot, device) {
        return host;
    }
    let size: Option<u64> =
        ask(api::clGetDeviceInfo.behind(slot), device, cl::CL_DEVICE_GLOBAL_MEM_SIZE);
    size.map_or(0, |size| size.saturating_sub(seen) / GUESSED)
}

/// Bytes for copies of what this process can still have of the host: of what the system has, what its
/// container leaves, what its limit of address space leaves. `None` where the system does not say.
fn host() -> Option<u64> {
    let text = |path: &str| undisturbed(|| std::fs::read_to_string(path)).ok();
    let system = available(&text("/proc/meminfo")?)?;
    let container = text("/proc/self/cgroup").and_then(|groups| {
        let folder = format!("/sys/fs/cgroup{}", group(&groups)?);
        left(&text(&format!("{folder}/memory.max"))?, &text(&format!("{folder}/memory.current"))?)
    });
    let space = space_left(&text("/proc/self/statm")?);
    let known = system.min(container.unwrap_or(u64::MAX)) / KNOWN;
    Some(known.min(space.map_or(u64::MAX, |space| space / GUESSED)))
}

/// `MemAvailable` of /proc/meminfo, in bytes.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The group of cgroup 2 in /proc/self/cgroup.
fn group(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::")).map(|at| at.trim_end_matches('/'))
}

/// What a limit leaves, where there is one.
fn left(limit: &str, used: &str) -> Option<u64> {
    let (limit, used): (u64, u64) = (limit.trim().parse().ok()?, used.trim().parse().ok()?);
    Some(limit.saturating_sub(used))
}

/// What limits of address space and of the process's own memory leave, where there are some.
fn space_left(statm: &str) -> Option<u64> {
    // SAFETY: no preconditions.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let left = |(of, field)| {
        let pages: u64 = statm.split_ascii_whitespace().nth(field)?.parse().ok()?;
        Some(limit(of)?.saturating_sub(pages.saturating_mul(page)))
    };
    [(libc::RLIMIT_AS, 0), (libc::RLIMIT_DATA, 5)].into_iter().filter_map(left).min()
}

/// Why nothing is captured in a sandbox, or may be.
pub(super) const SANDBOXED: &str =
    "the application is in a sandbox (seccomp), which may forbid what capturing asks of the system";
const UNANSWERED: &str =
    "`clscope record` did not say in time whether the application is in a sandbox";

pub(super) const CRAMPED: &str = "the thread's stack has no room for capturing: give it 128 KiB or more, and \
     launch from no stack of the application's own";

pub(super) const UNOPENED: &str = "a standard descriptor (0, 1 or 2) of the application's is closed, and a file \
     of the recorder's would take its place: run it with </dev/null";

/// Bytes of the application's stack that captures may take, with what the runtime takes of them.
const STACK: usize = 64 << 10;

/// Whether captures might ask something of the system when this thread was last told, and why not.
pub(super) static WAS_FREE: Local<bool> = Local::new();
static WHY_NOT: Local<Option<&str>> = Local::new();

/// Why captures could not ask something of the system when this thread was last told.
pub(super) fn why_not_now() -> &'static str {
    WHY_NOT.with(|why| *why).flatten().unwrap_or(UNANSWERED)
}

/// Whether captures may ask something of the system; `None` where that is not known in time, or this
/// thread has no stack for it, or the process no descriptor. What it does in the same call goes by
/// the answer.
pub(super) fn is_free() -> Option<bool> {
    let free = recording::current().map_or(Some(true), |recording| recording.files.is_free());
    // In a sandbox nothing is asked, that neither.
    let lacks = match free {
        Some(true) if !has_standard_descriptors() => Some(UNOPENED),
        Some(true) if !has_stack(STACK) => Some(CRAMPED),
        _ => None,
    };
    WHY_NOT.with(|why| *why = lacks);
    let free = free.filter(|_| lacks.is_none());
    WAS_FREE.with(|was| *was = free == Some(true));
    free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        let meminfo = "MemTotal:        8000 kB\nMemFree:  1 kB\nMemAvailable:    6000 kB\n";
        assert_eq!(available(meminfo), Some(6000 * 1024));
        assert_eq!(available("MemFree: 1 kB\n"), None);
        assert_eq!(group("0::/user.slice/a\n"), Some("/user.slice/a"));
        assert_eq!(group("1:memory:/a\n0::/\n"), Some(""));
        assert_eq!(group("1:memory:/a\n"), None);
        assert_eq!(left("1000\n", "400\n"), Some(600));
        assert_eq!(left("max\n", "400\n"), None);
        assert_eq!(left("100\n", "400\n"), Some(0));
        assert!(host().is_some_and(|free| free > 1 << 20));
    }
}
