//! End-to-end tests: the recorder, the command and the audit shim as users have them, on real and
//! fake runtimes. One binary, one module per promise; see `tests/README.md`.

mod application;
mod devices;
mod energy;
mod entry;
mod exports;
mod launches;
mod recording;
mod reports;
