"""The importer: every format's example, what names become, what stays of a log, what is refused."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import unittest
import zipfile
from pathlib import Path

import numpy as np

import maxlogit
from in_folder import InFolder
from maxlogit.importer import main
from maxlogit.importer.formats import FORMATS

PROGRAM = os.environ.get("MAXLOGIT_PROGRAM")
DOC = Path(__file__).parents[2] / "doc" / "import.md"


class Importing(InFolder):
    """``imported`` runs the importer on texts and files of the test's folder."""

    def setUp(self):
        super().setUp()
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)

    def write(self, name, data):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data.encode() if isinstance(data, str) else data)
        return name

    def run_importer(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([str(argument) for argument in arguments])
        self.out, self.err = out.getvalue(), err.getvalue()
        return status

    def imported(self, *files, **options):
        """The run that becomes of them; texts are the contents of log.jsonl or log.csv."""
        names = []
        for i, file in enumerate(files):
            is_text = isinstance(file, str) and "\n" in file
            names.append(self.write(f"log{i}{'.jsonl' if file[0] == '{' else '.csv'}", file) if is_text else file)
        more = [f"--{key.replace('_', '-')}" + ("" if value is True else f"={value}") for key, value in options.items()]
        status = self.run_importer(*names, "--output=x.h5", "--overwrite", *more)
        self.assertEqual(status, 0, self.err)
        return maxlogit.open("x.h5")

    def refused(self, pattern, *arguments, status=2):
        self.assertEqual(self.run_importer("--output=none.h5", *arguments), status, self.out)
        self.assertEqual(self.err.count("\n"), 1, self.err)
        self.assertRegex(self.err, pattern)
        self.assertFalse(list(Path().glob("none*")), "something was written")

    def has(self, run, name, wanted):
        """A series' rows: {step: value}, None for what is missing."""
        series = run[name]
        got = dict(zip(series.steps.tolist(), series.values))
        self.assertEqual(list(got), list(wanted), name)
        for step, value in wanted.items():
            np.testing.assert_allclose(got[step], np.array(value, dtype=float), rtol=1e-6, err_msg=f"{name} at {step}")


class Formats(Importing):
    def test_examples(self):
        for format in FORMATS:
            with self.subTest(format=format.name):
                shutil.rmtree(format.name, ignore_errors=True)
                path = Path(format.name) / format.file
                path.parent.mkdir()
                if callable(format.example):
                    format.example(path)
                else:
                    path.write_text(format.example)
                for form in ("guess", format.name):
                    run = self.imported(path, form=form)
                    for name, wanted in format.wanted.items():
                        got = dict(zip(run[name].steps.tolist(), run[name].values))
                        for step, value in wanted.items():
                            np.testing.assert_allclose(got[step], np.array(value, dtype=float), rtol=1e-6, err_msg=name)
                    self.assertNotRegex(self.err, "left out|came again")

    def test_the_manual_has_the_registry(self):
        rows = "".join(
            f"| {f.name} | {f.what} | {'' if callable(f.example) else '`' + line(f.example) + '`'} |\n" for f in FORMATS
        )
        table = "| name | what it is | its first line |\n|---|---|---|\n" + rows
        text = DOC.read_text()
        begin = text.index("| name | what it is")
        end = text.index("\n\n", begin) + 1
        if os.environ.get("DOCS_RENEW"):
            DOC.write_text(text[:begin] + table + text[end:])
        else:
            self.assertEqual(text[begin:end], table, "DOCS_RENEW=1 writes the table anew")

    def test_pipes_compression_and_encodings(self):
        text = "step,loss\r\n0,2.5\r\n1,2\r\n"
        for name, data in {
            "a.csv.gz": gzip.compress(text.encode()),
            "a.csv.xz": lzma.compress(text.encode()),
            "a.csv.bz2": bz2.compress(text.encode()),
            "bom.csv": b"\xef\xbb\xbf" + text.encode(),
            "utf16.csv": text.encode("utf-16"),
            "utf16-le.csv": text.encode("utf-16-le"),
            "mac.csv": text.replace("\r\n", "\r").encode(),
        }.items():
            with self.subTest(name=name):
                self.has(self.imported(self.write(name, data)), "loss", {0: 2.5, 1: 2})
        self.refused("compression is damaged", self.write("cut.csv.gz", gzip.compress(text.encode())[:-9]))
        if shutil.which("zstd"):
            subprocess.run(["zstd", "-q", "bom.csv", "-o", "a.csv.zst"], check=True)
            self.has(self.imported("a.csv.zst"), "loss", {0: 2.5, 1: 2})
        if PROGRAM:
            for format in FORMATS:
                if callable(format.example):
                    continue
                done = subprocess.run(
                    [PROGRAM, "import", "-", "--overwrite", "-o", "y.h5"], input=format.example.encode(), capture_output=True
                )
                self.assertEqual(done.returncode, 0, f"{format.name}: {done.stderr}")

    def test_what_is_no_log(self):
        checkpoint = io.BytesIO()
        with zipfile.ZipFile(checkpoint, "w") as file:
            file.writestr("archive/data.pkl", b"")
        for pattern, data in {
            "LFS pointer.*git lfs pull": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "HTML page: download": b"<!DOCTYPE html>\n<html>",
            "PyTorch checkpoint": checkpoint.getvalue(),
            "pickle": b"\x80\x04\x95",
            "GGUF": b"GGUF\3\0\0\0",
            "safetensors": struct.pack("<Q", 9) + b'{"w":{"dtype":"F32"}}',
            "Parquet": b"PAR1\0\0",
            "SQLite": b"SQLite format 3\0",
            "HDF5": b"\x89HDF\r\n\x1a\n",
            "zip|numpy.savez": b"PK\3\4" + bytes(30),
            "no line": b"",
            "a NUL byte": b"step,loss\n1,2\n" + b"x" * 64 + b"\0",
        }.items():
            with self.subTest(pattern=pattern):
                self.refused(pattern, self.write("file.bin", data))
        os.mkdir("folder.csv")
        self.refused("folder.csv: a folder", "folder.csv")
        self.refused("cannot read nowhere.csv: No such file", "nowhere.csv")
        os.mkfifo("pipe.csv")
        self.refused("pipe.csv: a named pipe: .*import - <", "pipe.csv")
        self.refused("is not one of guess", self.write("a.csv", "step,x\n0,1\n"), "--form=nothing")
        self.refused("ends with .h5", "a.csv", "--output=x.txt")

    def test_tensorboard_writes_what_is_read(self):
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
            from tensorboard.util.tensor_util import make_tensor_proto
        except ImportError:
            self.skipTest("no tensorboard here")
        for folder in ("tb/train", "tb/eval"):
            writer = EventFileWriter(folder)
            for step in (0, 300):
                values = [Summary.Value(tag="loss", simple_value=2.5 + step)]
                for tag, array in {"layer_max_logit": np.float32([[1, 2], [3, step]]), "half": np.float16(0.5), "n": np.int64(7)}.items():
                    values.append(Summary.Value(tag=tag, tensor=make_tensor_proto(array)))
                writer.add_event(Event(step=step, summary=Summary(value=values)))
            writer.close()
        run = self.imported("tb")
        self.assertRegex(self.err, "tb/eval \\(eval\\), tb/train \\(train\\) have equal columns")
        self.has(run, "loss", {0: 2.5, 300: 302.5})
        self.has(run, "val_loss", {0: 2.5, 300: 302.5})
        self.has(run, "train/attn/max_logit", {0: [[1, 2], [3, 0]], 300: [[1, 2], [3, 300]]})
        self.has(run, "eval/half", {0: 0.5, 300: 0.5})
        self.has(run, "eval/n", {0: 7, 300: 7})
        file = next(Path("tb/train").iterdir())
        self.write("cut.tfevents", file.read_bytes()[:-3])
        self.imported("cut.tfevents")
        self.assertRegex(self.err, "cut short")
        self.refused("no event file", self.write("x.tfevents", b"\x18" + bytes(7) + b"aaaa" + b"e" * 24 + b"bbbb"))

    def test_arrays(self):
        np.savez("a.npz", step=[3, 9], i=np.int8([-1, 3]), order=np.asfortranarray([[1.0, 2], [3, 4]]), one=np.array(1.0))
        run = self.imported("a.npz")
        self.has(run, "i", {3: -1, 9: 3})
        self.has(run, "order", {3: [1, 2], 9: [3, 4]})
        np.save("loss.npy", [7.0, 8])
        self.has(self.imported("loss.npy"), "loss", {0: 7, 1: 8})
        np.savez("bad.npz", step=[1, 2.5], x=[1, 2])
        self.refused("bad.npz: step: 2.5 is no whole number", "bad.npz")
        np.savez("bad.npz", step=[1, 2], x=[1, 2, 3])
        self.refused("x has 3 rows, step has 2", "bad.npz")
        self.refused("no array \\[steps\\] called its", "bad.npz", "--step=its")
        np.savez("bad.npz", step=[1, 2], x=np.zeros((2, 1, 1, 1)))
        self.refused("x: more than 3 axes", "bad.npz")
        np.savez("bad.npz", x=np.complex64([1]))
        self.refused("x: numbers of type complex64", "bad.npz")
        np.savez("bad.npz", x=np.array([{}], dtype=object))
        self.refused("x: cannot be read: Object arrays", "bad.npz")
        data = Path("a.npz").read_bytes()
        self.refused("no file of numpy.savez", self.write("bad.npz", data[:200]))
        huge = io.BytesIO()
        np.lib.format.write_array_header_1_0(huge, {"descr": "<f8", "fortran_order": False, "shape": (1 << 60, 4)})
        self.refused("cannot be read", self.write("bad.npy", huge.getvalue() + bytes(16)))
        parts = data.split(b"PK\x01\x02")  # each entry of the central directory states nearly 4 GiB
        parts = [parts[0]] + [part[:20] + struct.pack("<I", (1 << 32) - 4096) + part[24:] for part in parts[1:] * 40]
        self.refused("larger than memory|no file of numpy", self.write("bad.npz", b"PK\x01\x02".join(parts)))

    def test_mlflow_runs(self):
        mlflow = next(format for format in FORMATS if format.name == "mlflow")
        for run in ("a1", "b2"):
            mlflow.example(Path("mlruns/0") / run)
        self.refused(r"mlruns: 2 runs \(a1, b2\): -o DIR/", "mlruns")
        self.assertEqual(self.run_importer("mlruns", "--output=out/"), 0, self.err)
        self.has(maxlogit.open("out/b2.h5"), "loss", {0: 3.5, 10: 2.5})
        self.assertEqual(self.imported("mlruns/0/a1").config["optimizer"], "muon")


class Silent(Importing):
    """What once was wrong without a word."""

    def test_a_carriage_return_ends_a_line(self):
        bar = "  {}%|# | {}/50 [00:10<01:30,  2.0s/it]"
        text = f"{bar.format(10, 5)}\r{{'loss': 2.5, 'epoch': 0.1}}\r{bar.format(20, 10)}\r{{'loss': 2.0, 'epoch': 0.2}}\n"
        self.has(self.imported(self.write("a.log", text)), "loss", {5: 2.5, 10: 2.0})
        drawn_again = "".join(
            f"{bar.format(2 * (n - 1), n - 1)}\r    \r{{'loss': {n}, 'epoch': {n / 50}}}\n\r{bar.format(2 * n, n)}" for n in (5, 10, 15)
        )
        self.has(self.imported(self.write("a.log", drawn_again)), "loss", {5: 5, 10: 10, 15: 15})
        self.has(self.imported(self.write("mac.csv", "step,loss\r0,3\r10,2\r")), "loss", {0: 3, 10: 2})

    def test_sets_are_part_of_the_name(self):
        megatron = (
            " validation loss at iteration 20 | lm loss value: 1.5E+00 |\n"
            " validation loss at iteration 20 on validation set | lm loss value: 1.6E+00 |\n"
            " validation loss at iteration 20 on test set | lm loss value: 1.7E+00 |\n"
        )
        run = self.imported(self.write("m.log", megatron))
        self.has(run, "val_loss", {20: 1.5})
        self.has(run, "validation_set/lm_loss_value", {20: 1.6})
        self.has(run, "test_loss", {20: 1.7})
        run = self.imported("step,split,loss\n0,train,3\n0,val,4\n1,train,2\n1,val,3\n")
        self.has(run, "loss", {0: 3, 1: 2})
        self.has(run, "val_loss", {0: 4, 1: 3})
        run = self.imported('{"step": 0, "rank": 0, "loss": 1}\n{"step": 0, "rank": 1, "loss": 2}\n')
        self.has(run, "rank1/loss", {0: 2})
        run = self.imported('{"step": 0, "rank": 0, "loss": 1}\n{"step": 0, "rank": 1, "loss": 1}\n')
        self.has(run, "loss", {0: 1})

    def test_two_values_of_one_step_are_reported(self):
        self.has(self.imported("step,loss\n0,1\n1,2\n1,3\n"), "loss", {0: 1, 1: 3})
        self.assertRegex(self.err, "1 value came again for the same step \\(loss\\): the last counts")
        self.imported('{"step": 0, "loss": 1, "loss": 2}\n')
        self.assertRegex(self.err, "twice in one object \\(loss\\)")

    def test_a_run_that_goes_back(self):
        text = "step,loss,val_loss\n0,9,\n10,8,7\n20,6,5\n10,4,\n15,3,\n"
        run = self.imported(text)
        self.has(run, "loss", {0: 9, 10: 4, 15: 3})
        self.assertNotIn("val_loss", run)
        self.assertRegex(self.err, "goes back, to step 10: 2 rows that it left behind are left out")
        run = self.imported(text, keep_later=True)
        self.has(run, "loss", {0: 9, 10: 4, 15: 3, 20: 6})
        self.has(run, "val_loss", {10: 7, 20: 5})
        run = self.imported("run_id,key,value,step\na,loss,3,0\na,loss,2,10\na,lr,1,0\na,lr,2,10\n")
        self.has(run, "loss", {0: 3, 10: 2})
        self.assertEqual(self.err, "")

    def test_files_with_equal_columns(self):
        self.write("train.csv", "step,loss,lr\n0,3,1\n10,2,1\n")
        self.write("val.csv", "step,loss\n0,4\n10,3\n")
        run = self.imported("train.csv", "val.csv")
        self.has(run, "loss", {0: 3, 10: 2})
        self.has(run, "val_loss", {0: 4, 10: 3})
        self.has(run, "lr", {0: 1, 10: 1})
        self.assertRegex(self.err, "train.csv \\(train\\), val.csv \\(val\\) have equal columns")
        run = self.imported("train.csv", "val.csv", tag="val.csv=test")
        self.has(run, "test_loss", {0: 4, 10: 3})
        self.write("more/train.csv", "step,loss,lr\n20,1,1\n30,0,1\n")
        self.has(self.imported("train.csv", "more/train.csv"), "loss", {0: 3, 10: 2, 20: 1, 30: 0})
        self.assertRegex(self.err, "more/train.csv continues train.csv, from step 20 on")
        self.refused("--tag: no FILE is x", "train.csv", "--tag=x=y")

    def test_names_of_runs(self):
        text = '"Step","layers4-h8 - train/loss","layers4-h8 - train/loss__MIN","layers4-h8 - train/loss__MAX","b - train/loss"\n'
        text += '"0","3","2","4","1"\n"10","2","2","2","5"\n'
        self.refused(r"2 runs \(layers4-h8, b\): -o DIR/ writes a file for each", self.write("w.csv", text))
        self.assertEqual(self.run_importer("w.csv", "--output=runs"), 0, self.err)
        run = maxlogit.open("runs/layers4-h8.h5")
        self.has(run, "loss", {0: 3, 10: 2})
        self.has(run, "train/loss_MAX", {0: 4, 10: 2})
        self.has(maxlogit.open("runs/b.h5"), "loss", {0: 1, 10: 5})
        self.assertEqual(self.run_importer(self.write("r.csv", "step,run,loss\n0,a1,1\n0,a2,2\n"), "--output=both/"), 0, self.err)
        self.has(maxlogit.open("both/a2.h5"), "loss", {0: 2})

    def test_a_list_of_objects_is_rows(self):
        rows = [{"step": 0, "loss": 3}, {"step": 10, "loss": 2}]
        for value in (rows, {"log_history": rows}, {"history": rows}, {"step": [0, 10], "loss": [3, 2]}):
            for indent in (None, 1):
                self.has(self.imported(self.write("a.json", json.dumps(value, indent=indent))), "loss", {0: 3, 10: 2})
                self.has(self.imported(self.write("a", json.dumps(value, indent=indent) + "\n")), "loss", {0: 3, 10: 2})


def line(example):
    """The first line of an example that has numbers, for a cell of the manual."""
    first = next(x for x in re.split("[\r\n]", re.sub(r"\x1b\[[0-9;]*m", "", example)) if re.search(r"\d", x)).strip()
    return (first if len(first) < 90 else first[:90].rsplit(" ", 1)[0] + " ..").replace("|", "\\|")


if __name__ == "__main__":
    unittest.main()
