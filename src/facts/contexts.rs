//! What contexts tell of themselves.
#![forbid(unsafe_code)]

use super::{info, objects, platforms};
use crate::abi::entry::{H, Site};
use crate::recording;
use crate::runtime::functions as api;
use clscope_trace::defs;

/// Describes a new context.
pub fn describe(site: Site, context: H, id: u32) {
    let info = api::clGetContextInfo.own(site.slot);
    let devices = info::handles(info, context, info::CONTEXT_DEVICES);
    let devices = devices.into_iter().map(|device| platforms::device(site, device)).collect();
    recording::define(&defs::Context { id, devices }.into());
}

/// Id of a context that may have been made before recording began.
pub fn adopted(site: Site, context: H) -> u32 {
    let (id, new) = objects::seen(context);
    if new {
        describe(site, context, id);
    }
    id
}
