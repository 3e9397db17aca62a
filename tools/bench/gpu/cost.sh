#!/bin/sh
# cost.sh DIR [OUT]: the cost tables on a machine with a GPU, from carried binaries alone. DIR holds clscope-bench,
# libclscope.so and the fixtures cheap_calls, enqueue_bench, counted; tables go to stdout and OUT/cost.md. About eight minutes.
# The runtime is chosen by the usual variables; for NVIDIA's driver under CUDA's loader they are set here if nothing else is.
set -u
dir=$(cd "${1:-.}" && pwd)
out=${2:-.}
mkdir -p "$out"
: "${OCL_ICD_FILENAMES:=libnvidia-opencl.so.1}" "${OCL_ICD_VENDORS:=/nonexistent}"
export OCL_ICD_FILENAMES OCL_ICD_VENDORS
bench="$dir/clscope-bench cost --scratch ${TMPDIR:-/tmp}"
until_s=${UNTIL_S:-560} # sections that would begin later than this are left out
begin=$(date +%s)

section() { # TITLE ARGUMENTS...
    title=$1
    shift
    if [ $(($(date +%s) - begin)) -gt "$until_s" ]; then
        echo "## $title: left out, no time"
        return
    fi
    echo "## $title"
    # shellcheck disable=SC2086
    timeout 300 $bench "$@" || echo "(failed: exit code $?)"
    echo "($(($(date +%s) - begin)) s so far)"
}

# Rounds of the kernel's loop after which a launch takes about NS nanoseconds in a stream.
rounds_for() { # NS
    for rounds in 250 500 1000 1500 2000 2500 3000 4000 6000 10000; do
        total=$("$dir/enqueue_bench" 20000 1000 bare "spin=$rounds" | awk '{ printf "%d", $3 }')
        if [ "${total:-0}" -ge "$1" ]; then
            echo "$rounds"
            return
        fi
    done
    echo 10000
}

{
    grep -m1 'model name' /proc/cpuinfo
    command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader
    nproc
    section "Stream of a tiny kernel, every method" --section stream --pairs 5 --threads 1 --launches 20000
    five=$(rounds_for 5000)
    section "Stream of a kernel of 5 us (spin=$five)" --section stream --pairs 5 --threads 1 --launches 50000 --spin "$five" --methods off,sample,auto,event
    section "Cheap calls" --section cheap --pairs 5 --threads 1,2,4,8,16 --calls 1000000
    section "Launches against an application that asks itself" --section launches --pairs 5 --threads 1 --launches 20000
    section "Launches on many threads" --section launches --pairs 3 --threads 2,4,8,16 --launches 4000 --methods off,sample,event
    fifty=$(rounds_for 30000)
    section "Stream of a kernel of 30 us or more (spin=$fifty)" --section stream --pairs 3 --threads 1 --launches 10000 --spin "$fifty" --methods off,sample,auto,event
    section "Loading" --section load --pairs 9
} 2>&1 | tee "$out/cost.md"
