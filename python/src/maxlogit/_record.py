"""The recorder: a run file, written row by row."""

from __future__ import annotations

import argparse
import ctypes as c
import dataclasses
import functools
import operator
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Optional, TypeVar, Union, cast

import numpy as np
import numpy.typing as npt

from maxlogit import _library as library
from maxlogit._read import Run
from maxlogit._read import open as open_run

MISSING = float(np.uint64(0x7FF8000020000000).view(np.float64))
"""What stands in a row where there is no value: a NaN of its own, which peaks, means and curves pass over. Any other NaN is
the run's."""


def is_present(values: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    return np.ascontiguousarray(values).view(np.uint64) != np.float64(MISSING).view(np.uint64)


_MODES = {"new": 0, "resume": 1, "replace": 2}
_ROWS = {"step": 0, "spectra": 1, "validation": 2, "probe": 3}
_AXES: dict[int, tuple[str, ...]] = {0: (), 1: ("layer",), 2: ("layer", "head")}


def as_mapping(config: Any) -> Mapping[str, Any]:
    """Of a mapping, a dataclass, an object that has its settings as attributes (argparse's Namespace) or as ``to_dict``."""
    if isinstance(config, Mapping):
        return config
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    if callable(getattr(config, "to_dict", None)):
        return dict(config.to_dict())
    if hasattr(config, "__dict__") and not callable(config):
        return {key: value for key, value in vars(config).items() if not key.startswith("_")}
    raise TypeError(f"config: a mapping, a dataclass or a Namespace is wanted, got {type(config).__name__}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def flat(config: Any, prefix: str = "") -> dict[str, str]:
    """Nested mappings (and dataclasses, Namespaces) as keys with dots; True and False as 1 and 0, lists joined by +."""
    out: dict[str, str] = {}
    for key, value in as_mapping(config).items():
        name = f"{prefix}{key}"
        if isinstance(value, (Mapping, argparse.Namespace)) or (
            dataclasses.is_dataclass(value) and not isinstance(value, type)
        ):
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
    if isinstance(value, np.ma.MaskedArray):
        value = value.astype(np.float64).filled(MISSING)
    array = np.asarray(value)
    if array.dtype.kind == "O":  # a list may have None
        array = np.array([MISSING if x is None else x for x in array.flat], np.float64).reshape(array.shape)
    if array.dtype.kind in "cmM":
        raise TypeError(f"complex, or a time: {array.dtype}")
    return np.asarray(array, dtype=np.float64, order="C")


def joined(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as names with slashes; None is left out."""
    out: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            out.update(joined(value, name + "/"))
        elif value is not None:
            out[name] = value
    return out


def _number_of(name: str, value: Any) -> npt.NDArray[np.float64]:
    try:
        return _numbers(value)
    except (TypeError, ValueError) as problem:
        raise type(problem)(f"{name}: {value!r:.60} is neither a number nor an array of numbers ({problem})") from None


Method = TypeVar("Method", bound=Callable[..., Any])


def _in_turn(method: Method) -> Method:
    """Threads take turns, and a forked process does not write what its parent writes."""

    @functools.wraps(method)
    def taken(self: Recorder, *given: Any, **named: Any) -> Any:
        if self._handle and self._process != os.getpid():
            raise library.UsageError(f"{self.path} is written by the process that this one was forked from")
        with self._lock:
            return method(self, *given, **named)

    return cast(Method, taken)


_MOST = float(np.finfo(np.float32).max)
_writing: dict[str, int] = {}  # files that this process writes, and which process that is


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
        whole: nothing is on disk before ``close`` (a log that is there already), and nothing ever without it.
        forward: one or several that get each row, too: the module ``wandb`` or a run of it, a TensorBoard ``SummaryWriter``,
            the module ``mlflow``, or a function of (step, values by name). All but a function get one number a series: the
            largest, or the least (`define`). An error there is a warning.
    """

    def __init__(
        self,
        path: Union[str, os.PathLike[str]],
        config: Any = None,
        *,
        mode: str = "auto",
        data: str = "",
        rank: int = 0,
        whole: bool = False,
        forward: Any = None,
    ) -> None:
        self.path = os.fspath(path)
        self._place = library.place(self.path)
        self.rank = rank
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._logs = self._closed = self._behind = False
        self._handle = c.c_void_p()
        self._series: dict[str, tuple[int, tuple[int, ...]]] = {}
        self._sources: list[Callable[[int], None]] = []
        self._asked = -1  # the step that the sources were asked for
        self._row: dict[str, npt.NDArray[np.float64]] = {}  # what the next row has so far
        self._last_row: dict[str, npt.NDArray[np.float64]] = {}
        self._last_events: list[tuple[Any, ...]] = []  # of the last row's step
        self._unsent: set[str] = set()  # series whose values of an interrupted row are not recorded
        self._definitions: dict[str, tuple[Any, ...]] = {}
        self._forward = list(forward) if isinstance(forward, (list, tuple)) else [] if forward is None else [forward]
        self._summary: dict[str, str] = {}
        self._warned: set[int] = set()
        self._next_rank_step = 0
        self._last_logged = -1  # the step of the last call of log or log_rows
        self.is_first = not rank  # which writes
        self._goes_on = False
        if mode not in (*_MODES, "auto"):
            raise library.UsageError(f"mode {mode!r}: auto, {', '.join(_MODES)}")
        if rank:
            return
        self._settings = flat(config if config is not None else {})
        self._found = mode == "auto" and os.path.exists(self._place)
        if self._found:
            self._check_found(open_run(self._place))
        if mode == "auto":
            mode = "resume" if self._found else "new"
        self._data = data
        self._whole = whole
        self._goes_on = mode == "resume" and os.path.exists(self._place)
        self._open(mode)

    def _check_found(self, run: Run) -> None:
        """A file that was found, and not asked for, goes on if it is unfinished. Texts may differ in each process."""
        if run.state == "finished":
            raise library.UsageError(
                f"{self.path} is finished: mode='replace' writes a new one in its place, mode='resume' goes on"
            )
        if hasattr(os, "geteuid") and os.stat(self._place).st_uid != os.geteuid():
            warnings.warn(f"{self.path}: an unfinished recording of another user goes on", stacklevel=3)
        for key, value in self._settings.items():
            before = run.config.get(key, value)
            if before != value and _is_number(before) and _is_number(value):
                warnings.warn(
                    f"{self.path}: an unfinished recording with {key}={before}, now {value}, goes on; mode='replace' writes "
                    "a new one in its place",
                    stacklevel=3,
                )
                break

    def _open(self, mode: str) -> None:
        settings = [library.Setting(library.text(key), library.text(value)) for key, value in self._settings.items()]
        options = library.RecordOptions(
            _MODES[mode],
            (library.Setting * max(1, len(settings)))(*settings),
            len(settings),
            library.text(self._data) if self._data else None,
            int(self._whole),
        )
        place = os.path.realpath(self._place)
        try:
            library.call("record_open", c.byref(self._handle), library.text(self._place), options)
        except library.MaxlogitError as problem:
            if _writing.get(place) == os.getpid() and not isinstance(problem, library.UsageError):
                raise library.MaxlogitError(
                    f"{self.path}: this process writes it already and holds its lock: close the other Recorder ({problem})"
                ) from None
            raise
        _writing[place] = os.getpid()

    def _writes(self) -> bool:
        """Whether there is a file; after its end there is none, and what is told would be lost."""
        if self._closed:
            raise library.UsageError(f"{self.path} is closed")
        if self.is_first and not self._handle:
            self._reopen()  # an earlier attempt has failed, after a full disk for example
        return self.is_first

    # --- what is recorded ---------------------------------------------------------------------------------

    @_in_turn
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
        summary: str = "max",
    ) -> None:
        """Say what a series is before its first value: ``shape`` of a row, what its ``axes`` are, its unit, a name for
        plots, and what it is to the letter. ``rows``: ``step``, or for what comes seldom ``spectra``, ``validation``,
        ``probe``, which have steps of their own. Series that are only logged have axes (layer), (layer, head).
        ``summary``: the number that trackers get of several, ``max`` or ``min``."""
        shape = tuple(int(n) for n in shape)
        if axes is None:
            axes = (*_AXES[min(len(shape), 2)], *(f"axis{n}" for n in range(2, len(shape))))
        axes = tuple(axes)
        if len(axes) != len(shape):
            raise library.UsageError(f"{name}: shape {shape} with axes {axes}")
        if rows not in _ROWS:
            raise library.UsageError(f"{name}: rows {rows!r}: {', '.join(_ROWS)}")
        if summary not in ("max", "min"):
            raise library.UsageError(f"{name}: summary {summary!r}: max, min")
        number = -1
        if self._writes():
            whole = shape
            if len(shape) > 2:  # a file has two: all behind the first are joined
                axes, shape = (axes[0], ".".join(axes[1:])), (shape[0], int(np.prod(shape[1:])))
            whole_definition = (name, rows, axes, shape, unit, long_name or name, definition)
            number = self._declare(*whole_definition)
            self._definitions[name], self._summary[name] = whole_definition, summary
            shape = whole
            if len(shape) > 2:
                self.axis(axes[1], [".".join(map(str, at)) for at in np.ndindex(shape[1:])])
        self._series[name] = (number, shape)

    def _declare(
        self, name: str, rows: str, axes: tuple[str, ...], shape: tuple[int, ...], unit: str, long_name: str, definition: str
    ) -> int:
        number = c.c_int(-1)
        series = library.SeriesOf(
            library.text(name),
            _ROWS[rows],
            len(shape),
            (c.c_char_p * 2)(*[library.text(axis) for axis in axes]),
            (c.c_long * 2)(*shape),
            library.text(unit),
            library.text(long_name),
            library.text(definition),
        )
        library.call("record_series", self._handle, series, c.byref(number))
        return number.value

    @_in_turn
    def axis(self, name: str, places: Iterable[str]) -> None:
        """What the places of an axis are called: modules' names of ``layer``."""
        names = [library.text(place) for place in places]
        if self._writes():
            library.call("record_axis", self._handle, library.text(name), len(names), (c.c_char_p * len(names))(*names))

    def places_of(self, series: str, axis: str) -> list[str]:
        """The names of the places of a series' axis in the file that is continued; empty if there is none."""
        if not self._writes() or not self._goes_on:
            return []
        run = open_run(self._place)
        return run[series].places.get(axis, []) if series in run else []

    @_in_turn
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
        if numbers.ndim and (beyond := np.abs(numbers) > _MOST).any() and np.isfinite(numbers[beyond]).any():
            warnings.warn(f"{self.path}: {name}: arrays are in single precision, where 3.5e38 is inf", stacklevel=3)
        shape = self._series[name][1]
        if numbers.shape != shape:
            raise library.UsageError(f"{name} has shape {shape}, not {numbers.shape}")
        return numbers

    @_in_turn
    def log(self, *row: Any, **series: Any) -> None:
        """End the row of a step with these values and those of what is being watched: ``log(step, loss=1)``,
        ``log(step, {"loss": 1})`` or ``log({"loss": 1}, step=0)``. Nested dictionaries are joined by ``/``; None is no value.

        Steps grow. A second row of the last step is merged with it, which opens the file anew if it has the same kind of
        rows. Several ranks of one model all call it.
        """
        steps = [part for part in row if not isinstance(part, Mapping) and part is not None]
        steps += [series.pop("step")] if "step" in series else []
        if len(steps) != 1:
            raise TypeError(f"log: one step is wanted, got {len(steps)}: log(step, loss=...) or log({{...}}, step=...)")
        step = operator.index(steps[0])
        if not 0 <= step < 1 << 53:
            raise library.UsageError(f"step {step}: steps count from 0, and are below 2^53")
        before_it = self._latest()
        again = self._logs and step == before_it
        if self._logs and step < before_it:
            raise library.UsageError(f"a row of step {step} after one of step {before_it}: steps grow")
        before, writes = dict(self._row), self._writes()
        if writes and self._goes_on and not self._logs and step <= self.last_step:
            warnings.warn(
                f"{self.path}: its rows of steps {step} to {self.last_step} are replaced now",
                stacklevel=3,
            )
        try:  # of a row that is refused no value is put
            given: dict[str, Any] = {}
            for part in (*(part for part in row if isinstance(part, Mapping)), series):
                given.update(joined(part))
            numbers = {name: _number_of(name, value) for name, value in given.items()}
            self._row.update((name, self._ready(name, value)) for name, value in numbers.items())
            if not again:
                self._ask(step)
        except BaseException:
            self._row = before
            raise
        self._next_rank_step = step + 1
        if writes:
            if again and self._last_logged != step:  # an interrupt came before the row was kept
                raise library.UsageError(f"step {step} has its row, and no copy to join with another: log the next step")
            kinds = {self._definitions[name][1] for name in self._row}
            if again and kinds & {self._definitions[name][1] for name in self._last_row}:
                if self._whole:
                    raise library.UsageError(f"step {step} has its row; a file written as a whole keeps the first")
                self._row = {**self._last_row, **self._row}
                self._go_back(step)
            else:
                again = False  # it has no row of these series
            ended = self._row
            try:
                problem = self._put_row(step, ended, self._last_events if again else ())
            except library.UsageError:
                self._row = {**{n: x for n, x in ended.items() if n not in given}, **before}
                raise
            except BaseException:  # an interrupt: is the row there?
                self._row, self._logs, self._unsent = before, True, set(ended)
                if self.last_step == step and not again:
                    self._row = {}
                    self._keep_last(step, ended, before_it)
                raise
            self._row, self._logs, self._behind = {}, True, problem is not None
            self._keep_last(step, ended, before_it)
            if problem:
                raise problem
            for receiver in self._forward:
                self._tell(receiver, step, ended)
        self._row = {}
        self._logs = True

    def _put_row(
        self, step: int, row: Mapping[str, npt.NDArray[np.float64]], events: Sequence[tuple[Any, ...]]
    ) -> Optional[library.MaxlogitError]:
        """Returns why the row is not on disk: it stays in memory, and the next one is written with it."""
        for name in self._unsent - row.keys():  # of a row that was interrupted
            nothing = np.full(self._series[name][1], MISSING)
            library.call("record_put", self._handle, self._series[name][0], nothing.ctypes.data, nothing.size)
        for name, value in row.items():
            library.call("record_put", self._handle, self._series[name][0], value.ctypes.data, value.size)
        problem = None
        for call in [("record_row", step), *(("record_event", *event) for event in events)]:
            try:
                library.call(call[0], self._handle, *call[1:])
            except library.UsageError:
                raise
            except library.MaxlogitError as error:
                problem = problem or error
        self._unsent = set()
        return problem

    def _keep_last(self, step: int, row: dict[str, npt.NDArray[np.float64]], before_it: int) -> None:
        """What a second row of the same step is joined with."""
        self._last_events = [event for event in self._last_events if event[0] >= step]
        self._last_row = row if step > before_it else {**self._last_row, **row}
        self._last_logged = step

    def _ask(self, step: int) -> None:
        """Take the watched values into the row of a step, once. A callback does so before the next pass, and logs later."""
        if self._asked != step:
            for source in self._sources:
                source(step)
            self._asked = step

    @_in_turn
    def log_rows(self, rows: Mapping[str, tuple[Any, Any]]) -> None:
        """Record many rows at once: for each series its steps [rows], which grow, and its values [rows, axes]. They follow
        the rows that are there; nothing is forwarded."""
        kept, writes = [], self._writes()
        for name, (steps, values) in rows.items():
            whole = np.ascontiguousarray(steps, np.int64)
            if not np.array_equal(whole, steps):
                raise library.UsageError(f"{name}: steps are whole numbers")
            steps = whole
            values = _number_of(name, values)
            if len(steps) and self._logs and steps.ndim == 1 and steps[0] <= self._latest():
                raise library.UsageError(f"{name}: a row of step {steps[0]} after one of step {self._latest()}: steps grow")
            if steps.ndim != 1 or values.shape[:1] != steps.shape or not (np.diff(steps, prepend=-1) > 0).all():
                raise library.UsageError(f"{name}: values {values.shape} at steps {steps.shape}: one row per step, growing")
            if name not in self._series:
                self.define(name, values.shape[1:])
            if values.shape[1:] != self._series[name][1]:
                raise library.UsageError(f"{name} has shape {self._series[name][1]}, not {values.shape[1:]}")
            kept.append((self._series[name][0], steps, values))
        if writes:
            blocks = [library.Block(n, len(steps), steps.ctypes.data, values.ctypes.data) for n, steps, values in kept]
            library.call("record_blocks", self._handle, (library.Block * len(blocks))(*blocks), len(blocks))
            last = max((steps[-1] for _, steps, _ in kept if len(steps)), default=None)
            if last is not None:
                ends = zip(rows, kept)
                self._last_row = {name: np.array(v[-1]) for name, (_, at, v) in ends if len(at) and at[-1] == last}
                self._last_events = []
                self._last_logged = int(last)
        self._logs = self._logs or any(len(steps) for _, steps, _ in kept)

    def _go_back(self, step: int) -> None:
        """Open the file anew, where the first row replaces that of its step."""
        try:
            if self._behind:  # rows are in memory alone
                library.call("record_snapshot", self._handle)
            library.lib.maxlogit_record_discard(c.byref(self._handle))
            self._reopen()
        except BaseException:
            self._row = {}
            raise

    def _reopen(self) -> None:
        self._open("resume")
        for name, (_, shape) in list(self._series.items()):
            self._series[name] = self._declare(*self._definitions[name]), shape

    def _tell(self, receiver: Any, step: int, row: Mapping[str, npt.NDArray[np.float64]]) -> None:
        numbers = {}
        for name, value in row.items():
            known = value.ravel()[is_present(value.ravel())]
            if known.size:
                numbers[name] = float(known.min() if self._summary[name] == "min" else known.max())
        try:
            if callable(getattr(receiver, "add_scalar", None)):  # TensorBoard
                for name, number in numbers.items():
                    receiver.add_scalar(name, number, step)
            elif callable(getattr(receiver, "log_metrics", None)):  # MLflow
                receiver.log_metrics(numbers, step=step)
            elif callable(getattr(receiver, "log", None)):  # Weights & Biases
                receiver.log(numbers, step=step)
            else:
                receiver(step, {name: float(x) if not x.ndim else x.copy() for name, x in row.items()})
        except Exception as problem:
            if id(receiver) not in self._warned:
                self._warned.add(id(receiver))
                warnings.warn(f"maxlogit: rows are not forwarded to {receiver!r}: {problem}", stacklevel=3)

    @_in_turn
    def event(self, step: int, kind: str, layer: int = -1, head: int = -1, value: float = float("nan")) -> None:
        """Something that happened: ``clip``, ``spike``, ``nonfinite``, or a kind of your own (at most 23 bytes)."""
        if self._writes():
            event = (step, library.text(kind), layer, head, value)
            library.call("record_event", self._handle, *event)
            self._last_events.append(event)

    @_in_turn
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

    def _latest(self) -> int:
        """The step of the last row of any kind."""
        return max(self.last_step, self._last_logged)

    @_in_turn
    def snapshot(self) -> None:
        """Write the file now, so that others can read what there is."""
        if self._writes():
            library.call("record_snapshot", self._handle)

    def close(self, state: str = "finished") -> None:
        """The last of it: ``finished``, ``stopped`` or ``diverged``. A second close does nothing, nor does one in a
        forked process. After a failure, of a full disk for example, it can be called again."""
        if self._process != os.getpid():
            self._handle, self._closed = c.c_void_p(), True
            return
        with self._lock:
            if self._closed:
                return
            if not self._writes():
                self._closed = True
                return
            try:
                library.call("record_close", c.byref(self._handle), library.text(state))
            finally:  # an interrupt comes when it is done
                self._closed = not self._handle
                if self._closed:
                    _writing.pop(os.path.realpath(self._place), None)

    def _clear(self) -> None:
        """Removes the checkpoints and the journal of the run that was here before."""
        library.call("record_clear", self._handle)

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
            library.lib.maxlogit_record_discard(c.byref(handle))
            _writing.pop(os.path.realpath(self._place), None)
