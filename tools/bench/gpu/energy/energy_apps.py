#!/usr/bin/env python3
"""Judges joules per launch of applications that do the same thing again and again, on an NVIDIA GPU.

    energy_apps.py BIN OUT [--budget SECONDS] [--wheel WHEEL] [--photo PHOTOGRAPH] [--apps NAMES] [--host MICROSECONDS]
    energy_apps.py BIN OUT --temperatures [--apps NAMES] [--seconds SECONDS] [--heat SECONDS]

BIN holds clscope, libclscope.so and libclscope_audit.so; energy_apps.c and face_loop.py lie beside this file. For each
application: every command alone (watts x period, NVML's samples once they have settled), a plain recording, one of as many
frames with `record --replay`, and every command alone again; of the first application one more with GPM counters. OUT gets results.json, table.txt, reports and logs. Never takes longer than
the budget (default 460 s): what would not fit is left out and named.

With --insitu the truth is that of the run itself: each launch of a kernel is enqueued some times more in its place, and the
slope of the energy of a round above rest, in launches, is what a launch takes there. More work warms the chip: what that adds
to idle power, which rests behind work show, is fitted beside the slopes. Then no command is run alone, and the table compares
joules above idle at the run's temperature.

With --temperatures each application is recorded twice, behind rest and behind a load of --heat seconds. The table has joules
of a launch at 50 C from each trace by itself, from both together, and how far the two are apart: that should be below 2 %.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import zipfile

here = pathlib.Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("bin", type=pathlib.Path)
parser.add_argument("out", type=pathlib.Path)
parser.add_argument("--budget", type=float, default=460)
parser.add_argument("--wheel", type=pathlib.Path)
parser.add_argument("--photo", type=pathlib.Path)
parser.add_argument("--apps", default="pipeline,solver,bodies,sort,unordered,queues,face")
parser.add_argument("--seconds", type=float, default=8, help="length of each application")
parser.add_argument("--alone", type=float, default=1.0, help="length of each command alone")
parser.add_argument("--again", type=float, default=3.5, help="length of each run of --insitu")
parser.add_argument("--host", type=int, default=0, help="microseconds that the host works behind each frame")
parser.add_argument("--insitu", action="store_true", help="the truth is measured in the run")
parser.add_argument("--temperatures", action="store_true", help="each application in a cold run and in a warm one")
parser.add_argument("--heat", type=float, default=40, help="seconds of load before the warm run")
parser.add_argument("--heater", default="bodies", help="the application that is this load")
parser.add_argument("--record", default="", help="more options of clscope record")
arguments = parser.parse_args()
began = time.monotonic()
out = arguments.out.resolve()
out.mkdir(parents=True, exist_ok=True)
binary = arguments.bin.resolve()
log = (out / "log.txt").open("w")


def left():
    return arguments.budget - (time.monotonic() - began)


def say(text):
    line = f"{time.monotonic() - began:6.1f} s  {text}"
    print(line, flush=True)
    print(line, file=log, flush=True)


class Power(threading.Thread):
    """NVML's ring of power samples, kept while it runs: (seconds of CLOCK_REALTIME, watts)."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.degrees, self.stopped, self.error = {}, [], False, None
        try:
            import pynvml

            self.nvml = pynvml
            pynvml.nvmlInit()
            self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        except Exception as error:  # no NVIDIA GPU: the rest is still run
            self.error = str(error)

    def run(self):
        while not self.stopped and self.error is None:
            try:
                _, found = self.nvml.nvmlDeviceGetSamples(self.handle, self.nvml.NVML_TOTAL_POWER_SAMPLES, 0)
                for s in found:
                    self.samples[s.timeStamp] = s.sampleValue.uiVal / 1000
                self.degrees.append((time.time(), self.nvml.nvmlDeviceGetTemperature(self.handle, 0)))
            except Exception as error:
                self.error = str(error)
            time.sleep(0.25)

    def warm(self, begin, end):
        inside = [degrees for at, degrees in self.degrees if begin <= at <= end]
        return sum(inside) / len(inside) if inside else None

    def mean(self, begin, end, settle=0.25):
        inside = [w for t, w in self.samples.items() if begin + settle <= t * 1e-6 <= end]
        return sum(inside) / len(inside) if len(inside) >= 5 else None


