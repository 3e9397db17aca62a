//! References of objects as the application counts them: made, retained, released. Refuses to judge
//! devices, which belong to the platform, and objects whose making was not recorded.
#![forbid(unsafe_code)]

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
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Queue => "command queue",
            Self::Program => "program",
            Self::Kernel => "kernel",
            Self::Memory => "memory object",
            Self::Sampler => "sampler",
        }
    }

    /// What a function makes, and which of its arguments keep on living with it.
    fn made_by(function: &str) -> Option<Self> {
        let what = function.strip_prefix("clCreate");
        Some(match (what, function) {
            (_, "clCloneKernel") => Self::Kernel,
            (_, "clLinkProgram") => Self::Program,
            (Some(what), _) if what.starts_with("Context") => Self::Context,
            (Some(what), _) if what.starts_with("CommandQueue") => Self::Queue,
            (Some(what), _) if what.starts_with("Program") => Self::Program,
            (Some("Kernel"), _) => Self::Kernel,
            (Some(what), _) if what.starts_with("Sampler") => Self::Sampler,
            (Some(what), _)
                if ["Buffer", "SubBuffer", "Image", "Pipe", "FromGL"]
                    .iter()
                    .any(|begin| what.starts_with(begin)) =>
            {
                Self::Memory
            }
            _ => return None,
        })
    }

    /// Whether what was made of it keeps it alive, and gives its handle to whoever asks: naming it
    /// is right as long as one of them lives.
    fn outlives_its_references(self) -> bool {
        matches!(self, Self::Context | Self::Program)
    }
}

struct Object {
    kind: Kind,
    references: i64,
    function: String,
    place: Option<String>,
    /// Bytes of a buffer, where the call that made it says them.
    bytes: Option<u64>,
    /// What it was made of.
    parents: Vec<u32>,
    /// Mappings that are left.
    mapped: i64,
    map_place: Option<String>,
    /// Made by a call that makes many.
    implied: bool,
    /// When the last reference was known to be given back.
    released: Option<HostNs>,
}

impl Object {
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
        if seen.function == "clCreateKernelsInProgram" {
            return;
        }
        if let (Some(kind), true) = (Kind::made_by(seen.function), seen.succeeded())
            && let Some(id) = seen.object("return")
        {
            let parents = seen.objects().into_iter().map(|(_, id)| id).collect();
            let object = Object {
                kind,
                references: 1,
                function: seen.function.to_owned(),
                place: seen.place.map(str::to_owned),
                bytes: seen.argument("size").filter(|_| kind == Kind::Memory),
                parents,
                mapped: 0,
                map_place: None,
                implied: false,
                released: None,
            };
            self.objects.insert(id, object);
        }
    }

    /// What a function does to the count of its object: +1, -1.
    fn change(&mut self, function: &str) -> Option<i64> {
        if let Some(known) = self.counted.get(function) {
            return *known;
        }
        let kinds = ["Context", "CommandQueue", "MemObject", "Program", "Kernel", "Sampler"];
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
        let Some(object) = self.objects.get_mut(&id) else {
            self.implied(seen, id, change * count);
            return;
        };
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
    pub fn told(&mut self, at: &At<'_>, id: u32, to: &mut Findings) {
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
        let text = at.says(&format!("{} of a {kind} that was released already", at.function));
        let mut key = Key::new(Rule::UseAfterRelease, text).at(at.function, at.place);
        key.other_place.clone_from(&object.place);
        to.add(key, None, Some(object.shown(id)));
    }

    /// A kernel is launched with an object as its argument; whether that was released.
    pub fn argument(&self, at: &At<'_>, kernel: &str, id: u32, to: &mut Findings) -> bool {
        let Some(object) = self.objects.get(&id).filter(|_| self.is_gone(id, at)) else {
            return false;
        };
        let kind = object.kind.name();
        let what = format!("kernel {kernel} is launched with a {kind} after its last release");
        let mut key = Key::new(Rule::UseAfterRelease, at.says(&what)).at(at.function, at.place);
        key.other_place.clone_from(&object.place);
        to.add(key, None, Some(object.shown(id)));
        true
    }

    /// A kernel that clCreateKernelsInProgram made is known by its definition alone.
    fn implied(&mut self, seen: &Seen<'_>, id: u32, change: i64) {
        if seen.succeeded() && seen.definitions.kernels.contains_key(&id) {
            let references = 1 + change;
            let object = Object {
                kind: Kind::Kernel,
                references,
                function: "clCreateKernelsInProgram".to_owned(),
                place: None,
                bytes: None,
                parents: Vec::new(),
                mapped: 0,
                map_place: None,
                implied: true,
                released: (references <= 0).then_some(seen.call.span.end),
            };
            self.objects.insert(id, object);
        }
    }

    /// Whether something that lives was made of an object, directly or not.
    fn has_living_children(&self, id: u32) -> bool {
        let mut of: BTreeSet<u32> = BTreeSet::from([id]);
        // Children have greater ids than what they were made of.
        for (child, object) in self.objects.range(id.saturating_add(1)..) {
            if object.parents.iter().any(|parent| of.contains(parent)) {
                if object.references > 0 {
                    return true;
                }
                of.insert(*child);
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
        // A kernel keeps its program, a queue its context, a sub-buffer its buffer; and whoever
        // asks for the parent gets a handle without a reference.
        if self.asked_events && matches!(object.kind, Kind::Queue | Kind::Context) {
            return false;
        }
        let kept = object.kind.outlives_its_references() || object.kind == Kind::Memory;
        !(kept && self.has_living_children(id))
    }

    /// A call names an object as an argument of this name.
    pub fn used(&mut self, at: &At<'_>, name: &str, id: u32, to: &mut Findings) {
        self.judged.push(id);
        let Some(object) = self.objects.get(&id).filter(|_| self.is_gone(id, at)) else { return };
        let kind = object.kind.name();
        let text = at.says(&format!("{} names a {kind} after its last release", at.function));
        let mut key = Key::new(Rule::UseAfterRelease, text).at(at.function, at.place);
        key.other_place.clone_from(&object.place);
        to.add(key, None, Some(format!("{name} #{id}")));
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
