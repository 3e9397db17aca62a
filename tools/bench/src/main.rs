//! `clscope-bench`: what recording costs, and what it survives. Owns the list of runs; each module
//! owns one kind. It measures whole processes from outside, bare and recorded in turns, and refuses
//! to judge: figures and their floor are printed, aims are the README's. Only `kill`, `soak`,
//! `stress`, `programs` and the fuzzers fail, on what must never happen.

mod apps;
mod captured;
mod costs;
mod folder;
mod fuzzing;
mod kill;
mod process;
mod programs;
mod random;
mod soak;
mod stress;
mod table;

use fuzzing::{fuzz, fuzz_command, fuzz_counters, fuzz_fields, fuzz_made, unreasonable};

use costs::{cheap, cost, enqueue, load};

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Added time per call, per launch, per method, bytes, load time, whole applications: tables in
    /// Markdown
    Cost(cost::Args),
    /// Kill recorded applications at random moments and count what their traces lack
    Kill(kill::Args),
    /// Record many calls under a size limit and watch memory and disk
    Soak(soak::Args),
    /// Disturb recorded applications at random: kills, forks, cancelled threads, limits, signals
    Stress(stress::Args),
    /// Run generated programs bare and recorded, and shrink those that differ
    Programs(programs::Args),
    /// Feed damaged traces to the reader, the analysis and the command
    Fuzz(fuzz::Course),
    /// Feed damaged and unreasonable trace directories to the command, in processes of their own
    #[command(name = "fuzz-command")]
    FuzzDirectories(fuzz_command::Args),
    /// Feed damaged streams of OA reports, answers of drivers and metric sets to their readers
    FuzzCounters(fuzz::Course),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Cost(args) => cost::run(&args),
        Command::Kill(args) => kill::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Stress(args) => stress::run(&args),
        Command::Programs(args) => programs::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::FuzzDirectories(args) => fuzz_command::run(&args),
        Command::FuzzCounters(args) => fuzz_counters::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("clscope-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
