//! The closed table of what may differ between the application's call and the one we pass on.
//!
//! | change | where | when |
//! |---|---|---|
//! | `CL_QUEUE_PROFILING_ENABLE` added | queue creation | device timing is on, the queue is not on the device |
//! | `clCreatePerfCountersCommandQueueINTEL` called instead | queue creation | `CLSCOPE_COUNTERS` has `intel-queue`, and the runtime has that function and takes all properties |
//! | an event slot of ours where the application passed NULL | enqueue | device timing is on for the queue |
//! | callback and user data replaced by ours, which call the application's | functions that take a callback | always, so that calls from inside are its own |
//! | extension pointers replaced by ours | `clGetExtensionFunctionAddress[ForPlatform]` | for functions of the registry |
//! | answers masked | `CL_QUEUE_PROPERTIES[_ARRAY]`, `CL_EVENT_REFERENCE_COUNT`, profiling info, old queue properties | where we changed what they tell |
//! | `CL_INCOMPATIBLE_COMMAND_QUEUE_KHR` without a call | `clEnqueueCommandBufferKHR` on other queues than the buffer's | they differ in the profiling bit for the application only, and the runtime refuses such queues, which an empty command buffer on two queues of ours has shown |
//! | the call repeated once, as the application wrote it | queue creation, enqueue | it failed with an error that the change can cause, and does not block |
//!
//! Extra calls of ours (never in the middle of another, and always under the guard):
//! `clRetainEvent` on an event that the application asked for, `clSetCommandQueueProperty` on a
//! queue whose profiling is ours alone (only where the platform is known to switch it command by
//! command: see `device_time::switch`), `clGetEventProfilingInfo`, `clGetEventInfo` (status) and
//! `clReleaseEvent` on events that we hold or that a failed enqueue left in our slot; info queries
//! on platforms, devices, contexts, kernels and programs when they are first seen, to name them. a
//! queue made exactly as the application asked, for the length of a `CL_QUEUE_PROPERTIES_ARRAY`
//! query, or once a device with a finished marker (`clEnqueueMarker`, `clFinish`), when times are
//! asked for that a queue without profiling does not have; the queue of an event that was enqueued
//! while nothing was recorded and whose profiling info is asked for; `clWaitForEvents` after a
//! blocking call whose event is not complete yet, and on an event of a command that has ended,
//! whose stamps the runtime has not all written. Method `callback` adds `clSetEventCallback`,
//! method `sync` adds `clWaitForEvents`.
//!
//! Commands of ours: `clEnqueueMarkerWithWaitList`, eight in a row on a queue that has just been
//! waited for, every 25 ms to 1 s, where they bound the device's clock (only NVIDIA's: see
//! `device_time::markers`; never with `CLSCOPE_CLOCK_MARKERS=0`).
//!
//! `CLSCOPE_REPLAY`, before the first launch of a kernel with a global size: `clWaitForEvents` on
//! its wait list, `clFinish` on its queue, a queue and buffers of our own, copies of the buffers
//! that the kernel may write, the launch itself again and again on that queue, the copies back, and
//! the release of all that. `CLSCOPE_SNAPSHOT`: `clWaitForEvents` after each enqueue, on an event
//! of ours where the application asked for none, `clGetDeviceAndHostTimer` before and after.
//! Neither waits while a user event is not set.
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
