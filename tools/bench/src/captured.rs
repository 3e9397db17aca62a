//! Captured launches that are sound and unreasonable in turns: sizes beyond any memory, files
//! outside of the folder, names with control characters, hashes that are right or not. Owns what is
//! unreasonable in them; `fuzz-command` gives them to the command.
#![forbid(unsafe_code)]

use crate::folder::Files;
use crate::random::Random;
use clscope_trace::hash;
use serde_json::{Value, json};

/// What a size, a count or a number is meant to be, or something else.
fn size(random: &mut Random, meant: u64) -> Value {
    match random.below(24) {
        0 => json!(u64::MAX),
        1 => json!(i64::MAX),
        2 => json!(1u64 << random.below(64)),
        3 => json!(0),
        4 => json!(-1),
        5 => json!(1.5e300),
        6 => Value::Null,
        _ => json!(meant),
    }
}

/// What a text is meant to be, or something else.
fn text(random: &mut Random, meant: &str) -> Value {
    match random.below(32) {
        0 => json!("../../../etc/passwd"),
        1 => json!("/dev/zero"),
        2 => json!(format!("{meant}\u{1b}[2J\u{202e}\n\"*/%s\\")),
        3 => json!("x".repeat(1 << random.below(18))),
        4 => json!(""),
        5 => json!([meant]),
        _ => json!(meant),
    }
}

/// An argument of one of the kinds.
fn argument(random: &mut Random, index: u64) -> Value {
    let mut of = match random.below(6) {
        0 => json!({"kind": "value", "bytes": size(random, 4), "value": text(random, "01000000")}),
        1 => json!({"kind": "local", "bytes": size(random, 256)}),
        2 => json!({"kind": "null", "bytes": size(random, 8)}),
        3 => json!({"kind": "sampler", "normalized": true,
            "addressing": text(random, "CL_ADDRESS_CLAMP"), "filter": text(random, "CL_FILTER_NEAREST")}),
        4 => json!({"kind": "svm", "memory": size(random, 0), "offset": size(random, 0)}),
        _ => json!({"kind": "memory", "memory": size(random, 0), "offset": size(random, 0),
            "size": size(random, 64), "flags": ["CL_MEM_READ_WRITE"]}),
    };
    of["index"] = size(random, index);
    of["name"] = text(random, "out");
    of["type"] = text(random, "float*");
    of
}

/// The files of one capture.
pub fn captured(random: &mut Random) -> Files {
    let source = b"kernel void k(global float *out) { out[get_global_id(0)] = 1; }".to_vec();
    let before: Vec<u8> = (0..64).map(|_| random.next() as u8).collect();
    let after = vec![0u8; 64];
    let right = |random: &mut Random, bytes: &[u8]| text(random, &hash(bytes));
    let image = (random.below(4) == 0).then(|| {
        json!({"type": text(random, "CL_MEM_OBJECT_IMAGE2D"), "width": size(random, 4),
            "height": size(random, 4), "depth": size(random, 1), "array": size(random, 0),
            "mips": size(random, 0), "samples": size(random, 0), "order": text(random, "CL_R"),
            "data": text(random, "CL_FLOAT"), "element": size(random, 4)})
    });
    let kinds = ["buffer", "image", "svm", "pipe"];
    let kind = if image.is_some() { "image" } else { kinds[random.below(8) % kinds.len()] };
    let memories: Vec<Value> = (0..1 + random.below(3) as u64)
        .map(|id| {
            json!({"id": size(random, id), "kind": text(random, kind), "bytes": size(random, 64),
                "flags": ["CL_MEM_READ_WRITE"], "before": text(random, "memory-0.before"),
                "after": text(random, "memory-0.after"), "hash_before": right(random, &before),
                "hash_after": right(random, &after), "address": size(random, 1 << 40),
                "image": image})
        })
        .collect();
    let arguments: Vec<Value> =
        (0..random.below(5) as u64).map(|index| argument(random, index)).collect();
    let file = json!({"file": text(random, "program.cl"), "language": text(random, "opencl-c"),
        "bytes": size(random, source.len() as u64), "hash": right(random, &source)});
    let launch = json!({
        "schema": size(random, 1), "clscope": "0.1.0", "kernel": text(random, "k"),
        "launch": size(random, 1), "command": size(random, 7),
        "process": {"pid": size(random, 1), "incarnation": size(random, 0)},
        "platform": {"name": text(random, "p"), "vendor": "v", "version": "OpenCL 3.0"},
        "device": {"name": text(random, "d"), "vendor": "v", "version": "OpenCL 3.0",
            "driver": "1", "type": text(random, "cpu")},
        "program": {"origin": text(random, "source"), "options": text(random, "-DX=1"),
            "files": [file]},
        "dimensions": size(random, 1), "offset": [size(random, 0)],
        "global": [size(random, 16)], "local": [size(random, 4)],
        "queue": {"properties": size(random, 0)}, "memories": memories, "arguments": arguments,
        "duration_ns": size(random, 1000),
    });
    let mut document = launch.to_string().into_bytes();
    if random.below(4) == 0 {
        for _ in 0..1 + random.below(8) {
            let at = random.below(document.len());
            document[at] = random.next() as u8;
        }
    }
    let mut files = vec![
        ("launch.json".to_owned(), document),
        ("program.cl".to_owned(), source),
        ("memory-0.before".to_owned(), before),
        ("memory-0.after".to_owned(), after),
    ];
    if random.below(8) == 0 {
        files.remove(1 + random.below(3));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some are read by the library, so that what stands behind the reading is reached as well.
    #[test]
    fn some_are_accepted_and_some_are_not() {
        let mut random = Random(7);
        let accepted = (0..200).filter(|_| {
            let folder = tempfile::tempdir().unwrap();
            for (name, bytes) in captured(&mut random) {
                std::fs::write(folder.path().join(name), bytes).unwrap();
            }
            clscope_launch::read::Capture::open(folder.path()).is_ok()
        });
        let accepted = accepted.count();
        assert!((1..200).contains(&accepted), "{accepted} of 200");
    }
}
