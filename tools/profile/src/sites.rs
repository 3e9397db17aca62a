//! Owns the names of call sites (`record --call-sites`): module and address become function, file
//! and line, from the symbol tables and the DWARF of the files that the trace names, if they are
//! here and of the same build. Refuses to guess: a file that has changed, or is gone, and an
//! address that no symbol covers, give `module+0xADDRESS`.

use crate::error::SymbolsError;
use clscope_analysis::Trace;
use clscope_analysis::time::ProcessIndex;
use clscope_io::input;
use clscope_trace::defs::{Frame, Module};
use clscope_trace::ids::hex;
use object::{Object as _, ObjectSymbol as _};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A frame of a call site with what is known of it.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq, schemars::JsonSchema)]
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
    /// Whether the function was inlined into that of the next place, whose address it shares.
    pub inlined: bool,
    /// In one line.
    pub text: String,
}

/// A call site with a name.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Named {
    /// Its frames in one line, the innermost first.
    pub name: String,
    /// Frames, the innermost first; one frame may be several functions, all but the last of them
    /// inlined.
    pub frames: Vec<Place>,
}

/// The call sites of a trace.
#[derive(Debug, Clone, Default)]
pub struct Sites {
    by_id: HashMap<(u32, u32), Named>,
    /// Modules whose functions could not be named, and why.
    pub unnamed: BTreeMap<String, String>,
}

/// What names the functions of one file.
struct Symbols {
    loader: addr2line::Loader,
    /// Sizes of the symbols in the file's own tables, by address: a table without the static
    /// functions has gaps.
    sizes: HashMap<u64, u64>,
}

impl Sites {
    /// Names all sites of a trace; reads the files of their modules.
    pub fn of_trace(trace: &Trace<'_>) -> Self {
        let mut out = Self::default();
        // A file is read once, whoever calls from it.
        let mut files: HashMap<(String, String), Result<Symbols, SymbolsError>> = HashMap::new();
        for (process, of) in (0u32..).zip(&trace.processes) {
            let modules = &of.definitions.modules;
            for site in of.definitions.call_sites.values() {
                let frames: Vec<Place> = site
                    .frames
                    .iter()
                    .flat_map(|f| out.places(f, modules.get(&f.module), &mut files))
                    .collect();
                let name = frames.iter().map(|f| f.text.as_str()).collect::<Vec<_>>().join(" < ");
                out.by_id.insert((process, site.id), Named { name, frames });
            }
        }
        out
    }

