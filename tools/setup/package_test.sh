#!/bin/bash
# package_test.sh [FOLDER] [RELEASE...]: installs the packages of package.sh that lie in FOLDER (else target/packages) into
# fresh systems (else Debian 11 to 13 and Ubuntu 22.04 and 24.04, which have Python 3.9 to 3.13), records an application on
# PoCL there, reads the trace, and removes them again. Before that: lintian, sizes, the wheel's metadata and types, the rpm's
# digests. For root; takes minutes and some 500 MB a release; no part of the normal tests. It installs debootstrap, lintian
# and rpm, and changes nothing else outside of a folder of its own, which it removes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
folder=$(cd "${1:-$target/packages}" && pwd)
shift || true
releases=("$@")
[ ${#releases[@]} = 0 ] && releases=(bullseye bookworm trixie jammy noble)
[ "$(id -u)" = 0 ] || { say "must be run as root: debootstrap and chroot need it"; exit 1; }
packages debootstrap binutils lintian rpm python3-venv

debian=${CLSCOPE_DEBIAN_MIRROR:-http://deb.debian.org/debian}
ubuntu=${CLSCOPE_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}

fail() { say "FAILED on ${release:-this system}: $*"; exit 1; }

work=$(mktemp -d /var/tmp/clscope-packages.XXXXXX)
root=$work/root
clean() {
    local mounted
    for mounted in "$root/proc" "$root/sys"; do
        if mountpoint -q "$mounted"; then umount "$mounted"; fi
    done
    rm -rf --one-file-system "$work"
}
trap clean EXIT

say "lintian, sizes, sums"
lintian --allow-root --fail-on error,warning "$folder"/clscope_*.deb || fail "lintian"
# Bytes that a package may have.
for limit in "8000000 $(echo "$folder"/clscope_*.deb)" "12000000 $(echo "$folder"/clscope-*.whl)"; do
    [ "$(stat -c %s "${limit#* }")" -le "${limit%% *}" ] || fail "${limit#* } has more than ${limit%% *} bytes"
done
(cd "$folder" && sha256sum --quiet --check SHA256SUMS) || fail "SHA256SUMS"

say "metadata and types of the wheel"
checkers=$cache/checkers
python_with "$checkers" "twine==7.0.0 mypy==2.4.1 cyclonedx-python-lib[json-validation]==11.12.0"
"$checkers/bin/twine" check --strict "$folder"/clscope-*.whl >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "metadata"; }
/usr/bin/python3 -m venv "$work/typed" && "$work/typed/bin/pip" install -q --no-index "$folder"/clscope-*.whl || fail "the wheel"
cat >"$work/uses.py" <<'PYTHON'
import clscope


def longest(trace: str) -> str:
    run: clscope.Run = clscope.open(trace)
    return str(max(run.kernels(), key=lambda kernel: kernel["total_ns"])["name"])


reveal_type(clscope.open)
PYTHON
(cd "$work" && "$checkers/bin/mypy" --strict --python-executable "$work/typed/bin/python" uses.py) >"$work/log" || { cat "$work/log" >&2; fail "types"; }
grep -q 'Run"$' "$work/log" || { cat "$work/log" >&2; fail "the module is not typed"; }
(cd "$here/tools/python" && "$checkers/bin/mypy" --strict clscope examples) >"$work/log" || { cat "$work/log" >&2; fail "types of the module"; }
rm -rf "$work/typed"

say "the list of parts"
"$checkers/bin/python" - "$folder"/clscope-*.cdx.json <<'PYTHON' || fail "the list of parts"
import json, sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
text = open(sys.argv[1]).read()
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
assert wrong is None, wrong
names = {part["name"] for part in json.loads(text)["components"]}
assert {"libc", "parquet", "rust-std"} <= names, names
PYTHON

say "digests of the rpm"
rpm -K --nosignature "$folder"/clscope-*.rpm >/dev/null || fail "digests of the rpm"
rpm -qp --requires "$folder"/clscope-*.rpm >"$work/log" 2>/dev/null
grep -q '^libc.so.6(GLIBC_' "$work/log" || fail "the rpm names no glibc"

# Everything below the root but what package management itself keeps.
listing() { (cd "$root" && find usr etc opt -not -path '*/__pycache__*' -not -path 'etc/ld.so.cache' -not -path 'usr/share/man/*' | sort); }
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

# The application: one that makes launches of its own kernels.
application() {
    if [ -x "$root/usr/bin/clpeak" ]; then echo "clpeak --kernel-latency"; else echo "python3 /root/application.py"; fi
}

# Records, and looks at the trace: the command finds its recorder without a setting.
recorded() { # COMMAND
    inside sh -c "cd /root && rm -rf t.clscope && $1 record -q -o t -- $(application) >/dev/null" || fail "recording"
    inside sh -c "cd /root && $1 report t.clscope" >"$work/report" || fail "the report"
    grep -q "launches" "$work/report" || fail "no launch in the report: $(cat "$work/report")"
    inside sh -c "cd /root && $1 export parquet t.clscope -o data >/dev/null 2>&1 && rm -r data" || fail "the tables"
}

# What a package holds beside the command, below a prefix.
complete() { # PREFIX
    local prefix=$1 wanted share=$1/share
    for wanted in doc/clscope/README.md doc/clscope/README.html doc/clscope/CHANGELOG.md doc/clscope/guide/index.html \
        clscope/engines/with_spark.py clscope/recipes/kernels.sql clscope/schemas/parquet.schema.txt clscope/schemas/report.schema.json \
        bash-completion/completions/clscope fish/vendor_completions.d/clscope.fish man/man1/clscope-record.1.gz man/man7/clscope-guide-energy.7.gz; do
        [ -s "$share/$wanted" ] || fail "$prefix lacks share/$wanted"
    done
    [ -n "$(find "$share/zsh" -name _clscope -size +0)" ] || fail "$prefix has no completions for zsh"
    [ -n "$(find "$prefix" -path '*clscope*' -name NOTICE -size +0)" ] || fail "$prefix has no NOTICE"
    python3 -B "$here/tools/setup/docs.py" --check "$share/doc/clscope" || fail "links below $prefix"
    # Every script reads with this system's Python, and finds the recipes.
    inside python3 -B - "${prefix#"$root"}/share/clscope" <<'PYTHON' || fail "the scripts below $prefix"
import ast, pathlib, sys
folder = pathlib.Path(sys.argv[1])
scripts = list(folder.rglob("*.py"))
assert len(scripts) >= 5, scripts
for script in scripts:
    ast.parse(script.read_text(), str(script))
sys.path.insert(0, str(folder / "engines"))
import tables
assert "kernels" in tables.questions(), tables.questions()
PYTHON
}

# Prints the path of the keys of Ubuntu's archive, which Debian 13 has and 12 has not: only fetched, checked by Debian's key.
ubuntu_keys() {
    local keys=$work/keys options
    if [ ! -d "$keys/unpacked" ]; then
        mkdir -p "$keys/lists/partial" "$keys/archives/partial"
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $debian trixie main" >"$keys/sources"
        options=(-qq -o "Dir::Etc::sourcelist=$keys/sources" -o Dir::Etc::sourceparts=- -o "Dir::State=$keys"
            -o Dir::State::status=/dev/null -o "Dir::Cache=$keys" -o APT::Sandbox::User=root)
        apt-get "${options[@]}" update && (cd "$keys" && apt-get "${options[@]}" download ubuntu-keyring) || return 1
        dpkg-deb -x "$keys"/ubuntu-keyring_*.deb "$keys/unpacked" || return 1
    fi >&2
    echo "$keys/unpacked/usr/share/keyrings/ubuntu-archive-keyring.gpg"
}

fresh_system() { # RELEASE
    local keys
    case $1 in
    jammy | noble)
        keys=$(ubuntu_keys) || return 1
        # All of them are made alike; an older debootstrap does not know the names of newer ones.
        debootstrap --variant=minbase --components=main,universe --keyring="$keys" "$1" "$root" "$ubuntu" /usr/share/debootstrap/scripts/gutsy ;;
    *) debootstrap --variant=minbase "$1" "$root" "$debian" ;;
    esac
}

for release in "${releases[@]}"; do
    say "$release: a fresh system"
    fresh_system "$release" >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; fail "debootstrap"; }
    # An application and a runtime are the user's.
    inside apt-get update -qq >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; fail "the package lists"; }
    peak=clpeak
    inside apt-cache show clpeak >/dev/null 2>&1 || peak=python3-pyopencl
    inside apt-get install -y -qq --no-install-recommends pocl-opencl-icd "$peak" xz-utils python3-venv man-db \
        >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; fail "a runtime"; }
    cat >"$root/root/application.py" <<'PYTHON'
