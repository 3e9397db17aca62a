//! Owns the statements that make a view of each table of a folder: its name is the table's. A table
//! that was not written has no view: of what was not asked for, no row is no answer. Refuses parts
//! of another schema, which somebody may have put beside the folder's own: their columns may mean
//! something else.

use clscope_export::parquet::read;
use clscope_export::parquet::schema::{Kind, SCHEMA, TABLES, Table};
use std::fmt::Write;
use std::path::Path;

/// Statements for the tables in a folder of `clscope export parquet`.
pub fn views(folder: &Path) -> String {
    let mut out = String::new();
    for table in TABLES.iter() {
        let files = folder.join(table.name);
        if !read::parts(folder, table.name).is_empty() {
            let glob = quoted(&format!("{}/*.parquet", literal(&files.to_string_lossy())));
            let name = table.name;
            let _ = writeln!(
                out,
                "CREATE OR REPLACE TEMP TABLE clscope_parts AS \
                 SELECT error(file_name || ' is a part of schema ' || decode(value) || \
                 ', and this version knows schema {SCHEMA}: move it to a folder of its own') \
                 AS told FROM parquet_kv_metadata({glob}) \
                 WHERE decode(key) = 'clscope.schema' AND decode(value) <> '{SCHEMA}';\n\
                 DROP TABLE clscope_parts;\n\
                 CREATE VIEW {name} AS \
                 SELECT * FROM read_parquet({glob}, union_by_name = true) \
                 UNION ALL BY NAME SELECT {} WHERE false;",
                nulls(table)
            );
        }
    }
    out
}

/// The columns of a table without a value: where older parts alone lack one, it is null, not
/// unknown to the query.
fn nulls(table: &Table) -> String {
    let of = table.columns.iter().map(|column| {
        let kind = match column.kind {
            Kind::Long => "BIGINT",
            Kind::Small => "INTEGER",
            Kind::Float => "FLOAT",
            Kind::Double => "DOUBLE",
            Kind::Flag => "BOOLEAN",
            Kind::Text => "VARCHAR",
        };
        format!("NULL::{kind} AS \"{}\"", column.name)
    });
    of.collect::<Vec<_>>().join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_that_was_written_has_a_view_and_names_are_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("it's[1]");
        std::fs::create_dir_all(inner.join("calls")).unwrap();
        let part = inner.join("commands");
        std::fs::create_dir_all(&part).unwrap();
        std::fs::write(part.join("p.parquet"), "").unwrap();
        let all = views(&inner);
        assert!(all.contains("CREATE VIEW commands AS"), "{all}");
        assert!(all.contains("it''s[[]1]/commands/*.parquet', union_by_name = true)"), "{all}");
        assert!(!all.contains("calls"), "a folder without a part is no table: {all}");
        assert!(!all.contains("VIEW power"), "{all}");
    }
}
