"""sbom.py CARGO VERSION DATE HOMEPAGE: prints what clscope is made of, as CycloneDX 1.6 (JSON): each crate that is linked in,
with its version, licence, digest and what it needs, and Rust's standard library. DATE is seconds since 1970."""

import datetime
import json
import pathlib
import re
import subprocess
import sys
import uuid

import shipped

cargo, version, date, homepage = sys.argv[1:]
crates = shipped.crates(cargo)
lock = (shipped.HERE / "Cargo.lock").read_text(encoding="utf-8")
digests = {(name, number): digest for name, number, digest in re.findall(
    r'name = "([^"]+)"\nversion = "([^"]+)"\nsource = "[^"]+"\nchecksum = "([0-9a-f]{64})"', lock)}
rust = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
names = {crate["id"]: f"pkg:cargo/{crate['name']}@{crate['version']}" for crate in crates}
own = f"pkg:generic/clscope@{version}"
library = f"pkg:generic/rust-std@{rust}"


def component(crate):
    name, number = crate["name"], crate["version"]
    out = {"type": "library", "bom-ref": names[crate["id"]], "name": name, "version": number, "purl": names[crate["id"]]}
    if crate["description"]:
        out["description"] = " ".join(crate["description"].split())
    if crate["license"]:
        # Crates of before this form separate choices by a slash.
        out["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", crate["license"])}]
    if (name, number) in digests:
        out["hashes"] = [{"alg": "SHA-256", "content": digests[name, number]}]
    if crate["repository"]:
        out["externalReferences"] = [{"type": "vcs", "url": crate["repository"]}]
    return out


components = [component(crate) for crate in crates]
components.append({"type": "library", "bom-ref": library, "name": "rust-std", "version": rust,
                   "licenses": [{"expression": "MIT OR Apache-2.0"}]})
needs = [{"ref": names[c["id"]], "dependsOn": sorted({names[id] for id in c["links_in"] if id in names})} for c in crates]
print(json.dumps({
    "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    # The same parts, the same number.
    "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{own} {date} {sorted(names.values())}").urn,
    "version": 1,
    "metadata": {
        "timestamp": datetime.datetime.fromtimestamp(int(date), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "component": {
            "type": "application", "bom-ref": own, "name": "clscope", "version": version, "purl": own,
            "licenses": [{"expression": "MIT OR Apache-2.0"}],
            "externalReferences": [{"type": "vcs", "url": homepage}],
        },
    },
    "components": components,
    "dependencies": [{"ref": own, "dependsOn": sorted([*names.values(), library])}, *needs],
}, indent=1))
