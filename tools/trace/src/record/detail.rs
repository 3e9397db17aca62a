//! What a [`Detail`] tells, and its values. Readers pass over numbers that they do not know: a new
//! one is no new version of the format, unless a reader must know that it would be there
//! ([`HOST_MEMORY`]).

/// What was seen inside a call: by a checked run, but for [`HOST_MEMORY`]. (Since 1.3.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Detail {
    /// The call's function.
    pub function: u16,
    /// One of [`mod@super::detail`]; others are of newer writers.
    pub what: u32,
    /// Id of the call's place, where it tells that.
    pub site: u32,
    /// What is told.
    pub values: [u64; 3],
}

/// Where in the application the call stands: the id of its
/// [`CallSite`](crate::defs::CallSite). No values.
pub const PLACE: u32 = 1;
/// A kernel's argument was set to an object, or to none: `kernel id | index << 32`; the
/// object's id, 0 where it is none; 1 where the runtime refused it, so that nothing was set.
pub const ARGUMENT: u32 = 2;
/// From here on the application knows a command to be complete: its id. There is one for each
/// event of a `clWaitForEvents`.
pub const WAITED: u32 = 3;
/// What part of a buffer the command uses that the call enqueues: offset in bytes, of a copy
/// that of the source; size in bytes; offset in the destination of a copy.
pub const RANGE: u32 = 4;
/// What part of its buffer a sub-buffer is: offset and size in bytes.
pub const PART: u32 = 5;
/// Memory by its address, of the host or shared with the device, that the command uses which the
/// call enqueues: address; bytes, 0 for all of an allocation; [`WRITES`], [`FREES`] or 0. There
/// is one for each range. Of a buffer that is made, the host's memory that it uses
/// (CL_MEM_USE_HOST_PTR); of a mapping and its end, where it is mapped, bytes 0 where they are not
/// told.
pub const MEMORY: u32 = 6;
/// Of [`MEMORY`]: the command writes it.
pub const WRITES: u64 = 1;
/// Of [`MEMORY`]: the command frees it (clEnqueueSVMFree).
pub const FREES: u64 = 2;
/// Shared virtual memory was allocated: address, bytes, `cl_svm_mem_flags`.
pub const SVM_MADE: u32 = 7;
/// The host freed shared virtual memory (clSVMFree): its address.
pub const SVM_FREED: u32 = 8;
/// A kernel's argument was set to an address of shared virtual memory: `kernel id | index << 32`;
/// the address. With index [`BESIDE`] an address that the kernel reaches beside its arguments
/// (clSetKernelExecInfo); address 0 takes those of before away.
pub const SVM_ARGUMENT: u32 = 9;
/// Stands in place of an index in [`SVM_ARGUMENT`].
pub const BESIDE: u64 = u32::MAX as u64;
/// What the runtime says of a kernel's parameter: `kernel id | index << 32`;
/// `address qualifier | access qualifier << 32`, as CL_KERNEL_ARG_ADDRESS_GLOBAL and its like;
/// the type's qualifiers. Of programs without a source.
pub const PARAMETER: u32 = 10;
/// What is worth knowing of the call that begins, should the process die in it: [`OBJECT`] and an
/// id, or [`EVENT`] and its command's id, where the call names what the application has given back
/// as often as it made and retained it; [`LAUNCHED`] and the kernel's id, of every launch;
/// [`NO_LIST`] and the number of events of a wait list that is NULL; [`NULL_EVENT`] and the index
/// of the first event of a wait list that is NULL. The place is the call's.
pub const NAMES: u32 = 11;
/// The range that was told before it, by [`RANGE`], [`RANGE_TO`] or [`MEMORY`], is the first row of
/// several: `rows of a slice | slices << 32`; bytes from row to row; bytes from slice to slice.
pub const ROWS: u32 = 12;
/// As [`RANGE`], of the destination of a copy: offset and size in bytes.
pub const RANGE_TO: u32 = 13;
/// What part of an image the command uses: for each dimension `origin | size << 32`, in elements.
/// Of a copy that of the source.
pub const BOX: u32 = 14;
/// As [`BOX`], of the destination of a copy.
pub const BOX_TO: u32 = 15;
/// Memory of the host that a transfer without blocking uses was found not to be mapped when the
/// call began, which waits: address, bytes.
pub const UNMAPPED: u32 = 16;
/// The memory of the host that a transfer reads or writes is OpenCL's, by its first byte: where it
/// is from ([`MAPPED`] and its like); the id of the object, 0 without one; the flags that it was
/// made with ([`FLAGS_UNKNOWN`]). In any run, right ahead of the call's own record. (Since 1.8:
/// from this version on a transfer without it uses memory that OpenCL did not give out.)
pub const HOST_MEMORY: u32 = 17;
/// The version of the format from which on [`HOST_MEMORY`] is told.
pub const HOST_MEMORY_SINCE: (u16, u16) = (1, 8);
/// Of [`HOST_MEMORY`]: a region of an object that is mapped; its flags are `cl_mem_flags`.
pub const MAPPED: u64 = 1;
/// Of [`HOST_MEMORY`]: shared virtual memory; its flags are `cl_svm_mem_flags`.
pub const SVM: u64 = 2;
/// Of [`HOST_MEMORY`]: allocated on the host by clHostMemAllocINTEL.
pub const HOST_ALLOCATION: u64 = 3;
/// Of [`HOST_MEMORY`]: allocated by clSharedMemAllocINTEL.
pub const SHARED_ALLOCATION: u64 = 4;
/// Of [`HOST_MEMORY`]: OpenCL had given out more than the recorder keeps, so that it does not know.
pub const NOT_KEPT: u64 = 5;
/// Of [`HOST_MEMORY`], in place of flags: nobody told.
pub const FLAGS_UNKNOWN: u64 = u64::MAX;
/// Of [`NAMES`]: an object.
pub const OBJECT: u64 = 1;
/// Of [`NAMES`]: an event.
pub const EVENT: u64 = 2;
/// Of [`NAMES`]: a kernel that is launched.
pub const LAUNCHED: u64 = 3;
/// Of [`NAMES`]: a wait list that is not there.
pub const NO_LIST: u64 = 4;
/// An event of a wait list is NULL.
pub const NULL_EVENT: u64 = 5;
