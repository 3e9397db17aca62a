#!/usr/bin/env python3
"""Judges what the models of time, energy and transfers predict, against what was measured, from traces recorded on a GPU.

    models.py CLSCOPE DEVICE [--kernels TRACE...] [--groups TRACE=ITEMS...] [--rooms TRACE=BYTES...] [--transfers TRACE...] [--moved TRACE LOG] [--accesses TRACE LOG]

CLSCOPE is the command, DEVICE the file that `clscope bench model --show --format json` printed on the same device.

--kernels    of `record --mix`, with `--counters gpm` and `--replay` where the device has them: predicted time of each kernel and
             NDRange, whether the verdict agrees with GPM (a pipe or memory at 70 % or more <-> bound by it), modelled joules against
             those of repetitions, the whole and what lies above the floor
--groups     the same program in groups of ITEMS, a trace for each size (kernels.c takes the size): `what-if --local` from each to each
--rooms      likewise, of groups that took BYTES of local memory that they did not use: `what-if --local-memory`
--transfers  of transfers.c: the host's time of each size against the links of DEVICE
--moved      of moved.c with `--counters gpm`, and its output: bytes that memory moved against closed forms
--accesses   of accesses.c with `--mix=accesses`, and its output: transactions of memory, exactly

None of these programs is in the fit of DEVICE. Errors are predicted over measured, less one. A figure that is missing is
left out and counted.
"""
import argparse
import json
import math
import re
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("clscope")
parser.add_argument("device")
parser.add_argument("--kernels", nargs="*", default=[])
parser.add_argument("--groups", nargs="*", default=[])
parser.add_argument("--rooms", nargs="*", default=[])
parser.add_argument("--transfers", nargs="*", default=[])
parser.add_argument("--moved", nargs=2)
parser.add_argument("--accesses", nargs=2)
parser.add_argument("--all", action="store_true", help="print every kernel, too")
arguments = parser.parse_args()
# Of which of GPM's figures a verdict must hold, from this share on.
BUSY = 70.0
PIPES = {"fp32": {"fp32"}, "fp64": {"fp64"}, "integer": {"integer"}, "dram-bandwidth": {"memory", "memory_if_missed"}}


