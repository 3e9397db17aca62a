"""paced.py CLSCOPE FOLDER: compares totals of sampled timing with those of the same application timed completely.

FOLDER holds traces METHOD-REGIME[-N].clscope: METHOD `event` is the truth, every other one is judged. Prints, for each regime, method and class of
commands: how many were timed, the half-width of the 95 % interval of their total, the mean against that of the complete runs, how far those differ
among themselves, and in how many runs the interval, widened by that difference, holds their mean. Exits with 1 if nothing could be compared.
"""

import json
import pathlib
import statistics
import subprocess
import sys


def classes(clscope, trace):
    """Kernels and transfers of a trace: launches, timed ones, mean of a launch with its interval, ns."""
    done = subprocess.run([clscope, "report", "--format", "json", str(trace)], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    out = {}
    for row in report["kernels"] + report["transfers"]:
        estimate = row.get("estimate")
        if estimate and estimate["mean_ns"]:
            mean = estimate["mean_ns"]
            value = mean["value"], mean["low"], mean["high"]
        elif row["time_ns"]["count"]:
            mean = row["time_ns"]["total"] / row["time_ns"]["count"]
            value = mean, mean, mean
        else:
            continue
        out[row["name"]] = (row["count"], row["time_ns"]["count"], value)
    return out


def main():
    clscope, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    regimes = {}
    for trace in sorted(folder.glob("*-*.clscope")):
        method, regime = trace.name.removesuffix(".clscope").split("-", 1)
        regime = regime.rstrip("0123456789").rstrip("-") if regime[-2:-1] == "-" else regime
        regimes.setdefault(regime, {}).setdefault(method, []).append(classes(clscope, trace))
    compared = 0
    print(f"{'regime':16} {'method':7} {'class':12} {'launches':>8} {'timed':>7} {'half':>8} {'/event':>8} {'spread':>8}  held")
    for regime, methods in regimes.items():
        complete = methods.pop("event", [])
        for method, runs in methods.items():
            for name in [n for n in runs[0] if not n.startswith("warm")]:
                truths = [run[name][2][0] for run in complete if name in run]
                ours = [run[name] for run in runs if name in run]
                if not truths:
                    continue
                truth = statistics.mean(truths)
                spread = statistics.stdev(truths) if len(truths) > 1 else 0.0
                half = statistics.mean((v[2] - v[1]) / 2 / v[0] for _, _, v in ours)
                held = sum(v[1] - 2 * spread <= truth <= v[2] + 2 * spread for _, _, v in ours)
                timed = sum(t for _, t, _ in ours) / sum(n for n, _, _ in ours)
                mean = statistics.mean(v[0] for _, _, v in ours)
                print(
                    f"{regime:16} {method:7} {name[:12]:12} {ours[0][0]:8} {100 * timed:6.1f}% {100 * half:7.2f}% "
                    f"{mean / truth:8.4f} {100 * spread / truth:7.2f}%  {held} of {len(ours)}"
                )
                compared += 1
    sys.exit(0 if compared else 1)


main()
