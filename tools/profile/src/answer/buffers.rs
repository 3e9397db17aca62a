//! Owns the rows of buffers: by size and flags, with the copies that used them. Refuses to name
//! single buffers.

use super::data::{BufferCopies, BufferRow};
use clscope_analysis::stats::Stats;
use clscope_analysis::stats::buffers::{BufferSums, Copied};
use clscope_trace::codes::{
    CL_MEM_ALLOC_HOST_PTR, CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY, CL_MEM_USE_HOST_PTR,
    CL_MEM_WRITE_ONLY,
};
use std::collections::BTreeMap;

/// Rows that are kept, those with the most copied bytes first.
const MOST: usize = 20;

/// Buffers of all processes.
pub fn rows(stats: &Stats) -> Vec<BufferRow> {
    let mut kinds: BTreeMap<(u64, u64), BufferSums> = BTreeMap::new();
    for kind in stats.buffers.iter().flat_map(|of| &of.kinds) {
        let sums = kinds.entry((kind.size, kind.flags)).or_insert(BufferSums {
            size: kind.size,
            flags: kind.flags,
            ..BufferSums::default()
        });
        sums.made += kind.made;
        for (sum, more) in
            [(&mut sums.to_device, kind.to_device), (&mut sums.from_device, kind.from_device)]
        {
            sum.count += more.count;
            sum.bytes = sum.bytes.saturating_add(more.bytes);
            sum.ns = sum.ns.saturating_add(more.ns);
            sum.timed += more.timed;
        }
    }
    let copies = |of: &Copied| {
        (of.count > 0).then(|| BufferCopies {
            count: of.count,
            bytes: of.bytes,
            time_ns: (of.timed > 0).then_some(of.ns as f64),
            timed: of.timed,
        })
    };
    let mut rows: Vec<BufferRow> = kinds
        .values()
        .map(|of| BufferRow {
            bytes: of.size,
            flags: flags(of.flags),
            made: of.made,
            to_device: copies(&of.to_device),
            from_device: copies(&of.from_device),
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.copied(), row.bytes.saturating_mul(row.made))));
    rows.truncate(MOST);
    rows
}

/// Flags without what all of them begin with; where none says who may write, both may.
fn flags(bits: u64) -> String {
    const NAMES: [(u64, &str); 5] = [
        (CL_MEM_READ_ONLY, "READ_ONLY"),
        (CL_MEM_WRITE_ONLY, "WRITE_ONLY"),
        (CL_MEM_USE_HOST_PTR, "USE_HOST_PTR"),
        (CL_MEM_ALLOC_HOST_PTR, "ALLOC_HOST_PTR"),
        (CL_MEM_COPY_HOST_PTR, "COPY_HOST_PTR"),
    ];
    let mut names: Vec<&str> =
        NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    if bits & (CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY) == 0 {
        names.insert(0, "READ_WRITE");
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_named_and_none_is_read_and_write() {
        for (bits, want) in [
            (0, "READ_WRITE"),
            (1, "READ_WRITE"),
            (CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, "READ_ONLY COPY_HOST_PTR"),
            (CL_MEM_ALLOC_HOST_PTR, "READ_WRITE ALLOC_HOST_PTR"),
        ] {
            assert_eq!(flags(bits), want);
        }
    }
}
