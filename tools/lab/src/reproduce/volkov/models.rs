//! Models of latency hiding against the grid of additions for each access x occupancy (Volkov 2016,
//! sections 4.8 to 4.13, 6.4, 6.5 and chapter 7).

use super::{FIVE, PARTS, all, limit};
use crate::reproduce::{ALONE, AtFull, Draw, Experiment, Input, Ours, Row, measured, row};
use clscope_models::prior::Model;

const fn over(what: &'static str, printed: &'static [Option<f64>], model: Model) -> Row {
    row(what, "", printed, Ours::Worst { model, over: true, alpha: None })
}

const fn under(what: &'static str, printed: &'static [Option<f64>], model: Model) -> Row {
    row(what, "", printed, Ours::Worst { model, over: false, alpha: None })
}

/// The same among points of so many additions for each access, as the document states it.
const fn at_alpha(of: Row, alpha: u32) -> Row {
    match of.ours {
        Ours::Worst { model, over, .. } => {
            Row { ours: Ours::Worst { model, over, alpha: Some(alpha) }, ..of }
        }
        _ => of,
    }
}

const fn one(of: usize, value: f64) -> [Option<f64>; 5] {
    let mut out = [None; 5];
    out[of] = Some(value);
    out
}

const NONE: &[Option<f64>] = &[None; 5];

/// Estimates over occupancy at some numbers of additions; the measured grid has the nearest.
const fn at(
    name: &'static str,
    section: &'static str,
    shows: &'static str,
    alphas: &'static [usize],
    models: &'static [Model],
    rows: &'static [Row],
) -> Experiment {
    FIVE.experiment(name, section, shows, measured(PARTS, Draw::Estimates(alphas, models)), rows)
}

/// What stands at the most work-items: the document's 100 % occupancy.
const fn full(
    what: &'static str,
    unit: &'static str,
    printed: &'static [Option<f64>],
    of: AtFull,
    alpha: usize,
) -> Row {
    row(what, unit, printed, Ours::AtFull(of, alpha))
}

const PARAMETERS: [Row; 5] = [
    limit(
        "memory latency",
        "cycles",
        &all([444.0, 434.0, 513.0, 301.0, 368.0]),
        Input::MemoryLatency,
    ),
    limit(
        "memory throughput",
        "IPC/unit",
        &all([0.0268, 0.0277, 0.0599, 0.1338, 0.0814]),
        Input::MemoryThroughput,
    ),
    limit("latency of additions", "cycles", &all([20.0, 24.0, 18.0, 9.0, 6.0]), Input::AddLatency),
    limit(
        "throughput of additions",
        "IPC/unit",
        &all([0.25, 0.25, 1.0, 4.0, 4.0]),
        Input::AddThroughput,
    ),
    limit(
        "throughput of issue",
        "IPC/unit",
        &all([0.5, 0.5, 1.0, 4.0, 4.0]),
        Input::IssueThroughput,
    ),
];
const A: Row = limit("a", "cycles", &all([453.0, 438.0, 501.0, 300.0, 372.0]), Input::A);
const B: Row = limit("b", "cycles", &all([61.0, 17.0, 41.0, 32.0, 22.0]), Input::B);
const C: Row = limit("c", "GB/s", &all([81.0, 140.0, 170.0, 170.0, 221.0]), Input::C);

/// Up to 1.25 to 1.28 on all but the first (section 7.9).
const BASIC: Row = over(
    "Volkov, basic: largest (there up to)",
    &all([1.34, 1.28, 1.28, 1.28, 1.28]),
    Model::Basic,
);
/// "Within 2 %, but at the knee up to 9 %" (section 7.1).
const BASIC_32: Row = at_alpha(
    over("Volkov, basic: largest at alpha 32 (there at the knee)", &one(1, 1.09), Model::Basic),
    32,
);
const REFINED: Row = over(
    "Volkov, with contention: largest",
    &[None, None, Some(1.09), Some(1.2), None],
    Model::Refined,
);
/// Figure 7.11 has the first three of the GPUs, figure 7.12 the last two.
const BASIC_FIRST: Row =
    Row { printed: &[Some(1.34), Some(1.28), Some(1.28), None, None], ..BASIC };
