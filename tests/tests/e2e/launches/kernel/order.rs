//! Results that the order of work-items decides: programs with atomics are told from those that
//! give something else.

use super::document;
use clscope_tests::captured::{Captured, words};
use clscope_tests::{Runtime, Stage};
use serde_json::Value;

/// Work-items append their numbers, each once; the captured list is backwards, which one work-item
/// after the other never gives.
#[test]
fn a_list_in_another_order_is_no_difference() {
    let source = "kernel void append(global uint *count, global uint *list)
        { list[atomic_inc(count)] = get_global_id(0); }";
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let captured = |name: &str, source: &str, list: &[u32]| {
            let mut made = Captured::new(&stage.join(name), "append", &[64]).source(source);
            made.buffer("uint*", &[0; 4], Some(&words(&[64])));
            made.buffer("uint*", &[0; 256], Some(&words(list)));
            document(&stage, &made.write(), &[])
        };
        let note = |found: &Value| found["notes"].to_string();
        let backwards: Vec<u32> = (0..64).rev().collect();
        let (found, code) = captured("append.1", source, &backwards);
        assert_eq!(
            (code, &found["base"]["results"]["outcome"]),
            (0, &"varies".into()),
            "{found:#}"
        );
        assert!(note(&found).contains("its source uses atomics (atomic_inc)"), "{found:#}");
        // Other elements stay a difference where each run gives the same, as with one work-group.
        let wrong: Vec<u32> = (1..65).collect();
        let (found, code) = captured("append.2", source, &wrong);
        if found["base"]["results"]["is_repeatable"] == true {
            assert_eq!((code, &found["base"]["results"]["outcome"]), (3, &"differs".into()));
            assert!(note(&found).contains("are not those expected"), "{found:#}");
        } else {
            assert_eq!((code, &found["base"]["results"]["outcome"]), (0, &"varies".into()));
            assert!(note(&found).contains("not reproducible on this device"), "{found:#}");
        }
        // Without atomics no order excuses.
        let plain = "kernel void append(global uint *count, global uint *list)
            { if (get_global_id(0) == 0) count[0] = 64; list[get_global_id(0)] = get_global_id(0); }";
        let (found, code) = captured("append.3", plain, &backwards);
        assert_eq!((code, &found["base"]["results"]["outcome"]), (3, &"differs".into()));
        assert!(!note(&found).contains("atomics"), "{found:#}");
    }
}
