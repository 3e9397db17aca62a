//! Where a user's calibrations are kept. Owns the question to the environment; refuses to read the
//! file: [`clscope_profile::calibration`] does.
#![forbid(unsafe_code)]

use clscope_profile::calibration::VARIABLE;
use std::path::PathBuf;

/// Where this user's calibrations are kept; `None` without a home.
pub fn path() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    given(VARIABLE).or_else(|| {
        let cache = given("XDG_CACHE_HOME")
            .filter(|p| p.is_absolute())
            .or_else(|| Some(given("HOME")?.join(".cache")))?;
        Some(cache.join("clscope").join("calibration.json"))
    })
}
