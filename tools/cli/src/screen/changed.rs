//! Says of a run whose application was changed on request (`record --replace`, `--options`,
//! `--local`) that it was, before anything else that a command says of it. Reports, dumps,
//! timelines and pages hold it themselves; this is for outputs that have no place for it.

use clscope_profile::changes::{self, Changes};
use clscope_profile::profile::View;

/// On stderr, a line for each change; nothing of plain runs.
pub fn say_changes(view: &View<'_>) {
    for text in changes::recorded_changes(view.trace()).iter().flat_map(Changes::lines) {
        say!("the run was changed: {text}");
    }
}
