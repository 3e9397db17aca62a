//! Timing and energy of accelerated processing (Piispanen 2014): joules of an instruction by class,
//! power over cores and lanes.

use super::{
    Devices, Draw, Energy, EnergyPart, Experiment, Ours, Part, Row, Span, X, any, measured, of,
    row, sweep,
};
use crate::sweep::Axis;

const FERMI: Devices = Devices(&["a Fermi GPU of 8 cores (wall meter)"]);

const CLASSES: Part =
    sweep(&["classes/int/", "classes/float/", "classes/double/", "classes/memory/"], &[]);

const COPIES: Part = sweep(&["transfer/continuous/"], &[]);
const AFTER: Part = sweep(&["power/after_load"], &[]);

/// Watts of transfers in a direction; the document has one number for both.
const fn copies(what: &'static str, case: &'static str) -> Row {
    row(what, "W", &[Some(40.0)], Ours::Most(of(case, "dynamic_power")))
}

/// How long a state lasts.
const fn held(what: &'static str, printed: &'static [Option<f64>], figure: &'static str) -> Row {
    row(what, "s", printed, Ours::Most(any(figure)))
}

/// Nanojoules of a statement above the floor; ours are picojoules.
const fn class(what: &'static str, printed: &'static [Option<f64>], case: &'static str) -> Row {
    Row {
        times: 1e-3,
        ..row(what, "nJ", printed, Ours::Most(of(case, "dynamic_energy_per_instruction")))
    }
}

const TABLE: &[Row] = &[
    class("integer arithmetic", &[Some(0.11)], "classes/int/arithmetic"),
    class("integer division", &[Some(2.08)], "classes/int/division"),
    class("integer special", &[Some(1.99)], "classes/int/special"),
    class("integer other", &[Some(0.62)], "classes/int/other"),
    class("float arithmetic", &[Some(0.08)], "classes/float/arithmetic"),
    class("float division", &[Some(4.67)], "classes/float/division"),
    class("float special", &[Some(1.72)], "classes/float/special"),
    class("float other", &[Some(0.83)], "classes/float/other"),
    class("double arithmetic", &[Some(0.79)], "classes/double/arithmetic"),
    class("double division", &[Some(12.94)], "classes/double/division"),
    class("double special", &[Some(1.75)], "classes/double/special"),
    class("double other", &[Some(0.97)], "classes/double/other"),
    class("global memory", &[Some(17.95)], "classes/memory/global"),
    class("local memory", &[Some(0.20)], "classes/memory/local"),
];

/// The whole model: its classes, what they are judged by, transfers by size, operating states.
const MODEL: &[Part] = &[
    sweep(
        &[
            "classes/int/",
            "classes/float/",
            "classes/double/",
            "classes/memory/",
            "classes/mixture/",
            "classes/application",
        ],
        &[],
    ),
    sweep(
        &["transfer/pageable/to_device/1", "transfer/pageable/to_host/1"],
        &[(Axis::Size, Span::Numbers(&[1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24]))],
    ),
    sweep(&["transfer/continuous/pageable/"], &[]),
    AFTER,
];

/// A number of the model; times what makes it the document's unit.
const fn model(
    what: &'static str,
    unit: &'static str,
    printed: &'static [Option<f64>],
    of: Energy,
    times: f64,
) -> Row {
    Row { times, ..row(what, unit, printed, Ours::Energy(of)) }
}

/// Nanojoules of a statement by one fit, by its place among the kinds.
const fn kind(what: &'static str, printed: &'static [Option<f64>], place: usize) -> Row {
    model(what, "nJ", printed, Energy::Kind(place), 1e9)
}

/// Watts of an application.
const fn total(what: &'static str, printed: &'static [Option<f64>], of: Energy) -> Row {
    model(what, "W", printed, of, 1.0)
}

