"""The series of a run, made of columns, and their run file."""

from __future__ import annotations

import difflib
import math
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from maxlogit._library import UsageError
from maxlogit._record import MISSING, Recorder, is_present
from maxlogit.importer._folder import Folder
from maxlogit.importer._log import Column, Floats, factor_between
from maxlogit.importer._names import AXES, MAX_LOGIT, Place, Rule, place
from maxlogit.importer._source import memory, shown

_MOST_PLACES, _MOST_SERIES = 65536, 4096
_ROWS = ("step", "spectra", "validation", "probe")


@dataclass
class Series:
    name: str
    pattern: str
    letters: str
    sources: list[tuple[Column, tuple[int, ...]]] = field(default_factory=list)
    unit: str = ""
    size: tuple[int, ...] = ()
    steps: Floats = field(default_factory=lambda: np.empty(0))
    rows: str = "step"
    sparse: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(AXES[letter] for letter in self.letters)

    def has_nan(self) -> bool:
        return any(bool((np.isnan(column.values) & is_present(column.values)).any()) for column, _ in self.sources)

    def rows_of(self, which: Callable[[Floats], npt.NDArray[np.bool_]]) -> Floats:
        """Steps with such a value."""
        rows = [column.steps[which(column.values).reshape(len(column.steps), -1).any(axis=1)] for column, _ in self.sources]
        return np.unique(np.concatenate(rows))

    def settle(self, gaps: bool) -> None:
        """Rows up to the last number: where fewer than half of them have one, the others are rows of other series. A nan
        counts as a number unless it is a gap."""
        is_there = _is_number if gaps else is_present
        number = [is_there(column.values).reshape(len(column.steps), -1) for column, _ in self.sources]
        some = [there.any(axis=1) for there in number]
        last = max((column.steps[there][-1] for (column, _), there in zip(self.sources, some) if there.any()), default=-1)
        counted = [column.steps <= last for column, _ in self.sources]
        total = sum(int(c.sum()) * there.shape[1] for c, there in zip(counted, number))
        self.sparse = 2 * sum(int(there.sum()) for there in number) < total
        steps = [column.steps[there] if self.sparse else column.steps for (column, _), there in zip(self.sources, some)]
        self.steps = steps[0] if len(steps) == 1 else np.unique(np.concatenate(steps))

    def convert(self, unit: str) -> None:
        """To a unit of the user's: ms of s, for example. Numbers of no unit are in it."""
        factor = factor_between(self.unit, unit)
        if factor not in (0, 1):
            for column, _ in self.sources:
                column.values = column.values * factor
        self.unit = unit or self.unit

    def has_number(self, step: float) -> bool:
        return any(not np.isnan(column.values[column.steps == step]).all() for column, _ in self.sources)

    def values(self) -> Floats:
        first = self.sources[0][0]
        if (
            first.steps is self.steps
            and len(self.sources) == 1
            and first.values.shape[1:] == self.size
            and self.letters != "hl"
        ):
            return first.values
        out = np.full((len(self.steps), *self.size), MISSING)
        for column, at in self.sources:
            row = np.searchsorted(self.steps, column.steps)
            there = row < len(self.steps)
            there[there] = self.steps[row[there]] == column.steps[there]
            if column.values.ndim == 1:
                out[(row[there], *at)] = column.values[there]
                continue
            values = np.swapaxes(column.values, 1, 2) if self.letters == "hl" else column.values
            part: list[Any] = [row[there], *at, *map(slice, values.shape[1:])]
            out[tuple(part)] = values[there]
        return out


def _is_number(values: Floats) -> npt.NDArray[np.bool_]:
    return ~np.isnan(values)


