//! Every figure and table of the documents, with what becomes of it here. Owns the list of those
//! that no experiment shows, and why; refuses to quote a caption: what they show is in our words.

use super::{Experiment, How, SHOWN_BY, all};

const DRAWING: &str = "a drawing, a listing or text, in which nothing is measured";
const CITED: &str = "a result of another work, which the document cites";
const FACTS: &str = "facts of the document's machine; `clscope bench devices` has those of yours";
const SKETCH: &str = "a sketch of what later figures measure";

/// Figures and tables without an experiment: name, what it shows, why.
const WITHOUT: &[(&str, &str, &str)] = &[
    ("000/fig2.1", "parts of the chip", DRAWING),
    ("000/fig2.2", "layout of a GPU", DRAWING),
    ("000/fig2.3", "a slice", DRAWING),
    ("000/fig2.4", "a sub-slice", DRAWING),
    ("000/fig2.5", "an execution unit", DRAWING),
    ("000/fig2.6", "bandwidth over strides", CITED),
    ("000/fig2.7", "pointer-chasing over work sizes", CITED),
    ("000/fig2.8", "speed over two clocks", CITED),
    ("000/fig2.9", "two ways to reduce in a group", DRAWING),
    ("000/fig2.10", "their times", CITED),
    ("000/fig2.11", "broadcasts in a group", CITED),
    ("000/tab2.5", "works on integrated GPUs", DRAWING),
    ("000/fig3.1", "parts of the thesis's tool", DRAWING),
    ("000/fig3.2", "bits of OACONTROL", "the kernel driver writes this register"),
    ("000/tab4.1", "the GPU", FACTS),
    ("000/tab4.2", "the CPU", FACTS),
    ("000/tab4.3", "registers for control", DRAWING),
    ("000/fig4.1", "the register file", DRAWING),
    ("000/fig4.2", "steps of the compiler", DRAWING),
    ("001/fig1.1", "throughput over occupancy, two examples", SKETCH),
    ("001/fig1.2", "estimates and measurements, examples of chapter 7", SKETCH),
    ("001/fig1.3", "the cusp, an example of chapter 4", SKETCH),
    ("001/fig2.1", "coalesced accesses", DRAWING),
    ("001/fig2.2", "conflicts of banks", DRAWING),
    ("001/fig2.3", "parts of a GPU", DRAWING),
    ("001/fig2.4", "turns of a scheduler", DRAWING),
    ("001/tab2.1", "the five GPUs", FACTS),
    ("001/tab2.2", "code of a CPU and of a GPU", DRAWING),
    ("001/tab2.3", "a branch that divides a warp", DRAWING),
    ("001/tab2.4", "one that does not", DRAWING),
    ("001/tab2.5", "units of shared memory", FACTS),
    ("001/tab2.6", "units of the GPUs", FACTS),
    ("001/tab2.7", "clocks and pins", FACTS),
    ("001/tab2.8", "schedulers", FACTS),
    ("001/tab2.9", "occupancy in warps and in percent", FACTS),
    ("001/fig3.1", "processes at once", DRAWING),
    ("001/fig3.2", "accesses at once", DRAWING),
    ("001/fig3.4", "latency, then throughput", SKETCH),
    ("001/fig3.5", "a graph of dependences", DRAWING),
    ("001/fig4.7", "instructions and warps at once", DRAWING),
    ("002/fig2.1", "threads that take turns", DRAWING),
    ("002/fig2.2", "long instruction words", DRAWING),
    ("002/fig2.3", "an address in a cache", DRAWING),
    ("002/fig2.4", "a cache of two ways", DRAWING),
    ("002/fig3.1", "OpenCL's model of a platform", DRAWING),
    ("002/fig4.1", "parts of the GPU", DRAWING),
    ("002/fig5.1", "the abstract model", DRAWING),
    ("002/fig7.1", "a kernel that counts", DRAWING),
    ("002/fig7.5", "its schedule for 3 and 38 threads", DRAWING),
    ("002/fig7.6", "the same for 39 and 40", DRAWING),
    ("002/fig8.2", "schedule over threads of a core", DRAWING),
    ("002/fig9.2", "schedule of two comparisons", DRAWING),
    ("002/fig9.4", "schedule of products and sums", DRAWING),
    ("002/fig10.3", "schedule of couples", DRAWING),
    ("002/fig10.4", "another", DRAWING),
    ("002/fig10.6", "of four couples", DRAWING),
    ("002/fig11.1", "registers of a kernel", DRAWING),
    ("002/fig11.3", "a kernel of vectors", DRAWING),
    ("002/fig12.1", "a kernel that stores", DRAWING),
    ("002/fig12.2", "its graph", DRAWING),
    ("002/fig12.4", "a kernel that loads", DRAWING),
    ("002/fig12.5", "its graph", DRAWING),
    ("002/fig12.8", "kernels with races and false sharing; figure 12.9 has their times", DRAWING),
    ("003/fig1", "a slice", DRAWING),
    ("003/fig2", "an execution unit", DRAWING),
    ("003/fig3", "parts of the tool", DRAWING),
    ("003/fig4", "the register file", DRAWING),
    ("003/tab1", "the GPU", FACTS),
    ("003/tab2", "the CPU", FACTS),
    ("004/fig2.1", "a pipeline", DRAWING),
    ("004/tab2.1", "kinds of parallel machines", DRAWING),
    ("004/fig3.1", "parts of a GPU", DRAWING),
    ("004/fig3.2", "a processing element", DRAWING),
    ("004/fig3.3", "memories of a mobile chip", DRAWING),
    ("004/fig3.4", "steps of a compiler", DRAWING),
    ("004/fig3.5", "a trace of another profiler", "`clscope export perfetto` draws yours"),
    (
        "004/fig6.1",
        "how the meter is connected",
        "a drawing; `clscope record --meter` reads such a meter",
    ),
];

