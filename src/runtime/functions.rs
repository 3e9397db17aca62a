//! The calls of the runtime that the recorder makes by itself: a closed table, since a function that
//! is not in it has no name here to be called by. Each row says when the call is made. The guide's
//! page of changes is made from it and from [`CHANGES`](crate::abi::changes::CHANGES).
#![allow(non_upper_case_globals, reason = "the names of the functions")]

use super::real::Function;
use crate::abi::{functions::id, signatures as f};

/// When calls of one kind are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// In any recorded run, or in those that take device times.
    Always,
    /// With one of these settings only.
    Settings(&'static [&'static str]),
}

/// A call that the recorder makes by itself.
#[cfg_attr(not(test), expect(dead_code, reason = "read by people, and by the test below"))]
pub struct OwnCall {
    pub function: &'static str,
    pub when: When,
    pub why: &'static str,
}

macro_rules! own_calls {
    ($($name:ident $when:expr => $why:literal;)*) => {
        $(
            #[doc = $why]
            // SAFETY: id and type are of one function.
            pub const $name: Function<f::$name> = unsafe { Function::new(id::$name) };
        )*

        /// Every row.
        #[cfg_attr(not(test), expect(dead_code, reason = "as `OwnCall`"))]
        pub const OWN_CALLS: &[OwnCall] = &[
            $(OwnCall { function: stringify!($name), when: $when, why: $why }),*
        ];
    };
}

const TIMING: When = When::Settings(&["CLSCOPE_DEVICE_TIMING=callback"]);
const CAPTURE: When = When::Settings(&["CLSCOPE_CAPTURE", "CLSCOPE_SAMPLE"]);
const REPLACE: When = When::Settings(&["CLSCOPE_REPLACE"]);
const SOURCE: When = When::Settings(&["CLSCOPE_REPLACE", "CLSCOPE_APPEND_OPTIONS"]);
const SNAPSHOT: When = When::Settings(&["CLSCOPE_SNAPSHOT"]);

