//! Data races between commands: two of them use one memory object, one of them writes it, and
//! nothing that the specification knows orders them ([`order`]), also where they happened to run
//! one after the other. Sub-buffers are parts of their buffers. Coarse-grained shared virtual
//! memory and the host's side of transfers are looked at by their addresses. Where it is not known
//! whether a kernel writes an argument, there is no finding: [`Races::notes`] tells of it.

mod command_ranges;
mod conditional;
mod flow;
mod mapped;
pub mod order;
mod parameters;
mod part;
mod shared;
pub mod source;
mod transfer_memory;
mod uses;

use crate::document::{Findings, Key};
use crate::rules::Rule;
use crate::seen::{At, Seen};
use clscope_trace::codes as cl;
use clscope_trace::record::{CommandKind as K, Detail, detail, flag};
use command_ranges::CommandRanges;
use mapped::Mappings;
use order::{Effect, Order, Place};
use parameters::Parameters;
use part::Range;
use shared::{Addresses, Object};
use source::{Access, Why};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use transfer_memory::TransferMemory;

/// Mappings that write.
const MAP_WRITES: u32 = (cl::CL_MAP_WRITE | cl::CL_MAP_WRITE_INVALIDATE_REGION) as u32;
/// Uses of one object that are remembered: the newest.
const REMEMBERED: usize = 256;

/// A memory object.
struct Memory {
    flags: u64,
    /// Bytes of a buffer, where the call that made it says them.
    bytes: Option<u64>,
    /// Of a sub-buffer: its buffer, and where in it.
    part: Option<(u32, Range)>,
    /// Where the host's memory lies that it uses (CL_MEM_USE_HOST_PTR).
    host: Option<Range>,
}

/// A use of an object by a command.
struct Use {
    at: Place,
    like: Like,
    range: Range,
    /// The buffer whose host memory it is, as far as it is used by way of that.
    via: Option<u32>,
    how: How,
    name: String,
    function: String,
    place: Option<String>,
    in_order: bool,
}

impl Use {
    /// Whether two uses have bytes in common, as far as is known. A kernel that has an object uses
    /// all of it; two regions may lie beside each other.
    fn meets(&self, other: &Self) -> bool {
        let all = |of: &Self| of.like.0.is_kernel() && of.range == Range::WHOLE;
        all(self) || all(other) || self.range.meets(other.range)
    }
}

/// A part of something that a command uses.
#[derive(Debug, Clone, Copy)]
struct Part {
    object: Object,
    range: Range,
    how: How,
    via: Option<u32>,
}

/// What a command does with what it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Reads,
    Writes,
    /// A kernel is given it as this argument, and it is not known whether it writes it.
    Unknown(u32, Why),
}

impl How {
    fn from_writes(writes: bool) -> Self {
        if writes { Self::Writes } else { Self::Reads }
    }

    fn writes(self) -> bool {
        self == Self::Writes
    }

    /// Whether memory is used at all. What a kernel of a binary is given it reads or writes; where
    /// a source hides its use there may be none.
    fn is_sure(self) -> bool {
        !matches!(self, Self::Unknown(_, why) if why != Why::Unseen)
    }

    fn verb(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Unknown(..) => "uses",
        }
    }
}

/// A command that uses shared virtual memory.
struct User {
    at: Place,
    name: String,
    place: Option<String>,
}

/// Uses that are alike but for their commands: kind, kernel and place.
type Like = (K, u32, u32);

/// What kernels do with their arguments, by kernel id; `None` where nothing tells.
pub type Kernels = HashMap<u32, Option<Vec<Access>>>;

