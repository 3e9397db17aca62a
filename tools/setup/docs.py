"""docs.py TREE VERSION DATE, docs.py --check FOLDER: the documents of a package, which need no network and no sources, in TREE/share.

The guide becomes HTML (doc/clscope/guide) and manual pages (man/man7); README and CHANGELOG are HTML and text; recipes,
scripts for query engines and schemas come beside them (share/clscope). Links lead to what is in the package, others are
left out with their text kept. Needs lowdown. Fails where a link of what it wrote leads nowhere, or, with --check, one of the
pages below FOLDER."""

from __future__ import annotations

import gzip
import html
import html.parser
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse
from typing import Dict, Set

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Where this is in TREE/share.
DOC, DATA = "doc/clscope", "clscope"
#: A link or a picture of Markdown: its mark, its text, where it leads.
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
#: Columns of a manual page on a terminal, without its margins.
WIDTH = 68
STYLE = """<style>
:root { color-scheme: light dark; }
body { max-width: 52rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
pre { overflow-x: auto; padding: .7rem; background: #8882; }
code { font-size: .9em; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid #8886; padding: .2rem .5rem; vertical-align: top; text-align: left; }
img { max-width: 100%; }
</style>
"""


def pages() -> Dict[str, str]:
    """Documents, and where their HTML is."""
    found = {name: f"{DOC}/{name[:-3]}.html" for name in ("README.md", "CHANGELOG.md")}
    found["kernels/README.md"] = f"{DOC}/guide/kernels.html"
    for file in sorted((ROOT / "tools/guide").glob("*.md")):
        name = "index" if file.stem == "README" else file.stem
        found[f"tools/guide/{file.name}"] = f"{DOC}/guide/{name}.html"
    return found


def files() -> Dict[str, str]:
    """Other files, and where they are."""
    found = {"LICENSE-MIT": f"{DOC}/LICENSE-MIT", "LICENSE-APACHE": f"{DOC}/LICENSE-APACHE"}
    for pattern, folder in (
        ("tools/guide/*.png", f"{DOC}/guide"),
        ("tools/guide/timeline.*", f"{DOC}/guide"),
        ("tools/query/engines/*", f"{DATA}/engines"),
        ("tools/query/recipes/*.sql", f"{DATA}/recipes"),
        # The example looks for the application where it is in the sources, too.
        ("tools/python/examples/*.py", f"{DATA}/python/examples"),
        ("tools/setup/face_detect.py", f"{DATA}/setup"),
        ("tools/*/*.schema.json", f"{DATA}/schemas"),
        ("tools/*/*.schema.txt", f"{DATA}/schemas"),
    ):
        for file in sorted(ROOT.glob(pattern)):
            if file.is_file():
                found[str(file.relative_to(ROOT))] = f"{folder}/{file.name}"
    return found


def rewritten(text: str, source: str, there: Dict[str, str], base: str) -> str:
    """A document whose relative links lead from the folder `base` to where things are; those to what is not there are
    plain text, and so are pictures."""
    for line in text.splitlines():
        if line.startswith("    ") and LINK.search(line) and not line.lstrip().startswith(("[", "-", "*", "|")):
            print(f"docs.py: {source}: a link in what looks like code: {line.strip()}", file=sys.stderr)

    def link(match: "re.Match[str]") -> str:
        picture, words, target = match.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return match.group(0)
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if path not in there:
            return words
        at = os.path.relpath(there[path], base)
        return f"{picture}[{words}]({at}{'#' + anchor if anchor else ''})"

    # lowdown takes brackets and parentheses with a space between them for a link, as no other program does.
    return LINK.sub(link, re.sub(r"\] \(", r"\\] (", text))


def plain(text: str, source: str) -> str:
    """A document without links that lead nowhere by themselves, and without pictures."""
    return re.sub(r"!\[[^\]]*\]\([^)]*\)\n*", "", rewritten(re.sub(r"!\[[^\]]*\]\([^)]*\)\n*", "", text), source, {}, ""))


def title(text: str) -> str:
    return next((line[2:] for line in text.splitlines() if line.startswith("# ")), "clscope")


