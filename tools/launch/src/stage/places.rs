//! Memories of a capture on a device: buffers, images and views of them, shared virtual memory.
//! Refuses what no device has.

use super::StageError;
use crate::capture::{self, Image, Launch, Memory, MemoryKind};
use crate::read::CaptureError;
use clscope_opencl::{Buffer, Image as ClImage, Session, Shape, Svm, View};

/// A memory on the device.
pub(super) enum Place {
    Buffer { own: Buffer, pristine: Option<Buffer> },
    Image(ClImage),
    Svm(Svm),
}

/// Shared virtual memory that lies elsewhere now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub(super) from: u64,
    pub(super) bytes: u64,
    pub(super) to: u64,
}

/// Format and extent of a captured image.
///
/// # Errors
/// If it names what the specification does not know.
pub fn shape(of: &Image) -> Result<Shape, String> {
    let number = |name: &String| {
        capture::number(name).ok_or_else(|| format!("no image has the type or format {name}"))
    };
    let size = |n: u64| usize::try_from(n).map_err(|_| "an image is too large".to_owned());
    let (kind, order, data) = (number(&of.kind)?, number(&of.order)?, number(&of.data)?);
    // What a type has not is 0, whether the capture says 0 or 1.
    let has = |kinds: &[&str]| kinds.contains(&of.kind.as_str());
    let flat = has(&[
        "CL_MEM_OBJECT_IMAGE1D",
        "CL_MEM_OBJECT_IMAGE1D_ARRAY",
        "CL_MEM_OBJECT_IMAGE1D_BUFFER",
    ]);
    let array = has(&["CL_MEM_OBJECT_IMAGE1D_ARRAY", "CL_MEM_OBJECT_IMAGE2D_ARRAY"]);
    if of.mips > 1 || of.samples > 1 {
        return Err(
            "an image has mip levels or several samples, which are not supported".to_owned()
        );
    }
    Ok(Shape {
        kind,
        order,
        data,
        width: size(of.width)?,
        height: if flat { 0 } else { size(of.height)? },
        depth: if has(&["CL_MEM_OBJECT_IMAGE3D"]) { size(of.depth)? } else { 0 },
        array: if array { size(of.array)? } else { 0 },
        element: size(of.element)?,
    })
}

/// Makes a memory; `before` are those that come before it in the capture.
pub(super) fn place(
    session: &Session,
    launch: &Launch,
    before: &[Place],
    memory: &Memory,
) -> Result<Place, StageError> {
    let too_large = || wrong(format!("memory {} is too large for this host", memory.id));
    let bytes = usize::try_from(memory.bytes).map_err(|_| too_large())?;
    let flags = capture::flags(&memory.flags);
    Ok(match (memory.kind, &memory.image) {
        (MemoryKind::Buffer, _) => {
            Place::Buffer { own: session.buffer_with(bytes, flags)?, pristine: None }
        }
        (MemoryKind::Svm, _) => Place::Svm(session.svm(bytes, flags)?),
        (MemoryKind::Image, Some(image)) => {
            let shape = shape(image).map_err(wrong)?;
            let view = view(session, launch, before, image)?;
            Place::Image(session.image(shape, flags & 0b111, view)?)
        }
        _ => return Err(wrong(format!("memory {} cannot be made", memory.id))),
    })
}

fn wrong(what: String) -> StageError {
    CaptureError::Wrong(what).into()
}

/// What an image is a view of, if it is one.
fn view<'p>(
    session: &Session,
    launch: &Launch,
    before: &'p [Place],
    image: &Image,
) -> Result<Option<View<'p>>, StageError> {
    let Some(id) = image.of_memory else { return Ok(None) };
    let index = launch.memories.iter().position(|memory| memory.id == id);
    match index.and_then(|index| before.get(index)) {
        Some(Place::Image(of)) => Ok(Some(View::Image(of))),
        Some(Place::Buffer { own, .. }) => {
            let offset = image.of_offset.unwrap_or(0);
            let offset = usize::try_from(offset).ok().filter(|at| *at <= own.bytes());
            let offset = offset.ok_or_else(|| wrong(format!("a view is not in memory {id}")))?;
            let flat = image.kind == "CL_MEM_OBJECT_IMAGE1D_BUFFER";
            let pitch = if flat { 0 } else { image.row_pitch as usize };
            // Not every runtime takes a part here: only where the view begins in the middle.
            Ok(Some(match offset {
                0 => View::Buffer(own, pitch),
                _ => View::Part(session.part(own, 0, offset, own.bytes() - offset)?, pitch),
            }))
        }
        _ => {
            Err(wrong(format!("an image is a view of memory {id}, which does not come before it")))
        }
    }
}

/// Where shared virtual memory lay and lies.
pub(super) fn moved((memory, place): (&Memory, &Place)) -> Option<Move> {
    let Place::Svm(svm) = place else { return None };
    Some(Move { from: memory.address?, bytes: memory.bytes, to: svm.address() })
}
