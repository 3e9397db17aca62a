#!/bin/bash
# reading.sh OUT: how fast traces are read. Records two applications on the OpenCL library of the fixtures, 16 million host
# calls and 2 million timed launches, and prints for each command the processor time, records a second of it, and the most
# memory. OUT keeps traces and outputs (some 5 GB on the way). With PROFILE=1 also where the time goes (perf record).
#
# Environment:
#   BIN    folder of clscope and libclscope.so (default: target/release)
#   CALLS  host calls of the first (default 16000000); LAUNCHES of the second (default 2000000)
#   RUNS   runs of each command, of which the median counts (default 3)
set -eu
out=${1:?reading.sh OUT}
here=$(cd "$(dirname "$0")/../.." && pwd)
bin=$(realpath "${BIN:-$here/target/release}")
calls=${CALLS:-16000000} launches=${LAUNCHES:-2000000} runs=${RUNS:-3}
mkdir -p "$out"
cd "$out"
sh "$here/tests/fixtures/build.sh" "$PWD/fixtures" >&2
export LD_LIBRARY_PATH=$PWD/fixtures/fake
"$bin/clscope" record -q -f --without joined-calls --sensors off -o calls -- fixtures/cheap_calls $((calls / 4)) 1 >/dev/null
"$bin/clscope" record -q -f --sensors off --device-timing event -o launches -- fixtures/enqueue_bench "$launches" 1000 bare \
    >/dev/null

# Processor seconds (user and system) and KiB of a run, each the median.
measured() { # COMMAND...
    local run
    for run in $(seq "$runs"); do
        /usr/bin/env python3 - "$@" <<'PYTHON'
import resource, subprocess, sys
with open("said", "wb") as said:
    subprocess.run(sys.argv[1:], check=True, stdout=said, stderr=said)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
PYTHON
    done | sort -n | sed -n "$((runs / 2 + 1))p"
}

printf '%-34s %10s %14s %10s\n' command 'CPU s' 'records/s' MiB
for trace in calls launches; do
    # A timed launch is two records: its call, and its time.
    records=$("$bin/clscope" report --format json $trace.clscope 2>said |
        python3 -c 'import json, sys; t = json.load(sys.stdin)["totals"]; print(t["calls"] + t["timed"])')
    for command in "report" "export chrome -o timeline.json" "export parquet -o tables"; do
        rm -rf tables timeline.json
        # shellcheck disable=SC2086
        read -r seconds memory < <(measured "$bin/clscope" $command $trace.clscope)
        python3 -c "print(f'{\"${command%% -o*} $trace\":34} {$seconds:10.2f} {$records / $seconds:14,.0f} {$memory / 1024:10.0f}')"
        if [ "${PROFILE:-0}" = 1 ]; then
            rm -rf tables timeline.json
            # shellcheck disable=SC2086
            perf record -q -F 500 -o profile "$bin/clscope" $command $trace.clscope >said 2>&1
            perf report -i profile --stdio --percent-limit 3 2>/dev/null | grep -v -e '^#' -e '^$'
        fi
    done
done
rm -rf tables timeline.json
