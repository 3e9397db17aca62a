//! Owns the tables' names, columns, units and meanings: schema 1, which is only ever added to. The
//! committed text of it is `tools/export/parquet.schema.txt`. Refuses to hold values.

/// Version of the schema. It is raised when a column changes its meaning or goes; new tables and
/// columns may come at any time.
pub const SCHEMA: u32 = 2;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit integers that differ little from row to row: ids, times.
    Stamp,
    /// 64-bit integers of few values: sizes, counts.
    Integer,
    /// 32-bit integers of few values.
    Small,
    /// 32-bit floating point.
    Float,
    /// 64-bit floating point.
    Double,
    /// Yes or no.
    Flag,
    /// UTF-8, exactly as in the trace.
    Text,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Stamp | Self::Integer => "int64",
            Self::Small => "int32",
            Self::Float => "float",
            Self::Double => "double",
            Self::Flag => "boolean",
            Self::Text => "string",
        }
    }
}

/// A column.
#[derive(Debug)]
pub struct Column {
    /// Its name; where it has a unit, the last part of it.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether a value may be unknown.
    pub nullable: bool,
    /// What it means.
    pub about: &'static str,
}

impl Column {
    /// The unit of its values as UCUM writes it, which its name ends with; none of a number without
    /// one, and of text.
    pub fn unit(&self) -> Option<&'static str> {
        if matches!(self.kind, Kind::Text | Kind::Flag) {
            return None;
        }
        // Ends of intervals have the unit of what they bound.
        let name = self.name.trim_end_matches("_low").trim_end_matches("_high");
        const UNITS: [(&str, &str); 7] = [
            ("_ns", "ns"),
            ("busy_s", "s"),
            ("_j", "J"),
            ("joules", "J"),
            ("joules_per_launch", "J"),
            ("watts", "W"),
            ("bytes", "By"),
        ];
        UNITS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, unit)| *unit)
    }
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its name: the folder.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// Whether it grows with the trace: then each process has a file of it, `PART@HOST@RANK`.
    pub by_rank: bool,
    /// Its columns.
    pub columns: &'static [Column],
}

impl Table {
    /// The column by which rows are in order: when a call began. Tables that do not grow with the
    /// trace have none, nor have wait lists, which have no time.
    pub fn time(&self) -> Option<usize> {
        let begin = |column: &Column| column.name.ends_with("begin_ns") && !column.nullable;
        self.columns.iter().position(begin).filter(|_| self.by_rank)
    }
}

const fn must(name: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, kind, nullable: false, about }
}

const fn may(name: &'static str, kind: Kind, about: &'static str) -> Column {
    Column { name, kind, nullable: true, about }
}

use Kind::{Double, Flag, Float, Integer, Small, Stamp, Text};

const PROCESS: Column = must("process", Text, "TRACE/PID-N: a key of processes");
const HOST: Column = may("host", Text, "host, if it is one");
const ORIGIN: Column = may(
    "origin_unix_ns",
    Stamp,
    "the trace's origin as CLOCK_REALTIME: add it to compare times of different traces",
);
const RANK: Column = may("rank", Small, "MPI rank, if it is one");

/// Device commands.
pub const COMMANDS: Table = Table {
    name: "commands",
    about: "a device command, in order of enqueue_begin_ns",
    by_rank: true,
    columns: &[
        HOST,
        RANK,
        PROCESS,
        must("thread", Small, "thread that enqueued it"),
        must("command", Stamp, "its id in the process"),
        must("kind", Text, "NDRangeKernel, ReadBuffer, ..."),
        must("name", Text, "kernel, else the kind"),
        must("function", Text, "function that enqueued it"),
        must("queue", Small, "id of the queue"),
        may("device", Text, "name of the device"),
        may("start_ns", Stamp, "START on the common timeline, from the trace's origin"),
        may("duration_ns", Stamp, "START to END in the device's clock, as reports sum it"),
        may("queued_to_submit_ns", Stamp, "QUEUED to SUBMIT"),
        may("submit_to_start_ns", Stamp, "SUBMIT to START"),
        may("end_to_noticed_ns", Stamp, "END to when the host knew it complete"),
        must("enqueue_begin_ns", Stamp, "begin of the call that enqueued it, from the origin"),
        must("enqueue_duration_ns", Stamp, "what that call took"),
        may("clock_bound_ns", Stamp, "bound of the error of start_ns"),
        must("outcome", Text, "timed, else why it has no time"),
        may("bytes", Integer, "bytes moved"),
        may("probability", Float, "chance with which it was chosen for timing, 1 if certain"),
        may("global_x", Integer, "global size"),
        may("global_y", Integer, "global size"),
        may("global_z", Integer, "global size"),
        may("local_x", Integer, "work-group size, where the application chose it"),
        may("local_y", Integer, "work-group size"),
        may("local_z", Integer, "work-group size"),
        may("site", Small, "call site (record --call-sites): a key of sites with process"),
        may("energy_j", Float, "joules: its own, or mean watts of its class times its duration"),
        may("energy_low_j", Float, "lower end of the 95 % interval"),
        may("energy_high_j", Float, "upper end of the 95 % interval"),
        may("energy_of", Text, "this launch, bounds of this launch, or mean of all launches"),
        ORIGIN,
    ],
};

