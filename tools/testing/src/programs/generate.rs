//! Makes programs from seeds. Owns what is tried how often. Each program leaves out some kinds of
//! steps and repeats others, so that rare neighbours meet; it need not care for what is allowed,
//! since the interpreter skips steps on what does not exist.

use super::{Batch, Program};
use crate::Random;

/// Ways in which a process comes to run OpenCL: see `tests/fixtures/programs/main.c`.
const LIVES: [&str; 12] = [
    "main",
    "main",
    "main",
    "thread",
    "fork",
    "exec",
    "early",
    "open",
    "constructor",
    "atexit",
    "destructor",
    "close",
];

/// Ends of a process.
const ENDS: [&str; 8] =
    ["return", "return", "return", "exit", "_exit", "quick", "thread", "signal"];

/// Kinds of steps, and how often each comes among others.
const KINDS: [(&str, u64); 26] = [
    ("launch", 14),
    ("write", 6),
    ("read", 6),
    ("fill", 3),
    ("copy", 8),
    ("map", 4),
    ("unmap", 2),
    ("native", 2),
    ("buffer", 4),
    ("part", 2),
    ("image", 2),
    ("queue", 3),
    ("gate", 4),
    ("open", 2),
    ("marker", 2),
    ("barrier", 5),
    ("flush", 3),
    ("finish", 2),
    ("wait", 4),
    ("callback", 4),
    ("ask", 4),
    ("drop", 3),
    ("forget", 2),
    ("error", 3),
    ("group", 2),
    ("rare", 2),
];

/// Builds of programs in one process.
const BUILDS: u32 = 2;

struct Maker {
    random: Random,
    weights: Vec<u64>,
}

impl Maker {
    fn below(&mut self, most: u64) -> u64 {
        self.random.below(most)
    }

    /// True once in `times`.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A word, once in `times`.
    fn maybe(&mut self, times: u64, word: &str) -> String {
        if self.once_in(times) { format!(" {word}") } else { String::new() }
    }

    /// A letter with a number below `most`, once in `times`.
    fn slot(&mut self, times: u64, letter: char, most: u64) -> String {
        if self.once_in(times) { format!(" {letter}{}", self.below(most)) } else { String::new() }
    }

    /// A queue: mostly one of the first, at times one that threads share.
    fn queue(&mut self) -> u64 {
        match self.below(10) {
            0 => 6,
            1 => 7,
            n => n % 3,
        }
    }

    /// What every command may have: an event, what it waits for.
    fn order(&mut self) -> String {
        let mut text = self.slot(2, 'e', 5);
        text += &self.slot(5, 'w', 5);
        text += &self.slot(8, 'w', 5);
        text += &self.slot(6, 'g', 3);
        text
    }

    /// A buffer, or, more rarely, an image.
    fn memory(&mut self) -> String {
        if self.once_in(6) { self.slot(1, 'i', 3) } else { self.slot(1, 'b', 5) }
    }

    fn queue_step(&mut self, slot: u64) -> String {
        let mut step = format!("queue q{slot}");
        step += &self.maybe(2, "out");
        step += &self.maybe(3, "profiling");
        step += &self.maybe(6, "sub");
        step + &self.maybe(3, "list")
    }

    fn buffer_step(&mut self, slot: u64) -> String {
        let kind = match self.below(8) {
            0 => " host",
            1 => " alloc",
            2 | 3 => " shared",
            _ => "",
        };
        format!("buffer b{slot} n{}{kind}", self.below(5))
    }

    fn launch_step(&mut self) -> String {
        let what = match self.below(12) {
            0 => format!("stain i{}", self.below(3)),
            1 => format!("plane i{} i{}", self.below(3), self.below(3)),
            2 => "tally".to_owned(),
            3..=5 => format!("mix b{} b{}", self.below(5), self.below(5)),
            6 => format!("turn b{}", self.below(5)),
            _ => format!("add b{}", self.below(5)),
        };
        let mut step = format!("launch q{} {what} v{}", self.queue(), self.below(100));
        step += &self.slot(2, 'r', 5000);
        step += &self.slot(3, 'd', 4);
        step += &self.slot(3, 'l', 2);
        step += &self.slot(2, 'k', 4);
        step += &self.slot(2, 'a', 4);
        step += &self.maybe(8, "offset");
        step += &self.maybe(8, "twice");
        step += &self.maybe(8, "wrong");
        step += &self.maybe(6, "fresh");
        step + &self.order()
    }

