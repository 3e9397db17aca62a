//! What sensors read: their series, when each reading was taken, how they follow the power of a
//! device, and where they were placed by its load. Refuses to fit classes.

pub(super) mod by_load;
pub(super) mod response;
pub(super) mod ripple;
pub(super) mod search;
pub(super) mod sensor;
pub(super) mod stamps;
