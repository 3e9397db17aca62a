//! What the recorder's logs say of the launches that it drew: how many there were of each class, and
//! which places of its sample have a capture. Owns what share of the kernels' device time could be
//! captured (`record --replay=plan`), and why the rest could not. Refuses to open captures.

use clscope_io::input;
use clscope_profile::error::OpenError;
use clscope_profile::profile::{Options, Profile};
use clscope_trace::directory::{CAPTURES, DESCRIBED, SAMPLES, as_recorded};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most bytes of a process's log.
const MOST_LOG: u64 = 64 << 20;
/// Most reasons that are given, and kernels that are named for one.
const MOST: usize = 6;

/// What is lost of a share of 1 by adding it up.
const ROUNDING: f64 = 1e-9;

/// A line of a log.
#[derive(Debug, Default, Deserialize)]
struct Line {
    class: u32,
    kernel_id: Option<u32>,
    #[serde(default)]
    global: Vec<u64>,
    slot: Option<u32>,
    seen: Option<u64>,
    captured: Option<String>,
    would: Option<bool>,
    missing: Option<String>,
}

/// A class of launches: a kernel at one size.
#[derive(Debug, Default)]
struct Class {
    kernel: u32,
    global: Vec<u64>,
    /// How many launches it had; none where the process did not end in order.
    seen: Option<u64>,
    /// What became of each place of its sample: why there is no capture.
    places: BTreeMap<u32, Option<String>>,
}

/// Each process's log, with the stem of its files. Lines that cannot be read are left out: a killed
/// process leaves half of one.
fn logs(trace: &Path) -> Vec<(String, Vec<Line>)> {
    let entries = std::fs::read_dir(trace.join(CAPTURES)).into_iter().flatten().flatten();
    let of = |path: &Path| {
        let stem = path.file_name()?.to_str()?.strip_suffix(SAMPLES)?.to_owned();
        let text = input::read_inside(path, MOST_LOG).ok()?;
        let lines = text.split(|byte| *byte == b'\n');
        Some((stem, lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()))
    };
    entries.filter_map(|entry| of(&entry.path())).collect()
}

/// Names of the captures that were drawn to be measured, and of launches that are described.
pub fn names(trace: &Path) -> BTreeSet<String> {
    let captured = logs(trace).into_iter().flat_map(|(_, lines)| lines);
    let entries = std::fs::read_dir(trace.join(CAPTURES)).into_iter().flatten().flatten();
    let described = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let described = described.filter(|name| name.ends_with(DESCRIBED));
    captured.filter_map(|line| line.captured).chain(described).collect()
}

/// The classes of a log.
fn classes(lines: Vec<Line>) -> BTreeMap<u32, Class> {
    let mut out: BTreeMap<u32, Class> = BTreeMap::new();
    for line in lines {
        let class = out.entry(line.class).or_default();
        if let Some(kernel) = line.kernel_id {
            (class.kernel, class.global) = (kernel, line.global);
        }
        class.seen = line.seen.or(class.seen);
        if let Some(slot) = line.slot {
            let is_there = line.would == Some(true) || line.captured.is_some();
            class.places.insert(slot, (!is_there).then(|| line.missing.unwrap_or_default()));
        }
    }
    out
}

/// Kernels of one name and size: share of the kernels' device time, and what of it was refused.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    name: String,
    /// Of all kernels' device time.
    share: f64,
    /// Parts of its launches that could not be captured, with the reason.
    refused: BTreeMap<String, f64>,
}

/// What could be captured of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Capturable {
    rows: Vec<Row>,
}

/// No draw came to launches of this size.
const NOT_DRAWN: &str = "none of its launches was drawn";

