"""notice.py CARGO: prints the licences of all crates that are linked into clscope, and of Rust's standard library with
its own dependencies, each text once."""

import html.parser
import pathlib
import subprocess
import sys

import shipped

#: Names of files with terms.
TERMS = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE")

class StandardLibrary(html.parser.HTMLParser):
    """Reads the page of notices that comes with the toolchain: what it says, and under which heading each text is."""

    def __init__(self):
        super().__init__()
        self.said, self.texts, self.heading, self.open = [], [], "", []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag == "h3":
            self.heading = ""
        elif tag == "pre":
            name = self.heading.lstrip(" \N{PACKAGE}").strip()
            self.texts.append([f"{name} of Rust's standard library", ""])

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "pre" in self.open:
            self.texts[-1][1] += data
        elif "body" in self.open:
            if "h3" in self.open:
                self.heading += data
            self.said.append(data)

    def prose(self):
        lines = (" ".join(line.split()) for line in "".join(self.said).splitlines())
        return "\n".join(line for line in lines if line)


def standard_library():
    """The notices of the standard library: rustup brings them with the component rust-docs or rustc, Debian as a text."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    page = pathlib.Path(sysroot) / "share/doc/rust/COPYRIGHT-library.html"
    if page.is_file():
        read = StandardLibrary()
        read.feed(page.read_text())
        return read.prose(), [(name, tidy(text)) for name, text in read.texts]
    found = sorted(pathlib.Path("/usr/share/doc").glob("libstd-rust-*/copyright"))
    if not found:
        sys.exit(f"notice.py: no notices of Rust's standard library, which is linked in: neither {page} nor "
                 "/usr/share/doc/libstd-rust-*/copyright; package with the toolchain of rustup or Debian")
    return tidy(found[-1].read_text()), []


def tidy(text):
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


crates = shipped.crates(sys.argv[1])
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
        texts.setdefault(tidy(file.read_text(errors="replace")), []).append(name)
said, of_library = standard_library()
for name, text in of_library:
    texts.setdefault(text, []).append(name)
print(f"\nIt contains Rust's standard library, of which its authors say:\n\n{said}")
for text, names in sorted(texts.items(), key=lambda item: item[1]):
    print(f"\n{'=' * 78}\n{', '.join(dict.fromkeys(names))}\n{'=' * 78}\n\n{text}")
