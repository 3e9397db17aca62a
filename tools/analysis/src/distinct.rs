//! Owns what tells apart devices and kernels that others have the name of: of a device its place
//! among those of its host and its PCI address, of a sub-device its number, of a kernel the text of
//! its program and the options that it was built with. Refuses to change names that nobody shares,
//! and to tell programs apart of which neither text nor options differ.

use crate::input::Definitions;
use clscope_trace::defs::Device;
use clscope_trace::ids::{normal_pci, normal_uuid};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Variants of one kernel's name that have rows of their own. An application that builds thousands
/// has one row, which says of how many it is.
const MOST_VARIANTS: usize = 64;
/// Sub-devices of one device that are numbered; of more, the size alone tells them apart.
const MOST_PARTS: usize = 16;
/// Hexadecimal digits of a hash that are shown, unless they are the same.
const DIGITS: usize = 12;
/// Characters of options that are shown.
const OPTIONS: usize = 48;

/// How what tells kernels apart begins.
pub const PROGRAM: &str = " (program ";
/// Of programs of one text.
pub const BUILT: &str = " (built ";
/// Of more programs than have rows.
pub const SEVERAL: &str = " (of ";

/// A kernel's name without what tells it apart; `None` where it has no such mark.
pub fn without_mark(name: &str) -> Option<&str> {
    let at = [PROGRAM, BUILT, SEVERAL].iter().filter_map(|mark| name.find(mark)).min()?;
    name.ends_with([')', ']']).then(|| &name[..at])
}

/// Marks devices and kernels of processes, each given with the number of its host. What was marked
/// before is marked anew. Says whether a name has changed.
pub fn mark(processes: &mut [(usize, &mut Definitions)]) -> bool {
    let devices = mark_devices(processes);
    let kernels = mark_kernels(processes);
    devices || kernels
}

/// Puts what was found in the place of what was known; whether they differ.
fn replace(known: &mut HashMap<u32, String>, found: HashMap<u32, String>) -> bool {
    let differs = *known != found;
    *known = found;
    differs
}

/// What a device is on its host, beside its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Pci(String),
    Uuid(String),
    /// Its place among the devices of the name that a process saw.
    Nth(usize),
}

/// The devices of one process with what each is.
fn identities(d: &Definitions) -> Vec<(u32, Identity)> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let whole = d.devices.values().filter(|device| device.parent.is_none());
    let of = |device: &Device, nth| {
        let pci = device.pci.as_deref().and_then(normal_pci).map(Identity::Pci);
        let uuid = || device.uuid.as_deref().and_then(normal_uuid).map(Identity::Uuid);
        pci.or_else(uuid).unwrap_or(Identity::Nth(nth))
    };
    let mut out: Vec<(u32, Identity)> = Vec::new();
    for device in whole {
        let nth = seen.entry(&device.name).or_default();
        let mut identity = of(device, *nth);
        // Of runtimes that give all of their devices one address or one id.
        if out.iter().any(|(id, other)| {
            *other == identity && d.devices.get(id).is_some_and(|of| of.name == device.name)
        }) {
            identity = Identity::Nth(*nth);
        }
        *nth += 1;
        out.push((device.id, identity));
    }
    out
}

