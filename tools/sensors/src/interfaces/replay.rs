//! Readings from a file instead of a sensor, and the writer of such files. For tests, for synthetic
//! truth, and for looking again at what a machine once gave.
//!
//! # The format
//! UTF-8 text, one record a line, fields separated by commas. Empty lines and lines that begin with
//! `#` are skipped, save the first, which must be `#clscope-readings 1`.
//!
//! | line | fields |
//! |---|---|
//! | `domain,ID,KIND,PLANE,PACKAGE,NAME` | ID counts up from 0. KIND: `energy:NUM/DEN:RANGE` (a count is NUM/DEN microjoules; RANGE the count at which it wraps, or `-`), `power` or `power:WINDOW_NS`, `clock`, `temperature`, `percent`, `bandwidth`, `flags`. PLANE: `pkg pp0 core pp1 dram psys gpu card gpumem apu -`. PACKAGE: a number or `-`. NAME: the rest of the line |
//! | `ID,BEFORE,AFTER,VALUE` | CLOCK_MONOTONIC_RAW nanoseconds; VALUE in counts, microwatts, MHz, thousandths of a degree, percent, MiB/s, or bits |
//!
//! Readings of a file are in the order in which they are to be given; their times need not be
//! sorted.
#![forbid(unsafe_code)]

use crate::error::SensorError;
use crate::source::{
    Domain, DomainId, Pace, Plane, Quantity, Range, Reading, SensorSource, TakeReading, Value,
};
use crate::units::{Clock, EnergyUnit, Microwatts, RawNs, Stamp};
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

/// The first line of every such file.
pub const HEADER: &str = "#clscope-readings 1";
const WHAT: &str = "recorded readings";

/// When recorded readings are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pacing {
    /// Everything at the first read, with the recorded times.
    AtOnce,
    /// As time passes: the first recorded reading falls on the first read, and all times are moved
    /// by the same amount.
    Live,
}

/// A file of readings as a source.
pub struct Replay {
    domains: Vec<Domain>,
    readings: Vec<Reading>,
    next: usize,
    pacing: Pacing,
    /// Recorded time of the first reading, and the live time it falls on.
    origin: Option<(RawNs, RawNs)>,
}

fn plane_word(plane: Option<&Plane>) -> &'static str {
    match plane {
        Some(Plane::Package) => "pkg",
        Some(Plane::Cores) => "pp0",
        Some(Plane::SingleCore) => "core",
        Some(Plane::Graphics) => "pp1",
        Some(Plane::Dram) => "dram",
        Some(Plane::Platform) => "psys",
        Some(Plane::Gpu) => "gpu",
        Some(Plane::GpuCard) => "card",
        Some(Plane::GpuMemory) => "gpumem",
        Some(Plane::Apu) => "apu",
        Some(Plane::Other(_)) | None => "-",
    }
}

fn parse_plane(word: &str) -> Option<Option<Plane>> {
    Some(Some(match word {
        "pkg" => Plane::Package,
        "pp0" => Plane::Cores,
        "core" => Plane::SingleCore,
        "pp1" => Plane::Graphics,
        "dram" => Plane::Dram,
        "psys" => Plane::Platform,
        "gpu" => Plane::Gpu,
        "card" => Plane::GpuCard,
        "gpumem" => Plane::GpuMemory,
        "apu" => Plane::Apu,
        "-" => return Some(None),
        _ => return None,
    }))
}

fn kind_text(quantity: &Quantity) -> String {
    match quantity {
        Quantity::Energy { unit, range } => {
            let (num, den) = unit.as_fraction();
            match range {
                Range::Endless => format!("energy:{num}/{den}:-"),
                Range::Wraps(at) => format!("energy:{num}/{den}:{at}"),
            }
        }
        Quantity::Power { window_ns: None } => "power".to_owned(),
        Quantity::Power { window_ns: Some(ns) } => format!("power:{ns}"),
        Quantity::Clock => "clock".to_owned(),
        Quantity::Temperature => "temperature".to_owned(),
        Quantity::Percent => "percent".to_owned(),
        Quantity::Bandwidth => "bandwidth".to_owned(),
        Quantity::Flags => "flags".to_owned(),
    }
}

