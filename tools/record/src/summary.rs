//! Owns the one line about what was recorded, and those about captured launches. Refuses to count:
//! [`clscope_profile::contents`] does.

use clscope_capture::directory::shown_path;
use clscope_io::text::{bytes, count};
use clscope_launch::Capture;
use clscope_launch::capture::{CACHES, Program};
use clscope_profile::captures::Captures;
use clscope_profile::contents::Contents;
use clscope_profile::names::{Form, Names};
use clscope_trace::directory::{CAPTURES, is_capture_folder};
use std::path::Path;

/// Most captures, and most refusals, that are told of.
const MOST: usize = 8;

/// What became of launches that were to be captured, a line each, and the first folder, to go on
/// with.
pub fn captures(of: &Captures, trace: &Path) -> (Vec<String>, Option<String>) {
    let mut out = Vec::new();
    let mut first = None;
    let mut cached = false;
    let kernels = of.captured.iter().map(|one| &one.kernel);
    let names = Names::new(kernels.chain(of.refused.iter().map(|one| &one.kernel)).map(|k| &**k));
    let shown = |kernel: &str| names.shown(kernel, Form::Short).to_owned();
    for one in of.captured.iter().filter(|one| is_capture_folder(&one.folder)) {
        let path = trace.join(CAPTURES).join(&one.folder);
        let folder = shown_path(&path).to_string();
        if out.len() < MOST {
            let (kernel, launch) = (shown(&one.kernel), one.launch);
            // What cannot be opened is told of where it is used.
            let program = Capture::open(&path).ok().map(|c| c.launch.program);
            let alone = program.as_ref().is_some_and(Program::is_binary_alone);
            cached |= program.as_ref().is_some_and(Program::is_cached);
            out.push(format!(
                "captured: launch {launch} of {kernel}: {folder} ({}{})",
                bytes(one.bytes as f64),
                if alone {
                    "; the program's binary alone, for this device and driver only"
                } else {
                    ""
                }
            ));
        }
        first.get_or_insert(folder);
    }
    let more = |all: usize| (all > MOST).then(|| format!("and {} more", all - MOST));
    out.extend(more(of.captured.len()).map(|more| format!("captured: {more}")));
    out.extend(cached.then(|| {
        format!("to capture source too, record without the application's program cache ({CACHES})")
    }));
    let refused = of.refusals(shown);
    let said = refused.iter().take(MOST);
    out.extend(said.map(|(launches, reason)| format!("not captured: {launches}: {reason}")));
    out.extend(more(refused.len()).map(|more| format!("not captured: {more} reasons")));
    out.extend(of.unmet.iter().map(|text| format!("not captured: {text}")));
    (out, first)
}

/// One line about what was recorded.
pub fn line(of: &Contents) -> String {
    let processes = count(of.processes, "process", "processes");
    match of.calls {
        None => format!("{processes}, {}", bytes(of.bytes as f64)),
        Some(calls) => {
            let commands = count(of.commands, "device command", "device commands");
            let timed = if of.timed == of.commands {
                String::new()
            } else {
                format!(" ({} timed)", of.timed)
            };
            format!(
                "{processes}, {}, {commands}{timed}, {}",
                count(calls, "OpenCL call", "OpenCL calls"),
                bytes(of.bytes as f64)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_well() {
        let one = Contents {
            processes: 1,
            calls: Some(1),
            commands: 1,
            timed: 1,
            bytes: 900,
            ..Contents::default()
        };
        assert_eq!(line(&one), "1 process, 1 OpenCL call, 1 device command, 900 B");
        let many = Contents {
            processes: 2,
            calls: Some(726),
            commands: 40,
            timed: 39,
            bytes: 123_456,
            ..Contents::default()
        };
        assert_eq!(
            line(&many),
            "2 processes, 726 OpenCL calls, 40 device commands (39 timed), 121 KiB"
        );
        let large =
            Contents { processes: 1, calls: None, bytes: 20_000_000_000, ..Contents::default() };
        assert_eq!(line(&large), "1 process, 18.6 GiB");
    }
}