const WHOLE: &[Row] = &[
    kind("integer arithmetic", &[Some(0.11)], 0),
    kind("integer division", &[Some(2.08)], 1),
    kind("integer special", &[Some(1.99)], 2),
    kind("integer other", &[Some(0.62)], 3),
    kind("float arithmetic", &[Some(0.08)], 4),
    kind("float division", &[Some(4.67)], 5),
    kind("float special", &[Some(1.72)], 6),
    kind("float other", &[Some(0.83)], 7),
    kind("double arithmetic", &[Some(0.79)], 8),
    kind("double division", &[Some(12.94)], 9),
    kind("double special", &[Some(1.75)], 10),
    kind("double other", &[Some(0.97)], 11),
    kind("global memory", &[Some(17.95)], 12),
    kind("local memory", &[Some(0.20)], 13),
    model("mixtures left out of the fit: largest error", "%", &[None], Energy::Mixtures, 100.0),
    total("application: above idle, by the model", &[Some(46.1)], Energy::Above),
    total("of that kernels", &[None], Energy::Part(EnergyPart::Gpu)),
    total("of kernels, integer arithmetic", &[None], Energy::Part(EnergyPart::Kind(0))),
    total("of kernels, float arithmetic", &[None], Energy::Part(EnergyPart::Kind(4))),
    total("of kernels, float special", &[None], Energy::Part(EnergyPart::Kind(6))),
    total("of kernels, local memory", &[None], Energy::Part(EnergyPart::Kind(13))),
    total("of kernels, global memory", &[None], Energy::Part(EnergyPart::Kind(12))),
    total("of that transfers", &[None], Energy::Part(EnergyPart::Transfer)),
    total("application: idle power", &[Some(147.0 - 46.1)], Energy::Part(EnergyPart::Cpu)),
    total("application: all of equation 6.1", &[Some(147.0)], Energy::Whole),
    total("application: by the sensor", &[Some(144.5)], Energy::Measured),
    model("difference / above idle", "%", &[Some(5.4)], Energy::Difference, 100.0),
    model("20 s without work, by operating states", "J", &[None], Energy::Rest(20.0), 1.0),
];

const fn watts(label: &'static str) -> Draw {
    Draw::Curves { x: X::Axis(0), label, y: "power" }
}

/// All.
pub(super) const ALL: &[Experiment] = &[
    FERMI.experiment(
        "004/tab6.1",
        "6.2.1",
        "joules of an instruction above idle, by class",
        measured(&[CLASSES], Draw::Numbers),
        TABLE,
    ),
    FERMI.experiment(
        "004/fig6.2",
        "6.2.1",
        "joules of an instruction above idle, as bars",
        measured(&[CLASSES], Draw::Numbers),
        TABLE,
    ),
    FERMI.experiment(
        "004/fig6.3",
        "6.2.1",
        "watts of continuous host-device transfers above idle (there of the computer, one number for all; here of what the sensor or meter has)",
        measured(&[COPIES], Draw::Numbers),
        &[
            copies("to the device, from pinned memory", "pinned/to_device"),
            copies("to the host, to pinned memory", "pinned/to_host"),
            copies("to the device, from pageable memory", "pageable/to_device"),
            copies("to the host, to pageable memory", "pageable/to_host"),
        ],
    ),
    FERMI.experiment(
        "004/fig6.4a",
        "6.2.1",
        "watts over the cores that work at a mixture of arithmetic",
        measured(
            &[sweep(&["classes/mixture/arithmetic"], &[(Axis::Cores, Span::Usual)])],
            watts("groups that work"),
        ),
        &[row("all cores - one", "W", &[Some(20.0)], Ours::Span("power"))],
    ),
    FERMI.experiment(
        "004/fig6.4b",
        "6.2.1",
        "watts over the lanes of 32 that work",
        measured(
            &[sweep(&["classes/mixture/arithmetic"], &[(Axis::Lanes, Span::Usual)])],
            watts("lanes of 32 that work"),
        ),
        &[row("all lanes - one", "W", &[Some(3.0)], Ours::Span("power"))],
    ),
    FERMI.experiment(
        "004/sec6.1.1.3",
        "6.1.1.3",
        "idle states and how long they last after work",
        measured(&[AFTER], Draw::Series),
        &[
            held("in the first state after work", &[Some(10.0)], "state_1_hold"),
            held("in the second", &[Some(5.0)], "state_2_hold"),
            row("first state", "W", &[None], Ours::Most(any("state_1_power"))),
            row("second state", "W", &[None], Ours::Most(any("state_2_power"))),
            row("third state", "W", &[None], Ours::Most(any("state_3_power"))),
        ],
    ),
    FERMI.experiment(
        "004/sec6.1",
        "6.1, 6.2",
        "the energy model as a whole: classes by one fit, total of equation 6.1 for an application (there: face detection; here: transfers, a mixture of classes, rests; yours: `clscope record --mix --energy`, then `clscope explain`)",
        measured(MODEL, Draw::Numbers),
        WHOLE,
    ),
];
