//! Where OpenCL may lie: loaders by name and by folder, and drivers that loaders are told of by
//! variables which not every loader reads. Owns the order in which they are tried; refuses to try
//! them where nobody asked for a device.

#![forbid(unsafe_code)]

use crate::device::{Device, list};
use crate::error::ClError;
use crate::{NAMES, OpenCl};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Folders in which systems and vendors put loaders.
const FOLDERS: [&str; 10] = [
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/cuda/lib64",
    "/opt/rocm/lib",
    "/opt/intel/oneapi/compiler/latest/lib",
    "/opt/intel/oneapi/lib",
];
/// Where loaders look for drivers unless they are told otherwise.
const VENDORS: &str = "/etc/OpenCL/vendors";

/// Libraries beside the loader of the system that may give devices: loaders in other folders, then
/// the drivers that `OCL_ICD_FILENAMES`, `OCL_ICD_VENDORS` and `OPENCL_VENDOR_PATH` name.
pub fn libraries(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let split = |value: OsString| std::env::split_paths(&value).collect::<Vec<_>>();
    let folders = set("LD_LIBRARY_PATH").map(split).unwrap_or_default();
    let folders = folders.into_iter().chain(FOLDERS.map(PathBuf::from));
    let mut out: Vec<PathBuf> = Vec::new();
    for path in folders.flat_map(|folder| NAMES.map(|name| folder.join(name))) {
        // One library under several names is tried once.
        if let Ok(path) = path.canonicalize()
            && !out.contains(&path)
        {
            out.push(path);
        }
    }
    out.extend(set("OCL_ICD_FILENAMES").map(split).unwrap_or_default());
    let places: Vec<PathBuf> = ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"]
        .into_iter()
        .filter_map(set)
        .map(PathBuf::from)
        .collect();
    let places = if places.is_empty() { vec![PathBuf::from(VENDORS)] } else { places };
    out.extend(places.iter().flat_map(|place| drivers(place)));
    out
}

/// Drivers of a folder of `.icd` files, or of one, or a driver itself.
fn drivers(place: &Path) -> Vec<PathBuf> {
    let is_icd = |path: &Path| path.extension().is_some_and(|ending| ending == "icd");
    let mut files: Vec<PathBuf> = match std::fs::read_dir(place) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).filter(|p| is_icd(p)).collect(),
        Err(_) if is_icd(place) => vec![place.to_owned()],
        Err(_) if place.is_file() => return vec![place.to_owned()],
        Err(_) => Vec::new(),
    };
    files.sort();
    let library = |file: PathBuf| {
        let text = std::fs::read_to_string(file).ok()?;
        let name = text.lines().next()?.trim();
        (!name.is_empty()).then(|| PathBuf::from(name))
    };
    files.into_iter().filter_map(library).collect()
}

impl OpenCl {
    /// The devices of a library; without one those of the loader of the system, or of the first of
    /// `others` whose devices hold what is wanted. Where none does, those of the first that has any.
    ///
    /// # Errors
    /// What the loader of the system said, where no other has a device.
    pub fn devices(
        path: Option<&str>,
        others: &[PathBuf],
        is_wanted: &dyn Fn(&[Device]) -> bool,
    ) -> Result<Vec<Device>, ClError> {
        let first = Self::open(path).and_then(|opencl| list(&opencl));
        if path.is_some() || first.as_ref().is_ok_and(|devices| is_wanted(devices)) {
            return first;
        }
        let mut any = None;
        for path in others {
            let Some(path) = path.to_str() else { continue };
            let Ok(devices) = Self::open(Some(path)).and_then(|opencl| list(&opencl)) else {
                continue;
            };
            if is_wanted(&devices) {
                return Ok(devices);
            }
            if !devices.is_empty() {
                any.get_or_insert(devices);
            }
        }
        match (first, any) {
            (Ok(devices), _) if !devices.is_empty() => Ok(devices),
            (_, Some(devices)) => Ok(devices),
            (first, None) => first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_those_that_variables_name() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        put("b.icd", "libb.so\nmore\n");
        put("a.icd", "/opt/a/liba.so");
        put("none.icd", "\n");
        put("readme.txt", "libc.so");
        put("driver.so", "");
        let found = |name: &'static str, value: PathBuf| {
            let all = libraries(&move |asked| (asked == name).then(|| value.clone().into()));
            let known =
                libraries(&|asked| (asked == "OCL_ICD_VENDORS").then(|| "/nonexistent".into()));
            all.into_iter().filter(|one| !known.contains(one)).collect::<Vec<_>>()
        };
        let both = ["/opt/a/liba.so", "libb.so"].map(PathBuf::from);
        assert_eq!(found("OCL_ICD_VENDORS", folder.path().into()), both);
        assert_eq!(found("OPENCL_VENDOR_PATH", folder.path().into()), both);
        assert_eq!(found("OCL_ICD_VENDORS", folder.path().join("b.icd")), both[1..]);
        let driver = folder.path().join("driver.so");
        assert_eq!(found("OCL_ICD_VENDORS", driver.clone()), [driver]);
        let names = libraries(&|name| match name {
            "OCL_ICD_FILENAMES" => Some("libx.so:/y/liby.so".into()),
            "OCL_ICD_VENDORS" => Some("/nonexistent".into()),
            _ => None,
        });
        assert!(names.ends_with(&["libx.so", "/y/liby.so"].map(PathBuf::from)), "{names:?}");
    }

    #[test]
    fn loaders_in_folders_are_found_once() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("libOpenCL.so.1");
        std::fs::write(&real, "").unwrap();
        std::os::unix::fs::symlink(&real, folder.path().join("libOpenCL.so")).unwrap();
        let found = libraries(&|name| (name == "LD_LIBRARY_PATH").then(|| folder.path().into()));
        assert_eq!(found.first(), Some(&real.canonicalize().unwrap()));
        assert_eq!(found.iter().filter(|one| one.starts_with(folder.path())).count(), 1);
    }
}
