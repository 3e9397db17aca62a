//! Owns the environment that the application gets: which variables carry the recorder in, in which
//! order. A pure function of what was there and what is wanted, but for one question put to ld.so.
//! Refuses to start anything.
#![forbid(unsafe_code)]

use crate::elf::Elf;
use crate::library::LibraryError;
use crate::library::{Libraries, check_path};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

pub use clscope_trace::variables::OF_OPENCL;

/// A way into the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// LD_PRELOAD: applications linked to OpenCL, bundled loaders
    Preload,
    /// OPENCL_LAYERS: whatever goes through a loader that knows layers
    Layer,
    /// LD_AUDIT: look-ups in loaders that know no layers
    Audit,
}

impl Way {
    /// Name as in the option.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preload => "preload",
            Self::Layer => "layer",
            Self::Audit => "audit",
        }
    }
}

/// The chosen ways, and why others that were asked for are not among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Ways in use.
    pub ways: Vec<Way>,
    /// Ways asked for by name that cannot be used, with the reason.
    pub refused: Vec<String>,
}

/// Decides on the ways. `asked` is empty where the user did not choose; `sanitizer` is the runtime
/// the application is linked to, if any.
pub fn plan(
    asked: &[Way],
    libraries: &Libraries,
    glibc: Option<(u32, u32)>,
    sanitizer: Option<&str>,
) -> Plan {
    let mut plan = Plan { ways: Vec::new(), refused: Vec::new() };
    let wanted: &[Way] =
        if asked.is_empty() { &[Way::Preload, Way::Layer, Way::Audit] } else { asked };
    for way in [Way::Preload, Way::Layer, Way::Audit] {
        if !wanted.contains(&way) {
            continue;
        }
        let reason = match way {
            Way::Audit if libraries.shim.is_none() => Some(
                "there is no libclscope_audit.so beside the recorder; build it with `cargo build --release --manifest-path tools/audit/Cargo.toml --target-dir target`".to_owned(),
            ),
            // Before 2.35 every call through the PLT of an audited process takes a slow path.
            Way::Audit if glibc.is_none_or(|version| version < (2, 35)) => {
                Some(format!("auditing needs glibc 2.35, here is {}", glibc.map_or("another C library".into(), |(a, b)| format!("{a}.{b}"))))
            }
            Way::Audit if !wanted.contains(&Way::Preload) => Some("the audit shim sends look-ups to the preloaded recorder: add `preload`".to_owned()),
            // LeakSanitizer walks ld.so's own tables of thread storage and crashes where any
            // auditor is loaded. Who asks for it by name gets it.
            Way::Audit if asked.is_empty() && sanitizer.is_some() => continue,
            _ => None,
        };
        match reason {
            None => plan.ways.push(way),
            // A way of the default set that does not work is left out.
            Some(_) if asked.is_empty() => {}
            Some(reason) => plan.refused.push(format!("--inject {}: {reason}", way.name())),
        }
    }
    plan
}

