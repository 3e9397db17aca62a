#!/usr/bin/env python3
"""Judges joules per launch of applications that people have, on an NVIDIA GPU, against captured launches run alone.

    applications.py BIN OUT [--apps NAMES] [--budget SECONDS] [--seconds S] [--wheels FOLDER] [--photo PHOTOGRAPH]

BIN holds clscope, libclscope.so and libclscope_audit.so. Of each application:

1. a plain recording, and one with `record --replay`;
2. of each kernel and NDRange with 2 % or more of the kernels' dynamic energy (at most --kernels of them) three launches,
   captured in the middle of the run, and run alone by `clscope kernel`: time, and joules by the sensor.

What an application needs: WHEELS with the wheels of opencv-python-headless (faces), of pyopencl and of what that imports
(arrays); the programs hashcat, clpeak and ffmpeg, with its filters for OpenCL; CLBlast's library (blas_loop.c beside this
file). What is missing is named and left out, and so is what does not fit in the budget (default 540 s). OUT gets table.md,
results.json, reports and logs.
"""
import argparse
import ctypes.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import zipfile

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("bin", type=pathlib.Path)
parser.add_argument("out", type=pathlib.Path)
parser.add_argument("--apps", default="faces,arrays,hashcat,pbkdf2,blas,ffmpeg,clpeak")
parser.add_argument("--budget", type=float, default=540)
parser.add_argument("--seconds", type=float, default=10, help="length of each application")
parser.add_argument("--kernels", type=int, default=3, help="kernels of each application that are run alone")
parser.add_argument("--wheels", type=pathlib.Path)
parser.add_argument("--photo", type=pathlib.Path)
parser.add_argument("--type", default="GPU", help="CPU: tries the script where there is no GPU")
parser.add_argument("--sysfs-root", help="passed to clscope: with a simulated sensor, for trying the script")
arguments = parser.parse_args()
began = time.monotonic()
out = arguments.out.resolve()
out.mkdir(parents=True, exist_ok=True)
clscope = arguments.bin.resolve() / "clscope"
log = (out / "log.txt").open("w")


sensors = ["--sysfs-root", arguments.sysfs_root] if arguments.sysfs_root else []


def left():
    return arguments.budget - (time.monotonic() - began)


def say(text):
    line = f"{time.monotonic() - began:6.1f} s  {text}"
    print(line, flush=True)
    print(line, file=log, flush=True)


class Missing(Exception):
    pass


