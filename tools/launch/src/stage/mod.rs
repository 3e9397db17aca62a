//! A capture on a device: its memory, arguments and programs. Owns what is put back before a
//! launch. Refuses to launch what the capture does not describe.

mod caches;
mod guard;
mod places;
mod recipe;
mod sizes;

use crate::capture::{self, CACHES, Given, Launch, Memory, MemoryKind};
use crate::element::bytes_of_hex;
use crate::order;
use crate::progress::{At, Step, Who};
use crate::read::{Capture, CaptureError};
use crate::run::is_of;
use clscope_opencl::{ACCESS_FLAGS, Sampler, Session, Svm};
use clscope_opencl::{Argument, Buffer, ClError, Device, Event, Kernel, Limits, Program, Range};
use std::cell::{Cell, RefCell};

pub use caches::Caches;
pub use guard::Overrun;
pub use places::shape;
use places::{Move, Place, moved, place};
pub use recipe::{Built, Form, Recipe, StageError};
pub use sizes::{TooMany, over};

/// A capture on a device. What is made of the session is released before it.
pub struct Stage<'c> {
    /// The capture.
    pub capture: &'c Capture,
    /// What the device allows.
    pub limits: Limits,
    /// Words that held addresses of shared virtual memory and were changed to where it lies now.
    pub moved_words: u64,
    /// What is told when another version, or something else, begins; the last that was told.
    progress: &'c dyn Fn(&At),
    told: RefCell<Option<At>>,
    step: Cell<Step>,
    parts: Vec<Option<Buffer>>,
    samplers: Vec<Option<Sampler>>,
    places: Vec<Place>,
    before: Vec<Vec<u8>>,
    moves: Vec<Move>,
    /// The bytes that launches change, of each memory that is put back between them: first and
    /// behind the last.
    changed: Vec<(usize, std::ops::Range<usize>)>,
    /// What a launch leaves in memories, for [`Self::put_results`].
    results: Vec<(usize, Buffer)>,
    /// What memories are copied to so that they are used, and what is copied there so that caches
    /// hold something else.
    scratch: Option<[Buffer; 2]>,
    /// Memories in whose place others were made, by their place in the capture, the oldest first.
    aside: Vec<(usize, Place)>,
    /// The session.
    pub session: Session,
}

impl<'c> Stage<'c> {
    /// Makes memory and samplers on a device, with the contents before the launch, zeros where
    /// those were not kept. `progress` is told which version is doing what, before it does.
    ///
    /// # Errors
    /// If the capture cannot be read, or the device lacks something.
    pub fn new(
        device: &Device,
        capture: &'c Capture,
        progress: &'c dyn Fn(&At),
    ) -> Result<Self, StageError> {
        let launch = &capture.launch;
        let limits = device.limits();
        let lacks = |lack: String| StageError::Lacks { device: device.facts.name.clone(), lack };
        let any = |kind| launch.memories.iter().any(|memory| memory.kind == kind);
        let samples = launch.arguments.iter().any(|a| matches!(a.given, Given::Sampler { .. }));
        if !limits.has_images && (any(MemoryKind::Image) || samples) {
            return Err(lacks("has no images".to_owned()));
        }
        if limits.svm == 0 && any(MemoryKind::Svm) {
            return Err(lacks("has no shared virtual memory".to_owned()));
        }
        for memory in &launch.memories {
            if memory.bytes > device.facts.largest_buffer && memory.kind != MemoryKind::Image {
                let most = device.facts.largest_buffer;
                return Err(lacks(format!("allocates at most {most} bytes, not {}", memory.bytes)));
            }
        }
        let session = Session::new(device)?;
        let mut places = Vec::new();
        for memory in &launch.memories {
            // What a view is of comes before it.
            let place = place(&session, launch, &places, memory)?;
            places.push(place);
        }
        let moves: Vec<Move> = launch.memories.iter().zip(&places).filter_map(moved).collect();
        let mut stage = Self {
            capture,
            limits,
            moved_words: 0,
            progress,
            told: RefCell::new(None),
            step: Cell::new(Step::Building),
            parts: Vec::new(),
            samplers: Vec::new(),
            places,
            before: Vec::new(),
            moves,
            changed: Vec::new(),
            results: Vec::new(),
            scratch: None,
            aside: Vec::new(),
            session,
        };
        for memory in &launch.memories {
            let bytes = match memory.before {
                Some(_) => {
                    let mut bytes = capture.before(memory)?;
                    stage.moved_words += stage.relocate(&mut bytes);
                    bytes
                }
                None => vec![0; usize::try_from(memory.bytes).unwrap_or(usize::MAX)],
            };
            stage.before.push(bytes);
        }
        for argument in &launch.arguments {
            let (part, sampler) = stage.objects(launch, &argument.given)?;
            stage.parts.push(part);
            stage.samplers.push(sampler);
        }
        (0..stage.places.len()).try_for_each(|index| stage.restore(index).map(drop))?;
        stage.session.finish()?;
        Ok(stage)
    }

