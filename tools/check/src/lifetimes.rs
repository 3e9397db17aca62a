//! References of objects as the application counts them: made, retained, released. Refuses to judge
//! devices, which belong to the platform, and objects whose making was not recorded.

use crate::document::{Findings, Key};
use crate::rules::Rule;
use crate::seen::{At, Seen};
use clscope_analysis::time::HostNs;
use clscope_trace::codes as cl;
use clscope_trace::record::CommandKind;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Kinds of objects, by the function that releases them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Context,
    Queue,
    Program,
    Kernel,
    Memory,
    Sampler,
    CommandBuffer,
}

/// Who retains whom: an object of the first kind keeps those of the others alive that it was made of
/// or that were put into it, also after their own last release, and gives their handles to whoever
/// asks. OpenCL API 3.0: clReleaseContext ("all the objects attached to context"), clReleaseProgram
/// ("all kernel objects associated with program"), clReleaseMemObject ("all sub-buffer objects"; an
/// image of a buffer names it as CL_MEM_ASSOCIATED_MEMOBJECT), cl_khr_command_buffer (its queues,
/// and what its commands use). Not in it: a kernel's arguments, since clSetKernelArg takes no
/// reference, and inputs of a linked program. An event keeps its queue and context; of events it is
/// not known what holds them, see [`OF_EVENTS`].
const RETAINS: [(Kind, &[Kind]); 6] = [
    (Kind::Queue, &[Kind::Context]),
    (Kind::Program, &[Kind::Context]),
    (Kind::Kernel, &[Kind::Program]),
    (Kind::Memory, &[Kind::Context, Kind::Memory]),
    (Kind::Sampler, &[Kind::Context]),
    (Kind::CommandBuffer, &[Kind::Queue, Kind::Kernel, Kind::Memory]),
];

/// With what the names of functions begin that make an object of a kind.
const MAKERS: [(&str, Kind); 14] = [
    ("clCreateContext", Kind::Context),
    ("clCreateCommandQueue", Kind::Queue),
    ("clCreateProgram", Kind::Program),
    ("clLinkProgram", Kind::Program),
    ("clCreateKernel", Kind::Kernel),
    ("clCloneKernel", Kind::Kernel),
    ("clCreateBuffer", Kind::Memory),
    ("clCreateSubBuffer", Kind::Memory),
    ("clCreateImage", Kind::Memory),
    ("clCreatePipe", Kind::Memory),
    ("clCreateFromGL", Kind::Memory),
    ("clCreateSampler", Kind::Sampler),
    ("clCreateCommandBufferKHR", Kind::CommandBuffer),
    ("clRemapCommandBufferKHR", Kind::CommandBuffer),
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Queue => "command queue",
            Self::Program => "program",
            Self::Kernel => "kernel",
            Self::Memory => "memory object",
            Self::Sampler => "sampler",
            Self::CommandBuffer => "command buffer",
        }
    }

    /// Whether an object of this kind keeps one of another alive.
    fn retains(self, other: Self) -> bool {
        RETAINS.iter().any(|(kind, retained)| *kind == self && retained.contains(&other))
    }

    /// What a function makes, and which of its arguments keep on living with it.
    fn made_by(function: &str) -> Option<Self> {
        MAKERS.iter().find(|(begin, _)| function.starts_with(begin)).map(|(_, kind)| *kind)
    }
}

struct Object {
    kind: Kind,
    references: i64,
    function: String,
    place: Option<String>,
    /// Bytes of a buffer, where the call that made it says them.
    bytes: Option<u64>,
    /// Objects that it keeps alive.
    retains: Vec<u32>,
    /// Mappings that are left.
    mapped: i64,
    map_place: Option<String>,
    /// Made by a call that makes many.
    implied: bool,
    /// When the last reference was known to be given back.
    released: Option<HostNs>,
}

impl Object {
    fn new(kind: Kind, function: &str) -> Self {
        Self {
            kind,
            references: 1,
            function: function.to_owned(),
            place: None,
            bytes: None,
            retains: Vec::new(),
            mapped: 0,
            map_place: None,
            implied: false,
            released: None,
        }
    }

    /// What a finding calls it.
    fn shown(&self, id: u32) -> String {
        match self.bytes {
            Some(bytes) => format!("{} #{id} ({bytes} bytes)", self.kind.name()),
            None => format!("{} #{id}", self.kind.name()),
        }
    }
}

