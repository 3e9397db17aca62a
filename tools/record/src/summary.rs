//! Owns the one line about what was recorded, and those about captured launches. Refuses to count:
//! [`clscope_profile::contents`] does.
#![forbid(unsafe_code)]

use clscope_capture::directory::shown_path;
use clscope_io::text::count;
use clscope_launch::Capture;
use clscope_launch::capture::{CACHES, Program};
use clscope_profile::captures::Captures;
use clscope_profile::contents::{Contents, Repeated, Unrepeated};
use clscope_profile::names::{Form, Names};
use clscope_trace::directory::{CAPTURES, is_capture_folder};
use clscope_trace::values::Replay;
use std::collections::BTreeMap;
use std::path::Path;

/// Most captures, and most refusals, that are told of.
const MOST: usize = 8;
/// Names in a line about several.
const FEW: usize = 4;

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
                size(one.bytes),
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
    let refused = of.refused.iter().take(MOST);
    out.extend(
        refused.map(|one| {
            format!("not captured: {}: {}", one.launches(&shown(&one.kernel)), one.reason)
        }),
    );
    out.extend(more(of.refused.len()).map(|more| format!("not captured: {more}")));
    out.extend(of.unmet.iter().map(|text| format!("not captured: {text}")));
    (out, first)
}

/// What became of kernels and transfers that were to be repeated.
pub fn repeated(of: &Repeated, wanted: Replay) -> Vec<String> {
    let refused = of.refused.iter().map(|(name, _)| name);
    let kernels = of.names.iter().chain(refused).chain(of.rest.keys());
    let names = Names::new(kernels.map(|name| &**name));
    let shown = |name: &str| names.shown(name, Form::Short).to_owned();
    let mut out = Vec::new();
    if of.batches > 0 {
        let which = count(of.names.len() as u64, "kernel or transfer", "kernels and transfers");
        out.push(format!("repeated: {which} in {}", count(of.batches as u64, "batch", "batches")));
    } else if of.refused.is_empty() {
        out.push(
            "repeated: nothing: no kernel or transfer came twice within the time that so short a run may be lengthened by; \
             let the application run longer, or repeat each at first sight with --replay=8:400"
                .to_owned(),
        );
    }
    let refused = of.refused.iter().take(MOST);
    out.extend(refused.map(|(name, why)| format!("not repeated: {}: {why}", shown(name))));
    let more = of.refused.len().saturating_sub(MOST);
    out.extend((more > 0).then(|| format!("not repeated: and {more} more")));
    let more = wanted.more().map(|s| format!(" (--replay={s:.0}s adds more)")).unwrap_or_default();
    let added = of.added().map(|added| format!(" ({} were added)", added.told()));
    let reason = |why: Unrepeated| {
        match why {
        Unrepeated::NoTurn => format!("without a turn within the added time{more}"),
        Unrepeated::Few(_) => format!(
            "which came too seldom for a turn: time is added as a run goes on, and more of it would not have been used{}; a longer run helps",
            added.as_deref().unwrap_or_default()
        ),
        Unrepeated::Small => "less than 0.5 % of the time".to_owned(),
        Unrepeated::Once => "came once".to_owned(),
        Unrepeated::Kind => "transfers of a kind that is not repeated".to_owned(),
        Unrepeated::AtSight => {
            "without a turn where kernels are repeated at first sight (--replay without a number of batches repeats them)".to_owned()
        }
    }
    };
    let mut by_reason: BTreeMap<String, Vec<(&str, Unrepeated)>> = BTreeMap::new();
    for (name, why) in of.rest.iter().filter(|_| of.batches > 0) {
        by_reason.entry(reason(*why)).or_default().push((name, *why));
    }
    let mut by_reason: Vec<_> = by_reason.into_iter().collect();
    by_reason.sort_by_key(|(_, of_it)| of_it.iter().map(|(_, why)| why.rank()).min());
    for (reason, of_it) in by_reason {
        let named = |(name, why): &(&str, Unrepeated)| match why {
            Unrepeated::Few(times) => {
                format!("{} ({})", shown(name), count(*times, "time", "times"))
            }
            _ => shown(name),
        };
        let first: Vec<String> = of_it.iter().take(FEW).map(named).collect();
        let more = of_it.len().saturating_sub(FEW);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        out.push(format!(
            "not repeated: {}, {reason}: {}{more}",
            match of_it.iter().all(|(_, why)| *why == Unrepeated::AtSight) {
                true => count(of_it.len() as u64, "kind of transfer", "kinds of transfers"),
                false => count(of_it.len() as u64, "kernel or transfer", "kernels and transfers"),
            },
            first.join(", ")
        ));
    }
    out
}

