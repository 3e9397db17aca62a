//! Transfers as latency + size / bandwidth (Hockney 1994), in up to four segments where drivers
//! change their protocol at some size, and caches hold what is copied up to another. Owns the fit
//! and its misfit; refuses to fit fewer than three sizes.

use crate::device::Parameter;
use crate::figure::{Evidence, Figure};
use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};

/// One straight piece.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// It holds from this size on.
    pub from_bytes: f64,
    /// Latency, ns.
    pub latency_ns: f64,
    /// Bandwidth, GB/s (bytes per ns).
    pub gigabytes_per_second: f64,
}

/// Transfers of one direction between the device and one kind of host memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// `to_device` or `to_host`.
    pub direction: String,
    /// `pageable`, `pinned` or `mapped`.
    pub memory: String,
    /// One to four, by size.
    pub segments: Vec<Segment>,
    /// Root mean square of the relative errors of the sizes that were fitted.
    pub misfit: f64,
    /// Board or package while it transfers without pause, W.
    pub watts: Option<Parameter>,
}

impl Link {
    /// Whether its numbers are such as measurements give.
    pub fn is_sound(&self) -> bool {
        let sound = |s: &Segment| {
            s.latency_ns.is_finite()
                && s.latency_ns >= 0.0
                && s.gigabytes_per_second.is_finite()
                && s.gigabytes_per_second > 0.0
                && s.from_bytes >= 0.0
        };
        (1..=MOST_SEGMENTS).contains(&self.segments.len())
            && self.segments.iter().all(sound)
            && self.misfit.is_finite()
            && self.misfit >= 0.0
            && self.watts.as_ref().is_none_or(|w| w.value.is_finite() && w.value >= 0.0)
    }

    /// Nanoseconds of a transfer of so many bytes; the interval is twice the fit's misfit.
    pub fn time_ns(&self, bytes: f64) -> Figure {
        let value = time(&self.segments, bytes);
        let side = 2.0 * self.misfit * value;
        Figure::new(value, (value - side).max(0.0), value + side, Evidence::Modelled)
    }

    /// Latency of small transfers, ns.
    pub fn latency_ns(&self) -> f64 {
        self.segments.first().map_or(0.0, |s| s.latency_ns)
    }

    /// Latency of a transfer of so many bytes, ns.
    pub fn latency_at(&self, bytes: f64) -> f64 {
        at(&self.segments, bytes).map_or(0.0, |s| s.latency_ns)
    }

    /// Bandwidth of large ones, GB/s.
    pub fn bandwidth(&self) -> f64 {
        self.segments.last().map_or(0.0, |s| s.gigabytes_per_second)
    }
}

/// The segment of a size.
fn at(segments: &[Segment], bytes: f64) -> Option<&Segment> {
    segments.iter().rev().find(|s| bytes >= s.from_bytes).or(segments.first())
}

fn time(segments: &[Segment], bytes: f64) -> f64 {
    at(segments, bytes).map_or(f64::NAN, |s| s.latency_ns + bytes / s.gigabytes_per_second)
}

/// One line through (bytes, ns) by least squares of relative errors, with neither latency nor time
/// per byte below 0; and its sum of squared relative errors.
fn line(points: &[(f64, f64)]) -> Option<(Segment, f64)> {
    let n = points.len();
    let x = DMatrix::from_fn(n, 2, |r, c| if c == 0 { 1.0 } else { points[r].0 } / points[r].1);
    let y = DVector::from_element(n, 1.0);
    let gram = x.transpose() * &x;
    let moment = x.transpose() * &y;
    let solved = clscope_analysis::energy::nonnegative(&gram, &moment, &[true, true]);
    let (latency_ns, per_byte) = (solved[0], solved[1]);
    let residual = (&x * &solved - &y).norm_squared();
    (per_byte > 0.0).then(|| {
        let segment =
            Segment { from_bytes: 0.0, latency_ns, gigabytes_per_second: per_byte.recip() };
        (segment, residual)
    })
}

/// Segments, and the sum of their squared errors.
type Pieces = (f64, Vec<Segment>);

/// By how many sizes they are of.
type Row = Vec<Option<Pieces>>;

/// Most segments of a link.
const MOST_SEGMENTS: usize = 4;

/// Sizes of a segment at least: two make any line.
const LEAST_SIZES: usize = 3;

