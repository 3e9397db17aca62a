#!/usr/bin/env python3
"""Writes what was measured of `limits.c` or `suite.c` of `tests/fixtures/apps/kernels` on one device as a file of `tools/models/tests/limits/`, whose tests judge verdicts and
predicted times by it.

    clscope bench model --quick && clscope bench model --show --format json > device.json
    clscope record --mix -o trace -- ./limits 8 0.02 | tee limits.txt
    limits.py CLSCOPE device.json trace.clscope[,...] limits.txt [plain.clscope...] > file.json

What blocks are of (the trace's folder programs) is kept as `.spv` and `.ptx` there. On NVIDIA's devices record with `--mix=accesses --counters gpm`, too. CLSCOPE is the command. Copies of large buffers fill the recorder's
memory: `--capture '*'` and a process for each kernel (`./suite 8 1 NAME`, all of them in one `sh -c`) count all, or a trace for each
kernel. Kernels that were not counted are left out, and named. Times are those of plain.clscope, of the same program recorded without
captures, where it is given: captures leave the device idle before each launch, which then takes longer. Of several, on a machine that
others use, they are the shortest launch of all.
"""
import json
import subprocess
import sys

clscope, device, traces, log, *plain = sys.argv[1:]
traces = traces.split(",")


def document(*words):
    done = subprocess.run([clscope, *words, "--format", "json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


causes = {}
for line in open(log):
    words = line.split()
    if words[:1] == ["limit"]:
        causes[words[1]] = words[2].split("|")
documents = [document("explain", trace, "--limit", "0", "--parameters", device) for trace in traces]
explained = {kernel["kernel"]: kernel for of in documents for on in of["devices"] for kernel in on["kernels"]}
# The median of launches: what else ran on the machine for a while is no part of it.
which, typical = "median" if len(plain) < 2 else "min", {}
for kernel in (kernel for trace in plain or traces for kernel in document("report", trace)["kernels"] if kernel["time_ns"]):
    time = kernel["time_ns"][which]
    typical[kernel["name"]] = min(time, typical.get(kernel["name"], time))
rows = []
for kernel in (kernel for trace in traces for kernel in document("mix", trace)["kernels"]):
    name, counted = kernel["kernel"], kernel["executed"]
    if name not in causes or not counted:
        print(f"{name}: {kernel['refused']}", file=sys.stderr)
        continue
    of = explained[name]
    # Counts are sums over the launches that were counted.
    each = lambda count: None if count is None else round(count / kernel["counted"])
    buffers = [[a["index"], a["size"]] for a in kernel["arguments"] if a["kind"] in ("buffer", "image")]
    given = sum(a["size"] for a in kernel["arguments"] if a["kind"] == "local")
    resources = kernel["resources"]
    keys = {"threads": "instructions", "warps": "warp_instructions", "flop": "flop", "bytes": "bytes", "transactions": "transactions"}
    rows.append(
        {
            "name": name,
            "limits": causes[name],
            "launches": of["launches"],
            "items": of["items"],
            "local": of["local"],
            "time_ns": typical[name],
            "buffers": buffers,
            "registers": resources.get("registers"),
            "local_bytes": (resources.get("local_bytes") or 0) + given,
            "longest_group": counted.get("longest_group"),
            "reuse": counted.get("reuse") and counted["reuse"] | {"passes": each(counted["reuse"]["passes"])},
            "private_bytes": resources.get("private_bytes"),
            "dram_bytes": of["dram_bytes"] and [of["dram_bytes"][end] for end in ("value", "low", "high")],
        }
    )
    rows[-1]["blocks"] = [[b["block"], each(b["threads"]), each(b["warps"])] for b in counted["blocks"]]
    # Classes are those of the blocks, but that transactions are of classes alone.
    if counted["language"] == "ptx":
        rows[-1]["classes"] = [{"class": c["class"]} | {to: each(c[key]) for to, key in keys.items()} for c in counted["classes"]]
json.dump({"device": json.load(open(device)), "kernels": sorted(rows, key=lambda row: row["name"])}, sys.stdout, indent=1)
print()
