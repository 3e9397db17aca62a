//! Events that the application asks for: released, and used for anything. Refuses to judge use
//! where the trace does not tell which events a wait was for (`record --check` does).

use crate::document::{Findings, Key};
use crate::rules::Rule;
use crate::seen::{At, Seen};
use clscope_analysis::time::HostNs;
use std::collections::{HashMap, VecDeque};

struct Event {
    references: i64,
    used: bool,
    function: String,
    place: Option<String>,
    command: u64,
    /// Who is called back gets the event once more.
    called_back: bool,
}

/// An event without a reference.
struct Released {
    /// The place that made it.
    place: Option<String>,
    /// When the last reference was known to be given back.
    at: HostNs,
    called_back: bool,
}

/// The events of one process, by the low half of their commands' ids, as calls name them.
#[derive(Default)]
pub struct Events {
    events: HashMap<u32, Event>,
    /// Events that were released lately: a stale handle still names one.
    released: HashMap<u32, Released>,
    order: VecDeque<u32>,
    /// Those that are over: so many of a place were released and never used.
    unused: HashMap<(String, Option<String>), u64>,
    /// The trace tells what waits are for.
    tells_waits: bool,
    /// Released events that threads have just waited for.
    waited: HashMap<u32, Vec<u32>>,
    /// What the record of the call under way names.
    judged: Vec<u32>,
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
        self.judged.clear();
        for low in self.waited.remove(&seen.call.thread.0).unwrap_or_default() {
            self.named(&seen.at(), low, to);
        }
        if let Some(enqueued) = seen.enqueued() {
            for command in enqueued.waits().flatten() {
                self.used(command.0);
                self.named(&seen.at(), command.0 as u32, to);
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
        if seen.function != "clReleaseEvent" {
            self.named(&seen.at(), low, to);
        }
        if let ("clSetEventCallback", Some(event)) = (seen.function, self.events.get_mut(&low)) {
            event.called_back = true;
        }
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
            called_back: false,
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

    /// A thread waited for an event in the call whose record follows.
    pub fn waited(&mut self, thread: u32, command: u64) {
        self.used(command);
        if self.released.contains_key(&(command as u32)) {
            self.waited.entry(thread).or_default().push(command as u32);
        }
    }

    /// What was told ahead of the call whose record was seen last: it names an event that was
    /// released. Of a wait list that the runtime refused the record tells nothing.
    pub fn check_named(&mut self, at: &At<'_>, low: u32, to: &mut Findings) {
        if !self.judged.contains(&low) {
            self.named(at, low, to);
        }
    }

    /// A call names an event: it may have been released.
    pub fn named(&mut self, at: &At<'_>, low: u32, to: &mut Findings) {
        self.judged.push(low);
        let Some(released) = self.released.get(&low) else { return };
        // A call of another thread may have begun before.
        if at.begin < released.at || (released.called_back && at.function != "clReleaseEvent") {
            return;
        }
        let text = match at.function {
            "clReleaseEvent" => "clReleaseEvent of an event that was released already".to_owned(),
            function => format!("{function} names an event after its last release"),
        };
        let key = Key::new(Rule::UseAfterRelease, at.says(&text)).at(at.function, at.place);
        to.add(key.and(released.place.as_deref()), None, None);
    }

    fn count(&mut self, low: u32, change: i64, seen: &Seen<'_>, to: &mut Findings) {
        if !seen.succeeded() {
            return;
        }
        if change < 0 {
            self.named(&seen.at(), low, to);
        }
        let Some(event) = self.events.get_mut(&low) else { return };
        event.references += change;
        if event.references > 0 {
            return;
        }
        let Some(event) = self.events.remove(&low) else { return };
        if !event.used && self.tells_waits {
            let place = (event.function.clone(), event.place.clone());
            *self.unused.entry(place).or_default() += 1;
        }
        let Event { place, called_back, .. } = event;
        self.released.insert(low, Released { place, at: seen.call.span.end, called_back });
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
            let key = Key::new(Rule::EventUnused, text).at(&function, place.as_deref());
            to.add_many(key, count, None, None);
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
