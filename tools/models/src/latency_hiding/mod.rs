//! How latencies are hidden by other warps: models of documents, clscope's own, and work-groups in
//! waves. Equations alone; refuses to measure.

pub mod latency;
pub mod prior;
pub mod stations;
pub mod waves;