fn mark_devices(processes: &mut [(usize, &mut Definitions)]) -> bool {
    let mut has_changed = false;
    // By host and name: the devices that had queues, which are those with rows.
    let mut used: BTreeMap<(usize, String), BTreeSet<Identity>> = BTreeMap::new();
    for (host, d) in processes.iter() {
        let queues: BTreeSet<u32> = d.queues.keys().filter_map(|q| d.clock_device(*q)).collect();
        for (id, identity) in identities(d).into_iter().filter(|(id, _)| queues.contains(id)) {
            if let Some(device) = d.devices.get(&id) {
                used.entry((*host, device.name.clone())).or_default().insert(identity);
            }
        }
    }
    for (host, d) in processes {
        let mut labels = BTreeMap::new();
        for (id, identity) in identities(d) {
            let Some(device) = d.devices.get(&id) else { continue };
            let Some(twins) = used.get(&(*host, device.name.clone())) else { continue };
            if twins.len() < 2 {
                continue;
            }
            let Some(nth) = twins.iter().position(|twin| *twin == identity) else { continue };
            let pci = match &identity {
                Identity::Pci(pci) => format!(", {pci}"),
                _ => String::new(),
            };
            labels.insert(id, format!("{} ({} of {}{pci})", device.name, nth + 1, twins.len()));
        }
        for (id, part) in parts(d) {
            let Some(device) = d.devices.get(&id) else { continue };
            let whole = device.parent.and_then(|parent| labels.get(&parent));
            let name = whole.unwrap_or(&device.name);
            labels.insert(id, format!("{name} ({part})"));
        }
        has_changed |= replace(&mut d.device_labels, labels.into_iter().collect());
    }
    has_changed
}

/// The sub-devices of a process that have queues, with what each is of its device.
fn parts(d: &Definitions) -> Vec<(u32, String)> {
    let queues: BTreeSet<u32> = d.queues.values().map(|queue| queue.device).collect();
    let mut of: BTreeMap<u32, Vec<&Device>> = BTreeMap::new();
    for device in d.devices.values().filter(|device| queues.contains(&device.id)) {
        if let Some(parent) = device.parent {
            of.entry(parent).or_default().push(device);
        }
    }
    let mut out = Vec::new();
    for parts in of.values() {
        for (nth, part) in (1..).zip(parts) {
            let units = part.compute_units;
            out.push((
                part.id,
                match parts.len() {
                    ..=MOST_PARTS => format!("sub-device {nth}, {units} units"),
                    _ => format!("sub-devices of {units} units"),
                },
            ));
        }
    }
    out
}

/// A program as far as it tells kernels apart: the hash of its text or binary, and the options.
type Program = (String, String);

fn program_of(d: &Definitions, program: u32) -> Program {
    let own = d.programs.get(&program).map(|p| p.hash.clone()).filter(|hash| !hash.is_empty());
    // One that was linked has no text of its own.
    let code = || d.codes.iter().find(|code| code.program == program).map(|c| c.hash.clone());
    let options = d.build_options.get(&program);
    let words = options.map_or("", String::as_str).split_whitespace();
    (own.or_else(code).unwrap_or_default(), words.collect::<Vec<_>>().join(" "))
}

fn mark_kernels(processes: &mut [(usize, &mut Definitions)]) -> bool {
    let mut has_changed = false;
    let mut programs: BTreeMap<String, BTreeSet<Program>> = BTreeMap::new();
    for (_, d) in processes.iter() {
        let mut known: BTreeMap<u32, Program> = BTreeMap::new();
        for kernel in d.kernels.values().filter(|kernel| kernel.program != 0) {
            let program =
                known.entry(kernel.program).or_insert_with(|| program_of(d, kernel.program));
            let of = match programs.get_mut(&kernel.name) {
                Some(of) => of,
                None => programs.entry(kernel.name.clone()).or_default(),
            };
            if !of.contains(program) {
                of.insert(program.clone());
            }
        }
    }
    programs.retain(|_, of| of.len() > 1);
    let marks: BTreeMap<String, BTreeMap<Program, String>> =
        programs.into_iter().map(|(name, of)| (name, marks_of(of))).collect();
    for (_, d) in processes {
        let shared = d.kernels.values().filter_map(|kernel| {
            let mark = marks.get(&kernel.name)?.get(&program_of(d, kernel.program))?;
            Some((kernel.id, mark.clone()))
        });
        let marked = shared.collect();
        has_changed |= replace(&mut d.kernel_marks, marked);
    }
    has_changed
}