    fn places(
        &mut self,
        frame: &Frame,
        module: Option<&Module>,
        files: &mut HashMap<(String, String), Result<Symbols, SymbolsError>>,
    ) -> Vec<Place> {
        let address = frame.address;
        let mut bare = Place { address, text: format!("{address:#x}"), ..Place::default() };
        let Some(module) = module else { return vec![bare] };
        let short = module.path.rsplit('/').next().unwrap_or_default();
        bare.module = Some(module.path.clone());
        bare.text = format!("{short}+{address:#x}");
        let symbols = files
            .entry((module.path.clone(), module.build_id.clone()))
            .or_insert_with(|| open(module));
        match symbols {
            Ok(symbols) => named(bare, symbols, short),
            Err(why) => {
                self.unnamed.insert(module.path.clone(), why.to_string());
                vec![bare]
            }
        }
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

/// Most bytes of an executable or library that is looked into.
const MODULE: u64 = 2 << 30;

/// The symbols of a module's file, if it is the file that was recorded.
fn open(module: &Module) -> Result<Symbols, SymbolsError> {
    let path = Path::new(&module.path);
    // A trace names any file it likes.
    let bytes = input::read(path, MODULE).map_err(SymbolsError::Read)?;
    let file = object::File::parse(&*bytes).map_err(|e| SymbolsError::Format(Box::new(e)))?;
    let build_id = file.build_id().ok().flatten().unwrap_or_default();
    if hex(build_id) != module.build_id {
        return Err(SymbolsError::OtherBuild);
    }
    let mut sizes = HashMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let size = sizes.entry(symbol.address()).or_insert(0);
        *size = symbol.size().max(*size);
    }
    let loader = addr2line::Loader::new(path).map_err(SymbolsError::Format)?;
    Ok(Symbols { loader, sizes })
}

impl Symbols {
    /// Name and beginning of the function at an address, by the symbol table. The nearest symbol
    /// before an address is another function's where the table leaves some out.
    fn function(&self, at: u64) -> Option<(String, u64)> {
        let symbol = self.loader.find_symbol_info(at)?;
        let begin = symbol.address();
        let covers = self.sizes.get(&begin).is_none_or(|size| at - begin < *size);
        covers.then(|| (addr2line::demangle_auto(symbol.name().into(), None).into_owned(), begin))
    }
}

/// The functions of a frame, the innermost first: those inlined into each other, then the one that
/// the address lies in.
fn named(bare: Place, symbols: &Symbols, module: &str) -> Vec<Place> {
    // The call stands before the address it returns to.
    let at = bare.address.saturating_sub(1);
    let mut places = Vec::new();
    if let Ok(mut frames) = symbols.loader.find_frames(at) {
        while let Ok(Some(frame)) = frames.next() {
            let mut place = bare.clone();
            place.function =
                frame.function.as_ref().and_then(|f| f.demangle().ok()).map(Cow::into_owned);
            if let Some(location) = frame.location {
                place.file = location.file.map(str::to_owned);
                place.line = location.line.filter(|line| *line != 0);
            }
            places.push(place);
        }
    }
    if places.is_empty() {
        places.push(bare);
    }
    let symbol = symbols.function(at);
    let outermost = places.len() - 1;
    for (i, place) in places.iter_mut().enumerate() {
        place.inlined = i < outermost;
        let by_table = symbol.as_ref().filter(|_| !place.inlined);
        if let (None, Some((function, _))) = (&place.function, by_table) {
            place.function = Some(function.clone());
        }
        let Some(function) = &place.function else { continue };
        let inlined = if place.inlined { ", inlined" } else { "" };
        place.text = match (&place.file, place.line, by_table) {
            (Some(file), Some(line), _) => {
                format!("{function} ({}:{line}{inlined})", file.rsplit('/').next().unwrap_or(file))
            }
            (_, _, Some((_, begin))) => {
                format!("{function}+{:#x} in {module}", place.address.saturating_sub(*begin))
            }
            _ => format!("{function} in {module}{inlined}"),
        };
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_testing::Limited;
    use std::process::Command;

    const SOURCE: &str = "__attribute__((visibility(\"default\"), noinline)) int shown(int x) { __asm__ volatile(\"\"); return x + 1; }
__attribute__((visibility(\"hidden\"), noinline)) int hidden(int x) { __asm__ volatile(\"\"); return shown(x) * 3; }
static inline __attribute__((always_inline)) int wrapper(int x) { return hidden(x) + 2; }
__attribute__((visibility(\"default\"), noinline)) int caller(int x) {
    return wrapper(x) * 5;
}
";

    /// The library of [`SOURCE`] as a module, and what lies where in it.
    fn library(folder: &Path, stripped: bool) -> (Module, HashMap<String, (u64, u64)>) {
        let (source, path) = (folder.join("l.c"), folder.join("l.so"));
        std::fs::write(&source, SOURCE).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let done = Command::new(program).args(arguments).current_dir(folder).ended();
            assert!(done.status.success(), "{program} {arguments:?}: {done:?}");
        };
        run(
            "gcc",
            &[
                "-g",
                "-O1",
                "-fPIC",
                "-shared",
                "-fno-toplevel-reorder",
                "-Wl,--build-id",
                "-o",
                "l.so",
                "l.c",
            ],
        );
        let bytes = std::fs::read(&path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let places = file
            .symbols()
            .map(|s| (s.name().unwrap().to_owned(), (s.address(), s.size())))
            .collect();
        let build_id = hex(file.build_id().unwrap().unwrap());
        if stripped {
            run("strip", &["l.so"]);
        }
        (Module { path: path.display().to_string(), build_id, ..Module::default() }, places)
    }

    /// The frame that returns to the middle of a function.
    fn frame(module: &Module, (begin, size): (u64, u64)) -> Vec<Place> {
        let mut sites = Sites::default();
        let places = sites.places(
            &Frame { module: 0, address: begin + size - 1 },
            Some(module),
            &mut HashMap::new(),
        );
        assert!(sites.unnamed.is_empty(), "{:?}", sites.unnamed);
        places
    }

    #[test]
    fn a_function_that_the_table_leaves_out_is_not_named_after_its_neighbour() {
        let folder = tempfile::tempdir().unwrap();
        let (module, at) = library(folder.path(), true);
        let [place] = &frame(&module, at["shown"])[..] else { panic!("one function") };
        assert!(
            place.function.as_deref() == Some("shown") && place.text.starts_with("shown+0x"),
            "{place:?}"
        );
        let [place] = &frame(&module, at["hidden"])[..] else { panic!("one function") };
        assert_eq!(
            (place.function.as_deref(), place.text.as_str()),
            (None, format!("l.so+{:#x}", place.address).as_str())
        );
    }

    #[test]
    fn functions_inlined_into_each_other_are_all_named() {
        let folder = tempfile::tempdir().unwrap();
        let (module, at) = library(folder.path(), false);
        let (begin, size) = at["caller"];
        // Some address of `caller` is the inlined call's.
        let frames: Vec<_> = (1..=size)
            .map(|n| {
                Sites::default().places(
                    &Frame { module: 0, address: begin + n },
                    Some(&module),
                    &mut HashMap::new(),
                )
            })
            .filter(|places| places.len() == 2)
            .collect();
        let [inner, outer] = &frames.first().expect("wrapper is inlined")[..] else {
            panic!("two functions")
        };
        assert_eq!((inner.text.as_str(), inner.inlined), ("wrapper (l.c:3, inlined)", true));
        assert_eq!((outer.text.as_str(), outer.inlined), ("caller (l.c:5)", false));
        assert_eq!(inner.address, outer.address);
    }
}