    fn rare_step(&mut self) -> String {
        match self.below(7) {
            0 => {
                let way = ["", " exec", " vfork exec", " spawn"][self.below(4) as usize];
                format!("child{way}")
            }
            1 => {
                let mut step = format!("build v{}", self.below(3));
                step += &self.maybe(3, "callback");
                step += &self.maybe(5, "broken");
                step + &self.maybe(2, "anew")
            }
            2 => format!("quit q{}", self.below(3)),
            3 => format!("fail v{}{}", self.below(9), self.maybe(2, "called")),
            4 => format!("destructor{} x{}", self.memory(), self.below(3)),
            _ => {
                let mut step = format!("migrate q{}{}", self.queue(), self.memory());
                step += &self.maybe(2, "host");
                step + &self.order()
            }
        }
    }

    /// A barrier between commands on one memory, the first of which is held back: several steps.
    fn held_barrier(&mut self) -> String {
        let (queue, gate) = (self.below(3), self.below(3));
        let (first, second) = (self.below(5), self.below(5));
        format!(
            "gate g{gate}\nfill q{queue} b{first} v{} n0 g{gate}\nbarrier q{queue}\ncopy q{queue} b{first} b{second}",
            self.below(9)
        )
    }

    /// A step, or several that belong together, a line each.
    fn step(&mut self) -> String {
        let total: u64 = self.weights.iter().sum();
        let mut left = self.below(total);
        let mut kind = KINDS[0].0;
        for ((name, _), weight) in KINDS.iter().zip(&self.weights) {
            if left < *weight {
                kind = name;
                break;
            }
            left -= weight;
        }
        match kind {
            "barrier" if self.once_in(2) => self.held_barrier(),
            "launch" => self.launch_step(),
            "write" | "read" => {
                let mut step = format!("{kind} q{}{}", self.queue(), self.memory());
                step += &self.maybe(2, "block");
                step += &self.maybe(4, "rows");
                step += &self.maybe(2, "aside");
                step += &self.slot(2, 'v', 100);
                step + &self.order()
            }
            "fill" => {
                let (queue, memory) = (self.queue(), self.memory());
                format!(
                    "fill q{queue}{memory} v{} n{}{}",
                    self.below(9),
                    self.below(3),
                    self.order()
                )
            }
            "copy" => {
                let (queue, first) = (self.queue(), self.memory());
                let second = if first.starts_with(" i") && self.once_in(2) {
                    self.slot(1, 'i', 3)
                } else {
                    self.memory()
                };
                let mut step = format!("copy q{queue}{first}{second}");
                step += &self.maybe(3, "rows");
                step += &self.maybe(3, "back");
                step + &self.order()
            }
            "map" => {
                let mut step = format!("map q{}{}", self.queue(), self.memory());
                step += &self.maybe(2, "block");
                step += &self.maybe(2, "write");
                step + &self.order()
            }
            "unmap" | "drop" => format!("{kind}{}", self.memory()),
            "native" => {
                let (queue, buffer) = (self.queue(), self.below(5));
                let step = format!("native q{queue} b{buffer} v{}{}", self.below(50), self.order());
                step + &self.maybe(3, "call")
            }
            "buffer" => {
                let slot = self.below(5);
                self.buffer_step(slot)
            }
            "part" => {
                let (slot, whole) = (self.below(5), self.below(5));
                format!("part b{slot} p{whole} o{} n{}", self.below(16), self.below(16))
            }
            "image" => format!("image i{} n{}", self.below(3), self.below(2)),
            "queue" => {
                let slot = self.below(3);
                self.queue_step(slot)
            }
            "gate" => {
                let mut step = format!("gate g{}", self.below(3));
                step += &self.maybe(2, "thread");
                step + &self.slot(3, 'e', 5)
            }
            "open" => format!("open g{}", self.below(3)),
            "marker" | "barrier" => {
                let step = format!("{kind} q{}{}", self.queue(), self.order());
                step + &self.maybe(3, "old")
            }
            "flush" | "finish" => format!("{kind} q{}", self.queue()),
            "wait" => {
                let first = self.slot(1, 'e', 5);
                let mut step = format!("wait{first}");
                step += &self.slot(3, 'e', 5);
                step + &self.slot(3, 'e', 5)
            }
            "callback" => {
                let mut step = format!("callback e{}", self.below(5));
                step += match self.below(6) {
                    0 => " submitted",
                    1 => " running",
                    _ => "",
                };
                step + &self.maybe(3, "enqueue")
            }
            "ask" => match self.below(5) {
                0 => format!("ask q{}", self.queue()),
                1 => format!("ask b{}", self.below(5)),
                2 => format!("ask k{}", self.below(4)),
                3 => format!("ask e{} times", self.below(5)),
                _ => format!("ask e{}", self.below(5)),
            },
            "forget" => format!("forget e{}", self.below(5)),
            "group" => {
                let mut step = format!("group q{} b{}", self.queue(), self.below(5));
                step += &self.slot(2, 'n', 3);
                step += &self.slot(2, 'x', 3);
                step += &self.slot(2, 'v', 50);
                for word in ["fill", "flight", "wrong"] {
                    step += &self.maybe(4, word);
                }
                step + &self.order()
            }
            "error" => {
                let which = self.below(48);
                format!("error x{which} q{} b{} k{}", self.queue(), self.below(5), self.below(4))
            }
            _ => self.rare_step(),
        }
    }
}

