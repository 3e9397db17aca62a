//! What the registry does not say: which functions need a hand-written hook, what a command is,
//! which of several numbers a plain record keeps. Everything else follows from the names and types
//! of parameters (module `table`).

/// Functions with a hand-written hook in `src/hooks/`: those that create what later calls refer to,
/// those that the recorder must answer or change, and those at which the application learns that
/// commands are complete.
pub const HOOKS: &[&str] = &[
    "clGetPlatformIDs",
    "clGetDeviceIDs",
    "clCreateContext",
    "clCreateContextFromType",
    "clRetainContext",
    "clReleaseContext",
    "clGetContextInfo",
    "clSetContextDestructorCallback",
    "clCreateCommandQueue",
    "clCreateCommandQueueWithProperties",
    "clCreateCommandQueueWithPropertiesKHR",
    "clRetainCommandQueue",
    "clReleaseCommandQueue",
    "clGetCommandQueueInfo",
    "clSetCommandQueueProperty",
    "clSetMemObjectDestructorCallback",
    "clSetMemObjectDestructorAPPLE",
    "clReleaseMemObject",
    "clSVMAlloc",
    "clSVMAllocARM",
    "clSVMFree",
    "clSVMFreeARM",
    "clHostMemAllocINTEL",
    "clSharedMemAllocINTEL",
    "clMemFreeINTEL",
    "clMemBlockingFreeINTEL",
    "clCreateProgramWithSource",
    "clCreateProgramWithBinary",
    "clCreateProgramWithIL",
    "clCreateProgramWithILKHR",
    "clCreateProgramWithBuiltInKernels",
    "clBuildProgram",
    "clCompileProgram",
    "clLinkProgram",
    "clSetProgramReleaseCallback",
    "clCreateKernel",
    "clCreateKernelsInProgram",
    "clCloneKernel",
    "clWaitForEvents",
    "clFinish",
    "clFlush",
    "clGetEventInfo",
    "clGetEventProfilingInfo",
    "clSetEventCallback",
    "clReleaseEvent",
    "clCreateUserEvent",
    "clSetUserEventStatus",
    "clGetExtensionFunctionAddress",
    "clGetExtensionFunctionAddressForPlatform",
    "clEnqueueNativeKernel",
    "clEnqueueSVMFree",
    "clEnqueueSVMFreeARM",
    "clCreateCommandBufferKHR",
    "clTerminateContextKHR",
];

/// Small arguments of plain records where the rule (all numbers, equal to their types' widths) does
/// not fit the field.
pub const SMALL: &[(&str, &[(&str, u32)])] = &[
    ("clSetKernelArg", &[("arg_index", 8), ("arg_size", 13)]),
    ("clGetKernelArgInfo", &[("arg_index", 5), ("param_name", 16)]),
    ("clSetProgramSpecializationConstant", &[("spec_id", 12), ("spec_size", 9)]),
];

/// Kind of command, as a variant of `CommandKind`, by the function's name without `clEnqueue` and
/// vendor suffix.
pub fn command_kind(function: &str) -> Option<&'static str> {
    let short = function.strip_prefix("clEnqueue")?;
    Some(match short {
        "NDRangeKernel" => "NdRange",
        "Task" => "Task",
        "NativeKernel" => "NativeKernel",
        "ReadBuffer" => "ReadBuffer",
        "WriteBuffer" => "WriteBuffer",
        "CopyBuffer" => "CopyBuffer",
        "ReadImage" => "ReadImage",
        "WriteImage" => "WriteImage",
        "CopyImage" => "CopyImage",
        "CopyImageToBuffer" => "CopyImageToBuffer",
        "CopyBufferToImage" => "CopyBufferToImage",
        "MapBuffer" => "MapBuffer",
        "MapImage" => "MapImage",
        "UnmapMemObject" => "UnmapMemObject",
        "Marker" | "MarkerWithWaitList" => "Marker",
        "Barrier" | "BarrierWithWaitList" => "Barrier",
        "WaitForEvents" => "WaitForEvents",
        "ReadBufferRect" => "ReadBufferRect",
        "WriteBufferRect" => "WriteBufferRect",
        "CopyBufferRect" => "CopyBufferRect",
        "MigrateMemObjects" | "MigrateMemObjectEXT" => "MigrateMemObjects",
        "FillBuffer" => "FillBuffer",
        "FillImage" => "FillImage",
        "SVMFree" | "SVMFreeARM" => "SvmFree",
        "SVMMemcpy" | "SVMMemcpyARM" => "SvmMemcpy",
        "SVMMemFill" | "SVMMemFillARM" => "SvmMemFill",
        "SVMMap" | "SVMMapARM" => "SvmMap",
        "SVMUnmap" | "SVMUnmapARM" => "SvmUnmap",
        "SVMMigrateMem" => "SvmMigrate",
        "MemsetINTEL" | "MemFillINTEL" => "UsmFill",
        "MemcpyINTEL" => "UsmMemcpy",
        "MigrateMemINTEL" => "UsmMigrate",
        "MemAdviseINTEL" => "UsmAdvise",
        "CommandBufferKHR" => "CommandBuffer",
        "WaitSemaphoresKHR" => "SemaphoreWait",
        "SignalSemaphoresKHR" => "SemaphoreSignal",
        "GenerateMipmapIMG" => "GenerateMipmap",
        "ReadHostPipeINTEL" => "ReadHostPipe",
        "WriteHostPipeINTEL" => "WriteHostPipe",
        _ if short.starts_with("Acquire") => "AcquireExternal",
        _ if short.starts_with("Release") => "ReleaseExternal",
        _ => "Other",
    })
}

