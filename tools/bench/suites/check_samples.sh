#!/bin/bash
# check_samples.sh OUT: fetches and builds samples of OpenCL (tests of Oclgrind and examples of clFFT from Debian's source
# packages, examples of reikna and tests of silx from PyPI), runs `clscope check` over each on PoCL and, where
# CLSCOPE_TEST_INTEL_ICD names it, on Intel's CPU runtime, and prints the errors that it found, a row per program. OUT keeps
# the sources and the documents. Needs apt on Debian (sources are fetched with lists of its own, kept in OUT, so that no
# deb-src has to be set up, and without root), a C compiler, opencl-c-headers, ocl-icd-opencl-dev, jq, and what
# tools/setup/test.sh installs.
#
# Environment:
#   BIN       folder of clscope and libclscope.so (default: target/release)
#   CLSCOPE_TEST_PYTHON, CLSCOPE_TEST_INTEL_ICD: as in tests/README.md
set -u
out=${1:?check_samples.sh OUT}
BIN=$(realpath "${BIN:-target/release}")
python=${CLSCOPE_TEST_PYTHON:?a Python with PyOpenCL, as tools/setup/test.sh installs it}
mkdir -p "$out" && cd "$out" || exit 1
out=$PWD

if [ ! -e fetched ]; then
    # The sources of the repositories whose packages the system knows.
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sort -u > sources.list
    [ -s sources.list ] || { echo "apt knows no packages: run apt-get update first" >&2; exit 1; }
    mkdir -p apt/lists/partial apt/cache/archives/partial
    lists=(-o "Dir::Etc::sourcelist=$out/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$out/apt/lists"
        -o "Dir::Cache=$out/apt/cache")
    apt-get "${lists[@]}" -q update && apt-get "${lists[@]}" source --tar-only --download-only oclgrind clfft &&
        apt-get download libclfft2 libclfft-dev clfft-client || exit 1
    for archive in oclgrind_*.orig.tar.gz clfft_*.orig.tar.gz; do tar xzf "$archive"; done
    for package in *.deb; do dpkg -x "$package" root; done
    "$python" -m pip install -q --no-deps --target py silx==3.1.3 reikna==0.9.0 mako markupsafe funcsigs h5py packaging \
        fabio filelock pytest iniconfig pluggy pygments || exit 1
    "$python" -m pip download -q --no-deps --no-binary :all: reikna==0.9.0 && tar xzf reikna-0.9.0.tar.gz || exit 1
    touch fetched
fi
library=$(find "$out/root/" -name libclFFT.so.2)
oclgrind=$(echo "$out"/Oclgrind-*/tests) clfft=$(echo "$out"/clfft-*/src/examples)
mkdir -p bin
# Its tests want Oclgrind's own platform.
sed 's/strcmp(name, "Oclgrind")/0/' "$oclgrind/common/common.c" > bin/common.c
for program in apps/vecadd/vecadd apps/image/image runtime/{sampler,map_buffer,multqueues,kernel_scope_local_mem_usage}; do
    cc -w -DCL_TARGET_OPENCL_VERSION=120 -I "$oclgrind/common" -o "bin/${program##*/}" "$oclgrind/$program.c" \
        bin/common.c -lOpenCL -lm || exit 1
done
for program in fft1d fft2d fft3d; do
    cc -w -O1 -I root/usr/include -o "bin/$program" "$clfft/$program.c" "$library" -lOpenCL -lm 2> "$program.log" || exit 1
done

# check NAME FOLDER WORD...: the errors of a program that runs in a folder.
check() {
    local name=$1 folder=$2 found="$out/${1// /-}.json"
    shift 2
    rm -f "$found"
    (cd "$folder" && timeout 600 "$BIN/clscope" check --fail-on none --format json --to "$found" -- "$@") > "$out/last.log" 2>&1
    local code=$?
    local errors='[.findings[] | select(.severity == "error") | "\(.count) \(.rule): \(.text)"] | unique | join("; ")'
    printf '| %s | %s | %s |\n' "$name" "$code" "$(jq -r "$errors" "$found" 2> "$out/jq.log" || tail -1 "$out/last.log")"
}

export PYTHONPATH=$out/py PYOPENCL_CTX=0 PYOPENCL_NO_CACHE=1 LD_LIBRARY_PATH=${library%/*}
echo '| program | exit code | errors |'
echo '|---|---|---|'
for icd in /etc/OpenCL/vendors/pocl.icd ${CLSCOPE_TEST_INTEL_ICD:-}; do
    export OCL_ICD_VENDORS=$icd
    runtime=$(basename "$icd" .icd)
    check "$runtime vecadd" "$oclgrind/apps/vecadd" "$out/bin/vecadd"
    check "$runtime image" "$oclgrind/apps/image" "$out/bin/image"
    for program in sampler map_buffer multqueues kernel_scope_local_mem_usage; do
        check "$runtime $program" "$oclgrind/runtime" "$out/bin/$program"
    done
    for program in fft1d fft2d fft3d; do check "$runtime $program" . "$out/bin/$program"; done
    check "$runtime clFFT-client" . "$out/root/usr/bin/clFFT-client" -c -x 64 -y 64
    for demo in fftn_with_transpose fftshift_transformation real_to_complex_fft specialized_fft struct_reduce tempalloc; do
        check "$runtime demo_$demo" reikna-0.9.0/examples "$python" "demo_$demo.py"
    done
    for test in addition array_utils convolution doubleword image kahan linalg medfilt processing sparse stats; do
        check "$runtime test_$test" . "$python" -m pytest -q -p no:cacheprovider "py/silx/opencl/test/test_$test.py"
    done
    check "$runtime test_byte_offset" . "$python" -m pytest -q -p no:cacheprovider py/silx/opencl/codec/test/test_byte_offset.py
done