power = Power()
power.start()
if power.error:
    say(f"no truth: {power.error}")
environment = dict(os.environ)
environment.update(XDG_CACHE_HOME=str(out / "cache"), ENERGY_APPS_HOST_US=str(arguments.host))
has_driver = "OCL_ICD_VENDORS" in os.environ
if power.error is None and not has_driver:
    # CUDA's own loader for linked programs, NVIDIA alone.
    environment.update(OCL_ICD_FILENAMES="libnvidia-opencl.so.1", OCL_ICD_VENDORS="/nonexistent")
face_environment = dict(environment, OPENCV_OPENCL_DEVICE=":GPU:")
if power.error is None and not has_driver:
    # Python's OpenCV opens libOpenCL.so, which is ocl-icd there.
    vendors = out / "vendors"
    vendors.mkdir(exist_ok=True)
    (vendors / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    face_environment.pop("OCL_ICD_FILENAMES")
    face_environment.update(OCL_ICD_VENDORS=str(vendors))
if arguments.wheel:
    with zipfile.ZipFile(arguments.wheel) as wheel:
        wheel.extractall(out / "site")
    face_environment["PYTHONPATH"] = str(out / "site")


def call(name, command, env, limit):
    """Runs a command; its standard output, or None where it failed."""
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=max(limit, 1))
    except subprocess.TimeoutExpired:
        say(f"{name}: took longer than {limit:.0f} s")
        return None
    (out / f"{name}.log").write_text(" ".join(map(str, command)) + "\n" + done.stdout + done.stderr)
    if done.returncode:
        say(f"{name}: exit code {done.returncode}: {done.stderr[-300:]}")
        return None
    return done.stdout


program = out / "energy_apps"
subprocess.run(["gcc", "-O2", "-o", program, here / "energy_apps.c", "-lOpenCL"], check=True)


def alone(app, when, env):
    text = call(f"{app}-alone-{when}", [program, "alone", app, str(arguments.alone)], env, left())
    time.sleep(1.0)
    found = {}
    for line in (text or "").splitlines():
        if line.startswith("phase "):
            _, name, begin, end, launches = line.split()
            begin, end, launches = float(begin), float(end), int(launches)
            watts = power.mean(begin, end)
            found[name] = {"watts": watts, "period": (end - begin) / launches, "joules": watts and watts * (end - begin) / launches}
    return found


def kernels(app):
    """Names and lengths in microseconds of an application's kernels, as energy_apps.c wants them."""
    source = (here / "energy_apps.c").read_text()
    name = {"bodies": "bodies_app", "short": "brief"}.get(app, app)
    block = re.search(rf"struct step {name}\[\] = \{{(.*?)\n\}};", source, re.S).group(1)
    return [(n, float(us or 0)) for n, us in re.findall(r'name = "(\w+)"(?:.*?target_us = (\d+))?', block)]


def once(app, again, env, rest):
    """Joules above rest, and seconds, of a round, with an addition to it; the chip's temperature."""
    text = call(f"{app}-again", [program, app, str(arguments.again)], dict(env, ENERGY_APPS_AGAIN=again), left())
    end = time.time()
    found = re.search(r"ran \w+ (\d+) frames in ([\d.]+) s", text or "")
    if not found:
        return None
    rounds, seconds = int(found.group(1)), float(found.group(2))
    time.sleep(0.6)
    # The run's own time ends with the process; the first third lets the sensor and the clock settle.
    begin, end = end - 0.15 - seconds * 2 / 3, end - 0.15
    watts, warm = power.mean(begin, end, 0), power.warm(begin, end)
    return watts and warm and ((watts - rest) * seconds / rounds, seconds / rounds, warm)


