//! Memory beside plain buffers: buffers with flags, parts of buffers, images and samplers. Refuses
//! to touch bytes outside of an image.

use crate::api::{Api, Handle, ImageDescription, ImageFormat};
use crate::error::{ClError, checked};
use crate::{Buffer, Event, Session};
use clscope_trace::codes as cl;
use std::sync::Arc;

/// The bits of `cl_mem_flags` that say how kernels use memory.
pub const ACCESS_FLAGS: u64 = cl::CL_MEM_READ_WRITE | cl::CL_MEM_WRITE_ONLY | cl::CL_MEM_READ_ONLY;

/// An image's format and extent, in the numbers of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// CL_MEM_OBJECT_IMAGE2D and its like.
    pub kind: u32,
    /// CL_RGBA and its like.
    pub order: u32,
    /// CL_UNORM_INT8 and its like.
    pub data: u32,
    /// Texels.
    pub width: usize,
    /// Texels; 0 where the kind has none.
    pub height: usize,
    /// Texels; 0 where the kind has none.
    pub depth: usize,
    /// Images of an array; 0 where it is none.
    pub array: usize,
    /// Bytes of a texel.
    pub element: usize,
}

impl Shape {
    /// Width, height and depth as transfers take them: never 0, the number of images in the place
    /// of the first dimension that an image of the array has not.
    pub fn region(&self) -> [usize; 3] {
        match self.kind {
            cl::CL_MEM_OBJECT_IMAGE1D_ARRAY => [self.width, self.array.max(1), 1],
            _ => [self.width, self.height.max(1), self.depth.max(self.array).max(1)],
        }
    }

    /// Bytes of all texels, without padding; nothing where that is no number of 64 bits.
    pub fn bytes(&self) -> Option<usize> {
        self.region().iter().try_fold(self.element, |bytes, n| bytes.checked_mul(*n))
    }

    /// Bytes from a row to the next and from a slice to the next, without padding; 0 where there is
    /// no further slice. An array of 1D images steps from one to the next by slices.
    pub fn pitches(&self) -> (usize, usize) {
        let [width, height, depth] = self.region();
        let row = width * self.element;
        match (depth, self.array) {
            (2.., _) => (row, row * height),
            (_, array) if array > 0 && array == height => (row, row),
            _ => (row, 0),
        }
    }
}

/// An image.
pub struct Image {
    pub(crate) api: Arc<Api>,
    pub(crate) handle: Handle,
    /// Its format and extent.
    pub shape: Shape,
    /// What holds its texels, where it is a view of it.
    _buffer: Option<Buffer>,
}

