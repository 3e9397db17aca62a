#!/bin/bash
# demo.sh [--package FILE] [FOLDER]: installs what is needed on Debian 12 (as root, or with sudo), builds clscope, profiles a
# face detection on OpenCV's OpenCL path, prints the report and leaves a timeline. The trace goes to FOLDER, else the working
# directory. FILE is a tarball or deb of package.sh: it is unpacked, nothing is built, and no compiler is installed.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
package=
if [ "${1:-}" = --package ]; then
    package=${2:?"--package needs a tarball or deb that tools/setup/package.sh made"}
    [ -f "$package" ] || { say "there is no file $package: tools/setup/package.sh makes one in target/packages"; exit 1; }
    package=$(readlink -f "$package")
    shift 2
fi
folder=${1:-$PWD}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

packages ca-certificates pocl-opencl-icd ocl-icd-libopencl1 python3-opencv opencv-data
if [ -n "$package" ]; then
    unpacked=$cache/demo
    say "unpacking $package"
    rm -rf "$unpacked"
    mkdir -p "$unpacked"
    case $package in
    *.tar.xz)
        packages xz-utils
        tar -C "$unpacked" -xJf "$package" --strip-components=1
        clscope=$unpacked/bin/clscope ;;
    *.deb)
        dpkg-deb -x "$package" "$unpacked"
        clscope=$unpacked/usr/bin/clscope ;;
    *) say "$package is neither a tarball (.tar.xz) nor a deb"; exit 1 ;;
    esac
else
    packages gcc libc6-dev
    find_cargo
    build_products
    clscope=$target/release/clscope
fi

say "fetching a photograph"
face=$(photograph)

cd "$folder"
# PoCL's compiler counts its warnings about OpenCV's kernels, and libpng has one about the colours of the photograph: neither
# concerns who reads this.
without_foreign_warnings() { grep --line-buffered -vE '^[0-9]+ warnings? generated\.$|^libpng warning: iCCP' >&2 || true; }
# OpenCV takes the CPU device of PoCL only when told to. Python is Debian's, whose OpenCV this is.
OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd OPENCV_OPENCL_DEVICE=:CPU: \
    beside "recording a face detection; PoCL compiles its kernels the first time" \
    "$clscope" record -f -o face_detect -- /usr/bin/python3 "$here/tools/setup/face_detect.py" "$face" \
    2> >(without_foreign_warnings)
"$clscope" report face_detect.clscope
"$clscope" export chrome face_detect.clscope -o face_detect.json
echo
echo "Timeline: $folder/face_detect.json (open it at https://ui.perfetto.dev, in chrome://tracing or with speedscope)"
echo "Trace:    $folder/face_detect.clscope (again: $clscope report $folder/face_detect.clscope)"