/// The objects of one process.
#[derive(Default)]
pub struct Lifetimes {
    objects: BTreeMap<u32, Object>,
    /// Objects that keep an object alive, living or not.
    holders: HashMap<u32, Vec<u32>>,
    /// Functions that release or retain, by name: what they do to the count.
    counted: HashMap<String, Option<i64>>,
    /// What the record of the call under way names.
    judged: Vec<u32>,
    /// The application has asked an event for its queue or context: it may name one that it gave
    /// back and that the event holds.
    asked_events: bool,
}

/// What clGetEventInfo answers with a handle.
const OF_EVENTS: [u64; 2] = [cl::CL_EVENT_COMMAND_QUEUE as u64, cl::CL_EVENT_CONTEXT as u64];

/// A finding: a call uses an object after its release, of which `text` says how.
fn add_use(at: &At<'_>, object: &Object, text: &str, shown: String, to: &mut Findings) {
    let key = Key::new(Rule::UseAfterRelease, at.says(text)).at(at.function, at.place);
    to.add(key.and(object.place.as_deref()), None, Some(shown));
}

impl Lifetimes {
    /// What is judged from here on is of another call.
    pub fn begins(&mut self) {
        self.judged.clear();
    }

    /// A call.
    pub fn call(&mut self, seen: &Seen<'_>, to: &mut Findings) {
        if let Some(change) = self.change(seen.function) {
            self.counted(seen, change, to);
            return;
        }
        if let Some(enqueued) = seen.enqueued() {
            let record = &enqueued.record;
            self.used(&seen.at(), "command_queue", record.queue, to);
            let object = if record.kind.is_kernel() { "kernel" } else { "memory object" };
            self.used(&seen.at(), object, record.object, to);
            self.used(&seen.at(), "memory object", record.object2, to);
            self.mapping(seen, record.kind, record.object);
            // A command buffer is enqueued on queues that it was made for, or on others like them.
            self.hold(record.object, record.queue);
            return;
        }
        if seen.function == "clGetEventInfo"
            && seen.argument("param_name").is_some_and(|name| OF_EVENTS.contains(&name))
        {
            self.asked_events = true;
        }
        for (name, id) in seen.objects() {
            self.used(&seen.at(), name, id, to);
        }
        if seen.function.starts_with("clCommand")
            && seen.succeeded()
            && let Some(buffer) = seen.object("command_buffer")
        {
            let used = seen.objects().into_iter();
            used.for_each(|(_, id)| self.hold(buffer, id));
        }
        if seen.function == "clCreateKernelsInProgram" {
            return;
        }
        if let (Some(kind), true) = (Kind::made_by(seen.function), seen.succeeded())
            && let Some(id) = seen.object("return")
        {
            let bytes = seen.argument("size").filter(|_| kind == Kind::Memory);
            let place = seen.place.map(str::to_owned);
            let object = Object { place, bytes, ..Object::new(kind, seen.function) };
            self.objects.insert(id, object);
            let named = seen.objects().into_iter();
            named.for_each(|(_, other)| self.hold(id, other));
        }
    }

    /// An object was made of another, or that was put into it.
    fn hold(&mut self, holder: u32, other: u32) {
        let kind = |id: &u32| self.objects.get(id).map(|object| object.kind);
        let (Some(own), Some(others)) = (kind(&holder), kind(&other)) else { return };
        // A clone has the program of the kernel that it was made of.
        let held = match (own, others) {
            (Kind::Kernel, Kind::Kernel) => {
                self.objects.get(&other).map_or_else(Vec::new, |kernel| kernel.retains.clone())
            }
            _ if own.retains(others) => vec![other],
            _ => return,
        };
        for id in held {
            let Some(object) = self.objects.get_mut(&holder) else { return };
            if !object.retains.contains(&id) {
                object.retains.push(id);
                self.holders.entry(id).or_default().push(holder);
            }
        }
    }

    /// What a function does to the count of its object: +1, -1.
    fn change(&mut self, function: &str) -> Option<i64> {
        if let Some(known) = self.counted.get(function) {
            return *known;
        }
        let kinds = [
            "Context",
            "CommandQueue",
            "MemObject",
            "Program",
            "Kernel",
            "Sampler",
            "CommandBufferKHR",
        ];
        let of = |begin: &str, by: i64| {
            function.strip_prefix(begin).filter(|kind| kinds.contains(kind)).map(|_| by)
        };
        let change = of("clRetain", 1).or_else(|| of("clRelease", -1));
        self.counted.insert(function.to_owned(), change);
        change
    }