    /// What an argument needs beside memories: a part of a buffer, or a sampler.
    fn objects(
        &self,
        launch: &Launch,
        given: &Given,
    ) -> Result<(Option<Buffer>, Option<Sampler>), StageError> {
        match given {
            Given::Memory { memory, offset, size, flags } => {
                let found = self.place_of(launch, *memory);
                let Some((memory, Place::Buffer { own, .. })) = found else {
                    return Ok((None, None));
                };
                if *offset == 0 && *size == memory.bytes {
                    return Ok((None, None));
                }
                // Without flags of its own a part has those of the whole.
                let flags = if flags.is_empty() { 0 } else { capture::flags(flags) & ACCESS_FLAGS };
                let part = self.session.part(own, flags, *offset as usize, *size as usize)?;
                Ok((Some(part), None))
            }
            Given::Sampler { normalized, addressing, filter } => {
                let number = |name: &String| {
                    capture::number(name).ok_or_else(|| {
                        CaptureError::Wrong(format!("no sampler has the property {name}"))
                    })
                };
                let (addressing, filter) = (number(addressing)?, number(filter)?);
                Ok((None, Some(self.session.sampler(*normalized, addressing, filter)?)))
            }
            _ => Ok((None, None)),
        }
    }

    fn place_of<'s>(&'s self, launch: &'s Launch, id: u32) -> Option<(&'s Memory, &'s Place)> {
        let index = launch.memories.iter().position(|memory| memory.id == id)?;
        Some((launch.memories.get(index)?, self.places.get(index)?))
    }

    /// Changes what looks like an address of captured shared virtual memory, at multiples of 8
    /// bytes, to where it lies now; gives the number of changes.
    fn relocate(&self, bytes: &mut [u8]) -> u64 {
        let mut changed = 0;
        if self.moves.is_empty() {
            return changed;
        }
        let (words, _) = bytes.as_chunks_mut::<8>();
        for word in words {
            let value = u64::from_le_bytes(*word);
            let inside = |m: &&Move| value.checked_sub(m.from).is_some_and(|at| at <= m.bytes);
            if let Some(to) = self.moves.iter().find(inside) {
                *word = (value - to.from + to.to).to_le_bytes();
                changed += 1;
            }
        }
        changed
    }

    /// Contents of each memory before the launch.
    pub fn before(&self) -> &[Vec<u8>] {
        &self.before
    }

    /// Contents of each memory after the application's launch; none of those that it could not
    /// write.
    ///
    /// # Errors
    /// If the capture cannot be read.
    pub fn after(&self) -> Result<Vec<Option<Vec<u8>>>, CaptureError> {
        let after = self.capture.launch.memories.iter().map(|memory| {
            let mut bytes = self.capture.after(memory)?;
            if let Some(bytes) = &mut bytes {
                self.relocate(bytes);
            }
            Ok(bytes)
        });
        after.collect()
    }

    /// Launches change these bytes of memories, from first to last: [`Self::put_back`] restores
    /// them. Keeps copies of the memories on the device, from which that is faster; without room
    /// for one it is done from the host.
    pub fn keep_copies(&mut self, which: &[(usize, std::ops::Range<usize>)]) {
        for (index, span) in which {
            match self.changed.iter_mut().find(|(known, _)| known == index) {
                Some((_, known)) => {
                    *known = known.start.min(span.start)..known.end.max(span.end);
                }
                None => self.changed.push((*index, span.clone())),
            }
            let (Some(Place::Buffer { pristine, .. }), Some(bytes)) =
                (self.places.get_mut(*index), self.before.get(*index))
            else {
                continue;
            };
            if pristine.is_none() {
                *pristine =
                    self.session.buffer(bytes.len(), false).ok().filter(|copy| {
                        bytes.is_empty() || self.session.write(copy, 0, bytes).is_ok()
                    });
            }
        }
    }

    /// Keeps what a launch leaves in these memories for [`Self::put_results`], and in no others: of
    /// buffers that have a copy on the device, as far as there is memory. `results`: of all memories.
    pub fn keep_results(&mut self, which: &[usize], results: &[Vec<u8>]) {
        self.results.clear();
        for index in which {
            let copied = self.places.get(*index);
            let is_copied = matches!(copied, Some(Place::Buffer { pristine: Some(_), .. }));
            let bytes = results.get(*index).filter(|bytes| is_copied && !bytes.is_empty());
            let room = bytes.and_then(|bytes| {
                let room = self.session.buffer(bytes.len(), false).ok()?;
                self.session.write(&room, 0, bytes).is_ok().then_some(room)
            });
            self.results.extend(room.map(|room| (*index, room)));
        }
    }

    /// Puts what a launch leaves where [`Self::put_back`] puts what was there before; nothing where
    /// it is not kept.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn put_results(&self, index: usize) -> Result<Option<Event>, ClError> {
        let kept = self.results.iter().find(|(of, _)| *of == index).map(|(_, kept)| kept);
        let (Some(kept), Some(Place::Buffer { own, .. })) = (kept, self.places.get(index)) else {
            return Ok(None);
        };
        let span = self.put_back_of(index);
        match span.is_empty() {
            true => Ok(None),
            false => self.session.copy(kept, own, span.start, span.len()).map(Some),
        }
    }

    /// The bytes of a memory that are put back.
    fn put_back_of(&self, index: usize) -> std::ops::Range<usize> {
        let known = self.changed.iter().find(|(known, _)| *known == index);
        let bytes = self.before.get(index).map_or(0, Vec::len);
        known.map_or(0..bytes, |(_, span)| span.start.min(bytes)..span.end.min(bytes))
    }

    /// Puts the contents from before the launch back into a memory. What is enqueued later sees
    /// them. Gives the event of the command that does so, where it is one command.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn restore(&self, index: usize) -> Result<Option<Event>, ClError> {
        self.restored(index, 0..usize::MAX)
    }

    /// Restores what launches change of a memory, as [`Self::keep_copies`] was told; all of it
    /// where that was told nothing. Takes no more of the device's time, and of its caches, than
    /// that.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn put_back(&self, index: usize) -> Result<Option<Event>, ClError> {
        self.restored(index, self.put_back_of(index))
    }

    fn restored(
        &self,
        index: usize,
        span: std::ops::Range<usize>,
    ) -> Result<Option<Event>, ClError> {
        let (Some(place), Some(bytes)) = (self.places.get(index), self.before.get(index)) else {
            return Ok(None);
        };
        let at = span.start.min(bytes.len());
        let part = &bytes[at..span.end.clamp(at, bytes.len())];
        if part.is_empty() {
            return Ok(None);
        }
        match place {
            Place::Buffer { own, pristine: Some(copy) } => {
                self.session.copy(copy, own, at, part.len()).map(Some)
            }
            Place::Buffer { own, pristine: None } => self.session.write(own, at, part).map(Some),
            Place::Image(image) => self.session.write_image(image, bytes).map(Some),
            Place::Svm(svm) => {
                let copied = |all: &mut [u8]| all[at..][..part.len()].copy_from_slice(part);
                self.session.map_svm(svm, true, copied).map(|()| None)
            }
        }
    }

    /// What a memory holds now.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn read(&self, index: usize) -> Result<Vec<u8>, ClError> {
        let (Some(place), Some(before)) = (self.places.get(index), self.before.get(index)) else {
            return Ok(Vec::new());
        };
        let mut out = vec![0; before.len()];
        if out.is_empty() {
            return Ok(out);
        }
        match place {
            Place::Buffer { own, .. } => drop(self.session.read(own, 0, &mut out)?),
            Place::Image(image) => drop(self.session.read_image(image, &mut out)?),
            Place::Svm(svm) => {
                let bytes = out.len();
                self.session.map_svm(svm, false, |all| out.copy_from_slice(&all[..bytes]))?;
            }
        }
        Ok(out)
    }

    /// Builds the program, and sets the kernel's arguments.
    ///
    /// # Errors
    /// If there is no such program, it does not build, or its kernel is another.
    pub fn build(&self, who: Who, recipe: &Recipe) -> Result<Built, StageError> {
        let launch = &self.capture.launch;
        self.enter(Step::Building);
        self.tell(&who);
        let options = recipe.options.clone().unwrap_or_else(|| launch.program.options.clone());
        let (name, form, program, atomics) = match &recipe.source {
            Some((name, text)) => {
                let atomics = order::atomics(Form::Source, text.as_bytes());
                (name.clone(), Form::Source, self.built(name, text, &options)?, atomics)
            }
            None => self.captured_program(recipe.form, &options)?,
        };
        let kernel = self.session.kernel(&program, &launch.kernel)?;
        let found = kernel.argument_count()?;
        if found as usize != launch.arguments.len() {
            return Err(StageError::Arguments {
                kernel: launch.kernel.clone(),
                program: name,
                found,
                captured: launch.arguments.len(),
            });
        }
        self.bind(&kernel)?;
        let sizes =
            |of: &[u64]| of.iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX)).collect();
        let range = Range {
            offset: launch.offset.as_deref().map(sizes),
            global: recipe.global.clone().unwrap_or_else(|| sizes(&launch.global)),
            local: recipe.local.clone().unwrap_or_else(|| launch.local.as_deref().map(sizes)),
        };
        self.ends_in_time(&range)?;
        self.has_local_memory(&kernel)?;
        let source = recipe.source.as_ref().map(|(_, text)| text.clone());
        Ok(Built { name, form, options, range, kernel, who, atomics, source, program })
    }

    fn captured_program(
        &self,
        form: Option<Form>,
        options: &str,
    ) -> Result<(String, Form, Program, Option<String>), StageError> {
        let of = &self.capture.launch.program;
        let find = |form: Form| of.own_files().find(|file| file.language == form.language());
        let forms: Vec<Form> = form.map_or_else(|| Form::ALL.to_vec(), |form| vec![form]);
        let takes_il = !self.limits.languages.is_empty();
        let usable = |form: &Form| *form != Form::Il || takes_il;
        let found = forms.iter().filter(|form| usable(form)).find_map(|f| Some((*f, find(*f)?)));
        let Some((form, file)) = found else {
            let named: Vec<&str> = forms.iter().map(|form| form.name()).collect();
            let has_il = forms.contains(&Form::Il) && find(Form::Il).is_some();
            let why = match &of.missing {
                _ if has_il => "this device takes no SPIR-V".to_owned(),
                Some(missing) => missing.clone(),
                None => "no such file is in it".to_owned(),
            };
            return Err(StageError::NoProgram {
                form: named.join(", "),
                why,
                next: "name a file with the kernel's source behind the capture".to_owned(),
            });
        };
        let bytes = self.capture.program(file)?;
        let name = file.file.clone();
        let program = match form {
            Form::Source => self.built(&name, &text_of(&bytes), options)?,
            Form::Il => self.session.build_il(&name, &bytes, options)?,
            Form::Binary => self
                .session
                .load(&name, &bytes, options)
                .map_err(|error| self.of_elsewhere(error, takes_il))?,
        };
        Ok((name, form, program, order::atomics(form, &bytes)))
    }

    /// Why a captured binary was not taken: on another device than its own, what the capture lacks
    /// to be run there.
    fn of_elsewhere(&self, why: ClError, takes_il: bool) -> StageError {
        let (launch, here) = (&self.capture.launch, &self.session.device().facts);
        if is_of(launch, here) {
            return why.into();
        }
        let has = |form: Form| launch.program.own_files().any(|f| f.language == form.language());
        let (source, il) = (has(Form::Source), has(Form::Il));
        let (lack, next) = if source || (il && takes_il) {
            (
                "that is all of it that was to be used".to_owned(),
                "leave out --from binary".to_owned(),
            )
        } else {
            let lack = match (il, &launch.program.missing) {
                (true, _) => "the capture has no source, and the device takes no SPIR-V".to_owned(),
                (false, Some(missing)) => {
                    format!("the capture has neither source nor SPIR-V ({missing})")
                }
                (false, None) => "the capture has neither source nor SPIR-V".to_owned(),
            };
            let next = "name that device with --device, or a file with the kernel's source behind the capture";
            let again = match launch.program.is_cached() {
                true => {
                    format!(", or capture again without the application's program cache ({CACHES})")
                }
                false => String::new(),
            };
            (lack, format!("{next}{again}"))
        };
        let (of, platform) = (&launch.device, &launch.platform.name);
        let of = format!("{} ({platform}, driver {})", of.name, of.driver);
        let why = Box::new(why);
        StageError::Elsewhere { device: here.name.clone(), why, of, lack, next }
    }

    /// Builds a source with the captured headers.
    fn built(&self, name: &str, text: &str, options: &str) -> Result<Program, StageError> {
        let headers = self.capture.launch.program.headers();
        let headers = headers
            .map(|(include, file)| Ok((include.to_owned(), text_of(&self.capture.program(file)?))))
            .collect::<Result<Vec<_>, CaptureError>>()?;
        Ok(match headers.as_slice() {
            [] => self.session.build(name, text, options)?,
            headers => self.session.build_with_headers(name, text, headers, options)?,
        })
    }

    /// Sets all arguments.
    pub(crate) fn bind(&self, kernel: &Kernel) -> Result<(), StageError> {
        let launch = &self.capture.launch;
        let wrong = |what: &str| StageError::Capture(CaptureError::Wrong(what.to_owned()));
        let objects = self.parts.iter().zip(&self.samplers);
        for (argument, (part, sampler)) in launch.arguments.iter().zip(objects) {
            let index = argument.index;
            match &argument.given {
                Given::Value { value, .. } => {
                    let mut bytes =
                        bytes_of_hex(value).ok_or_else(|| wrong("a value is no hexadecimal"))?;
                    self.relocate(&mut bytes);
                    kernel.set(index, &Argument::Bytes(&bytes))?;
                }
                Given::Local { bytes } => {
                    let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
                    kernel.set(index, &Argument::Local(bytes))?;
                }
                Given::Null { bytes } => {
                    let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
                    kernel.set(index, &Argument::Null(bytes))?;
                }
                Given::Sampler { .. } => {
                    let sampler = sampler.as_ref().ok_or_else(|| wrong("a sampler is missing"))?;
                    kernel.set(index, &Argument::Sampler(sampler))?;
                }
                Given::Memory { memory, .. } => match (part, self.place_of(launch, *memory)) {
                    (Some(part), _) => kernel.set(index, &Argument::Buffer(part))?,
                    (None, Some((_, Place::Buffer { own, .. }))) => {
                        kernel.set(index, &Argument::Buffer(own))?;
                    }
                    (None, Some((_, Place::Image(image)))) => {
                        kernel.set(index, &Argument::Image(image))?;
                    }
                    _ => return Err(wrong("an argument is no memory object")),
                },
                Given::Svm { memory, offset } => match self.place_of(launch, *memory) {
                    Some((_, Place::Svm(svm))) => kernel.set_svm(index, svm, *offset as usize)?,
                    _ => return Err(wrong("an argument is no shared virtual memory")),
                },
            }
        }
        let reached: Vec<&Svm> = self
            .places
            .iter()
            .filter_map(|place| if let Place::Svm(svm) = place { Some(svm) } else { None })
            .collect();
        if !reached.is_empty() {
            kernel.reaches(&reached)?;
        }
        Ok(())
    }

    /// Launches a kernel over a range: its own, or another.
    ///
    /// # Errors
    /// What the runtime returned, with the reason where sizes do not fit.
    pub fn launch(&self, built: &Built, range: &Range) -> Result<Event, StageError> {
        self.tell_of(built, range);
        self.session
            .launch_over(&built.kernel, range)
            .map_err(|error| self.explained(built, range, error))
    }

    /// As [`launch`](Self::launch), without time stamps.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn launch_untimed(&self, built: &Built, range: &Range) -> Result<(), StageError> {
        self.tell_of(built, range);
        let launched = self.session.launch_over_untimed(&built.kernel, range);
        launched.map_err(|error| self.explained(built, range, error))
    }

    /// From here on this is done with versions.
    pub fn enter(&self, step: Step) {
        self.step.set(step);
    }

    /// Tells which version is next, unless it was told last.
    pub fn tell(&self, who: &Who) {
        let at = At { who: who.clone(), step: self.step.get() };
        if self.told.borrow().as_ref() != Some(&at) {
            (self.progress)(&at);
            self.told.replace(Some(at));
        }
    }

    fn tell_of(&self, built: &Built, range: &Range) {
        match *range == built.range {
            true => self.tell(&built.who),
            false => self.tell(&Who::Groups(range.local.clone())),
        }
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
