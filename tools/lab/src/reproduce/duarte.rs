//! The Gen9.5 thesis (Duarte 2018) and its paper: arithmetic, bandwidth, power and efficiency over
//! work-groups and SIMD widths.

use super::{
    Devices, Draw, Experiment, How, Ours, Part, Per, Pick, Row, Span, X, any, measured, row, sweep,
    watched,
};
use crate::sweep::Axis;
use clscope_microbench::job::Scalar;

const GEN: Devices = Devices(&["HD Graphics 620"]);
const WIDTHS: Span = Span::Numbers(&[1, 2, 4, 8, 16]);
const OVER_GROUPS: &[(Axis, Span)] = &[(Axis::Blocks, Span::Usual), (Axis::Width, WIDTHS)];
const OVER_ROUNDS: &[(Axis, Span)] = &[(Axis::Blocks, Span::Rounds), (Axis::Width, WIDTHS)];
const ONE_WIDTH: &[(Axis, Span)] =
    &[(Axis::Blocks, Span::Rounds), (Axis::Width, Span::Numbers(&[1]))];
const BOTH: Span = Span::Types(&[Scalar::Float, Scalar::Double]);
const AT_WIDTHS: &[(Axis, Span)] = &[(Axis::Width, WIDTHS), (Axis::Precision, BOTH)];
const AT_WIDTHS_ALONE: &[(Axis, Span)] = &[(Axis::Width, WIDTHS)];

// The thesis's mad is one instruction of its GPU: fma here, since a compiler may make two of a
// product and a sum. A device without fma measures mad all the same.
const FLOAT_ADD: Part = sweep(&["flop/private/float/add/scalar"], OVER_GROUPS);
const FLOAT_MAD: Part = sweep(&["flop/private/float/fma/scalar"], OVER_GROUPS);
const DOUBLE_ADD: Part = sweep(&["flop/private/double/add/scalar"], OVER_GROUPS);
const DOUBLE_MAD: Part = sweep(&["flop/private/double/fma/scalar"], OVER_GROUPS);
const COPY: Part = sweep(&["memory/copy_loop/scalar/x3"], OVER_GROUPS);
const POWER_FLOAT: Part = watched(&["power/float/fma/scalar"], OVER_ROUNDS);
const POWER_DOUBLE: Part = watched(&["power/double/fma/scalar"], OVER_ROUNDS);
const POWER_WIDTHS: Part = watched(&["power/float/fma/scalar"], AT_WIDTHS);
const WIDTHS_FLOAT: Part = watched(&["power/float/fma/scalar"], AT_WIDTHS_ALONE);
const WIDTHS_DOUBLE: Part = watched(&["power/double/fma/scalar"], AT_WIDTHS_ALONE);
const ADD_FLOAT: Part = watched(&["power/float/add/scalar"], ONE_WIDTH);
const ADD_DOUBLE: Part = watched(&["power/double/add/scalar"], ONE_WIDTH);

const fn over_groups(y: &'static str) -> Draw {
    Draw::Curves { x: X::Axis(0), label: "work-groups", y }
}

const fn over_items(y: &'static str) -> Draw {
    Draw::Curves { x: X::Items, label: "work-items", y }
}

const fn over_widths(y: &'static str) -> Draw {
    Draw::Curves { x: X::Axis(0), label: "elements of a vector", y }
}

const fn most(
    what: &'static str,
    unit: &'static str,
    printed: &'static [Option<f64>],
    of: Pick,
) -> Row {
    row(what, unit, printed, Ours::Most(of))
}

const fn rate(case: &'static str) -> Pick {
    Pick { figure: "rate", case, at: &[], units: None }
}

/// The model of waves of groups, over 1 to 4 times the compute units.
const WAVES: Row = saw_tooth("waves of groups / measured: largest", true);
const WAVES_UNDER: Row = saw_tooth("waves of groups / measured: smallest", false);

const fn saw_tooth(what: &'static str, over: bool) -> Row {
    row(what, "", &[None], Ours::SawTooth { figure: "rate", over })
}

const PEAK_MAD: Row =
    most("largest, mad, single precision", "GFLOP/s", &[Some(399.02)], rate("/float/fma/"));
const PEAK_MAD_DOUBLE: Row =
    most("largest, mad, double precision", "GFLOP/s", &[Some(99.99)], rate("/double/fma/"));
const PEAK_ADD: Row =
    most("largest, add, single precision", "GFLOP/s", &[Some(199.96)], rate("/float/add/"));
