//! Tables of an external power meter: a CSV of times and watts, as loggers of wall sockets, clamps
//! and shunts write it. Owns the columns, units and forms of time, and which lines are no readings.
//! Refuses to place the meter's time on the host's clock: that needs the trace.
//!
//! # The table
//! Text in UTF-8; fields are separated by commas, semicolons or tabs. Lines before the one that
//! names the columns are skipped, and so are empty lines and those that begin with `#`. Where
//! fields are separated otherwise, a comma is a decimal point; it may be both, where every number
//! behind the times has one (the log of Piispanen 2014, section 6.1.3).
//!
//! | time | form |
//! |---|---|
//! | moment | `2026-01-31T12:00:00.5+01:00`, `2026-01-31 12:00:00`, `31.1.2026 12:00:00`, or seconds, milli-, micro- or nanoseconds since 1970 |
//! | time of day | `12:00:00.5` |
//! | since a start | seconds; milli- or microseconds where the column's name says so |
#![forbid(unsafe_code)]

use std::str::FromStr;
use thiserror::Error;

/// Name of the source that a meter's readings have in traces.
pub const SOURCE: &str = "meter";
/// Name of the plane.
pub const PLANE: &str = "meter";

/// Lines among which the names of the columns are looked for.
const HEAD: usize = 64;
/// Lines that are no readings, of which the first are named.
const NAMED: usize = 5;
/// A pause of so many usual steps is a gap.
const GAP_STEPS: f64 = 3.0;
const DAY_NS: i64 = 86_400_000_000_000;

/// How a table is to be read, as `--meter-format` says it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Format {
    /// The column of times: its name, or its number from 1; two names joined by `+`.
    pub time: Option<String>,
    /// The column of power.
    pub power: Option<String>,
    /// Watts of one unit, where the column's name does not say it.
    pub watts: Option<f64>,
    /// Whether commas are decimal points although they separate fields, too.
    pub decimal_comma: bool,
    /// Nanoseconds by which the zone of times without one is ahead of UTC.
    pub zone_ns: Option<i64>,
    /// Nanoseconds that are added to the meter's times.
    pub offset_ns: i64,
    /// How its times are placed on the host's clock.
    pub placing: Placing,
}

/// How the meter's times become the host's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placing {
    /// By the clock where times are moments, else by the load.
    #[default]
    Auto,
    /// By the clock: the meter's is right.
    Clock,
    /// By the load: power rises where the devices work.
    Load,
    /// By a marker: the application started at this time of the meter, or at the first line with a
    /// field that says this.
    Start(String),
}

/// What a table cannot be read as.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum MeterError {
    /// A part of the format means nothing.
    #[error(
        "`{0}` is no part of a meter's format: time=COLUMN, power=COLUMN, unit=W, decimal=comma, zone=+01:00, offset=SECONDS, place=clock or load, start=TIME, separated by commas"
    )]
    Format(String),
    /// No line names columns of both kinds.
    #[error(
        "no line names a column of times and one of power; say which they are, such as --meter-format time=1,power=2"
    )]
    NoColumns,
    /// A column that was named is not there.
    #[error("there is no column `{wanted}`: there are {}", .there.join(", "))]
    NoColumn { wanted: String, there: Vec<String> },
    /// Several columns could be meant.
    #[error("the columns {} could all be power; name one: --meter-format 'power={}'", .0.join(", "), .0[0])]
    Several(Vec<String>),
    /// No line has a time and a power.
    #[error("no line has a time and a power; the first that has not: {0}")]
    Empty(String),
    /// Times have no zone.
    #[error("the times have no zone; say which, such as --meter-format zone=+01:00 or zone=UTC")]
    NoZone,
    /// The marker was not found.
    #[error(
        "`{0}` is neither a time of the table nor in one of its fields; say start=TIME as the table writes times"
    )]
    NoMark(String),
}

/// What the times of a table are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Nanoseconds since 1970, UTC.
    Moments,
    /// Nanoseconds since some midnight, UTC.
    OfDay,
    /// Nanoseconds since a start that nobody knows.
    SinceStart,
    /// When lines arrived, on the clock of who took them.
    Arrivals,
}

/// A table as readings.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name of the column of power.
    pub column: String,
    /// What the times are.
    pub times: Times,
    /// Time in nanoseconds, and watts; times rise.
    pub points: Vec<(i64, f64)>,
    /// The line of each, from 0.
    pub lines: Vec<usize>,
    /// When the application started by the marker, where one was asked for.
    pub start: Option<i64>,
    /// Number and reason of the first lines that are no readings.
    pub bad: Vec<(usize, &'static str)>,
    /// How many there are.
    pub bad_lines: usize,
    /// Readings whose time is not behind the one before: they are left out.
    pub backwards: usize,
}

