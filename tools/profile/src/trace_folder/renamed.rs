//! The definitions file of a process whose captured launches get other folders, as where two traces
//! are put into one: its definitions name the folders. Owns that all else of the file stays as it
//! is, byte for byte. Refuses to judge what it holds: what cannot be read is copied.

use clscope_trace::defs::{self, Def, Defs};
use clscope_trace::file::HEADER_LEN;
use std::collections::BTreeMap;

/// The file's bytes with the folders of captures renamed.
pub fn captures(file: &[u8], names: &BTreeMap<String, String>) -> Vec<u8> {
    let mut out = Vec::with_capacity(file.len());
    let Some(header) = file.get(..HEADER_LEN) else { return file.to_vec() };
    out.extend_from_slice(header);
    let mut all = Defs::new(file);
    let mut from = HEADER_LEN;
    while let Some(def) = all.next() {
        let until = file.len() - all.rest();
        match def {
            Def::Capture(mut capture) if names.contains_key(&capture.folder) => {
                capture.folder.clone_from(&names[&capture.folder]);
                defs::encode(&capture.into(), &mut out);
            }
            _ => out.extend_from_slice(&file[from..until]),
        }
        from = until;
    }
    out.extend_from_slice(&file[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_renamed_and_all_else_stays() {
        let capture = |folder: &str| defs::Capture { folder: folder.into(), ..Default::default() };
        let made = |folder: &str| {
            let mut file = vec![7; HEADER_LEN];
            defs::encode(&defs::Exit { ticks: 1, pending: 2 }.into(), &mut file);
            defs::encode(&capture(folder).into(), &mut file);
            defs::encode(&capture("other.1").into(), &mut file);
            file.extend([1, 2, 3]);
            file
        };
        let names = BTreeMap::from([("k.1".to_owned(), "k.1-2".to_owned())]);
        assert_eq!(captures(&made("k.1"), &names), made("k.1-2"));
        assert_eq!(captures(&made("k.2"), &names), made("k.2"));
        assert_eq!(captures(&[1, 2], &names), [1, 2]);
    }
}
