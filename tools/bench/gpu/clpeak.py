#!/usr/bin/env python3
"""Measures one device with clpeak and with `clscope-lab` in turns and prints both side by side, as Markdown.

    clpeak.py [--clscope PATH] [--clpeak PATH] [--rounds N] [--device N] [--platform N] [--out DIR]

Each round runs one after the other, so that clocks and heat are alike; figures are medians of the rounds, with the
widest deviation from them. clpeak counts what `clscope-lab` counts: a product and a sum as two operations, bytes that
are read. --platform and --device are clpeak's numbers of the device, --ours is the number in `clscope bench devices`.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

WIDTHS = {"": "scalar", "2": "vect2", "4": "vect4", "8": "vect8", "16": "vect16"}
# Heading of clpeak, its word for the type, its unit, the cases of ours.
SECTIONS = [
    ("Global memory bandwidth", "float", "GB/s", "memory/read/{}/"),
    ("Single-precision compute", "float", "GFLOP/s", "flop/private/float/fma/{}"),
    ("Double-precision compute", "double", "GFLOP/s", "flop/private/double/fma/{}"),
    ("Integer compute", "int", "GOP/s", "flop/private/int/mad/{}"),
]
CASES = ["memory/read", "flop/private/float/fma", "flop/private/double/fma", "flop/private/int/mad"]


def theirs(text):
    """{(heading, width): value} of clpeak's output."""
    found, heading, word = {}, None, None
    for line in text.splitlines():
        section = next((s for s in SECTIONS if s[0] in line), None)
        if section:
            heading, word = section[0], section[1]
        elif heading and (row := re.match(r"\s+([a-z]+)(\d*)\s*:\s*([\d.]+)\s*$", line)) and row[1] == word:
            found[heading, row[2]] = float(row[3])
        elif heading and re.match(r"\s+\S.*\(.*\)\s*$", line):
            heading = None  # a section that is not compared
    return found


def ours(results):
    """The same of results.json: the best case of that name."""
    found = {}
    for heading, _, _, pattern in SECTIONS:
        for number, name in WIDTHS.items():
            fits = [c for c in results["cases"] if c["id"].startswith(pattern.format(name)) and c["status"] == "measured"]
            values = [f["value"] for c in fits for f in c["figures"] if f["name"] in ("rate", "bandwidth")]
            if values:
                found[heading, number] = max(values)
    return found


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr}{done.stdout[-2000:]}")
    return done.stdout


def shown(values):
    middle = statistics.median(values)
    spread = max(abs(v - middle) for v in values) / middle * 100
    number = f"{middle:,.0f}" if middle >= 100 else f"{middle:.2f}"
    return middle, f"{number} ±{spread:.1f} %" if len(values) > 1 else number


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--lab", default="clscope-lab")
parser.add_argument("--clpeak", default="clpeak")
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--platform", default="0")
parser.add_argument("--device", default="0")
parser.add_argument("--ours", help="number or name of the device for clscope; its own choice without")
parser.add_argument("--out", type=pathlib.Path, help="where to keep what both wrote")
options = parser.parse_args()
tests = ["--use-event-timer", "--global-bandwidth", "--compute-sp", "--compute-dp", "--compute-integer"]
peak = [options.clpeak, "-p", options.platform, "-d", options.device, *tests]
bench = [options.lab, *CASES, "--full", "--format", "json"]
bench += ["--device", options.ours] if options.ours else []
rounds = []
for n in range(options.rounds):
    text, results = run(peak), run(bench)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / f"clpeak-{n}.txt").write_text(text)
        (options.out / f"clscope-{n}.json").write_text(results)
    rounds.append((theirs(text), ours(json.loads(results))))
print(f"| what | clpeak | clscope-lab | ratio |\n|---|---:|---:|---:|")
for heading, word, unit, _ in SECTIONS:
    for number in WIDTHS:
        key = heading, number
        both = [[r[side][key] for r in rounds if key in r[side]] for side in (0, 1)]
        if not all(both):
            continue
        (a, left), (b, right) = map(shown, both)
        print(f"| {heading}, {word}{number} ({unit}) | {left} | {right} | {b / a:.3f} |")
