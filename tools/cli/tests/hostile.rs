//! Traces made by somebody else: names that are escape sequences, files that are none, readings of
//! years. Nothing of them reaches a terminal or a spreadsheet as anything but text, and no command
//! waits or fills the memory.

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_testing::Limited;
use clscope_trace::defs::{Build, Def, Kernel, Platform, Process, Program, Thread, Warning};
use clscope_trace::file::{FileHeader, FileKind};
use clscope_trace::sensors::{self, Event, Finding, Quantity, Reading, Readings, Record, Series};
use clscope_trace::{Clock, VERSION};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Control characters of every kind, direction marks, a forged line, and a formula.
const HOSTILE: &str =
    "=x\x1b]0;t\x07\x1b[2J\u{9b}31m\x7f\u{202e}\u{2066}\u{200f}\r\nFORGED\tline\u{2028}\0end";

fn hostile(def: &mut Def) {
    let evil = || HOSTILE.to_owned();
    match def {
        Def::Process(p) => {
            *p = Process {
                executable: evil(),
                arguments: vec![evil(), evil()],
                directory: evil(),
                host: evil(),
                recorder: evil(),
                injection: evil(),
                settings: vec![evil()],
                ..p.clone()
            };
        }
        Def::Device(d) => (d.name, d.vendor, d.driver) = (evil(), evil(), evil()),
        Def::Kernel(k) => k.name = evil(),
        Def::Thread(t) => t.name = evil(),
        _ => {}
    }
}

/// A trace whose every string is hostile, with readings of `sensors`.
fn trace(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir(&path).unwrap();
    let host = HostModel::default();
    let mut p = ProcessBuilder::standard(host, 7, 1);
    p.defs.iter_mut().for_each(hostile);
    let evil = || HOSTILE.to_owned();
    p.define(Kernel { id: 3, program: 1, name: evil() });
    p.define(Thread { index: 0, tid: 7, name: evil() });
    p.define(Platform { id: 1, name: evil(), vendor: evil(), version: evil() });
    p.define(Program { id: 1, ..Default::default() });
    p.define(Build { program: 1, options: evil(), log: evil(), ..Default::default() });
    p.define(Warning { code: evil(), text: evil() });
    for i in 0..10u64 {
        let t = 1_000 + i * 20_000;
        let raw = host.raw + t;
        p.thread(0)
            .enqueue(t, t + 900, &CommandSpec::kernel(i + 1, 1, 1 + (i % 3) as u32))
            .plain(function::FINISH, t + 2_000, t + 15_000, 0, 1)
            .timing(t + 15_000, i + 1, [raw + 100, raw + 1_000, raw + 2_000, raw + 8_000]);
    }
    p.exit(300_000, 0);
    let bytes = p.build();
    fs::write(path.join("7-0.defs"), &bytes.defs).unwrap();
    fs::write(path.join("7-0.0.clt"), &bytes.segment).unwrap();
    capture(&path);
    let meta =
        serde_json::json!({ "command": [HOSTILE], "program": HOSTILE, "gpu_power": HOSTILE });
    fs::write(path.join("meta.json"), meta.to_string()).unwrap();
    fs::write(path.join("sensors.clt"), readings(host, &[0, 100_000, 200_000, 300_000])).unwrap();
    path
}

/// A file with a package's counter at these times after the begin, in ns.
fn readings(host: HostModel, times: &[u64]) -> Vec<u8> {
    let evil = || HOSTILE.to_owned();
    let header = FileHeader {
        version: VERSION,
        kind: FileKind::Sensors,
        pid: 1,
        ppid: 1,
        pid_ns: 0,
        incarnation: 0,
        segment: 0,
        clock: Clock::MonotonicRaw,
        host: [host.boot; 16],
        boot: [host.boot; 16],
        created: host.raw,
    };
    let mut out = header.encode().to_vec();
    let mut payload = Vec::new();
    for (id, plane) in [(0, "PKG"), (1, "PP0"), (2, "DRAM")] {
        let series = Series {
            id,
            source: evil(),
            name: evil(),
            quantity: Quantity::Energy,
            plane: plane.into(),
            package: Some(0),
            includes: Some(evil()),
            ..Default::default()
        };
        sensors::encode(&series.into(), &mut payload);
        let mut rows = Vec::new();
        for (i, time) in times.iter().enumerate() {
            let value = 1_000_000 * i as u64;
            Reading { time: host.raw + time, value, ..Default::default() }.append_to(&mut rows);
        }
        sensors::encode(&Record::Readings(Readings::new(id, &rows)), &mut payload);
    }
    let finding = Finding { name: evil(), state: "refused".into(), why: evil(), remedy: evil() };
    sensors::encode(&finding.into(), &mut payload);
    let trouble =
        Event { time: host.raw, code: evil(), source: evil(), text: evil(), series: None };
    sensors::encode(&trouble.into(), &mut payload);
    out.extend(sensors::block(0, &payload));
    out
}

