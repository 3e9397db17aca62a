//! Models of latency hiding before Volkov's, as his chapter 7 reads them (Volkov 2016,
//! Understanding Latency Hiding on GPUs, sections 4.8 and 7.1 to 7.7): for his workload of one
//! memory access for each `alpha` dependent additions. Owns their equations, and the ratios of
//! estimates and measurements, beside which clscope's own stand (module `stations`); refuses to
//! measure.
//!
//! Throughputs are turns of the workload (an access and its additions) per cycle and compute unit,
//! latencies cycles, n warps of a compute unit.

use crate::latency::{Contention, Workload};
use crate::stations::Stations;

/// A device as these models see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// Latencies and throughputs.
    pub workload: Workload,
    /// Growth of the latency with load, where it is known.
    pub contention: Option<Contention>,
    /// Accesses per cycle at the bandwidth of the memory's pins, or the best that is known of it.
    pub pins: f64,
    /// Schedulers of a compute unit, each of which issues one instruction a cycle at most.
    pub schedulers: f64,
    /// What accesses and additions reach alone at each occupancy, where it was measured.
    pub stations: Option<Stations>,
}

/// A model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// Volkov 2016, section 4.1.
    Basic,
    /// Volkov 2016, section 6.5: with contention.
    Refined,
    /// Hong and Kim 2009.
    HongKim,
    /// Baghsorkhi et al. 2010.
    Baghsorkhi,
    /// Times of additions and of accesses that overlap (Volkov 2016, section 4.11).
    Overlap,
    /// Times of additions and of accesses that add up (Volkov 2016, section 4.12).
    AddUp,
    /// Zhang and Owens 2011: times that overlap, by what each kind was measured to reach alone.
    ZhangOwens,
    /// Sim et al. 2012.
    Sim,
    /// Huang et al. 2014, warps taken in turns.
    HuangRoundRobin,
    /// Huang et al. 2014, greedy, then the oldest warp.
    HuangGreedy,
    /// clscope's, warps independent of each other.
    Independent,
    /// clscope's, warps in step.
    InStep,
    /// clscope's, the mean of both times.
    Mean,
    /// clscope's, in step as far as additions are busy.
    ByUtilisation,
}

impl Model {
    /// All, in the order of the document, then clscope's own.
    pub const ALL: [Model; 14] = [
        Model::Basic,
        Model::Refined,
        Model::Overlap,
        Model::AddUp,
        Model::HongKim,
        Model::Baghsorkhi,
        Model::ZhangOwens,
        Model::Sim,
        Model::HuangRoundRobin,
        Model::HuangGreedy,
        Model::Independent,
        Model::InStep,
        Model::Mean,
        Model::ByUtilisation,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Basic => "Volkov 2016, basic",
            Model::Refined => "Volkov 2016, with contention",
            Model::HongKim => "Hong and Kim 2009",
            Model::Baghsorkhi => "Baghsorkhi et al. 2010",
            Model::Overlap => "times that overlap",
            Model::AddUp => "times that add up",
            Model::ZhangOwens => "Zhang and Owens 2011",
            Model::Sim => "Sim et al. 2012",
            Model::HuangRoundRobin => "Huang et al. 2014, round-robin",
            Model::HuangGreedy => "Huang et al. 2014, greedy",
            Model::Independent => "clscope, warps independent",
            Model::InStep => "clscope, warps in step",
            Model::Mean => "clscope, mean of both",
            Model::ByUtilisation => "clscope, by utilisation",
        }
    }

    /// Turns per cycle with `n` warps; `None` where an input is missing.
    pub fn throughput(self, of: &Inputs, n: f64, alpha: f64) -> Option<f64> {
        let w = &of.workload;
        Some(match self {
            Model::Basic => w.throughput(n, alpha),
            Model::Refined => w.contended(n, alpha, of.contention?),
            Model::HongKim => hong_kim(of, n, alpha),
            Model::Baghsorkhi => baghsorkhi(w, n, alpha),
            Model::Overlap => overlap(alpha, alone(w, n)),
            Model::AddUp => {
                let (additions, accesses) = alone(w, n);
                1.0 / (1.0 / accesses + alpha / additions)
            }
            Model::ZhangOwens => {
                let measured = of.stations.as_ref()?;
                overlap(alpha, (measured.additions.at(n), measured.memory.at(n)))
            }
            Model::Sim => sim(w, n, alpha),
            Model::HuangRoundRobin => huang(of, n, alpha, false),
            Model::HuangGreedy => huang(of, n, alpha, true),
            Model::Independent => of.stations.as_ref()?.independent(n, alpha)?,
            Model::InStep => of.stations.as_ref()?.in_step(n, alpha),
            Model::Mean => of.stations.as_ref()?.mean(n, alpha)?,
            Model::ByUtilisation => of.stations.as_ref()?.by_utilisation(n, alpha)?,
        })
    }
}

