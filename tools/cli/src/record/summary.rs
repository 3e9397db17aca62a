//! Owns the one line about what was recorded. Refuses to count: [`clscope_profile::contents`] does.
#![forbid(unsafe_code)]

use crate::output::count;
use clscope_profile::contents::Contents;

/// One line about what was recorded.
pub fn line(of: &Contents) -> String {
    let processes = count(of.processes, "process", "processes");
    match of.calls {
        None => format!("{processes}, {}", size(of.bytes)),
        Some(calls) => {
            let commands = count(of.commands, "device command", "device commands");
            let timed = if of.timed == of.commands {
                String::new()
            } else {
                format!(" ({} timed)", of.timed)
            };
            format!(
                "{processes}, {}, {commands}{timed}, {}",
                count(calls, "OpenCL call", "OpenCL calls"),
                size(of.bytes)
            )
        }
    }
}

/// A size for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_well() {
        let one = Contents {
            processes: 1,
            calls: Some(1),
            commands: 1,
            timed: 1,
            bytes: 900,
            ..Contents::default()
        };
        assert_eq!(line(&one), "1 process, 1 OpenCL call, 1 device command, 900 bytes");
        let many = Contents {
            processes: 2,
            calls: Some(726),
            commands: 40,
            timed: 39,
            bytes: 123_456,
            ..Contents::default()
        };
        assert_eq!(
            line(&many),
            "2 processes, 726 OpenCL calls, 40 device commands (39 timed), 123 kB"
        );
        let large =
            Contents { processes: 1, calls: None, bytes: 20_000_000_000, ..Contents::default() };
        assert_eq!(line(&large), "1 process, 20 GB");
    }
}
