//! Calls that failed, and commands that failed after they were enqueued.

use crate::document::{Findings, Key};
use crate::rules::Rule;
use crate::seen::Seen;
use clscope_analysis::event::{Command, Outcome};
use clscope_trace::Untimed;
use clscope_trace::codes as cl;
use clscope_trace::record::{RESULT_UNKNOWN, detail, error_text};

/// What is wrong with a wait list, as it was told ahead of the call.
pub fn wait_list([kind, value, _]: [u64; 3]) -> Option<String> {
    match kind {
        detail::NO_LIST => Some(format!("a wait list of {value} that is NULL")),
        detail::NULL_EVENT => Some(format!("a wait list whose event of index {value} is NULL")),
        _ => None,
    }
}

/// A call that failed; `list`: what is wrong with its wait list, where that was told.
pub fn call(seen: &Seen<'_>, list: Option<&str>, to: &mut Findings) {
    let code = seen.call.result;
    if code == 0 {
        // Some runtimes pass over it.
        if let Some(list) = list {
            let text = format!("{} has {list}", seen.function);
            let key = Key::new(Rule::FailedWait, text).at(seen.function, seen.place);
            to.add(key, None, None);
        }
        return;
    }
    let group = seen.definitions.function(seen.call.function).map_or("", |f| f.group.as_str());
    let rule = match (code, group) {
        (cl::CL_INVALID_KERNEL_ARGS, "enqueue") => Rule::UnsetArguments,
        _ if list.is_some() => Rule::FailedWait,
        (cl::CL_INVALID_EVENT_WAIT_LIST | cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, _) => {
            Rule::FailedWait
        }
        // clCreateContextFromType answers so whoever asks for a type that the platform lacks.
        (cl::CL_PROFILING_INFO_NOT_AVAILABLE | cl::CL_DEVICE_NOT_FOUND, _) | (_, "query") => {
            Rule::FailedQuery
        }
        _ => Rule::FailedCall,
    };
    let kernel = seen.object("kernel").map(|id| seen.definitions.kernel_name(id));
    let gave = if code == RESULT_UNKNOWN { "" } else { "gave " };
    let text = match kernel {
        Some(name) => format!("{} of the kernel {name} {gave}{}", seen.function, seen.error()),
        None => format!("{} {gave}{}", seen.function, seen.error()),
    };
    let text = list.map_or_else(|| text.clone(), |list| format!("{text}: {list}"));
    let key = Key::new(rule, text).at(seen.function, seen.place);
    let arguments = seen.arguments();
    let subject = (!arguments.is_empty()).then_some(arguments);
    to.add_many(key, seen.count(), None, subject);
}

/// A command that failed on the device.
pub fn command(
    command: &Command<'_>,
    name: &str,
    function: &str,
    place: Option<&str>,
    to: &mut Findings,
) {
    let Outcome::Untimed { reason, detail } = &command.outcome else { return };
    if !reason.never_ran() {
        return;
    }
    let rule = match reason {
        Untimed::NeverStarted => Rule::FailedWait,
        _ => Rule::FailedCommand,
    };
    let code = if *detail == 0 { String::new() } else { format!(": {}", error_text(*detail)) };
    let text = format!("{name}: {}{code}", reason.text());
    let key = Key::new(rule, text).at(function, place);
    to.add(key, None, Some(format!("command {}", command.id().0)));
}