/// What an image is another view of.
pub enum View<'a> {
    /// A buffer, with the bytes from a row to the next (0: no padding).
    Buffer(&'a Buffer, usize),
    /// The same of a part of a buffer, which the image keeps.
    Part(Buffer, usize),
    /// An image.
    Image(&'a Image),
}

/// A sampler.
pub struct Sampler {
    pub(crate) api: Arc<Api>,
    pub(crate) handle: Handle,
}

impl Image {
    /// Bytes of a texel, as the runtime has it.
    fn element(&self) -> Result<usize, ClError> {
        let mut size = 0usize;
        // SAFETY: the image is alive; there is room for a size.
        let code = unsafe {
            (self.api.get_image_info)(
                self.handle,
                cl::CL_IMAGE_ELEMENT_SIZE,
                size_of::<usize>(),
                std::ptr::from_mut(&mut size).cast(),
                std::ptr::null_mut(),
            )
        };
        checked("clGetImageInfo", "CL_IMAGE_ELEMENT_SIZE", code)?;
        Ok(size)
    }
}

impl Session {
    /// A buffer with the given `cl_mem_flags`, none of which may want a host pointer.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn buffer_with(&self, bytes: usize, flags: u64) -> Result<Buffer, ClError> {
        const WITH_POINTER: u64 = cl::CL_MEM_USE_HOST_PTR | cl::CL_MEM_COPY_HOST_PTR;
        let mut code = 0;
        // SAFETY: the context is alive; no host pointer is given, and no flag asks for one.
        let handle = unsafe {
            (self.api.create_buffer)(
                self.context,
                flags & !WITH_POINTER,
                bytes.max(1),
                std::ptr::null_mut(),
                &mut code,
            )
        };
        checked("clCreateBuffer", format_args!("{bytes} bytes"), code)?;
        Ok(Buffer { api: Arc::clone(&self.api), handle, bytes })
    }

    /// A part of a buffer, as an object of its own.
    ///
    /// # Errors
    /// What the runtime returned: devices want parts to begin at multiples of their own.
    pub fn part(
        &self,
        of: &Buffer,
        flags: u64,
        offset: usize,
        bytes: usize,
    ) -> Result<Buffer, ClError> {
        of.holds("clCreateSubBuffer", offset, bytes)?;
        let region = [offset, bytes];
        let mut code = 0;
        // SAFETY: a region is an origin and a size; it lies in the buffer and outlives the call.
        let handle = unsafe {
            (self.api.create_sub_buffer)(
                of.handle,
                flags,
                cl::CL_BUFFER_CREATE_TYPE_REGION,
                (&raw const region).cast(),
                &mut code,
            )
        };
        checked("clCreateSubBuffer", format_args!("{bytes} bytes at {offset}"), code)?;
        Ok(Buffer { api: Arc::clone(&self.api), handle, bytes })
    }

    /// An image with the given `cl_mem_flags`, none of which may want a host pointer; of its own
    /// memory, or a view of another's.
    ///
    /// # Errors
    /// What the runtime returned: devices know some formats and extents only.
    pub fn image(
        &self,
        shape: Shape,
        flags: u64,
        view: Option<View<'_>>,
    ) -> Result<Image, ClError> {
        let named = clscope_trace::names::value(u64::from(shape.kind))
            .unwrap_or("an image of unknown type");
        let bytes = shape.bytes().ok_or_else(|| ClError::Call {
            call: "clCreateImage",
            object: named.to_owned(),
            code: cl::CL_INVALID_IMAGE_SIZE,
        })?;
        let (buffer, memory, row_pitch) = match view {
            Some(View::Image(of)) => (None, of.handle, 0),
            Some(View::Buffer(of, pitch)) => (None, of.handle, pitch),
            Some(View::Part(of, pitch)) => {
                let handle = of.handle;
                (Some(of), handle, pitch)
            }
            // These have no memory of their own.
            None if shape.kind == cl::CL_MEM_OBJECT_IMAGE1D_BUFFER => {
                let own = self.buffer_with(bytes, flags)?;
                let handle = own.handle;
                (Some(own), handle, 0)
            }
            None => (None, std::ptr::null_mut(), 0),
        };
        let format = ImageFormat { order: shape.order, data: shape.data };
        let description = ImageDescription {
            kind: shape.kind,
            width: shape.width,
            height: shape.height,
            depth: shape.depth,
            array: shape.array,
            row_pitch,
            slice_pitch: 0,
            mips: 0,
            samples: 0,
            memory,
        };
        let mut code = 0;
        // SAFETY: the structures have the specification's layout and outlive the call; no host
        // pointer is given; what it is a view of is alive.
        let handle = unsafe {
            (self.api.create_image)(
                self.context,
                flags & ACCESS_FLAGS,
                &format,
                &description,
                std::ptr::null_mut(),
                &mut code,
            )
        };
        let [w, h, d] = shape.region();
        checked("clCreateImage", format_args!("{named} of {w}x{h}x{d}"), code)?;
        let image = Image { api: Arc::clone(&self.api), handle, shape, _buffer: buffer };
        // Transfers rest on it: the runtime goes by the format.
        match image.element()? {
            element if element == shape.element => Ok(image),
            element => Err(ClError::Call {
                call: "clCreateImage",
                object: format!(
                    "{named}: a texel of its format has {element} bytes, not {}",
                    shape.element
                ),
                code: cl::CL_INVALID_IMAGE_FORMAT_DESCRIPTOR,
            }),
        }
    }

    /// Reads all texels of an image, without padding; returns when they are there.
    ///
    /// # Errors
    /// What the runtime returned, or CL_INVALID_VALUE where `into` has another size.
    pub fn read_image(&self, image: &Image, into: &mut [u8]) -> Result<Event, ClError> {
        let (region, row, slice) = fits("clEnqueueReadImage", image, into.len())?;
        self.timed("clEnqueueReadImage", "an image", |event| {
            // SAFETY: `into` holds all texels of the region, packed; the call blocks.
            unsafe {
                (self.api.enqueue_read_image)(
                    self.queue,
                    image.handle,
                    1,
                    [0; 3].as_ptr(),
                    region.as_ptr(),
                    row,
                    slice,
                    into.as_mut_ptr().cast(),
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })
    }

    /// Writes all texels of an image, without padding; returns when `from` is no longer needed.
    ///
    /// # Errors
    /// As for [`Session::read_image`].
    pub fn write_image(&self, image: &Image, from: &[u8]) -> Result<Event, ClError> {
        let (region, row, slice) = fits("clEnqueueWriteImage", image, from.len())?;
        self.timed("clEnqueueWriteImage", "an image", |event| {
            // SAFETY: `from` holds all texels of the region, packed; the call blocks.
            unsafe {
                (self.api.enqueue_write_image)(
                    self.queue,
                    image.handle,
                    1,
                    [0; 3].as_ptr(),
                    region.as_ptr(),
                    row,
                    slice,
                    from.as_ptr().cast(),
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })
    }

    /// A sampler: `addressing` as CL_ADDRESS_CLAMP, `filter` as CL_FILTER_NEAREST.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn sampler(
        &self,
        normalized: bool,
        addressing: u32,
        filter: u32,
    ) -> Result<Sampler, ClError> {
        let mut code = 0;
        // SAFETY: the context is alive.
        let handle = unsafe {
            (self.api.create_sampler)(
                self.context,
                u32::from(normalized),
                addressing,
                filter,
                &mut code,
            )
        };
        checked("clCreateSampler", "a sampler", code)?;
        Ok(Sampler { api: Arc::clone(&self.api), handle })
    }
}

/// Region, row pitch and slice pitch of a transfer of all texels, if so many bytes are that.
fn fits(
    call: &'static str,
    image: &Image,
    bytes: usize,
) -> Result<([usize; 3], usize, usize), ClError> {
    let shape = &image.shape;
    let region = shape.region();
    if shape.bytes() != Some(bytes) {
        let object = format!("{bytes} bytes for {region:?} texels of {} bytes", shape.element);
        return Err(ClError::Call { call, object, code: cl::CL_INVALID_VALUE });
    }
    let (row, slice) = shape.pitches();
    Ok((region, row, slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_follow_the_kind() {
        let shape = Shape {
            kind: cl::CL_MEM_OBJECT_IMAGE2D,
            order: cl::CL_RGBA,
            data: cl::CL_UNORM_INT8,
            width: 5,
            height: 3,
            depth: 0,
            array: 0,
            element: 4,
        };
        assert_eq!((shape.region(), shape.bytes()), ([5, 3, 1], Some(60)));
        let array = Shape { kind: cl::CL_MEM_OBJECT_IMAGE1D_ARRAY, height: 0, array: 7, ..shape };
        assert_eq!((array.region(), array.bytes()), ([5, 7, 1], Some(140)));
        let array = Shape { kind: cl::CL_MEM_OBJECT_IMAGE2D_ARRAY, array: 7, ..shape };
        assert_eq!(array.region(), [5, 3, 7]);
        assert_eq!(Shape { width: usize::MAX, ..shape }.bytes(), None);
    }
}
