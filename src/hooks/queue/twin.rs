//! Queues made as the application made its own, which are asked what is not to be imitated. Each
//! lives as long as one question.

use crate::abi::constants as cl;
use crate::abi::entry::{H, Site};
use crate::abi::signatures as f;
use crate::features::device_time::{Made, Queue};
use crate::os::locks::fork_safe::ForkSafe;
use crate::recording::guard;
use crate::runtime::functions as api;
use crate::runtime::waiting;

/// A queue made exactly as the application asked for its own, for the length of one question: how a
/// runtime reports a properties array (as given, cut, or not at all) differs too much to be
/// imitated.
pub(super) struct Twin {
    pub(super) queue: H,
    release: f::clReleaseCommandQueue,
}

impl Twin {
    pub(super) fn create(site: Site, known: &Queue) -> Option<Self> {
        // SAFETY: those of a live queue, in the middle of a call that names it.
        let [context, device] =
            [known.context, known.device].map(|word| unsafe { H::from_word(word) });
        let mut code = 0;
        let release = api::clReleaseCommandQueue.own(site.slot)?;
        let queue = match &known.made {
            Made::Plain(properties) => {
                let create = api::clCreateCommandQueue.own(site.slot)?;
                // SAFETY: the application's own arguments, which made a queue before.
                unsafe { create(context, device, *properties, &mut code) }
            }
            Made::WithProperties(array) => {
                let create = api::clCreateCommandQueueWithProperties.own(site.slot)?;
                let array = array.as_ref().map_or(std::ptr::null(), |a| a.as_ptr());
                // SAFETY: as above; the array is only read.
                unsafe { create(context, device, array.cast_mut().cast(), &mut code) }
            }
            Made::Unknown => return None,
        };
        (!queue.is_null()).then_some(Self { queue, release })
    }
}

/// Whether each device's runtime reports times of commands on queues without profiling, by device.
static ANSWERS: ForkSafe<Vec<(usize, bool)>> = ForkSafe::new();

/// Whether a runtime reports times of commands on queues without profiling, as Mesa's Rusticl does
/// against the specification: then it must report them to the application too. A marker on a queue
/// that was made as the application made its own shows it, once for each device.
pub fn answers_without_profiling(site: Site, known: &Queue) -> bool {
    let found = |all: &[(usize, bool)]| {
        all.iter().find(|(device, _)| *device == known.device).map(|(_, answers)| *answers)
    };
    if let Some(answers) = ANSWERS.with(|all| found(all)).flatten() {
        return answers;
    }
    // What cannot be found out counts as no, as specified.
    let answers =
        guard::unseen(|| Twin::create(site, known).and_then(|twin| twin.tells_times(site)))
            .unwrap_or(false);
    ANSWERS.with(|all| all.push((known.device, answers)));
    answers
}

impl Twin {
    fn tells_times(&self, site: Site) -> Option<bool> {
        let marker = api::clEnqueueMarker.own(site.slot)?;
        let profiling = api::clGetEventProfilingInfo.own(site.slot)?;
        let release = api::clReleaseEvent.own(site.slot)?;
        // SAFETY: all are called on objects that were just made here.
        unsafe {
            let (mut event, mut stamp) = (H::NULL, 0u64);
            if marker(self.queue, &mut event) != 0 || event.is_null() {
                return None;
            }
            // One that does not end tells nothing, as one that is refused.
            if !waiting::ended(site.slot, event, waiting::SHORT_PATIENCE) {
                release(event);
                return None;
            }
            let code = profiling(
                event,
                cl::CL_PROFILING_COMMAND_END,
                8,
                (&raw mut stamp).cast(),
                std::ptr::null_mut(),
            );
            release(event);
            Some(code == 0)
        }
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // SAFETY: made by `of`, released once.
        guard::unseen(|| unsafe { (self.release)(self.queue) });
    }
}
