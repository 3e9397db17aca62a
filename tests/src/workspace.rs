//! What cargo says of the workspace: its packages, with what each needs. Refuses to use the
//! network.
#![forbid(unsafe_code)]

use crate::artifacts::root;
use clscope_testing::Limited;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What cargo prints. What it builds lies in `target`.
pub fn cargo(target: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).env("CARGO_TARGET_DIR", target).env("CARGO_NET_OFFLINE", "true");
    let output = command.args(arguments).ended();
    let (said, told) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{command:?}: {told}");
    String::from_utf8(said).expect("cargo prints UTF-8")
}

/// The packages of the workspace, as `cargo metadata` describes them.
pub fn packages(target: &Path) -> Vec<Value> {
    let said = cargo(target, &["metadata", "--no-deps", "--format-version=1"]);
    let mut said: Value = serde_json::from_str(&said).expect("cargo prints JSON");
    let Value::Array(packages) = said["packages"].take() else { panic!("no packages: {said}") };
    packages
}

/// A text of cargo's description; empty where it is absent.
pub fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}
