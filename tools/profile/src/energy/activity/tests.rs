//! Tests of `activity`.

use super::*;

#[test]
fn overlaps_are_counted_once() {
    let mut d = PhysicalDevice::named("gpu", "", Kind::Gpu);
    assert_eq!(d.overlapped(), 0.0);
    let class = d.class("a", true);
    for (start, end) in [(0, 10), (5, 15), (15, 25), (16, 26)] {
        let (start, end) = (HostNs(start), HostNs(end));
        d.push(Span { class, device: DeviceIndex(0), start, end, timing: Timing::Timed }, 0);
    }
    assert_eq!(d.overlapped(), (5.0 + 9.0) / 40.0);
}

#[test]
fn joined_spans_keep_time_and_launches() {
    let mut d = PhysicalDevice::named("gpu", "", Kind::Gpu);
    let classes = [d.class("a", true), d.class("b", true)];
    for i in 0..100i64 {
        let (start, class) = (i * 20_000, classes[(i % 2) as usize]);
        d.push(
            Span {
                class,
                device: DeviceIndex(0),
                start: HostNs(start),
                end: HostNs(start + 15_000),
                timing: Timing::Timed,
            },
            0,
        );
    }
    assert_eq!(d.launches_per_span(), [1.0, 1.0]);
    d.compact();
    assert!(d.spans.len() < 10);
    let busy: i64 = d.spans.iter().map(|s| s.end.0 - s.start.0).sum();
    assert_eq!(busy, 100 * 15_000);
    assert!(d.spans.windows(2).all(|w| w[0].end <= w[1].start));
    let of_a = d.spans.iter().filter(|s| s.class == classes[0]).count() as f64;
    assert_eq!(d.launches_per_span()[0] * of_a, 50.0);
}
