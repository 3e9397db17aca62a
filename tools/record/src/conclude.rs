//! The end of a recording: waits for its last process, and says what was recorded, or why nothing
//! was.

use crate::{Plan, summary};
use clscope_capture::directory::shown_path;
use clscope_capture::launch::End;
use clscope_capture::meta::Meta;
use clscope_capture::program::Program;
use clscope_capture::running;
use clscope_capture::system::{self, Held};
use clscope_io::text::{count, shell_word};
use clscope_launch::application;
use clscope_profile::changes;
use clscope_profile::contents::{Contents, contents};
use clscope_profile::names::Form;
use clscope_profile::profile::{Options, Profile};
use clscope_trace::{values, variables};
use std::path::Path;
use std::time::{Duration, Instant};

/// Waits, for a while, until the last process of the trace has ended, and looks at what there is.
pub(super) fn settle(trace: &Path, plan: &Plan<'_>, held: &Held, meta: &mut Meta) -> Contents {
    let deadline = Instant::now() + plan.wait;
    let mut told = false;
    let mut found = contents(trace);
    loop {
        let mut running = running::still_running(trace, &found.unended);
        // What has left the application behind may be about to begin.
        if found.processes == 0 && running.is_empty() {
            found = contents(trace);
            running = match found.processes {
                0 => running::recorders(trace),
                _ => running::still_running(trace, &found.unended),
            };
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if running.is_empty() || left.is_zero() {
            if !running.is_empty() {
                let list = running.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
                plan.tell(format_args!(
                    "still recording: process {list}; the trace grows until it ends"
                ));
            } else if told {
                found = contents(trace);
            }
            meta.still_running = running;
            return found;
        }
        if !told {
            told = true;
            plan.tell(format_args!(
                "waiting up to {} s for {} more processes (Ctrl-C stops waiting)",
                plan.wait.as_secs_f64(),
                running.len()
            ));
        }
        // A signal that is no child's end means: do not wait.
        if held
            .wait(Some(left.min(Duration::from_millis(50))))
            .is_some_and(|arrived| arrived.signal != libc::SIGCHLD)
        {
            meta.still_running = running;
            return found;
        }
    }
}

/// Says what was recorded.
pub(super) fn conclude(
    plan: &Plan<'_>,
    trace: &Path,
    contents: &Contents,
    program: &Program,
    end: End,
) {
    if !plan.voice.quiet {
        (plan.voice.own_line)();
    }
    if let End::Signal(signal, dumped) = end {
        let core = if dumped { ", core dumped" } else { "" };
        plan.tell(format_args!(
            "{} was ended by {}{core}",
            program.path.display(),
            system::signal_name(signal)
        ));
    }
    let later = |(code, _): &(&String, _)| !variables::SAID_AT_ONCE.contains(&code.as_str());
    for (_, (text, times)) in contents.warnings.iter().filter(later).take(5) {
        let times =
            if *times > 1 { format!(" ({times} processes or times)") } else { String::new() };
        plan.tell(format_args!("warning: {text}{times}"));
    }
    contents.unreadable.iter().take(5).for_each(|text| plan.tell(format_args!("warning: {text}")));
    if contents.dropped > 0 {
        plan.tell(format_args!(
            "warning: {} dropped; `clscope report` gives the reason",
            count(contents.dropped, "record was", "records were")
        ));
    }
    if plan.changes() && contents.processes > 0 {
        tell_changes(plan, trace);
    }
    let shown = shown_path(trace);
    if contents.without_trace > 0 {
        let n = contents.without_trace;
        plan.tell(format_args!(
            "{n} process{} called OpenCL and could not be recorded: its trace could not be written, as its own message says",
            if n == 1 { "" } else { "es" }
        ));
    }
    if contents.processes == 0 {
        if contents.without_trace == 0 {
            let (why, look) = why_nothing(plan, trace, program);
            plan.tell(format_args!("no OpenCL call was seen: {why}"));
            look.iter().for_each(|command| plan.tell(format_args!("to see which: {command}")));
        }
        return;
    }
    if contents.calls.is_some_and(|calls| calls > 0) && contents.commands == 0 {
        plan.tell(no_command(contents.dropped));
    }
    // What was captured to be measured is no one's concern when it has been; other captures were
    // asked for, by an option or by the environment.
    let is_measured = plan.mix || plan.replay.is_some();
    let is_later = plan.replay == Some(values::Measuring::Later);
    let are_kept = !is_measured || plan.captures || plan.keep_captures;
    // Of a process that goes on the trace itself tells, when it has ended.
    if (are_kept || is_later)
        && !contents.captures.captured.is_empty()
        && running::still_running(trace, &contents.unended).is_empty()
        && let Err(why) = application::write_all(trace)
    {
        plan.tell(format_args!("the captures have no times of the run: {why}"));
    }
    let (captures, next) = match are_kept {
        true => summary::captures(&contents.captures, trace),
        false => (Vec::new(), None),
    };
    captures.iter().for_each(|text| plan.tell(text));
    let mut next = next.map_or_else(String::new, |folder| format!(", clscope kernel {folder}"));
    if plan.mix && contents.commands > 0 {
        next += &format!(", clscope mix {shown}, clscope explain {shown}");
    }
    plan.tell(format_args!(
        "{} in {shown}; next: clscope report {shown}{next}",
        summary::line(contents)
    ));
}

/// Why there is no device command, although there are calls.
const fn no_command(dropped: u64) -> &'static str {
    match dropped {
        0 => "no device command was seen: the application enqueued none",
        _ => {
            "no device command is in the trace: the application enqueued none, or their records are among those that were dropped"
        }
    }
}

