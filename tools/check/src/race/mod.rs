//! Data races between commands: two of them use one memory object, one of them writes it, and
//! nothing that the specification knows orders them ([`order`]), also where they happened to run one
//! after the other. Sub-buffers are parts of their buffers. Coarse-grained shared virtual memory and
//! the host's side of transfers are looked at by their addresses. Where it is not known whether a
//! kernel writes an argument, there is no finding: [`Races::notes`] tells of it.
#![forbid(unsafe_code)]

mod conditional;
pub mod order;
mod parameters;
mod shared;
pub mod source;

use crate::document::{Findings, Key};
use crate::rules::Rule;
use crate::seen::Seen;
use clscope_trace::record::{CommandKind as K, Detail, detail, flag};
use order::{Effect, Order, Place};
use parameters::Parameters;
use shared::{Addresses, Object};
use source::Access;
use std::collections::{BTreeMap, BTreeSet, HashMap};

const MEM_WRITE_ONLY: u64 = 1 << 1;
const MEM_READ_ONLY: u64 = 1 << 2;
/// CL_MAP_WRITE and CL_MAP_WRITE_INVALIDATE_REGION.
const MAP_WRITES: u32 = (1 << 1) | (1 << 2);
/// Uses of one object that are remembered: the newest.
const REMEMBERED: usize = 256;

/// Bytes of a memory object, from the first to one past the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    begin: u64,
    end: u64,
    /// Not all of them: a rectangle, or a region of an image. Which ones is not known.
    some: bool,
}

impl Range {
    const WHOLE: Self = Self { begin: 0, end: u64::MAX, some: false };
    const SOME: Self = Self { some: true, ..Self::WHOLE };

    fn new(begin: u64, size: u64) -> Self {
        Self { begin, end: begin.saturating_add(size), some: false }
    }

    fn overlaps(self, other: Self) -> bool {
        self.begin < other.end && other.begin < self.end
    }

    fn inside(self, part: Self) -> Self {
        let end = part.begin.saturating_add(self.end).min(part.end);
        Self { begin: part.begin.saturating_add(self.begin).min(end), end, some: self.some }
    }
}

/// A memory object.
struct Memory {
    flags: u64,
    /// Bytes of a buffer, where the call that made it says them.
    bytes: Option<u64>,
    /// Of a sub-buffer: its buffer, and where in it.
    part: Option<(u32, Range)>,
    /// Mappings through which the host may write.
    writable: u32,
}

/// A use of an object by a command.
struct Use {
    at: Place,
    like: Like,
    range: Range,
    writes: bool,
    name: String,
    function: String,
    place: Option<String>,
    in_order: bool,
}

