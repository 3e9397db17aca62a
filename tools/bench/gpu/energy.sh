#!/bin/bash
# Joules per kernel against the truth on a real GPU: runs energy_mix alone and in mixes under `clscope record` and leaves
# the reports in OUT. Takes about nine minutes. Then: energy_table.py OUT
#
#   energy.sh BIN OUT     BIN holds clscope, libclscope.so, libclscope_audit.so and energy_mix
#
# Environment: WORK, where traces go (default: a temporary directory; some hundred MB each); LIMIT, seconds after which
# no further run is begun (default 500); MIXES, runs of 60 s (default 4).
set -u
bin=$(realpath "$1") out=$2
mkdir -p "$out"
out=$(realpath "$out")
work=${WORK:-$(mktemp -d)}
limit=${LIMIT:-500}
cd "$work" || exit 1
jobs=$work/jobs
: > "$jobs"

# record NAME [OPTION...] -- ARGUMENTS of energy_mix
record() {
    local name=$1
    shift
    local options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    if [ "$SECONDS" -gt "$limit" ]; then
        echo "left out for lack of time: $name" | tee -a "$out/left-out"
        return 1
    fi
    timeout 180 "$bin/clscope" record -f -o "$work/$name" "${options[@]}" -- "$bin/energy_mix" "$@" > "$out/$name.log" 2>&1
    local code=$?
    echo "$SECONDS s: $name (exit $code)"
    du -sm "$work/$name.clscope" >> "$out/sizes"
    return $code
}

# Every launch timed, but for the runs that are about sampling.
all=(--device-timing event)

# report NAME SUFFIX [OPTION...]: put off until all recordings are made
report() {
    echo "'$bin/clscope' report '$work/$1.clscope' --format json --limit 0 ${*:3} > '$out/$1$2.json' 2> '$out/$1$2.err'" >> "$jobs"
}

"$bin/clscope" doctor > "$out/doctor.txt" 2>&1
nvidia-smi > "$out/nvidia-smi.txt" 2>&1
# Warms the device up: its power rises with its temperature.
record warm-up "${all[@]}" -- mix 10 99
for kernel in fp32 fp64 memory sparse; do
    record "alone-$kernel" "${all[@]}" -- alone $kernel 10 && report "alone-$kernel" "" --energy-window 5..11
done
for kernel in $("$bin/energy_mix" list | grep '^e_'); do
    record "alone-$kernel" "${all[@]}" -- alone "$kernel" 5 && report "alone-$kernel" "" --energy-window 3.5..6.5
done
for seed in $(seq "${MIXES:-4}"); do
    record "mix-$seed" "${all[@]}" -- mix 60 "$seed" && {
        report "mix-$seed" ""
        for from in 8 13 18 23 28 33 38 43 48 53; do
            report "mix-$seed" ".$from" --energy-window $from..$((from + 5))
        done
    }
done
record eight-1 "${all[@]}" -- eight 60 1 && report eight-1 ""
record steady "${all[@]}" -- steady-mix 10 && report steady ""
if "$bin/clscope" record --help | grep -q 'sample'; then
    record sampled-1 --device-timing sample -- mix 60 11 && report sampled-1 ""
fi
echo "$SECONDS s: reports"
xargs -P 12 -I{} bash -c '{}' < "$jobs"
"$bin/clscope" report "$work/mix-1.clscope" > "$out/mix-1.txt" 2>&1
echo "$SECONDS s: done"