# Watts that a degree adds to idle power before anything was measured, and as much for its standard deviation: 1.2 % of 125 W.
DEGREE = 1.5


def solved(matrix, right):
    """The solution of linear equations, and the inverse of their matrix."""
    n = len(right)
    rows = [list(row) + [right[i]] + [float(i == j) for j in range(n)] for i, row in enumerate(matrix)]
    for i in range(n):
        best = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[best] = rows[best], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i])]
    return [row[n] for row in rows], [row[n + 1 :] for row in rows]


def slopes(points, names, cold):
    """Joules of a launch of each kernel with standard errors, and watts a degree, by rounds (kernel, launches more, point): joules
    of a round above rest = what it always takes + launches x joules + seconds x degrees above those of rest x watts a degree.
    Seconds of rest, of which the kernel is None, have the last alone."""
    lines = [
        [float(name is not None)] + [more * (name == of) for of in names] + [seconds * (warm - cold)]
        for name, more, (_, seconds, warm) in points
    ]
    joules = [p[2][0] for p in points]
    # Errors are of watts: a longer round has larger ones.
    weights = [p[2][1] ** -2 for p in points]
    n, variance = len(lines[0]), 1.0
    for _ in range(3):
        matrix = [[sum(w * a[i] * a[j] for w, a in zip(weights, lines)) / variance for j in range(n)] for i in range(n)]
        right = [sum(w * a[i] * y for w, a, y in zip(weights, lines, joules)) / variance for i in range(n)]
        matrix[-1][-1] += DEGREE**-2
        right[-1] += DEGREE * DEGREE**-2
        found, inverse = solved(matrix, right)
        squares = sum(w * (y - sum(a * x for a, x in zip(line, found))) ** 2 for w, line, y in zip(weights, lines, joules))
        variance = squares / max(len(lines) - n + 1, 1)
    errors = [inverse[i][i] ** 0.5 for i in range(n)]
    return found[1:-1], errors[1:-1], (found[-1], errors[-1])


def in_situ(app, env):
    """Joules above rest of a launch of each kernel, with a standard error: the slope in launches a round."""

    def rests(seconds):
        """Watts and degrees of each second at rest, from half a second behind the last work on."""
        text = call(f"{app}-rest", [program, "rest", app, str(seconds)], env, left())
        ready = re.search(r"rests ([\d.]+)", text or "")
        time.sleep(0.6)
        begins = [float(ready.group(1)) + 0.5 + i for i in range(seconds - 1)] if ready else []
        found = [(power.mean(at, at + 1, 0), power.warm(at, at + 1)) for at in begins]
        return [of for of in found if None not in of]

    if app in ("sort", "settle"):
        say(f"{app}: a launch more finds what the one before left, and does less: nothing to compare with")
        return {}
    rests(2)
    before = rests(4)
    if not before:
        return {}
    rest, cold = (sum(of) / len(before) for of in zip(*before))
    plain = once(app, "", env, rest)
    if not plain:
        return {}
    all_points, names = [("", 0, plain)], []
    for name, us in kernels(app):
        # As many more as add half of a round.
        more = max(2, min(40, round(plain[1] * 1e6 / 2 / max(us, 5))))
        points = []
        for times in (more, 0, 2 * more):
            if left() > arguments.again + 5:
                point = once(app, f"{name} {times}" if times else "", env, rest)
                points += [(name, times, point)] if point else []
        points += [(None, 0, (watts - rest, 1.0, warm)) for watts, warm in rests(3)]
        if sum(of is not None for of, _, _ in points) == 3:
            names.append(name)
            all_points += points
    if not names:
        return {}
    joules, errors, (degree, unsure) = slopes(all_points, names, cold)
    say(f"{app}: a degree adds {degree:.2f} +- {unsure:.2f} W to idle power, {rest:.1f} W at {cold:.1f} C")
    found = {" rest": rest, " cold": cold, " degree": degree, " points": all_points}
    for name, slope, error in zip(names, joules, errors):
        warm = [round(p[2][2], 1) for p in all_points if p[0] == name]
        found[name] = {"joules": slope, "se": error, "warm": warm}
        say(f"{app} {name}: {slope * 1e3:.4f} +- {error * 1e3:.4f} mJ above {rest:.1f} W, {warm} C")
    return found


