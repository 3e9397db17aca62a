//! What the tests of all crates share: children and pipes that are waited for under a limit
//! ([`child`]), a watchdog that ends a test which waits elsewhere ([`watch`]), and what a test says
//! that cannot run here ([`need`]). Nothing of the product uses it, and it uses nothing of the
//! product.

pub mod child;
pub mod need;
pub mod watch;

pub use child::{LIMIT, Limited, Running, Stream};
pub use need::{installed, skip};
pub use watch::{Watch, While};
