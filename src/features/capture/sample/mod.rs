//! Owns which launches are drawn to be captured: of each class (kernel, sizes, device) a uniform
//! sample of the whole run, however long it goes on (J. S. Vitter's reservoir, by K.-H. Li's
//! algorithm L: "Reservoir-Sampling Algorithms of Time Complexity O(n(1 + log(N/n)))", ACM TOMS 20,
//! 1994). The draw comes first: a launch that was drawn and cannot be captured leaves its place of
//! the sample empty. Refuses to capture anything itself, and to look at what a launch computes.
#![forbid(unsafe_code)]

use crate::os::shared::maps::HashMap;
use crate::recording::files::captures::Whole;
use std::sync::Arc;

/// Places of a class's sample, at most.
const SLOTS: usize = 4;
/// Classes of one kernel on one device: the last one takes all further sizes.
const SIZES: usize = 8;
/// Times that a draw moves to a later round where the recorder's memory was in use.
const MOVES: u32 = 16;
/// Rounds among which a draw chooses are so many times fewer at first, where its class has no capture.
const NEXT: usize = 4;
/// Captures that fill places of samples: seconds at least, and share of the run's time.
const FILL: (f64, f64) = (2.0, 0.05);
/// Those of them whose class has another: seconds at least. The others of a class come as the run
/// goes on, not one behind the other at its start, where data often differ from the rest.
const OTHERS: f64 = 0.1;
/// Part of the time that is left for these which one of them may take: kernels that come later have
/// some, too.
const ONE: f64 = 0.5;
/// Share of the run's time for all that replace others, and as many seconds at least as above:
/// draws of a run shorter than that need not move, which would make late launches likelier.
const MORE: f64 = 0.02;
/// A capture whose place was drawn anew, and could not be captured anew, is kept for want of others.
/// It goes where one comes that has so many times its number: it is of a beginning that says little.
const EARLY: u64 = 10;
/// Captures that stand for what is known before any: bytes and seconds.
const ASSUMED: [(f64, f64); 2] = [(0.0, 5e-4), (1e8, 0.1)];

/// A launch that was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Which class.
    pub class: u32,
    /// Which place of its sample.
    pub slot: usize,
    /// The launch's number in its class, from 1.
    pub at: u64,
    /// Its number in its round, from 0, and how often it was moved.
    position: u64,
    moves: u32,
}

/// A kernel by name, a number for what its program was built from, and a device: its sizes are
/// classes.
pub type OnDevice = (Arc<str>, u64, usize);

/// A draw that waits for the same position of a later round.
#[derive(Debug, Clone, Copy)]
struct Moved {
    slot: usize,
    position: u64,
    round: u64,
    moves: u32,
}

/// What captures take: least squares of seconds on bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    count: f64,
    bytes: f64,
    seconds: f64,
    /// Sums of products: of bytes by bytes, of bytes by seconds.
    squares: f64,
    products: f64,
}

impl Line {
    fn assumed() -> Self {
        let mut out = Self::default();
        ASSUMED.iter().for_each(|(bytes, seconds)| out.add(*bytes, *seconds));
        out
    }

    fn add(&mut self, bytes: f64, seconds: f64) {
        self.count += 1.0;
        self.bytes += bytes;
        self.seconds += seconds;
        self.squares += bytes * bytes;
        self.products += bytes * seconds;
    }

    /// Seconds for so many bytes: neither less for more of them, nor less than none.
    fn at(&self, bytes: f64) -> f64 {
        let (x, y) = (self.bytes / self.count, self.seconds / self.count);
        let slope = (self.products - self.count * x * y) / (self.squares - self.count * x * x);
        let slope = slope.clamp(0.0, self.seconds / self.bytes);
        (y + slope * (bytes - x)).max(slope * bytes)
    }
}

/// What a capture is to its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The first one.
    First,
    /// Another, for a place that has none.
    Fill,
    /// One for a place that has one.
    More,
}

/// What is known of a class.
#[derive(Debug, Default)]
struct Class {
    /// Launches so far.
    seen: u64,
    /// The number, from 0, of the next launch that is drawn.
    next: u64,
    /// Algorithm L's weight: the greatest of the keys in the sample.
    weight: f64,
    /// A launch that was drawn for this place was none: the next one is.
    again: Option<usize>,
    moved: Vec<Moved>,
    /// The round of the last launch, and how many launches it had before the next.
    round: u64,
    position: u64,
    /// Each place's capture, and the number of its launch.
    held: [Option<(u64, Whole)>; SLOTS],
    /// The place was drawn anew since, for a launch that was not captured.
    passed: [bool; SLOTS],
    /// Captures that are under way.
    begun: u32,
    /// It has no capture, and a draw that waits.
    lacks: bool,
    /// A launch of it is described without what its memory held.
    is_described: bool,
}

