//! The audit shim, built and loaded as `record` does it: look-ups in a loader without layers reach
//! the recorder, those of the recorder, the loader and its drivers do not, and nothing else of the
//! application changes.

mod common;

use clscope_testing::{Limited, skip};
use common::{Stage, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Builds the shim once: it is a crate of its own, outside the workspace.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("audit");
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../audit/Cargo.toml");
        let output = Command::new(env!("CARGO"))
            .args(["build", "--release", "--offline", "--target-dir"])
            .arg(&target)
            .arg("--manifest-path")
            .arg(manifest)
            .ended();
        assert!(output.status.success(), "{}", stderr(&output));
        target.join("release/libclscope_audit.so")
    })
}

const LOADER: &str = r#"
    #include <dlfcn.h>
    int puts(const char *);
    int clGetPlatformIDs(void) { puts("loader"); return 0; }
    // A loader's own look-up of a function that it exports itself, as drivers are asked for theirs.
    int clFinish(void) {
        int (*driver)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "clDriverOnly");
        int (*own)(void) = (int (*)(void))dlsym(dlopen("libOpenCL.so.1", RTLD_NOW), "clGetPlatformIDs");
        return own() + (driver ? 1 : 0);
    }
    int clIcdGetPlatformIDsKHR(void) { puts("loader's icd"); return 0; }
"#;

const RECORDER: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    int puts(const char *);
    static void *real(const char *name) {
        void *next = dlsym(RTLD_NEXT, name);
        return next ? next : dlsym(dlopen("libOpenCL.so.1", RTLD_NOW), name);
    }
    int clGetPlatformIDs(void) { puts("recorder"); return ((int (*)(void))real("clGetPlatformIDs"))(); }
    int clFinish(void) { puts("recorder finish"); return ((int (*)(void))real("clFinish"))(); }
    int clIcdGetPlatformIDsKHR(void) { puts("wrong"); return 0; }
"#;

const DLOPEN: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    int main(int argc, char **argv) {
        setvbuf(stdout, 0, _IOLBF, 0);
        void *loader = dlopen(argv[1], strtol(argv[2], 0, 0));
        if (!loader) { puts(dlerror()); return 9; }
        ((int (*)(void))dlsym(loader, "clGetPlatformIDs"))();
        ((int (*)(void))dlsym(loader, "clIcdGetPlatformIDsKHR"))();
        return ((int (*)(void))dlsym(loader, "clFinish"))();
    }
"#;

fn stage() -> Stage {
    let stage = Stage::new();
    std::fs::copy(shim(), stage.join("lib/libclscope_audit.so")).unwrap();
    stage.compile("lib/libclscope.so", RECORDER, &["-shared", "-fPIC"]);
    stage.compile("cl/libOpenCL.so.1", LOADER, &["-shared", "-fPIC", "-Wl,-soname,libOpenCL.so.1"]);
    std::os::unix::fs::symlink("libOpenCL.so.1", stage.join("cl/libOpenCL.so")).unwrap();
    std::fs::copy(stage.join("cl/libOpenCL.so.1"), stage.join("cl/libOpenCL-1a2b.so.1.0.0"))
        .unwrap();
    stage
}

fn record(stage: &Stage, inject: &str, app: &[&str]) -> String {
    let mut command = stage.clscope();
    command.env("LD_LIBRARY_PATH", stage.join("cl")).args(["record", "-q", "-f", "-o", "t"]);
    if !inject.is_empty() {
        command.args(["--inject", inject]);
    }
    let output = command.arg("--").args(app).ended();
    assert!(output.status.success(), "{:?}: {}", output.status, stderr(&output));
    assert_eq!(stderr(&output), "");
    stdout(&output)
}

/// Whether the shim can work here at all: glibc from 2.35 on.
fn glibc_is_new_enough() -> bool {
    let version = stdout(&Command::new("getconf").arg("GNU_LIBC_VERSION").ended());
    let mut parts =
        version.trim().rsplit(' ').next().unwrap().split('.').map(|p| p.parse::<u32>().unwrap());
    (parts.next().unwrap(), parts.next().unwrap()) >= (2, 35)
}

const SEEN: &str = "recorder\nloader\nloader's icd\nrecorder finish\nloader\n";
const UNSEEN: &str = "loader\nloader's icd\nloader\n";

#[test]
fn every_way_to_open_a_loader_is_caught() {
    let stage = stage();
    let app = stage.compile("app", DLOPEN, &[]);
    let app = app.to_str().unwrap();
    let absolute = stage.join("cl/libOpenCL.so.1");
    let renamed = stage.join("cl/libOpenCL-1a2b.so.1.0.0");
    let (lazy, now, global, deep) = ("1", "2", "0x102", "10");
    for name in
        ["libOpenCL.so.1", "libOpenCL.so", absolute.to_str().unwrap(), renamed.to_str().unwrap()]
    {
        for flags in [lazy, now, global, deep] {
            assert_eq!(
                record(&stage, "preload", &[app, name, flags]),
                UNSEEN,
                "{name} {flags}: the preload alone does not see it"
            );
            let expected = if glibc_is_new_enough() { SEEN } else { UNSEEN };
            assert_eq!(record(&stage, "", &[app, name, flags]), expected, "{name} {flags}");
        }
    }
}

