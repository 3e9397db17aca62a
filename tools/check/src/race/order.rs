//! What the specification orders: a vector clock for each command, of the commands that are
//! complete before it begins. In-order queues, wait lists, barriers, markers, and what the host
//! waited for before it enqueued it (Appendix A.1 and 5.11). Refuses to use times: an order by luck
//! is none.
//!
//! What one thread of the host learns, all others know from then on: how threads synchronise is not
//! in a trace. So an order may be assumed that is none, and never the other way.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Commands beyond the prefixes of queues that a clock holds; one with more knows everything, so
/// that no race is found with it.
const MOST: usize = 4096;

/// A command's place: its queue, and its number there, from 1.
pub type Place = (u32, u64);

/// A set of commands: of each queue the first so many, and single ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clock {
    /// One of each queue: there are few, and clocks are copied often.
    prefix: Vec<(u32, u64)>,
    single: BTreeSet<Place>,
    /// There were too many to hold: it counts as holding everything.
    everything: bool,
    /// The command waits for an event of which it is not known what comes before it, as a user
    /// event: commands that are enqueued later may come before it, too.
    delayed: bool,
}

impl Clock {
    /// Whether a command is in it.
    pub fn holds(&self, (queue, number): Place) -> bool {
        self.everything
            || self.delayed
            || self.upto(queue).is_some_and(|upto| number <= upto)
            || self.single.contains(&(queue, number))
    }

    /// Of a queue the first so many commands.
    fn upto(&self, queue: u32) -> Option<u64> {
        self.prefix.iter().find(|(of, _)| *of == queue).map(|(_, upto)| *upto)
    }

    fn raise(&mut self, queue: u32, upto: u64) {
        match self.prefix.iter_mut().find(|(of, _)| *of == queue) {
            Some((_, own)) => *own = (*own).max(upto),
            None => self.prefix.push((queue, upto)),
        }
    }

    /// Whether later commands may come before its command.
    pub fn is_delayed(&self) -> bool {
        self.delayed
    }

    /// Whether it counts as holding everything, since there was too much to hold.
    pub fn is_full(&self) -> bool {
        self.everything
    }

    fn join(&mut self, other: &Self) {
        self.everything |= other.everything;
        self.delayed |= other.delayed;
        for (queue, upto) in &other.prefix {
            self.raise(*queue, *upto);
        }
        self.single.extend(other.single.iter().copied());
        self.tidy();
    }

    fn tidy(&mut self) {
        if self.single.is_empty() {
            return;
        }
        let mut single = std::mem::take(&mut self.single);
        single.retain(|(queue, n)| self.upto(*queue).is_none_or(|upto| *n > upto));
        self.single = single;
        if self.single.len() > MOST {
            self.everything = true;
        }
        if self.everything {
            self.single.clear();
        }
    }

    fn add_prefix(&mut self, queue: u32, upto: u64) {
        self.raise(queue, upto);
        self.tidy();
    }
}

#[derive(Default)]
struct Queue {
    /// Commands so far.
    count: u64,
    /// All of them with what is before them.
    all: Clock,
    /// What every further command comes after.
    fence: Clock,
}

/// What one command does to the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing but its own place.
    Plain,
    /// Later commands of its queue come after it; without a wait list it comes after all before it.
    Barrier,
    /// Without a wait list it comes after all before it.
    Marker,
}

/// The order of the commands of one process.
#[derive(Default)]
pub struct Order {
    queues: HashMap<u32, Queue>,
    /// What is complete when the host makes its next call.
    host: Rc<Clock>,
    /// Commands that wait lists may name, by the low halves of their ids: place, and the clock with
    /// themselves.
    events: HashMap<u32, (Place, Rc<Clock>)>,
}

impl Order {
    /// A command was enqueued. `waits`: the commands of its wait list, `None` for an event whose
    /// command is not known. Gives its place and what is complete before it begins.
    pub fn enqueued(
        &mut self,
        id: u64,
        queue: u32,
        in_order: bool,
        effect: Effect,
        waits: &[Option<u64>],
    ) -> (Place, Rc<Clock>) {
        let mut before = (*self.host).clone();
        for wait in waits {
            match wait.and_then(|id| self.events.get(&(id as u32))) {
                Some((_, clock)) => before.join(clock),
                // A user event, an event of another API: it may bring any order.
                None => before.delayed = true,
            }
        }
        let known = self.queues.entry(queue).or_default();
        before.join(&known.fence);
        if in_order || (effect != Effect::Plain && waits.is_empty()) {
            before.join(&known.all);
        }
        known.count += 1;
        let place = (queue, known.count);
        let mut with = before.clone();
        if in_order || (effect != Effect::Plain && waits.is_empty()) {
            with.add_prefix(queue, known.count);
        } else {
            with.single.insert(place);
            with.tidy();
        }
        known.all.join(&with);
        known.all.add_prefix(queue, known.count);
        let with = Rc::new(with);
        if effect == Effect::Barrier {
            known.fence.join(&with);
        }
        self.events.insert(id as u32, (place, with));
        (place, Rc::new(before))
    }

