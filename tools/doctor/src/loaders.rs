//! Owns doctor's findings about OpenCL: the loaders that applications can find, the drivers they
//! know, the platforms and devices behind them. Refuses to call into any of them itself:
//! [`child`] does, in a process of its own.
#![forbid(unsafe_code)]

use crate::child::{self, Answer};
use crate::{Finding, Status, Surroundings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names by which applications ask for a loader.
const NAMES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

/// Everything about OpenCL here.
pub fn examine(here: Surroundings<'_>) -> Vec<Finding> {
    let mut out = Vec::new();
    let loaders = loaders(here);
    if loaders.is_empty() {
        out.push(
            Finding::error(
                "loader",
                "libOpenCL.so.1",
                "no OpenCL loader is installed: no application here can use OpenCL",
            )
            .fix("apt install ocl-icd-libopencl1"),
        );
    }
    let mut devices = 0;
    for (path, names) in &loaders {
        let what = names.join(", ");
        let (more, found) = loader(here, path, &what);
        out.extend(more);
        devices += found;
    }
    out.extend(drivers(here));
    if devices == 0 && !loaders.is_empty() {
        out.push(
            Finding::error("device", "devices", "no loader gives any OpenCL device")
                .fix("apt install pocl-opencl-icd for the processor, or the driver of your GPU"),
        );
    }
    out.sort_by_key(|finding| {
        ["loader", "driver", "device"].iter().position(|s| *s == finding.section)
    });
    out
}

/// Loaders by real path, with the names that lead to them. What an application gets by a bare name
/// comes from ld.so itself, asked in a child; the rest from its cache.
fn loaders(here: Surroundings<'_>) -> BTreeMap<PathBuf, Vec<String>> {
    let mut found: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for name in NAMES {
        if let Ok(Answer { path: Some(path), .. }) = child::ask(here.program, &["path", name]) {
            let path = std::fs::canonicalize(&path).unwrap_or(path);
            found.entry(path).or_default().push(name.to_owned());
        }
    }
    for path in cached().into_iter().chain(in_library_path(here)) {
        let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        found.entry(real).or_insert_with(|| vec![path.display().to_string()]);
    }
    found
}

/// libOpenCL.so* in ld.so's cache.
fn cached() -> Vec<PathBuf> {
    let output = ["ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"]
        .iter()
        .find_map(|p| Command::new(p).arg("-p").output().ok());
    let Some(output) = output else { return Vec::new() };
    let own = if cfg!(target_arch = "aarch64") { "AArch64" } else { "x86-64" };
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.trim_start().starts_with("libOpenCL.so") && line.contains(own))
        .filter_map(|line| Some(PathBuf::from(line.split_once(" => ")?.1)))
        .collect()
}

fn in_library_path(here: Surroundings<'_>) -> Vec<PathBuf> {
    let folders = here.set("LD_LIBRARY_PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .filter(|path| path.is_file())
        .collect()
}

fn contains(path: &Path, text: &[u8]) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.windows(text.len()).any(|w| w == text))
}

