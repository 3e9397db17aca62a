//! The only exported symbols: one per row of the table, with the body that the row's class asks
//! for. Each body exists once per slot of `real`: as exported symbol, as layer function, as wrapper
//! of an extension pointer.
//!
//! Layer tables are filled with the private `body` functions: the address of an exported symbol
//! would bind to the loader's function of the same name, and a call through it would never end.

use super::lifecycle;
use crate::abi::entry::{H, P, Returned, Site};
use crate::abi::functions::COUNT;
use crate::abi::table::table;
use crate::facts::objects;
use crate::hooks::given::Use;
use crate::hooks::{self, Geometry, command_buffer_queue, extension, region_bytes};
use crate::recording::guard;
use crate::runtime::real::{self, SLOTS};
use clscope_trace::record::CommandKind;
use std::ffi::c_void;
use std::ptr::null_mut;

/// What a row says, else what is usual.
macro_rules! or {
    ($usual:expr;) => {
        $usual
    };
    ($usual:expr; $given:expr) => {
        $given
    };
}

/// The word of a kept argument.
macro_rules! word {
    (Object $arg:ident) => { objects::word($arg) };
    (Event $arg:ident) => { objects::event_word($arg) };
    ($kind:ident $arg:ident $(as $cut:ident)?) => { $arg $(as $cut)? as u64 };
}

/// The word of what a call that failed would have returned.
macro_rules! nothing {
    ($returned:ident) => {
        0
    };
}

/// The object of a plain record, by its id.
macro_rules! object {
    () => { 0 };
    (Object $arg:ident $($rest:tt)*) => { objects::id($arg) };
    (Event $arg:ident $($rest:tt)*) => { objects::event_id($arg) };
    ($kind:ident $arg:ident $(as $cut:ident)? : $bits:literal $(, $($rest:tt)*)?) => {
        object!($($($rest)*)?)
    };
}

/// Small arguments of a plain record, packed; `None` if one does not fit its bits.
macro_rules! small {
    ($($kind:ident $arg:ident $(as $cut:ident)? : $bits:literal),*) => {{
        #[allow(unused_mut, unused_assignments)]
        let (mut packed, mut over, mut shift) = (0u64, 0u64, 0u32);
        $(small!(packed over shift $kind $arg $(as $cut)? : $bits);)*
        let _ = shift;
        (over == 0).then_some(packed as u32)
    }};
    ($packed:ident $over:ident $shift:ident Object $arg:ident : $bits:literal) => {};
    ($packed:ident $over:ident $shift:ident Event $arg:ident : $bits:literal) => {};
    ($packed:ident $over:ident $shift:ident $kind:ident $arg:ident $(as $cut:ident)? : $bits:literal) => {
        $over |= word!($kind $arg $(as $cut)?) >> $bits;
        $packed |= word!($kind $arg $(as $cut)?) << $shift;
        $shift += $bits;
    };
}

