//! Records of the sampler's file.

use crate::{Payload, at};
use clscope_trace::sensors::{self, CounterWindow, CounterWindows, Quantity, Reading, Readings};

#[track_caller]
fn senses(record: impl Into<sensors::Record<'static>>, number: u16, content: Payload) {
    let record = record.into();
    let mut written = Vec::new();
    sensors::encode(&record, &mut written);
    let content = content.0;
    let mut expected = at(8, &[(0, 2, u64::from(number)), (4, 4, content.len() as u64)]);
    expected.extend(content);
    expected.resize(expected.len().next_multiple_of(8), 0);
    assert_eq!(written, expected, "{record:?}");
}

#[test]
fn records_of_the_sampler() {
    let p = Payload::default;
    let t = |s: &str| s.to_owned();
    senses(
        sensors::Series {
            id: 1,
            source: t("s"),
            name: t("n"),
            quantity: Quantity::Flags,
            plane: t("p"),
            package: Some(2),
            pci: None,
            uuid: Some(t("u")),
            device: None,
            includes: None,
            window_ns: Some(3),
            count_numerator: 4,
            count_denominator: 5,
        },
        1,
        p().n(4, 1)
            .s("s")
            .s("n")
            .n(1, 7)
            .s("p")
            .some()
            .n(4, 2)
            .none()
            .some()
            .s("u")
            .none()
            .none()
            .some()
            .n(8, 3)
            .n(8, 4)
            .n(8, 5),
    );
    let mut row = Vec::new();
    Reading { time: 1, value: 2, bracket_ns: 3, mean_over_us: 4 }.append_to(&mut row);
    assert_eq!(row, at(24, &[(0, 8, 1), (8, 8, 2), (16, 4, 3), (20, 4, 4)]));
    senses(
        sensors::Record::Readings(Readings::new(9, row.leak())),
        2,
        p().n(4, 9).n(4, 1).n(8, 1).n(8, 2).n(4, 3).n(4, 4),
    );
    senses(
        sensors::Event { time: 1, code: t("c"), series: Some(2), source: t("s"), text: t("t") },
        3,
        p().n(8, 1).s("c").some().n(4, 2).s("s").s("t"),
    );
    senses(sensors::Anchor { raw: 1, monotonic: 2, realtime: 3 }, 4, p().n(8, 1).n(8, 2).n(8, 3));
    senses(
        sensors::Updates {
            series: 1,
            period_ns: 2.0,
            period_error_ns: 3.0,
            jitter_ns: 4.0,
            every_ns: 5,
            none: t("n"),
        },
        5,
        p().n(4, 1).n(8, 2f64.to_bits()).n(8, 3f64.to_bits()).n(8, 4f64.to_bits()).n(8, 5).s("n"),
    );
    senses(sensors::Cost { time: 1, wall_ns: 2, cpu_ns: 3 }, 6, p().n(8, 1).n(8, 2).n(8, 3));
    senses(
        sensors::SourceCost {
            source: t("s"),
            reads: 1,
            failures: 2,
            cpu_ns: 3,
            wall_ns: 4,
            every_ns: 5,
            duplicates: 6,
            late: 7,
            missing: 8,
            refused: 9,
            lost: true,
        },
        7,
        (1..=9).fold(p().s("s"), |p, n| p.n(8, n)).n(1, 1),
    );
    senses(
        sensors::Finding { name: t("n"), state: t("s"), why: t("w"), remedy: t("r") },
        8,
        p().s("n").s("s").s("w").s("r"),
    );
    senses(
        sensors::CounterSource {
            id: 1,
            name: t("n"),
            pci: None,
            pid: Some(2),
            counters: vec![t("c")],
            format: t("f"),
            generation: t("g"),
            hz: 3,
            period_ns: 4,
            set: t("s"),
            uuid: t("u"),
            origin: t("o"),
            figures: vec![t("i")],
            units: vec![t("j")],
            equations: vec![t("k")],
            meanings: vec![t("l")],
            variables: vec![t("m")],
            values: vec![5],
            side_effect: t("e"),
        },
        9,
        p().n(4, 1)
            .s("n")
            .none()
            .some()
            .n(4, 2)
            .n(4, 1)
            .s("c")
            .s("f")
            .s("g")
            .n(8, 3)
            .n(8, 4)
            .s("s")
            .s("u")
            .s("o")
            .n(4, 1)
            .s("i")
            .n(4, 1)
            .s("j")
            .n(4, 1)
            .s("k")
            .n(4, 1)
            .s("l")
            .n(4, 1)
            .s("m")
            .n(4, 1)
            .n(8, 5)
            .s("e"),
    );
    let window = CounterWindow {
        host: Some((1, 2)),
        ticks: Some((3, 4)),
        within_ns: 5,
        broken: true,
        context: Some(6),
        command: 7,
        shared: true,
        counts: vec![Some(8), None],
    };
    let mut row = Vec::new();
    window.append_to(&mut row);
    // Flags: 1 broken, 2 a context, 4 times, 8 shared.
    let fields = [
        (0, 8, 1),
        (8, 8, 2),
        (16, 8, 3),
        (24, 8, 4),
        (32, 4, 5),
        (36, 4, 15),
        (40, 4, 6),
        (44, 4, 7),
        (48, 8, 8),
        (56, 8, u64::MAX),
    ];
    assert_eq!(row, at(64, &fields));
    let mut content = p().n(4, 1).n(4, 2).n(4, 1).n(4, 0);
    content.0.extend(&row);
    senses(sensors::Record::CounterWindows(CounterWindows::new(1, 2, row.leak())), 10, content);
    senses(
        sensors::CounterReport { source: 1, command: 2, bytes: vec![3, 4] },
        11,
        p().n(4, 1).n(8, 2).n(4, 2).n(1, 3).n(1, 4),
    );
    let numbers = [
        Quantity::Energy,
        Quantity::Power,
        Quantity::Clock,
        Quantity::Temperature,
        Quantity::Percent,
        Quantity::Bandwidth,
        Quantity::Flags,
    ];
    assert_eq!(numbers.map(|q| q as u8), [1, 2, 3, 4, 5, 6, 7]);
}
