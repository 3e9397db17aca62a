#!/bin/bash
# engines.sh [oldest|newest]: installs Spark and Dask in a Python environment of their own (some 900 MB; Java with apt, as
# root or with sudo), and runs the tests that ask both what `clscope sql` answers, on clusters of two workers of which one is
# killed: first with the oldest versions that are said to work (tools/query/engines/versions.txt), then with the newest, or
# with those that are named. As root each worker has a network namespace of its own. Takes minutes; no part of the normal
# tests. CLSCOPE_ENGINES_COMMANDS=NUMBER also asks a folder of so many commands that a generator makes.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

command -v java >/dev/null || packages openjdk-17-jre-headless
packages ca-certificates gcc libc6-dev pocl-opencl-icd ocl-icd-libopencl1 ocl-icd-opencl-dev opencl-headers python3 python3-venv \
    iproute2 util-linux
find_cargo
cd "$here"
for which in ${1:-oldest newest}; do
    venv=$cache/engines-$which
    # Spark 3 needs setuptools for Python 3.12 or newer.
    python_with "$venv" "$(reading "$which" pyspark 'dask[distributed]' pandas pyarrow duckdb polars)setuptools"
    say "the tests of engines, $which versions"
    export CLSCOPE_TEST_ENGINES=$venv/bin/python CLSCOPE_TEST_STRICT=1
    if "$CARGO" nextest --version >/dev/null 2>&1; then
        "$CARGO" nextest run -p clscope-tests --no-fail-fast -E 'test(gives_what_sql_gives) + test(read_by_others)' --no-capture
    else
        "$CARGO" test -p clscope-tests --test e2e -- gives_what_sql_gives read_by_others --nocapture --test-threads=1
    fi
    if [ -n "${CLSCOPE_ENGINES_COMMANDS:-}" ]; then
        build_products
        made=$(mktemp -d)
        trap 'rm -rf "$made"' EXIT
        "$CLSCOPE_TEST_ENGINES" -B tools/query/engines/generate.py "$made/data" --commands "$CLSCOPE_ENGINES_COMMANDS"
        "$CLSCOPE_TEST_ENGINES" -B tools/query/engines/compare.py "$made/data" --clscope "$target/release/clscope" --engine spark \
            --workers 4 --recipes imbalance,energy,overlap,kernels
        rm -rf "$made"
    fi
done
