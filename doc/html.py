"""html.py PROGRAM SOURCE OUT: renders the manual to OUT. With --sources, only checks and writes the pages in Markdown.

The chapters are SOURCE/doc/*.md, README and the like. PROGRAM adds the generated parts: the configuration reference,
help and options below every heading `### NAME` of a plug-in, and the list of all series."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

PAGES = {"models": ["attention", "ffn", "data"], "optimizers": ["optimizer", "schedule"], "stabilizers": ["stabilizer"]}
PROJECT = ["README", "CONTRIBUTING", "CHANGELOG", "SECURITY"]  # those that exist
CONF = """
from docutils.utils.math import latex2mathml
project, author = "maxlogit", "the maxlogit authors"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
html_theme = "alabaster"
html_theme_options = {"page_width": "84em", "fixed_sidebar": True, "description": "MaxLogit explosion, simulated"}
html_show_sourcelink, html_copy_source, html_show_copyright = False, False, False

def mathml(block):  # formulas without a network: browsers render MathML
    def visit(self, node):
        xml = latex2mathml.tex2mathml(node.astext(), inline=not block)
        self.body.append("<p>%s</p>" % xml if block else xml)
        from docutils.nodes import SkipNode
        raise SkipNode
    return visit

def setup(app):
    app.add_html_math_renderer("mathml", (mathml(False), None), (mathml(True), None))

html_math_renderer = "mathml"
"""


def cell(text):
    return re.sub(r"([|<*$])", r"\\\1", text)


def plugin(row):
    text = f"*{cell(row['help'])}*\n"
    if row["options"]:
        text += "\n| option | default | allowed | unit | meaning |\n|---|---|---|---|---|\n"
    for o in row["options"]:
        default, unit = o["default"] and f"`{o['default']}`", "" if o["unit"] == "1" else o["unit"]
        text += f"| `{row['name']}.{o['name']}` | {default} | {cell(o['allowed'])} | {unit} | {cell(o['help'])} |\n"
    return text + "\n"


def with_options(page, text, listed):
    """Adds the generated part below each heading; headings and plug-ins must be the same."""
    rows = {row["name"]: row for kind in PAGES[page] for row in listed[kind]}
    headings = re.findall(r"^### (\w+)$", text, re.M)
    if sorted(headings) != sorted(rows):
        sys.exit(f"doc/{page}.md: no section for {sorted(set(rows) - set(headings))}, no plug-in for "
                 f"{sorted(set(headings) - set(rows))}, or one of them twice")
    return re.sub(r"^### (\w+)$\n", lambda m: m.group() + "\n" + plugin(rows[m[1]]), text, flags=re.M)


def series(program, listed):
    text = ""
    for row in listed["observable"]:
        help_text = subprocess.run([program, "help", row["name"]], capture_output=True, text=True, check=True).stdout
        found = re.findall(r"^  series (\S+)(.*?): (.*)$", help_text, re.M)
        text += f"\n## {row['name']}\n\n*{cell(row['help'])}*\n"
        if found:
            text += "\n| series | axes, unit | definition |\n|---|---|---|\n"
            text += "".join(f"| `{name}` | step{cell(more)} | {cell(what)} |\n" for name, more, what in found)
    return text


def linked(text, source, pages, here):
    """Links between Markdown files of the repository to pages and images of the manual; others become text."""
    def link(m):
        place, _, anchor = m[3].partition("#")
        path = (here / place).resolve()
        if "://" in m[3] or not place:
            return m[0]
        if m[1] and path.is_file():
            name = "-".join(path.relative_to(source).parts)
            shutil.copyfile(path, pages / name)
            return f"![{m[2]}]({name})"
        if path.suffix == ".md" and (path.parent == source / "doc" or path.parent == source and path.stem in PROJECT):
            return f"[{m[2]}]({path.name}{'#' + anchor if anchor else ''})"
        return f"{m[2]} (`{path.relative_to(source)}`)"
    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def write_pages(program, source, pages):
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    run = [subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout
           for arguments in (["list", "--json"], ["help", "--markdown"])]
    listed = json.loads(run[0])
    project = [name for name in PROJECT if (source / f"{name}.md").is_file()]
    for path in [source / f"{name}.md" for name in project] + sorted((source / "doc").glob("*.md")):
        text = linked(path.read_text(), source, pages, path.parent)
        if path.stem in PAGES:
            text = with_options(path.stem, text, listed)
        elif path.stem == "observables":
            text += series(program, listed)
        elif path.stem == "index":
            text += "\n```{toctree}\n:caption: Project\n" + "".join(f"{name}\n" for name in project) + "```\n"
        (pages / path.name).write_text(text)
    (pages / "configuration.md").write_text(re.sub(r"^# Keys\n", "# Configuration reference\n", run[1]))
    (pages / "conf.py").write_text(CONF)


def main():
    only_sources = "--sources" in sys.argv
    program, source, out = (a for a in sys.argv[1:] if a != "--sources")
    pages = Path(out + ".pages")
    write_pages(program, Path(source).resolve(), pages)
    if not only_sources:
        done = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "html", "-D", "root_doc=index", pages, out])
        shutil.rmtree(pages)
        if done.returncode == 0:
            print(f"{out}/index.html")
        sys.exit(done.returncode)


main()
