//! Kernels in command buffers (cl_khr_command_buffer): what was recorded into each, counted times
//! its enqueues. Refuses to give them times: the device reports one for the whole.

use crate::event::{Call, Kept};
use crate::input::Definitions;
use crate::time::ProcessIndex;
use clscope_trace::record::CommandKind;
use std::collections::{BTreeMap, HashMap};

/// Launches of each kernel that a command buffer makes when it is enqueued.
type Content = BTreeMap<u32, u64>;

/// What command buffers ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InCommandBuffers {
    /// Launches, by process and kernel.
    pub launches: BTreeMap<(ProcessIndex, u32), u64>,
    /// Enqueues of command buffers.
    pub enqueues: u64,
    /// Those of them whose recording is not in the trace.
    pub unknown: u64,
}

/// The functions that tell what is in a command buffer.
pub(super) const RECORDING: [&str; 3] =
    ["clCreateCommandBufferKHR", "clCommandNDRangeKernelKHR", "clRemapCommandBufferKHR"];

/// What is known of command buffers at a moment of the run.
#[derive(Default)]
pub(super) struct CommandBuffers {
    contents: HashMap<(ProcessIndex, u32), Content>,
}

impl CommandBuffers {
    /// A call, in the order of all threads.
    pub(super) fn add(&mut self, call: &Call<'_>, d: &Definitions, to: &mut InCommandBuffers) {
        if call.result != 0 {
            return;
        }
        if let Kept::Enqueue(enqueued) = &call.kept {
            if enqueued.record.kind == CommandKind::CommandBuffer {
                self.enqueued(call.process, enqueued.record.object, to);
            }
            return;
        }
        let Some(function) = d.function(call.function) else { return };
        if !RECORDING.contains(&function.name.as_str()) {
            return;
        }
        let object = |name: &str| {
            let mut arguments = call.arguments(function);
            let value = arguments.find(|a| a.argument.name == name)?.value;
            u32::try_from(value).ok().filter(|id| *id != 0)
        };
        match function.name.as_str() {
            "clCommandNDRangeKernelKHR" => {
                if let (Some(buffer), Some(kernel)) = (object("command_buffer"), object("kernel"))
                    && let Some(content) = self.contents.get_mut(&(call.process, buffer))
                {
                    *content.entry(kernel).or_default() += call.count();
                }
            }
            // A command buffer for other queues, with the same commands.
            "clRemapCommandBufferKHR" => {
                if let (Some(buffer), Some(new)) = (object("command_buffer"), object("return"))
                    && let Some(content) = self.contents.get(&(call.process, buffer)).cloned()
                {
                    self.contents.insert((call.process, new), content);
                }
            }
            _ => {
                if let Some(new) = object("return") {
                    self.contents.insert((call.process, new), Content::new());
                }
            }
        }
    }

    fn enqueued(&mut self, process: ProcessIndex, buffer: u32, to: &mut InCommandBuffers) {
        to.enqueues += 1;
        let Some(content) = self.contents.get(&(process, buffer)) else {
            to.unknown += 1;
            return;
        };
        for (kernel, launches) in content {
            *to.launches.entry((process, *kernel)).or_default() += launches;
        }
    }
}
