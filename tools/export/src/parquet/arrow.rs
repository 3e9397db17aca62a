//! Owns Arrow's own form of a table's schema, which Parquet files carry beside theirs: readers that
//! know Arrow (pyarrow, Polars) give each field its unit and meaning from it. Refuses to hold values.
//!
//! The form is a message of Arrow's IPC format (Schema.fbs, Message.fbs) in base64; numbers below
//! are the places of fields in those tables.

use super::schema::{Column, Kind, SCHEMA, Table};
use base64::Engine;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

/// A place in a table of FlatBuffers: the first is 4, each takes two bytes.
const fn place(field: u16) -> u16 {
    4 + 2 * field
}

type Any = WIPOffset<UnionWIPOffset>;

/// Names of the union of types, and widths.
fn kind(out: &mut FlatBufferBuilder<'_>, kind: Kind) -> (u8, Any) {
    let begun = out.start_table();
    let name = match kind {
        Kind::Long | Kind::Small => {
            let bits: i32 = if kind == Kind::Small { 32 } else { 64 };
            out.push_slot_always(place(0), bits);
            out.push_slot_always(place(1), true);
            2
        }
        Kind::Float | Kind::Double => {
            let precision: i16 = if kind == Kind::Float { 1 } else { 2 };
            out.push_slot_always(place(0), precision);
            3
        }
        Kind::Text => 5,
        Kind::Flag => 6,
    };
    (name, WIPOffset::new(out.end_table(begun).value()))
}

fn pairs(out: &mut FlatBufferBuilder<'_>, pairs: &[(&str, &str)]) -> Any {
    let mut made: Vec<Any> = Vec::new();
    for (key, value) in pairs {
        let (key, value) = (out.create_string(key), out.create_string(value));
        let begun = out.start_table();
        out.push_slot_always(place(0), key);
        out.push_slot_always(place(1), value);
        made.push(WIPOffset::new(out.end_table(begun).value()));
    }
    WIPOffset::new(out.create_vector(&made).value())
}

fn field(out: &mut FlatBufferBuilder<'_>, column: &Column) -> Any {
    let mut words = vec![("about", column.about)];
    words.extend(column.unit.map(|unit| ("unit", unit)));
    let words = pairs(out, &words);
    let name = out.create_string(column.name);
    let (kind_name, kind) = kind(out, column.kind);
    let children = out.create_vector::<Any>(&[]);
    let begun = out.start_table();
    out.push_slot_always(place(0), name);
    out.push_slot_always(place(1), column.nullable);
    out.push_slot_always(place(2), kind_name);
    out.push_slot_always(place(3), kind);
    out.push_slot_always(place(5), children);
    out.push_slot_always(place(6), words);
    WIPOffset::new(out.end_table(begun).value())
}

/// The schema of a table.
pub fn schema(table: &Table) -> String {
    let mut out = FlatBufferBuilder::new();
    let fields: Vec<Any> = table.columns.iter().map(|column| field(&mut out, column)).collect();
    let fields = out.create_vector(&fields);
    let version = SCHEMA.to_string();
    let words = pairs(&mut out, &[("clscope.schema", &version), ("clscope.table", table.about)]);
    let begun = out.start_table();
    // Little-endian is 0, and what is not there.
    out.push_slot_always(place(1), fields);
    out.push_slot_always(place(2), words);
    let schema = out.end_table(begun);
    let begun = out.start_table();
    // Version 5 of the metadata; a schema is the first kind of message.
    out.push_slot_always::<i16>(place(0), 4);
    out.push_slot_always::<u8>(place(1), 1);
    out.push_slot_always(place(2), schema);
    out.push_slot_always::<i64>(place(3), 0);
    let message = out.end_table(begun);
    out.finish(message, None);
    let message = out.finished_data();
    // As in a stream: a mark, the length.
    let mut bytes = vec![0xff; 4];
    bytes.extend((message.len() as u32).to_le_bytes());
    bytes.extend(message);
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
