//! Texts and binaries of programs that a trace keeps in its folder `programs`: which they are,
//! whose they are, and where they lie. Refuses to read what is no regular file, and to believe a
//! name from a trace.

use crate::captures::listed;
use crate::trace_files::TraceFiles;
use clscope_analysis::Trace;
use clscope_io::input;
use clscope_io::output::{Access, create_new};
use clscope_trace::directory::{PROGRAMS, is_program_file, program_file};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, FileType};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Most bytes of one that are read: more than a recorder keeps.
pub const MOST_BYTES: u64 = 64 << 20;

/// A text or binary of programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code {
    /// 128-bit hash of its bytes, as hex.
    pub hash: String,
    /// `cl` source, `spv` SPIR-V, `ptx`, `bin` any other binary.
    pub language: String,
    /// Bytes it has.
    pub bytes: u64,
    /// Where it lies; `None` where the trace does not keep it.
    pub path: Option<PathBuf>,
    /// Why it is not kept; empty where it is.
    pub missing: String,
    /// Program objects that were made of it.
    pub programs: u64,
    /// Kernels of these programs, by name.
    pub kernels: BTreeSet<String>,
    /// Options that they were built with.
    pub options: BTreeSet<String>,
}

impl Code {
    /// Its bytes.
    ///
    /// # Errors
    /// The system's, and `InvalidData` where it is no regular file or too large.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let path = self.path.as_deref().ok_or(io::ErrorKind::NotFound)?;
        input::read_inside(path, MOST_BYTES)
    }
}

/// The files in the folder of programs of a trace directory, by name. None where there is no
/// folder.
///
/// # Errors
/// If the folder is there and cannot be listed.
pub fn files(trace: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    listed(&trace.join(PROGRAMS), is_program_file, FileType::is_file)
}

/// The programs of all processes: equal bytes once, the first that was made first.
pub fn codes(files: &TraceFiles, trace: &Trace<'_>) -> Vec<Code> {
    let mut out: Vec<Code> = Vec::new();
    let mut known: BTreeMap<(String, String), usize> = BTreeMap::new();
    for process in &trace.processes {
        let definitions = &process.definitions;
        let mut kernels: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        for kernel in definitions.kernels.values() {
            kernels.entry(kernel.program).or_default().insert(kernel.name.clone());
        }
        for code in &definitions.codes {
            let at = *known.entry((code.hash.clone(), code.language.clone())).or_insert(out.len());
            if at == out.len() {
                out.push(Code {
                    hash: code.hash.clone(),
                    language: code.language.clone(),
                    bytes: code.bytes,
                    path: kept(files, &code.hash, &code.language),
                    missing: code.missing.clone(),
                    ..Code::default()
                });
            }
            let Some(entry) = out.get_mut(at) else { continue };
            entry.programs += 1;
            entry.kernels.extend(kernels.get(&code.program).into_iter().flatten().cloned());
            entry.options.extend(
                definitions.build_options.get(&code.program).filter(|o| !o.is_empty()).cloned(),
            );
        }
    }
    for code in &mut out {
        match (&code.path, code.missing.is_empty()) {
            (Some(_), _) => code.missing.clear(),
            (None, true) => code.missing = "its file is not in the trace directory".to_owned(),
            (None, false) => {}
        }
    }
    out
}

/// Where a program's file lies, in the first trace that has it.
fn kept(files: &TraceFiles, hash: &str, language: &str) -> Option<PathBuf> {
    let name = program_file(hash, language)?;
    files
        .directories
        .iter()
        .map(|d| d.path.join(PROGRAMS).join(&name))
        .find(|path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file()))
}

/// A program's bytes, in the first trace that has them.
pub(crate) fn kept_text(files: &TraceFiles, hash: &str, language: &str) -> Option<Vec<u8>> {
    input::read_inside(&kept(files, hash, language)?, MOST_BYTES).ok()
}

