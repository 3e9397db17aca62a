//! What programs were compiled from, followed in runs that capture launches: the text, and the
//! headers that clCompileProgram took beside it. The application may release all of that before the
//! launch. Refuses to keep the texts of programs that are built in one step: the runtime hands them
//! out.

use super::{info, objects};
use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashMap;
use crate::runtime::functions as api;
use std::ffi::CStr;
use std::sync::Arc;

/// Most bytes of texts that a process keeps.
const MOST: usize = 64 << 20;
/// Most headers of a program.
const MOST_HEADERS: usize = 1024;

/// A text that a source includes by a name.
pub struct Header {
    pub name: String,
    pub text: Vec<u8>,
}

/// A source with its headers, and the options it was compiled with.
pub struct Unit {
    pub source: Vec<u8>,
    pub headers: Vec<Header>,
    pub options: String,
}

impl Unit {
    fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|header| header.text.len() + header.name.len());
        headers.fold(self.source.len(), usize::saturating_add)
    }
}

/// A unit, or why it is not known.
pub type Found = Result<Arc<Unit>, String>;

/// Of compiled and linked programs, by handle.
#[derive(Default)]
struct Known {
    units: HashMap<usize, Found>,
    bytes: usize,
}

static KNOWN: ForkSafe<Known> = ForkSafe::new();

/// The source of a program, without NUL characters behind it.
fn source(slot: usize, program: H) -> Result<Vec<u8>, String> {
    // A handle that is not known may be none.
    let program = Some(program).filter(|handle| objects::id(*handle) != 0);
    let about = api::clGetProgramInfo.behind(slot);
    let text = program.and_then(|of| info::bytes_up_to(about, of, cl::CL_PROGRAM_SOURCE, MOST));
    let mut text = text.unwrap_or_default();
    text.truncate(text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    let is_text = !text.is_empty() && !text.contains(&0);
    is_text.then_some(text).ok_or_else(|| "the runtime does not hand out its text".to_owned())
}

/// Reads what a program is about to be compiled from, before the call: behind it the application
/// may have released the headers.
///
/// # Errors
/// What of it cannot be read.
///
/// # Safety
/// `headers` and `names` are the application's: NULL, or `count` entries each, names C strings.
pub unsafe fn read(
    slot: usize,
    program: H,
    count: u32,
    headers: *const H,
    names: P,
) -> Result<Unit, String> {
    let mut unit =
        Unit { source: source(slot, program)?, headers: Vec::new(), options: String::new() };
    let count = if headers.is_null() || names.is_null() { 0 } else { count as usize };
    if count > MOST_HEADERS {
        return Err(format!("it has {count} headers, and at most {MOST_HEADERS} are kept"));
    }
    for index in 0..count {
        // SAFETY: the caller's promise.
        let (header, name) =
            unsafe { (*headers.add(index), *names.cast::<*const std::ffi::c_char>().add(index)) };
        if name.is_null() {
            return Err(format!("header {index} has no name"));
        }
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) }.to_str();
        let name = name.map_err(|_| format!("the name of header {index} is no UTF-8"))?;
        let text = source(slot, header).map_err(|why| format!("header {index}: {why}"))?;
        unit.headers.push(Header { name: name.to_owned(), text });
    }
    Ok(unit)
}

/// A program was compiled.
pub fn compiled(program: H, unit: Result<Unit, String>) {
    KNOWN.with(|known| {
        let found = unit.and_then(|unit| {
            let bytes = unit.bytes();
            if known.bytes.saturating_add(bytes) > MOST {
                return Err(format!("the process has compiled {MOST} bytes of texts, the most"));
            }
            known.bytes += bytes;
            Ok(Arc::new(unit))
        });
        known.units.insert(program.word(), found);
    });
}

/// A program was linked from others, with options.
pub fn linked(program: H, from: &[H], options: &str) {
    KNOWN.with(|known| {
        let found = match from {
            _ if !options.trim().is_empty() => {
                Err(format!("the program was linked with options ({})", options.trim()))
            }
            [only] => known.units.get(&only.word()).cloned().unwrap_or_else(|| {
                Err("how the program that it was linked from was compiled is not known".to_owned())
            }),
            several => Err(format!(
                "the program was linked from {} others, whose texts are in the trace's folder \
                 programs",
                several.len()
            )),
        };
        known.units.insert(program.word(), found);
    });
}

/// The handle stands for another program now.
pub fn forget(program: H) {
    KNOWN.with(|known| {
        let unit = known.units.remove(&program.word());
        if let Some(Ok(unit)) = unit
            && let Ok(unit) = Arc::try_unwrap(unit)
        {
            known.bytes = known.bytes.saturating_sub(unit.bytes());
        }
    });
}

/// What a compiled or linked program was made from.
///
/// # Errors
/// Why it is not known.
pub fn unit(program: H) -> Found {
    let found = KNOWN.with(|known| known.units.get(&program.word()).cloned()).flatten();
    found.unwrap_or_else(|| Err("how the program was linked was not seen".to_owned()))
}