import numpy, pyopencl
context = pyopencl.create_some_context(interactive=False)
queue = pyopencl.CommandQueue(context)
program = pyopencl.Program(context, "__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }").build()
values = pyopencl.Buffer(context, pyopencl.mem_flags.COPY_HOST_PTR, hostbuf=numpy.ones(1024, numpy.float32))
for _ in range(200):
    program.twice(queue, (1024,), None, values)
queue.finish()
PYTHON
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
    complete "$root/usr"
    for page in "1 clscope-record" "7 clscope-guide-energy"; do
        # shellcheck disable=SC2086
        inside man -P cat $page >"$work/page" 2>&1 && grep -q "NAME" "$work/page" || fail "no manual page $page: $(head -3 "$work/page")"
    done
    inside clscope doctor >"$work/doctor" 2>&1 || true
    grep -qi pocl "$work/doctor" || fail "doctor sees no PoCL"
    inside sh -c "apt-get install -y -qq --reinstall /packages/clscope_*.deb && apt-get purge -y -qq clscope" >"$work/log" 2>&1 || fail "removing"
    listing >"$work/after"
    diff "$work/before" "$work/after" >"$work/difference" || fail "left behind: $(head "$work/difference")"

    say "$release: tarball"
    inside sh -c "mkdir /opt/c && tar -C /opt/c -xJf /packages/clscope-[0-9]*.tar.xz --strip-components=1" || fail "unpacking"
    recorded /opt/c/bin/clscope
    complete "$root/opt/c"
    rm -r "$root/opt/c"

    python=$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    say "$release: wheel, Python $python"
    # An older pip does not know the newest names of platforms.
    inside sh -c "python3 -m venv /root/v && /root/v/bin/pip install -q --no-index /packages/clscope-*.whl" >"$work/log" 2>&1 || { tail "$work/log" >&2; fail "the wheel"; }
    recorded /root/v/bin/clscope
    complete "$root/root/v"
    inside /root/v/bin/python -c "
