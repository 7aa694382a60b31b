"""Run files, read: numbers as numpy arrays that know their axes."""

from __future__ import annotations

import ctypes as c
import errno
import html
import math
import os
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
import numpy.typing as npt

from maxlogit import _library as library

if TYPE_CHECKING:
    import pandas
    import xarray

PathLike = Union[str, os.PathLike[str]]


@dataclass(frozen=True)
class Event:
    """What happened at a step; layer and head -1: of none."""

    step: int
    kind: str
    layer: int
    head: int
    value: float


@dataclass(frozen=True, eq=False, repr=False)
class Series(np.lib.mixins.NDArrayOperatorsMixin):
    """A recorded series. ``values`` [row, axes...] float64, NaN where nothing was recorded; ``steps`` [row];
    ``axes``: names of the axes behind the row; ``places``: what their places are called, where something says.

    A series behaves as the array of its values: numpy's functions, arithmetic, indices and comparisons take it."""

    name: str
    values: npt.NDArray[np.float64]
    steps: npt.NDArray[np.int64]
    axes: tuple[str, ...]
    unit: str
    long_name: str
    definition: str
    places: dict[str, list[str]] = field(default_factory=dict)

    __hash__ = None  # type: ignore[assignment]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def ndim(self) -> int:
        return self.values.ndim

    @property
    def size(self) -> int:
        return self.values.size

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.values.__array_interface__

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> npt.NDArray[Any]:
        if dtype is not None and np.dtype(dtype) != self.values.dtype:
            if copy is False:
                raise ValueError(f"{self.name}: {self.values.dtype} as {dtype} needs a copy")
            return self.values.astype(dtype)
        return self.values.copy() if copy else self.values

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Series) for x in kwargs.get("out", ())):
            raise TypeError(f"{self.name}: a recorded series cannot be changed; `series + 1` is a new array, `series += 1` is not")
        plain = (x.values if isinstance(x, Series) else x for x in inputs)
        return getattr(ufunc, method)(*plain, **kwargs)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        return self.values[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __float__(self) -> float:
        return float(self.values.item())

    def to_numpy(self) -> npt.NDArray[np.float64]:
        """A copy of the values."""
        return self.values.copy()

    def __repr__(self) -> str:
        shape = " x ".join(f"{n} {axis}" for n, axis in zip(self.shape, ("rows", *self.axes)))
        return f"<maxlogit series {self.name}: {shape}{self._range()}>"

    def _range(self) -> str:
        finite = self.values[np.isfinite(self.values)]
        unit = "" if self.unit in ("", "1") else f" {self.unit}"
        return f", {finite.min():.4g} to {finite.max():.4g}{unit}" if finite.size else ", no values"

    def _repr_html_(self) -> str:
        """For notebooks: the name and a small curve of each row's largest value."""
        rows = self.values.reshape(len(self), -1)
        largest = np.full(len(rows), np.nan)
        for i, row in enumerate(rows):
            finite = row[np.isfinite(row)]
            largest[i] = finite.max() if finite.size else np.nan
        seen = np.isfinite(largest)
        points = ""
        if seen.any():
            x, y = self.steps[seen].astype(float), largest[seen]
            x = (x - x.min()) / max(np.ptp(x), 1) * 200
            y = 38 - (y - y.min()) / (np.ptp(y) or 1) * 36
            every = max(1, len(x) // 400)
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[::every], y[::every]))
        curve = f'<polyline fill="none" stroke="currentColor" points="{points}"/>'
        text = html.escape(f"{self.name}{self._range()}, {len(self)} rows")
        return f'<div>{text}<br><svg width="200" height="40">{curve}</svg></div>'

    def to_pandas(self) -> Union[pandas.Series[Any], pandas.DataFrame]:
        """Rows by step: a Series of one number a step, else a DataFrame with a column a place."""
        import pandas

        index = pandas.Index(self.steps, name="step")
        if not self.axes:
            return pandas.Series(self.values, index=index, name=self.name)
        columns: Any
        if len(self.axes) == 1:
            columns = pandas.RangeIndex(self.values.shape[1], name=self.axes[0])
        else:
            columns = pandas.MultiIndex.from_product([range(n) for n in self.values.shape[1:]], names=self.axes)
        return pandas.DataFrame(self.values.reshape(len(self.steps), -1), index=index, columns=columns)

    def to_xarray(self) -> xarray.DataArray:
        """[step, axes...] with coordinates, unit and definition."""
        import xarray

        coordinates: dict[str, Any] = {"step": self.steps}
        for axis, size in zip(self.axes, self.values.shape[1:]):
            coordinates[axis] = np.arange(size)
            if axis in self.places:
                coordinates[f"{axis}_name"] = (axis, self.places[axis])
        attributes = {"units": self.unit, "long_name": self.long_name, "definition": self.definition}
        return xarray.DataArray(self.values, coords=coordinates, dims=("step", *self.axes), name=self.name, attrs=attributes)


