//! Owns what this command says: the one way to stdout, messages to stderr, prefixed because an
//! application may share the terminal, and files that appear whole or not at all. Refuses to fail
//! because its output is closed, and to let a control character of a trace reach a terminal.

use anyhow::{Context, Result};
use clscope_io::output::{Access, Whole};
use clscope_io::text::{Form, Screen, line};
use clscope_text::report::first;
use clscope_text::table::wrapped;
use std::fmt::Display;
use std::io::{BufWriter, StdoutLock, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use clscope_io::text::count;

/// Standard output for people: buffered, and without control characters from names in a trace.
pub fn screen() -> Screen<BufWriter<StdoutLock<'static>>> {
    stdout(Form::Text)
}

/// Standard output for JSON, which stays exact.
pub fn json() -> Screen<BufWriter<StdoutLock<'static>>> {
    stdout(Form::Json)
}

/// Standard output for people who read sentences and tables: [`screen`], with lines that are wider
/// than the terminal broken between words.
pub fn prose() -> Wrapping<Screen<BufWriter<StdoutLock<'static>>>> {
    Wrapping::new(screen(), terminal_width())
}

/// Shows people what `write` writes, as [`prose`] does.
///
/// # Errors
/// If it cannot be written.
pub fn show<E>(
    write: impl FnOnce(&mut Wrapping<Screen<BufWriter<StdoutLock<'static>>>>) -> Result<(), E>,
) -> Result<()>
where
    anyhow::Error: From<E>,
{
    let mut out = prose();
    write(&mut out)?;
    Ok(out.flush()?)
}

/// Shows people a text, no wider than the terminal.
///
/// # Errors
/// If it cannot be written.
pub fn show_text(text: &str) -> Result<()> {
    show(|out| out.write_all(text.as_bytes()))
}

/// Prints a document as JSON.
///
/// # Errors
/// If it cannot be written.
pub fn show_json(document: &impl serde::Serialize) -> Result<()> {
    let mut out = json();
    put_json(&mut out, document)?;
    Ok(out.flush()?)
}

/// Writes a document as JSON that people can read, and the end of its line.
///
/// # Errors
/// If it cannot be written.
pub fn put_json(out: &mut dyn Write, document: &impl serde::Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    Ok(writeln!(out)?)
}

/// Columns of the terminal that standard output is; where it is none, what COLUMNS says.
pub fn terminal_columns() -> Option<usize> {
    columns_of(&std::io::stdout())
}

/// Columns that outputs for people have: the terminal's, or 80; not fewer than a table needs.
pub fn terminal_width() -> usize {
    terminal_columns().unwrap_or(first::COLUMNS).max(first::NARROWEST)
}

/// The same of the terminal that standard error is.
pub fn error_width() -> usize {
    columns_of(&std::io::stderr()).unwrap_or(first::COLUMNS).max(first::NARROWEST)
}

fn columns_of(stream: &impl AsFd) -> Option<usize> {
    let asked = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0);
    terminal_size::terminal_size_of(stream).map(|(width, _)| usize::from(width.0)).or_else(asked)
}

/// A writer that breaks long lines between words, as `wrapped` does. A line is written when it is
/// complete.
pub struct Wrapping<W: Write> {
    to: W,
    width: usize,
    line: Vec<u8>,
}

impl<W: Write> Wrapping<W> {
    fn new(to: W, width: usize) -> Self {
        Self { to, width, line: Vec::new() }
    }
}

impl<W: Write> Write for Wrapping<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let text = String::from_utf8_lossy(&line);
                self.to.write_all(wrapped(&text, self.width).as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    /// What is left of a line without an end is written as it is.
    fn flush(&mut self) -> std::io::Result<()> {
        self.to.write_all(&std::mem::take(&mut self.line))?;
        self.to.flush()
    }
}

/// Standard output for a file that is piped on: JSON, or bytes as they are.
pub fn file_to_stdout(is_json: bool) -> Box<dyn Write> {
    if is_json { Box::new(json()) } else { Box::new(BufWriter::new(std::io::stdout().lock())) }
}

fn stdout(form: Form) -> Screen<BufWriter<StdoutLock<'static>>> {
    Screen::new(BufWriter::with_capacity(1 << 17, std::io::stdout().lock()), form)
}

/// One message on stderr, on one line. A closed stderr is no reason to end: the application's exit
/// code must still come through.
pub fn say(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "clscope: {}", line(&text.to_string()));
}