const PEAK_ADD_DOUBLE: Row =
    most("largest, add, double precision", "GFLOP/s", &[Some(49.98)], rate("/double/add/"));
const BANDWIDTH: Row = most(
    "largest, vect4, caches included",
    "GB/s",
    &[Some(191.99)],
    Pick { figure: "bandwidth", case: "", at: &[(Axis::Width, "4")], units: None },
);
const EFFICIENCY: Row = most("largest", "GFLOP/s/W", &[Some(35.0)], any("efficiency"));

const fn per_unit(what: &'static str, printed: &'static [Option<f64>], case: &'static str) -> Row {
    Row {
        per: Per::Unit,
        ..most(
            what,
            "FLOP/cycle/unit",
            printed,
            Pick { figure: "rate_per_cycle", case, at: &[], units: None },
        )
    }
}

/// A launch that grows with its groups: its turns stay, so that time does not.
const TIMERS: Part =
    Part { iterations: Some(500), ..sweep(&["clock/timers"], &[(Axis::Blocks, Span::Usual)]) };
/// There: the event's times and two registers of the GPU. Here a clock that the kernel reads, and
/// the host's.
const CLOCKS: How = measured(
    &[TIMERS],
    Draw::Figures {
        x: X::Items,
        label: "work-items",
        y: ("time of a launch", &["event_time", "kernel_time", "host_time"]),
    },
);
const APART: &[Row] = &[
    row("kernel's clock / event, largest", "", &[None], Ours::Most(any("kernel_over_event"))),
    row("kernel's clock / event, smallest", "", &[None], Ours::Least(any("kernel_over_event"))),
    row("host's clock / event, largest", "", &[None], Ours::Most(any("host_over_event"))),
];