/// What becomes of a figure or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// An experiment measures it.
    Measured,
    /// The same, with a sensor of power, or with emulated or recorded readings in its place.
    Metered,
    /// It is computed, without a device.
    Computed,
    /// Another one shows it.
    ShownBy(&'static str),
    /// Nothing shows it, because of this.
    Not(&'static str),
}

/// A figure or table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caption {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in our words; empty where another one shows it.
    pub shows: &'static str,
    /// What becomes of it.
    pub standing: Standing,
}

impl Experiment {
    /// What becomes of what it shows.
    pub fn standing(&self) -> Standing {
        match self.how {
            How::Cannot(why) => Standing::Not(why),
            How::Compute(_) => Standing::Computed,
            How::Measure { parts, .. } => {
                let metered = |case: &&str| {
                    ["power/", "classes/", "transfer/continuous"]
                        .iter()
                        .any(|p| case.starts_with(p))
                };
                let is_metered = parts.iter().any(|p| p.power || p.cases.iter().any(metered));
                if is_metered { Standing::Metered } else { Standing::Measured }
            }
        }
    }
}

/// All figures and tables, and other experiments, of a document of this key, in order.
pub fn captions(key: &str) -> Vec<Caption> {
    let made = all().map(|e| Caption { name: e.name, shows: e.shows, standing: e.standing() });
    let shown = SHOWN_BY.iter().map(|&(name, by)| Caption {
        name,
        shows: "",
        standing: Standing::ShownBy(by),
    });
    let without = WITHOUT.iter().map(|&(name, shows, why)| Caption {
        name,
        shows,
        standing: Standing::Not(why),
    });
    let of = |c: &Caption| c.name.split('/').next() == Some(key);
    let mut out: Vec<Caption> = made.chain(shown).chain(without).filter(of).collect();
    out.sort_by_key(|c| place(c.name));
    out
}

/// Its place in a document: figures before tables, numbers as numbers.
fn place(name: &str) -> (String, Vec<u32>, String) {
    let rest = name.split('/').nth(1).unwrap_or_default();
    let kind: String = rest.chars().take_while(char::is_ascii_alphabetic).collect();
    let numbers = rest.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    (kind, numbers.collect(), rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::DOCUMENTS;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_is_there_once() {
        let all: Vec<Caption> = DOCUMENTS.iter().flat_map(|d| captions(d.key)).collect();
        let names: BTreeSet<&str> = all.iter().map(|c| c.name).collect();
        assert_eq!(names.len(), all.len());
        let at = |name: &str| all.iter().position(|c| c.name == name).unwrap();
        assert!(at("000/fig4.9") < at("000/fig4.10") && at("000/fig4.17") < at("000/tab2.1"));
    }
}
