//! Owns one file of a table: rows are kept by column up to a bounded number, then written as a row
//! group, in order of time where the table has one. The file appears whole or not at all. Refuses to
//! know what a table means.

use super::arrow;
use super::schema::{Column, Kind, SCHEMA, Table};
use crate::ExportError;
use clscope_io::output::{Access, Whole};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A value on its way into a column.
#[derive(Debug, Clone, Copy)]
pub enum Cell<'v> {
    /// Not known.
    Null,
    /// An integer; one above 2^63 - 1, as only a damaged trace has, is not known.
    Int(i64),
    /// A number; what is not finite is not known.
    Real(f64),
    /// Yes or no.
    Flag(bool),
    /// Text.
    Text(&'v str),
}

macro_rules! cells {
    ($($from:ty => |$x:ident| $to:expr;)*) => { $(
        impl<'v> From<$from> for Cell<'v> {
            fn from($x: $from) -> Self { $to }
        }
    )* };
}
cells! {
    i64 => |x| Cell::Int(x);
    u32 => |x| Cell::Int(x.into());
    u64 => |x| i64::try_from(x).map_or(Cell::Null, Cell::Int);
    u128 => |x| i64::try_from(x).map_or(Cell::Null, Cell::Int);
    f64 => |x| if x.is_finite() { Cell::Real(x) } else { Cell::Null };
    bool => |x| Cell::Flag(x);
    &'v str => |x| Cell::Text(x);
    &'v String => |x| Cell::Text(x);
}

impl<'v, T: Into<Cell<'v>>> From<Option<T>> for Cell<'v> {
    fn from(of: Option<T>) -> Self {
        of.map_or(Cell::Null, Into::into)
    }
}

enum Values {
    Long(Vec<i64>),
    Small(Vec<i32>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Flag(Vec<bool>),
    Text(Vec<ByteArray>),
}

/// Texts of a column that are kept, so that a name that comes again takes no memory of its own.
const TEXTS: usize = 1 << 12;

struct Buffer {
    column: &'static Column,
    values: Values,
    /// 1 where there is a value, 0 where not; only of columns that may lack one.
    levels: Vec<i16>,
    texts: HashMap<Box<str>, ByteArray>,
}

impl Buffer {
    fn new(column: &'static Column) -> Self {
        let values = match column.kind {
            Kind::Long => Values::Long(Vec::new()),
            Kind::Small => Values::Small(Vec::new()),
            Kind::Float => Values::Float(Vec::new()),
            Kind::Double => Values::Double(Vec::new()),
            Kind::Flag => Values::Flag(Vec::new()),
            Kind::Text => Values::Text(Vec::new()),
        };
        Self { column, values, levels: Vec::new(), texts: HashMap::new() }
    }

    /// Whether the cell is one of the column's.
    fn push(&mut self, cell: Cell<'_>) -> bool {
        fn add<T>(to: &mut Vec<T>, value: T) -> bool {
            to.push(value);
            true
        }
        let present = match (&mut self.values, cell) {
            (_, Cell::Null) => false,
            (Values::Long(to), Cell::Int(x)) => add(to, x),
            (Values::Small(to), Cell::Int(x)) => i32::try_from(x).is_ok_and(|x| add(to, x)),
            (Values::Float(to), Cell::Real(x)) => add(to, x as f32),
            (Values::Double(to), Cell::Real(x)) => add(to, x),
            (Values::Flag(to), Cell::Flag(x)) => add(to, x),
            (Values::Text(to), Cell::Text(x)) => {
                if let Some(known) = self.texts.get(x) {
                    add(to, known.clone())
                } else {
                    if self.texts.len() >= TEXTS {
                        self.texts.clear();
                    }
                    let bytes = ByteArray::from(x);
                    self.texts.insert(x.into(), bytes.clone());
                    add(to, bytes)
                }
            }
            _ => return false,
        };
        if self.column.nullable {
            self.levels.push(i16::from(present));
        }
        present || self.column.nullable
    }
}

/// The part of a column that a row group takes.
struct Take<'t, 'f> {
    column: &'t mut SerializedColumnWriter<'f>,
    levels: &'t mut Vec<i16>,
    order: &'t [u32],
    count: usize,
}

impl Take<'_, '_> {
    /// Takes the first `count` rows of `order` out of what a column holds, leaves the others in
    /// that order, and writes those taken.
    fn put<T: DataType>(&mut self, values: &mut Vec<T::T>) -> Result<Vec<T::T>, ParquetError> {
        let levels = &*self.levels;
        let mut next = 0;
        // Where rows have their values, of which a column with nulls has fewer.
        let places: Vec<u32> = levels.iter().map(|&level| (next, next += level as u32).0).collect();
        let nullable = !levels.is_empty();
        let mut parts = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
        for (at, &row) in self.order.iter().enumerate() {
            let (to, to_levels) = &mut parts[usize::from(at >= self.count)];
            let row = row as usize;
            if !nullable {
                to.push(values[row].clone());
            } else {
                if levels[row] == 1 {
                    to.push(values[places[row] as usize].clone());
                }
                to_levels.push(levels[row]);
            }
        }
        let [(taken, levels), left] = parts;
        (*values, *self.levels) = left;
        self.column.typed::<T>().write_batch(&taken, nullable.then_some(&levels[..]), None)?;
        Ok(taken)
    }
}

/// A file of a table.
pub struct Part {
    table: &'static Table,
    buffers: Vec<Buffer>,
    rows: usize,
    group: usize,
    written: u64,
    /// The greatest time that was written, of a table that has an order.
    last: Option<i64>,
    /// Whether no row group begins before the end of the one before.
    in_order: bool,
    file: SerializedFileWriter<Whole>,
}

impl Part {
    /// Begins a file; it gets its name when it is [finished](Self::finish). `group`: rows of a row
    /// group. Twice as many are kept in memory of a table that has an order, so that what comes
    /// late finds its place.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(table: &'static Table, path: &Path, group: usize) -> Result<Self, ExportError> {
        let out = Whole::create(path, Access::Umask)?;
        let file = SerializedFileWriter::new(out, shape(table)?, properties(table))?;
        let buffers = table.columns.iter().map(Buffer::new).collect();
        Ok(Self { table, buffers, rows: 0, group, written: 0, last: None, in_order: true, file })
    }

