//! Owns stand-ins: functions of the recorder that replace real ones when they are looked up, only
//! in runs that ask for it (`CLSCOPE_CAPTURE`, `CLSCOPE_SNAPSHOT`, `CLSCOPE_CHECK`, and what [`crate::hooks::stand_ins::replaced`] does), so that all other runs pay nothing. A stand-in
//! makes the application's call exactly once, but for those of [`crate::hooks::stand_ins::replaced`], which repeat a
//! changed call that failed; what else it does is listed in the guide. They cover every way into the
//! recorder: exported symbols, layers, and functions that were bound to or handed out as extension
//! pointers. Refuses to decide what is captured.

mod replaced;
pub mod snapshot;
mod tell;

use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Returned};
use crate::abi::functions::id;
use crate::abi::signatures as f;
use crate::facts::arguments::{self, Allocated, Memory, Shared};
use crate::facts::geometry::ONE;
use crate::facts::objects;
use crate::features::capture::{self, Launch};
use crate::features::{beside, replace};
use crate::hooks::calls::region_bytes;
use crate::hooks::checked::parts::{self, Side};
use crate::hooks::checked::stale::{self, Of};
use crate::hooks::checked::{self, host_memory};
use crate::recording::guard;
use crate::runtime::functions as api;
use crate::runtime::real::Function;
use crate::settings::config;
use clscope_trace::record::{CommandKind as K, detail};
use std::ffi::c_void;
use std::ptr::null;

/// What stands in for a function, if anything does.
#[cold]
pub fn stand_in_of(slot: usize, function: u16) -> Option<*mut c_void> {
    let wanted = config::get();
    match slot {
        _ if !wanted.captures() && !wanted.snapshot && !wanted.check && !replace::wanted() => None,
        0 => stand_in::<0>(function),
        1 => stand_in::<1>(function),
        2 => stand_in::<2>(function),
        3 => stand_in::<3>(function),
        4 => stand_in::<4>(function),
        5 => stand_in::<5>(function),
        _ => None,
    }
}