/// A captured launch whose every text is hostile.
fn capture(trace: &Path) {
    let folder = trace.join("captures/k.1");
    fs::create_dir_all(&folder).unwrap();
    let source = format!("kernel void k(void) {{}} // {HOSTILE}");
    let launch = serde_json::json!({
        "schema": 1, "clscope": HOSTILE, "kernel": HOSTILE, "launch": 1, "command": 1,
        "process": {"pid": 7, "incarnation": 0},
        "platform": {"name": HOSTILE, "vendor": HOSTILE, "version": HOSTILE},
        "device": {"name": HOSTILE, "vendor": HOSTILE, "version": HOSTILE, "driver": HOSTILE,
            "type": "cpu"},
        "program": {"origin": "source", "options": HOSTILE, "files": [{"file": "program.cl",
            "language": "opencl-c", "bytes": source.len(), "hash": HOSTILE}]},
        "dimensions": 1, "offset": null, "global": [16], "local": null, "queue": null,
        "memories": [], "arguments": [{"index": 0, "name": HOSTILE, "type": HOSTILE,
            "kind": "value", "bytes": 4, "value": "00000000"}],
        "duration_ns": 1000,
    });
    fs::write(folder.join("launch.json"), launch.to_string()).unwrap();
    fs::write(folder.join("program.cl"), source).unwrap();
}

/// A document that it prints keeps to its committed schema, whatever the trace holds.
fn clscope(dir: &Path, arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_clscope"))
        .args(arguments)
        .current_dir(dir)
        .env("CLSCOPE_CALIBRATION", dir.join("calibration.json"))
        .ended();
    let breaches = clscope_testing::schema::text_breaches(&String::from_utf8_lossy(&output.stdout));
    assert!(breaches.is_empty(), "{arguments:?} breaks its schema: {breaches:#?}");
    output
}

/// Why a text is not harmless: a character without a glyph, or a line that a name began.
fn harm(what: &str, bytes: &[u8]) -> Option<String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Some(format!("{what}: no UTF-8")) };
    let strange = text.chars().find(|c| *c != '\n' && !clscope_io::text::is_printable(*c));
    // A long name goes on in a line that is set back.
    let forged = text.lines().any(|line| line.starts_with("FORGED"));
    (strange.is_some() || forged).then(|| format!("{what}: {strange:?} in {text:?}"))
}

#[track_caller]
fn harmless(what: &str, bytes: &[u8]) {
    assert_eq!(harm(what, bytes), None);
}

/// Every command that reads a trace.
const READERS: &[&[&str]] = &[
    &["report", "t.clscope"],
    &["report", "--all", "t.clscope"],
    &["report", "t.clscope", "--format", "html", "-o", "r.html"],
    &["dump", "t.clscope"],
    &["export", "chrome", "t.clscope", "-o", "t.json"],
    &["export", "perfetto", "t.clscope", "-o", "t.pftrace"],
    &["export", "folded", "t.clscope", "-o", "t.folded"],
    &["export", "speedscope", "t.clscope", "-o", "s.json"],
    &["export", "pprof", "t.clscope", "-o", "t.pb.gz"],
    &["export", "parquet", "t.clscope", "-o", "data"],
    &["ctl", "t.clscope", "status"],
    &["top", "t.clscope", "--once"],
    &["mix", "t.clscope"],
    &["explain", "t.clscope"],
    &["what-if", "t.clscope", "*", "--local", "64"],
    &["roofline", "t.clscope", "-o", "r.svg"],
    &["overhead", "t.clscope"],
    &["programs", "t.clscope"],
    &["programs", "t.clscope", "--output", "sources"],
    &["check", "t.clscope"],
    &["diff", "t.clscope", "t.clscope"],
    &["sql", "t.clscope", "select 1"],
    &["kernel", "t.clscope/captures/k.1"],
];

