//! Understanding Latency Hiding on GPUs (Volkov 2016): kernels as applications have them over
//! occupancy (chapter 3), and what a clock inside kernels shows (chapter 5, section 6.6).

use super::MAXWELL;
use crate::reproduce::{
    Devices, Draw, Experiment, Ours, Part, Per, Pick, Row, Span, X, any, measured, of, row, sweep,
};
use crate::sweep::Axis;

const KEPLER: Devices = Devices(&["GTX680 (Kepler)"]);
const OLDEST: Devices = Devices(&["8800GTX (G80)"]);
const FERMI: Devices = Devices(&["GTX480 (Fermi)"]);
const NEWEST: Devices = Devices(MAXWELL);

/// Work-items of a group; local memory lets a few groups of each onto a unit.
const GROUPS: &[(Axis, Span)] = &[(
    Axis::Tpb,
    Span::Numbers(&[32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 768, 1024]),
)];
const ADDED: Part = sweep(&["occupancy/vector_add"], GROUPS);
const PERMUTED: Part = sweep(&["occupancy/permute/identity", "occupancy/permute/random"], GROUPS);
const SIGNS: Part = sweep(&["occupancy/abs/positive", "occupancy/abs/negative"], GROUPS);
const PRICES: Part =
    sweep(&["occupancy/black_scholes/exact", "occupancy/black_scholes/fast"], GROUPS);

const fn over_occupancy(y: &'static str) -> Draw {
    Draw::Curves { x: X::Figure("items_per_unit"), label: "work-items on a compute unit", y }
}
const OVER_OCCUPANCY: Draw = over_occupancy("bandwidth");

/// Warps on each of four schedulers, and one more.
const SPECIALS: Part = sweep(
    &["latency/special/ilp1/filled32"],
    &[(
        Axis::Occupancy,
        Span::Numbers(&[128, 160, 256, 288, 384, 416, 512, 544, 640, 672, 768, 800, 1024]),
    )],
);

const fn special(at: &'static [(Axis, &'static str)]) -> Pick {
    Pick { figure: "throughput", case: "", at, units: None }
}

const fn bandwidth(case: &'static str) -> Pick {
    of(case, "bandwidth")
}

const fn most(what: &'static str, printed: &'static [Option<f64>], case: &'static str) -> Row {
    row(what, "GB/s", printed, Ours::Most(bandwidth(case)))
}

/// Warps of a unit that reach nine tenths of the largest bandwidth.
const fn needed(what: &'static str, printed: &'static [Option<f64>], case: &'static str) -> Row {
    let ours = Ours::Reaches(bandwidth(case), bandwidth(case), 90);
    Row { per: Per::Warp, ..row(what, "warps/unit", printed, ours) }
}

/// Warps that reach 95 % of what another case reaches, too: 190 of 200 GB/s in the document.
const fn needed_beside(
    what: &'static str,
    printed: &'static [Option<f64>],
    case: &'static str,
    other: &'static str,
) -> Row {
    let ours = Ours::Reaches(bandwidth(case), bandwidth(other), 95);
    Row { per: Per::Warp, ..row(what, "warps/unit", printed, ours) }
}

/// Work-items that stay on a unit while a launch lasts.
const RUNNING: Part = sweep(&["clock/groups/"], &[]);
/// Accesses under a load that grows.
const ACCESSES: Part = sweep(
    &["clock/access/loaded"],
    &[(Axis::Occupancy, Span::Numbers(&[32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048]))],
);

/// A percentile at the least load, and at the most.
const fn at_load(
    what: &'static str,
    printed: &'static [Option<f64>],
    figure: &'static str,
    most: bool,
) -> Row {
    row(what, "cycles", printed, Ours::Under { figure, load: "bandwidth", most })
}

/// Chains of additions, and of additions behind something else.
const BEHIND: Part =
    sweep(&["latency/add/", "latency/branch/", "latency/loop/", "latency/barrier/"], &[]);

/// Cycles that a chain takes more for each addition than additions alone.
const fn behind(what: &'static str, printed: &'static [Option<f64>], chain: &'static str) -> Row {
    let cycles = "latency_cycles";
    row(what, "cycles", printed, Ours::FoundDifference([chain, cycles], ["latency/add", cycles]))
}

