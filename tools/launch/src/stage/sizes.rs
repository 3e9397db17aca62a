//! Whether the sizes of a launch fit: the device, the kernel, and the time that somebody can wait.
//! Refuses to change them.

use super::{Built, Stage, StageError};
use crate::capture::Given;
use clscope_opencl::{ClError, DeviceFacts, Kernel, Range};
use clscope_trace::replace;

impl Stage<'_> {
    pub(super) fn explained(&self, built: &Built, range: &Range, error: ClError) -> StageError {
        match self.sizes(built, range) {
            Some(why) => StageError::Sizes {
                kernel: self.capture.launch.kernel.clone(),
                why: format!("{why} ({error})"),
            },
            None => StageError::Cl(error),
        }
    }

    /// Whether the work-groups at the end of a launch may be smaller than the others.
    pub(crate) fn may_be_uneven(&self, built: &Built) -> bool {
        self.limits.has_uneven_groups && replace::may_have_uneven_groups(&built.options)
    }

    /// Why the sizes of a launch do not fit the device or the kernel, if they do not.
    pub fn sizes(&self, built: &Built, range: &Range) -> Option<String> {
        let local = range.local.as_ref()?;
        let items = local.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
        let most = built.kernel.largest_group();
        if let Some(required) = built.kernel.required_group()
            && local.iter().zip(required).any(|(have, want)| *have != want)
        {
            let [x, y, z] = required;
            return Some(format!("the kernel requires groups of {x}x{y}x{z}"));
        }
        if items.is_none_or(|items| items > most) {
            return Some(format!("its groups may have {most} work-items on this device"));
        }
        for (have, most) in local.iter().zip(&self.limits.group_sizes) {
            if have > most {
                return Some(format!(
                    "a group of this device has at most {most} work-items in a dimension"
                ));
            }
        }
        if self.may_be_uneven(built) {
            return None;
        }
        let uneven =
            range.global.iter().zip(local).find(|(g, l)| **l == 0 || !g.is_multiple_of(**l));
        uneven.map(|(global, local)| {
            format!(
                "the global size {global} is no multiple of the local size {local}; choose one that divides it with --local, or another --global"
            )
        })
    }

    /// Asked before the launch, since some runtimes end the process that asks for more.
    ///
    /// # Errors
    /// If a work-group takes more local memory than the device has: what the kernel declares and
    /// what its arguments were given (clEnqueueNDRangeKernel, CL_OUT_OF_RESOURCES).
    pub(super) fn has_local_memory(&self, kernel: &Kernel) -> Result<(), StageError> {
        let has = self.session.facts().local_bytes;
        let launch = &self.capture.launch;
        let given = launch.arguments.iter().filter_map(|argument| match &argument.given {
            Given::Local { bytes } => Some(*bytes),
            _ => None,
        });
        let declared = kernel.local_bytes().unwrap_or(0);
        let takes = given.fold(declared, u64::saturating_add);
        if has == 0 || takes <= has {
            return Ok(());
        }
        Err(StageError::Sizes {
            kernel: launch.kernel.clone(),
            why: format!(
                "a group takes {takes} bytes of local memory, {declared} of them declared in the kernel; this device has {has} (CL_DEVICE_LOCAL_MEM_SIZE)"
            ),
        })
    }

    /// # Errors
    /// If the launch has more work-items than the device counts, or ends in a reasonable time.
    pub(super) fn ends_in_time(&self, range: &Range) -> Result<(), StageError> {
        match unending(range, self.session.facts(), self.limits.address_bits) {
            None => Ok(()),
            Some(why) => Err(StageError::Sizes { kernel: self.capture.launch.kernel.clone(), why }),
        }
    }
}

/// The clock of a device that does not tell its own, MHz: none is faster.
const FASTEST_MHZ: u32 = 10_000;
/// Lanes that a compute unit has at most: those of an SM of NVIDIA and of a core of Intel's Xe have
/// 128.
const LANES: f64 = 128.0;
/// Seconds that a launch may take at least.
const LONGEST_S: f64 = 60.0;

