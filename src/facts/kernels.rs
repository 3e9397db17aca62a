//! Kernels, and their names, which filters and requests ask about.
#![forbid(unsafe_code)]

use super::{info, objects};
use crate::abi::constants as cl;
use crate::abi::entry::{H, Site};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::{HashMap, HashSet};
use crate::os::threads;
use crate::recording::{self, diag};
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_names::Kernel;
use clscope_trace::defs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether a filter on kernel names is in force.
static FILTERING: AtomicBool = AtomicBool::new(false);
/// Handles of kernels that the filter leaves out.
static LEFT_OUT: ForkSafe<HashSet<usize>> = ForkSafe::new();
/// Readable forms of the mangled names that were asked for: kernels are made again and again.
static FORMS: ForkSafe<HashMap<String, Option<[String; 3]>>> = ForkSafe::new();
/// How long the thread that reads a mangled name may take: it waits for nothing.
const READING: Duration = Duration::from_secs(1);
/// Kernels whose resources are told, by [`number`].
static DESCRIBED: ForkSafe<HashSet<u64>> = ForkSafe::new();

/// Numbers of what programs were made from and built with, by their ids: equal where those are equal.
static PROGRAMS: ForkSafe<HashMap<u32, u64>> = ForkSafe::new();
/// The same of kernels, by their handles.
static BUILT_FROM: ForkSafe<HashMap<usize, u64>> = ForkSafe::new();

/// A program was made from something, or built with something: followed in runs that draw launches,
/// where kernels of one name may be of several programs, and one program be made again and again.
pub fn program_has(program: u32, parts: &[&[u8]]) {
    if config::get().sample.is_none() || program == 0 {
        return;
    }
    PROGRAMS.with(|known| {
        let number = known.entry(program).or_default();
        let mut hasher = DefaultHasher::new();
        (*number, parts).hash(&mut hasher);
        *number = hasher.finish();
    });
}

/// A number for what a kernel's program was made from and built with; 0 where that was not seen.
pub fn built_from(kernel: H) -> u64 {
    BUILT_FROM.with(|known| known.get(&kernel.word()).copied()).flatten().unwrap_or(0)
}

/// Whether launches of this kernel are passed on untouched.
#[inline]
pub fn filtered_out(kernel: H) -> bool {
    FILTERING.load(Ordering::Relaxed)
        && LEFT_OUT.with(|set| set.contains(&kernel.word())).unwrap_or(false)
}

/// A kernel's name as requests may call it. Readable forms of a mangled one are made on a thread of
/// the recorder's own: the application's may have little stack left. Where none can be started, the
/// recorded name alone counts.
pub fn called(name: &str) -> Kernel<'_> {
    if !clscope_names::is_mangled(name) {
        return Kernel::with(name, None);
    }
    if let Some(Some(forms)) = FORMS.with(|known| known.get(name).cloned()) {
        return Kernel::with(name, forms);
    }
    let mangled = name.to_owned();
    let Some(forms) =
        threads::answer(c"clscope-names", READING, move || clscope_names::forms(&mangled))
    else {
        diag::warn(
            "names-unread",
            "a mangled name of a kernel was not read, since no thread could be started for it or it took more than a second: requests mean it by its recorded name alone",
        );
        return Kernel::with(name, None);
    };
    FORMS.with(|known| known.insert(name.to_owned(), forms.clone()));
    Kernel::with(name, forms)
}

/// Gives a kernel its id and name.
pub fn named(site: Site, kernel: H, program: u32) -> u32 {
    let kernel_id = objects::created(kernel, 0);
    let name = info::text(api::clGetKernelInfo.own(site.slot), kernel, cl::CL_KERNEL_FUNCTION_NAME);
    let patterns = &config::get().kernels;
    if !patterns.is_empty() {
        let called = called(&name);
        let out = !patterns.iter().any(|one| called.is_meant(one));
        // Handles are reused: a new kernel may pass the filter under the handle of one that did
        // not.
        LEFT_OUT.with(
            |set| {
                if out { set.insert(kernel.word()) } else { set.remove(&kernel.word()) }
            },
        );
        if out {
            FILTERING.store(true, Ordering::Relaxed);
        }
    }
    if config::get().sample.is_some() {
        let built = PROGRAMS.with(|known| known.get(&program).copied()).flatten();
        BUILT_FROM.with(|known| known.insert(kernel.word(), built.unwrap_or(0)));
    }
    let number = number(program, &name);
    recording::define(&defs::Kernel { id: kernel_id, program, name }.into());
    if program != 0 && DESCRIBED.with(|known| known.insert(number)) == Some(true) {
        resources(site, kernel, kernel_id);
    }
    kernel_id
}

/// A number for a kernel of a program: equal ones have equal resources. Ids are of one process.
fn number(program: u32, name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (recording::current().map(|r| r.pid), program, name).hash(&mut hasher);
    hasher.finish()
}

/// Tells what a kernel takes of each device of its program.
fn resources(site: Site, kernel: H, id: u32) {
    let program = info::handle(api::clGetKernelInfo.own(site.slot), kernel, info::KERNEL_PROGRAM);
    let about = api::clGetProgramInfo.own(site.slot);
    let devices = info::handles(about, program, info::PROGRAM_DEVICES);
    for device in devices {
        let ask = |what| info::work_group(site.slot, kernel, device, what);
        let number = |what| ask(what).map(|[first, ..]| first);
        let required = ask(cl::CL_KERNEL_COMPILE_WORK_GROUP_SIZE).filter(|sizes| *sizes != [0; 3]);
        let found = defs::Resources {
            kernel: id,
            device: objects::id(device),
            work_group: number(cl::CL_KERNEL_WORK_GROUP_SIZE),
            multiple: number(cl::CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE),
            local: number(cl::CL_KERNEL_LOCAL_MEM_SIZE),
            private: number(cl::CL_KERNEL_PRIVATE_MEM_SIZE),
            required,
            ..defs::Resources::default()
        };
        // A program that was not built for the device answers nothing.
        if found.work_group.is_some() || found.local.is_some() {
            recording::define(&found.into());
        }
    }
}
