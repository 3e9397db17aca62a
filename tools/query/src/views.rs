//! Owns the statements that make a view of each table of a folder: its name is the table's. Refuses to
//! fail for a table that was not written: its view has the columns and no row.

use clscope_export::parquet::schema::{Kind, TABLES, Table};
use std::fmt::Write;
use std::path::Path;

/// Statements for the tables in a folder of `clscope export parquet`.
#[must_use]
pub fn views(folder: &Path) -> String {
    let mut out = String::new();
    for table in &TABLES {
        let files = folder.join(table.name);
        let _ = if files.is_dir() {
            let by = if table.by_rank {
                ", hive_partitioning = true, hive_types = {'host': VARCHAR, 'rank': BIGINT}"
            } else {
                ""
            };
            let glob = format!("{}/**/*.parquet", literal(&files.to_string_lossy()));
            writeln!(
                out,
                "CREATE VIEW {} AS SELECT * FROM read_parquet({}, union_by_name = true{by});",
                table.name,
                quoted(&glob),
            )
        } else {
            writeln!(out, "CREATE VIEW {} AS SELECT {} WHERE false;", table.name, empty(table))
        };
    }
    out
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
        std::fs::create_dir_all(inner.join("commands")).unwrap();
        let all = views(&inner);
        for table in &TABLES {
            assert!(all.contains(&format!("CREATE VIEW {} AS", table.name)), "{}", table.name);
        }
        assert!(
            all.contains("it''s[[]1]/commands/**/*.parquet', union_by_name = true, hive"),
            "{all}"
        );
        assert!(all.contains("NULL::BIGINT AS \"rank\" WHERE false"), "{all}");
    }
}
