//! What tests of several models take from one table: the GPUs of Volkov 2016, table 4.1.

use crate::latency::Workload;

/// Latencies in cycles, throughputs in instructions of a warp a cycle and multiprocessor.
const fn gpu(
    memory_latency: f64,
    memory_throughput: f64,
    add_latency: f64,
    add_throughput: f64,
    issue_throughput: f64,
) -> Workload {
    Workload { memory_latency, add_latency, memory_throughput, add_throughput, issue_throughput }
}

pub const G80: Workload = gpu(444.0, 0.0268, 20.0, 0.25, 0.5);
pub const GT200: Workload = gpu(434.0, 0.0277, 24.0, 0.25, 0.5);
pub const FERMI: Workload = gpu(513.0, 0.0599, 18.0, 1.0, 1.0);
pub const KEPLER: Workload = gpu(301.0, 0.1338, 9.0, 4.0, 4.0);
pub const MAXWELL: Workload = gpu(368.0, 0.0814, 6.0, 4.0, 4.0);

/// Whether two figures are as near as the document's digits.
pub fn near(a: f64, b: f64, within: f64) -> bool {
    (a - b).abs() <= within
}