def _find_gaps(series: list[Series]) -> list[bool]:
    """Whether a nan in a series is a gap, as pandas prints one: another series has a nan where this one has numbers, and
    the other way round. The nan of a run that diverges stands alone."""
    some = [i for i, s in enumerate(series) if s.has_nan() and all(column.of_table for column, _ in s.sources)]
    number = {i: series[i].rows_of(_is_number) for i in some}
    nan = {i: np.setdiff1d(series[i].rows_of(is_present), number[i]) for i in some}
    steps = np.unique(np.concatenate([*number.values(), *nan.values()])) if some else np.empty(0)

    def bits(of: Floats) -> int:
        return int.from_bytes(np.packbits(np.isin(steps, of)).tobytes(), "big")

    sets = {i: (bits(nan[i]), bits(number[i])) for i in some}
    kinds = set(sets.values())  # thousands of series are millions of pairs, of few kinds
    meets = {a: any(a[0] & b[1] and b[0] & a[1] for b in kinds) for a in kinds}
    return [i in sets and meets[sets[i]] for i in range(len(series))]


def _split(column: Column) -> list[Column]:
    """A list's elements as columns of their own."""
    parts = []
    for at in np.ndindex(column.values.shape[1:]):
        part = Column(column.prefix, column.name + ":" + "".join(f"{x}{n}" for x, n in zip("lh", at)))
        values = column.values[(slice(None), *at)]
        there = is_present(values)
        part.steps, part.values, part.unit = column.steps[there], values[there], column.unit
        parts.append(part)
    return parts


def _placed(columns: list[Column], rules: list[Rule]) -> list[tuple[Column, Place]]:
    """Every column that is not left out, with its place."""
    out = []
    for column in columns:
        elements = [column]
        if column.values.ndim > 1 and any(
            rule.pattern.startswith(column.full + ":") and "{" not in rule.pattern for rule in rules
        ):
            elements = _split(column)
        for part in elements:
            found = place(rules, part.prefix, part.name, part.values.ndim - 1)
            if found and part.text and len(part.steps):
                where, what = part.text
                hint = "--decimal=, reads decimal commas of tables; " if re.search(r"\d,\d", what) else ""
                hint += f"--map '-={part.full}' leaves the column out"
                raise UsageError(f"{where}: {part.name}: '{what:.40}' is not a number; {hint}")
            if found and len(part.steps):
                out.append((part, found))
    return out


def check_used(rules: list[Rule], units: Mapping[str, str], columns: list[Column], runs: list[list[Series]]) -> list[str]:
    """What is used in some of the runs alone. UsageError: a rule or a unit of nothing."""
    messages = []
    for i, rule in enumerate(rules):
        if not rule.used:
            if any(rule.pattern == other.pattern for other in rules[:i]):
                raise UsageError(f"--map: {rule.pattern} is of two rules")
            near = difflib.get_close_matches(rule.pattern, [column.full for column in columns], 1)
            raise UsageError(
                f"--map: no column is {rule.pattern}" + (f"; did you mean '{near[0]}'?" if near else "; --dry-run shows them")
            )
        if rule.used < len(runs):
            messages.append(f"--map: {rule.pattern} is in {rule.used} of {len(runs)} runs")
    for name, unit in units.items():
        used = sum(any(s.name == name for s in series) for series in runs)
        if not used:
            raise UsageError(f"--unit '{name}={unit:.60}': no series is called so; --dry-run shows them")
        if used < len(runs):
            messages.append(f"--unit: {name} is in {used} of {len(runs)} runs")
    return messages


def _finest(placed: list[tuple[Column, Place]], exact: Mapping[str, str]) -> dict[str, str]:
    """Whose the name of the largest logits is: of heads rather than of layers, of layers rather than of all; that of
    max_logit rather than of max_logit_ema. UsageError: several could have it, which is not guessed."""
    finest: dict[str, tuple[Column, Place]] = {}
    for column, found in placed:
        if not found.series.endswith(MAX_LOGIT) or found.series in exact:
            continue
        before, other = finest.setdefault(found.series, (column, found))
        is_same = len(found.letters) == len(other.letters) and found.pattern != other.pattern
        if len(found.letters) > len(other.letters) or (is_same and before.full.startswith(column.full)):
            finest[found.series] = (column, found)
        elif is_same and not column.full.startswith(before.full):
            raise UsageError(
                f"{before.full:.100} and {column.full:.100} could both be {found.series}: --map '{found.series}=NAME' says "
                f"which is, '{found.series}[l]=PATTERN' that {{l}} in it is a layer, '-=NAME' leaves a column out"
            )
    return {name: found.pattern for name, (_, found) in finest.items()}


