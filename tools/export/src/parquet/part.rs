//! Owns one file of a table: rows are kept by column up to a bounded number, then written as a row
//! group. The file appears whole or not at all. Refuses to know what a table means.

use super::schema::{Column, Kind, SCHEMA, Table};
use crate::ExportError;
use clscope_io::output::{Access, Whole};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
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
            Kind::Stamp | Kind::Integer => Values::Long(Vec::new()),
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
        let present = match (&mut self.values, cell) {
            (_, Cell::Null) => false,
            (Values::Long(to), Cell::Int(x)) => {
                to.push(x);
                true
            }
            (Values::Small(to), Cell::Int(x)) => match i32::try_from(x) {
                Ok(x) => {
                    to.push(x);
                    true
                }
                Err(_) => false,
            },
            (Values::Float(to), Cell::Real(x)) => {
                to.push(x as f32);
                true
            }
            (Values::Double(to), Cell::Real(x)) => {
                to.push(x);
                true
            }
            (Values::Flag(to), Cell::Flag(x)) => {
                to.push(x);
                true
            }
            (Values::Text(to), Cell::Text(x)) => {
                if let Some(known) = self.texts.get(x) {
                    to.push(known.clone());
                } else {
                    if self.texts.len() >= TEXTS {
                        self.texts.clear();
                    }
                    let bytes = ByteArray::from(x);
                    self.texts.insert(x.into(), bytes.clone());
                    to.push(bytes);
                }
                true
            }
            _ => return false,
        };
        if self.column.nullable {
            self.levels.push(i16::from(present));
        }
        present || self.column.nullable
    }
}

/// A file of a table.
pub struct Part {
    table: &'static Table,
    buffers: Vec<Buffer>,
    rows: usize,
    group: usize,
    written: u64,
    file: SerializedFileWriter<Whole>,
}

impl Part {
    /// Begins a file; it gets its name when it is [finished](Self::finish). `group`: rows that are
    /// kept in memory at most.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(table: &'static Table, path: &Path, group: usize) -> Result<Self, ExportError> {
        let out = Whole::create(path, Access::Umask)?;
        let file = SerializedFileWriter::new(out, shape(table)?, properties(table))?;
        let buffers = table.columns.iter().map(Buffer::new).collect();
        Ok(Self { table, buffers, rows: 0, group, written: 0, file })
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
        if self.rows >= self.group { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), ExportError> {
        let mut group = self.file.next_row_group()?;
        for buffer in &mut self.buffers {
            let missing = || ParquetError::General("a column is missing".to_owned());
            let mut column = group.next_column()?.ok_or_else(missing)?;
            let levels = buffer.column.nullable.then_some(&buffer.levels[..]);
            match &mut buffer.values {
                Values::Long(v) => put::<Int64Type>(&mut column, v, levels)?,
                Values::Small(v) => put::<Int32Type>(&mut column, v, levels)?,
                Values::Float(v) => put::<FloatType>(&mut column, v, levels)?,
                Values::Double(v) => put::<DoubleType>(&mut column, v, levels)?,
                Values::Flag(v) => put::<BoolType>(&mut column, v, levels)?,
                Values::Text(v) => put::<ByteArrayType>(&mut column, v, levels)?,
            }
            buffer.levels.clear();
            column.close()?;
        }
        group.close()?;
        self.written += self.rows as u64;
        self.rows = 0;
        Ok(())
    }

    /// Writes what is left and gives the file its name; gives the number of rows.
    ///
    /// # Errors
    /// If the output takes no more.
    pub fn finish(mut self) -> Result<u64, ExportError> {
        if self.rows > 0 {
            self.write()?;
        }
        self.file.into_inner()?.finish()?;
        Ok(self.written)
    }
}

fn shape(table: &Table) -> Result<TypePtr, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Stamp | Kind::Integer => (Physical::INT64, None),
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
    ];
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("clscope ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY);
    for column in table.columns {
        notes.push(KeyValue::new(
            format!("clscope.column.{}", column.name),
            column.about.to_owned(),
        ));
        // Differences of what grows are small. Everything else has a dictionary, which is given up
        // where it grows: joules are watts times durations, of which there are not many. Splitting
        // the bytes of floats makes larger files, and Spark's readers refuse it.
        if column.kind == Kind::Stamp {
            let path = ColumnPath::from(column.name);
            builder = builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Arc::new(builder.set_key_value_metadata(Some(notes)).build())
}

/// Writes a column's values of a row group, and forgets them.
fn put<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(values, levels, None)?;
    values.clear();
    Ok(())
}
