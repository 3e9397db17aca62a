#!/bin/sh
# Measures every experiment of the reference documents on a GPU and packs what it gave.
#
#     tools/bench/gpu/reproduce.sh OUT [DEVICE]
#
# OUT gets reproduced.tar.gz: a page, a plot and results.json for each experiment, reproduced.json for
# all, and the text beside the documents' numbers. DEVICE is what `clscope-lab --device` takes.
# LAB names a built program; without it one is built. BUDGET: seconds in all, 1080 unless set.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 OUT [DEVICE]" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../../.." && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
if [ -z "${LAB:-}" ]; then
    (cd "$root" && cargo build --release -p clscope-lab)
    LAB=$root/target/release/clscope-lab
fi
status=0
"$LAB" --reproduce all --budget "${BUDGET:-1080}" ${2:+--device "$2"} \
    -o "$out/reproduced" >"$out/reproduced.txt" 2>"$out/messages.txt" || status=$?
sed -n '/^experiments of the documents/,$p' "$out/reproduced.txt"
cat "$out/messages.txt"
# What could not be packed is no result.
tar -C "$out" -czf "$out/reproduced.tar.gz" reproduced reproduced.txt messages.txt
ls -l "$out/reproduced.tar.gz"
exit "$status"
