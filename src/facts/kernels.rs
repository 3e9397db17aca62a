//! Kernels, and their names, which filters ask about.
#![forbid(unsafe_code)]

use super::{info, objects};
use crate::abi::constants as cl;
use crate::abi::entry::{H, Site};
use crate::os::fork_safe::ForkSafe;
use crate::recording;
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::{defs, values};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a filter on kernel names is in force.
static FILTERING: AtomicBool = AtomicBool::new(false);
/// Handles of kernels that the filter leaves out.
static LEFT_OUT: ForkSafe<HashSet<usize>> = ForkSafe::new();

/// Whether launches of this kernel are passed on untouched.
#[inline]
pub fn filtered_out(kernel: H) -> bool {
    FILTERING.load(Ordering::Relaxed)
        && LEFT_OUT.with(|set| set.contains(&(kernel as usize))).unwrap_or(false)
}

/// Gives a kernel its id and name.
pub fn named(site: Site, kernel: H, program: u32) -> u32 {
    let kernel_id = objects::created(kernel, 0);
    let name = info::text(api::clGetKernelInfo.own(site.slot), kernel, cl::CL_KERNEL_FUNCTION_NAME);
    let patterns = &config::get().kernels;
    if !patterns.is_empty() {
        let out = !values::matches(patterns, &name);
        // Handles are reused: a new kernel may pass the filter under the handle of one that did
        // not.
        LEFT_OUT.with(|set| {
            if out { set.insert(kernel as usize) } else { set.remove(&(kernel as usize)) }
        });
        if out {
            FILTERING.store(true, Ordering::Relaxed);
        }
    }
    recording::define(&defs::Kernel { id: kernel_id, program, name }.into());
    kernel_id
}
