//! Owns when memories were last used by commands, in runs that capture: by what, and how many bytes
//! later commands could use, so that caches can be brought to a like state when the launch runs
//! alone. Memory is meant whole; of parts of a buffer the buffer. Shared virtual memory is not
//! followed. Refuses to read memory.
#![forbid(unsafe_code)]

use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::{self, Kernel, Memory, ask};
use crate::facts::{info, objects};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashMap;
use crate::runtime::functions as api;
use clscope_trace::record::CommandKind;
use serde_json::{Value, json};
use std::sync::Arc;

/// Most memories that are remembered; then those that were used long ago go.
const MOST: usize = 4096;

/// Who used a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    Kernel(Arc<str>),
    Command(CommandKind),
}

impl By {
    fn name(&self) -> &str {
        match self {
            By::Kernel(name) => name,
            By::Command(kind) => kind.name(),
        }
    }
}

/// What commands have used, by the ids of objects, which are never given again.
#[derive(Default)]
struct Recent {
    /// Bytes of all uses.
    bytes: u64,
    /// What the bytes were behind the last use of each, and by whom it was.
    last: HashMap<u32, (u64, By)>,
}

impl Recent {
    /// A command uses memories: each with its bytes.
    fn used(&mut self, by: &By, of: &[(u32, u64)]) {
        let all = of.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        self.bytes = self.bytes.saturating_add(all);
        for (id, _) in of {
            self.last.insert(*id, (self.bytes, by.clone()));
        }
        if self.last.len() > MOST {
            let mut ends: Vec<u64> = self.last.values().map(|(at, _)| *at).collect();
            ends.sort_unstable();
            let middle = ends.get(MOST / 2).copied().unwrap_or(0);
            self.last.retain(|_, (at, _)| *at > middle);
        }
    }

    /// When a memory was last used: by whom, and the bytes since.
    fn since(&self, id: u32) -> Option<(&str, u64)> {
        self.last.get(&id).map(|(at, by)| (by.name(), self.bytes.saturating_sub(*at)))
    }
}

static RECENT: ForkSafe<Recent> = ForkSafe::new();

/// An object, or the buffer that it is a part of or a view of.
fn whole(slot: usize, object: H) -> H {
    let about = api::clGetMemObjectInfo.behind(slot);
    let parent = info::handle(about, object, info::MEMORY_PARENT);
    if parent.is_null() { object } else { parent }
}

/// A command uses memories; without `bytes` all of each.
pub fn used(slot: usize, by: &By, bytes: Option<u64>, of: &[H]) {
    let about = api::clGetMemObjectInfo.behind(slot);
    let mut all: Vec<(u32, u64)> = Vec::new();
    for object in of.iter().filter(|object| objects::id(**object) != 0) {
        let object = whole(slot, *object);
        let size = || ask::<usize>(about, object, cl::CL_MEM_SIZE).map_or(0, |size| size as u64);
        let id = objects::id(object);
        // A memory that is given twice is used once.
        if id != 0 && !all.iter().any(|(known, _)| *known == id) {
            all.push((id, bytes.unwrap_or_else(size)));
        }
    }
    RECENT.with(|recent| recent.used(by, &all));
}

/// A launch of a kernel uses what its arguments name.
pub fn launched(slot: usize, kernel: &Kernel, name: &Arc<str>) {
    let memories: Vec<H> = kernel
        .arguments
        .values()
        .filter_map(|argument| match argument {
            arguments::Argument::Object(object) => Some(*object),
            _ => None,
        })
        .filter(|o| matches!(arguments::memory(*o), Some(Memory::Buffer | Memory::Image)))
        .collect();
    used(slot, &By::Kernel(Arc::clone(name)), None, &memories);
}

/// What `launch.json` says of the last use of a memory; null where there is no telling.
pub fn describe_last_use(slot: usize, object: H) -> Value {
    let id = objects::id(whole(slot, object));
    RECENT
        .with(|recent| match recent.since(id) {
            Some((by, bytes)) => json!({ "by": by, "bytes_since": bytes }),
            None => json!({ "by": null, "bytes_since": null }),
        })
        .unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_since_the_last_use_are_those_of_later_commands() {
        let mut recent = Recent::default();
        let kernel = By::Kernel("blur".into());
        recent.used(&By::Command(CommandKind::WriteBuffer), &[(1, 100)]);
        recent.used(&kernel, &[(2, 30), (3, 40)]);
        assert_eq!(recent.since(1), Some(("WriteBuffer", 70)));
        assert_eq!(recent.since(2), Some(("blur", 0)));
        recent.used(&kernel, &[(1, 100), (2, 30)]);
        assert_eq!((recent.since(1), recent.since(3)), (Some(("blur", 0)), Some(("blur", 130))));
        assert_eq!(recent.since(9), None);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut recent = Recent::default();
        let by = By::Command(CommandKind::FillBuffer);
        (1..=MOST as u32 + 1).for_each(|id| recent.used(&by, &[(id, 1)]));
        assert!(recent.last.len() <= MOST);
        assert_eq!(recent.since(1), None);
        assert_eq!(recent.since(MOST as u32 + 1), Some(("FillBuffer", 0)));
    }
}
