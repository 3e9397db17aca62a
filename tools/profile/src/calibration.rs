//! Owns the file in which calibrations of this machine are kept, and their copy in a trace: what
//! was measured about devices and sensors, with its uncertainty, so that later runs and reports can
//! use it. Refuses to measure (`doctor --calibrate` does) and to apply anything: who uses a figure
//! says so.
//!
//! The file is `calibration.json` in `$XDG_CACHE_HOME/clscope` (else `~/.cache/clscope`);
//! `CLSCOPE_CALIBRATION` names another. `record` copies the entries of its host into the trace's
//! `meta.json`, under `calibration`.
//!
//! ```json
//! { "schema": 2, "entries": [ {
//!     "subject": { "kind": "device", "name": "...", "driver": "..." },
//!     "host": "name", "measured_at_s": 1760000000, "clscope": "0.1.0",
//!     "figures": { "span-bias-ns": {
//!         "value": 1900.0, "low": 1800.0, "high": 2000.0, "estimated": true } },
//!     "notes": [] } ] }
//! ```
//! A figure's name ends in its unit; it has the shape of all figures with an interval
//! ([`Interval`]). Version 1 had the half-width of the interval, `uncertainty`, in the place of its
//! ends, and is read as well. Measuring a subject again on the same host replaces its entry.

use crate::error::CalibrationError;
use crate::interval::Interval;
use clscope_analysis::input::Definitions;
use clscope_analysis::stats::SPAN_BIAS;
use clscope_io::input;
use clscope_io::output::{Access, Whole};
use clscope_trace::defs::Calibration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Version of the format; raised when something changes its meaning or goes.
pub const SCHEMA: u32 = 2;
/// Names another file.
pub const VARIABLE: &str = "CLSCOPE_CALIBRATION";

/// What was calibrated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Subject {
    /// An OpenCL device.
    Device {
        /// CL_DEVICE_NAME.
        name: String,
        /// CL_DRIVER_VERSION: another driver is another device.
        driver: String,
    },
    /// A sensor.
    Sensor {
        /// Name of the source, as `doctor` lists it.
        source: String,
        /// Name of its domain.
        domain: String,
    },
}

/// A measured figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "Read", into = "Interval")]
pub struct Figure {
    /// The value, in the unit that ends the figure's name.
    pub value: f64,
    /// Half-width of its 95 % interval; absent where it is not known.
    pub uncertainty: Option<f64>,
}

/// A figure as any version wrote it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Read {
    Interval(Interval),
    First { value: f64, uncertainty: Option<f64> },
}

impl From<Read> for Figure {
    fn from(of: Read) -> Self {
        match of {
            Read::Interval(of) => {
                let half = Some(of.half()).filter(|h| h.is_finite());
                Self { value: of.value, uncertainty: half }
            }
            Read::First { value, uncertainty } => Self { value, uncertainty },
        }
    }
}

impl From<Figure> for Interval {
    fn from(of: Figure) -> Self {
        let half = of.uncertainty.unwrap_or(f64::INFINITY);
        Self::estimated(of.value, of.value - half, of.value + half)
    }
}

/// What was measured about one subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is about.
    pub subject: Subject,
    /// Host name of the machine it was measured on: caches may be shared by many.
    pub host: String,
    /// When, in seconds since 1970.
    pub measured_at_s: u64,
    /// Version of the command that measured.
    pub clscope: String,
    /// The figures by name.
    pub figures: BTreeMap<String, Figure>,
    /// What a reader should know, in words.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Entry {
    /// An entry of this machine, measured now.
    pub fn new(subject: Subject) -> Self {
        Self {
            subject,
            host: clscope_readings::host::name(),
            measured_at_s: clscope_clock::realtime().0 / 1_000_000_000,
            clscope: env!("CARGO_PKG_VERSION").to_owned(),
            figures: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// With a figure.
    pub fn with(mut self, name: &str, value: f64, uncertainty: Option<f64>) -> Self {
        self.figures.insert(name.to_owned(), Figure { value, uncertainty });
        self
    }
}

/// All that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Store {
    /// [`SCHEMA`].
    pub schema: u32,
    /// One per subject and host.
    pub entries: Vec<Entry>,
}