/// Why no instruction was counted, where none was.
pub fn uncounted(of: &Contents) -> Vec<String> {
    if of.counted > 0 {
        return Vec::new();
    }
    if of.uncounted.is_empty() {
        return vec!["--mix: nothing was counted: no kernel was launched".to_owned()];
    }
    let mut reasons: Vec<(&String, &u64)> = of.uncounted.iter().collect();
    reasons.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    let said = |(why, times): &(&String, &u64)| {
        format!("--mix: nothing was counted: {why} ({})", count(**times, "launch", "launches"))
    };
    reasons.iter().take(FEW).map(said).collect()
}

/// One line about what was recorded.
pub fn line(of: &Contents) -> String {
    let processes = count(of.processes, "process", "processes");
    match of.calls {
        None => format!("{processes}, {}", size(of.bytes)),
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
                size(of.bytes)
            )
        }
    }
}

/// A size for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_neither_repeated_nor_refused_is_named() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut of = Repeated {
            names: set(&["blur"]),
            batches: 3,
            refused: [("grow".to_owned(), "it reads a pipe".to_owned())].into(),
            rest: ["a", "b", "c", "d", "e"].map(|n| (n.to_owned(), Unrepeated::NoTurn)).into(),
            ..Repeated::default()
        };
        of.rest.insert("once".to_owned(), Unrepeated::Once);
        let had = Replay::Within { seconds: 60.0, share: 0.0 };
        let lines = repeated(&of, had);
        assert_eq!(lines[0], "repeated: 1 kernel or transfer in 3 batches");
        assert_eq!(lines[1], "not repeated: grow: it reads a pipe");
        assert_eq!(
            lines[2],
            "not repeated: 5 kernels and transfers, without a turn within the added time (--replay=180s adds more): a, b, c, d and 1 more"
        );
        assert_eq!(lines[3], "not repeated: 1 kernel or transfer, came once: once");
        of.rest.clear();
        assert_eq!(repeated(&of, had).len(), 2);
    }

    #[test]
    fn more_time_is_proposed_only_where_it_was_used_up() {
        let mut of = Repeated {
            names: ["blur".to_owned()].into(),
            batches: 3,
            rest: [("a", 3), ("b", 1)].map(|(n, of)| (n.to_owned(), Unrepeated::Few(of))).into(),
            added: Some((2_100_000_000, 3_000_000_000)),
            wanted: Some("auto".to_owned()),
            ..Repeated::default()
        };
        let lines = repeated(&of, Replay::AUTO);
        assert_eq!(
            lines[1],
            "not repeated: 2 kernels and transfers, which came too seldom for a turn: time is added as a run goes on, and more of it would not have been used (2.1 of up to 20 s were added); a longer run helps: a (3 times), b (1 time)"
        );
        of.rest = [("ReadBuffer".to_owned(), Unrepeated::AtSight)].into();
        let lines = repeated(&of, Replay::Batches { batches: 8, milliseconds: 300 });
        let told = "not repeated: 1 kind of transfer, without a turn where kernels are repeated at first sight";
        assert!(lines[1].starts_with(told) && !lines[1].contains("adds more"), "{lines:?}");
    }

    #[test]
    fn a_mix_of_nothing_is_told_with_its_reason() {
        let mut of = Contents::default();
        assert!(uncounted(&of)[0].ends_with("no kernel was launched"));
        of.uncounted = [("no SPIR-V".to_owned(), 1), ("a binary".to_owned(), 7)].into();
        let lines = uncounted(&of);
        assert_eq!(lines[0], "--mix: nothing was counted: a binary (7 launches)");
        assert_eq!((lines.len(), lines[1].ends_with("no SPIR-V (1 launch)")), (2, true));
        of.counted = 1;
        assert!(uncounted(&of).is_empty());
    }

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
        assert_eq!(line(&one), "1 process, 1 OpenCL call, 1 device command, 900 bytes");
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
            "2 processes, 726 OpenCL calls, 40 device commands (39 timed), 123 kB"
        );
        let large =
            Contents { processes: 1, calls: None, bytes: 20_000_000_000, ..Contents::default() };
        assert_eq!(line(&large), "1 process, 20 GB");
    }
}
