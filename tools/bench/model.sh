#!/bin/bash
# model.sh [OUT]: measures the parameters of the first OpenCL device as `clscope bench model --quick` does, writes them to OUT
# (else device.json) and checks them: the figures that bound kernels are there, each within its interval, and what is printed is
# what is kept. A minute or two. tests/fixtures/device.json is such a file. BIN: folder of clscope (default: target/release).
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(realpath "${BIN:-$here/target/release}")
out=$(realpath -m "${1:-device.json}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
XDG_CACHE_HOME=$folder "$bin/clscope" bench model --quick --format json >"$out"
python3 - "$out" "$folder"/clscope/models/*.json <<'PYTHON'
import json, sys
printed, kept = (json.load(open(path)) for path in sys.argv[1:])
assert printed == kept, "what is printed is not what is kept"
assert printed["schema"] == "clscope-device/4", printed["schema"]
for name in ["bandwidth.dram", "bandwidth.l1", "bandwidth.local", "rate.fp32.fma", "latency.add", "launch.period"]:
    figure = printed["parameters"].get(name)
    if name == "bandwidth.l1" and figure is None:
        # A busy machine may hide the plateaus of caches: then that is said.
        assert printed["absent"][name]
        continue
    assert 0 <= figure["low"] <= figure["value"] <= figure["high"], (name, figure)
    print(f"{name:<16} {figure['low']:.4g} <= {figure['value']:.4g} <= {figure['high']:.4g}")
assert printed["absent"]["idle"] and printed.get("energy") is None
PYTHON