/// A file name that says what is in it, of harmless characters alone.
fn file_name(code: &Code, ending: &str) -> String {
    let kernel = code.kernels.first().map_or("program", String::as_str);
    let kernel: String = kernel
        .chars()
        .take(40)
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' })
        .collect();
    let hash: String = code.hash.chars().take(12).collect();
    format!("{kernel}-{hash}.{ending}")
}

/// Who may read the trace that keeps it.
fn access(code: &Code) -> Access {
    let folder = code.path.as_deref().and_then(Path::parent);
    folder.map_or(Access::Private, Access::within)
}

/// Why programs were not written out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum ExtractError {
    /// The system refused.
    #[error("{attempt}")]
    System { attempt: String, source: io::Error },
    /// Nothing was made of any.
    #[error("no file was written, for the reasons above")]
    Nothing,
    /// There is none.
    #[error("the trace keeps no program; record it without `--without programs`")]
    None,
}

/// Writes programs into a folder, over nothing that is there, and says how many. Who may read them
/// is who may read the trace; the folder is made so, too, if it is not there. What the trace does
/// not keep is told of.
///
/// # Errors
/// If one cannot be read or written, or there is none.
pub fn extract(programs: &[Code], folder: &Path, tell: &dyn Fn(&str)) -> Result<u64, ExtractError> {
    write_each(programs, folder, tell, &|code, bytes| Ok((code.language.clone(), bytes)))
}

/// What is written of a program: the ending of its name, and the bytes; or why nothing is.
pub type Made = Result<(String, Vec<u8>), String>;

/// The same of what is made of each.
///
/// # Errors
/// If one cannot be read or written, or nothing was made of any.
pub fn write_each(
    programs: &[Code],
    folder: &Path,
    tell: &dyn Fn(&str),
    make: &dyn Fn(&Code, Vec<u8>) -> Made,
) -> Result<u64, ExtractError> {
    let attempt = |what: String| |source| ExtractError::System { attempt: what, source };
    let shown = folder.display();
    // Of several traces a folder lets in whom all of them let in.
    let all = if programs.iter().filter(|c| c.path.is_some()).all(|c| access(c) == Access::Umask) {
        Access::Umask
    } else {
        Access::Private
    };
    DirBuilder::new()
        .recursive(true)
        .mode(all.directory())
        .create(folder)
        .map_err(attempt(format!("cannot make the folder {shown}")))?;
    let mut written = 0;
    for code in programs {
        let (hash, language) = (&code.hash, &code.language);
        if code.path.is_none() {
            tell(&format!("{hash}.{language} is left out: {}", code.missing));
            continue;
        }
        let bytes =
            code.read().map_err(attempt(format!("cannot read {hash}.{language} of the trace")))?;
        let (ending, bytes) = match make(code, bytes) {
            Ok(made) => made,
            Err(why) => {
                tell(&format!("{hash}.{language} is left out: {why}"));
                continue;
            }
        };
        let path = folder.join(file_name(code, &ending));
        let shown = path.display();
        let mut file = create_new(&path, access(code))
            .map_err(attempt(format!("cannot write {shown}; choose another folder")))?;
        file.write_all(&bytes).map_err(attempt(format!("cannot write {shown}")))?;
        written += 1;
    }
    if written > 0 {
        return Ok(written);
    }
    let kept = programs.iter().any(|c| c.path.is_some());
    Err(if kept { ExtractError::Nothing } else { ExtractError::None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_lead_nowhere_else() {
        let code = Code {
            hash: "0123456789abcdef0123456789abcdef".to_owned(),
            language: "cl".to_owned(),
            kernels: [String::from("../../etc/x\u{1b}[31m")].into(),
            ..Code::default()
        };
        assert_eq!(file_name(&code, "cl"), "______etc_x__31m-0123456789ab.cl");
        assert_eq!(file_name(&Code::default(), "s"), "program-.s");
    }
}
