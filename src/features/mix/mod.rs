//! Owns `CLSCOPE_MIX`: at the first launch of a kernel, geometry and local sizes, or at every Nth,
//! a copy of the kernel that counts its basic blocks (`shadow`) runs beside the application's
//! launch, with the same arguments, buffers saved before and restored after. The application's
//! launch, its programs and what it is told of them stay as they are. Launches that cannot be run a
//! second time have their reason in the trace, once for each kernel.

mod shadow;
mod verbose;

#[cfg(not(test))]
pub use shadow::{context_ends, program_ends};

use super::beside::{self, Alone, Aside, Calls, Command, Sizes, What, said};
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::{self, Argument, Kernel, Memory, ask, word};
use crate::facts::{info, kernels, objects};
use crate::os::fork_safe::ForkSafe;
use crate::os::maps::{HashMap, HashSet};
use crate::recording;
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::defs::{self, KernelArgument};
use clscope_trace::values;
use shadow::Shadow;
use std::sync::Arc;

/// What was seen of launches.
#[derive(Default)]
struct Seen {
    /// Launches by kernel, geometry and local sizes.
    launches: HashMap<u64, u64>,
    /// Reasons that were told, by kernel.
    told: HashSet<(u64, String)>,
}

static SEEN: ForkSafe<Seen> = ForkSafe::new();

/// Whether a launch is counted, by how many there were before.
fn due(which: values::Mix, before: u64) -> bool {
    match which {
        values::Mix::First => before == 0,
        values::Mix::Every(n) => before.is_multiple_of(n),
    }
}

/// Counts the instructions of a launch whose turn it is, or notes why not.
///
/// # Safety
/// Arguments of a launch by the specification, live during the call.
pub unsafe fn command(slot: usize, command: &Command<'_>) {
    let Some(which) = config::get().mix else { return };
    let What::Launch { kernel: handle, dimensions, sizes } = command.what else { return };
    // SAFETY: the caller's promise.
    let Some(sizes) = (unsafe { beside::sizes(dimensions, sizes) }) else { return };
    if objects::id(handle) == 0 || kernels::filtered_out(handle) {
        return;
    }
    // SAFETY: the caller's promise.
    let (kernel, identity) = unsafe { arguments::kernel(slot, handle) };
    let key = kernel.local_sizes(word(identity, sizes.number()));
    let turn = SEEN.with(|seen| {
        let before = seen.launches.entry(key).or_insert(0);
        let due = due(which, *before);
        *before += 1;
        due
    });
    if turn != Some(true) {
        return;
    }
    let mut out = defs::Mix {
        kernel: objects::id(handle),
        queue: objects::id(command.queue),
        offset: sizes.offset.clone(),
        global: sizes.global.clone(),
        local: sizes.local.clone(),
        ..defs::Mix::default()
    };
    let now = recording::now();
    let counted = match (beside::may_not_wait(), Alone::take(now)) {
        (None, Some(alone)) => {
            out.before = objects::next_command();
            let counted = count(slot, command, handle, &kernel, &sizes, &mut out);
            out.took = alone.took();
            counted.map_err(|why| (why, true))
        }
        (why, _) => Err((
            why.unwrap_or_else(|| "another thread's launch was counted at that time".to_owned()),
            false,
        )),
    };
    if let Err((why, for_ever)) = counted {
        let news = SEEN.with(|seen| {
            if !for_ever {
                // The next launch takes its turn.
                seen.launches.insert(key, 0);
            }
            seen.told.insert((identity, why.clone()))
        });
        if news != Some(true) {
            return;
        }
        out.refused = why;
        out.classes.clear();
        out.transactions.clear();
        out.blocks.clear();
    }
    recording::define(&out.into());
}

/// What arguments say.
fn told(slot: usize, kernel: &Kernel) -> Vec<KernelArgument> {
    let argument = |(index, argument): (&u32, &Argument)| {
        let (kind, size, value) = match argument {
            Argument::Value(bytes) => {
                let mut word = [0u8; 8];
                let fits = word.get_mut(..bytes.len()).map(|to| to.copy_from_slice(bytes));
                let value = fits.map(|()| u64::from_le_bytes(word));
                ("value", Some(bytes.len() as u64), value)
            }
            Argument::Local(size) => ("local", Some(*size as u64), None),
            Argument::Shared(_) => ("shared", None, None),
            Argument::Object(object) => {
                let about = api::clGetMemObjectInfo.behind(slot);
                let size = || ask::<usize>(about, *object, cl::CL_MEM_SIZE).map(|n| n as u64);
                match arguments::memory(*object) {
                    Some(Memory::Buffer) => ("buffer", size(), None),
                    Some(Memory::Image) => ("image", size(), None),
                    Some(Memory::Pipe) => ("pipe", None, None),
                    Some(Memory::Sampler) => ("sampler", None, None),
                    None => ("object", None, None),
                }
            }
        };
        KernelArgument { index: *index, kind: kind.to_owned(), size, value }
    };
    kernel
        .arguments
        .iter()
        .filter(|(index, _)| **index != arguments::BESIDE)
        .map(argument)
        .collect()
}

