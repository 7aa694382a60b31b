"""What a row of the registry says, and what printed lines have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from maxlogit.importer._log import TEXT, Log, whole, with_suffix
from maxlogit.importer._source import Source


class Row(NamedTuple):
    """Of a printed line: its step (None: unknown), values by name, what qualifies them. Where its step is not that of the
    run: the epoch, the place in it, how many there are, whether they surely begin anew with it. `set`: an evaluation's."""

    step: Optional[int]
    values: Mapping[str, Any]
    prefix: str = ""
    epoch: Optional[int] = None
    at: Optional[int] = None
    total: int = 0
    within: bool = False
    set: str = ""
    line: int = 0


class Layout(NamedTuple):
    """What the columns of a table are: of each (run, name); None: no values. Of a long table the columns that have the name,
    the value, the run and what qualifies the name."""

    columns: list[Optional[tuple[str, str]]]
    name: int = -1
    value: int = -1
    runs: tuple[int, ...] = ()
    prefixes: tuple[int, ...] = ()


@dataclass
class Waiting:
    """A printed row without a step, and how far the training's bar was above and below it."""

    before: Optional[int]
    values: dict[str, Any]
    prefix: str
    line: int
    after: Optional[int] = None


@dataclass
class Printed:
    """What is known while lines are read: progress bars, rows that wait for one."""

    log: Log
    bars: dict[int, int] = field(default_factory=dict)  # by their length
    total: int = 0  # of the training's bar
    block: Optional[Row] = None  # the step that holds for the next lines
    epoch: Optional[int] = None
    first_epoch: Optional[int] = None
    others: list[str] = field(default_factory=list)  # what progress bars with values are of that are not the training's
    last: Optional[int] = None  # the step of the last row before these
    counts: str = ""  # of lines with two, as LitGPT's "iter 16 step 1"; one with the other alone belongs to the last step
    rows: list[Row] = field(default_factory=list)  # that wait for the length of an epoch, and those behind them
    last_epoch: Optional[int] = None  # the last one among these rows
    waiting: list[Waiting] = field(default_factory=list)


Line = Callable[[str, Printed], Optional[Row]]


@dataclass(frozen=True)
class Format:
    """One format. `what` and `example` are the manual's, `wanted` the example's series: {step: value}. `example` may be a
    function that writes a file or folder. One of: `reads` with `knows`, for files; `line`, for printed lines; `table`, for
    the header of a table; `folder`, for folders."""

    name: str
    what: str
    example: Union[str, Callable[[Path], None]]
    wanted: Mapping[str, Mapping[int, Any]]
    file: str = "train.log"
    knows: Optional[Callable[[Source], bool]] = None
    reads: Optional[Callable[[Source, Log, Any], None]] = None
    line: Optional[Line] = None
    table: Optional[Callable[[list[str]], Optional[Layout]]] = None
    folder: Optional[Callable[[str, Any], Optional[list[Log]]]] = None


_UNIT = r"(?:[nuµm]?s|secs?|seconds?|min|mins|minutes?|h|hrs?|hours?|[KMGT]i?B|%)(?![\w/=:%])"
NUMBER = (  # with a clock's time and days left out
    r"(?:np\.\w+\(|tensor\(|\[+(?=[^\[\],]*\]))?(?P<value>[-+]?(?:(?:\d{1,3}(?:(?:,\d{3})+|(?:_\d{3})+)(?![\d_])|\d+)"
    r"(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?i:nan|inf(?:inity)?|None|N/A)(?![\w.]*[=:]))"
    rf"(?!\d|:\d|,? days?\b)(?P<suffix> ?{_UNIT}| [KkMGT](?=\s*(?:[|,;)\]]|$))|,\d[^\s;|()\[\]{{}}]*|[^\s,;|()\[\]{{}}'\"<>]*)"
)


class Lines:
    """Printed lines of one shape: `head` finds the step, `pair` each name and value behind it. `hint`: what is in all."""

    def __init__(self, hint: str, head: str, pair: str, names: Optional[Mapping[str, str]] = None) -> None:
        self.hint, self.head, self.pair = hint, re.compile(head), re.compile(pair.replace("NUMBER", NUMBER))
        self.names = names or {}

    def pairs(self, text: str, begin: int = 0) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for match in self.pair.finditer(text, begin):
            name = match["name"].strip()
            number = with_suffix(match["value"], match["suffix"].rstrip(".:"))
            if name and number is not TEXT and number is not None:
                values[self.names.get(name, name)] = number
        return values

    def __call__(self, line: str, state: Printed) -> Optional[Row]:
        match = self.head.search(line) if self.hint in line else None
        values = self.pairs(line, match.end()) if match else None
        if not match or not values:
            return None
        groups = match.groupdict()
        step = whole(groups["step"])
        return None if step is None else Row(step, values, groups.get("prefix") or "")
