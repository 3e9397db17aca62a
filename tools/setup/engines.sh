#!/bin/bash
# engines.sh: installs Spark and Dask in a Python environment of their own (some 900 MB; Java with apt, as root or with
# sudo), and runs the tests that ask both what `clscope sql` answers, on clusters of two workers of which one is killed.
# As root each worker has a network namespace of its own. Takes minutes; no part of the normal tests.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v java >/dev/null || packages openjdk-17-jre-headless
packages ca-certificates gcc libc6-dev pocl-opencl-icd ocl-icd-libopencl1 ocl-icd-opencl-dev opencl-headers python3 python3-venv \
    iproute2 util-linux
find_cargo
venv=$cache/engines
wheels="pyspark==4.0.1 dask[distributed]==2025.9.1 pandas==2.3.3 pyarrow==26.0.1 duckdb==2.0.0"
python_with "$venv" "$wheels"
export CLSCOPE_TEST_ENGINES=$venv/bin/python CLSCOPE_TEST_STRICT=1
cd "$here"
if "$CARGO" nextest --version >/dev/null 2>&1; then
    "$CARGO" nextest run -p clscope-tests -E 'test(gives_what_sql_gives)' --no-capture
else
    "$CARGO" test -p clscope-tests --test e2e gives_what_sql_gives -- --nocapture --test-threads=1
fi
