"""What OpenCV's face detection does on an OpenCL device, cell by cell.

    python face_detection.py PHOTOGRAPH

Needs clscope with DuckDB (pip install 'clscope[sql]'), and OpenCV for Python: /usr/bin/python3 with Debian's
python3-opencv and opencv-data, or what the variable OPENCV_PYTHON names. With clscope[plot] it leaves
face_timeline.png. The cells (# %%) open in Jupyter (jupytext) and in editors."""

# %% Record. The application is a program of its own and knows nothing of this.
import os
import pathlib
import sys

import clscope

photograph = sys.argv[1]
application = pathlib.Path(__file__).resolve().parents[2] / "setup" / "face_detect.py"
python = os.environ.get("OPENCV_PYTHON", "/usr/bin/python3")
run = clscope.record([python, str(application), photograph], "face", device_timing="event")

# %% Which kernels take the time of the device?
total = sum(kernel["total_ns"] for kernel in run.kernels())
print(f"{total * 1e-6:.2f} ms in kernels:")
for kernel in sorted(run.kernels(), key=lambda kernel: -kernel["total_ns"]):
    share = kernel["total_ns"] / total
    print(f"  {share:6.1%}  {kernel['launches']:4} launches  {kernel['name']}")

# %% What do they cost? Joules are None where no sensor could be read: that is not 0.
known = [kernel["joules"] for kernel in run.kernels() if kernel["joules"] is not None]
print(f"{sum(known):.3f} J in {len(known)} kernels" if known else "joules are not known here")

# %% How does the time of a launch depend on its size? One row for each command is in the tables.
print(run.sql("""
    SELECT name, global_x, global_y, count(*) AS launches, median(duration_ns) / 1e3 AS median_us
    FROM commands WHERE kind = 'NDRangeKernel' AND duration_ns IS NOT NULL
    GROUP BY ALL ORDER BY median_us DESC LIMIT 5
"""))

# %% How long did the host wait, beside computing?
waits = [row for row in run.functions() if row["name"] in ("clFinish", "clWaitForEvents", "clBuildProgram")]
for row in waits:
    print(f"{row['name']}: {row['calls']} calls, {row['total_ns'] * 1e-6:.2f} ms")

# %% When did it run?
try:
    run.plot_timeline().figure.savefig("face_timeline.png", dpi=120, bbox_inches="tight")
    print("face_timeline.png")
except clscope.MissingPackage as missing:
    print(f"no plot: {missing}")

# %% The same as a page, to be sent to somebody.
run.html("face.html")
print("face.html")
