#!/usr/bin/env python3
"""Prints what energy.sh found: errors of joules per kernel against the same kernel alone, as Markdown.

    energy_table.py OUT

Truth is (energy - floor x time not busy) / busy time of the seconds in which the kernel ran alone, in the runs truth-*;
with two of them their mean, and half of their difference beside it. The columns `plain` and
`1 s` are what tools find that integrate the sensor, or its one-second average, over the spans.
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


def kernels(found):
    return [c for c in found["classes"] if c["kind"] == "kernel" and c["covered_seconds"] > 0]


measured = {}
for path in sorted(out.glob("truth*-*.*.json")):
    name = path.name.split(".")[1]
    found = device(path)
    if not found:
        continue
    floor = found["floors"][0]["watts"]
    busy = sum(k["covered_seconds"] for k in found["classes"])
    idle = found["seconds"] - busy
    measured.setdefault(name, []).append((found["measured_joules"] - (floor["value"] if floor else 0) * idle) / busy)
truth = {name: sum(watts) / len(watts) for name, watts in measured.items()}
# How far two measurements of the truth itself lie apart; unknown with one.
half = {name: (max(watts) - min(watts)) / 2 for name, watts in measured.items()}


def percent(x):
    return "-" if x is None or math.isnan(x) else f"{100 * x:+.1f} %"


def table(title, paths):
    """One line per kernel over runs: rms error, mean interval, coverage, and the other estimators' mean errors."""
    rows = {}
    for path in paths:
        found = device(path)
        for c in kernels(found) if found else []:
            if c["name"] in truth:
                rows.setdefault(c["name"], []).append((c, found))
    if not rows:
        return
    print(f"\n**{title}**\n")
    print("| kernel | alone | runs | given | rms error | mean error | interval | covered | plain | 1 s |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, found in rows.items():
        want = truth[name]
        share = sum(c["covered_seconds"] / max(sum(k["covered_seconds"] for k in d["classes"]), 1e-9) for c, d in found) / len(found)
        errors = [c["watts"]["value"] / want - 1 for c, _ in found if c["watts"]]
        widths = [(c["watts"]["high"] - c["watts"]["low"]) / 2 / c["watts"]["value"] for c, _ in found if c["watts"]]
        # The truth has an interval of its own.
        def hit(c):
            return c["watts"]["low"] - half[name] <= want <= c["watts"]["high"] + half[name]
        covered = [hit(c) for c, _ in found if c["watts"]]
        strict = [c["watts"]["low"] <= want <= c["watts"]["high"] for c, _ in found if c["watts"]]
        mean = lambda xs: sum(xs) / len(xs) if xs else float("nan")
        plain = mean([c["plain_watts"] / want - 1 for c, _ in found if c["plain_watts"]])
        second = mean([c["second_average_watts"] / want - 1 for c, _ in found if c["second_average_watts"]])
        rms = math.sqrt(mean([e * e for e in errors])) if errors else float("nan")
        print(
            f"| {name} ({100 * share:.0f} %) | {want:.1f} ± {half[name]:.1f} W | {len(found)} | {len(errors)} | {100 * rms:.2f} % | {percent(mean(errors))} "
            f"| ± {100 * mean(widths):.2f} % | {sum(covered)}/{len(covered)} ({sum(strict)} without the truth's own) | {percent(plain)} | {percent(second)} |"
        )


table("Mixes of 60 s", sorted(p for p in out.glob("mix-*.json") if p.stem.count(".") == 0))
table("Pieces of 5 s", sorted(p for p in out.glob("mix-*.json") if p.stem.count(".") == 1))
table("Mix of 60 s, device timing sampled", sorted(out.glob("sampled-*.json")))
table("Eight kernels, 10 us to 50 ms, 60 s", sorted(out.glob("eight-*.json")))
for path in sorted(out.glob("steady-*.json")):
    steady = device(path)
    if not steady:
        continue
    print("\n**A mix that never varies**\n")
    for c in kernels(steady):
        print(f"- {c['name']}: {c['identifiability']}")
    for g in steady["groups"]:
        print(f"- {' + '.join(g['names'])}: {g['joules']['value']:.0f} J, {g['watts']['value']:.1f} W")
    total = sum(truth.get(c["name"], float("nan")) * c["covered_seconds"] for c in kernels(steady))
    got = sum(g["joules"]["value"] for g in steady["groups"])
    print(f"- sum {got:.0f} J; the kernels alone for as long: {total:.0f} J ({percent(got / total - 1)})")
for path in sorted(p for p in out.glob("mix-*.json") if p.stem.count(".") == 0):
    energy = json.loads(path.read_text())["energy"]
    for counter in energy["application"]:
        if counter["samples_differ"] is not None:
            print(f"\n{path.stem}: {counter['sensor']} {counter['joules']:.0f} J; samples integrated {percent(counter['samples_differ'])[:-2]} %")
    if energy["sampler"]:
        print(f"{path.stem}: sampling took {100 * energy['sampler']['share']:.2f} % of a core")
    for d in energy["devices"]:
        print(f"{path.stem}: floors {[(f['watts'] or {}).get('value') for f in d['floors']]}, response {d['response']}, drift {d['drift']}, unattributed {d['unattributed_joules']:.2f} J; notes {d['notes']}")
