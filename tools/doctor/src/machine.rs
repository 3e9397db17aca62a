//! Owns doctor's findings about this machine without OpenCL: the recorder's files, the host clock,
//! where traces go. Refuses to change anything.
#![forbid(unsafe_code)]

use crate::{Finding, Status, Surroundings};
use clscope_capture::{library, system};
use clscope_trace::Clock;
use std::path::Path;

/// The recorder and the ways into applications.
pub fn recorder(here: Surroundings<'_>) -> Vec<Finding> {
    let mut out = Vec::new();
    let section = "recorder";
    match here.libraries() {
        Err(error) => out.push(
            Finding::error(section, "libclscope.so", error.to_string())
                .fix("cargo build --release"),
        ),
        Ok(libraries) => {
            out.push(Finding::ok(
                section,
                "libclscope.so",
                libraries.recorder.display().to_string(),
            ));
            if let Err(error) = library::check_path(&libraries.recorder) {
                out.push(Finding::error(section, "its path", error.to_string()));
            }
            let build =
                "cargo build --release --manifest-path tools/audit/Cargo.toml --target-dir target";
            let shim = "libclscope_audit.so";
            out.push(match (libraries.shim, system::glibc_version()) {
                (Some(path), Some((2, 35..) | (3.., _))) => Finding::ok(section, shim, path.display().to_string()),
                (_, version @ (None | Some((..=1, _) | (2, ..=34)))) => {
                    let found = version.map_or("another C library".to_owned(), |(a, b)| format!("glibc {a}.{b}"));
                    Finding::warning(section, shim, format!("needs glibc 2.35, here is {found}: applications that dlopen a loader without layers are not seen"))
                }
                (None, _) => {
                    Finding::warning(section, shim, "not built: applications that dlopen a loader without layers are not seen")
                        .fix(build)
                }
            });
        }
    }
    for name in ["LD_PRELOAD", "LD_AUDIT", "OPENCL_LAYERS"] {
        if let Some(value) = here.set(name) {
            let detail = format!(
                "is set to {}; `clscope record` keeps it and adds the recorder",
                value.to_string_lossy()
            );
            out.push(Finding::info(section, name, detail));
        }
    }
    for setting in clscope_trace::variables::SETTINGS {
        if let Some(value) = (here.variable)(setting.name) {
            let status = if setting.name == clscope_trace::variables::ENABLE && value == "0" {
                Status::Warning
            } else {
                Status::Info
            };
            out.push(Finding::new(
                section,
                setting.name,
                status,
                format!("is set to {}", value.to_string_lossy()),
            ));
        }
    }
    out
}

/// The host clock.
pub fn clock() -> Vec<Finding> {
    let source =
        std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_default();
    let source = source.trim();
    vec![match clscope_clock::choose() {
        Clock::Tsc => Finding::ok(
            "clock",
            "host clock",
            format!("TSC, invariant (the kernel's clock source is {source})"),
        ),
        Clock::Cntvct => Finding::ok("clock", "host clock", "the virtual counter CNTVCT"),
        Clock::MonotonicRaw => Finding::warning(
            "clock",
            "host clock",
            format!(
                "CLOCK_MONOTONIC_RAW, some 10 ns slower per reading: the processor's TSC is not invariant or not trusted by the kernel (its clock source is {source})"
            ),
        ),
    }]
}

/// Where traces go.
pub fn files() -> Vec<Finding> {
    let here = std::env::current_dir().unwrap_or_else(|_| Path::new(".").to_path_buf());
    let what = "working directory";
    let shown = here.display();
    if !system::may_write(&here) {
        let detail = format!("{shown} is not writable, and traces go there by default");
        return vec![
            Finding::warning("files", what, detail).fix("clscope record -o /tmp/NAME -- APP"),
        ];
    }
    let size = |free: u64| clscope_io::text::bytes(free as f64);
    vec![match system::free_bytes(&here) {
        Ok(free) if free < 100 << 20 => {
            Finding::warning("files", what, format!("{shown} has only {} left", size(free)))
                .fix("clscope record --max-size 50M -- APP, or -o a place with more room")
        }
        Ok(free) => Finding::ok("files", what, format!("{shown} is writable, {} free", size(free))),
        Err(error) => {
            Finding::warning("files", what, format!("{shown}: the free space is unknown: {error}"))
        }
    }]
}