    /// Adds a row: a cell for each column, in their order.
    ///
    /// # Errors
    /// If a cell does not fit its column, or the output takes no more.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), ExportError> {
        let table = self.table.name;
        if cells.len() != self.buffers.len() {
            return Err(ExportError::Row {
                table,
                column: "all",
                found: format!("{}", cells.len()),
            });
        }
        for (buffer, cell) in self.buffers.iter_mut().zip(cells) {
            if !buffer.push(*cell) {
                let found = format!("{cell:?}");
                return Err(ExportError::Row { table, column: buffer.column.name, found });
            }
        }
        self.rows += 1;
        let kept = if self.table.time().is_some() { 2 * self.group } else { self.group };
        if self.rows >= kept { self.write() } else { Ok(()) }
    }

    /// The rows in order of time, of a table that has one.
    fn order(&self) -> Option<Vec<u32>> {
        let Values::Long(times) = &self.buffers.get(self.table.time()?)?.values else {
            return None;
        };
        let mut order: Vec<u32> = (0..self.rows as u32).collect();
        order.sort_by_key(|&row| times[row as usize]);
        Some(order)
    }

    /// Writes a row group: the earliest rows that are kept.
    fn write(&mut self) -> Result<(), ExportError> {
        let count = self.rows.min(self.group);
        let order = self.order().unwrap_or_else(|| (0..self.rows as u32).collect());
        let mut group = self.file.next_row_group()?;
        for (at, buffer) in self.buffers.iter_mut().enumerate() {
            let missing = || ParquetError::General("a column is missing".to_owned());
            let mut column = group.next_column()?.ok_or_else(missing)?;
            let mut take =
                Take { column: &mut column, levels: &mut buffer.levels, order: &order, count };
            match &mut buffer.values {
                Values::Long(v) => {
                    let values = take.put::<Int64Type>(v)?;
                    if self.table.time() == Some(at) {
                        self.in_order &= self.last.is_none_or(|last| values.first() >= Some(&last));
                        self.last = self.last.max(values.last().copied());
                    }
                }
                Values::Small(v) => drop(take.put::<Int32Type>(v)?),
                Values::Float(v) => drop(take.put::<FloatType>(v)?),
                Values::Double(v) => drop(take.put::<DoubleType>(v)?),
                Values::Flag(v) => drop(take.put::<BoolType>(v)?),
                Values::Text(v) => drop(take.put::<ByteArrayType>(v)?),
            }
            column.close()?;
        }
        group.close()?;
        self.written += count as u64;
        self.rows -= count;
        Ok(())
    }

    /// Writes what is left and gives the file its name; gives the number of rows.
    ///
    /// # Errors
    /// If the output takes no more.
    pub fn finish(mut self) -> Result<u64, ExportError> {
        while self.rows > 0 {
            self.write()?;
        }
        if let Some(time) = self.table.time() {
            let within = if self.in_order { "file" } else { "row group" };
            let column = self.table.columns[time].name;
            for (key, value) in [("clscope.sorted_by", column), ("clscope.sorted_within", within)] {
                self.file
                    .append_key_value_metadata(KeyValue::new(key.to_owned(), value.to_owned()));
            }
        }
        self.file.into_inner()?.finish()?;
        Ok(self.written)
    }
}

