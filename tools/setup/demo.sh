#!/bin/bash
# demo.sh [FOLDER]: installs what is needed on Debian 12 (as root, or with sudo), builds clscope, profiles a face detection
# on OpenCV's OpenCL path, prints the report and leaves a timeline. The trace goes to FOLDER, else the working directory.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
folder=${1:-$PWD}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

packages ca-certificates gcc libc6-dev pocl-opencl-icd ocl-icd-libopencl1 python3-opencv opencv-data
find_cargo
build_products

say "fetching a photograph"
face=$(photograph)

cd "$folder"
clscope=$target/release/clscope
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
