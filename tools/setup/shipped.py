"""Which crates of others are in what is shipped; shared by the scripts beside it."""

import json
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parents[2]
#: What is shipped.
SHIPPED = ["clscope", "clscope-cli", "clscope-lab"]


def crates(cargo):
    """Packages as `cargo metadata` has them, each with the ids of those that it links in (`links_in`), in order of their names."""
    platform = subprocess.run(
        ["rustc", "-vV"], check=True, capture_output=True, text=True
    ).stdout.split("host: ")[1].split()[0]
    metadata = json.loads(
        subprocess.run(
            [cargo, "metadata", "--format-version=1", "--locked", "--filter-platform", platform],
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
        needed = [d["pkg"] for d in nodes[here]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
        packages[here]["links_in"] = needed
        waiting += needed
    return sorted((packages[id] for id in found if packages[id]["source"]), key=lambda p: (p["name"], p["version"]))