/// The thesis.
pub(super) const THESIS: &[Experiment] = &[
    GEN.experiment(
        "000/tab3.1",
        "3.2",
        "options of the thesis's tool",
        How::Cannot("a list of options and no measurement: `clscope-lab --help-all` has ours"),
        &[],
    ),
    GEN.experiment(
        "000/fig4.3",
        "4.2",
        "GFLOP/s over work-groups of 32 work-items (from another work)",
        measured(
            &[sweep(
                &["flop/private/float/fma/scalar"],
                &[(Axis::Blocks, Span::Usual), (Axis::Tpb, Span::Numbers(&[32]))],
            )],
            over_groups("rate"),
        ),
        &[],
    ),
    GEN.experiment(
        "000/sec4.2-1024",
        "4.2",
        "GFLOP/s over work-groups with 1024 turns: no saw-tooth yet",
        measured(
            &[Part {
                iterations: Some(1024 / 64),
                ..sweep(&["flop/private/float/fma/scalar"], &[(Axis::Blocks, Span::Usual)])
            }],
            over_groups("rate"),
        ),
        &[],
    ),
    GEN.experiment(
        "000/sec4.2-8192",
        "4.2",
        "GFLOP/s over work-groups with 8192 turns: the saw-tooth",
        measured(
            &[Part {
                iterations: Some(8192 / 64),
                ..sweep(&["flop/private/float/fma/scalar"], &[(Axis::Blocks, Span::Usual)])
            }],
            over_groups("rate"),
        ),
        &[WAVES, WAVES_UNDER],
    ),
    GEN.experiment(
        "000/fig4.4",
        "4.2",
        "GFLOP/s over work-groups for five widths, mad, single precision",
        measured(&[FLOAT_MAD], over_groups("rate")),
        &[PEAK_MAD, WAVES, WAVES_UNDER],
    ),
    GEN.experiment(
        "000/fig4.6",
        "4.2",
        "GFLOP/s over work-groups for five widths, power kernels",
        measured(&[POWER_FLOAT], over_groups("rate")),
        &[],
    ),
    GEN.experiment(
        "000/fig4.7a",
        "4.2",
        "GFLOP/s over work-items for five widths, add, both precisions",
        measured(&[FLOAT_ADD, DOUBLE_ADD], over_items("rate")),
        &[PEAK_ADD, PEAK_ADD_DOUBLE],
    ),
    GEN.experiment(
        "000/fig4.7b",
        "4.2",
        "GFLOP/s over work-items for five widths, mad, both precisions",
        measured(&[FLOAT_MAD, DOUBLE_MAD], over_items("rate")),
        &[PEAK_MAD, PEAK_MAD_DOUBLE],
    ),
    GEN.experiment(
        "000/fig4.8",
        "4.2",
        "FLOP per cycle over work-items, add and mad, both precisions",
        measured(&[POWER_FLOAT, POWER_DOUBLE, ADD_FLOAT, ADD_DOUBLE], over_items("rate_per_cycle")),
        &[
            per_unit("add, single precision, of a unit (there: EU)", &[Some(7.9)], "/float/add/"),
            per_unit("mad, single precision, of a unit (there: EU)", &[Some(15.9)], "/float/fma/"),
        ],
    ),
    GEN.experiment(
        "000/fig4.9",
        "4.3",
        "GB/s over work-groups for five widths, caches included: few groups touch little memory",
        measured(&[COPY], over_groups("bandwidth")),
        &[BANDWIDTH],
    ),
    GEN.experiment("000/fig4.10", "4.4", "three clocks over threads", CLOCKS, APART),
    GEN.experiment(
        "000/fig4.11",
        "4.4",
        "watts over work-groups for five widths, mad, single precision",
        measured(&[POWER_FLOAT], over_groups("power")),
        &[row("average", "W", &[Some(11.45)], Ours::Mean(any("power")))],
    ),
    GEN.experiment(
        "000/fig4.12",
        "4.4",
        "watts over work-groups for five widths, mad, double precision",
        measured(&[POWER_DOUBLE], over_groups("power")),
        &[row("average", "W", &[Some(11.72)], Ours::Mean(any("power")))],
    ),
    GEN.experiment(
        "000/fig4.13",
        "4.4",
        "watts by width, mad, single precision",
        measured(&[WIDTHS_FLOAT], over_widths("power")),
        &[],
    ),
    GEN.experiment(
        "000/fig4.14",
        "4.4",
        "watts by width, mad, double precision",
        measured(&[WIDTHS_DOUBLE], over_widths("power")),
        &[],
    ),
    GEN.experiment(
        "000/fig4.15",
        "4.5",
        "GFLOP/s/W over work-groups for five widths, mad, single precision",
        measured(&[POWER_FLOAT], over_groups("efficiency")),
        &[EFFICIENCY],
    ),
    GEN.experiment(
        "000/fig4.16",
        "4.5",
        "GFLOP/s/W over work-groups for five widths, mad, double precision",
        measured(&[POWER_DOUBLE], over_groups("efficiency")),
        &[],
    ),
    GEN.experiment(
        "000/fig4.17",
        "4.5",
        "GFLOP/s/W by width, mad, both precisions",
        measured(&[POWER_WIDTHS], over_widths("efficiency")),
        &[EFFICIENCY],
    ),
];

/// The paper.
pub(super) const PAPER: &[Experiment] = &[
    GEN.experiment(
        "003/fig5",
        "VI",
        "GFLOP/s over work-groups for five widths, private memory",
        measured(&[FLOAT_MAD], over_groups("rate")),
        &[row("largest, of the theoretical peak", "%", &[Some(98.0)], Ours::OfPeak)],
    ),
    GEN.experiment(
        "003/fig8",
        "VI",
        "GB/s over work-groups for five widths, caches included: few groups touch little memory",
        measured(&[COPY], over_groups("bandwidth")),
        &[],
    ),
    GEN.experiment("003/fig9", "VI", "three clocks over threads", CLOCKS, APART),
    GEN.experiment(
        "003/fig10",
        "VI",
        "watts by width, single precision",
        measured(&[WIDTHS_FLOAT], over_widths("power")),
        &[],
    ),
    GEN.experiment(
        "003/fig11",
        "VI",
        "watts by width, double precision",
        measured(&[WIDTHS_DOUBLE], over_widths("power")),
        &[],
    ),
    GEN.experiment(
        "003/fig12",
        "VI",
        "GFLOP/s/W by width",
        measured(&[POWER_WIDTHS], over_widths("efficiency")),
        &[EFFICIENCY],
    ),
    GEN.experiment(
        "003/fig13",
        "VI",
        "GFLOP/s/W over work-groups for five widths, single precision",
        measured(&[POWER_FLOAT], over_groups("efficiency")),
        &[EFFICIENCY],
    ),
    GEN.experiment(
        "003/fig14",
        "VI",
        "GFLOP/s/W over work-groups for five widths, double precision",
        measured(&[POWER_DOUBLE], over_groups("efficiency")),
        &[],
    ),
];