def run(*words):
    done = subprocess.run([arguments.clscope, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def document(*words):
    return json.loads(run(*words, "--format", "json"))


def explained(trace):
    return document("explain", trace, "--by", "ndrange", "--limit", "0", "--parameters", arguments.device)


def quantile(values, at):
    values = sorted(values)
    return values[round((len(values) - 1) * at)] if values else math.nan


def table(title, rows):
    print(f"\n{title}\n")
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def percent(value):
    return "-" if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def value(figure):
    return figure and figure["value"]


def judged(errors, aims):
    """(mean, median, 90th, 95th percentile) of the sizes of errors, with aims where there are some."""
    sizes = [abs(e) for e in errors]
    mean = sum(sizes) / len(sizes) if sizes else math.nan
    figures = {"mean": mean, "median": quantile(sizes, 0.5), "90th": quantile(sizes, 0.9), "95th": quantile(sizes, 0.95)}
    return [f"{len(sizes)}"] + [f"{name} {percent(figure)}" + (f" (aim {percent(aims[name])})" if name in aims else "") for name, figure in figures.items()]


def kernels():
    times, whole, dynamic, verdicts, worst = [], [], [], [], []
    for trace in arguments.kernels:
        report = document("report", trace, "--by", "ndrange", "--limit", "0")
        counters = {}
        for source in (report.get("counters") or {}).get("sources", []):
            for row in source["classes"]:
                counters[row["name"]] = {n: v["mean"] for n, v in row["values"].items() if v["mean"]}
        devices = (report.get("energy") or {}).get("devices") or []
        floors = [f["watts"]["value"] for d in devices for f in d["floors"] if f["state"] == 0 and f["watts"]]
        for device in explained(trace)["devices"]:
            for k in device["kernels"]:
                if not k["flop"] and not k["requested_bytes"]:
                    continue
                took, likely = value(k["time_ns"]), value(k["modelled_time_ns"])
                line = [k["kernel"], f"{took * 1e-3:.1f} us"]
                if likely:
                    times.append(likely / took - 1)
                    line.append(percent(times[-1]))
                joules, modelled = k["joules"], value(k["modelled_joules"])
                # Truth is what is known well.
                if joules and joules["evidence"] == "measured" and modelled and joules["high"] - joules["low"] < 0.12 * joules["value"]:
                    whole.append(modelled / joules["value"] - 1)
                    line.append(percent(whole[-1]))
                    floor = floors[0] * took * 1e-9 if floors else None
                    above = joules["value"] - floor if floor else 0
                    if floor and above > 0.15 * joules["value"]:
                        share = next((p["joules"] for p in k["joule_parts"] if p["name"] == "floor"), 0)
                        dynamic.append((modelled - share) / above - 1)
                of = counters.get(k["kernel"], {})
                busy = {p: m["value"] for p, m in of.items() if p in PIPES and m["value"] >= BUSY and m["low"] >= BUSY - 10}
                if of:
                    said = next((p for p, resources in PIPES.items() if k["limit"] in resources), None)
                    # Said of a pipe, and it is busy; or of none, and none is.
                    right = said in busy if busy or said else True
                    verdicts.append((right, k["kernel"], k["limit"], busy, value(of.get(said)) if said else None))
                worst.append(line)
    table("Time of kernels", [judged(times, {"median": 0.20, "90th": 0.45})])
    sure = [v for v in verdicts if v[3]]
    table("Verdicts: kernels of which GPM saw a pipe or memory at 70 % or more, and those that are bound by it as said (aim 90 %)", [[len(sure), sum(v[0] for v in sure)]])
    for right, kernel, limit, busy, at in verdicts:
        if not right:
            print(f"  {kernel}: said {limit} ({'-' if at is None else f'{at:.0f} %'}), busy {({p: round(v) for p, v in busy.items()})}")
    table("Joules of a launch", [judged(whole, {"mean": 0.08, "90th": 0.15})])
    table("Joules above the floor", [judged(dynamic, {"mean": 0.054})])
    if arguments.all:
        table("Each: time, its error, that of joules", worst)


def changed(of, option, what):
    traces = {int(items): trace for trace, items in (g.rsplit("=", 1) for g in of)}
    times = {}
    for items, trace in traces.items():
        for device in explained(trace)["devices"]:
            for k in device["kernels"]:
                times[k["kernel"], items] = value(k["time_ns"])
    rows = []
    for items, trace in traces.items():
        for other in traces.keys() - {items}:
            predicted = document("what-if", trace, "*", "--by", "ndrange", option, str(other), "--parameters", arguments.device)
            for p in predicted["predictions"]:
                before, after = times.get((p["kernel"], items)), times.get((p["kernel"], other))
                if before and after:
                    t = p["time_ns"]
                    rows.append((p["kernel"], before, after, t["value"], t["low"] <= after <= t["high"]))
    table(f"What if {what}: time", [judged([r[3] / r[2] - 1 for r in rows], {}) + [f"inside the interval {percent(sum(r[4] for r in rows) / max(len(rows), 1))}"]])
    signs = []
    for least in (1.05, 1.2):
        real = [r for r in rows if abs(math.log(r[2] / r[1])) > math.log(least)]
        right = [r for r in real if (r[3] - r[1]) * (r[2] - r[1]) > 0]
        signs.append([f"changes by more than {least}", len(real), f"sign right {percent(len(right) / len(real) if real else math.nan)} (aim 90.0 %)"])
    # What is no change should not be said to be one.
    same = [r for r in rows if abs(math.log(r[2] / r[1])) <= math.log(1.05)]
    signs.append(["no change beyond 5 %", len(same), f"predicted within 20 % {percent(sum(abs(math.log(r[3] / r[1])) < math.log(1.2) for r in same) / max(len(same), 1))}"])
    table(f"What if {what}: sign", signs)


def segment(link, size):
    of = [s for s in link["segments"] if size >= s["from_bytes"]] or link["segments"][:1]
    return of[-1]["latency_ns"] + size / of[-1]["gigabytes_per_second"]


def transfers():
    with open(arguments.device) as file:
        links = {(l["direction"], l["memory"]): l for l in json.load(file)["links"]}
    for trace in arguments.transfers:
        # transfers.c makes rounds of a size from pageable memory, to the device and back, then from pinned memory.
        calls = {}
        for line in run("dump", trace, "--format", "json").splitlines():
            call = json.loads(line)
            name = call.get("function") or ""
            if call["event"] == "call" and name in ("clEnqueueWriteBuffer", "clEnqueueReadBuffer"):
                calls.setdefault((call["enqueue"]["bytes"], name), []).append(call["end_ns"] - call["begin_ns"])
        rows = []
        errors = []
        for (size, name), took in sorted(calls.items()):
            half = len(took) // 2
            for memory, some in (("pageable", took[:half]), ("pinned", took[half:])):
                link = links.get(("to_device" if "Write" in name else "to_host", memory))
                if link and some:
                    # The first of a size pays for pages that nobody touched.
                    median = quantile(some[1:] or some, 0.5)
                    errors.append(segment(link, size) / median - 1)
                    rows.append([memory, name, size, f"{median * 1e-3:.1f} us", percent(errors[-1])])
        table("Transfers of sizes that are in no fit", [judged(errors, {"median": 0.05, "95th": 0.15})])
        if arguments.all:
            table("Each", rows)


def accesses():
    trace, log = arguments.accesses
    found = {}
    for k in document("mix", trace)["kernels"]:
        for c in (k["executed"] or {"classes": []})["classes"]:
            found[k["kernel"], c["class"]] = c["transactions"]
    rows, same = [], 0
    lines = [line.split() for line in open(log) if line.startswith(("truth", "either"))]
    for _, kernel, of, *expected in lines:
        counted = found.get((kernel, of))
        same += str(counted) in expected
        rows.append([kernel, of, "-" if counted is None else counted, " or ".join(expected)])
    table(f"Transactions of warps' accesses: {same} of {len(lines)} as counted on the host", rows)


def moved():
    trace, log = arguments.moved
    closed = dict(re.findall(r"^moves (\w+) (\d+)", open(log).read(), re.MULTILINE))
    rows = []
    for device in explained(trace)["devices"]:
        for k in device["kernels"]:
            name = k["kernel"].split(" [")[0]
            if name in closed:
                bytes_ = k["dram_bytes"]
                error = percent(bytes_["value"] / float(closed[name]) - 1) if bytes_ else "no counters"
                rows.append([k["kernel"], closed[name], bytes_ and round(bytes_["value"]), error, "(aim 3.0 %)"])
    table("Bytes that memory moved, against closed forms", rows)


if arguments.kernels:
    kernels()
if arguments.groups:
    changed(arguments.groups, "--local", "groups were of another size")
if arguments.rooms:
    changed(arguments.rooms, "--local-memory", "groups took other local memory")
if arguments.transfers:
    transfers()
if arguments.moved:
    moved()
if arguments.accesses:
    accesses()