    /// The host knows a command to be complete.
    pub fn complete(&mut self, id: u64) {
        if let Some((_, clock)) = self.events.get(&(id as u32)) {
            let clock = Rc::clone(clock);
            self.learn(&clock);
        }
    }

    /// The host knows all commands of a queue to be complete.
    pub fn finished(&mut self, queue: u32) {
        if let Some(known) = self.queues.get_mut(&queue) {
            // What its commands waited for has come.
            (known.all.delayed, known.fence.delayed) = (false, false);
            let all = known.all.clone();
            self.learn(&all);
        }
    }

    /// What was complete before a command that the host knows to be complete is so, too. What it
    /// waited for besides, the host had brought about itself.
    fn learn(&mut self, clock: &Clock) {
        let host = Rc::make_mut(&mut self.host);
        host.join(clock);
        host.delayed = false;
    }

    /// Whether the host knows a command to be complete: nothing that follows can race with it.
    pub fn known(&self, place: Place) -> bool {
        self.host.holds(place)
    }

    /// Nobody can name the event of a command any more.
    pub fn forget(&mut self, id: u32) {
        self.events.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by its definition: of each command, all that are complete before it begins.
    #[derive(Default)]
    struct Model {
        before: Vec<BTreeSet<usize>>,
        of_queue: HashMap<u32, Vec<usize>>,
        barriers: HashMap<u32, Vec<usize>>,
        host: BTreeSet<usize>,
    }

    impl Model {
        fn with(&self, command: usize) -> BTreeSet<usize> {
            self.before[command].iter().copied().chain([command]).collect()
        }

        fn enqueued(&mut self, queue: u32, in_order: bool, effect: Effect, wait: Option<usize>) {
            let mut before = self.host.clone();
            let earlier = self.of_queue.entry(queue).or_default().clone();
            let all = in_order || (effect != Effect::Plain && wait.is_none());
            let fences = self.barriers.entry(queue).or_default().clone();
            for command in earlier.into_iter().filter(|_| all).chain(wait).chain(fences) {
                before.extend(self.with(command));
            }
            let own = self.before.len();
            self.before.push(before);
            self.of_queue.entry(queue).or_default().push(own);
            if effect == Effect::Barrier {
                self.barriers.entry(queue).or_default().push(own);
            }
        }
    }

    proptest! {
        #[test]
        fn clocks_hold_what_the_definition_says(
            steps in proptest::collection::vec((0_u8..8, 0_u32..3, any::<proptest::sample::Index>()), 1..60)
        ) {
            let (mut order, mut model) = (Order::default(), Model::default());
            let mut places: Vec<Place> = Vec::new();
            for (what, queue, which) in steps {
                let one = (!places.is_empty()).then(|| which.index(places.len()));
                match (what, one) {
                    (6, _) => {
                        order.finished(queue);
                        let all = model.of_queue.get(&queue).cloned().unwrap_or_default();
                        for command in all {
                            let with = model.with(command);
                            model.host.extend(with);
                        }
                    }
                    (7, Some(one)) => {
                        order.complete(one as u64 + 1);
                        let with = model.with(one);
                        model.host.extend(with);
                    }
                    _ => {
                        let effect = match what {
                            4 => Effect::Marker,
                            5 => Effect::Barrier,
                            _ => Effect::Plain,
                        };
                        // Queue 2 is out of order; half of the commands wait for another.
                        let (in_order, wait) = (queue != 2, one.filter(|_| what % 2 == 1));
                        let waits: Vec<Option<u64>> =
                            wait.iter().map(|one| Some(*one as u64 + 1)).collect();
                        let id = places.len() as u64 + 1;
                        let (at, clock) = order.enqueued(id, queue, in_order, effect, &waits);
                        model.enqueued(queue, in_order, effect, wait);
                        let before = model.before.last().unwrap();
                        for (command, place) in places.iter().enumerate() {
                            prop_assert_eq!(clock.holds(*place), before.contains(&command));
                        }
                        places.push(at);
                    }
                }
                for (command, place) in places.iter().enumerate() {
                    prop_assert_eq!(order.known(*place), model.host.contains(&command));
                }
            }
        }
    }

    #[test]
    fn in_order_queues_order_their_own_commands_alone() {
        let mut order = Order::default();
        let (a, _) = order.enqueued(1, 7, true, Effect::Plain, &[]);
        let (b, before) = order.enqueued(2, 7, true, Effect::Plain, &[]);
        assert!(before.holds(a) && !before.holds(b));
        let (_, other) = order.enqueued(3, 8, true, Effect::Plain, &[]);
        assert!(!other.holds(a) && !other.holds(b));
        // By the event of the second, the first comes with it.
        let (_, after) = order.enqueued(4, 8, true, Effect::Plain, &[Some(2)]);
        assert!(after.holds(a) && after.holds(b));
    }

    #[test]
    fn out_of_order_queues_order_by_events_barriers_and_markers() {
        let mut order = Order::default();
        let (a, _) = order.enqueued(1, 7, false, Effect::Plain, &[]);
        let (b, before) = order.enqueued(2, 7, false, Effect::Plain, &[]);
        assert!(!before.holds(a));
        let (m, marked) = order.enqueued(3, 7, false, Effect::Marker, &[]);
        assert!(marked.holds(a) && marked.holds(b));
        // A marker holds up nothing but who waits for it.
        let (c, before) = order.enqueued(4, 7, false, Effect::Plain, &[]);
        assert!(!before.holds(a) && !before.holds(m));
        let (_, before) = order.enqueued(5, 7, false, Effect::Plain, &[Some(3)]);
        assert!(before.holds(a) && before.holds(b) && !before.holds(c));
        order.enqueued(6, 7, false, Effect::Barrier, &[]);
        let (_, before) = order.enqueued(7, 7, false, Effect::Plain, &[]);
        assert!(before.holds(a) && before.holds(c));
        // A barrier with a wait list holds up what follows until these alone are complete.
        let mut order = Order::default();
        let (a, _) = order.enqueued(1, 7, false, Effect::Plain, &[]);
        let (b, _) = order.enqueued(2, 7, false, Effect::Plain, &[]);
        order.enqueued(3, 7, false, Effect::Barrier, &[Some(1)]);
        let (_, before) = order.enqueued(4, 7, false, Effect::Plain, &[]);
        assert!(before.holds(a) && !before.holds(b));
    }

    #[test]
    fn what_the_host_waited_for_is_before_all_that_follows() {
        let mut order = Order::default();
        let (a, _) = order.enqueued(1, 7, false, Effect::Plain, &[]);
        let (b, _) = order.enqueued(2, 7, false, Effect::Plain, &[]);
        order.complete(1);
        let (_, before) = order.enqueued(3, 8, true, Effect::Plain, &[]);
        assert!(before.holds(a) && !before.holds(b) && order.known(a) && !order.known(b));
        order.finished(7);
        let (_, before) = order.enqueued(4, 8, true, Effect::Plain, &[]);
        assert!(before.holds(b));
    }

    #[test]
    fn what_waits_for_unknown_events_may_come_after_anything() {
        let mut order = Order::default();
        let (a, _) = order.enqueued(1, 7, true, Effect::Plain, &[]);
        for wait in [None, Some(99)] {
            let (_, before) = order.enqueued(2, 8, true, Effect::Plain, &[wait]);
            assert!(before.holds(a) && before.is_delayed());
        }
        // So does what follows in its queue, until the host knows them to be complete.
        let (_, before) = order.enqueued(3, 8, true, Effect::Plain, &[]);
        assert!(before.is_delayed());
        order.finished(8);
        let (_, before) = order.enqueued(4, 8, true, Effect::Plain, &[]);
        assert!(!before.is_delayed() && !before.holds(a));
    }

    #[test]
    fn many_commands_take_little_room() {
        let mut order = Order::default();
        let mut places = Vec::new();
        for id in 1..3 * MOST as u64 {
            places.push(order.enqueued(id, 7, false, Effect::Plain, &[]).0);
        }
        order.finished(7);
        let (_, before) = order.enqueued(1 << 20, 8, true, Effect::Plain, &[]);
        assert!(places.iter().all(|p| before.holds(*p)) && !before.everything);
    }
}
