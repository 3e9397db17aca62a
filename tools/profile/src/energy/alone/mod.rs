//! What was measured apart from the run: repetitions by the recorder, workers of captured launches,
//! other runs, and which launches of the run each stands for. Refuses to fit.

pub mod external;
pub(super) mod replayed;
pub mod shapes;
pub(super) mod workers;
