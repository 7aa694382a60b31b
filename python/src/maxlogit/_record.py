"""The recorder: a run file, written row by row."""

from __future__ import annotations

import ctypes as c
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from maxlogit import _library as library
from maxlogit._read import open as open_run

MISSING = float(np.uint64(0x7FF8000020000000).view(np.float64))
"""What stands in a row where there is no value: a NaN of its own, which peaks, means and curves pass over. Any other NaN is
the run's."""

_MODES = {"new": 0, "resume": 1, "replace": 2}
_ROWS = {"step": 0, "spectra": 1, "validation": 2, "probe": 3}
_AXES: dict[int, tuple[str, ...]] = {0: (), 1: ("layer",), 2: ("layer", "head")}


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested mappings as keys with dots; True and False as 1 and 0, lists joined by +."""
    out: dict[str, str] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            out.update(flat(value, name + "."))
        elif isinstance(value, bool):
            out[name] = str(int(value))
        elif isinstance(value, (list, tuple)):
            out[name] = "+".join(str(part) for part in value)
        else:
            out[name] = "" if value is None else str(value)
    return out


def _numbers(value: Any) -> npt.NDArray[np.float64]:
    """Of numbers, arrays and tensors of any device and precision."""
    if hasattr(value, "detach"):
        value = value.detach().to("cpu").double().numpy()
    return np.asarray(value, dtype=np.float64, order="C")


class Recorder:
    """Writes the run file ``path``, as ``maxlogit run`` would: ``maxlogit show``, ``plot``, ``compare``, ``watch`` read it.

    A row is on disk when ``log`` returns (in ``RUN.journal``; the file itself follows every now and then, whole), so a
    killed program loses none. Opened again, an unfinished recording goes on: the first step that is logged replaces what
    is there of it and of later ones.

    Args:
        path: the file, by custom ``*.h5``; folders are made.
        config: free keys, nested or with dots. maxlogit tells runs by ``optimizer``, ``stabilizers`` and ``preset`` and
            pairs them by ``train.seed``.
        mode: ``auto`` (a new file, or an unfinished recording goes on; a finished one is refused), ``new``, ``resume``
            (a finished one goes on, too), ``replace``.
        data: what it is trained on, for people.
        rank: of several processes that train one model, only 0 writes; the others take part in what is reduced.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        config: Optional[Mapping[str, Any]] = None,
        *,
        mode: str = "auto",
        data: str = "",
        rank: int = 0,
    ) -> None:
        self.path = os.fspath(path)
        self.rank = rank
        self._process = os.getpid()
        self._logs = self._closed = False
        self._handle = c.c_void_p()
        self._series: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._sources: list[Callable[[int], None]] = []
        self._row: dict[str, npt.NDArray[np.float64]] = {}  # what the next row has so far
        self._next_rank_step = 0
        if mode not in (*_MODES, "auto"):
            raise library.UsageError(f"mode {mode!r}: auto, {', '.join(_MODES)}")
        if rank:
            return
        if mode == "auto":
            mode = "resume" if os.path.exists(self.path) else "new"
            if mode == "resume" and open_run(self.path).state == "finished":
                raise library.UsageError(
                    f"{self.path} is finished: mode='replace' writes a new one in its place, mode='resume' goes on"
                )
        settings = [library.Setting(library.text(key), library.text(value)) for key, value in flat(config or {}).items()]
        options = library.RecordOptions(
            _MODES[mode],
            (library.Setting * max(1, len(settings)))(*settings),
            len(settings),
            library.text(data) if data else None,
            0,
        )
        library.call("record_open", c.byref(self._handle), library.text(self.path), options)

    def _writes(self) -> bool:
        """Whether there is a file; after its end there is none, and what is told would be lost."""
        if self._closed:
            raise library.UsageError(f"{self.path} is closed")
        return bool(self._handle)

    # --- what is recorded ---------------------------------------------------------------------------------

    def define(
        self,
        name: str,
        shape: Sequence[int] = (),
        axes: Optional[Sequence[str]] = None,
        *,
        unit: str = "1",
        long_name: str = "",
        definition: str = "",
        rows: str = "step",
    ) -> None:
        """Say what a series is before its first value: ``shape`` of a row, what its ``axes`` are, its unit, a name for
        plots, and what it is to the letter. ``rows``: ``step``, or for what comes seldom ``spectra``, ``validation``,
        ``probe``, which have steps of their own. Series that are only logged have axes (layer), (layer, head)."""
        shape = tuple(int(n) for n in shape)
        if axes is None and len(shape) not in _AXES:
            raise library.UsageError(f"{name}: {len(shape)} axes; at most 2")
        axes = tuple(_AXES[len(shape)] if axes is None else axes)
        if len(axes) != len(shape) or len(shape) > 2:
            raise library.UsageError(f"{name}: shape {shape} with axes {axes}")
        if rows not in _ROWS:
            raise library.UsageError(f"{name}: rows {rows!r}: {', '.join(_ROWS)}")
        number = c.c_int(-1)
        if self._writes():
            series = library.SeriesOf(
                library.text(name),
                _ROWS[rows],
                len(shape),
                (c.c_char_p * 2)(*[library.text(axis) for axis in axes]),
                (c.c_long * 2)(*shape),
                library.text(unit),
                library.text(long_name or name),
                library.text(definition),
            )
            library.call("record_series", self._handle, series, c.byref(number))
        self._series[name] = (number.value, shape)

    def axis(self, name: str, places: Iterable[str]) -> None:
        """What the places of an axis are called: modules' names of ``layer``."""
        names = [library.text(place) for place in places]
        if self._writes():
            library.call("record_axis", self._handle, library.text(name), len(names), (c.c_char_p * len(names))(*names))

    def put(self, name: str, value: Any) -> None:
        """A value for the row that ``log`` will end: a number, or an array or tensor [axes]."""
        numbers = self._ready(name, _numbers(value))
        if self._writes():
            self._row[name] = numbers.copy()

    def _ready(self, name: str, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Of a series that is there now, and of its shape."""
        if name not in self._series:
            rows = "validation" if name.startswith(("val_", "val/")) else "step"
            self.define(name, numbers.shape, rows=rows)
        shape = self._series[name][1]
        if numbers.shape != shape:
            raise library.UsageError(f"{name} has shape {shape}, not {numbers.shape}")
        return numbers

    def log(self, step: int, values: Optional[Mapping[str, Any]] = None, **series: Any) -> None:
        """End the row of ``step`` (larger than the last one's) with these values and those of what is being watched.
        Several ranks of one model all call it."""
        step = operator.index(step)
        if not 0 <= step < 1 << 63:
            raise library.UsageError(f"step {step}: steps count from 0")
        if self._logs and step <= self.last_step:
            raise library.UsageError(f"a row of step {step} after one of step {self.last_step}: steps grow")
        before = dict(self._row)
        try:  # of a row that is refused no value is put
            numbers = {name: _numbers(value) for name, value in {**(values or {}), **series}.items()}
            self._row.update((name, self._ready(name, value)) for name, value in numbers.items())
            for source in self._sources:
                source(step)
        except BaseException:
            self._row = before
            raise
        self._next_rank_step = step + 1
        if self._writes():
            for name, value in self._row.items():
                library.call("record_put", self._handle, self._series[name][0], value.ctypes.data, value.size)
            library.call("record_row", self._handle, step)
        self._row = {}
        self._logs = True

    def event(self, step: int, kind: str, layer: int = -1, head: int = -1, value: float = float("nan")) -> None:
        """Something that happened: ``clip``, ``spike``, ``nonfinite``, or a kind of your own (at most 23 bytes)."""
        if self._writes():
            library.call("record_event", self._handle, step, library.text(kind), layer, head, value)

    def note(self, text: str) -> None:
        """A remark with today's date."""
        if self._writes():
            library.call("record_note", self._handle, library.text(text))

    def add_source(self, source: Callable[[int], None]) -> None:
        """``source(step)`` is called by every ``log``, to put values of its own."""
        self._sources.append(source)

    # --- life ---------------------------------------------------------------------------------------------

    @property
    def last_step(self) -> int:
        """Of the last row; -1 before the first."""
        if not self._handle:
            return self._next_rank_step - 1
        return int(library.lib.maxlogit_record_last_step(self._handle))

    def snapshot(self) -> None:
        """Write the file now, so that others can read what there is."""
        if self._writes():
            library.call("record_snapshot", self._handle)

    def close(self, state: str = "finished") -> None:
        """The last of it: ``finished``, ``stopped`` or ``diverged``. A second close does nothing."""
        handle, self._handle = self._handle, c.c_void_p()
        self._closed = True
        if handle:
            library.call("record_close", handle, library.text(state))

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        problem: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close("stopped" if problem is not None else "finished")

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle and self._process == os.getpid():  # a forked one (of a DataLoader) has it from its parent
            library.lib.maxlogit_record_discard(handle)
            self._handle = c.c_void_p()
