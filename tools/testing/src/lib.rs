//! What the tests of all crates share: children and pipes that are waited for under a limit
//! ([`child`]), a watchdog that ends a test which waits elsewhere ([`watch`]), what a test says
//! that cannot run here ([`need`]), committed texts ([`golden`](mod@golden)) and repeatable random
//! numbers ([`random`]), and programs of generated steps ([`programs`]). Nothing of the product uses
//! it, and it uses nothing of the product.

pub mod child;
pub mod golden;
pub mod need;
pub mod programs;
pub mod random;
#[cfg(feature = "schema")]
pub mod schema;
pub mod watch;

pub use child::{LIMIT, Limited, Running, Stream, assert_no_panic};
pub use golden::golden;
pub use need::{installed, skip};
pub use random::Random;
pub use watch::{Watch, While};
