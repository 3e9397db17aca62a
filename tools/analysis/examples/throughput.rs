//! Throughput and memory of the analysis on a large synthetic trace in mapped temporary files.
//!
//! `cargo run --release -p clscope-analysis --example throughput -- [RECORDS in millions, 10]
//! [THREADS, 4]`
//!
//! Of a hundred records, 72 are plain calls, 14 are launches and 14 their times. Prints records per
//! second of each pass, and the peak of memory that is not the mapped trace itself (RssAnon and
//! VmHWM of /proc/self/status).

use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use std::io::Write;
use std::time::Instant;

fn status(field: &str) -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    text.lines()
        .find_map(|l| l.strip_prefix(field))
        .map_or_else(|| "unknown".to_owned(), |v| v.trim_matches([':', '\t', ' ']).to_owned())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let millions: u64 = arguments.next().map_or(Ok(10), |a| a.parse())?;
    let threads: u32 = arguments.next().map_or(Ok(4), |a| a.parse())?;
    let rounds = millions * 1_000_000 / 100;

    // One process for every half million records, so that making the trace takes little memory too.
    let per_process = 5_000u64;
    let processes = rounds.div_ceil(per_process);
    let directory = tempfile::tempdir()?;
    let mut paths = Vec::new();
    let mut records = 0u64;
    let made = Instant::now();
    for number in 0..processes {
        let host = HostModel::default();
        let mut p = ProcessBuilder::standard(host, 1_000 + number as u32, threads);
        p.block_len(256 << 10);
        let mut id = 0;
        for round in 0..per_process {
            let thread = (round % u64::from(threads)) as u32;
            let base = 1_000_000 + (number * 37 + round * 100_000) % (1 << 40);
            for i in 0..14u64 {
                let t = base + i * 6_000;
                for k in 0..5u64 {
                    p.thread(thread).plain(
                        function::SET_ARG,
                        t + k * 200,
                        t + k * 200 + 90,
                        (k as u32) | (8 << 8),
                        1,
                    );
                }
                id += 1;
                p.thread(thread).enqueue(
                    t + 1_100,
                    t + 2_100,
                    &CommandSpec::kernel(id, 1 + thread % 2, 1 + (i % 2) as u32),
                );
                let stamps = [1_500, 2_200, 2_900, 5_000 + i].map(|ns| host.raw + t + ns);
                p.thread(thread).timing(t + 5_500, id, stamps);
            }
            p.thread(thread).plain(function::FINISH, base + 85_000, base + 86_000, 0, 1);
            p.thread(thread).plain(function::FINISH, base + 86_100, base + 87_000, 0, 1);
            records += 100;
        }
        p.exit(1_000_000 + per_process * 100_000 + 200_000_000, 0);
        let bytes = p.build();
        for (ending, content) in [("defs", &bytes.defs), ("0.clt", &bytes.segment)] {
            let path = directory.path().join(format!("{number}-0.{ending}"));
            std::fs::File::create(&path)?.write_all(content)?;
            paths.push(path);
        }
    }
    println!(
        "made {records} records in {processes} processes, {:.1} s",
        made.elapsed().as_secs_f64()
    );

    let maps = paths
        .iter()
        .map(|p| {
            let file = std::fs::File::open(p)?;
            // SAFETY: the files were written above and no other process has them.
            unsafe { memmap2::Mmap::map(&file) }
        })
        .collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = maps.iter().map(|m| m.len()).sum();
    let file =
        |name: &str, map| clscope_analysis::input::File { name: name.to_owned(), bytes: map };
    let files = maps.chunks(2).enumerate().map(|(i, pair)| clscope_analysis::input::ProcessFiles {
        label: format!("bench/{i}-0"),
        defs: Some(file("defs", &pair[0])),
        segments: vec![file("clt", &pair[1])],
        ..Default::default()
    });
    let files = files.collect();
    println!(
        "trace: {:.1} MB, {:.1} bytes a record; memory before: {}",
        bytes as f64 / 1e6,
        bytes as f64 / records as f64,
        status("RssAnon")
    );

    let pass = |name: &str, from: Instant| {
        let seconds = from.elapsed().as_secs_f64();
        println!(
            "{name:>9}: {seconds:6.2} s, {:6.2} million records/s; RssAnon {}",
            records as f64 / seconds / 1e6,
            status("RssAnon")
        );
    };
    let from = Instant::now();
    let trace = Trace::open(files);
    pass("open", from);
    let from = Instant::now();
    let count = trace.events(None).count();
    pass("merge", from);
    let from = Instant::now();
    let alignment = trace.align();
    pass("align", from);
    let from = Instant::now();
    let stats = Stats::of_trace(&trace, &alignment);
    pass("sum up", from);
    println!(
        "{count} events, {} calls, {} commands, {} timed",
        stats.calls, stats.command_count, stats.timed
    );
    println!("peak memory, mapped trace included: {}", status("VmHWM"));
    Ok(())
}
