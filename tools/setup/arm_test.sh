#!/bin/bash
# arm_test.sh: builds the recorder for 64-bit Arm on Debian 12 (x86-64), and records an application there on PoCL in an emulated
# processor (qemu); the trace is read by this machine's clscope. Needs rustup, and root for the emulator of programs that
# programs start (binfmt_misc) and for chroot. Takes minutes and some 1.5 GB in a folder of its own, which it removes. What it
# shows is that the recorder works with the processor's instructions and types, not what recording costs there.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$here"
[ "$(id -u)" = 0 ] || { say "must be run as root: chroot needs it"; exit 1; }
fail() { say "FAILED: $*"; exit 1; }
packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
find_cargo
triple=aarch64-unknown-linux-gnu
rustup target list --installed | grep -qx "$triple" || beside "fetching Rust's library for Arm" rustup target add "$triple" ||
    fail "rustup cannot fetch the target $triple"

clscope=${CLSCOPE:-$target/release/clscope}
if [ ! -x "$clscope" ]; then
    build_products
    clscope=$target/release/clscope
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
beside "building the recorder for Arm" "$CARGO" build --quiet --release --target "$triple" --target-dir "$target" -p clscope

work=$(mktemp -d /var/tmp/clscope-arm.XXXXXX)
root=$work/root
registered=
clean() {
    local mounted
    for mounted in "$root/proc" "$root/sys"; do
        if mountpoint -q "$mounted"; then umount "$mounted"; fi
    done
    if [ -n "$registered" ]; then echo -1 >/proc/sys/fs/binfmt_misc/clscope-arm; fi
    rm -rf --one-file-system "$work"
}
trap clean EXIT

# Packages for Arm with all that they need, unpacked and not configured: a runtime and an application need no more.
say "a system for Arm"
mkdir -p "$work"/{lists,archives}/partial "$root"/{proc,sys,tmp,root}
mirror=${CLSCOPE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
echo "deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm main" >"$work/sources"
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::Etc::sourcelist=$work/sources" -o Dir::Etc::sourceparts=-
    -o "Dir::State=$work" -o Dir::State::status=/dev/null -o "Dir::Cache=$work" -o APT::Sandbox::User=root -o Debug::NoLocking=1)
{ "${apt[@]}" update && beside "fetching packages for Arm" "${apt[@]}" install -y --download-only --no-install-recommends \
    libc6 dash coreutils pocl-opencl-icd clpeak; } >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; fail "packages for Arm"; }
for package in "$work"/archives/*.deb; do dpkg-deb -x "$package" "$root"; done

# A program for Arm is given to the emulator by the kernel, also one that another one starts, as PoCL does with the linker.
mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || fail "this kernel has no binfmt_misc"
if ! grep -qs "^magic 7f454c460201010000000000000000000200b7" /proc/sys/fs/binfmt_misc/*; then
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    echo ":clscope-arm:M::$magic:$mask:$(command -v qemu-aarch64-static):F" >/proc/sys/fs/binfmt_misc/register
    registered=yes
fi
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
cp "$target/$triple/release/libclscope.so" "$root/root/"
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }
[ "$(inside uname -m)" = aarch64 ] || fail "the system for Arm does not run"

say "recording"
begun=$SECONDS
inside sh -c "cd /root && exec env LD_PRELOAD=/root/libclscope.so CLSCOPE_TRACE=/root/t.clscope clpeak --kernel-latency" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; fail "the application"; }
say "recorded in $((SECONDS - begun)) s; reading"
"$clscope" report "$root/root/t.clscope" >"$work/report" || fail "the report"
"$clscope" report --format json "$root/root/t.clscope" >"$work/report.json"
python3 - "$work/report.json" <<'PYTHON' || fail "what the report says: $(cat "$work/report")"
import json, sys
report = json.load(open(sys.argv[1]))
launches = sum(kernel["count"] for kernel in report["kernels"])
timed = sum(kernel["time_ns"]["count"] for kernel in report["kernels"])
# The application launches one kernel 20,000 times, and a few more times before.
assert launches >= 20_000 and timed > 100, (launches, timed)
wrong = [kernel for kernel in report["kernels"] if kernel["time_ns"]["count"] and not kernel["time_ns"]["total"] > 0]
assert not wrong, wrong
print(f"setup: {launches} launches, {timed} timed", file=sys.stderr)
PYTHON
grep -A 3 KERNELS "$work/report" >&2
say "64-bit Arm: passed, emulated"