def record(app, kind, options, command, env):
    trace = out / f"{app}-{kind}"
    options = options + arguments.record.split()
    start = time.monotonic()
    if call(f"{app}-{kind}", [binary / "clscope", "record", "-f", "-o", trace, *options, "--", *command], env, left()) is None:
        return None
    took = time.monotonic() - start
    report = [binary / "clscope", "report", f"{trace}.clscope", "--limit", "0"]
    text = call(f"{app}-{kind}-report", report, env, left())
    (out / f"{app}-{kind}.txt").write_text(text or "")
    data = call(f"{app}-{kind}-json", [*report, "--format", "json"], env, left())
    devices = json.loads(data)["energy"]["devices"] if data else []
    (out / f"{app}-{kind}.json").write_text(json.dumps(devices, indent=1))
    return {"seconds": took, "device": devices[0] if devices else None}


def classes(found):
    return {c["name"]: c for c in (found or {}).get("device", {}).get("classes", [])} if found and found["device"] else {}


def frames(name):
    """Frames that a recorded application says it made."""
    found = re.search(r"(\d+) frames", (out / f"{name}.log").read_text())
    return found and found.group(1)


def degrees():
    return power.nvml.nvmlDeviceGetTemperature(power.handle, 0) if power.error is None else None


def figure(of, scale=1e3):
    """A figure with the half-width of its interval."""
    if not of:
        return f"{'-':>17}"
    return f"{of['value'] * scale:9.4f} +-{50 * (of['high'] - of['low']) / of['value']:5.1f} %"


def per_degree(device):
    of = (device or {}).get("temperature")
    if not of:
        return "no temperature"
    idle, above = of["idle_per_degree"], of["above_idle_per_degree"]
    share = lambda x: f"{100 * x['value']:.2f} % ({100 * x['low']:.2f} to {100 * x['high']:.2f})"
    return f"{of['mean_c']:.1f} C ({of['min_c']:.0f} to {of['max_c']:.0f}); a degree adds {share(idle)} to idle power, {share(above)} above it, by {of['runs']} run(s)"


def cold_and_warm(app, env):
    """Records an application twice, and writes what the traces say alone and together."""
    command = [program, app, str(arguments.seconds)]
    say(f"{app}: cold run begins at {degrees()} C")
    cold = record(app, "cold", ["--replay"], command, env)
    if cold is None:
        return []
    say(f"{app}: heating for {arguments.heat:.0f} s at {degrees()} C")
    call(f"{app}-heat", [program, arguments.heater, str(arguments.heat)], env, left())
    say(f"{app}: warm run begins at {degrees()} C")
    warm = record(app, "warm", ["--replay"], [*command, frames(f"{app}-cold")], env)
    if warm is None:
        return []
    traces = [out / f"{app}-{kind}.clscope" for kind in ("cold", "warm")]
    text = call(f"{app}-both", [binary / "clscope", "report", *traces, "--limit", "0", "--format", "json"], env, left())
    both = json.loads(text)["energy"]["devices"][:1] if text else []
    call(f"{app}-diff-text", [binary / "clscope", "diff", *traces, "--force", "--limit", "0"], env, left())
    text = call(f"{app}-diff", [binary / "clscope", "diff", *traces, "--force", "--format", "json"], env, left())
    changes = json.loads(text)["rows"] if text else []
    changes = {r["name"]: r for r in changes if r["section"] == "kernel" and r["metric"] == "energy" and r["change"]}
    lines = [f"\n{app}"]
    for kind, device in (("cold", cold["device"]), ("warm", warm["device"]), ("both", both[0] if both else None)):
        lines.append(f"  {kind}: {per_degree(device)}")
    lines.append(f"  {'mJ a launch at 50 C':18} {'cold, alone':>19} {'warm, alone':>19} {'apart':>7}   {'both, one figure':>19}   {'diff: cold':>10} {'warm':>9} {'apart':>7} interval")
    sides, all_of = (classes(cold), classes(warm)), classes({"device": both[0]} if both else None)
    for name in sides[0]:
        at = [side.get(name, {}).get("joules_per_launch_at_50_c") for side in sides]
        apart = f"{100 * (at[1]['value'] / at[0]['value'] - 1):+6.2f} %" if all(at) else "      -"
        pooled = (all_of.get(name) or {}).get("joules_per_launch_at_50_c")
        row = changes.get(name)
        line = f"  {name:18} {figure(at[0]):>19} {figure(at[1]):>19} {apart}   {figure(pooled):>19}"
        if row:
            low, high = (row["change"][end] for end in ("low", "high"))
            ends = f"{100 * low:+.1f} to {100 * high:+.1f} %" if low is not None and high is not None else "not judged"
            line += f"   {row['base'] * 1e3:10.4f} {row['new'] * 1e3:9.4f} {100 * row['change']['value']:+6.2f} % {ends}"
        lines.append(line)
    return lines


