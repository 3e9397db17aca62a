//! The only exported symbols: one per row of the table, with the body that the row's class asks
//! for. Each body exists once per slot of `real`: as exported symbol, as layer function, as wrapper
//! of an extension pointer.
//!
//! Layer tables are filled with the private `body` functions: the address of an exported symbol
//! would bind to the loader's function of the same name, and a call through it would never end.

use super::lifecycle;
use crate::abi::entry::P;
use crate::hooks;
use crate::recording::guard;
use crate::runtime::real::SLOTS;
use std::ffi::c_void;

/// Small arguments of a plain record, packed; `None` if one does not fit its bits.
macro_rules! small {
    ($(($arg:ident, $bits:literal)),*) => {{
        #[allow(unused_mut, unused_assignments)]
        let (mut packed, mut over, mut shift) = (0u64, 0u64, 0u32);
        $(
            over |= ($arg as u64) >> $bits;
            packed |= ($arg as u64) << shift;
            shift += $bits;
        )*
        let _ = shift;
        (over == 0).then_some(packed as u32)
    }};
}

/// The real function of a row, or what the call returns without one.
macro_rules! real {
    ($slot:ident, $id:literal, ($($ty:ty),*) -> $ret:ty, $errcode:expr) => {{
        // SAFETY: constants of a row of the table.
        let known = unsafe { real::known_of_row($slot, $id) };
        let real = if known.is_null() { lifecycle::find($slot, $id) } else { known };
        if real.is_null() {
            let errcode: *mut i32 = $errcode;
            if !errcode.is_null() {
                // SAFETY: the application's errcode_ret points to a cl_int.
                unsafe { *errcode = <i32 as Returned>::missing() };
            }
            return <$ret as Returned>::missing();
        }
        // SAFETY: the pointer was found under the row's name, and the row has its signature from
        // the registry.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($ty),*) -> $ret>(real) }
    }};
}

macro_rules! body {
    (plain $id:literal $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty { object: $object:expr, small: [$($small:tt),*], keep: [$($keep:expr),*] }) => {
        #[inline(always)]
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, null_mut());
            // SAFETY: the application's own call, arguments untouched.
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else { return unsafe { real($($arg),*) } };
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: no errcode_ret here.
            let code = unsafe { returned.code(std::ptr::null()) };
            entered.plain($id, code, move || $object, small!($($small),*), move || [$($keep),*]);
            returned
        }
    };
    (call $id:literal $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty { errcode: $errcode:expr, keep: [$($keep:expr),*] }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, $errcode);
            // SAFETY: the application's own call, arguments untouched.
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else { return unsafe { real($($arg),*) } };
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: errcode_ret is NULL or was written by the call.
            let code = unsafe { returned.code($errcode) };
            entered.call($id, code, &[$($keep),*]);
            returned
        }
    };
    (call_pointer $id:literal $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty { errcode: $errcode:expr, keep: [$($keep:expr),*] }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, $errcode);
            // SAFETY: the application's own call, arguments untouched.
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else { return unsafe { real($($arg),*) } };
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: errcode_ret is NULL or was written by the call.
            let code = unsafe { returned.code($errcode) };
            entered.call($id, code, &[returned as u64, $($keep),*]);
            returned
        }
    };
    (create $id:literal $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty { errcode: $errcode:expr, format: $format:expr, keep: [$($keep:expr),*] }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, $errcode);
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else {
                // SAFETY: the application's own call, arguments untouched.
                let returned = unsafe { real($($arg),*) };
                // SAFETY: the call succeeded: a given format is one that the runtime has read.
                hooks::created_unrecorded(returned, || unsafe { hooks::element_size($format) });
                return returned;
            };
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: errcode_ret is NULL or was written by the call.
            let code = unsafe { returned.code($errcode) };
            // SAFETY: as above.
            let element = if code == 0 { unsafe { hooks::element_size($format) } } else { 0 };
            let id = u64::from(objects::created(returned, element));
            entered.call($id, code, &[id, $($keep),*]);
            returned
        }
    };
    (create_event $id:literal $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty { errcode: $errcode:expr, format: $format:expr, keep: [$($keep:expr),*] }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, $errcode);
            // SAFETY: the application's own call, arguments untouched.
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else { return unsafe { real($($arg),*) } };
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: errcode_ret is NULL or was written by the call.
            let code = unsafe { returned.code($errcode) };
            let command = if code == 0 { hooks::foreign_event(returned) } else { 0 };
            entered.call($id, code, &[command, $($keep),*]);
            returned
        }
    };
    (enqueue $id:literal $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty {
        errcode: $errcode:expr,
        queue: $queue:expr,
        kind: $kind:expr,
        object: $object:expr,
        object2: $object2:expr,
        bytes: $bytes:expr,
        blocking: $blocking:expr,
        waits: ($count:expr, $list:expr),
        event: $event:ident,
        extra: $extra:expr,
        geometry: $geometry:expr,
        host_memory: $host_memory:expr,
        keep: [$($keep:expr),*],
    }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, $errcode);
            let site = Site { slot: S, function: $id };
            let Some(mut entered) = guard::enter(site) else {
                // SAFETY: the application's own call, arguments untouched.
                let returned = unsafe { real($($arg),*) };
                if const { hooks::given::changes($kind) } {
                    // SAFETY: errcode_ret is NULL or was written by the call.
                    let code = unsafe { returned.code($errcode) };
                    hooks::given::unrecorded(site, code, $object, || $host_memory, returned.address());
                }
                return returned;
            };
            let bytes = if const { hooks::enqueue::tells_size($kind) } { $bytes } else { 0 };
            let mut plan = hooks::enqueue::plan(&mut entered, site, $queue, $kind, $object, bytes);
            let asked: *mut H = $event;
            let $event = plan.slot(asked);
            // SAFETY: the application's call; its event slot is its own or, where it passed NULL, a
            // slot of the recorder that outlives the call.
            let mut returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: errcode_ret is NULL or was written by the call.
            let mut code = unsafe { returned.code($errcode) };
            if code != 0 && plan.failed(site, code, $blocking as u32 != 0) {
                let $event = asked;
                // SAFETY: the application's own call, arguments untouched.
                returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
                // SAFETY: as above.
                code = unsafe { returned.code($errcode) };
            }
            if code == 0 {
                let what = hooks::enqueue::What {
                    site,
                    kind: $kind,
                    object: $object,
                    object2: $object2,
                    bytes: $bytes,
                    blocking: $blocking as u32 != 0,
                    waits: (($count) as u32, $list),
                    event: asked,
                    extra: $extra,
                    geometry: $geometry,
                };
                let memory = $host_memory;
                // SAFETY: the call has succeeded.
                unsafe { hooks::enqueue::enqueued_with(entered, &what, &plan, memory, returned.address()) };
            } else {
                hooks::checked::failed($id, plan.call_site());
                entered.call($id, code, &[$($keep),*]);
            }
            returned
        }
    };
    (enqueue_untimed $id:literal $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty {
        errcode: $errcode:expr, queue: $queue:expr, kind: $kind:expr, waits: ($count:expr, $list:expr),
        keep: [$($keep:expr),*]
    }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, $errcode);
            // SAFETY: the application's own call, arguments untouched.
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else { return unsafe { real($($arg),*) } };
            let site = Site { slot: S, function: $id };
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: no errcode_ret here.
            let code = unsafe { returned.code(std::ptr::null()) };
            if code == 0 {
                let what = hooks::enqueue::What {
                    site,
                    kind: $kind,
                    object: H::NULL,
                    object2: H::NULL,
                    bytes: 0,
                    blocking: false,
                    waits: (($count) as u32, $list),
                    event: null_mut(),
                    extra: 0,
                    geometry: hooks::Geometry::NONE,
                };
                let plan = hooks::enqueue::plan_without_event(&entered, site, $queue);
                // SAFETY: the call has succeeded.
                unsafe { hooks::enqueue::enqueued(entered, &what, &plan, null_mut()) };
            } else {
                entered.call($id, code, &[$($keep),*]);
            }
            returned
        }
    };
    (hook $id:literal $name:ident ($($arg:ident : $ty:ty),*) -> $ret:ty { }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, null_mut());
            // SAFETY: the application's own call; the hook states what it changes.
            unsafe { hooks::$name(Site { slot: S, function: $id }, real, $($arg),*) }
        }
    };
}