impl Default for Store {
    fn default() -> Self {
        Self { schema: SCHEMA, entries: Vec::new() }
    }
}

impl Store {
    /// Reads a file; empty where there is none.
    ///
    /// # Errors
    /// If it cannot be read, is no such file, or is of a later version.
    pub fn load(path: &Path) -> Result<Self, CalibrationError> {
        let at = || path.to_owned();
        let text = match input::read(path, input::TEXT) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => return Err(CalibrationError::Read { path: at(), source }),
        };
        let store: Self = serde_json::from_slice(&text)
            .map_err(|source| CalibrationError::Foreign { path: at(), source })?;
        if !(1..=SCHEMA).contains(&store.schema) {
            let found = store.schema;
            return Err(CalibrationError::Version { path: at(), found, known: SCHEMA });
        }
        Ok(Self { schema: SCHEMA, ..store })
    }

    /// Adds an entry, in the place of one about the same subject on the same host.
    pub fn keep_entry(&mut self, entry: Entry) {
        match self.entries.iter_mut().find(|e| e.subject == entry.subject && e.host == entry.host) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    /// Writes the file, whole or not at all; folders are made.
    ///
    /// # Errors
    /// If the place cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), CalibrationError> {
        let write = || -> std::io::Result<()> {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            let mut file = Whole::create(path, Access::Umask)?;
            file.write_all(&text)?;
            file.finish()
        };
        write().map_err(|source| CalibrationError::Write { path: path.to_owned(), source })
    }

    /// The entries of a host.
    pub fn of_host(self, host: &str) -> Vec<Entry> {
        self.entries.into_iter().filter(|e| e.host == host).collect()
    }
}

