#!/bin/bash
# package_test.sh [FOLDER] [RELEASE...]: installs the packages of package.sh that lie in FOLDER (else target/packages) into
# fresh Debian systems (else bookworm and trixie), records an application on PoCL there, reads the trace, and removes them
# again. Before that, lintian and their sizes. For root; takes minutes and some 500 MB a release; no part of the normal
# tests. It installs debootstrap and lintian, and changes nothing else outside of a folder of its own, which it removes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
folder=$(cd "${1:-$target/packages}" && pwd)
shift || true
releases=("$@")
[ ${#releases[@]} = 0 ] && releases=(bookworm trixie)
mirror=${CLSCOPE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
[ "$(id -u)" = 0 ] || { say "must be run as root: debootstrap and chroot need it"; exit 1; }
packages debootstrap binutils lintian

fail() { say "FAILED on ${release:-this system}: $*"; exit 1; }

say "lintian, sizes, sums"
lintian --allow-root --fail-on error,warning "$folder"/clscope_*.deb || fail "lintian"
# Bytes that a package may have.
for limit in "6000000 $(echo "$folder"/clscope_*.deb)" "8000000 $(echo "$folder"/clscope-*.whl)"; do
    [ "$(stat -c %s "${limit#* }")" -le "${limit%% *}" ] || fail "${limit#* } has more than ${limit%% *} bytes"
done
(cd "$folder" && sha256sum --quiet --check SHA256SUMS) || fail "SHA256SUMS"
# Everything below the root but what package management itself keeps.
listing() { (cd "$root" && find usr etc opt -not -path '*/__pycache__*' -not -path 'etc/ld.so.cache' -not -path 'usr/share/man/*' | sort); }
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

# Records, and looks at the trace: the command finds its recorder without a setting.
recorded() { # COMMAND
    inside sh -c "cd /root && rm -rf t.clscope && $1 record -q -o t -- clpeak --kernel-latency >/dev/null" || fail "recording"
    inside sh -c "cd /root && $1 report t.clscope" >"$work/report" || fail "the report"
    grep -q "launches" "$work/report" || fail "no launch in the report: $(cat "$work/report")"
    inside sh -c "cd /root && $1 export parquet t.clscope -o data >/dev/null 2>&1 && rm -r data" || fail "the tables"
}

work=$(mktemp -d /var/tmp/clscope-packages.XXXXXX)
clean() {
    local mounted
    for mounted in "$work/root/proc" "$work/root/sys"; do
        if mountpoint -q "$mounted"; then umount "$mounted"; fi
    done
    rm -rf --one-file-system "$work"
}
trap clean EXIT
for release in "${releases[@]}"; do
    root=$work/root
    say "$release: a fresh system"
    debootstrap --variant=minbase "$release" "$root" "$mirror" >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; fail "debootstrap"; }
    # An application and a runtime are the user's; clpeak makes launches of its own kernels.
    inside sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends pocl-opencl-icd clpeak xz-utils python3-venv man-db" \
        >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; fail "a runtime"; }
    # PoCL asks them for processors and memory.
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    rm -rf "$root/packages"
    cp -r "$folder" "$root/packages"
    listing >"$work/before"

    say "$release: deb"
    begun=$SECONDS
    inside sh -c "apt-get install -y -qq --no-install-recommends /packages/clscope_*.deb" >"$work/log" 2>&1 || { tail "$work/log" >&2; fail "installing"; }
    recorded clscope
    say "$release: installed, recorded and reported in $((SECONDS - begun)) s"
    inside man -P cat clscope-record >/dev/null 2>&1 || [ -f "$root/usr/share/man/man1/clscope-record.1.gz" ] || fail "no manual page"
    inside clscope doctor >"$work/doctor" 2>&1 || true
    grep -qi pocl "$work/doctor" || fail "doctor sees no PoCL"
    inside sh -c "apt-get install -y -qq --reinstall /packages/clscope_*.deb && apt-get purge -y -qq clscope" >"$work/log" 2>&1 || fail "removing"
    listing >"$work/after"
    diff "$work/before" "$work/after" >"$work/difference" || fail "left behind: $(head "$work/difference")"

    say "$release: tarball"
    inside sh -c "mkdir /opt/c && tar -C /opt/c -xJf /packages/clscope-*.tar.xz --strip-components=1" || fail "unpacking"
    recorded /opt/c/bin/clscope

    say "$release: wheel"
    # An older pip does not know the newest names of platforms.
    inside sh -c "python3 -m venv /root/v && /root/v/bin/pip install -q --no-index /packages/clscope-*.whl" >"$work/log" 2>&1 || { tail "$work/log" >&2; fail "the wheel"; }
    recorded /root/v/bin/clscope
    inside /root/v/bin/python -c "
import clscope
run = clscope.open('/root/t.clscope')
assert sum(k['launches'] for k in run.kernels()) > 100, list(run.kernels())
" || fail "reading with Python"
    inside sh -c "/root/v/bin/pip uninstall -qy clscope" && [ -z "$(find "$root/root/v" -name '*clscope*')" ] || fail "the wheel leaves files"

    say "$release: rpm, unpacked"
    python3 - "$folder" <<'PYTHON' || fail "the rpm"
import glob, sys
[path] = glob.glob(sys.argv[1] + "/clscope-*.rpm")
head = open(path, "rb").read(4)
assert head == b"\xed\xab\xee\xdb", head
PYTHON
    umount "$root/proc" "$root/sys"
    rm -rf --one-file-system "$root"
    say "$release: passed"
done