def lowdown(kind: str, text: str, *options: str) -> str:
    command = ["lowdown", "-s", f"-T{kind}", "--parse-no-super", *options]
    return subprocess.run(command, input=text, check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8").stdout


def with_anchors(page: str) -> str:
    """Headings can be linked to by the names that code hosts give them: lower case, hyphens, no punctuation."""
    used: Set[str] = set()

    def heading(match: "re.Match[str]") -> str:
        level, words = match.groups()
        text = html.unescape(re.sub(r"<[^>]*>", "", words))
        plain_name = "".join(c.lower() for c in text.replace(" ", "-") if c.isalnum() or c in "-_")
        name, n = plain_name, 0
        while name in used:
            n += 1
            name = f"{plain_name}-{n}"
        used.add(name)
        return f'<h{level} id="{name}">{words}</h{level}>'

    return re.sub(r"(?s)<h([1-6])[^>]*>(.*?)</h\1>", heading, page)


def tables_as_text(text: str) -> str:
    """A document for manual pages: a narrow table is shown as it stands, a row of a wide one is a paragraph."""

    def shown(match: "re.Match[str]") -> str:
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] for line in match.group(0).splitlines()]
        head, body = rows[0], rows[2:]
        bare = [[re.sub(r"[`*]|\\(?=\|)", "", cell) for cell in row] for row in [head, *body]]
        widths = [max(len(row[i]) if i < len(row) else 0 for row in bare) for i in range(len(head))]
        if sum(widths) + 2 * len(widths) <= WIDTH:
            lines = ["    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in bare]
            return "\n".join(lines) + "\n"
        items = []
        for first, *others in body:
            said = (f"{name}: {cell}" if len(others) > 1 and name else cell for name, cell in zip(head[1:], others) if cell)
            items.append(f"- {first}: " + "; ".join(said))
        return "\n".join(items) + "\n"

    return re.sub(r"(?m)^\|.*\n\|[-:| ]+\n(?:\|.*\n?)*", shown, text)


def manual(name: str, text: str, version: str, date: str) -> str:
    """A manual page of section 7. The line behind its name is what `man -k` and `apropos` read."""
    heading = title(text)
    body = re.sub(r"\A# .*\n", "", text)
    name_section = f"# NAME\n\n{name} - {heading}\n\n"
    body = tables_as_text(body)
    # Sections of the guide are sections of the page.
    body = re.sub(r"(?m)^##", "#", body)
    made = lowdown("man", name_section + body, "-M", f"title={name}", "-M", "section=7", "-M", f"date={date}",
                   "-M", f"source=clscope {version}", "-M", "volume=clscope")
    # Ragged right: there is little to stretch in narrow columns.
    return re.sub(r"(?m)(^\.TH .*$)", r"\1\n.ad l", made, count=1)


class Page(html.parser.HTMLParser):
    """What a page links to, and what it can be linked by."""

    def __init__(self) -> None:
        super().__init__()
        self.links: Set[str] = set()
        self.anchors: Set[str] = set()

    def handle_starttag(self, tag: str, attributes: list) -> None:
        for key, value in attributes:
            if key == "id":
                self.anchors.add(value)
            elif key in ("href", "src"):
                self.links.add(value)


def dead_links(folder: pathlib.Path) -> Set[str]:
    """Links of the pages below a folder that lead nowhere."""
    read: Dict[pathlib.Path, Page] = {}
    for file in folder.rglob("*.html"):
        read[file.resolve()] = page = Page()
        page.feed(file.read_text(encoding="utf-8"))
    dead = set()
    for file, page in read.items():
        for link in page.links:
            if "://" in link or link.startswith(("mailto:", "data:")):
                continue
            path, _, anchor = link.partition("#")
            target = (file.parent / urllib.parse.unquote(path)).resolve() if path else file
            if not target.exists() or (anchor and anchor not in getattr(read.get(target), "anchors", ())):
                dead.add(f"{file.name}: {link}")
    return dead


def main(tree: str, version: str, date: str) -> None:
    share = pathlib.Path(tree) / "share"
    documents, others = pages(), files()
    there = {**documents, **others}
    # What a document calls a folder is shown as that folder.
    there["tools/query/engines"], there["tools/query/recipes"] = f"{DATA}/engines", f"{DATA}/recipes"
    there["tools/guide"] = f"{DOC}/guide/index.html"

    def write(path: str, content: bytes) -> None:
        target = share / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    for source, path in others.items():
        write(path, (ROOT / source).read_bytes())
    for source, path in documents.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        base = os.path.dirname(path)
        made = lowdown("html", rewritten(text, source, there, base), "-M", f"title={title(text)}")
        write(path, with_anchors(made).replace("</head>", STYLE + "</head>", 1).encode())
        if "/" not in source:
            write(f"{DOC}/{source}", rewritten(text, source, there, DOC).encode())
            continue
        name = path.rsplit("/", 1)[1][:-5]
        name = "clscope-guide" if name == "index" else f"clscope-guide-{name}"
        page = manual(name, plain(text, source), version, date)
        write(f"man/man7/{name}.7.gz", gzip.compress(page.encode(), 9, mtime=0))
    check(share / DOC)


def check(folder: pathlib.Path) -> None:
    dead = dead_links(folder)
    if dead:
        sys.exit("docs.py: links that lead nowhere:\n  " + "\n  ".join(sorted(dead)))


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        check(pathlib.Path(sys.argv[2]))
    else:
        main(*sys.argv[1:])
