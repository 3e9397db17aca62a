//! Tables of meters as loggers write them.

use super::*;
use proptest::prelude::*;

fn read(text: &str, format: &str) -> Result<Table, MeterError> {
    Table::parse(text, &format.parse().unwrap(), None)
}

#[test]
fn times_have_many_forms_and_one_meaning() {
    // 2026-01-31 12:00:00 UTC by the calendar of any other program.
    const NOON: i64 = 1_769_860_800_000_000_000;
    for (text, zone) in [
        ("2026-01-31T12:00:00Z", ""),
        ("2026-01-31 13:00:00.000+01:00", ""),
        ("2026/01/31 13:00:00", "zone=+1"),
        ("2026-01-31 06:30", "zone=-05:30"),
        ("1769860800", ""),
        ("1769860800000", ""),
        ("1769860800000000", ""),
        ("1769860800000000000", ""),
        ("2026-01-31T11:59:58Z", "offset=2"),
    ] {
        let table = read(&format!("time,W\n{text},5\n"), zone).unwrap();
        assert_eq!(
            (table.times, &table.points[..]),
            (Times::Moments, &[(NOON, 5.0)][..]),
            "{text}"
        );
    }
    assert_eq!(days(1970, 1, 1), Some(0));
    assert_eq!(days(2000, 3, 1).unwrap() - days(2000, 2, 28).unwrap(), 2);
    assert_eq!(days(2100, 3, 1).unwrap() - days(2100, 2, 28).unwrap(), 1);
    assert_eq!(read("time,W\n2026-01-31 12:00:00,5\n", ""), Err(MeterError::NoZone));
    // Past midnight.
    let night = read("time,W\n23:59:59,1\n00:00:00,2\n", "zone=UTC").unwrap();
    assert_eq!(
        (night.times, night.step_ns(), night.backwards),
        (Times::OfDay, Some(1_000_000_000), 0)
    );
}

#[test]
fn columns_units_and_separators_are_found() {
    let long =
        "Model;X\nDate;Time;U (V);Power (mW);Power factor\n2026-01-31;12:00:00;230,1;1500,5;0,9\n";
    let table = read(long, "zone=UTC").unwrap();
    assert_eq!(table.points[0].1, 1.5005);
    assert_eq!((table.column.as_str(), table.bad_lines), ("Power (mW)", 0));
    let table = read("t_ms\tA\tB\n0\t1\t2\n500\t3\t4\n", "time=t_ms,power=B,unit=kW").unwrap();
    assert_eq!(
        (table.times, table.points),
        (Times::SinceStart, vec![(0, 2e3), (500_000_000, 4e3)])
    );
    let table = read("0.5,7\n1.0,8 W\n", "time=1,power=2").unwrap();
    assert_eq!((table.points.len(), table.column.as_str()), (2, "column 2"));
    let table = read("elapsed (s);S (VA);P (mW)\n0.5;2;1500\n", "").unwrap();
    assert_eq!((table.points, table.bad_lines), (vec![(500_000_000, 1.5)], 0));
    let both = read("time,CPU W,GPU W\n1,2,3\n", "").unwrap_err();
    assert_eq!(both, MeterError::Several(vec!["CPU W".into(), "GPU W".into()]));
    assert!(
        read("a,b\n1,2\n", "").unwrap_err().to_string().contains("--meter-format time=1,power=2")
    );
    assert!(read("a,b\n1,2\n", "power=c").unwrap_err().to_string().contains("there are a, b"));
    assert!("place=here".parse::<Format>().is_err() && "unit=J".parse::<Format>().is_err());
}