/// What tells programs of one kernel name apart, in words.
fn marks_of(programs: BTreeSet<Program>) -> BTreeMap<Program, String> {
    if programs.len() > MOST_VARIANTS {
        let mark = format!("{SEVERAL}{} programs)", programs.len());
        return programs.into_iter().map(|program| (program, mark.clone())).collect();
    }
    let hashes: BTreeSet<&str> = programs.iter().map(|(hash, _)| hash.as_str()).collect();
    let short = |hash: &str| {
        let is_shared = |length: usize| {
            let own = hash.get(..length);
            own.is_some() && hashes.iter().any(|of| *of != hash && of.get(..length) == own)
        };
        let length = (DIGITS..hash.len()).find(|length| !is_shared(*length));
        match hash.get(..length.unwrap_or(hash.len())).filter(|of| !of.is_empty()) {
            Some(digits) => format!("{PROGRAM}{digits})"),
            None => format!("{PROGRAM}without a text)"),
        }
    };
    let mut out = BTreeMap::new();
    for hash in &hashes {
        let same: Vec<&Program> = programs.iter().filter(|(of, _)| of == hash).collect();
        let text = if hashes.len() > 1 { short(hash) } else { String::new() };
        let options: Vec<&str> = same.iter().map(|(_, options)| options.as_str()).collect();
        for (program, built) in same.iter().zip(built_with(&options)) {
            out.insert((*program).clone(), format!("{text}{built}"));
        }
    }
    out
}

