//! The exported symbols: those of the committed list and the layer's, and at least all that the
//! system's loader exports.

use clscope_tests::{Run, artifacts};
use std::collections::BTreeSet;
use std::path::Path;

/// Names that a shared object defines for others, without symbol versions.
fn exported(object: &Path) -> BTreeSet<String> {
    let nm = Run::new("nm", Path::new("/"))
        .args(["-D", "--defined-only", "--without-symbol-versions"])
        .arg(object)
        .run()
        .success();
    nm.stdout
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().rev();
            let name = words.next()?;
            // Absolute symbols are the names of versions.
            (words.next()? != "A").then(|| name.to_owned())
        })
        .collect()
}

fn listed() -> BTreeSet<String> {
    let text =
        std::fs::read_to_string(clscope_tests::artifacts::root().join("src/exports.txt")).unwrap();
    text.lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// The interface of layers, and what the audit shim asks.
const LAYER: [&str; 5] =
    ["clGetLayerInfo", "clInitLayer", "clInitLayerWithProperties", "clDeinitLayer", "clscope_bind"];

#[test]
fn exported_symbols_are_the_committed_list_and_the_layers() {
    let mut expected = listed();
    expected.extend(LAYER.map(str::to_owned));
    let found = exported(&artifacts().recorder());
    let missing: Vec<_> = expected.difference(&found).collect();
    let extra: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, extra {extra:?}");
}

#[test]
fn everything_that_the_systems_loader_exports_is_covered() {
    let loaders = Run::new("sh", Path::new("/"))
        .args(["-c", "ldconfig -p | sed -n 's/.*=> \\(.*libOpenCL.so.1\\)$/\\1/p'"])
        .run()
        .success();
    let mut seen = 0;
    let ours = exported(&artifacts().recorder());
    for loader in loaders.stdout.lines() {
        seen += 1;
        // Loader management is the loader's own; what does not begin with `cl` is nobody's
        // interface.
        let theirs = exported(Path::new(loader));
        let missing: Vec<_> = theirs
            .iter()
            .filter(|n| n.starts_with("cl") && !n.starts_with("clIcd") && !ours.contains(*n))
            .collect();
        assert!(missing.is_empty(), "{loader}: {missing:?}");
        assert!(theirs.contains("clFinish"), "{loader}");
    }
    assert!(seen > 0, "no OpenCL loader is installed");
}

#[test]
fn the_recorder_takes_no_loaders_name_and_needs_no_opencl() {
    let header = Run::new("readelf", Path::new("/"))
        .args(["-d", "-W"])
        .arg(artifacts().recorder())
        .run()
        .success()
        .stdout;
    assert!(!header.contains("libOpenCL"), "{header}");
}

#[test]
fn the_shim_exports_the_audit_interface_and_needs_nothing() {
    let names = exported(&artifacts().shim());
    assert!(names.contains("la_version"), "{names:?}");
    assert!(names.iter().all(|n| n.starts_with("la_")), "{names:?}");
    let header = Run::new("readelf", Path::new("/"))
        .args(["-d", "-W"])
        .arg(artifacts().shim())
        .run()
        .success()
        .stdout;
    assert!(!header.contains("NEEDED"), "{header}");
}