/// The commands of one process and what they use.
#[derive(Default)]
pub struct Races {
    order: Order,
    kernels: Kernels,
    memory: HashMap<u32, Memory>,
    /// Memory objects among the arguments of kernels.
    arguments: HashMap<u32, BTreeMap<u32, u32>>,
    uses: HashMap<Object, Vec<Use>>,
    /// Memory by addresses.
    addresses: Addresses,
    /// What runtimes say of the parameters of kernels without a source.
    parameters: Parameters,
    /// The newest users of allocations of shared virtual memory, alike ones of a queue once.
    users: HashMap<u64, HashMap<(u32, Like), User>>,
    /// What threads said of the command that they enqueue next.
    told: HashMap<u32, CommandRanges>,
    parts: HashMap<u32, Detail>,
    mappings: Mappings,
    /// What threads are freeing.
    freed: HashMap<u32, u64>,
    /// Memory of the host that transfers use.
    transfer_memory: TransferMemory,
    /// Programs that were not made of source.
    unseen: BTreeSet<u32>,
    /// Arguments that decide whether there is a race, where that is not known, and why.
    doubts: BTreeSet<(String, Why)>,
    /// Commands that were not judged for them.
    unjudged: u64,
    /// References of events beyond the first.
    retained: HashMap<u32, u64>,
}

impl Races {
    /// Of a process whose kernels do this with their arguments.
    pub fn new(kernels: Kernels) -> Self {
        Self { kernels, ..Self::default() }
    }

    /// What the recorder saw inside a call of a thread.
    pub fn detail(&mut self, thread: u32, of: Detail) {
        let [first, second, _] = of.values;
        match of.what {
            detail::ARGUMENT if of.values[2] != 0 => {}
            detail::ARGUMENT => {
                let (kernel, index) = (first as u32, (first >> 32) as u32);
                let object = u32::try_from(second).unwrap_or(0);
                self.arguments.entry(kernel).or_default().insert(index, object);
                self.addresses.other(kernel, index);
            }
            detail::SVM_ARGUMENT => {
                if let Some(of) = self.arguments.get_mut(&(first as u32)) {
                    of.remove(&((first >> 32) as u32));
                }
                self.addresses.argument(&of);
            }
            detail::SVM_MADE => self.addresses.made(&of),
            detail::SVM_FREED => drop(self.freed.insert(thread, first)),
            detail::PARAMETER => self.parameters.read_detail(&of),
            detail::WAITED => self.order.complete(first),
            detail::UNMAPPED => self.transfer_memory.unmapped(thread, Range::new(first, second)),
            detail::PART => drop(self.parts.insert(thread, of)),
            _ => drop(self.told.entry(thread).or_default().detail(&of)),
        }
    }

    /// A call.
    pub fn call(&mut self, seen: &Seen<'_>, to: &mut Findings) {
        let told = self.told.remove(&seen.call.thread.0).unwrap_or_default();
        let part = self.parts.remove(&seen.call.thread.0);
        let freed = self.freed.remove(&seen.call.thread.0);
        self.transfer_memory.judge(seen.call.thread.0, &seen.at(), &self.order, to);
        if !seen.succeeded() {
            return;
        }
        if seen.enqueued().is_some() {
            self.enqueued(seen, &told, to);
            return;
        }
        match seen.function {
            "clSVMFree" => {
                if let Some(address) = freed {
                    self.svm_freed(seen, address, to);
                }
            }
            "clFinish" => {
                if let Some(queue) = seen.object("command_queue") {
                    self.order.finished(queue);
                }
            }
            "clCloneKernel" => {
                if let (Some(from), Some(to)) =
                    (seen.object("source_kernel"), seen.object("return"))
                {
                    let same = self.arguments.get(&from).cloned().unwrap_or_default();
                    self.arguments.insert(to, same);
                    let same = self.kernels.get(&from).cloned().flatten();
                    self.kernels.insert(to, same);
                    self.addresses.cloned(from, to);
                    self.parameters.cloned(from, to);
                }
            }
            // The stamps of a command can be queried when it is complete; and who is called back at
            // its end may tell any thread.
            "clGetEventProfilingInfo" | "clSetEventCallback" => {
                if let Some(event) = seen.argument("event") {
                    self.order.complete(event);
                }
            }
            "clRetainEvent" => {
                if let Some(event) = seen.argument("event") {
                    *self.retained.entry(event as u32).or_default() += seen.count();
                }
            }
            "clReleaseEvent" => {
                if let Some(event) = seen.argument("event") {
                    self.released(event as u32);
                }
            }
            "clSVMAlloc" => self.addresses.placed(seen),
            function if function.starts_with("clCreate") => self.made(seen, part, &told),
            _ => {}
        }
    }