/// Host calls.
pub const CALLS: Table = Table {
    name: "calls",
    about: "a host call, or identical calls in a row, in order of begin_ns",
    by_rank: true,
    columns: &[
        HOST,
        RANK,
        PROCESS,
        must("thread", Small, "thread"),
        must("function", Text, "function"),
        must("begin_ns", Stamp, "begin, from the trace's origin"),
        must("duration_ns", Stamp, "time inside the function, of all the calls"),
        must("calls", Integer, "calls that the row stands for"),
        may("extent_ns", Stamp, "of several calls: begin of the first to end of the last"),
        may("error", Text, "error of a call that failed"),
        may("command", Stamp, "command that it enqueued"),
        ORIGIN,
    ],
};

/// Wait lists.
pub const WAITS: Table = Table {
    name: "waits",
    about: "an entry of a command's wait list",
    by_rank: true,
    columns: &[
        HOST,
        RANK,
        PROCESS,
        must("command", Stamp, "the command that waits"),
        may("waits_for", Stamp, "the command that it waits for, if it was seen"),
    ],
};

/// Sums by kernel.
pub const KERNELS: Table = Table {
    name: "kernels",
    about: "a kernel on a device, or a kind of transfer or other command: the report's sums",
    by_rank: false,
    columns: &[
        must("traces", Text, "trace directories that were summed up together"),
        HOST,
        RANK,
        must("section", Text, "kernel, transfer or other"),
        must("name", Text, "kernel, or kind of command"),
        may("direction", Text, "direction of a transfer"),
        may("device", Text, "name of the device"),
        must("count", Integer, "commands"),
        must("untimed", Integer, "of them without device time"),
        must("left_out", Integer, "of those, left out by sampling"),
        must("bytes", Integer, "bytes moved"),
        must("timed_ns", Stamp, "sum of the timed ones' durations"),
        may("mean_ns", Double, "of the timed ones"),
        may("median_ns", Double, "of the timed ones, within percentile_error of meta"),
        may("p95_ns", Double, "of the timed ones, likewise"),
        may("min_ns", Stamp, "of the timed ones"),
        may("max_ns", Stamp, "of the timed ones"),
        may("total_ns", Double, "of all, estimated where sampling left some out"),
        may("total_low_ns", Double, "lower end of the 95 % interval"),
        may("total_high_ns", Double, "upper end of the 95 % interval"),
    ],
};

/// Joules by class.
pub const ENERGY: Table = Table {
    name: "energy",
    about: "joules of a kernel or transfer on a device, or what no class cost (floor, unattributed)",
    by_rank: false,
    columns: &[
        must("traces", Text, "trace directories that were measured together"),
        HOST,
        RANK,
        must("device", Text, "name of the device"),
        must("formula", Text, "how its power is computed"),
        must("kind", Text, "kernel, transfer, sum (of several classes), floor or unattributed"),
        must("name", Text, "class; of a sum the classes, joined by +; state of a floor"),
        may("launches", Double, "commands"),
        may("busy_s", Double, "busy time, overlaps shared"),
        may("joules", Double, "joules; null where they are known in a sum alone"),
        may("joules_low", Double, "lower end of the 95 % interval"),
        may("joules_high", Double, "upper end of the 95 % interval"),
        may("joules_per_launch", Double, "of one launch"),
        may("joules_per_launch_low", Double, "lower end of the 95 % interval"),
        may("joules_per_launch_high", Double, "upper end of the 95 % interval"),
        may("watts", Double, "mean power while it runs"),
        may("why", Text, "why it has no joules of its own"),
    ],
};

/// Devices.
pub const DEVICES: Table = Table {
    name: "devices",
    about: "a device that a process used",
    by_rank: false,
    columns: &[
        PROCESS,
        HOST,
        RANK,
        must("device", Small, "its id in the process"),
        must("name", Text, "name"),
        must("driver", Text, "version of the driver"),
        may("busy_ns", Stamp, "time in which a command ran; null where sampling left some out"),
        must("extent_ns", Stamp, "first START to last END, without repetitions"),
        may("clock_bound_median_ns", Double, "median bound of the clock error of its commands"),
    ],
};