/// All.
pub(in crate::reproduce) const ALL: &[Experiment] = &[
    FERMI.experiment(
        "001/sec3.7",
        "3.7",
        "latencies of control flow (listing 3.3)",
        measured(&[BEHIND], Draw::Numbers),
        &[
            row(
                "addition",
                "cycles",
                &[Some(18.0)],
                Ours::Found("latency/add", "latency_cycles"),
            ),
            behind(
                "branch, not taken (here with its comparison)",
                &[Some(28.0)],
                "latency/branch",
            ),
            behind(
                "branch, taken (here with a loop's counter and comparison)",
                &[Some(32.0)],
                "latency/loop",
            ),
            behind("barrier", &[Some(34.0)], "latency/barrier"),
        ],
    ),
    KEPLER.experiment(
        "001/fig3.6",
        "3.8",
        "the vector addition over occupancy, beside proportion and peak",
        measured(&[ADDED], Draw::LittlesLaw("bandwidth")),
        &[
            most("largest", &[Some(156.0)], "vector_add"),
            needed("needed for 90 % of it", &[None], "vector_add"),
        ],
    ),
    NEWEST.experiment(
        "001/fig3.7",
        "3.10",
        "permutation over occupancy, nothing moved and scattered (and figure 3.8)",
        measured(&[PERMUTED], OVER_OCCUPANCY),
        &[
            most("nothing moved, largest", &[None], "permute/identity"),
            most("scattered, largest", &[None], "permute/random"),
            needed("nothing moved, needed for 90 %", &[None], "permute/identity"),
            needed("scattered, needed for 90 %", &[None], "permute/random"),
        ],
    ),
    NEWEST.experiment(
        "001/fig3.9",
        "3.10",
        "absolute values over occupancy, all positive and all negative (and figure 3.10)",
        measured(&[SIGNS], OVER_OCCUPANCY),
        &[
            most("all positive, largest", &[Some(210.0)], "abs/positive"),
            most("all negative, largest", &[Some(200.0)], "abs/negative"),
            needed_beside(
                "all positive, needed for 95 % of what both reach",
                &[Some(60.0)],
                "abs/positive",
                "abs/negative",
            ),
            needed_beside(
                "all negative, needed for 95 % of what both reach",
                &[Some(40.0)],
                "abs/negative",
                "abs/positive",
            ),
        ],
    ),
    NEWEST.experiment(
        "001/fig3.11",
        "3.10",
        "Black-Scholes over occupancy, with exact and with fast mathematics",
        measured(&[PRICES], OVER_OCCUPANCY),
        &[
            most("exact, largest", &[None], "black_scholes/exact"),
            most("fast, largest", &[None], "black_scholes/fast"),
            needed_beside(
                "exact (there 44 or 48), needed for 95 % of what both reach",
                &[Some(48.0)],
                "black_scholes/exact",
                "black_scholes/fast",
            ),
            needed_beside(
                "fast, needed for 95 % of what both reach",
                &[Some(18.0)],
                "black_scholes/fast",
                "black_scholes/exact",
            ),
        ],
    ),
    OLDEST.experiment(
        "001/fig5.1",
        "5.6, 5.9",
        "warps over the time of a launch: several rounds, and one (and figures 3.3, 5.4)",
        measured(&[RUNNING], Draw::Series),
        &[
            // Fewer than 9 of 20 warps (figure 5.4).
            row(
                "one round, time at its end with fewer than 9/20",
                "%",
                &[Some(7.0)],
                Ours::Most(of("groups/once", "tail_45")),
            ),
            row(
                "one round, time at its end with fewer than 9/10",
                "%",
                &[None],
                Ours::Most(of("groups/once", "tail")),
            ),
            row(
                "eight rounds, time at its end with fewer than 9/10",
                "%",
                &[None],
                Ours::Most(of("groups/rounds", "tail")),
            ),
        ],
    ),
    KEPLER.experiment(
        "001/fig5.2",
        "5.8",
        "throughput of special functions over occupancy: the jigsaw of warps that no whole number of schedulers shares",
        measured(&[SPECIALS], over_occupancy("throughput")),
        &[row(
            "17 warps / 16 warps",
            "",
            &[Some(0.85)],
            Ours::Ratio(
                special(&[(Axis::Occupancy, "544")]),
                special(&[(Axis::Occupancy, "512")]),
            ),
        )],
    ),
    KEPLER.experiment(
        "001/fig6.5",
        "6.6",
        "latencies of single accesses over the load: percentiles (and table 6.6)",
        measured(
            &[ACCESSES],
            Draw::Figures {
                x: X::Figure("bandwidth"),
                label: "GB/s of the accesses",
                y: (
                    "latency",
                    &["latency_5", "latency_25", "latency_50", "latency_75", "latency_95"],
                ),
            },
        ),
        &[
            row("least load", "GB/s", &[Some(3.8)], Ours::Least(any("bandwidth"))),
            row(
                "most load (there 94 % of the peak)",
                "GB/s",
                &[Some(144.0)],
                Ours::Most(any("bandwidth")),
            ),
            at_load("least load, smallest", &[Some(280.0)], "latency_min", false),
            at_load("least load, 5th percentile", &[Some(292.0)], "latency_5", false),
            at_load("least load, 25th percentile", &[Some(296.0)], "latency_25", false),
            at_load("least load, median", &[Some(300.0)], "latency_50", false),
            at_load("least load, 75th percentile", &[Some(304.0)], "latency_75", false),
            at_load("least load, 95th percentile", &[Some(324.0)], "latency_95", false),
            at_load("least load, largest", &[Some(536.0)], "latency_max", false),
            at_load("most load, smallest", &[Some(278.0)], "latency_min", true),
            at_load("most load, 5th percentile", &[Some(340.0)], "latency_5", true),
            at_load("most load, 25th percentile", &[Some(416.0)], "latency_25", true),
            at_load("most load, median", &[Some(488.0)], "latency_50", true),
            at_load("most load, 75th percentile", &[Some(572.0)], "latency_75", true),
            at_load("most load, 95th percentile", &[Some(708.0)], "latency_95", true),
            at_load("most load, largest", &[Some(1453.0)], "latency_max", true),
        ],
    ),
];
