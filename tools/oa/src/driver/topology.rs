//! Which slices, subslices and EUs a GPU has. Owns the drivers' answers and the masks that metric
//! sets ask for; refuses to guess what a driver does not say.
#![forbid(unsafe_code)]

/// Counts and masks of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// One bit per slice.
    pub slice_mask: u64,
    /// Masks of the subslices (dual subslices from Gen12) of each slice.
    pub subslices: Vec<u64>,
    /// Execution units.
    pub eus: u32,
}

impl Topology {
    /// How many slices.
    pub fn slices(&self) -> u32 {
        self.slice_mask.count_ones()
    }

    /// How many subslices.
    pub fn subslice_count(&self) -> u32 {
        self.subslices.iter().map(|m| m.count_ones()).sum()
    }

    /// `$SubsliceMask` of metric sets: the masks of all slices, 3 bits each before Gen11 and 8
    /// after (igt, lib/i915/perf.c); slices that do not fit into 64 bits are left out.
    pub fn subslice_mask(&self, is_gen11_or_later: bool) -> u64 {
        let bits = if is_gen11_or_later { 8 } else { 3 };
        let packed = self
            .subslices
            .iter()
            .enumerate()
            .map(|(slice, mask)| mask.checked_shl(slice as u32 * bits).unwrap_or(0));
        packed.fold(0, |all, mask| all | mask)
    }

    /// i915's answer (i915_drm.h, struct drm_i915_query_topology_info: eight u16, then masks).
    /// `None` where it contradicts itself.
    pub fn from_i915(bytes: &[u8]) -> Option<Topology> {
        let half = |i: usize| {
            Some(usize::from(u16::from_le_bytes(bytes.get(2 * i..2 * i + 2)?.try_into().ok()?)))
        };
        let (slices, subslices, eus) = (half(1)?, half(2)?, half(3)?);
        let (subslice_at, subslice_stride, eu_at, eu_stride) =
            (half(4)?, half(5)?, half(6)?, half(7)?);
        let data = bytes.get(16..)?;
        let mask = |at: usize, bits: usize| -> Option<u64> {
            let bytes = data.get(at..at + bits.div_ceil(8))?;
            let value = bytes
                .iter()
                .take(8)
                .enumerate()
                .fold(0u64, |v, (i, b)| v | u64::from(*b) << (8 * i));
            Some(if bits < 64 { value & ((1 << bits) - 1) } else { value })
        };
        let slice_mask = mask(0, slices)?;
        let mut found = Topology { slice_mask, ..Topology::default() };
        for slice in 0..slices.min(64) {
            let here = mask(subslice_at + slice * subslice_stride, subslices)?;
            let here = if slice_mask >> slice & 1 == 1 { here } else { 0 };
            found.subslices.push(here);
            for subslice in (0..subslices.min(64)).filter(|s| here >> s & 1 == 1) {
                found.eus +=
                    mask(eu_at + (slice * subslices + subslice) * eu_stride, eus)?.count_ones();
            }
        }
        Some(found)
    }

    /// xe's answer (xe_drm.h, struct drm_xe_query_topology_mask: u16 gt, u16 type, u32 bytes,
    /// mask), of one GT. The driver names no slices: all dual subslices are given as one. `None`
    /// where it lacks this GT or contradicts itself.
    pub fn from_xe(mut bytes: &[u8], gt: u16) -> Option<Topology> {
        let (mut compute, mut geometry, mut eus_each) = (None, None, None);
        while bytes.len() >= 8 {
            let half = |i: usize| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]);
            let length = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize;
            let mask = bytes.get(8..8usize.checked_add(length)?)?;
            let value = mask
                .iter()
                .take(8)
                .enumerate()
                .fold(0u64, |v, (i, b)| v | u64::from(*b) << (8 * i));
            if half(0) == gt {
                match half(1) {
                    1 => geometry = Some(value),
                    2 => compute = Some(value),
                    // EUs per dual subslice: of 8 lanes (4), or of 16 lanes on Xe2 (16).
                    4 | 16 => eus_each = Some(value.count_ones()),
                    _ => {}
                }
            }
            bytes = bytes.get(8 + length..)?;
        }
        let subslices = compute.unwrap_or(0) | geometry.unwrap_or(0);
        (subslices != 0).then_some(())?;
        Some(Topology {
            slice_mask: 1,
            subslices: vec![subslices],
            eus: subslices.count_ones() * eus_each?,
        })
    }
}

