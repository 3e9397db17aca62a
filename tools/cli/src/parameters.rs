//! Files of device parameters: where `clscope bench model` keeps them, and which is of a device.
//! Owns the place and the choice; refuses another device's or driver's file unless the user insists,
//! and to follow a link out of the cache.
#![forbid(unsafe_code)]

use crate::output::say;
use anyhow::{Context, Result, anyhow};
use clscope_io::input;
use clscope_models::device::{Device, MOST_BYTES, Refused};
use std::path::{Path, PathBuf};

/// Options about the file.
#[derive(Debug, Clone, clap::Args)]
pub struct ParameterArgs {
    /// File of device parameters [default: what `clscope bench model` kept of the device here]
    #[arg(long, value_name = "FILE")]
    pub parameters: Option<PathBuf>,
    /// Take a file of another device or driver all the same
    #[arg(long)]
    pub force: bool,
}

/// Where something is kept for the user: `clscope/NAME` in the cache directory (XDG Base Directory
/// Specification). `None` without a home.
pub fn cache(name: &str) -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base =
        absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("clscope").join(name))
}

/// The file of a device; `None` without a home.
pub fn path(name: &str, platform: &str) -> Option<PathBuf> {
    Some(cache("models")?.join(Device::file_name(name, platform)))
}

/// Most files of parameters that are looked through.
const MOST_KEPT: usize = 64;

/// The parameters of all devices that were measured here. What is no such file is left out: no one
/// asked for it by name.
pub fn kept() -> Vec<Device> {
    let Some(entries) = cache("models").and_then(|place| std::fs::read_dir(place).ok()) else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .take(MOST_KEPT)
        .collect();
    files.sort();
    let read = |path: PathBuf| Device::read(&input::read_inside(&path, MOST_BYTES).ok()?).ok();
    files.into_iter().filter_map(read).collect()
}

/// Reads a file that the user named.
///
/// # Errors
/// If it cannot be read, or is no such file.
pub fn read(path: &Path) -> Result<Device> {
    let what = || format!("cannot read the device parameters in {}", path.display());
    let bytes = input::read(path, MOST_BYTES).with_context(what)?;
    Device::read(&bytes).with_context(what)
}

impl ParameterArgs {
    /// The parameters of a device, if there are any.
    ///
    /// # Errors
    /// Where a file that the user named is unreadable, or of another device or driver. A kept file
    /// that is unusable is no error: it is told, and left out.
    pub fn of(&self, name: &str, platform: &str, driver: &str) -> Result<Option<Device>> {
        if let Some(path) = &self.parameters {
            let device = read(path)?;
            return match device.check(name, driver) {
                Err(why) if !self.force => {
                    Err(anyhow!(why)).with_context(|| format!("cannot use {}", path.display()))
                }
                _ => Ok(Some(device)),
            };
        }
        let Some(path) = path(name, platform).filter(|p| p.exists()) else { return Ok(None) };
        let found = input::read_inside(&path, MOST_BYTES)
            .map_err(anyhow::Error::from)
            .and_then(|bytes| Ok(Device::read(&bytes)?));
        match found {
            // `bench idle` alone keeps a file without parameters.
            Ok(device) if device.parameters.is_empty() => Ok(None),
            Ok(device) => match device.check(name, driver) {
                Ok(()) => Ok(Some(device)),
                Err(Refused::Driver { .. }) if self.force => Ok(Some(device)),
                Err(why) => {
                    say(format_args!("warning: not using {}: {why}", path.display()));
                    Ok(None)
                }
            },
            Err(why) => {
                say(format_args!("warning: cannot use {}: {why:#}", path.display()));
                Ok(None)
            }
        }
    }
}