    /// Memory was freed: no command that uses it may still run.
    fn svm_freed(&mut self, seen: &Seen<'_>, address: u64, to: &mut Findings) {
        let Some(svm) = self.addresses.freed(address) else { return };
        let users = self.users.remove(&svm.number).unwrap_or_default();
        let mut running: Vec<&User> =
            users.values().filter(|user| !self.order.known(user.at)).collect();
        running.sort_by_key(|user| user.at);
        for user in running {
            let text = format!("{} uses it, and nothing has waited for that", user.name);
            let key = Key::new(Rule::FreedInUse, text).at(seen.function, seen.place);
            to.add(key.and(user.place.as_deref()), None, Some(format!("{address:#x}")));
        }
        self.uses.remove(&Object::Svm(svm.number));
    }

    fn released(&mut self, event: u32) {
        match self.retained.get_mut(&event) {
            Some(more) if *more > 1 => *more -= 1,
            Some(_) => drop(self.retained.remove(&event)),
            None => self.order.forget(event),
        }
    }

    fn made(&mut self, seen: &Seen<'_>, part: Option<Detail>, told: &CommandRanges) {
        if let Some(kind) = seen.function.strip_prefix("clCreateProgramWith")
            && kind != "Source"
            && let Some(id) = seen.object("return")
        {
            self.unseen.insert(id);
        }
        let (Some(id), Some(flags)) = (seen.object("return"), seen.argument("flags")) else {
            return;
        };
        let buffer = seen.object("buffer");
        let part = buffer.map(|of| {
            let range = part.map_or(Range::WHOLE, |p| Range::new(p.values[0], p.values[1]));
            (of, range)
        });
        // A sub-buffer without flags of its own has those of its buffer.
        let access = cl::CL_MEM_READ_ONLY | cl::CL_MEM_WRITE_ONLY | cl::CL_MEM_READ_WRITE;
        let inherited = buffer.and_then(|of| self.memory.get(&of)).map_or(0, |of| of.flags);
        let flags = if flags & access == 0 { flags | inherited } else { flags };
        let bytes = seen.argument("size");
        let host = told
            .touched
            .first()
            .map(|of| of.range)
            .filter(|_| flags & cl::CL_MEM_USE_HOST_PTR != 0);
        self.memory.insert(id, Memory { flags, bytes, part, host });
    }

    /// The buffer that an object is, or is a part of.
    fn whole(&self, id: u32, range: Range) -> (u32, Range) {
        match self.memory.get(&id).and_then(|m| m.part) {
            Some((of, part)) => (of, range.inside(part)),
            None => (id, range),
        }
    }

