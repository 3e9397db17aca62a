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

impl Axis {
    /// All.
    pub const ALL: [Axis; 10] = [
        Axis::Blocks,
        Axis::Tpb,
        Axis::Width,
        Axis::Precision,
        Axis::Alpha,
        Axis::Occupancy,
        Axis::Size,
        Axis::Lanes,
        Axis::Cores,
        Axis::Stride,
    ];

    /// Its name on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Axis::Blocks => "blocks",
            Axis::Tpb => "tpb",
            Axis::Width => "width",
            Axis::Precision => "precision",
            Axis::Alpha => "alpha",
            Axis::Occupancy => "occupancy",
            Axis::Size => "size",
            Axis::Lanes => "lanes",
            Axis::Cores => "cores",
            Axis::Stride => "stride",
        }
    }

    /// The parameter of a case that says where it is.
    pub fn parameter(self) -> &'static str {
        match self {
            Axis::Precision => "type",
            Axis::Size => "bytes",
            Axis::Blocks | Axis::Cores => "groups",
            Axis::Tpb => "group_size",
            axis => axis.name(),
        }
    }

    /// The axis of a name.
    pub fn named(name: &str) -> Option<Axis> {
        Axis::ALL.into_iter().find(|axis| axis.name() == name)
    }

    /// What stands along a plot.
    pub fn label(self) -> &'static str {
        match self {
            Axis::Blocks => "work-groups",
            Axis::Tpb => "work-items of a group",
            Axis::Width => "elements of a vector",
            Axis::Precision => "type",
            Axis::Alpha => "additions for each access",
            Axis::Occupancy => "work-items on a compute unit",
            Axis::Size => "bytes",
            Axis::Lanes => "lanes of 32 that work",
            Axis::Cores => "groups that work",
            Axis::Stride => "elements between neighbours",
        }
    }

    /// Whether its usual values grow by factors.
    pub fn is_logarithmic(self) -> bool {
        matches!(
            self,
            Axis::Tpb | Axis::Width | Axis::Alpha | Axis::Occupancy | Axis::Size | Axis::Stride
        )
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
