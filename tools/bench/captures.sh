#!/bin/bash
# captures.sh OUT: captures launches of real applications (OpenCV's face detection and operations on cv2.UMat, kernels
# in PyOpenCL, clpeak) on PoCL and, where CLSCOPE_TEST_INTEL_ICD names it, on Intel's CPU runtime, and runs each alone by
# `clscope kernel`: whether the results are the captured ones bit for bit, and the median time as in the application against
# the median of the application's own other launches over the same range. Prints a row per launch and the sums: how many
# medians lie within 3 %, how many intervals overlap, and how many of those that are known to 3 % do either. OUT keeps
# traces and documents. Needs what tools/setup/test.sh installs.
#
# Environment:
#   BIN       folder of clscope and libclscope.so (default: target/release)
#   LAUNCHES  numbers of the launches of each kernel that are captured (default: 2)
#   REPEAT    launches of each capture (default: 30)
#   TURNS     turns of the loops of the applications: as many launches of each kernel, the captured one less (default: 30)
#   RUNTIMES  which of pocl, intel and here, which is the runtime that the environment chooses (default: pocl intel)
#   PYTHON_CV2 a Python with cv2 (default: /usr/bin/python3); CV_DEVICE its OPENCV_OPENCL_DEVICE (default: :CPU:)
#   APPS      which of faces, haar, umat, arrays, clpeak (default: all)
#   CLSCOPE_TEST_PYTHON, CLSCOPE_TEST_PHOTOGRAPH, CLSCOPE_TEST_INTEL_ICD: as in tests/README.md
#
# On a GPU, with a wheel of OpenCV unpacked in cv: PYTHONPATH=$PWD/cv RUNTIMES=here APPS="haar umat" CV_DEVICE=:GPU: \
#   CLSCOPE_TEST_PHOTOGRAPH=photograph.png tools/bench/captures.sh OUT
set -u
out=${1:?captures.sh OUT}
BIN=$(realpath "${BIN:-target/release}")
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
cd "$out" || exit 1
rm -rf -- ./*.clscope ./*.json ./*.log

cat > umat.py <<'PYTHON'
import os
import sys
import cv2
image = cv2.imread(sys.argv[1])
cv2.ocl.setUseOpenCL(True)
assert cv2.ocl.useOpenCL()
for _ in range(int(os.environ["TURNS"])):
    u = cv2.UMat(image)
    grey = cv2.cvtColor(u, cv2.COLOR_BGR2GRAY)
    real = grey.get().astype("float32")
    f = cv2.UMat(real)
    work = [
        cv2.GaussianBlur(grey, (5, 5), 1.5), cv2.Sobel(grey, cv2.CV_16S, 1, 0), cv2.Laplacian(grey, cv2.CV_16S),
        cv2.medianBlur(grey, 3), cv2.bilateralFilter(grey, 5, 50, 50), cv2.blur(grey, (7, 7)),
        cv2.erode(grey, None), cv2.dilate(grey, None), cv2.threshold(grey, 100, 255, cv2.THRESH_BINARY)[1],
        cv2.resize(u, None, fx=0.5, fy=0.5), cv2.resize(u, None, fx=0.7, fy=0.7, interpolation=cv2.INTER_AREA),
        cv2.pyrDown(grey), cv2.pyrUp(grey), cv2.flip(u, 1), cv2.transpose(u), cv2.equalizeHist(grey),
        cv2.Canny(grey, 50, 150), cv2.integral(grey), cv2.add(f, f), cv2.multiply(f, f), cv2.exp(cv2.multiply(f, 0.01)),
        cv2.magnitude(f, f), cv2.phase(f, f), cv2.dft(f), cv2.warpAffine(grey, cv2.getRotationMatrix2D((50, 50), 9, 1), (200, 200)),
        cv2.warpPerspective(grey, cv2.UMat(__import__("numpy").eye(3)).get(), (200, 200)), cv2.matchTemplate(grey, cv2.UMat(grey.get()[:9, :9].copy()), cv2.TM_CCORR),
        cv2.cvtColor(u, cv2.COLOR_BGR2HSV), cv2.cvtColor(u, cv2.COLOR_BGR2Lab), cv2.cvtColor(u, cv2.COLOR_BGR2YUV),
        cv2.norm(grey), cv2.meanStdDev(grey), cv2.minMaxLoc(grey), cv2.split(u), cv2.LUT(grey, __import__("numpy").arange(256, dtype="uint8")),
        cv2.gemm(f, f, 1, None, 0, flags=cv2.GEMM_2_T), cv2.addWeighted(f, 0.3, f, 0.7, 1), cv2.accumulate(f, cv2.UMat(real.copy())),
    ]
cv2.ocl.finish()
print(len(work))
PYTHON
cat > faces.py <<'PYTHON'
import os
import sys
import cv2
# The detectors of tools/setup/face_detect.py, over and over.
cv2.ocl.setUseOpenCL(True)
assert cv2.ocl.useOpenCL()
names = ["haarcascade_frontalface_alt.xml" if sys.argv[2:] else "lbpcascade_frontalface.xml"]
folders = [getattr(getattr(cv2, "data", None), "haarcascades", ""), "/usr/share/opencv4/haarcascades", "/usr/share/opencv4/lbpcascades"]
paths = [os.path.join(folder, name) for folder in folders for name in names]
detector = cv2.CascadeClassifier(next(path for path in paths if os.path.exists(path)))
image = cv2.imread(sys.argv[1])
for _ in range(int(os.environ["TURNS"])):
    grey = cv2.equalizeHist(cv2.cvtColor(cv2.UMat(image), cv2.COLOR_BGR2GRAY))
    found = detector.detectMultiScale(grey, 1.1, 4)
print(len(found))
PYTHON
cat > arrays.py <<'PYTHON'
import os
import numpy as np, pyopencl as cl
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context)
program = cl.Program(context, """
kernel void gemm(global const float *a, global const float *b, global float *c, int n, local float *tile)
{
    int x = get_global_id(0), y = get_global_id(1), i = get_local_id(0), j = get_local_id(1);
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        tile[j * 16 + i] = a[y * n + t + i];
        tile[256 + j * 16 + i] = b[(t + j) * n + x];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 16; k++)
            sum += tile[j * 16 + k] * tile[256 + k * 16 + i];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[y * n + x] = sum;
}
kernel void bodies(global const float4 *from, global float4 *to, int n, float step)
{
    float4 p = from[get_global_id(0)], f = 0;
    for (int i = 0; i < n; i++) {
        float4 d = from[i] - p;
        f += d * rsqrt(dot(d, d) + 0.01f);
    }
    to[get_global_id(0)] = p + f * step;
}
kernel void histogram(global const uint *a, global uint *bins) { atomic_inc(&bins[a[get_global_id(0)] % 256]); }
kernel void waves(global const float *a, global float *b) { size_t i = get_global_id(0); b[i] = sin(a[i]) + exp(-a[i] * a[i]) * native_sqrt(fabs(a[i])); }
kernel void steps(global const int *a, global int *b) { int v = a[get_global_id(0)], n = 0; while (v > 1 && n < 500) { v = v & 1 ? 3 * v + 1 : v / 2; n++; } b[get_global_id(0)] = n; }
""").build()
flags = cl.mem_flags
rng = np.random.default_rng(5)
def buffer(array, access=flags.READ_WRITE):
    return cl.Buffer(context, access | flags.COPY_HOST_PTR, hostbuf=array)
n = 256
a, b = (buffer(rng.random((n, n), dtype=np.float32), flags.READ_ONLY) for _ in range(2))
c = cl.Buffer(context, flags.WRITE_ONLY, 4 * n * n)
places, moved = (buffer(rng.random((4096, 4), dtype=np.float32)) for _ in range(2))
words = buffer(rng.integers(0, 1 << 31, 1 << 18, dtype=np.uint32), flags.READ_ONLY)
bins = buffer(np.zeros(256, np.uint32))
angles, numbers = buffer(rng.random(1 << 18, dtype=np.float32)), buffer(np.arange(1 << 16, dtype=np.int32))
heights, counts = (cl.Buffer(context, flags.READ_WRITE, of.size) for of in (angles, numbers))
# Each turn does the same work: the launches of a kernel are of one distribution.
for _ in range(int(os.environ["TURNS"])):
    program.gemm(queue, (n, n), (16, 16), a, b, c, np.int32(n), cl.LocalMemory(4 * 512))
    program.bodies(queue, (4096,), None, places, moved, np.int32(4096), np.float32(0.01))
    program.histogram(queue, (1 << 18,), None, words, bins)
    program.waves(queue, (1 << 18,), None, angles, heights)
    program.steps(queue, (1 << 16,), None, numbers, counts)
queue.finish()
PYTHON

photograph=${CLSCOPE_TEST_PHOTOGRAPH:?names no photograph: tools/setup/test.sh sets it}
apps=${APPS:-faces haar umat arrays clpeak}
case $apps in *arrays*) python=${CLSCOPE_TEST_PYTHON:?names no Python with PyOpenCL: tools/setup/test.sh sets it} ;; esac
cv=${PYTHON_CV2:-/usr/bin/python3}
export TURNS=${TURNS:-30} OPENCV_OPENCL_DEVICE=${CV_DEVICE:-:CPU:} OPENCV_OPENCL_CACHE_ENABLE=0 PYOPENCL_NO_CACHE=1 PYOPENCL_CTX=0

one() { # RUNTIME NAME COMMAND...: captures, then runs each capture alone
    local runtime=$1 name=$2
    shift 2
    case " $apps " in *" $name "*) ;; *) return ;; esac
    "$BIN/clscope" record --sensors off --device-timing event -f -o "$runtime-$name" --capture "*:${LAUNCHES:-2}" -- "$@" > "$runtime-$name.log" 2>&1 ||
        echo "$runtime $name: the application gave $?: see $out/$runtime-$name.log" >&2
    for capture in "$runtime-$name.clscope"/captures/*; do
        case $capture in *.part | *'*') continue ;; esac
        "$BIN/clscope" kernel "$capture" --sensors off --repeat "${REPEAT:-30}" --format json \
            > "$runtime-$name-$(basename "$capture").json" 2> "$runtime-$name-$(basename "$capture").err"
    done
}

all() { # RUNTIME
    one "$1" faces "$cv" "$PWD/faces.py" "$photograph"
    [ "$1" = pocl ] || one "$1" haar "$cv" "$PWD/faces.py" "$photograph" haar
    one "$1" umat "$cv" "$PWD/umat.py" "$photograph"
    one "$1" arrays "${python:-}" "$PWD/arrays.py"
    one "$1" clpeak clpeak --kernel-latency --compute-sp --compute-integer
}

for runtime in ${RUNTIMES:-pocl intel}; do
    case $runtime in
        here) all here ;;
        pocl) (export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd; all pocl) ;;
        intel)
            [ -f "${CLSCOPE_TEST_INTEL_ICD:-}" ] || continue
            library=$(cat "$CLSCOPE_TEST_INTEL_ICD")
            # Debian's OpenCV brings an older TBB than the runtime needs: the runtime's own comes first.
            (export OCL_ICD_VENDORS=$CLSCOPE_TEST_INTEL_ICD OCL_ICD_FILENAMES=$library LD_LIBRARY_PATH=${library%/*}; all intel) ;;
    esac
done

python3 - <<'PYTHON'
import glob, json
rows, failed = [], []
for path in sorted(glob.glob("*.json")):
    name = path[:-5]
    try:
        d = json.load(open(path))
    except ValueError:
        failed.append((name, open(name + ".err").read().strip()[:160]))
        continue
    there = d["as_there"]
    rows.append((name, d["base"]["results"]["outcome"], d["base"]["time"], there))
print(f"{'launch':52} {'results':11} {'there, us':>10} {'as there':>10} {'alone':>10} {'change':>8} {'known to':>8}  rest there, here, us; behind; cold MB; fresh")
half = lambda of: max(of["high"] - of["value"], of["value"] - of["low"]) / of["value"] if of["value"] else 9
judged = []
for name, outcome, time, there in rows:
    us = lambda ns: f"{ns / 1000:.2f}" if ns is not None else "-"
    alone = time["median_ns"]["value"] if time else None
    if not there or not there["here"]:
        print(f"{name:52} {outcome:11} {us(there and there['there_ns']['value']):>10} {'-':>10} {us(alone):>10}")
        continue
    a, b = there["there_ns"], there["here"]["median_ns"]
    change, known = b["value"] / a["value"] - 1, half(a) + half(b)
    judged.append((name, change, known, there["is_overlapping"], alone / a["value"] - 1 if alone else None, there))
    print(f"{name:52} {outcome:11} {us(a['value']):>10} {us(b['value']):>10} {us(alone):>10} {change:>+8.1%} {known:>8.1%}"
          f"  {us(there['rest_there_ns'])} {us(there['rest_here_ns'])}; {there['behind_share']:.0%}; {(there['cold_bytes'] or 0) / 1e6:.1f}; {there['fresh']}")
for name, why in failed:
    print(f"{name:52} failed: {why}")
for runtime in sorted({r[0].split("-")[0] for r in rows}):
    of = [r for r in rows if r[0].startswith(runtime + "-")]
    counts = {v: sum(r[1] == v for r in of) for v in sorted({r[1] for r in of})}
    mine = [r for r in judged if r[0].startswith(runtime + "-")]
    fine = [r for r in mine if r[2] <= 0.03]
    near = lambda all: sum(abs(r[1]) <= 0.03 for r in all)
    overlap = lambda all: sum(r[3] for r in all)
    either = lambda all: sum(r[3] or abs(r[1]) <= 0.03 for r in all)
    middle = lambda all: f"{sorted(all)[len(all) // 2]:+.1%}" if all else "-"
    print(f"{runtime}: {len(of)} launches, results {counts}; {len(mine)} compared: within 3 % {near(mine)}, intervals overlap {overlap(mine)},"
          f" either {either(mine)}; of the {len(fine)} that are known to 3 % together {near(fine)}, {overlap(fine)}, {either(fine)};"
          f" median change as in the application {middle([r[1] for r in mine])}, one behind the other {middle([r[4] for r in mine if r[4] is not None])};"
          f" failed {sum(f[0].startswith(runtime + '-') for f in failed)}")
PYTHON
