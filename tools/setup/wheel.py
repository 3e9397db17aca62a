"""wheel.py VERSION HOMEPAGE GLIBC ARCHITECTURE TREE OUT: packs the Python package with the command and the recorder as a wheel.

TREE is laid out as in the other packages: bin, lib/clscope, share. A wheel is a zip file with a list of its files
(https://packaging.python.org/specifications/binary-distribution-format). The same input gives the same bytes."""

import base64
import hashlib
import pathlib
import sys
import tomllib
import zipfile

import docs

version, homepage, glibc, architecture, tree, out = sys.argv[1:]
source = pathlib.Path(__file__).resolve().parents[1] / "python"
tree = pathlib.Path(tree)
described = tomllib.loads((source / "pyproject.toml").read_text())
project = described["project"]
#: In the wheel's folder of licences.
TERMS = ["NOTICE", "LICENSE-MIT", "LICENSE-APACHE"]
info = f"clscope-{version}.dist-info"
data = f"clscope-{version}.data"
tag = f"py3-none-manylinux_{glibc}_{architecture}"

metadata = [
    "Metadata-Version: 2.4",
    f"Name: {project['name']}",
    f"Version: {version}",
    f"Summary: {project['description']}",
    f"License-Expression: {project['license']}",
    *(f"License-File: {terms}" for terms in TERMS),
    "Author: The clscope developers",
    f"Keywords: {','.join(project['keywords'])}",
    *(f"Classifier: {classifier}" for classifier in project["classifiers"]),
    *(f"Project-URL: {name}, {homepage}{path}" for name, path in described["tool"]["clscope"]["urls"].items()),
    f"Requires-Python: {project['requires-python']}",
    "Description-Content-Type: text/markdown; charset=UTF-8; variant=GFM",
]
for extra, needed in project["optional-dependencies"].items():
    metadata.append(f"Provides-Extra: {extra}")
    metadata += [f"Requires-Dist: {name}; extra == '{extra}'" for name in needed]
# Shown where no other file of the package is.
readme = docs.plain((source / project["readme"]).read_text(encoding="utf-8"), "README.md")

# Path in the wheel, bytes, whether it is a program.
files = [(f"clscope/{f.name}", f.read_bytes(), False) for f in sorted((source / "clscope").glob("*.py"))]
files.append(("clscope/py.typed", b"", False))
# The installer puts `scripts` into the folder of programs and `data` below the prefix, where the command looks.
files.append((f"{data}/scripts/clscope", (tree / "bin/clscope").read_bytes(), True))
for library in sorted((tree / "lib/clscope").iterdir()):
    files.append((f"{data}/data/lib/clscope/{library.name}", library.read_bytes(), False))
for file in sorted((tree / "share").rglob("*")):
    if file.is_file() and file.name != "NOTICE":
        files.append((f"{data}/data/{file.relative_to(tree)}", file.read_bytes(), False))
for terms in TERMS:
    files.append((f"{info}/licenses/{terms}", (tree / "share/doc/clscope" / terms).read_bytes(), False))
files.append((f"{info}/METADATA", ("\n".join(metadata) + f"\n\n{readme}").encode(), False))
wheel = f"Wheel-Version: 1.0\nGenerator: clscope\nRoot-Is-Purelib: false\nTag: {tag}\n"
files.append((f"{info}/WHEEL", wheel.encode(), False))
record = ""
for path, content, _ in files:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record += f"{path},sha256={digest},{len(content)}\n"
files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), False))

target = pathlib.Path(out) / f"clscope-{version}-{tag}.whl"
with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for path, content, program in files:
        # Zip files know no earlier time; what is installed gets the time of its installation.
        entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100755 if program else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, content)
