//! `clscope sql`: a question in SQL about traces. Owns its options, the tables that are written for
//! one question, and the layout of answers. Refuses to know SQL: DuckDB does.

use crate::output::{self, count};
use anyhow::{Context, Result, bail};
use clscope_capture::system::interrupt_flag;
use clscope_export::ExportError;
use clscope_export::parquet::{is_folder, known_schema};
use clscope_profile::names::Form as NamesForm;
use clscope_profile::profile::{Options, Profile};
use clscope_query::answer::{self, AnswerError};
use clscope_query::engine::Answer;
use clscope_query::{Engine, Form, RECIPES, explained, hints, views};
use clscope_text::table::Table;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is said where a signal came before the end.
const INTERRUPTED: &str = "interrupted: there is no whole answer";

/// Most bytes of a query from stdin.
const QUERY: u64 = 1 << 20;

/// Options of `clscope sql`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope sql 'SELECT name, count(*) FROM commands GROUP BY name'    of the newest trace
  clscope sql --recipe gaps run1.clscope run2.clscope                of two traces
  clscope sql --recipe imbalance data --format csv                   of tables that were exported
  clscope sql 'SELECT * FROM power WHERE watts > 300' data --format json | jq length

Tables: commands, calls, waits, kernels, energy, devices, queues, processes, sites, power, counters,
meta. `DESCRIBE commands` shows columns. DuckDB answers: `pip install duckdb-cli` brings it.
CLSCOPE_DUCKDB names its program, or a Python that has its module, where PATH has neither.")]
pub struct Args {
    /// The query, - for stdin; none with --recipe. Without both, the recipes are shown. Then traces, or one folder of `clscope export
    /// parquet` [default: the newest trace here]
    #[arg(value_name = "QUERY] [TRACE")]
    words: Vec<PathBuf>,
    /// A query by its name
    #[arg(long, value_name = "NAME", value_parser = RECIPES.map(|recipe| recipe.name))]
    recipe: Option<String>,
    /// How the answer is shown
    #[arg(long, value_enum, default_value_t = Shown::Text, value_name = "FORMAT")]
    format: Shown,
    /// Rows that are shown as text, 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    energy: crate::args::EnergyArgs,
    #[command(flatten)]
    progress: crate::progress::ProgressArgs,
}

/// How the answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Shown {
    /// A table for people
    Text,
    /// CSV; what is not known is an empty cell
    Csv,
    /// A JSON array of objects; what is not known or not finite is null
    Json,
}

/// Answers.
pub fn run(args: &Args) -> Result<()> {
    if args.recipe.is_none() && args.words.is_empty() {
        let mut out = output::screen();
        for recipe in &RECIPES {
            writeln!(out, "{}: {}", recipe.name, recipe.about)?;
            recipe.sql.lines().try_for_each(|line| writeln!(out, "    {line}"))?;
            writeln!(out)?;
        }
        return Ok(out.flush()?);
    }
    let (query, sources) = question(args)?;
    let named = std::env::var_os("CLSCOPE_DUCKDB").filter(|path| !path.is_empty());
    let engine =
        Engine::find(named.as_deref().map(Path::new)).context("cannot answer the query")?;
    let tables = Tables::collect(sources, args)?;
    // No value is this text: nobody knew it before.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let null = format!("null-{}-{now}", std::process::id());
    let form = match args.format {
        Shown::Json => Form::Json,
        Shown::Text | Shown::Csv => Form::Csv { null: null.clone() },
    };
    let interrupted = interrupt_flag().context("cannot take note of signals")?;
    for hint in hints(tables.folder(), &query)? {
        say!("note: {hint}");
    }
    let answer = engine.ask(&views(tables.folder()), &query, &form)?;
    let end = answer.ender();
    // It ends with this process.
    std::thread::spawn(move || {
        while !interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        end();
    });
    let shown = match args.format {
        Shown::Text => text(answer, &null, args.limit),
        Shown::Csv => answer::csv(answer, &null, &mut output::screen()).map_err(Into::into),
        Shown::Json => answer::json(answer, &mut output::json()).map_err(Into::into),
    };
    // Whoever read it has enough. The tables still go.
    let is_closed = |error: &anyhow::Error| {
        let below = || error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
        let io = match error.downcast_ref() {
            Some(AnswerError::Io(io)) => Some(io),
            _ => below(),
        };
        io.is_some_and(|io| io.kind() == ErrorKind::BrokenPipe)
    };
    if interrupted.load(Ordering::Relaxed) {
        bail!(INTERRUPTED);
    }
    match shown {
        Err(error) if is_closed(&error) => Ok(()),
        Err(error) => match error.downcast() {
            Ok(AnswerError::Query(error)) => Err(explained(error, tables.folder(), &query).into()),
            Ok(error) => Err(error.into()),
            Err(error) => Err(error),
        },
        shown => shown,
    }
}

