//! Owns what memory of the host a transfer used, as far as the recorder told. Refuses to guess:
//! what the application pinned by other means looks like any other memory of its own.

use clscope_trace::codes::{CL_MEM_ALLOC_HOST_PTR, CL_MEM_USE_HOST_PTR};
use clscope_trace::record::{Detail, detail};

/// The memory of the host that a transfer reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostMemory {
    /// Nobody told: the recorder's version does not, a record was lost, or more was given out than
    /// the recorder keeps.
    Unknown,
    /// OpenCL did not give it out.
    Application,
    /// OpenCL gave it out.
    Given {
        /// How: [`detail::MAPPED`] or its like, or a number of a newer writer.
        how: u64,
        /// Id of the object that is mapped, 0 for other memory.
        object: u32,
        /// What it was made with, `None` where nobody told.
        flags: Option<u64>,
    },
}

/// Kinds of memory that transfers are told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Runtimes pin it where their device copies from pinned memory faster: a mapped region of an
    /// object made with CL_MEM_ALLOC_HOST_PTR, an allocation on the host.
    Pinned,
    /// OpenCL gave it out, without a word of how: other mapped regions, shared virtual memory.
    Mapped,
    /// The application's own.
    Application,
    /// Not known.
    Unknown,
}

impl HostMemory {
    /// What a detail of kind [`detail::HOST_MEMORY`] tells.
    pub(crate) fn decode(of: &Detail) -> Self {
        let [how, object, flags] = of.values;
        match how {
            detail::NOT_KEPT => Self::Unknown,
            _ => Self::Given {
                how,
                object: object as u32,
                flags: (flags != detail::FLAGS_UNKNOWN).then_some(flags),
            },
        }
    }

    /// Its class.
    pub const fn class(self) -> Class {
        match self {
            Self::Unknown => Class::Unknown,
            Self::Application => Class::Application,
            Self::Given { how: detail::HOST_ALLOCATION, .. } => Class::Pinned,
            Self::Given { how: detail::MAPPED, flags: Some(flags), .. }
                if flags & CL_MEM_ALLOC_HOST_PTR != 0 =>
            {
                Class::Pinned
            }
            Self::Given { .. } => Class::Mapped,
        }
    }

    /// In a word or a few, as listings have it.
    pub const fn text(self) -> &'static str {
        let Self::Given { how, flags, .. } = self else {
            return if matches!(self, Self::Unknown) { "unknown" } else { "application" };
        };
        match (how, flags) {
            (detail::MAPPED, Some(flags)) if flags & CL_MEM_ALLOC_HOST_PTR != 0 => {
                "mapped,alloc-host-ptr"
            }
            (detail::MAPPED, Some(flags)) if flags & CL_MEM_USE_HOST_PTR != 0 => {
                "mapped,use-host-ptr"
            }
            (detail::MAPPED, _) => "mapped",
            (detail::SVM, _) => "svm",
            (detail::HOST_ALLOCATION, _) => "host-allocation",
            (detail::SHARED_ALLOCATION, _) => "shared-allocation",
            _ => "given",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(how: u64, flags: u64) -> HostMemory {
        let values = [how, 9, flags];
        HostMemory::decode(&Detail { function: 1, what: detail::HOST_MEMORY, site: 0, values })
    }

    #[test]
    fn memory_is_pinned_where_it_was_asked_for_from_opencl() {
        let all = detail::FLAGS_UNKNOWN;
        let table = [
            (given(detail::MAPPED, CL_MEM_ALLOC_HOST_PTR | 1), Class::Pinned),
            (given(detail::MAPPED, CL_MEM_USE_HOST_PTR), Class::Mapped),
            (given(detail::MAPPED, all), Class::Mapped),
            (given(detail::SVM, CL_MEM_ALLOC_HOST_PTR), Class::Mapped),
            (given(detail::HOST_ALLOCATION, all), Class::Pinned),
            (given(detail::SHARED_ALLOCATION, all), Class::Mapped),
            (given(99, all), Class::Mapped),
            (given(detail::NOT_KEPT, all), Class::Unknown),
            (HostMemory::Application, Class::Application),
        ];
        for (of, class) in table {
            assert_eq!(of.class(), class, "{of:?}");
        }
        assert_eq!(given(detail::MAPPED, CL_MEM_USE_HOST_PTR).text(), "mapped,use-host-ptr");
        assert_eq!(given(detail::MAPPED, all).text(), "mapped");
    }
}
