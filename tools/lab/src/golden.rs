//! What tests of several modules take from one table.

use clscope_models::latency::Workload;

/// Maxwell (Volkov 2016, table 4.1): latencies in cycles, throughputs in instructions of a warp a
/// cycle and multiprocessor.
pub const MAXWELL: Workload = Workload {
    memory_latency: 368.0,
    add_latency: 6.0,
    memory_throughput: 0.0814,
    add_throughput: 4.0,
    issue_throughput: 4.0,
};
