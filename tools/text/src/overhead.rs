//! What recording costs, as text for people.

use clscope_doctor::overhead::Measured;
use clscope_profile::report::recording::Share;

/// What was measured, and the share of a trace where one was named.
pub fn text(m: &Measured, share: Option<&Share>) -> String {
    let times =
        |ns: f64| format!("{:.2} times the least possible ({:.1}ns)", ns / m.floor_ns, m.floor_ns);
    let row = |name: &str, value: String, more: &str| format!("  {name:<22} {value:>8}  {more}\n");
    let ns = |v: f64| if v < 1e4 { format!("{v:.0}ns") } else { format!("{:.0}us", v / 1e3) };
    let mut out = "clscope overhead: what recording adds on this machine\n".to_owned();
    out += &row("a plain call", format!("{:.1}ns", m.call_ns), &times(m.call_ns));
    out += &row("a timed launch", ns(m.launch_ns), "on the enqueuing thread");
    out += &row("", ns(m.harvest_ns), "when the application waits for it");
    out += &row("the first call", ns(m.first_call_ns), "trace files are made");
    out += &row("loading the library", ns(m.load_ns), "");
    out += "What the OpenCL runtime itself charges for an event and for profiling comes on top; --device-timing off avoids it.\n";
    if let Some(share) = share {
        let part = share
            .of_wall
            .map_or("an unknown share".to_owned(), |s| format!("about {:.2}%", 100.0 * s));
        out += &format!(
            "Recording the trace took {part} of its time ({:.2}ms on all threads).\n",
            share.recording_ns / 1e6
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_counts_each_enqueue_once_and_is_unknown_without_a_duration() {
        let measured =
            Measured { call_ns: 20.0, launch_ns: 200.0, harvest_ns: 50.0, ..Measured::default() };
        let share = Share::of_costs(1_110, 110, 100, Some(1_000_000), Some(measured.costs()));
        assert_eq!(share.recording_ns, 1_000.0 * 20.0 + 10.0 * 40.0 + 100.0 * 250.0);
        assert_eq!(share.of_wall, Some(0.0454));
        assert_eq!(Share::of_costs(1, 0, 0, None, None).of_wall, None);
        assert_eq!(Share::of_costs(1, 0, 0, Some(0), None).of_wall, None);
    }

    #[test]
    fn figures_read_as_times() {
        let m = Measured {
            floor_ns: 20.0,
            call_ns: 25.0,
            launch_ns: 210.0,
            harvest_ns: 90.0,
            first_call_ns: 1.5e6,
            load_ns: 2e5,
        };
        let share =
            Share { recording_ns: 4e6, of_wall: Some(0.004), call_ns: 25.0, command_ns: 300.0 };
        let text = text(&m, Some(&share));
        for part in [
            "25.0ns  1.25 times the least possible (20.0ns)",
            "210ns",
            "1500us",
            "about 0.40% of its time (4.00ms on all threads)",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }
}
