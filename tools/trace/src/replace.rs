//! What a run may change of its application on request: code of kernels (`CLSCOPE_REPLACE`),
//! options that programs are built with (`CLSCOPE_APPEND_OPTIONS`), work-group sizes
//! (`CLSCOPE_LOCAL`). Owns how requests are written; the recorder reads them from the environment,
//! readers from the settings in a trace. Refuses to know what became of them: definitions tell
//! that.

use crate::values::{self, BadValue};
use crate::variables;
use std::fmt;
use std::str::FromStr;

/// Most bytes of a file with a kernel's code.
pub const MOST_FILE: u64 = 64 << 20;

/// Kernels that run the code of a file: `KERNEL=FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// Name or pattern of the kernels.
    pub kernel: String,
    /// The file.
    pub file: String,
}

/// Kernels that are launched with a work-group size: `KERNEL=64x1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalSize {
    /// Name or pattern of the kernels.
    pub kernel: String,
    /// One to three sizes, each 1 or more.
    pub sizes: Vec<u64>,
}

/// The name or pattern before the first `=`, and what stands behind it; neither is empty.
fn assigned(text: &str) -> Option<(&str, &str)> {
    let (kernel, value) = text.split_once('=')?;
    let (kernel, value) = (kernel.trim(), value.trim());
    (!kernel.is_empty() && !value.is_empty()).then_some((kernel, value))
}

impl FromStr for Replacement {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (kernel, file) = assigned(text).ok_or(BadValue::Replacement)?;
        Ok(Self { kernel: kernel.to_owned(), file: file.to_owned() })
    }
}

impl FromStr for LocalSize {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (kernel, sizes) = assigned(text).ok_or(BadValue::LocalSize)?;
        let sizes: Option<Vec<u64>> = sizes
            .split('x')
            .map(|size| size.trim().parse().ok().filter(|size| *size > 0))
            .collect();
        let sizes = sizes.filter(|sizes| sizes.len() <= 3).ok_or(BadValue::LocalSize)?;
        Ok(Self { kernel: kernel.to_owned(), sizes })
    }
}

/// Sizes as people write them: `64x1`.
pub fn shown(sizes: &[u64]) -> String {
    sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("x")
}

impl fmt::Display for LocalSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.kernel, shown(&self.sizes))
    }
}

/// Whether a program that was built with these options may have work-groups of different sizes:
/// from OpenCL C 2.0 on, unless the options say otherwise (OpenCL 3.0 API, section 5.8.6.5).
pub fn may_have_uneven_groups(options: &str) -> bool {
    let later = ["-cl-std=CL2", "-cl-std=CL3", "-cl-std=CLC++"];
    later.iter().any(|std| options.contains(std))
        && !options.contains("-cl-uniform-work-group-size")
}

/// Entries of a comma-separated list, all of them understood.
///
/// # Errors
/// The first that is not.
pub fn all<T: FromStr<Err = BadValue>>(text: &str) -> Result<Vec<T>, BadValue> {
    values::kernels(text).map(str::parse).collect()
}

/// The first request that means a kernel: `is_meant` tells by a request's name or pattern.
pub fn first<T>(
    requests: &[T],
    pattern: impl Fn(&T) -> &str,
    is_meant: impl Fn(&str) -> bool,
) -> Option<&T> {
    requests.iter().find(|one| is_meant(pattern(one)))
}

/// Names like a name or pattern, the most alike first, at most so many: by the number of characters
/// to be inserted, deleted or changed (Levenshtein's distance).
pub fn nearest<'a>(
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let plain = name.replace(['*', '?'], "");
    let mut all: Vec<(usize, &str)> =
        names.into_iter().map(|other| (distance(&plain, other), other)).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter().take(most).map(|(_, other)| other).collect()
}

