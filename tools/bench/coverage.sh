#!/bin/sh
# coverage.sh [TRIALS]: how often the 95 % intervals of sampled timing hold the truth, where it is known: synthetic kernels, and fully
# timed streams of the runtime that OCL_ICD_VENDORS selects, recorded here and resampled TRIALS (1,000) times. Traces named in
# CLSCOPE_TRACES (recorded with --device-timing event, perhaps on another machine) come along. A minute.
# Expects clscope and libclscope.so in TARGET/release. Prints the error beside that of the ratio estimator, and how many reach 93 %.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
case $target in /*) ;; *) target=$PWD/$target ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cargo build --quiet --release -p clscope-analysis --example coverage
sh tests/fixtures/build.sh "$folder" stream many_commands frames
record() { # NAME APP ARGUMENTS
    name=$1
    shift
    "$target/release/clscope" record -q --device-timing event -o "$folder/$name" -- "$@" >/dev/null
}
record launches-of-5us "$folder/stream" 4000 5
record launches-of-50us "$folder/stream" 2000 50
record tiny-launches "$folder/many_commands" 20000 events
record paced "$folder/frames" 1500 2000 exponential read
# shellcheck disable=SC2086
"$target/release/examples/coverage" "${1:-1000}" "$folder"/*.clscope ${CLSCOPE_TRACES:-} | awk '
    { print }
    $2 == "%" { n++; if ($1 >= 93) held++ }
    END { printf "%d of %d hold in 93 %% of the trials or more\n", held, n }'