#[test]
fn a_linked_application_is_seen_once() {
    let stage = stage();
    let folder = format!("-L{}", stage.join("cl").display());
    let source = "int clGetPlatformIDs(void), clFinish(void);\nint main(void) { clGetPlatformIDs(); return clFinish(); }";
    for flags in [&[][..], &["-fno-plt"], &["-Wl,-z,now"], &["-Wl,-z,lazy"]] {
        let app = stage.compile("linked", source, &[flags, &[&folder, "-lOpenCL"]].concat());
        // Twice the recorder would mean that its own look-ups were sent back to it.
        assert_eq!(
            record(&stage, "", &[app.to_str().unwrap()]),
            "recorder\nloader\nrecorder finish\nloader\n",
            "{flags:?}"
        );
    }
}

#[test]
fn a_plugin_that_binds_deeply_is_caught() {
    let stage = stage();
    let folder = format!("-L{}", stage.join("cl").display());
    let source = "int clGetPlatformIDs(void);\nint plugin(void) { return clGetPlatformIDs(); }";
    for flags in ["-Wl,-z,now", "-Wl,-z,lazy"] {
        let plugin =
            stage.compile("plugin.so", source, &["-shared", "-fPIC", flags, &folder, "-lOpenCL"]);
        let source = format!(
            "#define _GNU_SOURCE\n#include <dlfcn.h>\nint main(void) {{ void *p = dlopen(\"{}\", RTLD_NOW | RTLD_DEEPBIND);\n\
             return ((int (*)(void))dlsym(p, \"plugin\"))(); }}",
            plugin.display()
        );
        let app = stage.compile("app", &source, &[]);
        let expected = if glibc_is_new_enough() { "recorder\nloader\n" } else { "loader\n" };
        assert_eq!(record(&stage, "", &[app.to_str().unwrap()]), expected, "{flags}");
    }
}

#[test]
fn a_wrapper_that_the_application_preloads_is_called_by_the_recorder() {
    let stage = stage();
    let folder = format!("-L{}", stage.join("cl").display());
    let wrapper = stage.compile(
        "wrapper.so",
        "#define _GNU_SOURCE\n#include <dlfcn.h>\nint puts(const char *);\n\
         int clGetPlatformIDs(void) { puts(\"wrapper\"); return ((int (*)(void))dlsym(RTLD_NEXT, \"clGetPlatformIDs\"))(); }",
        &["-shared", "-fPIC"],
    );
    let app = stage.compile(
        "app",
        "int clGetPlatformIDs(void);\nint main(void) { return clGetPlatformIDs(); }",
        &[&folder, "-lOpenCL"],
    );
    for inject in [&[][..], &["--inject", "preload"]] {
        let mut command = stage.clscope();
        command.env("LD_LIBRARY_PATH", stage.join("cl")).env("LD_PRELOAD", &wrapper);
        command.args(["record", "-q", "-f", "-o", "t"]).args(inject).arg("--").arg(&app);
        let output = command.ended();
        let seen = stdout(&output);
        assert_eq!(seen, "recorder\nwrapper\nloader\n", "{inject:?}: {}", stderr(&output));
    }
}

/// An auditor makes ld.so refuse libraries with much thread storage of their own unless its reserve
/// is enlarged.
#[test]
fn libraries_with_much_thread_storage_still_load() {
    let stage = stage();
    let folder = stage.path().display().to_string();
    for bytes in [100, 2000, 70_000] {
        let source = format!(
            "__attribute__((tls_model(\"initial-exec\"))) __thread char big[{bytes}];\nchar *get(void) {{ return big; }}"
        );
        stage.compile("libtls.so", &source, &["-shared", "-fPIC"]);
        let app = stage.compile(
            "tls",
            "char *get(void);\nint main(void) { get()[0] = 1; return get()[1]; }",
            &[&format!("-L{folder}"), "-ltls", &format!("-Wl,-rpath,{folder}")],
        );
        assert_eq!(record(&stage, "", &[app.to_str().unwrap()]), "", "{bytes}");
    }
}

#[test]
fn small_thread_stacks_still_do() {
    let stage = stage();
    let source = r#"
        #include <limits.h>
        #include <pthread.h>
        #include <stdio.h>
        static void *run(void *x) { return x; }
        int main(void) {
            pthread_attr_t a;
            pthread_t t;
            pthread_attr_init(&a);
            if (pthread_attr_setstacksize(&a, 16384)) return 2;
            if (pthread_create(&t, &a, run, 0)) return 3;
            return pthread_join(t, 0);
        }"#;
    let app = stage.compile("stack", source, &["-pthread"]);
    assert_eq!(record(&stage, "", &[app.to_str().unwrap()]), "");
}

#[test]
fn sanitized_applications_run() {
    let stage = stage();
    let source = "#include <stdlib.h>\nint main(void) { char *volatile p = malloc(8); p[0] = 0; free(p); return 0; }";
    for kind in ["address", "thread", "leak", "undefined"] {
        let probe = Command::new("gcc")
            .args(["-x", "c", &format!("-fsanitize={kind}"), "-o", "/dev/null", "/dev/null"])
            .ended();
        // A compiler without the runtime fails at the link with its name; one with it, for the lack
        // of main.
        if String::from_utf8_lossy(&probe.stderr).contains("cannot find") {
            skip(&format!("gcc has no library for -fsanitize={kind}"), true);
            continue;
        }
        let app = stage.compile("sanitized", source, &[&format!("-fsanitize={kind}")]);
        assert_eq!(record(&stage, "", &[app.to_str().unwrap()]), "", "{kind}");
    }
}
