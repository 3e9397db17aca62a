//! What is tested: recorder, command, audit shim (release builds, as users have them) and the
//! fixtures, built once per run of the tests. Works with one process per test and with one per test
//! binary: the build happens under a file lock, and a run of nextest builds once. Refuses to test
//! products of unknown age, except those that `CLSCOPE_TEST_ARTIFACTS` names.

use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use clscope_testing::{Limited, Watch};

/// How long building may take: a release build on a busy machine.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);

/// Paths of what was built.
#[derive(Debug, Clone)]
pub struct Artifacts {
    /// Folder of `clscope`, `libclscope.so` and `libclscope_audit.so`.
    pub products: PathBuf,
    /// Folder of the fixtures.
    pub fixtures: PathBuf,
    /// Kept between runs: caches of runtimes, for speed.
    pub cache: PathBuf,
}

impl Artifacts {
    /// The recorder.
    pub fn recorder(&self) -> PathBuf {
        self.products.join("libclscope.so")
    }
    /// The audit shim.
    pub fn shim(&self) -> PathBuf {
        self.products.join("libclscope_audit.so")
    }
    /// The command.
    pub fn clscope(&self) -> PathBuf {
        self.products.join("clscope")
    }
    /// The program of suites and experiments.
    pub fn lab(&self) -> PathBuf {
        self.products.join("clscope-lab")
    }
    /// A fixture by name.
    pub fn fixture(&self, name: &str) -> PathBuf {
        self.fixtures.join(name)
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ lies in the repository")
        .to_owned()
}

/// Builds what is tested, or finds it built by this run.
///
/// # Panics
/// If a build fails; its output is in the message.
pub fn artifacts() -> &'static Artifacts {
    static DONE: OnceLock<Artifacts> = OnceLock::new();
    DONE.get_or_init(|| {
        let target = target();
        let found = Artifacts {
            products: target.join("release"),
            fixtures: target.join("e2e/fixtures"),
            cache: target.join("e2e/cache"),
        };
        if let Some(products) = std::env::var_os("CLSCOPE_TEST_ARTIFACTS") {
            // Built a moment ago by the caller, who says so.
            let found = Artifacts { products: products.into(), ..found };
            under_lock(&target, |_| fixtures(&found));
            return found;
        }
        under_lock(&target, |_| {
            let products = ["-p", "clscope", "-p", "clscope-cli", "-p", "clscope-lab"];
            cargo(&target, &[&["build", "--release"], &products[..]].concat());
            cargo(&target, &["build", "--release", "--manifest-path", "tools/audit/Cargo.toml"]);
            fixtures(&found);
        });
        found
    })
}

/// The target directory that this test binary lies in.
pub(crate) fn target() -> PathBuf {
    let exe = std::env::current_exe().expect("the test's own path");
    // TARGET/PROFILE/deps/NAME-HASH
    exe.ancestors().nth(3).expect("a test binary lies in TARGET/PROFILE/deps").to_owned()
}

/// Runs `build` unless this run of nextest did already.
fn under_lock(target: &Path, build: impl FnOnce(&Path)) {
    let folder = target.join("e2e");
    fs::create_dir_all(folder.join("cache")).expect("a folder for what the tests build");
    let mut file = fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join("built"))
        .expect("the build's lock file");
    // Another test may build meanwhile: the products, the shim and the fixtures.
    let waiting = Watch::new("waiting for another test's build", BUILD_LIMIT * 2);
    // SAFETY: flock on a descriptor that `file` keeps open; it ends with the descriptor.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0, "lock of the build");
    drop(waiting);
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_default();
    let mut built = String::new();
    file.read_to_string(&mut built).expect("the build's lock file");
    if run.is_empty() || built != run {
        build(&folder);
        fs::write(folder.join("built"), run).expect("the build's lock file");
    }
}

fn cargo(target: &Path, arguments: &[&str]) {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).env("CARGO_TARGET_DIR", target).arg("--quiet").args(arguments);
    // What cargo set for this test is none of the inner build's affairs.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
            || name == "LD_LIBRARY_PATH"
        {
            command.env_remove(name.as_ref());
        }
    }
    done(&mut command);
}

fn fixtures(found: &Artifacts) {
    done(Command::new("sh").arg(root().join("tests/fixtures/build.sh")).arg(&found.fixtures));
}

fn done(command: &mut Command) {
    let output = command.ended_within(BUILD_LIMIT);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
