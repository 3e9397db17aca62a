//! Whether two kernels take the same arguments, as far as the runtime tells: their number, and
//! where both programs were built so that it knows them (`-cl-kernel-arg-info`), what each is.
//! Refuses to guess: what is not told is taken for equal, and the runtime itself refuses sizes.

use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::ask;
use crate::runtime::functions as api;
use std::ptr::null_mut;

/// Longest name of a type that is read, in bytes.
const LONGEST: usize = 4096;

/// What an argument is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Argument {
    /// CL_KERNEL_ARG_ADDRESS_QUALIFIER.
    address: u32,
    /// CL_KERNEL_ARG_ACCESS_QUALIFIER.
    access: u32,
    /// CL_KERNEL_ARG_TYPE_NAME.
    name: String,
}

/// Types of OpenCL C that have no other name, without the number of a vector's elements.
const TYPES: [&str; 17] = [
    "char",
    "uchar",
    "short",
    "ushort",
    "int",
    "uint",
    "long",
    "ulong",
    "float",
    "double",
    "half",
    "bool",
    "size_t",
    "sampler_t",
    "event_t",
    "queue_t",
    "void",
];

/// Whether a type's name, without the stars of a pointer, is the language's own and not a
/// program's, which may stand for any of them.
fn is_own(name: &str) -> bool {
    let scalar = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let elements = name.get(scalar.len()..).unwrap_or("");
    let vector = ["", "2", "3", "4", "8", "16"].contains(&elements);
    let image = name.starts_with("image") && name.ends_with("_t");
    TYPES.contains(&scalar) && vector || image
}

impl Argument {
    /// Whether it cannot be what the other is.
    fn differs(&self, other: &Self) -> bool {
        let parts = |of: &Self| {
            let name = of.name.trim_end_matches('*').to_owned();
            (of.name.len() - name.len(), name)
        };
        let ((stars, name), (others, of_other)) = (parts(self), parts(other));
        (self.address, self.access, stars) != (other.address, other.access, others)
            || name != of_other && is_own(&name) && is_own(&of_other)
    }
}

/// Whether the runtime tells what a kernel's arguments are.
pub fn is_told(slot: usize, kernel: H) -> bool {
    let count = ask::<u32>(api::clGetKernelInfo.behind(slot), kernel, cl::CL_KERNEL_NUM_ARGS);
    count == Some(0) || argument(slot, kernel, 0).is_some()
}

/// Why one kernel cannot be given the arguments of the other; `None` where it can, as far as is
/// known.
pub fn difference(slot: usize, theirs: H, ours: H) -> Option<String> {
    let count =
        |kernel| ask::<u32>(api::clGetKernelInfo.behind(slot), kernel, cl::CL_KERNEL_NUM_ARGS);
    let (Some(of_theirs), Some(of_ours)) = (count(theirs), count(ours)) else {
        return Some("its number of arguments is not known".to_owned());
    };
    if of_theirs != of_ours {
        return Some(format!("it takes {of_ours} arguments, the application's takes {of_theirs}"));
    }
    (0..of_theirs).find_map(|index| {
        let (theirs, ours) = (argument(slot, theirs, index)?, argument(slot, ours, index)?);
        theirs.differs(&ours).then(|| {
            format!("argument {index} is {}, the application's is {}", shown(&ours), shown(&theirs))
        })
    })
}

/// `None` where the runtime does not tell.
fn argument(slot: usize, kernel: H, index: u32) -> Option<Argument> {
    let info = api::clGetKernelArgInfo.behind(slot)?;
    let number = |what| {
        let mut value = 0u32;
        // SAFETY: a live kernel, and room for the answer.
        let code = unsafe { info(kernel, index, what, 4, (&raw mut value).cast(), null_mut()) };
        (code == 0).then_some(value)
    };
    let mut size = 0usize;
    let what = cl::CL_KERNEL_ARG_TYPE_NAME;
    // SAFETY: a live kernel; only the size is asked.
    let code = unsafe { info(kernel, index, what, 0, null_mut(), (&raw mut size).cast()) };
    if code != 0 || size == 0 || size > LONGEST {
        return None;
    }
    let mut bytes = vec![0u8; size];
    // SAFETY: room for as many bytes.
    let code = unsafe { info(kernel, index, what, size, bytes.as_mut_ptr().cast(), null_mut()) };
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(size);
    bytes.truncate(end);
    let name = String::from_utf8_lossy(&bytes).chars().filter(|c| *c != ' ').collect();
    (code == 0).then_some(Argument {
        address: number(cl::CL_KERNEL_ARG_ADDRESS_QUALIFIER)?,
        access: number(cl::CL_KERNEL_ARG_ACCESS_QUALIFIER)?,
        name,
    })
}

fn shown(argument: &Argument) -> String {
    let address = match argument.address {
        cl::CL_KERNEL_ARG_ADDRESS_GLOBAL => "global ",
        cl::CL_KERNEL_ARG_ADDRESS_LOCAL => "local ",
        cl::CL_KERNEL_ARG_ADDRESS_CONSTANT => "constant ",
        _ => "",
    };
    let access = match argument.access {
        cl::CL_KERNEL_ARG_ACCESS_READ_ONLY => "read_only ",
        cl::CL_KERNEL_ARG_ACCESS_WRITE_ONLY => "write_only ",
        cl::CL_KERNEL_ARG_ACCESS_READ_WRITE => "read_write ",
        _ => "",
    };
    format!("{access}{address}{}", argument.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_programs_own_may_stand_for_any_type() {
        let of = |name: &str| Argument { address: 0, access: 0, name: name.to_owned() };
        for (theirs, ours, differ) in [
            ("float", "float", false),
            ("float", "int", true),
            ("float4*", "float*", true),
            ("float*", "float", true),
            ("real_t", "float", false),
            ("real_t*", "float", true),
            ("image2d_t", "image3d_t", true),
            ("float5", "float", false),
        ] {
            assert_eq!(of(theirs).differs(&of(ours)), differ, "{theirs} {ours}");
        }
        assert!(of("int").differs(&Argument { address: 1, ..of("int") }));
    }
}
