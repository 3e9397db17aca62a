//! Options about files of device parameters. Refuses to read
//! them: [`clscope_models::kept`] does.

use crate::output::say;
use anyhow::Result;
use clscope_models::device::Device;
use clscope_models::kept;
use std::path::PathBuf;

pub use clscope_screen::places::{cache, path};

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

impl ParameterArgs {
    /// The parameters of a device, if there are any.
    ///
    /// # Errors
    /// Where a file that the user named is unreadable, or of another device or driver. A kept file
    /// that is unusable is no error: it is told, and left out.
    pub fn find(&self, name: &str, platform: &str, driver: &str) -> Result<Option<Device>> {
        if let Some(path) = &self.parameters {
            return Ok(Some(kept::read_of(path, name, driver, self.force)?));
        }
        let tell = |text: &str| say(text);
        let kept = |path: PathBuf| kept::kept(&path, name, driver, self.force, &tell);
        Ok(path(name, platform).and_then(kept))
    }
}
