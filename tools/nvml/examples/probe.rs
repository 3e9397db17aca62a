//! Prints everything NVML gives on this machine as JSON lines: devices, findings, series, readings
//! and events for N seconds (first argument, 10 if absent), then what sampling cost. GPM unless
//! `--no-gpm`.

use clscope_nvml::Wanted;
use clscope_sensors::sampler::{Sampler, SamplerEvent, SeriesId, Settings, Sink, SystemHost};
use clscope_sensors::source::{Domain, Reading};
use clscope_sensors::{Clock, RawNs, RealtimeNs};
use serde_json::json;
use std::io::Write;

struct Clocks;

fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a writable timespec; the id is a constant of the system's.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl Clock for Clocks {
    fn raw(&mut self) -> RawNs {
        RawNs(clock(libc::CLOCK_MONOTONIC_RAW))
    }
    fn realtime(&mut self) -> Option<RealtimeNs> {
        Some(RealtimeNs(clock(libc::CLOCK_REALTIME)))
    }
}

struct Lines(std::io::BufWriter<std::io::Stdout>);

impl Lines {
    fn put(&mut self, line: &serde_json::Value) {
        if writeln!(self.0, "{line}").is_err() {
            std::process::exit(0); // the reader has gone
        }
    }
}

impl Sink for Lines {
    fn series(&mut self, id: SeriesId, source: &str, domain: &Domain) {
        let quantity = format!("{:?}", domain.quantity);
        self.put(
            &json!({"series": id.0, "source": source, "domain": domain.name, "quantity": quantity}),
        );
    }
    fn reading(&mut self, id: SeriesId, reading: &Reading) {
        self.put(&json!({
            "reading": id.0, "before": reading.stamp.before.0, "after": reading.stamp.after.0,
            "source_time": reading.source_time.map(|t| t.0), "mean_over_ns": reading.mean_over_ns,
            "value": reading.value.magnitude(),
        }));
    }
    fn event(&mut self, event: SamplerEvent<'_>) {
        self.put(&json!({"event": format!("{event:?}")}));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.iter().find_map(|a| a.parse::<u64>().ok()).unwrap_or(10);
    let gpm = !arguments.iter().any(|a| a == "--no-gpm");
    let mut lines = Lines(std::io::BufWriter::new(std::io::stdout()));
    let (api, devices) = match clscope_nvml::load(None) {
        Ok(loaded) => loaded,
        Err(finding) => {
            lines.put(&json!({"finding": finding.name, "state": format!("{:?}", finding.state), "remedy": finding.remedy}));
            return;
        }
    };
    lines.put(&json!({"driver": api.driver_version().ok()}));
    for d in &devices {
        let limit = api.power_limit_mw(d.index).ok();
        lines.put(&json!({"device": d.index.0, "name": d.name, "uuid": d.uuid, "pci": d.pci, "limit_mw": limit}));
    }
    let (sources, findings) =
        clscope_nvml::open(&api, &devices, &Wanted { gpm: gpm.then(Vec::new) });
    for f in &findings {
        lines.put(&json!({"finding": f.name, "state": format!("{:?}", f.state), "remedy": f.remedy, "domains": f.domains}));
    }
    let end = Clocks.raw().plus(seconds * 1_000_000_000);
    let mut sampler = Sampler::new(sources, Settings::default(), &mut lines);
    sampler.run(&mut SystemHost(Clocks), &mut lines, &|| Clocks.raw() >= end);
    let summary = sampler.summary();
    lines.put(&json!({"cpu_ns": summary.cpu_ns, "wall_ns": summary.wall_ns}));
    for source in &summary.sources {
        lines.put(&json!({"summary": format!("{source:?}")}));
    }
}
