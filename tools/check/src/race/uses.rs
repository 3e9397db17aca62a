//! What each command uses: parts of memory objects, shared virtual memory and memory of the host,
//! and whether it writes them. Refuses to say what a kernel does with an argument where nothing
//! tells.

use super::command_ranges::{CommandRanges, Touched};
use super::mapped::Mapping;
use super::order::Place;
use super::part::{Range, Shape};
use super::shared::Object;
use super::source::{Access, Why};
use super::{How, Like, MAP_WRITES, Part, Races, User, name_of};
use crate::seen::Seen;
use clscope_trace::codes as cl;
use clscope_trace::record::{CommandKind as K, detail};

impl Races {
    /// What a command uses of the host's memory by way of a buffer that lies in it.
    pub(super) fn on_host(&self, part: &Part) -> Option<Part> {
        let Object::Memory(id) = part.object else { return None };
        let memory = self.memory.get(&id)?.host?;
        let range = match part.range.shape {
            _ if part.range == Range::WHOLE => memory,
            Shape::Bytes | Shape::Rows(_) => part.range.inside(memory),
            Shape::Box(_) | Shape::Some => return None,
        };
        Some(Part { object: Object::Host, range, how: part.how, via: Some(id) })
    }

    /// What a command uses: object, bytes, and whether it writes them; and the host's memory that
    /// is taken away with a mapping that ends.
    pub(super) fn accesses(
        &mut self,
        seen: &Seen<'_>,
        told: &CommandRanges,
        at: Place,
    ) -> (Vec<(u32, Range, How)>, Option<Part>) {
        let Some(record) = seen.enqueued().map(|e| &e.record) else { return (Vec::new(), None) };
        let (object, other) = (record.object, record.object2);
        // Nothing is told of commands of older recorders: of plain transfers any byte may be meant.
        let plain = told.first.unwrap_or(Range::WHOLE);
        let part = told.first.unwrap_or(Range::SOME);
        let there = told.second.unwrap_or(Range::SOME);
        let own = match record.kind {
            K::NdRange | K::Task => self.launch(seen, object),
            K::ReadBuffer => vec![(object, plain, How::Reads)],
            K::WriteBuffer | K::FillBuffer => vec![(object, plain, How::Writes)],
            K::CopyBuffer => {
                let to = told.copied_to.unwrap_or(Range::WHOLE);
                vec![(object, plain, How::Reads), (other, to, How::Writes)]
            }
            K::ReadBufferRect | K::ReadImage => vec![(object, part, How::Reads)],
            K::WriteBufferRect | K::WriteImage | K::FillImage => vec![(object, part, How::Writes)],
            K::CopyBufferRect | K::CopyImage | K::CopyImageToBuffer | K::CopyBufferToImage => {
                vec![(object, part, How::Reads), (other, there, How::Writes)]
            }
            K::MapBuffer | K::MapImage => {
                let writes = record.extra & MAP_WRITES != 0;
                let range = if record.kind == K::MapBuffer { plain } else { part };
                let (whole, inside) = self.whole(object, range);
                let place = seen.place.map(str::to_owned);
                let (address, bytes) =
                    told.touched.first().map_or((0, 0), |t| (t.address, t.bytes));
                let mapping = Mapping { range: inside, writes, at, place, address, bytes };
                self.mappings.map(whole, mapping);
                // From then on the host may write it, until it is unmapped.
                vec![(object, range, How::from_writes(writes))]
            }
            K::UnmapMemObject => return self.unmapped(object, told),
            _ => Vec::new(),
        };
        (own, None)
    }

    /// A mapping ends: what the host may have written, and its memory.
    fn unmapped(
        &mut self,
        object: u32,
        told: &CommandRanges,
    ) -> (Vec<(u32, Range, How)>, Option<Part>) {
        let (whole, _) = self.whole(object, Range::WHOLE);
        let address = told.touched.first().map(|touched| touched.address);
        let Some(ended) = self.mappings.unmap(whole, address) else { return (Vec::new(), None) };
        let own = ended.writes.then_some((whole, ended.range, How::Writes));
        let lies_on_host = self.memory.get(&whole).is_some_and(|memory| memory.host.is_some());
        let is_gone = ended.bytes > 0 && !lies_on_host && !self.mappings.hold(whole, &ended);
        let host = is_gone.then(|| Part {
            object: Object::Host,
            range: Range::new(ended.address, ended.bytes),
            how: How::Writes,
            via: None,
        });
        (own.into_iter().collect(), host)
    }

