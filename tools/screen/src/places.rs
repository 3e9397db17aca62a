//! Where things are kept for the user between runs. Refuses to read them.

use clscope_models::device::Device;
use std::path::PathBuf;

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
