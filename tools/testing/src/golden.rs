//! Texts that are compared with committed files. A golden is written only on request, never because
//! it is missing: a wrong name must not pass.
#![forbid(unsafe_code)]

use std::path::Path;

/// Set to 1, it has goldens written anew; look at the difference. Any other value is an error.
pub const UPDATE: &str = "UPDATE_GOLDENS";

/// Compares a text with the committed file at `path`.
///
/// # Panics
/// Where they differ, with the first line that does; where the file is missing.
#[track_caller]
pub fn golden(path: &Path, found: &str) {
    let shown = path.display();
    match std::env::var(UPDATE).as_deref() {
        Err(std::env::VarError::NotPresent) => {}
        Ok("1") => {
            let folder = path.parent().expect("a golden lies in a folder");
            std::fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{shown}: {e}"));
            std::fs::write(path, found).unwrap_or_else(|e| panic!("{shown}: {e}"));
        }
        other => panic!("{UPDATE} is {other:?}: 1 writes goldens, no value compares with them"),
    }
    let kept = std::fs::read_to_string(path)
        .unwrap_or_else(|e| panic!("{shown}: {e}; {UPDATE}=1 writes it"));
    if kept == found {
        return;
    }
    let (mut old, mut new) = (kept.split('\n'), found.split('\n'));
    let mut line = 1;
    loop {
        match (old.next(), new.next()) {
            (Some(old), Some(new)) if old == new => line += 1,
            (old, new) => panic!(
                "{shown}:{line} differs; {UPDATE}=1 takes the new text\n committed: {old:?}\n     found: {new:?}\n--- the whole text found\n{found}"
            ),
        }
    }
}
