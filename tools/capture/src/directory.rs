//! Owns the making of the trace directory: its name, and that two recordings never mix. Refuses to
//! delete anything that is not a trace's own file.
#![forbid(unsafe_code)]

use crate::error::{Attempt, CaptureError};
use crate::system;
use clscope_io::input;
use clscope_io::output::{Access, create_dir, own_directory};
use clscope_io::text::shell_word;
use clscope_trace::directory::{
    CAPTURE_APPLICATION, CAPTURE_FILE, CAPTURES, MEASURED, METER, PART, PROGRAMS, SAMPLES,
    is_capture_folder, is_program_file, with_ending,
};
use clscope_trace::ring_file::{attendance, control};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Below this a recording is not begun: the first ring and segment would not fit.
const LEAST_FREE: u64 = 1 << 20;

/// Variables in which MPI launchers pass a process its rank.
const RANKS: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"];

/// Makes the directory and returns its absolute path.
pub fn create(
    asked: Option<&OsStr>,
    program: &Path,
    force: bool,
    access: Access,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, CaptureError> {
    let path = match asked {
        Some(name) => {
            let path = expand(name, environment)?;
            // Not `exists`, which looks through links.
            match std::fs::symlink_metadata(&path) {
                Ok(_) => reuse(&path, force, access)?,
                Err(_) => make(&path, access)?,
            }
            path
        }
        None => create_default(program, access, environment)?,
    };
    let path = std::fs::canonicalize(&path)
        .attempt(|| format!("cannot resolve the trace directory {}", path.display()))?;
    check(&path)?;
    Ok(path)
}

fn make(path: &Path, access: Access) -> Result<(), CaptureError> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dir(path, access).attempt(|| match parent.exists() {
        false => format!(
            "cannot make the trace directory {}: make its parent first, `mkdir -p {}`",
            path.display(),
            shown_path(parent)
        ),
        true => format!(
            "cannot make the trace directory {}; choose another place with -o",
            path.display()
        ),
    })
}

/// `APP-YYYYMMDD-HHMMSS[-rRANK].clscope`, with a number where that exists already.
fn create_default(
    program: &Path,
    access: Access,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, CaptureError> {
    let app = program.file_name().unwrap_or(OsStr::new("app")).to_string_lossy().into_owned();
    let seconds = clscope_clock::realtime().0 / 1_000_000_000;
    let rank = RANKS
        .iter()
        .find_map(|name| environment(name))
        .filter(|rank| rank.bytes().all(|b| b.is_ascii_digit()));
    let stem = format!(
        "{}-{}{}",
        app.replace(|c: char| c.is_control() || c.is_whitespace(), "_"),
        system::local_time_stamp(seconds as i64),
        rank.map_or(String::new(), |rank| format!("-r{rank}"))
    );
    for number in 1..1000 {
        let path = PathBuf::from(if number == 1 {
            format!("{stem}.clscope")
        } else {
            format!("{stem}-{number}.clscope")
        });
        match create_dir(&path, access) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => {
                return Err(e).attempt(|| {
                    format!("cannot make the trace directory {} in the working directory; choose another place with -o", path.display())
                });
            }
        }
    }
    Err(refused!(
        "cannot find a free name for the trace directory beginning with {stem}; name one with -o"
    ))
}

