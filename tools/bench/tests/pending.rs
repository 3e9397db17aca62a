//! The recorder's queue of commands in flight, the source itself and no copy, under threads: every
//! entry comes out once, those of one thread in their order, nothing is lost when it is full or
//! wraps. `tools/bench/checks.sh` runs these under Miri too, which sees data races and orders that
//! this machine does not make; loads are smaller there.

#[allow(dead_code, missing_docs, reason = "the recorder uses what a test does not")]
#[path = "../../../src/features/device_time/pending.rs"]
mod pending;

use pending::{CAPACITY, Entry, Pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PRODUCERS: u64 = 3;
const EACH: u64 = if cfg!(miri) { 60 } else { 200_000 };

fn entry(command: u64) -> Entry {
    // Memory of the entry's own: seen by the wrong thread, too early or twice, it would tell.
    Entry::new(command as usize, command, true, Some(Arc::new(AtomicU64::new(command))))
}

fn take(entry: Entry) -> u64 {
    let command = entry.command();
    let own = entry.completed.expect("every entry has its memory");
    assert_eq!(Arc::strong_count(&own), 1, "an entry came out twice");
    assert_eq!((own.load(Ordering::Relaxed), entry.event as u64), (command, command));
    command
}

#[test]
fn entries_come_out_once_and_in_their_threads_order() {
    let queue = Pending::new();
    // Beyond the first lap, so that cells are used again.
    let ahead = CAPACITY - if cfg!(miri) { 30 } else { 1_000 };
    for i in 0..ahead {
        assert!(queue.push(entry(i)).is_ok());
        assert_eq!(queue.pop().map(take), Some(i));
    }
    let running = AtomicU64::new(PRODUCERS);
    let mut next = [0u64; PRODUCERS as usize];
    std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let (queue, running) = (&queue, &running);
            scope.spawn(move || {
                for i in 0..EACH {
                    let mut mine = entry(producer << 32 | i);
                    // Full: the recorder would harvest; here the other thread does.
                    while let Err(back) = queue.push(mine) {
                        mine = back;
                        std::thread::yield_now();
                    }
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        loop {
            let done = running.load(Ordering::Acquire) == 0;
            let mut any = false;
            while let Some(command) = queue.pop().map(take) {
                any = true;
                let (producer, i) = ((command >> 32) as usize, command & 0xffff_ffff);
                assert_eq!(i, next[producer], "thread {producer}'s entries out of order");
                next[producer] += 1;
            }
            if done && !any {
                break;
            }
            std::thread::yield_now();
        }
    });
    assert_eq!(next, [EACH; PRODUCERS as usize]);
    assert_eq!(queue.len(), 0);
}

#[test]
fn a_full_queue_gives_entries_back_and_goes_on() {
    let queue = Pending::new();
    let room = CAPACITY;
    for lap in 0..if cfg!(miri) { 1 } else { 3u64 } {
        for i in 0..room {
            assert!(queue.push(entry(lap << 32 | i)).is_ok());
        }
        let back = queue.push(entry(7)).expect_err("a full queue refuses");
        assert_eq!(take(back), 7);
        for i in 0..room {
            assert_eq!(queue.pop().map(take), Some(lap << 32 | i));
        }
        assert!(queue.pop().is_none());
    }
}
