//! The closed table of what may differ between the application's call and the one that is passed on,
//! and which errors a change can cause. What the recorder calls by itself is a table of its own,
//! [`OWN_CALLS`](crate::runtime::functions::OWN_CALLS). The guide's page of changes is made from
//! both.
#![forbid(unsafe_code)]

use super::constants as cl;

/// A difference between the application's call and the one that is passed on.
#[cfg_attr(not(test), expect(dead_code, reason = "read by people, and by the test of the guide"))]
pub struct Change {
    pub what: &'static str,
    pub at: &'static str,
    pub when: &'static str,
}

/// Every difference.
#[cfg_attr(not(test), expect(dead_code, reason = "as `Change`"))]
pub const CHANGES: &[Change] = &[
    Change {
        what: "`CL_QUEUE_PROFILING_ENABLE` added",
        at: "queue creation",
        when: "device timing is on, the queue is not on the device",
    },
    Change {
        what: "`clCreatePerfCountersCommandQueueINTEL` called instead",
        at: "queue creation",
        when: "`CLSCOPE_COUNTERS` has `intel-queue`, and the runtime has that function",
    },
    Change {
        what: "an event slot where the application passed NULL",
        at: "enqueue",
        when: "device timing is on for the queue",
    },
    Change {
        what: "callback and user data replaced by the recorder's, which call the application's",
        at: "functions that take a callback",
        when: "always",
    },
    Change {
        what: "extension pointers replaced by the recorder's",
        at: "`clGetExtensionFunctionAddress[ForPlatform]`",
        when: "for functions of the registry",
    },
    Change {
        what: "answers masked",
        at: "`CL_QUEUE_PROPERTIES[_ARRAY]`, `CL_EVENT_REFERENCE_COUNT`, profiling info, old queue properties",
        when: "where the recorder changed what they say",
    },
    Change {
        what: "`CL_INCOMPATIBLE_COMMAND_QUEUE_KHR` without a call",
        at: "`clEnqueueCommandBufferKHR` on other queues than the buffer's",
        when: "the queues differ in the profiling bit for the application only, and the runtime refuses such queues",
    },
    Change {
        what: "a kernel of the recorder's own in place of the application's",
        at: "`clEnqueueNDRangeKernel`, `clEnqueueTask`",
        when: "with `CLSCOPE_REPLACE`, for the kernels it names",
    },
    Change {
        what: "another local size",
        at: "`clEnqueueNDRangeKernel`",
        when: "with `CLSCOPE_LOCAL`, for the kernels it names",
    },
    Change {
        what: "options appended; `CL_PROGRAM_BUILD_OPTIONS` is answered with the application's own",
        at: "`clBuildProgram`, `clCompileProgram`",
        when: "with `CLSCOPE_APPEND_OPTIONS`, for programs from source that build with them",
    },
    Change {
        what: "copies of its memory added to its wait list",
        at: "`clEnqueueNDRangeKernel`, `clEnqueueTask` on queues that are out of order",
        when: "with `CLSCOPE_CAPTURE` and `CLSCOPE_SAMPLE`, for launches that are captured",
    },
    Change {
        what: "the call repeated once, as the application wrote it",
        at: "functions that make memory, enqueue",
        when: "with `CLSCOPE_CAPTURE` and `CLSCOPE_SAMPLE`, where memory was lacking and clscope released its own",
    },
    Change {
        what: "the call repeated once, as the application wrote it",
        at: "queue creation, enqueue; launches with `CLSCOPE_REPLACE` and `CLSCOPE_LOCAL`",
        when: "it failed with an error that the change can cause, and does not block",
    },
];

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
