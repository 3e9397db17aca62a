#!/bin/bash
# Joules per kernel against the truth on a real GPU: runs energy_mix by itself and in mixes under `clscope record` and
# leaves reports, a table and the traces in OUT. Never takes longer than BUDGET.
#
#   mixes.sh BIN OUT     BIN holds clscope, libclscope.so, libclscope_audit.so, energy_mix and energy_table.py
#
# Environment:
#   BUDGET  seconds for everything (default 270); recordings that would not end in time are left out and named
#   RUNS    what to record, in order: NAME:SECONDS of truth, truth-eight (seconds are those of each kernel), mix, eight,
#           sampled, steady, replay, two (two processes at once; this and replay behind a truth, whose rounds they take),
#           calibrate (the sensors' responses, into WORK: runs behind it use them)
#           (default: truth:3 mix:60 mix:60 sampled:30 steady:8 truth:3)
#   SEED    of the first mix (default 1)
#   WORK    where traces go (default: a temporary directory; some hundred MB)
#
# OUT gets energy.tar.xz (reports, logs, table) and traces.tar.00, 01, ...: each trace packed, in parts of 14 MB.
# To look at them: cat traces.tar.* | tar x; then for each: tar xJf NAME.tar.xz; clscope report NAME.clscope
set -u
bin=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
budget=${BUDGET:-270}
seed=${SEED:-1}
work=${WORK:-$(mktemp -d)}
mkdir -p "$work/energy" "$work/packed"
cd "$work" || exit 1
recording=
log=$work/energy
say() { echo "$SECONDS s: $*" | tee -a "$log/log.txt"; }

# Reports and packing go on beside the next recording, on other cores, at the lowest priority.
beside() {
    (
        trap - TERM EXIT
        renice -n 19 "$BASHPID" > /dev/null
        "$@"
    ) &
}

# report NAME SUFFIX [OPTION...]
report() {
    local file=$log/$1$2.json
    timeout 60 "$bin/clscope" report "$work/$1.clscope" --format json --limit 0 "${@:3}" > "$file.part" 2> "$log/$1$2.err" && mv "$file.part" "$file"
}

# pieces NAME FROM TO: reports of five seconds each
pieces() {
    local name=$1 from to
    while read -r from to; do
        report "$name" ".${from%%.*}" --window "$from..$to"
    done < <(awk -v from="$2" -v to="$3" 'BEGIN { for (; from + 5 <= to; from += 5) printf "%.3f %.3f\n", from, from + 5 }')
}

# alone NAME KIND: a report of each stretch in which one kernel ran, once the sensor has settled
alone() {
    local kernel from to
    while read -r _ kernel from to; do
        [ "$kernel" = "$2" ] && continue
        report "$1" ".$kernel.$from" --window "$(awk -v from="$from" -v to="$to" 'BEGIN { printf "%.3f..%.3f", from + 0.1, to }')"
    done < <(grep '^phase' "$log/$1.log")
}

# phase NAME: the last stretch that the program told, as report wants it; what it tries at its start has other lengths
phase() {
    awk '/^phase/ { last = $3 ".." $4 } END { print last }' "$log/$1.log"
}

# rounds: those of the first truth, for a program that is to make its kernels as long
rounds() {
    awk '/^kernel/ { printf "%s%s", comma, $4; comma = "," }' "$log/truth-1.log"
}

pack() {
    tar c "$1.clscope" | xz -T3 -6 --block-size=8MiB > "packed/$1.part" && mv "packed/$1.part" "packed/$1.tar.xz"
}

