//! Owns what a command that was enqueued had to wait for before the device could begin it: an event
//! that the application sets itself, or a command of another queue; and whether it is the first
//! launch of its kernel, which runtimes compile or load then. Follows wait lists and in-order
//! queues through commands in flight. Refuses to say how long the device was idle: that is
//! [`super`]'s.

use super::host_path::HostPath;
use super::{Held, Lead};
use crate::event::{Call, Command, Kept};
use crate::ids::IdMap;
use crate::input::Definitions;
use crate::stats::sums::WaitedFor;
use crate::time::HostNs;
use std::collections::{HashSet, VecDeque};

/// Ends of commands that are remembered for those that waited for them.
const MOST_ENDS: usize = 1 << 14;

/// Kernels and sizes of which the first launch is known.
const MOST_LAUNCHED: usize = 1 << 14;

/// A command in flight.
#[derive(Debug, Clone)]
struct InFlight {
    lead: Lead,
    queue: u32,
    /// User events before it, its own and those of what it follows.
    user_events: Vec<u64>,
    /// Commands of other queues in its wait list.
    others: Vec<u64>,
}

/// The first launches of kernels: program, name, device and work-group size, or the global size where
/// the runtime chooses the groups.
type Launched<'a> = HashSet<(u32, &'a str, u32, Option<[u64; 3]>)>;

/// The commands of one process.
#[derive(Debug)]
pub struct Holds<'a> {
    definitions: &'a Definitions,
    /// Ids of clCreateUserEvent and clSetUserEventStatus.
    create: Option<u16>,
    set: Option<u16>,
    /// User events, with the begin of the call that set them.
    user_events: IdMap<Option<HostNs>>,
    in_flight: IdMap<InFlight>,
    /// The newest command of each in-order queue.
    newest: IdMap<u64>,
    ends: IdMap<HostNs>,
    ended: VecDeque<u64>,
    launched: Launched<'a>,
    /// Queue, kernel and geometry of launches that were looked up there.
    looked_up: IdMap<(), u128>,
}

impl<'a> Holds<'a> {
    pub fn new(definitions: &'a Definitions) -> Self {
        let id = |name| definitions.functions().find(|f| f.name == name).map(|f| f.id);
        Self {
            definitions,
            create: id("clCreateUserEvent"),
            set: id("clSetUserEventStatus"),
            user_events: IdMap::default(),
            in_flight: IdMap::default(),
            newest: IdMap::default(),
            ends: IdMap::default(),
            ended: VecDeque::new(),
            launched: Launched::new(),
            looked_up: IdMap::default(),
        }
    }

    /// A call that enqueued nothing: it may have made or set a user event.
    pub fn called(&mut self, call: &Call<'_>) {
        let Kept::Words(words) = &call.kept else { return };
        let made = self.create == Some(call.function);
        let set = self.set == Some(call.function);
        if call.result == 0
            && (made || set)
            && let Some(event) = words.iter().next().filter(|id| *id != 0)
        {
            let at = set.then_some(call.span.begin);
            let known = self.user_events.entry(event).or_default();
            *known = known.or(at);
        }
    }

    /// A command was enqueued.
    pub fn enqueued(&mut self, call: &Call<'_>, mut lead: Lead) {
        let Kept::Enqueue(enqueued) = &call.kept else { return };
        let record = &enqueued.record;
        let d = self.definitions;
        let queue = d.queues.get(&record.queue);
        let (mut user_events, mut others) = (Vec::new(), Vec::new());
        for id in enqueued.waits().flatten().map(|id| id.0) {
            match (self.user_events.contains_key(&id), self.in_flight.get(&id)) {
                (true, _) => user_events.push(id),
                (false, Some(before)) => {
                    user_events.extend(&before.user_events);
                    if before.queue != record.queue {
                        others.push(id);
                    }
                }
                (false, None) => {}
            }
        }
        if queue.is_some_and(|q| !q.is_out_of_order()) {
            let before = self.newest.insert(u64::from(record.queue), record.id);
            if let Some(before) = before.and_then(|id| self.in_flight.get(&id)) {
                user_events.extend(&before.user_events);
            }
        }
        // What is set already holds nothing back.
        user_events.retain(|id| self.user_events.get(id).is_some_and(Option::is_none));
        user_events.sort_unstable();
        user_events.dedup();
        lead.what = Some(WaitedFor::identify(call.process, record));
        lead.from = (call.thread, record.site);
        let place = u128::from(record.queue) << 64
            | u128::from(record.object) << 32
            | u128::from(record.geometry);
        if record.kind.is_kernel() && self.looked_up.insert(place, ()).is_none() {
            let kernel = d.kernels.get(&record.object);
            let local = d.geometries.get(&record.geometry).and_then(|g| g.local);
            let device = queue.map_or(0, |q| q.device);
            lead.is_first = kernel
                .is_some_and(|k| self.launched.insert((k.program, k.name.as_str(), device, local)));
            let global = d.geometries.get(&record.geometry).map(|g| g.global);
            // Sizes without end are no compilations.
            if local.is_none() && self.launched.len() < MOST_LAUNCHED {
                lead.is_first_of_size = kernel.is_some_and(|k| {
                    self.launched.insert((k.program, k.name.as_str(), device, global))
                });
            }
        }
        let command = InFlight { lead, queue: record.queue, user_events, others };
        self.in_flight.insert(record.id, command);
    }

    /// A command has an outcome: what it waited for, and until when. `begin`, `end`: when it ran,
    /// where that is known.
    pub fn ended(&mut self, command: &Command<'_>, ran: Option<(HostNs, HostNs)>) -> Lead {
        let id = command.enqueued.record.id;
        let unknown = || Lead::at(command.call.begin, HostPath::default());
        let Some(of) = self.in_flight.remove(&id) else { return unknown() };
        let Some((begin, end)) = ran else { return of.lead };
        self.ends.insert(id, end);
        self.ended.push_back(id);
        if self.ended.len() > MOST_ENDS
            && let Some(oldest) = self.ended.pop_front()
        {
            self.ends.remove(&oldest);
        }
        // One that was not seen to end before this one began was seen late.
        let set = |event: &u64| Some(self.user_events.get(event).copied().flatten()?.min(begin));
        let over = |id: &u64| match self.ends.get(id) {
            Some(end) => Some((*end).min(begin)),
            None => self.in_flight.contains_key(id).then_some(begin),
        };
        let user = of.user_events.iter().filter_map(set).max();
        let other = of.others.iter().filter_map(over).max();
        let held = match (user, other) {
            (Some(user), other) if other.is_none_or(|other| user >= other) => {
                Some((Held::UserEvent, user))
            }
            (_, Some(other)) => Some((Held::OtherQueue, other)),
            (_, None) => None,
        };
        Lead { held, ..of.lead }
    }
}
