#!/usr/bin/env python3
"""capture_cost.py [BIN=target/release] [MIB...=1 64 256]: what `record --capture` takes of a launch, three times for each size of the
one buffer that the kernel reads and writes: bytes of the capture, milliseconds, nanoseconds a byte. On the first OpenCL device;
needs PyOpenCL. The trace goes to the working directory and is removed."""

import json
import os
import shutil
import subprocess
import sys

APP = """
import sys, numpy as np, pyopencl as cl
n = int(sys.argv[1]) << 20
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, n)
cl.enqueue_fill_buffer(queue, buffer, np.int32(1), 0, n)
source = "kernel void one(global int *a) { a[get_global_id(0)] += 1; }"
kernel = cl.Kernel(cl.Program(context, source).build(), "one")
for _ in range(3):
    kernel(queue, (n // 4,), None, buffer)
queue.finish()
"""


def once(clscope, mib):
    trace = f"capture-cost-{os.getpid()}.clscope"
    record = [clscope, "record", "-q", "-f", "--sensors", "off", "-o", trace, "--capture", "one:2"]
    subprocess.run([*record, "--", sys.executable, "-c", APP, str(mib)], check=True, env={**os.environ, "PYOPENCL_NO_CACHE": "1"})
    lines = subprocess.run([clscope, "dump", trace, "--format", "json"], check=True, capture_output=True, text=True).stdout.splitlines()
    shutil.rmtree(trace)
    found = [line.get("definition", line) for line in map(json.loads, lines)]
    anchors = [d for d in found if d.get("kind") == "Anchor"]
    capture = next(d for d in found if d.get("kind") == "Capture")
    if capture["refused"]:
        sys.exit(f"it was not captured: {capture['refused']}")
    first, last = anchors[0], anchors[-1]
    return capture["bytes"], capture["took"] * (last["raw"] - first["raw"]) / (last["ticks"] - first["ticks"])


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "target/release"
    for mib in map(int, sys.argv[2:] or (1, 64, 256)):
        for _ in range(3):
            size, ns = once(os.path.abspath(os.path.join(folder, "clscope")), mib)
            print(f"{mib:5} MiB {size:12} bytes {ns * 1e-6:9.1f} ms {ns / size:6.2f} ns/byte")


main()
