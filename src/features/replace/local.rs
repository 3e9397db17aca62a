//! Whether a launch may have the work-group size that is asked for, by the rules of
//! clEnqueueNDRangeKernel (OpenCL 3.0, section 5.8.3). Refuses to choose another size.
#![forbid(unsafe_code)]

use super::super::beside::Sizes;
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::ask;
use crate::facts::programs::build_text;
use crate::facts::{info, objects};
use crate::os::shared::maps::HashMap;
use crate::runtime::functions as api;
use clscope_trace::{defs, replace};

/// Most different launches of a kernel that are remembered.
const MOST: usize = 4096;

/// A launch, by all that decides.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Launch {
    device: usize,
    global: Vec<u64>,
    asked: Vec<u64>,
    wanted: Vec<u64>,
}

/// What was decided.
#[derive(Default)]
pub struct Seen(HashMap<Launch, bool>);

impl Seen {
    /// What was decided of such a launch, if anything was.
    pub fn find(&self, at: &Launch) -> Option<bool> {
        self.0.get(at).copied()
    }

    /// Keeps it, for a bounded number of launches.
    pub fn keep(&mut self, at: &Launch, may: bool) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert(at.clone(), may);
    }
}

impl Launch {
    pub fn new(slot: usize, queue: H, sizes: &Sizes, wanted: Vec<u64>) -> Self {
        let about = api::clGetCommandQueueInfo.behind(slot);
        let device = info::handle(about, queue, info::QUEUE_DEVICE).word();
        Self { device, global: sizes.global.clone(), asked: sizes.local.clone(), wanted }
    }

    /// The sizes as a launch takes them.
    pub fn wanted_sizes(&self) -> [usize; 3] {
        let mut out = [1; 3];
        out.iter_mut().zip(&self.wanted).for_each(|(to, size)| *to = *size as usize);
        out
    }

    /// What the trace says of it.
    pub fn describe(&self, kernel: u32, refused: String) -> defs::LocalSize {
        defs::LocalSize {
            kernel,
            device: objects::id_of_word(self.device),
            global: self.global.clone(),
            asked: self.asked.clone(),
            wanted: self.wanted.clone(),
            refused,
        }
    }
}

/// What a kernel and a device allow; `None` for what the runtime does not tell.
#[derive(Debug, Clone, Default)]
struct Allowed {
    /// Work-group size that the source requires.
    required: Option<[u64; 3]>,
    /// Most work-items of a work-group.
    most: Option<u64>,
    /// Most of each dimension.
    most_of: Vec<u64>,
    /// Work-groups at the end may be smaller.
    uneven: bool,
}

/// Whether a launch may have the size, or why not.
pub fn may(slot: usize, queue: H, kernel: H, at: &Launch) -> Result<(), String> {
    let device = info::handle(api::clGetCommandQueueInfo.behind(slot), queue, info::QUEUE_DEVICE);
    if device.is_null() {
        return Err("the device of the queue is not known".to_owned());
    }
    let group = |what| info::work_group(slot, kernel, device, what);
    let about = api::clGetDeviceInfo.behind(slot);
    let of_kernel = group(cl::CL_KERNEL_WORK_GROUP_SIZE).map(|[first, ..]| first);
    let of_device: Option<usize> = ask(about, device, cl::CL_DEVICE_MAX_WORK_GROUP_SIZE);
    let allowed = Allowed {
        required: group(cl::CL_KERNEL_COMPILE_WORK_GROUP_SIZE).filter(|sizes| *sizes != [0; 3]),
        most: of_kernel.into_iter().chain(of_device.map(|n| n as u64)).min(),
        most_of: info::words(about, device, cl::CL_DEVICE_MAX_WORK_ITEM_SIZES)
            .into_iter()
            .map(|size| size as u64)
            .collect(),
        uneven: uneven(slot, kernel, device),
    };
    match refusal(&allowed, at) {
        None => Ok(()),
        Some(why) => Err(why),
    }
}

