//! Timing and energy of accelerated processing (Piispanen 2014): joules of an instruction by class,
//! power over cores and lanes.
#![forbid(unsafe_code)]

use super::{
    Devices, Draw, Experiment, How, Ours, Part, Row, Span, X, any, measured, of, row, sweep,
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
        "the same as bars",
        measured(&[CLASSES], Draw::Numbers),
        TABLE,
    ),
    FERMI.experiment(
        "004/fig6.3",
        "6.2.1",
        "watts of continuous host-device transfers above idle (there of the computer, here of the device)",
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
        "watts over the cores that work (there: a mixture of arithmetic, here: float)",
        measured(
            &[sweep(&["classes/float/arithmetic"], &[(Axis::Cores, Span::Usual)])],
            watts("groups that work"),
        ),
        &[row("all cores - one", "W", &[Some(20.0)], Ours::Span("power"))],
    ),
    FERMI.experiment(
        "004/fig6.4b",
        "6.2.1",
        "watts over the lanes of 32 that work",
        measured(
            &[sweep(&["classes/float/arithmetic"], &[(Axis::Lanes, Span::Usual)])],
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
        "004/fig6.5",
        "6.2.2",
        "face detection: predicted and measured watts, by class",
        How::Cannot(
            "an application and no case: `clscope record --mix --energy` on it, then `clscope explain`",
        ),
        &[],
    ),
];
