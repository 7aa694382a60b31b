"""Mutated logs: each is imported or refused with one message, in little time and memory.

python3 fuzz_import.py [--seconds N] [--seed N] [--keep FOLDER]. The seed of a case that failed makes it again.
"""

import argparse
import bz2
import contextlib
import gzip
import io
import lzma
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

from maxlogit.importer import main
from maxlogit.importer.formats import FORMATS
from maxlogit.importer.formats.tensorboard import record_of

MOST_SECONDS, MOST_BYTES = 20, 3 << 30
WORDS = [
    *(
        "nan",
        "-inf",
        "1e999",
        "-1",
        "0",
        "00",
        "1.5",
        "9999999999999999",
        "18446744073709551616",
        "1_000",
        "1,234",
        "0,5",
        "7qx",
    ),
    *(
        "900K",
        "12.5s",
        "85%",
        "3.2GiB",
        "\0",
        "\xff",
        "\u2028",
        "é",
        '"',
        "'",
        '"""',
        "{'",
        '{"',
        "[[[[",
        "]",
        "}",
        "(",
        ")",
        "\\",
    ),
    *(
        "\\u0000",
        "\\ud800",
        "\r",
        "\b",
        "\x1b[31m",
        "\ufeff",
        "|",
        ",",
        ";",
        ":",
        "=",
        "-",
        "#",
        "step",
        "loss",
        "epoch",
        "Epoch [1/2]",
    ),
    *(
        "iteration",
        "global_step",
        "layers.3.h.7",
        "l1_loss",
        "max_logit:l0h1",
        "rank1",
        "[rank0]:",
        "{'loss': 1.5}",
        '{"step":3}',
    ),
    *(
        "5/50 [00:10<01:30, 2.0s/it]",
        "NaN",
        "null",
        "None",
        "True",
        "tensor(2.)",
        "np.float64(1)",
        "step\n",
        "a/b/../c",
        "<html>",
    ),
    *("version https://git-lfs", "%|", "it/s", "val", "test", "PK\x03\x04", " ", "\t", "\n"),
]
OPTIONS = [
    *(
        "--keep-later",
        "--step=loss",
        "--step=x",
        "--decimal=,",
        "--map=-=loss",
        "--map=x=loss",
        "--map=a[l]=layers.{l}.max_logit",
    ),
    *(
        "--unit=loss=bit",
        "--tag=log=a",
        "--set=a=b",
        "--form=lines",
        "--form=csv",
        "--form=jsonl",
        "--form=printed",
        "--form=npz",
    ),
    *("--form=long", "--form=tensorboard"),
]


class TooLong(BaseException):
    pass


def too_long(*_):
    raise TooLong


def mutated(data, r):
    """The bytes, changed at one place or a few."""
    data = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 3, 8))):
        at = r.randrange(len(data) + 1)
        size = min(len(data) - at, int(r.expovariate(0.1)))
        kind = r.randrange(9)
        if kind == 0 and data:
            data[at % len(data)] = r.randrange(256)
        elif kind == 1:
            del data[at : at + size]
        elif kind == 2:
            data[at:at] = data[at : at + size] * r.choice((1, 2, 50, 3000))
        elif kind == 3:
            data[at:at] = r.choice(WORDS).encode("latin-1", "replace") if r.random() < 0.2 else r.choice(WORDS).encode()
        elif kind == 4:
            data[at : at + size] = r.choice(WORDS).encode()
        elif kind == 5:
            del data[at:]
        elif kind == 6:
            lines = bytes(data).split(b"\n")
            r.shuffle(lines)
            data = bytearray(b"\n".join(lines))
        elif kind == 7:
            word = r.choice((b"0", b"1", b"e", b",", b":", b"loss", b"step"))
            data = bytearray(bytes(data).replace(word, r.choice(WORDS).encode(), r.choice((1, -1))))
        else:
            data[at : at + size] = bytes(r.randrange(256) for _ in range(size))
        del data[1 << 20 :]
    return bytes(data)


