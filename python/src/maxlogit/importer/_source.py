"""The bytes of a file, a pipe or standard input, without their compression; and what is no log."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from functools import cached_property
from typing import Any

from maxlogit._library import UsageError

_COMPRESSED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\0": lzma.open, b"BZh": bz2.open}
_ZSTD = b"\x28\xb5\x2f\xfd"
DAMAGED = (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, struct.error, zlib.error)
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


def memory() -> int:
    """Half of this machine's."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _by_zstd(data: bytes, most: int) -> bytes:
    """The program must not expand more than is read: ten kilobytes can stand for gigabytes."""
    with tempfile.TemporaryFile() as packed:
        packed.write(data)
        packed.seek(0)
        with subprocess.Popen(["zstd", "-dcq"], stdin=packed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
            out = program.stdout.read(most + 1)  # type: ignore[union-attr]
            if len(out) > most:
                program.kill()
    if program.returncode and len(out) <= most:
        raise subprocess.CalledProcessError(program.returncode, "zstd")
    return out


def _expanded(data: bytes, path: str) -> bytes:
    most = memory()
    try:
        if data.startswith(_ZSTD):
            if sys.version_info >= (3, 14):
                from compression import zstd

                with zstd.open(io.BytesIO(data)) as file:
                    out: bytes = file.read(most + 1)
            elif shutil.which("zstd"):
                out = _by_zstd(data, most)
            else:
                raise UsageError(f"{path}: zstd is not here to read it: install zstd, or use `zstd -d` elsewhere")
        else:
            opener = next((opener for magic, opener in _COMPRESSED.items() if data.startswith(magic)), None)
            if not opener:
                return data
            with opener(io.BytesIO(data)) as file:
                out = file.read(most + 1)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, subprocess.CalledProcessError) as problem:
        raise UsageError(f"{path}: its compression is damaged, or it was cut short ({problem})") from None
    if len(out) > most:
        raise UsageError(f"{path}: larger than memory when it is expanded")
    return out


class Source:
    """A file: `name` without folders and endings of compression, `data` its bytes, `text` with \\n at the ends of lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = "stdin" if path == "-" else os.path.basename(path)
        try:
            if path == "-":
                data = sys.stdin.buffer.read()
            else:
                mode = os.stat(path).st_mode
                if stat.S_ISFIFO(mode) and not re.match(r"/dev/|/proc/", path):
                    raise UsageError(f"{path}: a named pipe: `maxlogit import - < {path}` reads it")
                if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or re.match(r"/dev/(fd/|stdin)", path)):
                    raise UsageError(f"{path}: not a file")
                with open(path, "rb") as file:
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
            raise UsageError(f"{self.path}:{line}: a NUL byte: this is no text")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    @cached_property
    def head(self) -> str:
        """The beginning of a text; empty where it is none."""
        try:
            return self.text[:65536]
        except UsageError:
            return ""