/// The real function of a row, or what the call returns without one.
macro_rules! real {
    ($slot:ident, $id:literal, ($($ty:ty),*) -> $ret:ty, $errcode:expr) => {{
        // SAFETY: constants of a row of the table.
        let known = unsafe { real::known_of_row($slot, $id) };
        let real = if known.is_null() { find($slot, $id) } else { known };
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
    (plain $id:literal $name:ident ($($arg:ident: $ty:ty),*) -> $ret:ty; [$($keep:expr),*] [$($plain:tt)*] { }) => {
        #[inline(always)]
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, null_mut());
            // SAFETY: the application's own call, arguments untouched.
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else { return unsafe { real($($arg),*) } };
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: no errcode_ret here.
            let code = unsafe { returned.code(std::ptr::null()) };
            entered.plain($id, code, move || object!($($plain)*), small!($($plain)*), move || [$($keep),*]);
            returned
        }
    };
    (call $id:literal $name:ident ($($arg:ident: $ty:ty),*) -> $ret:ty $(as $returned:ident)?; [$($keep:expr),*] $plain:tt { $(errcode: $errcode:ident,)? }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, or!(null_mut(); $($errcode)?));
            // SAFETY: the application's own call, arguments untouched.
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else { return unsafe { real($($arg),*) } };
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: errcode_ret is NULL or was written by the call.
            let code = unsafe { returned.code(or!(null_mut(); $($errcode)?)) };
            entered.call($id, code, &[$(word!($returned returned),)? $($keep),*]);
            returned
        }
    };
    (create $id:literal $name:ident ($($arg:ident: $ty:ty),*) -> $ret:ty $(as $returned:ident)?; [$($keep:expr),*] $plain:tt { $(errcode: $errcode:ident,)? $(format: $format:ident,)? }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, or!(null_mut(); $($errcode)?));
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else {
                // SAFETY: the application's own call, arguments untouched.
                let returned = unsafe { real($($arg),*) };
                // SAFETY: the call succeeded: a given format is one that the runtime has read.
                hooks::created_unrecorded(returned, || unsafe { hooks::element_size(or!(null_mut(); $($format)?)) });
                return returned;
            };
            hooks::begin_making();
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: errcode_ret is NULL or was written by the call.
            let code = unsafe { returned.code(or!(null_mut(); $($errcode)?)) };
            // SAFETY: as above.
            let element = if code == 0 { unsafe { hooks::element_size(or!(null_mut(); $($format)?)) } } else { 0 };
            let id = u64::from(objects::created(returned, element));
            hooks::made(entered, $id, code, &[id, $($keep),*]);
            returned
        }
    };
    (create_event $id:literal $name:ident ($($arg:ident: $ty:ty),*) -> $ret:ty $(as $returned:ident)?; [$($keep:expr),*] $plain:tt { $(errcode: $errcode:ident,)? }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, or!(null_mut(); $($errcode)?));
            // SAFETY: the application's own call, arguments untouched.
            let Some(entered) = guard::enter(Site { slot: S, function: $id }) else { return unsafe { real($($arg),*) } };
            // SAFETY: as above.
            let returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: errcode_ret is NULL or was written by the call.
            let code = unsafe { returned.code(or!(null_mut(); $($errcode)?)) };
            let command = if code == 0 { hooks::foreign_event(returned) } else { 0 };
            entered.call($id, code, &[command, $($keep),*]);
            returned
        }
    };
    (enqueue $id:literal $name:ident ($($arg:ident: $ty:ty),*) -> $ret:ty $(as $returned:ident)?; [$($keep:expr),*] $plain:tt {
        $(errcode: $errcode:ident,)?
        queue: $queue:expr,
        kind: $kind:ident,
        waits: ($count:expr, $list:expr),
        event: $event:ident,
        $(object: $object:ident,)?
        $(object2: $object2:ident,)?
        $(bytes: $bytes:expr,)?
        $(blocking: $blocking:ident,)?
        $(extra: $extra:ident,)?
        $(geometry: $geometry:expr,)?
        $(host_memory: $host_memory:expr,)?
    }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, or!(null_mut(); $($errcode)?));
            let site = Site { slot: S, function: $id };
            const KIND: CommandKind = CommandKind::$kind;
            let object = or!(H::NULL; $($object)?);
            let blocking = or!(0; $($blocking)?) as u32 != 0;
            let Some(mut entered) = guard::enter(site) else {
                // SAFETY: the application's own call, arguments untouched.
                let returned = unsafe { real($($arg),*) };
                if const { hooks::given::changes(KIND) } {
                    // SAFETY: errcode_ret is NULL or was written by the call.
                    let code = unsafe { returned.code(or!(null_mut(); $($errcode)?)) };
                    // SAFETY: the application's arrays are as the function specifies.
                    let memory = || unsafe { or!(Use::None; $($host_memory)?) };
                    hooks::given::unrecorded(site, code, object, memory, returned.address());
                }
                return returned;
            };
            // SAFETY: the application's arrays are as the function specifies.
            let bytes = || unsafe { or!(0; $($bytes)?) };
            // SAFETY: as above.
            let queue = unsafe { $queue };
            let size = if const { hooks::enqueue::tells_size(KIND) } { bytes() } else { 0 };
            let mut plan = hooks::enqueue::plan(&mut entered, site, queue, KIND, object, size);
            let asked: *mut H = $event;
            let $event = plan.slot(asked);
            // SAFETY: the application's call; its event slot is its own or, where it passed NULL, a
            // slot of the recorder that outlives the call.
            let mut returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
            // SAFETY: errcode_ret is NULL or was written by the call.
            let mut code = unsafe { returned.code(or!(null_mut(); $($errcode)?)) };
            if code != 0 && plan.failed(site, code, blocking) {
                let $event = asked;
                // SAFETY: the application's own call, arguments untouched.
                returned = guard::real_call(&entered, || unsafe { real($($arg),*) });
                // SAFETY: as above.
                code = unsafe { returned.code(or!(null_mut(); $($errcode)?)) };
            }
            if code == 0 {
                let what = hooks::enqueue::What {
                    site,
                    kind: KIND,
                    object,
                    object2: or!(H::NULL; $($object2)?),
                    bytes: bytes(),
                    blocking,
                    waits: (($count) as u32, $list),
                    event: asked,
                    extra: or!(0; $($extra)?) as u32,
                    geometry: or!(Geometry::NONE; $($geometry)?),
                };
                // SAFETY: the application's arrays are as the function specifies.
                let memory = unsafe { or!(Use::None; $($host_memory)?) };
                // SAFETY: the call has succeeded.
                unsafe { hooks::enqueue::enqueued_with(entered, &what, &plan, memory, returned.address()) };
            } else {
                hooks::checked::failed($id, plan.call_site());
                entered.call($id, code, &[$(nothing!($returned),)? $($keep),*]);
            }
            returned
        }
    };
    (enqueue_untimed $id:literal $name:ident ($($arg:ident: $ty:ty),*) -> $ret:ty; [$($keep:expr),*] $plain:tt {
        queue: $queue:ident, kind: $kind:ident, waits: ($count:expr, $list:expr),
    }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, null_mut());
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
                    kind: CommandKind::$kind,
                    object: H::NULL,
                    object2: H::NULL,
                    bytes: 0,
                    blocking: false,
                    waits: (($count) as u32, $list),
                    event: null_mut(),
                    extra: 0,
                    geometry: Geometry::NONE,
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
    (hook $id:literal $name:ident ($($arg:ident: $ty:ty),*) -> $ret:ty $(as $returned:ident)?; [$($keep:expr),*] $plain:tt { }) => {
        pub unsafe extern "C-unwind" fn body<const S: usize>($($arg: $ty),*) -> $ret {
            let real = real!(S, $id, ($($ty),*) -> $ret, null_mut());
            // SAFETY: the application's own call; the hook states what it changes.
            unsafe { hooks::$name(Site { slot: S, function: $id }, real, $($arg),*) }
        }
    };
}