/// API group, as filters and reports name it.
pub fn group(function: &str) -> &'static str {
    let short = function.strip_prefix("cl").unwrap_or(function);
    match short {
        "Finish" | "Flush" | "WaitForEvents" => "wait",
        "BuildProgram"
        | "CompileProgram"
        | "LinkProgram"
        | "UnloadCompiler"
        | "UnloadPlatformCompiler" => "build",
        _ if short.starts_with("Enqueue") => "enqueue",
        _ if short.starts_with("Command") => "command-buffer",
        _ if short.starts_with("Get") => "query",
        _ if short.starts_with("Retain") || short.starts_with("Release") => "refcount",
        _ if short.starts_with("SetKernel") => "argument",
        _ if short.starts_with("Create")
            || short.starts_with("Clone")
            || short.contains("Alloc")
            || short.contains("Free") =>
        {
            "object"
        }
        _ => "other",
    }
}

/// Whether an image's format decides how many bytes a region has, and which argument is the image.
pub fn region_bytes(function: &str) -> Option<&'static str> {
    Some(match function {
        "clEnqueueReadBufferRect" | "clEnqueueWriteBufferRect" | "clEnqueueCopyBufferRect" => {
            "region_bytes(region, 1)"
        }
        "clEnqueueReadImage"
        | "clEnqueueWriteImage"
        | "clEnqueueFillImage"
        | "clEnqueueMapImage" => "region_bytes(region, objects::element_size(image))",
        "clEnqueueCopyImage" | "clEnqueueCopyImageToBuffer" => {
            "region_bytes(region, objects::element_size(src_image))"
        }
        "clEnqueueCopyBufferToImage" => "region_bytes(region, objects::element_size(dst_image))",
        _ => return None,
    })
}

/// What an enqueue has to do with memory of the host that OpenCL gives out: it uses it for a
/// transfer, maps an object there, or ends that.
pub fn host_memory(function: &str) -> Option<&'static str> {
    Some(match function {
        "clEnqueueReadBuffer"
        | "clEnqueueWriteBuffer"
        | "clEnqueueReadImage"
        | "clEnqueueWriteImage" => "Use::Transfer(ptr)",
        "clEnqueueReadBufferRect" | "clEnqueueWriteBufferRect" => {
            "Use::rows(ptr, host_origin, region, (host_row_pitch, host_slice_pitch))"
        }
        "clEnqueueMapBuffer" => "Use::Map(size)",
        "clEnqueueMapImage" => "Use::map_image(image, region, image_row_pitch, image_slice_pitch)",
        "clEnqueueUnmapMemObject" => "Use::Unmap(mapped_ptr)",
        _ => return None,
    })
}

/// Where the geometry of a launch is.
pub fn geometry(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "NdRange" => {
            "Geometry::read_ndrange(work_dim, global_work_offset, global_work_size, local_work_size)"
        }
        "Task" => "Geometry::TASK",
        _ => return None,
    })
}
