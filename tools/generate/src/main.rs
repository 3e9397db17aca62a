//! Writes what the recorder and the command know of the OpenCL API: one row per entry point
//! (`src/abi/table.rs`), the exported symbols (`src/exports.txt`), types of functions for who calls
//! them (`tools/opencl/src/signatures.rs`), and constants (`tools/trace/src/codes.rs`) with names of
//! values (`names/` beside it), from the Khronos registry `cl.xml` and the loader's `cl_icd.h`.
//! Neither input is committed; the output is.
//!
//!     cargo run -p clscope-generate -- cl.xml /usr/include/CL/cl_icd.h
#![forbid(unsafe_code)]

mod constants;
mod declared;
mod meaning;
mod registry;
mod table;

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [registry_path, icd_path] = arguments.as_slice() else {
        bail!("usage: clscope-generate CL_XML CL_ICD_H (run from the root of the repository)");
    };
    let xml = fs::read_to_string(registry_path)
        .with_context(|| format!("cannot read the registry {registry_path}"))?;
    let header = fs::read_to_string(icd_path)
        .with_context(|| format!("cannot read the loader's header {icd_path}"))?;
    let document = roxmltree::Document::parse(&xml)
        .with_context(|| format!("{registry_path} is not well-formed XML"))?;
    let registry = registry::read(&document)?;
    let dispatch = registry::dispatch_order(&header)?;
    write("src/abi/table.rs", &table::module(&registry, &dispatch)?)?;
    write("src/exports.txt", &table::exported_symbols(&registry))?;
    let typedefs = declared::Typedefs::read(&document);
    write("tools/opencl/src/signatures.rs", &declared::module(&registry, &typedefs)?)?;
    let mut used = BTreeSet::new();
    for folder in ["src", "tests", "tools"] {
        constants_in(Path::new(folder), &mut used)?;
    }
    let constants = constants::written(&document, &|name| used.contains(name))?;
    write("tools/trace/src/codes.rs", &constants.codes)?;
    write("tools/trace/src/names/errors.txt", &constants.errors)?;
    write("tools/trace/src/names/enums.txt", &constants.enums)?;
    Ok(())
}

/// Names of constants in the sources below a folder, but for their own module.
fn constants_in(folder: &Path, found: &mut BTreeSet<String>) -> Result<()> {
    let entries = fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            constants_in(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("codes.rs") {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            found.extend(words.filter(|word| word.starts_with("CL_")).map(str::to_owned));
        }
    }
    Ok(())
}

fn write(path: &str, text: &str) -> Result<()> {
    let target = Path::new(path);
    fs::write(target, text)
        .with_context(|| format!("cannot write {path}: run this from the root of the repository"))
}
