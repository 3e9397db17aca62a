//! The fit: shares of classes in rows, the mixed model over them, its equations and variances, what
//! is known as a sum only, and which readings decide. Refuses to look at sensors.

pub(super) mod decide;
pub(super) mod design;
pub mod mixed;
pub(super) mod solve;
pub(super) mod sums;
pub(super) mod variance;