/// Further ways in which those show names.
const SHOWN_OTHERWISE: &[&[&str]] = &[
    &["report", "t.clscope", "--limit", "0"],
    &["report", "t.clscope", "--by", "call-site"],
    &["report", "t.clscope", "--format", "json"],
    &["report", "t.clscope", "--format", "csv"],
    &["report", "t.clscope", "--gpu-power", "pkg-pp0-dram", "--section", "energy"],
    &["dump", "t.clscope", "--format", "json"],
    &["export", "chrome", "t.clscope", "-o", "-"],
    &["diff", "t.clscope", "t.clscope", "--format", "markdown"],
    &["diff", "t.clscope", "t.clscope", "--format", "html"],
    &["diff", "t.clscope", "t.clscope", "--format", "junit"],
    &["diff", "t.clscope", "t.clscope", "--format", "json"],
    &["diff", "t.clscope", "t.clscope", "--fail-on", "time:+5%,energy:+5%"],
    &["top", "t.clscope", "--once", "--format", "json"],
    &["merge", "t.clscope", "-o", "m"],
    &["report", "no\u{1b}[2Jne"],
    &["mix", "t.clscope", "--format", "json"],
    &["mix", "t.clscope", "--with", "simulated"],
    &["explain", "t.clscope", "--limit", "0"],
    &["explain", "t.clscope", "--limit", "0", "--format", "json"],
    &["check", "t.clscope", "--format", "json"],
    &["kernel", "t.clscope/captures/k.1", "--export", "c", "-o", "alone"],
];

#[test]
fn names_reach_no_terminal_as_anything_but_text() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path(), "t.clscope");
    let simulated = "Instructions executed for kernel 'other\u{1b}[2J':\n    16 - add\n";
    fs::write(dir.path().join("simulated"), simulated).unwrap();
    let mut wrong = Vec::new();
    for &arguments in READERS.iter().chain(SHOWN_OTHERWISE) {
        let out = clscope(dir.path(), arguments);
        wrong.extend(harm(&format!("{arguments:?} stdout"), &out.stdout));
        wrong.extend(harm(&format!("{arguments:?} stderr"), &out.stderr));
        assert!(matches!(out.status.code(), Some(0 | 1)), "{arguments:?}: {}", out.status);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let report = clscope(dir.path(), &["report", "--all", "t.clscope"]);
    let text = String::from_utf8(report.stdout).unwrap();
    assert!(
        text.contains("\\u{1b}[2J\\u{9b}31m\\u{7f}\\u{202e}"),
        "shown by their numbers: {text}"
    );
    // What a script for flame graphs reads is lines of text, too.
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    harmless("t.folded", &read("t.folded"));
    harmless("r.html", &read("r.html"));
    // Viewers show the names of these as they are, `go tool pprof -top` on a terminal.
    let name = r"\u{200f}\r\nFORGED\tline\u{2028}\u{0}end";
    let speedscope = String::from_utf8(read("s.json")).unwrap();
    harmless("s.json", speedscope.as_bytes());
    assert!(speedscope.contains(&name.replace('\\', r"\\")), "{speedscope}");
    let mut pprof = Vec::new();
    flate2::read::GzDecoder::new(&read("t.pb.gz")[..]).read_to_end(&mut pprof).unwrap();
    for (file, bytes) in [("t.pb.gz", pprof), ("t.pftrace", read("t.pftrace"))] {
        let found = |text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
        assert!(found(name), "{file}: the name is shown");
        for hidden in ["\u{200f}", "\u{2028}", "\u{2066}", "\u{202e}", "\u{9b}31m", "\x1b[2J"] {
            assert!(!found(hidden), "{file}: {hidden:?}");
        }
    }
}

