#!/bin/bash
# libraries.sh OUT: runs test suites and examples of others (CLBlast's tests from Debian; tests and examples of the crates ocl, opencl3
# and cl3) on the first OpenCL device, twice bare and then in each way of injection, and compares output, errors and exit codes: programs
# that must not see the recorder. Prints results per mode, then every difference; OUT keeps the transcripts, and
# OUT/crates the crates (built once, 1 GB). Needs cargo, `apt-get install clblast-tests ocl-icd-opencl-dev`, and the registry.
#
# Environment:
#   BIN      folder of clscope and libclscope.so (default: target/release)
#   MODES    default: bare-1 record bare-2 preload layer sample
#   CLBLAST  routines of CLBlast to test (default: some of each level that take seconds)
#   LIMIT    seconds for one program (default 100); one that takes longer is a difference unless it does so bare
set -u
out=${1:?libraries.sh OUT}
BIN=$(realpath "${BIN:-target/release}")
LIMIT=${LIMIT:-100}
export BIN LIMIT
mkdir -p "$out"
cd "$out" || exit 1
out=$PWD
rm -rf traces && mkdir traces

ocl=0.19.7 opencl3=0.12.4 cl3=0.13.2
build() {
    mkdir -p crates/src && cd crates || return 1
    printf '[package]\nname = "suites"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nocl = "=%s"\nopencl3 = "=%s"\ncl3 = "=%s"\n' $ocl $opencl3 $cl3 > Cargo.toml
    : > src/lib.rs
    cargo vendor --quiet --versioned-dirs > /dev/null || return 1
    export CARGO_TARGET_DIR=$PWD/target CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0
    for crate in cl3-$cl3 opencl3-$opencl3 ocl-$ocl; do
        rm -rf "${crate:?}" && cp -r "vendor/$crate" . || return 1
        # Each is a workspace of its own; ocl's tests ask for a generator that its version of rand has as a feature only.
        printf '\n[workspace]\n' >> $crate/Cargo.toml
    done
    # Any device will do, not only a GPU.
    sed -i 's/CL_DEVICE_TYPE_GPU/CL_DEVICE_TYPE_ALL/g' cl3-$cl3/tests/*.rs opencl3-$opencl3/tests/integration_test.rs opencl3-$opencl3/examples/*.rs
    find cl3-$cl3/src -name '*.rs' -exec sed -i '/^mod tests/,$s/CL_DEVICE_TYPE_GPU/CL_DEVICE_TYPE_ALL/g' {} +
    (cd ocl-$ocl && cargo add --quiet --dev rand@0.8 --features small_rng)
    (cd cl3-$cl3 && cargo test --quiet --no-run --lib --tests)
    (cd opencl3-$opencl3 && cargo test --quiet --no-run --test integration_test --test opencl2_kernel_test && for e in basic clinfo opencl2image opencl2svm; do cargo build --quiet --example $e; done)
    (cd ocl-$ocl && cargo test --quiet --no-run --lib && for e in async_cycles async_process basics buffer_sink device_check event_callbacks img_formats \
        info info_core threads timed trivial; do cargo build --quiet --example $e; done)
    find "$PWD"/target/debug/deps "$PWD"/target/debug/examples -maxdepth 1 -type f -executable ! -name '*.so' ! -path '*/examples/*-*' > programs
}
[ -s crates/programs ] || (build) 2> build.err || { tail -n 5 build.err; exit 1; }

# One program a line: its name in the transcripts, its folder, its command.
list() {
    while read -r program; do
        name=$(basename "$program" | sed 's/-[0-9a-f]*$//')-$(cksum < "$program" | cut -c1-4)
        case $program in
        */deps/ocl-*) echo "$name $out/crates/ocl-$ocl $program --test-threads=1" ;;
        */deps/*) echo "$name $out/crates/opencl3-$opencl3 $program --test-threads=1 --include-ignored" ;;
        *) echo "$name $out/crates/ocl-$ocl $program" ;;
        esac
    done < crates/programs
    for routine in ${CLBLAST:-xaxpy xswap xscal xcopy xdot xnrm2 xasum xamax xger xgemv xsymv xtrmv xomatcopy xim2col xaxpybatched}; do
        command -v "clblast_test_$routine" > /dev/null && echo "clblast_$routine $out clblast_test_$routine"
    done
}

# What differs from run to run by itself: addresses, times, random numbers; and the order of what several threads print.
same() {
    sed -E 's/0x[0-9a-fA-F]+/POINTER/g; s/-?[0-9]+\.[0-9]+(e-?[0-9]+)?/FRACTION/g; s/thread .[^ ]* \([0-9]+\)/thread/
        s/((correct_result|Queued|Submit|Start|End): )[0-9]+/\1NUMBER/; s/result(_vec)?\[.*/NUMBER/; s/(\(ns\): )[0-9]+/\1NUMBER/'
}
equal() { cmp -s <(sort "$1") <(sort "$2"); }

one() {
    local mode=$1 name=$2 folder=$3
    shift 3
    local trace=$out/traces/$mode-$name.clscope run=()
    case $mode in
    bare*) ;;
    preload) run=(env "CLSCOPE_TRACE=$trace" "LD_PRELOAD=$BIN/libclscope.so") ;;
    layer) run=(env "CLSCOPE_TRACE=$trace" "OPENCL_LAYERS=$BIN/libclscope.so") ;;
    record) run=("$BIN/clscope" record -q -f -o "$trace" --) ;;
    *) run=("$BIN/clscope" record -q -f --device-timing "$mode" -o "$trace" --) ;;
    esac
    (
        cd "$folder" && timeout "$LIMIT" "${run[@]}" "$@" < /dev/null 2> "$out/$mode/$name.stderr"
        echo "exit code $?"
    ) | same > "$mode/$name.txt"
    same < "$mode/$name.stderr" >> "$mode/$name.txt"
    rm -rf "$trace" "$mode/$name.stderr"
}

modes=${MODES:-bare-1 record bare-2 preload layer sample}
list > programs
for mode in $modes; do
    rm -rf "$mode" && mkdir "$mode"
    while read -r line; do
        # shellcheck disable=SC2086
        one "$mode" $line
    done < programs
    echo "$mode: $(wc -l < programs) programs, $(cat "$mode"/*.txt | wc -l) lines, $(cat "$mode"/*.txt | grep -a -E -c 'test .* \.\.\. ok|Pass rate') tests passed, $(grep -a -L '^exit code 0' "$mode"/*.txt | wc -l) programs fail"
done
differ=0
for file in bare-1/*.txt; do
    name=$(basename "$file")
    if [ -f "bare-2/$name" ] && ! equal "$file" "bare-2/$name"; then
        echo "--- not compared, since the bare runs differ: $name"
        continue
    fi
    for mode in $modes; do
        if [[ $mode != bare* ]] && ! equal "$file" "$mode/$name"; then
            echo "### $mode differs: $name"
            diff -a <(sort "$file") <(sort "$mode/$name") | head -n 12
            differ=$((differ + 1))
        fi
    done
done
echo "$differ differences"
[ "$differ" -eq 0 ]
