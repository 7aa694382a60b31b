"""What a row of the registry says, and what printed lines have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from maxlogit.importer._log import TEXT, Log, number_of, whole
from maxlogit.importer._source import Source


class Row(NamedTuple):
    """Of a printed line: its step (None: unknown), values by name, what qualifies them."""

    step: Optional[int]
    values: Mapping[str, Any]
    prefix: str = ""


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
    """What is known while lines are read: progress bars, a step that holds for the next lines, rows that wait for one."""

    log: Log
    bars: dict[int, int] = field(default_factory=dict)  # by their length
    total: int = 0  # of the training's bar
    step: Optional[int] = None
    first_epoch: Optional[int] = None
    waiting: list[Waiting] = field(default_factory=list)


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
    line: Optional[Callable[[str, Printed], Optional[Row]]] = None
    table: Optional[Callable[[list[str]], Optional[Layout]]] = None
    folder: Optional[Callable[[str, Any], Optional[list[Log]]]] = None


NUMBER = (
    r"(?:np\.\w+\(|tensor\()?(?P<value>[-+]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"|[-+]?(?i:nan|inf(?:inity)?)\b|None\b|N/A)"
)


class Lines:
    """Printed lines of one shape: `head` finds the step, `pair` each name and value behind it. `hint`: what is in all.
    Names are of bounded length, so that a long line costs time in proportion to its length."""

    def __init__(self, hint: str, head: str, pair: str, names: Optional[Mapping[str, str]] = None) -> None:
        self.hint, self.head, self.pair = hint, re.compile(head), re.compile(pair.replace("NUMBER", NUMBER))
        self.names = names or {}

    def pairs(self, text: str, begin: int = 0) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for match in self.pair.finditer(text, begin):
            name = match["name"].strip()
            number = number_of(match["value"])
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