macro_rules! entries {
    ($(
        $class:ident $id:literal $name:ident ($($parameter:ident: $ty:ty),*)
        -> $ret:ty $(as $returned:ident)?, $origin:literal $group:literal
        [$($kind:ident $arg:ident $(as $cut:ident)? $(: $bits:literal)?),*] $meaning:tt
    )*) => {
        $(
            #[allow(
                non_snake_case,
                clippy::missing_safety_doc,
                clippy::unnecessary_cast,
                clippy::too_many_arguments,
                unused_imports,
                unused_unsafe
            )]
            mod $name {
                use super::*;
                body! {
                    $class $id $name ($($parameter: $ty),*) -> $ret $(as $returned)?;
                    [$(word!($kind $arg $(as $cut)?)),*] [$($kind $arg $(as $cut)? $(: $bits)?),*] $meaning
                }
            }

            #[unsafe(no_mangle)]
            #[allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]
            pub unsafe extern "C-unwind" fn $name($($parameter: $ty),*) -> $ret {
                // SAFETY: the application's own call.
                unsafe { $name::body::<{ real::PRELOAD }>($($parameter),*) }
            }
        )*

        /// The bodies of all functions, by slot (from 1 on: slot 0 are the exported symbols) and
        /// id.
        pub static BODIES: [[Address; COUNT]; SLOTS - 1] = [
            [$(Address($name::body::<1> as *const _)),*],
            [$(Address($name::body::<2> as *const _)),*],
            [$(Address($name::body::<3> as *const _)),*],
            [$(Address($name::body::<4> as *const _)),*],
            [$(Address($name::body::<5> as *const _)),*],
        ];
    };
}

table!(entries);

const _: () = assert!(SLOTS == 6, "BODIES lists one row per slot");

/// Address of a function, in a static.
#[repr(transparent)]
pub struct Address(pub *const c_void);

// SAFETY: an address of code, never written.
unsafe impl Sync for Address {}

/// Tells the layers below what they call of those above. On every way into the library, since
/// another library's constructor may call OpenCL before ours runs.
pub fn ready() {
    lifecycle::ready();
    extension::addresses(&(address as extension::Address));
}

/// The real function of a row that was not called before; NULL if there is none.
#[cold]
#[inline(never)]
fn find(slot: usize, function: u16) -> *mut c_void {
    ready();
    real::find(slot, function)
}

/// The function to hand out for `function` in `slot`.
pub fn address(slot: usize, function: u16) -> *mut c_void {
    BODIES
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
    ready();
    // SAFETY: the caller's promise.
    guard::protect(bound, || unsafe { extension::replacement(name, bound) })
}
