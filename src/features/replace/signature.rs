//! Whether two kernels take the same arguments, as far as the runtime tells: their number, and where
//! both programs were built so that it knows them (`-cl-kernel-arg-info`), what each is. Refuses to
//! guess: what is not told is taken for equal, and the runtime itself refuses sizes.

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
        (theirs != ours).then(|| {
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
