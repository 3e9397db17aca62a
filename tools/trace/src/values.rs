//! Values of settings: one parser each for the recorder, which reads them from the environment, and
//! for the command, which takes them as options. Bytes, patterns, and the settings that have a type
//! of their own.

use crate::names::pattern;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A value that cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// Of a size.
    #[error("expected a number of bytes, with K, M or G if wanted: 500M")]
    Size,
    /// Of a share.
    #[error("expected a percentage above 0 and up to 100: 1%")]
    Percent,
    /// Of a method of device timing.
    #[error("expected auto, event, sample, callback, sync or off")]
    DeviceTiming,
    /// Of a source of counters.
    #[error("expected perf, oa, oa:UUID, intel-queue or intel-queue:NUMBER")]
    Counters,
    /// Of launches that are captured.
    #[error(
        "expected kernel names, each with the numbers of launches, from 1, if wanted: gemm, conv*:3 or gemm:1,5; a colon in a name is written as ?"
    )]
    Capture,
    /// Of launches that are drawn.
    #[error("expected 1, 4 or plan")]
    Sample,
    /// Of a kernel's code.
    #[error("expected KERNEL=FILE, with a kernel's name or pattern and a file: sobel=new.cl")]
    Replacement,
    /// Of a work-group size.
    #[error("expected KERNEL=SIZES, with one to three sizes of 1 or more: sobel=64x1")]
    LocalSize,
    /// Of when and how long launches are measured.
    #[error("expected a length of time to measure for (auto, 30s or 5m), later, or plan")]
    Measuring,
    /// Of a length of time.
    #[error("expected a length of time above 0: 90s, 5m or 2h")]
    Duration,
    /// Of a number of frames.
    #[error("expected a number of frames up to {MOST_FRAMES}")]
    Frames,
}

/// How device time is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceTiming {
    /// Events, harvested when the application waits.
    Event,
    /// Events, each with a completion callback.
    Callback,
    /// Each command is waited for.
    Sync,
    /// Events for a random part of the launches, within a budget.
    Sample,
    /// Events, and `sample` from when timing costs more than the budget.
    Auto,
    /// Not at all.
    Off,
}

impl DeviceTiming {
    /// Every method.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Event, Self::Sample, Self::Callback, Self::Sync, Self::Off];

    /// Its name in settings and traces.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Callback => "callback",
            Self::Sync => "sync",
            Self::Sample => "sample",
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }
}

impl crate::defs::Process {
    /// Whether commands may have been left out by chance. A method that this version does not know
    /// may.
    pub fn may_sample(&self) -> bool {
        self.device_timing
            .parse()
            .map_or(true, |method| matches!(method, DeviceTiming::Sample | DeviceTiming::Auto))
    }
}

impl FromStr for DeviceTiming {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        Self::ALL.into_iter().find(|m| m.name() == text).ok_or(BadValue::DeviceTiming)
    }
}

/// Launches that are drawn by chance, and what becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sample {
    /// One of each kernel, sizes and device is captured.
    One,
    /// Four are.
    Four,
    /// It is noted whether they could be.
    Plan,
}

impl FromStr for Sample {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text.trim() {
            "1" => Ok(Self::One),
            "4" => Ok(Self::Four),
            "plan" => Ok(Self::Plan),
            _ => Err(BadValue::Sample),
        }
    }
}

/// Launches that are captured, of each kernel that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// Pattern of kernel names.
    pub pattern: String,
    /// Numbers of launches, counted from 1 for each kernel name in a process; none is there twice.
    pub launches: Vec<u64>,
}

/// Captured bytes of a process, where no limit is given.
pub const CAPTURE_LIMIT: u64 = 1 << 30;

/// The same of captures that are drawn, which are deleted once they have been measured.
pub const DRAWN_LIMIT: u64 = 16 << 30;
/// Most launches of one pattern.
const MOST_LAUNCHES: usize = 1000;