#[test]
fn json_is_exact_and_csv_holds_no_formula() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path(), "t.clscope");
    let out = clscope(dir.path(), &["report", "t.clscope", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(report["kernels"][0]["name"], HOSTILE);
    let out = clscope(dir.path(), &["report", "t.clscope", "--format", "csv"]);
    let text = String::from_utf8(out.stdout).unwrap();
    let cells = text.lines().flat_map(|line| line.split(','));
    assert!(text.contains("'=x"), "{text}");
    for cell in cells {
        let cell = cell.trim_matches('"');
        assert!(
            !cell.starts_with(['=', '+', '@'])
                && (!cell.starts_with('-') || cell.parse::<f64>().is_ok()),
            "{cell:?} in {text}"
        );
    }
}

/// Each run is ended, and the test fails, where it waits for what never comes.
#[test]
fn what_is_no_file_is_said_to_be_none_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "t.clscope");
    fs::create_dir(path.join("programs")).unwrap();
    fs::write(dir.path().join("secret"), "the reader's own").unwrap();
    let spoil = |name: &str, kind: &str| {
        let file = path.join(name);
        let _ = fs::remove_file(&file);
        match kind {
            "pipe" => {
                assert!(Command::new("mkfifo").arg(&file).ended().status.success());
            }
            "device" => symlink("/dev/zero", &file).unwrap(),
            "socket" => drop(UnixListener::bind(&file).unwrap()),
            _ => symlink(dir.path().join("secret"), &file).unwrap(),
        }
    };
    let program = format!("programs/{}.cl", "a".repeat(64));
    for kind in ["pipe", "device", "socket", "link"] {
        for name in [
            "7-0.ring",
            "7-1.0.clt",
            "7-2.defs",
            "sensors.clt",
            "sensors-1.clt",
            "meta.json",
            "captures/k.1/launch.json",
            "captures/k.1/application.json",
            &program,
        ] {
            spoil(name, kind);
        }
        for arguments in READERS {
            let out = clscope(dir.path(), arguments);
            assert!(
                matches!(out.status.code(), Some(0 | 1)),
                "{kind} {arguments:?}: {} {}",
                out.status,
                String::from_utf8_lossy(&out.stderr)
            );
            let shown = [out.stdout, out.stderr].concat();
            assert!(
                !String::from_utf8_lossy(&shown).contains("the reader's own"),
                "{kind} {arguments:?} read through a link"
            );
        }
        for (arguments, code) in [
            (&["report", "--all", "t.clscope"][..], 0),
            (&["kernel", "t.clscope/captures/k.1"], 1),
            (&["merge", "t.clscope", "-o", "m"], 1),
        ] {
            let out = clscope(dir.path(), arguments);
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(code), "{kind} {arguments:?}: {said}");
            assert!(said.contains("only regular files are read"), "{kind} {arguments:?}: {said}");
        }
        assert!(!dir.path().join("m.clscope").exists());
    }
    // Files that are named on the command line.
    let out = clscope(dir.path(), &["report", "t.clscope", "--readings", "/dev/zero"]);
    assert_eq!(out.status.code(), Some(1));
    let out =
        clscope(dir.path(), &["oa", "decode", "/dev/zero", "--stream", "bare,generation=gen9"]);
    assert_eq!(out.status.code(), Some(1));
}

/// Readings that are there and are none are not told as readings that were never taken.
#[test]
fn what_is_no_file_is_named_where_it_alone_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "t.clscope");
    let report = || {
        let out = clscope(dir.path(), &["report", "--all", "t.clscope"]);
        assert_eq!(out.status.code(), Some(0));
        [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    for name in ["sensors.clt", "meta.json"] {
        fs::remove_file(path.join(name)).unwrap();
        assert!(!report()[1].contains(name), "{name} may be absent");
        symlink("/dev/zero", path.join(name)).unwrap();
        let [text, said] = report();
        let told = format!("t.clscope: {name} could not be read: it is a symbolic link");
        assert!(said.contains(&told), "{said}");
        assert!(!text.contains("no sensors were read"), "{text}");
        assert!(text.contains("only regular files are read"), "{text}");
    }
}

#[test]
fn years_between_readings_take_no_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "t.clscope");
    let ten_years = 315_360_000_000_000_000;
    let times = [0, 50_000_000, 100_000_000, ten_years, ten_years + 50_000_000];
    fs::write(path.join("sensors.clt"), readings(HostModel::default(), &times)).unwrap();
    for formula in ["auto", "pkg-pp0-dram"] {
        let out = clscope(dir.path(), &["report", "--all", "t.clscope", "--gpu-power", formula]);
        assert!(out.status.success(), "{formula}: {}", String::from_utf8_lossy(&out.stderr));
    }
}