/// Between two lines of progress where nobody looks on.
const PACE: Duration = Duration::from_secs(10);

/// When a line of progress was last shown.
static SHOWN: Mutex<Option<Instant>> = Mutex::new(None);

/// A line on stderr about something that takes its time: on a terminal the next takes its place, and
/// nothing takes it away; elsewhere one is written now and then.
pub fn progress(text: Option<&dyn Display>) {
    use std::io::IsTerminal;
    let is_terminal = std::io::stderr().is_terminal();
    let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match text {
        Some(text) if is_terminal => {
            *shown = Some(Instant::now());
            let text = text.to_string();
            let _ = write!(std::io::stderr(), "\r\u{1b}[Kclscope: {}", line(&text));
        }
        Some(text) if shown.is_none_or(|at| at.elapsed() >= PACE) => {
            *shown = Some(Instant::now());
            say(text);
        }
        None if is_terminal && shown.take().is_some() => {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
        Some(_) | None => {}
    }
}

/// Moves on to a line of our own where an application that shares stderr may have ended in the
/// middle of one. A pipe does not say what was written to it last: there an empty line may come of
/// it.
pub fn own_line() {
    use std::io::IsTerminal;
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // As many blanks as fill a line: from its beginning they stay on it, from its middle they
        // reach the next, and the return leads to the beginning of either.
        if let Some((terminal_size::Width(columns), _)) = terminal_size::terminal_size_of(&stderr) {
            let blanks = " ".repeat(usize::from(columns).saturating_sub(1));
            let _ = write!(stderr, "{blanks}\r");
        }
    } else if !at_a_lines_beginning(Path::new("/proc/self/fd/2")).unwrap_or(false) {
        let _ = writeln!(stderr);
    }
}

/// Whether what is written next to a path begins a line.
///
/// # Errors
/// If that cannot be known: it is no regular file, or may not be read.
fn at_a_lines_beginning(path: &Path) -> std::io::Result<bool> {
    use std::io::{Error, ErrorKind, Read, Seek, SeekFrom};
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        return Err(Error::from(ErrorKind::Unsupported));
    }
    if found.len() == 0 {
        return Ok(true);
    }
    let mut file = std::fs::File::open(path)?;
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Writes a file under a temporary name beside it and renames it, so that no reader ever sees half
/// of it. What stands at the name is replaced only if it is a regular file of the user's own.
///
/// # Errors
/// If the file cannot be made, written or renamed, or if `write` fails; the temporary file is
/// removed then.
pub fn write_whole<T>(target: &Path, write: impl FnOnce(&mut Whole) -> Result<T>) -> Result<T> {
    // The signal would leave the half of a file.
    clscope_capture::system::fail_beyond_file_size();
    let shown = target.display();
    let mut out = Whole::create(target, Access::Umask)
        .with_context(|| format!("cannot write {shown}; choose another place"))?;
    let result = write(&mut out).with_context(|| format!("cannot write {shown}"))?;
    out.finish().with_context(|| format!("cannot write {shown}"))?;
    Ok(result)
}

/// Whether [`write_whole`] can write there, as far as that is known beforehand.
///
/// # Errors
/// Why not.
pub fn check(target: &Path) -> Result<()> {
    let shown = target.display();
    // Its temporary file is removed again.
    Whole::create(target, Access::Umask)
        .map(drop)
        .with_context(|| format!("cannot write {shown}; choose another place"))
}

/// Writes a text, or a JSON document, to a file or else to stdout. `what` names it in errors.
///
/// # Errors
/// If it cannot be written.
pub fn write_to(
    target: Option<&Path>,
    is_json: bool,
    what: &str,
    write: impl Fn(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let stdout = |out: &mut dyn Write| {
        write(out)
            .and_then(|()| Ok(out.flush()?))
            .with_context(|| format!("could not write {what}"))
    };
    match target {
        Some(path) => write_whole(path, |out| write(out).and_then(|()| Ok(out.flush()?))),
        None if is_json => stdout(&mut json()),
        None => stdout(&mut screen()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_when_they_are_complete() {
        let mut out = Wrapping::new(Vec::new(), 20);
        for piece in ["some words ", "that do not", " fit\nshort\n", "no end"] {
            out.write_all(piece.as_bytes()).unwrap();
        }
        assert_eq!(out.to, b"some words that do\n  not fit\nshort\n");
        out.flush().unwrap();
        assert!(out.to.ends_with(b"short\nno end"));
    }

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
