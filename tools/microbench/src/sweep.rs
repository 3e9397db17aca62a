//! The axes along which a case can be varied, and where on them a result is. Owns their names;
//! refuses to choose values.

use crate::job::Scalar;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

/// What can be varied.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Work-groups.
    Blocks,
    /// Work-items of a group.
    Tpb,
    /// Elements of a vector.
    Width,
    /// The type: half, float, double or int.
    Precision,
    /// Additions for each memory access.
    Alpha,
    /// Work-items on a compute unit at once.
    Occupancy,
    /// Bytes: of a transfer, a working set, an array.
    Size,
    /// Work-items of 32 that work.
    Lanes,
    /// Compute units that work: as many groups.
    Cores,
    /// Elements between neighbours.
    Stride,
}

/// Of each axis its name on the command line and in results, the parameter of a case that says where
/// it is, what stands along a plot, and whether its usual values grow by factors.
type Row = (Axis, &'static str, &'static str, &'static str, bool);

const ROWS: [Row; 10] = [
    (Axis::Blocks, "blocks", "groups", "work-groups", false),
    (Axis::Tpb, "tpb", "group_size", "work-items of a group", true),
    (Axis::Width, "width", "width", "elements of a vector", true),
    (Axis::Precision, "precision", "type", "type", false),
    (Axis::Alpha, "alpha", "alpha", "additions for each access", true),
    (Axis::Occupancy, "occupancy", "occupancy", "work-items on a compute unit", true),
    (Axis::Size, "size", "bytes", "bytes", true),
    (Axis::Lanes, "lanes", "lanes", "lanes of 32 that work", false),
    (Axis::Cores, "cores", "groups", "groups that work", false),
    (Axis::Stride, "stride", "stride", "elements between neighbours", true),
];

impl Axis {
    /// All.
    pub fn all() -> impl ExactSizeIterator<Item = Axis> {
        ROWS.iter().map(|row| row.0)
    }

    /// Rows are in the order of the axes: a test holds that.
    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The parameter of a case that says where it is.
    pub fn parameter(self) -> &'static str {
        self.row().2
    }

    /// The axis of a name.
    pub fn named(name: &str) -> Option<Axis> {
        Axis::all().find(|axis| axis.name() == name)
    }

    /// What stands along a plot.
    pub fn label(self) -> &'static str {
        self.row().3
    }

    /// Whether its usual values grow by factors.
    pub fn is_logarithmic(self) -> bool {
        self.row().4
    }
}

/// A place on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(usize),
    /// A type.
    Type(Scalar),
}

impl Value {
    /// As results hold it.
    pub fn json(self) -> Json {
        match self {
            Value::Number(n) => json!(n),
            Value::Type(scalar) => json!(scalar.name()),
        }
    }

    /// The number, if it is one.
    pub fn number(self) -> Option<usize> {
        match self {
            Value::Number(n) => Some(n),
            Value::Type(_) => None,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(n) => n.fmt(f),
            Value::Type(scalar) => scalar.name().fmt(f),
        }
    }
}

/// Where a case of a sweep is.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Place {
    /// The id of the case that is swept.
    pub case: String,
    /// Axis and value, in the order in which they were asked for.
    pub at: Vec<Coordinate>,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Coordinate {
    /// The axis.
    pub axis: Axis,
    /// A number, or the name of a type.
    pub value: Json,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_axes() {
        for (place, axis) in Axis::all().enumerate() {
            assert_eq!(axis as usize, place, "{}", axis.name());
        }
    }
}
