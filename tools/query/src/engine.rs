//! Owns DuckDB: where it is found, whether it is one, and one query in a process of it. It may read
//! what the query names; extensions are not fetched. Refuses to write: DuckDB takes the query as
//! the argument of its function `query`, which answers one SELECT and nothing else, and its
//! settings are locked before.

use crate::views::quoted;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Most bytes of the engine's messages that are kept.
const MESSAGES: u64 = 1 << 16;

/// Most bytes that an engine answers to the question whether it is one.
const GREETING: u64 = 1 << 12;

/// Runs a script that comes on stdin. The working directory is not where modules are looked for: it
/// may be anyone's.
const PYTHON: &str = "import sys\nsys.path[:] = [p for p in sys.path if p]\nimport duckdb\nduckdb.connect().execute(sys.stdin.read())";

/// What brings DuckDB.
const BRINGS: &str = "`pip install duckdb-cli` brings the program duckdb, `pip install duckdb` a module of Python; CLSCOPE_DUCKDB names the program or the Python";

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum QueryError {
    /// No engine.
    #[error(
        "DuckDB answers queries, and is not there: neither a program duckdb on PATH, nor a python3 that can import duckdb; {BRINGS}"
    )]
    NoEngine,
    /// The named engine does not run.
    #[error("cannot run {} as DuckDB; {BRINGS}", path.display())]
    NotRun {
        /// The engine.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The named engine is something else.
    #[error("{} does not answer as DuckDB does ({said}); {BRINGS}", path.display())]
    NotDuckDb { path: PathBuf, said: String },
    /// It lacks what keeps queries from writing.
    #[error(
        "{} is a DuckDB before 1.1, which cannot be kept from writing; {BRINGS}", path.display()
    )]
    TooOld { path: PathBuf },
    /// The query is a statement that changes something, or several.
    #[error(
        "a query is one statement that gives rows (SELECT, WITH, FROM, VALUES, DESCRIBE, SUMMARIZE, SHOW TABLES), and this is another, or several: nothing is changed or written here; `clscope sql --format csv QUERY > FILE` keeps an answer, `clscope export parquet` the tables"
    )]
    NotAQuery,
    /// The engine refused the query.
    #[error("DuckDB refused the query: {0}")]
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
    /// The named one, a Python by its file name; else `duckdb`, else `python3`, on the search path.
    /// It has answered a question when this returns.
    ///
    /// # Errors
    /// If there is none, or the named one is something else.
    pub fn find(named: Option<&Path>) -> Result<Self, QueryError> {
        if let Some(path) = named {
            let name = path.file_name().map(|name| name.to_string_lossy());
            let is_python = name.is_some_and(|name| name.starts_with("python"));
            let path = path.to_owned();
            let engine = if is_python { Self::Python(path) } else { Self::Program(path) };
            return engine.greet().map(|()| engine);
        }
        let usual = [Self::Program("duckdb".into()), Self::Python("python3".into())];
        let mut found = Err(QueryError::NoEngine);
        for engine in usual {
            match engine.greet() {
                Ok(()) => return Ok(engine),
                // It is DuckDB; the other may be a newer one.
                Err(old @ QueryError::TooOld { .. }) => found = Err(old),
                Err(_) => {}
            }
        }
        found
    }

    fn path(&self) -> &Path {
        match self {
            Self::Program(path) | Self::Python(path) => path,
        }
    }

    /// Asks for a product: what only repeats or ignores the question does not give it.
    fn greet(&self) -> Result<(), QueryError> {
        let null = String::new();
        let question = "SELECT 'product ' || (6 * 7) AS answer";
        let mut answer = self.ask("", question, &Form::Csv { null })?;
        let mut said = Vec::new();
        let read = answer.rows().take(GREETING).read_to_end(&mut said);
        // One that goes on for ever has said enough.
        if said.len() as u64 == GREETING {
            answer.ender()();
        }
        let ended = answer.finish();
        read?;
        if ended.is_ok() && said == b"answer\nproduct 42\n" {
            return Ok(());
        }
        let path = self.path().to_owned();
        let said = match ended {
            Err(QueryError::Refused(why)) if is_too_old(&why) => {
                return Err(QueryError::TooOld { path });
            }
            Err(QueryError::Refused(why)) => why,
            Err(other) => return Err(other),
            Ok(()) => "it ended without the answer".to_owned(),
        };
        Err(QueryError::NotDuckDb { path, said })
    }

    /// Begins a query behind the statements of `views`.
    ///
    /// # Errors
    /// If the engine does not run, or the query would have it write.
    pub fn ask(&self, views: &str, query: &str, form: &Form) -> Result<Answer, QueryError> {
        // The one function that older versions let write files, for all that settings are locked.
        if query.to_ascii_lowercase().contains("enable_logging") {
            return Err(QueryError::NotAQuery);
        }
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
    let query = quoted(query);
    // Newer versions show on stdout, among the rows, how far they are.
    format!(
        "SET enable_progress_bar = false;\nSET autoinstall_known_extensions = false;\nSET autoload_known_extensions = false;\n{views}SET lock_configuration = true;\nCOPY (SELECT * FROM query({query})) TO '/dev/stdout' ({options}, USE_TMP_FILE false);\n"
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
        let why = reason(&said, &status.to_string());
        Err(match why.contains("Expected a single SELECT statement") {
            true => QueryError::NotAQuery,
            false => QueryError::Refused(why),
        })
    }
}