def _joined(axis: str, names: list[str], size: int) -> Optional[tuple[int, ...]]:
    """The sizes of several axes that `Recorder.define` has joined to one: its places are "0.0", "0.1", ..."""
    last = names[-1].split(".") if names else []
    if len(last) != len(axis.split(".")) or len(last) < 2 or not all(n.isdecimal() and len(n) < 10 for n in last):
        return None
    sizes = tuple(int(n) + 1 for n in last)
    if math.prod(sizes) != size or names != [".".join(map(str, at)) for at in np.ndindex(sizes)]:
        return None
    return sizes


class Run:
    """A run file: ``run["loss"]`` is a :class:`Series`, ``run.config`` its keys as text, ``run.events`` what happened.
    Threads may share one; they take turns."""

    def __init__(self, path: PathLike) -> None:
        self.path = os.fspath(path)
        self._handle = c.c_void_p()
        self._lock = threading.RLock()
        if not os.path.exists(self.path):
            raise library.MissingFile(errno.ENOENT, "there is no such run file", self.path)
        self._place = library.place(self.path)
        library.call("run_open", c.byref(self._handle), library.text(self._place))
        facts = library.Facts()
        library.lib.maxlogit_run_facts(self._handle, facts)
        self.id: str = facts.id.decode()
        self.date: str = facts.date.decode()
        self.state: str = facts.state.decode()
        self.data: str = facts.data.decode()
        self.steps: int = facts.last_step
        self.wall_seconds: float = facts.wall_seconds
        self.config: dict[str, str] = dict(self._pairs("run_setting_at"))
        self.notes: list[tuple[str, str]] = self._pairs("run_note_at")
        self._rows: dict[str, int] = {}
        rows = c.c_long()
        while name := library.lib.maxlogit_run_series_at(self._handle, len(self._rows), rows):
            self._rows[name.decode()] = rows.value

    def _pairs(self, function: str) -> list[tuple[str, str]]:
        pairs: list[tuple[str, str]] = []
        one, two = c.c_char_p(), c.c_char_p()
        while getattr(library.lib, "maxlogit_" + function)(self._handle, len(pairs), one, two):
            pairs.append(((one.value or b"").decode(), (two.value or b"").decode()))
        return pairs

    def close(self) -> None:
        """Series cannot be read any more; a second close does nothing."""
        if getattr(self, "_handle", None):
            with self._lock:
                handle, self._handle = self._handle, c.c_void_p()
                library.lib.maxlogit_run_close(handle)

    __del__ = close

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> c.c_void_p:
        if not self._handle:
            raise library.UsageError(f"{self.path} is closed")
        return self._handle

    def __reduce__(self) -> tuple[Any, ...]:
        return Run, (self._place,)  # a copy reads the file by itself

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __repr__(self) -> str:
        return f"<maxlogit run {self.path}: {self.state}, {self.steps} steps, {len(self)} series>"

    def keys(self) -> list[str]:
        """The names of all series."""
        return list(self._rows)

    def values(self) -> Iterator[Series]:
        return (self[name] for name in self)

    def items(self) -> Iterator[tuple[str, Series]]:
        return ((name, self[name]) for name in self)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401

    def __getitem__(self, name: str) -> Series:
        with self._lock:
            return self._read(name)

    def _read(self, name: str) -> Series:
        handle, values = self._open(), library.Values()
        try:
            library.call("run_read", handle, library.text(name), values)
        except library.UsageError as problem:
            raise KeyError(str(problem)) from None
        try:
            shape = (values.rows, *[values.size[i] for i in range(values.axes)])
            # a pointer to no rows may not be looked at
            number = np.ctypeslib.as_array(values.value, (max(1, values.rows * values.width),)).copy()
            step = np.ctypeslib.as_array(values.step, (max(1, values.rows),)).copy()
            axes = tuple(values.axis_name[i].value.decode() for i in range(values.axes))
            places = {axis: self.places(axis, size) for axis, size in zip(axes, shape[1:])}
            sizes = _joined(axes[1], places[axes[1]], shape[2]) if len(axes) == 2 else None
            if sizes:
                del places[axes[1]]
                shape, axes = (*shape[:2], *sizes), (axes[0], *axes[1].split("."))
            return Series(
                name,
                number[: values.rows * values.width].reshape(shape),
                step[: values.rows].astype(np.int64),
                axes,
                values.unit.decode(),
                values.long_name.decode(),
                values.definition.decode(),
                {axis: names for axis, names in places.items() if names},
            )
        finally:
            library.lib.maxlogit_values_free(values)

    def places(self, axis: str, size: int) -> list[str]:
        """What the places of an axis are called; empty where nothing says."""
        name = c.create_string_buffer(128)
        names: list[str] = []
        with self._lock:
            while len(names) < size and library.lib.maxlogit_run_place(
                self._handle, library.text(axis), len(names), name, len(name)
            ):
                names.append(name.value.decode(errors="replace"))
        return names

    @property
    def events(self) -> list[Event]:
        """In the order of their recording."""
        events, count = c.POINTER(library.EventOf)(), c.c_long()
        with self._lock:
            library.call("run_events", self._open(), c.byref(events), c.byref(count))
        try:
            return [Event(e.step, e.kind.decode(), e.layer, e.head, e.value) for e in (events[i] for i in range(count.value))]
        finally:
            library.lib.maxlogit_events_free(events)

    def to_pandas(self) -> pandas.DataFrame:
        """All series of one number a step, a column each, by step."""
        import pandas

        return pandas.DataFrame({name: s.to_pandas() for name in self if not (s := self[name]).axes})

    def to_xarray(self) -> xarray.Dataset:
        """All series; those whose rows are of other steps are NaN elsewhere."""
        import xarray

        series = {name: self[name].to_xarray() for name in self}
        return xarray.Dataset(series, attrs={**self.config, "state": self.state, "id": self.id})


