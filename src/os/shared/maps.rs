//! Hash maps and sets of the recorder. The standard library's own ask the system for random numbers
//! where a thread makes its first one, and an application may have forbidden that call in a sandbox.
//! These need none, because their keys are the process's own handles, names and numbers.
#![forbid(unsafe_code)]

use std::hash::{BuildHasherDefault, DefaultHasher};

/// A hash map that asks the system for nothing.
pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
/// A hash set that asks the system for nothing.
pub type HashSet<T> = std::collections::HashSet<T, BuildHasherDefault<DefaultHasher>>;
