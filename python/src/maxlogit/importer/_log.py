"""The values of a log in the order in which they were written, and which of them stay."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from maxlogit._library import UsageError
from maxlogit._record import MISSING
from maxlogit.importer._source import shown

Floats = npt.NDArray[np.float64]
Key = tuple[str, str, str]  # run, prefix, name

_STEPS = (
    "step|_step|Step|global_step|train/global_step|global_step/max_steps|iteration|iter|steps|Iteration|trainer/global_step"
    "|num_updates|current_steps"
)
STEP_NAMES = {*_STEPS.split("|"), "global step"}
_OF_FAIRSEQ = ("valid_num_updates", "train_num_updates")
EPOCHS = ("epoch", "Epoch", "train/epoch")
RUNS = ("run", "group", "run_id", "run_uuid", "run_name", "run.hash", "Run")
SETS = {"train", "training", "val", "valid", "validation", "eval", "evaluation", "dev", "test"}
SET_COLUMNS = ("type", "kind", "event")  # qualifiers where they have a set's name
QUALIFIERS = ("split", "set", "rank", "stage", "phase", "mode", "subset", "dataset", "partition", *SET_COLUMNS)
_TIMES_OF_ROWS = ("time", "timestamp", "wall_time", "walltime")
METRIC_NAMES = ("key", "metric", "metric_name", "metric.name", "tag", "variable", "name")  # of rows with a value
_PLACES = ("layer", "head", "expert", "seed", "local_rank", *EPOCHS)  # of which a row has one, not a series
_NOTHING = {"", "none", "n/a", "na", "<na>", "null", "-", "--"}
TEXT = object()
_MOST_PREFIX = 1000  # letters

_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "second": 1, "min": 60, "h": 3600, "hour": 3600}
_BYTES = {f"{x}{i}B": (1024 if i else 1000) ** (n + 1) for n, x in enumerate("KMGT") for i in ("", "i")}
UNITS: dict[str, tuple[str, float]] = {"%": ("%", 1), "B": ("bytes", 1)}  # what they measure, and how much of it
UNITS.update({name: ("time", x) for name, x in _TIMES.items()}, **{name: ("bytes", x) for name, x in _BYTES.items()})
_FACTORS = {"K": 1e3, "k": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}


def factor_between(unit: str, wanted: str) -> float:
    """By what values of a unit are multiplied to be in another one; 0: they measure different things."""
    (kind, size), (other, of) = (UNITS.get(x, (x, 1)) for x in (unit, wanted))
    return size / of if kind == other else 0


class Quantity(float):
    """A number that was printed with a unit."""

    unit = ""


class Unread(str):
    """A printed value that is not a number, though it begins like one: it is left out and reported."""


def number_of(text: str) -> Any:
    """A number as programs print it; None where it says that there is none; TEXT."""
    text = text.strip()
    if text.lower() in _NOTHING:
        return None
    if ("," in text or "_" in text) and re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:(,\d{3})+|(_\d{3})+)(\.\d*)?", text):
        text = text.replace(",", "").replace("_", "")
    try:
        return TEXT if "_" in text else float(text)
    except ValueError:
        return TEXT


def qualifies(name: str, value: Any) -> bool:
    """Whether a text says of what the numbers beside it are."""
    return isinstance(value, str) and number_of(value) is TEXT and (name not in SET_COLUMNS or value.lower() in SETS)


def first_step(names: list[str], all_names: Iterable[str]) -> str:
    """Of several names of steps the one that counts: that of W&B, which all its rows have; where there is an epoch, a global
    one, as others may count within it; the first."""
    has_epoch = any(name in EPOCHS for name in all_names)
    return "_step" if "_step" in names else next((name for name in names if has_epoch and "global" in name), names[0])


def as_printed(value: Any) -> Any:
    """A number that was printed as a text, as version 5 of transformers does: '2.5'. Other values as they are."""
    number = number_of(value) if isinstance(value, str) else TEXT
    return number if isinstance(number, float) else value


def with_suffix(text: str, suffix: str) -> Any:
    """A printed number with the letters behind it: 900K, 85%, 12.5ms."""
    number, unit = number_of(text), suffix.strip()
    if not unit and number is not TEXT:
        return number
    if unit in _FACTORS and isinstance(number, float):
        return float(f"{number * _FACTORS[unit]:.15g}")
    unit = unit if unit in UNITS else re.sub(r"r?s$", "", unit)
    if number is None:
        return None
    if number is TEXT or unit not in UNITS:
        return Unread(text + suffix) if text[-1] in "0123456789." and unit[:1] != ":" else TEXT
    what, factor = UNITS[unit]
    out = Quantity(f"{number * factor:.15g}")
    out.unit = {"time": "s", "bytes": "B"}.get(what, unit)
    return out


def whole(value: Any) -> Optional[int]:
    """A step: a whole number from 0 on, also as "5/100"."""
    if isinstance(value, str):
        value = number_of(value.split("/")[0])
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 1e15 or value != math.floor(value):
        return None
    return int(value)


def _check_filling(size: tuple[int, ...], numbers: int) -> None:
    """UsageError: of an array of other shapes joined, almost all would be empty."""
    if math.prod(size) > 64 * numbers + (1 << 20):
        raise UsageError(f"lists of other lengths: {numbers} numbers would fill {' x '.join(map(str, size))} places")


def _padded(value: list[Any]) -> Any:
    """Of lists of unequal lengths, or with gaps: [layers] or [layers, heads]. None: of more axes, or of texts."""
    rows = value if any(isinstance(row, list) for row in value) else [value]
    if not all(isinstance(row, list) for row in rows) or any(isinstance(x, (list, dict)) for row in rows for x in row):
        return None
    size = (len(rows), max(map(len, rows)))
    _check_filling(size, sum(map(len, rows)))
    out = np.full(size, MISSING)
    for i, row in enumerate(rows):
        for k, x in enumerate(row):
            number = numeric(x)
            if number is TEXT:
                return None
            out[i, k] = MISSING if number is None else number
    return out if rows is value else out[0]


def numeric(value: Any) -> Any:
    """A number or an array; None where there is no value; TEXT."""
    if isinstance(value, (bool, dict)) or value is None:
        return None
    if isinstance(value, list):
        if not value:
            return None
        try:
            rows = value if isinstance(value[0], list) else [value]
            if not any(None in row for row in rows):
                array = np.array(value, dtype=np.float64)
                return array if 0 < array.ndim < 3 and array.size else None
        except (TypeError, ValueError, OverflowError):
            pass
        return _padded(value)
    if isinstance(value, str):
        return number_of(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return None


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested objects as names with slashes; objects in a list as NAME:l0/... . UsageError: the name of an object is too long,
    since the names of all its members begin with it."""
    if len(prefix) > _MOST_PREFIX:
        raise UsageError(f"an object's name of more than {_MOST_PREFIX} letters: {prefix[:60]}...")
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value.get("_type") == "histogram":
            continue  # of W&B: counts, not values
        if isinstance(value, dict):
            yield from flat(value, name + "/")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for i, part in enumerate(value):
                if isinstance(part, dict):
                    yield from flat(part, f"{name}:l{i}/")
        else:
            yield name, value


