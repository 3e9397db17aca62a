//! The one table of environment variables: the recorder reads them, `clscope record` sets them from
//! its options, help and README print them.

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Name of the environment variable.
    pub name: &'static str,
    /// What values it takes.
    pub values: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// Makes of each row, which is a setting's name without `CLSCOPE_`, its values, its default and its
/// help, the constant of the variable's name and the row of [`SETTINGS`].
macro_rules! settings {
    ($($name:ident: $values:literal, $default:literal, $help:literal;)*) => {
        $(#[doc = $help] pub const $name: &str = concat!("CLSCOPE_", stringify!($name));)*
        /// Every setting.
        pub const SETTINGS: &[Setting] =
            &[$(Setting { name: $name, values: $values, default: $default, help: $help }),*];
    };
}

settings! {
    TRACE: "PATH", "PROGRAM-PID.clscope in the working directory",
        "Directory that the trace goes to; made if missing";
    ENABLE: "1 | 0", "1",
        "0 loads the recorder and leaves it idle";
    DEVICE_TIMING: "auto | event | sample | callback | sync | off", "auto",
        "How device time is taken: from events harvested when the application waits (event), for a random part of the launches and transfers within a budget (sample), complete until that costs more than the budget (auto), from completion callbacks, by waiting for each command (sync), or not at all";
    START_PAUSED: "0 | 1", "0",
        "1 records nothing until `clscope ctl` starts recording";
    MAX_SIZE: "BYTES, with K, M or G", "no limit",
        "Keeps the newest part of the trace below this size";
    QUIET: "0 | 1 | later", "0",
        "1 keeps the recorder's own messages off stderr, if there is a trace, which holds them all the same. later prints only what the trace cannot hold, and losses while they can still be stopped; clscope record sets it, and says the rest once the application has ended";
    KERNELS: "NAMES, comma-separated, * and ? allowed", "all",
        "Records and times only launches of these kernels; other launches are passed on untouched";
    GROUPS: "NAMES, comma-separated, * and ? allowed", "all",
        "Records only host calls of these API groups: argument, build, command-buffer, enqueue, object, other, query, refcount, wait";
    BUDGET: "PERCENT", "1",
        "Share of the application's own time that sampled device timing may cost";
    SENSORS: "auto | off", "auto",
        "Samples the sensors that the process may read (RAPL, hwmon), in a thread of its own; off where clscope record does so";
    CLOCK_MARKERS: "1 | 0", "1",
        "On NVIDIA's runtime: the recorder enqueues eight markers (60 us) on a queue that the application has just waited for, every 25 ms at first and every second later; they halve the bound within which device times are placed on the host's clock. 0 enqueues none";
    CALL_SITES: "FRAMES, 1 to 16", "0",
        "Records with every enqueue where in the application it was called from: so many return addresses, from the innermost outwards";
    SNAPSHOT: "0 | 1", "0",
        "1 reads sensors in the process before and after each command, and waits for it";
    COUNTERS: "LIST of perf, oa:UUID, intel-queue[:CONFIGURATION]", "none",
        "Counters to read in the process: around each command, with CLSCOPE_SNAPSHOT=1 (perf events of a CPU device; an OA stream of the loaded configuration), or from Intel's queues with counters";
    SHARED: "0 | 1", "0",
        "1 lets others read the trace, as far as the umask does; else it is its owner's alone (directory 0700, files 0600)";
    ARGUMENTS: "1 | 0", "1",
        "0 leaves the application's arguments out of the trace, which may hold passwords; its name stays";
    COLLAPSE: "1 | 0", "1",
        "0 records each of identical calls in a row; else, from the fifth on, they share a record: how many, total, shortest, longest, first and last";
    PROGRAMS: "1 | 0", "1",
        "0 leaves sources and binaries of programs out of the trace; else they are kept in its folder programs, once for equal bytes, up to 16 MiB of each process";
    CAPTURE: "KERNEL[:N[,N...]], comma-separated, * and ? allowed in KERNEL", "nothing is captured",
        "Keeps the Nth launch (1 if not given) of each kernel of these names whole, in the trace's folder captures: program, arguments, and what its buffers and images hold before and after. Nothing is waited for; clscope kernel runs it again";
    SAMPLE: "1 | 4 | plan", "no launch is drawn",
        "Keeps one launch or four of each kernel, sizes and device whole, as CLSCOPE_CAPTURE does, drawn by chance from the whole run; plan only notes for each that is drawn whether it could be kept, and why not";
    CAPTURE_LIMIT: "BYTES, with K, M or G", "1G; 16G of launches that are drawn, and a quarter of what the disk has free",
        "Most bytes that the captured launches of a process take together";
    CHECK: "0 | 1", "0",
        "Records what `clscope check` judges by: memory objects among kernels' arguments, what waits are for, parts of buffers, and the places of calls that make something or fail (with CLSCOPE_CALL_SITES)";
    REPLACE: "LIST of KERNEL=FILE, comma-separated; * and ? allowed in KERNEL", "none",
        "Launches of these kernels run the kernel of the same name in FILE (OpenCL C, SPIR-V or a binary of the device), with the application's arguments; where its arguments differ or it does not build, the application's own runs. The trace says so";
    APPEND_OPTIONS: "OPTIONS of the OpenCL compiler", "none",
        "Appended to the options of programs that are built or compiled from source; the application is told its own. Where a program does not build so, it is built as the application asked";
    LOCAL: "LIST of KERNEL=SIZES, as sobel=64x1, comma-separated; * and ? allowed in KERNEL", "as the application launches",
        "Work-group size of launches of these kernels; where a launch cannot have it, the application's holds. The trace says so";
    SYSFS_ROOT: "DIR", "/",
        "Looks for sensors below this directory (its sys) instead of the system's";
}

/// Variables in which launchers give a process its MPI rank: Open MPI, PMIx, MPICH and its
/// derivatives, MVAPICH, Slurm. The first that is set counts.
pub const RANKS: [&str; 5] =
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"];

/// The groups that functions of the API are filtered and reported by.
pub const API_GROUPS: [&str; 9] = [
    "argument",
    "build",
    "command-buffer",
    "enqueue",
    "object",
    "other",
    "query",
    "refcount",
    "wait",
];

/// Value of [`QUIET`]: warnings that the trace holds are said by who has started the application,
/// when it has ended. An application writes over what comes in its midst, and each of many
/// processes would say the same.
pub const QUIET_LATER: &str = "later";

/// Codes of warnings that come in the middle of a run whatever [`QUIET_LATER`] says: records are
/// being lost, and who reads it at once can still do something. They are not repeated at the end.
pub const SAID_AT_ONCE: [&str; 3] = ["disk-full", "no-memory", "no-ring"];

/// Code of the warning that records were dropped because `clscope record` came late.
pub const BEHIND: &str = "behind";

/// Code of the warning that the application may read no sensor around its commands.
pub const NO_SNAPSHOT: &str = "no-snapshot";

/// Variables by which OpenCL's loaders, runtimes and devices are chosen, and how the devices are
/// divided and put in order. None of them holds a secret, and no other is kept.
pub const OF_OPENCL: [&str; 24] = [
    "OCL_ICD_VENDORS",
    "OCL_ICD_FILENAMES",
    "OCL_ICD_DEFAULT_PLATFORM",
    "OCL_ICD_PLATFORM_SORT",
    "OPENCL_VENDOR_PATH",
    "LD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "POCL_DEVICES",
    "POCL_MAX_PTHREAD_COUNT",
    "POCL_CPU_MAX_CU_COUNT",
    "POCL_AFFINITY",
    "POCL_MAX_WORK_GROUP_SIZE",
    "POCL_WORK_GROUP_METHOD",
    "CL_CONFIG_CPU_TBB_NUM_WORKERS",
    "CL_CONFIG_CPU_TARGET_ARCH",
    "CL_CONFIG_USE_VECTORIZER",
    "RUSTICL_ENABLE",
    "ZE_AFFINITY_MASK",
    "ZE_FLAT_DEVICE_HIERARCHY",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
];

/// Most bytes of a value of these that is kept.
pub const LONGEST_OF_OPENCL: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_group() {
        let help = SETTINGS.iter().find(|s| s.name == GROUPS).map(|s| s.help).unwrap();
        assert!(help.ends_with(&API_GROUPS.join(", ")), "{help}");
    }
}
