//! Programs that a trace keeps: their sources once for equal bytes, listed and written out by the
//! command, left out where asked; what kernels take of their devices.

use clscope_tests::{Mode, Recorded, Runtime, Stage};
use std::path::{Path, PathBuf};

fn kept(trace: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = match std::fs::read_dir(trace.join("programs")) {
        Ok(entries) => entries.map(|e| e.unwrap().path()).collect(),
        Err(_) => Vec::new(),
    };
    out.sort();
    out
}

fn of_runtime(runtime: Runtime) {
    let stage = Stage::new(runtime);
    stage.app(Mode::Record, "t", "linked").run().success();
    let trace = stage.trace("t");
    let files = kept(&trace);
    assert_eq!(files.len(), 1, "{files:?}");
    let source = std::fs::read_to_string(&files[0]).unwrap();
    assert!(source.contains("kernel"), "{source}");
    let recorded = Recorded::read(&[&trace]);
    let definitions = &recorded.processes[0].definitions;
    let program = definitions.programs.values().next().unwrap();
    let [code] = &definitions.codes[..] else { panic!("{:?}", definitions.codes) };
    assert_eq!((&code.hash, code.bytes), (&program.hash, source.len() as u64));
    assert_eq!((code.language.as_str(), code.missing.as_str()), ("cl", ""));
    assert_eq!(files[0].file_name().unwrap().to_str().unwrap(), format!("{}.cl", code.hash));

    let listed = stage.clscope(["programs", "t"]).run().success().stdout;
    assert!(listed.contains(&code.hash) && listed.contains("kernels: "), "{listed}");
    stage.clscope(["programs", "t", "-o", "out"]).run().success();
    let written: Vec<_> =
        std::fs::read_dir(stage.join("out")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(written.len(), 1);
    assert_eq!(std::fs::read_to_string(&written[0]).unwrap(), source);
    let again = stage.clscope(["programs", "t", "-o", "out"]).run();
    assert_eq!(again.status.code(), Some(1), "nothing is written over: {}", again.stderr);

    // A merged trace keeps them, too; a trace in the same place takes theirs.
    stage.clscope(["merge", "t", "-o", "m"]).run().success();
    assert_eq!(kept(&stage.trace("m")).len(), 1);
    let app = clscope_tests::artifacts().fixture("linked");
    let record = ["record", "-q", "--force", "--without", "programs", "-o", "t", "--"];
    stage.clscope(record).arg(app).run().success();
    assert_eq!(kept(&trace).len(), 0);
    let listed = stage.clscope(["programs", "t"]).run().success().stdout;
    assert!(listed.contains("not kept: programs are not kept (--without programs)"), "{listed}");
    let nothing = stage.clscope(["programs", "t", "-o", "none"]).run();
    assert!(nothing.stderr.contains("`--without programs`"), "{}", nothing.stderr);
}

#[test]
fn sources_are_kept_once_listed_and_written_out() {
    of_runtime(Runtime::FakeDriver);
}

#[test]
fn sources_of_pocl_are_kept() {
    of_runtime(Runtime::Pocl);
}

#[test]
fn what_kernels_take_of_their_device_is_told_once() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        stage.app(Mode::Preload, "t", "linked").run().success();
        let recorded = Recorded::read(&[&stage.trace("t")]);
        let definitions = &recorded.processes[0].definitions;
        let names = definitions.kernels.values().map(|k| (k.program, &k.name));
        let names: std::collections::BTreeSet<_> = names.collect();
        assert_eq!(definitions.resources.len(), names.len(), "{:?}", definitions.resources);
        for told in &definitions.resources {
            assert!(told.work_group.is_some_and(|n| n > 0), "{told:?}");
            assert!(definitions.devices.contains_key(&told.device), "{told:?}");
            assert_eq!(told.registers, None, "a CPU's runtime tells none");
        }
    }
}

/// A program that is made of the binary of another, as applications with a cache of their own make
/// them.
const OF_BINARY: &str = r#"
import numpy as np, pyopencl as cl
device = cl.get_platforms()[0].get_devices()[0]
context = cl.Context([device])
queue = cl.CommandQueue(context)
source = "kernel void scaled(global float *a) { a[get_global_id(0)] *= 3.0f; }"
binary = cl.Program(context, source).build(cache_dir=False).get_info(cl.program_info.BINARIES)
program = cl.Program(context, [device], binary).build()
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
cl.Kernel(program, "scaled")(queue, (1024,), (64,), buffer)
queue.finish()
"#;

#[test]
fn machine_code_of_binaries_is_written_as_text() {
    let Some(python) = crate::application::real_apps::given("CLSCOPE_TEST_PYTHON") else { return };
    let stage = Stage::new(Runtime::Pocl);
    let run = stage.program(Mode::Record, "t", &python).args(["-c", OF_BINARY]);
    run.env("PYOPENCL_NO_CACHE", "1").run().success();
    let nothing =
        stage.clscope(["programs", "t", "--format", "text", "-o", "none"]).env("PATH", "/nowhere");
    let said = nothing.run();
    assert!(!said.status.success() && said.stderr.contains("is installed"), "{}", said.stderr);
    let tools = ["/usr/bin/llvm-objdump", "/usr/bin/objdump"];
    if !tools.iter().any(|t| Path::new(t).exists()) {
        clscope_tests::skip("neither llvm-objdump nor objdump is installed", true);
        return;
    }
    stage.clscope(["programs", "t", "--format", "text", "-o", "asm"]).run().success();
    let written: Vec<_> =
        std::fs::read_dir(stage.join("asm")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(written.len(), 1, "{written:?}");
    let text = std::fs::read_to_string(&written[0]).unwrap();
    // The kernel's own code: a product of floats.
    assert!(text.contains("scaled") && text.contains("mulps"), "{text}");
}
