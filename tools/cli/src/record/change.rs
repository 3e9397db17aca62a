//! Options of `clscope record` that change what the application runs: kernels, build options,
//! work-group sizes. Owns their checks, which the recorder could make only while the application
//! runs; refuses to know how it is done.

use clscope_trace::replace::{LocalSize, MOST_FILE, Replacement};
use clscope_trace::variables;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// The options.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)] // its name is that of the options around
pub struct Args {
    /// Launches of the kernel KERNEL (a name, or a pattern with * and ?) run the kernel of the same
    /// name in FILE: OpenCL C, SPIR-V or a binary of the device, told by its content. It is built
    /// with APP's options and given APP's arguments; where its arguments differ or it does not
    /// build, APP's own runs. The trace and every report say so first. Repeat for several
    #[arg(long, value_name = "KERNEL=FILE", value_parser = replacement, conflicts_with_all = ["mix", "replay", "capture"])]
    replace: Vec<String>,
    /// Append OPTIONS to those of programs that APP builds or compiles from source; APP is told its
    /// own. Where a program does not build so, it is built as APP asked
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, value_parser = options)]
    options: Option<String>,
    /// Work-group size of launches of the kernel KERNEL (a name, or a pattern): sobel=64x1. A
    /// launch that cannot have it keeps APP's; the trace says why. Repeat for several
    #[arg(long, value_name = "KERNEL=SIZES", value_parser = local, conflicts_with_all = ["mix", "replay", "capture"])]
    local: Vec<String>,
}

/// A comma would begin the next entry of the variable.
fn without_comma(text: &str) -> Result<(), String> {
    match text.contains(',') {
        true => Err("it has a comma, which separates entries: give it a name without".to_owned()),
        false => Ok(()),
    }
}

/// Handed on with the whole path once the file is known to be there: the application may change its
/// working directory.
fn replacement(text: &str) -> Result<String, String> {
    let Replacement { kernel, file } = text.parse().map_err(|why| format!("{why}"))?;
    without_comma(text)?;
    let path = Path::new(&file);
    let opened = clscope_io::input::open(path)
        .map_err(|error| format!("cannot open {file} for {kernel}: {error}"))?;
    let bytes = opened.metadata().map_err(|error| format!("cannot look at {file}: {error}"))?.len();
    if bytes == 0 || bytes > MOST_FILE {
        return Err(format!(
            "{file} has {bytes} bytes; a kernel's code has between 1 and {MOST_FILE}"
        ));
    }
    let whole = std::path::absolute(path).map_err(|error| format!("{file}: {error}"))?;
    let whole = whole.to_str().ok_or("its directory has a name that is no text")?;
    without_comma(whole)?;
    Ok(format!("{kernel}={whole}"))
}

fn options(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => {
            Err("give options of the OpenCL compiler: --options '-cl-fast-relaxed-math'".to_owned())
        }
        text => Ok(text.to_owned()),
    }
}

fn local(text: &str) -> Result<String, String> {
    without_comma(text)?;
    text.parse::<LocalSize>().map(|size| size.to_string()).map_err(|why| why.to_string())
}

impl Args {
    /// As the recorder's settings.
    pub fn settings(&self, set: &mut BTreeMap<&'static str, OsString>) {
        for (name, list) in [(variables::REPLACE, &self.replace), (variables::LOCAL, &self.local)] {
            if !list.is_empty() {
                set.insert(name, list.join(",").into());
            }
        }
        set.extend(self.options.iter().map(|all| (variables::APPEND_OPTIONS, all.into())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_right_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("k.cl");
        std::fs::write(&file, "kernel void k() {}").unwrap();
        let name = file.to_str().unwrap();
        assert_eq!(replacement(&format!("k={name}")), Ok(format!("k={name}")));
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        for (bad, says) in [
            ("k".to_owned(), "KERNEL=FILE"),
            (format!("k={name}.missing"), "cannot open"),
            (format!("k={}", folder.path().display()), "a directory"),
            (format!("k={}", empty.display()), "0 bytes"),
            (format!("a,b={name}"), "comma"),
        ] {
            let why = replacement(&bad).unwrap_err();
            assert!(why.contains(says), "{bad}: {why}");
        }
        assert_eq!(local("k=64x1"), Ok("k=64x1".to_owned()));
        for bad in ["k", "k=0", "k=1x1x1x1", "a,b=8"] {
            assert!(local(bad).is_err(), "{bad}");
        }
        assert!(options(" ").is_err() && options("-w").is_ok());
    }
}