/// Warps that hide the latency by the CUDA C programming guide (section 5.2.3): memory latency x
/// peak instruction throughput / alpha.
pub fn guide(of: &Workload, alpha: f64) -> f64 {
    of.memory_latency * of.add_throughput / alpha
}

/// The same with the additions' own latency, which the guide leaves out (Volkov 2016, section 4.8).
pub fn guide_corrected(of: &Workload, alpha: f64) -> f64 {
    guide(of, alpha) + of.add_latency * of.add_throughput
}

/// Warps that may access memory at once, and warps that fill the time of an access (Hong and Kim
/// 2009, equations 6 to 8), before they are held to n.
pub fn parallelism(of: &Inputs, alpha: f64) -> (f64, f64) {
    let w = &of.workload;
    let cycles = 1.0 / w.add_throughput;
    (of.pins * w.memory_latency, w.memory_latency / (cycles * (alpha + 1.0)) + 1.0)
}

/// Hong and Kim 2009 by section 7.1, equations 22 and 24. Of the mode that memory bounds the
/// document prints no equation for this workload: there the warps that access at once keep memory
/// busy.
fn hong_kim(of: &Inputs, n: f64, alpha: f64) -> f64 {
    let w = &of.workload;
    let (memory, compute) = parallelism(of, alpha);
    let (memory, compute) = (memory.min(n), compute.min(n));
    let cycles = (alpha + 1.0) / w.add_throughput;
    if memory >= n && compute >= n {
        n / (w.memory_latency + cycles)
    } else if compute <= memory {
        1.0 / cycles
    } else {
        memory / w.memory_latency
    }
}

/// Baghsorkhi et al. 2010 by section 7.2: the time of all warps is the sum of theirs.
fn baghsorkhi(of: &Workload, n: f64, alpha: f64) -> f64 {
    let issue = 1.0 / of.add_throughput;
    let compute = alpha * issue.max(of.add_latency / n);
    let x = compute + issue;
    let bandwidth = issue + (1.0 / of.memory_throughput - x).max(0.0);
    let exposed = of.memory_latency - (n - 1.0) * x;
    1.0 / (compute + bandwidth.max(exposed))
}

/// What additions and accesses reach alone with `n` warps, by the basic model (section 4.2).
fn alone(of: &Workload, n: f64) -> (f64, f64) {
    let additions = (n / of.add_latency).min(of.add_throughput);
    (additions, (n / of.memory_latency).min(of.memory_throughput))
}

/// Zhang and Owens 2011 by section 7.3: the longer of the times of additions and of accesses, by
/// the throughputs that each has alone at this occupancy.
fn overlap(alpha: f64, (additions, accesses): (f64, f64)) -> f64 {
    if alpha > 0.0 { (additions / alpha).min(accesses) } else { accesses }
}

/// Sim et al. 2012 by section 7.4, without the departure delay, which says nothing beyond the best
/// throughput that is used here.
fn sim(of: &Workload, n: f64, alpha: f64) -> f64 {
    let addition = (of.add_latency / n).max(1.0 / of.add_throughput);
    let compute = (alpha + 1.0) * n * addition;
    let cwp = n.min(1.0 + of.memory_latency / ((alpha + 1.0) * addition));
    let mwp = n.min(of.memory_throughput * of.memory_latency);
    let memory = n * of.memory_latency / mwp.min((cwp - 1.0).max(1.0));
    let time = if cwp > mwp { compute.max(memory) } else { compute.max(memory + compute / n) };
    n / time
}