impl FromStr for Format {
    type Err = MeterError;

    fn from_str(text: &str) -> Result<Self, MeterError> {
        let mut out = Self::default();
        for part in text.split(',').filter(|p| !p.trim().is_empty()) {
            let wrong = || MeterError::Format(part.trim().to_owned());
            let (key, value) = part.split_once('=').ok_or_else(wrong)?;
            let value = value.trim();
            if value.is_empty() {
                return Err(wrong());
            }
            match key.trim() {
                "time" => out.time = Some(value.to_owned()),
                "power" => out.power = Some(value.to_owned()),
                "decimal" if value == "comma" => out.decimal_comma = true,
                "unit" => out.watts = Some(unit(value).ok_or_else(wrong)?),
                "zone" => out.zone_ns = Some(zone(value).ok_or_else(wrong)?),
                "offset" => {
                    let seconds = value.parse::<f64>().ok().filter(|s| s.abs() < 1e9);
                    out.offset_ns = (seconds.ok_or_else(wrong)? * 1e9) as i64;
                }
                "place" if value == "clock" => out.placing = Placing::Clock,
                "place" if value == "load" => out.placing = Placing::Load,
                "start" => out.placing = Placing::Start(value.to_owned()),
                _ => return Err(wrong()),
            }
        }
        Ok(out)
    }
}

/// Watts of a unit.
fn unit(name: &str) -> Option<f64> {
    Some(match name {
        "W" | "w" | "Watt" | "watt" | "Watts" | "watts" => 1.0,
        "mW" | "mw" => 1e-3,
        "uW" | "uw" | "µW" => 1e-6,
        "kW" | "kw" => 1e3,
        _ => return None,
    })
}

/// Nanoseconds by which a zone is ahead of UTC: `UTC`, `Z`, `+01:00`, `-0530`, `+2`.
fn zone(text: &str) -> Option<i64> {
    if matches!(text, "UTC" | "utc" | "Z" | "z") {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.split_once(':') {
        Some(parts) => parts,
        None if rest.len() == 4 => rest.split_at_checked(2)?,
        None => (rest, "0"),
    };
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    ((0..=14).contains(&hours) && (0..60).contains(&minutes))
        .then_some(sign * (hours * 60 + minutes) * 60_000_000_000)
}

/// Days since 1970 of a date of the Gregorian calendar: whole cycles of 400 years, years that begin
/// in March, and the days before a month of such a year.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1970..=2200).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month > 2 { year } else { year - 1 };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(year * 365 + year / 4 - year / 100 + year / 400 + of_year - 719_468)
}

/// Nanoseconds of `HH:MM:SS.F`.
fn of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let (hours, minutes): (i64, i64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let seconds: f64 = parts.next().unwrap_or("0").replace(',', ".").parse().ok()?;
    let fits =
        (0..24).contains(&hours) && (0..60).contains(&minutes) && (0.0..61.0).contains(&seconds);
    (fits && parts.next().is_none())
        .then(|| (hours * 60 + minutes) * 60_000_000_000 + (seconds * 1e9).round() as i64)
}

/// A time as its field writes it; `scale` is what a number without a date counts, in nanoseconds.
/// The last is whether it had a zone of its own.
fn time(text: &str, scale: f64) -> Option<(Times, i64, bool)> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        // Seconds since 1970 have ten digits in these centuries, and so on.
        let scaled = match number {
            n if !n.is_finite() || n < 0.0 => return None,
            n if n >= 1e17 => (Times::Moments, n),
            n if n >= 1e14 => (Times::Moments, n * 1e3),
            n if n >= 1e11 => (Times::Moments, n * 1e6),
            n if n >= 1e8 => (Times::Moments, n * 1e9),
            n => (Times::SinceStart, n * scale),
        };
        return Some((scaled.0, scaled.1 as i64, true));
    }
    let Some((date, clock)) = text.split_once(['T', ' ']) else {
        return of_day(text).map(|ns| (Times::OfDay, ns, false));
    };
    let mut parts = date.split(['-', '/', '.']);
    let mut next = || parts.next()?.parse::<i64>().ok();
    let (first, month, last) = (next()?, next()?, next()?);
    // With points the day comes first.
    let (year, day) = if date.contains('.') { (last, first) } else { (first, last) };
    let days = days(year, month, day)?;
    let clock = clock.trim();
    let behind = clock.find(['+', '-', 'Z']).unwrap_or(clock.len());
    let (clock, own) = clock.split_at_checked(behind)?;
    let ahead = if own.is_empty() { Some(0) } else { zone(own) }?;
    Some((Times::Moments, days * DAY_NS + of_day(clock.trim())? - ahead, !own.is_empty()))
}