/// Longest part of a name that counts: mangled names may have kilobytes.
const LONGEST_NAME: usize = 256;

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(LONGEST_NAME).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(LONGEST_NAME).enumerate() {
        let mut before = i;
        let mut left = i + 1;
        for (y, place) in b.iter().zip(row.iter_mut().skip(1)) {
            let changed = before + usize::from(x != *y);
            before = *place;
            left = changed.min(before + 1).min(left + 1);
            *place = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// What was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    /// Kernels whose code is a file's.
    pub replacements: Vec<Replacement>,
    /// Options appended to those of programs that are built from source; empty for none.
    pub append_options: String,
    /// Kernels whose work-group size is set.
    pub local_sizes: Vec<LocalSize>,
}

impl Requests {
    /// From settings as a trace holds them, `NAME=value` each. What is not understood, the recorder
    /// has not heeded either.
    pub fn of_settings(given: &[String]) -> Self {
        let value = |name: &str| {
            given.iter().find_map(|one| one.strip_prefix(name)?.strip_prefix('=')).unwrap_or("")
        };
        Self {
            replacements: all(value(variables::REPLACE)).unwrap_or_default(),
            append_options: value(variables::APPEND_OPTIONS).trim().to_owned(),
            local_sizes: all(value(variables::LOCAL)).unwrap_or_default(),
        }
    }
}

/// A work-group size as one of so many dimensions: 64 is 64x1 and 64x1x1. `None` where another size
/// than 1 lies behind them.
pub fn fitted(wanted: &[u64], dimensions: usize) -> Option<Vec<u64>> {
    let beyond = wanted.get(dimensions..).unwrap_or_default();
    let padded = wanted.iter().copied().chain([1; 3]).take(dimensions).collect();
    beyond.iter().all(|size| *size == 1).then_some(padded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_understood() {
        let replaced: Replacement = "sobel*=../k=1.cl".parse().unwrap();
        assert_eq!((replaced.kernel.as_str(), replaced.file.as_str()), ("sobel*", "../k=1.cl"));
        for bad in ["", "sobel", "=file", "sobel=", " = "] {
            assert_eq!(bad.parse::<Replacement>(), Err(BadValue::Replacement), "{bad}");
        }
        let local: LocalSize = "sobel=64x1".parse().unwrap();
        assert_eq!(
            (local.sizes.as_slice(), local.to_string().as_str()),
            (&[64, 1][..], "sobel=64x1")
        );
        for bad in ["a", "a=", "a=0", "a=4x0", "a=1x1x1x1", "a=-1", "a=8x", "a=8*8", "=8"] {
            assert_eq!(bad.parse::<LocalSize>(), Err(BadValue::LocalSize), "{bad}");
        }
        assert_eq!(all::<LocalSize>("a=1, b=2x2,").map(|all| all.len()), Ok(2));
        assert!(all::<LocalSize>("a=1,b").is_err());
    }

    #[test]
    fn the_most_alike_name_is_the_first() {
        assert_eq!(
            (distance("kitten", "sitting"), distance("", "abc"), distance("a", "a")),
            (3, 3, 0)
        );
    }

    #[test]
    fn names_are_sorted_by_likeness() {
        let names = ["resize", "sobel_x", "sobel", "sobel"];
        assert_eq!(nearest("sobl*", names, 2), ["sobel", "sobel_x"]);
        assert!(nearest("x", [], 3).is_empty());
    }

    #[test]
    fn groups_may_differ_in_later_languages_alone() {
        for options in ["-cl-std=CL2.0", "-w -cl-std=CL3.0", "-cl-std=CLC++2021"] {
            assert!(may_have_uneven_groups(options), "{options}");
        }
        for options in ["", "-cl-std=CL1.2", "-cl-std=CL2.0 -cl-uniform-work-group-size"] {
            assert!(!may_have_uneven_groups(options), "{options}");
        }
    }

    #[test]
    fn a_traces_settings_hold_them() {
        let given =
            ["CLSCOPE_LOCAL=a=8,b=4x4", "CLSCOPE_REPLACE=a=/f.cl", "CLSCOPE_APPEND_OPTIONS= -w "];
        let requests = Requests::of_settings(&given.map(str::to_owned));
        assert_eq!((requests.local_sizes.len(), requests.replacements.len()), (2, 1));
        assert_eq!(requests.append_options, "-w");
        assert_eq!(Requests::of_settings(&["CLSCOPE_LOCAL=a".to_owned()]), Requests::default());
        let of = |name| {
            first(&requests.local_sizes, |one| &one.kernel, |one| one == name)
                .map(|l| l.sizes.len())
        };
        assert_eq!((of("b"), of("c")), (Some(2), None));
    }
}
