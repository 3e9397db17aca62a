//! Owns the statements that make a view of each table of a folder: its name is the table's. Refuses
//! to fail for a table that was not written: its view has the columns and no row. Refuses parts of
//! another schema, which somebody may have put beside the folder's own: their columns may mean
//! something else.

use clscope_export::parquet::schema::{Kind, SCHEMA, TABLES, Table};
use std::fmt::Write;
use std::path::Path;

/// Statements for the tables in a folder of `clscope export parquet`.
#[must_use]
pub fn views(folder: &Path) -> String {
    let mut out = String::new();
    for table in &TABLES {
        let files = folder.join(table.name);
        let _ = if has_parts(&files, 0) {
            let by = if table.by_rank {
                ", hive_partitioning = true, hive_types = {'host': VARCHAR, 'rank': BIGINT}"
            } else {
                ""
            };
            let glob = quoted(&format!("{}/**/*.parquet", literal(&files.to_string_lossy())));
            let name = table.name;
            writeln!(
                out,
                "CREATE OR REPLACE TEMP TABLE clscope_parts AS \
                 SELECT error(file_name || ' is a part of schema ' || decode(value) || \
                 ', and this version knows schema {SCHEMA}: move it to a folder of its own') \
                 AS told FROM parquet_kv_metadata({glob}) \
                 WHERE decode(key) = 'clscope.schema' AND decode(value) <> '{SCHEMA}';\n\
                 CREATE VIEW {name} AS \
                 SELECT * FROM read_parquet({glob}, union_by_name = true{by});"
            )
        } else {
            writeln!(out, "CREATE VIEW {} AS SELECT {} WHERE false;", table.name, empty(table))
        };
    }
    out
}

/// Partitions below a table's folder: its host and its rank.
const LEVELS: u32 = 2;

/// Whether a part lies in a table's folder; an export that found no room may leave none.
fn has_parts(folder: &Path, level: u32) -> bool {
    std::fs::read_dir(folder).is_ok_and(|entries| {
        entries.filter_map(Result::ok).map(|entry| entry.path()).any(|path| {
            let named = path.extension().is_some_and(|ending| ending == "parquet");
            (named && path.is_file()) || (level < LEVELS && has_parts(&path, level + 1))
        })
    })
}

/// A path in a pattern that means itself.
fn literal(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '[' | '*' | '?' => out.extend(['[', c, ']']),
            c => out.push(c),
        }
    }
    out
}

/// A text as SQL writes it.
pub fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn empty(table: &Table) -> String {
    let of = |kind| match kind {
        Kind::Stamp | Kind::Integer => "BIGINT",
        Kind::Small => "INTEGER",
        Kind::Float => "FLOAT",
        Kind::Double => "DOUBLE",
        Kind::Flag => "BOOLEAN",
        Kind::Text => "VARCHAR",
    };
    let own = table.columns.iter().map(|column| (column.name, of(column.kind)));
    let by: &[(&str, &str)] =
        if table.by_rank { &[("host", "VARCHAR"), ("rank", "BIGINT")] } else { &[] };
    let columns: Vec<String> = own
        .chain(by.iter().copied())
        .map(|(name, kind)| format!("NULL::{kind} AS \"{name}\""))
        .collect();
    columns.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_a_view_and_names_are_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("it's[1]");
        std::fs::create_dir_all(inner.join("calls/host=h/rank=1")).unwrap();
        let part = inner.join("commands/host=h/rank=1");
        std::fs::create_dir_all(&part).unwrap();
        std::fs::write(part.join("p.parquet"), "").unwrap();
        let all = views(&inner);
        for table in &TABLES {
            assert!(all.contains(&format!("CREATE VIEW {} AS", table.name)), "{}", table.name);
        }
        assert!(
            all.contains("it''s[[]1]/commands/**/*.parquet', union_by_name = true, hive"),
            "{all}"
        );
        assert!(all.contains("NULL::BIGINT AS \"rank\" WHERE false"), "{all}");
        assert!(!all.contains("/calls/**"), "a folder without a part is a table without a row");
    }
}
