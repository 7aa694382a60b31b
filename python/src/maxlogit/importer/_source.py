"""The bytes of a file, a pipe or standard input, without their compression; and what is no log."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import resource
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from functools import cached_property
from typing import Any, Optional

from maxlogit._library import UsageError

_COMPRESSED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\0": lzma.open, b"BZh": bz2.open}
_ZSTD = b"\x28\xb5\x2f\xfd"
DAMAGED = (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, struct.error, zlib.error)
MOST_EXPANDED = 1 << 30
_ENDS = (".gz", ".xz", ".bz2", ".zst")

# how a file begins, what it is, and what to do
_REFUSED = (
    (rb"version https://git-lfs", "a Git LFS pointer, not the file itself: `git lfs pull` fetches it"),
    (rb"\s*<(!doctype html|html)", "an HTML page: download the raw file"),
    (rb"\x80[\x02-\x05]", "a pickle, which can run programs and is not opened: write the numbers as JSON, CSV or npz"),
    (rb"GGUF", "a GGUF model, not a log"),
    (rb"\x89HDF", "an HDF5 file: run files of maxlogit need no import, write others as npz or CSV"),
    (rb"PAR1", "a Parquet file: pandas.read_parquet(...).to_csv(...) writes it as CSV"),
    (rb"SQLite format 3", "a SQLite database: export the metrics from its tracker as CSV"),
    (rb":W&B", "W&B's own record: export the run's history as CSV or JSON"),
    (rb"[\s\S]{8}\{\s*\"(__metadata__|[^\"]+\": ?\{ ?\"dtype)", "a safetensors checkpoint: maxlogit spectra reads it"),
)


def shown(text: str) -> str:
    """Without what cannot be printed or written: control characters, bytes that are not UTF-8."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def memory() -> int:
    """That of this machine, or the limit of this process."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return there if limit == resource.RLIM_INFINITY else min(there, limit)


def check_memory(size: float, path: str) -> None:
    """What is read takes about four times its size."""
    if size * 8 > memory():
        raise UsageError(f"{path}: {size / 2**30:.1f} GiB are more than an eighth of memory: take every n-th row of it")


def _opened(data: bytes, path: str) -> Any:
    """What reads the contents of a compressed file; None: it is not compressed."""
    if data.startswith(_ZSTD):
        if sys.version_info >= (3, 14):
            from compression import zstd

            return zstd.open(io.BytesIO(data))
        if not shutil.which("zstd"):
            raise UsageError(f"{path}: zstd is not here to read it: install zstd, or use `zstd -d` elsewhere")
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.seek(0)
            return subprocess.Popen(["zstd", "-dcq"], stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    opener = next((opener for magic, opener in _COMPRESSED.items() if data.startswith(magic)), None)
    return opener and opener(io.BytesIO(data))


def _expanded(data: bytes, path: str) -> bytes:
    parts, size = [], 0
    try:
        file = _opened(data, path)
        if not file:
            return data
        with file:
            while True:
                parts.append((getattr(file, "stdout", None) or file).read(1 << 20))
                size += len(parts[-1])
                if size > min(MOST_EXPANDED, 200 * len(data) + (64 << 20)):  # logs shrink to a tenth, seldom to less
                    most = f"{MOST_EXPANDED >> 30} GiB, or 64 MiB and 200 times its size,"
                    raise UsageError(
                        f"{path}: larger than {most} when it is expanded, the most for compressed files: expand it first"
                    )
                if not parts[-1]:
                    break
        if getattr(file, "returncode", 0):
            raise EOFError("zstd fails")
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as problem:
        raise UsageError(f"{path}: its compression is damaged, or it was cut short ({problem})") from None
    return b"".join(parts)


def _leads_out(file: Any, folder: str) -> bool:
    """Whether an open file lies outside of the folder; a link that is made later has no effect."""
    held = f"/proc/self/fd/{file.fileno()}"
    real, top = os.path.realpath(held if os.path.exists(held) else file.name), os.path.realpath(folder)
    return os.path.commonpath([real, top]) != top


class Source:
    """A file: `name` without folders and endings of compression, `data` its bytes, `text` with \\n at the ends of lines.

    A file that was found in a `folder` must lie in it: a link of its author may lead to any file of the reader. None: the
    user has named the file."""

    def __init__(self, path: str, folder: Optional[str]) -> None:
        self.path = path
        self.name = "stdin" if path == "-" else os.path.basename(path)
        try:
            if path == "-":
                data = sys.stdin.buffer.read()
            else:
                found = os.stat(path)
                if stat.S_ISFIFO(found.st_mode) and not re.match(r"/dev/|/proc/", path):
                    raise UsageError(f"{path}: a named pipe: `maxlogit import - < {path}` reads it")
                if not (stat.S_ISREG(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
                    raise UsageError(f"{path}: not a file")
                check_memory(found.st_size, path)
                with open(path, "rb") as file:
                    if folder and _leads_out(file, folder):
                        raise UsageError(f"{path}: a symbolic link leads out of {folder}: import its target instead")
                    data = file.read()
        except OSError as problem:
            raise UsageError(f"cannot read {path}: {problem.strerror}") from None
        self.data = _expanded(data, path)
        if self.data is not data and self.name.endswith(_ENDS):
            self.name = os.path.splitext(self.name)[0]
        for begin, what in _REFUSED:
            if re.match(begin, self.data[:4096], re.IGNORECASE):
                raise UsageError(f"{path}: this is {what}")
        if self.is_zip and any(name.endswith("data.pkl") for name in self.zip_names):
            raise UsageError(f"{path}: this is a PyTorch checkpoint, which is not opened: write numbers as JSON, CSV or npz")

    @property
    def is_zip(self) -> bool:
        return self.data.startswith(b"PK\3\4")

    @cached_property
    def zip_names(self) -> list[str]:
        try:
            return zipfile.ZipFile(io.BytesIO(self.data)).namelist()
        except DAMAGED:
            return []

    @cached_property
    def text(self) -> str:
        data, encoding = self.data, "utf-8-sig"
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            encoding = "utf-16"
        elif b"\0" in data[:64]:
            encoding = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be"
        text = data.decode(encoding, errors="replace")
        if "\0" in text:
            line = text.count("\n", 0, text.index("\0")) + 1
            raise UsageError(f"{self.path}:{line}: a NUL byte: this is not text")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    @cached_property
    def head(self) -> str:
        """The beginning of a text; empty where it is none."""
        try:
            return self.text[:65536]
        except UsageError:
            return ""
