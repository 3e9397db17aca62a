//! Why rows of a difference are not judged, and what else differs between the sides.

use super::*;

/// Keys of both sides, with their largest total, by it.
pub(super) fn ordered(
    base: &[Run],
    new: &[Run],
    rows: impl Fn(&Report) -> Vec<(Key, f64)>,
) -> Vec<(Key, f64)> {
    let mut all: BTreeMap<Key, f64> = BTreeMap::new();
    for (key, total) in base.iter().chain(new).flat_map(|r| rows(&r.report)) {
        let most = all.entry(key).or_default();
        *most = total.max(*most);
    }
    let mut out: Vec<_> = all.into_iter().collect();
    out.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    out
}

/// Why a kernel's launches cannot be compared.
pub(super) fn apart(base: &[Run], new: &[Run], key: &Key) -> Option<String> {
    let of = |side: &[Run]| {
        let mut sizes = BTreeSet::new();
        let mut options = BTreeSet::new();
        for with in side.iter().filter_map(|r| r.kernels.get(key)) {
            sizes.extend(with.sizes.iter().cloned());
            options.extend(with.options.iter().cloned());
        }
        (sizes, options)
    };
    let ((sizes_a, options_a), (sizes_b, options_b)) = (of(base), of(new));
    let shown = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join("; ");
    if sizes_a.is_empty() || sizes_b.is_empty() {
        return None;
    }
    match () {
        () if sizes_a != sizes_b => {
            Some(format!("sizes differ: {} and {}", shown(&sizes_a), shown(&sizes_b)))
        }
        () if options_a != options_b => Some(format!(
            "build options differ: `{}` and `{}`",
            shown(&options_a),
            shown(&options_b)
        )),
        () => None,
    }
}

/// Why a figure is missing of the base and of the new side, where nothing more is known.
pub(super) fn not_known() -> [String; 2] {
    ["it is not known of the base".to_owned(), "it is not known of the new side".to_owned()]
}

/// Why a metric of no kernel is known of some of these runs, or what to do about it.
pub(super) fn remedy<'r>(metric: Metric, mut runs: impl Iterator<Item = &'r Run>) -> String {
    let known = match metric {
        Metric::Energy => runs.find_map(Run::no_joules),
        Metric::Time | Metric::Count | Metric::Bytes => None,
    };
    known.unwrap_or_else(|| match metric {
        Metric::Energy => {
            "record both sides with the same sensors (`clscope doctor` lists them)".to_owned()
        }
        _ => "record both sides with device timing".to_owned(),
    })
}

/// What to know of kernels of a side whose joules have no row, because only their sum is known.
pub(super) fn sums_only(side: &str, runs: &[Run]) -> Option<String> {
    runs.iter().find_map(Run::sums_only).map(|why| format!("{side}: {why}"))
}

/// What forbids comparing the sides at all.
pub(super) fn differences(base: &[Run], new: &[Run]) -> Vec<Difference> {
    let of = |side: &[Run], figure: &dyn Fn(&Report) -> Vec<String>| -> String {
        let all: BTreeSet<String> = side.iter().flat_map(|r| figure(&r.report)).collect();
        // A trace of no device, or of no process, has none.
        let all: Vec<String> = all.into_iter().filter(|text| !text.is_empty()).collect();
        if all.is_empty() { "none".to_owned() } else { all.join("; ") }
    };
    let devices = |r: &Report| -> Vec<String> {
        r.devices.iter().map(|d| format!("{} (driver {})", d.name, d.driver)).collect()
    };
    let timing = |r: &Report| -> Vec<String> {
        r.processes.iter().map(|p| p.device_timing.clone()).collect()
    };
    type Figure<'f> = (&'static str, &'f dyn Fn(&Report) -> Vec<String>);
    let figures: [Figure<'_>; 2] = [("devices or drivers", &devices), ("device timing", &timing)];
    figures
        .iter()
        .map(|(what, figure)| Difference {
            what: (*what).to_owned(),
            base: of(base, figure),
            new: of(new, figure),
        })
        .filter(|d| d.base != d.new)
        .collect()
}