    fn enqueued(&mut self, seen: &Seen<'_>, told: &CommandRanges, to: &mut Findings) {
        let Some(enqueued) = seen.enqueued() else { return };
        let record = &enqueued.record;
        let queue = seen.definitions.queues.get(&record.queue);
        let in_order = queue.is_none_or(|q| !q.is_out_of_order());
        let waits: Vec<Option<u64>> = enqueued.waits().map(|w| w.map(|id| id.0)).collect();
        let effect = match record.kind {
            K::Barrier | K::WaitForEvents => Effect::Barrier,
            K::Marker => Effect::Marker,
            _ => Effect::Plain,
        };
        let (at, before) = self.order.enqueued(record.id, record.queue, in_order, effect, &waits);
        let (own, ended) = self.accesses(seen, told, at);
        if matches!(record.kind, K::ReadBuffer | K::WriteBuffer)
            && let Some(touched) = told.touched.first()
        {
            let place = seen.place.map(str::to_owned);
            let blocking = record.flags & flag::BLOCKING != 0;
            self.transfer_memory.uses(
                touched.range,
                User { at, name: name_of(seen), place },
                blocking,
            );
        }
        if !before.is_delayed() {
            let kernel = if record.kind.is_kernel() { record.object } else { 0 };
            let like = (record.kind, kernel, record.site);
            let own: Vec<Part> = own
                .into_iter()
                .map(|(id, range, how)| {
                    let (id, range) = self.whole(id, range);
                    Part { object: Object::Memory(id), range, how, via: None }
                })
                .collect();
            if !matches!(
                record.kind,
                K::MapBuffer | K::MapImage | K::UnmapMemObject | K::MigrateMemObjects
            ) {
                own.iter().for_each(|part| self.while_mapped(seen, part, &before, to));
            }
            let host: Vec<Part> = own.iter().filter_map(|part| self.on_host(part)).collect();
            let by_address = self.by_address(seen, (at, like), &told.touched);
            let all = own.into_iter().chain(host).chain(by_address).chain(ended);
            let mut is_doubted = false;
            for Part { object, range, how, via } in all {
                // Of alike uses by an in-order queue the last one stands for all: what comes after
                // it comes after those before it.
                let uses = self.uses.entry(object).or_default();
                let same = |u: &&mut Use| {
                    (u.at.0, u.like, u.range, u.how, u.via) == (at.0, like, range, how, via)
                };
                if let (true, Some(same)) = (in_order, uses.iter_mut().find(same)) {
                    same.at = at;
                    if uses.len() == 1 {
                        continue;
                    }
                }
                let name = name_of(seen);
                let place = seen.place.map(str::to_owned);
                let function = seen.function.to_owned();
                let own = Use { at, like, range, via, how, name, function, place, in_order };
                is_doubted |= self.against_earlier(object, own, &before, to);
            }
            self.unjudged += u64::from(is_doubted);
        }
        if record.flags & flag::BLOCKING != 0 {
            self.order.complete(record.id);
        }
        if !enqueued.app_event() {
            // Nothing can name it.
            self.order.forget(record.id as u32);
        }
    }

    /// A command uses what is mapped: for writing, or it writes itself.
    fn while_mapped(&self, seen: &Seen<'_>, part: &Part, before: &order::Clock, to: &mut Findings) {
        let Object::Memory(id) = part.object else { return };
        let is_kernel = seen.launched().is_some();
        for mapping in self.mappings.find(id) {
            let meets = match is_kernel {
                true => part.range.overlaps(mapping.range),
                false => part.range.meets(mapping.range),
            };
            let was_before = before.holds(mapping.at) && !before.is_full();
            let conflicts = part.how.is_sure() && (mapping.writes || part.how.writes());
            if !meets || !was_before || !conflicts {
                continue;
            }
            let how = if mapping.writes { "for writing" } else { "for reading" };
            let verb = part.how.verb();
            let text = format!("{} {verb} what is mapped {how}", name_of(seen));
            let key = Key::new(Rule::UsedWhileMapped, text).at(seen.function, seen.place);
            to.add(key.and(mapping.place.as_deref()), None, Some(shown(&self.memory, id)));
        }
    }

    /// Looks for races of a use with earlier ones, and keeps it; whether there is one that nothing
    /// orders with it and of which it is not known whether it is a race.
    fn against_earlier(
        &mut self,
        object: Object,
        own: Use,
        before: &order::Clock,
        to: &mut Findings,
    ) -> bool {
        let mut is_doubted = false;
        let order = &self.order;
        let uses = self.uses.entry(object).or_default();
        // What the host knows to be complete cannot race with anything any more.
        uses.retain(|earlier| !order.known(earlier.at));
        for earlier in uses.iter() {
            let same_queue = earlier.at.0 == own.at.0 && own.in_order;
            if earlier.at != own.at
                && !same_queue
                && (own.via.is_none() || own.via != earlier.via)
                && earlier.meets(&own)
                && !before.holds(earlier.at)
            {
                let writes = earlier.how.writes() || own.how.writes();
                if !(writes && earlier.how.is_sure() && own.how.is_sure()) {
                    for of in [earlier, &own] {
                        if let How::Unknown(index, why) = of.how {
                            is_doubted = true;
                            let kernel = of.name.strip_prefix("kernel ").unwrap_or(&of.name);
                            self.doubts.insert((format!("argument {index} of {kernel}"), why));
                        }
                    }
                    continue;
                }
                let verb = |of: &Use| match (object, of.like.0) {
                    (Object::Host, K::UnmapMemObject) => "takes away",
                    _ => of.how.verb(),
                };
                let where_from = match earlier.at.0 == own.at.0 {
                    true => "on one out-of-order queue",
                    false => "on two queues",
                };
                let text = format!(
                    "{} {} what {} {}, {where_from}{}",
                    earlier.name,
                    verb(earlier),
                    own.name,
                    verb(&own),
                    object.kind()
                );
                let key = Key::new(Rule::DataRace, text).at(&own.function, own.place.as_deref());
                let key = key.and(earlier.place.as_deref().or(Some(&earlier.function)));
                let shown = match object {
                    Object::Memory(id) => shown(&self.memory, id),
                    _ => format!("{:#x}", own.range.begin.max(earlier.range.begin)),
                };
                to.add(key, None, Some(shown));
            }
        }
        if uses.iter().any(|u| {
            (u.at, u.like, u.range, u.how, u.via) == (own.at, own.like, own.range, own.how, own.via)
        }) {
            return is_doubted;
        }
        if uses.len() == REMEMBERED {
            uses.remove(0);
        }
        uses.push(own);
        is_doubted
    }