    fn counted(&mut self, seen: &Seen<'_>, change: i64, to: &mut Findings) {
        let Some((_, id)) = seen.objects().into_iter().next() else { return };
        let count = i64::try_from(seen.count()).unwrap_or(i64::MAX);
        if change > 0 {
            self.used(&seen.at(), "object", id, to);
        }
        let Some(object) = self.objects.get_mut(&id) else {
            self.implied(seen, id, change * count);
            return;
        };
        // What was told ahead of the call is judged here.
        self.judged.push(id);
        let before = object.references;
        // A runtime that knows its handles refuses the call.
        if seen.succeeded() {
            object.references += change * count;
            if before > 0 && object.references <= 0 {
                object.released = Some(seen.call.span.end);
            }
        }
        let is_too_often = before <= 0 || object.references < 0;
        if change < 0 && is_too_often {
            self.released_again(&seen.at(), id, to);
        }
        let Some(object) = self.objects.get(&id) else { return };
        if before > 0 && object.references <= 0 && object.mapped > 0 {
            self.still_mapped(id, to);
        }
    }

    /// What was told ahead of the call whose record was seen last: it names an object that was
    /// released. The record has another name for it where the runtime took the handle: it was seen
    /// as a new object then.
    pub fn check_named(&mut self, at: &At<'_>, id: u32, to: &mut Findings) {
        if !self.judged.contains(&id) {
            self.named(at, id, to);
        }
    }

    /// A call names an object that was released.
    pub fn named(&mut self, at: &At<'_>, id: u32, to: &mut Findings) {
        match self.change(at.function) {
            Some(-1) => self.released_again(at, id, to),
            _ => {
                let name = self.objects.get(&id).map_or("object", |object| object.kind.name());
                self.used(at, name, id, to);
            }
        }
    }

    fn released_again(&mut self, at: &At<'_>, id: u32, to: &mut Findings) {
        self.judged.push(id);
        let Some(object) = self.objects.get(&id) else { return };
        let kind = object.kind.name();
        let text = format!("{} of a {kind} that was released already", at.function);
        add_use(at, object, &text, object.shown(id), to);
    }

    /// A kernel is launched with an object as its argument; whether that was released.
    pub fn argument(&self, at: &At<'_>, kernel: &str, id: u32, to: &mut Findings) -> bool {
        let Some(object) = self.objects.get(&id).filter(|_| self.is_gone(id, at)) else {
            return false;
        };
        let kind = object.kind.name();
        let text = format!("kernel {kernel} is launched with a {kind} after its last release");
        add_use(at, object, &text, object.shown(id), to);
        true
    }

    /// A kernel that clCreateKernelsInProgram made is known by its definition alone.
    fn implied(&mut self, seen: &Seen<'_>, id: u32, change: i64) {
        if seen.succeeded() && seen.definitions.kernels.contains_key(&id) {
            let references = 1 + change;
            let object = Object {
                references,
                implied: true,
                released: (references <= 0).then_some(seen.call.span.end),
                ..Object::new(Kind::Kernel, "clCreateKernelsInProgram")
            };
            self.objects.insert(id, object);
        }
    }