/// Launches to capture: `gemm`, `conv*:3`, `gemm:1,5,copy`. A number behind a comma is another
/// launch of the pattern before it: no kernel's name begins with a digit. Commas inside brackets
/// and pairs of colons are of a name: `sim::add<int, 4>:2`.
///
/// # Errors
/// An empty pattern, one with a single colon, and what is no number from 1.
pub fn captures(text: &str) -> Result<Vec<Capture>, BadValue> {
    let number = |text: &str| text.trim().parse().ok().filter(|n| *n > 0).ok_or(BadValue::Capture);
    let mut out: Vec<Capture> = Vec::new();
    // Whether the entry before has numbers, so that another may follow.
    let mut open = false;
    for part in entries(text).into_iter().map(str::trim) {
        if part.starts_with(|c: char| c.is_ascii_digit()) {
            let last = out.last_mut().filter(|_| open).ok_or(BadValue::Capture)?;
            let n = number(part)?;
            if !last.launches.contains(&n) {
                last.launches.push(n);
            }
            if last.launches.len() > MOST_LAUNCHES {
                return Err(BadValue::Capture);
            }
            continue;
        }
        // The colons of `sim::step` belong to the name.
        let behind = part.rsplit_once(':').filter(|(before, _)| !before.ends_with(':'));
        let (pattern, n) = match behind {
            Some((pattern, n)) => (pattern.trim(), number(n)?),
            None => (part, 1),
        };
        if pattern.is_empty() || pattern.replace("::", "").contains(':') {
            return Err(BadValue::Capture);
        }
        open = behind.is_some();
        out.push(Capture { pattern: pattern.to_owned(), launches: vec![n] });
    }
    Ok(out)
}

/// A source of counters that is read inside the application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counters {
    /// perf events of the process's threads.
    Perf,
    /// An OA stream: of the configuration with this UUID (lower case), or as `clscope record`
    /// chose.
    Oa(Option<String>),
    /// Queues with counters of Intel's runtime, of this configuration.
    IntelQueue(u32),
}

impl Counters {
    /// Whether counts are taken around commands, which are waited for.
    pub const fn around_commands(&self) -> bool {
        matches!(self, Self::Perf | Self::Oa(_))
    }
}

impl FromStr for Counters {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (family, of) = match text.split_once(':') {
            Some((family, of)) => (family, Some(of)),
            None => (text, None),
        };
        match (family, of) {
            ("perf", None) => Ok(Self::Perf),
            ("oa", None) => Ok(Self::Oa(None)),
            ("oa", Some(uuid)) if is_uuid(uuid) => Ok(Self::Oa(Some(uuid.to_ascii_lowercase()))),
            ("intel-queue", None) => Ok(Self::IntelQueue(0)),
            ("intel-queue", Some(configuration)) => {
                configuration.parse().map(Self::IntelQueue).map_err(|_| BadValue::Counters)
            }
            _ => Err(BadValue::Counters),
        }
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Perf => out.write_str("perf"),
            Self::Oa(None) => out.write_str("oa"),
            Self::Oa(Some(uuid)) => write!(out, "oa:{uuid}"),
            Self::IntelQueue(configuration) => write!(out, "intel-queue:{configuration}"),
        }
    }
}

/// Whether a text has the form of a UUID (RFC 9562, section 4).
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Most frames that are recorded of the place of an enqueue.
pub const MOST_FRAMES: u8 = 16;

/// A number of frames, 0 for none.
///
/// # Errors
/// No number, or more than [`MOST_FRAMES`].
pub fn frames(text: &str) -> Result<u8, BadValue> {
    text.parse().ok().filter(|frames| *frames <= MOST_FRAMES).ok_or(BadValue::Frames)
}

/// Bytes: `500M`, `2G`, `4096`; K, M and G are binary multiples, also written KB or KiB.
///
/// # Errors
/// No size, 0, or more than 64 bits hold.
pub fn size(text: &str) -> Result<u64, BadValue> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = text.get(digits.len()..).unwrap_or_default().trim().to_ascii_uppercase();
    let scale = match unit.as_str() {
        "" | "B" => 1u64,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return Err(BadValue::Size),
    };
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(scale));
    bytes.filter(|n| *n > 0).ok_or(BadValue::Size)
}

/// When captured launches are measured, and for how long (`record --replay`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measuring {
    /// When the application has ended, for a time that follows the run's.
    Auto,
    /// When it has ended, for so long.
    Within(Duration),
    /// When the user asks for it.
    Later,
    /// Never: what could be captured is told.
    Plan,
}

