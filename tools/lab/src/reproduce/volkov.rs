//! Understanding Latency Hiding on GPUs (Volkov 2016): latencies, throughputs, occupancies that are
//! needed, the cusp.

pub(super) mod kernels;
pub(super) mod models;

use super::{
    Devices, Draw, Experiment, Input, Needed, Ours, Part, Per, Pick, Row, Span, X, any, measured,
    of, row, sweep,
};
use crate::sweep::Axis;
use clscope_models::prior::Model;

pub(super) const FIVE: Devices = Devices(&[
    "8800GTX (G80)",
    "GTX280 (GT200)",
    "GTX480 (Fermi)",
    "GTX680 (Kepler)",
    "GTX980 (Maxwell)",
]);
/// Of what is not made again.
pub(super) const NOWHERE: Devices = Devices(&[]);
pub(super) const MAXWELL: &[&str] = &["GTX980 (Maxwell)"];

const OCCUPANCY: &[(Axis, Span)] = &[(Axis::Occupancy, Span::Usual)];
pub(super) const STREAM: &str = "latency/stream/ilp1/filled32";
/// The suite's own levels of occupancy, which its findings come from.
const ADD_AND_STREAM: Part = sweep(&["latency/add/", "latency/stream/ilp"], &[]);
const SCATTERED: Part = sweep(&["latency/stride2/ilp", "latency/random/ilp"], &[]);
const SIX: Part = sweep(
    &[
        "latency/add/",
        "latency/special/",
        "latency/local/",
        "latency/local2/",
        "latency/stream/ilp",
        "latency/random/ilp",
    ],
    &[],
);
const STREAMS: Part = sweep(&[STREAM], OCCUPANCY);
/// Work-items on a unit.
pub(super) const OCCUPANCIES: Span =
    Span::Numbers(&[32, 64, 128, 192, 256, 384, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048]);
/// Few additions for each instruction of the chain, which is shorter than an access.
const FEW: &[(Axis, Span)] =
    &[(Axis::Alpha, Span::Numbers(&[0, 1, 2, 4, 8, 16, 32, 64])), (Axis::Occupancy, OCCUPANCIES)];
/// Additions for each access, and work-items on a unit: the grid of chapters 4 and 7.
pub(super) const GRID: Part = sweep(
    &[STREAM],
    &[
        (
            Axis::Alpha,
            Span::Numbers(&[
                0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512,
            ]),
        ),
        (Axis::Occupancy, OCCUPANCIES),
    ],
);

/// The same with accesses of 16 bytes: they need a quarter of the warps, which a newer device has.
const WIDE: &str = "latency/stream4/ilp1/filled32";
const GRID_WIDE: Part = sweep(
    &[WIDE],
    &[
        (Axis::Alpha, Span::Numbers(&[0, 4, 8, 16, 32, 48, 64, 91, 128, 181, 256, 362, 512])),
        (Axis::Occupancy, OCCUPANCIES),
    ],
);

const OVER: &[(Axis, Span)] = &[(Axis::Occupancy, OCCUPANCIES)];
/// Chains that are nothing but one kind of instruction, with several independent ones too: their
/// latency, and the peak.
const ACCESSES: Part = sweep(&[STREAM, TWO_CHAINS, "latency/stream/ilp4/filled32"], OVER);
const ACCESSES_WIDE: Part = sweep(&[WIDE, "latency/stream4/ilp4/filled32"], OVER);
const ADDITIONS: Part = sweep(&["latency/add/ilp1/filled32", "latency/add/ilp4/filled32"], OVER);
const SPECIALS: Part =
    sweep(&["latency/special/ilp1/filled32", "latency/special/ilp4/filled32"], OVER);
const LOCAL: &str = "latency/local/ilp1/filled32";
const TWO_CHAINS: &str = "latency/stream/ilp2/filled32";
const LOCALS: Part = sweep(&[LOCAL, "latency/local/ilp4/filled32"], OVER);
/// The grid, and what its two kinds of instruction do alone.
pub(super) const PARTS: &[Part] = &[GRID, ACCESSES, ADDITIONS];

/// Printed of the newest of the five alone (section 4.5).
const fn newest(value: f64) -> [Option<f64>; 5] {
    [None, None, None, None, Some(value)]
}

/// Of a case's curve of needed occupancies, warps of a compute unit.
const fn need(
    what: &'static str,
    printed: &'static [Option<f64>],
    case: &'static str,
    of: Needed,
) -> Row {
    Row { per: Per::Warp, ..row(what, "warps/unit", printed, Ours::Needed(case, of)) }
}

