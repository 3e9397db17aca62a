//! A capture as a program that stands alone, for a bug report: it runs the launch, checks the
//! result and prints its time, and needs nothing of clscope. Owns the folder and its data files;
//! refuses to write over anything, and to put a name from a capture into a program as anything but
//! a literal.

mod c;
mod python;

use crate::capture::{Given, Launch, Memory, MemoryKind, ProgramFile};
use crate::order;
use crate::read::{Capture, CaptureError, inside};
use crate::stage::Form;
use clscope_io::output::{Access, create_dir, create_new};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Folder with the headers that the program includes.
const HEADERS: &str = "headers";

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// A script for PyOpenCL.
    PyOpenCl,
    /// A file of C99 and a makefile.
    C,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum ExportError {
    /// The capture.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The system.
    #[error("cannot write {path}: {why}; name another folder with -o")]
    Write { path: String, why: io::Error },
    /// It cannot be expressed.
    #[error("{what}, which a program in {language} is not made of here; {next}")]
    Unsupported { what: String, language: &'static str, next: &'static str },
}

/// What a program is written of: the capture under names that are known to be harmless.
struct Parts<'c> {
    launch: &'c Launch,
    form: Form,
    /// The program's file in the folder.
    program: &'static str,
    /// Its size.
    bytes: u64,
    /// Whether headers lie in `headers`.
    has_headers: bool,
    /// What it has of atomics, in words; empty where none is known.
    atomics: String,
}

impl Parts<'_> {
    /// Build options, as the program gives them.
    fn options(&self) -> String {
        let own = &self.launch.program.options;
        if self.has_headers { format!("{own} -I {HEADERS}") } else { own.clone() }
    }
}

/// File with a memory's bytes before the launch.
fn before(memory: &Memory) -> String {
    format!("memory-{}.before", memory.id)
}

/// File with a memory's bytes after the launch.
fn after(memory: &Memory) -> String {
    format!("memory-{}.after", memory.id)
}

/// Text in a comment: one line, and nothing that ends a comment.
fn comment(text: &str) -> String {
    // What ends a comment goes last: what goes before may leave it.
    let mut out = clscope_io::text::line(text).replace('\\', "/");
    while out.contains("??/") {
        out = out.replace("??/", "/");
    }
    out.replace("*/", "* /")
}

/// A text with values in the places of their names, which stand between signs `@`. What a value
/// contains is no name.
fn filled(text: &str, values: &[(&str, String)]) -> String {
    let value = |(at, part)| {
        let named = values.iter().find(|(name, _)| at % 2 == 1 && *name == part);
        named.map_or(part, |(_, value)| value.as_str())
    };
    text.split('@').enumerate().map(value).collect()
}

/// Where the launch was captured, for a comment.
fn origin(launch: &Launch) -> String {
    comment(&format!(
        "Launch {} of {}, captured by clscope {} on {} ({}, driver {}).",
        launch.launch,
        launch.kernel,
        launch.clscope,
        launch.device.name,
        launch.platform.name,
        launch.device.driver
    ))
}

/// Memories that are given as this argument, whole or as a part: `(memory, offset, size)` of a
/// part.
fn part_of<'l>(launch: &'l Launch, given: &Given) -> Option<(&'l Memory, u64, u64)> {
    let Given::Memory { memory, offset, size, .. } = given else { return None };
    let memory = launch.memory(*memory)?;
    let whole = *offset == 0 && *size == memory.bytes;
    (memory.kind == MemoryKind::Buffer && !whole).then_some((memory, *offset, *size))
}

/// What an image is another view of, and where in it: a memory that comes before it.
fn view<'l>(launch: &'l Launch, of: &Memory) -> Option<(&'l Memory, u64)> {
    let image = of.image.as_ref()?;
    let memory = launch.memory(image.of_memory?)?;
    Some((memory, image.of_offset.unwrap_or(0).min(memory.bytes)))
}

/// Writes a program with its data into a new folder; gives the names of what to read first.
///
/// # Errors
/// If the folder is there, cannot be made or filled, or the capture cannot be read.
pub fn export(
    capture: &Capture,
    language: Language,
    folder: &Path,
) -> Result<Vec<PathBuf>, ExportError> {
    let launch = &capture.launch;
    let forms = [
        (Form::Source, "opencl-c", "program.cl"),
        (Form::Il, "spirv", "program.spv"),
        (Form::Binary, "binary", "program.bin"),
    ];
    let found = forms.iter().find_map(|(form, language, name)| {
        let mut own = launch.program.own_files();
        own.find(|file| file.language == *language).map(|file| (*form, *name, file))
    });
    let Some((form, program, file)) = found else {
        return Err(ExportError::Unsupported {
            what: "the capture has no program".to_owned(),
            language: "any language",
            next: "record the application again",
        });
    };
    let headers: Vec<(&str, &ProgramFile)> = match form {
        Form::Source => launch.program.headers().collect(),
        _ => Vec::new(),
    };
    if let Some((name, _)) = headers.iter().find(|(name, _)| inside(name).is_err()) {
        return Err(ExportError::Unsupported {
            what: format!("the program includes a header as {}", clscope_io::text::line(name)),
            language: "any language",
            next: "copy the text into the source by hand",
        });
    }
    // Read first: a damaged capture leaves no folder.
    let text = capture.program(file)?;
    let atomics = order::atomics(form, &text).unwrap_or_default();
    let has_headers = !headers.is_empty();
    let parts = Parts { launch, form, program, bytes: file.bytes, has_headers, atomics };
    let texts = match language {
        Language::PyOpenCl => python::files(&parts)?,
        Language::C => c::files(&parts),
    };
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |why| ExportError::Write { path, why }
    };
    let make = |path: &Path| create_dir(path, Access::Umask).map_err(failed(path));
    let put = |name: &str, content: &[u8]| -> Result<PathBuf, ExportError> {
        let path = folder.join(name);
        let mut file = create_new(&path, Access::Umask).map_err(failed(&path))?;
        file.write_all(content).map_err(failed(&path))?;
        Ok(path)
    };
    make(folder)?;
    put(program, &text)?;
    for (name, header) in headers {
        // Checked above to have plain parts alone.
        let name = format!("{HEADERS}/{name}");
        let path = folder.join(&name);
        for above in path
            .ancestors()
            .skip(1)
            .take_while(|above| *above != folder)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
        {
            if !above.is_dir() {
                make(above)?;
            }
        }
        put(&name, &capture.program(header)?)?;
    }
    for memory in &launch.memories {
        put(&before(memory), &capture.before(memory)?)?;
        if let Some(bytes) = capture.after(memory)? {
            put(&after(memory), &bytes)?;
        }
    }
    texts.into_iter().map(|(name, text)| put(name, text.as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_comment() {
        for text in ["*/", "*\\", "*??//", "*????//", "x*\\ int injected; /*", "a\n*/"] {
            let shown = comment(text);
            let ends = ["*/", "\\", "\n", "??/"].iter().any(|end| shown.contains(end));
            assert!(!ends, "{text:?}: {shown:?}");
        }
    }
}
