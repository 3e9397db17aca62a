//! Owns the reading of memory on a queue of our own, piece by piece, into files of a capture.
//! Memory that the host may not read is copied into a buffer of our own first. Refuses to choose
//! what is read.

use super::super::beside::{Aside, Place, Room, said};
use super::memories::{Memory, Source};
use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::recording::captures::{Capture, Written};
use crate::runtime::functions as api;
use std::ptr::{null, null_mut};

/// Bytes that are read at once.
const PIECE: usize = 8 << 20;
/// The host may not read such memory.
const HOST_CANNOT: u64 = cl::CL_MEM_HOST_WRITE_ONLY | cl::CL_MEM_HOST_NO_ACCESS;

/// Reads memory into a file: the hash of its bytes.
///
/// # Errors
/// The runtime's or the system's reason.
pub fn read(
    slot: usize,
    aside: &Aside,
    memory: &Memory,
    to: &mut Capture,
    name: &str,
) -> Result<String, String> {
    let mut file = to.file(name)?;
    let mut piece: Vec<u8> = Vec::new();
    let most = PIECE.min(usize::try_from(memory.bytes).unwrap_or(PIECE));
    piece.try_reserve_exact(most).map_err(|_| "there is no memory to read it to")?;
    piece.resize(most, 0);
    let hidden = memory.flags & HOST_CANNOT != 0;
    match memory.source {
        Source::Buffer(buffer) if hidden => {
            let room = copied(aside, Place::Buffer(buffer), memory.bytes)?;
            buffer_pieces(aside, room.buffer, memory.bytes, &mut piece, &mut file)?;
        }
        Source::Buffer(buffer) => {
            buffer_pieces(aside, buffer, memory.bytes, &mut piece, &mut file)?;
        }
        Source::Image(image, region, _) if hidden => {
            let room = copied(aside, Place::Image(image, region), memory.bytes)?;
            buffer_pieces(aside, room.buffer, memory.bytes, &mut piece, &mut file)?;
        }
        Source::Image(image, region, element) => {
            image_pieces(slot, aside, (image, region, element), &mut piece, &mut file)?;
        }
        Source::Svm(address) => {
            svm_pieces(slot, aside, address, memory.bytes, &mut piece, &mut file)?
        }
    }
    to.end(file)
}

/// A copy of what the host may not read.
fn copied(aside: &Aside, place: Place, bytes: u64) -> Result<Room<'_>, String> {
    let room = aside.short_room(bytes as usize)?;
    let code = aside.copy(place, Place::Buffer(room.buffer), bytes as usize, None);
    said("copying what the host may not read", code)?;
    Ok(room)
}

/// Cuts `bytes` into pieces: `run` fills one that begins there.
fn pieces(
    bytes: u64,
    piece: &mut [u8],
    file: &mut Written,
    mut run: impl FnMut(u64, &mut [u8]) -> Result<(), String>,
) -> Result<(), String> {
    let mut at = 0;
    while at < bytes {
        let length = piece.len().min(usize::try_from(bytes - at).unwrap_or(piece.len()));
        let Some(part) = piece.get_mut(..length).filter(|part| !part.is_empty()) else {
            return Err("there is no memory to read it to".to_owned());
        };
        run(at, part)?;
        file.add(part)?;
        at += length as u64;
    }
    Ok(())
}

fn buffer_pieces(
    aside: &Aside,
    buffer: H,
    bytes: u64,
    piece: &mut [u8],
    file: &mut Written,
) -> Result<(), String> {
    pieces(bytes, piece, file, |at, part| {
        let to: P = part.as_mut_ptr().cast();
        // SAFETY: a live buffer with that part and room for it; a blocking call, so that nothing is
        // written after it.
        said("reading a buffer", unsafe {
            (aside.calls.read)(
                aside.queue,
                buffer,
                1,
                at as usize,
                part.len(),
                to,
                0,
                null(),
                null_mut(),
            )
        })
    })
}

fn svm_pieces(
    slot: usize,
    aside: &Aside,
    address: usize,
    bytes: u64,
    piece: &mut [u8],
    file: &mut Written,
) -> Result<(), String> {
    let copy =
        api::clEnqueueSVMMemcpy.behind(slot).ok_or("the runtime lacks clEnqueueSVMMemcpy")?;
    pieces(bytes, piece, file, |at, part| {
        let (to, from): (P, P) = (part.as_mut_ptr().cast(), (address + at as usize) as P);
        // SAFETY: a live allocation with that part and room for it; a blocking call.
        said("reading shared memory", unsafe {
            copy(aside.queue, 1, to, from, part.len(), 0, null(), null_mut())
        })
    })
}

/// Reads an image by whole lines, as many at a time as there is room for, without padding.
fn image_pieces(
    slot: usize,
    aside: &Aside,
    (image, [width, height, depth], element): (H, [usize; 3], usize),
    piece: &mut Vec<u8>,
    file: &mut Written,
) -> Result<(), String> {
    let read =
        api::clEnqueueReadImage.behind(slot).ok_or("the runtime lacks clEnqueueReadImage")?;
    let line = width.saturating_mul(element);
    // What is summed goes in steps: lines are gathered to whole ones.
    let step = clscope_trace::Checksum::STEP;
    let at_once = (piece.len() / line.max(1)).clamp(1, height);
    let mut gathered: Vec<u8> = Vec::new();
    let room = at_once.saturating_mul(line);
    let refused = |_| "there is no memory to read it to".to_owned();
    gathered.try_reserve_exact(room.saturating_add(step)).map_err(refused)?;
    piece.try_reserve(room.saturating_sub(piece.len())).map_err(refused)?;
    piece.resize(room, 0);
    for layer in 0..depth {
        let mut first = 0;
        while first < height {
            let lines = at_once.min(height - first);
            let (origin, region) = ([0, first, layer], [width, lines, 1]);
            let Some(part) = piece.get_mut(..lines * line) else {
                return Err("there is no memory to read it to".to_owned());
            };
            let to: P = part.as_mut_ptr().cast();
            // SAFETY: a live image with that region, and room for its texels without padding; a
            // blocking call.
            said("reading an image", unsafe {
                read(
                    aside.queue,
                    image,
                    1,
                    origin.as_ptr(),
                    region.as_ptr(),
                    0,
                    0,
                    to,
                    0,
                    null(),
                    null_mut(),
                )
            })?;
            gathered.extend_from_slice(part);
            let whole = gathered.len() / step * step;
            file.add(gathered.get(..whole).unwrap_or_default())?;
            gathered.drain(..whole);
            first += lines;
        }
    }
    if gathered.is_empty() { Ok(()) } else { file.add(&gathered) }
}
