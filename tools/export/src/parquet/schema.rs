//! Owns the tables' names, columns, units and meanings, which `tools/export/parquet.schema.txt`
//! lists: that text is the schema, and is read here. It is only ever added to. Refuses to hold
//! values.

use std::sync::LazyLock;

/// Version of the schema. It is raised when a column changes its meaning or goes; new tables and
/// columns may come at any time.
pub const SCHEMA: u32 = 2;

const TEXT: &str = include_str!("../../parquet.schema.txt");

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit integers.
    Long,
    /// 32-bit integers.
    Small,
    /// 32-bit floating point.
    Float,
    /// 64-bit floating point.
    Double,
    /// Yes or no.
    Flag,
    /// UTF-8, exactly as in the trace.
    Text,
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its name; where it has a unit, the last part of it.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// The unit of its values as UCUM writes it; none of a number without one, and of text.
    pub unit: Option<&'static str>,
    /// Whether a value may be unknown.
    pub nullable: bool,
    /// What it means.
    pub about: &'static str,
}

impl Column {
    /// Whether its integers differ little from row to row: times and ids of commands.
    pub fn grows(&self) -> bool {
        let is_id = ["command", "waits_for"].contains(&self.name);
        self.kind == Kind::Long && (is_id || self.unit == Some("ns"))
    }
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its name: the folder.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// Whether it grows with the trace: then each process has a file of it, `PART@HOST@RANK`.
    pub by_rank: bool,
    /// Its columns.
    pub columns: Vec<Column>,
}

impl Table {
    /// The column by which rows are in order: when a call began. Tables that do not grow with the
    /// trace have none, nor have wait lists, which have no time.
    pub fn time(&self) -> Option<usize> {
        let begin = |column: &Column| column.name.ends_with("begin_ns") && !column.nullable;
        self.columns.iter().position(begin).filter(|_| self.by_rank)
    }
}

/// All of them.
pub static TABLES: LazyLock<Vec<Table>> =
    LazyLock::new(|| read(TEXT).expect("the schema that is built in"));

/// The table of a name that this program writes.
pub(super) fn table(name: &str) -> &'static Table {
    TABLES.iter().find(|t| t.name == name).expect("a table of the schema")
}

/// The tables of a text: a line for each, then one for each of its columns, further in.
fn read(text: &'static str) -> Option<Vec<Table>> {
    let mut out: Vec<Table> = Vec::new();
    for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
        let (head, about) = line.split_once(": ")?;
        let Some(head) = head.strip_prefix("  ") else {
            let (name, files) = head.split_once('/')?;
            let by_rank = files.contains("@RANK");
            out.push(Table { name, about, by_rank, columns: Vec::new() });
            continue;
        };
        let (name, kind) = head.strip_suffix(')')?.split_once(" (")?;
        let (kind, nullable) = match kind.strip_suffix(", null if unknown") {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let (kind, unit) = match kind.split_once(", ") {
            Some((kind, unit)) => (kind, Some(unit)),
            None => (kind, None),
        };
        let kind = match kind {
            "int64" => Kind::Long,
            "int32" => Kind::Small,
            "float" => Kind::Float,
            "double" => Kind::Double,
            "boolean" => Kind::Flag,
            "string" => Kind::Text,
            _ => return None,
        };
        out.last_mut()?.columns.push(Column { name, kind, unit, nullable, about });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_the_committed_one() {
        assert!(TEXT.starts_with(&format!("schema {SCHEMA}\n")));
        let columns: usize = TABLES.iter().map(|t| t.columns.len()).sum();
        let lines = TEXT.lines().filter(|line| !line.is_empty()).count();
        assert_eq!(1 + TABLES.len() + columns, lines, "every line is a table or a column");
        assert!(TABLES.iter().all(|t| !t.columns.is_empty() && !t.about.is_empty()));
    }

    #[test]
    fn names_are_unique() {
        for table in TABLES.iter() {
            let names: std::collections::HashSet<_> =
                table.columns.iter().map(|c| c.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
        }
        let tables: std::collections::HashSet<_> = TABLES.iter().map(|t| t.name).collect();
        assert_eq!(tables.len(), TABLES.len());
    }

    /// Names end with their units.
    #[test]
    fn a_column_has_the_unit_that_its_name_ends_with() {
        const UNITS: [(&str, &str); 7] = [
            ("_ns", "ns"),
            ("busy_s", "s"),
            ("_j", "J"),
            ("joules", "J"),
            ("joules_per_launch", "J"),
            ("watts", "W"),
            ("bytes", "By"),
        ];
        for column in TABLES.iter().flat_map(|t| &t.columns) {
            // Ends of intervals have the unit of what they bound.
            let name = column.name.trim_end_matches("_low").trim_end_matches("_high");
            let unit = UNITS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, unit)| *unit);
            let is_number = !matches!(column.kind, Kind::Text | Kind::Flag);
            assert_eq!(column.unit, unit.filter(|_| is_number), "{}", column.name);
        }
    }
}
