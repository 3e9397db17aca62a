"""notice.py CARGO: prints the licences of all crates that are linked into clscope, each text once."""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parents[2]
#: What is shipped.
SHIPPED = ["clscope", "clscope-cli"]
#: Names of files with terms.
TERMS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")

cargo = sys.argv[1]
platform = subprocess.run(
    ["rustc", "-vV"], check=True, capture_output=True, text=True
).stdout.split("host: ")[1].split()[0]
metadata = json.loads(
    subprocess.run(
        [cargo, "metadata", "--format-version=1", "--filter-platform", platform],
        check=True, capture_output=True, cwd=HERE,
    ).stdout
)
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}

# From what is shipped along the dependencies that are linked in: neither those of tests nor of builds.
found, waiting = set(), [id for id, p in packages.items() if p["name"] in SHIPPED and p["source"] is None]
while waiting:
    here = waiting.pop()
    if here in found:
        continue
    found.add(here)
    for dependency in nodes[here]["deps"]:
        if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
            waiting.append(dependency["pkg"])

crates = sorted((packages[id] for id in found if packages[id]["source"]), key=lambda p: (p["name"], p["version"]))
texts = {}
print("clscope contains the following crates, under these terms. The texts follow.\n")
for crate in crates:
    name = f"{crate['name']} {crate['version']}"
    folder = pathlib.Path(crate["manifest_path"]).parent
    files = sorted(f for f in folder.iterdir() if f.name.upper().startswith(TERMS) and f.is_file())
    terms = crate["license"] or (crate["license_file"] and f"see {crate['license_file']}")
    if not terms:
        sys.exit(f"notice.py: {name} names no licence: look at {folder}")
    print(f"  {name}: {terms}")
    for file in files:
        text = "\n".join(line.rstrip() for line in file.read_text(errors="replace").splitlines()).strip()
        texts.setdefault(text, []).append(name)
for text, names in sorted(texts.items(), key=lambda item: item[1]):
    print(f"\n{'=' * 78}\n{', '.join(dict.fromkeys(names))}\n{'=' * 78}\n\n{text}")