/// Replaces `%h` (host), `%p` (process id), `%q{NAME}` (environment variable) and `%%`, and adds
/// `.clscope`. Names need not be UTF-8.
fn expand(
    name: &OsStr,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, CaptureError> {
    let shown = name.to_string_lossy();
    let (mut out, mut rest) = (Vec::new(), name.as_bytes());
    while let Some(at) = rest.iter().position(|b| *b == b'%') {
        out.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        rest = if let Some(after) = after.strip_prefix(b"%") {
            out.push(b'%');
            after
        } else if let Some(after) = after.strip_prefix(b"h") {
            out.extend_from_slice(clscope_readings::host::name().as_bytes());
            after
        } else if let Some(after) = after.strip_prefix(b"p") {
            out.extend_from_slice(std::process::id().to_string().as_bytes());
            after
        } else if let (Some(inside), Some(end)) =
            (after.strip_prefix(b"q{"), after.iter().position(|b| *b == b'}'))
        {
            let variable = String::from_utf8_lossy(&inside[..end - 2]);
            let value = environment(&variable);
            out.extend_from_slice(
                value
                    .ok_or_else(|| {
                        refused!("-o {shown}: the environment variable {variable} is not set")
                    })?
                    .as_bytes(),
            );
            &after[end + 1..]
        } else {
            let after = String::from_utf8_lossy(after);
            return Err(refused!(
                "-o {shown}: %{after} is none of %h (host), %p (process id), %q{{VARIABLE}} and %%"
            ));
        };
    }
    out.extend_from_slice(rest);
    if out.is_empty() {
        return Err(CaptureError::Refused("-o needs a name".to_owned()));
    }
    Ok(with_ending(Path::new(&OsString::from_vec(out))))
}

/// Whether a file name is one that recorder, sampler or this command give.
fn is_ours(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    name == "meta.json"
        || name == attendance::FILE
        || name == MEASURED
        || name == METER
        || name == control::FILE
        || name.starts_with(".meta.json.")
        || [".defs", ".clt", ".ring"].iter().any(|end| name.ends_with(end))
}

fn foreign(path: &Path) -> CaptureError {
    refused!("{} is no part of a trace; choose another name with -o", path.display())
}

/// The texts and binaries of programs in a trace; other files in their folder are a reason to
/// leave all as it is.
fn programs(folder: &Path) -> Result<Vec<PathBuf>, CaptureError> {
    let files = listed(folder)?;
    // A process that was killed leaves a hidden one.
    let ours = |name: &str| is_program_file(name) || name.starts_with('.');
    let is_foreign = |file: &&PathBuf| !file.file_name().and_then(OsStr::to_str).is_some_and(ours);
    match files.iter().find(is_foreign) {
        Some(file) => Err(foreign(file)),
        None => Ok(files),
    }
}

/// The captured launches of a trace: their files, and their folders with the one around them. Other
/// files among them are a reason to leave all as it is.
fn captures(outer: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), CaptureError> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for folder in listed(outer)? {
        // A process that was killed leaves one that is not whole.
        let name = folder.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if name.ends_with(SAMPLES) {
            files.push(folder);
            continue;
        }
        if !(is_capture_folder(name) || name.ends_with(PART)) {
            return Err(foreign(&folder));
        }
        for file in listed(&folder)? {
            let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default();
            // One that was killed while it was written is hidden.
            let ours = name == CAPTURE_FILE
                || name.trim_start_matches('.').starts_with(CAPTURE_APPLICATION)
                || name.starts_with("program.")
                || name.starts_with("memory-");
            if !ours {
                return Err(foreign(&file));
            }
            files.push(file);
        }
        folders.push(folder);
    }
    folders.push(outer.to_owned());
    Ok((files, folders))
}

/// What is in a folder of ours.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, CaptureError> {
    let shown = folder.display();
    let failed = || format!("cannot list {shown}");
    own_directory(folder).attempt(failed)?;
    let entries = std::fs::read_dir(folder).attempt(failed)?;
    entries.map(|entry| Ok(entry.attempt(failed)?.path())).collect()
}

/// Whether another `record` is at work in a trace: it holds the lock of a file.
fn is_attended(trace: &Path) -> bool {
    input::open_inside(&trace.join(attendance::FILE)).is_ok_and(|file| system::lock(&file).is_err())
}

fn reuse(path: &Path, force: bool, access: Access) -> Result<(), CaptureError> {
    let shown = path.display();
    // What somebody else prepared would be theirs to change and to read.
    own_directory(path).attempt(|| format!("cannot use {shown} as the trace directory"))?;
    let entries =
        std::fs::read_dir(path).attempt(|| format!("cannot use {shown} as the trace directory"))?;
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in entries {
        let entry = entry.attempt(|| format!("cannot read the directory {shown}"))?;
        if entry.file_name() == CAPTURES {
            let (of, around) = captures(&entry.path())?;
            files.extend(of);
            folders.extend(around);
            continue;
        }
        if entry.file_name() == PROGRAMS {
            files.extend(programs(&entry.path())?);
            continue;
        }
        if !is_ours(&entry.file_name()) {
            return Err(refused!(
                "{shown} exists and holds {}, which is no part of a trace; choose another name with -o",
                entry.path().display()
            ));
        }
        files.push(entry.path());
    }
    let ranks = "several ranks of a job? -o 'NAME-%q{PMIX_RANK}' gives each its own";
    if is_attended(path) {
        return Err(refused!("{shown} is being recorded now; choose another name ({ranks})"));
    }
    if !files.is_empty() && !force {
        return Err(refused!(
            "{shown} holds a trace already; choose another name, or replace it with --force ({ranks})"
        ));
    }
    for file in files {
        std::fs::remove_file(&file)
            .attempt(|| format!("cannot remove {} of the old trace", file.display()))?;
    }
    for folder in folders {
        std::fs::remove_dir(&folder)
            .attempt(|| format!("cannot remove {} of the old trace", folder.display()))?;
    }
    match access {
        Access::Umask => Ok(()),
        Access::Private => {
            let mode = std::fs::Permissions::from_mode(access.directory());
            std::fs::set_permissions(path, mode)
                .attempt(|| format!("cannot close {shown} to others; --shared leaves it open"))
        }
    }
}

