//! Names of kernels. Compilers of C++ and SYCL name a kernel by its mangled signature (Itanium C++
//! ABI, section 5.1): `_Z5scaleIfEvPT_` is `scale<float>`. Owns the readable forms of one name, and
//! whether a pattern means a kernel: the recorder and the readers ask the same function. Refuses to
//! choose among the forms: that takes all kernels that are shown together (`clscope-profile`).
#![forbid(unsafe_code)]

pub mod demangle;
pub mod shorten;

use clscope_trace::names::pattern;

/// Stack that demangling takes at most, in bytes: the depth of names is bounded. Whoever may stand
/// on a smaller one asks on a thread of its own.
pub const STACK: usize = 192 << 10;

/// Whether a name is one that compilers mangle.
pub fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z")
}

/// The readable forms of a mangled name, from the shortest to the longest: without namespaces and
/// parameters, without parameters, in full. `None` of a name that is not mangled, or damaged.
pub fn forms(name: &str) -> Option<[String; 3]> {
    let full = demangle::demangled(name)?;
    let path = demangle::path(name).unwrap_or_else(|| full.clone());
    Some([shorten::last(&path), path, full])
}

/// A kernel as users call it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel<'n> {
    recorded: &'n str,
    forms: Option<[String; 3]>,
}

impl<'n> Kernel<'n> {
    /// By its recorded name. Takes [`STACK`].
    pub fn new(recorded: &'n str) -> Self {
        Self { recorded, forms: forms(recorded) }
    }

    /// By its recorded name and the readable forms of that, as [`forms`] gives them.
    pub fn with(recorded: &'n str, forms: Option<[String; 3]>) -> Self {
        Self { recorded, forms }
    }

    /// Whether a pattern with `*` and `?` means it: the recorded name, or a readable form.
    pub fn is_meant(&self, wanted: &str) -> bool {
        let readable = self.forms.iter().flatten();
        std::iter::once(self.recorded)
            .chain(readable.map(String::as_str))
            .any(|name| pattern::matches(wanted, name))
    }
}

/// Whether a pattern with `*` and `?` means a kernel of this recorded name.
pub fn means(wanted: &str, recorded: &str) -> bool {
    Kernel::new(recorded).is_meant(wanted)
}

/// What a kernel is called where its parameters and namespaces do not matter.
pub fn short(recorded: &str) -> String {
    forms(recorded).map_or_else(|| recorded.to_owned(), |[short, ..]| short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_meant_by_each_of_its_names() {
        let scale = "_Z5scaleIfEvPT_";
        for wanted in [scale, "scale<float>", "scale<*>", "void scale<float>(float*)", "_Z5sc*"] {
            assert!(means(wanted, scale), "{wanted}");
        }
        for wanted in ["scale", "scale<double>", "*<int>*", ""] {
            assert!(!means(wanted, scale), "{wanted}");
        }
        for wanted in ["step", "sim::step", "sim::step(int*)", "*::step*"] {
            assert!(means(wanted, "_ZN3sim4stepEPi"), "{wanted}");
        }
        assert!(means("app::Reduce", "_ZTSN3app6ReduceE") && means("Reduce", "_ZTSN3app6ReduceE"));
        assert!(means("plain", "plain") && !means("plain", "plainer"));
    }

    /// Names of the greatest depth that is read fit on the stack that is promised.
    #[test]
    fn deep_names_keep_to_the_stack() {
        let names: Vec<String> = (0..400)
            .step_by(20)
            .flat_map(|n| {
                let pointers = format!("_Z1f{}i", "P".repeat(n));
                let templates = format!("_Z1f{}i{}", "1aI".repeat(n), "E".repeat(n));
                let functions = format!("_Z1f{}v{}", "PFv".repeat(n), "E".repeat(n));
                let lambdas = format!("_ZTS{}i{}", "N1aUlT_E_1bI".repeat(n), "EE".repeat(n));
                [pointers, templates, functions, lambdas]
            })
            .collect();
        let run = move || names.iter().filter(|name| forms(name).is_some()).count();
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(run).unwrap();
        assert!(thread.join().unwrap() > 0);
    }
}
