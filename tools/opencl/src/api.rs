//! The OpenCL entry points that measuring needs, opened at run time. Owns the raw signatures and
//! the look-up; refuses everything else: handles with owners live in the parent module.

use libloading::Library;
use std::ffi::{c_char, c_void};
use std::mem::ManuallyDrop;

/// `cl_int`.
pub type Status = i32;
/// Any OpenCL handle.
pub type Handle = *mut c_void;

macro_rules! entry_points {
    ($($field:ident = $name:literal ( $($arg:ty),* ) -> $ret:ty;)*
     => later $($late:ident = $late_name:literal ( $($late_arg:ty),* ) -> $late_ret:ty;)*) => {
        /// The entry points, resolved once. Those of versions after 1.2 may be absent.
        pub struct Api {
            $(pub(super) $field: unsafe extern "C-unwind" fn($($arg),*) -> $ret,)*
            $(pub(super) $late: Option<unsafe extern "C-unwind" fn($($late_arg),*) -> $late_ret>,)*
            // Never closed: the pointers above point into it, and runtimes keep threads of their
            // own that would lose their code.
            _library: ManuallyDrop<Library>,
        }

        impl Api {
            /// Opens `path` and finds every entry point in it.
            pub(super) fn open(path: &str) -> Result<Api, libloading::Error> {
                // SAFETY: an OpenCL loader's initialisers are those every OpenCL program runs.
                let library = unsafe { Library::new(path)? };
                $(
                    // SAFETY: the symbol has the type that the OpenCL 1.2 specification gives it.
                    let $field = unsafe { *library.get::<unsafe extern "C-unwind" fn($($arg),*) -> $ret>(concat!($name, "\0").as_bytes())? };
                )*
                $(
                    // SAFETY: as above, of the version that has the function.
                    let $late = unsafe { library.get::<unsafe extern "C-unwind" fn($($late_arg),*) -> $late_ret>(concat!($late_name, "\0").as_bytes()).ok().map(|f| *f) };
                )*
                Ok(Api { $($field,)* $($late,)* _library: ManuallyDrop::new(library) })
            }
        }
    };
}

type Notify = Option<unsafe extern "C-unwind" fn(*const c_char, *const c_void, usize, *mut c_void)>;
type BuildNotify = Option<unsafe extern "C-unwind" fn(Handle, *mut c_void)>;

/// `cl_image_format`.
#[repr(C)]
pub struct ImageFormat {
    pub order: u32,
    pub data: u32,
}

/// `cl_image_desc`.
#[repr(C)]
pub struct ImageDescription {
    pub kind: u32,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub array: usize,
    pub row_pitch: usize,
    pub slice_pitch: usize,
    pub mips: u32,
    pub samples: u32,
    pub memory: Handle,
}