/// Variables to set for the application, by name.
pub fn variables(
    ways: &[Way],
    libraries: &Libraries,
    elf: Option<&Elf>,
    existing: impl Fn(&str) -> Option<OsString>,
    serves_opencl: impl Fn(&OsStr) -> bool,
    thread_storage: impl FnOnce(&OsStr) -> u64,
) -> Result<BTreeMap<&'static str, OsString>, LibraryError> {
    let mut set = BTreeMap::new();
    let recorder = check_path(&libraries.recorder)?;
    let mut preload = existing("LD_PRELOAD").unwrap_or_default();
    if ways.contains(&Way::Preload) {
        // Ours comes last, but before a library that answers OpenCL's calls itself: behind it no
        // call would come.
        preload = before(&preload, recorder, b" :", serves_opencl);
        let runtime = elf.and_then(Elf::sanitizer);
        if runtime.is_some_and(|r| r.starts_with("libasan") || r.contains(".asan")) {
            // AddressSanitizer refuses to run behind another library unless told. To preload it
            // would bring it into every program that the application starts, too: the linker that
            // PoCL calls is then reported for its leaks, and fails.
            let options = existing("ASAN_OPTIONS").unwrap_or_default();
            set.insert("ASAN_OPTIONS", append(&options, "verify_asan_link_order=0", b":"));
        } else if let Some(runtime) = runtime
            && !entries(&preload, b" :")
                .any(|entry| file_name(entry).starts_with(runtime.as_bytes()))
        {
            // Other sanitizers' runtimes refuse as well, and have no such option.
            let mut first = OsString::from(runtime);
            first.push(":");
            first.push(&preload);
            preload = first;
        }
        set.insert("LD_PRELOAD", preload.clone());
    }
    if ways.contains(&Way::Layer) {
        set.insert(
            "OPENCL_LAYERS",
            append(&existing("OPENCL_LAYERS").unwrap_or_default(), recorder, b":"),
        );
    }
    if let (true, Some(shim)) = (ways.contains(&Way::Audit), &libraries.shim) {
        set.insert(
            "LD_AUDIT",
            append(&existing("LD_AUDIT").unwrap_or_default(), check_path(shim)?, b":"),
        );
        // With an auditor ld.so lays out thread storage before it has loaded the application's
        // libraries, and takes what those need from a reserve of 512 bytes and some more; a library
        // with a kilobyte of its own fails to load ("cannot allocate memory in static TLS block").
        // So the reserve is made as large as they are: threads then get what they would have got
        // without an auditor.
        let tunables = existing("GLIBC_TUNABLES").unwrap_or_default();
        if !entries(&tunables, b":").any(|entry| entry.starts_with(STATIC_TLS.as_bytes())) {
            let bytes =
                DEFAULT_RESERVE + thread_storage(&preload).max(LEAST_STORAGE).next_multiple_of(64);
            set.insert("GLIBC_TUNABLES", append(&tunables, &format!("{STATIC_TLS}={bytes}"), b":"));
        }
    }
    Ok(set)
}

const STATIC_TLS: &str = "glibc.rtld.optional_static_tls";
/// Default of the tunable.
const DEFAULT_RESERVE: u64 = 512;
/// Room for children of a shell or an interpreter, whose libraries cannot be known. More would
/// shrink small stacks, since thread storage lies on them.
const LEAST_STORAGE: u64 = 3072;

/// `list` with `entry` before the first one that is said to come behind it, else at its end; once.
fn before(
    list: &OsStr,
    entry: &str,
    separators: &[u8],
    behind: impl Fn(&OsStr) -> bool,
) -> OsString {
    use std::os::unix::ffi::OsStrExt;
    let mut all: Vec<&[u8]> = entries(list, separators).collect();
    match all.iter().position(|other| behind(OsStr::from_bytes(other))) {
        Some(at) if !all.contains(&entry.as_bytes()) => {
            all.insert(at, entry.as_bytes());
            OsStr::from_bytes(&all.join(&b':')).to_owned()
        }
        _ => append(list, entry, separators),
    }
}

/// Whether a library that an application preloads exports OpenCL's first function. A name without
/// a slash is looked for as the application's loader does.
pub fn serves_opencl(image: &Path, elf: Option<&Elf>, entry: &OsStr) -> bool {
    let mut path = Path::new(entry).to_owned();
    if path.components().count() == 1 || entry.to_string_lossy().contains('$') {
        let listed = elf.map_or_else(String::new, |elf| listed(image, elf, entry));
        let name = file_name(entry.as_encoded_bytes());
        let found =
            listed.lines().filter_map(library_path).find(|path| file_name(path.as_bytes()) == name);
        let Some(found) = found else { return false };
        path = found.into();
    }
    std::fs::read(path).is_ok_and(|bytes| Elf::exports(&bytes, "clGetPlatformIDs"))
}

/// What the application's own loader lists that is loaded with it: a line for each library. Empty
/// where it does not answer.
fn listed(image: &Path, elf: &Elf, preload: &OsStr) -> String {
    let Some(loader) = &elf.interpreter else { return String::new() };
    let output = Command::new(loader)
        .arg("--list")
        .arg(image)
        .env("LD_PRELOAD", preload)
        .env_remove("LD_AUDIT")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into())
}

