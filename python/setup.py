"""The package carries the program, so a wheel is one of this kind of machine.

Program, library, scripts of figures and the page are the files that `make install` writes: below MAXLOGIT_STAGE, or else from
the sources around this folder, which are configured and built if need be. Of an sdist they are in its folder `sources`.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Optional

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
TOP = next((folder for folder in (HERE / "sources", HERE.parent) if (folder / "configure.ac").is_file()), None)


def command(*words: str, cwd: Optional[Path] = TOP) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    try:
        subprocess.run(words, cwd=cwd, check=True, env=environment, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise SystemExit(
            f"maxlogit: its program cannot be built here ({problem}). `./bootstrap build` in the root folder of the sources "
            "installs what is missing; a wheel that has all parts needs no compiler"
        ) from None


def installed(folder: str) -> Path:
    """The folder with bin/maxlogit below which `make install` has put it."""
    if TOP is None:
        raise SystemExit("maxlogit: this folder is without the program's sources: install from the root folder, or an sdist")
    built = TOP
    if not (TOP / "Makefile").is_file():
        if not (TOP / "configure").is_file():
            command("autoreconf", "-i")
        built = Path(folder) / "build"  # the sources stay as they are, to be configured as their owner wants
        built.mkdir()
        command("sh", str(TOP / "configure"), "-q", "--without-cuda", "--without-mpi", cwd=built)
    command("make", "-s", f"-j{os.cpu_count() or 1}", "install-strip", f"DESTDIR={folder}/stage", cwd=built)
    return next((Path(folder) / "stage").rglob("bin/maxlogit")).parent.parent


class BuildWithProgram(build_py):
    def run(self) -> None:
        super().run()
        package = Path(self.build_lib) / "maxlogit"
        with tempfile.TemporaryDirectory() as folder:
            stage = Path(os.environ.get("MAXLOGIT_STAGE") or installed(folder))
            shutil.rmtree(package / "_program", ignore_errors=True)  # of an earlier build in this folder
            shutil.copy(stage / "lib" / "libmaxlogit.so.1", package)
            # the Python package is beside it already
            shutil.copytree(stage / "share/maxlogit", package / "_program/share/maxlogit", ignore=shutil.ignore_patterns("python"))
            (package / "_program/bin").mkdir()
            shutil.copy(stage / "bin/maxlogit", package / "_program/bin")
            for library in (stage / "lib").glob("libscipy_openblas*"):  # of python/wheel.sh
                (package / "_program/lib").mkdir(exist_ok=True)
                shutil.copy(library, package / "_program/lib")


class WithSources(sdist):
    def make_release_tree(self, base_dir: str, files: list) -> None:
        super().make_release_tree(base_dir, files)
        command("make", "-s", "distdir", f"distdir={Path(base_dir).resolve() / 'sources'}")


class OfThisMachine(Distribution):
    def has_ext_modules(self) -> bool:
        return True


class AnyPython(bdist_wheel):
    def get_tag(self) -> tuple:
        return "py3", "none", super().get_tag()[2]


setup(distclass=OfThisMachine, cmdclass={"build_py": BuildWithProgram, "bdist_wheel": AnyPython, "sdist": WithSources})