fn check(path: &Path) -> Result<(), CaptureError> {
    let shown = path.display();
    if !system::may_write(path) {
        return Err(refused!(
            "cannot write into the trace directory {shown}; choose another place with -o"
        ));
    }
    if let Ok(free) = system::free_bytes(path)
        && free < LEAST_FREE
    {
        // A directory made for nothing would only be in the way; one that was there before is not
        // empty or not ours.
        let _ = std::fs::remove_dir(path);
        return Err(refused!(
            "the file system of the trace directory {shown} is full ({free} bytes free); make room, or choose another place with -o"
        ));
    }
    Ok(())
}

/// A path as the user would type it: relative where it lies below the working directory, quoted
/// where needed.
pub fn shown_path(path: &Path) -> String {
    let short = std::env::current_dir()
        .ok()
        .and_then(|d| path.strip_prefix(d).ok().map(PathBuf::from))
        .unwrap_or_else(|| path.to_path_buf());
    shell_word(&short.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_as_typed() {
        assert_eq!(shown_path(Path::new("/nonexistent/a.clscope")), "/nonexistent/a.clscope");
        assert_eq!(shown_path(Path::new("/my runs/it's")), r"'/my runs/it'\''s'");
        let here = std::env::current_dir().unwrap();
        assert_eq!(shown_path(&here.join("x.clscope")), "x.clscope");
    }

    fn environment(name: &str) -> Option<String> {
        (name == "RANK").then(|| "3".to_owned())
    }

    #[test]
    fn names_are_expanded() {
        let expand = |text: &str| {
            expand(OsStr::new(text), &environment).map(|p| p.to_string_lossy().into_owned())
        };
        assert_eq!(expand("run").unwrap(), "run.clscope");
        assert_eq!(expand("a/run.clscope/").unwrap(), "a/run.clscope");
        assert_eq!(expand("r-%q{RANK}-50%%").unwrap(), "r-3-50%.clscope");
        assert_eq!(expand("%p").unwrap(), format!("{}.clscope", std::process::id()));
        let bytes = OsString::from_vec(b"run-\xff%%-%q{RANK}".to_vec());
        let path = super::expand(&bytes, &environment).unwrap();
        assert_eq!(
            path.as_os_str().as_bytes(),
            b"run-\xff%-3.clscope",
            "a name that is not UTF-8 is a name like others"
        );
        for bad in ["%q{NONE}", "%x", "%q{RANK", "%", ""] {
            assert!(expand(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn two_recordings_never_mix() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("a.clscope");
        let create = |force| {
            create(Some(name.as_os_str()), Path::new("app"), force, Access::Private, &environment)
        };
        let made = create(false).unwrap();
        assert!(made.is_absolute());
        assert!(create(false).is_ok(), "an empty directory is as good as a new one");
        std::fs::write(made.join("1-0.defs"), "x").unwrap();
        // Of a `record` that was killed.
        std::fs::write(made.join(attendance::FILE), "x").unwrap();
        std::fs::write(made.join(MEASURED), "x").unwrap();
        std::fs::write(made.join(METER), "x").unwrap();
        assert!(format!("{:#}", create(false).unwrap_err()).contains("--force"));
        let attended = std::fs::File::open(made.join(attendance::FILE)).unwrap();
        system::lock(&attended).unwrap();
        for force in [false, true] {
            assert!(format!("{:#}", create(force).unwrap_err()).contains("is being recorded now"));
        }
        drop(attended);
        create(true).unwrap();
        assert!(std::fs::read_dir(&made).unwrap().next().is_none());
        std::fs::write(made.join("thesis.tex"), "x").unwrap();
        std::fs::write(made.join("1-0.defs"), "x").unwrap();
        assert!(format!("{:#}", create(true).unwrap_err()).contains("thesis.tex"));
        assert!(made.join("thesis.tex").exists());
    }

    #[test]
    fn a_missing_parent_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("not there/a.clscope");
        let error =
            create(Some(name.as_os_str()), Path::new("app"), false, Access::Private, &environment)
                .unwrap_err();
        assert!(
            format!("{error:#}")
                .contains(&format!("mkdir -p '{}'", folder.path().join("not there").display())),
            "{error:#}"
        );
    }
}
