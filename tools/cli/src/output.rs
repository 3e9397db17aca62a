//! Owns this command's output: messages to stderr, prefixed because an application may share the
//! terminal, and files that appear whole or not at all. Refuses to fail because its output is
//! closed.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
pub use clscope_capture::directory::shown_path;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A number of things, by the word for one or for many.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// One message on stderr. A closed stderr is no reason to end: the application's exit code must
/// still come through.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "clscope: {text}");
}

/// Writes a file under a temporary name beside it and renames it, so that no reader ever sees half
/// of it.
///
/// # Errors
/// If the file cannot be made, written or renamed, or if `write` fails; the temporary file is
/// removed then.
pub fn write_whole<T>(
    target: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<T>,
) -> Result<T> {
    let shown = target.display();
    let name = target.file_name().with_context(|| format!("{shown} names no file"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    let temporary = target.with_file_name(hidden);
    let attempt = || -> Result<T> {
        let file = File::create(&temporary)
            .with_context(|| format!("cannot write {shown}; choose another place with -o"))?;
        let mut out = BufWriter::with_capacity(1 << 18, file);
        let result = write(&mut out).with_context(|| format!("cannot write {shown}"))?;
        out.flush().with_context(|| format!("cannot write {shown}"))?;
        drop(out);
        std::fs::rename(&temporary, target)
            .with_context(|| format!("cannot give the finished file its name {shown}"))?;
        Ok(result)
    };
    attempt().inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_finished_is_named_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("t.json");
        let error =
            write_whole(&target, |_| -> Result<()> { anyhow::bail!("no space left") }).unwrap_err();
        assert!(format!("{error:#}").contains("t.json: no space left"), "{error:#}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
