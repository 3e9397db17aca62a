//! Everything a trace holds, one line each: definitions in the order they were written, then events
//! in time order, for people and for `grep`, or one JSON object a line. Refuses to sum up.

mod definition;
mod object;
mod text;

use crate::ExportError;
use clscope_analysis::Trace;
use clscope_analysis::event::{Command, Event};
use clscope_analysis::issue::Issue;
use clscope_analysis::missing::{self, Missing};
use clscope_io::text::Shown;
use clscope_profile::changes;
use clscope_profile::counters::snapshots;
use clscope_profile::names::{Form, Names};
use clscope_profile::sites::Sites;
use clscope_profile::trace_files::TraceFiles;
use clscope_trace::defs::{Def, Defs};
use definition::{definition, one_line};
use object::object;
use serde_json::{Value, json};
use std::io::Write;
use text::{describe, who};

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// JSON lines. Times are nanoseconds on the timeline.
    Json,
}

/// Writes the lines; returns how many, and what is wrong with the trace. Kernels are called by
/// names of `form`.
///
/// # Errors
/// If the output cannot be written.
pub fn write(
    files: &TraceFiles,
    format: Format,
    form: Form,
    out: &mut impl Write,
) -> Result<(u64, Vec<Issue>), ExportError> {
    let mut lines = 0;
    let readable = Names::of_traces([files]);
    let mut trace = files.trace();
    trace.processes.iter_mut().for_each(|of| readable.apply(&mut of.definitions, form));
    for text in changes::recorded_changes(&trace).iter().flat_map(changes::Changes::lines) {
        lines += 1;
        match format {
            Format::Text => writeln!(out, "changed: {}", Shown(&text))?,
            Format::Json => line(out, &json!({ "event": "changed", "text": text }))?,
        }
    }
    for (label, bytes) in files.definitions() {
        // An unreadable header was reported on opening.
        if clscope_trace::FileHeader::decode_as(bytes, clscope_trace::FileKind::Defs).is_err() {
            continue;
        }
        for def in Defs::new(bytes) {
            lines += 1;
            let mut fields = definition(&def)?;
            // The one place where both names stand.
            if let (Def::Kernel(kernel), Some(fields)) = (&def, fields.as_object_mut()) {
                let shown = readable.shown(&kernel.name, form);
                if shown != kernel.name {
                    fields.insert("readable".to_owned(), shown.into());
                }
            }
            match format {
                Format::Text => writeln!(out, "{:>24}  {}", Shown(label), one_line(fields))?,
                Format::Json => line(
                    out,
                    &json!({ "event": "definition", "process": label, "definition": fields }),
                )?,
            }
        }
    }
    let sites = Sites::of_trace(&trace);
    let alignment = trace.align();
    let origin = trace.origin();
    let around = snapshots::read(&trace, files.sensors());
    let mut events = trace.events(Some(&alignment));
    let mut text = String::new();
    let mut missing = vec![Missing::default(); trace.processes.len()];
    for event in events.by_ref() {
        missing::observe(&mut missing, &event);
        lines += 1;
        match format {
            Format::Text => {
                text.clear();
                describe(&trace, &sites, &event, origin, &mut text);
                writeln!(out, "{text}")?;
                if let Event::Command(command) = &event {
                    counted(&trace, command, &around, out)?;
                }
            }
            Format::Json => {
                let mut value = object(&trace, &sites, &event);
                if let (Event::Command(command), Some(of)) = (&event, value.as_object_mut()) {
                    let own: Vec<Value> = around
                        .iter()
                        .filter_map(|a| a.value(command.process.0 as usize, command))
                        .collect();
                    if !own.is_empty() {
                        of.insert("counters".to_owned(), own.into());
                    }
                }
                line(out, &value)?;
            }
        }
    }
    let mut issues = trace.issues_after(events.tally(), Some(&alignment));
    issues.extend(missing::issues(&trace, &missing));
    Ok((lines, issues))
}

