//! Under which variables a captured launch is measured: those that chose OpenCL's runtime and devices
//! when its application first called OpenCL, so that the same devices are there, in the same order.
//! Owns whose word counts: what you set otherwise since, and what a trace may not choose. Refuses to
//! read the environment.

use clscope_profile::trace_files::TraceFiles;
use clscope_trace::variables::OF_OPENCL;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// Variables that choose what is loaded.
const LOADING: [&str; 4] =
    ["LD_LIBRARY_PATH", "OPENCL_VENDOR_PATH", "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"];

/// What is known of the variables beside what a capture says of them.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Those of this process.
    now: BTreeMap<&'static str, OsString>,
    /// Those that the application was started with.
    started: BTreeMap<String, String>,
    /// Whether the trace may choose what is loaded.
    trust: bool,
}

impl Environment {
    /// Of a trace. `now` gives a variable of this process. Without `trust` the trace does not choose
    /// what is loaded: it may come from anywhere, and say anything.
    pub fn read(trace: &Path, trust: bool, now: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let started = TraceFiles::open(&[trace.to_owned()]).map_or_else(
            |_| BTreeMap::new(),
            |files| {
                let recordings = files.directories.iter().flat_map(|of| of.recordings());
                let kept = recordings.filter_map(|meta| meta.get("environment")?.as_object());
                let text = |(name, value): (&String, &serde_json::Value)| {
                    Some((name.clone(), value.as_str()?.to_owned()))
                };
                kept.flatten().filter_map(text).collect()
            },
        );
        let now = OF_OPENCL.iter().filter_map(|name| Some((*name, now(name)?))).collect();
        Self { now, started, trust }
    }

    /// What differs from those of this process where a launch is measured. `seen`: what its
    /// application had at its first OpenCL call, where that is known; else what it was started with.
    pub fn changes(&self, seen: Option<&BTreeMap<String, String>>) -> Vec<Change> {
        let change = |name: &'static str| {
            let (now, started) = (self.now.get(name), self.started.get(name));
            let is_said = now.is_some_and(|now| started.is_none_or(|of| now != of.as_str()));
            if is_said || (!self.trust && LOADING.contains(&name)) {
                return None;
            }
            let value = seen.map_or(started, |seen| seen.get(name)).cloned();
            (value.is_some() || seen.is_some()).then_some((name, value))
        };
        OF_OPENCL.into_iter().filter_map(change).collect()
    }
}

/// A variable, and its value; none: it is not set.
pub type Change = (&'static str, Option<String>);

/// Gives variables to a process.
pub fn give(changes: &[Change], to: &mut Command) {
    for (name, value) in changes {
        match value {
            Some(value) => to.env(name, value),
            None => to.env_remove(name),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    /// What becomes of a variable: of this process, at the application's start, at its first call.
    fn becomes(
        name: &'static str,
        [now, started, seen]: [Option<&str>; 3],
        (is_seen, trust): (bool, bool),
    ) -> Option<String> {
        let owned = |value: &str| (name.to_owned(), value.to_owned());
        let of = Environment {
            now: now.map(|value| (name, OsString::from(value))).into_iter().collect(),
            started: started.map(owned).into_iter().collect(),
            trust,
        };
        let seen: BTreeMap<String, String> = seen.map(owned).into_iter().collect();
        let mut command = Command::new("true");
        give(&of.changes(is_seen.then_some(&seen)), &mut command);
        let mut given = command.get_envs().filter(|(of, _)| *of == OsStr::new(name));
        let found = given.next().map(|(_, value)| value.map(|v| v.to_string_lossy().into_owned()));
        found.unwrap_or_else(|| now.map(str::to_owned))
    }

    #[test]
    fn a_launch_has_the_variables_of_its_application_but_for_what_was_said_since() {
        let values = [None, Some("a"), Some("b"), Some("c")];
        for name in ["POCL_MAX_PTHREAD_COUNT", "OCL_ICD_FILENAMES"] {
            for now in values {
                for started in values {
                    for seen in values {
                        let of = [now, started, seen];
                        let is = |value: Option<&str>| value.map(str::to_owned);
                        let is_said = now.is_some() && now != started;
                        let expected = if is_said { now } else { seen };
                        assert_eq!(becomes(name, of, (true, true)), is(expected), "{name} {of:?}");
                        let unseen = if is_said { now } else { now.or(started) };
                        assert_eq!(becomes(name, of, (false, true)), is(unseen), "{name} {of:?}");
                        let is_free = name.starts_with("POCL");
                        let untrusted = if is_free { expected } else { now };
                        assert_eq!(
                            becomes(name, of, (true, false)),
                            is(untrusted),
                            "{name} {of:?}"
                        );
                    }
                }
            }
        }
        // Nothing else is taken from a trace.
        assert_eq!(becomes("LD_PRELOAD", [None, Some("a"), Some("a")], (true, true)), None);
    }
}
