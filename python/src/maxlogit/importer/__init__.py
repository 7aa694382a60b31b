"""Logs of other programs as run files: ``maxlogit import``.

Each format is a file and a row of `maxlogit.importer.formats`. A reader puts rows into a `Log` in the order in which they
were written; the log settles which of them stay, names say which series they are, and the `Recorder` writes these.
"""

from maxlogit.importer._command import main

__all__ = ["main"]
