//! Every place of the recorder at which a thread may be kept: by the runtime, by a lock, by a pause,
//! or by the dynamic linker. Each has an argument for why that has an end, whatever the application
//! does meanwhile. A new place fails here until it is argued for.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What such a place looks like in the sources.
const SIGNS: [&str; 28] = [
    "clWaitForEvents",
    "clFinish",
    ".finish)",
    ".wait)",
    ".read)",
    "waiting::ended(",
    "dlsym(",
    "dlopen(",
    "dladdr(",
    "dl_iterate_phdr(",
    "thread_local!",
    "pthread_create(",
    "thread::Builder",
    "thread::spawn(",
    "threads::spawn(",
    "threads::answer(",
    "threads::pause(",
    "sched_yield(",
    "spin_loop(",
    "thread::sleep(",
    ".recv(",
    ".join()",
    ".lock()",
    "try_lock_for(",
    "futex::wait(",
    ".sleep(",
    "Condvar",
    "park(",
];

/// Tables of names and signatures: nothing is called there.
const NAMES: [&str; 4] = ["abi/table.rs", "tests.rs", "os/objects/elf.rs", "runtime/functions.rs"];

/// File, sign, how often, and what bounds it.
const PLACES: &[(&str, &str, usize, &str)] = &[
    ("facts/kernels.rs", "threads::answer(", 1, "1 s; the thread computes, and takes no lock"),
    ("facts/map.rs", ".lock()", 1, "the holder makes a larger table: one allocation"),
    (
        "features/beside/mod.rs",
        "thread_local!",
        1,
        "constant, without a destructor that the linker is told of",
    ),
    ("features/call_sites.rs", "dl_iterate_phdr(", 1, "a lock that no constructor runs under"),
    ("features/call_sites.rs", ".lock()", 1, "the holder writes one definition"),
    ("features/capture/calls.rs", ".read)", 1, "on request, a read that does not block"),
    (
        "features/capture/lifetimes.rs",
        "threads::answer(",
        1,
        "40 ms: another thread gives memory of the recorder's back",
    ),
    (
        "features/capture/pool/mod.rs",
        "waiting::ended(",
        2,
        "on request, 100 ms, and 20 ms once a launch that lacked it, a queue of our own",
    ),
    ("features/capture/flight.rs", ".read)", 2, "an event of such a read is asked about"),
    ("features/capture/flight.rs", "threads::pause(", 1, "on request, at exit, its caller's time"),
    (
        "features/counters/mod.rs",
        "thread::sleep(",
        1,
        "on request, two periods of a stream and 5 ms",
    ),
    ("features/counters/mod.rs", "try_lock_for(", 1, "its patience"),
    ("features/device_time/calls.rs", "spin_loop(", 1, "some queries about a command that ended"),
    ("features/device_time/markers.rs", "threads::pause(", 1, "50 pauses of 20 us"),
    ("features/device_time/markers.rs", "try_lock_for(", 1, "200 ms"),
    (
        "features/device_time/mod.rs",
        "waiting::ended(",
        1,
        "on request, 5 s, once until it has ended",
    ),
    (
        "features/device_time/mod.rs",
        "try_lock_for(",
        3,
        "50 and 200 ms; the holder asks, and never waits",
    ),
    ("features/device_time/queues.rs", "try_lock_for(", 1, "200 ms, likewise"),
    ("features/device_time/reaper.rs", "threads::spawn(", 1, "1 s, until the new thread has begun"),
    (
        "features/device_time/reaper.rs",
        "threads::pause(",
        2,
        "at exit, 200 pauses of 100 us; a thread of our own",
    ),
    ("features/device_time/reaper.rs", ".sleep(", 1, "a thread of our own"),
    ("features/device_time/switch.rs", "try_lock_for(", 1, "its patience"),
    (
        "features/replace/mod.rs",
        "thread_local!",
        1,
        "constant, without a destructor that the linker is told of",
    ),
    ("features/sampler.rs", "threads::spawn(", 1, "1 s, until the new thread has begun"),
    ("features/sampler.rs", ".lock()", 1, "a thread of our own"),
    ("features/sampler.rs", "try_lock_for(", 1, "its patience, 50 ms at most"),
    ("hooks/command_buffer.rs", "waiting::ended(", 1, "100 ms, an empty command buffer of our own"),
    (
        "hooks/discovery.rs",
        "threads::pause(",
        1,
        "50,000 pauses, while the runtime starts in a call of another thread",
    ),
    ("hooks/event.rs", "clWaitForEvents", 2, "the application's own call"),
    ("hooks/event.rs", "clFinish", 2, "the application's own call"),
    ("hooks/stand_ins/mod.rs", "clWaitForEvents", 2, "the application's own call"),
    ("hooks/stand_ins/mod.rs", "clFinish", 2, "the application's own call"),
    ("hooks/queue/twin.rs", "waiting::ended(", 1, "100 ms, a marker on a queue of our own"),
    (
        "hooks/stand_ins/replaced.rs",
        "thread_local!",
        1,
        "constant, without a destructor that the linker is told of",
    ),
    ("hooks/stand_ins/snapshot.rs", "waiting::ended(", 1, "on request, 5 s, once in a process"),
    ("os/locks/fork_safe.rs", "try_lock_for(", 1, "100 ms"),
    (
        "os/locks/held.rs",
        "thread_local!",
        1,
        "constant, without a destructor that the linker is told of",
    ),
    ("os/locks/lock.rs", "try_lock_for(", 1, "the lock itself"),
    ("os/locks/lock.rs", "futex::wait(", 1, "the lock itself: see who takes it"),
    ("os/objects/mod.rs", "dl_iterate_phdr(", 1, "a lock that no constructor runs under"),
    ("os/locks/robust.rs", "thread_local!", 1, "constant, without a destructor"),
    ("os/locks/robust.rs", "try_lock_for(", 1, "the lock itself"),
    ("os/locks/robust.rs", "futex::wait(", 1, "the lock itself: see who takes it"),
    ("os/threads.rs", "pthread_create(", 1, "takes no lock that a constructor runs under"),
    ("os/threads.rs", "futex::wait(", 1, "its callers' patience: 1 s"),
    ("recording/files/mod.rs", ".lock()", 1, "the holder writes one definition"),
    ("recording/files/segments.rs", ".lock()", 1, "the holder makes one file"),
    (
        "recording/files/reopened_file.rs",
        ".lock()",
        2,
        "the holder writes one block or definition, or closes a file that was just made",
    ),
    ("recording/ring/regions.rs", ".lock()", 3, "the holder maps one region"),
    ("recording/files/mod.rs", "spin_loop(", 1, "on request, 100 ms ahead of a capture"),
    ("recording/ring/mod.rs", "spin_loop(", 1, "20 ms, once until there is room for records again"),
    ("recording/state.rs", "sched_yield(", 1, "2 s, while another thread opens the trace"),
    ("recording/thread.rs", "thread_local!", 1, "constant, without a destructor"),
    ("recording/ring/writer.rs", "threads::spawn(", 1, "1 s, until the new thread has begun"),
    ("recording/ring/writer.rs", "threads::pause(", 1, "at exit, 2,000 pauses of 100 us"),
    ("recording/ring/writer.rs", ".sleep(", 1, "a thread of our own"),
    (
        "runtime/loaders.rs",
        "dlopen(",
        1,
        "in a thread of our own; in the application's where it would find no OpenCL at all",
    ),
    ("runtime/loaders.rs", "threads::spawn(", 1, "1 s, until the new thread has begun"),
    ("runtime/waiting.rs", "threads::pause(", 1, "its callers' patience"),
];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            _ => {}
        }
    }
}

