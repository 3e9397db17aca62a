//! Names of error codes and enum values, as the headers have them.

use crate::codes::{ENUMS, ERRORS};

/// Name of an error code, as `CL_INVALID_VALUE`.
pub fn error(code: i32) -> Option<&'static str> {
    let at = ERRORS.binary_search_by_key(&code, |(known, _)| *known).ok()?;
    ERRORS.get(at).map(|(_, name)| *name)
}

/// Name of an enum value, as `CL_DEVICE_NAME`; `None` for small values, which repeat from type to
/// type.
pub fn value(value: u64) -> Option<&'static str> {
    let at = ENUMS.binary_search_by_key(&value, |(known, _)| u64::from(*known)).ok()?;
    ENUMS.get(at).map(|(_, name)| *name)
}