impl Capturable {
    /// What could be captured of the run of a trace.
    ///
    /// # Errors
    /// If the trace cannot be read.
    pub fn find(trace: &Path) -> Result<Self, OpenError> {
        let trace = as_recorded(trace.to_owned());
        let profile = Profile::open(std::slice::from_ref(&trace))?;
        let view = profile.view(Options::default());
        // By name of the kernel: its classes.
        let mut known: BTreeMap<String, Vec<Class>> = BTreeMap::new();
        let mut logs: BTreeMap<String, Vec<Line>> = logs(&trace).into_iter().collect();
        // Where the recorder may write nothing, as in a sandbox, there is no log: it is told.
        let mut told: BTreeMap<String, String> = BTreeMap::new();
        for process in &view.trace().processes {
            for capture in process.definitions.captures.iter().filter(|of| !of.refused.is_empty()) {
                let name = process.definitions.kernel_name(capture.kernel).into_owned();
                told.insert(name, capture.refused.clone());
            }
            let stem = process.label.rsplit_once('/').map_or("", |(_, stem)| stem);
            for class in classes(logs.remove(stem).unwrap_or_default()).into_values() {
                let name = process.definitions.kernel_name(class.kernel).into_owned();
                known.entry(name).or_default().push(class);
            }
        }
        let mut rows = Vec::new();
        for device in view.devices() {
            for ((class, shape), tally) in &device.shapes {
                let Some(class) = device.classes.get(class.0 as usize).filter(|c| c.kernel) else {
                    continue;
                };
                if tally.timed == 0 {
                    continue;
                }
                let seconds = tally.seconds / tally.timed as f64 * tally.launches as f64;
                let unlogged = told.get(&shape.name).map_or(NOT_DRAWN, String::as_str);
                let (name, refused) = match known.get(&shape.name) {
                    Some(classes) => (&shape.name, refused(classes, &shape.sizes, unlogged)),
                    None => (&class.name, BTreeMap::from([(unlogged.to_owned(), 1.0)])),
                };
                rows.push(Row { name: name.clone(), share: seconds, refused });
            }
        }
        let all: f64 = rows.iter().map(|row| row.share).sum();
        rows.retain(|_| all > 0.0);
        rows.iter_mut().for_each(|row| row.share /= all);
        Ok(Self { rows })
    }

    /// Share of the kernels' device time whose launches could be captured; none where no time is
    /// known.
    pub fn share(&self) -> Option<f64> {
        let rest = self.rows.iter().map(|row| row.share * row.refused.values().sum::<f64>());
        let share = 1.0 - rest.sum::<f64>();
        // Sums are rounded: all is exactly all, and nothing nothing.
        let exact = [0.0, 1.0].into_iter().find(|whole| (share - whole).abs() < ROUNDING);
        (!self.rows.is_empty()).then(|| exact.unwrap_or(share))
    }

    /// The share, and why the rest could not be captured, a line each, for people.
    pub fn lines(&self) -> Vec<String> {
        let Some(share) = self.share() else {
            return vec![
                "what --replay can capture is not known: no launch has a device time".into(),
            ];
        };
        let mut out =
            vec![format!("--replay can capture {} of the kernels' device time", percent(share))];
        let mut reasons: BTreeMap<&str, (f64, BTreeMap<&str, f64>)> = BTreeMap::new();
        for row in &self.rows {
            for (why, part) in &row.refused {
                let (sum, names) = reasons.entry(why).or_default();
                *sum += row.share * part;
                *names.entry(&row.name).or_default() += row.share * part;
            }
        }
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
        for (why, (sum, names)) in reasons.iter().take(MOST) {
            let mut names: Vec<_> = names.iter().collect();
            names.sort_by(|a, b| b.1.total_cmp(a.1));
            let more = names.len().saturating_sub(MOST);
            let mut list = names.iter().take(MOST).map(|n| *n.0).collect::<Vec<_>>().join(", ");
            if more > 0 {
                list += &format!(" and {more} more");
            }
            out.push(format!("cannot capture {list} ({}): {why}", percent(*sum)));
        }
        if let Some(rest) = reasons.get(MOST..).filter(|rest| !rest.is_empty()) {
            let sum: f64 = rest.iter().map(|(_, (sum, _))| sum).sum();
            out.push(format!("cannot capture {}: {} more reasons", percent(sum), rest.len()));
        }
        out
    }
}

/// A share for people: one that is not all is never shown as all.
fn percent(share: f64) -> String {
    match 100.0 * share {
        part if part > 0.0 && part < 0.1 => "less than 0.1 %".to_owned(),
        part if part < 100.0 && part > 99.9 => "more than 99.9 %".to_owned(),
        part if part <= 0.0 || part >= 100.0 => format!("{part:.0} %"),
        part => format!("{part:.1} %"),
    }
}

