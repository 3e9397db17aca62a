//! What definitions hold several of: arguments, frames of call sites, batches, counts.

use crate::field::Field;
use crate::record::CommandKind;

/// Defines a plain part of a definition, written field by field.
macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident { $($(#[$fdoc:meta])* $field:ident: $t:ty,)* })*) => {
        $($(#[$doc])* #[derive(Debug, Clone, Default, PartialEq, Eq)] #[cfg_attr(feature = "serialize", derive(serde::Serialize))] pub struct $name { $($(#[$fdoc])* pub $field: $t,)* }
        impl Field for $name {
            fn put(&self, out: &mut Vec<u8>) { $(self.$field.put(out);)* }
            fn get(from: &mut &[u8]) -> Option<Self> { Some(Self { $($field: Field::get(from)?,)* }) }
        })*
    };
}

parts! {
    /// An argument of a launch.
    KernelArgument {
        /// Its index.
        index: u32,
        /// What it is: `value`, `local`, `buffer`, `image`, `sampler`, `pipe`, `shared`.
        kind: String,
        /// Its size in bytes: of a buffer or image its memory's, of local memory what was asked
        /// for.
        size: Option<u64>,
        /// What a value of up to 8 bytes says, little end first, the bytes behind it 0.
        value: Option<u64>,
    }
    /// What was executed of a class of instruction.
    ClassCount {
        /// Name of the class, as `clscope-mix` gives it.
        class: String,
        /// Instructions, one for each work-item.
        threads: u64,
        /// Instructions, one for each warp, where warps were counted.
        warps: Option<u64>,
        /// Floating-point operations.
        flop: u64,
        /// Bytes of memory asked for.
        bytes: u64,
        /// Of the instructions of work-items, those under a predicate.
        predicated: u64,
    }
    /// Transactions of memory of a class of instruction.
    ClassTransactions {
        /// Name of the class, as `clscope-mix` gives it.
        class: String,
        /// Pieces of 32 bytes of global memory that warps touched, words of constant and private memory,
        /// or passes through the banks of local memory.
        transactions: u64,
    }
    /// A copy that the recorder made on the device.
    DeviceCopy {
        /// CL_PROFILING_COMMAND_START, device time in ns.
        start: u64,
        /// CL_PROFILING_COMMAND_END, device time in ns.
        end: u64,
        /// Bytes that it copied.
        bytes: u64,
    }
    /// How often a block was entered.
    BlockCount {
        /// Index of the block in the code.
        block: u32,
        /// By work-items.
        threads: u64,
        /// By warps, where they were counted.
        warps: Option<u64>,
    }
    /// A marker of the recorder's own.
    #[derive(Copy)]
    ClockMarker {
        /// Host time before its enqueue call, in ticks.
        before: u64,
        /// Host time after it, in ticks.
        after: u64,
        /// CL_PROFILING_COMMAND_QUEUED, device time in ns.
        queued: u64,
        /// CL_PROFILING_COMMAND_SUBMIT, device time in ns.
        submit: u64,
    }
    /// A frame of a call site.
    #[derive(Copy, Hash)]
    Frame {
        /// Module id; 0 for code in no module, as compilers make at run time.
        module: u32,
        /// Return address, as the module's file counts addresses; in no module the address itself.
        address: u64,
    }
    /// Launches, or restorations of the buffers alone, one after the other.
    #[derive(Copy)]
    ReplayBatch {
        /// Host time before the first, in ticks.
        begin: u64,
        /// Host time at which the last was complete, in ticks.
        end: u64,
        /// How many.
        count: u64,
        /// Whether buffers were only restored. Where there are such batches, each launch of the others
        /// follows a restoration.
        restores_only: bool,
    }
    /// A kept argument of a function.
    Argument {
        /// Its name in the specification; `return` for the object that the call returned.
        name: String,
        /// What it is.
        kind: ArgumentKind,
    }
    /// A small argument of the plain form.
    #[derive(Copy)]
    Small {
        /// Index in the function's arguments.
        argument: u8,
        /// Bits it has.
        bits: u8,
    }
}

impl super::Replay {
    /// What was repeated: launches, in traces that do not tell.
    pub fn kind(&self) -> CommandKind {
        match self.command {
            0 => CommandKind::NdRange,
            kind => CommandKind::from_u8(kind),
        }
    }
}

/// What a kept argument's word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serialize", derive(serde::Serialize))]
#[repr(u8)]
pub enum ArgumentKind {
    /// An unsigned number.
    #[default]
    Unsigned = 0,
    /// A signed number.
    Signed = 1,
    /// A size in bytes.
    Bytes = 2,
    /// Hexadecimal flags.
    Flags = 3,
    /// An enum value, named by the registry.
    Enum = 4,
    /// cl_bool.
    Bool = 5,
    /// Id of a platform, device, context, queue, program, kernel, memory object or other object.
    Object = 6,
    /// Command id of an event.
    Event = 7,
    /// An address.
    Pointer = 8,
}

impl Field for ArgumentKind {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u8).put(out);
    }
    fn get(from: &mut &[u8]) -> Option<Self> {
        use ArgumentKind as K;
        const ALL: [K; 9] = [
            K::Unsigned,
            K::Signed,
            K::Bytes,
            K::Flags,
            K::Enum,
            K::Bool,
            K::Object,
            K::Event,
            K::Pointer,
        ];
        // A kind of a newer writer still prints as a number.
        u8::get(from).map(|n| ALL.get(usize::from(n)).copied().unwrap_or(K::Unsigned))
    }
}
