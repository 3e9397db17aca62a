//! Owns what host memory the application of a checked run has lent to transfers that do not block,
//! and looks whether it is still mapped when the host begins to wait. Memory that an allocator
//! keeps mapped after it was freed looks like any other. Refuses to judge: whether a transfer was
//! known to be complete by then, the reader knows.
#![forbid(unsafe_code)]

use crate::abi::entry::P;
use crate::hooks::checked::details::{place, tell, wanted};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::memory::is_unmapped;
use clscope_trace::record::detail;

/// Ranges that are remembered: the newest.
const MOST: usize = 64;

static LENT: ForkSafe<Vec<(usize, usize)>> = ForkSafe::new();

/// A transfer that is about to be enqueued uses these bytes.
pub fn lent(blocking: u32, address: P, bytes: usize) {
    if blocking == 0 && bytes > 0 && wanted() {
        LENT.with(|lent| {
            if lent.len() == MOST {
                lent.remove(0);
            }
            lent.push((address as usize, bytes));
        });
    }
}

/// The host is about to wait in a call.
pub fn waits(function: u16) {
    if !wanted() {
        return;
    }
    let all = LENT.with(std::mem::take).unwrap_or_default();
    for (address, bytes) in all {
        let last = address.saturating_add(bytes - 1);
        if is_unmapped(address) || is_unmapped(last) {
            place(function);
            tell(function, detail::UNMAPPED, 0, [address as u64, bytes as u64, 0]);
        }
    }
}
