//! `clscope doctor` with loaders and drivers made for the purpose: what they give is told, and what
//! they break is told too.

mod common;

use clscope_testing::Limited;
use common::{Stage, stderr, stdout};
use serde_json::Value;
use std::path::Path;

/// A loader with one platform and one device; `start` runs when platforms are asked for.
fn loader(stage: &Stage, start: &str) {
    let source = format!(
        r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        typedef void *H;
        static int text(const char *t, unsigned long n, void *v, unsigned long *r)
        {{ if (r) *r = strlen(t) + 1; if (v && n > strlen(t)) strcpy(v, t); return 0; }}
        static int number(unsigned long x, unsigned size, void *v, unsigned long *r)
        {{ if (r) *r = size; if (v) memcpy(v, &x, size); return 0; }}
        int clGetPlatformIDs(unsigned n, H *p, unsigned *c) {{ {start} if (c) *c = 1; if (p && n) *p = (H)8; return 0; }}
        int clGetPlatformInfo(H p, unsigned w, unsigned long n, void *v, unsigned long *r)
        {{ return text(w == 0x902 ? "Stage Platform" : "x", n, v, r); }}
        int clGetDeviceIDs(H p, unsigned long t, unsigned n, H *d, unsigned *c) {{ if (c) *c = 1; if (d && n) *d = (H)16; return 0; }}
        int clGetDeviceInfo(H d, unsigned w, unsigned long n, void *v, unsigned long *r)
        {{
            switch (w) {{
            case 0x1000: return number(4, 8, v, r);
            case 0x1002: return number(7, 4, v, r);
            case 0x101F: return number(5000000, 8, v, r);
            case 0x1025: return number(80, 8, v, r);
            case 0x102B: return text("Stage Device", n, v, r);
            default: return -30;
            }}
        }}"#
    );
    stage.compile("cl/libOpenCL.so.1", &source, &["-shared", "-fPIC"]);
}

fn doctor(stage: &Stage, arguments: &[&str]) -> std::process::Output {
    let mut command = stage.clscope();
    command
        .arg("doctor")
        .args(arguments)
        .env("LD_LIBRARY_PATH", stage.join("cl"))
        .env("OCL_ICD_VENDORS", stage.join("icd"));
    command.env_remove("OCL_ICD_FILENAMES").ended()
}

fn findings(stage: &Stage) -> Vec<Value> {
    let output = doctor(stage, &["--format", "json"]);
    let document: Value = serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|e| panic!("{e}: {}", stderr(&output)));
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doctor/doctor.schema.json");
    let breaches = clscope_testing::schema::breaches(&schema, &document);
    assert!(breaches.is_empty(), "{breaches:#?}");
    document["findings"].as_array().unwrap().clone()
}

fn about<'v>(findings: &'v [Value], section: &str, text: &str) -> &'v Value {
    findings
        .iter()
        .find(|f| {
            f["section"] == section
                && (f["what"].as_str().unwrap().contains(text)
                    || f["detail"].as_str().unwrap().contains(text))
        })
        .unwrap_or_else(|| panic!("nothing about {text} in {findings:#?}"))
}

#[test]
fn devices_are_told() {
    let stage = Stage::new();
    loader(&stage, "");
    let found = findings(&stage);
    let device = about(&found, "device", "Stage Device");
    assert_eq!(device["status"], "ok");
    let detail = device["detail"].as_str().unwrap();
    for part in ["GPU", "7 compute units", "4.77 MiB", "80 ns"] {
        assert!(detail.contains(part), "{detail}");
    }
    assert!(
        about(&found, "loader", "libOpenCL.so.1")["detail"]
            .as_str()
            .unwrap()
            .contains("knows no layers")
    );
    let text = stdout(&doctor(&stage, &[]));
    assert!(text.contains("Stage Platform") && text.contains("  ok       "), "{text}");
}

#[test]
fn a_loader_that_crashes_or_prints_is_a_finding() {
    let stage = Stage::new();
    loader(&stage, "abort();");
    let found = findings(&stage);
    let crashed = about(&found, "loader", "SIGABRT");
    assert_eq!(crashed["status"], "error");
    loader(&stage, r#"puts("hello from a driver");"#);
    assert_eq!(about(&findings(&stage), "device", "Stage Device")["status"], "ok");
}

#[test]
fn drivers_are_tried() {
    let stage = Stage::new();
    loader(&stage, "");
    std::fs::create_dir(stage.join("icd")).unwrap();
    let good =
        stage.compile("good.so", "void clIcdGetPlatformIDsKHR(void) {}", &["-shared", "-fPIC"]);
    let other = stage.compile("other.so", "void something(void) {}", &["-shared", "-fPIC"]);
    let crash = stage.compile(
        "crash.so",
        "void abort(void);\n__attribute__((constructor)) static void on(void) { abort(); }",
        &["-shared", "-fPIC"],
    );
    for (name, library) in
        [("1", good), ("2", other), ("3", crash), ("4", "/none/libgone.so".into())]
    {
        std::fs::write(stage.join(&format!("icd/{name}.icd")), format!("{}\n", library.display()))
            .unwrap();
    }
    std::fs::write(stage.join("icd/5.icd"), "\n").unwrap();
    let found = findings(&stage);
    let status = |name: &str| about(&found, "driver", name)["status"].clone();
    assert_eq!(status("1.icd"), "ok");
    for (name, told) in [
        ("2.icd", "no OpenCL driver"),
        ("3.icd", "SIGABRT"),
        ("4.icd", "libgone.so"),
        ("5.icd", "names no library"),
    ] {
        assert_eq!(status(name), "warning");
        assert!(
            about(&found, "driver", name)["detail"].as_str().unwrap().contains(told),
            "{name}: {found:#?}"
        );
    }
}

#[test]
fn what_stops_recording_is_an_error_with_a_remedy() {
    let stage = Stage::new();
    loader(&stage, "");
    let mut command = stage.clscope();
    let output =
        command.env("CLSCOPE_LIBRARY", "/none.so").args(["doctor", "--format", "json"]).ended();
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["status"], "error");
    let found = document["findings"].as_array().unwrap();
    assert!(
        about(found, "recorder", "libclscope.so")["fix"].as_str().unwrap().contains("cargo build")
    );
}