import clscope
run = clscope.open('/root/t.clscope')
assert sum(k['launches'] for k in run.kernels()) > 100, list(run.kernels())
" || fail "reading with Python"
    inside sh -c "/root/v/bin/pip uninstall -qy clscope" && [ -z "$(find "$root/root/v" -name '*clscope*' -type f)" ] || fail "the wheel leaves files"
    rm -r "$root/root/v"

    # There is no mirror of a distribution with rpm: this system's rpm installs it, verifies it and removes it.
    say "$release: rpm"
    manager=(rpm --root "$root" --dbpath /var/lib/rpm)
    rm -rf "$root/var/lib/rpm"
    "${manager[@]}" --initdb
    "${manager[@]}" --force-debian -i --nodeps "$folder"/clscope-*.rpm >"$work/log" 2>&1 || { tail "$work/log" >&2; fail "rpm -i"; }
    recorded clscope
    complete "$root/usr"
    "${manager[@]}" -V --nodeps clscope >"$work/log" 2>&1 || { tail "$work/log" >&2; fail "rpm -V"; }
    "${manager[@]}" --force-debian -e --nodeps clscope >"$work/log" 2>&1 || { tail "$work/log" >&2; fail "rpm -e"; }
    # Folders that Fedora's package "filesystem" owns.
    for shared in fish/vendor_completions.d fish zsh/site-functions zsh; do
        rmdir --ignore-fail-on-non-empty "$root/usr/share/$shared" 2>/dev/null || true
    done
    listing >"$work/after"
    diff "$work/before" "$work/after" >"$work/difference" || fail "the rpm leaves: $(head "$work/difference")"

    umount "$root/proc" "$root/sys"
    rm -rf --one-file-system "$root"
    say "$release: passed (Python $python)"
done