/// The log of Piispanen 2014, section 6.1.3: date, efficiency, power in, power out, power of the
/// GPU's own supply, commas within and between numbers.
#[test]
fn a_comma_may_separate_fields_and_be_a_decimal_point() {
    const LINE: &str = "15.7.2013 11:36:16,20,7W,89,8766315921014,151,9921875,136,605458408151";
    let second = LINE.replace(":16,", ":17,").replace("89,8", "90,5");
    let log = format!("{LINE}\n{second}\n15.7.2013 11:36:18,20,7W,90,151,5,136,6\n");
    let table = read(&log, "time=1,power=3,decimal=comma,zone=UTC").unwrap();
    // 2013-07-15 11:36:16 UTC by the calendar of any other program.
    const AT: i64 = 1_373_888_176_000_000_000;
    assert_eq!(table.times, Times::Moments);
    assert_eq!(
        table.points,
        [(AT, 89.876_631_592_101_4), (AT + 1_000_000_000, 90.576_631_592_101_4)]
    );
    // A line in which a number has none is no reading, and never a wrong one.
    assert_eq!((table.bad_lines, table.bad[0].0), (1, 3));
    // Names say it by themselves: a field more for each number.
    let named = format!("Date,Efficiency (%),Power in (W),Power out (W),GPU power (W)\n{log}");
    let found = read(&named, "power=Power in (W),zone=UTC").unwrap();
    assert_eq!((found.points, found.bad_lines), (table.points, 1));
    // Whole numbers between commas stay what they are.
    let whole = read("time,W,A\n1,5,6\n2,7,8\n", "").unwrap();
    assert_eq!(whole.points, [(1_000_000_000, 5.0), (2_000_000_000, 7.0)]);
}

#[test]
fn lines_without_times_have_those_of_their_arrival() {
    let arrivals = [5, 10, 20, 30];
    for text in ["7\n8\nx\n9 W\n", "watts\n8\nx\n9\n"] {
        let table = Table::parse(text, &Format::default(), Some(&arrivals)).unwrap();
        assert_eq!(table.times, Times::Arrivals);
        assert!(table.points.ends_with(&[(10, 8.0), (30, 9.0)]), "{table:?}");
        assert_eq!((table.bad_lines, table.lines.last()), (1, Some(&3)));
    }
    assert_eq!(read("7\n8\n", ""), Err(MeterError::NoColumns));
}

#[test]
fn nothing_that_is_no_reading_goes_unsaid() {
    let text = "seconds,watts\n0,1\n1,1\nx,1\n2,\n3,nan\n2,1\n3,-5\n1,9\n9,1\n10,1\n11,1\n";
    let table = read(text, "").unwrap();
    assert_eq!(table.points.len(), 6);
    assert_eq!((table.bad_lines, table.backwards, table.gaps()), (4, 1, vec![(3, 7_000_000_000)]));
    let said = table.troubles();
    assert!(
        said[0].starts_with("4 lines of the table are no readings: 4 (no time), 5 (no power)"),
        "{said:?}"
    );
    assert!(
        said[1].contains("1 readings are left out") && said[2].contains("longest 7.0 s"),
        "{said:?}"
    );
    assert!(read("time,W\nx,y\n", "").unwrap_err().to_string().contains("line 2, no time"));
}

#[test]
fn a_marker_is_a_time_or_a_word_of_a_line() {
    let text = "seconds,watts,note\n0,1,\n1,1,go\n2,1,\n";
    assert_eq!(read(text, "start=go").unwrap().start, Some(1_000_000_000));
    assert_eq!(read(text, "start=1.5").unwrap().start, Some(1_500_000_000));
    assert_eq!(read(text, "start=stop"), Err(MeterError::NoMark("stop".into())));
}

proptest! {
    /// Any text is read or refused; every line behind the names is a reading or counted.
    #[test]
    fn each_line_is_accounted_for(lines in proptest::collection::vec("[0-9:,.;TZ \\-\"a-c]{0,24}", 0..40)) {
        let text = format!("time,power\n{}", lines.join("\n"));
        if let Ok(table) = read(&text, "zone=UTC") {
            let of = text.lines().skip(1).filter(|l| !l.trim().is_empty()).count();
            prop_assert_eq!(table.points.len() + table.bad_lines + table.backwards, of);
            prop_assert!(table.points.windows(2).all(|p| p[0].0 < p[1].0));
        }
    }
}
