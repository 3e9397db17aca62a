#!/bin/bash
# ranks.sh OUT: a job of many ranks, from recording to answers. Records RANKS ranks of COMMANDS timed launches on the OpenCL
# library of the fixtures; then reports them by rank, lets each export its tables to one folder, and asks DuckDB. Prints for
# each step processor time and most memory, and compares the sums. OUT keeps traces and tables: 95 bytes a launch, and 30.
#
# Memory is that of the process alone (RssAnon), looked at ten times a second: pages of the mapped traces are the system's,
# which takes them back. In parentheses with them. `of one rank` is what the same command takes of one.
#
# Environment:
#   BIN      folder of clscope and libclscope.so (default: target/release)
#   RANKS    ranks (default 64); COMMANDS of each (default 1000000)
#   ENGINE   DuckDB's program, or a Python that has its module (default: what PATH has)
set -eu
out=${1:?ranks.sh OUT}
here=$(cd "$(dirname "$0")/../.." && pwd)
export bin
bin=$(realpath "${BIN:-$here/target/release}")
ranks=${RANKS:-64} commands=${COMMANDS:-1000000}
export CLSCOPE_DUCKDB=${ENGINE:-}
mkdir -p "$out"
cd "$out"
sh "$here/tests/fixtures/build.sh" "$PWD/fixtures" >&2
rm -rf data
for rank in $(seq 0 $((ranks - 1))); do
    # Ranks differ, as those of jobs do: the last has a tenth more.
    count=$((commands + commands * rank / ranks / 10))
    PMI_RANK=$rank LD_LIBRARY_PATH=$PWD/fixtures/fake "$bin/clscope" record -q -f --sensors off --device-timing event \
        -o "rank$rank" -- fixtures/enqueue_bench "$count" 1000 bare >/dev/null
done

# Runs a command; its stdout goes to the file `answer`. Prints processor seconds, MiB of its own and of all, and the name.
measured() { # NAME COMMAND...
    python3 - "$@" <<'PYTHON'
import os, re, resource, subprocess, sys, threading

def own(pid):
    try:
        with open(f"/proc/{pid}/status") as status:
            found = re.search(r"RssAnon:\s+(\d+)", status.read())
        children = open(f"/proc/{pid}/task/{pid}/children").read().split()
    except OSError:
        return 0
    return max([int(found.group(1)) if found else 0, *map(own, children)])

with open("answer", "wb") as answer:
    child = subprocess.Popen(sys.argv[2:], stdout=answer, stderr=subprocess.DEVNULL)
    most, ended = 0, threading.Event()
    def look():
        global most
        while not ended.wait(0.1):
            most = max(most, own(child.pid))
    watch = threading.Thread(target=look)
    watch.start()
    status = child.wait()
    ended.set()
    watch.join()
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{used.ru_utime + used.ru_stime:9.1f} s {most / 1024:8.0f} ({used.ru_maxrss / 1024:.0f}) MiB  {sys.argv[1]}")
sys.exit(status)
PYTHON
}

measured 'report --by rank, of one rank' "$bin/clscope" report --by rank --format json rank0.clscope
measured 'report --by rank' "$bin/clscope" report --by rank --format json $(seq -f 'rank%.0f.clscope' 0 $((ranks - 1)))
mv answer by-rank.json
measured 'export parquet, of one rank' "$bin/clscope" export parquet -o data rank0.clscope
for rank in $(seq 1 $((ranks - 1))); do
    measured 'export parquet' "$bin/clscope" export parquet -o data "rank$rank.clscope"
done | sort -n -k 3 | tail -1
measured 'sql --recipe imbalance' "$bin/clscope" sql --recipe imbalance --format json data
mv answer imbalance.json
python3 - <<'PYTHON'
import json
report = json.load(open("by-rank.json"))
rows = {row["rank"]: row for row in report["places"]["rows"]}
asked = {row["rank"]: row for row in json.load(open("imbalance.json"))}
assert rows.keys() == asked.keys(), (sorted(rows), sorted(asked))
for rank, row in rows.items():
    want, found = row["device_ns"]["value"], asked[rank]["busy_ns"]
    assert want == found, f"rank {rank}: report has {want} ns, sql {found}"
print(f"{len(rows)} ranks, {sum(row['launches'] for row in rows.values()):,} launches: sums of report and sql are equal")
PYTHON