/// A number, with its unit behind it or not.
fn power(text: &str, decimal_comma: bool) -> Option<f64> {
    let text = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let number = if decimal_comma { text.replace(',', ".") } else { text.to_owned() };
    number.parse::<f64>().ok().filter(|w| w.is_finite())
}

/// Fields of a line; a separator within quotes is none.
fn fields(line: &str, separator: char) -> Vec<String> {
    let (mut out, mut field, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c == separator && !quoted => {
                out.push(std::mem::take(&mut field).trim().to_owned())
            }
            c => field.push(c),
        }
    }
    out.push(field.trim().to_owned());
    out
}

/// Fields of a line in which every number behind the first `times` fields has a decimal comma that
/// was taken for a separator, as numbers; `None` where they are no such pairs.
fn with_decimals(fields: &[String], times: usize) -> Option<Vec<String>> {
    let (times, rest) = fields.split_at_checked(times)?;
    if rest.is_empty() || rest.len() % 2 != 0 {
        return None;
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let joined = rest.chunks_exact(2).map(|pair| {
        let whole = pair[0].strip_prefix('-').unwrap_or(&pair[0]);
        let part = pair[1].trim_end_matches(|c: char| c.is_alphabetic() || c == '%').trim_end();
        (digits(whole) && digits(part)).then(|| format!("{}.{}", pair[0], pair[1]))
    });
    Some(times.iter().cloned().chain(joined.collect::<Option<Vec<_>>>()?).collect())
}

/// Words of a column's name.
fn words(name: &str) -> Vec<&str> {
    name.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect()
}

fn is_time(name: &str) -> bool {
    const UNITS: [&str; 9] = ["s", "sec", "secs", "second", "seconds", "ms", "us", "µs", "ns"];
    let is = |w: &&str| {
        let lower = w.to_lowercase();
        let named = ["time", "date", "elapsed"].iter().any(|part| lower.contains(part));
        // S is apparent power.
        named || lower == "t" || *w != "S" && UNITS.contains(&&*lower)
    };
    words(name).iter().any(is)
}

fn is_power(name: &str) -> bool {
    let lower = name.to_lowercase();
    let other = ["factor", "apparent", "reactive", "energy", "hour", "wh", "limit", "volt", "amp"];
    if other.iter().any(|word| lower.contains(word))
        || words(name).iter().any(|w| matches!(*w, "VA" | "var" | "VAR"))
    {
        return false;
    }
    lower.contains("power")
        || lower.contains("watt")
        || words(name).iter().any(|w| unit(w).is_some())
}

/// Which fields of a line are what.
struct Columns {
    names: Vec<String>,
    time: Vec<usize>,
    power: usize,
}

/// The column that a user means.
fn column(wanted: &str, names: &[String]) -> Result<usize, MeterError> {
    let by_name = names.iter().position(|n| n.eq_ignore_ascii_case(wanted));
    let by_number =
        || wanted.parse::<usize>().ok().filter(|n| (1..=names.len()).contains(n)).map(|n| n - 1);
    by_name
        .or_else(by_number)
        .ok_or_else(|| MeterError::NoColumn { wanted: wanted.to_owned(), there: names.to_vec() })
}

impl Columns {
    /// Those of a line that may name them; the error counts where the line has names at all.
    fn find(names: Vec<String>, format: &Format, arrive: bool) -> Result<Self, MeterError> {
        let time = match &format.time {
            Some(wanted) => wanted
                .split('+')
                .map(|part| column(part.trim(), &names))
                .collect::<Result<_, _>>()?,
            None => {
                let all: Vec<usize> = (0..names.len()).filter(|i| is_time(&names[*i])).collect();
                let with =
                    |what: &str| all.iter().copied().find(|i| names[*i].to_lowercase() == what);
                match (with("date"), with("time")) {
                    (Some(date), Some(time)) => vec![date, time],
                    _ => all.into_iter().take(1).collect(),
                }
            }
        };
        let power = match &format.power {
            Some(wanted) => column(wanted, &names)?,
            None => {
                let all: Vec<usize> = (0..names.len())
                    .filter(|i| !time.contains(i) && is_power(&names[*i]))
                    .collect();
                match all[..] {
                    [] if arrive && names.len() == 1 && power(&names[0], false).is_some() => 0,
                    [] => return Err(MeterError::NoColumns),
                    [one] => one,
                    _ => {
                        return Err(MeterError::Several(
                            all.iter().map(|i| names[*i].clone()).collect(),
                        ));
                    }
                }
            }
        };
        if time.is_empty() && !arrive {
            return Err(MeterError::NoColumns);
        }
        Ok(Self { names, time, power })
    }
}

impl Table {
    /// Reads a table. Where it is known when each line arrived (nanoseconds), it need have no times
    /// of its own, nor names of columns where power is all it has.
    ///
    /// # Errors
    /// What it cannot be read as, with the option that helps.
    pub fn parse(
        text: &str,
        format: &Format,
        arrivals: Option<&[u64]>,
    ) -> Result<Self, MeterError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines = || {
            text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'))
        };
        let (mut found, mut why) = (None, MeterError::NoColumns);
        // Names may be a part of a line of data only where the user gives numbers.
        let numbered = [&format.time, &format.power]
            .iter()
            .all(|c| c.as_ref().is_some_and(|c| c.split('+').all(|p| p.parse::<usize>().is_ok())));
        for (number, line) in lines().take(HEAD) {
            let separator = [';', '\t', ','].into_iter().find(|s| line.contains(*s)).unwrap_or(',');
            let mut names = fields(line, separator);
            if format.decimal_comma && separator == ',' {
                let times = format.time.as_ref().map_or(0, |time| time.split('+').count());
                names = with_decimals(&names, times).unwrap_or(names);
            }
            match Columns::find(names, format, arrivals.is_some()) {
                Ok(columns) => {
                    found = Some((number, separator, columns));
                    break;
                }
                Err(error @ (MeterError::Several(_) | MeterError::NoColumn { .. }))
                    if why == MeterError::NoColumns =>
                {
                    why = error
                }
                Err(_) => {}
            }
        }
        let (head, separator, columns) = found.ok_or(why)?;
        let name = |i: usize| columns.names.get(i).map_or("", String::as_str);
        let first = if (numbered || columns.names.len() == 1)
            && power(name(columns.power), separator != ',').is_some()
        {
            head
        } else {
            head + 1
        };
        let watts = format
            .watts
            .or_else(|| words(name(columns.power)).into_iter().rev().find_map(unit))
            .unwrap_or(1.0);
        let time_words = columns
            .time
            .iter()
            .flat_map(|i| words(name(*i)))
            .map(str::to_lowercase)
            .collect::<Vec<_>>();
        let says = |all: &[&str]| time_words.iter().any(|w| all.contains(&w.as_str()));
        let scale = match () {
            () if says(&["ms", "millis", "milliseconds"]) => 1e6,
            () if says(&["us", "µs", "micros", "microseconds"]) => 1e3,
            () => 1e9,
        };
        let column = match first == head {
            true => format!("column {}", columns.power + 1),
            false => name(columns.power).to_owned(),
        };
        let mut out = Self {
            column,
            times: Times::SinceStart,
            points: Vec::new(),
            lines: Vec::new(),
            start: None,
            bad: Vec::new(),
            bad_lines: 0,
            backwards: 0,
        };
        let wanted = match &format.placing {
            Placing::Start(mark) => Some(mark.as_str()),
            _ => None,
        };
        let place = |(times, at, own): (Times, i64, bool)| -> Result<(Times, i64), MeterError> {
            let ahead = match times {
                Times::SinceStart => 0,
                _ if own => 0,
                _ => format.zone_ns.ok_or(MeterError::NoZone)?,
            };
            Ok((times, at - ahead + format.offset_ns))
        };
        let (mut kind, mut days) = (None, 0);
        // Commas are decimal points, too: as the user says, or the first line has a field more for
        // each number.
        let (times, all) = (columns.time.len(), columns.names.len());
        let can_be = separator == ',' && columns.time.iter().copied().eq(0..times);
        let joined = |line: &str| {
            with_decimals(&fields(line, separator), times).filter(|joined| joined.len() == all)
        };
        let in_first = || lines().find(|(n, _)| *n >= first).and_then(|(_, line)| joined(line));
        let decimals = can_be && (format.decimal_comma || in_first().is_some());
        for (number, line) in lines().filter(|(n, _)| *n >= first) {
            let of_decimals = decimals.then(|| joined(line));
            let other = of_decimals == Some(None);
            let fields = of_decimals.flatten().unwrap_or_else(|| fields(line, separator));
            let field = |i: usize| fields.get(i).map(String::as_str);
            let at = match columns.time[..] {
                [] => arrivals
                    .and_then(|a| Some((Times::Arrivals, i64::try_from(*a.get(number)?).ok()?))),
                _ => {
                    let joined = columns.time.iter().map(|i| field(*i)).collect::<Option<Vec<_>>>();
                    joined.and_then(|t| time(&t.join(" "), scale)).map(place).transpose()?
                }
            };
            if let (Some((_, at)), Some(mark), None) = (at, wanted, out.start)
                && fields.iter().any(|f| f == mark)
            {
                out.start = Some(at);
            }
            let watt =
                field(columns.power).and_then(|p| power(p, separator != ',')).map(|w| w * watts);
            let why = match (at, watt) {
                (None, _) => "no time",
                _ if other => "not a decimal comma in each number",
                (_, None) => "no power",
                (_, Some(w)) if w < 0.0 => "power below 0",
                (Some((times, _)), _) if kind.is_some_and(|k| k != times) => "another form of time",
                (Some((times, at)), Some(w)) => {
                    kind = Some(times);
                    // Behind midnight it is the next day.
                    let last = out.points.last().map(|p| p.0);
                    if times == Times::OfDay
                        && last.is_some_and(|last| last - (at + days) > DAY_NS / 2)
                    {
                        days += DAY_NS;
                    }
                    match last {
                        Some(last) if at + days <= last => out.backwards += 1,
                        _ => {
                            out.points.push((at + days, w));
                            out.lines.push(number);
                        }
                    }
                    continue;
                }
            };
            out.bad_lines += 1;
            if out.bad.len() < NAMED {
                out.bad.push((number + 1, why));
            }
        }
        out.times = kind.ok_or_else(|| {
            MeterError::Empty(out.bad.first().map_or_else(
                || "there are no lines".to_owned(),
                |(n, why)| format!("line {n}, {why}"),
            ))
        })?;
        if let (Some(mark), None) = (wanted, out.start) {
            let at =
                time(mark, 1e9).map(place).transpose()?.filter(|(times, _)| *times == out.times);
            out.start = Some(at.ok_or_else(|| MeterError::NoMark(mark.to_owned()))?.1);
        }
        Ok(out)
    }

    /// The usual step between readings, nanoseconds; `None` of a single one.
    pub fn step_ns(&self) -> Option<i64> {
        let mut steps: Vec<i64> = self.points.windows(2).map(|p| p[1].0 - p[0].0).collect();
        let middle = steps.len() / 2;
        (!steps.is_empty()).then(|| *steps.select_nth_unstable(middle).1)
    }

    /// Where readings are missing: the first behind each gap, by its index, and the gap's length in
    /// nanoseconds.
    pub fn gaps(&self) -> Vec<(usize, i64)> {
        let Some(step) = self.step_ns() else { return Vec::new() };
        let long = |length: i64| length as f64 > GAP_STEPS * step as f64;
        let steps = self.points.windows(2).map(|p| p[1].0 - p[0].0);
        (1..).zip(steps).filter(|(_, length)| long(*length)).collect()
    }

    /// What of the table is no reading, or is missing, as sentences.
    pub fn troubles(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.bad_lines > 0 {
            let named: Vec<String> =
                self.bad.iter().map(|(n, why)| format!("{n} ({why})")).collect();
            let more = if self.bad_lines > self.bad.len() { ", ..." } else { "" };
            let (are, s) =
                if self.bad_lines == 1 { ("is no reading", "") } else { ("are no readings", "s") };
            out.push(format!(
                "{} line{s} of the table {are}: {}{more}",
                self.bad_lines,
                named.join(", ")
            ));
        }
        if self.backwards > 0 {
            out.push(format!(
                "{} readings are left out, because their time is not behind the one before",
                self.backwards
            ));
        }
        let gaps = self.gaps();
        if let Some(longest) = gaps.iter().map(|g| g.1).max() {
            out.push(format!(
                "readings are missing in {} gap{}, the longest {:.1} s: power there is unknown",
                gaps.len(),
                if gaps.len() == 1 { "" } else { "s" },
                longest as f64 * 1e-9
            ));
        }
        out
    }
}

#[cfg(test)]
mod tests;
