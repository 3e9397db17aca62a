//! Owns the question what APP is: where it lies, which file is really loaded (a script's
//! interpreter), and why the recorder will not be loaded into it. Refuses to judge whether it is
//! worth running: that is the user's.
#![forbid(unsafe_code)]

use crate::elf::{Elf, own_machine};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why APP cannot be started; the exit codes are those of env(1) and the shells.
#[derive(Debug, PartialEq, Eq)]
pub enum NotRunnable {
    /// Exit code 127.
    NotFound {
        /// What was asked for.
        name: OsString,
        /// Whether PATH was searched.
        searched: bool,
    },
    /// Exit code 126.
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl NotRunnable {
    /// Exit code for it.
    pub const fn code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
        }
    }
}

impl std::error::Error for NotRunnable {}

impl std::fmt::Display for NotRunnable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound { name, searched: true } => {
                let name = Path::new(name).display();
                write!(
                    f,
                    "{name}: no such program in PATH; give its path, as ./{name}, if it lies elsewhere"
                )
            }
            Self::NotFound { name, searched: false } => {
                write!(f, "{}: no such file", Path::new(name).display())
            }
            Self::NotExecutable { path, reason } => write!(f, "{}: {reason}", path.display()),
        }
    }
}

/// A reason why the recorder will not see the application, with the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// Stable name for programs: `static`, `setuid`, ...
    pub code: &'static str,
    /// What prevents recording, on which file, and what to do.
    pub text: String,
}

/// APP, found and looked at.
#[derive(Debug)]
pub struct Program {
    /// The file that is executed.
    pub path: PathBuf,
    /// The file that the dynamic loader loads: an interpreter where `path` is a script.
    pub image: PathBuf,
    /// What is known of `image`.
    pub elf: Option<Elf>,
    /// Why nothing will be seen.
    pub obstacles: Vec<Obstacle>,
}

/// The process's credentials, which decide whether a setuid file changes them.
#[derive(Debug, Clone, Copy)]
pub struct Credentials {
    /// Effective user.
    pub user: u32,
    /// Effective group.
    pub group: u32,
}

impl Program {
    /// Finds `name` as execvp(3) would, with `search` as PATH, and looks at the file.
    pub fn find(
        name: &OsStr,
        search: Option<&OsStr>,
        who: Credentials,
    ) -> Result<Self, NotRunnable> {
        let path = locate(name, search)?;
        let (image, elf) = image(&path, search);
        let mut obstacles = Vec::new();
        if let Some(elf) = &elf {
            obstacles.extend(loading_obstacle(&image, elf));
        }
        // The kernel ignores these bits on scripts and honours them on whatever it finally loads.
        obstacles.extend(privilege_obstacle(&image, who));
        obstacles.extend(by_name_obstacle(&path));
        Ok(Self { path, image, elf, obstacles })
    }
}

fn locate(name: &OsStr, search: Option<&OsStr>) -> Result<PathBuf, NotRunnable> {
    let bytes = name.as_bytes();
    if bytes.is_empty() {
        return Err(NotRunnable::NotFound { name: name.into(), searched: false });
    }
    if bytes.contains(&b'/') {
        let path = PathBuf::from(name);
        return match reason_not_executable(&path) {
            None => Ok(path),
            Some(Missing) => Err(NotRunnable::NotFound { name: name.into(), searched: false }),
            Some(Refused(reason)) => Err(NotRunnable::NotExecutable { path, reason }),
        };
    }
    let mut refused = None;
    // What execvp takes where PATH is not set (confstr _CS_PATH).
    for folder in search.unwrap_or(OsStr::new("/bin:/usr/bin")).as_bytes().split(|b| *b == b':') {
        let folder = if folder.is_empty() { b"." } else { folder };
        let path = Path::new(OsStr::from_bytes(folder)).join(name);
        match reason_not_executable(&path) {
            None => return Ok(path),
            Some(Missing) => {}
            // execvp goes on searching and reports this only if nothing better comes.
            Some(Refused(reason)) => {
                refused.get_or_insert(NotRunnable::NotExecutable { path, reason });
            }
        }
    }
    Err(refused.unwrap_or(NotRunnable::NotFound { name: name.into(), searched: true }))
}

