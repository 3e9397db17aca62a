//! The calls of the runtime that the recorder makes by itself: a closed table, since a function that
//! is not in it has no name here to be called by. When and why each is called is in the guide's page
//! of changes (`tools/guide/changes.md`).
#![allow(non_upper_case_globals, reason = "the names of the functions")]

use super::real::Function;
use crate::abi::{functions::id, signatures as f};

macro_rules! own_calls {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: id and type are of one function.
            pub const $name: Function<f::$name> = unsafe { Function::new(id::$name) };
        )*

        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

own_calls! {
    clGetPlatformInfo, clGetDeviceInfo, clGetContextInfo, clGetCommandQueueInfo,
    clGetKernelInfo, clGetKernelWorkGroupInfo, clGetProgramInfo, clGetProgramBuildInfo,
    clRetainEvent, clReleaseEvent, clGetEventInfo, clGetEventProfilingInfo,
    clSetCommandQueueProperty, clEnqueueMarkerWithWaitList, clCreateCommandQueue,
    clCreateCommandQueueWithProperties, clReleaseCommandQueue, clEnqueueMarker,
    clGetExtensionFunctionAddressForPlatform, clCreateCommandBufferKHR,
    clFinalizeCommandBufferKHR, clEnqueueCommandBufferKHR, clReleaseCommandBufferKHR,
    clSetEventCallback, clGetDeviceAndHostTimer, clDeviceMemAllocINTEL, clMemFreeINTEL,
    clEnqueueMemcpyINTEL, clGetMemObjectInfo, clCreateBuffer, clReleaseMemObject,
    clEnqueueCopyBuffer, clEnqueueReadBuffer, clGetImageInfo, clGetSamplerInfo,
    clGetKernelArgInfo, clEnqueueFillBuffer, clEnqueueCopyImageToBuffer, clSVMAlloc, clSVMFree,
    clEnqueueSVMMemcpy, clEnqueueSVMMemFill, clCreateProgramWithSource,
    clCreateProgramWithBinary, clCreateProgramWithIL, clBuildProgram, clReleaseProgram,
    clCreateKernel, clReleaseKernel, clSetKernelArg, clSetKernelArgSVMPointer,
    clSetKernelExecInfo, clCloneKernel, clFlush,
}

#[cfg(test)]
mod tests {
    use super::NAMES;

    /// A row of the guide's table: a function, when it is called, and what for.
    fn row(line: &str) -> Option<[&str; 3]> {
        let (name, rest) = line.strip_prefix("| `")?.strip_suffix(" |")?.split_once("` | ")?;
        let (when, why) = rest.split_once(" | ")?;
        Some([name, when, why])
    }

    #[test]
    fn the_guide_says_of_every_own_call_when_and_why_and_its_settings_exist() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/guide/changes.md");
        let guide = std::fs::read_to_string(path).unwrap();
        let table = guide.split("| function | with | what for |").nth(1).unwrap();
        let rows: Vec<[&str; 3]> = table.lines().filter_map(row).collect();
        let names: Vec<&str> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(names, NAMES, "{path} lists other calls than this table, or in another order");
        for [function, when, why] in rows {
            assert!(!why.is_empty(), "{function} without a reason");
            for named in when.split(", ").filter(|when| *when != "every run") {
                let name = named.trim_matches('`').split('=').next().unwrap();
                let known = clscope_trace::variables::SETTINGS.iter().any(|s| s.name == name);
                assert!(known, "{function}: {name}");
            }
        }
    }
}
