//! Recordings and bare reports, synthesised, through the command; what it refuses, and in which
//! words.

use super::*;
use clap::Parser;
use clscope_oa::testing::{Writer, record, switch_id, timer_id};
use clscope_oa::topology::synthesised_i915;
use serde_json::{Value, json};
use std::path::Path;

#[derive(Debug, Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn run_on(file: &Path, options: &[&str]) -> Result<String> {
    let mut line = vec!["oa", "decode", file.to_str().unwrap()];
    line.extend(options);
    let Action::Decode(decode_args) = Cli::try_parse_from(line)?.args.action else { panic!() };
    let mut out = Vec::new();
    decode(&decode_args, &mut out)?;
    Ok(String::from_utf8(out)?)
}

fn info(device: u32, format: u32) -> Vec<u8> {
    let mut bytes = vec![0; 336];
    bytes[..8].copy_from_slice(&12_000_000u64.to_le_bytes());
    bytes[8..12].copy_from_slice(&device.to_le_bytes());
    bytes[32..36].copy_from_slice(&format.to_le_bytes());
    bytes[36..44].copy_from_slice(b"Whatever");
    bytes
}

/// Ten intervals of 8192 ticks and as many clocks, every counter half of them; one loss.
fn reports(layout: &'static clscope_oa::Layout) -> Vec<Vec<u8>> {
    let mut writer = Writer::new(layout);
    writer.set_all(u64::MAX - 9999);
    (0..11)
        .map(|i| {
            let report = writer.report(
                if i == 5 { switch_id() } else { timer_id() } | 1 << 16,
                if i < 5 { 7 } else { 8 },
            );
            writer.advance(8192, 4096);
            writer.add(1, 4096);
            report
        })
        .collect()
}