def _stack(values: list[Union[float, Floats]]) -> Floats:
    shapes = {np.shape(value) for value in values}
    if len(shapes) == 1:
        return np.array(values)
    rank = max(map(len, shapes))
    wide = [np.reshape(value, np.shape(value) + (1,) * (rank - np.ndim(value))) for value in values]
    size = (len(wide), *np.max([value.shape for value in wide], axis=0).tolist())
    _check_filling(size, sum(value.size for value in wide))
    out = np.full(size, MISSING)
    for i, value in enumerate(wide):
        out[(i, *map(slice, value.shape))] = value
    return out


def _differ(a: Floats, b: Floats) -> npt.NDArray[np.bool_]:
    """Which rows of two arrays are not the same."""
    differ = (a != b) & ~(np.isnan(a) & np.isnan(b))
    return np.asarray(differ if a.ndim == 1 else differ.reshape(len(a), -1).any(axis=1))


class Column:
    """One name of a log. After `Log.finish` steps grow: steps [rows], values [rows], [rows, l] or [rows, l, h]."""

    def __init__(self, prefix: str, name: str) -> None:
        self.prefix, self.name, self.unit = prefix, name, ""
        self.of_table = False  # where a nan may stand for no value
        self.alone = False  # its rows are its own: other columns going back say nothing about it
        self.text: Optional[tuple[str, str]] = None  # the first value that is none: where, what
        self.blocks: list[tuple[Any, Any, Any]] = []
        self.rows: tuple[list[int], list[Any], list[int]] = ([], [], [])
        self.steps: Floats = np.empty(0)
        self.values: Floats = np.empty(0)
        self.order: npt.NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def full(self) -> str:
        return f"{self.prefix}/{self.name}" if self.prefix else self.name

    def settle(self) -> None:
        if self.rows[0]:
            self.blocks.append((np.array(self.rows[0], float), _stack(self.rows[1]), np.array(self.rows[2])))
        if len(self.blocks) == 1:
            self.steps, self.values, self.order = self.blocks[0]
        elif self.blocks:
            parts = [block[1] for block in self.blocks]
            same = len({part.shape[1:] for part in parts}) == 1
            self.values = np.concatenate(parts) if same else _stack([row for part in parts for row in part])
            self.steps, self.order = (np.concatenate([block[i] for block in self.blocks]) for i in (0, 2))
        self.blocks, self.rows = [], ([], [], [])

    def keep(self, which: Any) -> None:
        self.steps, self.values, self.order = self.steps[which], self.values[which], self.order[which]

    def sort(self) -> int:
        """By steps, the last of equal ones. Returns how many others had another value."""
        gaps = np.diff(self.steps)
        if (gaps > 0).all():
            return 0
        if (gaps < 0).any():
            self.keep(np.argsort(self.steps, kind="stable"))
        again = np.flatnonzero(np.diff(self.steps) == 0)
        different = int(_differ(self.values[again], self.values[again + 1]).sum())
        self.keep(np.append(np.diff(self.steps) > 0, True))
        return different

    def in_unit(self, unit: str) -> float:
        """By what values of a unit are multiplied to be in this column's; 0: it measures something else."""
        if not self.unit or not unit:
            self.unit = self.unit or unit
        return factor_between(unit or self.unit, self.unit)

    def join(self, other: Column) -> int:
        """Rows of the other behind these. Returns how many steps had another value there."""
        factor = self.in_unit(other.unit) if len(other.steps) else 1
        if factor not in (0, 1):
            other.values = other.values * factor
        self.blocks = [(c.steps, c.values, c.order) for c in (self, other) if len(c.steps)]
        self.settle()
        return self.sort()