/// xorshift64*: draws need no more.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(2_685_821_657_736_338_717)
    }

    /// Between 0 and 1, neither of them.
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn below(&mut self, limit: usize) -> usize {
        ((self.unit() * limit as f64) as usize).min(limit.saturating_sub(1))
    }
}

impl Class {
    /// A place is drawn for a launch that is not captured.
    fn passed(&mut self, slot: usize) {
        if let Some(passed) = self.passed.get_mut(slot) {
            *passed = true;
        }
    }

    /// Algorithm L's next draw behind the launch with number `at`, from 0.
    fn skip(&mut self, at: u64, places: usize, random: &mut Random) {
        self.weight *= (random.unit().ln() / places as f64).exp();
        let gap = (random.unit().ln() / (-self.weight).ln_1p()).floor();
        // A gap beyond 2^63 comes in no run.
        self.next = at.saturating_add(1).saturating_add(gap.min(9e18) as u64);
    }

    /// A launch comes: the place that it is drawn for.
    fn drawn(&mut self, places: usize, random: &mut Random) -> Option<usize> {
        let at = self.seen;
        self.seen += 1;
        if let Some(slot) = self.again.take() {
            return Some(slot);
        }
        if at < places as u64 {
            if at + 1 == places as u64 {
                self.weight = 1.0;
                self.skip(at, places, random);
            }
            return Some(at as usize);
        }
        (at == self.next).then(|| {
            let slot = random.below(places);
            self.skip(at, places, random);
            slot
        })
    }
}

/// The samples of a process.
#[derive(Debug)]
pub struct Samples {
    /// Places of each class's sample.
    places: usize,
    classes: Vec<Class>,
    keys: HashMap<(OnDevice, u64), u32>,
    /// Classes of a kernel on a device.
    sizes: HashMap<OnDevice, usize>,
    /// Launches of a kernel.
    launches: HashMap<Arc<str>, u64>,
    random: Random,
    /// Waits of the application's so far.
    round: u64,
    /// When the first launch came, in seconds.
    started: Option<f64>,
    /// Seconds that captures took, by `Part`; what one takes.
    spent: [f64; 3],
    takes: Line,
    /// Bytes of captures that are under way.
    pending: u64,
    /// How many classes lack a capture that a draw waits for.
    lacking: usize,
}

/// A launch as its class sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its number among the kernel's, from 1.
    pub launch: u64,
    /// Its class, and whether that is new.
    pub class: u32,
    pub is_new: bool,
    /// Where it was drawn.
    pub draw: Option<Draw>,
}