def open(path: PathLike) -> Run:
    """Open a run file, also one that is being written."""
    return Run(path)


_CONDITION = re.compile(r"^\s*([\w./-]+)\s*(<=|>=|!=|=|<|>)\s*(.*?)\s*$")


def _number(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:
        return None


def _holds(run: Run, key: str, relation: str, wanted: str) -> bool:
    value = {"state": run.state, "id": run.id, "date": run.date}.get(key, run.config.get(key))
    if value is None:
        return relation == "!="
    if relation in ("=", "!="):
        wanted_ones = [wanted, *(part.strip() for part in wanted.split(","))]
        same = any(value == one or (_number(one) is not None and _number(one) == _number(value)) for one in wanted_ones)
        return same == (relation == "=")
    a, b = _number(value), _number(wanted)
    if b is None and key == "date":
        order = (value > wanted) - (value < wanted)
    elif b is None:
        raise library.UsageError(f"where: {key} {relation} {wanted!r}: a number is wanted")
    elif a is None or a != a:
        return False
    else:
        order = (a > b) - (a < b)
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[relation]


def open_all(folder: PathLike, where: str = "") -> list[Run]:
    """The runs in a folder (``*.h5``, by name) for which all conditions hold: ``where="optimizer=muon & train.lr<0.01"``.

    Keys are those of the configuration, and state, id, date. A file that is no run is left out; so is one that cannot be
    read, with a warning."""
    conditions = []
    for part in where.split("&") if where.strip() else []:
        match = _CONDITION.match(part)
        if not match:
            raise library.UsageError(f"where: {part.strip()!r} is not a condition: KEY=VALUE, !=, <, <=, >, >=")
        conditions.append(match.groups())
    if not Path(folder).is_dir():
        raise library.UsageError(f"{os.fspath(folder)} is not a folder")
    runs = []
    for path in sorted(Path(folder).glob("*.h5")):
        try:
            runs.append(Run(path))
        except library.UsageError:
            continue
        except (library.MaxlogitError, OSError) as problem:
            warnings.warn(f"maxlogit: left out: {problem}", stacklevel=2)
    return [run for run in runs if all(_holds(run, *condition) for condition in conditions)]
