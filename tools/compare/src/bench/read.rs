//! Owns what is read of a `results.json`: the device, and figures by what they are figures of.
//! Refuses a document of a schema that it does not know; trusts nothing that is in it.

use clscope_profile::interval::Interval;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Schemas of `clscope-lab` that are read.
pub const READS: [&str; 2] = ["clscope-bench/1", "clscope-bench/2"];
/// Most bytes of a document: a full run of all suites with every sweep is some 3 MB.
pub const MOST_BYTES: u64 = 64 << 20;

/// Why a file is no document that can be compared.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum ReadError {
    /// It is not what `clscope-lab` writes.
    #[error("it holds no results of `clscope-lab` (results.json, or what --format json prints)")]
    Json(#[from] serde_json::Error),
    /// It is of another version.
    #[error(
        "its schema is {found}, and this version reads {}: measure anew, or compare with the version of clscope that wrote it",
        READS.join(" and ")
    )]
    Schema { found: String },
}

#[derive(Deserialize)]
struct Schema {
    schema: String,
}

#[derive(Deserialize)]
struct Document {
    schema: String,
    version: String,
    device: Device,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
    cases: Vec<Case>,
    findings: Vec<Found>,
    power_source: String,
    interrupted: bool,
}

#[derive(Deserialize)]
struct Device {
    name: String,
    platform: String,
    driver: String,
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    #[serde(default)]
    parameters: BTreeMap<String, Value>,
    status: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    timing: Option<Timing>,
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Timing {
    groups: u64,
    group_size: u64,
}

#[derive(Deserialize)]
struct Found {
    name: String,
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    name: String,
    unit: String,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

/// Where a document comes from.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Origin {
    /// The file.
    pub file: String,
    /// The device.
    pub device: String,
    /// Its platform.
    pub platform: String,
    /// Its driver.
    pub driver: String,
    /// The version of clscope that measured.
    pub version: String,
    /// The schema of the file.
    pub schema: String,
    /// The power sensor, or why there was none.
    pub power_source: String,
    /// Whether the run was ended early.
    pub interrupted: bool,
}

/// Of what a figure is: of a case or a finding, by its id, and the figure's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `case` or `finding`.
    pub kind: &'static str,
    /// The id of the case, or the name of the finding.
    pub id: String,
    /// The name of the figure.
    pub figure: String,
}

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// Its unit.
    pub unit: String,
    /// The value and its interval; ends that are not known are infinite. `None`: the value is not
    /// known.
    pub interval: Option<Interval>,
}

/// What became of a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// `measured`, `not_available`, `wrong`, `failed` or `interrupted`.
    pub status: String,
    /// Why it has no figures.
    pub reason: Option<String>,
    /// What tells it from its neighbours.
    pub parameters: BTreeMap<String, Value>,
    /// Work-groups and their size, where a kernel ran.
    pub geometry: Option<(u64, u64)>,
}

/// One document.
#[derive(Debug, Clone)]
pub struct Run {
    /// Where it comes from.
    pub origin: Origin,
    /// Whether the device is a processor, which runs other programs, too.
    pub is_processor: bool,
    /// The options in force.
    pub settings: BTreeMap<String, Value>,
    /// Cases by id.
    pub cases: BTreeMap<String, Ran>,
    /// Figures; `None`: there are several of that key, and none of them can be meant.
    pub figures: BTreeMap<Key, Option<Read>>,
    /// The keys in the order of the document.
    pub order: Vec<Key>,
}

impl Run {
    /// Reads a document; `file` is its name for people.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(file: &str, bytes: &[u8]) -> Result<Self, ReadError> {
        // The schema first: a document of another version may have another shape.
        let Schema { schema } = serde_json::from_slice(bytes)?;
        if !READS.contains(&schema.as_str()) {
            return Err(ReadError::Schema { found: schema });
        }
        let document: Document = serde_json::from_slice(bytes)?;
        let Device { name: device, platform, driver, kind } = document.device;
        let mut run = Self {
            origin: Origin {
                file: file.to_owned(),
                device,
                platform,
                driver,
                version: document.version,
                schema: document.schema,
                power_source: document.power_source,
                interrupted: document.interrupted,
            },
            is_processor: kind.eq_ignore_ascii_case("cpu"),
            settings: document.settings,
            cases: BTreeMap::new(),
            figures: BTreeMap::new(),
            order: Vec::new(),
        };
        for case in document.cases {
            let geometry = case.timing.map(|t| (t.groups, t.group_size));
            let Case { id, parameters, status, reason, figures, .. } = case;
            run.add("case", &id, figures);
            run.cases.insert(id, Ran { status, reason, parameters, geometry });
        }
        for found in document.findings {
            run.add("finding", &found.name, found.figures);
        }
        Ok(run)
    }

    fn add(&mut self, kind: &'static str, id: &str, figures: Vec<Figure>) {
        for Figure { name, unit, value, low, high } in figures {
            let key = Key { kind, id: id.to_owned(), figure: name };
            let interval = value.map(|value| {
                let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
                Interval::estimated(value, low, high)
            });
            match self.figures.get_mut(&key) {
                Some(twice) => *twice = None,
                None => {
                    self.order.push(key.clone());
                    self.figures.insert(key, Some(Read { unit, interval }));
                }
            }
        }
    }
}