impl Samples {
    /// No launch yet, of samples with so many places. `seed` is any number.
    pub fn new(seed: u64, places: usize) -> Self {
        // Neighbouring seeds give unlike draws.
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| _ = random.next());
        Self {
            places: places.clamp(1, SLOTS),
            classes: Vec::new(),
            keys: HashMap::default(),
            sizes: HashMap::default(),
            launches: HashMap::default(),
            random,
            round: 0,
            started: None,
            spent: [0.0; 3],
            takes: Line::assumed(),
            pending: 0,
            lacking: 0,
        }
    }

    /// A launch comes, of sizes that a number stands for; `now` in seconds.
    pub fn launched(&mut self, of: OnDevice, sizes: u64, now: f64) -> Seen {
        self.started.get_or_insert(now);
        let launch = self.launches.entry(Arc::clone(&of.0)).or_default();
        *launch += 1;
        let launch = *launch;
        let key = (of, sizes);
        let (class, is_new) = match self.keys.get(&key) {
            Some(known) => (*known, false),
            None => self.new_class(key),
        };
        let round = self.round;
        let Some(of) = self.classes.get_mut(class as usize) else {
            return Seen { launch, class, is_new, draw: None };
        };
        if of.round != round {
            (of.round, of.position) = (round, 0);
        }
        let position = of.position;
        of.position += 1;
        let at = of.seen + 1;
        let draw = |slot, moves| Draw { class, slot, at, position, moves };
        let draw = match of.drawn(self.places, &mut self.random) {
            Some(slot) => {
                of.moved.retain(|moved| moved.slot != slot);
                Some(draw(slot, 0))
            }
            None => {
                let due = |m: &Moved| m.round <= round && m.position == position;
                let due = of.moved.iter().position(due).map(|at| of.moved.swap_remove(at));
                due.map(|moved| draw(moved.slot, moved.moves))
            }
        };
        if draw.is_some() {
            self.count(class);
        }
        Seen { launch, class, is_new, draw }
    }

    fn new_class(&mut self, key: (OnDevice, u64)) -> (u32, bool) {
        let sizes = self.sizes.entry(key.0.clone()).or_default();
        *sizes += 1;
        // Further sizes share the last class.
        let last = (*sizes > SIZES).then(|| {
            let same = self.keys.iter().filter(|((of, _), _)| *of == key.0);
            same.map(|(_, class)| *class).max()
        });
        let (class, is_new) = match last.flatten() {
            Some(last) => (last, false),
            None => {
                self.classes.push(Class::default());
                ((self.classes.len() - 1) as u32, true)
            }
        };
        self.keys.insert(key, class);
        (class, is_new)
    }

    /// The application has waited.
    pub fn waited(&mut self) {
        self.round += 1;
    }

    /// Seconds until there is time for a capture of so many bytes, were none made meanwhile: none
    /// where there is now; `now` in seconds.
    pub fn affords(&self, draw: &Draw, bytes: u64, now: f64) -> f64 {
        let run = (now - self.started.unwrap_or(now)).max(0.0);
        let takes = self.takes.at(bytes.saturating_add(self.pending) as f64);
        let alone = self.takes.at(bytes as f64);
        let [first, fill, more] = self.spent;
        // The length that a run has where a share of it, or some seconds at least, are so much.
        let length = |need: f64, least: f64, share: f64| match need <= least {
            true => 0.0,
            false => need / share,
        };
        let needs = match self.part(draw) {
            Part::First => {
                // Its own part; what is under way is no part of it.
                length(first + fill + takes - alone + alone / ONE, FILL.0, FILL.1)
            }
            Part::Fill => {
                let together = length(first + fill + takes, FILL.0, FILL.1);
                length(fill + takes, OTHERS, FILL.1).max(together)
            }
            Part::More => length(more + takes, OTHERS, MORE),
        };
        (needs - run).max(0.0)
    }

    /// A capture of so many bytes for a draw has begun, or is over.
    pub fn pends(&mut self, draw: Option<Draw>, bytes: u64, has_begun: bool) {
        let of = draw.and_then(|draw| self.classes.get_mut(draw.class as usize));
        let begun = of.map(|of| &mut of.begun);
        match has_begun {
            true => self.pending = self.pending.saturating_add(bytes),
            false => self.pending = self.pending.saturating_sub(bytes),
        }
        if let Some(begun) = begun {
            *begun = if has_begun { *begun + 1 } else { begun.saturating_sub(1) };
        }
    }

    /// What a capture for a draw, which has not begun, would be to its class.
    fn part(&self, draw: &Draw) -> Part {
        let Some(of) = self.classes.get(draw.class as usize) else { return Part::First };
        match () {
            () if self.holds(draw) => Part::More,
            () if of.begun > 0 || of.held.iter().any(Option::is_some) => Part::Fill,
            () => Part::First,
        }
    }

    /// Whether a class has no capture in any other place.
    fn is_only(&self, draw: &Draw) -> bool {
        let Some(of) = self.classes.get(draw.class as usize) else { return false };
        of.held.iter().enumerate().all(|(slot, held)| slot == draw.slot || held.is_none())
    }

    /// A capture took so many seconds, for so many bytes.
    pub fn spent(&mut self, draw: &Draw, seconds: f64, bytes: u64) {
        let part = match (self.holds(draw), self.is_only(draw)) {
            (true, _) => Part::More,
            (false, true) => Part::First,
            (false, false) => Part::Fill,
        };
        if let Some(spent) = self.spent.get_mut(part as usize) {
            *spent += seconds;
        }
        self.takes.add(bytes as f64, seconds);
    }

    /// The runtime refused a launch that was drawn, or one that was not: it was none.
    pub fn failed(&mut self, kernel: &str, class: u32, draw: Option<Draw>) {
        if let Some(launches) = self.launches.get_mut(kernel) {
            *launches = launches.saturating_sub(1);
        }
        let Some(of) = self.classes.get_mut(class as usize) else { return };
        of.seen = of.seen.saturating_sub(1);
        of.position = of.position.saturating_sub(1);
        // The next one has its number, and its place where it was drawn.
        if let Some(draw) = draw {
            of.again = Some(draw.slot);
        }
    }

    /// The recorder's memory was in use, or there is no time for a capture before so many seconds
    /// have gone by: the draw moves to the same position of a later round. Not for ever: `false`.
    pub fn moved(&mut self, draw: &Draw, wait: f64, now: f64) -> bool {
        let run = (now - self.started.unwrap_or(now)).max(1e-6);
        let Some(of) = self.classes.get_mut(draw.class as usize) else { return false };
        if draw.moves >= MOVES {
            return false;
        }
        // Once to twice as long: no capture is tied to the moment when there is time again.
        let rounds = wait * (1.0 + self.random.unit()) * self.round as f64 / run;
        // What has no capture tries the next rounds first: it may not be launched often.
        let has_none = wait <= 0.0 && of.held.iter().all(Option::is_none);
        let spread = if has_none { ((1 << draw.moves) / NEXT).max(1) } else { 2 << draw.moves };
        let ahead = 1 + self.random.below(spread) as u64 + rounds as u64;
        let round = self.round.saturating_add(ahead);
        let (slot, position, moves) = (draw.slot, draw.position, draw.moves + 1);
        of.moved.push(Moved { slot, position, round, moves });
        of.passed(slot);
        self.count(draw.class);
        true
    }

    /// A class's draws or captures have changed.
    fn count(&mut self, class: u32) {
        let Some(of) = self.classes.get_mut(class as usize) else { return };
        let lacks = !of.moved.is_empty() && of.held.iter().all(Option::is_none);
        match (std::mem::replace(&mut of.lacks, lacks), lacks) {
            (false, true) => self.lacking += 1,
            (true, false) => self.lacking = self.lacking.saturating_sub(1),
            _ => {}
        }
    }

    /// Whether another class, which has no capture yet, waits for the memory that this would take.
    pub fn is_behind(&self, draw: &Draw) -> bool {
        self.lacking > 0 && !self.is_only(draw)
    }

    /// A launch that was drawn is not captured, and moves no more.
    pub fn refused(&mut self, draw: &Draw) {
        if let Some(of) = self.classes.get_mut(draw.class as usize) {
            of.passed(draw.slot);
        }
    }

    /// A place of a sample has another capture. What is none of the sample's any more, with its
    /// place: what the place had, and those of the beginning whose places were drawn anew.
    pub fn captured(&mut self, draw: &Draw, whole: &Whole) -> Vec<(Draw, Whole)> {
        let Some(of) = self.classes.get_mut(draw.class as usize) else { return Vec::new() };
        let mut out = Vec::new();
        for (slot, (held, passed)) in of.held.iter_mut().zip(&mut of.passed).enumerate() {
            let is_its = slot == draw.slot;
            let is_early = |at: u64| *passed && at.saturating_mul(EARLY) <= draw.at;
            if is_its || held.as_ref().is_some_and(|(at, _)| is_early(*at)) {
                let before = std::mem::replace(held, is_its.then(|| (draw.at, whole.clone())));
                out.extend(before.map(|(at, whole)| (Draw { slot, at, ..*draw }, whole)));
                *passed = false;
            }
        }
        self.count(draw.class);
        out
    }

    /// Whether nothing is known of launches like one that was drawn.
    pub fn is_unknown(&self, draw: &Draw) -> bool {
        let of = self.classes.get(draw.class as usize);
        of.is_some_and(|of| !of.is_described && of.held.iter().all(Option::is_none))
    }

    /// A launch that was drawn is described.
    pub fn described(&mut self, draw: &Draw) {
        if let Some(of) = self.classes.get_mut(draw.class as usize) {
            of.is_described = true;
        }
    }

    /// Whether a place of a sample has a capture.
    pub fn holds(&self, draw: &Draw) -> bool {
        let of = self.classes.get(draw.class as usize);
        of.and_then(|of| of.held.get(draw.slot)).is_some_and(Option::is_some)
    }

    /// Launches of each class.
    pub fn seen(&self) -> Vec<u64> {
        self.classes.iter().map(|of| of.seen).collect()
    }
}

#[cfg(test)]
mod tests;