def environment(opens):
    """Of an application that is linked with a loader, or opens `libOpenCL.so` itself."""
    env = dict(os.environ, XDG_CACHE_HOME=str(out / "cache"), HOME=str(out), PYOPENCL_NO_CACHE="1", OPENCV_OPENCL_DEVICE=f":{arguments.type}:")
    if arguments.type != "GPU":
        return env
    if opens:
        vendors = out / "vendors"
        vendors.mkdir(exist_ok=True)
        (vendors / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
        env.pop("OCL_ICD_FILENAMES", None)
        env["OCL_ICD_VENDORS"] = str(vendors)
    else:
        env.update(OCL_ICD_FILENAMES="libnvidia-opencl.so.1", OCL_ICD_VENDORS="/nonexistent")
    return env


def wheel(name):
    """A folder with all wheels, of which this is one."""
    found = sorted((arguments.wheels or pathlib.Path("/nonexistent")).glob("*.whl"))
    if not any(w.name.startswith(name) for w in found):
        raise Missing(f"no wheel of {name}")
    site = out / "site"
    if not site.exists():
        for each in found:
            with zipfile.ZipFile(each) as packed:
                packed.extractall(site)
    return str(site)


def program(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"no {name}")
    return found


def faces(seconds, frames=None):
    if not arguments.photo:
        raise Missing("no --photo")
    env = environment(opens=True)
    env["PYTHONPATH"] = wheel("opencv_python_headless")
    return [sys.executable, here / "face_loop.py", str(seconds), arguments.photo.resolve(), *(frames or [])], env


def arrays(seconds, frames=None):
    env = environment(opens=True)
    env["PYTHONPATH"] = wheel("pyopencl")
    return [sys.executable, here / "arrays_loop.py", str(seconds), *(frames or [])], env


def cracking(mode, digest, mask):
    def command(seconds, _=None):
        words = ["-m", mode, "-a", "3", digest, mask, "--runtime", str(int(2 * seconds)), "-D", "2" if arguments.type == "GPU" else "1"]
        words += ["--potfile-disable", "--logfile-disable", "--restore-disable", "--self-test-disable", "--backend-ignore-cuda", "--force", "--session", "clscope"]
        return [program("hashcat"), *words], environment(opens=True)

    return command


def blas(seconds, frames=None):
    built = out / "blas_loop"
    library = ctypes.util.find_library("clblast")
    if not library:
        raise Missing("no CLBlast")
    made = subprocess.run(["gcc", "-O2", "-o", built, here / "blas_loop.c", f"-l:{library}", "-lOpenCL"], capture_output=True, text=True)
    if made.returncode:
        raise Missing(f"blas_loop.c does not build: {made.stderr[-200:]}")
    return [built, str(seconds), *(frames or [])], environment(opens=False)


def ffmpeg(seconds, _=None):
    graph = "format=yuv420p,hwupload,avgblur_opencl=sizeX=4,unsharp_opencl=lx=9:ly=9,nlmeans_opencl=s=2:p=3:r=7,sobel_opencl,hwdownload,format=yuv420p"
    words = ["-hide_banner", "-loglevel", "error", "-init_hw_device", "opencl=cl:0.0", "-filter_hw_device", "cl", "-re", "-f", "lavfi", "-i", "testsrc2=s=1920x1080:r=60"]
    return [program("ffmpeg"), *words, "-t", str(seconds), "-vf", graph, "-f", "null", "-"], environment(opens=False)


def clpeak(_, __=None):
    return [program("clpeak"), "--compute-sp", "--compute-dp", "--compute-integer", "--global-bandwidth", "--kernel-latency"], environment(opens=False)


APPLICATIONS = {
    "faces": ("face detection, OpenCV's Haar cascade", faces),
    "arrays": ("PyOpenCL: elementwise, scan, reduction, radix sort", arrays),
    "hashcat": ("hashcat, SHA-256", cracking("1400", "f" * 64, "?b?b?b?b?b?b")),
    "pbkdf2": ("hashcat, PBKDF2-HMAC-SHA256", cracking("10900", "sha256:20000:NjI3MDM3:vVfavLQL9ZWjg8BUMq6/FB8FtpkIGWYk", "?a?a?a?a?a?a?a?a")),
    "blas": ("CLBlast: gemm, gemv, axpy, dot", blas),
    "ffmpeg": ("ffmpeg, 60 frames a second: avgblur, unsharp, nlmeans, sobel", ffmpeg),
    "clpeak": ("clpeak", clpeak),
}


def call(name, command, env, limit, codes=(0,)):
    """Runs a command; its standard output, or None where it failed."""
    limit = max(min(limit, left()), 1)
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace", timeout=limit, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        say(f"{name}: took longer than {limit:.0f} s")
        return None
    (out / f"{name}.log").write_text(" ".join(map(str, command)) + f"\n[{done.returncode}]\n" + done.stdout + done.stderr)
    if done.returncode not in codes:
        say(f"{name}: exit code {done.returncode}: {(done.stderr or done.stdout)[-300:].strip()}")
        return None
    return done.stdout


def record(app, kind, options, command, env):
    """The device of its report with most energy, by kernel and NDRange; also the report as text."""
    trace = out / f"{app}-{kind}"
    start = time.monotonic()
    # hashcat's exit code is 1 where nothing was found, and 4 at the end of its time.
    said = call(f"{app}-{kind}", [clscope, "record", "-f", "-o", trace, *sensors, *options, "--", *command], env, 120, codes=(0, 1, 4))
    if said is None:
        return None
    took = time.monotonic() - start
    report = [clscope, "report", f"{trace}.clscope", "--limit", "0"]
    (out / f"{app}-{kind}.txt").write_text(call(f"{app}-{kind}-text", report, env, 60) or "")
    text = call(f"{app}-{kind}-json", [*report, "--by", "ndrange", "--format", "json"], env, 60)
    document = json.loads(text) if text else None
    (out / f"{app}-{kind}.json").write_text(text or "")
    devices = ((document or {}).get("energy") or {}).get("devices") or []
    device = max(devices, key=lambda d: d["measured_joules"] or 0, default=None)
    return {"seconds": took, "trace": f"{trace}.clscope", "device": device}


def joules(interval):
    return interval and interval["value"]


def important(device):
    """Kernels and transfers with their share of the dynamic energy of all that has one, largest first."""
    classes = (device or {}).get("classes", [])
    whole = sum((c["dynamic_joules"] or {"value": 0})["value"] for c in classes)
    rows = [(c, ((c["dynamic_joules"] or {"value": 0})["value"]) / whole if whole > 0 else None) for c in classes]
    return sorted(rows, key=lambda r: -(r[1] or 0))


def same(name, kernel, sizes):
    """Whether a class of the report is this kernel with this NDRange."""
    return name == kernel or name == f"{kernel} [{'x'.join(str(n) for n in sizes)}]"


def alone(app, option, command, env):
    """{(kernel, sizes): [what `clscope kernel` says of each capture]}"""
    chosen = [c for c, share in important(option["device"]) if c["kind"] == "kernel" and (share is None or share >= 0.02)][: arguments.kernels]
    numbers = {}
    for c in chosen:
        kernel = c["name"].split(" [")[0]
        # The launches of a kernel are counted over its NDRanges.
        all_of_it = sum(o["launches"] for o in option["device"]["classes"] if o["name"].split(" [")[0] == kernel)
        numbers[kernel] = all_of_it
    if not numbers:
        return {}
    wanted = []
    for kernel, launches in numbers.items():
        # Three of them, at different places of a frame.
        for i, part in enumerate((0.3, 0.5, 0.7)):
            wanted += ["--capture", f"{kernel}:{max(int(launches * part) // 4 * 4 + i, 1)}"]
    trace = out / f"{app}-captured"
    if call(f"{app}-captured", [clscope, "record", "-f", "-o", trace, "--sensors", "off", *wanted, "--", *command], env, 120, codes=(0, 1, 4)) is None:
        return {}
    found = {}
    for folder in sorted((out / f"{app}-captured.clscope" / "captures").glob("*")):
        if not (folder / "launch.json").exists():
            continue
        if left() < 25:
            say(f"{app}: left out for lack of time: {folder.name}")
            continue
        launch = json.loads((folder / "launch.json").read_text())
        text = call(f"{app}-{folder.name}", [clscope, "kernel", folder, *sensors, "--format", "json"], environment(opens=False), 60)
        if text:
            document = json.loads(text)
            found.setdefault((launch["kernel"], tuple(launch["global"][: launch["dimensions"]])), []).append(document)
    return found


def mean(values):
    values = [v for v in values if v is not None]
    return sum(values) / len(values) if values else None


def show(value, scale=1.0, digits=1, unit=""):
    return "-" if value is None else f"{value * scale:.{digits}f}{unit}"


results, rows, errors = {}, [], []
for app in arguments.apps.split(","):
    title, make = APPLICATIONS[app]
    if left() < 4 * arguments.seconds + 40:
        say(f"{app}: left out for lack of time")
        continue
    try:
        command, env = make(arguments.seconds)
    except Missing as why:
        say(f"{app}: left out: {why}")
        continue
    plain = record(app, "plain", [], command, env)
    # The application's own work is the same with the option, however long that makes it.
    made = re.search(r"^(\d+) frames", (out / f"{app}-plain.log").read_text(), re.MULTILINE)
    command, env = make(arguments.seconds, made and [made[1]])
    option = record(app, "replay", ["--replay"], command, env)
    if not plain or not option:
        continue
    truths = alone(app, option, command, env)
    results[app] = {"plain": plain, "option": option, "alone": [[*k, v] for k, v in truths.items()]}
    say(f"{app}: plain {plain['seconds']:.1f} s, with --replay {option['seconds']:.1f} s, {len(truths)} kernels alone")
    before = {c["name"]: c for c in (plain["device"] or {}).get("classes", [])}
    for c, share in important(option["device"]):
        kernel = c["name"].split(" [")[0]
        captured = next((v for (k, sizes), v in truths.items() if k == kernel and same(c["name"], k, sizes)), [])
        energies = [(d["base"]["energy"] or {}) for d in captured]
        each = [e["joules"]["value"] for e in energies if e.get("joules")]
        truth, j, p = mean(each), c["joules_per_launch"], (before.get(c["name"]) or {}).get("joules_per_launch")
        lengths = [d["base"]["time"]["median_ns"]["value"] for d in captured if d["base"]["time"]]
        length = c["busy_ns"]["value"] / c["launches"] if isinstance(c["busy_ns"], dict) and c["launches"] else None
        if length is None and c["launches"] and not isinstance(c["busy_ns"], dict):
            length = c["busy_ns"] / c["launches"]
        half = (j["high"] - j["low"]) / 2 / j["value"] if j and j.get("high") is not None else None
        error = joules(j) / truth - 1 if j and truth else None
        # Launches of one kernel need not do the same: the truth is between them, and each known to a little.
        least, most = (min(e["joules"]["low"] for e in energies if e.get("joules")), max(e["joules"]["high"] for e in energies if e.get("joules"))) if each else (None, None)
        inside = j["low"] <= most and j["high"] >= least if error is not None and half is not None else None
        if error is not None:
            errors.append((share, error, inside, half))
        if share is None or share >= 0.02 or truth:
            rows.append(
                f"| {title} | `{c['name']}` | {show(share, 100, 0, ' %')} | {show(length, 1e-3, 1, ' us')} | {show(mean(lengths), 1e-3, 1, ' us')} | "
                f"{', '.join(show(e, 1e3, 3) for e in each) or '-'} | {show(joules(p), 1e3, 3)} | {show(joules(j), 1e3, 3)} | {show(half, 100, 1, ' %')} | "
                f"{show(error, 100, 1, ' %')} | {'-' if inside is None else 'yes' if inside else 'no'} | {c['why'] or ''} |"
            )
(out / "results.json").write_text(json.dumps(results, indent=1, default=str))
head = ["application", "kernel or transfer", "share", "length", "alone", "alone, mJ", "plain, mJ", "`--replay`, mJ", "half-width", "error", "overlaps", "why not"]
lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * 8 + "---|---|", *rows, ""]
for low, high in ((0.05, 2), (0.02, 0.05)):
    some = [e for e in errors if e[0] is not None and low <= e[0] < high]
    if some:
        rms = (sum(e[1] ** 2 for e in some) / len(some)) ** 0.5
        lines.append(f"{low:.0%} and more, below {high:.0%}: {len(some)} figures, rms error {100 * rms:.2f} %, overlap {sum(bool(e[2]) for e in some)}, mean half-width {show(mean([e[3] for e in some]), 100, 1)} %")
text = "\n".join(lines) + "\n"
(out / "table.md").write_text(text)
print(text)
say("done")