    fn launch(&mut self, seen: &Seen<'_>, kernel: u32) -> Vec<(u32, Range, How)> {
        let mut out = Vec::new();
        let arguments = self.arguments.get(&kernel).cloned().unwrap_or_default();
        for (index, object) in arguments {
            let Some(flags) = self.memory.get(&object).map(|memory| memory.flags) else { continue };
            if let Some(how) = self.uses(seen, kernel, index, flags) {
                out.push((object, Range::WHOLE, how));
            }
        }
        out
    }

    /// What a kernel does with what it has as an argument, in memory with such flags; none where it
    /// does not use it.
    fn uses(&self, seen: &Seen<'_>, kernel: u32, index: u32, flags: u64) -> Option<How> {
        let shown = self.kernels.get(&kernel).and_then(Option::as_ref);
        let shown = shown.and_then(|all| all.get(index as usize)).copied();
        match shown.unwrap_or_else(|| self.parameters.access(kernel, index)) {
            Access::Nothing => None,
            Access::Reads => Some(How::Reads),
            _ if flags & cl::CL_MEM_READ_ONLY != 0 => Some(How::Reads),
            Access::Writes => Some(How::Writes),
            Access::Unknown(_) if flags & cl::CL_MEM_WRITE_ONLY != 0 => Some(How::Writes),
            Access::Unknown(why) => {
                let program = seen.definitions.kernels.get(&kernel).map(|kernel| kernel.program);
                let is_unseen = program.is_some_and(|program| self.unseen.contains(&program));
                let why = if shown.is_none() && is_unseen { Why::Unseen } else { why };
                Some(How::Unknown(index, why))
            }
        }
    }

    /// What a command uses by addresses: what was told of it, and what its kernel was given. Of
    /// what a kernel points to the first byte alone is known to be meant: others may use what lies
    /// behind it.
    pub(super) fn by_address(
        &mut self,
        seen: &Seen<'_>,
        (at, like): (Place, Like),
        touched: &[Touched],
    ) -> Vec<Part> {
        let kind = like.0;
        let part = |object, range, how| Part { object, range, how, via: None };
        let mut out = Vec::new();
        let mut users = Vec::new();
        for Touched { address, bytes, how, range } in touched.iter().copied() {
            let svm = self.addresses.find(address);
            if how & detail::FREES != 0 {
                self.addresses.given_back(address);
            }
            let Some(svm) = svm else {
                if !matches!(kind, K::MapBuffer | K::MapImage | K::UnmapMemObject) {
                    out.push(part(
                        Object::Host,
                        range,
                        How::from_writes(how & detail::WRITES != 0),
                    ));
                }
                continue;
            };
            if !svm.is_coarse() {
                continue;
            }
            users.push(svm.number);
            let object = Object::Svm(svm.number);
            let range = if bytes == 0 { svm.range } else { range };
            match kind {
                K::SvmUnmap => {
                    out.extend(
                        self.addresses.unmap(address).map(|range| part(object, range, How::Writes)),
                    );
                }
                _ => {
                    let writes = how & (detail::WRITES | detail::FREES) != 0;
                    if kind == K::SvmMap && writes {
                        self.addresses.map(address, range);
                    }
                    out.push(part(object, range, How::from_writes(writes)));
                }
            }
        }
        if kind.is_kernel() {
            for (index, svm, address) in self.addresses.of_kernel(like.1) {
                if !svm.is_coarse() {
                    continue;
                }
                users.push(svm.number);
                let how = index.and_then(|index| self.uses(seen, like.1, index, svm.flags));
                let range = Range::new(address, 1);
                out.extend(how.map(|how| part(Object::Svm(svm.number), range, how)));
            }
        }
        for number in users {
            let place = seen.place.map(str::to_owned);
            let user = User { at, name: name_of(seen), place };
            self.users.entry(number).or_default().insert((at.0, like), user);
        }
        out
    }
}
