#!/usr/bin/env python3
"""Prints what mixes.sh found: errors of joules per kernel against the same kernel alone, as Markdown.

    energy_table.py OUT

Truth is (energy - floor x time not busy) / launches of the stretches in which the kernel ran alone, in the runs truth-*: their
mean, with its 95 % interval from how they differ. Each process finds the rounds that make its kernels as long as wanted, so
that joules per launch are compared per round. The columns `plain` and `1 s` are what tools find that integrate the sensor, or
its one-second average, over the spans.
"""
import json
import math
import pathlib
import sys

out = pathlib.Path(sys.argv[1])


def device(path):
    """The first device's energy in a report; None where there is none."""
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    devices = report["energy"]["devices"]
    if not devices or devices[0]["failed"]:
        why = devices[0]["failed"] if devices else report["energy"]["absent"]
        print(f"{path.name}: {why}", file=sys.stderr)
        return None
    return devices[0]


def seconds(of, field):
    return of[field + "_ns"] * 1e-9


def kernels(found):
    return [c for c in found["classes"] if c["kind"] == "kernel" and c["covered_ns"] > 0]


def rounds(run):
    """Rounds of each kernel in a run of that name."""
    try:
        lines = (out / f"{run}.log").read_text().splitlines()
    except OSError:
        return {}
    words = [line.split() for line in lines if line.startswith("kernel ")]
    return {w[1]: int(w[3]) for w in words if len(w) > 3}


def launches(c):
    return seconds(c, "covered") / (seconds(c, "busy") / c["launches"])


# Joules a round and watts, of every stretch in which a kernel ran alone.
measured = {}
for path in sorted(out.glob("truth*-*.*.json")):
    run, name = path.name.split(".")[:2]
    found = device(path)
    own = [c for c in kernels(found) if c["name"] == name] if found else []
    if not own or name not in rounds(run):
        continue
    floor = found["floors"][0]["watts"] if found["floors"] else None
    busy = sum(seconds(k, "covered") for k in found["classes"])
    joules = found["measured_joules"] - (floor["value"] if floor else 0) * (seconds(found, "time") - busy)
    # Another kernel's launch that reaches into the stretch is counted as this one's.
    measured.setdefault(name, []).append((joules / (launches(own[0]) * busy / seconds(own[0], "covered")) / rounds(run)[name], joules / busy))


# Student's t, 97.5 %, by degrees of freedom; 2 above.
T = [math.inf, 12.7, 4.3, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23]


def interval(values):
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1) / len(values))
    return mean, (T[len(values) - 1] if len(values) <= len(T) else 2.0) * spread


truth = {name: interval([j for j, _ in values])[0] for name, values in measured.items()}
half = {name: interval([j for j, _ in values])[1] / truth[name] for name, values in measured.items()}
watts = {name: interval([w for _, w in values])[0] for name, values in measured.items()}


def percent(x):
    return "-" if x is None or math.isnan(x) else f"{100 * x:+.1f} %"


