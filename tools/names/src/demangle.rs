//! Demangling of names that an application chose: bounded in length on both sides and in depth.
//! Refuses everything but functions and the names of types (`_ZTS`), which SYCL names kernels by.

use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};
use std::fmt;

/// Longest name that is demangled, and longest that comes of it, in bytes. Substitutions make names
/// grow exponentially.
pub const MOST: usize = 8 << 10;
/// Deepest nesting.
const DEPTH: u32 = 96;
/// What the demangler calls the name of a type.
const TYPE_NAME: &str = "typeinfo name for ";

struct Bounded(String);

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MOST {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

fn with(name: &str, options: DemangleOptions) -> Option<String> {
    if !crate::is_mangled(name) || name.len() > MOST {
        return None;
    }
    let parse = ParseOptions::default().recursion_limit(DEPTH);
    let symbol = Symbol::new_with_options(name, &parse).ok()?;
    let mut out = Bounded(String::new());
    symbol.structured_demangle(&mut out, &options.recursion_limit(DEPTH)).ok()?;
    let text = out.0;
    let is_type = name.starts_with("_ZTS");
    let text = if is_type { text.strip_prefix(TYPE_NAME)?.to_owned() } else { text };
    // Virtual tables, guards and the like are no kernels.
    let special = name.starts_with("_ZT") && !is_type || name.starts_with("_ZG");
    (!special && !text.is_empty()).then_some(text)
}

/// The whole of it; `None` of what is no such name.
pub fn demangled(name: &str) -> Option<String> {
    with(name, DemangleOptions::new())
}

/// Without return type and parameters.
pub fn path(name: &str) -> Option<String> {
    with(name, DemangleOptions::new().no_params().no_return_type())
}