/// Where a user's calibrations are kept, by the environment; `None` without a home.
pub fn place(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let given = |name: &str| variable(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    given(VARIABLE).or_else(|| {
        let cache = given("XDG_CACHE_HOME")
            .filter(|p| p.is_absolute())
            .or_else(|| Some(given("HOME")?.join(".cache")))?;
        Some(cache.join("clscope").join("calibration.json"))
    })
}

/// Gives a process's devices the calibrations of its host: figures that the recorder itself wrote
/// go before.
pub fn apply(entries: &[Entry], definitions: &mut Definitions) {
    for (id, device) in &definitions.devices {
        let about = |e: &&Entry| match &e.subject {
            Subject::Device { name, driver } => {
                (name, driver) == (&device.name, &device.driver)
                    && e.host == definitions.process.host
            }
            Subject::Sensor { .. } => false,
        };
        let Some(entry) = entries.iter().find(about) else { continue };
        let Some(bias) = entry.figures.get(SPAN_BIAS) else { continue };
        // Without its uncertainty a figure corrects nothing.
        let Some(uncertainty) = bias.uncertainty else { continue };
        let found =
            Calibration { name: SPAN_BIAS.to_owned(), device: *id, value: bias.value, uncertainty };
        // The last of a name counts: before the recorder's.
        definitions.calibrations.insert(0, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str) -> Subject {
        Subject::Device { name: name.into(), driver: "1".into() }
    }

    #[test]
    fn what_is_kept_comes_back_and_new_entries_replace_old_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/calibration.json");
        let mut store = Store::load(&path).unwrap();
        assert_eq!(store, Store::default(), "no file, no calibrations");
        store.keep_entry(Entry::new(device("x")).with("span-bias-ns", 1_900.0, Some(100.0)).with(
            "launch-ns",
            3_200.0,
            None,
        ));
        store.keep_entry(Entry::new(device("y")).with("span-bias-ns", 10.0, None));
        store.keep_entry(Entry::new(device("x")).with("span-bias-ns", 1_800.0, Some(90.0)));
        store.keep_entry(Entry { host: "elsewhere".into(), ..Entry::new(device("x")) });
        store.save(&path).unwrap();
        let back = Store::load(&path).unwrap();
        assert_eq!(back, store);
        assert_eq!(
            std::fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left behind"
        );
        let own = back.of_host(&clscope_readings::host::name());
        assert_eq!(own.len(), 2);
        assert_eq!(
            own[0].figures["span-bias-ns"],
            Figure { value: 1_800.0, uncertainty: Some(90.0) }
        );
        assert_eq!(own[0].figures.len(), 1, "what was measured before may not hold any more");
    }

    #[test]
    fn figures_have_the_common_shape_and_those_of_the_first_version_are_read() {
        let known = Figure { value: 1_900.0, uncertainty: Some(100.0) };
        let written = serde_json::to_value(known).unwrap();
        let shape = serde_json::json!(
            {"value": 1900.0, "low": 1800.0, "high": 2000.0, "estimated": true}
        );
        assert_eq!(written, shape);
        let open = Figure { uncertainty: None, ..known };
        assert!(serde_json::to_value(open).unwrap()["low"].is_null());
        let read = |text: &str| serde_json::from_str::<Figure>(text).unwrap();
        for figure in [known, open] {
            assert_eq!(read(&serde_json::to_string(&figure).unwrap()), figure);
        }
        assert_eq!(read(r#"{"value": 1900.0, "uncertainty": 100.0}"#), known);
        assert_eq!(read(r#"{"value": 1900.0}"#), open);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calibration.json");
        std::fs::write(&path, r#"{"schema": 1, "entries": []}"#).unwrap();
        assert_eq!(Store::load(&path).unwrap(), Store::default());
    }

    #[test]
    fn the_place_follows_the_environment() {
        let place = |set: &[(&str, &str)]| {
            place(&|name| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
        };
        let home = ("HOME", "/home/a");
        assert_eq!(place(&[home]), Some("/home/a/.cache/clscope/calibration.json".into()));
        let cache = [("XDG_CACHE_HOME", "/c"), home];
        assert_eq!(place(&cache), Some("/c/clscope/calibration.json".into()));
        assert_eq!(
            place(&[("XDG_CACHE_HOME", "relative"), home]),
            Some("/home/a/.cache/clscope/calibration.json".into())
        );
        assert_eq!(place(&[(VARIABLE, "/x.json"), home]), Some("/x.json".into()));
        assert_eq!(place(&[(VARIABLE, "")]), None);
    }

    #[test]
    fn a_device_gets_the_bias_of_its_own_driver_and_host() {
        let mut definitions = Definitions::default();
        definitions.process.host = clscope_readings::host::name();
        let devices = [(1, "x", "1"), (2, "x", "2"), (3, "y", "1")];
        for (id, name, driver) in devices {
            let device = clscope_trace::defs::Device {
                id,
                name: name.into(),
                driver: driver.into(),
                ..Default::default()
            };
            definitions.devices.insert(id, device);
        }
        let bias = |value, uncertainty| Entry::new(device("x")).with(SPAN_BIAS, value, uncertainty);
        apply(
            &[
                Entry { host: "elsewhere".into(), ..bias(1.0, Some(1.0)) },
                bias(1_900.0, Some(100.0)),
            ],
            &mut definitions,
        );
        let [found] = &definitions.calibrations[..] else {
            panic!("{:?}", definitions.calibrations)
        };
        assert_eq!((found.device, found.value, found.uncertainty), (1, 1_900.0, 100.0));
        let mut none = definitions.clone();
        none.calibrations.clear();
        apply(&[bias(1_900.0, None)], &mut none);
        assert!(none.calibrations.is_empty(), "a figure of unknown uncertainty corrects nothing");
    }

    #[test]
    fn what_is_no_such_file_is_told_with_the_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("calibration.json");
        for text in ["", "{}", "[1]", "{\"schema\": 99, \"entries\": []}"] {
            std::fs::write(&path, text).unwrap();
            let error = Store::load(&path).unwrap_err().to_string();
            assert!(
                error.contains("doctor --calibrate") && error.contains("calibration.json"),
                "{text}: {error}"
            );
        }
        let error = Store::default()
            .save(Path::new("/proc/none/calibration.json"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(VARIABLE), "{error}");
    }
}