# record NAME SECONDS_NEEDED [OPTION...] -- ARGUMENTS of energy_mix
record() {
    local name=$1 needed=$2
    shift 2
    local options=()
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    if [ $((SECONDS + needed + 20)) -gt "$budget" ]; then
        say "left out for lack of time: $name"
        return 1
    fi
    # Two seeds: as many processes at once.
    local program=("$bin/energy_mix" "$@")
    [ $# -lt 4 ] || program=(bash -c '"$1" "$2" "$3" "$4" & "$1" "$2" "$3" "$5"; wait' both "$bin/energy_mix" "$@")
    XDG_CACHE_HOME=$work/cache timeout $((needed + 20)) "$bin/clscope" record -f -o "$work/$name" "${options[@]}" -- "${program[@]}" > "$log/$name.log" 2>&1 &
    recording=$!
    # Waited for, so that a signal is heeded at once.
    wait "$recording"
    local code=$?
    recording=
    say "$name (exit $code, $(du -sm "$work/$name.clscope" | cut -f1) MB)"
    beside pack "$name"
    return $code
}

# Packs what there is, whatever happened.
finish() {
    trap '' TERM EXIT
    [ -z "$recording" ] || kill "$recording"
    while [ "$SECONDS" -lt $((budget - 8)) ] && [ -n "$(jobs -rp)" ]; do sleep 0.2; done
    say "packing; unfinished: $(find "$log" packed -name '*.part' | tr '\n' ' ')"
    python3 "$bin/energy_table.py" "$log" > "$log/table.md" 2> "$log/table.err"
    tar cJf "$out/energy.tar.xz" -C "$work" energy
    # In the order of recording, so that what is cut off is what came last.
    (cd packed && tar c $(ls -tr ./*.tar.xz)) | split -b 14m -d - "$out/traces.tar."
    say "done"
    cat "$log/table.md"
    exit
}
trap finish TERM EXIT

timeout 20 "$bin/clscope" doctor > "$log/doctor.txt" 2>&1
timeout 5 nvidia-smi > "$log/nvidia-smi.txt" 2>&1
# Every launch timed, but for the runs that are about sampling.
all=(--device-timing event)
declare -A count
for run in ${RUNS:-truth:3 mix:60 mix:60 sampled:30 steady:8 truth:3}; do
    kind=${run%%:*} seconds=${run##*:}
    count[$kind]=$((${count[$kind]:-0} + 1))
    name=$kind-${count[$kind]}
    case $kind in
    truth | truth-eight)
        kernels=4
        [ "$kind" = truth ] || kernels=8
        record "$name" $((seconds * 2 * kernels + 10)) "${all[@]}" -- "$kind" "$seconds" || continue
        beside alone "$name" "$kind"
        beside report "$name" ""
        ;;
    mix | eight)
        record "$name" $((seconds + 4)) "${all[@]}" -- "$kind" "$seconds" "$seed" || continue
        window=$(phase "$name")
        beside report "$name" "" --window "$window"
        beside pieces "$name" "${window%..*}" "${window#*..}"
        seed=$((seed + 1))
        ;;
    sampled)
        record "$name" $((seconds + 4)) --device-timing sample -- mix "$seconds" "$seed" || continue
        beside report "$name" "" --window "$(phase "$name")"
        seed=$((seed + 1))
        ;;
    steady)
        record "$name" $((seconds + 4)) "${all[@]}" -- steady-mix "$seconds" || continue
        # What the program tries at its start tells kernels apart: that is left out.
        beside report "$name" "" --window "$(phase "$name")"
        ;;
    replay)
        # Four kernels in eight batches each take eight seconds of it.
        ENERGY_MIX_ROUNDS=$(rounds) record "$name" $((seconds + 10)) "${all[@]}" --replay 8:250 -- mix "$seconds" "$seed" || continue
        beside report "$name" ""
        ;;
    two)
        ENERGY_MIX_ROUNDS=$(rounds) record "$name" $((seconds + 6)) "${all[@]}" -- mix "$seconds" "$seed" "$((seed + 1))" || continue
        beside report "$name" "" --window "$(phase "$name")"
        seed=$((seed + 2))
        ;;
    calibrate)
        XDG_CACHE_HOME=$work/cache timeout 60 "$bin/clscope" doctor --calibrate=sensors > "$log/$name.txt" 2>&1
        say "$name (exit $?)"
        cp "$work"/cache/clscope/* "$log" 2> /dev/null
        ;;
    *)
        say "no kind of run: $run"
        ;;
    esac
done
say "all recorded"
"$bin/clscope" report "$work/mix-1.clscope" > "$log/mix-1.txt" 2>&1