/// Parts of a kernel's launches of one size that could not be captured, by reason. Sizes without a
/// class of their own are in the kernel's last one.
/// `unlogged`: why classes have none that have no line of their own.
fn refused(classes: &[Class], sizes: &[u64], unlogged: &str) -> BTreeMap<String, f64> {
    let own: Vec<&Class> = classes.iter().filter(|class| class.global == sizes).collect();
    let last: Vec<&Class> = classes.last().into_iter().collect();
    let of = if own.is_empty() { last } else { own };
    let weight = |class: &Class| class.seen.unwrap_or(1).max(1) as f64;
    let all: f64 = of.iter().map(|class| weight(class)).sum();
    let mut out: BTreeMap<String, f64> = BTreeMap::new();
    for class in of {
        let part = weight(class) / all;
        if class.places.is_empty() {
            *out.entry(unlogged.to_owned()).or_default() += part;
        }
        let count = class.places.len() as f64;
        for why in class.places.values().flatten() {
            *out.entry(why.clone()).or_default() += part / count;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_last_line_of_a_place_counts_and_sizes_without_a_class_are_the_last_ones() {
        let lines = [
            r#"{"class":0,"kernel":"k","kernel_id":7,"global":[64]}"#,
            r#"{"class":0,"slot":0,"launch":1,"missing":"no room","moved":true}"#,
            r#"{"class":0,"slot":1,"launch":2,"would":true,"bytes":8}"#,
            r#"{"class":0,"slot":0,"launch":9,"would":true,"bytes":8}"#,
            r#"{"class":1,"kernel":"k","kernel_id":7,"global":[128]}"#,
            r#"{"class":1,"slot":0,"launch":1,"missing":"pipes"}"#,
            r#"{"class":1,"slot":1,"launch":2,"captured":"k.2"}"#,
            r#"{"class":0,"seen":9}"#,
        ];
        let all: Vec<Class> =
            classes(lines.iter().map(|text| line(text)).collect()).into_values().collect();
        assert_eq!((all[0].kernel, all[0].seen, all[1].seen), (7, Some(9), None));
        assert_eq!(refused(&all, &[64], NOT_DRAWN), BTreeMap::new());
        let half = BTreeMap::from([("pipes".to_owned(), 0.5)]);
        assert_eq!(refused(&all, &[128], NOT_DRAWN), half);
        assert_eq!(refused(&all, &[1, 2, 3], NOT_DRAWN), half);
        let bare = Class { global: vec![1], ..Class::default() };
        assert_eq!(refused(&[bare], &[1], "why"), BTreeMap::from([("why".to_owned(), 1.0)]));
    }

    #[test]
    fn shares_and_reasons_add_up_to_all() {
        let row = |name: &str, share, refused: &[(&str, f64)]| Row {
            name: name.to_owned(),
            share,
            refused: refused.iter().map(|(why, part)| ((*why).to_owned(), *part)).collect(),
        };
        let rows = vec![
            row("a", 0.5, &[]),
            row("b", 0.3, &[("pipes", 0.5), ("no room", 0.25)]),
            row("c", 0.2, &[("pipes", 1.0)]),
        ];
        let of = Capturable { rows };
        assert!((of.share().unwrap() - 0.575).abs() < 1e-12);
        assert_eq!(
            of.lines(),
            [
                "--replay can capture 57.5 % of the kernels' device time",
                "cannot capture c, b (35.0 %): pipes",
                "cannot capture b (7.5 %): no room",
            ]
        );
        let all = Capturable { rows: (0..10).map(|_| row("a", 0.1, &[])).collect() };
        assert_eq!(all.lines(), ["--replay can capture 100 % of the kernels' device time"]);
        let refused =
            Capturable { rows: (0..10).map(|_| row("a", 0.1, &[("pipes", 1.0)])).collect() };
        assert_eq!(refused.share(), Some(0.0));
        let none = Capturable { rows: Vec::new() };
        assert_eq!(none.share(), None);
        assert!(none.lines()[0].contains("not known"));
        let shown = [1.0, 0.99995, 0.5, 0.0001, 0.0].map(percent);
        assert_eq!(shown, ["100 %", "more than 99.9 %", "50.0 %", "less than 0.1 %", "0 %"]);
    }
}
