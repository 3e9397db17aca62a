//! Definitions: what ids mean. Each is framed on its own and written by one `write`, so a killed
//! process leaves whole definitions and at most one torn one at the end.
//!
//! Frame: u32 length of the payload, u16 kind, u16 reserved, u64 [`frame_checksum`] of these first
//! 8 bytes and the payload, then the payload: the fields of the struct in order. Integers are
//! little-endian; a string or a list is a u32 count and its elements; an option is a u8 and, if 1,
//! the value. Fields may be added at the end in a minor version: what a payload lacks reads as
//! empty, what it has too much is ignored.

mod flags;
mod frames;
mod parts;
#[cfg(test)]
mod tests;

pub use frames::{Defs, FRAME_LEN, MAX_PAYLOAD, encode, frame_checksum};
pub use parts::{
    Argument, ArgumentKind, BlockCount, ClassCount, ClassTransactions, ClockMarker, DeviceCopy,
    Frame, KernelArgument, ReplayBatch, Small,
};

use crate::field::Field;

/// Kinds that no writer uses: 15 was to be the pairs of clGetDeviceAndHostTimer, which stand with
/// the counters instead, and 16 forks, which the files of the child tell; 23 was to be bursts of
/// replays, which `Replay` tells. A reader takes them for unknown kinds.
pub const RESERVED: [u16; 3] = [15, 16, 23];