if arguments.temperatures:
    lines = []
    for app in arguments.apps.split(","):
        need = 2 * arguments.seconds + arguments.heat + 60
        if app == "face" or left() < need:
            say(f"left out: {app}")
            continue
        text = call(f"{app}-rounds", [program, "rounds", app], environment, left()) or ""
        rounds = next((line.split()[1] for line in text.splitlines() if line.startswith("rounds ")), None)
        if rounds:
            lines += cold_and_warm(app, dict(environment, ENERGY_APPS_ROUNDS=rounds))
            (out / "table.txt").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    raise SystemExit

results = {}
for app in arguments.apps.split(","):
    need = 3 * arguments.seconds + 45
    if left() < need:
        say(f"left out for lack of time: {app}")
        continue
    face, env = app == "face", environment
    if face:
        if not arguments.photo:
            say("face: left out: no --photo")
            continue
        env = face_environment
        command = [sys.executable, here / "face_loop.py", str(arguments.seconds), arguments.photo]
        before = {}
    else:
        text = call(f"{app}-rounds", [program, "rounds", app], env, left()) or ""
        rounds = next((line.split()[1] for line in text.splitlines() if line.startswith("rounds ")), None)
        if rounds is None:
            continue
        env = dict(env, ENERGY_APPS_ROUNDS=rounds)
        command = [program, app, str(arguments.seconds)]
        truth = in_situ(app, env) if arguments.insitu else None
        before = {} if arguments.insitu else alone(app, "before", env)
    plain = record(app, "plain", [], command, env)
    # The application's own work is the same with the option, however long that makes it.
    same = [*command, frames(f"{app}-plain")] if plain else command
    option = record(app, "replay", ["--replay"], same, env)
    after = alone(app, "after", env) if not face and not arguments.insitu and left() > 20 else {}
    results[app] = {"insitu": None if face else truth, "before": before, "after": after, "plain": plain, "option": option}
    say(f"{app}: plain {plain['seconds'] if plain else 0:.1f} s, with the option {option['seconds'] if option else 0:.1f} s")
    if app == arguments.apps.split(",")[0] and power.error is None:
        counted = (app, same, env)
if left() > 3 * arguments.seconds + 30 and power.error is None and results and not arguments.insitu:
    app, same, env = counted
    record(app, "counters", ["--replay", "--counters", "gpm"], same, env)
    say(f"{app} with counters")
power.stopped = True
(out / "results.json").write_text(json.dumps(results, indent=1))

table = []