fn recording() -> Vec<u8> {
    let mut stream = record(1 << 16, &[1, 0, 0, 0, 0, 0, 0, 0]);
    stream.extend(record((1 << 16) + 1, &info(0x5916, 10)));
    stream.extend(record((1 << 16) + 2, &synthesised_i915(1, 3, 8)));
    stream.extend([0; 5].iter().take(synthesised_i915(1, 3, 8).len() % 8));
    stream.extend(record((1 << 16) + 3, &[0, 202, 154, 59, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
    for (i, report) in reports(Format::A32u40A4u32B8C8.layout(Published::Tables)).iter().enumerate()
    {
        if i == 8 {
            stream.extend(record(2, &[]));
        }
        stream.extend(record(1, report));
    }
    stream
}

fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

#[test]
fn recordings_are_summed_up() {
    let (_dir, path) = file(&recording());
    let text = run_on(&path, &[]).unwrap();
    for want in [
        "A32u40_A4u32_B8_C8 (256 bytes), Gen9, decoded as specified",
        "recorded on device 0x5916",
        "reports: 11 (1 context switch, 10 timer)",
        "warning: 1 times reports were lost",
        "time covered: 0.006827 s in 10 intervals",
        "contexts: none or unknown 10.0 %, 0x7 50.0 %, 0x8 40.0 %",
        "set Core (Gen9, built in)",
        "GpuBusy                                50.000  percent",
        // 40960 / 24 = 1706 (cut off), * 100 / 81920.
        "EuActive                                2.083  percent",
        "$EuCoresTotalCount                         24  from the recording",
    ] {
        assert!(text.contains(want), "{want}\n{text}");
    }
}

#[test]
fn intervals_come_as_lines() {
    let (_dir, path) = file(&recording());
    let csv = run_on(&path, &["--format", "csv", "--counters", "GpuBusy,GpuTime"]).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines.len(), lines[0]), (11, "begin_ticks,host_ns,ticks,complete,GpuBusy,GpuTime"));
    assert!(
        lines[1].ends_with(",8192,true,50,682666") && lines[8].contains(",8192,false,"),
        "{csv}"
    );
    let json = run_on(&path, &["--format", "json"]).unwrap();
    let objects: Vec<Value> = json.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(
        (objects.len(), &objects[0]["ticks"], &objects[0]["GpuBusy"]),
        (10, &json!(8192), &json!(50.0))
    );
    assert!(objects[0]["EuThreadOccupancy"].is_number());
}

#[test]
fn bare_reports_need_their_facts() {
    let layout = Format::A12B8C8.layout(Published::Tables);
    let (_dir, path) = file(&reports(layout).concat());
    let error = run_on(&path, &[]).unwrap_err().to_string();
    assert!(error.contains("--stream bare,generation="), "{error}");
    let error = run_on(&path, &["--stream", "bare"]).unwrap_err().to_string();
    assert!(error.contains("generation="), "{error}");
    let text = run_on(
        &path,
        &["--stream", "bare,generation=gen9,reports=a12_b8_c8", "--counters", "EuActive,GpuBusy"],
    )
    .unwrap();
    for want in [
        "note: unresolved",
        "frequency not known: --stream hz=FREQUENCY",
        "the value of $EuCoresTotalCount is not known",
        "the report does not hold A0",
    ] {
        assert!(text.contains(want), "{want}\n{text}");
    }
    let text = run_on(
        &path,
        &[
            "--stream",
            "bare,generation=gen9,reports=a12_b8_c8,EuCoresTotalCount=24",
            "--counters",
            "EuActive",
        ],
    )
    .unwrap();
    assert!(text.contains("2.083  percent") && text.contains("given by the user"), "{text}");
    // Without a set for the generation the counts themselves are shown.
    let text = run_on(&path, &["--stream", "bare,generation=gen8,reports=a12_b8_c8"]).unwrap();
    assert!(text.contains("  A7                                      40960"), "{text}");
}

/// `counts` shows what the reports hold, also of a GPU that has a metric set.
#[test]
fn counts_are_shown_in_the_place_of_figures() {
    let (_dir, path) = file(&recording());
    let text = run_on(&path, &["counts"]).unwrap();
    assert!(text.contains("\ncounts\n"), "{text}");
    assert!(!text.contains("set Core") && !text.contains("EuActive"), "{text}");
    assert!(text.contains("  A7                                      40960"), "{text}");
    // The sum of the intervals' is the whole's.
    let csv = run_on(&path, &["counts", "--format", "csv"]).unwrap();
    let mut table = csv::Reader::from_reader(csv.as_bytes());
    let column = table.headers().unwrap().iter().position(|name| name == "A7").expect("A7");
    let of = |row: csv::StringRecord| row[column].parse::<u64>().unwrap();
    assert_eq!(table.records().map(|row| of(row.unwrap())).sum::<u64>(), 40_960, "{csv}");
    let json = run_on(&path, &["counts", "--format", "json"]).unwrap();
    let objects: Vec<Value> = json.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(objects.iter().map(|o| o["A7"].as_u64().unwrap()).sum::<u64>(), 40_960, "{json}");
}

#[test]
fn wrong_wishes_are_refused() {
    let (_dir, path) = file(&recording());
    let table = [
        (&["--counters", "L3Misses"][..], "has no figure \"L3Misses\""),
        (&["RenderBasic"], "there is no metric set \"RenderBasic\""),
        (&["--stream", "generation=gen99"], "no generation \"gen99\""),
        (&["--stream", "reports=A99"], "no report format \"A99\""),
        (
            &["--stream", "reports=PEC64u64"],
            "the file's reports have 256 bytes, PEC64u64 needs 576",
        ),
        (&["--stream", "x"], "expected bare or NAME=VALUE"),
        (&["counts", "--counters", "GpuBusy"], "leave --metrics and --counters out"),
        (&["--metrics", "/nonexistent"], "cannot be read"),
    ];
    for (options, want) in table {
        let error = format!("{:#}", run_on(&path, options).unwrap_err());
        assert!(error.contains(want), "{options:?}: {error}");
    }
    let mut damaged = recording();
    damaged.extend([1, 0, 0, 0, 0, 0, 3, 0]);
    let (_dir, path) = file(&damaged);
    let error = format!("{:#}", run_on(&path, &[]).unwrap_err());
    assert!(
        error.contains("decoded up to the damage") && error.contains("claims 3 bytes"),
        "{error}"
    );
    let (_dir, path) = file(&record(2, &[]));
    assert!(run_on(&path, &[]).unwrap_err().to_string().contains("holds no report"));
}

#[test]
fn sets_of_a_directory_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let set = |chip: &str| {
        format!(
            r#"<metrics><set symbol_name="Mine" chipset="{chip}"><counter symbol_name="Twice" units="events" equation="C 4 READ 2 UMUL"/></set></metrics>"#
        )
    };
    std::fs::write(dir.path().join("oa-kblgt2.xml"), set("KBLGT2")).unwrap();
    let (_dir, path) = file(&recording());
    let place = dir.path().to_str().unwrap();
    let text = run_on(&path, &["--metrics", place, "mine"]).unwrap();
    assert!(
        text.contains("set Mine (KBLGT2, oa-kblgt2.xml)")
            && text.contains("Twice                                   81920  events"),
        "{text}"
    );
    std::fs::write(dir.path().join("oa-tgl.xml"), set("TGLGT2")).unwrap();
    let error = run_on(&path, &["--metrics", place, "mine"]).unwrap_err().to_string();
    assert!(error.contains("KBLGT2, TGLGT2"), "{error}");
    let mut out = Vec::new();
    list(&Sets { metrics: Some(dir.path().to_owned()), set: None }, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("Core (Gen9, built in)") && text.contains("Mine (TGLGT2"), "{text}");
    assert!(list(&Sets { metrics: None, set: Some("nothing".into()) }, &mut Vec::new()).is_err());
}
