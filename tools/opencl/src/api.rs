//! The OpenCL entry points that measuring needs, opened at run time. Owns the choice and the
//! look-up; their types are generated (`signatures`). Refuses everything else: handles with owners
//! live in the parent module.

use crate::signatures as f;
use libloading::Library;
use std::ffi::c_void;
use std::mem::ManuallyDrop;

/// `cl_int`.
pub type Status = i32;
/// Any OpenCL handle.
pub type Handle = *mut c_void;

macro_rules! entry_points {
    ($($field:ident = $name:ident;)* => later $($late:ident = $late_name:ident;)*) => {
        /// The entry points, resolved once. Those of versions after 1.2 may be absent.
        pub struct Api {
            $(pub(super) $field: f::$name,)*
            $(pub(super) $late: Option<f::$late_name>,)*
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
                    let symbol = concat!(stringify!($name), "\0").as_bytes();
                    // SAFETY: the symbol has the type that the registry gives to its name.
                    let $field = unsafe { *library.get::<f::$name>(symbol)? };
                )*
                $(
                    let symbol = concat!(stringify!($late_name), "\0").as_bytes();
                    // SAFETY: as above.
                    let $late = unsafe { library.get::<f::$late_name>(symbol) }.ok().map(|f| *f);
                )*
                Ok(Api { $($field,)* $($late,)* _library: ManuallyDrop::new(library) })
            }
        }
    };
}

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
    get_platform_ids = clGetPlatformIDs;
    get_platform_info = clGetPlatformInfo;
    get_device_ids = clGetDeviceIDs;
    get_device_info = clGetDeviceInfo;
    create_context = clCreateContext;
    release_context = clReleaseContext;
    create_queue = clCreateCommandQueue;
    release_queue = clReleaseCommandQueue;
    create_buffer = clCreateBuffer;
    release_mem = clReleaseMemObject;
    create_program = clCreateProgramWithSource;
    create_program_binary = clCreateProgramWithBinary;
    build_program = clBuildProgram;
    get_build_info = clGetProgramBuildInfo;
    get_program_info = clGetProgramInfo;
    release_program = clReleaseProgram;
    create_kernel = clCreateKernel;
    release_kernel = clReleaseKernel;
    set_kernel_arg = clSetKernelArg;
    get_work_group_info = clGetKernelWorkGroupInfo;
    enqueue_kernel = clEnqueueNDRangeKernel;
    enqueue_read = clEnqueueReadBuffer;
    enqueue_write = clEnqueueWriteBuffer;
    enqueue_copy = clEnqueueCopyBuffer;
    enqueue_fill = clEnqueueFillBuffer;
    enqueue_map = clEnqueueMapBuffer;
    enqueue_unmap = clEnqueueUnmapMemObject;
    flush = clFlush;
    finish = clFinish;
    retain_context = clRetainContext;
    create_sub_buffer = clCreateSubBuffer;
    create_image = clCreateImage;
    get_image_info = clGetImageInfo;
    enqueue_read_image = clEnqueueReadImage;
    enqueue_write_image = clEnqueueWriteImage;
    create_sampler = clCreateSampler;
    release_sampler = clReleaseSampler;
    compile_program = clCompileProgram;
    link_program = clLinkProgram;
    get_kernel_info = clGetKernelInfo;
    get_argument_info = clGetKernelArgInfo;
    get_profiling = clGetEventProfilingInfo;
    release_event = clReleaseEvent;
    => later
    create_program_il = clCreateProgramWithIL;
    svm_alloc = clSVMAlloc;
    svm_free = clSVMFree;
    svm_map = clEnqueueSVMMap;
    svm_unmap = clEnqueueSVMUnmap;
    set_argument_svm = clSetKernelArgSVMPointer;
    set_exec_info = clSetKernelExecInfo;
}
