//! What asking for GPM costs on this machine, apart: taking a sample, and forming one metric or all
//! of two samples. JSON lines; wall and CPU time in microseconds, the middle of N calls each (first
//! argument, 200 if absent).

use clscope_nvml::gpm::METRICS;
use serde_json::json;

fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a writable timespec; the id is a constant of the system's.
    unsafe { libc::clock_gettime(id, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Wall and CPU time of a call, each the middle of all.
fn middle(calls: usize, mut call: impl FnMut()) -> [f64; 2] {
    let both = || [clock(libc::CLOCK_MONOTONIC_RAW), clock(libc::CLOCK_THREAD_CPUTIME_ID)];
    let mut all = [Vec::new(), Vec::new()];
    for _ in 0..calls.max(1) {
        let before = both();
        call();
        for ((times, after), before) in all.iter_mut().zip(both()).zip(before) {
            times.push(after - before);
        }
    }
    all.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2] as f64 * 1e-3
    })
}

fn main() {
    let calls = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(200);
    let (api, devices) = match clscope_nvml::load(None) {
        Ok(loaded) => loaded,
        Err(finding) => return println!("{}", json!({"nvml": format!("{:?}", finding.state)})),
    };
    let all: Vec<u32> = METRICS.iter().map(|m| m.id).collect();
    for device in &devices {
        let (Ok(mut first), Ok(mut second)) = (api.gpm_alloc(), api.gpm_alloc()) else { continue };
        let taken = api.gpm_get(device.index, &mut first);
        std::thread::sleep(std::time::Duration::from_millis(250));
        let sample = middle(calls, || drop(api.gpm_get(device.index, &mut second)));
        let one = middle(calls, || drop(api.gpm_metrics(&first, &second, &[10])));
        let every = middle(calls, || drop(api.gpm_metrics(&first, &second, &all)));
        let each: Vec<(&str, f64)> = METRICS
            .iter()
            .map(|m| {
                (m.name, middle(calls / 4, || drop(api.gpm_metrics(&first, &second, &[m.id])))[1])
            })
            .collect();
        let again = api.gpm_metrics(&second, &second, &all).map(|v| v.len()).ok();
        println!(
            "{}",
            json!({"device": device.index.0, "worked": taken.is_ok(), "sample_us": sample, "one_metric_us": one, "all_metrics_us": every, "each_cpu_us": each, "of_itself": again})
        );
        api.gpm_free(first);
        api.gpm_free(second);
    }
}
