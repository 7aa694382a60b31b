"""The wheel carries libmaxlogit.so.1, so it is one of this kind of machine.

The library is the one of a build (`make lib` in the folder above, or MAXLOGIT_LIBRARY); where there is none the package
uses the installed one when it is imported. It needs the libraries that maxlogit needs (HDF5, OpenBLAS, LAPACKE, GSL,
xxHash, Jansson), of which it carries none.
"""

import os
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

NAME = "libmaxlogit.so.1"


class BuildWithLibrary(build_py):
    def run(self) -> None:
        super().run()
        places = [os.environ.get("MAXLOGIT_LIBRARY", ""), str(Path(__file__).resolve().parent.parent / NAME)]
        found = [Path(place) for place in places if place and Path(place).is_file()]
        if found:
            copy = Path(self.build_lib) / "maxlogit" / NAME
            shutil.copyfile(found[0], copy)
            if shutil.which("strip"):  # nine tenths are for a debugger
                subprocess.run(["strip", "--strip-unneeded", copy], check=True)
        else:
            self.warn(f"{NAME} is not here (`make lib` builds it): the installed one is used at run time")


class OfThisMachine(Distribution):
    def has_ext_modules(self) -> bool:
        return True


try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel


class AnyPython(bdist_wheel):
    def get_tag(self) -> tuple:
        return "py3", "none", super().get_tag()[2]


setup(distclass=OfThisMachine, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPython})
