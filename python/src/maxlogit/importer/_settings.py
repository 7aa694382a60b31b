"""Configurations: keys of YAML and JSON files, nested ones with dots."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from maxlogit._library import UsageError
from maxlogit.importer._source import Source

_MOST_DEPTH, _MOST_VALUES = 32, 10000


def _of_json(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _of_json(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _of_json(inner, f"{key}.{i}")
    elif value is not None:
        yield key, str(int(value)) if isinstance(value, bool) else f"{value:.17g}" if isinstance(value, float) else str(value)


def _of_yaml(path: str, node: Any, seen: list[int], key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    seen.append(0)  # anchors may go in circles, and ten lines of them may stand for more than any memory holds
    if depth > _MOST_DEPTH or len(seen) > _MOST_VALUES:
        raise UsageError(f"{path}: values deeper than {_MOST_DEPTH}, or more than {_MOST_VALUES}")
    if node.id == "scalar":
        yield key, node.value
    for i, part in enumerate(node.value if node.id != "scalar" else ()):
        name, inner = (part[0].value, part[1]) if node.id == "mapping" else (i, part)
        if isinstance(name, (str, int)):
            yield from _of_yaml(path, inner, seen, f"{key}.{name}" if key else str(name), depth + 1)


def settings_of(path: str) -> dict[str, str]:
    try:
        return _read(path, Source(path, None).text)
    except RecursionError:
        raise UsageError(f"{path}: its values are nested too deep") from None


def _read(path: str, text: str) -> dict[str, str]:
    if path.endswith(".json"):
        try:
            value = json.loads(text)
        except ValueError as problem:
            raise UsageError(f"{path}: {problem}") from None
        found = dict(_of_json(value)) if isinstance(value, dict) else None
        if found and len(found) > _MOST_VALUES:
            raise UsageError(f"{path}: more than {_MOST_VALUES} values")
    else:
        try:
            import yaml
        except ImportError:
            raise UsageError(f"{path}: reading YAML needs Python's package yaml (python3-yaml, pip install pyyaml)") from None
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError as problem:
            mark = getattr(problem, "problem_mark", None)
            raise UsageError(f"{path}:{mark.line + 1 if mark else 1}: {getattr(problem, 'problem', problem)}") from None
        found = dict(_of_yaml(path, node, [])) if node is not None and node.id == "mapping" else None
    if found is None:
        raise UsageError(f"{path}: no keys with values")
    return found


def clean_key(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9_./-]", "_", key)[:95]