macro_rules! entries {
    ($($class:ident $id:literal $name:ident ( $($arg:ident : $ty:ty),* ) -> $ret:ty { $($meaning:tt)* })*) => {
        $(
            #[allow(non_snake_case, clippy::missing_safety_doc, clippy::unnecessary_cast, clippy::too_many_arguments, unused_imports)]
            mod $name {
                use super::*;
                use crate::abi::entry::{Returned, Site};
                use crate::shell::lifecycle;
                use crate::shell::exports::{body, real, small};
                use crate::recording::guard;
use crate::runtime::real;
                use std::ffi::c_void;
                body! { $class $id $name ($($arg: $ty),*) -> $ret { $($meaning)* } }
            }

            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]
            pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
                // SAFETY: the application's own call.
                unsafe { $name::body::<{ crate::runtime::real::PRELOAD }>($($arg),*) }
            }
        )*

        /// The bodies of all functions, by slot (from 1 on: slot 0 are the exported symbols) and
        /// id.
        pub static BODIES: [[crate::shell::exports::Address; COUNT]; crate::runtime::real::SLOTS - 1] = [
            [$(crate::shell::exports::Address($name::body::<1> as *const _)),*],
            [$(crate::shell::exports::Address($name::body::<2> as *const _)),*],
            [$(crate::shell::exports::Address($name::body::<3> as *const _)),*],
            [$(crate::shell::exports::Address($name::body::<4> as *const _)),*],
            [$(crate::shell::exports::Address($name::body::<5> as *const _)),*],
        ];
    };
}

pub(crate) use {body, entries, real, small};

const _: () = assert!(SLOTS == 6, "BODIES lists one row per slot");

/// Address of a function, in a static.
#[repr(transparent)]
pub struct Address(pub *const c_void);

// SAFETY: an address of code, never written.
unsafe impl Sync for Address {}

/// The function to hand out for `function` in `slot`.
pub fn address(slot: usize, function: u16) -> *mut c_void {
    crate::shell::table::BODIES
        .get(slot.wrapping_sub(1))
        .and_then(|row| row.get(function as usize))
        .map_or(std::ptr::null_mut(), |a| a.0.cast_mut())
}

/// What the audit shim asks: the function to bind in place of the one at `bound` that a loader
/// defines as `name`.
///
/// # Safety
/// `name` is a C string, `bound` the address of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clscope_bind(name: P, bound: P) -> P {
    lifecycle::ready();
    // SAFETY: the caller's promise.
    guard::protect(bound, || unsafe { hooks::extension::replacement(name, bound) })
}
