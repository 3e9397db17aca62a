#!/bin/bash
# piglit.sh OUT [CLSCOPE...]: runs piglit's OpenCL tests (Debian: apt-get install piglit, 2 GB) on the first OpenCL device,
# twice bare and then in each way of injection, and compares what they print: a test suite by others that must not see the
# recorder. Prints results per mode, then every difference from both bare runs; OUT keeps the transcripts.
#
# Environment:
#   BIN     folder of clscope and libclscope.so (default: target/release)
#   PIGLIT  piglit's folder (default: /usr/lib/x86_64-linux-gnu/piglit)
#   EVERY   takes one in so many of the 552 programs for the compiler (default 8; 0: none)
#   MODES   default: bare-1 record bare-2 preload layer sample
#   JOBS    tests at a time (default 1)
set -u
out=${1:?piglit.sh OUT}
BIN=$(realpath "${BIN:-target/release}")
PIGLIT=${PIGLIT:-/usr/lib/x86_64-linux-gnu/piglit}
export BIN PIGLIT LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$PIGLIT/lib
mkdir -p "$out"
cd "$out" || exit 1
rm -rf traces && mkdir traces

# one MODE TEST [FILE]: a test's output and exit code into MODE/, with pointers and handles made equal.
one() {
    local mode=$1 test=$PIGLIT/bin/$2 arguments=(-auto) name=$2
    if [ -n "${3:-}" ]; then
        arguments=("$PIGLIT/$3")
        name=$(basename "$3" .cl)
    fi
    local trace=$PWD/traces/$mode-$name.clscope
    local file=$mode/$name.txt
    {
        case $mode in
        bare*) timeout 100 "$test" "${arguments[@]}" ;;
        preload) CLSCOPE_TRACE=$trace LD_PRELOAD=$BIN/libclscope.so timeout 100 "$test" "${arguments[@]}" ;;
        layer) CLSCOPE_TRACE=$trace OPENCL_LAYERS=$BIN/libclscope.so timeout 100 "$test" "${arguments[@]}" ;;
        record) timeout 100 "$BIN/clscope" record -q -f -o "$trace" -- "$test" "${arguments[@]}" ;;
        *) timeout 100 "$BIN/clscope" record -q -f --device-timing "$mode" -o "$trace" -- "$test" "${arguments[@]}" ;;
        esac
        echo "exit code $?"
    } 2> "$mode/$name.err" | sed 's/0x[0-9a-f]*/POINTER/g' > "$file"
    rm -rf "$trace"
}
export -f one

tests() {
    (cd "$PIGLIT/bin" && ls cl-api-* cl-custom-* cl-program-*) | grep -v -e cl-program-tester -e interop
    [ "${EVERY:-8}" -eq 0 ] || (cd "$PIGLIT" && find generated_tests/cl tests/cl -name '*.cl') | sort | awk -v every="${EVERY:-8}" 'NR % every == 0 { print "cl-program-tester", $0 }'
}
modes=${MODES:-bare-1 record bare-2 preload layer sample}
for mode in $modes; do
    mkdir -p "$mode"
    # shellcheck disable=SC2016
    tests | xargs -P "${JOBS:-1}" -L 1 bash -c 'one "$@"' piglit "$mode" 2>> "$mode.err"
    echo "$mode: $(cat "$mode"/*.txt | grep '^PIGLIT: {"result' | sort | uniq -c | sed 's/PIGLIT: {"result": //; s/ }//' | tr -s ' \n' ' ') of $(find "$mode" -name '*.txt' | wc -l) tests"
done
differ=0
for mode in $modes; do
    for file in "$mode"/*.txt; do
        name=$(basename "$file")
        if [[ $mode != bare* ]] && ! cmp -s "bare-1/$name" "$file" && ! cmp -s "bare-2/$name" "$file"; then
            echo "### $mode differs: $name"
            diff "bare-1/$name" "$file" | head -n 12
            differ=$((differ + 1))
        fi
    done
done
echo "$differ differences"
[ "$differ" -eq 0 ]