/// Whether a refusal is that of a DuckDB without the function `query`.
fn is_too_old(why: &str) -> bool {
    why.contains("Table Function with name query does not exist")
}

/// The table that a refusal says there is none of.
pub fn missing_table(refusal: &str) -> Option<&str> {
    let (_, after) = refusal.split_once("Table with name ")?;
    after.split_once(" does not exist").map(|(name, _)| name.trim_matches('"'))
}

/// The engine's own words, without what Python says of its stack, and without the statement around
/// the query, in which it shows the place.
fn reason(said: &str, status: &str) -> String {
    let kinds = ["Error:", "Exception:"];
    let from = said.lines().position(|line| kinds.iter().any(|kind| line.contains(kind)));
    let own = said.lines().skip(from.unwrap_or(0));
    let own = own.take_while(|line| !line.trim_start().starts_with("LINE "));
    let lines: Vec<&str> = own.take(6).map(str::trim).collect();
    let text = lines.join(" ").trim().to_owned();
    let text = text.split_once("duckdb.").map_or(text.as_str(), |(_, rest)| rest).to_owned();
    if text.is_empty() { format!("it ended with {status}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_an_argument_and_no_part_of_the_script() {
        let text = script("CREATE VIEW a;\n", " SELECT 1 -- one ; ", &Form::Json);
        let asked = "COPY (SELECT * FROM query('SELECT 1 -- one ')) TO '/dev/stdout' (FORMAT json";
        assert!(text.contains(asked), "{text}");
        let (views, locked) = (text.find("CREATE VIEW"), text.find("lock_configuration = true"));
        assert!(views < locked && locked < text.find("COPY"), "{text}");
        // What an engine shows of its progress would be among the rows.
        assert!(text.starts_with("SET enable_progress_bar = false;\n"), "{text}");
        let null = "it's".to_owned();
        let text = script("", "SELECT 'a') TO '/tmp/x'; --", &Form::Csv { null });
        assert!(text.contains("NULLSTR 'it''s'"), "{text}");
        assert!(text.contains("query('SELECT ''a'') TO ''/tmp/x''; --')"), "{text}");
    }

    #[test]
    fn messages_keep_the_reason() {
        let python = "Traceback (most recent call last):\n  File \"<string>\", line 2\n_duckdb.BinderException: Binder Error: no column x\nCandidate bindings: \"a\"\n\nLINE 1: COPY (SELECT x\n    ^\n";
        assert_eq!(
            reason(python, ""),
            "BinderException: Binder Error: no column x Candidate bindings: \"a\""
        );
        assert_eq!(reason("", "signal 9"), "it ended with signal 9");
        let refused = "Catalog Error: Table with name power does not exist! Did you mean";
        assert_eq!(missing_table(refused), Some("power"));
        assert_eq!(missing_table("Binder Error: no column x"), None);
    }

    #[test]
    fn an_engine_that_is_not_there_or_is_none_is_named() {
        let told = |path: &str| Engine::find(Some(Path::new(path))).unwrap_err().to_string();
        let absent = told("/nonexistent/duckdb");
        assert!(absent.starts_with("cannot run /nonexistent/duckdb as DuckDB"), "{absent}");
        for other in ["/bin/true", "/bin/false", "/bin/cat"] {
            let told = told(other);
            assert!(told.starts_with(&format!("{other} does not answer as DuckDB")), "{told}");
            assert!(told.contains("pip install duckdb-cli"), "{told}");
        }
    }
}
