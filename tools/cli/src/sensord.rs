//! `clscope sensord`: options of the privileged helper. Refuses to be it: see
//! [`clscope_capture::sensord`].

use crate::output::say;
use anyhow::Result;
use clscope_capture::sensord::{Options, run as serve};
use clscope_capture::sources::SOCKET;
use std::convert::Infallible;
use std::path::PathBuf;

/// Options of `clscope sensord`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  sudo clscope sensord energy                   until it is stopped
  clscope record -- ./app                       as a member of that group, in another terminal

It may be started by systemd with a socket unit (ListenStream=/run/clscope/sensord.sock, SocketGroup=energy, SocketMode=0660).
Members of the group can spy on other users' programs by their energy: choose them with that in mind.")]
pub struct Args {
    /// Group (name or number) whose members may read energy counters
    #[arg(value_name = "GROUP")]
    group: String,
    /// Socket to listen on
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Look for counters below this directory instead of the system's
    #[arg(long, value_name = "DIR")]
    sysfs_root: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The helper's.
pub fn run(args: &Args) -> Result<Infallible> {
    let options = Options {
        group: args.group.clone(),
        socket: args.socket.clone(),
        sysfs_root: args.sysfs_root.clone(),
    };
    Ok(serve(&options, &|name| std::env::var_os(name), |text| say(text))?)
}
