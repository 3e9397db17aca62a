//! Memory of the host that transfers use, and what of it was found unmapped while they may still
//! run. Refuses to take memory for freed that an allocator keeps mapped.

use super::User;
use super::order::Order;
use super::part::Range;
use crate::document::{Findings, Key};
use crate::rules::Rule;
use crate::seen::At;
use std::collections::{HashMap, VecDeque};

/// Transfers that are remembered: the newest.
const REMEMBERED: usize = 256;
/// Transfers that a note lists.
const LISTED: usize = 4;

/// What transfers use of the host's memory.
#[derive(Default)]
pub struct TransferMemory {
    to: VecDeque<(Range, User)>,
    /// How many there were that the host did not wait for.
    unwaited: u64,
    /// What threads found unmapped when they began to wait.
    unmapped: HashMap<u32, Vec<Range>>,
}

impl TransferMemory {
    /// A transfer uses it; `blocking` where the call returns when that is over.
    pub fn uses(&mut self, range: Range, user: User, blocking: bool) {
        self.unwaited += u64::from(!blocking);
        if self.to.len() == REMEMBERED {
            self.to.pop_front();
        }
        self.to.push_back((range, user));
    }

    /// A thread found it unmapped.
    pub fn unmapped(&mut self, thread: u32, range: Range) {
        self.unmapped.entry(thread).or_default().push(range);
    }

    /// What is not seen of it.
    pub fn unseen(&self) -> Option<String> {
        let transfers = match self.unwaited {
            0 => return None,
            1 => "1 transfer".to_owned(),
            n => format!("{n} transfers"),
        };
        Some(format!(
            "{transfers} without blocking: whether the application freed the host's memory meanwhile is seen where that was unmapped, and not where the allocator keeps it after free(); Valgrind and AddressSanitizer see that, with a runtime on the CPU"
        ))
    }

    /// Transfers that may still use it, some of them.
    pub fn users(&self, order: &Order) -> Vec<String> {
        let running = self.to.iter().map(|(_, user)| user).filter(|user| !order.known(user.at));
        let named = running.map(|user| match &user.place {
            Some(place) => format!("{} at {place}", user.name),
            None => user.name.clone(),
        });
        named.take(LISTED).collect()
    }

    /// What a thread found when it began a call.
    pub fn judge(&mut self, thread: u32, at: &At<'_>, order: &Order, to: &mut Findings) {
        let Some(gone) = self.unmapped.remove(&thread) else { return };
        self.to.retain(|(_, user)| !order.known(user.at));
        for (range, user) in &self.to {
            if !gone.contains(range) {
                continue;
            }
            let what = format!(
                "{} uses memory of the host that was not mapped any more when the host began to wait",
                user.name
            );
            let key = Key::new(Rule::FreedInUse, at.says(&what)).at(at.function, at.place);
            let bytes = format!("{:#x} ({} bytes)", range.begin, range.end - range.begin);
            to.add(key.and(user.place.as_deref()), None, Some(bytes));
        }
    }
}
