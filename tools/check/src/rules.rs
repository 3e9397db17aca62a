//! The rules, in one table. Sections are those of the OpenCL API specification, version 3.0.

use serde::Serialize;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Costs time, and is right.
    Performance,
    /// Against good use, or against the specification where nothing has to come of it.
    Warning,
    /// Against the specification: results are undefined, or a call did not do what it was to do.
    Error,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $id:literal, $severity:ident, $title:literal, $section:literal, $remedy:literal;)*) => {
        /// A rule.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Rule] = &[$(Rule::$name,)*];
            /// Its stable name.
            pub const fn id(self) -> &'static str { match self { $(Rule::$name => $id,)* } }
            /// How much it matters.
            pub const fn severity(self) -> Severity { match self { $(Rule::$name => Severity::$severity,)* } }
            /// What it says, in one line.
            pub const fn title(self) -> &'static str { match self { $(Rule::$name => $title,)* } }
            /// Where the specification says it.
            pub const fn section(self) -> &'static str { match self { $(Rule::$name => $section,)* } }
            /// What to do.
            pub const fn remedy(self) -> &'static str { match self { $(Rule::$name => $remedy,)* } }
        }
    };
}

rules! {
    /// Two commands use one memory object, one of them writes, and nothing orders them.
    DataRace: "data-race", Error,
        "two commands use the same memory, one of them writes, and nothing orders them",
        "Appendix A.1 Shared OpenCL Objects; 5.11 Out-of-order Execution of Kernels and Memory Object Commands",
        "pass the event of the first command in the wait list of the second, enqueue a barrier between them, or wait on the host";
    /// A call names an object that the application has released.
    UseAfterRelease: "use-after-release", Error,
        "a call names an object after its last release",
        "2.1 Reference Counting of the objects' sections (clRelease...)",
        "release the object after its last use, or retain it where it is shared";
    /// Memory was freed while a command uses it.
    FreedInUse: "freed-in-use", Error,
        "memory was freed while a command that uses it may still run",
        "5.6 Shared Virtual Memory (clSVMFree does not wait for commands); 5.2.2 (blocking_read, blocking_write)",
        "wait for the commands before the memory is freed, or call clEnqueueSVMFree behind them";
    /// A command uses what the host has mapped.
    UsedWhileMapped: "used-while-mapped", Error,
        "a command uses memory that is mapped for writing, or writes what is mapped for reading",
        "5.5.4 Accessing Mapped Regions of a Memory Object",
        "call clEnqueueUnmapMemObject before the command is enqueued, and let the command come after it";
    /// A launch without all its arguments.
    UnsetArguments: "unset-arguments", Error,
        "a kernel was launched before all its arguments were set",
        "5.8 Executing Kernels (CL_INVALID_KERNEL_ARGS)",
        "call clSetKernelArg for every argument before the launch";
    /// A command that was enqueued and failed.
    FailedCommand: "failed-command", Error,
        "a command was enqueued and failed on the device",
        "5.9 Event Objects (CL_EVENT_COMMAND_EXECUTION_STATUS)",
        "ask its event for the execution status, and treat a negative one as an error";
    /// A wait list, or a wait, on a command that had failed.
    FailedWait: "failed-wait", Error,
        "a wait list names an event that cannot be waited for, or whose command failed",
        "5.9 Event Objects (CL_INVALID_EVENT_WAIT_LIST, CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)",
        "pass live events of the same context, and check the status of the commands before";
    /// Any other call that failed.
    FailedCall: "failed-call", Error,
        "a call failed",
        "the function's own section, under its errors",
        "check the returned code, and what the specification says of it";
    /// A query that failed.
    FailedQuery: "failed-query", Warning,
        "a query failed: what it asked for is not known to this runtime, or had no room",
        "the function's own section, under its errors",
        "ask for what the version and the extensions of the device have";
    /// A mapped region was not unmapped.
    StillMapped: "still-mapped", Error,
        "a memory object was mapped and not unmapped before it was released or the application ended",
        "5.5.1 Unmapping Mapped Memory Objects",
        "call clEnqueueUnmapMemObject for each mapping";
    /// An object was never released.
    NeverReleased: "never-released", Warning,
        "objects were made and not released",
        "the functions that make them: the reference count is 1 after the call",
        "release each object that a clCreate function gave as often as it was made and retained";
    /// An event was never released.
    EventNeverReleased: "event-never-released", Warning,
        "events were asked for and not released",
        "5.9 Event Objects (clReleaseEvent)",
        "release each event that an enqueue gave, or pass NULL where none is needed";
    /// An event that nothing uses.
    EventUnused: "event-unused", Performance,
        "events were asked for and nothing waited for them, queried them or depended on them",
        "5.9 Event Objects",
        "pass NULL for the event where it is not used";
    /// A wait that had nothing to wait for.
    RedundantWait: "redundant-wait", Performance,
        "the host waited for a queue in which nothing was left to wait for",
        "5.13 Flush and Finish",
        "leave the call out";
    /// A wait whose work the next blocking call does.
    WaitBeforeBlocking: "wait-before-blocking", Performance,
        "clFinish right before a blocking command of the same in-order queue, which waits itself",
        "5.13 Flush and Finish; the blocking argument of the transfer",
        "leave clFinish out";
    /// Blocking writes.
    BlockingWrite: "blocking-write", Performance,
        "the host waited for the end of transfers to the device",
        "5.2.2 Reading, Writing and Copying Buffer Objects (blocking_write)",
        "write without blocking, and keep the host's memory as it is until the command is complete";
}

impl Rule {
    /// Whether the rule rests on calls that are not there: a wait, a release, an unmapping that was
    /// not recorded would make a finding of what is right. The other rules judge a call by itself.
    pub const fn needs_every_call(self) -> bool {
        match self {
            Self::DataRace
            | Self::UseAfterRelease
            | Self::FreedInUse
            | Self::UsedWhileMapped
            | Self::StillMapped
            | Self::NeverReleased
            | Self::EventNeverReleased
            | Self::EventUnused
            | Self::RedundantWait
            | Self::WaitBeforeBlocking => true,
            Self::UnsetArguments
            | Self::FailedCommand
            | Self::FailedWait
            | Self::FailedCall
            | Self::FailedQuery
            | Self::BlockingWrite => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn rules_have_names_of_their_own_and_all_is_said() {
        let ids: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.id()).collect();
        assert_eq!(ids.len(), Rule::ALL.len());
        for rule in Rule::ALL {
            assert!(rule.id().bytes().all(|b| b.is_ascii_lowercase() || b == b'-'));
            for text in [rule.title(), rule.section(), rule.remedy()] {
                assert!(text.len() > 10 && !text.ends_with('.'), "{text}");
            }
        }
    }
}
