//! Names of error codes and enum values, as the headers have them. The tables are generated:
//! `cargo run -p clscope-generate`. And the patterns that users choose names by.

pub mod pattern;

use std::cmp::Ordering;

const ERRORS: &str = include_str!("names/errors.txt");
const ENUMS: &str = include_str!("names/enums.txt");

/// Name of an error code, as `CL_INVALID_VALUE`.
pub fn error(code: i32) -> Option<&'static str> {
    find(ERRORS, 10, code.into())
}

/// Name of an enum value, as `CL_DEVICE_NAME`; `None` for small values, which repeat from type to
/// type.
pub fn value(value: u64) -> Option<&'static str> {
    find(ENUMS, 16, i64::try_from(value).ok()?)
}

/// The enum value of a name.
pub fn number(name: &str) -> Option<u32> {
    let mut rows = ENUMS.lines().filter_map(|line| line.split_once(' '));
    u32::from_str_radix(rows.find(|(_, known)| *known == name)?.0, 16).ok()
}

/// The name of a number in a table of lines, each a number and its name, sorted by it. It takes
/// neither memory nor locks, since the recorder asks in calls of the application.
fn find(table: &'static str, radix: u32, wanted: i64) -> Option<&'static str> {
    let (mut from, mut to) = (0, table.len());
    while from < to {
        let begin = table[..from.midpoint(to)].rfind('\n').map_or(0, |at| at + 1);
        let line = table[begin..].lines().next()?;
        let (number, name) = line.split_once(' ')?;
        match i64::from_str_radix(number, radix).ok()?.cmp(&wanted) {
            Ordering::Equal => return Some(name),
            Ordering::Less => from = begin + line.len() + 1,
            Ordering::Greater => to = begin,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_and_nothing_between() {
        for (table, radix) in [(ERRORS, 10), (ENUMS, 16)] {
            let mut before = i64::MIN;
            for line in table.lines() {
                let (number, name) = line.split_once(' ').unwrap();
                let number = i64::from_str_radix(number, radix).unwrap();
                assert!(number > before, "{line} is not in order");
                assert_eq!(find(table, radix, number), Some(name));
                if number - 1 > before {
                    assert_eq!(find(table, radix, number - 1), None);
                }
                before = number;
            }
            assert_eq!(find(table, radix, before + 1), None);
        }
        assert_eq!(number("CL_DEVICE_NAME").and_then(|n| value(n.into())), Some("CL_DEVICE_NAME"));
        assert_eq!(
            (error(-30), value(u64::MAX), number("CL_NOTHING")),
            (Some("CL_INVALID_VALUE"), None, None)
        );
    }
}