impl FromStr for Measuring {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        Ok(match text {
            "auto" => Self::Auto,
            "later" => Self::Later,
            "plan" => Self::Plan,
            time => Self::Within(duration(time).map_err(|_| BadValue::Measuring)?),
        })
    }
}

/// A length of time with its unit: `1.5s`, `90s`, `5m`, `2h`. A number alone means nothing: it might
/// be meant as one or as the other.
///
/// # Errors
/// No length, 0, or more than a year.
pub fn duration(text: &str) -> Result<Duration, BadValue> {
    const LONGEST: f64 = 366.0 * 86_400.0;
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let scale = match text.get(digits.len()..).unwrap_or_default().trim() {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(BadValue::Duration),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = digits.parse::<f64>().ok().filter(|_| plain).map(|number| number * scale);
    let seconds = number.filter(|s| *s > 0.0 && *s <= LONGEST).ok_or(BadValue::Duration)?;
    Duration::try_from_secs_f64(seconds).map_err(|_| BadValue::Duration)
}

/// A percentage, with or without its sign, as a share of 1.
///
/// # Errors
/// No number, not above 0, or above 100.
pub fn percent(text: &str) -> Result<f64, BadValue> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>();
    let within = number.ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
    within.map(|percent| percent / 100.0).ok_or(BadValue::Percent)
}

/// Entries of a comma-separated list, without empty ones.
pub fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty())
}

/// Entries of a comma-separated list of kernels: a comma inside brackets belongs to a name, as that
/// of `scale<float, 4>`.
pub fn kernels(text: &str) -> impl Iterator<Item = &str> {
    entries(text).into_iter().map(str::trim).filter(|one| !one.is_empty())
}

/// Splits at commas outside brackets; at all of them where brackets do not pair, as in `operator<`.
fn entries(text: &str) -> Vec<&str> {
    let mut open = 0_usize;
    let mut out = Vec::new();
    let mut begin = 0;
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => open += 1,
            '>' | ')' | ']' | '}' => match open.checked_sub(1) {
                Some(less) => open = less,
                None => return text.split(',').collect(),
            },
            ',' if open == 0 => {
                out.push(text.get(begin..at).unwrap_or_default());
                begin = at + 1;
            }
            _ => {}
        }
    }
    if open > 0 {
        return text.split(',').collect();
    }
    out.push(text.get(begin..).unwrap_or_default());
    out
}