/// Functions that are looked at before they are called, or after they returned, for what runs beside
/// the application; enqueues, for snapshots, too.
macro_rules! stand_ins {
    (
        before { $($ends:ident($object:ident as $is:ident) $ending:expr;)* }
        after { $($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty $(, names($($named:ident),*))? $(, all($number:ident, $all:ident))? $(, event($event:ident))? $(, waits($count:ident, $list:ident))? $(, ahead($ahead:path))? $(, again($error:expr))? |$returned:ident| $after:expr;)* }
        enqueue { $($enqueue:ident($($given:ident: $type:ty),*) $(by $by:ident)? $(waits $count_of:ident $list_of:ident)? |$queue:ident, $real:ident| $before:expr;)* }
        changed { $($changed:ident $with:ident;)* }
    ) => {
        $(
            #[expect(non_snake_case, reason = "the name of the function it stands for")]
            unsafe extern "C-unwind" fn $name<const S: usize>($($arg: $ty),*) -> $ret {
                // Stored before the stand-in was handed out.
                // SAFETY: id and type are of one function.
                let function = unsafe { Function::<f::$name>::new(id::$name) };
                let Some(real) = function.stood_for(S) else { return <$ret as Returned>::missing() };
                if outermost(S) && is_checked_call() {
                    guard::protect((), || {
                        $($(stale::named(id::$name, Of::Object($named));)*)?
                        $(stale::named(id::$name, Of::Event($event));)?
                        // SAFETY: the application's own list, which the call is about to read.
                        $(unsafe { checked::names_all(id::$name, $number, $all) })?
                        // SAFETY: as above.
                        $(unsafe { checked::waits(id::$name, $count, $list) })?
                        $($ahead(id::$name);)?
                    });
                }
                // SAFETY: the application's own call, arguments untouched.
                let call = || unsafe { real($($arg),*) };
                let $returned = call();
                // Made once more where it failed, and the recorder has given back what may be why.
                $(let $returned = if lacked::<S>($returned, $error) { call() } else { $returned };)?
                if outermost(S) {
                    guard::protect((), || $after);
                    // SAFETY: no errcode_ret: a handle tells by itself.
                    let failed = unsafe { Returned::code($returned, null()) } != 0;
                    // What gives a handle has made something.
                    let made = size_of::<$ret>() == size_of::<H>();
                    if (failed || made) && recorded(S) {
                        guard::protect((), || checked::place(id::$name));
                    }
                }
                $returned
            }
        )*
        $(
            #[expect(non_snake_case, reason = "the name of the function it stands for")]
            unsafe extern "C-unwind" fn $ends<const S: usize>($object: H) -> i32 {
                // Stored before the stand-in was handed out.
                // SAFETY: id and type are of one function.
                let function = unsafe { Function::<f::$ends>::new(id::$ends) };
                let Some(real) = function.stood_for(S) else { return <i32 as Returned>::missing() };
                if outermost(S) {
                    guard::unseen(|| guard::protect((), || $ending));
                    if is_checked_call() {
                        guard::protect((), || stale::released(id::$ends, Of::$is($object)));
                    }
                }
                // SAFETY: the application's own call, argument untouched.
                let code = unsafe { real($object) };
                if code != 0 && recorded(S) {
                    guard::protect((), || checked::place(id::$ends));
                }
                code
            }
        )*
        $(
            #[expect(non_snake_case, reason = "the name of the function it stands for")]
            unsafe extern "C-unwind" fn $enqueue<const S: usize>($queue: H, $($given: $type,)* event: *mut H) -> i32 {
                // Stored before the stand-in was handed out.
                // SAFETY: id and type are of one function.
                let function = unsafe { Function::<f::$enqueue>::new(id::$enqueue) };
                let Some($real) = function.stood_for(S) else { return <i32 as Returned>::missing() };
                $(let $real: f::$enqueue = if replace::wanted() { replaced::$by::<S> } else { $real };)?
                if !recorded(S) {
                    // SAFETY: the application's own call, arguments untouched.
                    return unsafe { $real($queue, $($given,)* event) };
                }
                let launch = guard::unseen(|| guard::protect(None, || {
                    let mut launch = None;
                    if let Some(command) = $before && arrived::<S>(id::$enqueue, &command) {
                        // SAFETY: the application's own arguments, live during its call.
                        launch = unsafe { capture::before(S, &command, added($queue)) };
                    }
                    snapshot::before(S, $queue);
                    launch
                }));
                let mut ours = H::NULL;
                let place = if event.is_null() && snapshot::wants_event() { &raw mut ours } else { event };
                // A launch out of order waits for the copies of its memory, too.
                $(let ($count_of, $list_of) = launch.as_ref().and_then(Launch::waits).unwrap_or(($count_of, $list_of));)?
                // SAFETY: the application's call; its event slot is its own or, where there is
                // none, ours, which outlives the call, as a wait list of ours does.
                let mut code = unsafe { $real($queue, $($given,)* place) };
                if code != 0 && guard::protect(false, || capture::lifetimes::gives_back(code)) {
                    // SAFETY: as above, made once more: it has failed, and the recorder has given back
                    // what may be why.
                    code = unsafe { $real($queue, $($given,)* place) };
                }
                if let Some(launch) = launch {
                    guard::unseen(|| guard::protect((), || capture::after(launch, code)));
                }
                if code == 0 && !place.is_null() {
                    // SAFETY: the successful call has written the event.
                    guard::unseen(|| guard::protect((), || snapshot::after(S, $queue, unsafe { &*place }, !ours.is_null())));
                }
                code
            }
        )*
        fn stand_in<const S: usize>(function: u16) -> Option<P> {
            Some(match function {
                // What changes the call takes the place of what looks at it.
                $(id::$changed if replace::wanted() => replaced::$with::<S> as f::$changed as P,)*
                $(id::$name => $name::<S> as P,)*
                $(id::$ends => $ends::<S> as P,)*
                $(id::$enqueue => $enqueue::<S> as P,)*
                _ => return None,
            })
        }
    };
}

use Memory::{Buffer, Image, Pipe, Sampler};
use beside::{Command, What};
use tell::{
    WRITING, added, arrived, capture_made, image_made, is_checked_call, lacked, live, outermost,
    program_built, program_created, recorded, retained, transfer, unified_made,
};