entry_points! {
    get_platform_ids = "clGetPlatformIDs"(u32, *mut Handle, *mut u32) -> Status;
    get_platform_info = "clGetPlatformInfo"(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    get_device_ids = "clGetDeviceIDs"(Handle, u64, u32, *mut Handle, *mut u32) -> Status;
    get_device_info = "clGetDeviceInfo"(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    create_context = "clCreateContext"(*const isize, u32, *const Handle, Notify, *mut c_void, *mut Status) -> Handle;
    release_context = "clReleaseContext"(Handle) -> Status;
    create_queue = "clCreateCommandQueue"(Handle, Handle, u64, *mut Status) -> Handle;
    release_queue = "clReleaseCommandQueue"(Handle) -> Status;
    create_buffer = "clCreateBuffer"(Handle, u64, usize, *mut c_void, *mut Status) -> Handle;
    release_mem = "clReleaseMemObject"(Handle) -> Status;
    create_program = "clCreateProgramWithSource"(Handle, u32, *const *const c_char, *const usize, *mut Status) -> Handle;
    create_program_binary =
        "clCreateProgramWithBinary"(Handle, u32, *const Handle, *const usize, *const *const u8, *mut Status, *mut Status) -> Handle;
    build_program = "clBuildProgram"(Handle, u32, *const Handle, *const c_char, BuildNotify, *mut c_void) -> Status;
    get_build_info = "clGetProgramBuildInfo"(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    get_program_info = "clGetProgramInfo"(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    release_program = "clReleaseProgram"(Handle) -> Status;
    create_kernel = "clCreateKernel"(Handle, *const c_char, *mut Status) -> Handle;
    release_kernel = "clReleaseKernel"(Handle) -> Status;
    set_kernel_arg = "clSetKernelArg"(Handle, u32, usize, *const c_void) -> Status;
    get_work_group_info = "clGetKernelWorkGroupInfo"(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    enqueue_kernel =
        "clEnqueueNDRangeKernel"(Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle) -> Status;
    enqueue_read = "clEnqueueReadBuffer"(Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> Status;
    enqueue_write = "clEnqueueWriteBuffer"(Handle, Handle, u32, usize, usize, *const c_void, u32, *const Handle, *mut Handle) -> Status;
    enqueue_copy = "clEnqueueCopyBuffer"(Handle, Handle, Handle, usize, usize, usize, u32, *const Handle, *mut Handle) -> Status;
    enqueue_fill = "clEnqueueFillBuffer"(Handle, Handle, *const c_void, usize, usize, usize, u32, *const Handle, *mut Handle) -> Status;
    enqueue_map =
        "clEnqueueMapBuffer"(Handle, Handle, u32, u64, usize, usize, u32, *const Handle, *mut Handle, *mut Status) -> *mut c_void;
    enqueue_unmap = "clEnqueueUnmapMemObject"(Handle, Handle, *mut c_void, u32, *const Handle, *mut Handle) -> Status;
    flush = "clFlush"(Handle) -> Status;
    finish = "clFinish"(Handle) -> Status;
    retain_context = "clRetainContext"(Handle) -> Status;
    create_sub_buffer = "clCreateSubBuffer"(Handle, u64, u32, *const c_void, *mut Status) -> Handle;
    create_image =
        "clCreateImage"(Handle, u64, *const ImageFormat, *const ImageDescription, *mut c_void, *mut Status) -> Handle;
    get_image_info = "clGetImageInfo"(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    enqueue_read_image =
        "clEnqueueReadImage"(Handle, Handle, u32, *const usize, *const usize, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> Status;
    enqueue_write_image =
        "clEnqueueWriteImage"(Handle, Handle, u32, *const usize, *const usize, usize, usize, *const c_void, u32, *const Handle, *mut Handle) -> Status;
    create_sampler = "clCreateSampler"(Handle, u32, u32, u32, *mut Status) -> Handle;
    release_sampler = "clReleaseSampler"(Handle) -> Status;
    compile_program =
        "clCompileProgram"(Handle, u32, *const Handle, *const c_char, u32, *const Handle, *const *const c_char, BuildNotify, *mut c_void) -> Status;
    link_program =
        "clLinkProgram"(Handle, u32, *const Handle, *const c_char, u32, *const Handle, BuildNotify, *mut c_void, *mut Status) -> Handle;
    get_kernel_info = "clGetKernelInfo"(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    get_argument_info = "clGetKernelArgInfo"(Handle, u32, u32, usize, *mut c_void, *mut usize) -> Status;
    get_profiling = "clGetEventProfilingInfo"(Handle, u32, usize, *mut c_void, *mut usize) -> Status;
    release_event = "clReleaseEvent"(Handle) -> Status;
    => later
    create_program_il = "clCreateProgramWithIL"(Handle, *const c_void, usize, *mut Status) -> Handle;
    svm_alloc = "clSVMAlloc"(Handle, u64, usize, u32) -> *mut c_void;
    svm_free = "clSVMFree"(Handle, *mut c_void) -> ();
    svm_map = "clEnqueueSVMMap"(Handle, u32, u64, *mut c_void, usize, u32, *const Handle, *mut Handle) -> Status;
    svm_unmap = "clEnqueueSVMUnmap"(Handle, *mut c_void, u32, *const Handle, *mut Handle) -> Status;
    set_argument_svm = "clSetKernelArgSVMPointer"(Handle, u32, *const c_void) -> Status;
    set_exec_info = "clSetKernelExecInfo"(Handle, u32, usize, *const c_void) -> Status;
}