/// Bytes of thread storage that `image` and everything loaded with it need, asked of its own
/// loader, which resolves the libraries without running any of their code. 0 where it does not
/// answer.
pub fn thread_storage(image: &Path, elf: &Elf, preload: &OsStr) -> u64 {
    let text = listed(image, elf, preload);
    if text.is_empty() {
        return 0;
    }
    let libraries = text.lines().filter_map(library_path).map(|path| {
        let elf = std::fs::read(path).ok().and_then(|bytes| Elf::parse(&bytes));
        // Each begins at a multiple of its alignment, 64 at most in practice.
        elf.map_or(0, |elf| if elf.tls == 0 { 0 } else { elf.tls.saturating_add(64) })
    });
    libraries.fold(elf.tls, u64::saturating_add).min(1 << 30)
}

/// The path in a line of `ld.so --list`: `name => path (address)` or `path (address)`.
fn library_path(line: &str) -> Option<&str> {
    let line = line.trim();
    let path = line.split_once(" => ").map_or(line, |(_, path)| path);
    let (path, _) = path.rsplit_once(" (0x")?;
    path.starts_with('/').then_some(path)
}

fn entries<'a>(list: &'a OsStr, separators: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    use std::os::unix::ffi::OsStrExt;
    list.as_bytes().split(move |b| separators.contains(b)).filter(|entry| !entry.is_empty())
}

fn file_name(entry: &[u8]) -> &[u8] {
    entry.rsplit(|b| *b == b'/').next().unwrap_or(entry)
}