def _grouped(placed: list[tuple[Column, Place]]) -> dict[str, Series]:
    """Columns of one pattern are one series; where two patterns would have one name, the second has its own."""
    series: dict[str, Series] = {}
    exact = {column.full: found.pattern for column, found in placed if column.full == found.own}
    exact.update((found.series, found.pattern) for _, found in placed if found.by_rule)
    exact.update(_finest(placed, exact))
    for column, found in placed:
        for again in range(1, 10):
            name = found.series
            if again > 1 or (name in exact and exact[name] != found.pattern):
                name = found.own if again < 3 else f"{found.own:.90}_{again - 1}"
            there = series.get(name)
            if there is None:
                there = series[name] = Series(name, found.pattern, found.letters)
                if len(series) > _MOST_SERIES:
                    raise UsageError(f"more than {_MOST_SERIES} series; --map joins columns or leaves them out")
            if (there.pattern, there.letters) == (found.pattern, found.letters):
                break
        else:
            raise UsageError(f"{column.full}: too many columns are {found.series}; --map tells them apart")
        there.sources.append((column, found.at))
        there.unit = there.unit or column.unit
    return series


_NO_SERIES = {"step", "val_step", "spectra_step", "probe_step", *AXES.values(), *(f"{axis}_name" for axis in AXES.values())}


def _part_names(series: list[Series]) -> None:
    """A name below that of another series, or of an axis, is none: loss and loss/aux become loss and loss_aux. A new name
    that another series has gets one more underscore."""
    names = {s.name for s in series}
    taken = names - _NO_SERIES
    for s in sorted(series, key=lambda s: s.name.count("/")):
        parts = s.name.split("/")
        name = parts[0]
        for part in parts[1:]:
            name += ("_" if name in names | taken | _NO_SERIES else "/") + part
        while name != s.name and name in taken or name in _NO_SERIES:
            name += "_"
        taken.add(name)
        s.name = name


def _find_sizes(series: list[Series]) -> None:
    """An axis has one size in a file."""
    size = dict.fromkeys(AXES, 0)
    for s in series:
        for column, at in s.sources:
            shape = (*(n + 1 for n in at), *column.values.shape[1:])
            for letter, n in zip(sorted(s.letters, key="lhe".index) if column.values.ndim > 1 else s.letters, shape):
                if n > _MOST_PLACES:
                    raise UsageError(f"{AXES[letter]} {n - 1}: that is no {AXES[letter]}; --map says what the numbers are")
                size[letter] = max(size[letter], n)
    for s in series:
        s.size = tuple(size[letter] for letter in s.letters)


def _drop_last(series: list[Series]) -> None:
    """The last row of a table of several series may be there for a sparse one alone: then it is none of the others."""
    last = max((s.steps[-1] for s in series if len(s.steps)), default=-1)
    if any(s.sparse and last in s.steps[-1:] for s in series) and not any(
        not s.sparse and s.has_number(last) for s in series
    ):
        for s in series:
            if not s.sparse and last in s.steps[-1:]:
                s.steps = s.steps[:-1]


def _choose_rows(series: list[Series]) -> None:
    """Series that have their steps in common have rows in common; there are four kinds of rows, one of which is for those
    of most steps (a validation's only where there is nothing else), and for what finds none."""
    of = {"step": max(series, key=lambda s: ("val" not in s.name, len(s.steps)))}
    for s in series:
        if np.array_equal(s.steps, of["step"].steps):
            continue
        order = ("validation", "probe", "spectra") if "val" in s.name else ("spectra", "probe", "validation")
        for rows in order:
            if np.array_equal(s.steps, of.setdefault(rows, s).steps):
                s.rows = rows
                break


