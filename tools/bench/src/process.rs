//! Running one process in one way - bare, or with the recorder - and taking its figures. Refuses to
//! keep traces longer than it is asked to.

use anyhow::{Context, Result, bail};
use clscope_capture::drainer::Drainer;
use clscope_io::output::Access;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where things are.
#[derive(Debug, Clone, clap::Args)]
pub struct Places {
    /// The recorder [default: libclscope.so beside this program]
    #[arg(long, value_name = "FILE")]
    pub recorder: Option<PathBuf>,
    /// Folder of the compiled fixtures (tests/fixtures/build.sh makes it) [default: beside this
    /// program]
    #[arg(long, value_name = "DIR")]
    pub fixtures: Option<PathBuf>,
    /// The command, for whole applications [default: clscope beside this program]
    #[arg(long, value_name = "FILE")]
    pub clscope: Option<PathBuf>,
    /// Use the fake OpenCL library of the fixtures instead of the machine's
    #[arg(long)]
    pub fake: bool,
    /// Write the segments in this process, as `clscope record` does: the recorded one makes no
    /// system call for its records, as it has to in a sandbox
    #[arg(long)]
    pub beside: bool,
    /// Where traces are written for the moment; the file system counts
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub scratch: PathBuf,
}

impl Places {
    /// The recorder's path, absolute.
    pub fn recorder(&self) -> Result<PathBuf> {
        program("libclscope.so", self.recorder.as_ref())
    }

    /// The command's path, absolute.
    pub fn clscope(&self) -> Result<PathBuf> {
        program("clscope", self.clscope.as_ref())
    }

    /// A fixture's path.
    pub fn fixture(&self, name: &str) -> Result<PathBuf> {
        let named = self.fixtures.as_ref().map(|directory| directory.join(name));
        program(name, named.as_ref()).with_context(|| {
            format!("no fixture {name}: `sh tests/fixtures/build.sh DIR {name}` makes it, --fixtures DIR names the folder")
        })
    }

    /// A temporary folder on the file system that traces are to be written to.
    pub fn scratch(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new().prefix("clscope-bench-").tempdir_in(&self.scratch).with_context(
            || {
                format!(
                    "could not make a folder in {}: name another with --scratch",
                    self.scratch.display()
                )
            },
        )
    }
}

/// The absolute path of what is named, or of `name` beside this program.
///
/// # Errors
/// If it is not there.
pub fn program(name: &str, named: Option<&PathBuf>) -> Result<PathBuf> {
    let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name(name));
    let path = named.cloned().map_or_else(beside, Ok)?;
    path.canonicalize().with_context(|| {
        format!("no {name} at {}: build it, or name it by the option", path.display())
    })
}

/// How the recorder gets into a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Not at all.
    Bare,
    /// LD_PRELOAD.
    Preload,
    /// OPENCL_LAYERS.
    Layer,
    /// By `clscope record`, as users do it: its own time counts.
    Record,
}

/// What one run gave.
#[derive(Debug, Default)]
pub struct RunFigures {
    /// The lines `name figure figure...` of its output.
    pub figures: BTreeMap<String, Vec<f64>>,
    /// From start to end, in nanoseconds.
    pub wall: f64,
    /// User and system time, in nanoseconds.
    pub cpu: f64,
    /// Bytes of its trace.
    pub trace_bytes: u64,
}

/// One way to run something.
pub struct Runner<'a> {
    /// Where things are.
    pub places: &'a Places,
    /// How the recorder gets in.
    pub way: Way,
    /// Variables on top.
    pub settings: Vec<(String, String)>,
}

impl<'a> Runner<'a> {
    /// A runner without further settings.
    pub fn new(places: &'a Places, way: Way) -> Self {
        Self { places, way, settings: Vec::new() }
    }

    /// With a device-timing method.
    pub fn method(mut self, method: &str) -> Self {
        self.settings.push((clscope_trace::variables::DEVICE_TIMING.to_owned(), method.to_owned()));
        self
    }

    /// The environment of this way, with the trace at `trace`.
    pub fn prepare(&self, command: &mut Command, trace: &Path) -> Result<()> {
        command
            .env_remove("LD_PRELOAD")
            .env_remove("OPENCL_LAYERS")
            .env(clscope_trace::variables::TRACE, trace);
        match self.way {
            Way::Bare => {}
            Way::Record => drop(command.env("CLSCOPE_LIBRARY", self.places.recorder()?)),
            Way::Preload => drop(command.env("LD_PRELOAD", self.places.recorder()?)),
            Way::Layer => drop(command.env("OPENCL_LAYERS", self.places.recorder()?)),
        }
        if self.places.fake {
            let library = self.places.fixture("fake/libOpenCL.so.1")?;
            command.env("LD_LIBRARY_PATH", library.parent().unwrap_or(Path::new("/")));
        }
        for (name, value) in &self.settings {
            command.env(name, value);
        }
        Ok(())
    }