stand_ins! {
    before {
    clReleaseProgram(program as Object) { capture::lifetimes::program_released(S, program); replace::program_ends(program); };
    clReleaseKernel(kernel as Object) replace::kernel_ends(kernel);
    clReleaseContext(context as Object) ();
    clReleaseCommandQueue(queue as Object) ();
    clReleaseMemObject(memory as Object) capture::lifetimes::released(S, memory);
    clReleaseSampler(sampler as Object) ();
    clReleaseEvent(event as Event) ();
    }
    after {
    clCreateBuffer(c: H, flags: u64, size: usize, host: P, error: *mut i32) -> H, names(c), again(error) |made| {
            arguments::memory_created(made, Buffer);
            capture_made(S, made, c, size);
            if is_checked_call() && flags & cl::CL_MEM_USE_HOST_PTR != 0 {
                checked::memory(id::clCreateBuffer, host, size, 0);
            }
        };
    clCreateBufferWithProperties(c: H, p: P, flags: u64, size: usize, host: P, error: *mut i32) -> H, names(c), again(error) |made| {
            arguments::memory_created(made, Buffer);
            capture_made(S, made, c, size);
            if is_checked_call() && flags & cl::CL_MEM_USE_HOST_PTR != 0 {
                checked::memory(id::clCreateBufferWithProperties, host, size, 0);
            }
        };
    clCreateSubBuffer(buffer: H, flags: u64, kind: u32, info: P, error: *mut i32) -> H, names(buffer) |made| {
            arguments::memory_created(made, Buffer);
            if is_checked_call() {
                // SAFETY: the runtime has read what it made the sub-buffer of.
                unsafe { checked::part(id::clCreateSubBuffer, made, kind, info) }
            }
        };
    clCreateImage(c: H, flags: u64, format: P, description: P, host: P, error: *mut i32) -> H, names(c), again(error) |made| { arguments::memory_created(made, Image); image_made(S, made, c); };
    clCreateImageWithProperties(c: H, p: P, flags: u64, format: P, description: P, host: P, error: *mut i32) -> H, names(c), again(error) |made| { arguments::memory_created(made, Image); image_made(S, made, c); };
    clCreateImage2D(c: H, flags: u64, format: P, w: usize, h: usize, row: usize, host: P, error: *mut i32) -> H, names(c), again(error) |made| { arguments::memory_created(made, Image); image_made(S, made, c); };
    clCreateImage3D(c: H, flags: u64, format: P, w: usize, h: usize, d: usize, row: usize, slice: usize, host: P, error: *mut i32) -> H, names(c), again(error) |made| { arguments::memory_created(made, Image); image_made(S, made, c); };
    clCreatePipe(c: H, flags: u64, packet: u32, most: u32, p: P, error: *mut i32) -> H, names(c) |made| arguments::memory_created(made, Pipe);
    clCreateSampler(c: H, normalized: u32, addressing: u32, filter: u32, error: *mut i32) -> H, names(c) |made| arguments::memory_created(made, Sampler);
    clCreateSamplerWithProperties(c: H, p: P, error: *mut i32) -> H, names(c) |made| arguments::memory_created(made, Sampler);
    clSetKernelArg(kernel: H, index: u32, size: usize, value: P) -> i32, names(kernel) |code| {
            // SAFETY: the runtime has read the argument where it took it.
            unsafe { arguments::argument(kernel, index, size, value, code) }
            // SAFETY: as above, for a kernel of ours.
            replace::argument(kernel, code, &format_args!("argument {index}"), |ours| Some(unsafe { api::clSetKernelArg.behind(S)?(ours, index, size, value) }));
            if is_checked_call() {
                // SAFETY: as above.
                unsafe { checked::argument(id::clSetKernelArg, kernel, index, size, value, code) }
            }
        };
    clSetKernelArgSVMPointer(kernel: H, index: u32, value: P) -> i32, names(kernel) |code| {
            arguments::shared(kernel, index, Shared::Svm(value as usize), code);
            if is_checked_call() {
                checked::svm_argument(id::clSetKernelArgSVMPointer, kernel, index, value, code);
            }
            // SAFETY: the runtime took this pointer for the application's kernel.
            replace::argument(kernel, code, &format_args!("argument {index}"), |ours| Some(unsafe { api::clSetKernelArgSVMPointer.behind(S)?(ours, index, value) }));
        };
    clSetKernelArgSVMPointerARM(kernel: H, index: usize, value: P) -> i32 |code| {
            arguments::shared(kernel, index as u32, Shared::Other, code);
            replace::argument(kernel, code, &"clSetKernelArgSVMPointerARM", |_| None);
        };
    clDeviceMemAllocINTEL(c: H, device: H, p: P, size: usize, alignment: usize, error: *mut i32) -> P, again(error) |made| unified_made(S, c, made, size, Allocated::Device);
    clHostMemAllocINTEL(c: H, p: P, size: usize, alignment: usize, error: *mut i32) -> P, again(error) |made| unified_made(S, c, made, size, Allocated::Host);
    clSharedMemAllocINTEL(c: H, device: H, p: P, size: usize, alignment: usize, error: *mut i32) -> P, again(error) |made| unified_made(S, c, made, size, Allocated::Shared);
    clMemFreeINTEL(c: H, pointer: P) -> i32 |code| if code == 0 { arguments::svm_ended(pointer) };
    clMemBlockingFreeINTEL(c: H, pointer: P) -> i32 |code| if code == 0 { arguments::svm_ended(pointer) };
    clSetKernelArgMemPointerINTEL(kernel: H, index: usize, value: P) -> i32 |code| {
            arguments::shared(kernel, index as u32, Shared::Svm(value as usize), code);
            replace::argument(kernel, code, &"clSetKernelArgMemPointerINTEL", |_| None);
        };
    clSetKernelArgDevicePointerEXT(kernel: H, index: usize, value: usize) -> i32 |code| {
            arguments::shared(kernel, index as u32, Shared::Other, code);
            replace::argument(kernel, code, &"clSetKernelArgDevicePointerEXT", |_| None);
        };
    clSetKernelExecInfo(kernel: H, name: u32, size: usize, value: P) -> i32, names(kernel) |code| {
            // SAFETY: the runtime has read the list where it took it.
            unsafe { arguments::reaches(kernel, name, size, value, code) }
            if is_checked_call() {
                // SAFETY: as above.
                unsafe { checked::reaches(id::clSetKernelExecInfo, kernel, name, size, value, code) }
            }
            // SAFETY: as above, for a kernel of ours.
            replace::argument(kernel, code, &"clSetKernelExecInfo", |ours| Some(unsafe { api::clSetKernelExecInfo.behind(S)?(ours, name, size, value) }));
        };
    clSVMAlloc(c: H, flags: u64, size: usize, alignment: u32) -> P, names(c) |made| {
            arguments::svm_made(c, made, size, flags, Allocated::Svm);
            if !made.is_null() {
                guard::unseen(|| capture::lifetimes::made(S, c, size, Some(Allocated::Svm)));
            }
            if is_checked_call() {
                checked::svm_made(id::clSVMAlloc, made, size, flags);
            }
        };
    clSVMFree(c: H, pointer: P) -> () |done| {
            arguments::svm_ended(pointer);
            if is_checked_call() {
                checked::place(id::clSVMFree);
                checked::svm_freed(id::clSVMFree, pointer);
            }
        };
    clEnqueueSVMMemcpy(queue: H, blocking: u32, to: P, from: P, size: usize, count: u32, list: *const H, event: *mut H) -> i32, names(queue), waits(count, list) |code| if is_checked_call() {
            checked::memory(id::clEnqueueSVMMemcpy, to, size, detail::WRITES);
            checked::memory(id::clEnqueueSVMMemcpy, from, size, 0);
        };
    clEnqueueSVMMemFill(queue: H, to: P, pattern: P, length: usize, size: usize, count: u32, list: *const H, event: *mut H) -> i32, names(queue), waits(count, list) |code| if is_checked_call() {
            checked::memory(id::clEnqueueSVMMemFill, to, size, detail::WRITES);
        };
    clEnqueueSVMMap(queue: H, blocking: u32, flags: u64, of: P, size: usize, count: u32, list: *const H, event: *mut H) -> i32, names(queue), waits(count, list) |code| if is_checked_call() {
            let how = if flags & WRITING == 0 { 0 } else { detail::WRITES };
            checked::memory(id::clEnqueueSVMMap, of, size, how);
        };
    clEnqueueSVMUnmap(queue: H, of: P, count: u32, list: *const H, event: *mut H) -> i32, names(queue), waits(count, list) |code| if is_checked_call() {
            checked::memory(id::clEnqueueSVMUnmap, of, 0, 0);
        };
    clEnqueueSVMFree(queue: H, count: u32, pointers: P, f: P, data: P, waits: u32, list: *const H, event: *mut H) -> i32, names(queue), waits(waits, list) |code| if is_checked_call() {
            // SAFETY: the runtime has read the list where it took it.
            unsafe { checked::frees(id::clEnqueueSVMFree, count, pointers, code) }
        };
    clRetainKernel(kernel: H) -> i32, names(kernel) |code| {
            replace::kernel_retained(kernel, code);
            retained(Of::Object(kernel), code);
        };
    clRetainProgram(program: H) -> i32, names(program) |code| retained(Of::Object(program), code);
    clRetainContext(context: H) -> i32, names(context) |code| retained(Of::Object(context), code);
    clRetainCommandQueue(queue: H) -> i32, names(queue) |code| retained(Of::Object(queue), code);
    clRetainMemObject(memory: H) -> i32, names(memory) |code| retained(Of::Object(memory), code);
    clRetainSampler(sampler: H) -> i32, names(sampler) |code| retained(Of::Object(sampler), code);
    clRetainEvent(of: H) -> i32, event(of) |code| retained(Of::Event(of), code);
    clCreateKernel(program: H, name: P, error: *mut i32) -> H, names(program) |made| {
            arguments::forget(made);
            replace::kernel_made(S, made);
        };
    clCreateKernelsInProgram(program: H, room: u32, kernels: *mut H, made: P) -> i32, names(program) |code| {
            // SAFETY: the call has written as many as it says.
            unsafe {
                arguments::forget_all(kernels, room, made.cast(), code);
                replace::kernels_made(S, kernels, room, made.cast(), code);
            }
        };
    clCloneKernel(source: H, error: *mut i32) -> H, names(source) |made| {
            arguments::cloned(source, made);
            replace::kernel_cloned(S, source, made);
        };
    clCommandNDRangeKernelKHR(buffer: H, queue: H, p: P, kernel: H, dimensions: usize, offset: *const usize, global: *const usize, local: *const usize, count: usize, list: P, point: P, mutable: *mut H) -> i32 |code| {
            guard::unseen(|| capture::in_command_buffer(S, kernel, code));
            replace::in_command_buffer(kernel);
        };
    clCreateContext(p: P, count: u32, list: *const H, f: P, data: P, error: *mut i32) -> H |made| ();
    clCreateContextFromType(p: P, kind: u64, f: P, data: P, error: *mut i32) -> H |made| ();
    clCreateCommandQueue(c: H, device: H, properties: u64, error: *mut i32) -> H, names(c) |made| ();
    clCreateCommandQueueWithProperties(c: H, device: H, p: P, error: *mut i32) -> H, names(c) |made| ();
    clCreateProgramWithSource(c: H, count: u32, texts: P, lengths: *const usize, error: *mut i32) -> H, names(c) |made| { program_created(made, "source"); replace::options::program_made(made); };
    clCreateProgramWithBinary(c: H, count: u32, list: *const H, lengths: *const usize, binaries: P, status: *mut i32, error: *mut i32) -> H, names(c) |made| { program_created(made, "binary"); replace::options::program_made(made); };
    clCreateProgramWithIL(c: H, il: P, length: usize, error: *mut i32) -> H, names(c) |made| { program_created(made, "il"); replace::options::program_made(made); };
    clCreateProgramWithILKHR(c: H, il: P, length: usize, error: *mut i32) -> H, names(c) |made| { program_created(made, "il"); replace::options::program_made(made); };
    clCreateProgramWithBuiltInKernels(c: H, count: u32, list: *const H, names: P, error: *mut i32) -> H, names(c) |made| { program_created(made, "built-in"); replace::options::program_made(made); };
    clLinkProgram(c: H, count: u32, list: *const H, options: P, of: u32, programs: *const H, f: P, data: P, error: *mut i32) -> H, names(c), all(of, programs) |made| { program_created(made, "linked"); replace::options::program_made(made); };
    clCreateUserEvent(c: H, error: *mut i32) -> H, names(c) |made| ();
    clWaitForEvents(count: u32, list: *const H) -> i32, waits(count, list), ahead(host_memory::waits) |code| if is_checked_call() {
            // SAFETY: the runtime has read the list.
            unsafe { checked::waited(id::clWaitForEvents, count, list, code) }
        };
    clFinish(queue: H) -> i32, names(queue), ahead(host_memory::waits) |code| if is_checked_call() {
            checked::place(id::clFinish);
        };
    clGetEventInfo(event: H, name: u32, size: usize, value: P, written: P) -> i32, event(event) |code| if is_checked_call() {
            // SAFETY: the runtime has written what was asked for.
            unsafe { checked::asked(id::clGetEventInfo, event, name, value, code) }
        };
    clEnqueueMapBuffer(queue: H, buffer: H, blocking: u32, flags: u64, offset: usize, size: usize, count: u32, list: *const H, event: *mut H, error: *mut i32) -> P, names(queue, buffer), waits(count, list) |mapped| {
            guard::unseen(|| capture::used(S, K::MapBuffer, Some(size as u64), &[buffer]));
            if is_checked_call() {
                checked::range(id::clEnqueueMapBuffer, offset, size, 0);
                checked::memory(id::clEnqueueMapBuffer, mapped, size, 0);
            }
        };
    clEnqueueMapImage(queue: H, image: H, blocking: u32, flags: u64, origin: *const usize, region: *const usize, row: P, slice: P, count: u32, list: *const H, event: *mut H, error: *mut i32) -> P, names(queue, image), waits(count, list) |mapped| {
            guard::unseen(|| capture::used(S, K::MapImage, None, &[image]));
            if is_checked_call() {
                // SAFETY: the runtime has read them, where it mapped.
                unsafe { parts::of_image(id::clEnqueueMapImage, Side::First, mapped.is_null(), origin, region) }
                checked::memory(id::clEnqueueMapImage, mapped, 0, 0);
            }
        };
    clEnqueueUnmapMemObject(queue: H, memory: H, mapped: P, count: u32, list: *const H, event: *mut H) -> i32, names(queue, memory), waits(count, list) |code| {
            guard::unseen(|| capture::used(S, K::UnmapMemObject, Some(0), &[memory]));
            if is_checked_call() {
                checked::memory(id::clEnqueueUnmapMemObject, mapped, 0, 0);
            }
        };
    clEnqueueFillImage(queue: H, image: H, color: P, origin: *const usize, region: *const usize, count: u32, list: *const H, event: *mut H) -> i32, names(queue, image), waits(count, list) |code| {
            guard::unseen(|| capture::used(S, K::FillImage, None, &[image]));
            if is_checked_call() {
                // SAFETY: the runtime has read them, where it took them.
                unsafe { parts::of_image(id::clEnqueueFillImage, Side::First, code != 0, origin, region) }
            }
        };
    clEnqueueCopyImage(queue: H, from: H, to: H, at: *const usize, there: *const usize, region: *const usize, count: u32, list: *const H, event: *mut H) -> i32, names(queue, from, to), waits(count, list) |code| {
            guard::unseen(|| capture::used(S, K::CopyImage, None, &[from, to]));
            if is_checked_call() {
                // SAFETY: as above.
                unsafe {
                    parts::of_image(id::clEnqueueCopyImage, Side::First, code != 0, at, region);
                    parts::of_image(id::clEnqueueCopyImage, Side::Second, code != 0, there, region);
                }
            }
        };
    clEnqueueCopyImageToBuffer(queue: H, from: H, to: H, at: *const usize, region: *const usize, offset: usize, count: u32, list: *const H, event: *mut H) -> i32, names(queue, from, to), waits(count, list) |code| {
            guard::unseen(|| capture::used(S, K::CopyImageToBuffer, None, &[from, to]));
            if is_checked_call() {
                // SAFETY: as above.
                unsafe {
                    parts::of_image(id::clEnqueueCopyImageToBuffer, Side::First, code != 0, at, region);
                    parts::packed(id::clEnqueueCopyImageToBuffer, Side::Second, from, code != 0, offset, region);
                }
            }
        };
    clEnqueueCopyBufferToImage(queue: H, from: H, to: H, offset: usize, there: *const usize, region: *const usize, count: u32, list: *const H, event: *mut H) -> i32, names(queue, from, to), waits(count, list) |code| {
            guard::unseen(|| capture::used(S, K::CopyBufferToImage, None, &[from, to]));
            if is_checked_call() {
                // SAFETY: as above.
                unsafe {
                    parts::packed(id::clEnqueueCopyBufferToImage, Side::First, to, code != 0, offset, region);
                    parts::of_image(id::clEnqueueCopyBufferToImage, Side::Second, code != 0, there, region);
                }
            }
        };
    clEnqueueMarkerWithWaitList(queue: H, count: u32, list: *const H, event: *mut H) -> i32, names(queue), waits(count, list) |code| ();
    clEnqueueBarrierWithWaitList(queue: H, count: u32, list: *const H, event: *mut H) -> i32, names(queue), waits(count, list) |code| ();
    clEnqueueMigrateMemObjects(queue: H, memories: u32, of: *const H, flags: u64, count: u32, list: *const H, event: *mut H) -> i32, names(queue), all(memories, of), waits(count, list) |code| ();
    clEnqueueMarker(queue: H, event: *mut H) -> i32, names(queue) |code| ();
    clEnqueueBarrier(queue: H) -> i32, names(queue) |code| ();
    clEnqueueWaitForEvents(queue: H, count: u32, list: *const H) -> i32, names(queue), waits(count, list) |code| ();
    clFlush(queue: H) -> i32, names(queue) |code| ();
    clGetEventProfilingInfo(of: H, name: u32, size: usize, value: P, written: P) -> i32, event(of) |code| ();
    clSetEventCallback(of: H, kind: i32, f: P, data: P) -> i32, event(of) |code| ();
    clSetUserEventStatus(of: H, status: i32) -> i32, event(of) |code| ();
    clGetPlatformIDs(room: u32, list: *mut H, count: P) -> i32 |code| ();
    clGetPlatformInfo(platform: H, name: u32, size: usize, value: P, written: P) -> i32 |code| ();
    clGetDeviceIDs(platform: H, kind: u64, room: u32, list: *mut H, count: P) -> i32 |code| ();
    clGetDeviceInfo(device: H, name: u32, size: usize, value: P, written: P) -> i32 |code| ();
    clGetSupportedImageFormats(context: H, flags: u64, kind: u32, room: u32, formats: P, count: P) -> i32, names(context) |code| ();
    clGetMemObjectInfo(memory: H, name: u32, size: usize, value: P, written: P) -> i32, names(memory) |code| ();
    clSetMemObjectDestructorCallback(memory: H, f: P, data: P) -> i32, names(memory) |code| ();
    clGetPipeInfo(pipe: H, name: u32, size: usize, value: P, written: P) -> i32, names(pipe) |code| ();
    clGetImageInfo(image: H, name: u32, size: usize, value: P, written: P) -> i32, names(image) |code| ();
    clGetKernelInfo(kernel: H, name: u32, size: usize, value: P, written: P) -> i32, names(kernel) |code| ();
    clGetKernelWorkGroupInfo(kernel: H, device: H, name: u32, size: usize, value: P, written: P) -> i32, names(kernel) |code| ();
    clGetKernelArgInfo(kernel: H, index: u32, name: u32, size: usize, value: P, written: P) -> i32, names(kernel) |code| ();
    clSetProgramReleaseCallback(program: H, f: P, data: P) -> i32, names(program) |code| ();
    clSetContextDestructorCallback(context: H, f: P, data: P) -> i32, names(context) |code| ();
    clSetCommandQueueProperty(queue: H, properties: u64, on: u32, old: P) -> i32, names(queue) |code| ();
    clBuildProgram(program: H, count: u32, list: *const H, options: P, notify: P, data: P) -> i32, names(program) |code| program_built(program);
    clCompileProgram(program: H, count: u32, list: *const H, options: P, headers: u32, h: *const H, n: P, notify: P, data: P) -> i32, names(program), all(headers, h) |code| program_built(program);
    clGetProgramBuildInfo(program: H, device: H, name: u32, size: usize, value: P, written: P) -> i32, names(program) |code| ();
    clGetProgramInfo(program: H, name: u32, size: usize, value: P, written: P) -> i32, names(program) |code| ();
    clGetCommandQueueInfo(queue: H, name: u32, size: usize, value: P, written: P) -> i32, names(queue) |code| ();
    clGetContextInfo(context: H, name: u32, size: usize, value: P, written: P) -> i32, names(context) |code| ();
    clGetSamplerInfo(sampler: H, name: u32, size: usize, value: P, written: P) -> i32, names(sampler) |code| ();
    }
    enqueue {
    clEnqueueNDRangeKernel(kernel: H, dimensions: u32, offset: *const usize, global: *const usize, local: *const usize, count: u32, list: *const H)
        by launch waits count list |queue, real| Some(Command {
            queue,
            waits: (count, list),
            what: What::Launch { kernel, dimensions, sizes: [offset, global, local] },
            live: &live,
        });
    clEnqueueTask(kernel: H, count: u32, list: *const H)
        by task waits count list |queue, real| Some(Command {
            queue,
            waits: (count, list),
            what: What::Launch { kernel, dimensions: 1, sizes: [null(), &raw const ONE, &raw const ONE] },
            live: &live,
        });
    clEnqueueReadBuffer(buffer: H, blocking: u32, offset: usize, size: usize, to: P, count: u32, list: *const H)
        |queue, real| transfer({ checked::range(id::clEnqueueReadBuffer, offset, size, 0); checked::memory(id::clEnqueueReadBuffer, to, size, detail::WRITES); host_memory::lent(blocking, to, size); queue }, (count, list), K::ReadBuffer, size as u64, &[buffer]);
    clEnqueueWriteBuffer(buffer: H, blocking: u32, offset: usize, size: usize, from: P, count: u32, list: *const H)
        |queue, real| transfer({ checked::range(id::clEnqueueWriteBuffer, offset, size, 0); checked::memory(id::clEnqueueWriteBuffer, from, size, 0); host_memory::lent(blocking, from, size); queue }, (count, list), K::WriteBuffer, size as u64, &[buffer]);
    clEnqueueCopyBuffer(from: H, to: H, at: usize, there: usize, size: usize, count: u32, list: *const H)
        |queue, real| transfer({ checked::range(id::clEnqueueCopyBuffer, at, size, there); queue }, (count, list), K::CopyBuffer, size as u64, &[from, to]);
    clEnqueueFillBuffer(buffer: H, pattern: P, pattern_size: usize, offset: usize, size: usize, count: u32, list: *const H)
        |queue, real| transfer({ checked::range(id::clEnqueueFillBuffer, offset, size, 0); queue }, (count, list), K::FillBuffer, size as u64, &[buffer]);
    clEnqueueReadBufferRect(buffer: H, blocking: u32, at: *const usize, there: *const usize, region: *const usize, row: usize, slice: usize, host_row: usize, host_slice: usize, to: P, count: u32, list: *const H)
        |queue, real| transfer({
            // SAFETY: three sizes each, by the specification.
            unsafe {
                parts::rows(id::clEnqueueReadBufferRect, Side::First, at, region, (row, slice));
                parts::host_rows(id::clEnqueueReadBufferRect, to, there, region, (host_row, host_slice), detail::WRITES);
            }
            queue
        }, (count, list), K::ReadBufferRect,
            // SAFETY: three sizes, by the specification.
            unsafe { region_bytes(region, 1) }, &[buffer]);
    clEnqueueWriteBufferRect(buffer: H, blocking: u32, at: *const usize, there: *const usize, region: *const usize, row: usize, slice: usize, host_row: usize, host_slice: usize, from: P, count: u32, list: *const H)
        |queue, real| transfer({
            // SAFETY: three sizes each, by the specification.
            unsafe {
                parts::rows(id::clEnqueueWriteBufferRect, Side::First, at, region, (row, slice));
                parts::host_rows(id::clEnqueueWriteBufferRect, from, there, region, (host_row, host_slice), 0);
            }
            queue
        }, (count, list), K::WriteBufferRect,
            // SAFETY: three sizes, by the specification.
            unsafe { region_bytes(region, 1) }, &[buffer]);
    clEnqueueCopyBufferRect(from: H, to: H, at: *const usize, there: *const usize, region: *const usize, row: usize, slice: usize, to_row: usize, to_slice: usize, count: u32, list: *const H)
        |queue, real| transfer({
            // SAFETY: three sizes each, by the specification.
            unsafe {
                parts::rows(id::clEnqueueCopyBufferRect, Side::First, at, region, (row, slice));
                parts::rows(id::clEnqueueCopyBufferRect, Side::Second, there, region, (to_row, to_slice));
            }
            queue
        }, (count, list), K::CopyBufferRect,
            // SAFETY: three sizes, by the specification.
            unsafe { region_bytes(region, 1) }, &[from, to]);
    clEnqueueReadImage(image: H, blocking: u32, origin: *const usize, region: *const usize, row: usize, slice: usize, to: P, count: u32, list: *const H)
        |queue, real| transfer({
            // SAFETY: as above.
            unsafe {
                parts::of_image(id::clEnqueueReadImage, Side::First, false, origin, region);
                parts::host_image(id::clEnqueueReadImage, image, to, region, (row, slice), detail::WRITES);
            }
            queue
        }, (count, list), K::ReadImage,
            // SAFETY: three sizes, by the specification.
            unsafe { region_bytes(region, objects::element_size(image)) }, &[image]);
    clEnqueueWriteImage(image: H, blocking: u32, origin: *const usize, region: *const usize, row: usize, slice: usize, from: P, count: u32, list: *const H)
        |queue, real| transfer({
            // SAFETY: as above.
            unsafe {
                parts::of_image(id::clEnqueueWriteImage, Side::First, false, origin, region);
                parts::host_image(id::clEnqueueWriteImage, image, from, region, (row, slice), 0);
            }
            queue
        }, (count, list), K::WriteImage,
            // SAFETY: three sizes, by the specification.
            unsafe { region_bytes(region, objects::element_size(image)) }, &[image]);
    }
    changed {
    clBuildProgram build;
    clCompileProgram compile;
    clGetProgramBuildInfo build_info;
    }
}