/// How often each sign is in the code: not in comments, nor in the tests at its end.
fn signs(text: &str) -> BTreeMap<&'static str, usize> {
    let end = ["#[cfg(test)]\nmod ", "#[cfg(all(test, "].iter().filter_map(|test| text.find(test));
    let code: Vec<&str> = text[..end.min().unwrap_or(text.len())]
        .lines()
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect();
    let code = code.join("\n");
    let counts = SIGNS.iter().map(|sign| (*sign, code.matches(sign).count()));
    counts.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn every_place_that_may_wait_is_argued_for() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("src");
    let mut all = Vec::new();
    files(&source, &mut all);
    let mut found = BTreeMap::new();
    for path in all {
        let file = path.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
        if NAMES.contains(&file.as_str()) {
            continue;
        }
        for (sign, count) in signs(&std::fs::read_to_string(&path).unwrap()) {
            found.insert((file.clone(), sign.to_owned()), count);
        }
    }
    let argued: BTreeMap<(String, String), usize> = PLACES
        .iter()
        .map(|(file, sign, count, _)| (((*file).to_owned(), (*sign).to_owned()), *count))
        .collect();
    assert_eq!(argued.len(), PLACES.len(), "a place is listed twice");
    let new: Vec<_> = found.iter().filter(|(place, n)| argued.get(*place) != Some(*n)).collect();
    let gone: Vec<_> = argued.iter().filter(|(place, _)| !found.contains_key(*place)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "places that may wait: say what bounds them in PLACES. New or of another number: {new:#?}; gone: {gone:#?}"
    );
    let silent: Vec<_> = PLACES.iter().filter(|(.., why)| why.is_empty()).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn places_are_found_in_code_alone() {
    let text =
        "// clFinish(q)\nlet x = a.lock(); b.lock();\n#[cfg(test)]\nmod tests { c.lock() }\n";
    assert_eq!(signs(text), BTreeMap::from([(".lock()", 2)]));
    assert_eq!(signs("thread::sleep(d)"), BTreeMap::from([("thread::sleep(", 1)]));
}
