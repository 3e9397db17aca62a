//! Instruction mixes: what kernels execute, by class of instruction. Reads the text that a runtime
//! hands out of a program (PTX, SPIR-V), splits it into basic blocks, classifies what is in them,
//! and writes the same program with a counter for each block. Run once, the counters give every
//! instruction of the launch exactly, since all of a block runs as often as its beginning.
//!
//! Pure: bytes in, values out. Refuses to run anything.
//!
//! | module | what it holds |
//! |---|---|
//! | [`class`] | classes of instructions |
//! | [`program`] | functions and blocks, and the mix that block counts make of them |
//! | [`reuse`] | how soon memory is touched again, and what caches miss |
//! | [`ptx`] | NVIDIA's intermediate language, which its OpenCL runtime gives as a program's binary and takes back |
//! | [`spirv`] | the intermediate language of OpenCL 2.1 and later |
//!
//! What is counted is the intermediate language, not the device's own instructions: compilers merge
//! (`lop3`), split (division) and remove some of it.
#![forbid(unsafe_code)]

pub mod class;
pub mod program;
pub mod ptx;
mod reach;
pub mod reuse;
pub mod spirv;

pub use class::{Class, Family, Follows, Instruction, Precision, Space};
pub use program::{
    Access, Accesses, Block, Counted, Counts, Data, Function, LINE, Mix, PASS, Program, SECTOR,
    Tally, Transactions,
};

/// Why a program cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is in none of the languages.
    #[error("the program's {what} is neither PTX nor SPIR-V")]
    Language {
        /// What was looked at.
        what: &'static str,
    },
    /// It is in one of them, and breaks its grammar.
    #[error("{language} cannot be read at {at}: {what}")]
    Syntax {
        /// PTX or SPIR-V.
        language: &'static str,
        /// Line of the text, or word of the module.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It uses what cannot be counted.
    #[error("the program {what}, which cannot be counted")]
    Unsupported {
        /// What it does.
        what: &'static str,
    },
    /// It is too large.
    #[error("the program has {blocks} basic blocks; at most {most} are counted")]
    TooLarge {
        /// Blocks found.
        blocks: usize,
        /// Most that are counted.
        most: usize,
    },
    /// The counters do not fit the program.
    #[error("{found} counters were read, the program has {expected}")]
    Counters {
        /// Words read.
        found: usize,
        /// Words expected.
        expected: usize,
    },
}

/// Most basic blocks of a program that are counted.
pub const MOST_BLOCKS: usize = 1 << 16;
