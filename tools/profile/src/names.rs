//! How kernels are named in outputs. Compilers of C++ and SYCL name a kernel by its mangled
//! signature (Itanium C++ ABI, section 5.1): `_Z3addIfEvPKT_S2_PS0_` is `add<float>`. Owns the
//! choice of one readable name for each kernel, different ones for different kernels, of all
//! kernels that are shown together. Refuses to change what a trace says: a JSON document keeps the
//! recorded names as its keys, and lists the readable ones beside them.

use crate::trace_files::TraceFiles;
use clscope_analysis::distinct;
use clscope_io::shorten as long;
use clscope_names::forms;
use clscope_trace::defs::{Def, Defs};
use clscope_trace::names::pattern;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What an output calls kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// By the names in the trace.
    #[default]
    Recorded,
    /// Demangled, without what no kernel beside it needs to be told apart: namespaces, parameters;
    /// of at most [`long::NAME`] characters.
    Short,
    /// Demangled in full.
    Full,
}

/// The readable names of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Readable {
    short: String,
    full: String,
}

/// Readable names of kernels, by their recorded names. Kernels whose names are not mangled, and not
/// very long, have none: they are shown as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    readable: BTreeMap<String, Readable>,
    recorded: HashMap<String, String>,
}

impl Names {
    /// Of kernels that are shown together. No two of them get the same name, of whatever form.
    pub fn new<'n>(kernels: impl IntoIterator<Item = &'n str>) -> Self {
        let all: BTreeSet<&str> = kernels.into_iter().collect();
        // From the shortest to the longest; the last is the recorded name, which nobody shares.
        let levels: BTreeMap<&str, [String; 3]> =
            all.iter().filter_map(|name| Some((*name, forms(name)?))).collect();
        let shorts = distinct(&all, &levels, 0);
        let fulls = distinct(&all, &levels, 2);
        // All that are shown together, since what is cut out of one may be all that tells it apart.
        let shown: Vec<&str> =
            all.iter().map(|name| shorts.get(name).map_or(*name, String::as_str)).collect();
        let cut = long::distinct(&shown, long::NAME);
        let readable: BTreeMap<String, Readable> = all
            .iter()
            .zip(cut)
            .filter(|(name, short)| fulls.contains_key(*name) || *short != **name)
            .map(|(name, short)| {
                let full = fulls.get(name).map_or(*name, String::as_str).to_owned();
                ((*name).to_owned(), Readable { short, full })
            })
            .collect();
        // What a user types may be any of the three, the shown name first.
        let mut recorded = HashMap::new();
        for form in [Form::Full, Form::Short] {
            for (name, of) in &readable {
                recorded.insert(of.form(form).unwrap_or(name).to_owned(), name.clone());
            }
        }
        Self { readable, recorded }
    }

    /// Of all kernels of opened traces together.
    pub fn of_traces<'t>(traces: impl IntoIterator<Item = &'t TraceFiles>) -> Self {
        let mut kernels = BTreeSet::new();
        for trace in traces {
            for (_, bytes) in trace.definitions() {
                kernels.extend(Defs::new(bytes).filter_map(|def| match def {
                    Def::Kernel(kernel) => Some(kernel.name),
                    _ => None,
                }));
            }
        }
        Self::new(kernels.iter().map(String::as_str))
    }

    /// A kernel's name in an output, by its recorded one.
    pub fn shown<'n>(&'n self, recorded: &'n str, form: Form) -> &'n str {
        self.readable.get(recorded).and_then(|of| of.form(form)).unwrap_or(recorded)
    }

    /// What a user calls a kernel, in the output's form: any form is understood, also with a size
    /// or a place behind it (`add<float> [64]`). Unchanged where it is none of the names.
    pub fn meant(&self, typed: &str, form: Form) -> String {
        let recorded = |name: &str| {
            let known = self.readable.get_key_value(name).map(|(name, _)| name);
            known.or_else(|| self.recorded.get(name)).map(|name| self.shown(name, form).to_owned())
        };
        if let Some(name) = recorded(typed) {
            return name;
        }
        // What tells programs apart stands before a size or a place.
        for mark in [" [", " @ ", distinct::PROGRAM, distinct::BUILT, distinct::SEVERAL] {
            let mut places = typed.match_indices(mark).map(|(at, _)| at);
            let found = places.find_map(|at| Some((at, recorded(&typed[..at])?)));
            if let Some((at, name)) = found {
                return format!("{name}{}", &typed[at..]);
            }
        }
        typed.to_owned()
    }

    /// Whether a name of an output, of any form, has a form that passes `test`.
    pub fn any(&self, name: &str, test: impl Fn(&str) -> bool) -> bool {
        let recorded = self.meant(name, Form::Recorded);
        test(name)
            || distinct::without_mark(name).is_some_and(&test)
            || [Form::Recorded, Form::Short, Form::Full]
                .iter()
                .any(|form| test(&self.meant(&recorded, *form)))
    }

    /// Whether a kernel of an output is meant by what a user wrote ([`pattern::is_meant`]), by
    /// whichever of its names: the one rule of all commands that take a kernel's name.
    pub fn is_meant(&self, wanted: &str, name: &str) -> bool {
        self.any(name, |name| pattern::is_meant(wanted, name))
    }

    /// Readable names by recorded names, for documents that keep the recorded ones.
    pub fn display(&self) -> BTreeMap<String, String> {
        self.readable.iter().map(|(name, of)| (name.clone(), of.short.clone())).collect()
    }

    /// A sentence in which kernels are called by their recorded names, in a form.
    pub fn in_text(&self, text: &str, form: Form) -> String {
        let mut names: Vec<&String> = self.readable.keys().collect();
        // One may begin with another.
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names.iter().fold(text.to_owned(), |text, name| text.replace(*name, self.shown(name, form)))
    }

    /// Gives the kernels of a process the names of a form; what they were called stays beside them.
    pub fn apply(&self, to: &mut clscope_analysis::input::Definitions, form: Form) {
        for kernel in to.kernels.values_mut() {
            let shown = self.readable.get(&kernel.name).and_then(|of| of.form(form));
            if let Some(shown) = shown.filter(|shown| **shown != kernel.name) {
                let recorded = std::mem::replace(&mut kernel.name, shown.to_owned());
                to.recorded_names.insert(kernel.id, recorded);
            }
        }
    }
}