/// Whether the kernel's program may have work-groups of different sizes.
fn uneven(slot: usize, kernel: H, device: H) -> bool {
    let about = api::clGetKernelInfo.behind(slot);
    let program = info::handle(about, kernel, info::KERNEL_PROGRAM);
    let options = build_text(slot, program, device, cl::CL_PROGRAM_BUILD_OPTIONS);
    replace::may_have_uneven_groups(&options)
}

fn refusal(allowed: &Allowed, at: &Launch) -> Option<String> {
    let (wanted, global) = (&at.wanted, &at.global);
    let shown = replace::shown;
    let Some(wanted) = &replace::fitted(wanted, global.len()) else {
        return Some(format!(
            "{} has {} dimensions, the launch has {}",
            shown(wanted),
            wanted.len(),
            global.len()
        ));
    };
    if let Some(required) = allowed.required {
        let whole: Vec<u64> = wanted.iter().copied().chain([1, 1]).take(3).collect();
        if whole != required {
            return Some(format!(
                "the kernel requires {} (reqd_work_group_size), {} was asked for",
                shown(&required),
                shown(wanted)
            ));
        }
    }
    let items = wanted.iter().fold(1u64, |all, size| all.saturating_mul(*size));
    if let Some(most) = allowed.most
        && items > most
    {
        return Some(format!(
            "{} is {items} work-items, and the device takes {most} of this kernel",
            shown(wanted)
        ));
    }
    if wanted.iter().zip(&allowed.most_of).any(|(size, most)| size > most) {
        return Some(format!(
            "{} is more than the device takes, {}",
            shown(wanted),
            shown(&allowed.most_of)
        ));
    }
    let divides = wanted.iter().zip(global).all(|(size, global)| global % size == 0);
    (!divides && !allowed.uneven)
        .then(|| format!("{} does not divide the global size {}", shown(wanted), shown(global)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_refused_by_the_rules_of_the_specification() {
        let allowed =
            Allowed { required: None, most: Some(256), most_of: vec![256, 256, 64], uneven: false };
        let refused = |allowed: &Allowed, global: &[u64], wanted: &[u64]| {
            let at = Launch {
                device: 1,
                global: global.to_vec(),
                asked: vec![],
                wanted: wanted.to_vec(),
            };
            refusal(allowed, &at)
        };
        let says = |global: &[u64], wanted: &[u64], part: &str| {
            let why = refused(&allowed, global, wanted).unwrap();
            assert!(why.contains(part), "{why}");
        };
        assert_eq!(refused(&allowed, &[640, 480], &[64, 1]), None);
        says(&[640], &[64, 2], "64x2 has 2 dimensions, the launch has 1");
        says(&[640], &[64, 1, 2], "3 dimensions, the launch has 1");
        // The same work-group, whatever its number of dimensions.
        assert_eq!(refused(&allowed, &[640], &[64, 1]), None);
        assert_eq!(refused(&allowed, &[640], &[64, 1, 1]), None);
        assert_eq!(refused(&allowed, &[640, 480], &[64]), None);
        assert_eq!(refused(&allowed, &[640, 480, 2], &[8, 8]), None);
        says(&[640, 480], &[7], "7x1 does not divide the global size 640x480");
        says(&[640, 480], &[32, 7], "does not divide the global size 640x480");
        says(&[640, 480], &[64, 8], "512 work-items, and the device takes 256");
        says(&[1, 1, 128], &[1, 1, 128], "more than the device takes, 256x256x64");
        let uneven = Allowed { uneven: true, ..allowed.clone() };
        assert_eq!(refused(&uneven, &[640, 480], &[50, 3]), None);
        let required = Allowed { required: Some([8, 8, 1]), ..allowed.clone() };
        assert_eq!(refused(&required, &[64, 64], &[8, 8]), None);
        assert!(refused(&required, &[64, 64], &[16, 8]).unwrap().contains("requires 8x8x1"));
        assert!(refused(&allowed, &[u64::MAX; 3], &[1 << 40, 1 << 40, 1]).is_some());
    }
}