/// Runs the copy of the kernel and reads its counters.
fn count(
    slot: usize,
    command: &Command<'_>,
    handle: H,
    kernel: &Kernel,
    sizes: &Sizes,
    out: &mut defs::Mix,
) -> Result<(), String> {
    let calls = Calls::of(slot).ok_or("the runtime lacks a function that is needed")?;
    out.arguments = told(slot, kernel);
    let mut aside = Aside::new(slot, calls, command.queue)?;
    out.device = objects::id(aside.device);
    let memory = beside::written(slot, handle, kernel)?;
    let shadow = shadow::shadow_of(slot, handle, &aside)?;
    let name = info::text(api::clGetKernelInfo.behind(slot), handle, cl::CL_KERNEL_FUNCTION_NAME);
    shadow.tell_resources(&name, objects::id(handle), objects::id(aside.device));
    beside::settle(slot, &calls, command)?;
    out.saved = aside.save(&memory)?;
    let counts = launched(slot, &aside, &shadow, &name, kernel, sizes, out);
    // Whatever happened, the application's launch finds the buffers as they were.
    let back = aside.put_back();
    if counts.is_err() {
        // Its counters may hold half of a launch.
        shadow::forget(&shadow);
    }
    let words = counts?;
    back?;
    let counted = shadow.counted();
    let counts = counted.read(&words).map_err(|error| error.to_string())?;
    let program = &counted.program;
    out.entered = program.entered(&name, &counts).unwrap_or(0);
    let items = sizes.global.iter().fold(1u64, |all, n| all.saturating_mul(*n));
    if out.entered != items {
        let entered = out.entered;
        return Err(format!(
            "the copy counted {entered} work-items of {items}: it does not count right"
        ));
    }
    out.classes = program
        .mix(&counts)
        .classes
        .iter()
        .map(|(class, tally)| defs::ClassCount {
            class: class.name().to_owned(),
            threads: tally.threads,
            warps: tally.warps,
            flop: tally.flop,
            bytes: tally.bytes,
            predicated: tally.predicated,
        })
        .collect();
    out.transactions = counts
        .transactions
        .iter()
        .filter(|(class, _)| out.classes.iter().any(|c| c.class == class.name()))
        .map(|(class, transactions)| defs::ClassTransactions {
            class: class.name().to_owned(),
            transactions: *transactions,
        })
        .collect();
    let warps = |at: usize| counts.warps.as_ref().and_then(|warps| warps.get(at)).copied();
    out.blocks = counts
        .threads
        .iter()
        .enumerate()
        .filter(|(_, threads)| **threads > 0)
        .map(|(at, threads)| defs::BlockCount {
            block: at as u32,
            threads: *threads,
            warps: warps(at),
        })
        .collect();
    let entered = |at: &&usize| counts.threads.get(**at).is_some_and(|threads| *threads > 0);
    out.loops = program.loops.iter().filter(entered).map(|at| *at as u32).collect();
    if out.classes.iter().any(|c| c.class == clscope_mix::Class::Unknown.name()) {
        out.unknown = program.unknown.clone();
    }
    out.language = shadow.language().to_owned();
    out.code = shadow.hash().to_owned();
    Ok(())
}

/// Launches the copy with the application's arguments, and reads the counters.
fn launched(
    slot: usize,
    aside: &Aside,
    shadow: &Arc<Shadow>,
    name: &str,
    kernel: &Kernel,
    sizes: &Sizes,
    out: &mut defs::Mix,
) -> Result<Vec<u64>, String> {
    let copy = shadow.kernel(slot, name)?;
    for (index, argument) in &kernel.arguments {
        let code = match argument {
            Argument::Value(bytes) => copy.set(*index, bytes),
            Argument::Local(size) => copy.set_local(*index, *size),
            Argument::Object(object) => copy.set_object(*index, *object),
            Argument::Shared(shared) => copy.set_shared(slot, *index, shared),
        };
        said(&format!("setting argument {index} of the copy that counts"), code)?;
    }
    let counters = shadow.counters(slot, aside, &copy)?;
    let mut event = H::NULL;
    let run = copy.enqueue(aside.queue, sizes, Some(&mut event));
    let finished = aside.finish();
    if !event.is_null() {
        out.counted_ns = aside.length(event).filter(|_| run == 0 && finished.is_ok());
        // SAFETY: an event of ours, released once.
        unsafe { (aside.calls.release_event)(event) };
    }
    said("launching the copy that counts", run)?;
    finished?;
    counters.read(slot, aside, shadow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_are_counted_when_it_is_their_turn() {
        let turns = |which| (0..10).filter(|n| due(which, *n)).collect::<Vec<_>>();
        assert_eq!(turns(values::Mix::First), [0]);
        assert_eq!(turns(values::Mix::Every(4)), [0, 4, 8]);
        assert_eq!(turns(values::Mix::Every(1)).len(), 10);
    }
}