def _rows(columns: list[Column]) -> tuple[Any, Any]:
    """The order and the step of each row of these columns."""
    order, first = np.unique(np.concatenate([np.empty(0, np.int64), *(c.order for c in columns)]), return_index=True)
    return order, np.concatenate([np.empty(0), *(c.steps for c in columns)])[first]


def _first_back(rows: tuple[Any, Any], before: Any, at: Any, to: Any) -> Any:
    """Where a column that has rows `before` and `at`, of a step `to` behind, went back: at the first row between them that is
    not ahead of that step, of an evaluation for example."""
    order, step = rows
    first = np.searchsorted(order, before, "right")
    last = np.searchsorted(order, at)
    return np.array([order[i + int(np.argmax(step[i : k + 1] <= n))] for i, k, n in zip(first, last, to)])


def _later_least(order: Any, falls: list[tuple[Any, Any]]) -> Floats:
    """The least step to which a column goes back after each of these places."""
    at, to = (np.concatenate([fall[i] for fall in falls]) for i in (0, 1))
    place = np.argsort(at, kind="stable")
    least = np.append(np.minimum.accumulate(to[place][::-1])[::-1], np.inf)
    return np.asarray(least[np.searchsorted(at[place], order, "right")])


class Log:
    """One file, or one folder of files that follow each other."""

    def __init__(self, path: str, step: Optional[str] = None, keep_later: bool = False) -> None:
        self.path, self.step, self.keep_later = path, step, keep_later
        self.of_table = False
        self.tag = ""
        self.columns: dict[Key, Column] = {}
        self.settings: dict[str, str] = {}
        self.messages: list[str] = []
        self.step_found = ""
        self.lines = self.skipped = self.order = 0
        self.unread: dict[str, str] = {}  # the first of each name
        self.restarts: list[tuple[int, int]] = []  # that the log states: the order of the next row, its step
        self.unplaced: list[int] = []  # lines with a loss, but without a step
        self._without: list[tuple[Any, dict[str, Any], str, str]] = []

    # --- for readers --------------------------------------------------------------------------------------

    def is_step(self, name: str) -> bool:
        if self.step or not self.step_found:
            return name == self.step if self.step else name in STEP_NAMES
        return name == self.step_found or (self.step_found == "num_updates" and name in _OF_FAIRSEQ)

    def say(self, text: str) -> None:
        self.messages.append(f"{self.path}: {text}")

    def error(self, text: str, line: int = 0) -> UsageError:
        return UsageError(f"{self.path}:{line}: {text}" if line else f"{self.path}: {text}")

    def column(self, name: str, prefix: str = "", run: str = "") -> Column:
        column = self.columns.get((run, prefix, name))
        if column is None:
            run, prefix, name = map(shown, (run, prefix, name))
            column = self.columns.setdefault((run, prefix, name), Column(prefix, name))
        return column

    def put(
        self, step: int, values: Mapping[str, Any], prefix: str = "", run: str = "", line: int = 0, alone: bool = False
    ) -> None:
        """One row: values by name, nested or not."""
        if step > 10**15:
            raise self.error(f"step {step:.3g} is too large", line)
        self.order += 1
        for name, value in flat(values):
            number = value if isinstance(value, (float, np.ndarray, Unread)) else numeric(value)
            if number is None:
                continue
            if type(number) is Unread:
                self.unread.setdefault(name, number)
                continue
            column = self.column(name, prefix, run)
            column.alone |= alone
            if type(number) is Quantity and number.unit != column.unit:
                factor = column.in_unit(number.unit)
                if not factor:
                    self.unread.setdefault(name, f"{number:g}{number.unit}")
                    continue
                number = float(f"{number * factor:.15g}")
            if number is TEXT:
                column.text = column.text or (f"{self.path}:{line}", value)
                continue
            for part, x in zip(column.rows, (step, number, self.order)):
                part.append(x)

    def put_object(self, values: Mapping[str, Any], line: int = 0, prefix: str = "") -> None:
        """One row whose step, run and set are among its values; without a step it waits for `finish`."""
        names = dict(flat(values))
        run = next((str(names[name]) for name in RUNS if isinstance(names.get(name), str)), "")
        parts = [prefix] if prefix else []
        for name in QUALIFIERS:
            value = names.get(name)
            if qualifies(name, value):
                parts.append(value)
            elif name == "rank" and isinstance(value, int):
                parts.append(f"rank{value}")
            else:
                continue
            del names[name]
        called = next((name for name in METRIC_NAMES if isinstance(names.get(name), str)), None)
        others = [
            name for name, x in names.items() if name not in ("value", *EPOCHS, *_TIMES_OF_ROWS) and not isinstance(x, str)
        ]
        if called and "value" in names and numeric(names["value"]) is not TEXT and all(map(self.is_step, others)):
            names[names.pop(called)] = names.pop("value")  # a metric for each row
        steps = [name for name in names if self.is_step(name) and whole(names[name]) is not None]
        if steps:
            name = first_step(steps, names)
            self.step_found = self.step_found or name
            step = whole(names.pop(name)) or 0
            return self.put(step, names, "/".join(parts), run, line)
        epoch = next((names.pop(name) for name in EPOCHS if isinstance(as_printed(names.get(name)), (int, float))), None)
        epoch = as_printed(epoch)
        self.put_without_step(names, epoch, "/".join(parts), run)

    def put_without_step(self, values: dict[str, Any], epoch: Any, prefix: str = "", run: str = "") -> None:
        self._without.append((epoch, values, prefix, run))

    def put_rows(self, steps: Floats, columns: Mapping[str, tuple[Floats, Any]]) -> None:
        """Many rows: of each name the values, and which of them are there."""
        order = np.arange(self.order, self.order + len(steps))
        self.order += len(steps)
        for name, (values, there) in columns.items():
            if there.any():
                whole_of = slice(None) if there.all() else there
                self.column(name).blocks.append((steps[whole_of], values[whole_of], order[whole_of]))

    # --- what stays ---------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Steps of rows that had none, rows that a run left behind, values that came twice, ranks that agree."""
        self._find_steps()
        for column in self.columns.values():
            column.settle()
            column.of_table = self.of_table
        self._check_rows()
        self._check_commas()
        if not self.keep_later:
            self._drop_abandoned()
        self._check_rows()
        twice = [(column.sort(), column.full) for column in self.columns.values() if len(column.steps)]
        names = [name for count, name in twice if count]
        if names:
            count = sum(count for count, _ in twice)
            self.say(f"{count} value{'s' * (count > 1)} came again for the same step ({_some(names)}): the last counts")
        self._join_ranks()
        for run, prefix, name in list(self.columns):  # of charts of W&B: of a single run they are its values again
            plain = self.columns.get((run, prefix, name[:-5])) if name.endswith(("__MIN", "__MAX")) else None
            if plain and np.array_equal(plain.values, self.columns[run, prefix, name].values, equal_nan=True):
                del self.columns[run, prefix, name]
        if self.unread:
            what = _some([f"{name} ({value:.40})" for name, value in self.unread.items()])
            self.say(f"values that do not end with a known unit are left out: {what}")
        if self.unplaced:
            count = len(self.unplaced)
            self.say(f"{count} line{'s' * (count > 1)} with a loss but no step or epoch left out, as line {self.unplaced[0]}")
        if self.skipped:
            self.say(f"{self.skipped} line{'s' * (self.skipped > 1)} without a step: left out")

    def _check_rows(self) -> None:
        if any(len(column.steps) for column in self.columns.values()):
            return
        where = f"in {self.lines} line{'s' * (self.lines != 1)}" if self.lines else "of any step"
        need = "a line needs a step or an epoch, and NAME=NUMBER or NAME: NUMBER, a loss among them"
        hint = "--step NAME says what steps are called" if self.skipped else need if self.lines else ""
        what = "no number with a step" if self.lines else "no number"
        raise self.error(f"{what} {where}" + (f"; {hint}" if hint else ""))

    def _find_steps(self) -> None:
        rows = [row for row in self._without if row[0] is not None]
        if self.columns or not rows or self.step:
            self.skipped += len(self._without)
            return
        self.skipped += len(self._without) - len(rows)
        seen = {(whole(epoch), run, prefix, name) for epoch, values, prefix, run in rows for name in values}
        once = len(seen) == sum(len(values) for _, values, _, _ in rows)
        number = 0
        for epoch, values, prefix, run in rows:
            step = whole(epoch) if once and all(whole(row[0]) is not None for row in rows) else None
            if step is None:
                number += "loss" in values or number == 0
                values["epoch"] = epoch
            self.put(number if step is None else step, values, prefix, run)
        self.step_found = "(rows with a loss, from 1 on)" if number else "epoch"
        self.say(f"it has no steps, only epochs: {'rows with a loss are numbered' if number else 'they are the steps'}")

    def _check_commas(self) -> None:
        """UsageError: 2,345 was read as 2345 where 0,998 shows that commas are decimal ones."""
        numbers = {column.name: column.values for column in self.columns.values() if len(column.steps)}
        parted = any((np.abs(values) >= 1000).any() for values in numbers.values())
        has_points = any((np.isfinite(values) & (values % 1 != 0)).any() for values in numbers.values())
        for name, value in self.unread.items():
            form = r"[-+]?\d+,\d+" if name in numbers else r"[-+]?0,\d{2,}"
            if re.fullmatch(form, value) and (name in numbers or (parted and not has_points)):
                raise self.error(f"{name}: the comma of '{value:.40}' is a decimal one; printed numbers are read with points")

    def _check_places(self, columns: list[Column]) -> None:
        """UsageError: rows of a step are of several layers, or steps count anew from epoch to epoch: the last would count for
        all."""
        for column in columns:
            if column.name not in _PLACES or column.alone or column.values.ndim > 1:
                continue
            step, value = np.diff(column.steps), np.diff(column.values)
            differs = value > 0 if column.name in EPOCHS else (value != 0) & np.isfinite(value)
            anew = (step < 0) & (column.steps[1:] <= column.steps[0])  # a restart goes back to a checkpoint
            wrong = np.flatnonzero(differs & (anew | ((step == 0) & (column.name not in EPOCHS))))
            if wrong.size:
                at = int(wrong[0]) + 1
                what = f"{column.full} {column.values[at]:g} begins at step {column.steps[at]:.0f}, after step "
                what += f"{column.steps[at - 1]:.0f} of {column.full} {column.values[at - 1]:g}"
                raise self.error(
                    f"{what}: steps that grow are wanted, and a column for each layer or head (max_logit.l0h1), or a log for "
                    "each seed; --keep-later takes the last row of a step"
                )

    def _drop_abandoned(self) -> None:
        of_run: dict[str, list[Column]] = {}
        for (run, _, _), column in self.columns.items():
            of_run.setdefault(run, []).append(column)
        for columns in of_run.values():
            self._check_places(columns)
            rows = _rows([column for column in columns if not column.alone])
            stated = [tuple(np.array(part) for part in zip(*self.restarts))] if self.restarts else []
            falls = []
            for column in columns:
                back = np.flatnonzero(np.diff(column.steps) < 0) + 1
                if back.size:
                    at = column.order[back]
                    if not column.alone:
                        at = _first_back(rows, column.order[back - 1], at, column.steps[back])
                    falls.append((at, column.steps[back], column))
            if not falls and not stated:
                continue
            shared = stated + [fall[:2] for fall in falls if not fall[2].alone]
            lost = []
            for column in columns:
                own = stated + [fall[:2] for fall in falls if fall[2] is column] if column.alone else shared
                if own:
                    keep = column.steps < _later_least(column.order, own)
                    lost.append(column.order[~keep])
                    column.keep(keep)
            count, to = (
                len(np.unique(np.concatenate(lost))),
                min(int(fall[1].min()) for fall in [*stated, *(fall[:2] for fall in falls)]),
            )
            self.say(
                f"the run goes back, to step {to}: {count} row{'s' * (count != 1)} that it left behind "
                f"{'is' if count == 1 else 'are'} left out (--keep-later keeps them)"
            )

    def _join_ranks(self) -> None:
        """Where all ranks that have a series have the same values, it is one series."""
        ranks: dict[tuple[str, str, str], list[Key]] = {}
        for key in self.columns:
            match = re.fullmatch(r"(?:(.*)/)?rank ?\d+", key[1])
            if match:
                ranks.setdefault((key[0], match[1] or "", key[2]), []).append(key)
        for plain, keys in ranks.items():
            columns = [self.columns[key] for key in (plain, *keys) if key in self.columns]
            joined = Column(plain[1], plain[2])
            joined.text = columns[0].text
            if not sum([joined.join(column) for column in columns]):
                for key in keys:
                    del self.columns[key]
                self.columns[plain] = joined


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
