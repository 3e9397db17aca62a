//! Events that the application asks for: released, and used for anything. Refuses to judge use
//! where the trace does not tell which events a wait was for (`record --check` does).
#![forbid(unsafe_code)]

use crate::document::{Findings, Key};
use crate::rules::Rule;
use crate::seen::Seen;
use std::collections::{HashMap, VecDeque};

struct Event {
    references: i64,
    used: bool,
    function: String,
    place: Option<String>,
    command: u64,
}

/// The events of one process, by the low half of their commands' ids, as calls name them.
#[derive(Default)]
pub struct Events {
    events: HashMap<u32, Event>,
    /// Events that were released lately, with the place that made them: a stale handle still names
    /// one.
    released: HashMap<u32, Option<String>>,
    order: VecDeque<u32>,
    /// Those that are over: so many of a place were released and never used.
    unused: HashMap<(String, Option<String>), u64>,
    /// The trace tells what waits are for.
    tells_waits: bool,
}

/// Released events that are remembered.
const REMEMBERED: usize = 1 << 16;

/// Calls that name an event and use it.
const USES: [&str; 4] =
    ["clGetEventInfo", "clGetEventProfilingInfo", "clSetEventCallback", "clSetUserEventStatus"];

impl Events {
    /// Of a run; `tells_waits` where it was recorded with `--check`.
    pub fn new(tells_waits: bool) -> Self {
        Self { tells_waits, ..Self::default() }
    }

    /// A call.
    pub fn call(&mut self, seen: &Seen<'_>, to: &mut Findings) {
        if let Some(enqueued) = seen.enqueued() {
            for command in enqueued.waits().flatten() {
                self.used(command.0);
            }
            if enqueued.app_event() {
                self.made(enqueued.record.id, seen);
            }
            return;
        }
        let Some(low) = seen.argument("event").map(|word| word as u32).filter(|low| *low != 0)
        else {
            if seen.function == "clCreateUserEvent"
                && seen.succeeded()
                && let Some(command) = seen.argument("return")
            {
                self.made(command, seen);
            }
            return;
        };
        let count = i64::try_from(seen.count()).unwrap_or(i64::MAX);
        match seen.function {
            "clRetainEvent" => self.count(low, count, seen, to),
            "clReleaseEvent" => self.count(low, -count, seen, to),
            function if USES.contains(&function) => self.used(u64::from(low)),
            _ => {}
        }
    }

    fn made(&mut self, command: u64, seen: &Seen<'_>) {
        let event = Event {
            references: 1,
            used: false,
            function: seen.function.to_owned(),
            place: seen.place.map(str::to_owned),
            command,
        };
        // Ids are never reused, but their low halves are.
        self.released.remove(&(command as u32));
        self.events.insert(command as u32, event);
    }

    /// Somebody waited for it, asked for it, or depends on it.
    pub fn used(&mut self, command: u64) {
        if let Some(event) = self.events.get_mut(&(command as u32)) {
            event.used = true;
        }
    }

    fn count(&mut self, low: u32, change: i64, seen: &Seen<'_>, to: &mut Findings) {
        if !seen.succeeded() {
            return;
        }
        if let (true, Some(made)) = (change < 0, self.released.get(&low)) {
            let text = "clReleaseEvent of an event that was released already".to_owned();
            let mut key = Key::new(Rule::UseAfterRelease, text).at(seen.function, seen.place);
            key.other_place.clone_from(made);
            to.add(key, None, None);
        }
        let Some(event) = self.events.get_mut(&low) else { return };
        event.references += change;
        if event.references > 0 {
            return;
        }
        let Some(event) = self.events.remove(&low) else { return };
        if !event.used && self.tells_waits {
            let place = (event.function, event.place.clone());
            *self.unused.entry(place).or_default() += 1;
        }
        self.released.insert(low, event.place);
        self.order.push_back(low);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.released.remove(&oldest);
        }
    }

    /// The end of the process. `ended`: in order.
    pub fn finish(self, ended: bool, to: &mut Findings) {
        for ((function, place), count) in self.unused {
            let text = format!("{function} gave an event that nothing used before its release");
            to.add_many(
                Key::new(Rule::EventUnused, text).at(&function, place.as_deref()),
                count,
                None,
                None,
            );
        }
        let left = self.events.into_values().filter(|event| event.references > 0 && ended);
        for event in left {
            let text = format!("{} gave an event that is not released", event.function);
            let key = Key::new(Rule::EventNeverReleased, text)
                .at(&event.function, event.place.as_deref());
            to.add(key, None, Some(format!("event of command {}", event.command)));
        }
    }
}
