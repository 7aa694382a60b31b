"""A program in cells, run, as a notebook with what it printed and drew; no Jupyter is needed.

    python notebook.py tiny_llama.py          # writes tiny_llama.ipynb
    python notebook.py tiny_llama.py -o DIR/NAME.ipynb

A cell begins with a line `# %%`; one of `# %% [markdown]` is text, in comments. This is the form that editors know as cells.
"""

import argparse
import base64
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def cells_of(source: str) -> list[tuple[str, str, int]]:
    """Kind (markdown, code), text and number of lines before it."""
    found: list[tuple[str, list[str], int]] = []
    for number, line in enumerate(source.splitlines()):
        if line.startswith("# %%"):
            found.append(("markdown" if "[markdown]" in line else "code", [], number + 1))
        elif found:
            found[-1][1].append(line[2:] if found[-1][0] == "markdown" else line)
        elif line.strip():
            raise SystemExit(f"line {number + 1} stands before the first cell")
    return [(kind, "\n".join(text).strip("\n"), first) for kind, text, first in found]


def figures() -> list[dict[str, Any]]:
    """The open figures, which are closed."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None:
        return []
    out = []
    for number in plt.get_fignums():
        picture = io.BytesIO()
        plt.figure(number).savefig(picture, format="png", dpi=80)
        data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["<Figure>"]}
        out.append({"output_type": "display_data", "metadata": {}, "data": data})
    plt.close("all")
    return out


def notebook_of(source: str, path: str, run: bool = True) -> dict[str, Any]:
    os.environ["MPLBACKEND"] = "agg"
    scope: dict[str, Any] = {"__name__": "__main__"}
    cells: list[dict[str, Any]] = []
    count = 0
    for number, (kind, text, first) in enumerate(cells_of(source)):
        cell = {"id": f"cell-{number}", "cell_type": kind, "metadata": {}, "source": lines(text)}
        if kind == "code":
            count += 1
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                if run:
                    exec(compile("\n" * first + text, path, "exec"), scope)
            said = [{"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())}]
            cell |= {"execution_count": count, "outputs": (said if printed.getvalue() else []) + figures()}
        cells.append(cell)
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": python, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    book = notebook_of(given.program.read_text(), str(given.program))
    output = given.output or given.program.with_suffix(".ipynb")
    output.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    print(output)
