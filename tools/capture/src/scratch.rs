//! A private folder for the files of other programs, below the system's for temporary ones. Refuses
//! to outlive its owner.
#![forbid(unsafe_code)]

use clscope_io::output::{Access, create_dir};
use std::path::{Path, PathBuf};

/// The folder; it goes with all that lies in it.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// Makes one below another, for what is done in it.
    ///
    /// # Errors
    /// Why there is none, as a sentence's end.
    pub(crate) fn new(below: &Path, what: &str) -> Result<Self, String> {
        let folder = below.join(format!("clscope-{what}-{}", std::process::id()));
        create_dir(&folder, Access::Private)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays there is temporary.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