enum Why {
    Missing,
    Refused(String),
}
use Why::{Missing, Refused};

fn reason_not_executable(path: &Path) -> Option<Why> {
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Some(Missing);
        }
        Err(e) => return Some(Refused(e.to_string())),
    };
    if meta.is_dir() {
        return Some(Refused("is a directory, not a program".into()));
    }
    if meta.mode() & 0o111 == 0 || !crate::system::may_execute(path) {
        return Some(Refused(
            "not executable; `chmod +x` it, or name its interpreter first".into(),
        ));
    }
    None
}

/// Follows `#!` lines (the kernel allows four of them) and `env` to the file that is loaded.
fn image(path: &Path, search: Option<&OsStr>) -> (PathBuf, Option<Elf>) {
    let mut image = path.to_path_buf();
    for _ in 0..4 {
        match first_line(&image) {
            Some(line) => match interpreter(&line, search) {
                Some(next) => image = next,
                None => return (image, None),
            },
            None => break,
        }
    }
    let elf = std::fs::read(&image).ok().and_then(|bytes| Elf::parse(&bytes));
    (image, elf)
}

/// What follows `#!` on the first line.
fn first_line(path: &Path) -> Option<Vec<u8>> {
    // The kernel reads 256 bytes.
    let mut head = Vec::new();
    File::open(path).ok()?.take(256).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?;
    Some(line.split(|b| *b == b'\n').next().unwrap_or(line).to_vec())
}

fn interpreter(line: &[u8], search: Option<&OsStr>) -> Option<PathBuf> {
    let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
    let first = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
    if first.file_name() == Some(OsStr::new("env")) {
        // env [-S] [NAME=value]... PROGRAM
        let program = words.find(|w| !w.starts_with(b"-") && !w.contains(&b'='))?;
        return locate(OsStr::from_bytes(program), search).ok();
    }
    Some(first)
}

fn loading_obstacle(image: &Path, elf: &Elf) -> Option<Obstacle> {
    let file = image.display();
    if elf.machine != own_machine() || elf.bits != 64 {
        return Some(Obstacle {
            code: "other-machine",
            text: format!(
                "{file} is made for another machine ({} bits, ELF machine {}), and the recorder for this one: build clscope for it",
                elf.bits, elf.machine
            ),
        });
    }
    if elf.is_static() {
        return Some(Obstacle {
            code: "static",
            text: format!(
                "{file} is statically linked: nothing can be loaded into it, so its OpenCL calls will not be seen; link it dynamically"
            ),
        });
    }
    elf.is_musl().then(|| Obstacle {
        code: "musl",
        text: format!(
            "{file} uses the C library musl, into which the recorder, made for glibc, cannot be loaded: record a glibc build of it"
        ),
    })
}

/// A file that changes the credentials runs in secure mode: ld.so ignores LD_PRELOAD and LD_AUDIT
/// then (ld.so(8)).
fn privilege_obstacle(image: &Path, who: Credentials) -> Option<Obstacle> {
    let meta = std::fs::metadata(image).ok()?;
    let (mode, file) = (meta.mode(), image.display());
    let bit = if mode & 0o4000 != 0 && meta.uid() != who.user {
        "setuid"
    } else if mode & 0o2010 == 0o2010 && meta.gid() != who.group {
        "setgid"
    } else if who.user != 0 && crate::system::has_file_capabilities(image) {
        "file-capabilities"
    } else {
        return None;
    };
    let what = if bit == "file-capabilities" {
        "has file capabilities".to_owned()
    } else {
        format!("is {bit}")
    };
    Some(Obstacle {
        code: bit,
        text: format!(
            "{file} {what}: the system loads nothing into it for other users, so its OpenCL calls will not be seen; record a plain copy (`cp {file} .`), or run clscope as its owner"
        ),
    })
}