/// `list` with `entry` at its end, once.
fn append(list: &OsStr, entry: &str, separators: &[u8]) -> OsString {
    if entries(list, separators).any(|e| e == entry.as_bytes()) {
        return list.to_owned();
    }
    let mut out = list.to_owned();
    if !out.is_empty() {
        out.push(":");
    }
    out.push(entry);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn libraries(shim: bool) -> Libraries {
        Libraries {
            recorder: "/opt/l/libclscope.so".into(),
            shim: shim.then(|| "/opt/l/libclscope_audit.so".into()),
        }
    }

    fn set(
        ways: &[Way],
        elf: &Elf,
        existing: &[(&str, &str)],
        storage: u64,
    ) -> Vec<(&'static str, String)> {
        let known =
            |name: &str| existing.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        let serves = |entry: &OsStr| entry == "/opt/front.so";
        let set = variables(ways, &libraries(true), Some(elf), known, serves, |_| storage).unwrap();
        set.into_iter().map(|(name, value)| (name, value.into_string().unwrap())).collect()
    }

    #[test]
    fn every_way_has_its_variable() {
        let found = set(&[Way::Preload, Way::Layer, Way::Audit], &Elf::default(), &[], 0);
        let expected = [
            ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=3584"),
            ("LD_AUDIT", "/opt/l/libclscope_audit.so"),
            ("LD_PRELOAD", "/opt/l/libclscope.so"),
            ("OPENCL_LAYERS", "/opt/l/libclscope.so"),
        ];
        assert_eq!(found, expected.map(|(n, v)| (n, v.to_owned())));
    }

    #[test]
    fn what_was_there_stays_and_comes_first() {
        let existing = [
            ("LD_PRELOAD", "libjemalloc.so /x/y.so"),
            ("OPENCL_LAYERS", "/a.so"),
            ("LD_AUDIT", "/b.so"),
            ("GLIBC_TUNABLES", "glibc.malloc.arena_max=1"),
        ];
        let found = set(&[Way::Preload, Way::Layer, Way::Audit], &Elf::default(), &existing, 5000);
        assert_eq!(found[0].1, "glibc.malloc.arena_max=1:glibc.rtld.optional_static_tls=5568");
        assert_eq!(found[1].1, "/b.so:/opt/l/libclscope_audit.so");
        assert_eq!(found[2].1, "libjemalloc.so /x/y.so:/opt/l/libclscope.so");
        assert_eq!(found[3].1, "/a.so:/opt/l/libclscope.so");
    }

    #[test]
    fn the_recorder_comes_before_what_answers_opencl_itself() {
        let preload = |before: &str| {
            set(&[Way::Preload], &Elf::default(), &[("LD_PRELOAD", before)], 0)[0].1.clone()
        };
        assert_eq!(
            preload("/a.so /opt/front.so:/b.so"),
            "/a.so:/opt/l/libclscope.so:/opt/front.so:/b.so"
        );
        assert_eq!(preload("/opt/front.so"), "/opt/l/libclscope.so:/opt/front.so");
        let already = "/opt/front.so:/opt/l/libclscope.so";
        assert_eq!(preload(already), already);
    }

    #[test]
    fn nothing_is_named_twice_and_a_users_tunable_wins() {
        let existing = [
            ("LD_PRELOAD", "/opt/l/libclscope.so"),
            ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=9"),
        ];
        let found = set(&[Way::Preload, Way::Audit], &Elf::default(), &existing, 5000);
        assert_eq!(
            found,
            [
                ("LD_AUDIT", "/opt/l/libclscope_audit.so".to_owned()),
                ("LD_PRELOAD", "/opt/l/libclscope.so".to_owned())
            ]
        );
    }

    #[test]
    fn a_sanitizer_comes_before_everything_or_is_told_not_to() {
        let elf = |runtime: &str| Elf { needed: vec![runtime.into()], ..Elf::default() };
        let set = |runtime, existing: &[(&str, &str)]| {
            set(&[Way::Preload], &elf(runtime), existing, 0).into_iter().collect::<BTreeMap<_, _>>()
        };
        let first = |existing: &[(&str, &str)]| set("libtsan.so.2", existing)["LD_PRELOAD"].clone();
        assert_eq!(first(&[]), "libtsan.so.2:/opt/l/libclscope.so");
        assert_eq!(first(&[("LD_PRELOAD", "/j.so")]), "libtsan.so.2:/j.so:/opt/l/libclscope.so");
        assert_eq!(
            first(&[("LD_PRELOAD", "/usr/lib/libtsan.so.2")]),
            "/usr/lib/libtsan.so.2:/opt/l/libclscope.so"
        );
        for runtime in ["libasan.so.8", "libclang_rt.asan-x86_64.so"] {
            let told = set(runtime, &[("ASAN_OPTIONS", "log_path=x")]);
            assert_eq!(told["ASAN_OPTIONS"], "log_path=x:verify_asan_link_order=0");
            assert_eq!(told["LD_PRELOAD"], "/opt/l/libclscope.so");
        }
    }

    #[test]
    fn the_plan_says_why_a_way_is_missing() {
        let all = plan(&[], &libraries(true), Some((2, 36)), None);
        assert_eq!(all.ways, [Way::Preload, Way::Layer, Way::Audit]);
        assert!(all.refused.is_empty());
        let without = plan(&[], &libraries(false), Some((2, 36)), None);
        assert_eq!(without.ways, [Way::Preload, Way::Layer]);
        let audit = [Way::Audit];
        let without = plan(&audit, &libraries(false), Some((2, 36)), None);
        assert!(without.refused[0].contains("tools/audit"));
        let old = plan(&audit, &libraries(true), Some((2, 31)), None);
        assert!(old.refused[0].contains("2.35") && old.refused[0].contains("2.31"));
        let sanitized = plan(&[], &libraries(true), Some((2, 36)), Some("libasan.so.8"));
        assert_eq!(sanitized.ways, [Way::Preload, Way::Layer]);
        assert_eq!(plan(&[Way::Layer], &libraries(true), Some((2, 36)), None).ways, [Way::Layer]);
        assert_eq!(plan(&[Way::Audit], &libraries(true), Some((2, 36)), None).refused.len(), 1);
        assert_eq!(
            plan(&[Way::Audit, Way::Preload], &libraries(false), Some((2, 36)), None).refused.len(),
            1
        );
    }

    #[test]
    fn lines_of_the_loader_are_read() {
        assert_eq!(
            library_path("\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f00)"),
            Some("/lib/x/libc.so.6")
        );
        assert_eq!(
            library_path("\t/lib64/ld-linux-x86-64.so.2 (0x00007f00)"),
            Some("/lib64/ld-linux-x86-64.so.2")
        );
        assert_eq!(library_path("\tlinux-vdso.so.1 (0x00007ffe)"), None);
        assert_eq!(library_path("\tlibx.so => not found"), None);
    }

    #[test]
    fn thread_storage_of_this_test_is_more_than_its_own() {
        let own = Path::new("/proc/self/exe").canonicalize().unwrap();
        let elf = Elf::parse(&std::fs::read(&own).unwrap()).unwrap();
        assert!(
            thread_storage(&own, &elf, OsStr::new("")) > elf.tls,
            "libc has thread storage of its own"
        );
    }
}