def table(title, paths):
    """One line per kernel over runs: rms error, mean interval, coverage, and the other estimators' mean errors."""
    rows = {}
    for path in paths:
        found = device(path)
        of = rounds(path.name.split(".")[0])
        for c in kernels(found) if found else []:
            if c["name"] in truth and c["name"] in of:
                rows.setdefault(c["name"], []).append((c, found, truth[c["name"]] * of[c["name"]]))
    if not rows:
        return
    print(f"\n**{title}**\n")
    print("| kernel | alone | runs | given | rms error | mean error | interval | covered | plain | 1 s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    mean = lambda xs: sum(xs) / len(xs) if xs else float("nan")
    for name, found in rows.items():
        share = mean([seconds(c, "covered") / max(sum(seconds(k, "covered") for k in d["classes"]), 1e-9) for c, d, _ in found])
        given = [(c["joules_per_launch"], want) for c, _, want in found if c["joules_per_launch"]]
        errors = [j["value"] / want - 1 for j, want in given]
        widths = [(j["high"] - j["low"]) / 2 / j["value"] for j, _ in given]
        # The truth has an interval of its own.
        def hits(slack):
            return sum(j["low"] <= want * (1 + slack) and want * (1 - slack) <= j["high"] for j, want in given)
        own = 0 if math.isnan(half[name]) else half[name]
        length = lambda c: seconds(c, "busy") / c["launches"]
        plain = mean([c["plain_watts"] * length(c) / want - 1 for c, _, want in found if c["plain_watts"]])
        second = mean([c["second_average_watts"] * length(c) / want - 1 for c, _, want in found if c["second_average_watts"]])
        rms = math.sqrt(mean([e * e for e in errors])) if errors else float("nan")
        print(
            f"| {name} ({100 * share:.0f} %) | {watts[name]:.1f} W ± {100 * own:.2f} % | {len(found)} | {len(errors)} | {100 * rms:.2f} % | {percent(mean(errors))} "
            f"| ± {100 * mean(widths):.2f} % | {hits(own)}/{len(given)} ({hits(0)} without the truth's own) | {percent(plain)} | {percent(second)} |"
        )


def reports(kind, dots):
    """Reports of runs of a kind: of whole runs (no dots), or of pieces (one)."""
    return sorted(p for p in out.glob(f"{kind}-*.json") if p.stem.count(".") == dots)


table("Mixes", reports("mix", 0))
table("Pieces of 5 s", reports("mix", 1))
table("Mixes, device timing sampled", reports("sampled", 0))
table("Eight kernels, 10 us to 50 ms", reports("eight", 0))
table("The same in pieces of 5 s", reports("eight", 1))
table("Two processes on one device", reports("two", 0))
for path in reports("two", 0):
    print(f"\n{path.stem}: {(device(path) or {}).get('shared')}")
for path in sorted(out.glob("replay-*.json")):
    found, of = device(path), rounds(path.stem)
    print("\n**Replayed**\n")
    for r in found["replays"] if found else []:
        want = truth.get(r["name"], math.nan) * of.get(r["name"], math.nan)
        j = r["joules_per_launch"]
        print(f"- {r['name']}: " + (r["failed"] or f"{1e3 * j['value']:.3f} mJ ({percent(j['value'] / want - 1)}), {1e3 * j['low']:.3f} to {1e3 * j['high']:.3f}, {r['watts']['value']:.1f} W, {r['batches']} batches"))
for path in sorted(out.glob("steady-*.json")):
    steady = device(path)
    if not steady:
        continue
    print("\n**A mix that never varies**\n")
    for c in kernels(steady):
        print(f"- {c['name']}: {c['why']}")
    for g in steady["groups"]:
        print(f"- {' + '.join(g['names'])}: {g['joules']['value']:.0f} J, {g['watts']['value']:.1f} W")
    total = sum(watts.get(c["name"], float("nan")) * seconds(c, "covered") for c in kernels(steady))
    got = sum(g["joules"]["value"] for g in steady["groups"])
    print(f"- sum {got:.0f} J; the kernels alone for as long: {total:.0f} J ({percent(got / total - 1)})")
for path in reports("mix", 0):
    energy = json.loads(path.read_text())["energy"]
    for counter in energy["application"]:
        if counter["samples_differ"] is not None:
            print(f"\n{path.stem}: {counter['sensor']} {counter['joules']:.0f} J; samples integrated {percent(counter['samples_differ'])[:-2]} %")
    if energy["sampler"]:
        print(f"{path.stem}: sampling took {100 * energy['sampler']['share']:.2f} % of a core")
    for d in energy["devices"]:
        print(f"{path.stem}: floors {[(f['watts'] or {}).get('value') for f in d['floors']]}, response {d['response']}, drift {d['drift']}, unattributed {d['unattributed_joules']:.2f} J; notes {d['notes']}")