fn shape(table: &Table) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Long => (Physical::INT64, None),
            Kind::Small => (Physical::INT32, None),
            Kind::Float => (Physical::FLOAT, None),
            Kind::Double => (Physical::DOUBLE, None),
            Kind::Flag => (Physical::BOOLEAN, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let builder = Type::primitive_type_builder(column.name, physical);
        builder.with_repetition(repetition).with_logical_type(logical).build().map(Arc::new)
    };
    let fields = table.columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder(table.name).with_fields(fields).build().map(Arc::new)
}

fn properties(table: &Table) -> WriterPropertiesPtr {
    let mut notes = vec![
        KeyValue::new("clscope.schema".to_owned(), SCHEMA.to_string()),
        KeyValue::new("clscope.table".to_owned(), table.about.to_owned()),
        // Arrow's name for its own form of the schema, which alone has words for each field.
        KeyValue::new("ARROW:schema".to_owned(), arrow::schema(table)),
    ];
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("clscope ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_sorting_columns(table.time().map(|column| {
            // Tables have far fewer columns.
            let column_idx = column as i32;
            vec![SortingColumn { column_idx, descending: false, nulls_first: false }]
        }));
    for column in &table.columns {
        // For readers that do not know Arrow.
        let words = [("column", Some(column.about)), ("unit", column.unit)];
        for (what, word) in words.into_iter().filter_map(|(what, word)| Some((what, word?))) {
            let key = format!("clscope.{what}.{}", column.name);
            notes.push(KeyValue::new(key, word.to_owned()));
        }
        // Differences of what grows are small. Everything else has a dictionary, which is given up
        // where it grows: joules are watts times durations, of which there are not many. Splitting
        // the bytes of floats makes larger files, and Spark's readers refuse it.
        if column.grows() {
            let path = ColumnPath::from(column.name);
            builder = builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Arc::new(builder.set_key_value_metadata(Some(notes)).build())
}

#[cfg(test)]
mod tests {
    use super::super::schema::table;
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    const GROUP: usize = 8;

    /// A part with a row for each time, which has its time as command, error and extent, or none.
    fn written(times: &[i64]) -> (Vec<Vec<Field>>, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.parquet");
        let mut part = Part::create(table("calls"), &path, GROUP).unwrap();
        for &time in times {
            let text = time.to_string();
            let known = time % 3 != 0;
            let cells = table("calls").columns.iter().map(|column| match column.name {
                "command" | "extent_ns" => known.then_some(time as u64).into(),
                "error" => known.then_some(&text).into(),
                _ if column.kind == Kind::Text => Cell::Text(&text),
                _ => Cell::Int(time),
            });
            part.row(&cells.collect::<Vec<_>>()).unwrap();
        }
        assert_eq!(part.finish().unwrap(), times.len() as u64);
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let words = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let within = words.iter().find(|word| word.key == "clscope.sorted_within").unwrap();
        let rows = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect());
        (rows.collect(), within.value.clone().unwrap())
    }

    fn times_of(rows: &[Vec<Field>]) -> Vec<i64> {
        let time = table("calls").time().unwrap();
        let one = |row: &Vec<Field>| match row[time] {
            Field::Long(time) => time,
            ref other => panic!("{other:?}"),
        };
        rows.iter().map(one).collect()
    }

    #[test]
    fn rows_are_in_order_of_time_with_all_that_is_theirs() {
        for count in [0_i64, 1, 7, 8, 15, 16, 17, 100] {
            // Each comes up to seven rows too late or too early.
            let mut times: Vec<i64> = (0..count).collect();
            times.chunks_mut(GROUP).for_each(<[i64]>::reverse);
            let (rows, within) = written(&times);
            assert_eq!(times_of(&rows), (0..count).collect::<Vec<_>>());
            assert_eq!(within, "file");
            for (time, row) in (0..count).zip(&rows) {
                let known = time % 3 != 0;
                for (column, field) in table("calls").columns.iter().zip(row) {
                    let text = Field::Str(time.to_string());
                    let want = match (column.name, column.kind) {
                        ("command" | "extent_ns", _) if !known => Field::Null,
                        ("error", _) if !known => Field::Null,
                        (_, Kind::Text) => text,
                        (_, Kind::Small) => Field::Int(time as i32),
                        _ => Field::Long(time),
                    };
                    assert_eq!(*field, want, "{} of {time}", column.name);
                }
            }
        }
    }

    #[test]
    fn what_comes_too_late_is_in_order_within_its_row_group_and_the_file_says_so() {
        let mut times: Vec<i64> = (1..100).collect();
        times.push(0);
        let (rows, within) = written(&times);
        assert_eq!(within, "row group");
        let found = times_of(&rows);
        assert!(found.chunks(GROUP).all(<[i64]>::is_sorted), "{found:?}");
        let mut all = found;
        all.sort_unstable();
        assert_eq!(all, (0..100).collect::<Vec<_>>());
    }
}