/// What was read around a command, a line for each source.
fn counted(
    trace: &Trace<'_>,
    command: &Command<'_>,
    around: &[snapshots::Around],
    out: &mut impl Write,
) -> Result<(), ExportError> {
    for source in around {
        if let Some(text) = source.text(command.process.0 as usize, command) {
            let who = who(trace, command.process, command.thread);
            writeln!(out, "{:>16}  {who:>15}  counters of command {}: {text}", "", command.id().0)?;
        }
    }
    Ok(())
}

fn line(out: &mut impl Write, value: &Value) -> Result<(), ExportError> {
    serde_json::to_writer(&mut *out, value)?;
    Ok(out.write_all(b"\n")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
    use std::fs;

    fn dump(format: Format) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.clscope");
        fs::create_dir(&path).unwrap();
        let host = HostModel::default();
        let mut p = ProcessBuilder::standard(host, 9, 1);
        p.thread(0)
            .plain(function::SET_ARG, 1_000, 1_500, 2 | (8 << 8), 1)
            .enqueue(2_000, 3_000, &CommandSpec { waits: &[1, 0], ..CommandSpec::kernel(7, 1, 1) })
            .call(function::CREATE_BUFFER, 4_000, 5_000, -61, &[0, 1, 4096])
            .timing(
                9_000,
                7,
                [host.raw + 2_100, host.raw + 2_200, host.raw + 3_000, host.raw + 8_000],
            );
        p.in_calls.push((0, function::FINISH, 9_500));
        let bytes = p.build();
        fs::write(path.join("9-0.defs"), &bytes.defs).unwrap();
        fs::write(path.join("9-0.0.clt"), &bytes.segment).unwrap();
        fs::write(path.join("9-0.ring"), &bytes.ring).unwrap();
        let files = TraceFiles::open(&[path]).unwrap();
        let mut out = Vec::new();
        let (lines, issues) = write(&files, format, Form::Short, &mut out).unwrap();
        assert_eq!(lines as usize, out.iter().filter(|b| **b == b'\n').count());
        assert_eq!(
            issues.iter().map(|i| i.kind.code()).collect::<Vec<_>>(),
            ["not-ended", "ended-in-call"]
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_says_what_happened() {
        let text = dump(Format::Text);
        for wanted in [
            "     0.000000000              9/9  clSetKernelArg(kernel=#1, arg_index=2, arg_size=8) = 0  500 ns\n",
            "     0.000001000              9/9  clEnqueueNDRangeKernel(command 7: NDRangeKernel queue=#1 kernel=matmul global=1024 local=64 waits=[1 ?] timed) = 0  1000 ns\n",
            "     0.000003000              9/9  clCreateBuffer(return=#0, flags=0x1, size=4096) = CL_INVALID_BUFFER_SIZE (-61)  1000 ns\n",
            "  command 7 ran 5000 ns: QUEUED 5000002100 SUBMIT +100 START +900 END +5900; on the timeline from 0.00000",
            "  still in clFinish at the end\n",
            "t.clscope/9-0  Kernel id=2 name=\"reduce\" program=1\n",
        ] {
            assert!(text.contains(wanted), "{wanted}\nin\n{text}");
        }
    }

    #[test]
    fn json_lines_hold_the_same() {
        let lines: Vec<Value> =
            dump(Format::Json).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let of = |event: &str| lines.iter().filter(|l| l["event"] == event).collect::<Vec<_>>();
        assert_eq!((of("call").len(), of("command").len(), of("in_call").len()), (3, 1, 1));
        assert_eq!(of("call")[1]["enqueue"]["waits"], json!([1, null]));
        assert_eq!(of("command")[0]["times"]["device_ns"][3], 5_000_008_000u64);
        assert!(
            of("definition")
                .iter()
                .any(|d| d["definition"]["kind"] == "Geometry"
                    && d["definition"]["global"][0] == 1024)
        );
    }
}