/// What became of what was to be changed of the application.
fn tell_changes(plan: &Plan<'_>, trace: &Path) {
    match Profile::open(&[trace.to_owned()]) {
        Ok(profile) => {
            let view = profile.view(Options { form: Form::Short, ..Options::default() });
            let changes = changes::recorded_changes(view.trace());
            let lines = changes.iter().flat_map(changes::Changes::lines);
            lines.for_each(|text| plan.tell(format_args!("changed: {text}")));
        }
        Err(error) => plan.tell(format_args!("what was changed is not known: {error}")),
    }
}

/// Why no process of the trace made an OpenCL call, as far as is known, and the command that tells
/// more.
fn why_nothing(plan: &Plan<'_>, trace: &Path, program: &Program) -> (String, Option<String>) {
    let running = running::recorders(trace);
    if !running.is_empty() {
        let list = running.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let why = format!(
            "what the application left running has made none yet (process {list}): its calls are recorded as soon as it makes them"
        );
        return (why, None);
    }
    if let Some(obstacle) = program.obstacles.first() {
        return (format!("{} (reason: {})", obstacle.text, obstacle.code), None);
    }
    if (plan.here.variable)(variables::ENABLE).is_some_and(|v| v == "0") {
        return (format!("{}=0 is set: unset it", variables::ENABLE), None);
    }
    if !plan.ways.is_empty() {
        let why = "the application made none, or reaches OpenCL in a way that --inject leaves out: record without it";
        return (why.to_owned(), None);
    }
    if program.elf.is_none() {
        let why = format!(
            "{} is not an ELF program, so it is unknown how it loads OpenCL",
            program.image.display()
        );
        return (why, Some("clscope doctor".to_owned()));
    }
    // A runtime may load by itself, and not beside the application's own libraries.
    let is_set = |name: &&&str| (plan.here.variable)(name).is_some();
    let why = match RUNTIMES.iter().find(is_set) {
        Some(name) => format!("it made none, or cannot load the runtime of {name}"),
        None => "the application made none, or has its own OpenCL or environment".to_owned(),
    };
    let command: Vec<String> = plan.shown_command.iter().map(|word| shell_word(word)).collect();
    let look = format!("LD_DEBUG=files {} 2>&1 | grep -iE 'opencl|fatal'", command.join(" "));
    (why, Some(look))
}

/// Variables that name the runtimes which a loader opens.
const RUNTIMES: [&str; 2] = ["OCL_ICD_VENDORS", "OCL_ICD_FILENAMES"];
