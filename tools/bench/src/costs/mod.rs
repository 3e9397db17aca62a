//! What recording costs: added time per call and launch, the size of the library.
//! Refuses to judge what it measures.
#![forbid(unsafe_code)]

pub(crate) mod cheap;
pub(crate) mod cost;
pub(crate) mod enqueue;
pub(crate) mod load;