/// Huang et al. 2014 by sections 7.5 and 7.6, for each scheduler with its share of the warps.
fn huang(of: &Inputs, n: f64, alpha: f64, greedy: bool) -> f64 {
    let w = &of.workload;
    let n = n / of.schedulers;
    of.schedulers * n / huang_cycles(n, alpha, w.memory_latency, w.add_latency, greedy)
}

/// Cycles of a turn of all `n` warps of a scheduler (equations 7, 15 and 16 as the document
/// corrects them).
fn huang_cycles(n: f64, alpha: f64, memory_latency: f64, add_latency: f64, greedy: bool) -> f64 {
    let alone = memory_latency + alpha * add_latency;
    let p = (1.0 + alpha) / alone;
    let more = |latency: f64| {
        let stall = latency - 1.0;
        ((p * stall).min(1.0) * (n - 1.0) - stall).max(0.0)
    };
    let behind = if greedy { more(memory_latency) + alpha * more(add_latency) } else { 0.0 };
    alone + behind
}

/// What Huang et al. 2014 take with the term for bandwidth (section 7.7).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Huang {
    /// Warps of a scheduler.
    pub n: f64,
    /// Additions for each access.
    pub alpha: f64,
    /// Latency of an access, cycles.
    pub memory_latency: f64,
    /// Latency of an addition, cycles.
    pub add_latency: f64,
    /// Compute units of the device.
    pub cores: f64,
    /// Cycles that memory takes to serve a transaction.
    pub service: f64,
    /// Transactions of an access: 1 where accesses are coalesced.
    pub transactions: f64,
}

impl Huang {
    /// Utilisation of memory, and the delay of an access by its queue, cycles.
    pub fn bandwidth(&self) -> (f64, f64) {
        huang_bandwidth(self.n * self.transactions, self.cores, self.memory_latency, self.service)
    }

    /// Cycles of an instruction (equations 3 and 17); negative where the delay is.
    pub fn cycles(&self, greedy: bool) -> f64 {
        let turn = huang_cycles(self.n, self.alpha, self.memory_latency, self.add_latency, greedy);
        (turn / self.n + self.bandwidth().1) / (1.0 + self.alpha)
    }

    /// Additions a cycle and unit, of warps of 32.
    pub fn additions(&self, greedy: bool) -> f64 {
        32.0 * self.alpha / (1.0 + self.alpha) / self.cycles(greedy)
    }
}

/// Utilisation of memory, and the delay of an access in cycles, by the queue of Huang et al. 2014
/// (section 7.7, equations 21 to 23): `service` cycles for a request, so many `cores`. It is
/// negative where the utilisation is beyond 1, which the model does not exclude.
pub fn huang_bandwidth(n: f64, cores: f64, memory_latency: f64, service: f64) -> (f64, f64) {
    let arrivals = n * cores / memory_latency;
    let used = arrivals * service;
    let queue = arrivals * service * service / (2.0 * (1.0 - used));
    (used, queue.min(service * n * cores / 2.0))
}

/// A measured point: warps of a unit, additions for each access, turns per cycle and unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Warps.
    pub n: f64,
    /// Additions.
    pub alpha: f64,
    /// Throughput.
    pub measured: f64,
}

/// How far a model is from what was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worst {
    /// Which.
    pub model: Model,
    /// The largest ratio of estimate to measurement.
    pub over: f64,
    /// Where that is.
    pub over_at: Point,
    /// The smallest ratio.
    pub under: f64,
    /// Where that is.
    pub under_at: Point,
}

