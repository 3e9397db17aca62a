//! Memories of a capture on a device: buffers, images and views of them, shared virtual memory.
//! Refuses what no device has.

use super::{StageError, guard};
use crate::capture::{self, Image, Launch, Memory, MemoryKind};
use crate::read::CaptureError;
use clscope_opencl::{ACCESS_FLAGS, Buffer, Image as ClImage, Session, Shape, Svm, View};

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
    if let Some(bytes) = texel_bytes(&of.order, &of.data)
        && bytes != of.element
    {
        return Err(format!(
            "a texel of {} and {} has {bytes} bytes, not {}",
            of.order, of.data, of.element
        ));
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

/// Bytes of a texel of a format (OpenCL 3.0, tables 15 and 16); `None` for orders with padding and
/// for formats of extensions, of which the runtime alone knows.
fn texel_bytes(order: &str, data: &str) -> Option<u64> {
    let channels = match order {
        "CL_R" | "CL_A" | "CL_INTENSITY" | "CL_LUMINANCE" | "CL_DEPTH" => 1,
        "CL_RG" | "CL_RA" => 2,
        "CL_RGB" | "CL_sRGB" => 3,
        "CL_RGBA" | "CL_BGRA" | "CL_ARGB" | "CL_ABGR" | "CL_sRGBA" | "CL_sBGRA" => 4,
        _ => return None,
    };
    Some(match data {
        "CL_SNORM_INT8" | "CL_UNORM_INT8" | "CL_SIGNED_INT8" | "CL_UNSIGNED_INT8" => channels,
        "CL_SNORM_INT16" | "CL_UNORM_INT16" | "CL_SIGNED_INT16" | "CL_UNSIGNED_INT16"
        | "CL_HALF_FLOAT" => 2 * channels,
        "CL_SIGNED_INT32" | "CL_UNSIGNED_INT32" | "CL_FLOAT" => 4 * channels,
        "CL_UNORM_SHORT_565" | "CL_UNORM_SHORT_555" => 2,
        "CL_UNORM_INT_101010" | "CL_UNORM_INT_101010_2" => 4,
        _ => return None,
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
    let guard = guard::bytes(memory.bytes, session.facts().largest_buffer);
    Ok(match (memory.kind, &memory.image) {
        (MemoryKind::Buffer, _) => {
            Place::Buffer { own: session.buffer_with(bytes + guard, flags)?, pristine: None }
        }
        (MemoryKind::Svm, _) => Place::Svm(session.svm(bytes + guard, flags)?),
        (MemoryKind::Image, Some(image)) => {
            let shape = shape(image).map_err(wrong)?;
            let view = view(session, launch, before, image)?;
            Place::Image(session.image(shape, flags & ACCESS_FLAGS, view)?)
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
            let bytes = index.and_then(|index| launch.memories.get(index)).map_or(0, |m| m.bytes);
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(own.bytes());
            let offset = image.of_offset.unwrap_or(0);
            let offset = usize::try_from(offset).ok().filter(|at| *at <= bytes);
            let offset = offset.ok_or_else(|| wrong(format!("a view is not in memory {id}")))?;
            let flat = image.kind == "CL_MEM_OBJECT_IMAGE1D_BUFFER";
            let pitch = if flat { 0 } else { image.row_pitch as usize };
            // Not every runtime takes a part here: only where the view begins in the middle.
            Ok(Some(match offset {
                0 => View::Buffer(own, pitch),
                _ => View::Part(session.part(own, 0, offset, bytes - offset)?, pitch),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_texel_has_the_bytes_of_its_format() {
        let image = |order: &str, data: &str, element| {
            let image = serde_json::json!({
                "type": "CL_MEM_OBJECT_IMAGE2D", "width": 4, "height": 4, "depth": 0, "array": 0,
                "order": order, "data": data, "element": element,
            });
            shape(&serde_json::from_value(image).unwrap())
        };
        assert!(image("CL_RGBA", "CL_FLOAT", 16).is_ok());
        assert!(image("CL_RGB", "CL_UNORM_SHORT_565", 2).is_ok());
        // Only the runtime knows.
        assert!(image("CL_RGBx", "CL_UNORM_INT8", 4).is_ok());
        for element in [0, 1, 8, 17, u64::MAX] {
            assert!(image("CL_RGBA", "CL_FLOAT", element).unwrap_err().contains("16 bytes"));
        }
    }
}
