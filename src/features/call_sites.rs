//! Where in the application an enqueue was called from, in runs that ask for it
//! (`CLSCOPE_CALL_SITES`): the innermost frames outside of this library and of OpenCL loaders, as
//! an id whose definition names modules and addresses in them. Names and lines are resolved by the
//! reader; no file is read here.
//!
//! A stack is unwound once (some microseconds) and then recognised by its
//! return addresses: each thread keeps a tree of the stacks it had, whose nodes say where, from our
//! own stack pointer, the next return address lies. Following it reads that many words and compares
//! them: no lock, no allocation, no unwinding. A place is read only after all addresses below it
//! were found to be the known ones, so that it lies inside the frame of a function that is active.
//! A frame of varying size (`alloca`) ends the tree; such stacks are unwound every time. Modules
//! that may be unloaded are checked each time: one that was replaced by another at the same address
//! is another module.

use crate::os::locks::lock::Mutex;
use crate::os::objects;
use crate::os::shared::current::Current;
use crate::os::shared::maps::HashMap;
use crate::os::unwind;
use crate::recording;
use crate::recording::guard;
use clscope_trace::defs::{CallSite, Frame, Module};
use clscope_trace::ids::hex;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Frames that are looked at: ours, a loader's and the application's.
const LOOKED_AT: usize = 48;
/// Stacks of a thread are forgotten when there are so many nodes.
const MOST_NODES: usize = 1 << 15;

/// Sites and modules of a process.
pub struct Sites {
    /// Frames that are recorded of each.
    frames: usize,
    known: Mutex<Known>,
    /// Path of the executable.
    program: String,
}

static CURRENT: Current<Sites> = Current::none();

/// Begins anew, with so many frames of each place: the first call of a process.
pub fn begin(frames: u8) {
    CURRENT.set(None);
    if frames > 0 {
        // Asked now: a sandbox may forbid it later.
        let program = std::fs::read_link("/proc/self/exe")
            .map(|path| path.display().to_string())
            .unwrap_or_default();
        CURRENT.keep(Sites { frames: usize::from(frames), known: Mutex::default(), program });
    }
}

/// What is known of them, where they are recorded.
#[inline(always)]
pub fn current() -> Option<&'static Sites> {
    CURRENT.get()
}

#[derive(Default)]
struct Known {
    sites: HashMap<Vec<Frame>, u32>,
    modules: Vec<Loaded>,
}

/// A module that was defined.
#[derive(Clone, PartialEq, Eq)]
struct Loaded {
    path: String,
    build_id: Vec<u8>,
    /// Where the build id lies in memory; 0 without one.
    build_id_at: usize,
    base: usize,
    begin: usize,
    end: usize,
    /// Frames in it are not the application's: this library, or a loader.
    passed_over: bool,
    /// It is never unloaded.
    stays: bool,
}

/// The site that the calling thread's enqueue was called from, 0 if none is recorded. Called while
/// the application's call is on the stack.
#[inline(never)]
pub fn here(tree: &mut Stacks, sites: &Sites, function: u16) -> u32 {
    let at = stack_pointer();
    if let Some(site) = tree.find(at, function) {
        return site;
    }
    // Whoever asks the dynamic linker holds its lock, which nobody could give up for a handler that
    // leaves: signals wait.
    guard::protect(0, || recording::held_back(|| unwound(tree, sites, at, function)))
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn stack_pointer() -> usize {
    let at;
    // SAFETY: reads a register.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) at, options(nomem, nostack, preserves_flags))
    };
    at
}

/// Where return addresses lie at no fixed place of a frame, stacks are not recognised but unwound.
#[cfg(not(target_arch = "x86_64"))]
fn stack_pointer() -> usize {
    0
}

/// Return addresses and the places they lie at.
#[repr(C)]
struct Walk {
    frames: [Found; LOOKED_AT],
    length: usize,
    above: usize,
}

/// A return address, and where it lies.
#[repr(C)]
#[derive(Clone, Copy)]
struct Found {
    address: usize,
    place: usize,
}

