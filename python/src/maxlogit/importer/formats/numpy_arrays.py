"""Arrays of numpy: npz and npy."""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from maxlogit._library import UsageError
from maxlogit.importer._log import Log
from maxlogit.importer._source import DAMAGED, MOST_EXPANDED, Source, check_memory
from maxlogit.importer.formats._format import Format

_MAGIC = b"\x93NUMPY"


def _array(data: bytes, name: str, log: Log) -> Any:
    """What the header states is compared with the bytes there are, and nothing is unpickled."""
    file = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = header(file)
    except Exception as problem:  # the header is a text of Python, which several parsers read
        raise log.error(f"{name}: cannot be read: {(str(problem) or 'no header').splitlines()[0]:.100}") from None
    if dtype.kind not in "fiub" or dtype.hasobject:
        raise log.error(f"{name}: numbers of type {dtype}")
    if len(shape) > 3:
        raise log.error(f"{name}: more than 3 axes")
    count = math.prod(shape)
    if any(type(n) is not int or not 0 <= n <= len(data) for n in shape) or count * dtype.itemsize > len(data) - file.tell():
        raise log.error(f"{name}: cannot be read: {count} numbers are stated, and the file has fewer bytes")
    check_memory(8 * count, log.path)  # of each number, which may have one byte
    return np.frombuffer(data, dtype, count, file.tell()).reshape(shape, order="F" if fortran else "C").astype(np.float64)


def _arrays(source: Source, log: Log) -> dict[str, Any]:
    if source.data.startswith(_MAGIC):
        name = source.name.rsplit(".", 1)[0]
        return {name: _array(source.data, name, log)}
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as file:
            size = sum(entry.file_size for entry in file.infolist())
            if size > MOST_EXPANDED and size > 2 * len(source.data):
                most = f"{MOST_EXPANDED >> 30} GiB"
                raise log.error(f"its arrays are larger than {most}, the most for compressed ones: numpy.savez writes others")
            check_memory(size, log.path)
            names = dict.fromkeys(name for name in file.namelist() if name.endswith(".npy"))
            return {name[:-4]: _array(file.read(name), name[:-4], log) for name in names}
    except UsageError:
        raise
    except DAMAGED as problem:
        raise log.error(f"no file of numpy.savez: {str(problem) or 'cut short':.200}") from None


def _reads(source: Source, log: Log, options: Any) -> None:
    arrays = _arrays(source, log)
    step = next((name for name, array in arrays.items() if array.ndim == 1 and log.is_step(name)), "")
    if not step and log.step:
        raise log.error(f"no array [steps] called {log.step}")
    steps = arrays.pop(step) if step else None
    for wrong in () if steps is None else steps[~((steps >= 0) & (steps == np.floor(steps)) & (steps <= 1e15))]:
        raise log.error(f"{step}: {wrong:g} is not a whole number from 0 on")
    log.step_found = step or "(rows, from 0 on)"
    for name, array in arrays.items():
        if not array.ndim:
            continue  # a single number is no series
        if steps is not None and len(array) != len(steps):
            raise log.error(f"{name} has {len(array)} rows, {step} has {len(steps)}")
        log.put_rows(
            np.arange(len(array), dtype=float) if steps is None else steps, {name: (array, np.ones(len(array), bool))}
        )


def _example(path: Path) -> None:
    np.savez(
        path, step=[0, 10], loss=np.array([2.5, np.nan], np.float32), **{"attn/max_logit": np.arange(4.0).reshape(2, 1, 2)}
    )


FORMAT = Format(
    name="npz",
    what="arrays [steps], [steps, layers] or [steps, layers, heads] of `numpy.savez` or `save`, and one array of the steps; "
    "without it, rows count from 0",
    file="log.npz",
    example=_example,
    wanted={"loss": {0: 2.5, 10: float("nan")}, "attn/max_logit": {0: [[0, 1]], 10: [[2, 3]]}},
    knows=lambda source: source.is_zip or source.data.startswith(_MAGIC),
    reads=_reads,
)
