//! The Mali T-624 (Matsentidou 2020): groups, batches, stores and loads, sharing. What it fuses and
//! keeps in registers is in [`super::couples`].

use super::{
    Devices, Draw, Experiment, Ours, Pick, Row, Span, X, any, measured, of, row, sweep, watched,
};
use crate::sweep::Axis;

pub(super) const MALI: Devices = Devices(&["Mali T-624"]);
const STEPS: &str = "structure/groups/1";
/// Compute units of the document's device.
const UNITS: usize = 4;
/// Every number of groups up to past 64, where the first of its cores is full.
const TO_65: Span = Span::OfUnits(
    UNITS,
    &[
        1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 34, 36, 37, 38, 39, 40, 42, 44, 46, 48, 50, 52, 56, 60,
        63, 64, 65,
    ],
);
const TO_320: Span = Span::OfUnits(
    UNITS,
    &[1, 16, 32, 63, 64, 65, 96, 128, 129, 160, 192, 193, 224, 256, 257, 288, 320],
);

pub(super) const TIME: &str = "time_per_statement";

pub(super) const fn over(label: &'static str) -> Draw {
    Draw::Curves { x: X::Axis(0), label, y: TIME }
}

const fn at(figure: &'static str, at: &'static [(Axis, &'static str)]) -> Pick {
    Pick { figure, case: "", at, units: Some(UNITS) }
}

/// A time over one at fewer groups; printed are both.
pub(super) const fn slower(
    what: &'static str,
    printed: &'static [Option<f64>],
    many: Pick,
    few: Pick,
) -> Row {
    row(what, "", printed, Ours::Ratio(many, few))
}

/// Time over that of words far apart.
const fn shared(what: &'static str, finding: &'static str) -> Row {
    row(what, "", &[None], Ours::Found(finding, "ratio"))
}

/// Chapters 7 and 8.
pub(super) const GROUPS: &[Experiment] = &[
    MALI.experiment(
        "002/fig7.2",
        "7.1",
        "watts over work-groups, sizes 1 and 64",
        measured(
            &[watched(
                &[STEPS],
                &[(Axis::Blocks, Span::Rounds), (Axis::Tpb, Span::Numbers(&[1, 64]))],
            )],
            Draw::Curves { x: X::Axis(0), label: "work-groups", y: "power" },
        ),
        &[],
    ),
    MALI.experiment(
        "002/fig7.3",
        "7.1",
        "time over work-groups of 1 and of 2 work-items",
        measured(
            &[sweep(&[STEPS], &[(Axis::Blocks, TO_65), (Axis::Tpb, Span::Numbers(&[1, 2]))])],
            over("work-groups"),
        ),
        &[],
    ),
    MALI.experiment(
        "002/fig7.4",
        "7.2",
        "time over work-groups of one work-item: the depth of the pipeline",
        measured(&[sweep(&[STEPS], &[(Axis::Blocks, TO_65)])], over("work-groups")),
        &[
            row(
                "groups that take the time of one (in steps of the sweep)",
                "groups",
                &[Some(38.0)],
                Ours::Level(any(TIME)),
            ),
            slower(
                "time of 39 / of 38 (111.43 / 108.57 ms)",
                &[Some(111.43 / 108.57)],
                at(TIME, &[(Axis::Blocks, "39")]),
                at(TIME, &[(Axis::Blocks, "38")]),
            ),
            slower(
                "time of 50 / of 38 (142.86 / 108.57 ms)",
                &[Some(142.86 / 108.57)],
                at(TIME, &[(Axis::Blocks, "50")]),
                at(TIME, &[(Axis::Blocks, "38")]),
            ),
        ],
    ),
    MALI.experiment(
        "002/fig8.1",
        "8.1",
        "time over work-groups of one work-item: cores",
        measured(&[sweep(&[STEPS], &[(Axis::Blocks, TO_320)])], over("work-groups")),
        &[],
    ),
    MALI.experiment(
        "002/fig8.3",
        "8.2",
        "time over work-groups for sizes that are powers of two: batches",
        measured(
            &[sweep(&[STEPS], &[(Axis::Blocks, TO_320), (Axis::Tpb, Span::Usual)])],
            over("work-groups"),
        ),
        &[],
    ),
];

/// Chapters 12 and 13.
pub(super) const MEMORY: &[Experiment] = &[
    MALI.experiment(
        "002/fig12.3",
        "12.1",
        "time of stores over work-groups of one work-item",
        measured(&[sweep(&["structure/store/1"], &[(Axis::Blocks, TO_65)])], over("work-groups")),
        &[slower(
            "time of 64 groups / of 1 (192 / 154 cycles)",
            &[Some(192.0 / 154.0)],
            at(TIME, &[(Axis::Blocks, "64")]),
            at(TIME, &[(Axis::Blocks, "1")]),
        )],
    ),
    MALI.experiment(
        "002/fig12.6",
        "12.2",
        "time of loads over work-groups of one work-item",
        measured(&[sweep(&["structure/load/1"], &[(Axis::Blocks, TO_65)])], over("work-groups")),
        &[slower(
            "time of 64 groups / of 1 (384 / 280 cycles)",
            &[Some(384.0 / 280.0)],
            at(TIME, &[(Axis::Blocks, "64")]),
            at(TIME, &[(Axis::Blocks, "1")]),
        )],
    ),
    MALI.experiment(
        "002/fig12.7",
        "12.3",
        "adding to one word and to words of their own, in one group and between groups",
        measured(&[sweep(&["structure/sharing"], &[])], Draw::Numbers),
        &[
            // Of one core, whose words are neighbours.
            row(
                "shared by a group / neighbours (there identical)",
                "",
                &[Some(1.0)],
                Ours::FoundRatio(
                    ["structure/sharing/shared_in_group", "ratio"],
                    ["structure/sharing/neighbours", "ratio"],
                ),
            ),
            shared("shared by a group / far apart", "structure/sharing/shared_in_group"),
            shared("shared by all / far apart", "structure/sharing/shared_word"),
            shared("neighbours / far apart", "structure/sharing/neighbours"),
            shared("same line / far apart", "structure/sharing/same_line_between_groups"),
        ],
    ),
    MALI.experiment(
        "002/fig12.9",
        "12.4",
        "races and false sharing over the groups that take part",
        measured(
            &[sweep(
                &[
                    "structure/sharing/shared_word",
                    "structure/sharing/same_line_between_groups",
                    "structure/sharing/apart",
                ],
                &[(Axis::Cores, Span::Powers)],
            )],
            over("groups that work"),
        ),
        &[slower(
            "same line / same word, largest of each (there identical)",
            &[Some(1.0)],
            of("same_line_between_groups", TIME),
            of("shared_word", TIME),
        )],
    ),
];
