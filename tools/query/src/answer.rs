//! An answer handed on: its first rows for people, all of it as CSV or JSON. What is not known
//! stays apart from every value. Refuses to lay out tables.

use crate::engine::{Answer, QueryError};
use crate::json::Strict;
use clscope_io::text::cell;
use std::io::{BufRead, BufReader, Write};

/// An answer could not be handed on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// There is none.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// It is no CSV, or none can be written.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// It cannot be read, or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The first rows of an answer.
#[derive(Debug, Default)]
pub struct Rows {
    /// Names of the columns; none where there is no answer.
    pub titles: Vec<String>,
    /// A dash is what is not known.
    pub rows: Vec<Vec<String>>,
    /// Rows that are left out.
    pub more: u64,
}

/// The first rows of an answer in CSV in which `null` is what is not known; all where the limit is
/// 0.
///
/// # Errors
/// If there is no answer, or it cannot be read.
pub fn rows(mut answer: Answer, null: &str, limit: usize) -> Result<Rows, AnswerError> {
    let mut out = Rows::default();
    {
        let mut all = csv::ReaderBuilder::new().flexible(true).from_reader(answer.rows());
        out.titles = all.headers()?.iter().map(str::to_owned).collect();
        for row in all.records() {
            let row = row?;
            if limit > 0 && out.rows.len() >= limit {
                out.more += 1;
                continue;
            }
            let shown = |field: &str| if field == null { "-".to_owned() } else { field.to_owned() };
            out.rows.push(row.iter().map(shown).collect());
        }
    }
    answer.finish()?;
    Ok(out)
}

/// Hands on an answer in CSV; what is not known is an empty cell.
///
/// # Errors
/// If there is no answer, or it cannot be read or written.
pub fn csv(mut answer: Answer, null: &str, out: &mut impl Write) -> Result<(), AnswerError> {
    let mut out = csv::Writer::from_writer(out);
    {
        let mut all =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(answer.rows());
        for row in all.records() {
            let row = row?;
            let shown =
                |field: &str| if field == null { String::new() } else { cell(field).into_owned() };
            out.write_record(row.iter().map(shown))?;
        }
    }
    out.flush()?;
    Ok(answer.finish()?)
}

/// Hands on an answer in JSON.
///
/// # Errors
/// If there is no answer, or it cannot be read or written.
pub fn json(mut answer: Answer, out: &mut impl Write) -> Result<(), AnswerError> {
    {
        let mut rows = BufReader::new(answer.rows());
        let (mut strict, mut line, mut shown) = (Strict::default(), Vec::new(), Vec::new());
        while rows.read_until(b'\n', &mut line)? > 0 {
            strict.add(&line, &mut shown);
            out.write_all(&shown)?;
            line.clear();
            shown.clear();
        }
    }
    out.flush()?;
    Ok(answer.finish()?)
}