const BASIC_LAST: Row = Row { printed: &[None, None, None, Some(1.28), Some(1.28)], ..BASIC };
const REFINED_FIRST: Row = Row { printed: &[None, None, Some(1.09), None, None], ..REFINED };
const REFINED_LAST: Row = Row { printed: &[None, None, None, Some(1.2), None], ..REFINED };
const HONG_KIM: Row =
    at_alpha(over("Hong and Kim: largest at alpha 32", &one(1, 2.1), Model::HongKim), 32);
const BAGHSORKHI: Row =
    at_alpha(over("Baghsorkhi et al.: largest at alpha 32", &one(0, 1.71), Model::Baghsorkhi), 32);
const BAGHSORKHI_UNDER: Row = at_alpha(
    under(
        "Baghsorkhi et al.: smallest at alpha 1 (1 / 7.6)",
        &one(0, 1.0 / 7.6),
        Model::Baghsorkhi,
    ),
    1,
);
/// Further numbers of section 7.9.
const BAGHSORKHI_32: Row = at_alpha(
    under("Baghsorkhi et al.: smallest at alpha 32", &one(0, 0.975), Model::Baghsorkhi),
    32,
);
const BAGHSORKHI_8: Row = at_alpha(
    under(
        "Baghsorkhi et al.: smallest at alpha 8 (1 / 2.7)",
        &one(0, 1.0 / 2.7),
        Model::Baghsorkhi,
    ),
    8,
);
const SIM_1: Row = at_alpha(over("Sim et al.: largest at alpha 1", &one(2, 1.25), Model::Sim), 1);
const ZHANG: Row =
    at_alpha(over("Zhang and Owens: largest at alpha 16", &one(1, 1.9), Model::ZhangOwens), 16);
/// "Within 6 % of the experimental data" (section 7.9).
const ZHANG_1: Row = at_alpha(
    over(
        "Zhang and Owens: largest at alpha 1 (there within 6 %)",
        &one(1, 1.06),
        Model::ZhangOwens,
    ),
    1,
);
const ZHANG_UNDER_1: Row = at_alpha(
    under(
        "Zhang and Owens: smallest at alpha 1 (there within 6 %)",
        &one(1, 0.94),
        Model::ZhangOwens,
    ),
    1,
);
/// Of Kepler and Fermi at 32, of Maxwell at 64 (figures 7.6 and 7.7).
const SIM: Row = at_alpha(
    over("Sim et al.: largest at alpha 32", &[None, None, Some(1.8), Some(2.0), None], Model::Sim),
    32,
);
const SIM_FERMI: Row = Row { printed: &[None, None, Some(1.8), None, None], ..SIM };
const SIM_64: Row = at_alpha(over("Sim et al.: largest at alpha 64", &one(4, 1.9), Model::Sim), 64);
const SIM_UNDER: Row = under("Sim et al.: smallest (1 / 2)", &one(2, 0.5), Model::Sim);
/// "Up to 1.9 or 2.0" of these GPUs, not said of which.
const ZHANG_32: Row = at_alpha(
    over("Zhang and Owens: largest at alpha 32 (there 1.9 or 2)", NONE, Model::ZhangOwens),
    32,
);
const ZHANG_64: Row = at_alpha(
    over("Zhang and Owens: largest at alpha 64 (there 1.9 or 2)", NONE, Model::ZhangOwens),
    64,
);
/// "Factors of about 2 on all five GPUs", each at its own mix (sections 4.8 and 4.11).
const OVERLAP: [Row; 3] = [
    at_alpha(
        over(
            "times that overlap: largest at alpha 16 (there about)",
            &[Some(2.0), Some(2.0), None, None, None],
            Model::Overlap,
        ),
        16,
    ),
    at_alpha(
        over(
            "times that overlap: largest at alpha 32 (there about)",
            &[None, None, Some(2.0), Some(2.0), None],
            Model::Overlap,
        ),
        32,
    ),
    at_alpha(
        over("times that overlap: largest at alpha 64 (there about)", &one(4, 2.0), Model::Overlap),
        64,
    ),
];
const ROUND_ROBIN: Row = over("Huang et al., round-robin: largest", NONE, Model::HuangRoundRobin);
const GREEDY: Row = over("Huang et al., greedy: largest", NONE, Model::HuangGreedy);