def series_of(columns: list[Column], rules: list[Rule], units: Mapping[str, str]) -> list[Series]:
    """The series of a run; counts the rules that it uses. UsageError: what cannot be a series."""
    before = [rule.used for rule in rules]
    placed = _placed(columns, rules)
    for rule, used in zip(rules, before):
        rule.used = min(rule.used, used + 1)
    if not placed:
        raise UsageError("every column is left out")
    series = list(_grouped(placed).values())
    _part_names(series)
    _find_sizes(series)
    for s, gaps in zip(series, _find_gaps(series)):
        s.settle(gaps)
        in_nats = any(part in s.name for part in ("loss", "logit", "attn/entropy"))
        s.convert(units.get(s.name, ""))
        s.unit = s.unit or ("nat" if in_nats else "1")
    _drop_last(series)
    size = 8 * sum(len(s.steps) * math.prod(s.size) for s in series)
    if size * 8 > memory():
        raise UsageError(
            f"series of {size / 2**30:.1f} GiB are more than an eighth of memory; --map says what the numbers in names are"
        )
    _choose_rows(series)
    return series


# --- printing and writing --------------------------------------------------------------------------------------


def described(series: list[Series], steps: str, settings: Mapping[str, str]) -> str:
    """What was found, and the rules that say so."""
    lines, rules = [f"steps     {steps}"], []
    for s in series:
        axes = "[step" + "".join(f", {axis} {n}" for axis, n in zip(s.axes, s.size)) + "]"
        span = f"{s.steps[0]:.0f} to {s.steps[-1]:.0f}" if len(s.steps) else "nan to nan"
        unit = "" if s.unit == "1" else s.unit
        lines.append(f"{s.name:<24} {axes:<28} {unit:<4} {len(s.steps):6} rows, step {span}  <- {s.pattern}")
        pattern = s.pattern.replace("\\", "\\\\").replace(",", "\\,")
        rules.append(s.name + (f"[{','.join(s.letters)}]" if s.letters else "") + "=" + pattern)
    lines += [f"{key} = {value}" for key, value in settings.items()]
    return "\n".join(map(shown, [*lines, f"--map {shlex.quote(','.join(rules))}"]))


def _write(path: str, series: list[Series], files: str, settings: Mapping[str, str], data: Optional[str]) -> None:
    note = shown(f"imported from {files:.3000}")
    recorder = Recorder(path, dict(settings), mode="new", data=shown(data or note), whole=True)
    for s in series:
        definition = shown(f"'{s.pattern:.256}' of {files:.300}, as that program told it")
        recorder.define(s.name, s.size, s.axes, unit=shown(s.unit), definition=definition, rows=s.rows)
    recorder.log_rows({s.name: (s.steps, s.values()) for s in series})
    recorder.note(note)
    recorder.close()


def _claim(path: str, overwrite: bool) -> Recorder:
    """Holds the run file's lock as long as it lives. UsageError: the file is there, or another process writes it."""
    try:
        return Recorder(path, {}, mode="replace" if overwrite else "new", whole=True)
    except UsageError as problem:
        raise UsageError(f"{problem}; --overwrite replaces it" if "exists" in str(problem) else str(problem)) from None


def write(
    runs: list[tuple[str, list[Series]]], files: str, settings: Mapping[str, str], data: Optional[str], overwrite: bool
) -> None:
    """All run files, or none: they are written into a folder beside, and take their places when all are there."""
    folder = os.path.dirname(runs[0][0]) or "."
    with Folder(folder) as place:
        for path, _ in runs:
            _claim(path, overwrite)
        beside = os.path.join(folder, place.make_beside())
        for i, (_, series) in enumerate(runs):
            _write(f"{beside}/{i}.h5", series, files, settings, data)
        for i, (path, _) in enumerate(runs):
            claim = _claim(path, overwrite)
            place.publish(f"{i}.h5", os.path.basename(path), overwrite)
            del claim
        place.keep()
    for path, _ in runs if overwrite else []:
        _claim(path, overwrite)._clear()
