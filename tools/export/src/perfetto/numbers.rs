//! Owns the field numbers and enum values of Perfetto's trace format that are written, each named
//! `MESSAGE_FIELD` after its definition in the project's `protos/perfetto/trace` (those of GPUs:
//! `gpu/gpu_render_stage_event.proto`, `gpu/gpu_track_event.proto`, `gpu/gpu_counter_event.proto`,
//! `common/gpu_counter_descriptor.proto`). Checked against trace processor 55.3.

pub const TRACE_PACKET: u32 = 1;

pub const PACKET_CLOCK_SNAPSHOT: u32 = 6;
pub const PACKET_TIMESTAMP: u32 = 8;
pub const PACKET_SEQUENCE: u32 = 10;
pub const PACKET_TRACK_EVENT: u32 = 11;
pub const PACKET_INTERNED: u32 = 12;
pub const PACKET_FLAGS: u32 = 13;
pub const PACKET_COUNTERS: u32 = 52;
pub const PACKET_STAGE: u32 = 53;
pub const PACKET_CLOCK: u32 = 58;
pub const PACKET_DEFAULTS: u32 = 59;
pub const PACKET_TRACK: u32 = 60;
pub const PACKET_MACHINE: u32 = 98;
pub const PACKET_GPUS: u32 = 128;
/// The sequence begins: nothing is interned yet.
pub const FLAG_CLEARED: u64 = 1;
/// What is interned is needed.
pub const FLAG_NEEDS_STATE: u64 = 2;

pub const DEFAULTS_EVENT: u32 = 11;
pub const DEFAULTS_EVENT_TRACK: u32 = 11;
pub const DEFAULTS_CLOCK: u32 = 58;

pub const SNAPSHOT_CLOCKS: u32 = 1;
pub const SNAPSHOT_PRIMARY: u32 = 2;
pub const CLOCK_ID: u32 = 1;
pub const CLOCK_TIMESTAMP: u32 = 2;
pub const CLOCK_INCREMENTAL: u32 = 3;
pub const CLOCK_REALTIME: u64 = 1;
pub const CLOCK_MONOTONIC: u64 = 3;
pub const CLOCK_MONOTONIC_RAW: u64 = 5;

pub const TRACK_UUID: u32 = 1;
pub const TRACK_NAME: u32 = 2;
pub const TRACK_PROCESS: u32 = 3;
pub const TRACK_THREAD: u32 = 4;
pub const TRACK_PARENT: u32 = 5;
pub const TRACK_COUNTER: u32 = 8;
pub const PROCESS_PID: u32 = 1;
pub const PROCESS_COMMAND_LINE: u32 = 2;
pub const PROCESS_NAME: u32 = 6;
pub const THREAD_PID: u32 = 1;
pub const THREAD_TID: u32 = 2;
pub const THREAD_NAME: u32 = 5;
pub const COUNTER_UNIT_NAME: u32 = 6;

pub const EVENT_CATEGORIES: u32 = 3;
pub const EVENT_ANNOTATIONS: u32 = 4;
pub const EVENT_TYPE: u32 = 9;
pub const EVENT_NAME: u32 = 10;
pub const EVENT_TRACK: u32 = 11;
pub const EVENT_DOUBLE: u32 = 44;
pub const EVENT_CALLSTACK: u32 = 55;
pub const EVENT_CORRELATION: u32 = 3000;
pub const EVENT_API: u32 = 3001;
pub const TYPE_BEGIN: u64 = 1;
pub const TYPE_END: u64 = 2;
pub const TYPE_INSTANT: u64 = 3;
pub const TYPE_COUNTER: u64 = 4;
pub const CORRELATION_SUBMITTED: u32 = 1;
pub const CORRELATION_WAITED: u32 = 2;
pub const API_OPEN_CL: u64 = 3;
pub const CALLSTACK_FRAMES: u32 = 1;
pub const FRAME_FUNCTION: u32 = 1;
pub const FRAME_FILE: u32 = 2;
pub const FRAME_LINE: u32 = 3;

pub const ANNOTATION_NAME: u32 = 1;
pub const ANNOTATION_BOOL: u32 = 2;
pub const ANNOTATION_UINT: u32 = 3;
pub const ANNOTATION_INT: u32 = 4;
pub const ANNOTATION_DOUBLE: u32 = 5;
pub const ANNOTATION_TEXT: u32 = 6;
pub const ANNOTATION_ARRAY: u32 = 12;
pub const ANNOTATION_TEXT_ID: u32 = 17;

pub const INTERNED_CATEGORIES: u32 = 1;
pub const INTERNED_EVENT_NAMES: u32 = 2;
pub const INTERNED_ANNOTATION_NAMES: u32 = 3;
pub const INTERNED_CONTEXTS: u32 = 23;
pub const INTERNED_STAGES: u32 = 24;
pub const INTERNED_TEXTS: u32 = 29;
pub const INTERNED_COUNTERS: u32 = 47;
pub const INTERNED_KERNELS: u32 = 1000;
pub const INTERNED_ARGUMENT_NAMES: u32 = 1001;
pub const INTERNED_ID: u32 = 1;
pub const INTERNED_NAME: u32 = 2;
pub const CONTEXT_PID: u32 = 2;
pub const CONTEXT_API: u32 = 3;
pub const STAGE_CATEGORY: u32 = 4;
pub const CATEGORY_COMPUTE: u64 = 2;
pub const COUNTERS_DESCRIPTOR: u32 = 2;

pub const STAGE_EVENT: u32 = 1;
pub const STAGE_DURATION: u32 = 2;
pub const STAGE_CONTEXT: u32 = 5;
pub const STAGE_GPU: u32 = 11;
pub const STAGE_QUEUE: u32 = 13;
pub const STAGE_STAGE: u32 = 14;
pub const STAGE_WAITS: u32 = 18;
pub const STAGE_KERNEL: u32 = 19;
pub const STAGE_NAME: u32 = 20;
pub const STAGE_LAUNCH: u32 = 21;
pub const LAUNCH_GRID: u32 = 1;
pub const LAUNCH_GROUP: u32 = 2;
pub const LAUNCH_ARGUMENTS: u32 = 3;
pub const ARGUMENT_NAME: u32 = 1;
pub const ARGUMENT_INT: u32 = 3;
pub const ARGUMENT_UINT: u32 = 4;
pub const ARGUMENT_DOUBLE: u32 = 5;
pub const ARGUMENT_TEXT: u32 = 6;
pub const ARGUMENT_TEXT_ID: u32 = 7;

pub const GPUS_GPU: u32 = 1;
pub const GPU_NAME: u32 = 1;
pub const GPU_VENDOR: u32 = 2;
pub const GPU_PCI: u32 = 6;

pub const COUNTERS_VALUES: u32 = 2;
pub const COUNTERS_GPU: u32 = 3;
pub const COUNTERS_DESCRIPTOR_ID: u32 = 4;
pub const VALUE_COUNTER: u32 = 1;
pub const VALUE_DOUBLE: u32 = 3;
pub const DESCRIPTOR_SPECS: u32 = 1;
pub const SPEC_ID: u32 = 1;
pub const SPEC_NAME: u32 = 2;
pub const SPEC_UNIT: u32 = 7;
pub const SPEC_PER: u32 = 8;
pub const UNIT_MEGABYTE: u64 = 9;
pub const UNIT_MEGAHERTZ: u64 = 15;
pub const UNIT_SECOND: u64 = 22;
pub const UNIT_WATT: u64 = 29;
pub const UNIT_CELSIUS: u64 = 34;
pub const UNIT_PERCENT: u64 = 37;