/// Fits (bytes, ns): one line, or up to four where each more explains the times clearly better.
/// Gives the segments and the misfit; `None` for fewer than three different sizes, or times that do
/// not grow.
pub fn fit(points: &[(f64, f64)]) -> Option<(Vec<Segment>, f64)> {
    let mut points: Vec<(f64, f64)> =
        points.iter().copied().filter(|(x, y)| *x >= 0.0 && *y > 0.0 && y.is_finite()).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Where each size begins among the points, and their end.
    let mut begins: Vec<usize> =
        (0..points.len()).filter(|i| *i == 0 || points[*i].0 > points[*i - 1].0).collect();
    // Traces may hold thousands of sizes: knees are looked for among some of them.
    while begins.len() > MOST_KNEES {
        let mut odd = false;
        begins.retain(|_| {
            odd = !odd;
            odd
        });
    }
    let sizes = begins.len();
    if sizes < LEAST_SIZES {
        return None;
    }
    begins.push(points.len());
    let n = points.len() as f64;
    let (one, squares) = line(&points)?;
    let piece = |from: usize, to: usize| line(&points[begins[from]..begins[to]]);
    // The best segments of the first sizes, by how many segments and how many sizes.
    let ends = |least: usize| (0..=sizes).map(move |to| Some(to).filter(|to| *to >= least));
    let first = |to: usize| piece(0, to).map(|(segment, squares)| (squares, vec![segment]));
    let mut best: Vec<Row> = vec![ends(LEAST_SIZES).map(|to| first(to?)).collect()];
    for count in 1..MOST_SEGMENTS {
        let before = &best[count - 1];
        let with_last = |to: usize| {
            let mut least: Option<Pieces> = None;
            for knee in LEAST_SIZES * count..=to - LEAST_SIZES {
                let Some((squares, segments)) = &before[knee] else { continue };
                if least.as_ref().is_some_and(|(sum, _)| squares >= sum) {
                    continue;
                }
                let Some((segment, more)) = piece(knee, to) else { continue };
                if least.as_ref().is_none_or(|(sum, _)| squares + more < *sum) {
                    let next = Segment { from_bytes: points[begins[knee]].0, ..segment };
                    least = Some((squares + more, [segments.as_slice(), &[next]].concat()));
                }
            }
            least
        };
        let row = ends(LEAST_SIZES * (count + 1)).map(|to| with_last(to?)).collect();
        best.push(row);
    }
    let mut chosen = (squares, vec![one]);
    for row in &best[1..] {
        // Three more parameters: by chance they take a part of the squares that this asks more
        // than.
        if let Some((sum, segments)) = &row[sizes]
            && *sum < 0.5 * chosen.0
            && (chosen.0 / n).sqrt() > 0.02
        {
            chosen = (*sum, segments.clone());
        }
    }
    Some((chosen.1, (chosen.0 / n).sqrt()))
}

/// Most sizes at which a segment may begin.
const MOST_KNEES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(segments: Vec<Segment>, misfit: f64) -> Link {
        Link {
            direction: "to_device".to_owned(),
            memory: "pinned".to_owned(),
            segments,
            misfit,
            watts: None,
        }
    }

    #[test]
    fn a_straight_line_stays_one() {
        let points: Vec<(f64, f64)> =
            (0..10).map(|e| f64::from(1 << (3 * e))).map(|x| (x, 14e3 + x / 54.4)).collect();
        let (segments, misfit) = fit(&points).unwrap();
        assert_eq!(segments.len(), 1);
        assert!((segments[0].latency_ns - 14e3).abs() < 1.0 && misfit < 1e-6);
        let link = link(segments, misfit);
        assert!((link.time_ns(1e9).value - (14e3 + 1e9 / 54.4)).abs() < 1e3);
    }

    #[test]
    fn a_change_of_protocol_is_found() {
        let cost = |x: f64| if x < 65_536.0 { 2e3 + x / 4.0 } else { 9e3 + x / 50.0 };
        let points: Vec<(f64, f64)> =
            (4..26).map(|e| f64::from(1 << e)).map(|x| (x, cost(x))).collect();
        let (segments, misfit) = fit(&points).unwrap();
        assert_eq!(segments.len(), 2, "{segments:?}");
        assert_eq!(segments[1].from_bytes, 65_536.0);
        assert!(misfit < 1e-6);
        let link = link(segments, misfit);
        assert!(link.is_sound());
        assert!((link.latency_ns() - 2e3).abs() < 1.0 && (link.bandwidth() - 50.0).abs() < 1e-6);
    }

    #[test]
    fn each_change_of_protocol_is_found() {
        let cost = |x: f64| match x {
            x if x < 4096.0 => 15e3,
            x if x < 1e6 => 20e3 + x / 17.0,
            x if x < 4e7 => 10e3 + x / 14.2,
            x => x / 7.6,
        };
        let points: Vec<(f64, f64)> =
            (0..29).map(|e| f64::from(1 << e)).map(|x| (x, cost(x) + x * 1e-6)).collect();
        let (segments, misfit) = fit(&points).unwrap();
        assert_eq!(segments.len(), 4, "{segments:?}");
        assert!(misfit < 1e-3, "{misfit}");
        // Between two sizes of the fit.
        let link = link(segments, misfit);
        for x in [777.0, 99_999.0, 7e6, 2e8] {
            assert!((link.time_ns(x).value / cost(x) - 1.0).abs() < 0.01, "{x}");
        }
    }

    #[test]
    fn too_few_sizes_give_nothing() {
        assert_eq!(fit(&[(1.0, 5.0), (2.0, 6.0), (2.0, 6.1)]), None);
        assert_eq!(fit(&[(1.0, f64::NAN), (2.0, 0.0)]), None);
    }

    proptest! {
        /// Whatever the times, the model's are positive and grow with the size within a segment.
        #[test]
        fn times_are_positive(ys in prop::collection::vec(1.0f64..1e9, 3..24)) {
            let points: Vec<(f64, f64)> =
                ys.iter().enumerate().map(|(i, y)| (f64::from(1 << i), *y)).collect();
            if let Some((segments, misfit)) = fit(&points) {
                let link = link(segments, misfit);
                prop_assert!(link.is_sound());
                for (x, _) in &points {
                    prop_assert!(link.time_ns(*x).value > 0.0 && link.time_ns(*x).low >= 0.0);
                }
            }
        }
    }
}