const INDEPENDENT: Row = over("clscope, warps independent: largest", NONE, Model::Independent);
const IN_STEP: Row = under("clscope, warps in step: smallest", NONE, Model::InStep);
const MEAN: Row = over("clscope, mean of both: largest", NONE, Model::Mean);
const MEAN_UNDER: Row = under("clscope, mean of both: smallest", NONE, Model::Mean);
const BUSY: Row = over("clscope, by utilisation: largest", NONE, Model::ByUtilisation);
const BUSY_UNDER: Row = under("clscope, by utilisation: smallest", NONE, Model::ByUtilisation);

const VOLKOV: [Model; 2] = [Model::Basic, Model::Refined];

/// All.
pub(in crate::reproduce) const ALL: &[Experiment] = &[
    at(
        "001/fig4.11",
        "4.11",
        "times of additions and accesses that overlap: throughput over occupancy (and figure 4.13: the basic model)",
        &[16, 32, 64],
        &[Model::Overlap, Model::Basic],
        &[
            OVERLAP[0],
            OVERLAP[1],
            OVERLAP[2],
            full(
                "basic model / measured at the most work-items, alpha 64",
                "",
                &one(4, 1.12),
                AtFull::Quotient(Model::Basic),
                64,
            ),
        ],
    ),
    at(
        "001/fig4.12",
        "4.12",
        "times of additions and accesses that add up: throughput over occupancy",
        &[16, 32, 64],
        &[Model::AddUp],
        &[
            at_alpha(under("times that add up: smallest at alpha 32", NONE, Model::AddUp), 32),
            at_alpha(over("times that add up: largest at alpha 32", NONE, Model::AddUp), 32),
        ],
    ),
    at("001/fig6.4", "6.5", "the refined model over occupancy", &[16, 64, 512], &VOLKOV, &[]),
    FIVE.experiment(
        "001/tab6.5",
        "6.4",
        "coefficients of the latency of memory under load",
        measured(PARTS, Draw::Numbers),
        &[A, B, C],
    ),
    at(
        "001/fig7.1",
        "7.1",
        "Hong and Kim at 32 additions for each access",
        &[32],
        &[Model::HongKim, Model::Basic],
        &[HONG_KIM, BASIC_32],
    ),
    at(
        "001/fig7.2",
        "7.2",
        "Baghsorkhi et al. without additions and at 11 for each access",
        &[0, 11],
        &[Model::Baghsorkhi, Model::Basic],
        &[full(
            "estimate / measured at the most work-items, accesses alone (there less than 1 / 8)",
            "",
            &one(0, 1.0 / 8.0),
            AtFull::Quotient(Model::Baghsorkhi),
            0,
        )],
    ),
    at(
        "001/fig7.3",
        "7.2",
        "Baghsorkhi et al. at 32 additions for each access",
        &[32],
        &[Model::Baghsorkhi, Model::Basic],
        &[BAGHSORKHI, BAGHSORKHI_32],
    ),
    at(
        "001/fig7.5",
        "7.3",
        "Zhang and Owens at 16 additions for each access, and times that add up",
        &[16],
        &[Model::ZhangOwens, Model::InStep, Model::Basic],
        &[ZHANG],
    ),
    at(
        "001/fig7.6",
        "7.3",
        "Zhang and Owens on newer devices, 32 and 64 additions",
        &[32, 64],
        &[Model::ZhangOwens, Model::Basic],
        &[ZHANG_32, ZHANG_64],
    ),
    at(
        "001/fig7.7",
        "7.4",
        "Sim et al. at 32 and 64 additions for each access",
        &[32, 64],
        &[Model::Sim, Model::Basic],
        &[SIM, SIM_64],
    ),
    at(
        "001/fig7.8",
        "7.5, 7.6",
        "Huang et al., both policies, of accesses alone and at 32 additions for each",
        &[0, 32],
        &[Model::HuangRoundRobin, Model::HuangGreedy, Model::Basic],
        &[
            full(
                "accesses alone, most work-items: estimate in turns",
                "GB/s",
                &one(2, 252.0),
                AtFull::Estimate(Model::HuangRoundRobin),
                0,
            ),
            full(
                "accesses alone, most work-items: measured",
                "GB/s",
                &one(2, 151.0),
                AtFull::Measured,
                0,
            ),
            full(
                "alpha 32, most work-items: estimate in turns",
                "adds/cycle/unit",
                &one(3, 115.0),
                AtFull::Estimate(Model::HuangRoundRobin),
                32,
            ),
            full(
                "alpha 32, most work-items: measured",
                "adds/cycle/unit",
                &one(3, 89.0),
                AtFull::Measured,
                32,
            ),
        ],
    ),
    at(
        "001/fig7.9",
        "7.5, 7.6",
        "Huang et al., both policies, of additions alone",
        &[ALONE],
        &[Model::HuangRoundRobin, Model::HuangGreedy, Model::Basic],
        &[
            full(
                "additions alone, most work-items: estimate in turns",
                "adds/cycle/unit",
                &one(4, 341.0),
                AtFull::Estimate(Model::HuangRoundRobin),
                ALONE,
            ),
            full(
                "additions alone, most work-items: greedy estimate / measured",
                "",
                NONE,
                AtFull::Quotient(Model::HuangGreedy),
                ALONE,
            ),
            full(
                "additions alone, most work-items: measured (there at most)",
                "adds/cycle/unit",
                &one(4, 128.0),
                AtFull::Measured,
                ALONE,
            ),
        ],
    ),
    FIVE.experiment(
        "001/fig7.11",
        "7.9",
        "quotients of estimate and measurement over additions for each access: models before, and Volkov's",
        measured(
            PARTS,
            Draw::Ratios(&[
                Model::Baghsorkhi,
                Model::ZhangOwens,
                Model::Sim,
                Model::Basic,
                Model::Refined,
            ]),
        ),
        &[
            BAGHSORKHI,
            BAGHSORKHI_32,
            BAGHSORKHI_8,
            BAGHSORKHI_UNDER,
            ZHANG,
            ZHANG_1,
            ZHANG_UNDER_1,
            SIM_FERMI,
            SIM_1,
            SIM_UNDER,
            BASIC_FIRST,
            REFINED_FIRST,
        ],
    ),
    FIVE.experiment(
        "001/fig7.12",
        "7.9",
        "quotients of estimate and measurement over additions for each access: Volkov's models",
        measured(PARTS, Draw::Ratios(&VOLKOV)),
        &[BASIC_LAST, REFINED_LAST],
    ),
    FIVE.experiment(
        "001/fig7.13",
        "7.9",
        "quotients of estimate and measurement over additions for each access: Huang et al.",
        measured(PARTS, Draw::Ratios(&[Model::HuangRoundRobin, Model::HuangGreedy, Model::Basic])),
        &[ROUND_ROBIN, GREEDY, BASIC],
    ),
    Experiment {
        name: "001/ch7",
        section: "7.9",
        shows: "every model against the grid of additions for each access x occupancy",
        how: measured(PARTS, Draw::Ratios(&Model::ALL)),
        devices: FIVE.0,
        rows: &[
            PARAMETERS[0],
            PARAMETERS[1],
            PARAMETERS[2],
            PARAMETERS[3],
            PARAMETERS[4],
            A,
            B,
            C,
            BASIC,
            REFINED,
            HONG_KIM,
            BAGHSORKHI,
            BAGHSORKHI_UNDER,
            ZHANG,
            SIM,
            SIM_64,
            SIM_UNDER,
            ROUND_ROBIN,
            GREEDY,
            INDEPENDENT,
            IN_STEP,
            MEAN,
            MEAN_UNDER,
            BUSY,
            BUSY_UNDER,
        ],
    },
    FIVE.experiment(
        "001/fig7.14",
        "7.10",
        "occupancy that models before need over additions for each access, without a cusp",
        measured(PARTS, Draw::Needed(&[Model::Baghsorkhi, Model::ZhangOwens, Model::Sim])),
        &[],
    ),
];
