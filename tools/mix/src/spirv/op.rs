//! Numbers of SPIR-V's instructions, and which of them begin with a type and a result. Source:
//! SPIR-V specification, section 3.49.

pub const NAME: u16 = 5;
pub const LINE: u16 = 8;
pub const EXT_INST_IMPORT: u16 = 11;
pub const EXT_INST: u16 = 12;
pub const MEMORY_MODEL: u16 = 14;
pub const ENTRY_POINT: u16 = 15;
pub const CAPABILITY: u16 = 17;
/// Types: of nothing first, of pipes last.
pub const TYPE_FIRST: u16 = 19;
pub const TYPE_LAST: u16 = 38;
pub const TYPE_INT: u16 = 21;
pub const TYPE_FLOAT: u16 = 22;
pub const TYPE_VECTOR: u16 = 23;
pub const TYPE_ARRAY: u16 = 28;
pub const TYPE_STRUCT: u16 = 30;
pub const TYPE_POINTER: u16 = 32;
pub const TYPE_FUNCTION: u16 = 33;
pub const CONSTANT: u16 = 43;
pub const FUNCTION: u16 = 54;
pub const FUNCTION_PARAMETER: u16 = 55;
pub const FUNCTION_END: u16 = 56;
pub const FUNCTION_CALL: u16 = 57;
pub const VARIABLE: u16 = 59;
pub const LOAD: u16 = 61;
pub const STORE: u16 = 62;
pub const COPY: u16 = 63;
pub const COPY_SIZED: u16 = 64;
pub const IN_BOUNDS_PTR_ACCESS_CHAIN: u16 = 70;
pub const DECORATE: u16 = 71;
pub const COMPOSITE_EXTRACT: u16 = 81;
pub const IADD: u16 = 128;
pub const IMUL: u16 = 132;
pub const SHIFT_RIGHT_LOGICAL: u16 = 194;
pub const BITWISE_AND: u16 = 199;
pub const ATOMIC_IADD: u16 = 234;
pub const SELECT: u16 = 169;
pub const PHI: u16 = 245;
pub const LABEL: u16 = 248;
pub const BRANCH: u16 = 249;
pub const BRANCH_CONDITIONAL: u16 = 250;
pub const SWITCH: u16 = 251;
pub const RETURN: u16 = 253;
pub const RETURN_VALUE: u16 = 254;
pub const NO_LINE: u16 = 317;

/// Whether an instruction's first operands are its type and its result.
pub fn has_result(opcode: u16) -> bool {
    matches!(
        opcode,
        1 | 12
            | 41..=46
            | 48..=52
            | 54
            | 55
            | 57
            | 59..=61
            | 65..=70
            | 77..=84
            | 86..=98
            | 100..=107
            | 109..=118
            | 119..=124
            | 126..=152
            | 154..=191
            | 194..=205
            | 227
            | 229..=242
            | 245
            | 259
            | 261..=271
            | 333..=366
    )
}

/// Whether a pointer leads where its first operand does: a part of it, a copy, a cast.
pub fn is_step(opcode: u16) -> bool {
    matches!(opcode, 65..=67 | IN_BOUNDS_PTR_ACCESS_CHAIN | 83 | 121..=124)
}

/// Which operand is the pointer of a load, a store or an atomic.
pub fn pointer(opcode: u16) -> Option<usize> {
    match opcode {
        LOAD | 227 | 229..=242 => Some(2),
        STORE | 228 => Some(0),
        _ => None,
    }
}

/// Whether a block ends with it.
pub fn ends_block(opcode: u16) -> bool {
    matches!(opcode, 249..=255)
}
