//! Owns how an error code of OpenCL is written in messages. Refuses to judge it. It formats: nothing
//! for the fast path.
#![forbid(unsafe_code)]

use std::fmt::{Display, Formatter, Result};

/// An error code, as `CL_OUT_OF_HOST_MEMORY (-6)`; one that has no name, as `error -9999`.
pub struct ErrorCode(pub i32);

impl Display for ErrorCode {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match clscope_trace::names::error(self.0) {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "error {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorCode;

    #[test]
    fn codes_have_their_names_where_there_are_any() {
        assert_eq!(ErrorCode(-11).to_string(), "CL_BUILD_PROGRAM_FAILURE (-11)");
        assert_eq!(ErrorCode(-9999).to_string(), "error -9999");
    }
}
