//! Owns the names of call sites (`record --call-sites`): module and address become function, file and line, from the symbol tables and
//! the DWARF of the files that the trace names, if they are here and of the same build. Refuses to guess: a file that has changed, or is
//! gone, gives `module+0xADDRESS`, and says so.
#![forbid(unsafe_code)]

use clscope_analysis::Trace;
use clscope_analysis::time::ProcessIndex;
use clscope_trace::defs::{Frame, Module};
use object::Object as _;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A frame of a call site with what is known of it.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Place {
    /// Path of the executable or library; null for code made at run time.
    pub module: Option<String>,
    /// Return address in it, as its file counts.
    pub address: u64,
    /// Function, demangled.
    pub function: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line in it.
    pub line: Option<u32>,
    /// In one line.
    pub text: String,
}

/// A call site with a name.
#[derive(Debug, Clone, Serialize)]
pub struct Named {
    /// Its frames in one line, the innermost first.
    pub name: String,
    /// Frames, the innermost first.
    pub frames: Vec<Place>,
}

/// The call sites of a trace.
#[derive(Debug, Clone, Default)]
pub struct Sites {
    by_id: HashMap<(u32, u32), Named>,
    /// Modules whose functions could not be named, and why.
    pub unnamed: BTreeMap<String, String>,
}

type Symbols = Result<addr2line::Loader, String>;

impl Sites {
    /// Names all sites of a trace; reads the files of their modules.
    pub fn of(trace: &Trace<'_>) -> Self {
        let mut out = Self::default();
        // A file is read once, whoever calls from it.
        let mut files: HashMap<(String, String), Symbols> = HashMap::new();
        for (process, of) in (0u32..).zip(&trace.processes) {
            let modules = &of.definitions.modules;
            for site in of.definitions.call_sites.values() {
                let frames: Vec<Place> = site.frames.iter().map(|f| out.place(f, modules.get(&f.module), &mut files)).collect();
                let name = frames.iter().map(|f| f.text.as_str()).collect::<Vec<_>>().join(" < ");
                out.by_id.insert((process, site.id), Named { name, frames });
            }
        }
        out
    }

    fn place(&mut self, frame: &Frame, module: Option<&Module>, files: &mut HashMap<(String, String), Symbols>) -> Place {
        let mut place =
            Place { module: None, address: frame.address, function: None, file: None, line: None, text: format!("{:#x}", frame.address) };
        let Some(module) = module else { return place };
        let short = module.path.rsplit('/').next().unwrap_or_default().to_owned();
        place.module = Some(module.path.clone());
        place.text = format!("{short}+{:#x}", frame.address);
        let symbols = files.entry((module.path.clone(), module.build_id.clone())).or_insert_with(|| open(module));
        match symbols {
            Ok(symbols) => name(&mut place, symbols, &short),
            Err(why) => drop(self.unnamed.insert(module.path.clone(), why.clone())),
        }
        place
    }

    /// A site by the process and the id of a record.
    pub fn get(&self, process: ProcessIndex, site: u32) -> Option<&Named> {
        self.by_id.get(&(process.0, site))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// All of them by name, each once.
    pub fn all(&self) -> BTreeMap<&str, &Named> {
        self.by_id.values().map(|named| (named.name.as_str(), named)).collect()
    }
}

/// The symbols of a module's file, if it is the file that was recorded.
fn open(module: &Module) -> Symbols {
    let path = Path::new(&module.path);
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    let file = object::File::parse(&*bytes).map_err(|e| e.to_string())?;
    let build_id = file.build_id().ok().flatten().unwrap_or_default();
    let hex: String = build_id.iter().map(|b| format!("{b:02x}")).collect();
    if hex != module.build_id {
        return Err("it is another build than the one that was recorded".to_owned());
    }
    drop(bytes);
    addr2line::Loader::new(path).map_err(|e| e.to_string())
}

fn name(place: &mut Place, symbols: &addr2line::Loader, module: &str) {
    // The call stands before the address it returns to.
    let at = place.address.saturating_sub(1);
    if let Ok(mut frames) = symbols.find_frames(at)
        && let Ok(Some(frame)) = frames.next()
    {
        place.function = frame.function.as_ref().and_then(|f| f.demangle().ok()).map(std::borrow::Cow::into_owned);
        if let Some(location) = frame.location {
            place.file = location.file.map(str::to_owned);
            place.line = location.line.filter(|line| *line != 0);
        }
    }
    let symbol = symbols.find_symbol_info(at);
    if let (None, Some(symbol)) = (&place.function, &symbol) {
        place.function = Some(addr2line::demangle_auto(symbol.name().into(), None).into_owned());
    }
    let Some(function) = &place.function else { return };
    place.text = match (&place.file, place.line, symbol) {
        (Some(file), Some(line), _) => format!("{function} ({}:{line})", file.rsplit('/').next().unwrap_or(file)),
        (_, _, Some(symbol)) => format!("{function}+{:#x} in {module}", place.address.saturating_sub(symbol.address())),
        _ => format!("{function} in {module}"),
    };
}