/// Findings about one loader, and how many devices it gives.
fn loader(here: Surroundings<'_>, path: &Path, what: &str) -> (Vec<Finding>, usize) {
    let shown = path.display();
    let answer = match child::ask(here.program, &["loader".as_ref(), path.as_os_str()]) {
        Ok(answer) => answer,
        Err(error) => {
            return (vec![Finding::error("loader", what, format!("{shown}: {error}"))], 0);
        }
    };
    if let Some(error) = &answer.error {
        return (vec![Finding::error("loader", what, format!("{shown}: {error}"))], 0);
    }
    let name = answer
        .loader
        .clone()
        .unwrap_or_else(|| "a loader that does not report its name".to_owned());
    // Loaders that know layers read this variable.
    let layers = contains(path, b"OPENCL_LAYERS");
    let ways = if layers {
        "layers work"
    } else {
        "knows no layers: applications that dlopen it are seen through the audit shim only"
    };
    let mut out = vec![Finding::ok("loader", what, format!("{shown}: {name}; {ways}"))];
    let mut devices = 0;
    for platform in &answer.platforms {
        let mut line = format!("{} ({}), {}", platform.name, platform.vendor, platform.version);
        if let Some(error) = &platform.error {
            line.push_str(&format!(": {error}"));
        }
        let status = if platform.devices.is_empty() { Status::Info } else { Status::Ok };
        let finding = Finding::new("device", format!("platform, by {what}"), status, line);
        // Mesa's Rusticl shows no device unless RUSTICL_ENABLE names the drivers.
        let hidden = platform.devices.is_empty()
            && platform.name == "rusticl"
            && (here.variable)("RUSTICL_ENABLE").is_none();
        out.push(if hidden {
            finding.fix("export RUSTICL_ENABLE=iris,radeonsi,llvmpipe")
        } else {
            finding
        });
        for device in &platform.devices {
            devices += 1;
            let detail = format!(
                "{}, {}, driver {}, {} compute units, {}, profiling in steps of {} ns",
                device.kind,
                device.version,
                device.driver,
                device.compute_units,
                clscope_io::text::bytes(device.global_memory as f64),
                device.timer_resolution
            );
            out.push(Finding::ok("device", device.name.clone(), detail));
        }
    }
    if let Some(error) = &answer.platforms_error {
        out.push(Finding::warning("device", format!("platforms, by {what}"), error.clone()));
    }
    (out, devices)
}

/// The drivers that loaders are configured with.
fn drivers(here: Surroundings<'_>) -> Vec<Finding> {
    let mut out = Vec::new();
    if let Some(names) = here.set("OCL_ICD_FILENAMES") {
        for name in std::env::split_paths(&names) {
            out.push(driver(here, "OCL_ICD_FILENAMES", &name.to_string_lossy()));
        }
    }
    let vendors = here.set("OCL_ICD_VENDORS").map(PathBuf::from);
    let place = vendors.clone().unwrap_or_else(|| "/etc/OpenCL/vendors".into());
    let source = if vendors.is_some() { "OCL_ICD_VENDORS" } else { "ICD" };
    let mut files: Vec<PathBuf> = Vec::new();
    match std::fs::read_dir(&place) {
        Ok(entries) => files.extend(
            entries
                .flatten()
                .map(|e| e.path())
                .filter(|p| p.extension().is_some_and(|e| e == "icd")),
        ),
        Err(_) if place.is_file() => files.push(place.clone()),
        Err(error) => {
            out.push(Finding::warning("driver", source, format!("{}: {error}", place.display())))
        }
    }
    files.sort();
    for file in files {
        let what = format!("{source} {}", file.display());
        match std::fs::read_to_string(&file) {
            Ok(text) => match text.lines().next().map(str::trim).filter(|name| !name.is_empty()) {
                Some(name) => out.push(driver(here, &what, name)),
                None => out.push(Finding::warning("driver", what, "names no library")),
            },
            Err(error) => {
                out.push(Finding::warning("driver", what, format!("cannot be read: {error}")))
            }
        }
    }
    if out.is_empty() {
        out.push(
            Finding::error("driver", source, format!("{} names no driver", place.display()))
                .fix("apt install pocl-opencl-icd for the processor, or the driver of your GPU"),
        );
    }
    out
}

fn driver(here: Surroundings<'_>, what: &str, library: &str) -> Finding {
    match child::ask(here.program, &["driver", library]) {
        Ok(Answer { error: None, .. }) => {
            Finding::ok("driver", what, format!("{library} can be loaded"))
        }
        Ok(Answer { error: Some(error), .. }) => {
            Finding::warning("driver", what, format!("{library} cannot be loaded: {error}"))
                .fix("install what is missing, or remove the .icd file")
        }
        Err(error) => Finding::warning("driver", what, format!("{library}: {error}")),
    }
}