/// A number of the basic model by the parameters of the device.
pub(super) const fn limit(
    what: &'static str,
    unit: &'static str,
    printed: &'static [Option<f64>],
    of: Input,
) -> Row {
    row(what, unit, printed, Ours::Input(of))
}

/// The curve's ends and its cusp, of which the document prints nothing.
const fn needed_by(case: &'static str) -> [Row; 3] {
    [
        need("needed at the fewest additions", &[None; 5], case, Needed::Fewest),
        need("needed at the most additions", &[None; 5], case, Needed::Most),
        need("needed at the cusp", &[None; 5], case, Needed::Cusp),
    ]
}

/// Beside Volkov's models and clscope's.
const NEEDED: Draw = Draw::Needed(&[Model::Basic, Model::Refined, Model::ByUtilisation]);

const OVER_OCCUPANCY: Draw = Draw::Curves {
    x: X::Figure("items_per_unit"),
    label: "work-items on a compute unit",
    y: "throughput",
};

const fn found(
    what: &'static str,
    unit: &'static str,
    printed: &'static [Option<f64>],
    finding: &'static str,
    figure: &'static str,
) -> Row {
    row(what, unit, printed, Ours::Found(finding, figure))
}

const fn at_items(case: &'static str, at: &'static [(Axis, &'static str)]) -> Pick {
    Pick { figure: "throughput", case, at, units: None }
}

/// The fewest warps of a unit with which a chain reaches so many percent of its most.
const fn reaches(
    what: &'static str,
    printed: &'static [Option<f64>],
    case: &'static str,
    percent: u8,
) -> Row {
    let most = of(case, "throughput");
    Row { per: Per::Warp, ..row(what, "warps/unit", printed, Ours::Reaches(most, most, percent)) }
}

const fn latency(
    what: &'static str,
    printed: &'static [Option<f64>],
    finding: &'static str,
) -> Row {
    found(what, "cycles", printed, finding, "latency_cycles")
}

/// Instructions of a warp, a cycle and unit.
const fn ipc(what: &'static str, printed: &'static [Option<f64>], finding: &'static str) -> Row {
    Row { per: Per::Warp, ..found(what, "IPC/unit", printed, finding, "peak_per_cycle") }
}

/// Operations of work-items, a cycle and scheduler.
const fn ops(what: &'static str, printed: &'static [Option<f64>], finding: &'static str) -> Row {
    Row {
        per: Per::Scheduler,
        ..found(what, "op/cycle/scheduler", printed, finding, "peak_per_cycle")
    }
}

const fn warps(
    what: &'static str,
    printed: &'static [Option<f64>],
    finding: &'static str,
    figure: &'static str,
) -> Row {
    Row { per: Per::WarpOfScheduler, ..found(what, "warps/scheduler", printed, finding, figure) }
}

const fn needed(what: &'static str, printed: &'static [Option<f64>], finding: &'static str) -> Row {
    warps(what, printed, finding, "concurrency_needed")
}

const fn for_90(what: &'static str, printed: &'static [Option<f64>], finding: &'static str) -> Row {
    Row { per: Per::Warp, ..found(what, "warps/unit", printed, finding, "concurrency_needed") }
}

/// Five numbers that are all printed.
pub(super) const fn all(of: [f64; 5]) -> [Option<f64>; 5] {
    [Some(of[0]), Some(of[1]), Some(of[2]), Some(of[3]), Some(of[4])]
}

const STREAM_LATENCY: [Option<f64>; 5] = all([444.0, 434.0, 513.0, 301.0, 368.0]);
const ADD_LATENCY: [Option<f64>; 5] = all([20.0, 24.0, 18.0, 9.0, 6.0]);
const PEAKS: Row = Row {
    times: 4.0,
    ..found(
        "largest, of 4 bytes each",
        "GB/s",
        &all([74.0, 138.0, 161.0, 154.0, 211.0]),
        "latency/stream",
        "peak",
    )
};
const SWEPT_PEAK: Row = Row {
    times: 4.0,
    ..row(
        "largest, of 4 bytes each",
        "GB/s",
        &all([74.0, 138.0, 161.0, 154.0, 211.0]),
        Ours::Most(any("throughput")),
    )
};

/// All.
pub(super) const ALL: &[Experiment] = &[
    Experiment {
        name: "001/tab3.1",
        section: "3.1",
        shows: "latency, peak throughput and concurrency needed of additions and accesses",
        how: measured(&[ADD_AND_STREAM], OVER_OCCUPANCY),
        devices: MAXWELL,
        rows: &[
            latency("addition, latency", &[Some(6.0)], "latency/add"),
            latency("memory access, latency", &[Some(368.0)], "latency/stream"),
            ipc("addition, peak", &[Some(4.0)], "latency/add"),
            ipc("memory access, peak", &[Some(0.081)], "latency/stream"),
            Row {
                per: Per::Warp,
                ..found(
                    "addition, latency x peak",
                    "warps/unit",
                    &[Some(24.0)],
                    "latency/add",
                    "linear_concurrency",
                )
            },
            Row {
                per: Per::Warp,
                ..found(
                    "memory access, latency x peak",
                    "warps/unit",
                    &[Some(30.0)],
                    "latency/stream",
                    "linear_concurrency",
                )
            },
        ],
    },
    FIVE.experiment(
        "001/tab4.1",
        "4.1",
        "the model's parameters",
        measured(&[ADD_AND_STREAM], OVER_OCCUPANCY),
        &[
            latency("memory latency", &STREAM_LATENCY, "latency/stream"),
            ipc(
                "memory throughput",
                &all([0.0268, 0.0277, 0.0599, 0.1338, 0.0814]),
                "latency/stream",
            ),
            latency("latency of additions", &ADD_LATENCY, "latency/add"),
            ipc("throughput of additions", &all([0.25, 0.25, 1.0, 4.0, 4.0]), "latency/add"),
            row(
                "throughput of issue",
                "IPC/unit",
                &all([0.5, 0.5, 1.0, 4.0, 4.0]),
                Ours::Nothing("taken from the vendor's documents"),
            ),
        ],
    ),
    Experiment {
        name: "001/fig4.1",
        section: "4.2",
        shows: "throughput over occupancy, additions alone and accesses alone",
        how: measured(&[sweep(&["latency/add/ilp1/filled32", STREAM], OCCUPANCY)], OVER_OCCUPANCY),
        devices: MAXWELL,
        rows: &[
            reaches("accesses, needed for 90 %", &[Some(40.0)], STREAM, 90),
            reaches("accesses, needed for 95 %", &[Some(46.0)], STREAM, 95),
        ],
    },
    Experiment {
        name: "001/fig7.4",
        section: "7.3",
        shows: "throughput over occupancy, additions alone and accesses alone: what Zhang and Owens take",
        how: measured(&[sweep(&["latency/add/ilp1/filled32", STREAM], OCCUPANCY)], OVER_OCCUPANCY),
        devices: &["GTX280 (GT200)"],
        rows: &[],
    },
    FIVE.experiment(
        "001/fig4.2",
        "4.3",
        "occupancies that hide the latencies of additions and of memory",
        measured(&[ADD_AND_STREAM], OVER_OCCUPANCY),
        &[row(
            "needed for memory (90 %) / for additions",
            "",
            &all([4.0, 2.7, 2.3, 1.6, 1.7]),
            Ours::FoundRatio(
                ["latency/stream", "concurrency_needed"],
                ["latency/add", "concurrency_needed"],
            ),
        )],
    ),
    Experiment {
        name: "001/fig4.3",
        section: "4.3",
        shows: "throughput over occupancy of accesses with a stride of 2 and of scattered ones",
        how: measured(&[SCATTERED], OVER_OCCUPANCY),
        devices: MAXWELL,
        rows: &[
            latency("stride of 2, latency", &[Some(376.0)], "latency/stride2"),
            ipc("stride of 2, peak", &[Some(0.041)], "latency/stride2"),
            for_90("stride of 2, needed for 90 %", &[Some(20.0)], "latency/stride2"),
            latency("random, latency", &[Some(534.0)], "latency/random"),
            ipc("random, peak", &[Some(0.0029)], "latency/random"),
            for_90("random, needed for 90 %", &[Some(3.0)], "latency/random"),
        ],
    },
    NOWHERE.cannot(
        "001/fig4.4",
        "4.4",
        "memory against arithmetic throughput of a vendor's GPUs by year",
        "data sheets and no measurement",
    ),
    FIVE.experiment(
        "001/fig4.6",
        "4.5",
        "the cusp: occupancy needed over additions for each access, of 4 and of 16 bytes",
        measured(&[GRID, ACCESSES, ADDITIONS, GRID_WIDE, ACCESSES_WIDE], NEEDED),
        &[
            // The document prints what the basic model gives of its parameters.
            limit(
                "basic model: without additions",
                "warps/unit",
                &newest(30.0),
                Input::HideAccesses,
            ),
            limit(
                "basic model: without accesses",
                "warps/unit",
                &newest(24.0),
                Input::HideAdditions,
            ),
            limit("basic model: at the cusp", "warps/unit", &newest(54.0), Input::HideBoth),
            limit("basic model: additions at the cusp", "", &newest(49.0), Input::Balanced),
            need("needed at the fewest additions", &[None; 5], STREAM, Needed::Fewest),
            need("needed at the most additions", &[None; 5], STREAM, Needed::Most),
            need("needed at the cusp", &[None; 5], STREAM, Needed::Cusp),
            row("additions at the cusp", "", &[None; 5], Ours::Needed(STREAM, Needed::Additions)),
            need("16 bytes, needed at the fewest additions", &[None; 5], WIDE, Needed::Fewest),
            need("16 bytes, needed at the most additions", &[None; 5], WIDE, Needed::Most),
            need("16 bytes, needed at the cusp", &[None; 5], WIDE, Needed::Cusp),
            row(
                "16 bytes, additions at the cusp",
                "",
                &[None; 5],
                Ours::Needed(WIDE, Needed::Additions),
            ),
        ],
    ),
    FIVE.experiment(
        "001/fig4.8",
        "4.7",
        "the cusp of special functions: occupancy needed over additions for each of them",
        measured(&[sweep(&["latency/special/ilp1/filled32"], FEW), SPECIALS, ADDITIONS], NEEDED),
        &needed_by("latency/special/ilp1/filled32"),
    ),
    FIVE.experiment(
        "001/fig4.9",
        "4.7",
        "the cusp of local memory: occupancy needed over additions for each access",
        measured(&[sweep(&[LOCAL], FEW), LOCALS, ADDITIONS], NEEDED),
        &needed_by(LOCAL),
    ),
    Experiment {
        name: "001/fig5.3",
        section: "5.6",
        shows: "throughput over the size of groups",
        how: measured(
            &[sweep(&["latency/special/ilp1/filled32"], &[(Axis::Tpb, Span::Usual)])],
            Draw::Curves { x: X::Axis(0), label: "work-items of a group", y: "throughput" },
        ),
        devices: FIVE.0,
        rows: &[],
    },
    FIVE.experiment(
        "001/fig5.5",
        "5.10",
        "throughput of streaming accesses over occupancy, and the peak of one, two and four chains an item",
        measured(&[ACCESSES], OVER_OCCUPANCY),
        &[SWEPT_PEAK],
    ),
    FIVE.experiment(
        "001/tab6.1",
        "6.1",
        "peak throughputs",
        measured(&[SIX], OVER_OCCUPANCY),
        &[
            ops("additions", &all([8.0, 8.0, 16.0, 32.0, 32.0]), "latency/add"),
            ops("reciprocal square roots", &all([2.0, 2.0, 2.0, 8.0, 8.0]), "latency/special"),
            ops("local memory", &all([6.0, 8.0, 8.0, 8.0, 8.0]), "latency/local"),
            ops(
                "local memory, two-way conflicts",
                &all([3.0, 4.0, 4.0, 4.0, 4.0]),
                "latency/local2",
            ),
            ops("streaming accesses", &all([0.86, 0.89, 0.97, 1.07, 0.65]), "latency/stream"),
            ops("random accesses", &all([0.027, 0.016, 0.029, 0.034, 0.023]), "latency/random"),
        ],
    ),
    FIVE.experiment(
        "001/tab6.2",
        "6.1",
        "register dependency latencies",
        measured(&[SIX], OVER_OCCUPANCY),
        &[
            latency("addition", &ADD_LATENCY, "latency/add"),
            latency(
                "reciprocal square root",
                &all([32.0, 34.0, 22.0, 9.0, 13.0]),
                "latency/special",
            ),
            latency("local memory", &all([38.0, 40.0, 26.0, 24.0, 24.0]), "latency/local"),
            latency(
                "local memory, two-way conflicts",
                &all([54.0, 56.0, 58.0, 56.0, 26.0]),
                "latency/local2",
            ),
            latency("streaming access", &STREAM_LATENCY, "latency/stream"),
            latency("random access", &all([644.0, 662.0, 1571.0, 1213.0, 534.0]), "latency/random"),
        ],
    ),
    FIVE.experiment(
        "001/tab6.3",
        "6.1",
        "concurrency needed (here: for 95 % of the peak, memory 90 %)",
        measured(&[SIX], OVER_OCCUPANCY),
        &[
            needed("additions", &all([5.0, 6.0, 9.0, 9.0, 6.0]), "latency/add"),
            needed("reciprocal square roots", &all([2.0, 3.0, 1.5, 3.0, 4.0]), "latency/special"),
            needed("local memory", &all([9.0, 11.0, 6.5, 6.0, 8.0]), "latency/local"),
            needed(
                "local memory, two-way conflicts",
                &all([6.0, 8.0, 7.5, 7.0, 3.75]),
                "latency/local2",
            ),
            needed("streaming accesses", &all([20.0, 16.0, 21.0, 14.0, 10.0]), "latency/stream"),
            // Of the first two the document says less than 1.
            needed(
                "random accesses",
                &[None, None, Some(2.0), Some(1.75), Some(0.75)],
                "latency/random",
            ),
        ],
    ),
    Experiment {
        name: "001/fig6.1",
        section: "6.1",
        shows: "throughput of local memory over occupancy",
        how: measured(&[sweep(&[LOCAL], OVER)], OVER_OCCUPANCY),
        devices: MAXWELL,
        rows: &[
            reaches("needed for 99 %", &[Some(32.0)], LOCAL, 99),
            row(
                "24 warps / most",
                "",
                &[Some(0.92)],
                Ours::Ratio(at_items(LOCAL, &[(Axis::Occupancy, "768")]), of(LOCAL, "throughput")),
            ),
        ],
    },
    Experiment {
        name: "001/fig6.2",
        section: "6.3",
        shows: "streaming accesses over occupancy, one and two chains an item",
        how: measured(&[sweep(&[STREAM, TWO_CHAINS], OCCUPANCY)], OVER_OCCUPANCY),
        devices: &["GTX480 (Fermi)"],
        rows: &[
            Row { printed: &[Some(161.0)], ..SWEPT_PEAK },
            // 12.5 warps of each of its two schedulers.
            reaches("two chains, needed for 95 %", &[Some(25.0)], TWO_CHAINS, 95),
        ],
    },
    FIVE.experiment(
        "001/tab6.4",
        "6.3",
        "occupancy that hides memory latency",
        measured(&[ADD_AND_STREAM], OVER_OCCUPANCY),
        &[
            PEAKS,
            warps(
                "latency x peak",
                &all([12.0, 12.0, 15.5, 10.0, 7.5]),
                "latency/stream",
                "linear_concurrency",
            ),
            needed("for 90 %", &all([20.0, 16.0, 21.0, 14.0, 10.0]), "latency/stream"),
            warps(
                "for 95 %",
                &all([24.0, 18.0, 25.0, 16.0, 11.5]),
                "latency/stream",
                "concurrency_needed_95",
            ),
            found(
                "of the peak at latency x peak",
                "%",
                &all([75.0, 84.0, 80.0, 78.0, 80.0]),
                "latency/stream",
                "share_at_linear",
            ),
        ],
    ),
    FIVE.experiment(
        "001/fig6.3",
        "6.4",
        "latency of memory over its throughput",
        measured(
            &[STREAMS],
            Draw::Curves { x: X::Figure("throughput"), label: "Gop/s", y: "latency" },
        ),
        &[],
    ),
    FIVE.experiment(
        "001/fig6.6",
        "6.7",
        "throughput of random accesses over the size of the array",
        measured(
            &[sweep(&["latency/random/ilp1/filled32"], &[(Axis::Size, Span::Usual)])],
            Draw::Curves { x: X::Axis(0), label: "bytes", y: "throughput" },
        ),
        &[],
    ),
    FIVE.experiment(
        "001/tab6.7",
        "6.7",
        "cycles that a further transaction of a scattered access takes",
        measured(&[sweep(&["latency/stream/ilp1", "latency/random/ilp1"], &[])], OVER_OCCUPANCY),
        &[Row {
            // 32 transactions against 4, as the document counts for Kepler and Maxwell.
            times: 1.0 / 28.0,
            ..row(
                "(random - streaming latency) / transactions",
                "cycles",
                &all([6.7, 7.6, 34.0, 33.0, 5.9]),
                Ours::FoundDifference(
                    ["latency/random", "latency_cycles"],
                    ["latency/stream", "latency_cycles"],
                ),
            )
        }],
    ),
];