/// Queues.
pub const QUEUES: Table = Table {
    name: "queues",
    about: "a command queue",
    by_rank: false,
    columns: &[
        PROCESS,
        HOST,
        RANK,
        must("queue", Small, "its id in the process"),
        must("device", Text, "name of the device"),
        must("out_of_order", Flag, "whether commands may overtake each other"),
        must("commands", Integer, "commands"),
        must("left_out", Integer, "of them left out by sampling"),
        may("busy_ns", Stamp, "time in which a command ran"),
        may("idle_ns", Stamp, "time between commands"),
    ],
};

/// Call sites.
pub const SITES: Table = Table {
    name: "sites",
    about: "a frame of a place that commands were enqueued from (record --call-sites)",
    by_rank: false,
    columns: &[
        PROCESS,
        must("site", Small, "id of the place in the process"),
        must("frame", Small, "0 is the innermost"),
        must("text", Text, "in one line"),
        may("function", Text, "function"),
        may("file", Text, "source file"),
        may("line", Integer, "line in it"),
        may("module", Text, "executable or library"),
    ],
};

/// Sensors.
pub const POWER: Table = Table {
    name: "power",
    about: "a reading of a sensor: power, and clocks, temperatures, use where the sensor has them",
    by_rank: false,
    columns: &[
        must("traces", Text, "trace directories that it was recorded with"),
        HOST,
        must("sensor", Text, "source, name, domain and unit"),
        must("unit", Text, "W, MHz, C, %, MiB/s"),
        may("pci", Text, "PCI address of its device"),
        must("time_ns", Stamp, "from when on it holds, from the trace's origin"),
        must("value", Double, "the value"),
        ORIGIN,
    ],
};

/// Hardware counters.
pub const COUNTERS: Table = Table {
    name: "counters",
    about: "the mean of a hardware counter while a kernel or transfer runs",
    by_rank: false,
    columns: &[
        must("traces", Text, "trace directories that it was recorded with"),
        must("host", Text, "host"),
        must("device", Text, "name of the device"),
        must("source", Text, "source of the counter"),
        may("set", Text, "metric set"),
        must("kind", Text, "kernel or transfer"),
        must("name", Text, "class"),
        must("counter", Text, "counter"),
        must("unit", Text, "its unit"),
        may("mean", Double, "mean while the class runs"),
        may("low", Double, "lower end of the 95 % interval"),
        may("high", Double, "upper end of the 95 % interval"),
        may("together", Text, "the classes that the mean is of, where it is of several"),
        may("why", Text, "why there is no mean"),
    ],
};

/// Processes.
pub const PROCESSES: Table = Table {
    name: "processes",
    about: "a process",
    by_rank: false,
    columns: &[
        PROCESS,
        must("traces", Text, "trace directories that it was read with"),
        must("host", Text, "host"),
        RANK,
        must("pid", Integer, "process id"),
        must("executable", Text, "path of the program"),
        must("device_timing", Text, "how device times were taken"),
        must("ended", Flag, "whether it ended in order"),
        ORIGIN,
        may("host_bound_ns", Stamp, "bound of the place of its host's clock on the timeline"),
        may("job_ranks", Small, "MPI ranks of its job, where the launcher gave them"),
    ],
};

/// What is known of the whole.
pub const META: Table = Table {
    name: "meta",
    about: "a fact about traces read together, or something that is wrong with them",
    by_rank: false,
    columns: &[
        must("traces", Text, "trace directories"),
        must(
            "key",
            Text,
            "clscope, duration_ns, percentile_error, commands, calls, no_energy, issue",
        ),
        may("subject", Text, "of an issue: process or file"),
        must("value", Text, "the value as text"),
    ],
};

/// All of them.
pub const TABLES: [&Table; 12] = [
    &COMMANDS, &CALLS, &WAITS, &KERNELS, &ENERGY, &DEVICES, &QUEUES, &SITES, &POWER, &COUNTERS,
    &PROCESSES, &META,
];

/// The schema as text, as it is committed.
pub fn text() -> String {
    use std::fmt::Write;
    let mut out = format!("schema {SCHEMA}\n");
    for table in TABLES {
        let place = if table.by_rank { "*@HOST@RANK" } else { "*" };
        let _ = write!(out, "\n{}/{place}.parquet: {}\n", table.name, table.about);
        for column in table.columns {
            let null = if column.nullable { ", null if unknown" } else { "" };
            let unit = column.unit().map_or(String::new(), |unit| format!(", {unit}"));
            let Column { name, about, kind, .. } = column;
            let _ = writeln!(out, "  {name} ({}{unit}{null}): {about}", kind.name());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_the_committed_one() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("parquet.schema.txt");
        clscope_testing::golden(&path, &text());
    }

    #[test]
    fn names_are_unique() {
        for table in TABLES {
            let names: std::collections::HashSet<_> =
                table.columns.iter().map(|c| c.name).collect();
            assert_eq!(names.len(), table.columns.len(), "{}", table.name);
        }
    }
}