def captured(app):
    """Joules above idle of a launch of each kernel by captured launches alone, as `record --replay` measured them."""
    found = {}
    for line in (out / f"{app}-replay.clscope" / "measured.jsonl").read_text().splitlines():
        row = json.loads(line)
        for w in row["windows"]:
            idle, restoring = w["idle_watts"]["value"], w["restoring"]
            joules = (w["watts"]["value"] - idle) * w["seconds"] / w["launches"]
            joules -= (restoring["watts"]["value"] - idle) * restoring["seconds"] if restoring else 0
            found.setdefault(row["launch"]["name"], []).append(joules)
    return {name: sum(each) / len(each) for name, each in found.items()}


def compare(app, of):
    """Joules above idle of each kernel against those of the run itself: the rows that have both."""
    found, rows, alone = classes(of["option"]), [], captured(app)
    truth = {name: t for name, t in (of["insitu"] or {}).items() if name in found}
    whole = sum(t["joules"] * found[name]["launches"] for name, t in truth.items())
    table.append(f"\n{app}  (mJ a launch above idle, in the run; 2 se)")
    device = (of["option"] or {}).get("device") or {}
    if truth and device.get("temperature"):
        warm, at = device["temperature"]["mean_c"], of["insitu"]
        idle = at[" rest"] + at[" degree"] * (warm - at[" cold"])
        table.append(f"{'idle':10} {idle:.1f} W at {warm:.1f} C, reported {figure(device['floors'][0]['watts'], 1).strip()}")
    for name, t in truth.items():
        c = found[name]
        dynamic, launches = c["dynamic_joules"], c["launches"]
        line = f"{name:10} {100 * t['joules'] * launches / whole:5.1f} % {t['joules'] * 1e3:9.4f} +-{200 * t['se'] / t['joules']:5.1f} %"
        if dynamic is None or not launches:
            table.append(f"{line}  not known: {c['why']}")
            continue
        value, low, high = (dynamic[k] / launches for k in ("value", "low", "high"))
        apart = alone[name] / t["joules"] - 1 if name in alone else None
        error, allowed = value / t["joules"] - 1, 0.03 + 2 * t["se"] / t["joules"]
        inside = low - 2 * t["se"] <= t["joules"] <= high + 2 * t["se"]
        rows.append((abs(error) <= allowed, inside, (high - low) / 2 / value, apart, t["se"] / t["joules"]))
        table.append(f"{line} {value * 1e3:9.4f} +-{50 * (high - low) / value:5.1f} % error {100 * error:6.1f} %  {'good' if abs(error) <= allowed else 'FAR '} {'inside' if inside else 'OUTSIDE'}, captures {'-' if apart is None else f'{100 * apart:+.1f} %'}")
    return rows


if arguments.insitu:
    all_rows = [row for app, of in results.items() for row in compare(app, of)]
    half = sorted(row[2] for row in all_rows)
    table.append(f"\n{len(all_rows)} kernels: within 3 % and 2 se {sum(r[0] for r in all_rows)}, inside {sum(r[1] for r in all_rows)}, median half-width {100 * half[len(half) // 2] if half else 0:.1f} %")
    # What the truth errs by is no difference between captures and the run; where it errs by 2 % nothing is seen of it.
    apart = [row[3] ** 2 - row[4] ** 2 for row in all_rows if row[3] is not None and row[4] < 0.02]
    if apart:
        table.append(f"captures against the run: {100 * max(sum(apart) / len(apart), 0) ** 0.5:.1f} %, root mean square of {len(apart)} kernels, errors of the truth taken off")
    text = "\n".join(table) + "\n"
    (out / "table.txt").write_text(text)
    print(text)
    raise SystemExit


def show(value, scale=1e3, digits=4):
    return "-" if value is None else f"{value * scale:.{digits}f}"