impl Use {
    /// Whether two uses have bytes in common, as far as is known. A kernel that has an object uses all
    /// of it; two regions may lie beside each other.
    fn meets(&self, other: &Self) -> bool {
        let all = |of: &Self| of.like.0.is_kernel() && of.range == Range::WHOLE;
        match self.range.some || other.range.some {
            true => all(self) || all(other),
            false => self.range.overlaps(other.range),
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
    ranges: HashMap<u32, Detail>,
    parts: HashMap<u32, Detail>,
    touched: HashMap<u32, Vec<Detail>>,
    /// What threads are freeing.
    freed: HashMap<u32, u64>,
    unknown: BTreeSet<String>,
    /// References of events beyond the first.
    retained: HashMap<u32, u64>,
}

impl Races {
    /// Of a process whose kernels do this with their arguments.
    pub fn new(kernels: Kernels) -> Self {
        Self {
            order: Order::default(),
            kernels,
            memory: HashMap::new(),
            arguments: HashMap::new(),
            uses: HashMap::new(),
            addresses: Addresses::default(),
            parameters: Parameters::default(),
            users: HashMap::new(),
            ranges: HashMap::new(),
            parts: HashMap::new(),
            touched: HashMap::new(),
            freed: HashMap::new(),
            unknown: BTreeSet::new(),
            retained: HashMap::new(),
        }
    }

    /// What the recorder saw inside a call of a thread.
    pub fn detail(&mut self, thread: u32, of: Detail) {
        let [first, second, _] = of.values;
        match of.what {
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
            detail::MEMORY => self.touched.entry(thread).or_default().push(of),
            detail::PARAMETER => self.parameters.told(&of),
            detail::WAITED => self.order.complete(first),
            detail::RANGE => drop(self.ranges.insert(thread, of)),
            detail::PART => drop(self.parts.insert(thread, of)),
            _ => {}
        }
    }

    /// A call.
    pub fn call(&mut self, seen: &Seen<'_>, to: &mut Findings) {
        let range = self.ranges.remove(&seen.call.thread.0);
        let part = self.parts.remove(&seen.call.thread.0);
        let touched = self.touched.remove(&seen.call.thread.0).unwrap_or_default();
        let freed = self.freed.remove(&seen.call.thread.0);
        if !seen.succeeded() {
            return;
        }
        if seen.enqueued().is_some() {
            self.enqueued(seen, range, &touched, to);
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
            function if function.starts_with("clCreate") => self.made(seen, part),
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
            let mut key = Key::new(Rule::FreedInUse, text).at(seen.function, seen.place);
            key.other_place.clone_from(&user.place);
            to.add(key, None, Some(format!("{address:#x}")));
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

    fn made(&mut self, seen: &Seen<'_>, part: Option<Detail>) {
        let (Some(id), Some(flags)) = (seen.object("return"), seen.argument("flags")) else {
            return;
        };
        let buffer = seen.object("buffer");
        let part = buffer.map(|of| {
            let range = part.map_or(Range::WHOLE, |p| Range::new(p.values[0], p.values[1]));
            (of, range)
        });
        // A sub-buffer without flags of its own has those of its buffer.
        let access = MEM_READ_ONLY | MEM_WRITE_ONLY | 1;
        let inherited = buffer.and_then(|of| self.memory.get(&of)).map_or(0, |of| of.flags);
        let flags = if flags & access == 0 { flags | inherited } else { flags };
        let bytes = seen.argument("size");
        self.memory.insert(id, Memory { flags, bytes, part, writable: 0 });
    }

    /// The buffer that an object is, or is a part of.
    fn whole(&self, id: u32, range: Range) -> (u32, Range) {
        match self.memory.get(&id).and_then(|m| m.part) {
            Some((of, part)) => (of, range.inside(part)),
            None => (id, range),
        }
    }

    fn enqueued(
        &mut self,
        seen: &Seen<'_>,
        range: Option<Detail>,
        touched: &[Detail],
        to: &mut Findings,
    ) {
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
        if !before.is_delayed() {
            let kernel = if record.kind.is_kernel() { record.object } else { 0 };
            let like = (record.kind, kernel, record.site);
            let own = self.accesses(seen, range);
            let own: Vec<_> = own
                .into_iter()
                .map(|(id, range, writes)| {
                    let (id, range) = self.whole(id, range);
                    (Object::Memory(id), range, writes)
                })
                .collect();
            let by_address = self.by_address(seen, (at, like), touched);
            for (object, range, writes) in own.into_iter().chain(by_address) {
                // Of alike uses by an in-order queue the last one stands for all: what comes after
                // it comes after those before it.
                let uses = self.uses.entry(object).or_default();
                let same = |u: &&mut Use| {
                    (u.at.0, u.like, u.range, u.writes) == (at.0, like, range, writes)
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
                let own = Use { at, like, range, writes, name, function, place, in_order };
                self.against_earlier(object, own, &before, to);
            }
        }
        if record.flags & flag::BLOCKING != 0 {
            self.order.complete(record.id);
        }
        if !enqueued.app_event() {
            // Nothing can name it.
            self.order.forget(record.id as u32);
        }
    }

    fn against_earlier(
        &mut self,
        object: Object,
        own: Use,
        before: &order::Clock,
        to: &mut Findings,
    ) {
        let order = &self.order;
        let uses = self.uses.entry(object).or_default();
        // What the host knows to be complete cannot race with anything any more.
        uses.retain(|earlier| !order.known(earlier.at));
        for earlier in uses.iter() {
            let same_queue = earlier.at.0 == own.at.0 && own.in_order;
            if (earlier.writes || own.writes)
                && earlier.at != own.at
                && !same_queue
                && earlier.meets(&own)
                && !before.holds(earlier.at)
            {
                let verb = |writes: bool| if writes { "writes" } else { "reads" };
                let where_from = match earlier.at.0 == own.at.0 {
                    true => "on one out-of-order queue",
                    false => "on two queues",
                };
                let text = format!(
                    "{} {} what {} {}, {where_from}{}",
                    earlier.name,
                    verb(earlier.writes),
                    own.name,
                    verb(own.writes),
                    object.kind()
                );
                let mut key =
                    Key::new(Rule::DataRace, text).at(&own.function, own.place.as_deref());
                key.other_place = earlier.place.clone().or_else(|| Some(earlier.function.clone()));
                let shown = match object {
                    Object::Memory(id) => match self.memory.get(&id).and_then(|m| m.bytes) {
                        Some(bytes) => format!("memory object #{id} ({bytes} bytes)"),
                        None => format!("memory object #{id}"),
                    },
                    _ => format!("{:#x}", own.range.begin.max(earlier.range.begin)),
                };
                to.add(key, None, Some(shown));
            }
        }
        if uses.iter().any(|u| {
            u.at == own.at && u.like == own.like && u.range == own.range && u.writes == own.writes
        }) {
            return;
        }
        if uses.len() == REMEMBERED {
            uses.remove(0);
        }
        uses.push(own);
    }

    /// What a command uses: object, bytes, and whether it writes them.
    fn accesses(&mut self, seen: &Seen<'_>, told: Option<Detail>) -> Vec<(u32, Range, bool)> {
        let Some(record) = seen.enqueued().map(|e| &e.record) else { return Vec::new() };
        let (object, other) = (record.object, record.object2);
        let [first, size, second] = told.map_or([0, u64::MAX, 0], |told| told.values);
        let (here, there) = (Range::new(first, size), Range::new(second, size));
        match record.kind {
            K::NdRange | K::Task => self.launch(seen, object),
            K::ReadBuffer => vec![(object, here, false)],
            K::WriteBuffer | K::FillBuffer => vec![(object, here, true)],
            K::CopyBuffer => vec![(object, here, false), (other, there, true)],
            K::ReadBufferRect | K::ReadImage => vec![(object, Range::WHOLE, false)],
            K::WriteBufferRect | K::WriteImage | K::FillImage => vec![(object, Range::SOME, true)],
            K::CopyBufferRect | K::CopyImage | K::CopyImageToBuffer | K::CopyBufferToImage => {
                vec![(object, Range::SOME, false), (other, Range::SOME, true)]
            }
            K::MapBuffer | K::MapImage => {
                let writes = record.extra & MAP_WRITES != 0;
                if let (true, Some(memory)) = (writes, self.memory.get_mut(&object)) {
                    memory.writable += 1;
                }
                let range = if record.kind == K::MapBuffer { here } else { Range::WHOLE };
                // From then on the host may write it, until it is unmapped.
                vec![(object, range, writes)]
            }
            K::UnmapMemObject => match self.memory.get_mut(&object) {
                Some(memory) if memory.writable > 0 => {
                    memory.writable -= 1;
                    vec![(object, Range::WHOLE, true)]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn launch(&mut self, seen: &Seen<'_>, kernel: u32) -> Vec<(u32, Range, bool)> {
        let mut out = Vec::new();
        let arguments = self.arguments.get(&kernel).cloned().unwrap_or_default();
        for (index, object) in arguments {
            let Some(flags) = self.memory.get(&object).map(|memory| memory.flags) else { continue };
            if let Some(writes) = self.writes(seen, kernel, index, flags) {
                out.push((object, Range::WHOLE, writes));
            }
        }
        out
    }

    /// Whether a kernel writes what it has as an argument, in memory with such flags; none where it
    /// does not use it, or where that is not known.
    fn writes(&mut self, seen: &Seen<'_>, kernel: u32, index: u32, flags: u64) -> Option<bool> {
        let shown = self.kernels.get(&kernel).and_then(Option::as_ref);
        let shown = shown.and_then(|all| all.get(index as usize)).copied();
        match shown.unwrap_or_else(|| self.parameters.access(kernel, index)) {
            Access::Nothing => None,
            Access::Reads => Some(false),
            _ if flags & MEM_READ_ONLY != 0 => Some(false),
            Access::Writes => Some(true),
            Access::Unknown(_) if flags & MEM_WRITE_ONLY != 0 => Some(true),
            Access::Unknown(why) => {
                let name = seen.definitions.kernel_name(kernel);
                self.unknown.insert(format!("argument {index} of {name} ({})", why.text()));
                None
            }
        }
    }

    /// What a command uses by addresses: what was told of it, and what its kernel was given. Of what a
    /// kernel points to the first byte alone is known to be meant: others may use what lies behind it.
    fn by_address(
        &mut self,
        seen: &Seen<'_>,
        (at, like): (Place, Like),
        touched: &[Detail],
    ) -> Vec<(Object, Range, bool)> {
        let kind = like.0;
        let mut out = Vec::new();
        let mut users = Vec::new();
        for told in touched {
            let [address, bytes, how] = told.values;
            let svm = self.addresses.find(address);
            let Some(svm) = svm else {
                if matches!(kind, K::ReadBuffer | K::WriteBuffer | K::SvmMemcpy) {
                    let range = Range::new(address, bytes);
                    out.push((Object::Host, range, how & detail::WRITES != 0));
                }
                continue;
            };
            if !svm.is_coarse() {
                continue;
            }
            users.push(svm.number);
            let object = Object::Svm(svm.number);
            let range = if bytes == 0 { svm.range } else { Range::new(address, bytes) };
            match kind {
                K::SvmUnmap => {
                    out.extend(self.addresses.unmap(address).map(|range| (object, range, true)));
                }
                _ => {
                    let writes = how & (detail::WRITES | detail::FREES) != 0;
                    if kind == K::SvmMap && writes {
                        self.addresses.map(address, range);
                    }
                    out.push((object, range, writes));
                }
            }
        }
        if kind.is_kernel() {
            for (index, svm, address) in self.addresses.of_kernel(like.1) {
                if !svm.is_coarse() {
                    continue;
                }
                users.push(svm.number);
                let writes = index.and_then(|index| self.writes(seen, like.1, index, svm.flags));
                let range = Range::new(address, 1);
                out.extend(writes.map(|writes| (Object::Svm(svm.number), range, writes)));
            }
        }
        for number in users {
            let place = seen.place.map(str::to_owned);
            let user = User { at, name: name_of(seen), place };
            self.users.entry(number).or_default().insert((at.0, like), user);
        }
        out
    }

    /// What could not be judged.
    pub fn notes(&self) -> Option<String> {
        let first: Vec<&str> = self.unknown.iter().take(8).map(String::as_str).collect();
        let more = self.unknown.len().saturating_sub(first.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!first.is_empty()).then(|| {
            format!(
                "no data race was looked for through {}{more}: it is not known whether the kernel writes it; declare what is only read as const, and what is only written in buffers of CL_MEM_WRITE_ONLY",
                first.join(", ")
            )
        })
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