/// The program of a seed.
pub fn generate(seed: u64) -> Program {
    let mut maker = Maker { random: Random::new(seed), weights: Vec::new() };
    // Kinds that are left out, and kinds that come often, make unusual neighbours.
    maker.weights = KINDS
        .iter()
        .map(|(_, weight)| weight * [0, 1, 1, 3][maker.random.below(4) as usize])
        .collect();
    maker.weights[0] = maker.weights[0].max(4);
    let threads = [1, 1, 1, 2, 2, 3][maker.below(6) as usize];
    let mut steps = Vec::new();
    for thread in 0..threads {
        for slot in 0..1 + maker.below(3) {
            steps.push(format!("t{thread} {}", maker.queue_step(slot)));
        }
        for slot in 0..1 + maker.below(4) {
            steps.push(format!("t{thread} {}", maker.buffer_step(slot)));
        }
        for slot in 0..maker.below(3) {
            steps.push(format!("t{thread} image i{slot} n{}", maker.below(2)));
        }
    }
    for _ in 0..4 + maker.below(40) {
        let thread = maker.below(threads);
        steps.extend(maker.step().lines().map(|step| format!("t{thread} {step}")));
    }
    Program { seed, steps }
}

/// Programs of several seeds in one process, whose life and end the first seed names. The last one
/// may leave without a wait. All but the first two builds are left out: a build takes as long as
/// hundreds of other steps.
pub fn generate_batch(seeds: impl IntoIterator<Item = u64>) -> Batch {
    let mut programs: Vec<Program> = seeds.into_iter().map(generate).collect();
    let mut random = Random::new(programs.first().map_or(0, |program| program.seed) ^ 0x5eed);
    let life = LIVES[random.below(LIVES.len() as u64) as usize];
    let end = ENDS[random.below(ENDS.len() as u64) as usize];
    if let (true, Some(last)) = (random.below(4) == 0, programs.last_mut()) {
        last.steps.push("t0 leave".to_owned());
    }
    let mut builds = 0;
    for program in &mut programs {
        program.steps.retain(|step| {
            builds += u32::from(step.contains(" build "));
            builds <= BUILDS || !step.contains(" build ")
        });
    }
    Batch { life, end, programs }
}
