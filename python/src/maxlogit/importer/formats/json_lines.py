"""Objects of JSON, one per line or one per file, in lists, or as lists of their values."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from maxlogit.importer._log import EPOCHS, SETS, Log
from maxlogit.importer._source import Source
from maxlogit.importer.formats._format import Format

_WORDS = {"nan": "NaN", "inf": "Infinity", "None": "null", "True": "true", "False": "false"}
_TOKEN = re.compile(
    r"'(?:[^'\\]|\\[\s\S]?)*(?:'|\Z)|\"(?:[^\"\\]|\\[\s\S]?)*(?:\"|\Z)|(?<![\w.])(?:nan|inf|None|True|False)(?![\w.])"
    r"|(?:np\.\w+|tensor|array)\(([^()]*)\)"
)


def _token(match: Any) -> str:
    text = match[0]
    if text[0] == "'":
        return json.dumps(ast.literal_eval(text))
    if match[1] is None:
        return text if text[0] == '"' else _WORDS[text]
    inside = re.split(r", *\w+=", match[1], maxsplit=1)[0]  # without dtype= and device=
    return re.sub(r"(\d)\.(?![\d])", r"\1.0", python_as_json(inside))  # torch prints 2.


def python_as_json(text: str) -> str:
    """A dictionary as Python prints it, with nan, None, 'texts' and numbers of numpy and torch, as JSON."""
    return _TOKEN.sub(_token, text)


class Decoder:
    """Parses JSON, or Python, and counts names that one object has twice."""

    def __init__(self) -> None:
        self.twice: list[str] = []

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs):
            self.twice += (name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        return out

    def __call__(self, text: str) -> Any:
        """ValueError: it is neither."""
        try:
            return json.loads(text, object_pairs_hook=self._object)
        except ValueError as problem:
            try:
                return json.loads(python_as_json(text), object_pairs_hook=self._object)
            except (ValueError, SyntaxError, RecursionError):
                raise problem from None
        except RecursionError:
            raise ValueError("nested too deep") from None


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def rows_in(value: Any, log: Log) -> Any:
    """The rows of what a file or a line has: an object, a list of objects, an object with such a list, or lists of equal
    lengths, the steps among them. None: nothing of it."""
    if _is_rows(value):
        return iter(value)
    if not isinstance(value, dict):
        return None
    steps = [name for name in value if log.is_step(name) or name in EPOCHS]
    history = [(name, x) for name, x in value.items() if _is_rows(x) and (name == "log_history" or _has_steps(x[0], log))]
    if history and ("log_history" in value or not any(log.is_step(name) for name in value)):
        if "log_history" in value or len(history) == 1:
            return iter(dict(history).get("log_history", history[0][1]))
        return _of_lists(history)
    lists = [name for name in steps if isinstance(value[name], list)]
    if not lists:
        return iter([value])
    count = len(value[lists[0]])
    same = {name: x for name, x in value.items() if isinstance(x, list) and len(x) == count}
    left = [name for name, x in value.items() if isinstance(x, (dict, list)) and name not in same]
    if left:
        log.say(f"{', '.join(left[:3])[:200]}: no list of {count} values, as {lists[0]} is: left out")
    return ({name: x[i] for name, x in same.items()} for i in range(count))


def _of_lists(history: list[tuple[str, list[dict[str, Any]]]]) -> Iterator[dict[str, Any]]:
    """Rows of several lists, told apart by the set that a list is of, or by its name where two have a column in common."""
    columns = Counter(name for _, rows in history for name in rows[0] if "step" not in name and name not in EPOCHS)
    for name, rows in history:
        of = next((word for word in re.split(r"[_./-]", name.lower()) if word in SETS), "")
        if not of and any(columns[column] > 1 for column in rows[0]):
            of = name
        yield from ({"split": of, **row} if of else row for row in rows)


def _has_steps(row: dict[str, Any], log: Log) -> bool:
    return any(log.is_step(name) or name in EPOCHS for name in row)


def knows(source: Source) -> bool:
    if source.name.endswith((".jsonl", ".ndjson", ".json")):
        return not source.head.lstrip().startswith(("DLLL {", ":::MLLOG {"))
    first, _, rest = source.head.lstrip().partition("\n")
    printed = first.endswith("}") and any(line and line.lstrip()[:1] not in ("{", "[", "") for line in rest.split("\n"))
    return bool(re.match(r'\s*(\{\s*["}]|\[\s*[\[{])', source.head)) and not printed


def reads(source: Source, log: Log, options: Any) -> None:
    text, decode = source.text, Decoder()
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    try:
        whole = not first or decode(first) is None
    except ValueError:
        whole = not source.name.endswith((".jsonl", ".ndjson"))
    decode.twice.clear()
    if whole:
        _read_whole(text, log, decode)
    else:
        for number, line in enumerate(lines, 1):
            if line.strip():
                log.lines = number
                _read_line(line, number, number == len(lines), log, decode)
    if decode.twice:
        log.say(f"{len(decode.twice)} names are twice in one object ({decode.twice[0]}): the last counts")


def _read_line(line: str, number: int, last: bool, log: Log, decode: Decoder) -> None:
    try:
        rows = rows_in(decode(line), log)
        problem = "something else"
    except ValueError as wrong:
        if last and log.order:
            log.say("the last line was cut short: left out")
            return
        rows, problem = None, str(wrong)
    if rows is None:
        raise log.error(f"no JSON object: {problem}", number)
    for row in rows:
        log.put_object(row, number)


def _read_whole(text: str, log: Log, decode: Decoder) -> None:
    try:
        value = decode(text)
    except ValueError as problem:
        raise log.error(f"no JSON: {problem}", getattr(problem, "lineno", 1)) from None
    rows = rows_in(value, log)
    log.lines = text.count("\n") + 1
    if rows is None:
        raise log.error("no JSON object, and no list of objects")
    for row in rows:
        log.put_object(row)


FORMAT = Format(
    name="jsonl",
    what="JSON: an object per line or per file, a list of objects, or lists of equal lengths with the steps among them, as "
    "trackers and trainers write them. Nested objects become a/b, lists become layers, lists of lists layers and heads; NaN "
    "and Infinity are read as Python writes them",
    file="metrics.jsonl",
    example='{"step": 0, "train": {"loss": 3.5}, "attn/max_logit": [[3, 4], [5, 9]]}\n{"step": 1, "train": {"loss": 2.5}}\n',
    wanted={"loss": {0: 3.5, 1: 2.5}, "attn/max_logit": {0: [[3, 4], [5, 9]]}},
    knows=knows,
    reads=reads,
)
