"""The wheel carries libmaxlogit.so.1, so it is one of this kind of machine.

The library is that of MAXLOGIT_LIBRARY (`make wheel` sets it), or of the folder above, where `make lib` is run if need be.
Without a build, the package uses the installed library when it is imported; without that, too, it is not built. The library
needs those that maxlogit needs (HDF5, OpenBLAS, LAPACKE, GSL, xxHash, Jansson); the wheel has none of them.
"""

import ctypes
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
        top = Path(__file__).resolve().parent.parent
        places = [os.environ.get("MAXLOGIT_LIBRARY", ""), str(top / NAME)]
        found = [Path(place) for place in places if place and Path(place).is_file()]
        if not found and (top / "Makefile").is_file():  # configured, and not built yet
            subprocess.run(["make", "-s", f"-j{os.cpu_count() or 1}", "-C", top, "lib"], check=True)
            found = [top / NAME]
        if found:
            copy = Path(self.build_lib) / "maxlogit" / NAME
            shutil.copyfile(found[0], copy)
            if shutil.which("strip"):  # nine tenths are for a debugger
                subprocess.run(["strip", "--strip-unneeded", copy], check=True)
        else:
            try:
                ctypes.CDLL(NAME)
            except OSError:
                raise SystemExit(
                    f"maxlogit: there is no {NAME} to put into the package. In the root folder of maxlogit's sources run "
                    "`./bootstrap build` (packages, configure, build) or `./configure && make lib`, then install again; or set "
                    "MAXLOGIT_LIBRARY to the library"
                ) from None
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