own_calls! {
    clGetPlatformInfo When::Always => "Names a platform when it is first seen.";
    clGetDeviceInfo When::Always => "Describes a device when it is first seen.";
    clGetContextInfo When::Always => "Names the devices of a context when it is first seen.";
    clGetCommandQueueInfo When::Always => "Describes a queue that was made before recording began.";
    clGetKernelInfo When::Always => "Names a new kernel, and its program.";
    clGetKernelWorkGroupInfo When::Always => "Reads what a new kernel needs of its devices.";
    clGetProgramInfo When::Always => "Names the devices of a program; with CLSCOPE_CAPTURE and CLSCOPE_REPLACE reads the program.";
    clGetProgramBuildInfo When::Always => "Keeps the log of a failed build; with CLSCOPE_CAPTURE, CLSCOPE_REPLACE and CLSCOPE_LOCAL reads options.";
    clRetainEvent When::Always => "Keeps the application's event of a timed command.";
    clReleaseEvent When::Always => "Releases it, or an event of a failed enqueue.";
    clGetEventInfo When::Always => "Asks whether a command is complete, and for an event's queue.";
    clGetEventProfilingInfo When::Always => "Reads the times of a complete command.";
    clSetCommandQueueProperty When::Always => "Switches profiling off for untimed commands, on NVIDIA's runtime.";
    clEnqueueMarkerWithWaitList When::Settings(&["CLSCOPE_CLOCK_MARKERS"]) => "On NVIDIA's runtime, eight behind a wait, every 25 ms to 1 s: they bound the device's clock.";
    clCreateCommandQueue When::Always => "Makes a queue as the application's, to try what the runtime does; for CLSCOPE_CAPTURE and CLSCOPE_SAMPLE.";
    clCreateCommandQueueWithProperties When::Always => "The same, for queues made by this function.";
    clReleaseCommandQueue When::Always => "Releases such a queue.";
    clEnqueueMarker When::Always => "On such a queue: does the runtime time queues without profiling?";
    clGetExtensionFunctionAddressForPlatform When::Always => "Finds functions of command buffers and of Intel's queue with counters.";
    clCreateCommandBufferKHR When::Always => "An empty one: does the runtime refuse it on other queues?";
    clFinalizeCommandBufferKHR When::Always => "Of that command buffer.";
    clEnqueueCommandBufferKHR When::Always => "Of that command buffer.";
    clReleaseCommandBufferKHR When::Always => "Of that command buffer.";
    clSetEventCallback TIMING => "Learns when a command is complete.";
    clGetDeviceAndHostTimer SNAPSHOT => "Reads the device's clock before and after each command.";
    clDeviceMemAllocINTEL CAPTURE => "Makes memory for a copy of unified shared memory.";
    clMemFreeINTEL CAPTURE => "Releases it.";
    clEnqueueMemcpyINTEL CAPTURE => "Copies unified shared memory; reads such copies.";
    clGetMemObjectInfo When::Always => "Describes mapped objects; with CLSCOPE_CAPTURE and CLSCOPE_SAMPLE all memory that a launch reaches.";
    clCreateBuffer CAPTURE => "Makes memory for copies, inside a call that makes memory, or behind a wait.";
    clReleaseMemObject CAPTURE => "Releases it.";
    clEnqueueCopyBuffer CAPTURE => "Copies each buffer that a launch reaches, before and after it.";
    clEnqueueReadBuffer CAPTURE => "Reads such copies, on clscope's own queue.";
    clGetImageInfo CAPTURE => "Reads format and size of an image that a launch reaches.";
    clGetSamplerInfo CAPTURE => "Reads the modes of a sampler among its arguments.";
    clGetKernelArgInfo When::Settings(&["CLSCOPE_CAPTURE", "CLSCOPE_SAMPLE", "CLSCOPE_REPLACE"]) => "Reads names and types of arguments.";
    clEnqueueFillBuffer CAPTURE => "Writes the memory for copies once.";
    clEnqueueCopyImageToBuffer CAPTURE => "Copies each image that a launch reaches.";
    clSVMAlloc CAPTURE => "Makes shared virtual memory for copies.";
    clSVMFree CAPTURE => "Releases it.";
    clEnqueueSVMMemcpy CAPTURE => "Copies shared virtual memory; reads such copies.";
    clEnqueueSVMMemFill CAPTURE => "As clEnqueueFillBuffer.";
    clCreateProgramWithSource SOURCE => "A program of a file's text; one of the application's source, to try options.";
    clCreateProgramWithBinary REPLACE => "A program of a file's binary.";
    clCreateProgramWithIL REPLACE => "A program of a file's SPIR-V.";
    clBuildProgram SOURCE => "Builds such a program.";
    clReleaseProgram SOURCE => "Releases it.";
    clCreateKernel REPLACE => "A kernel of such a program.";
    clReleaseKernel REPLACE => "Releases it.";
    clSetKernelArg REPLACE => "Sets the arguments of the application's kernel.";
    clSetKernelArgSVMPointer REPLACE => "As clSetKernelArg.";
    clSetKernelExecInfo REPLACE => "As clSetKernelArg.";
    clCloneKernel REPLACE => "Clones it with the application's.";
    clFlush When::Always => "Starts a command before asking for its end, with CLSCOPE_DEVICE_TIMING=sync and CLSCOPE_SNAPSHOT also the application's.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::changes::CHANGES;
    use std::fmt::Write;

    fn page() -> String {
        let mut out = String::from(
            "# What exactly differs from the application's own calls?\n\n\
             clscope calls the real function once for each call of the application. The first table lists all\n\
             that may differ, the second all calls that clscope makes by itself. It waits for no command longer\n\
             than 5 s, and for nothing while a user event is not set or a callback has not come back.\n\n\
             ## Changed calls\n\n| change | where | when |\n|---|---|---|\n",
        );
        for change in CHANGES {
            let _ = writeln!(out, "| {} | {} | {} |", change.what, change.at, change.when);
        }
        out.push_str("\n## Calls of its own\n\n| function | with | what for |\n|---|---|---|\n");
        for call in OWN_CALLS {
            let when = match call.when {
                When::Always => "every run".to_owned(),
                When::Settings(names) => {
                    let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
                    names.join(", ")
                }
            };
            let _ = writeln!(out, "| `{}` | {when} | {} |", call.function, call.why);
        }
        out
    }

    #[test]
    fn the_guide_lists_every_change_and_every_own_call() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/guide/changes.md");
        #[expect(clippy::disallowed_methods, reason = "of a test")]
        let update = std::env::var_os("UPDATE_GOLDENS").is_some_and(|set| set == "1");
        if update {
            std::fs::write(path, page()).unwrap();
        }
        let guide = std::fs::read_to_string(path).unwrap();
        assert!(guide == page(), "{path} is not what the tables say: UPDATE_GOLDENS=1 writes it");
    }

    #[test]
    fn settings_of_own_calls_exist() {
        for call in OWN_CALLS {
            let When::Settings(all) = call.when else { continue };
            for named in all {
                let name = named.split('=').next().unwrap();
                let known = clscope_trace::settings::SETTINGS.iter().any(|s| s.name == name);
                assert!(known, "{}: {name}", call.function);
            }
        }
    }
}
