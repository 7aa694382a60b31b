"""Arrays of numpy: npz and npy."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from maxlogit._library import UsageError
from maxlogit.importer._log import Log
from maxlogit.importer._source import DAMAGED, Source, memory
from maxlogit.importer.formats._format import Format

_MAGIC = b"\x93NUMPY"


def _array(data: bytes, name: str, log: Log) -> Any:
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as problem:  # its header is parsed as a text of Python, by several parsers
        raise log.error(f"{name}: cannot be read: {(str(problem) or 'no memory').splitlines()[0]:.100}") from None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "fiub":
        raise log.error(f"{name}: numbers of type {getattr(array, 'dtype', '?')}")
    if array.ndim > 3:
        raise log.error(f"{name}: more than 3 axes")
    if 0 in array.shape[1:]:
        raise log.error(f"{name}: an axis of size 0")
    if array.size * 32 > memory():
        raise log.error(f"{name}: {array.size} numbers are larger than memory")
    return array.astype(np.float64)


def _arrays(source: Source, log: Log) -> dict[str, Any]:
    if source.data.startswith(_MAGIC):
        name = source.name.rsplit(".", 1)[0]
        return {name: _array(source.data, name, log)}
    try:
        with zipfile.ZipFile(io.BytesIO(source.data)) as file:
            size = sum(entry.file_size for entry in file.infolist())
            if size * 4 > memory():
                raise log.error(f"its arrays are larger than memory: {size / 2**30:.1f} GiB")
            return {name[:-4]: _array(file.read(name), name[:-4], log) for name in dict.fromkeys(file.namelist()) if name.endswith(".npy")}
    except UsageError:
        raise
    except DAMAGED as problem:
        raise log.error(f"no file of numpy.savez: {problem}") from None


def _reads(source: Source, log: Log, options: Any) -> None:
    arrays = _arrays(source, log)
    step = next((name for name, array in arrays.items() if array.ndim == 1 and log.is_step(name)), "")
    if not step and log.step:
        raise log.error(f"no array [steps] called {log.step}")
    steps = arrays.pop(step) if step else None
    if steps is not None:
        right = (steps >= 0) & (steps == np.floor(steps)) & (steps <= 1e15)
        if not right.all():
            raise log.error(f"{step}: {steps[~right][0]:g} is no whole number from 0 on")
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
