//! What works on a machine, as lines for people. Each value is escaped by itself, for the sake of
//! the colours.

use clscope_doctor::{Finding, Status};
use clscope_io::text::line;

/// The findings, section by section, with their remedies.
pub fn text(findings: &[Finding], colour: bool) -> String {
    let mut out = String::new();
    let mut section = "";
    for finding in findings {
        if finding.section != section {
            section = finding.section;
            out.push_str(&format!("{section}\n"));
        }
        let (mark, code) = match finding.status {
            Status::Ok => ("ok     ", "32"),
            Status::Info => ("info   ", "36"),
            Status::Warning => ("warning", "33"),
            Status::Error => ("error  ", "31"),
        };
        let mark = if colour { format!("\x1b[{code}m{mark}\x1b[0m") } else { mark.to_owned() };
        out.push_str(&format!("  {mark}  {}: {}\n", line(&finding.what), line(&finding.detail)));
        if let Some(fix) = &finding.fix {
            out.push_str(&format!("           to fix: {}\n", line(fix)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_how_and_the_remedy() {
        let findings = [
            Finding::new("loader", "libOpenCL.so.1", Status::Ok, "found"),
            Finding::new("loader", "libOpenCL.so", Status::Warning, "missing")
                .fix("apt install ocl-icd-opencl-dev"),
            Finding::new("clock", "host clock", Status::Info, "x"),
        ];
        assert_eq!(
            text(&findings, false),
            "loader\n  ok       libOpenCL.so.1: found\n  warning  libOpenCL.so: missing\n           to fix: apt install ocl-icd-opencl-dev\nclock\n  info     host clock: x\n"
        );
        assert!(text(&findings, true).contains("\x1b[33mwarning"));
        let hostile =
            [Finding::new("loader", "a\x1b[2J", Status::Ok, "b\nc\u{202e}").fix("d\u{9b}")];
        assert_eq!(
            text(&hostile, false),
            "loader\n  ok       a\\u{1b}[2J: b\\nc\\u{202e}\n           to fix: d\\u{9b}\n"
        );
    }
}