#[cold]
#[inline(never)]
fn unwound(tree: &mut Stacks, sites: &Sites, at: usize, function: u16) -> u32 {
    let mut walk =
        Walk { frames: [Found { address: 0, place: 0 }; LOOKED_AT], length: 0, above: at };
    unwind::frames(&mut |ip, bottom| {
        let place = bottom.wrapping_sub(8);
        if place < walk.above {
            return true;
        }
        let Some(frame) = walk.frames.get_mut(walk.length) else { return false };
        *frame = Found { address: ip, place };
        walk.length += 1;
        true
    });
    let frames = walk.frames.get(..walk.length).unwrap_or(&[]);
    let most = sites.frames;
    let mut known = sites.known.lock();
    let mut taken: Vec<Frame> = Vec::with_capacity(most);
    let mut checks: Vec<Check> = Vec::new();
    let mut seen = 0;
    for Found { address: ip, .. } in frames {
        if taken.len() == most {
            break;
        }
        seen += 1;
        // A return address may lie behind the end of a function that does not return: the call
        // before it counts.
        let Some(loaded) = loaded(*ip - 1, &sites.program) else {
            taken.push(Frame { module: 0, address: *ip as u64 });
            continue;
        };
        if taken.is_empty() && loaded.passed_over {
            continue;
        }
        if !loaded.stays && !checks.iter().any(|c| c.begin == loaded.begin) {
            checks.push(Check::identify(&loaded, *ip));
        }
        let address = (*ip - loaded.base) as u64;
        taken.push(Frame { module: known.module(loaded), address });
    }
    if taken.is_empty() {
        return 0;
    }
    let site = known.site(taken);
    drop(known);
    if cfg!(target_arch = "x86_64") {
        tree.learn(at, function, frames.get(..seen).unwrap_or(frames), site, checks);
    }
    site
}

impl Known {
    fn site(&mut self, frames: Vec<Frame>) -> u32 {
        if let Some(id) = self.sites.get(&frames) {
            return *id;
        }
        let id = self.sites.len() as u32 + 1;
        // Written under the lock, so that no record names an id before its definition is on its
        // way.
        recording::define(&CallSite { id, frames: frames.clone() }.into());
        self.sites.insert(frames, id);
        id
    }

    /// Id of a module, which is defined if it is new.
    fn module(&mut self, found: Loaded) -> u32 {
        if let Some(index) = self.modules.iter().position(|m| *m == found) {
            return index as u32 + 1;
        }
        let Loaded { path, build_id, base, begin, end, .. } = found.clone();
        let build_id = hex(&build_id);
        self.modules.push(found);
        let id = self.modules.len() as u32;
        recording::define(
            &Module { id, path, build_id, base: base as u64, begin: begin as u64, end: end as u64 }
                .into(),
        );
        id
    }
}

/// What is loaded at an address. Asks by `dl_iterate_phdr`, which can be asked while a constructor
/// of another thread runs.
fn loaded(address: usize, program: &str) -> Option<Loaded> {
    struct Search {
        address: usize,
        first: bool,
        found: Option<Loaded>,
    }
    unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> i32 {
        // SAFETY: valid during the call; `search` is the caller's.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        let main = std::mem::take(&mut search.first);
        // SAFETY: the module's program headers.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let base = info.dlpi_addr as usize;
        let parts = headers.iter().filter(|h| h.p_type == libc::PT_LOAD).map(|h| {
            let begin = base.wrapping_add(h.p_vaddr as usize);
            (begin, begin.wrapping_add(h.p_memsz as usize))
        });
        let (begin, end) =
            parts.clone().fold((usize::MAX, 0), |(b, e), (begin, end)| (b.min(begin), e.max(end)));
        if !parts.clone().any(|(begin, end)| (begin..end).contains(&search.address)) {
            return 0;
        }
        let name =
            // SAFETY: names of the dynamic linker are C strings or NULL.
            if info.dlpi_name.is_null() { c"" } else { unsafe { CStr::from_ptr(info.dlpi_name) } };
        let path = name.to_string_lossy().into_owned();
        let (build_id_at, build_id) = headers
            .iter()
            .filter(|h| h.p_type == libc::PT_NOTE)
            // SAFETY: notes of a loaded module are in memory.
            .find_map(|h| unsafe {
                build_id(
                    base.wrapping_add(h.p_vaddr as usize),
                    h.p_memsz as usize,
                    h.p_align as usize,
                )
            })
            .unwrap_or((0, Vec::new()));
        let ours =
            parts.clone().any(|(begin, end)| (begin..end).contains(&(here as *const () as usize)));
        let file = path.rsplit('/').next().unwrap_or_default();
        search.found = Some(Loaded {
            passed_over: ours || file.contains("libOpenCL"),
            stays: main || ours || file.starts_with("libc.so"),
            path,
            build_id,
            build_id_at,
            base,
            begin,
            end,
        });
        1
    }
    let mut search = Search { address, first: true, found: None };
    // SAFETY: `each` has the right type; `search` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut search).cast()) };
    let mut found = search.found?;
    if found.path.is_empty() {
        found.path = program.to_owned();
    }
    Some(found)
}