    /// What writes the segments beside the process, where that is asked for.
    fn drainer(&self, trace: &Path) -> Result<Option<Drainer>> {
        if !self.places.beside || !matches!(self.way, Way::Preload | Way::Layer) {
            return Ok(None);
        }
        std::fs::DirBuilder::new().mode(0o700).create(trace)?;
        Ok(Drainer::start(trace, Access::Private, |text| eprintln!("{text}"))?)
    }

    /// Runs `program` to its end.
    ///
    /// # Errors
    /// If it cannot be started or does not end with 0.
    pub fn run(&self, program: &Path, arguments: &[String]) -> Result<RunFigures> {
        let scratch = self.places.scratch()?;
        let trace = scratch.path().join("t.clscope");
        let mut command = match self.way {
            Way::Record => {
                let mut command = Command::new(self.places.clscope()?);
                command.args(["record", "--quiet", "-o"]).arg(&trace).arg("--").arg(program);
                command
            }
            _ => Command::new(program),
        };
        command.args(arguments);
        self.prepare(&mut command, &trace)?;
        let drainer = self.drainer(&trace)?;
        let begin = Instant::now();
        let (ended, text, complaints) = output(&mut command)?;
        let wall = begin.elapsed().as_nanos() as f64;
        let Ended { status, cpu, .. } = ended;
        if status != 0 {
            let tail: Vec<&str> = complaints.lines().rev().take(5).collect();
            bail!(
                "{} ended with wait status {status:#x}: {}",
                program.display(),
                tail.into_iter().rev().collect::<Vec<_>>().join(" | ")
            );
        }
        // It takes away the room that it made and nobody used.
        drop(drainer);
        let cpu = cpu.as_nanos() as f64;
        Ok(RunFigures { figures: figures(&text), wall, cpu, trace_bytes: size(&trace) })
    }
}

/// Runs a command to its end: how it ended, and what it wrote on stdout and stderr.
///
/// # Errors
/// If it cannot be started.
pub fn output(command: &mut Command) -> Result<(Ended, String, String)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("could not start {command:?}"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let complaints = std::thread::spawn(move || read(stderr));
    let text = read(stdout);
    let ended = wait(child.id(), Duration::MAX)?;
    Ok((ended, text, complaints.join().unwrap_or_default()))
}

/// All that comes out of a pipe.
fn read(pipe: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Its wait status.
    pub status: i32,
    /// User and system time.
    pub cpu: Duration,
    /// Most resident memory, in bytes.
    pub memory: u64,
    /// Whether it had to be killed.
    pub hung: bool,
}

/// Waits for a child to its end, or to that of the patience: then it is killed.
///
/// # Errors
/// What the system has against it.
pub fn wait(pid: u32, patience: Duration) -> Result<Ended> {
    let pid = pid as libc::pid_t;
    let interrupted = || std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
    // SAFETY: pidfd_open takes two integers and gives a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    if fd < 0 {
        bail!("pidfd_open: {}", std::io::Error::last_os_error());
    }
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let patience = i32::try_from(patience.as_millis()).unwrap_or(-1);
    let ended = loop {
        // SAFETY: one pollfd that lives on this stack.
        match unsafe { libc::poll(&mut poll, 1, patience) } {
            -1 if interrupted() => {}
            ready => break ready == 1,
        }
    };
    // SAFETY: the descriptor is ours and not used after this; the child is not waited for yet, so
    // that its id is still its own.
    unsafe {
        libc::close(fd);
        if !ended {
            libc::kill(pid, libc::SIGKILL);
        }
    }
    let mut status = 0;
    // SAFETY: an all-zero rusage is valid; both pointers are to locals; the child is ours, and not
    // waited for elsewhere.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        while libc::wait4(pid, &mut status, 0, &mut usage) < 0 {
            if !interrupted() {
                bail!("wait4: {}", std::io::Error::last_os_error());
            }
        }
        usage
    };
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec as u64) + Duration::from_micros(t.tv_usec as u64)
    };
    let (cpu, memory) =
        (time(usage.ru_utime) + time(usage.ru_stime), usage.ru_maxrss as u64 * 1024);
    Ok(Ended { status, cpu, memory, hung: !ended })
}

/// Lines that begin with a word and go on with numbers only.
fn figures(text: &str) -> BTreeMap<String, Vec<f64>> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let numbers = words.map(str::parse).collect::<Result<Vec<f64>, _>>().ok()?;
        (!numbers.is_empty()).then_some((name, numbers))
    };
    text.lines().filter_map(line).collect()
}

/// Bytes of the files in a folder, 0 if it does not exist.
pub fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|e| e.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|m| m.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_lines_of_a_word_and_numbers() {
        let found = figures("floor 18.5 19\nno figures here\nbare 1 2 3 4\nalone\n");
        assert_eq!(found.len(), 2);
        assert_eq!(found["floor"], [18.5, 19.0]);
        assert_eq!(found["bare"], [1.0, 2.0, 3.0, 4.0]);
    }
}