    /// Whether something that lives keeps an object alive, directly or not.
    fn is_retained(&self, id: u32) -> bool {
        let mut seen = BTreeSet::from([id]);
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            for holder in self.holders.get(&id).into_iter().flatten() {
                if self.objects.get(holder).is_some_and(|object| object.references > 0) {
                    return true;
                }
                if seen.insert(*holder) {
                    open.push(*holder);
                }
            }
        }
        false
    }

    /// Whether an object had no reference left when a call began, and nothing kept it alive.
    fn is_gone(&self, id: u32, at: &At<'_>) -> bool {
        let Some(object) = self.objects.get(&id) else { return false };
        if object.references > 0 {
            return false;
        }
        // A call of another thread may have begun before.
        if object.released.is_some_and(|released| at.begin < released) {
            return false;
        }
        if self.asked_events && matches!(object.kind, Kind::Queue | Kind::Context) {
            return false;
        }
        !self.is_retained(id)
    }

    /// A call names an object as an argument of this name.
    pub fn used(&mut self, at: &At<'_>, name: &str, id: u32, to: &mut Findings) {
        self.judged.push(id);
        let Some(object) = self.objects.get(&id).filter(|_| self.is_gone(id, at)) else { return };
        let kind = object.kind.name();
        let text = format!("{} names a {kind} after its last release", at.function);
        add_use(at, object, &text, format!("{name} #{id}"), to);
    }

    fn mapping(&mut self, seen: &Seen<'_>, kind: CommandKind, id: u32) {
        let Some(object) = self.objects.get_mut(&id) else { return };
        match kind {
            CommandKind::MapBuffer | CommandKind::MapImage => {
                object.mapped += 1;
                object.map_place = seen.place.map(str::to_owned);
            }
            CommandKind::UnmapMemObject => object.mapped -= 1,
            _ => {}
        }
    }

    fn still_mapped(&self, id: u32, to: &mut Findings) {
        let Some(object) = self.objects.get(&id) else { return };
        let text = format!("{} is still mapped at its last release or at the end", object.function);
        let function = "clEnqueueMapBuffer or clEnqueueMapImage";
        let key = Key::new(Rule::StillMapped, text).at(function, object.map_place.as_deref());
        let count = u64::try_from(object.mapped).unwrap_or(0);
        to.add_many(key, count, None, Some(object.shown(id)));
    }

    /// The end of the process. `ended`: in order, so that nothing was left to be released.
    pub fn finish(&self, ended: bool, to: &mut Findings) {
        if !ended {
            return;
        }
        for (id, object) in &self.objects {
            if object.references <= 0 {
                continue;
            }
            if object.mapped > 0 {
                self.still_mapped(*id, to);
            }
            if object.implied {
                continue;
            }
            let text =
                format!("{} made a {} that is not released", object.function, object.kind.name());
            let key =
                Key::new(Rule::NeverReleased, text).at(&object.function, object.place.as_deref());
            to.add(key, None, Some(object.shown(*id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 7] = [
        Kind::Context,
        Kind::Queue,
        Kind::Program,
        Kind::Kernel,
        Kind::Memory,
        Kind::Sampler,
        Kind::CommandBuffer,
    ];

    impl Lifetimes {
        fn make(&mut self, id: u32, kind: Kind) {
            let object = Object::new(kind, "clCreate");
            self.objects.insert(id, object);
        }

        fn release(&mut self, id: u32) {
            let object = self.objects.get_mut(&id).unwrap();
            object.references -= 1;
            object.released = Some(HostNs(1));
        }

        /// Whether a call that names it is a use after its release.
        fn faults(&self, id: u32) -> bool {
            let at = At { function: "clGetInfo", place: None, begin: HostNs(2), died: false };
            self.is_gone(id, &at)
        }
    }

    /// For each pair of kinds: what is retained lives as long as its holder, and no longer; what is
    /// not retained ends with its own last release. The holder may be the older of both.
    #[test]
    fn an_object_lives_as_long_as_what_retains_it() {
        for (holder, kept) in KINDS.iter().flat_map(|a| KINDS.map(|b| (*a, b))) {
            // A clone retains what the kernel it was made of retains, not that kernel.
            for (own, other) in [(1, 2), (2, 1)] {
                let mut all = Lifetimes::default();
                all.make(own, holder);
                all.make(other, kept);
                all.hold(own, other);
                assert!(!all.faults(other), "{holder:?} {kept:?}");
                all.release(other);
                assert_eq!(all.faults(other), !holder.retains(kept), "{holder:?} of {kept:?}");
                all.release(own);
                assert!(all.faults(other) && all.faults(own), "{holder:?} {kept:?}: both are gone");
            }
        }
    }

    /// Through any chain of the table.
    #[test]
    fn retaining_goes_through_what_was_released() {
        let chains: [&[Kind]; 4] = [
            &[Kind::Context, Kind::Program, Kind::Kernel, Kind::CommandBuffer],
            &[Kind::Context, Kind::Queue, Kind::CommandBuffer],
            &[Kind::Context, Kind::Memory, Kind::Memory, Kind::CommandBuffer],
            &[Kind::Context, Kind::Sampler],
        ];
        for chain in chains {
            let mut all = Lifetimes::default();
            let ids: Vec<u32> = (1..=chain.len() as u32).collect();
            for (id, kind) in ids.iter().zip(chain) {
                all.make(*id, *kind);
                all.hold(*id, id - 1);
            }
            let (last, others) = ids.split_last().unwrap();
            others.iter().for_each(|id| all.release(*id));
            assert!(others.iter().all(|id| !all.faults(*id)), "{chain:?}");
            all.release(*last);
            assert!(ids.iter().all(|id| all.faults(*id)), "{chain:?}");
        }
    }

    #[test]
    fn a_clone_keeps_the_program_of_its_kernel() {
        let mut all = Lifetimes::default();
        all.make(1, Kind::Program);
        all.make(2, Kind::Kernel);
        all.hold(2, 1);
        all.make(3, Kind::Kernel);
        all.hold(3, 2);
        all.release(1);
        all.release(2);
        assert!(!all.faults(1) && all.faults(2));
    }
}