/// The note `NT_GNU_BUILD_ID` among the notes of a segment, and where its bytes lie.
///
/// # Safety
/// `size` readable bytes at `begin`.
unsafe fn build_id(begin: usize, size: usize, align: usize) -> Option<(usize, Vec<u8>)> {
    const NT_GNU_BUILD_ID: u32 = 3;
    // SAFETY: the caller's promise.
    let notes = unsafe { std::slice::from_raw_parts(begin as *const u8, size) };
    let align = if align == 8 { 8 } else { 4 };
    let word =
        |at: usize| notes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    let mut at = 0;
    loop {
        let (name_size, size, kind) = (word(at)? as usize, word(at + 4)? as usize, word(at + 8)?);
        let name = at + 12;
        let data = (name + name_size).next_multiple_of(align);
        if kind == NT_GNU_BUILD_ID && notes.get(name..name + name_size)? == b"GNU\0" {
            return Some((begin + data, notes.get(data..data + size)?.to_vec()));
        }
        at = (data + size).next_multiple_of(align);
    }
}

/// A module that a known stack has frames in, to be found loaded as it was.
struct Check {
    /// An address in it.
    address: usize,
    begin: usize,
    end: usize,
    /// Address and value of the first eight bytes of its build id; 0 without one.
    build_id: (usize, u64),
}

/// glibc 2.35: finds the object of an address without a lock.
type FindObject = unsafe extern "C" fn(*const c_void, *mut [u64; 32]) -> i32;

fn find_object() -> Option<FindObject> {
    // Not a lock: a child forked while another thread asks would wait for it. 1: there is none.
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let mut found = FOUND.load(Ordering::Relaxed);
    if found == 0 {
        let symbol = objects::find(|object| object.function(c"_dl_find_object"));
        found = symbol.map_or(1, |symbol| symbol as usize);
        FOUND.store(found, Ordering::Relaxed);
    }
    // SAFETY: glibc's function of that name; its structure has 12 words.
    (found != 1).then(|| unsafe { std::mem::transmute::<usize, FindObject>(found) })
}

impl Check {
    fn identify(loaded: &Loaded, address: usize) -> Self {
        let bytes =
            loaded.build_id.get(..8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes);
        let build_id = bytes
            .filter(|_| loaded.build_id_at != 0)
            .map_or((0, 0), |value| (loaded.build_id_at, value));
        Self { address, begin: loaded.begin, end: loaded.end, build_id }
    }

    /// Whether it is still there: the address belongs to an object at the same place with the same
    /// build id.
    #[inline(always)]
    fn holds(&self) -> bool {
        let Some(find) = find_object() else {
            let program = current().map_or("", |sites| &sites.program);
            return loaded(self.address, program)
                .is_some_and(|l| Check::identify(&l, self.address).same(self));
        };
        let mut object = [0u64; 32];
        // SAFETY: any address may be asked for; there is room for the structure. Words 1 and 2 are
        // begin and end of the mapping.
        if unsafe { find(self.address as *const c_void, &mut object) } != 0 {
            return false;
        }
        // The linker's bounds are whole pages.
        let inside = object[1] as usize <= self.begin
            && self.begin - (object[1] as usize) < 4096
            && (object[2] as usize) >= self.end;
        // SAFETY: an object lies there whose mapping holds these bytes, which were in its first
        // segment.
        inside
            && (self.build_id.0 == 0
                || unsafe { (self.build_id.0 as *const u64).read_unaligned() } == self.build_id.1)
    }

    fn same(&self, other: &Self) -> bool {
        (self.begin, self.end, self.build_id) == (other.begin, other.end, other.build_id)
    }
}

/// The stacks that a thread had.
#[derive(Default)]
pub struct Stacks {
    nodes: Vec<Node>,
    /// Open addressing: index of a node plus 1.
    slots: Vec<u32>,
    checks: Vec<Check>,
}

