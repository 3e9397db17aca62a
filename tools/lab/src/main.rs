//! The program `clscope-lab`. Owns how errors reach people: one line with the whole chain of causes,
//! on stderr. Refuses to do any work itself.
#![forbid(unsafe_code)]

mod command;

use clap::{CommandFactory, FromArgMatches};
use clscope_capture::system;
use clscope_screen::help;
use clscope_screen::output::say;
use std::process::ExitCode;

/// What `--help` shows of it.
const USUAL: [(&str, &str); 1] =
    [("clscope-lab", "device list reproduce budget counters full sweep output format")];

fn command() -> clap::Command {
    help::with_help(command::Args::command(), &USUAL)
}

fn main() -> ExitCode {
    let given = command().get_matches();
    let args = command::Args::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    system::end_at_closed_pipe();
    command::run(&args).unwrap_or_else(|error| {
        say(format_args!("{error:#}"));
        ExitCode::FAILURE
    })
}