/// Programs that start the application somewhere our environment does not reach.
fn by_name_obstacle(path: &Path) -> Option<Obstacle> {
    let name = path.file_name()?.to_str()?;
    let (code, text) = match name {
        "sudo" | "doas" | "su" | "pkexec" | "runuser" => (
            "environment-reset",
            format!(
                "{name} starts programs with a fresh environment: put it in front, `{name} clscope record -- APP`"
            ),
        ),
        "docker" | "podman" | "flatpak" | "snap" => (
            "container",
            format!(
                "{name} starts programs in a container: run clscope inside it (mount it into the container)"
            ),
        ),
        "ssh" => ("remote", "ssh starts programs on another machine: run clscope there".to_owned()),
        _ => return None,
    };
    Some(Obstacle { code, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const ME: Credentials = Credentials { user: 1000, group: 1000 };

    fn find(name: &str, search: &str) -> Result<Program, NotRunnable> {
        Program::find(OsStr::new(name), Some(OsStr::new(search)), ME)
    }

    fn file(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn searches_as_execvp_does() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::create_dir_all(&a).unwrap();
        std::fs::create_dir_all(b.join("sub")).unwrap();
        file(&a, "app", "", 0o644);
        file(&b, "app", "", 0o755);
        file(&a, "plain", "", 0o644);
        let search = format!("/nonexistent:{}:{}", a.display(), b.display());
        assert_eq!(find("app", &search).unwrap().path, b.join("app"));
        assert_eq!(find("plain", &search).unwrap_err().code(), 126);
        assert_eq!(find("none", &search).unwrap_err().code(), 127);
        assert_eq!(find("sub", &search).unwrap_err().code(), 126);
        assert_eq!(find("", &search).unwrap_err().code(), 127);
        assert_eq!(find(b.join("app").to_str().unwrap(), "").unwrap().path, b.join("app"));
        assert_eq!(find(b.join("none").to_str().unwrap(), &search).unwrap_err().code(), 127);
        assert_eq!(find(a.join("app/x").to_str().unwrap(), &search).unwrap_err().code(), 127);
    }

    #[test]
    fn scripts_lead_to_their_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let sh = std::fs::canonicalize("/bin/sh").unwrap();
        for (name, line) in [
            ("direct", "#!/bin/sh\necho"),
            ("env", "#!/usr/bin/env sh\n"),
            ("split", "#! /usr/bin/env -S A=1 sh -x\n"),
        ] {
            let path = file(folder.path(), name, line, 0o755);
            let found = find(path.to_str().unwrap(), "/bin:/usr/bin").unwrap();
            assert_eq!(std::fs::canonicalize(&found.image).unwrap(), sh, "{name}");
            assert!(
                found.elf.is_some() && found.obstacles.is_empty(),
                "{name}: {:?}",
                found.obstacles
            );
        }
        let nested = file(
            folder.path(),
            "nested",
            &format!("#!{}\n", folder.path().join("direct").display()),
            0o755,
        );
        assert_eq!(
            std::fs::canonicalize(find(nested.to_str().unwrap(), "").unwrap().image).unwrap(),
            sh
        );
        // A script that names itself must not be followed for ever.
        let itself = folder.path().join("itself");
        file(folder.path(), "itself", &format!("#!{}\n", itself.display()), 0o755);
        assert!(find(itself.to_str().unwrap(), "").unwrap().elf.is_none());
    }

    #[test]
    fn programs_that_reset_the_environment_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path(), "sudo", "", 0o755);
        let found = find(path.to_str().unwrap(), "").unwrap();
        assert_eq!(
            found.obstacles.iter().map(|o| o.code).collect::<Vec<_>>(),
            ["environment-reset"]
        );
    }

    #[test]
    fn privileges_matter_only_when_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = file(folder.path(), "app", "", 0o4755);
        let owner = std::fs::metadata(&path).unwrap();
        let codes =
            |user, group| privilege_obstacle(&path, Credentials { user, group }).map(|o| o.code);
        assert_eq!(codes(owner.uid(), owner.gid()), None);
        assert_eq!(codes(owner.uid() + 1, owner.gid()), Some("setuid"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2755)).unwrap();
        assert_eq!(codes(owner.uid(), owner.gid() + 1), Some("setgid"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(codes(owner.uid() + 1, owner.gid() + 1), None);
    }
}