impl Readable {
    fn form(&self, form: Form) -> Option<&str> {
        match form {
            Form::Recorded => None,
            Form::Short => Some(&self.short),
            Form::Full => Some(&self.full),
        }
    }
}

/// The shortest names, none shorter than the level `least`, that nobody shares. Where several
/// kernels would share one, all of them take the next longer one, so that no name depends on the
/// order of kernels.
fn distinct<'n>(
    all: &BTreeSet<&'n str>,
    levels: &BTreeMap<&'n str, [String; 3]>,
    least: usize,
) -> BTreeMap<&'n str, String> {
    let mut level: BTreeMap<&str, usize> = levels.keys().map(|name| (*name, least)).collect();
    loop {
        let shown = |name: &&'n str| -> String {
            let at = level.get(name).copied().unwrap_or(usize::MAX);
            let candidate = levels.get(name).and_then(|of| of.get(at));
            candidate.map_or_else(|| (*name).to_owned(), Clone::clone)
        };
        let mut sharers: HashMap<String, Vec<&str>> = HashMap::new();
        for name in all {
            sharers.entry(shown(name)).or_default().push(name);
        }
        let crowded: Vec<&str> = sharers.into_values().filter(|n| n.len() > 1).flatten().collect();
        if crowded.is_empty() {
            return levels.keys().map(|name| (*name, shown(name))).collect();
        }
        // Each round lengthens a name, and none beyond the recorded one: recorded names differ, so
        // of those that share one, at least one can still grow.
        for name in crowded {
            if let Some(level) = level.get_mut(name) {
                *level = (*level + 1).min(3);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The number of a substitution (`S0_`, `SA_`).
    fn base36(n: u32) -> String {
        let digit = |d: u32| char::from_digit(d, 36).unwrap_or('0').to_ascii_uppercase();
        if n < 36 { digit(n).to_string() } else { base36(n / 36) + &digit(n % 36).to_string() }
    }

    const SYCL: &str = "_ZTSZZ4mainENKUlRN4sycl3_V17handlerEE_clES2_EUlNS0_2idILi1EEEE_";

    fn short(names: &[&str]) -> Vec<String> {
        let of = Names::new(names.iter().copied());
        names.iter().map(|n| of.shown(n, Form::Short).to_owned()).collect()
    }

    #[test]
    fn kernels_are_shown_by_their_shortest_names() {
        assert_eq!(short(&["add", "_Z3addIfEvPKT_S2_PS0_"]), ["add", "add<float>"]);
        assert_eq!(short(&["_ZN2ns6kernelIfLi128EEEvPfi"]), ["kernel<float, 128>"]);
        assert_eq!(short(&[SYCL]), ["main::{lambda#1}::{lambda#1}"]);
        assert_eq!(short(&["_ZTSN2ns6MyNameE"]), ["MyName"]);
        let rounded = "_ZTSN4sycl3_V16detail18RoundedRangeKernelINS0_4itemILi1ELb1EEELi1EZZ4mainENKUlRNS0_7handlerEE_clES6_EUlNS0_2idILi1EEEE_EE";
        assert_eq!(
            short(&[rounded]),
            ["RoundedRangeKernel<item<1, true>, 1, main::{lambda#1}::{lambda#1}>"]
        );
    }

    #[test]
    fn names_that_would_be_the_same_grow_until_they_differ() {
        // Two namespaces; two overloads; one that an unmangled kernel has already.
        assert_eq!(short(&["_ZN1a3runEv", "_ZN1b3runEv"]), ["a::run", "b::run"]);
        assert_eq!(short(&["_Z3runi", "_Z3runf"]), ["run(int)", "run(float)"]);
        assert_eq!(short(&["_Z3runi", "run"]), ["run(int)", "run"]);
        // A class and a function of that name; nothing but the recorded name is left.
        assert_eq!(short(&["_ZTS3run", "_Z3runi"]), ["run", "run(int)"]);
        assert_eq!(short(&["_ZTS3run", "run"]), ["_ZTS3run", "run"]);
    }

    #[test]
    fn what_is_not_mangled_or_damaged_stays() {
        for name in ["", "gemm", "_Z", "_Zx", "_ZTS", "Z3add", "_ZN", "_Z999add", "_ZTVN1aE"] {
            assert_eq!(short(&[name]), [name]);
        }
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        let of = Names::new([deep.as_str()]);
        assert_eq!(of.shown(&deep, Form::Full), deep);
    }

    #[test]
    fn very_long_names_are_cut_and_differ() {
        let names =
            ["1", "2"].map(|n| format!("{}{n}{}", "k".repeat(1 << 20), "z".repeat(1 << 20)));
        let of = Names::new(names.iter().map(String::as_str));
        let shown = names.each_ref().map(|name| of.shown(name, Form::Short));
        assert!(shown.iter().all(|name| name.chars().count() <= long::NAME), "{shown:?}");
        assert!(shown[0].contains('1') && shown[1].contains('2'), "{shown:?}");
        for name in &names {
            assert_eq!(
                (of.shown(name, Form::Full), of.shown(name, Form::Recorded)),
                (&**name, &**name)
            );
            assert_eq!(&of.meant(of.shown(name, Form::Short), Form::Recorded), name);
        }
        assert_eq!(of.display().len(), 2);
    }

    #[test]
    fn substitutions_cannot_make_a_name_grow_without_bound() {
        // Each pair holds the one before twice: 2^n components.
        let mut name = "_Z1f4pairIiiE".to_owned();
        for n in 0..30 {
            let s = if n == 0 { "S_".to_owned() } else { format!("S{}_", base36(n - 1)) };
            name.push_str(&format!("4pairI{s}{s}E"));
        }
        let of = Names::new([name.as_str()]);
        assert!(of.shown(&name, Form::Full).len() <= clscope_names::demangle::MOST.max(name.len()));
    }

    #[test]
    fn users_may_use_any_form() {
        let add = "_Z3addIfEvPKT_S2_PS0_";
        let of = Names::new([add, "_ZN1a3runEv"]);
        for typed in [add, "add<float>", "void add<float>(float const*, float const*, float*)"] {
            assert_eq!(of.meant(typed, Form::Recorded), add);
            assert_eq!(of.meant(&format!("{typed} [64]"), Form::Short), "add<float> [64]");
            assert!(of.any("add<float> [64]", |name| name.starts_with(typed)));
        }
        for wanted in ["dd<fl", "a*64?", "_Z3addIf*"] {
            assert!(of.is_meant(wanted, "add<float> [64]"), "{wanted}");
        }
        assert!(!of.is_meant("add*", "a::run()") && !of.is_meant("dd?", "add<float>"));
        assert_eq!(of.meant("other [64]", Form::Short), "other [64]");
        assert!(!of.any("run", |name| name.contains("add")));
        assert!(of.any("_ZN1a3runEv", |name| name == "run"));
        assert_eq!(of.in_text("_ZN1a3runEv runs", Form::Full), "a::run() runs");
    }

    proptest! {
        #[test]
        fn no_two_kernels_share_a_name(
            names in proptest::collection::btree_set("(_ZTS|_Z|)(N[1-2][a-b]{1,2}|)[1-2][a-b]{1,2}(I[if]+E|)[Eifv]{0,3}", 0..40)
        ) {
            let of = Names::new(names.iter().map(String::as_str));
            for form in [Form::Short, Form::Full] {
                let shown: BTreeSet<&str> = names.iter().map(|n| of.shown(n, form)).collect();
                prop_assert_eq!(shown.len(), names.len());
            }
            for name in &names {
                prop_assert_eq!(&of.meant(of.shown(name, Form::Short), Form::Recorded), name);
            }
        }

        #[test]
        fn no_text_is_too_strange(name in "\\PC{0,60}", mangled in "_Z(TS)?[A-Za-z0-9_]{0,60}") {
            let of = Names::new([name.as_str(), mangled.as_str()]);
            prop_assert!(of.shown(&mangled, Form::Short).len() <= clscope_names::demangle::MOST.max(mangled.len()));
        }
    }
}