struct Node {
    /// The node before; [`ROOT`] for the beginning.
    parent: u32,
    /// Return address at the place that the parent names; of a beginning its key.
    address: usize,
    /// Distance from our stack pointer to the next return address; [`END`] or [`VARIES`].
    next: u32,
    site: u32,
    /// Which of the checks are this end's.
    checks: (u32, u32),
}

const ROOT: u32 = u32::MAX;
/// The stack is known from here on: the node has a site.
const END: u32 = 0;
/// The distance differs from time to time.
const VARIES: u32 = u32::MAX;

impl Stacks {
    /// A beginning: the function, and how the stack is aligned, on which the sizes of frames may
    /// depend.
    fn beginning(at: usize, function: u16) -> usize {
        (usize::from(function) << 12) | (at & 0xff0)
    }

    #[inline(always)]
    fn slot(&self, parent: u32, address: usize) -> usize {
        let hash = (address ^ (parent as usize).rotate_left(40))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
        (hash >> 32) & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn child(&self, parent: u32, address: usize) -> Option<u32> {
        let mut slot = self.slot(parent, address);
        loop {
            let index = self.slots.get(slot)?.checked_sub(1)?;
            let node = self.nodes.get(index as usize)?;
            if node.address == address && node.parent == parent {
                return Some(index);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// The site of the stack above `at`, if it is a known one.
    #[inline(always)]
    fn find(&self, at: usize, function: u16) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mut index = self.child(ROOT, Self::beginning(at, function))?;
        loop {
            let node = self.nodes.get(index as usize)?;
            match node.next {
                END => {
                    let (from, to) = (node.checks.0 as usize, node.checks.1 as usize);
                    return self
                        .checks
                        .get(from..to)?
                        .iter()
                        .all(Check::holds)
                        .then_some(node.site);
                }
                VARIES => return None,
                distance => {
                    // SAFETY: all return addresses below are those of the known stack, so that this
                    // place lies in the frame of an active function, above our own stack pointer.
                    index = self.child(index, unsafe {
                        ((at + distance as usize) as *const usize).read_volatile()
                    })?
                }
            }
        }
    }

    /// Remembers an unwound stack.
    fn learn(&mut self, at: usize, function: u16, frames: &[Found], site: u32, checks: Vec<Check>) {
        if self.nodes.len().max(self.checks.len()) + frames.len() + 1 > MOST_NODES {
            *self = Self::default();
        }
        let mut index = self.node(ROOT, Self::beginning(at, function));
        for Found { address, place } in frames {
            let distance = u32::try_from(place.wrapping_sub(at)).unwrap_or(VARIES);
            // SAFETY: the unwinder has just found a frame there. Where the address does not lie
            // there (signal frames), it is no place to look.
            let there = distance != VARIES
                && distance != END
                && unsafe { (*place as *const usize).read_volatile() } == *address;
            let Some(node) = self.nodes.get_mut(index as usize) else { return };
            let known = node.next;
            node.next = if there && ((known == END && node.site == 0) || known == distance) {
                distance
            } else {
                VARIES
            };
            if node.next == VARIES {
                return;
            }
            index = self.node(index, *address);
        }
        let from = self.checks.len() as u32;
        self.checks.extend(checks);
        let to = self.checks.len() as u32;
        if let Some(node) = self.nodes.get_mut(index as usize).filter(|n| n.next == END) {
            (node.site, node.checks) = (site, (from, to));
        }
    }

    /// The node of an address behind a node, which is made if there is none.
    fn node(&mut self, parent: u32, address: usize) -> u32 {
        if let Some(index) = (!self.slots.is_empty()).then(|| self.child(parent, address)).flatten()
        {
            return index;
        }
        let index = self.nodes.len() as u32;
        self.nodes.push(Node { parent, address, next: END, site: 0, checks: (0, 0) });
        if self.nodes.len() * 2 > self.slots.len() {
            self.slots = vec![0; (self.slots.len() * 2).max(256)];
            for index in 0..self.nodes.len() {
                self.place(index);
            }
        } else {
            self.place(index as usize);
        }
        index
    }

    fn place(&mut self, index: usize) {
        let Some(node) = self.nodes.get(index) else { return };
        let mut slot = self.slot(node.parent, node.address);
        while self.slots.get(slot).is_some_and(|s| *s != 0) {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        if let Some(place) = self.slots.get_mut(slot) {
            *place = index as u32 + 1;
        }
    }
}
