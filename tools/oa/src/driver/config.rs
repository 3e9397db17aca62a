//! Configurations of the OA unit: lists of registers that a metric set needs, and the UUID under
//! which the kernel keeps them. Owns finding loaded ones in sysfs; refuses to derive register
//! lists: they come from published metric sets.
#![forbid(unsafe_code)]

use crate::error::OaError;
use crate::flex::{FlexError, Programmed, encode};
use clscope_sensors::files::{Files, Roots};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// A register and the value it is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    /// MMIO address.
    pub address: u32,
    /// Value.
    pub value: u32,
}

/// The 36 characters of a UUID, lower case.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid([u8; 36]);

impl Uuid {
    /// The characters.
    pub fn as_bytes(&self) -> &[u8; 36] {
        &self.0
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// A UUID that identifies these registers: the same lists give the same one, so that a
    /// configuration made by hand is loaded once. Version 8 of RFC 9562 (vendor-specific), hashed
    /// with FNV-1a.
    pub fn of_registers(lists: &Registers) -> Uuid {
        let mut halves = [0xcbf2_9ce4_8422_2325u64, 0x6c62_272e_07bb_0142];
        let lists = [&lists.mux, &lists.boolean, &lists.flex];
        for (list, registers) in lists.iter().enumerate() {
            for word in registers
                .iter()
                .flat_map(|r| [r.address, r.value])
                .chain([list as u32, registers.len() as u32])
            {
                for byte in word.to_le_bytes() {
                    for half in &mut halves {
                        *half = (*half ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                    }
                }
            }
        }
        let high = halves[0] & !0xf000 | 0x8000;
        let low = halves[1] & !(3 << 62) | 2 << 62;
        let hex = format!("{high:016x}{low:016x}");
        let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
        let text = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-");
        text.parse().unwrap_or(Uuid([b'0'; 36]))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Not a UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no UUID (like 12994724-3a5a-4303-bb3c-ba0175d2c200)")]
pub struct NoUuid(pub String);

impl FromStr for Uuid {
    type Err = NoUuid;

    fn from_str(text: &str) -> Result<Uuid, NoUuid> {
        let bytes: [u8; 36] = text
            .to_ascii_lowercase()
            .into_bytes()
            .try_into()
            .map_err(|_| NoUuid(text.to_owned()))?;
        let fits = |(i, b): (usize, &u8)| {
            if matches!(i, 8 | 13 | 18 | 23) { *b == b'-' } else { b.is_ascii_hexdigit() }
        };
        if bytes.iter().enumerate().all(fits) {
            Ok(Uuid(bytes))
        } else {
            Err(NoUuid(text.to_owned()))
        }
    }
}

/// The lists of a configuration. xe has one list and takes them joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Routing of signals (NOA).
    pub mux: Vec<Register>,
    /// Boolean counters.
    pub boolean: Vec<Register>,
    /// EU counters: EU_PERF_CNTL0 to 6 alone.
    pub flex: Vec<Register>,
}

impl Registers {
    /// With these EU events in place of what the flexible registers had.
    ///
    /// # Errors
    /// [`FlexError`].
    pub fn with_events(mut self, events: &[Programmed]) -> Result<Registers, FlexError> {
        self.flex = encode(&self.flex, events)?;
        Ok(self)
    }

    /// All in one list, as xe takes them.
    pub fn joined(&self) -> Vec<Register> {
        [&self.mux, &self.boolean, &self.flex].into_iter().flatten().copied().collect()
    }
}

/// The kernel's number of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigId(pub u64);

/// Looks a loaded configuration up in `class/drm/cardN/metrics/UUID/id`.
///
/// # Errors
/// [`OaError::ConfigNotLoaded`] where there is none; [`OaError::Sysfs`] where its file makes no
/// sense.
pub fn find_loaded(
    files: &dyn Files,
    roots: &Roots,
    card: &str,
    uuid: &Uuid,
) -> Result<ConfigId, OaError> {
    let path =
        roots.sys.join("class/drm").join(card).join("metrics").join(uuid.as_str()).join("id");
    match files.text(&path) {
        Ok(text) => text
            .trim()
            .parse()
            .map(ConfigId)
            .map_err(|_| OaError::Sysfs { path, found: text.chars().take(40).collect() }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(OaError::ConfigNotLoaded { uuid: *uuid, path })
        }
        Err(source) => Err(OaError::SysfsIo { path, source }),
    }
}

/// What a driver's answer to loading a configuration means.
pub(crate) fn added(
    answer: io::Result<i32>,
    what: &'static str,
    uuid: &Uuid,
    error: impl FnOnce(io::Error) -> OaError,
) -> Result<ConfigId, OaError> {
    match answer {
        Ok(id) => u64::try_from(id).map(ConfigId).map_err(|_| OaError::Answer { what, bytes: 0 }),
        Err(e) if e.raw_os_error() == Some(libc::EADDRINUSE) => {
            Err(OaError::AlreadyLoaded { uuid: *uuid })
        }
        Err(e) => Err(error(e)),
    }
}

/// The number of a configuration: looked up, else loaded from `lists` by `add`. Says whether it was
/// loaded here.
///
/// # Errors
/// [`OaError::ConfigNotLoaded`] where it is not loaded and there are no lists; else those of `add`.
pub(crate) fn ensure(
    (files, roots, card): (&dyn Files, &Roots, &str),
    uuid: &Uuid,
    lists: Option<&Registers>,
    add: impl FnOnce(&Registers) -> Result<ConfigId, OaError>,
) -> Result<(ConfigId, bool), OaError> {
    let not_loaded = match find_loaded(files, roots, card, uuid) {
        Ok(id) => return Ok((id, false)),
        Err(error) => error,
    };
    let (OaError::ConfigNotLoaded { .. }, Some(lists)) = (&not_loaded, lists) else {
        return Err(not_loaded);
    };
    match add(lists) {
        Ok(id) => Ok((id, true)),
        // Somebody was faster.
        Err(OaError::AlreadyLoaded { .. }) => {
            find_loaded(files, roots, card, uuid).map(|id| (id, false))
        }
        Err(error) => Err(error),
    }
}

/// All loaded configurations of a card.
pub fn loaded(files: &dyn Files, roots: &Roots, card: &str) -> Vec<(Uuid, ConfigId)> {
    let names =
        files.list(&roots.sys.join("class/drm").join(card).join("metrics")).unwrap_or_default();
    let found = |name: &String| {
        let uuid: Uuid = name.parse().ok()?;
        Some((uuid, find_loaded(files, roots, card, &uuid).ok()?))
    };
    names.iter().filter_map(found).collect()
}

/// A render node and the card it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `card0`.
    pub card: String,
    /// `renderD128`; `None` where the card has none.
    pub render: Option<String>,
    /// `i915`, `xe`, ...
    pub driver: String,
    /// PCI address.
    pub pci: Option<String>,
    /// PCI device id.
    pub device_id: Option<u32>,
}

impl Node {
    /// Its device file: the render node, where there is one.
    pub fn path(&self, roots: &Roots) -> PathBuf {
        roots.dev.join("dri").join(self.render.as_ref().unwrap_or(&self.card))
    }
}

/// The cards of the drivers that have OA streams, in order.
pub fn nodes(files: &dyn Files, roots: &Roots) -> Vec<Node> {
    let class = roots.sys.join("class/drm");
    let names = files.list(&class).unwrap_or_default();
    let cards = names.iter().filter(|n| {
        n.strip_prefix("card")
            .is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
    });
    let node = |card: &String| {
        let device = class.join(card).join("device");
        let driver = files
            .link_target_name(&device.join("driver"))
            .ok()
            .filter(|d| d == "i915" || d == "xe")?;
        let render = files
            .list(&device.join("drm"))
            .unwrap_or_default()
            .into_iter()
            .find(|n| n.starts_with("renderD"));
        let device_id = files
            .text(&device.join("device"))
            .ok()
            .and_then(|t| u32::from_str_radix(t.trim().trim_start_matches("0x"), 16).ok());
        Some(Node {
            card: card.clone(),
            render,
            driver,
            pci: files.link_target_name(&device).ok(),
            device_id,
        })
    };
    cards.filter_map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_sensors::files::System;

    #[test]
    fn uuids_are_checked_and_made() {
        let text = "12994724-3A5A-4303-bb3c-ba0175d2c200";
        assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text.to_ascii_lowercase());
        for bad in [
            "",
            "12994724-3a5a-4303-bb3c-ba0175d2c20",
            "12994724x3a5a-4303-bb3c-ba0175d2c200",
            "../../../../etc/passwd/////////////////",
        ] {
            assert!(bad.parse::<Uuid>().is_err(), "{bad}");
        }
        let one = Registers {
            flex: vec![Register { address: 0xe458, value: 1904 }],
            ..Registers::default()
        };
        let other = Registers { boolean: one.flex.clone(), ..Registers::default() };
        let uuid = Uuid::of_registers(&one);
        assert_eq!(uuid, Uuid::of_registers(&one.clone()));
        assert_ne!(uuid, Uuid::of_registers(&other));
        assert_eq!(
            (&uuid.as_str()[14..15], "89ab".contains(&uuid.as_str()[19..20])),
            ("8", true),
            "{uuid}"
        );
    }

    #[test]
    fn loaded_configurations_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::below(dir.path());
        let uuid: Uuid = "12994724-3a5a-4303-bb3c-ba0175d2c200".parse().unwrap();
        let metrics = dir.path().join("sys/class/drm/card1/metrics").join(uuid.as_str());
        std::fs::create_dir_all(&metrics).unwrap();
        assert!(matches!(
            find_loaded(&System, &roots, "card1", &uuid),
            Err(OaError::ConfigNotLoaded { .. })
        ));
        std::fs::write(metrics.join("id"), "7\n").unwrap();
        assert_eq!(find_loaded(&System, &roots, "card1", &uuid).unwrap(), ConfigId(7));
        assert_eq!(loaded(&System, &roots, "card1"), [(uuid, ConfigId(7))]);
        std::fs::write(metrics.join("id"), "seven").unwrap();
        let error = find_loaded(&System, &roots, "card1", &uuid).unwrap_err();
        assert!(matches!(&error, OaError::Sysfs { found, .. } if found == "seven"), "{error}");
        assert_eq!(loaded(&System, &roots, "card1"), []);
    }

    #[test]
    fn cards_are_found_with_their_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::below(dir.path());
        let pci = dir.path().join("sys/devices/0000:00:02.0");
        std::fs::create_dir_all(pci.join("drm/renderD128")).unwrap();
        std::fs::create_dir_all(dir.path().join("sys/drivers/i915")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("sys/drivers/i915"), pci.join("driver"))
            .unwrap();
        std::fs::write(pci.join("device"), "0x5916\n").unwrap();
        let card = dir.path().join("sys/class/drm/card0");
        std::fs::create_dir_all(&card).unwrap();
        std::fs::create_dir_all(dir.path().join("sys/class/drm/card0-HDMI-A-1")).unwrap();
        std::os::unix::fs::symlink(&pci, card.join("device")).unwrap();
        let want = Node {
            card: "card0".into(),
            render: Some("renderD128".into()),
            driver: "i915".into(),
            pci: Some("0000:00:02.0".into()),
            device_id: Some(0x5916),
        };
        assert_eq!(nodes(&System, &roots), [want]);
    }
}
