//! Trace directories as bytes: read, written, and as the analysis takes them. Owns which file is of
//! which process; refuses to look into one.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clscope_analysis::input::{File, ProcessFiles};
use std::collections::BTreeMap;
use std::path::Path;

/// Files of a directory: names and bytes.
pub type Files = Vec<(String, Vec<u8>)>;

/// The files of a folder, those of folders in it by their relative names.
///
/// # Errors
/// If one cannot be read.
pub fn read(directory: &Path) -> Result<Files> {
    let mut files = Files::new();
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("could not list {}", directory.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            let inner = read(&path)?;
            files.extend(inner.into_iter().map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
        } else {
            files.push((name, std::fs::read(&path)?));
        }
    }
    files.sort();
    Ok(files)
}

/// Writes files into a folder.
///
/// # Errors
/// If one cannot be written.
pub fn write(directory: &Path, files: &Files) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    for (name, bytes) in files {
        let path = directory.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, bytes)?;
    }
    Ok(())
}

/// The processes of a trace, by their `PID-INCARNATION`; a sensors' file is of none.
pub fn processes(files: &Files) -> Vec<ProcessFiles<'_>> {
    let mut found: BTreeMap<&str, ProcessFiles<'_>> = BTreeMap::new();
    for (name, bytes) in files.iter().filter(|f| f.0.starts_with(|c: char| c.is_ascii_digit())) {
        let stem = name.split('.').next().unwrap_or_default();
        let file = File { name: name.clone(), bytes };
        let process = found.entry(stem).or_default();
        process.label = stem.to_owned();
        match name.rsplit_once('.').map(|(_, ending)| ending) {
            Some("defs") => process.defs = Some(file),
            Some("clt") => process.segments.push(file),
            Some("ring") => process.ring = Some(file),
            _ => {}
        }
    }
    found.retain(|_, p| p.defs.is_some() || !p.segments.is_empty() || p.ring.is_some());
    found.into_values().collect()
}