fn parse_kind(text: &str) -> Option<Quantity> {
    let mut parts = text.split(':');
    let quantity = match (parts.next()?, parts.next()) {
        ("energy", Some(unit)) => {
            let (num, den) = unit.split_once('/')?;
            let unit = EnergyUnit::fraction(num.parse().ok()?, den.parse().ok()?)?;
            let range = match parts.next()? {
                "-" => Range::Endless,
                at => Range::Wraps(at.parse().ok().filter(|at| *at > 0)?),
            };
            Quantity::Energy { unit, range }
        }
        ("power", None) => Quantity::Power { window_ns: None },
        ("power", Some(ns)) => Quantity::Power { window_ns: Some(ns.parse().ok()?) },
        ("clock", None) => Quantity::Clock,
        ("temperature", None) => Quantity::Temperature,
        ("percent", None) => Quantity::Percent,
        ("bandwidth", None) => Quantity::Bandwidth,
        ("flags", None) => Quantity::Flags,
        _ => return None,
    };
    parts.next().is_none().then_some(quantity)
}

fn parse_value(quantity: &Quantity, text: &str) -> Option<Value> {
    let real = || text.parse::<f64>().ok().filter(|x| x.is_finite());
    Some(match quantity {
        Quantity::Energy { .. } => Value::Counter(text.parse().ok()?),
        Quantity::Power { .. } => Value::Power(Microwatts(text.parse().ok()?)),
        Quantity::Clock => Value::Megahertz(real()?),
        Quantity::Temperature => Value::Millicelsius(text.parse().ok()?),
        Quantity::Percent => Value::Percent(real()?),
        Quantity::Bandwidth => Value::MebibytesPerSecond(real()?),
        Quantity::Flags => Value::Bits(text.parse().ok()?),
    })
}

/// A domain as one line, without its break.
pub(crate) fn domain_line(id: usize, domain: &Domain) -> String {
    let package = domain.package.map_or_else(|| "-".to_owned(), |p| p.to_string());
    let name = domain.name.replace(['\n', '\r'], " ");
    let plane = plane_word(domain.plane.as_ref());
    format!("domain,{id},{},{plane},{package},{}", kind_text(&domain.quantity), name.trim_end())
}

/// Reads such a line back; its number must be `next_id`.
pub(crate) fn parse_domain(line: &str, next_id: usize) -> Option<Domain> {
    let mut fields = line.splitn(6, ',');
    if fields.next()? != "domain" || fields.next()?.parse() != Ok(next_id) {
        return None;
    }
    let quantity = parse_kind(fields.next()?)?;
    let plane = parse_plane(fields.next()?)?;
    let package = match fields.next()? {
        "-" => None,
        number => Some(number.parse().ok()?),
    };
    Some(Domain { plane, package, ..Domain::new(fields.next()?, quantity) })
}

fn parse_reading(line: &str, domains: &[Domain]) -> Option<Reading> {
    let mut fields = line.split(',');
    let id: usize = fields.next()?.parse().ok()?;
    let domain = domains.get(id)?;
    let before = RawNs(fields.next()?.parse().ok()?);
    let after = RawNs(fields.next()?.parse().ok()?);
    let value = parse_value(&domain.quantity, fields.next()?)?;
    (fields.next().is_none() && before <= after)
        .then(|| Reading::now(DomainId(id), Stamp { before, after }, value))
}

/// Longest line that is read, in bytes: a file without line breaks must not fill the memory.
const LONGEST_LINE: u64 = 1 << 16;

