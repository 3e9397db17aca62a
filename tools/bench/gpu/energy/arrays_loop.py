#!/usr/bin/env python3
"""arrays_loop.py SECONDS [FRAMES]: PyOpenCL's own kernels for so long, or so many times: elementwise arithmetic, prefix sums, a
reduction and a radix sort of arrays on the device. An ordinary application: it knows nothing of profilers."""
import sys
import time

import numpy as np
import pyopencl as cl
import pyopencl.algorithm
import pyopencl.array
import pyopencl.clmath

seconds = float(sys.argv[1])
most = int(sys.argv[2]) if len(sys.argv) > 2 else None
gpus = [d for p in cl.get_platforms() for d in p.get_devices() if d.type & cl.device_type.GPU]
context = cl.Context(gpus[:1] or [cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
rng = np.random.default_rng(5)
n = 1 << (24 if gpus else 20)
a, b = (cl.array.to_device(queue, rng.random(n, dtype=np.float32)) for _ in range(2))
keys = cl.array.to_device(queue, rng.integers(0, 1 << 16, n // 4, dtype=np.uint32))
scan = cl.scan.GenericScanKernel(context, np.float32, "float *x, float *y", "x[i]", "a+b", "0", output_statement="y[i] = item")
sort = cl.algorithm.RadixSort(context, "unsigned *keys", key_expr="keys[i]", sort_arg_names=["keys"], key_dtype=np.uint32)
sums = cl.array.empty_like(a)
frames, begun = 0, time.monotonic()
while frames < most if most else time.monotonic() - begun < seconds:
    c = 2 * a * b + cl.clmath.sin(a)
    scan(c, sums)
    total = cl.array.sum(c).get()
    (ordered,), _ = sort(keys, key_bits=16)
    frames += 1
print(f"{frames} frames on {context.devices[0].name}, sum {total}")
