//! Callbacks of the application. Each is replaced by a function of the recorder. It lifts the
//! guard, so that OpenCL calls from inside are recorded as the application's, and then calls the
//! application's callback with its own arguments. A pair of the two is harmless by itself: it is
//! used by a call of the runtime, whose caller promises that the application gave them for it.

use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::facts::user_events;
use crate::features::device_time;
use crate::recording::{self, guard};

/// The application's function and its user data.
struct Wrapped {
    function: P,
    data: P,
}

/// A pair to pass instead of the application's: NULL stays NULL.
pub struct Pair {
    pub function: P,
    pub data: P,
    boxed: *mut Wrapped,
}

impl Pair {
    fn new(ours: P, function: P, data: P) -> Self {
        if function.is_null() {
            return Self { function, data, boxed: std::ptr::null_mut() };
        }
        let boxed = Box::into_raw(Box::new(Wrapped { function, data }));
        Self { function: ours, data: boxed.cast(), boxed }
    }

    /// The call failed.
    ///
    /// # Safety
    /// There will be no callback: the runtime has not kept the pair.
    pub unsafe fn refused(self) {
        if !self.boxed.is_null() {
            // SAFETY: made in `new`; the runtime did not take it (caller's promise).
            drop(unsafe { Box::from_raw(self.boxed) });
        }
    }
}

/// The application's own pair, for calls that are not its outermost.
pub fn untouched(function: P, data: P) -> Pair {
    Pair { function, data, boxed: std::ptr::null_mut() }
}

/// Declares a wrapper for one callback signature. `once`: the box is freed by the call, since there
/// is only one.
macro_rules! callback {
    ($(#[$doc:meta])* $make:ident, $ours:ident, once: $once:literal, ($($arg:ident : $ty:ty),*)) => {
        $(#[$doc])*
        pub fn $make(function: P, data: P) -> Pair {
            Pair::new($ours as P, function, data)
        }

        unsafe extern "C-unwind" fn $ours($($arg: $ty,)* user_data: P) {
            // SAFETY: `user_data` is the box made by `Pair::new`, which the runtime passes back;
            // where callbacks come once it is taken, else it stays for ever.
            let wrapped = if $once { unsafe { *Box::from_raw(user_data.cast::<Wrapped>()) } } else { unsafe { std::ptr::read(user_data.cast::<Wrapped>()) } };
            // SAFETY: the application gave this function for this signature.
            let theirs: unsafe extern "C-unwind" fn($($ty,)* P) = unsafe { std::mem::transmute(wrapped.function) };
            // SAFETY: as the specification says for this callback.
            guard::lifted(|| unsafe { theirs($($arg,)* wrapped.data) });
        }
    };
}

callback!(/** Context error reports: any number of times. */ context_notify, on_context_notify, once: false, (errinfo: P, private_info: P, cb: usize));
callback!(/** Build, compile, link and release of a program; destructors of memory objects and contexts. */ on_object, on_object_once, once: true, (object: H));
callback!(/** Freeing of SVM pointers. */ svm_free, on_svm_free, once: true, (queue: H, count: u32, pointers: P));

/// Status of an event.
pub fn event_status(function: P, data: P) -> Pair {
    Pair::new(on_event_status as P, function, data)
}

/// Where the application learns by a callback that a command is complete, it may learn of it by
/// nothing else: the command's times are read before, as after a wait.
unsafe extern "C-unwind" fn on_event_status(event: H, status: i32, user_data: P) {
    struct Over;
    impl Drop for Over {
        fn drop(&mut self) {
            user_events::callback_over();
        }
    }
    // SAFETY: the box made by `Pair::new`, which the runtime passes back once.
    let wrapped = unsafe { *Box::from_raw(user_data.cast::<Wrapped>()) };
    let _over = Over;
    if status <= cl::CL_COMPLETE {
        let now = recording::now();
        let read = || device_time::completed(guard::thread(), &[event], now);
        guard::unseen(|| guard::protect(None, read));
    }
    // SAFETY: the application gave this function for this signature.
    let theirs: unsafe extern "C-unwind" fn(H, i32, P) =
        unsafe { std::mem::transmute(wrapped.function) };
    // SAFETY: as the specification says for this callback.
    guard::lifted(|| unsafe { theirs(event, status, wrapped.data) });
}

/// Arguments of a native kernel with ours in front: the runtime copies the block, so it may go
/// after the call.
pub struct NativeArguments {
    block: Vec<u64>,
    locations: Vec<P>,
    /// The application's own list, for a runtime that refuses one where there are no objects.
    given: P,
}

/// Words in front of the application's arguments: its function and whether it passed arguments; 16
/// bytes keep alignment.
const FRONT: usize = 2;

impl NativeArguments {
    /// Copies `size` bytes at `arguments`, and moves `locations` (addresses inside them) along.
    ///
    /// # Safety
    /// `arguments` is NULL or readable for `size` bytes; `locations` is NULL or has `count`
    /// entries.
    pub unsafe fn new(function: P, arguments: P, size: usize, locations: P, count: u32) -> Self {
        let mut block = vec![0u64; FRONT + size.div_ceil(8)];
        if let [first, second, ..] = block.as_mut_slice() {
            (*first, *second) = (function as u64, u64::from(!arguments.is_null()));
        }
        if !arguments.is_null() {
            // SAFETY: the block has room for `size` bytes behind its front; the source is the
            // caller's promise.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    arguments.cast::<u8>(),
                    block.as_mut_ptr().add(FRONT).cast::<u8>(),
                    size,
                )
            };
        }
        let mut moved = Vec::new();
        if !locations.is_null() {
            for i in 0..count as usize {
                // SAFETY: the caller's promise.
                let location = unsafe { *locations.cast::<P>().add(i) };
                let offset = (location as usize).wrapping_sub(arguments as usize);
                moved.push(if offset < size {
                    (block.as_ptr() as usize + FRONT * 8 + offset) as P
                } else {
                    location
                });
            }
        }
        Self { block, locations: moved, given: locations }
    }

    /// Function, arguments, size and locations to pass on.
    pub fn parts(&self, size: usize) -> (P, P, usize, P) {
        let locations = if self.locations.is_empty() {
            self.given
        } else {
            self.locations.as_ptr().cast_mut().cast()
        };
        (on_native_kernel as P, self.block.as_ptr().cast_mut().cast(), FRONT * 8 + size, locations)
    }
}

unsafe extern "C-unwind" fn on_native_kernel(arguments: P) {
    let words = arguments.cast::<u64>();
    // SAFETY: the runtime passes its copy of the block that `NativeArguments` laid out.
    let (function, given, theirs) = unsafe { (*words as P, *words.add(1) != 0, words.add(FRONT)) };
    // SAFETY: the application's native kernel.
    let function: unsafe extern "C-unwind" fn(P) = unsafe { std::mem::transmute(function) };
    // SAFETY: as the specification says for native kernels.
    guard::lifted(|| unsafe { function(if given { theirs.cast() } else { std::ptr::null_mut() }) });
}
