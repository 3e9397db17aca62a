//! What a job needs before it runs: programs, kernels, arguments, buffers, an image. Refuses to
//! launch anything but what fills them.

use super::{Bench, CaseError};
use crate::cl::{Argument, Buffer, ClError, Kernel, Shape};
use crate::job::{Arg, Fill, TEXELS};
use crate::source::{self, Source};
use clscope_trace::codes;
use std::rc::Rc;

/// Programs kept built at a time; beyond it the oldest go all at once.
const PROGRAMS: usize = 64;

impl Bench<'_> {
    pub(super) fn kernel(
        &mut self,
        source: Source,
        entry: &str,
        defines: &[String],
    ) -> Result<Kernel, CaseError> {
        let key = (source, defines.join(" "));
        if self.programs.len() >= PROGRAMS {
            self.programs.clear();
        }
        let program = match self.programs.get(&key) {
            Some(program) => Rc::clone(program),
            None => {
                let program =
                    Rc::new(source::program(&self.session, self.cache.as_ref(), source, &key.1)?);
                self.programs.insert(key, Rc::clone(&program));
                program
            }
        };
        Ok(self.session.kernel(&program, entry)?)
    }

    /// The kernel for groups of `group`, and the largest that it takes: built for just that size
    /// where it takes only smaller ones otherwise.
    pub(super) fn kernel_for(
        &mut self,
        source: Source,
        entry: &str,
        defines: &[String],
        group: usize,
    ) -> Result<(Kernel, usize), CaseError> {
        let kernel = self.kernel(source, entry, defines)?;
        let largest = kernel.largest_group();
        if group <= largest || group > self.facts().max_group {
            return Ok((kernel, largest));
        }
        let sized: Vec<String> =
            defines.iter().cloned().chain([format!("-DGROUP={group}")]).collect();
        match self.kernel(source, entry, &sized) {
            // A compiler that takes the attribute vouches for the size; NVIDIA's goes on to state
            // 256 when it is asked.
            Ok(sized) => Ok((sized, group)),
            Err(CaseError::NotAvailable { .. }) => Ok((kernel, largest)),
            Err(other) => Err(other),
        }
    }

    /// Buffers of at least these sizes, kept between cases.
    ///
    /// # Errors
    /// [`CaseError::NotAvailable`] where the device has no room.
    pub fn buffers(&mut self, sizes: &[usize]) -> Result<Vec<Rc<Buffer>>, CaseError> {
        let largest = self.facts().largest_buffer;
        let mut out = Vec::new();
        for (slot, &bytes) in sizes.iter().enumerate() {
            if bytes as u64 > largest {
                let reason =
                    format!("a buffer of {bytes} bytes is needed, the device allows {largest}");
                return Err(CaseError::lacks(reason));
            }
            if self.pool.len() <= slot {
                self.pool.resize(slot + 1, None);
            }
            let held = self.pool[slot].take().filter(|b| b.bytes() >= bytes);
            let buffer = match held {
                Some(buffer) => buffer,
                None => Rc::new(self.session.buffer(bytes, false)?),
            };
            self.pool[slot] = Some(Rc::clone(&buffer));
            out.push(buffer);
        }
        Ok(out)
    }

    pub(super) fn set(
        &self,
        kernel: &Kernel,
        args: &[Arg],
        buffers: &[Rc<Buffer>],
        trips: u32,
    ) -> Result<(), CaseError> {
        for (index, arg) in (0..).zip(args) {
            let bytes = trips.to_ne_bytes();
            let value = match arg {
                Arg::Buffer(n) => Argument::Buffer(&buffers[*n]),
                Arg::Trips => Argument::Bytes(&bytes),
                Arg::Value(bytes) => Argument::Bytes(bytes),
                Arg::Local(bytes) => Argument::Local(*bytes),
                Arg::Image => match &self.image {
                    Some(image) => Argument::Image(image),
                    None => {
                        return Err(CaseError::lacks("the device has no images"));
                    }
                },
            };
            kernel.set(index, &value)?;
        }
        Ok(())
    }

    /// Makes and fills the image of [`Arg::Image`].
    pub(super) fn make_image(&mut self) -> Result<(), CaseError> {
        if self.image.is_some() {
            return Ok(());
        }
        let shape = Shape {
            kind: codes::CL_MEM_OBJECT_IMAGE2D,
            order: codes::CL_R,
            data: codes::CL_UNSIGNED_INT32,
            width: TEXELS,
            height: TEXELS,
            depth: 0,
            array: 0,
            element: 4,
        };
        let refused = |error: ClError| CaseError::NotAvailable {
            reason: format!("the device takes no such image: {error}"),
            log: None,
        };
        let image = self.session.image(shape, codes::CL_MEM_READ_ONLY, None).map_err(refused)?;
        let texels = (0..(TEXELS * TEXELS) as u32).map(|t| t.wrapping_mul(2_654_435_761));
        let bytes: Vec<u8> = texels.flat_map(u32::to_ne_bytes).collect();
        self.session.write_image(&image, &bytes)?;
        self.session.finish()?;
        self.image = Some(image);
        Ok(())
    }

    pub(super) fn fill(&mut self, fills: &[Fill], buffers: &[Rc<Buffer>]) -> Result<(), CaseError> {
        for fill in fills {
            match fill {
                Fill::Pattern { buffer, pattern, bytes } => {
                    self.session.fill(&buffers[*buffer], pattern, *bytes)?
                }
                Fill::Kernel { source, entry, defines, args, items } => {
                    let kernel = self.kernel(*source, entry, defines)?;
                    self.set(&kernel, args, buffers, 0)?;
                    let group = group_that_divides(*items, kernel.largest_group().min(256));
                    self.session.launch(&kernel, *items, group)?;
                    self.session.finish()?;
                }
            }
        }
        Ok(())
    }
}

/// The largest group up to `most` that divides `items`, by halving.
pub(super) fn group_that_divides(items: usize, most: usize) -> usize {
    let mut group = most.max(1).next_power_of_two();
    while group > most.max(1) || !items.is_multiple_of(group) {
        group /= 2;
    }
    group.max(1)
}
