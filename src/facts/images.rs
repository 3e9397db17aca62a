//! Owns how much of an image there is: its texels in three dimensions, as commands on images count
//! them, and the bytes of one. Refuses images of several levels or samples: no command reaches all
//! of them at once.
#![forbid(unsafe_code)]

use super::arguments::ask;
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::runtime::functions as api;

/// How much of an image there is.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// CL_MEM_TYPE.
    pub kind: u32,
    /// Width, height or number of lines, depth or number of layers.
    pub region: [usize; 3],
    /// Bytes of a texel.
    pub element: usize,
}

impl Extent {
    /// Bytes of all texels, without padding.
    pub fn bytes(&self) -> u64 {
        self.region.iter().fold(self.element as u64, |all, n| all.saturating_mul(*n as u64))
    }
}

/// That of a live image.
///
/// # Errors
/// What is not known of it, or what it is, as the end of a sentence.
pub fn extent(slot: usize, image: H) -> Result<Extent, &'static str> {
    let kind: u32 = ask(api::clGetMemObjectInfo.behind(slot), image, cl::CL_MEM_TYPE)
        .ok_or("has an unknown type")?;
    let of = api::clGetImageInfo.behind(slot);
    let size = |name| ask::<usize>(of, image, name).unwrap_or(0);
    let number = |name| ask::<u32>(of, image, name).unwrap_or(0);
    if number(cl::CL_IMAGE_NUM_MIP_LEVELS) > 1 || number(cl::CL_IMAGE_NUM_SAMPLES) > 1 {
        return Err("is an image of several levels or samples");
    }
    let width = size(cl::CL_IMAGE_WIDTH);
    let height = || size(cl::CL_IMAGE_HEIGHT);
    let array = || size(cl::CL_IMAGE_ARRAY_SIZE);
    let region = match kind {
        cl::CL_MEM_OBJECT_IMAGE1D | cl::CL_MEM_OBJECT_IMAGE1D_BUFFER => [width, 1, 1],
        cl::CL_MEM_OBJECT_IMAGE1D_ARRAY => [width, array(), 1],
        cl::CL_MEM_OBJECT_IMAGE2D => [width, height(), 1],
        cl::CL_MEM_OBJECT_IMAGE2D_ARRAY => [width, height(), array()],
        cl::CL_MEM_OBJECT_IMAGE3D => [width, height(), size(cl::CL_IMAGE_DEPTH)],
        _ => return Err("is an image of an unknown type"),
    };
    let element = size(cl::CL_IMAGE_ELEMENT_SIZE);
    if element == 0 || region.contains(&0) {
        return Err("is an image of unknown size");
    }
    Ok(Extent { kind, region, element })
}
