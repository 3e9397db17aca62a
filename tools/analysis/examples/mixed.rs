//! How long the mixed model takes: readings of 200 kernels in 10,000 windows, and 4 captures of each
//! in 2 windows, simulated from the model itself. Prints the time, and how often intervals hold.
//!
//!     cargo run --release -p clscope-analysis --example mixed -- [KERNELS] [WINDOWS]

use clscope_analysis::energy::mixed::{Effect, Errors, Fit, Model, Reading, WORKERS};
use clscope_testing::Random;
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let kernels = arguments.next().transpose()?.unwrap_or(200);
    let windows = arguments.next().transpose()?.unwrap_or(10_000);
    let mut r = Random::new(1);
    let energies: Vec<f64> = (0..kernels).map(|_| 1e-3 * (3.0 * r.uniform()).exp()).collect();
    let mut readings = Vec::with_capacity(windows + 8 * kernels);
    let mut read = |launches: Vec<(usize, f64)>,
                    joules: f64,
                    capture: Option<usize>,
                    follows: bool,
                    r: &mut Random| {
        readings.push(Reading {
            energy: 2.5 + joules + 0.05 * r.normal(),
            idle: vec![(0, 0.02)],
            launches,
            unsure: Vec::new(),
            capture,
            variance: if capture.is_some() { 0.05 * 0.05 } else { 1.0 },
            follows,
        });
    };
    for i in 0..windows {
        let each = 400.0 / kernels as f64;
        let launches: Vec<(usize, f64)> = match i % 10 {
            0 => Vec::new(),
            _ => (0..kernels).map(|k| (k, each * (1.0 + 0.3 * r.normal()).max(0.0))).collect(),
        };
        let joules = launches.iter().map(|(k, n)| n * energies[*k]).sum();
        read(launches, joules, None, i > 0, &mut r);
    }
    for (k, energy) in energies.iter().enumerate() {
        let alone = 0.02 * r.normal();
        for capture in 0..4 {
            let own = energy * (1.0 + alone + 0.02 * r.normal());
            for _ in 0..2 {
                read(vec![(k, 1_000.0)], 1_000.0 * own, Some(4 * k + capture), false, &mut r);
            }
        }
    }
    let began = Instant::now();
    let active = readings.iter().map(|r| f64::from(u8::from(!r.launches.is_empty()))).collect();
    let effects = [Effect {
        belief: (0.0, 0.016),
        idle: active,
        launches: vec![0.0; readings.len()],
        known: Vec::new(),
    }];
    let errors = Errors::Polled { averaged: 1 };
    let model = Model {
        kernels,
        levels: &[None],
        effects: &effects,
        bent: None,
        errors,
        spread: 1.0,
        workers: WORKERS,
    };
    let fit = Fit::new(&readings, &model).ok_or("not determined")?;
    let took = began.elapsed();
    let held = energies
        .iter()
        .enumerate()
        .filter(|(k, e)| fit.contrast(&[(fit.kernel(*k), 1.0)], true).covers(**e));
    println!(
        "{kernels} kernels, {} readings: {took:.2?}; {} of {kernels} inside their intervals",
        readings.len(),
        held.count()
    );
    Ok(())
}
