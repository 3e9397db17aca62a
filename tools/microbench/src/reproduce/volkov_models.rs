//! Models of latency hiding against the grid of additions for each access x occupancy (Volkov 2016,
//! sections 4.8 to 4.13, 6.4, 6.5 and chapter 7).
#![forbid(unsafe_code)]

use super::volkov::{FIVE, PARTS, all, limit};
use super::{Draw, Experiment, Input, Ours, Row, measured, row};
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

/// Estimates over occupancy at one number of additions; the measured grid has the nearest.
const fn at(
    name: &'static str,
    section: &'static str,
    shows: &'static str,
    alpha: usize,
    models: &'static [Model],
    rows: &'static [Row],
) -> Experiment {
    FIVE.experiment(name, section, shows, measured(PARTS, Draw::Estimates(alpha, models)), rows)
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
const REFINED: Row = over(
    "Volkov, with contention: largest",
    &[None, None, Some(1.09), Some(1.2), None],
    Model::Refined,
);
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
const SIM: Row = at_alpha(
    over(
        "Sim et al.: largest at alpha 32 (there the last at 64)",
        &[None, None, Some(1.8), Some(2.0), Some(1.9)],
        Model::Sim,
    ),
    32,
);
const SIM_UNDER: Row = under("Sim et al.: smallest (1 / 2)", &one(2, 0.5), Model::Sim);
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
pub(super) const ALL: &[Experiment] = &[
    at(
        "001/fig4.11",
        "4.11",
        "times of additions and accesses that overlap: throughput over occupancy (and figure 4.13: the basic model)",
        32,
        &[Model::ZhangOwens, Model::Basic],
        &[],
    ),
    at("001/fig6.4", "6.5", "the refined model over occupancy", 64, &VOLKOV, &[]),
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
        32,
        &[Model::HongKim, Model::Basic],
        &[HONG_KIM],
    ),
    at(
        "001/fig7.2",
        "7.2",
        "Baghsorkhi et al. at few additions for each access",
        1,
        &[Model::Baghsorkhi, Model::Basic],
        &[BAGHSORKHI_UNDER],
    ),
    at(
        "001/fig7.3",
        "7.2",
        "Baghsorkhi et al. at 32 additions for each access",
        32,
        &[Model::Baghsorkhi, Model::Basic],
        &[BAGHSORKHI],
    ),
    at(
        "001/fig7.5",
        "7.3",
        "Zhang and Owens at 16 additions for each access",
        16,
        &[Model::ZhangOwens, Model::Basic],
        &[ZHANG],
    ),
    at(
        "001/fig7.6",
        "7.3",
        "Zhang and Owens on newer devices, 64 additions",
        64,
        &[Model::ZhangOwens, Model::Basic],
        &[at_alpha(
            over(
                "Zhang and Owens: largest at alpha 64 (there up to 1.9 or 2, not said of which device)",
                NONE,
                Model::ZhangOwens,
            ),
            64,
        )],
    ),
    at(
        "001/fig7.7",
        "7.4",
        "Sim et al. at 32 additions for each access",
        32,
        &[Model::Sim, Model::Basic],
        &[SIM],
    ),
    at(
        "001/fig7.8",
        "7.5",
        "Huang et al., both policies, at 32 additions for each access",
        32,
        &[Model::HuangRoundRobin, Model::HuangGreedy, Model::Basic],
        &[ROUND_ROBIN, GREEDY],
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
            SIM,
            SIM_1,
            SIM_UNDER,
            BASIC,
            REFINED,
        ],
    ),
    FIVE.experiment(
        "001/fig7.12",
        "7.9",
        "quotients of estimate and measurement over additions for each access: Volkov's models",
        measured(PARTS, Draw::Ratios(&VOLKOV)),
        &[BASIC, REFINED],
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
