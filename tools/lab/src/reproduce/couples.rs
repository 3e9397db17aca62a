//! The Mali T-624 (Matsentidou 2020), chapters 9 to 11: products and sums that depend on each other
//! and that do not, what is fused, and how many variables fit the registers.

use super::matsentidou::{MALI, TIME, over, slower};
use super::{Devices, Draw, Experiment, Ours, Part, Pick, Row, Span, X, measured, of, row, sweep};
use crate::sweep::Axis;
use clscope_microbench::job::Scalar;

/// The device, and what the document's model of it gives for the same.
const WITH_MODEL: Devices = Devices(&["Mali T-624", "its model there"]);

const COUPLES: &[&str] = &[
    "structure/couples/2",
    "structure/couples/3",
    "structure/couples/4",
    "structure/couples/5",
    "structure/couples/6",
    "structure/couples/7",
    "structure/couples/8",
    "structure/couples/9",
    "structure/couples/10",
];
const TO_SIX: &[&str] = &[
    "structure/couples/2",
    "structure/couples/3",
    "structure/couples/4",
    "structure/couples/5",
    "structure/couples/6",
];
const BY_TYPE: Part = sweep(
    COUPLES,
    &[(Axis::Precision, Span::Types(&[Scalar::Int, Scalar::Float, Scalar::Double]))],
);
/// Vectors of 128 bits.
const VECTORS: Part = sweep(
    COUPLES,
    &[
        (Axis::Width, Span::Numbers(&[4])),
        (Axis::Precision, Span::Types(&[Scalar::Int, Scalar::Float])),
    ],
);

const OVER_COUPLES: Draw =
    Draw::Curves { x: X::Parameter("couples"), label: "products and sums in a turn", y: TIME };
const OVER_PAIRS: Draw = Draw::Curves { x: X::Parameter("at"), label: "pairs in flight", y: TIME };

const INT: &[(Axis, &str)] = &[(Axis::Precision, "int")];
const FLOAT: &[(Axis, &str)] = &[(Axis::Precision, "float")];
const DOUBLE: &[(Axis, &str)] = &[(Axis::Precision, "double")];

/// Milliseconds of a million turns, which the document prints: nanoseconds of a turn.
const fn turn(
    what: &'static str,
    printed: &'static [Option<f64>],
    couples: f64,
    case: &'static str,
    at: &'static [(Axis, &'static str)],
) -> Row {
    let pick = Pick { figure: TIME, case, at, units: None };
    Row { times: couples, ..row(what, "ms", printed, Ours::Least(pick)) }
}

const BY_TYPES: &[Row] = &[
    row(
        "first that is spilled (of words, integers)",
        "words",
        &[Some(17.0), None],
        Ours::Found("structure/registers/spill", "at"),
    ),
    turn("2 couples, int", &[Some(190.002), Some(190.0)], 2.0, "/couples/2@", INT),
    turn("2 couples, float", &[Some(190.002), Some(190.0)], 2.0, "/couples/2@", FLOAT),
    turn("2 couples, double", &[Some(190.002), Some(190.0)], 2.0, "/couples/2@", DOUBLE),
    turn("3 couples, int", &[Some(253.338), Some(253.333)], 3.0, "/couples/3@", INT),
    turn("3 couples, float", &[Some(253.337), Some(253.333)], 3.0, "/couples/3@", FLOAT),
    turn("3 couples, double", &[Some(253.336), Some(253.333)], 3.0, "/couples/3@", DOUBLE),
    turn("4 couples, int", &[Some(316.67), Some(316.667)], 4.0, "/couples/4@", INT),
    turn("4 couples, float", &[Some(316.67), Some(316.667)], 4.0, "/couples/4@", FLOAT),
    turn("4 couples, double", &[Some(316.67), Some(316.667)], 4.0, "/couples/4@", DOUBLE),
    turn("5 couples, int", &[Some(380.001), Some(380.0)], 5.0, "/couples/5@", INT),
    turn("5 couples, float", &[Some(380.001), Some(380.0)], 5.0, "/couples/5@", FLOAT),
    turn("5 couples, double", &[Some(380.001), Some(380.0)], 5.0, "/couples/5@", DOUBLE),
    turn("6 couples, int", &[Some(536.67), Some(443.333)], 6.0, "/couples/6@", INT),
    turn("6 couples, float", &[Some(536.67), Some(443.333)], 6.0, "/couples/6@", FLOAT),
    turn("6 couples, double", &[Some(536.67), Some(443.333)], 6.0, "/couples/6@", DOUBLE),
    turn("7 couples, int", &[Some(631.67), Some(506.667)], 7.0, "/couples/7@", INT),
    turn("7 couples, float", &[Some(631.67), Some(506.667)], 7.0, "/couples/7@", FLOAT),
    turn("7 couples, double", &[Some(631.67), Some(506.667)], 7.0, "/couples/7@", DOUBLE),
    turn("8 couples, int", &[Some(711.67), Some(570.0)], 8.0, "/couples/8@", INT),
    turn("8 couples, float", &[Some(711.67), Some(570.0)], 8.0, "/couples/8@", FLOAT),
    turn("8 couples, double", &[Some(711.67), Some(570.0)], 8.0, "/couples/8@", DOUBLE),
    turn("9 couples, int", &[Some(790.001), Some(633.333)], 9.0, "/couples/9@", INT),
    turn("9 couples, float", &[Some(790.001), Some(633.333)], 9.0, "/couples/9@", FLOAT),
    turn("9 couples, double", &[Some(790.001), Some(633.333)], 9.0, "/couples/9@", DOUBLE),
    turn("10 couples, int", &[Some(855.001), Some(696.667)], 10.0, "/couples/10@", INT),
    turn("10 couples, float", &[Some(855.001), Some(696.667)], 10.0, "/couples/10@", FLOAT),
    turn("10 couples, double", &[Some(853.339), Some(696.667)], 10.0, "/couples/10@", DOUBLE),
];

