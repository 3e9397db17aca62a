//! What a checked run says beside a call: whether it is wanted, a detail, and where the call stands.
//! Refuses to know what it is about.
#![forbid(unsafe_code)]

use crate::abi::entry::P;
use crate::features::call_sites;
use crate::hooks::launching_thread;
use crate::recording::{self, guard, ring};
use crate::settings::config;
use clscope_trace::record::{Detail, detail};

/// Whether this run is checked.
pub fn wanted() -> bool {
    config::get().check
}

/// Writes what is told of the calling thread's call.
pub fn tell(function: u16, what: u32, site: u32, values: [u64; 3]) {
    let told = Detail { function, what, site, values };
    ring::detail(guard::thread(), &told, recording::now());
}

/// A recorded call made something, or failed: where it stands in the application.
pub fn place(function: u16) {
    if let (true, Some(sites)) = (wanted(), call_sites::current()) {
        let site = launching_thread::place(guard::thread(), sites, function);
        if site != 0 {
            tell(function, detail::PLACE, site, [0; 3]);
        }
    }
}

/// A command uses memory by its address; `bytes` 0: all of an allocation.
pub fn memory(function: u16, address: P, bytes: usize, how: u64) {
    if wanted() && !address.is_null() {
        tell(function, detail::MEMORY, 0, [address as u64, bytes as u64, how]);
    }
}
