//! Owns the stamps that a driver's thread gives the samples it takes. Such a thread is late now and
//! then: its sample was due, and taken, a period before the next, which comes when it is due. It
//! also hands out a sample twice. (On an H200 a sixth of the samples are followed within 18 ms
//! instead of 20, and they fit what ran before their stamps: with this the residual shrinks by 4
//! %.) Refuses to touch values.

use crate::energy::units::HostNs;
use crate::quantile::median;

/// A repeated value closer than this part of the period is the same sample.
const REPEATED: f64 = 0.1;
/// Stamps this part of a period before the next are on time.
const ON_TIME: f64 = 0.975;

/// Samples in order of time at the moments they were due, those handed out twice left out. A series
/// that is not regular comes back as it is.
pub fn restamped(samples: &[(HostNs, f64)]) -> Vec<(HostNs, f64)> {
    let gap = |pair: &[(HostNs, f64)]| pair[1].0.0.saturating_sub(pair[0].0.0) as f64;
    let period = median(samples.windows(2).map(gap)).unwrap_or(0.0);
    let near = |of: f64| (of - period).abs() < (1.0 - ON_TIME) * period;
    let regular = samples.windows(2).filter(|pair| near(gap(pair))).count();
    if period <= 0.0 || 3 * regular < samples.len() {
        return samples.to_vec();
    }
    let mut out: Vec<(HostNs, f64)> = Vec::with_capacity(samples.len());
    for &(at, value) in samples {
        match out.last() {
            Some(last)
                if last.1 == value
                    && (at.0.saturating_sub(last.0.0) as f64) < REPEATED * period => {}
            _ => out.push((at, value)),
        }
    }
    let mut floor = HostNs(i64::MIN);
    for i in 0..out.len() {
        if let Some(next) = out.get(i + 1).map(|next| next.0) {
            let gap = next.0.saturating_sub(out[i].0.0) as f64;
            if gap < ON_TIME * period {
                out[i].0 =
                    HostNs(next.0.saturating_sub(period as i64).max(floor.0.saturating_add(1)));
            }
        }
        floor = out[i].0;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(samples: &[(HostNs, f64)]) -> Vec<i64> {
        samples.iter().map(|s| s.0.0).collect()
    }

    #[test]
    fn late_stamps_go_where_they_were_due_and_repeats_go() {
        let series = |times: &[i64]| {
            times.iter().enumerate().map(|(i, t)| (HostNs(*t), i as f64)).collect::<Vec<_>>()
        };
        let due: Vec<i64> = (0..20).map(|i| i * 20_000).collect();
        let mut late = due.clone();
        late[4] += 13_000;
        late[11] += 3_000;
        assert_eq!(times(&restamped(&series(&late))), due);
        let mut twice = series(&due);
        twice.insert(6, (HostNs(twice[5].0.0 + 100), twice[5].1));
        assert_eq!(times(&restamped(&twice)), due);
    }

    #[test]
    fn order_is_kept_and_what_is_not_regular_is_left_alone() {
        let irregular: Vec<_> =
            (0..40i64).map(|i| (HostNs(i * i * 1000), 1.0 + i as f64)).collect();
        assert_eq!(restamped(&irregular), irregular);
        // Three within one period: none may pass another.
        let mut crowded: Vec<_> = (0..40i64).map(|i| (HostNs(i * 20_000), i as f64)).collect();
        crowded.insert(11, (HostNs(205_000), 10.3));
        crowded.insert(12, (HostNs(206_000), 10.6));
        assert!(restamped(&crowded).is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(restamped(&[]), []);
    }
}
