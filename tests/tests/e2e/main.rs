//! End-to-end tests: the recorder, the command and the audit shim as users have them, on real and
//! fake runtimes. One binary, one module per promise; see `tests/README.md`.

mod balance;
mod call_sites;
mod conform;
mod contents;
mod control;
mod counters;
mod disturbances;
mod endings;
mod energy;
mod faults;
mod goldens;
mod hostile_traces;
mod integrated_gpu;
mod loading;
mod markers;
mod merging;
mod mix;
mod overhead;
mod perfetto;
mod polling;
mod privacy;
mod processes;
mod programs;
mod real_apps;
mod repetitions;
mod sampling;
mod snapshots;
mod stat;
mod switching;
mod symbols;
mod threads;
mod transparency;
mod views;
mod ways_in;
mod with;
