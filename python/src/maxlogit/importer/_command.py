"""The command: options, several files, several runs."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import signal
import sys
from collections.abc import Sequence

from maxlogit._library import MaxlogitError, UsageError
from maxlogit.importer import _table as table
from maxlogit.importer._log import SETS, Column, Key, Log, _some
from maxlogit.importer._names import rules_of
from maxlogit.importer._settings import clean_key, settings_of
from maxlogit.importer._source import memory, shown
from maxlogit.importer.formats import read


class _Parser(argparse.ArgumentParser):
    def error(self, message: str):  # type: ignore[no-untyped-def]
        raise UsageError(f"import: {message}")


def _options(argv: Sequence[str]) -> argparse.Namespace:
    """Those of `maxlogit import`, which checks and explains them."""
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("files", nargs="+")
    for name in ("--output", "--step", "--data"):
        parser.add_argument(name)
    parser.add_argument("--form", default="guess")
    parser.add_argument("--decimal", choices=(".", ","))
    for name in ("--map", "--tag", "--set", "--config", "--unit"):
        parser.add_argument(name, action="append", default=[])
    for name in ("--dry-run", "--keep-later", "--overwrite"):
        parser.add_argument(name, action="store_true")
    return parser.parse_args(argv)


def _pairs(option: str, texts: list[str], wanted: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals or len(key) > 95:
            raise UsageError(f"{option} '{text:.100}': {wanted} is wanted")
        pairs[key] = value
    return pairs


def _settings(options: argparse.Namespace, logs: list[Log]) -> dict[str, str]:
    given = _pairs("--set", options.set, "KEY=VALUE")
    found = {key: value for log in logs for key, value in log.settings.items()}
    for path in options.config:
        found.update(settings_of(path))
    return {clean_key(key): shown(value) for key, value in {**found, **given}.items()}


def _stem(path: str) -> str:
    name = re.sub(r"\.(gz|xz|bz2|zst)$", "", os.path.basename(os.path.normpath(path)))
    return name if "tfevents" in name else os.path.splitext(name)[0] or name


def _tags(logs: list[Log]) -> None:
    """Names that tell files apart: their own, or with as many folders as it takes."""
    for depth in range(1, 20):
        for log in logs:
            parts = os.path.abspath(log.path).split(os.sep)
            log.tag = "/".join([*parts[-depth:-1], _stem(log.path)])
        if len({log.tag for log in logs}) == len(logs):
            return


def _joined(logs: list[Log], messages: list[str]) -> dict[Key, Column]:
    """Columns of all files. What several files have belongs together where their steps follow each other; otherwise the
    names of the files tell it apart."""
    of: dict[Key, list[tuple[Log, Column]]] = {}
    for log in logs:
        for key, column in log.columns.items():
            of.setdefault(key, []).append((log, column))
    shared = [
        sorted(pairs, key=lambda pair: pair[1].steps[0]) for pairs in of.values() if all(len(c.steps) for _, c in pairs)
    ]
    shared = [pairs for pairs in shared if len(pairs) > 1]
    sets = {
        frozenset((SETS - {"train", "training"}).intersection(re.split(r"[_.\-\d]+", _stem(log.path).lower())))
        for log in logs
    }
    same_set = len(sets) == 1  # train.csv and val.csv are of two
    follow = same_set and all(a.steps[-1] < b.steps[0] for pairs in shared for (_, a), (_, b) in zip(pairs, pairs[1:]))
    if shared and follow:
        for a, b in {(a[0].path, b[0].path): (a, b) for pairs in shared for a, b in zip(pairs, pairs[1:])}.values():
            messages.append(f"{b[0].path} continues {a[0].path}, from step {b[1].steps[0]:.0f} on")
    elif shared:
        _tags(logs)
        both = {log.path: log.tag for pairs in shared for log, _ in pairs}
        messages.append(
            f"{_some([f'{path} ({tag})' for path, tag in both.items()])} have equal columns: their names tell them apart; "
            "--tag FILE=NAME gives others, and `cat FILES | maxlogit import -` makes one log of them"
        )
    out: dict[Key, Column] = {}
    told_apart = {(run, prefix, re.sub("[0-9]+", "#", name)) for (run, prefix, name), pairs in of.items() if len(pairs) > 1}
    for (run, prefix, name), pairs in of.items():
        for log, column in pairs:
            tag = "" if follow or (run, prefix, re.sub("[0-9]+", "#", name)) not in told_apart else log.tag
            column.prefix = "/".join(part for part in (tag, prefix) if part)
            key = (run, column.prefix, name)
            if key in out:
                out[key].join(column)
            else:
                out[key] = column
    return out


def _output(options: argparse.Namespace, runs: list[str]) -> list[str]:
    """A path for each run."""
    first, given = options.files[0], options.output
    several = len(runs) > 1
    name = "stdin" if first == "-" else _stem(first)
    folder = given is not None and (os.path.isdir(given) or given.endswith("/") or "." not in os.path.basename(given))
    if given is not None and not folder and not (given.endswith(".h5") and len(os.path.basename(given)) > 3):
        raise UsageError(f"import -o {given}: a run file ends with .h5, a folder with /")
    if several and not folder:
        raise UsageError(f"{first}: {len(runs)} runs ({_some(runs)}): -o DIR/ writes a file for each")
    names = [re.sub(r"^\.|[^\w.+=-]", "_", run)[:100] or name if several else name for run in runs]
    if len(set(names)) < len(names):
        names = [f"{name}-{i + 1}" for i, name in enumerate(names)]
    return [os.path.join(given, name + ".h5") if folder else given or name + ".h5" for name in names]


def _import(options: argparse.Namespace, messages: list[str]) -> None:
    rules = rules_of(options.map)
    units = _pairs("--unit", options.unit, "SERIES=UNIT")
    tags = _pairs("--tag", options.tag, "FILE=NAME")
    _output(options, [""])
    logs = [log for path in options.files for log in read(path, options)]
    settings = _settings(options, logs)
    for log in logs:
        log.finish()
        tag = tags.pop(log.path, tags.pop(os.path.basename(log.path), None))
        if tag:
            log.columns = {(run, f"{tag}/{prefix}".rstrip("/"), name): c for (run, prefix, name), c in log.columns.items()}
    if tags:
        raise UsageError(f"--tag: no FILE is {next(iter(tags))}")
    columns = _joined(logs, messages)
    for log in logs:
        messages += log.messages
    texts = [c.full for c in columns.values() if c.text and not len(c.steps)]
    if texts:
        messages.append(f"columns of texts are left out: {_some(texts)}")
    runs = list(dict.fromkeys(run for (run, _, _), column in columns.items() if len(column.steps)))
    steps = options.step or next(log.step_found for log in reversed(logs))
    files = ", ".join(os.path.basename(os.path.normpath(path))[:200] for path in options.files)
    of_run: dict[str, list[Column]] = {}
    for (run, _, _), column in columns.items():
        of_run.setdefault(run, []).append(column)
    series = [table.series_of(of_run[run], rules, units) for run in runs]
    messages += table.check_used(rules, units, list(columns.values()), series)
    written = list(zip(_output(options, runs), series))
    if not options.dry_run:
        table.write(written, files, settings, options.data, options.overwrite)
    for path, of in written:
        print(table.described(of, steps, settings) + ("" if options.dry_run else f"\n{shown(path)}"))


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt(number)


def _limit_memory(now: tuple[int, int]) -> None:
    """To three quarters of what there is: a log that expands to more ends with a message, not with other programs."""
    most = memory() * 3 // 4
    if all(limit == resource.RLIM_INFINITY or limit > most for limit in now):
        resource.setrlimit(resource.RLIMIT_DATA, (most, now[1]))


def main(argv: Sequence[str]) -> int:
    """Returns an exit status: 2 for input that cannot be read as asked, 1 where writing fails."""
    messages: list[str] = []
    status = 0
    limit = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError):  # of a thread
        signal.signal(signal.SIGTERM, _stop)
    try:
        _limit_memory(limit)
        _import(_options(argv), messages)
    except UsageError as problem:
        status, messages = 2, [str(problem)]
    except (MaxlogitError, OSError, MemoryError) as problem:
        status, messages = 1, [str(problem) or "no memory"]
    except KeyboardInterrupt as stop:
        status, messages = 128 + (stop.args or (signal.SIGINT,))[0], ["import was interrupted: nothing is written"]
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, limit)
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for message in messages:
        print("maxlogit:", shown(message), file=sys.stderr)
    return status
