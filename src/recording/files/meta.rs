//! What a trace holds about the process that made it: the `Process` definition, and meta.json where
//! no `clscope record` writes it.
#![forbid(unsafe_code)]

use crate::os::undisturbed::undisturbed;
use crate::recording::{Recording, files};
use crate::settings::config::{self, Config};
use clscope_trace::defs;
use std::io::Write;
use std::path::Path;

/// Name of the program for the default trace directory: the script for interpreters would need its
/// rules, so the executable.
pub fn program_name() -> String {
    std::env::current_exe()
        .ok()
        .and_then(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()))
        .unwrap_or_else(|| "process".to_owned())
}

/// Rank and size from the variables of launchers: Open MPI, PMIx, MPICH and its derivatives, Slurm.
fn mpi() -> (Option<u32>, Option<u32>) {
    let number = |name: &str| config::seen(name).and_then(|v| v.parse().ok());
    let first = |names: &[&str]| names.iter().find_map(|n| number(n));
    (
        first(&clscope_trace::variables::RANKS),
        first(&["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS"]),
    )
}

/// How many words of the command line are recorded: all, or the program's name.
fn kept(settings: &Config) -> usize {
    if settings.arguments { usize::MAX } else { 1 }
}

/// The first definition of a trace.
pub fn process(files: &files::Files, settings: &Config, layer: bool) -> defs::Process {
    let (mpi_rank, mpi_size) = mpi();
    let mut arguments: Vec<String> = match std::fs::read("/proc/self/cmdline") {
        Ok(words) => {
            let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
            let mut arguments: Vec<String> = words.split(|b| *b == 0).map(text).collect();
            // The list ends with a NUL, not with an empty argument.
            arguments.pop();
            arguments
        }
        // Without /proc: what the process was started with.
        Err(_) => std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
    };
    arguments.truncate(kept(settings));
    defs::Process {
        pid: files.header.pid,
        ppid: files.header.ppid,
        executable: std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default(),
        arguments,
        directory: std::env::current_dir().map(|p| p.display().to_string()).unwrap_or_default(),
        host: host_name(),
        mpi_rank,
        mpi_size,
        recorder: env!("CARGO_PKG_VERSION").to_owned(),
        injection: injection(layer),
        device_timing: settings.device_timing.name().to_owned(),
        rings_survive: files.rings_survive,
        settings: settings.given.clone(),
    }
}

/// The ways by which the recorder came in.
fn injection(layer: bool) -> String {
    let names_us = |variable: &str| config::seen(variable).is_some_and(|v| v.contains("clscope"));
    let ways =
        [(names_us("LD_PRELOAD"), "preload"), (names_us("LD_AUDIT"), "audit"), (layer, "layer")];
    ways.iter().filter(|(on, _)| *on).map(|(_, way)| *way).collect::<Vec<_>>().join(", ")
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|s| s.trim().to_owned())
        .unwrap_or_default()
}

/// Writes meta.json, unless `clscope record` made the directory and will.
pub fn begin(files: &files::Files) {
    write(files, None);
}

/// Completes meta.json at the end of the process that wrote it.
pub fn finish(recording: &Recording) {
    write(&recording.files, Some(clscope_clock::realtime().0));
}

fn write(files: &files::Files, end: Option<u64>) {
    let path = files.directory.join("meta.json");
    if by_another(&path, files.header.pid) {
        return;
    }
    let meta = serde_json::json!({
        "format": { "major": clscope_trace::VERSION.0, "minor": clscope_trace::VERSION.1 },
        "writer": "recorder",
        "recorder": env!("CARGO_PKG_VERSION"),
        "pid": files.header.pid,
        "command": std::env::args_os().take(kept(config::get())).map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>(),
        "start_realtime_ns": files.first_anchor.realtime,
        "start_monotonic_raw_ns": files.first_anchor.raw,
        "end_realtime_ns": end,
    });
    // Under a temporary name: a reader never sees half of it. Failing costs a convenience, the
    // definitions say it all.
    let temporary = format!(".meta.{}.json", files.stem);
    if let Ok(text) = serde_json::to_vec_pretty(&meta) {
        undisturbed(|| {
            // What stands under a name of the recorder's is removed, never written through.
            files.folder.remove(&temporary);
            let written = files.folder.create(&temporary).and_then(|mut f| f.write_all(&text));
            if written.is_ok() {
                let _ = files.folder.rename(&temporary, "meta.json");
            }
        });
    }
}

fn by_another(path: &Path, pid: u32) -> bool {
    let Ok(text) = std::fs::read(path) else { return false };
    serde_json::from_slice::<serde_json::Value>(&text).map_or(true, |v| {
        v.get("writer").is_none_or(|w| w != "recorder") || v.get("pid").is_none_or(|p| *p != pid)
    })
}
