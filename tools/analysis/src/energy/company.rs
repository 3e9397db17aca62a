//! Owns the effect of commands just before and beside a command on its power. Powers of kernels
//! that take turns do not add up exactly: losses in the power supply grow with the square of the
//! load and follow it within milliseconds, and leakage grows with temperature. A kernel draws a
//! little more after one of high power and a little less after one of low power than alone, and a
//! mix draws less than its kernels alone. (On an H200 mixes of four and of eight kernels drew 0.8 %
//! less. Of time constants from 60 us to 3 s, 2 ms explained this best.) Refuses to fit: that is
//! `fit`.

#![forbid(unsafe_code)]

use super::activity::{Activity, Segment};
use super::response::{Design, Response, exact};
use super::sensor::Rows;

/// How long the load is remembered, in seconds.
const MEMORY: f64 = 0.002;
/// Bins in which the load is followed: at most so many, and none shorter than this.
const BINS: f64 = 4e6;
const SHORTEST: f64 = MEMORY / 8.0;

/// Change of the rows' shares per unit of the effect's strength: each class's share times how far
/// the load of the last milliseconds lies above the class's own, as a part of the largest. `power`
/// is each class's, `floor` the idle device's. `None` for runs too long to be followed.
pub(crate) fn company(
    activity: &Activity,
    rows: &Rows,
    power: &[f64],
    floor: f64,
    response: &Response,
) -> Option<Design> {
    let largest = power.iter().fold(floor, |a, b| a.max(*b));
    let (first, last) = (
        activity.segments.first()?.from,
        activity.segments.iter().fold(0.0f64, |a, s| a.max(s.to)),
    );
    let width = ((last - first) / BINS).max(SHORTEST);
    if width > MEMORY || largest <= 0.0 {
        return None;
    }
    let bins = ((last - first) / width).ceil() as usize + 1;
    let mut load = vec![floor; bins];
    pieces(&activity.segments, first, width, |segment, bin| {
        if let (Some(slot), Some(own)) = (load.get_mut(bin), power.get(segment.class as usize)) {
            *slot += (own - floor) * segment.share * (segment.to - segment.from) / width;
        }
    });
    let keep = (-width / MEMORY).exp();
    let mut state = floor;
    for slot in &mut load {
        state = state * keep + *slot * (1.0 - keep);
        *slot = state;
    }
    let mut moved = Vec::with_capacity(activity.segments.len() + bins);
    pieces(&activity.segments, first, width, |segment, bin| {
        let own = power.get(segment.class as usize).copied().unwrap_or(floor);
        let above = load.get(bin).map_or(0.0, |load| (load - own) / largest);
        moved.push(Segment { share: segment.share * above, spread: 0.0, ..segment });
    });
    moved.sort_by(|a, b| a.from.total_cmp(&b.from));
    Some(exact(&moved, activity.classes(), &rows.rows, response, false))
}

/// Cuts segments where bins begin.
fn pieces(segments: &[Segment], first: f64, width: f64, mut visit: impl FnMut(Segment, usize)) {
    for segment in segments {
        let mut from = segment.from;
        let mut bin = ((from - first) / width).max(0.0) as usize;
        while from < segment.to {
            let to = segment.to.min(first + (bin + 1) as f64 * width);
            if to > from {
                visit(Segment { from, to, ..*segment }, bin);
                from = to;
            }
            bin += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::{Span, Timing};
    use super::super::sensor::Series;
    use super::super::units::{ClassId, DeviceIndex, HostNs};
    use super::*;

    #[test]
    fn a_kernel_by_itself_has_no_company_and_one_in_turns_has_the_other() {
        let span = |class, from: i64, to: i64| Span {
            class: ClassId(class),
            device: DeviceIndex(0),
            start: HostNs(from),
            end: HostNs(to),
            timing: Timing::Timed,
        };
        // A second of the first by itself, then one in which both take turns of 100 us.
        let mut spans = vec![span(0, 0, 1_000_000_000)];
        spans.extend((0..10_000i64).map(|i| {
            span((i % 2) as u32, 1_000_000_000 + i * 100_000, 1_000_000_000 + (i + 1) * 100_000)
        }));
        let activity = Activity::new(&spans, 2);
        let windows = [(200_000_000, 900_000_000), (1_200_000_000, 1_900_000_000)];
        let series =
            Series::WindowMean(windows.iter().map(|&(a, b)| (HostNs(a), HostNs(b), 0.0)).collect());
        let rows = Rows::new(&series, HostNs(0));
        let design = company(&activity, &rows, &[500.0, 100.0], 100.0, &Response::default())
            .expect("a short run");
        assert!(design.row(0).iter().all(|share| share.abs() < 1e-3), "{:?}", design.row(0));
        // The load is 300 on average: 200 below the one and 200 above the other, in half of the
        // time each.
        for (share, want) in design.row(1).iter().zip([-0.2, 0.2]) {
            assert!((share - want).abs() < 0.01, "{share} for {want}");
        }
    }
}
