//! Which object of the process a slot's functions came from, and whether it is still there.
#![forbid(unsafe_code)]

use crate::os::objects;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A mapped object, told from another that came to lie at the same address later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Object {
    base: usize,
    /// FNV-1a of its name.
    name: u64,
}

impl Object {
    /// The object that holds an address.
    pub fn find(address: *const c_void) -> Option<Self> {
        objects::holding(address, |base, name| {
            let hash = name.to_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
            });
            Self { base, name: hash }
        })
    }
}

/// The object that a slot's functions come from, or none.
pub struct Owner {
    base: AtomicUsize,
    name: AtomicU64,
}

impl Owner {
    /// Nobody's.
    pub const fn none() -> Self {
        Self { base: AtomicUsize::new(0), name: AtomicU64::new(0) }
    }

    pub fn set(&self, to: Option<Object>) {
        let (base, name) = to.map_or((0, 0), |o| (o.base, o.name));
        self.name.store(name, Ordering::Relaxed);
        self.base.store(base, Ordering::Relaxed);
    }

    pub fn get(&self) -> Option<Object> {
        let base = self.base.load(Ordering::Relaxed);
        (base != 0).then(|| Object { base, name: self.name.load(Ordering::Relaxed) })
    }

    /// Whether it had one that is no longer in the process: another object, or none, lies there.
    pub fn has_left(&self) -> bool {
        self.get().is_some_and(|o| Object::find(o.base as *const c_void) != Some(o))
    }
}