const OF_VECTORS: &[Row] = &[
    turn("2 couples, int", &[Some(190.001), Some(190.0)], 2.0, "/couples/2@", INT),
    turn("2 couples, float", &[Some(190.001), Some(190.0)], 2.0, "/couples/2@", FLOAT),
    turn("3 couples, int", &[Some(253.337), Some(253.333)], 3.0, "/couples/3@", INT),
    turn("3 couples, float", &[Some(253.338), Some(253.333)], 3.0, "/couples/3@", FLOAT),
    turn("4 couples, int", &[Some(316.67), Some(316.667)], 4.0, "/couples/4@", INT),
    turn("4 couples, float", &[Some(316.67), Some(316.667)], 4.0, "/couples/4@", FLOAT),
    turn("5 couples, int", &[Some(380.001), Some(380.0)], 5.0, "/couples/5@", INT),
    turn("5 couples, float", &[Some(380.001), Some(380.0)], 5.0, "/couples/5@", FLOAT),
    turn("6 couples, int", &[Some(536.67), Some(443.333)], 6.0, "/couples/6@", INT),
    turn("6 couples, float", &[Some(536.67), Some(443.333)], 6.0, "/couples/6@", FLOAT),
    turn("7 couples, int", &[Some(631.67), Some(506.667)], 7.0, "/couples/7@", INT),
    turn("7 couples, float", &[Some(631.67), Some(506.667)], 7.0, "/couples/7@", FLOAT),
    turn("8 couples, int", &[Some(711.67), Some(570.0)], 8.0, "/couples/8@", INT),
    turn("8 couples, float", &[Some(711.67), Some(570.0)], 8.0, "/couples/8@", FLOAT),
    turn("9 couples, int", &[Some(790.002), Some(633.333)], 9.0, "/couples/9@", INT),
    turn("9 couples, float", &[Some(790.001), Some(633.333)], 9.0, "/couples/9@", FLOAT),
    turn("10 couples, int", &[Some(855.001), Some(696.667)], 10.0, "/couples/10@", INT),
    turn("10 couples, float", &[Some(855.001), Some(696.667)], 10.0, "/couples/10@", FLOAT),
];

/// All.
pub(super) const ALL: &[Experiment] = &[
    MALI.experiment(
        "002/fig9.1",
        "9.1",
        "fusion of a comparison and an AND: a million turns of a loop with two conditions, and with one",
        measured(&[sweep(&["structure/conditions/"], &[])], Draw::Numbers),
        &[
            turn("two conditions", &[Some(126.668)], 1.0, "/conditions/both", &[]),
            turn("one condition", &[None], 1.0, "/conditions/one", &[]),
            slower(
                "two / one (there the AND took no time)",
                &[None],
                of("/conditions/both", TIME),
                of("/conditions/one", TIME),
            ),
        ],
    ),
    WITH_MODEL.experiment(
        "002/fig9.3",
        "9.2",
        "fusion of products and sums: two couples, a million turns; dependent pairs against independent ones",
        measured(
            &[sweep(
                &["structure/fused_float", "structure/split_float", "structure/couples/2"],
                &[],
            )],
            OVER_PAIRS,
        ),
        &[turn("2 couples", &[Some(190.002), Some(190.0)], 2.0, "/couples/2", &[])],
    ),
    MALI.experiment(
        "002/fig10.1",
        "10.1",
        "time of 2 to 6 dependent couples of a product and a sum, a million turns",
        measured(&[sweep(TO_SIX, &[])], OVER_COUPLES),
        &[
            turn("2 couples", &[Some(190.002)], 2.0, "/couples/2", &[]),
            turn("3 couples", &[Some(253.338)], 3.0, "/couples/3", &[]),
            turn("4 couples", &[Some(316.67)], 4.0, "/couples/4", &[]),
            turn("5 couples", &[Some(380.001)], 5.0, "/couples/5", &[]),
            turn("6 couples", &[Some(536.67)], 6.0, "/couples/6", &[]),
        ],
    ),
    MALI.experiment(
        "002/fig10.2",
        "10.1",
        "independent products and sums: what one VLIW word holds (and figure 10.5)",
        measured(&[sweep(&["structure/fused_int"], &[])], OVER_PAIRS),
        &[
            // The times of a statement, times the statements.
            Row {
                times: 2.0,
                ..slower(
                    "time of 2 pairs / of 1 (190.002 / 190.002 ms)",
                    &[Some(1.0)],
                    of("/int2", TIME),
                    of("/int1", TIME),
                )
            },
            Row {
                times: 4.0,
                ..slower(
                    "time of 4 pairs / of 1 (316.67 / 190.002 ms)",
                    &[Some(316.67 / 190.002)],
                    of("/int4", TIME),
                    of("/int1", TIME),
                )
            },
        ],
    ),
    MALI.experiment(
        "002/fig10.7",
        "10.2",
        "three independent pairs over the width of vectors",
        measured(
            &[sweep(&["structure/fused_int/int3"], &[(Axis::Width, Span::Usual)])],
            over("elements of a vector"),
        ),
        &[],
    ),
    WITH_MODEL.experiment(
        "002/fig11.2",
        "11.1",
        "time over dependent couples of a product and a sum, by type: the register file",
        measured(&[sweep(&["structure/registers"], &[]), BY_TYPE], OVER_COUPLES),
        BY_TYPES,
    ),
    WITH_MODEL.experiment(
        "002/fig11.4",
        "11.2",
        "the same of vectors of four elements: one register file for all",
        measured(&[VECTORS], OVER_COUPLES),
        OF_VECTORS,
    ),
];