/// The lines of a text, none of them longer than [`LONGEST_LINE`].
struct Lines<R> {
    input: R,
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        let mut line = Vec::new();
        match (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) => None,
            Ok(n) if n as u64 == LONGEST_LINE && !line.ends_with(b"\n") => {
                let why = format!("a line has more than {LONGEST_LINE} bytes");
                Some(Err(io::Error::new(io::ErrorKind::InvalidData, why)))
            }
            Ok(_) => {
                Some(String::from_utf8(line).map_err(|error| {
                    io::Error::new(io::ErrorKind::InvalidData, error.utf8_error())
                }))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl Replay {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`SensorError::Malformed`] names the line; [`SensorError::Io`] and [`SensorError::NotFound`]
    /// else.
    pub fn open(path: &Path, pacing: Pacing) -> Result<Replay, SensorError> {
        let file = clscope_io::input::open(path).map_err(|e| {
            crate::files::open_error(WHAT, path, e, "file permissions", "make the file readable")
        })?;
        Replay::parse(io::BufReader::new(file), path, pacing)
    }

    /// Reads from anything; errors name `path`.
    ///
    /// # Errors
    /// As [`Replay::open`].
    pub fn parse(input: impl BufRead, path: &Path, pacing: Pacing) -> Result<Replay, SensorError> {
        let mut replay =
            Replay { domains: Vec::new(), readings: Vec::new(), next: 0, pacing, origin: None };
        let mut lines = Lines { input }.enumerate();
        let at = |number: usize| PathBuf::from(format!("{}:{}", path.display(), number + 1));
        match lines.next() {
            Some((_, Ok(first))) if first.trim_end() == HEADER => {}
            other => {
                let found = other.and_then(|(_, line)| line.ok()).unwrap_or_default();
                return Err(SensorError::malformed(WHAT, at(0), &found, HEADER));
            }
        }
        for (number, line) in lines {
            let line =
                line.map_err(|source| SensorError::Io { what: WHAT, path: at(number), source })?;
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.starts_with("domain,") {
                let domain = parse_domain(line, replay.domains.len()).ok_or_else(|| {
                    SensorError::malformed(
                        WHAT,
                        at(number),
                        line,
                        "domain,ID,KIND,PLANE,PACKAGE,NAME",
                    )
                })?;
                replay.domains.push(domain);
            } else {
                let reading = parse_reading(line, &replay.domains).ok_or_else(|| {
                    SensorError::malformed(
                        WHAT,
                        at(number),
                        line,
                        "ID,BEFORE,AFTER,VALUE of a known domain",
                    )
                })?;
                replay.readings.push(reading);
            }
        }
        Ok(replay)
    }

    /// Whether everything was handed out.
    pub fn is_finished(&self) -> bool {
        self.next >= self.readings.len()
    }
}

impl SensorSource for Replay {
    fn about(&self) -> (&str, &[Domain], Pace) {
        let pace = Pace { fastest_ns: 1_000_000, slowest_ns: 100_000_000, adaptive: false };
        ("replay", &self.domains, pace)
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError> {
        let now = clock.raw();
        while let Some(reading) = self.readings.get(self.next) {
            let mut reading = *reading;
            if self.pacing == Pacing::Live {
                let (recorded, live) = *self.origin.get_or_insert((reading.stamp.before, now));
                let moved = |t: RawNs| RawNs(live.0.saturating_add(t.0).saturating_sub(recorded.0));
                reading.stamp = Stamp {
                    before: moved(reading.stamp.before),
                    after: moved(reading.stamp.after),
                };
                if reading.stamp.after > now {
                    break;
                }
            }
            self.next += 1;
            out(reading);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    /// What is read again.
    struct ReplayWriter<W: Write> {
        out: W,
    }

    impl<W: Write> ReplayWriter<W> {
        fn new(mut out: W, domains: &[Domain]) -> io::Result<ReplayWriter<W>> {
            writeln!(out, "{HEADER}")?;
            for (id, domain) in domains.iter().enumerate() {
                writeln!(out, "{}", domain_line(id, domain))?;
            }
            Ok(ReplayWriter { out })
        }

        fn reading(&mut self, reading: &Reading) -> io::Result<()> {
            let (before, after) = (reading.stamp.before.0, reading.stamp.after.0);
            write!(self.out, "{},{before},{after},", reading.domain.0)?;
            match reading.value {
                Value::Counter(n) | Value::Bits(n) => writeln!(self.out, "{n}"),
                Value::Energy(e) => writeln!(self.out, "{}", e.0),
                Value::Power(p) => writeln!(self.out, "{}", p.0),
                Value::Megahertz(x) | Value::Percent(x) | Value::MebibytesPerSecond(x) => {
                    writeln!(self.out, "{x}")
                }
                Value::Millicelsius(t) => writeln!(self.out, "{t}"),
            }
        }

        fn into_inner(self) -> W {
            self.out
        }
    }

    fn parse(text: &str, pacing: Pacing) -> Result<Replay, SensorError> {
        Replay::parse(text.as_bytes(), Path::new("f"), pacing)
    }

    #[test]
    fn bad_lines_are_named() {
        let table = [
            ("", "f:1"),
            ("domain,0,power,-,-,x\n", "f:1"),
            ("#clscope-readings 1\ndomain,1,power,-,-,x\n", "f:2"),
            ("#clscope-readings 1\ndomain,0,energy:0/1:-,-,-,x\n", "f:2"),
            ("#clscope-readings 1\ndomain,0,energy:1/1:0,-,-,x\n", "f:2"),
            ("#clscope-readings 1\n# fine\n\n0,1,2,3\n", "f:4"),
            ("#clscope-readings 1\ndomain,0,power,-,-,x\n0,2,1,3\n", "f:3"),
            ("#clscope-readings 1\ndomain,0,power,-,-,x\n0,1,2,-3\n", "f:3"),
            ("#clscope-readings 1\ndomain,0,percent,-,-,x\n0,1,2,NaN\n", "f:3"),
            ("#clscope-readings 1\ndomain,0,power,-,-,x\n0,1,2,3,4\n", "f:3"),
        ];
        for (text, place) in table {
            match parse(text, Pacing::AtOnce) {
                Err(SensorError::Malformed { path, .. }) => {
                    assert_eq!(path, Path::new(place), "{text}")
                }
                other => panic!("{text}: {:?}", other.map(|_| ())),
            }
        }
    }

    #[test]
    fn what_is_no_file_of_lines_ends_with_an_error() {
        for path in ["/dev/zero", "/dev", "/nonexistent"] {
            let error = Replay::open(Path::new(path), Pacing::AtOnce).map(|_| ()).unwrap_err();
            assert!(
                matches!(error, SensorError::Io { .. } | SensorError::NotFound { .. }),
                "{error}"
            );
        }
        // A line without end, of which only a part is read.
        let endless = io::BufReader::new(HEADER.as_bytes().chain(b"\n#".chain(io::repeat(b'x'))));
        let error = Replay::parse(endless, Path::new("f"), Pacing::AtOnce).map(|_| ()).unwrap_err();
        assert!(
            matches!(&error, SensorError::Io { path, .. } if path == Path::new("f:2")),
            "{error}"
        );
    }

    #[test]
    fn live_pacing_moves_all_times_alike() {
        let text =
            "#clscope-readings 1\ndomain,0,power,gpu,-,board\n0,1000,1010,5\n0,3000,3010,6\n";
        let mut replay = parse(text, Pacing::Live).unwrap();
        let mut given = Vec::new();
        for now in [50_000, 50_010, 52_000, 52_010] {
            replay.read(&mut || RawNs(now), &mut |r| given.push((now, r.stamp.after.0))).unwrap();
        }
        assert_eq!(given, [(50_010, 50_010), (52_010, 52_010)]);
        assert!(replay.is_finished());
    }

    fn any_quantity() -> impl Strategy<Value = Quantity> {
        prop_oneof![
            (1u64.., 1u64.., prop::option::of(1u64..)).prop_map(|(n, d, at)| Quantity::Energy {
                unit: EnergyUnit::fraction(n, d).unwrap(),
                range: at.map_or(Range::Endless, Range::Wraps),
            }),
            prop::option::of(any::<u64>()).prop_map(|window_ns| Quantity::Power { window_ns }),
            Just(Quantity::Clock),
            Just(Quantity::Temperature),
            Just(Quantity::Percent),
            Just(Quantity::Bandwidth),
            Just(Quantity::Flags),
        ]
    }

    fn value_of(quantity: &Quantity, seed: u64) -> Value {
        match quantity {
            Quantity::Energy { .. } => Value::Counter(seed),
            Quantity::Power { .. } => Value::Power(Microwatts(seed)),
            Quantity::Clock => Value::Megahertz(seed as f64 / 3.0),
            Quantity::Temperature => Value::Millicelsius(-(seed as i64 >> 1)),
            Quantity::Percent => Value::Percent(seed as f64 / 7.0),
            Quantity::Bandwidth => Value::MebibytesPerSecond(seed as f64 / 9.0),
            Quantity::Flags => Value::Bits(seed),
        }
    }

    proptest! {
        #[test]
        fn files_read_back_as_written(
            quantities in prop::collection::vec((any_quantity(), "[a-z/,0-9]{1,12}"), 1..5),
            rows in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>(), any::<u32>(), any::<u64>()), 0..40),
        ) {
            let domains: Vec<Domain> =
                quantities.iter().map(|(q, name)| Domain::new(name.clone(), *q)).collect();
            let mut writer = ReplayWriter::new(Vec::new(), &domains).unwrap();
            let mut want = Vec::new();
            for (which, before, width, seed) in rows {
                let id = which.index(domains.len());
                let before = u64::from(before);
                let stamp = Stamp { before: RawNs(before), after: RawNs(before + u64::from(width)) };
                let reading = Reading::now(DomainId(id), stamp, value_of(&domains[id].quantity, seed));
                writer.reading(&reading).unwrap();
                want.push(reading);
            }
            let bytes = writer.into_inner();
            let mut replay = Replay::parse(&bytes[..], Path::new("f"), Pacing::AtOnce).unwrap();
            prop_assert_eq!(replay.domains(), &domains[..]);
            let mut got = Vec::new();
            replay.read(&mut || RawNs(0), &mut |r| got.push(r)).unwrap();
            prop_assert_eq!(got, want);
        }

        #[test]
        fn hostile_files_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut text = format!("{HEADER}\ndomain,0,energy:1/1:-,pkg,0,x\n").into_bytes();
            text.extend(bytes);
            if let Ok(mut replay) = Replay::parse(&text[..], Path::new("f"), Pacing::Live) {
                replay.read(&mut || RawNs(u64::MAX), &mut |_| ()).unwrap();
            }
        }
    }
}
