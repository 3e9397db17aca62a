//! Facts, ids and types of the entry points, from their table.
#![forbid(unsafe_code)]

use super::entry::{ArgumentInfo, FunctionInfo};
use super::table::table;
use clscope_trace::defs::ArgumentKind;
use std::ffi::CStr;

const fn c_str(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => unreachable!(),
    }
}

macro_rules! facts {
    ($(
        $class:ident $id:literal $name:ident ($($parameter:ident: $ty:ty),*)
        -> $ret:ty $(as $returned:ident)?, $origin:literal $group:literal
        [$($kind:ident $arg:ident $(as $cut:ident)? $(: $bits:literal)?),*] $meaning:tt
    )*) => {
        /// Number of entry points.
        pub const COUNT: usize = [$($id),*].len();

        /// Facts of each entry point, by id.
        pub static FUNCTIONS: [FunctionInfo; COUNT] = [$(FunctionInfo {
            name: c_str(concat!(stringify!($name), "\0")),
            origin: $origin,
            group: $group,
            hooked: matches!(stringify!($class).as_bytes(), b"hook"),
            arguments: &[
                $(ArgumentInfo { name: "return", kind: ArgumentKind::$returned, bits: 0 },)?
                $(ArgumentInfo { name: stringify!($arg), kind: ArgumentKind::$kind, bits: 0 $(+ $bits)? }),*
            ],
        }),*];

        /// Id of each function, by name.
        #[allow(non_upper_case_globals, dead_code)]
        pub mod id {
            $(pub const $name: u16 = $id;)*
        }

        /// The type of each entry point, by name.
        #[allow(non_camel_case_types, dead_code, reason = "the names of the functions; not all are called")]
        pub mod signatures {
            use crate::abi::entry::{H, P};
            $(pub type $name = unsafe extern "C-unwind" fn($($ty),*) -> $ret;)*
        }
    };
}

table!(facts);
