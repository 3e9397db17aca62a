//! What a test needs of the machine. A test that lacks something says that it is skipped, and fails
//! where the set-up script has promised it.
#![forbid(unsafe_code)]

use std::os::unix::fs::PermissionsExt;

/// Says why a test, or a part of one, does not run here, and adds it to the file that
/// `CLSCOPE_TEST_SKIPPED` names, if it does. What the set-up script installs is never
/// skipped there: it sets `CLSCOPE_TEST_STRICT`, and then a missing part is a failure.
///
/// # Panics
/// Where `CLSCOPE_TEST_STRICT` is set and the reason is one that the set-up takes away.
#[track_caller]
pub fn skip(reason: &str, mended_by_setup: bool) {
    assert!(
        !(mended_by_setup && std::env::var_os("CLSCOPE_TEST_STRICT").is_some()),
        "not run, although the set-up was: {reason}"
    );
    eprintln!("skipped: {reason}");
    // What passes has its output hidden: the script prints this list at its end.
    if let Some(list) = std::env::var_os("CLSCOPE_TEST_SKIPPED") {
        let at = std::panic::Location::caller();
        let line = format!("{reason} ({}:{})\n", at.file(), at.line());
        let written = std::fs::OpenOptions::new().create(true).append(true).open(&list);
        written
            .and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes()))
            .unwrap_or_else(|e| eprintln!("cannot write {}: {e}", list.display()));
    }
}

/// Whether `PATH` leads to a program of that name.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| {
        std::fs::metadata(folder.join(program))
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    })
}