def arrays(r):
    out = io.BytesIO()
    shape = r.choice(((3,), (3, 2), (3, 2, 2), (0,), (), (3, 0)))
    value = r.choice((np.nan, np.inf, -1, 0.5, 1e300))
    steps = r.choice(([0, 1, 2], [2, 1, 0], [0, value, 2], [1, 1, 1]))
    kind = r.choice(("f4", "f8", "i1", "u8", "?", "f2", "c8", "U3", "O"))
    with np.errstate(all="ignore"):
        x = np.full(shape, value if kind in ("f4", "f8", "f2") else 1).astype(kind)
    r.choice((np.savez, np.savez_compressed))(out, step=np.array(steps), x=x)
    return out.getvalue()


def case(folder, r):
    """Writes a mutated log. Returns its path."""
    format = r.choice(FORMATS)
    names = ("log", "a.csv", "a.json", "a.jsonl", "a.log", "a.npz")
    path = folder / (format.file if callable(format.example) or r.random() < 0.8 else r.choice(names))
    if callable(format.example):
        format.example(path)
        files = [file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
        file = r.choice(files)
        data = arrays(r) if format.name == "npz" and r.random() < 0.7 else file.read_bytes()
    else:
        file, data = path, format.example.encode()
        if r.random() < 0.3:
            data = r.choice([f for f in FORMATS if isinstance(f.example, str)]).example.encode() + data
    if format.name == "tensorboard" and r.random() < 0.8:  # what right checksums let pass
        size = int.from_bytes(data[:8], "little")
        data = record_of(mutated(data[12 : 12 + size], r)) + data[size + 16 :]
    elif r.random() < 0.95:
        data = mutated(data, r)
    packed = r.random()
    if packed < 0.1:
        pack = r.choice((gzip.compress, lzma.compress, bz2.compress))
        data = pack(data)
        data = mutated(data, r) if r.random() < 0.5 else data
    elif packed < 0.12 and shutil.which("zstd"):
        data = subprocess.run(["zstd", "-qc"], input=data, capture_output=True).stdout
        data = mutated(data, r) if r.random() < 0.5 else data
    elif packed < 0.16:
        data = data.decode(errors="replace").encode(r.choice(("utf-16", "utf-16-be")))
    file.write_bytes(data)
    return path


def run(seed, keep=None):
    """One case. Returns what was wrong with it, or an empty text."""
    r = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        path = case(Path(name), r)
        options = r.sample(OPTIONS, r.choice((0, 0, 0, 1, 2)))
        options += ["--dry-run"] if r.random() < 0.7 else [f"--output={name}/{r.choice(('out.h5', 'out/'))}"]
        out, err = io.StringIO(), io.StringIO()
        wrong, began = "", time.monotonic()
        signal.signal(signal.SIGALRM, too_long)
        signal.alarm(MOST_SECONDS)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = main([*options, "--", str(path)])
            lines = err.getvalue().splitlines()
            if status not in (0, 2):
                wrong = f"status {status}: {err.getvalue()}"
            elif status == 2 and (len(lines) != 1 or len(lines[0]) < 20):
                wrong = f"no single message: {err.getvalue()}"
            elif status == 0 and "steps  " not in out.getvalue():
                wrong = "nothing shown"
            elif status == 2 and list(Path(name).glob("out*")):
                wrong = "something was written"
        except TooLong:
            wrong = f"more than {MOST_SECONDS} s"
        except BaseException:
            wrong = traceback.format_exc()
        finally:
            signal.alarm(0)
        if wrong:
            wrong = f"seed {seed}: {' '.join(options)} {path.name}, {time.monotonic() - began:.1f} s: {wrong}"
            if keep:
                Path(keep).mkdir(exist_ok=True)
                shutil.rmtree(Path(keep) / str(seed), ignore_errors=True)
                shutil.copytree(name, Path(keep) / str(seed))
    return wrong


def fuzz(seconds, seed, keep=None):
    """Returns how many cases there were, and what was wrong."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    wrong, count, end = [], 0, time.monotonic() + seconds
    while time.monotonic() < end and len(wrong) < 200:
        found = run(seed + count, keep)
        count += 1
        if found:
            wrong.append(found)
            print(found, flush=True)
    return count, wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep")
    options = parser.parse_args()
    count, wrong = fuzz(options.seconds, options.seed, options.keep)
    print(f"{count} logs, {len(wrong)} wrong")
    sys.exit(bool(wrong))