    /// The objects among a kernel's arguments, each once.
    pub fn arguments(&self, kernel: u32) -> BTreeSet<u32> {
        let all = self.arguments.get(&kernel).into_iter().flat_map(BTreeMap::values);
        all.copied().filter(|id| *id != 0).collect()
    }

    /// The process died in a call of a thread.
    pub fn died(&mut self, thread: u32, at: &At<'_>, to: &mut Findings) {
        self.transfer_memory.judge(thread, at, &self.order, to);
    }

    /// What may be why the process ended, where it did not in order.
    pub fn why_ended(&self) -> Option<String> {
        let users = self.transfer_memory.users(&self.order);
        (!users.is_empty()).then(|| {
            format!(
                "when it ended, transfers might still use memory of the host: {}; whether that was freed is not seen",
                users.join(", ")
            )
        })
    }

    /// What is not seen of the host's memory that transfers used.
    pub fn unseen(&self) -> Option<String> {
        self.transfer_memory.unseen()
    }

    /// The end of the process, in order.
    pub fn finish(&self, to: &mut Findings) {
        self.addresses.finish(to);
    }

    /// What could not be judged: how many commands, why, and what helps.
    pub fn notes(&self) -> Option<String> {
        if self.doubts.is_empty() {
            return None;
        }
        let shown = self.doubts.iter().take(8).map(|(of, why)| format!("{of} ({})", why.text()));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = self.doubts.len().saturating_sub(8);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let are = if self.unjudged == 1 { "command is" } else { "commands are" };
        let has = |unseen: bool| self.doubts.iter().any(|(_, why)| (*why == Why::Unseen) == unseen);
        let mut advice = Vec::new();
        if has(true) {
            advice.push(
                "run it without its cache of programs, so that it builds from source (OpenCV: OPENCV_OPENCL_CACHE_ENABLE=0, PyOpenCL: PYOPENCL_NO_CACHE=1), or build the binaries with -cl-kernel-arg-info",
            );
        }
        if has(false) {
            advice.push(
                "declare what is only read as const, and what is only written in buffers of CL_MEM_WRITE_ONLY",
            );
        }
        Some(format!(
            "{} {are} ordered by nothing with others that have the same memory, and whether that is a data race is not known, since it is not known whether kernels write {shown}{more}; {}",
            self.unjudged,
            advice.join("; ")
        ))
    }
}

/// What a finding calls a memory object.
fn shown(memory: &HashMap<u32, Memory>, id: u32) -> String {
    match memory.get(&id).and_then(|m| m.bytes) {
        Some(bytes) => format!("memory object #{id} ({bytes} bytes)"),
        None => format!("memory object #{id}"),
    }
}

/// What a finding calls the command of a call.
fn name_of(seen: &Seen<'_>) -> String {
    let Some(record) = seen.enqueued().map(|enqueued| &enqueued.record) else {
        return seen.function.to_owned();
    };
    match record.kind.is_kernel() {
        true => format!("kernel {}", seen.definitions.kernel_name(record.object)),
        false => record.kind.name().to_owned(),
    }
}
