#!/usr/bin/env python3
"""Runs real applications on a CPU device bare and in each way that captures launches, and says whether anything changed.

    unchanged.py BIN OUT [--apps NAMES] [--ways NAMES] [--python PYTHON] [--photo PHOTOGRAPH] [--list]

BIN holds clscope and libclscope.so; PYTHON is one that has the libraries. `--list` prints how to get each application. The
environment chooses the runtime (OCL_ICD_VENDORS). Of each application and way: whether the exit code, what it prints and
the files that it writes are those of bare runs, whose own two must agree; its time of processors against the shorter bare run; of
`--replay=plan` what could be captured, and of the others how many launches were measured and how many of these have a time,
joules and instructions. Where the machine has no sensor of energy, joules are those of an emulated counter, which follows
the processors' time. OUT gets results.json, logs and traces.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

here = pathlib.Path(__file__).resolve().parent
PYTHON_APPS = "pip install numpy pyopencl"
FILTERS = "avgblur_opencl=sizeX=4,unsharp_opencl=lx=9:ly=9,nlmeans_opencl=s=2:p=3:r=7,sobel_opencl"
DIGEST = hashlib.sha256(b"abc12").hexdigest()


def python(name):
    return lambda of: [of.python, here / "unchanged_apps.py", name]


# Name: what it is; how to get it; its command.
APPS = {
    "faces": ("OpenCV's face detection", "apt install python3-opencv opencv-data", lambda of: ["/usr/bin/python3", here.parent / "setup/face_detect.py", of.photo]),
    "hashcat": ("hashcat, SHA-256", "apt install hashcat", lambda of: ["hashcat", "-m", "1400", "-a", "3", DIGEST, "?l?l?l?d?d", "--potfile-disable", "--logfile-disable", "--restore-disable", "--self-test-disable", "--force", "-D", "1", "--outfile-format", "2", "-o", "found.txt", "--quiet"]),
    "ffmpeg": ("ffmpeg's OpenCL filters", "apt install ffmpeg", lambda of: ["ffmpeg", "-hide_banner", "-loglevel", "error", "-init_hw_device", "opencl=cl:0.0", "-filter_hw_device", "cl", "-f", "lavfi", "-i", "testsrc2=s=320x240:r=10", "-t", "3", "-vf", f"format=yuv420p,hwupload,{FILTERS},hwdownload,format=yuv420p", "-f", "md5", "-"]),
    "gegl": ("GEGL, GIMP's filters", "apt install gegl", lambda of: ["gegl", of.photo, "-o", "out.png", "--", "gaussian-blur", "std-dev-x=4", "std-dev-y=4", "edge-laplace"]),
    "clpeak": ("clpeak", "apt install clpeak", lambda of: ["clpeak", "--compute-sp", "--global-bandwidth", "--kernel-latency"]),
    "clblast": ("CLBlast", "apt install libclblast1 ocl-icd-opencl-dev", lambda of: [of.blas(), "1", "40"]),
    "pyopencl": ("PyOpenCL's algorithms", PYTHON_APPS, python("pyopencl")),
    "reikna": ("reikna", f"{PYTHON_APPS} reikna", python("reikna")),
    "pyclesperanto": ("pyclesperanto", "pip install pyclesperanto", python("pyclesperanto")),
    "pyfai": ("pyFAI", f"{PYTHON_APPS} pyFAI", python("pyfai")),
    "sasmodels": ("sasmodels", f"{PYTHON_APPS} sasmodels", python("sasmodels")),
    "openmm": ("OpenMM", "pip install openmm", python("openmm")),
    "lightgbm": ("LightGBM", "pip install lightgbm", python("lightgbm")),
    "tinygrad": ("tinygrad", "pip install tinygrad", python("tinygrad")),
    "pyvkfft": ("VkFFT", f"{PYTHON_APPS} pyvkfft", python("pyvkfft")),
    "gpyfft": ("clFFT", "apt install python3-gpyfft", lambda of: ["/usr/bin/python3", here / "unchanged_apps.py", "gpyfft"]),
}
WAYS = {
    "plain": [],
    "replay": ["--replay=5s"],
    "mix": ["--mix"],
    "capture": ["--capture", "*"],
    "plan": ["--replay=plan"],
}
# Lines that tell of time or of where the application ran, not of what it computed.
OF_TIME = {"clpeak": re.compile(r"GBPS|GFLOPS|latency|float|bandwidth", re.I)}
VARIABLES = {"GEGL_USE_OPENCL": "cpu", "OPENCV_OPENCL_DEVICE": ":CPU:", "PYOPENCL_CTX": "0", "PYOPENCL_NO_CACHE": "1"}


class Counter(threading.Thread):
    """An emulated RAPL counter: 5 W, and 20 J for each second of a processor."""

    def __init__(self, root):
        super().__init__(daemon=True)
        zone = root / "class/powercap/intel-rapl:0"
        zone.mkdir(parents=True, exist_ok=True)
        (zone / "name").write_text("package-0\n")
        (zone / "max_energy_range_uj").write_text("262143328850\n")
        self.file = os.open(zone / "energy_uj", os.O_CREAT | os.O_RDWR)
        self.begun = time.monotonic()
        self.write()

    def write(self):
        user, nice, system = map(int, pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:4])
        joules = 5 * (time.monotonic() - self.begun) + 20 * (user + nice + system) / os.sysconf("SC_CLK_TCK")
        os.pwrite(self.file, b"%-20d\n" % int(joules * 1e6), 0)

    def run(self):
        while True:
            self.write()
            time.sleep(0.002)


class Runner:
    def __init__(self, given):
        self.python, self.photo = os.path.abspath(given.python) if "/" in given.python else given.python, given.photo.resolve() if given.photo else "photograph"
        self.clscope, self.out = given.bin.resolve() / "clscope", given.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.sensors = []
        if not any(pathlib.Path("/sys/class/powercap").glob("*/energy_uj")):
            Counter(self.out / "sensors/sys").start()
            self.sensors = ["--sysfs-root", self.out / "sensors"]

    def blas(self):
        built = self.out / "blas_loop"
        if not built.exists():
            subprocess.run(["gcc", "-O2", "-o", built, here / "gpu/blas_loop.c", "-l:libclblast.so.1", "-lOpenCL"], check=True)
        return built

    def run(self, app, way):
        """What can be seen of a run, its seconds of processors, what clscope said, and the trace."""
        folder, trace = self.out / "run", self.out / f"{app}-{way}.clscope"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        # The shell tells what the application and its children took, and nothing else.
        words = ["sh", "-c", '"$@"; code=$?; times >"$TIMES"; exit $code', "sh", *APPS[app][2](self)]
        if way != "bare":
            words = [self.clscope, "record", "-f", "-o", trace, *self.sensors, *WAYS[way], "--", *words]
        variables = {**os.environ, **VARIABLES, "TIMES": str(self.out / "times")}
        ran = subprocess.run(list(map(str, words)), cwd=folder, capture_output=True, text=True, env=variables, stdin=subprocess.DEVNULL)
        minutes = re.findall(r"(\d+)m([\d.]+)s", (self.out / "times").read_text().splitlines()[1])
        seconds = sum(60 * int(m) + float(s) for m, s in minutes)
        said = [line for line in ran.stderr.splitlines() if line.startswith("clscope:")]
        (self.out / f"{app}-{way}.log").write_text(ran.stdout + ran.stderr)
        # What the application printed alone, without compilers' warnings and lines that hold process ids.
        drop = OF_TIME.get(app)
        printed = [line for line in ran.stdout.splitlines() if not (drop and drop.search(line))]
        files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in sorted(folder.iterdir())}
        return (ran.returncode, printed, files), seconds, said, trace


def measured(trace):
    path = trace / "measured.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    has = lambda name: sum(bool(row.get(name)) for row in rows if not row.get("failed"))
    return {"rows": len(rows), "failed": sum(bool(row.get("failed")) for row in rows), "time": has("time"), "joules": has("windows"), "mix": has("mix"), "differ": sum(row.get("results") == "differs" for row in rows)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path, nargs="?")
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--apps", default=",".join(APPS))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--photo", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    if given.list:
        for name, (what, get, _) in APPS.items():
            print(f"{name:14} {what:26} {get}")
        return 0
    if not given.out:
        parser.error("BIN and OUT are needed")
    runner = Runner(given)
    path = runner.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    changed = False
    for app in given.apps.split(","):
        runner.run(app, "bare")  # Compiles, where the runtime keeps that.
        bare = [runner.run(app, "bare") for _ in range(2)]
        own = min(seconds for _, seconds, _, _ in bare)
        row = results[app] = {"settled": bare[0][0] == bare[1][0], "seconds": own, "exit": bare[0][0][0], "ways": {}}
        for way in given.ways.split(","):
            seen, seconds, said, trace = runner.run(app, way)
            same = [of == bare_of for of, bare_of in zip(seen, bare[0][0])]
            row["ways"][way] = {"same": same, "ratio": round(seconds / own, 2), **measured(trace), "said": said}
            is_changed = not all(same) and row["settled"]
            changed |= is_changed
            print(f"{app:14} {way:8} {'CHANGED' if is_changed else 'same' if all(same) else 'bare runs differ'} x{seconds / own:.2f} {measured(trace)}", *said, sep="\n    ", flush=True)
            path.write_text(json.dumps(results, indent=1))
    print(datetime.date.today(), "changed" if changed else "nothing changed")
    return int(changed)


sys.exit(main())