/// For each of several different options, the words that not all of them have; nothing for one
/// alone.
fn built_with(all: &[&str]) -> Vec<String> {
    if all.len() < 2 {
        return vec![String::new(); all.len()];
    }
    let is_common =
        |word: &str| all.iter().all(|other| other.split_whitespace().any(|of| of == word));
    let own = |options: &&str| -> String {
        let words: Vec<&str> = options.split_whitespace().filter(|word| !is_common(word)).collect();
        match (words.is_empty(), options.is_empty()) {
            (false, _) => format!("{BUILT}with {})", words.join(" ")),
            (true, true) => format!("{BUILT}without options)"),
            (true, false) => format!("{BUILT}with {options})"),
        }
    };
    let texts: Vec<String> = all.iter().map(own).collect();
    // Words in another order, or too many of them: a number that no order of programs changes.
    let is_clear = |text: &String| {
        text.chars().count() <= OPTIONS && texts.iter().filter(|of| *of == text).count() == 1
    };
    let number = |options: &str| {
        let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        options.bytes().fold(0x811c_9dc5, fold)
    };
    let each = texts.iter().zip(all);
    each.map(|(text, options)| match is_clear(text) {
        true => text.clone(),
        false => format!("{BUILT}with options {:08x})", number(options)),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_trace::defs::{Kernel, Program as ProgramDef, Queue};
    use proptest::prelude::*;

    fn device(id: u32, pci: Option<&str>, parent: Option<u32>) -> Device {
        let (name, pci) = ("gpu".to_owned(), pci.map(str::to_owned));
        Device { id, name, pci, parent, compute_units: 4, ..Device::default() }
    }

    fn with_devices(devices: &[(u32, Option<&str>, Option<u32>)]) -> Definitions {
        let mut d = Definitions::default();
        for (id, pci, parent) in devices {
            d.devices.insert(*id, device(*id, *pci, *parent));
            d.queues.insert(*id, Queue { id: *id, device: *id, ..Queue::default() });
        }
        d
    }

    fn with_kernels(kernels: &[(&str, &str, &str)]) -> Definitions {
        let mut d = Definitions::default();
        for (id, (name, hash, options)) in (1..).zip(kernels) {
            let hash = (*hash).to_owned();
            d.programs.insert(id, ProgramDef { id, hash, ..ProgramDef::default() });
            d.build_options.insert(id, (*options).to_owned());
            d.kernels.insert(id, Kernel { id, program: id, name: (*name).to_owned() });
        }
        d
    }

    fn names(d: &Definitions) -> Vec<String> {
        (1..=d.kernels.len() as u32).map(|id| d.kernel_name(id).into_owned()).collect()
    }

    #[test]
    fn twins_differ_and_one_device_of_several_processes_is_one() {
        let pci = [Some("0000:17:00.0"), Some("0000:3d:00.0")];
        let mut both = with_devices(&[(1, pci[0], None), (2, pci[1], None)]);
        let mut second = with_devices(&[(7, pci[1], None)]);
        let mut elsewhere = with_devices(&[(1, pci[0], None)]);
        mark(&mut [(0, &mut both), (0, &mut second), (1, &mut elsewhere)]);
        assert_eq!(both.device_name(1), "gpu (1 of 2, 0000:17:00.0)");
        assert_eq!(both.device_name(2), "gpu (2 of 2, 0000:3d:00.0)");
        assert_eq!(second.device_name(7), both.device_name(2));
        assert_eq!(elsewhere.device_name(1), "gpu", "its host has no other");
        // Without an address, by their order; sub-devices by their numbers.
        let mut d = with_devices(&[
            (1, None, None),
            (2, None, None),
            (3, None, Some(2)),
            (4, None, Some(2)),
        ]);
        mark(&mut [(0, &mut d)]);
        let all: BTreeSet<_> = (1..=4).map(|id| d.device_name(id).into_owned()).collect();
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(all.contains("gpu (2 of 2) (sub-device 1, 4 units)"), "{all:?}");
        // One that is there and not used takes no part in it.
        let mut d = with_devices(&[(1, None, None), (2, None, None)]);
        d.queues.remove(&2);
        mark(&mut [(0, &mut d)]);
        assert_eq!(d.device_name(1), "gpu");
    }

    #[test]
    fn programs_are_told_apart_by_text_and_options() {
        let mut d = with_kernels(&[
            ("a", "0123456789abcdef", ""),
            ("a", "fedcba9876543210", ""),
            ("b", "01", "-DN=4 -w"),
            ("b", "01", "-w -DN=8"),
            ("b", "01", "-w"),
            ("c", "01", ""),
            ("c", "01", ""),
        ]);
        mark(&mut [(0, &mut d)]);
        assert_eq!(
            names(&d),
            [
                "a (program 0123456789ab)",
                "a (program fedcba987654)",
                "b (built with -DN=4)",
                "b (built with -DN=8)",
                "b (built with -w)",
                "c",
                "c"
            ]
        );
    }

    #[test]
    fn thousands_of_variants_are_one_row() {
        let hashes: Vec<String> = (0..100).map(|n| format!("{n:032x}")).collect();
        let kernels: Vec<_> = hashes.iter().map(|hash| ("k", hash.as_str(), "")).collect();
        let mut d = with_kernels(&kernels);
        mark(&mut [(0, &mut d)]);
        assert_eq!(d.kernel_name(7), "k (of 100 programs)");
    }

    proptest! {
        /// Two kernels have one name if and only if name, text and options are the same, in
        /// whatever process they are and however they are ordered.
        #[test]
        fn names_differ_where_programs_do(
            kernels in prop::collection::vec(("[ab]", "[0-9a-f]{16}|[01]{1,2}", "(-D[NM]=[12] ?){0,3}"), 1..12),
            split in 0usize..12,
        ) {
            let given: Vec<_> = kernels.iter().map(|(n, h, o)| (n.as_str(), h.as_str(), o.as_str())).collect();
            let (first, second) = given.split_at(split.min(given.len()));
            let (mut first, mut second) = (with_kernels(first), with_kernels(second));
            mark(&mut [(0, &mut first), (1, &mut second)]);
            let found: Vec<String> = names(&first).into_iter().chain(names(&second)).collect();
            for (a, of) in given.iter().zip(&found) {
                for (b, other) in given.iter().zip(&found) {
                    let words = |o: &str| o.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                    let same = (a.0, a.1, words(a.2)) == (b.0, b.1, words(b.2));
                    prop_assert_eq!(of == other, same, "{:?} {:?}: {} {}", a, b, of, other);
                }
            }
        }
    }
}
