//! Owns DuckDB: where it is found, and one query in a process of it. It may read what the query names;
//! extensions are not fetched. Refuses to write: the query must be one that gives rows.

use crate::views::quoted;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Most bytes of the engine's messages that are kept.
const MESSAGES: u64 = 1 << 16;

/// Runs a script that comes on stdin. The working directory is not where modules are looked for: it
/// may be anyone's.
const PYTHON: &str = "import sys\nsys.path[:] = [p for p in sys.path if p]\nimport duckdb\nduckdb.connect().execute(sys.stdin.read())";
/// Whether it could.
const IMPORT: &str = "import sys\nsys.path[:] = [p for p in sys.path if p]\nimport duckdb";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// No engine.
    #[error(
        "DuckDB is needed and not there: neither the program duckdb on PATH, nor a python3 that can import duckdb; `pip install duckdb-cli` or `pip install duckdb` brings it, --engine names another place"
    )]
    NoEngine,
    /// The named engine does not run.
    #[error("cannot run {}", path.display())]
    NotRun {
        /// The engine.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The engine refused the query.
    #[error("DuckDB refused: {0}")]
    Refused(String),
    /// The answer could not be read.
    #[error("the answer of DuckDB cannot be read")]
    Read(#[from] std::io::Error),
}

/// How the engine writes its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// CSV with a line of names; null is this text.
    Csv {
        /// A text that no value has.
        null: String,
    },
    /// A JSON array of objects.
    Json,
}

/// DuckDB on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// Its own program.
    Program(PathBuf),
    /// A Python that has the module.
    Python(PathBuf),
}

impl Engine {
    /// The named one, told by its file name; else `duckdb`, else `python3`, on the search path.
    ///
    /// # Errors
    /// [`QueryError::NoEngine`].
    pub fn find(named: Option<&Path>) -> Result<Self, QueryError> {
        if let Some(path) = named {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let is_python = name.is_some_and(|name| name.starts_with("python"));
            let path = path.to_owned();
            return Ok(if is_python { Self::Python(path) } else { Self::Program(path) });
        }
        let works = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            let null = || Stdio::null();
            command.args(arguments).stdin(null()).stdout(null()).stderr(null());
            command.status().is_ok_and(|status| status.success())
        };
        if works("duckdb", &["--version"]) {
            return Ok(Self::Program("duckdb".into()));
        }
        match works("python3", &["-c", IMPORT]) {
            true => Ok(Self::Python("python3".into())),
            false => Err(QueryError::NoEngine),
        }
    }

    /// Begins a query behind the statements of `views`.
    ///
    /// # Errors
    /// If the engine does not run.
    pub fn ask(&self, views: &str, query: &str, form: &Form) -> Result<Answer, QueryError> {
        let script = script(views, query, form);
        let (path, arguments) = match self {
            Self::Program(path) => (path, &["-init", "/dev/null", "-bail"][..]),
            Self::Python(path) => (path, &["-c", PYTHON][..]),
        };
        let mut child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| QueryError::NotRun { path: path.clone(), error })?;
        if let Some(mut pipe) = child.stdin.take() {
            // An engine that ended before it had read all says why.
            let _ = pipe.write_all(script.as_bytes());
        }
        let messages = child.stderr.take().map(|pipe| {
            std::thread::spawn(move || {
                let (mut kept, mut pipe) = (Vec::new(), pipe);
                let _ = pipe.by_ref().take(MESSAGES).read_to_end(&mut kept);
                // An engine that says more must not wait for a reader.
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
                String::from_utf8_lossy(&kept).into_owned()
            })
        });
        let rows = child.stdout.take();
        Ok(Answer { child: Arc::new(Mutex::new(child)), rows, messages })
    }
}

fn held(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

fn script(views: &str, query: &str, form: &Form) -> String {
    let query = query.trim().trim_end_matches(';');
    let options = match form {
        Form::Csv { null } => format!("FORMAT csv, HEADER, NULLSTR {}", quoted(null)),
        Form::Json => "FORMAT json, ARRAY true".to_owned(),
    };
    // A comment at the query's end must not swallow what follows.
    format!(
        "SET autoinstall_known_extensions = false;\nSET autoload_known_extensions = false;\n{views}COPY ({query}\n) TO '/dev/stdout' ({options}, USE_TMP_FILE false);\n"
    )
}

/// An answer under way.
#[derive(Debug)]
pub struct Answer {
    child: Arc<Mutex<Child>>,
    rows: Option<ChildStdout>,
    messages: Option<JoinHandle<String>>,
}

impl Drop for Answer {
    /// An engine whose answer nobody waits for ends.
    fn drop(&mut self) {
        self.ender()();
        let _ = held(&self.child).wait();
    }
}

impl Answer {
    /// What ends the engine, from another thread too, if it has not ended.
    pub fn ender(&self) -> impl Fn() + Send + use<> {
        let child = self.child.clone();
        move || {
            let mut child = held(&child);
            if matches!(child.try_wait(), Ok(None)) {
                let _ = child.kill();
            }
        }
    }

    /// What the engine writes.
    pub fn rows(&mut self) -> impl Read + '_ {
        let none: Box<dyn Read> = Box::new(std::io::empty());
        self.rows.as_mut().map_or(none, |rows| Box::new(rows))
    }

    /// Waits for the engine's end.
    ///
    /// # Errors
    /// What the engine refused.
    pub fn finish(mut self) -> Result<(), QueryError> {
        drop(self.rows.take());
        let status = held(&self.child).wait()?;
        let said = self.messages.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        if status.success() {
            return Ok(());
        }
        Err(QueryError::Refused(reason(&said, &status.to_string())))
    }
}

/// The engine's own words, without what Python says of its stack.
fn reason(said: &str, status: &str) -> String {
    let kinds = ["Error:", "Exception:"];
    let from = said.lines().position(|line| kinds.iter().any(|kind| line.contains(kind)));
    let lines: Vec<&str> = said.lines().skip(from.unwrap_or(0)).take(6).map(str::trim).collect();
    let text = lines.join(" ").trim().to_owned();
    let text = text.split_once("duckdb.").map_or(text.as_str(), |(_, rest)| rest).to_owned();
    if text.is_empty() { format!("it ended with {status}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_ends_with_the_query_alone() {
        let text = script("CREATE VIEW a;\n", " SELECT 1 -- one ; ", &Form::Json);
        assert!(text.contains("COPY (SELECT 1 -- one \n) TO '/dev/stdout' (FORMAT json"), "{text}");
        let null = "it's".to_owned();
        assert!(script("", "SELECT 1;", &Form::Csv { null }).contains("NULLSTR 'it''s'"));
    }

    #[test]
    fn messages_keep_the_reason() {
        let python = "Traceback (most recent call last):\n  File \"<string>\", line 2\n_duckdb.BinderException: Binder Error: no column x\nLINE 1: SELECT x\n";
        assert_eq!(
            reason(python, ""),
            "BinderException: Binder Error: no column x LINE 1: SELECT x"
        );
        assert_eq!(reason("", "signal 9"), "it ended with signal 9");
    }

    #[test]
    fn an_engine_that_is_not_there_is_named() {
        let engine = Engine::find(Some(Path::new("/nonexistent/duckdb"))).unwrap();
        let error = engine.ask("", "SELECT 1", &Form::Json).unwrap_err();
        assert_eq!(error.to_string(), "cannot run /nonexistent/duckdb");
        let python = Engine::find(Some(Path::new("/x/python3.11"))).unwrap();
        assert_eq!(python, Engine::Python("/x/python3.11".into()));
    }
}