/// The query and what it is asked of.
fn question(args: &Args) -> Result<(String, &[PathBuf])> {
    if let Some(name) = &args.recipe {
        let recipe = RECIPES.iter().find(|recipe| recipe.name == name);
        let sql = recipe.map(|recipe| recipe.sql.to_owned()).unwrap_or_default();
        return Ok((sql, &args.words));
    }
    let (query, sources) = args.words.split_first().context("no query")?;
    if query.as_os_str() == "-" {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(QUERY + 1).read_to_string(&mut text);
        read.context("cannot read the query from stdin")?;
        if text.len() as u64 > QUERY {
            bail!("the query on stdin has more than {QUERY} bytes");
        }
        return Ok((text, sources));
    }
    let query = query.to_str().context("the query is not in UTF-8")?;
    if Path::new(query).is_dir() {
        bail!("{query} is a folder: the query comes first, then the trace");
    }
    Ok((query.to_owned(), sources))
}

/// Where the tables are.
enum Tables {
    /// A folder that was exported before.
    Exported(PathBuf),
    /// Written for this question.
    Own(tempfile::TempDir),
}

impl Tables {
    fn collect(sources: &[PathBuf], args: &Args) -> Result<Self> {
        if let [only] = sources
            && is_folder(only)
        {
            // Its columns might mean something else.
            known_schema(only).with_context(|| format!("cannot ask {}", only.display()))?;
            return Ok(Self::Exported(only.clone()));
        }
        let profile = Profile::open(sources)?;
        let view = profile.view(Options {
            energy: args.energy.options(),
            name_sites: true,
            form: NamesForm::Recorded,
            ..Options::default()
        });
        crate::changed::say_changes(&view);
        let progress = args.progress.start("reads records");
        let running = view.times().running();
        drop(progress);
        if let Some(text) = running {
            say!("note: {text}");
        }
        let _progress = args.progress.start("writes tables for the query");
        let own = tempfile::tempdir().context("cannot make a folder for the tables")?;
        match crate::export::parquet::write(&view, &profile.files().names(), &[], own.path())? {
            Ok(_) => Ok(Self::Own(own)),
            Err(ExportError::Interrupted) => bail!(INTERRUPTED),
            Err(error) => Err(error).with_context(|| {
                let at = own.path().display();
                format!("cannot write the tables for the query to {at}; TMPDIR names another place")
            }),
        }
    }

    fn folder(&self) -> &Path {
        match self {
            Self::Exported(path) => path,
            Self::Own(folder) => folder.path(),
        }
    }
}

fn text(answer: Answer, null: &str, limit: usize) -> Result<()> {
    let found = answer::rows(answer, null, limit)?;
    if !found.titles.is_empty() {
        let titles: Vec<&str> = found.titles.iter().map(String::as_str).collect();
        let mut table = Table::new(&titles);
        found.rows.into_iter().for_each(|row| table.row(row));
        let lines = table.render(output::terminal_width());
        // Rows stay whole, however many columns were asked for.
        let mut out = output::screen();
        out.write_all(lines.as_bytes())?;
        out.flush()?;
    }
    if found.more > 0 {
        say!("and {}: --limit 0 shows all", count(found.more, "more row", "more rows"));
    }
    Ok(())
}