/// Why a launch has more work-items than a device can run: the first that fits no integer of its
/// addresses (clEnqueueNDRangeKernel, CL_INVALID_GLOBAL_WORK_SIZE), or so many that they last
/// longer than [`LONGEST_S`] where each takes one cycle of one of [`LANES`].
fn unending(range: &Range, of: &DeviceFacts, address_bits: Option<u32>) -> Option<String> {
    const NEXT: &str = "run fewer with --global";
    let offsets = range.offset.iter().flatten().copied().chain(std::iter::repeat(0));
    for (size, offset) in range.global.iter().zip(offsets) {
        let last = size.checked_add(offset);
        let fits = |last: usize| address_bits.is_none_or(|bits| bits >= 64 || last >> bits == 0);
        if !last.is_some_and(fits) {
            return Some(format!(
                "the global size {size} from {offset} is more than the device counts; {NEXT}"
            ));
        }
    }
    let items = range.global.iter().map(|n| *n as f64).product::<f64>();
    let units = f64::from(of.compute_units.max(1));
    let mhz = of.max_clock_mhz.unwrap_or(FASTEST_MHZ);
    let least = items / (units * LANES * f64::from(mhz) * 1e6);
    (least > LONGEST_S).then(|| {
        format!(
            "{items:.3e} work-items take {} units of {mhz} MHz {least:.0} s at least, if each takes one cycle; {NEXT}",
            of.compute_units.max(1)
        )
    })
}

/// Sizes that do not fit a launch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} has {sizes} sizes, the launch has {dimensions} dimensions")]
pub struct TooMany {
    /// What was given.
    what: &'static str,
    sizes: usize,
    dimensions: usize,
}

/// Sizes for as many dimensions as the launch has: those that are not given are 1.
///
/// # Errors
/// If there are more, and not 1. `what` names them then.
pub fn over(dimensions: u32, of: &[usize], what: &'static str) -> Result<Vec<usize>, TooMany> {
    let dimensions = dimensions as usize;
    if of.len() > dimensions && of.iter().skip(dimensions).any(|n| *n != 1) {
        return Err(TooMany { what, sizes: of.len(), dimensions });
    }
    let mut out = of.to_vec();
    out.resize(dimensions, 1);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_dimensions_of_the_launch() {
        assert_eq!(over(2, &[64], "--local").unwrap(), [64, 1]);
        assert_eq!(over(1, &[64, 1], "--local").unwrap(), [64]);
        assert!(over(1, &[64, 2], "--local").is_err());
    }

    #[test]
    fn launches_that_no_device_ends_are_refused() {
        let of = DeviceFacts { compute_units: 2, max_clock_mhz: Some(2000), ..Default::default() };
        let range = |global: &[usize]| Range { offset: None, global: global.to_vec(), local: None };
        assert_eq!(unending(&range(&[1 << 30, 4]), &of, Some(64)), None);
        // 2 units, 128 lanes, 2 GHz: 5.12e11 work-items a second.
        assert_eq!(unending(&range(&[1 << 40]), &of, Some(64)), None);
        let why = unending(&range(&[1 << 20, 1 << 20, 1 << 10]), &of, Some(64)).unwrap();
        assert!(why.contains("1.126e15 work-items") && why.contains("2199 s"), "{why}");
        // One unit of a device that tells nothing: 1.28e12 a second.
        let silent = DeviceFacts::default();
        assert_eq!(unending(&range(&[1 << 46]), &silent, Some(64)), None);
        assert!(unending(&range(&[1 << 47]), &silent, Some(64)).is_some());
        let why = unending(&range(&[1 << 33]), &of, Some(32)).unwrap();
        assert!(why.contains("more than the device counts"), "{why}");
        let far = Range { offset: Some(vec![usize::MAX]), ..range(&[2]) };
        assert!(unending(&far, &silent, None).is_some());
    }
}