/// The worst ratios of each model over a grid (figures 7.11 to 7.13); models whose inputs are not
/// known are left out.
pub fn worst(of: &Inputs, grid: &[Point]) -> Vec<Worst> {
    let of_model = |model: Model| {
        let ratios = grid.iter().filter_map(|p| {
            let ratio = model.throughput(of, p.n, p.alpha)? / p.measured;
            ratio.is_finite().then_some((ratio, *p))
        });
        let ratios: Vec<(f64, Point)> = ratios.collect();
        let over = ratios.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let under = ratios.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Worst { model, over: over.0, over_at: over.1, under: under.0, under_at: under.1 })
    };
    Model::ALL.into_iter().filter_map(of_model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{FERMI, G80, GT200, KEPLER, MAXWELL, near};
    use crate::stations::Curve;
    use proptest::prelude::*;

    fn inputs(workload: Workload, schedulers: f64) -> Inputs {
        Inputs {
            workload,
            contention: None,
            pins: workload.memory_throughput,
            schedulers,
            stations: None,
        }
    }

    /// The same with curves of a device that does what the basic model says.
    fn measured(workload: Workload) -> Inputs {
        let curve = |of: fn((f64, f64)) -> f64| {
            let point = |n: u32| (f64::from(n), of(alone(&workload, f64::from(n))));
            Curve::of((1..=64).map(point)).unwrap()
        };
        let stations = Stations { memory: curve(|both| both.1), additions: curve(|both| both.0) };
        Inputs { stations: Some(stations), ..inputs(workload, 1.0) }
    }

    /// Table 4.3, and the estimates with the term that it lacks (74 warps on Kepler).
    #[test]
    fn the_guide_of_table_4_3() {
        for (gpu, alpha, estimate, corrected) in [
            (G80, 16.0, 6.9, 11.9),
            (GT200, 16.0, 6.8, 12.8),
            (FERMI, 32.0, 16.0, 34.0),
            (KEPLER, 32.0, 38.0, 73.6),
            (MAXWELL, 64.0, 23.0, 47.0),
        ] {
            let within = if estimate > 30.0 { 0.5 } else { 0.051 };
            assert!(near(guide(&gpu, alpha), estimate, within), "{}", guide(&gpu, alpha));
            assert!(near(guide_corrected(&gpu, alpha), corrected, 0.051));
        }
    }

    /// Section 7.1: GT200 with 141.7 GB/s at its pins, 1.296 GHz, 30 units, 128 bytes a warp.
    #[test]
    fn hong_and_kim_of_section_7_1() {
        let of = Inputs { pins: 141.7 / (1.296 * 30.0 * 128.0), ..inputs(GT200, 1.0) };
        let (memory, compute) = parallelism(&of, 32.0);
        assert!(near(memory, 12.4, 0.05) && near(compute, 4.3, 0.05), "{memory} {compute}");
        let few = Model::HongKim.throughput(&of, 4.0, 32.0).unwrap();
        assert!(near(4.0 / few, 566.0, 1e-9), "434 + 4 x 33 cycles");
        // Up to a factor of 2.1 over; exact where the adders are busy.
        assert!(near(few / GT200.throughput(4.0, 32.0), 2.12, 0.005));
        let many = Model::HongKim.throughput(&of, 12.0, 32.0).unwrap();
        assert!(near(12.0 / many / 12.0, 4.0 * 33.0, 1e-9));
    }

    /// Section 7.2: the reduced form, and the eight-fold underestimate of memory alone.
    #[test]
    fn baghsorkhi_of_section_7_2() {
        let of = inputs(Workload { memory_throughput: 1.0 / 37.0, ..G80 }, 1.0);
        for n in 1..=24 {
            for alpha in [0.0, 1.0, 11.0, 32.0] {
                let n = f64::from(n);
                let x = alpha * f64::max(4.0, 20.0 / n) + 4.0;
                let want = 1.0 / f64::max(37.0, x).max(440.0 - (n - 2.0) * x);
                let got = Model::Baghsorkhi.throughput(&of, n, alpha).unwrap();
                assert!(near(got / want, 1.0, 1e-12), "{n} {alpha}");
            }
        }
        let alone = Model::Baghsorkhi.throughput(&of, 24.0, 0.0).unwrap();
        assert!(near(alone, 1.0 / (448.0 - 96.0), 1e-12));
        assert!(of.workload.throughput(24.0, 0.0) / alone > 8.0);
    }

    /// Sections 4.11 and 4.12: times that overlap are over by about 2 at small occupancies of all
    /// five GPUs, and right at large ones; times that add up are the other way round.
    #[test]
    fn times_that_overlap_or_add_up_are_right_at_one_end() {
        for (gpu, alpha, most) in [
            (G80, 16.0, 24),
            (GT200, 16.0, 32),
            (FERMI, 32.0, 48),
            (KEPLER, 32.0, 64),
            (MAXWELL, 64.0, 64),
        ] {
            let of = inputs(gpu, 1.0);
            let ratio = |model: Model, n: i32| {
                let n = f64::from(n);
                model.throughput(&of, n, alpha).unwrap() / gpu.throughput(n, alpha)
            };
            let worst = (1..=most).map(|n| ratio(Model::Overlap, n)).fold(0.0, f64::max);
            assert!((1.5..2.0 + 1e-9).contains(&worst), "{worst}");
            assert!(near(ratio(Model::AddUp, 1), 1.0, 1e-9));
            assert!(ratio(Model::AddUp, most) < 0.7, "{}", ratio(Model::AddUp, most));
        }
    }

    /// Section 7.3: over by up to 1.9 where latency bounds (GT200, alpha 16), and right at large
    /// occupancies, by curves that are measured: nothing without them.
    #[test]
    fn zhang_and_owens_of_section_7_3() {
        assert_eq!(Model::ZhangOwens.throughput(&inputs(GT200, 1.0), 8.0, 16.0), None);
        let of = measured(GT200);
        let ratio = |n: f64| {
            Model::ZhangOwens.throughput(&of, n, 16.0).unwrap() / GT200.throughput(n, 16.0)
        };
        let worst = (1..=32).map(|n| ratio(f64::from(n))).fold(0.0, f64::max);
        assert!((1.8..2.0).contains(&worst) && near(ratio(32.0), 1.0, 1e-12), "{worst}");
        let alone = Model::ZhangOwens.throughput(&of, 32.0, 0.0);
        assert!(near(alone.unwrap(), GT200.memory_throughput, 1e-12));
    }

    /// Section 7.4 and table 7.1: twice as long at two warps and one addition; 1.74 times ours at
    /// 18 warps and 32.
    #[test]
    fn sim_of_section_7_4() {
        for (gpu, warps) in [(FERMI, 30.7), (KEPLER, 40.3), (MAXWELL, 29.9)] {
            assert!(near(gpu.memory_throughput * gpu.memory_latency, warps, 0.06));
        }
        let of = inputs(FERMI, 1.0);
        let time = 2.0 / Model::Sim.throughput(&of, 2.0, 1.0).unwrap();
        assert!(near(time, 1044.0, 1e-9) && near(FERMI.latency(1.0), 531.0, 1e-9), "{time}");
        let ratio = Model::Sim.throughput(&of, 18.0, 32.0).unwrap() / FERMI.throughput(18.0, 32.0);
        assert!(near(ratio, 1.74, 0.005), "{ratio}");
    }

    /// Sections 7.5 and 7.6: no limit of throughput in turns, and 20 % beyond the peak when greedy.
    #[test]
    fn huang_of_sections_7_5_and_7_6() {
        let round = |gpu, schedulers, n, alpha| {
            Model::HuangRoundRobin.throughput(&inputs(gpu, schedulers), n, alpha).unwrap()
        };
        assert!(near(round(FERMI, 1.0, 48.0, 0.0), 48.0 / 513.0, 1e-12));
        // Maxwell, additions alone: 341 a cycle, of 128 lanes.
        let many = 1e9;
        assert!(near(32.0 * many * round(MAXWELL, 4.0, 64.0, many), 341.0, 0.5));
        // Kepler, alpha 32: section 7.5 prints 115 additions a cycle; table 4.2, the same formula,
        // gives 111.3.
        assert!(near(32.0 * 32.0 * round(KEPLER, 4.0, 64.0, 32.0), 111.3, 0.05));
        let greedy = |n| {
            let of = inputs(MAXWELL, 4.0);
            many * Model::HuangGreedy.throughput(&of, n, many).unwrap() / 4.0
        };
        assert!(near(greedy(64.0), 16.0 / f64::max(6.0, 15.0 * (1.0 - 1.0 / 6.0) + 1.0), 1e-3));
        assert!(greedy(4000.0) > 1.19 && greedy(4000.0) < 1.2 + 1e-3);
    }

    /// Section 7.7: the synthetic GPU, whose memory is used to more than all.
    #[test]
    fn huang_of_section_7_7() {
        let at = |n| huang_bandwidth(n, 16.0, 300.0, 2.0 / 3.0);
        assert!(near(at(32.0).0, 1.14, 0.005));
        let (used, delay) = at(29.0);
        assert!(near(used, 1.031, 5e-4) && near(delay, -11.05, 0.005), "{used} {delay}");
        assert!(near(300.0 / 29.0 + delay, -0.703, 5e-4), "a negative time");
        // The singularity is at 28.125 warps.
        assert!(at(28.12).1 > 0.0 && at(28.13).1 < 0.0);
    }

    /// Section 7.7: negative cycles on the synthetic processor, negative additions on Fermi; and
    /// 7.8: accesses of two transactions.
    #[test]
    fn huang_with_bandwidth_is_negative_where_the_document_says() {
        let synthetic = Huang {
            n: 29.0,
            alpha: 0.0,
            memory_latency: 300.0,
            add_latency: 25.0,
            cores: 16.0,
            service: 2.0 / 3.0,
            transactions: 1.0,
        };
        let fermi = Huang {
            n: 34.0,
            alpha: 32.0,
            memory_latency: 513.0,
            add_latency: 18.0,
            cores: 15.0,
            service: 1.4 * 128.0 / 177.4,
            transactions: 1.0,
        };
        let two = Huang { n: 17.0, alpha: 0.0, transactions: 2.0, ..fermi };
        for greedy in [false, true] {
            assert!(near(synthetic.cycles(greedy), -0.7, 0.05), "{}", synthetic.cycles(greedy));
            assert!(near(fermi.additions(greedy), -12.0, 0.5), "{}", fermi.additions(greedy));
            assert!(near(two.cycles(greedy), -89.0, 2.0), "{}", two.cycles(greedy));
        }
        assert!(near(two.bandwidth().1, -120.0, 2.0), "{}", two.bandwidth().1);
    }

    /// Section 7.9: every earlier model is over by more than 1.7 somewhere, ours on its own data
    /// nowhere.
    #[test]
    fn worst_ratios_are_found_with_their_place() {
        let of = measured(FERMI);
        let mut grid = Vec::new();
        for n in 1..=48 {
            for alpha in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0] {
                let n = f64::from(n);
                grid.push(Point { n, alpha, measured: FERMI.throughput(n, alpha) });
            }
        }
        let all = worst(&of, &grid);
        assert!(all.iter().all(|w| w.model != Model::Refined), "its contention is not known");
        let find = |model| all.iter().find(|w| w.model == model).unwrap();
        let own = find(Model::Basic);
        assert!(near(own.over, 1.0, 1e-12) && near(own.under, 1.0, 1e-12));
        for model in [Model::Sim, Model::ZhangOwens, Model::HongKim] {
            assert!(find(model).over > 1.7, "{:?}", find(model));
        }
        let sim = find(Model::Sim);
        assert!(near(sim.under, 531.0 / 1044.0, 1e-3) && sim.under_at.n == 2.0, "{sim:?}");
    }

    proptest! {
        #[test]
        fn estimates_are_positive(n in 1.0f64..64.0, alpha in 0.0f64..1000.0) {
            for (gpu, schedulers) in [(G80, 1.0), (FERMI, 1.0), (KEPLER, 4.0), (MAXWELL, 4.0)] {
                for model in Model::ALL {
                    if let Some(x) = model.throughput(&inputs(gpu, schedulers), n, alpha) {
                        prop_assert!(x > 0.0 && x.is_finite(), "{model:?} {n} {alpha}: {x}");
                    }
                }
            }
        }
    }
}
