//! Owns which ranges of one memory are in use. A range goes to the first gap that holds it, and its
//! room is free again as soon as it is given back, whatever else is in use. Refuses to know what lies
//! in a range.
//!
//! With `n` ranges in use there are `n + 1` gaps, so what is no larger than that part of the free
//! bytes always has room. Ranges that are given back in the order of their taking leave two gaps.
#![forbid(unsafe_code)]

/// The ranges in use: begin and end, in order, none of them empty.
#[derive(Debug, Default)]
pub struct Ranges(Vec<(usize, usize)>);

impl Ranges {
    /// Takes room for so many bytes, of a memory of `size`: where it begins.
    pub fn take(&mut self, bytes: usize, size: usize) -> Option<usize> {
        if bytes == 0 {
            return Some(0);
        }
        let (mut at, mut place) = (0, 0);
        for (begin, end) in &self.0 {
            if begin - at >= bytes {
                break;
            }
            (at, place) = (*end, place + 1);
        }
        let end = at.checked_add(bytes)?;
        (end <= size).then(|| self.0.insert(place, (at, end)))?;
        Some(at)
    }

    /// Takes a range back: where it begins, and its bytes.
    pub fn give_back(&mut self, (at, bytes): (usize, usize)) {
        self.0.retain(|range| *range != (at, at + bytes));
    }

    /// Whether nothing is in use.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes and choices of a random sequence.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) as usize % limit
        }
    }

    #[test]
    fn ranges_never_overlap_and_no_room_is_lost() {
        for seed in 0..500 {
            let mut random = Random(seed);
            let size = 1 + random.below(10_000);
            let largest = 1 + random.below(size + 1);
            let (mut ranges, mut live) = (Ranges::default(), Vec::<(usize, usize)>::new());
            for _ in 0..300 {
                if random.below(3) == 0 && !live.is_empty() {
                    ranges.give_back(live.swap_remove(random.below(live.len())));
                    continue;
                }
                let bytes = random.below(largest + 1);
                let free = size - live.iter().map(|(_, bytes)| bytes).sum::<usize>();
                match ranges.take(bytes, size) {
                    Some(at) => {
                        assert!(at + bytes <= size, "seed {seed}: inside of the memory");
                        let apart = |(a, n): &(usize, usize)| a + n <= at || at + bytes <= *a;
                        assert!(bytes == 0 || live.iter().all(apart), "seed {seed}: {at} {bytes}");
                        live.extend((bytes > 0).then_some((at, bytes)));
                    }
                    None => {
                        let served = free / (live.len() + 1);
                        assert!(bytes > served, "seed {seed}: {bytes} of {free} free bytes");
                    }
                }
            }
            live.drain(..).for_each(|range| ranges.give_back(range));
            assert!(ranges.is_empty());
            assert_eq!(ranges.take(size, size), Some(0), "seed {seed}: all is free again");
        }
    }

    #[test]
    fn ranges_given_back_in_order_use_all_the_room_again_and_again() {
        let mut ranges = Ranges::default();
        let mut live = std::collections::VecDeque::new();
        for turn in 0..1000 {
            if live.len() == 8 {
                ranges.give_back(live.pop_front().unwrap());
            }
            let at = ranges.take(512, 8 * 512);
            live.push_back((at.unwrap_or_else(|| panic!("turn {turn}")), 512));
        }
        assert_eq!(ranges.take(1, 8 * 512), None);
        ranges.give_back((0, 0));
        assert_eq!(ranges.0.len(), 8, "an empty range was none");
    }
}
