//! The helper of `clscope sensord`: a small privileged process that opens the processor's energy
//! counters and hands descriptors of them, and of nothing else, to members of one group. Owns the
//! socket and the giving up of privilege. Refuses to take any word from a client: a connection is
//! answered from who it is, never from what it says.
//!
//! # Threat model
//! Energy counters are a side channel. PLATYPUS (CVE-2020-8694, -8695, -12912) recovers keys of
//! other processes, of SGX enclaves and of the kernel from fine-grained RAPL readings, which is why
//! Linux gives them to root alone. Whoever may use this helper can mount that attack on everything
//! that runs on the machine: put only people into the group who could be trusted with each other's
//! secrets, and none on machines shared with strangers.
//!
//! | threat | answer |
//! |---|---|
//! | anybody reads counters | the socket has mode 0660 and the group's ownership, and each peer is asked of the kernel (SO_PEERCRED, SO_PEERGROUPS) |
//! | a client steers the helper to other files | nothing is read from clients; roots are the system's or the administrator's |
//! | a passed descriptor gives more than energy | only powercap `energy_uj` files and perf `power` events, opened read-only; never an MSR file, which reads every register |
//! | a fault in the helper | it opens everything first, then gives up root, all groups but the one, and the way back (no_new_privs); it keeps no capability |
//! | a false helper feeds figures | clients believe only a socket on which root listens |
//! | a client that never reads | two seconds, then its connection is closed |
//! | readings outlive membership | descriptors stay open as long as their holder: stop its processes, too, when a user leaves the group |
//!
//! Nothing here is setuid, nothing is written to sysfs, and no permission of any file changes but
//! the socket's.
#![forbid(unsafe_code)]

use crate::error::{Attempt, CaptureError};
use crate::{Tell, system};
use clscope_sensors::{Roots, System, handover};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// User id of `nobody`, on every Linux.
const NOBODY: u32 = 65_534;

/// What the helper gives, and to whom.
#[derive(Debug, Clone)]
pub struct Options {
    /// Group (name or number) whose members may read energy counters.
    pub group: String,
    /// Socket to listen on.
    pub socket: PathBuf,
    /// Look for counters below this directory instead of the system's.
    pub sysfs_root: Option<PathBuf>,
}

/// A group's number from its name, as /etc/group (`text`) has it.
fn group_id(name: &str, text: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Serves until it is stopped. The environment may name a socket that a service manager opened.
///
/// # Errors
/// If there is nothing to give, the socket cannot be made, or privilege cannot be given up.
pub fn run(
    args: &Options,
    variable: &dyn Fn(&str) -> Option<OsString>,
    tell: Tell,
) -> Result<Infallible, CaptureError> {
    let groups = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let Some(group) = group_id(&args.group, &groups) else {
        return Err(refused!(
            "there is no group {}; make it with `sudo groupadd {}`",
            args.group,
            args.group
        ));
    };
    let roots = args.sysfs_root.as_deref().map_or_else(Roots::default, Roots::below);
    let offers = handover::open_offers(&System, &roots).map_err(|error| {
        let remedy = error.remedy().map_or_else(String::new, |r| format!("; to fix: {r}"));
        refused!("no energy counter can be opened: {error}{remedy}")
    })?;
    let listener = match system::inherited_listener(variable) {
        Some(listener) => listener,
        None => listen(&args.socket, group)?,
    };
    if system::credentials().0 == 0 {
        system::become_user(NOBODY, group).attempt(|| "cannot give up root's privileges")?;
    } else {
        tell(&"not started as root: users' clients will refuse this helper");
    }
    tell(&format_args!(
        "{} energy counters for group {} ({group}) at {}",
        offers.len(),
        args.group,
        args.socket.display()
    ));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                tell(&format_args!("a connection failed: {error}"));
                // Out of descriptors, perhaps: others end.
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        let limit = Some(Duration::from_secs(2));
        let _ = stream.set_write_timeout(limit).and_then(|()| stream.set_read_timeout(limit));
        match handover::serve(&stream, &offers, group) {
            Ok(peer) => tell(&format_args!("given to user {}", peer.uid)),
            Err(error) => tell(&error),
        }
    }
}

fn listen(path: &Path, group: u32) -> Result<UnixListener, CaptureError> {
    let shown = path.display();
    if let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).attempt(|| format!("cannot make {}", folder.display()))?;
    }
    // What a helper left behind is replaced; anything that is no socket is somebody else's.
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(refused!("a helper listens at {shown} already"));
            }
            std::fs::remove_file(path).attempt(|| format!("cannot replace {shown}"))?;
        }
        Ok(_) => {
            return Err(refused!("{shown} exists and is no socket; choose another with --socket"));
        }
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).attempt(|| format!("cannot listen at {shown}"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))
        .attempt(|| format!("cannot set the mode of {shown}"))?;
    std::os::unix::fs::chown(path, None, Some(group))
        .attempt(|| format!("cannot give {shown} to the group"))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_or_numbers() {
        let text = "root:x:0:\nenergy:x:1042:ann,bob\nbroken\n";
        assert_eq!(group_id("energy", text), Some(1042));
        assert_eq!(group_id("7", text), Some(7));
        assert_eq!((group_id("broken", text), group_id("nobody", text)), (None, None));
    }

    #[test]
    fn only_sockets_nobody_listens_on_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/s.sock");
        let group = system::credentials().1;
        let first = listen(&path, group).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert!(listen(&path, group).unwrap_err().to_string().contains("already"));
        drop(first);
        drop(listen(&path, group).unwrap());
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(listen(&file, group).unwrap_err().to_string().contains("no socket"));
    }
}