/// Whether a name matches one of the patterns; all names do where there are none.
pub fn matches(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|one| pattern::matches(one, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables::{DEVICE_TIMING, SETTINGS};

    #[test]
    fn the_table_names_every_method_of_device_timing() {
        let setting = SETTINGS.iter().find(|s| s.name == DEVICE_TIMING).unwrap();
        let mut named: Vec<_> = setting.values.split(" | ").collect();
        let mut known: Vec<_> = DeviceTiming::ALL.iter().map(|m| m.name()).collect();
        named.sort_unstable();
        known.sort_unstable();
        assert_eq!(named, known);
        for method in DeviceTiming::ALL {
            assert_eq!(method.name().parse(), Ok(method));
        }
        assert_eq!("Event".parse::<DeviceTiming>(), Err(BadValue::DeviceTiming));
        let may_sample = |name: &str| {
            crate::defs::Process { device_timing: name.into(), ..Default::default() }.may_sample()
        };
        assert!(may_sample("sample") && may_sample("auto") && may_sample("of a later version"));
        assert!(["event", "callback", "sync", "off"].iter().all(|name| !may_sample(name)));
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("4096", 4096),
            ("2k", 2048),
            ("3 MB", 3 << 20),
            ("500M", 500 << 20),
            (" 2GiB ", 2 << 30),
            ("7B", 7),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for bad in ["", "0", "M", "-1", "1T", "1.5G", "18446744073709551615G", "0K"] {
            assert_eq!(size(bad), Err(BadValue::Size), "{bad}");
        }
    }

    #[test]
    fn lengths_of_time_have_a_unit() {
        for (text, milliseconds) in
            [("90s", 90_000), ("5m", 300_000), ("2 h", 7_200_000), ("1.5s", 1500), ("40ms", 40)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in [
            "",
            "5",
            "s",
            "0s",
            "-1s",
            "1e3s",
            "nans",
            "infs",
            "5 %",
            "1d",
            "9999999999h",
            "1.2.3s",
        ] {
            assert_eq!(duration(bad), Err(BadValue::Duration), "{bad}");
        }
    }

    #[test]
    fn times_to_measure_for() {
        use Measuring::{Auto, Later, Plan, Within};
        for (text, is) in [
            ("auto", Auto),
            ("later", Later),
            ("plan", Plan),
            ("30s", Within(Duration::from_secs(30))),
        ] {
            assert_eq!(text.parse(), Ok(is));
        }
        for bad in ["", "5", "6:300", "8", "10%", "0s", "soon", "Auto"] {
            assert_eq!(bad.parse::<Measuring>(), Err(BadValue::Measuring), "{bad}");
        }
    }

    #[test]
    fn launches_to_capture() {
        let one = |pattern: &str, launches: &[u64]| Capture {
            pattern: pattern.into(),
            launches: launches.into(),
        };
        let sim = "sim::add<int, 4>:2,sim::step(int*, int),void f<a>(float*):1,3";
        assert_eq!(
            captures(sim),
            Ok(vec![
                one("sim::add<int, 4>", &[2]),
                one("sim::step(int*, int)", &[1]),
                one("void f<a>(float*)", &[1, 3])
            ])
        );
        // Brackets that do not pair are of no names with commas.
        assert_eq!(captures("operator<,b:2"), Ok(vec![one("operator<", &[1]), one("b", &[2])]));
        assert_eq!(kernels("a<b, c>, d,,").collect::<Vec<_>>(), ["a<b, c>", "d"]);
        assert_eq!(captures("gemm"), Ok(vec![one("gemm", &[1])]));
        assert_eq!(captures("conv*:3"), Ok(vec![one("conv*", &[3])]));
        assert_eq!(
            captures("gemm:1,5, 5,copy ,?x:7"),
            Ok(vec![one("gemm", &[1, 5]), one("copy", &[1]), one("?x", &[7])])
        );
        for bad in
            ["", ",", "a,", ":1", "a:", "a:0", "a:-1", "a:x", "a:1:2", "a:b", "a::b:", "1", "a,2"]
        {
            assert_eq!(captures(bad), Err(BadValue::Capture), "{bad}");
        }
        for bad in ["", "0", "2", "4,", "plan4", "all"] {
            assert_eq!(bad.parse::<Sample>(), Err(BadValue::Sample), "{bad}");
        }
        let many: Vec<String> = (1..=2000).map(|n| n.to_string()).collect();
        assert_eq!(captures(&format!("a:{}", many.join(","))), Err(BadValue::Capture));
    }

    #[test]
    fn counters() {
        let uuid = "0123ABCD-4567-89ab-cdef-0123456789ab";
        for (text, is) in [
            ("perf", Counters::Perf),
            ("oa", Counters::Oa(None)),
            (&format!("oa:{uuid}"), Counters::Oa(Some(uuid.to_ascii_lowercase()))),
            ("intel-queue:2", Counters::IntelQueue(2)),
        ] {
            assert_eq!(text.parse(), Ok(is.clone()), "{text}");
            assert_eq!(is.to_string().parse(), Ok(is), "{text}");
        }
        assert_eq!("intel-queue".parse(), Ok(Counters::IntelQueue(0)));
        for bad in ["", "oa:", "oa:x", "perf:cycles", "intel-queue:x", "gpm"] {
            assert_eq!(bad.parse::<Counters>(), Err(BadValue::Counters), "{bad}");
        }
    }

    #[test]
    fn shares_and_frames() {
        assert_eq!(percent("1"), Ok(0.01));
        assert_eq!(percent("50 %"), Ok(0.5));
        for bad in ["0", "-1", "101", "nan", "", "%"] {
            assert_eq!(percent(bad), Err(BadValue::Percent), "{bad}");
        }
        assert_eq!((frames("0"), frames("16")), (Ok(0), Ok(16)));
        assert_eq!(frames("17"), Err(BadValue::Frames));
    }

    #[test]
    fn no_patterns_match_everything() {
        let patterns = ["a*".to_owned(), "b".to_owned()];
        assert!(matches(&[], "x") && matches(&patterns, "ab") && matches(&patterns, "b"));
        assert!(!matches(&patterns, "x"));
    }
}