/// i915's answer for a GPU of `slices` by `subslices` by `eus`, all there: for tests and emulators.
pub fn synthesised_i915(slices: u16, subslices: u16, eus: u16) -> Vec<u8> {
    let ones = |bits: u16| -> Vec<u8> {
        (0..bits.div_ceil(8))
            .map(|i| if bits - 8 * i >= 8 { 0xff } else { (1u16 << (bits - 8 * i)) as u8 - 1 })
            .collect()
    };
    let subslice_at = slices.div_ceil(8);
    let (subslice_stride, eu_stride) = (subslices.div_ceil(8), eus.div_ceil(8));
    let eu_at = subslice_at + slices * subslice_stride;
    let head = [0, slices, subslices, eus, subslice_at, subslice_stride, eu_at, eu_stride];
    let mut out: Vec<u8> = head.iter().flat_map(|h| h.to_le_bytes()).collect();
    out.extend(ones(slices));
    (0..slices).for_each(|_| out.extend(ones(subslices)));
    (0..slices * subslices).for_each(|_| out.extend(ones(eus)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gt2_of_gen9_has_24_units() {
        let topology = Topology::from_i915(&synthesised_i915(1, 3, 8)).unwrap();
        assert_eq!((topology.slices(), topology.subslice_count(), topology.eus), (1, 3, 24));
        assert_eq!((topology.subslice_mask(false), topology.subslice_mask(true)), (7, 7));
        let gt3 = Topology::from_i915(&synthesised_i915(2, 3, 8)).unwrap();
        assert_eq!(
            (gt3.subslice_mask(false), gt3.subslice_mask(true), gt3.eus),
            (0b11_1111, 0x707, 48)
        );
    }

    #[test]
    fn fused_off_parts_do_not_count() {
        let mut bytes = synthesised_i915(2, 3, 8);
        bytes[16] = 0b01; // the second slice
        bytes[17] = 0b101; // the second subslice of the first
        bytes[19] = 0b0111_1111; // an EU of the first subslice
        let topology = Topology::from_i915(&bytes).unwrap();
        assert_eq!(
            (topology.slices(), topology.subslices.clone(), topology.eus),
            (1, vec![0b101, 0], 15)
        );
    }

    #[test]
    fn xe_masks_are_joined() {
        let item = |gt: u16, kind: u16, mask: &[u8]| {
            let mut out = [gt.to_le_bytes(), kind.to_le_bytes()].concat();
            out.extend((mask.len() as u32).to_le_bytes());
            out.extend(mask);
            out
        };
        let answer = [
            item(0, 1, &[0xff, 0]),
            item(0, 2, &[0xff, 1]),
            item(0, 4, &[0xff, 0xff]),
            item(1, 1, &[1]),
        ]
        .concat();
        let topology = Topology::from_xe(&answer, 0).unwrap();
        assert_eq!((topology.subslice_count(), topology.eus), (9, 144));
        assert_eq!(Topology::from_xe(&answer, 1), None);
        assert_eq!(Topology::from_xe(&answer[..answer.len() - 1], 0), None);
    }

    proptest! {
        #[test]
        fn any_answer_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..80), small in any::<bool>()) {
            // Small numbers get past the first checks.
            let bytes: Vec<u8> = if small { bytes.iter().map(|b| b & 3).collect() } else { bytes };
            let _ = Topology::from_i915(&bytes);
            let _ = Topology::from_xe(&bytes, 0);
        }
    }
}
