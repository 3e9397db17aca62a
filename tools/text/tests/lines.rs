//! How much `explain` says of each kernel that was measured on a GPU and on CPUs
//! (`tools/models/tests/limits/`).

#[path = "../../models/tests/limits/rows.rs"]
mod rows;

use clscope_models::explain::{self, Explanation, Options};
use clscope_models::facts::OnDevice;
use clscope_text::explain::{Shown, render};
use rows::{CPUS, GPU, asked};

/// Lines of a kernel: a screen with room for the command.
const LINES: usize = 30;
/// Columns of a terminal.
const WIDTH: usize = 100;

/// Of no kernel so much is said that something has to be cut off.
#[test]
fn what_is_said_of_a_kernel_fits_a_screen_as_it_is() {
    for text in CPUS.iter().chain([&GPU]) {
        let (device, kernels) = asked(text);
        for kernel in kernels {
            let on = OnDevice { kernels: vec![kernel], ..OnDevice::default() };
            let options = Options { least_share: 0.0, access_rates: false, wanted: &|_| true };
            let explained = explain::device(&on, Some(&device), options);
            let of = Explanation {
                schema: explain::SCHEMA,
                traces: Vec::new(),
                display_names: Default::default(),
                devices: vec![explained],
            };
            let shown = |all| Shown { only_kernels: true, all, width: WIDTH };
            let text = render(&of, shown(false));
            let lines = text.lines().count();
            assert!(lines <= LINES, "{lines}: {text}");
            let is_cut = text.contains("more with --all");
            let kernel = &of.devices[0].kernels[0];
            let is_short = kernel.missing.len() <= 3 && kernel.levers.len() <= 3;
            assert!(!is_cut || !is_short, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            // The limit, what is next, and what a change saves are there.
            assert!(text.contains("  =>"), "{text}");
            for lever in kernel.levers.iter().take(1) {
                let words = lever.text.split(' ').next().unwrap();
                assert!(text.contains(words), "{text}");
            }
        }
    }
}