/// A struct of fields, in order; what a payload lacks at its end reads as the default.
macro_rules! definitions {
    ($($(#[$doc:meta])* $kind:literal $name:ident { $($(#[$fdoc:meta])* $field:ident: $t:ty,)* })*) => {
        $($(#[$doc])* #[derive(Debug, Clone, Default, PartialEq)] #[cfg_attr(feature = "serialize", derive(serde::Serialize))] pub struct $name { $($(#[$fdoc])* pub $field: $t,)* }
        impl From<$name> for Def { fn from(value: $name) -> Def { Def::$name(value) } })*

        /// One definition.
        #[derive(Debug, Clone, PartialEq)]
        #[cfg_attr(feature = "serialize", derive(serde::Serialize), serde(tag = "kind"))]
        #[allow(missing_docs)] // each variant is the struct of its name
        #[allow(clippy::large_enum_variant)] // short-lived values, read one by one
        pub enum Def { $($name($name),)* /// A kind this version does not know.
            Unknown { /// Its number.
                #[cfg_attr(feature = "serialize", serde(rename = "number"))] kind: u16 } }

        impl Def {
            /// The kind's number.
            pub fn kind(&self) -> u16 { match self { $(Def::$name(_) => $kind,)* Def::Unknown { kind } => *kind } }
            fn payload(&self, out: &mut Vec<u8>) {
                match self { $(Def::$name(d) => { $(d.$field.put(out);)* let _ = (d, &out); })* Def::Unknown { .. } => {} }
            }
            fn from_payload(kind: u16, mut from: &[u8]) -> Option<Def> {
                let from = &mut from;
                Some(match kind {
                    $($kind => Def::$name($name { $($field: if from.is_empty() { Default::default() } else { <$t as Field>::get(from)? },)* }),)*
                    kind => Def::Unknown { kind },
                })
            }
        }
    };
}

impl Thread {
    /// Names of the recorder's own threads that may leave records.
    pub const OWN: [&str; 2] = ["clscope-reaper", "clscope-writer"];

    /// Whether it is the recorder's own, not the application's.
    pub fn is_recorders(&self) -> bool {
        Self::OWN.contains(&self.name.as_str())
    }
}

definitions! {
    /// The process that wrote the file. The first definition of every file.
    1 Process {
        /// Process id in its own namespace.
        pid: u32,
        /// Parent's id.
        ppid: u32,
        /// Path of the executable.
        executable: String,
        /// Command line.
        arguments: Vec<String>,
        /// Working directory.
        directory: String,
        /// Host name.
        host: String,
        /// Rank in `MPI_COMM_WORLD`, if the launcher passes it.
        mpi_rank: Option<u32>,
        /// Size of `MPI_COMM_WORLD`.
        mpi_size: Option<u32>,
        /// Version of the recorder.
        recorder: String,
        /// How it came in: preload, layer, audit; as seen at the first call.
        injection: String,
        /// Device-timing method.
        device_timing: String,
        /// Whether rings are in mapped files: if not, what was in them when the process was killed
        /// is lost.
        rings_survive: bool,
        /// Environment's settings, as NAME=value, of our prefix only.
        settings: Vec<String>,
    }
    /// An entry point, so that a trace explains itself. Ids are the record's `function`.
    2 Function {
        /// Id.
        id: u16,
        /// Name.
        name: String,
        /// `cl_khr_...` or a core version `1.2`.
        origin: String,
        /// API group, of [`API_GROUPS`](crate::variables::API_GROUPS).
        group: String,
        /// Kept arguments of the long form, in order.
        arguments: Vec<Argument>,
        /// Small arguments of the plain form: index in `arguments` and bits, lowest first.
        small: Vec<Small>,
        /// Index in `arguments` of the object that the plain form's id names.
        object: Option<u8>,
    }
    /// A point at which the clocks were read together.
    3 Anchor {
        /// Host clock of the trace, in ticks.
        ticks: u64,
        /// CLOCK_MONOTONIC_RAW, ns.
        raw: u64,
        /// CLOCK_MONOTONIC, ns.
        monotonic: u64,
        /// CLOCK_REALTIME, ns.
        realtime: u64,
        /// Width of the interval in which they were read, in ticks.
        width: u64,
    }
    /// A thread.
    4 Thread {
        /// Index.
        index: u32,
        /// Thread id of the system.
        tid: u32,
        /// Name at its first call.
        name: String,
    }
    /// A platform.
    5 Platform {
        /// Id.
        id: u32,
        /// CL_PLATFORM_NAME.
        name: String,
        /// CL_PLATFORM_VENDOR.
        vendor: String,
        /// CL_PLATFORM_VERSION.
        version: String,
    }
    /// A device.
    6 Device {
        /// Id.
        id: u32,
        /// Platform id.
        platform: u32,
        /// CL_DEVICE_NAME.
        name: String,
        /// CL_DEVICE_VENDOR.
        vendor: String,
        /// CL_DRIVER_VERSION.
        driver: String,
        /// CL_DEVICE_VERSION.
        version: String,
        /// CL_DEVICE_TYPE.
        device_type: u64,
        /// CL_DEVICE_MAX_COMPUTE_UNITS.
        compute_units: u32,
        /// CL_DEVICE_MAX_CLOCK_FREQUENCY in MHz.
        clock_mhz: u32,
        /// CL_DEVICE_GLOBAL_MEM_SIZE in bytes.
        global_memory: u64,
        /// CL_DEVICE_PROFILING_TIMER_RESOLUTION in ns.
        timer_resolution: u64,
        /// PCI address `domain:bus:device.function`, if the runtime reports it.
        pci: Option<String>,
        /// Parent device id of a sub-device.
        parent: Option<u32>,
        /// CL_DEVICE_UUID_KHR as hex, if the runtime reports it.
        uuid: Option<String>,
    }
    /// A context.
    7 Context {
        /// Id.
        id: u32,
        /// Device ids.
        devices: Vec<u32>,
    }
    /// A command queue.
    8 Queue {
        /// Id.
        id: u32,
        /// Context id.
        context: u32,
        /// Device id.
        device: u32,
        /// Properties as the application asked for them.
        properties: u64,
        /// Whether we added the profiling bit.
        profiling_added: bool,
    }
    /// A program.
    9 Program {
        /// Id.
        id: u32,
        /// Context id.
        context: u32,
        /// How it was made: `source`, `binary`, `il`, `built-in`, `link`; `replacement` where the
        /// recorder made it of a file ([`Replaced`]).
        origin: String,
        /// 128-bit hash of source, binary or IL as hex, empty if there is none.
        hash: String,
        /// Bytes of source, binary or IL.
        bytes: u64,
    }
    /// A build, compilation or link of a program.
    10 Build {
        /// Program id.
        program: u32,
        /// Function that asked for it.
        function: u16,
        /// Options as the application gave them.
        options: String,
        /// Error code.
        result: i32,
        /// Build log, cut to 64 KiB; asked for only where the build failed.
        log: String,
    }
    /// A kernel.
    11 Kernel {
        /// Id.
        id: u32,
        /// Program id, 0 if unknown.
        program: u32,
        /// Name.
        name: String,
    }
    /// An NDRange.
    12 Geometry {
        /// Id.
        id: u32,
        /// Dimensions, 1 to 3.
        dimensions: u32,
        /// Global offset, if given.
        offset: Option<[u64; 3]>,
        /// Global size.
        global: [u64; 3],
        /// Local size, if given.
        local: Option<[u64; 3]>,
    }
    /// The process ended in order: without it the process was killed, or called `_exit`.
    13 Exit {
        /// Host time in ticks.
        ticks: u64,
        /// Commands whose time was still awaited.
        pending: u64,
    }
    /// Something the user should know.
    14 Warning {
        /// Stable name, `disk-full`.
        code: String,
        /// What happened, on what, and the next step.
        text: String,
    }
    /// Result of a calibration that belongs to the trace (span bias, ...). The recorder writes
    /// none; readers heed those of any writer.
    17 Calibration {
        /// What was calibrated: `span-bias-ns`, ...
        name: String,
        /// Device id, 0 for the host.
        device: u32,
        /// Value.
        value: f64,
        /// Half-width of its 95 % interval.
        uncertainty: f64,
    }
    /// A launch or transfer that was repeated by the recorder (`CLSCOPE_REPLAY`) just before the
    /// application's own, or why it was not.
    18 Replay {
        /// Kernel id; 0 for a transfer.
        kernel: u32,
        /// Id of the application's queue.
        queue: u32,
        /// Global size, one number per dimension.
        global: Vec<u64>,
        /// Why the launch was not repeated; empty where it was.
        refused: String,
        /// Bytes of buffers that were saved before and restored after, and between launches where
        /// there are batches of restorations alone; where there are none, each launch leaves these
        /// bytes as the launch before did.
        saved: u64,
        /// What was repeated, in order of time.
        batches: Vec<ReplayBatch>,
        /// [`CommandKind`](crate::record::CommandKind) of what was repeated; 0 in traces that knew
        /// launches only.
        command: u8,
        /// Bytes of a transfer.
        bytes: u64,
        /// Local size, one number per dimension; empty where the application gave none.
        local: Vec<u64>,
        /// What has the same key is alike: program, kernel name, geometry and sizes of arguments,
        /// or the kind and the size of a transfer.
        key: u64,
        /// A number for the values of arguments that are no objects: equal values, equal numbers.
        scalars: u64,
        /// The application's own command has this id or a later one.
        before: u64,
        /// Mean device time of those repetitions of which stamps were taken, in ns; 0 where it is
        /// not known.
        stamped_ns: u64,
        /// Launches for each restoration of the buffers; 0 where they are not restored between.
        per_restoration: u32,
        /// When the quiet time before the first batch began, in ticks: nothing of this process ran
        /// from then on. 0 where there was none.
        quiet: u64,
        /// Launches that were tried before the batches, to learn what they do and how long they
        /// take, and copies of buffers that were saved before and put back after (`restores_only`),
        /// in order of time. A definition with nothing else is of a trial that no batch followed.
        /// Empty in traces before 1.6.
        trials: Vec<ReplayBatch>,
    }
    /// An executable or a library that calls come from, as it lay in memory when the first of them
    /// was seen. One that is unloaded and loaded again is another module.
    19 Module {
        /// Id.
        id: u32,
        /// Path, as the dynamic linker or the system names it.
        path: String,
        /// Build id (note `NT_GNU_BUILD_ID`) as hex, empty if it has none.
        build_id: String,
        /// What was added to the addresses of the file.
        base: u64,
        /// First address.
        begin: u64,
        /// One past the last address.
        end: u64,
    }
    /// Where in the application a call stands: return addresses from the innermost outwards,
    /// without those of the recorder and of OpenCL loaders.
    20 CallSite {
        /// Id.
        id: u32,
        /// Frames.
        frames: Vec<Frame>,
    }
    /// Markers that the recorder enqueued on a queue of the application's to tie the device's clock
    /// to the host's: no commands of the application's.
    21 ClockMarkers {
        /// Queue id.
        queue: u32,
        /// What was read of each, in order.
        markers: Vec<ClockMarker>,
    }
    /// A text or binary of a program, and whether the trace keeps it, in
    /// `programs/HASH.LANGUAGE` ([`directory`](crate::directory::program_file)).
    22 Code {
        /// Program id.
        program: u32,
        /// Device id; 0 for what is of all devices of the program.
        device: u32,
        /// Its ending: `cl` source, `spv` SPIR-V, `ptx`, `bin` any other binary.
        language: String,
        /// 128-bit hash of its bytes as hex.
        hash: String,
        /// Bytes it has.
        bytes: u64,
        /// Why it is not kept; empty where it is.
        missing: String,
    }
    /// What a kernel takes of a device. A later definition of the same kernel and device adds what
    /// an earlier one leaves open.
    24 Resources {
        /// Kernel id; it holds for kernels of the same program and name.
        kernel: u32,
        /// Device id.
        device: u32,
        /// CL_KERNEL_WORK_GROUP_SIZE: most work-items of a work-group.
        work_group: Option<u64>,
        /// CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, in work-items.
        multiple: Option<u64>,
        /// CL_KERNEL_LOCAL_MEM_SIZE in bytes, without local arguments that were not set yet.
        local: Option<u64>,
        /// CL_KERNEL_PRIVATE_MEM_SIZE in bytes a work-item.
        private: Option<u64>,
        /// CL_KERNEL_COMPILE_WORK_GROUP_SIZE, where the source requires one.
        required: Option<[u64; 3]>,
        /// Registers of 32 bits a work-item.
        registers: Option<u64>,
        /// Bytes of registers spilled, written, a work-item; of Intel's runtime, all bytes spilled.
        spill_stores: Option<u64>,
        /// Bytes of them read again.
        spill_loads: Option<u64>,
    }
    /// Instructions of one launch, counted by the recorder (`CLSCOPE_MIX`) beside the
    /// application's own, or why they were not.
    25 Mix {
        /// Kernel id.
        kernel: u32,
        /// Id of the application's queue.
        queue: u32,
        /// Device id.
        device: u32,
        /// Global offset, one number per dimension; empty where the application gave none.
        offset: Vec<u64>,
        /// Global size, one number per dimension.
        global: Vec<u64>,
        /// Local size, one number per dimension; empty where the application gave none.
        local: Vec<u64>,
        /// The application's own command has this id or a later one.
        before: u64,
        /// Why the launch was not counted; empty where it was.
        refused: String,
        /// Arguments of the launch, in order.
        arguments: Vec<KernelArgument>,
        /// Language that was counted, as in [`Code`].
        language: String,
        /// Hash of the code that was counted, as in [`Code`]: blocks are of its text.
        code: String,
        /// Work-items that entered the kernel.
        entered: u64,
        /// What was executed, by class of instruction.
        classes: Vec<ClassCount>,
        /// How often each block was entered; those that never were are left out.
        blocks: Vec<BlockCount>,
        /// Instructions that are not known, by name; counted in the class `unknown`.
        unknown: Vec<String>,
        /// Host time that counting took, buffers saved and restored included, in ticks.
        took: u64,
        /// Device time of the launch that counted, in ns, where it was stamped.
        counted_ns: Option<u64>,
        /// Bytes of buffers that were saved before and restored after.
        saved: u64,
        /// Blocks at which loops begin.
        loops: Vec<u32>,
        /// Transactions of classes that access memory, where they were counted. Empty in traces
        /// before 1.7.
        transactions: Vec<ClassTransactions>,
    }
    /// A launch that was captured (`CLSCOPE_CAPTURE`), or why it was not. (Since 1.4.)
    26 Capture {
        /// Kernel id.
        kernel: u32,
        /// Id of the application's queue; 0 in a command buffer.
        queue: u32,
        /// Number of the launch, from 1, counted for each kernel name in the process; 0 in a
        /// command buffer, whose launches are not counted.
        launch: u64,
        /// Id of the command that launched; `None` where none did.
        command: Option<u64>,
        /// Name of its folder in `captures`
        /// ([`directory`](crate::directory::capture_folder)); empty where it was not captured.
        folder: String,
        /// Bytes of the files in the folder.
        bytes: u64,
        /// Why it was not captured; empty where it was.
        refused: String,
        /// Whether the next launch of the kernel is tried in its place.
        again: bool,
        /// Host time that capturing took, none of which is in the launch's record, in ticks.
        took: u64,
        /// Copies of its memory that ran in the application's queue, where the queue profiles.
        /// Empty in traces before 1.10.
        copies: Vec<DeviceCopy>,
        /// Host time before the first of them was enqueued, in ticks; 0 in traces before 1.10.
        begun: u64,
        /// Host time at which all of them had been seen to have ended, in ticks; 0 where they
        /// were not.
        seen: u64,
    }
    /// A kernel whose code is to be a file's (`CLSCOPE_REPLACE`): whether it is, from a command on.
    /// A later definition of the same kernel takes the place of this one. (Since 1.5.)
    27 Replaced {
        /// Kernel id.
        kernel: u32,
        /// What it says holds of launches from this command id on.
        from: u64,
        /// The file.
        file: String,
        /// Id of the recorder's own program that runs in place of the application's; 0 where none
        /// was made. Its [`Build`] holds the log, its [`Code`] the language.
        program: u32,
        /// Why the application's own code runs; empty where the file's does.
        refused: String,
    }
    /// A launch whose work-group size is to be set (`CLSCOPE_LOCAL`): whether it is. Written once
    /// for a kernel, device, global and local size. [`Geometry`] holds the size that was launched.
    /// (Since 1.5.)
    28 LocalSize {
        /// Kernel id.
        kernel: u32,
        /// Device id.
        device: u32,
        /// Global size, one number per dimension.
        global: Vec<u64>,
        /// Local size that the application asked for; empty where it left it to the runtime.
        asked: Vec<u64>,
        /// Local size that is to be set.
        wanted: Vec<u64>,
        /// Why the launch keeps the application's; empty where it does not.
        refused: String,
    }
    /// Options appended to those that the application builds a program with
    /// (`CLSCOPE_APPEND_OPTIONS`). (Since 1.5.)
    29 AppendedOptions {
        /// Program id.
        program: u32,
        /// What was appended.
        options: String,
        /// Why the program is built without them; empty where it is built with them.
        refused: String,
        /// Log of the build that failed with them, cut to 64 KiB.
        log: String,
    }
}
