#!/bin/sh
# checks.sh [miri|loom|tsan|aarch64|fuzz|kill|publish]...: what watches the code harder than the tests do,
# as far as the toolchain can be had; what cannot be run is reported, and is no failure. All by
# default. A few minutes.
#   miri     the format's reader and writer, the recorder's map of objects, queue of commands in flight, places for what
#            threads hand over, runs in rings, switch: undefined behaviour, data races, weak memory
#   loom     what is lock-free in the recorder, in every order of memory and threads
#   tsan     that map, queue and places under ThreadSanitizer (needs the nightly's rust-src)
#   aarch64  the workspace type-checks for 64-bit Arm: no TSC there
#   fuzz     a minute of damaged traces through libraries and command, a minute of whole directories through the
#            command, each run limited in time and memory
#   kill     100 recorded processes killed at random moments, on the fake OpenCL library
#   publish  the library crates as they would be published, compiled from their packages; asks the registry (cargo 1.90 or
#            newer)
# Miri and ThreadSanitizer see Rust only: the recorder with the runtime's C below it is run by the end-to-end tests, among
# them programs under AddressSanitizer.
set -u
cd "$(dirname "$0")/../.." || exit 1
[ $# -gt 0 ] || set -- miri loom tsan aarch64 fuzz kill publish
target=${CARGO_TARGET_DIR:-target}
status=0

skipped() { echo "checks: $1 not run: $2"; }
ran() { # NAME COMMAND...
    name=$1
    shift
    echo "checks: $name"
    "$@" || { echo "checks: $name FAILED"; status=1; }
}
build() { cargo build --release -p clscope -p clscope-cli -p clscope-bench; }

for check in "$@"; do
    case $check in
    miri)
        if cargo +nightly miri --version >/dev/null 2>&1; then
            # Tests that flip every byte take hours there; they run natively. Few cases of each property: undefined behaviour does not
            # hide in the ten-thousandth. Rows that a test writes live for ever.
            PROPTEST_CASES=4 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks" \
                ran "miri, format" cargo +nightly miri test -q -p clscope-trace -- --skip every_ --skip flip
            # Maps and queues live for ever by design: their memory is no leak.
            MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-ignore-leaks" \
                ran "miri, recorder" cargo +nightly miri test -q -p clscope --lib -- facts::map pending slots protocol switch current
        else
            skipped miri "rustup component add miri --toolchain nightly"
        fi ;;
    loom)
        ran "loom" cargo test -q --workspace --features clscope-lab/png,clscope/loom --lib loom_tests ;;
    tsan)
        if [ -d "$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]; then
            host=$(rustc +nightly -vV | sed -n 's/^host: //p')
            RUSTFLAGS=-Zsanitizer=thread CARGO_TARGET_DIR=$target/tsan \
                ran "tsan, recorder" cargo +nightly test -q -Zbuild-std --target "$host" -p clscope --lib -- facts::map pending slots
        else
            skipped tsan "rustup component add rust-src --toolchain nightly"
        fi ;;
    aarch64)
        if rustup target list --installed 2>/dev/null | grep -q '^aarch64-unknown-linux-gnu$'; then
            ran "aarch64" cargo check -q --workspace --target aarch64-unknown-linux-gnu
        else
            skipped aarch64 "rustup target add aarch64-unknown-linux-gnu"
        fi ;;
    fuzz)
        # Not the release profile: overflows of integers are to be seen. With the features that the tests are built with (one of them
        # is named for what it needs), so that neither is built twice.
        ran "build" cargo build --config profile.dev.opt-level=1 --workspace --features clscope-lab/png --bins --test crates
        # A failure names seed and input, and keeps the input. Overflow checks and little optimisation take several times
        # the time of a release. A sum of durations that no clock gives may overflow: told, and no failure, as it wraps in a release.
        # Side by side: each keeps one processor at work.
        fuzz() { # ARGUMENT...
            ran "$1" "$target/debug/clscope-bench" "$@" --keep "$target" \
                --seconds "${SECONDS_OF_FUZZ:-60}" --seed "${SEED:-$(date +%s)}"
        }
        (fuzz fuzz; exit $status) & first=$!
        fuzz fuzz-command --patience 60 --count-overflows --clscope "$target/debug/clscope"
        wait "$first" || status=1 ;;
    kill)
        ran "build" build
        fixtures=$(mktemp -d)
        ran "fixtures" sh tests/fixtures/build.sh "$fixtures" counted fake
        ran "kill" "$target/release/clscope-bench" kill --runs 100 --fake --fixtures "$fixtures" --scratch "$fixtures" \
            --seed "${SEED:-$(date +%s)}" --command "$target/release/clscope"
        rm -rf "$fixtures" ;;
    publish)
        # Those that say `publish = false` are left out.
        ran "publish" cargo publish --workspace --dry-run --allow-dirty ;;
    *) echo "usage: checks.sh [miri|loom|tsan|aarch64|fuzz|kill|publish]..." >&2; exit 2 ;;
    esac
done
exit $status
