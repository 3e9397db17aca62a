//! What commands do, and the reasons for what is missing: numbers in the format, and words. Refuses
//! to decode records.

macro_rules! command_kinds {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        /// What a command does. The names are the specification's `CL_COMMAND_*` where it has one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs)] // each name says it
        pub enum CommandKind { $($name = $value,)* }
        impl CommandKind {
            /// Every kind.
            pub const ALL: &[CommandKind] = &[$(CommandKind::$name,)*];
            /// Name for people, as `ReadBuffer`.
            pub const fn name(self) -> &'static str { match self { $(CommandKind::$name => $text,)* } }
            /// From its number; `Other` for kinds of a newer writer.
            pub const fn from_u8(value: u8) -> Self { match value { $($value => CommandKind::$name,)* _ => CommandKind::Other } }
        }
    };
}
command_kinds! {
    Other = 0, "Other"; NdRange = 1, "NDRangeKernel"; Task = 2, "Task"; NativeKernel = 3, "NativeKernel";
    ReadBuffer = 4, "ReadBuffer"; WriteBuffer = 5, "WriteBuffer"; CopyBuffer = 6, "CopyBuffer";
    ReadImage = 7, "ReadImage"; WriteImage = 8, "WriteImage"; CopyImage = 9, "CopyImage";
    CopyImageToBuffer = 10, "CopyImageToBuffer"; CopyBufferToImage = 11, "CopyBufferToImage";
    MapBuffer = 12, "MapBuffer"; MapImage = 13, "MapImage"; UnmapMemObject = 14, "UnmapMemObject";
    Marker = 15, "Marker"; AcquireExternal = 16, "AcquireExternal"; ReleaseExternal = 17, "ReleaseExternal";
    ReadBufferRect = 18, "ReadBufferRect"; WriteBufferRect = 19, "WriteBufferRect"; CopyBufferRect = 20, "CopyBufferRect";
    User = 21, "User"; Barrier = 22, "Barrier"; MigrateMemObjects = 23, "MigrateMemObjects";
    FillBuffer = 24, "FillBuffer"; FillImage = 25, "FillImage"; SvmFree = 26, "SVMFree"; SvmMemcpy = 27, "SVMMemcpy";
    SvmMemFill = 28, "SVMMemFill"; SvmMap = 29, "SVMMap"; SvmUnmap = 30, "SVMUnmap"; SvmMigrate = 31, "SVMMigrateMem";
    UsmFill = 32, "MemFill"; UsmMemcpy = 33, "Memcpy"; UsmMigrate = 34, "MigrateMem"; UsmAdvise = 35, "MemAdvise";
    CommandBuffer = 36, "CommandBuffer"; SemaphoreWait = 37, "SemaphoreWait"; SemaphoreSignal = 38, "SemaphoreSignal";
    WaitForEvents = 39, "WaitForEvents"; GenerateMipmap = 40, "GenerateMipmap"; ReadHostPipe = 41, "ReadHostPipe";
    WriteHostPipe = 42, "WriteHostPipe";
}

/// Where the bytes of a command go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Host memory to device memory.
    HostToDevice,
    /// Device memory to host memory.
    DeviceToHost,
    /// Inside or between devices.
    DeviceToDevice,
    /// A fill, which only writes.
    Fill,
    /// A copy between pointers whose side is not known.
    Unknown,
}

impl Direction {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostToDevice => "host to device",
            Self::DeviceToHost => "device to host",
            Self::DeviceToDevice => "device to device",
            Self::Fill => "fill",
            Self::Unknown => "unknown",
        }
    }
}

impl CommandKind {
    /// Direction of the bytes moved; `None` for what moves none.
    pub const fn direction(self) -> Option<Direction> {
        use CommandKind as K;
        Some(match self {
            K::WriteBuffer | K::WriteImage | K::WriteBufferRect | K::WriteHostPipe => {
                Direction::HostToDevice
            }
            K::ReadBuffer | K::ReadImage | K::ReadBufferRect | K::ReadHostPipe => {
                Direction::DeviceToHost
            }
            K::CopyBuffer
            | K::CopyImage
            | K::CopyImageToBuffer
            | K::CopyBufferToImage
            | K::CopyBufferRect => Direction::DeviceToDevice,
            K::FillBuffer | K::FillImage | K::SvmMemFill | K::UsmFill => Direction::Fill,
            K::SvmMemcpy | K::UsmMemcpy => Direction::Unknown,
            _ => return None,
        })
    }

    /// Whether the command moves bytes from or to memory of the host that its call names, of which
    /// [`detail::HOST_MEMORY`](super::detail::HOST_MEMORY) tells.
    pub const fn uses_host_memory(self) -> bool {
        use CommandKind as K;
        matches!(
            self,
            K::ReadBuffer
                | K::WriteBuffer
                | K::ReadBufferRect
                | K::WriteBufferRect
                | K::ReadImage
                | K::WriteImage
        )
    }

    /// Whether the command runs application code on the device.
    pub const fn is_kernel(self) -> bool {
        matches!(self, CommandKind::NdRange | CommandKind::Task)
    }

    /// Whether sampled timing may leave commands of the kind out: kernels and transfers. Their
    /// `extra` holds the probability.
    pub const fn is_sampled(self) -> bool {
        self.is_kernel() || self.direction().is_some()
    }
}

/// An enumeration of reasons, each with its number in the format and its words.
macro_rules! reasons {
    ($(#[$doc:meta])* $type:ident: $repr:ty, $from:ident { $($name:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr($repr)]
        #[allow(missing_docs)] // the texts say it
        pub enum $type { $($name = $value,)* }
        impl $type {
            /// The reason in words.
            pub const fn text(self) -> &'static str { match self { $($type::$name => $text,)* } }
            /// From its number; `Unknown` for reasons of a newer writer.
            pub const fn $from(value: $repr) -> Self { match value { $($value => $type::$name,)* _ => $type::Unknown } }
        }
    };
}
reasons! {
    /// Why a command that was to be timed has no time.
    Untimed: u32, from_u32 {
        Unknown = 0, "for a reason this version does not know";
        Failed = 1, "the command failed on the device";
        QueueReleased = 2, "the application released its queue or context before the command was seen complete";
        NotAvailable = 3, "the runtime gives no profiling information for it";
        TooManyPending = 4, "too many commands were in flight";
        EventRefused = 5, "the runtime refused to give an event for it";
        Unfinished = 6, "it was still in flight at the end";
        TimingOff = 7, "device timing was off";
        NotSampled = 8, "left out by the sampling method";
        QueryFailed = 9, "the runtime failed to answer the profiling query";
        ProfilingSwitchedOff = 10, "the application switched profiling off on its queue";
        NoEvent = 11, "its function gives no event, so that nobody can time it";
        Exiting = 12, "the process was ending when it was enqueued";
        NeverStarted = 13, "the runtime never started it: a command that it waits for had failed";
        ImpossibleStamps = 14, "its profiling timestamps can be no times";
    }
}

impl Untimed {
    /// Whether the command never ran, or not to its end: it has no time to lack, and moved nothing.
    pub const fn never_ran(self) -> bool {
        matches!(self, Self::Failed | Self::NeverStarted)
    }
}

reasons! {
    /// Why records were dropped.
    DropReason: u64, from_u64 {
        Unknown = 0, "for a reason this version does not know";
        WriteFailed = 1, "the trace could not be written (disk full, a limit, or `clscope record` was behind or gone)";
        Reentered = 2, "the call came from a signal handler in the middle of another call";
        Left = 4, "the call was left by siglongjmp and never returned";
    }
}
