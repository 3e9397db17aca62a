//! Which errors a difference between the application's call and the one that is passed on can cause.
//! The closed tables of what may differ, and of what the recorder calls by itself
//! ([`functions`](crate::runtime::functions)), are the guide's page of changes
//! (`tools/guide/changes.md`).
#![forbid(unsafe_code)]

use super::constants as cl;

/// Whether an enqueue that failed so may have failed because of our event.
pub fn event_can_cause(code: i32) -> bool {
    // CL_INVALID_VALUE: of a runtime that wants no event there.
    matches!(
        code,
        cl::CL_OUT_OF_RESOURCES
            | cl::CL_OUT_OF_HOST_MEMORY
            | cl::CL_INVALID_VALUE
            | cl::CL_INVALID_EVENT
            | cl::CL_INVALID_OPERATION
    )
}

/// Whether a queue creation that failed so may have failed because of the profiling bit.
pub fn profiling_can_cause(code: i32) -> bool {
    matches!(
        code,
        cl::CL_INVALID_QUEUE_PROPERTIES
            | cl::CL_INVALID_VALUE
            | cl::CL_OUT_OF_RESOURCES
            | cl::CL_OUT_OF_HOST_MEMORY
    )
}
