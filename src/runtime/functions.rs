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
    clGetDeviceInfo When::Always => "Describes a device when it is first seen, and tells which runtime a queue is of.";
    clGetContextInfo When::Always => "Names the devices of a context when it is first seen.";
    clGetCommandQueueInfo When::Always => "Describes a queue that was made before recording began.";
    clGetKernelInfo When::Always => "Names a new kernel, and its program.";
    clGetKernelWorkGroupInfo When::Always => "Tells what a new kernel takes of its devices, once for a program and a kernel's name.";
    clGetProgramInfo When::Always => "Names the devices of a program, to tell what its kernels take of them, and where its build failed; with CLSCOPE_CAPTURE asks for every form of it, with CLSCOPE_REPLACE for its context and the names of kernels.";
    clGetProgramBuildInfo When::Always => "Keeps the log of a build that failed; with CLSCOPE_CAPTURE, CLSCOPE_REPLACE and CLSCOPE_LOCAL asks for options, with CLSCOPE_REPLACE and CLSCOPE_APPEND_OPTIONS for the log of the recorder's own.";
    clRetainEvent When::Always => "Holds the event of a timed command that the application asked for.";
    clReleaseEvent When::Always => "Gives back an event that was held, or that a failed enqueue left in the recorder's slot.";
    clGetEventInfo When::Always => "Asks whether a command is complete, and which queue an event belongs to.";
    clGetEventProfilingInfo When::Always => "Reads the times of a complete command.";
    clSetCommandQueueProperty When::Always => "Switches profiling for commands that are not timed, on queues whose profiling is the recorder's alone, where the platform is known to do so command by command (NVIDIA's).";
    clEnqueueMarkerWithWaitList When::Settings(&["CLSCOPE_CLOCK_MARKERS"]) => "On NVIDIA's runtime, eight on a queue that has just been waited for, every 25 ms to 1 s: they bound the device's clock.";
    clCreateCommandQueue When::Always => "Makes a queue exactly as the application made its own: for one query of its properties array, to learn whether the runtime times queues without profiling or refuses command buffers on other queues; and a queue for CLSCOPE_CAPTURE and CLSCOPE_SAMPLE.";
    clCreateCommandQueueWithProperties When::Always => "As clCreateCommandQueue, for queues made by this function.";
    clReleaseCommandQueue When::Always => "Gives back a queue that the recorder made.";
    clEnqueueMarker When::Always => "On a queue of the recorder's own, to learn whether the runtime times queues without profiling.";
    clGetExtensionFunctionAddressForPlatform When::Always => "Finds functions of command buffers, and with CLSCOPE_COUNTERS Intel's queue with counters.";
    clCreateCommandBufferKHR When::Always => "An empty one, to learn whether the runtime refuses command buffers on other queues.";
    clFinalizeCommandBufferKHR When::Always => "Of that command buffer.";
    clEnqueueCommandBufferKHR When::Always => "Of that command buffer.";
    clReleaseCommandBufferKHR When::Always => "Of that command buffer.";
    clSetEventCallback TIMING => "Learns when a command is complete.";
    clGetDeviceAndHostTimer SNAPSHOT => "Reads the device's clock before and after each command.";
    clDeviceMemAllocINTEL CAPTURE => "Makes room for a copy of unified shared memory, as clCreateBuffer.";
    clMemFreeINTEL CAPTURE => "Gives it back.";
    clEnqueueMemcpyINTEL CAPTURE => "Copies out of unified shared memory that a launch reaches, as clEnqueueCopyBuffer, and reads such copies.";
    clGetMemObjectInfo When::Always => "Asks for the flags of an object that is mapped, for the type of an image that is, and whether an object is released for good while it is mapped; with CLSCOPE_CAPTURE and CLSCOPE_SAMPLE for size and flags of all memory that a launch reaches, and for what sub-buffers and images are parts of.";
    clCreateBuffer CAPTURE => "Makes room for copies of a launch's memory, inside the application's own call that makes memory, or behind its wait that leaves nothing to run in the context.";
    clReleaseMemObject CAPTURE => "Gives it back.";
    clEnqueueCopyBuffer CAPTURE => "Copies out of each buffer that a launch reaches into the recorder's own, on the application's queue, before the launch and behind it.";
    clEnqueueReadBuffer CAPTURE => "Reads such copies, on a queue of the recorder's own.";
    clGetImageInfo CAPTURE => "Asks for format and size of an image that a launch reaches.";
    clGetSamplerInfo CAPTURE => "Asks for the modes of a sampler among its arguments.";
    clGetKernelArgInfo When::Settings(&["CLSCOPE_CAPTURE", "CLSCOPE_SAMPLE", "CLSCOPE_REPLACE"]) => "Asks for names and types of its arguments; compares those of a kernel that is to run in its place.";
    clEnqueueFillBuffer CAPTURE => "Writes the room for copies once, so that it really exists.";
    clEnqueueCopyImageToBuffer CAPTURE => "Copies texels out of each image that a launch reaches, as clEnqueueCopyBuffer.";
    clSVMAlloc CAPTURE => "As clCreateBuffer, for shared virtual memory.";
    clSVMFree CAPTURE => "Gives it back.";
    clEnqueueSVMMemcpy CAPTURE => "Copies out of shared virtual memory that a launch reaches, as clEnqueueCopyBuffer, and reads such copies.";
    clEnqueueSVMMemFill CAPTURE => "As clEnqueueFillBuffer.";
    clCreateProgramWithSource SOURCE => "A program of a file's text, whose kernels are to run; one of the application's source, to learn the types of arguments or whether it builds with appended options.";
    clCreateProgramWithBinary REPLACE => "A program of a file's binary.";
    clCreateProgramWithIL REPLACE => "A program of a file's SPIR-V.";
    clBuildProgram SOURCE => "Builds such a program; where the application compiles one of source, with clCompileProgram.";
    clReleaseProgram SOURCE => "Gives it back, at the latest before the application gives back its program.";
    clCreateKernel REPLACE => "A kernel of such a program.";
    clReleaseKernel REPLACE => "Gives it back.";
    clSetKernelArg REPLACE => "Gives it the arguments of the application's kernel.";
    clSetKernelArgSVMPointer REPLACE => "As clSetKernelArg.";
    clSetKernelExecInfo REPLACE => "As clSetKernelArg.";
    clCloneKernel REPLACE => "Clones it where the application clones its own.";
    clFlush When::Always => "Starts a command whose end is then asked for: with CLSCOPE_DEVICE_TIMING=sync and CLSCOPE_SNAPSHOT the application's, else one on a queue of the recorder's own.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::changes::CHANGES;
    use std::fmt::Write;

    fn page() -> String {
        let mut out = String::from(
            "# What the recorder changes, and what it calls itself\n\n\
             The real function is called once for each call of the application. The first table lists\n\
             all that may differ between the two, the second all calls that the recorder makes by itself:\n\
             never in the middle of another, and never recorded as the application's. It waits for nothing\n\
             while a user event is not set or a callback of an event has not come back, and for no command\n\
             longer than 5 s.\n\n\
             This page is made from `src/abi/changes.rs` and `src/runtime/functions.rs`; a test compares\n\
             them (`UPDATE_GOLDENS=1` writes it).\n\n\
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