errors = []
for app, of in results.items():
    plain, option = classes(of["plain"]), classes(of["option"])
    device = of["option"]["device"] if of["option"] else None
    floor = next((f["watts"]["value"] for f in device["floors"] if f["watts"]), 0) if device else 0

    def truth_of(name):
        """Mean of before and after: watts, seconds and joules of one, and by how much the two differ."""
        key = name.replace(" ", "_")
        both = [t[key] for t in (of["before"], of["after"]) if t.get(key, {}).get("joules")]
        if not both:
            return None
        mean = {k: sum(t[k] for t in both) / len(both) for k in ("watts", "period", "joules")}
        mean["drift"] = both[1]["joules"] / both[0]["joules"] - 1 if len(both) == 2 else None
        mean["dynamic"] = mean["joules"] - floor * mean["period"]
        return mean

    truths = {name: truth_of(name) for name in option}
    whole = sum(t["dynamic"] * option[n]["launches"] for n, t in truths.items() if t)
    table.append(f"\n{app}  (mJ a launch; share of dynamic energy, alone)")
    table.append(
        f"{'what':18} {'share':>6} {'launches':>8} {'alone':>9} {'drift':>6} {'W':>5} {'us':>8} {'in the run':>10} {'option':>9} {'+-':>5} "
        f"{'error':>6} inside {'dynamic':>9} {'error':>6}  by"
    )
    for name, c in option.items():
        truth = truths[name]
        j, p = c["joules_per_launch"], (plain.get(name) or {}).get("joules_per_launch")
        share = truth["dynamic"] * c["launches"] / whole if truth and whole else None
        error = j["value"] / truth["joules"] - 1 if j and truth else None
        inside = j and truth and j["low"] <= truth["joules"] <= j["high"]
        dynamic = c["dynamic_joules"]["value"] / c["launches"] if c["dynamic_joules"] is not None and c["launches"] else None
        dynamic_error = dynamic / truth["dynamic"] - 1 if dynamic is not None and truth and truth["dynamic"] else None
        half = j and (j["high"] - j["low"]) / 2 / j["value"]
        if error is not None:
            errors.append((app, name, share, error, bool(inside), half, dynamic_error))
        table.append(
            f"{name:18} {show(share, 100, 1):>6} {c['launches']:8.0f} {show(truth and truth['joules']):>9} {show(truth and truth['drift'], 100, 1):>6} "
            f"{show(truth and truth['watts'], 1, 0):>5} {show(truth and truth['period'], 1e6, 2):>8} {show(p and p['value']):>10} {show(j and j['value']):>9} "
            f"{show(half, 100, 1):>5} {show(error, 100, 1):>6} {'-' if truth is None or not j else 'yes' if inside else 'NO':6} "
            f"{show(dynamic):>9} {show(dynamic_error, 100, 1):>6}  {c['why'] or ''}"
        )
    if device:
        table.append(f"  floors {[(f['watts'] or {}).get('value') for f in device['floors']]} W; measured {device['measured_joules']:.0f} J, unattributed {device['unattributed_joules']:.1f} J")
        again = device.get("repetitions") or {}
        if again:
            table.append(f"  added: {of['option']['seconds'] - of['plain']['seconds']:.1f} s of wall time, {again['length_ns'] * 1e-9:.1f} s of batches")
        for r in device.get("replays", []):
            j = r["joules_per_launch"]
            table.append(f"  repeated {r['name']}: {r['batches']} batches, {r['launches']} launches, {show(j and j['value'])} mJ; {r['failed'] or ''}")
for low, high in ((0.05, 2), (0.02, 0.05), (0, 0.02)):
    some = [e for e in errors if e[2] is not None and low <= e[2] < high]
    if some:
        rms = (sum(e[3] ** 2 for e in some) / len(some)) ** 0.5
        table.append(
            f"\nshare {low:.0%} and more, below {high:.0%}: {len(some)} figures, rms error {100 * rms:.2f} %, inside {sum(e[4] for e in some)}, mean half-width {100 * sum(e[5] for e in some) / len(some):.1f} %, "
            f"rms error of dynamic {100 * (sum((e[6] or 0) ** 2 for e in some) / len(some)) ** 0.5:.2f} %"
        )
text = "\n".join(table) + "\n"
(out / "table.txt").write_text(text)
print(text)
say("done")
