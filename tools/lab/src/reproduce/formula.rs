//! Models of the documents that take a user's parameters: their names, the document's values, and
//! what they give. Owns these; the models are `clscope_models`.

use clscope_models::{prior, waves};

/// A model that takes a user's parameters (`--with`).
#[derive(Debug)]
pub struct Formula {
    /// Name, the document's value, and what it is.
    pub parameters: &'static [(&'static str, f64, &'static str)],
    /// What it gives: name and unit.
    outputs: &'static [(&'static str, &'static str)],
    /// The numbers, in that order.
    values: fn(&[f64]) -> Vec<f64>,
}

impl PartialEq for Formula {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Formula {
    /// The document's parameters but for these.
    ///
    /// # Errors
    /// Where one has no such name, or is no number of its kind.
    pub fn with<'a>(
        &self,
        given: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> Result<Vec<f64>, String> {
        let mut all: Vec<f64> = self.parameters.iter().map(|p| p.1).collect();
        for (name, value) in given {
            let Some(at) = self.parameters.iter().position(|p| p.0 == name) else {
                let all = self.parameters.iter().map(|(name, _, what)| format!("{name} ({what})"));
                let all: Vec<String> = all.collect();
                return Err(format!("there is no parameter {name}: there are {}", all.join(", ")));
            };
            // alpha may be 0: no additions.
            if !(value.is_finite() && (value > 0.0 || value == 0.0 && name == "alpha")) {
                return Err(format!(
                    "{name}={value}: {} is a positive number",
                    self.parameters[at].2
                ));
            }
            all[at] = value;
        }
        Ok(all)
    }

    /// Name, unit and number of each output.
    pub(super) fn outputs(
        &self,
        of: &[f64],
    ) -> impl Iterator<Item = (&'static str, &'static str, f64)> {
        self.outputs.iter().zip((self.values)(of)).map(|((name, unit), x)| (*name, *unit, x))
    }
}

/// The Mali's time of a launch.
pub(super) static MALI: Formula = Formula {
    parameters: &[
        ("wl", 512.0, "work-items"),
        ("gs", 2.0, "work-items of a group"),
        ("I", 5e6, "instruction words of a work-item"),
        ("F", 600e6, "clock, Hz"),
        ("pd", 38.0, "depth of the pipeline"),
        ("cores", 4.0, "cores"),
    ],
    outputs: &[
        ("time", "s"),
        ("batches", ""),
        ("work-items of a full batch", ""),
        ("time by the formula as printed", "s"),
    ],
    values: |of| {
        let [items, local, words, hertz, depth, cores] = *of else { return Vec::new() };
        let whole = |x: f64| x.round().max(1.0) as u64;
        let (items, local, cores) = (whole(items), whole(local), whole(cores));
        let of = waves::Mali { items, local, words, hertz, depth, cores };
        vec![of.seconds(), of.batches() as f64, of.batch() as f64, of.seconds_as_printed()]
    },
};

/// Huang et al. 2014 with the term for bandwidth, first of their synthetic processor.
pub(super) static HUANG: Formula = Formula {
    parameters: &[
        ("n", 29.0, "warps of a scheduler"),
        ("alpha", 16.0, "additions for each access"),
        ("memory", 300.0, "latency of an access, cycles"),
        ("add", 25.0, "latency of an addition, cycles"),
        ("cores", 16.0, "compute units"),
        // Printed as 0.667; the document's numbers follow from two thirds.
        ("service", 2.0 / 3.0, "cycles that memory takes for a transaction"),
        ("transactions", 1.0, "transactions of an access"),
    ],
    outputs: &[
        ("additions, round-robin", "adds/cycle/unit"),
        ("additions, greedy then oldest", "adds/cycle/unit"),
        ("cycles of an instruction, round-robin", "cycles"),
        ("cycles of an instruction, greedy then oldest", "cycles"),
        ("utilisation of memory", ""),
        ("delay by bandwidth", "cycles"),
        ("no delay is defined at", "warps"),
    ],
    values: |of| {
        let [n, alpha, memory_latency, add_latency, cores, service, transactions] = *of else {
            return Vec::new();
        };
        let of =
            prior::Huang { n, alpha, memory_latency, add_latency, cores, service, transactions };
        let (used, delay) = of.bandwidth();
        let both = [of.additions(false), of.additions(true), of.cycles(false), of.cycles(true)];
        both.into_iter().chain([used, delay, n / used]).collect()
    },
};

/// The model behind an experiment that takes parameters.
pub fn formula(experiment: &str) -> Option<&'static Formula> {
    match experiment {
        "002/fig13.1" => Some(&MALI),
        "001/fig7.10" => Some(&HUANG),
        _ => None,
    }
}
