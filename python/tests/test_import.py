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
import time
import unittest
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np
from in_folder import InFolder

import maxlogit
from maxlogit.importer import _source as source
from maxlogit.importer import _table as table
from maxlogit.importer import main
from maxlogit.importer._folder import Folder
from maxlogit.importer.formats import FORMATS, tensorboard
from maxlogit.importer.formats.tensorboard import record_of

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

    def example(self, format):
        shutil.rmtree(format.name, ignore_errors=True)
        path = Path(format.name) / format.file
        path.parent.mkdir()
        if callable(format.example):
            format.example(path)
        else:
            path.write_text(format.example)
        return path

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
                path = self.example(format)
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
        table = "| name | contents | first line |\n|---|---|---|\n" + rows
        text = DOC.read_text()
        begin = text.index("| name | contents")
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

    def test_a_restart_that_tensorboard_states(self):
        def event(step, rest):
            return record_of(b"\x09" + bytes(8) + b"\x10" + bytes([step]) + rest)

        def scalar(step, tag, value):
            inner = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
            summary = b"\x0a" + bytes([len(inner)]) + inner
            return event(step, b"\x2a" + bytes([len(summary)]) + summary)

        data = b"".join(scalar(step, b"loss", step) for step in (0, 10, 20)) + scalar(20, b"val_loss", 7)
        self.write("tb/1.tfevents", data)
        self.write("tb/2.tfevents", event(15, b"\x3a\x02\x08\x01") + scalar(15, b"loss", 5))  # purge_step=15
        run = self.imported("tb")
        self.has(run, "loss", {0: 0, 10: 10, 15: 5})
        self.assertNotIn("val_loss", run)

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
                for tag, array in {
                    "layer_max_logit": np.float32([[1, 2], [3, step]]),
                    "half": np.float16(0.5),
                    "n": np.int64(7),
                }.items():
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
        os.symlink("train", "tb/again")
        self.imported("tb")
        self.assertRegex(self.err, "tb/again is a link to a folder: left out")
        self.write("cut.tfevents", file.read_bytes()[:-3])
        self.imported("cut.tfevents")
        self.assertRegex(self.err, "cut short")
        writer = EventFileWriter("before")
        for step in (-1, 0, 1):
            writer.add_event(Event(step=step, summary=Summary(value=[Summary.Value(tag="loss", simple_value=step)])))
        writer.close()
        self.has(self.imported("before"), "loss", {0: 0, 1: 1})
        self.assertRegex(self.err, r"events with a step below 0, or from 10\^15 on: 1 left out")
        self.refused("no event file", self.write("x.tfevents", b"\x18" + bytes(7) + b"aaaa" + b"e" * 24 + b"bbbb"))

    def test_arrays(self):
        np.savez("a.npz", step=[3, 9], i=np.int8([-1, 3]), order=np.asfortranarray([[1.0, 2], [3, 4]]), one=np.array(1.0))
        run = self.imported("a.npz")
        self.has(run, "i", {3: -1, 9: 3})
        self.has(run, "order", {3: [1, 2], 9: [3, 4]})
        np.save("loss.npy", [7.0, 8])
        self.has(self.imported("loss.npy"), "loss", {0: 7, 1: 8})
        np.savez("bad.npz", step=[1, 2.5], x=[1, 2])
        self.refused("bad.npz: step: 2.5 is not a whole number", "bad.npz")
        np.savez("bad.npz", step=[1, 2], x=[1, 2, 3])
        self.refused("x has 3 rows, step has 2", "bad.npz")
        self.refused("no array \\[steps\\] called its", "bad.npz", "--step=its")
        np.savez("bad.npz", step=[1, 2], x=np.zeros((2, 1, 1, 1)))
        self.refused("x: more than 3 axes", "bad.npz")
        np.savez("bad.npz", x=np.complex64([1]))
        self.refused("x: numbers of type complex64", "bad.npz")
        np.savez("bad.npz", x=np.array([{}], dtype=object))
        self.refused("x: numbers of type object", "bad.npz")
        data = Path("a.npz").read_bytes()
        self.refused("no file of numpy.savez", self.write("bad.npz", data[:200]))
        huge = io.BytesIO()
        np.lib.format.write_array_header_1_0(huge, {"descr": "<f8", "fortran_order": False, "shape": (1 << 60, 4)})
        self.refused("cannot be read", self.write("bad.npy", huge.getvalue() + bytes(16)))
        parts = data.split(b"PK\x01\x02")  # each entry of the central directory states nearly 4 GiB
        parts = [parts[0]] + [part[:20] + struct.pack("<I", (1 << 32) - 4096) + part[24:] for part in parts[1:] * 40]
        self.refused("larger than 1 GiB|no file of numpy", self.write("bad.npz", b"PK\x01\x02".join(parts)))

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
            f"{bar.format(2 * (n - 1), n - 1)}\r    \r{{'loss': {n}, 'epoch': {n / 50}}}\n\r{bar.format(2 * n, n)}"
            for n in (5, 10, 15)
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

    def test_the_first_row_behind_a_restart_stays(self):
        for kinds in (("val_loss", "loss"), ("loss", "val_loss")):
            rows = [(step, kind, 1) for step in (0, 50, 100, 150) for kind in kinds]
            rows += [(step, kind, 2) for step in (100, 150, 200) for kind in kinds]
            run = self.imported("".join(f'{{"step": {step}, "{kind}": {value}}}\n' for step, kind, value in rows))
            for kind in kinds:
                self.has(run, kind, {0: 1, 50: 1, 100: 2, 150: 2, 200: 2})

    def test_rows_that_are_told_apart_by_a_column(self):
        for text, what in {
            '{"epoch": 1, "iter": 50, "loss": 3}\n{"epoch": 2, "iter": 25, "loss": 2}\n': "epoch 2 begins at step 25, after",
            "step,layer,head,max_logit\n0,0,0,5\n0,0,1,6\n": "head 1 begins at step 0, after step 0 of head 0",
            "step,seed,loss\n0,1,5\n1,1,4\n0,2,5\n1,2,4\n": "seed 2 begins at step 0",
        }.items():
            self.refused(what, self.write("log.jsonl" if text[0] == "{" else "log.csv", text))
        for name in ("epoch", "seed"):  # which grows at a restart
            run = self.imported(f"step,{name},loss\n10,0,5\n20,1,4\n30,1,3\n20,2,2\n30,2,1\n")
            self.has(run, "loss", {10: 5, 20: 2, 30: 1})
        text = "".join(f'{{"iter": 1, "global_step": {n}, "epoch": {n}, "loss": {4 - n}}}\n' for n in (1, 2))
        self.has(self.imported(text), "loss", {1: 3, 2: 2})
        self.has(self.imported("iter,global_step,epoch,loss\n1,1,0,3\n1,2,1,2\n"), "loss", {1: 3, 2: 2})
        text = '{"step": 0, "global_step": 0, "loss": 3}\n{"step": 1, "val_loss": 1}\n'
        self.has(self.imported(text), "val_loss", {1: 1})
        run = self.imported('{"type": "train", "step": 1, "loss": 3}\n{"type": "eval", "step": 2, "loss": 9}\n')
        self.has(run, "loss", {1: 3})
        self.has(run, "val_loss", {2: 9})
        run = self.imported("step,kind,loss\n1,train,3\n2,Eval,9\n")
        self.has(run, "loss", {1: 3})
        self.has(run, "val_loss", {2: 9})
        self.has(self.imported("step,kind,loss\n1,scalar,3\n"), "loss", {1: 3})

    def test_a_nan_of_an_object_is_one(self):
        rows = [{"step": n, "loss": float("nan") if n > 2 else 1.0, "x": float("nan") if n == 1 else 2.0} for n in range(9)]
        self.has(
            self.imported("".join(json.dumps(row) + "\n" for row in rows)),
            "loss",
            {n: 1 if n < 3 else np.nan for n in range(9)},
        )

    def test_a_set_does_not_continue_another(self):
        self.write("train.csv", "step,loss\n0,3\n10,2\n")
        for name in ("val.csv", "val_metrics.csv"):
            run = self.imported("train.csv", self.write(name, "step,loss\n20,9\n"))
            self.has(run, "loss", {0: 3, 10: 2})
        self.has(self.imported("train.csv", "val.csv"), "val_loss", {20: 9})
        self.has(self.imported("train.csv", self.write("train2.csv", "step,loss\n20,1\n")), "loss", {0: 3, 10: 2, 20: 1})
        run = self.imported('{"_step": 1, "train/global_step": 5, "loss": 2}\n{"_step": 2, "val/loss": 3}\n')
        self.has(run, "val_loss", {2: 3})

    def test_max_logits_of_groups(self):
        for name in ("router/max_logit", "lm_head/max_logit"):
            self.assertNotIn("attn/max_logit", list(self.imported(f"step,loss,{name}\n0,1,2\n")), name)
        for name in ("metrics/output/max_logit.l0", "loss/max_attn_logit.l0"):
            self.assertIn("attn/max_logit", list(self.imported(f"step,lr,{name}\n0,1,2\n")), name)

    def test_the_last_state_of_a_trainer_is_read(self):
        for name, last in {"checkpoint-10": 10, ".": 15}.items():
            rows = [{"step": step, "loss": 1} for step in range(5, last + 1, 5)]
            self.write(f"out/{name}/trainer_state.json", json.dumps({"log_history": rows, "global_step": last}))
        self.has(self.imported("out"), "loss", {5: 1, 10: 1, 15: 1})

    def test_lists_that_are_left_out_are_named(self):
        run = self.imported('{"step": [0, 1], "loss": [4, 3], "val_loss": [5]}\n')
        self.has(run, "loss", {0: 4, 1: 3})
        self.assertRegex(self.err, "val_loss: no list of 2 values, as step is: left out")
        run = self.imported('{"train": [{"step": 0, "loss": 4}], "val": [{"step": 1, "loss": 9}]}\n')
        self.has(run, "loss", {0: 4})
        self.has(run, "val_loss", {1: 9})
        run = self.imported('{"history": [{"step": 0, "loss": 3}], "evals": [{"step": 0, "val_loss": 2}]}\n')
        self.has(run, "loss", {0: 3})
        self.has(run, "val_loss", {0: 2})
        self.has(self.imported("step,name,loss,value\n0,a,3,7\n"), "loss", {0: 3})
        self.has(self.imported("step,lr,metric,value\n0,0.1,loss,3\n0,0.1,val_loss,9\n"), "val_loss", {0: 9})
        self.imported("step,loss\n0,12.5\n10,1")
        self.assertRegex(self.err, "the last line has no end: its last number may be cut")

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
        heads = [f"step,layers.0.heads.{n}.max_logit\n0,1\n" for n in (0, 1)]
        self.has(self.imported(*heads, heads[1]), "log1/attn/max_logit", {0: [[None, 1]]})
        self.write("more/train.csv", "step,loss,lr\n20,1,1\n30,0,1\n")
        self.has(self.imported("train.csv", "more/train.csv"), "loss", {0: 3, 10: 2, 20: 1, 30: 0})
        self.assertRegex(self.err, "more/train.csv continues train.csv, from step 20 on")
        self.refused("--tag: no FILE is x", "train.csv", "--tag=x=y")

    def test_names_of_runs(self):
        text = '"Step","layers4-h8 - train/loss","layers4-h8 - train/loss__MIN","layers4-h8 - train/loss__MAX",'
        text += '"b - train/loss"\n'
        text += '"0","3","2","4","1"\n"10","2","2","2","5"\n'
        self.refused(r"2 runs \(layers4-h8, b\): -o DIR/ writes a file for each", self.write("w.csv", text))
        self.assertEqual(self.run_importer("w.csv", "--output=runs"), 0, self.err)
        run = maxlogit.open("runs/layers4-h8.h5")
        self.has(run, "loss", {0: 3, 10: 2})
        self.has(run, "train/loss_MAX", {0: 4, 10: 2})
        self.has(maxlogit.open("runs/b.h5"), "loss", {0: 1, 10: 5})
        self.assertEqual(
            self.run_importer(self.write("r.csv", "step,run,loss\n0,a1,1\n0,a2,2\n"), "--output=both/"), 0, self.err
        )
        self.has(maxlogit.open("both/a2.h5"), "loss", {0: 2})

    def shown(self, *words):
        done = subprocess.run([PROGRAM, *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_show_and_watch_have_the_axes_and_keys_of_a_log(self):
        self.write("none.csv", "step,loss,attn/max_logit\n0,3,2\n1,2,7\n2,1,5\n")
        self.write("layers.csv", "step,loss,attn/max_logit/layer_0,attn/max_logit/layer_1\n0,3,2,4\n1,2,7,5\n2,1,5,6\n")
        for rank, name in enumerate(("none", "layers")):
            words = [f"{name}.csv", "--set=host=a", f"--set=my.rank={rank}", f"--set=train.lr=0.{rank}1"]
            self.assertEqual(self.run_importer(*words), 0, self.err)
        head, *rows = self.shown("show", "none.h5", "layers.h5").splitlines()[:3]
        self.assertRegex(head, r" wall s  rank  file$")
        self.assertRegex(rows[0], r" 7 L0 +6 L1 .* 1     layers.h5")
        self.assertRegex(rows[1], r" 7 +5   .* 0     none.h5")
        place = json.loads(self.shown("show", "--json", "none.h5"))[0]["peak_max_logit"]
        self.assertEqual([place["value"], place["layer"], place["head"]], [7, None, None])
        self.assertRegex(self.shown("watch", "none.h5"), "max logit 7\n")
        self.assertRegex(self.shown("watch", "layers.h5"), r"max logit 7 \(L0\)\n.*max logit 6 \(L1\)\n")

    def test_a_list_of_objects_is_rows(self):
        rows = [{"step": 0, "loss": 3}, {"step": 10, "loss": 2}]
        for value in (rows, {"log_history": rows}, {"history": rows}, {"step": [0, 10], "loss": [3, 2]}):
            for indent in (None, 1):
                self.has(self.imported(self.write("a.json", json.dumps(value, indent=indent))), "loss", {0: 3, 10: 2})
                self.has(self.imported(self.write("a", json.dumps(value, indent=indent) + "\n")), "loss", {0: 3, 10: 2})


class Tables(Importing):
    def test_separators_quotes_and_gaps(self):
        text = '"Step","train/loss","a, ""b""",model.layers.0.attn.1.max,model.layers.1.attn.0.max\r\n'
        run = self.imported(text + "5,3,0,1,inf\r\n10,2.5,1,,7\r\n20,nan,2,3.5,8\r\n\r\n", unit="loss=bit")
        self.has(run, "loss", {5: 3, 10: 2.5, 20: np.nan})
        self.has(
            run,
            "attn/max_logit",
            {5: [[None, 1], [np.inf, None]], 10: [[None, None], [7, None]], 20: [[None, 3.5], [8, None]]},
        )
        self.has(run, "a_b", {5: 0, 10: 1, 20: 2})
        self.assertEqual(run["loss"].unit, "bit")
        for text in ('step;q,r;"x";y z\n1;2;"3";4\n', "step\tq_r\tx\n1\t2\t3\n", "step  q_r   x\n 1   2  3  \n"):
            self.has(self.imported(text), "q_r", {1: 2})
        self.has(self.imported("step;loss\n1;2,5\n2;3\n", decimal=","), "loss", {1: 2.5, 2: 3})
        self.has(self.imported("it\tq\n1\t2\n", step="it"), "q", {1: 2})
        self.has(self.imported("epoch,loss\n1,2\n2,1\n"), "loss", {1: 2, 2: 1})
        self.has(self.imported('step,note,loss\n1,"a\nb",2\n2,N/A,None\n3,c,1\n'), "loss", {1: 2, 3: 1})
        self.assertRegex(self.err, "columns of texts are left out: note")
        big = "step,n\n0,99999999999999999999\n"
        self.has(self.imported(big), "n", {0: 1e20})

    def test_a_missing_value_is_no_nan(self):
        text = "step,l0.h0.max_logit,l0.h1.max_logit\n0,1,2\n1,,7\n2,3,5\n3,4,\n"
        for more, missing in (("", True), ("4,nan,1\n", False)):
            values = self.imported(text + more)["attn/max_logit"].values
            bits = values.astype(np.float32).view(np.uint32)
            self.assertEqual(bool((bits[np.isnan(values)] == bits[1, 0, 0]).all()), missing)
        run = self.imported("step,a,b\n0,1,\n1,2,\n2,3,7\n3,4,\n4,,8\n5,,\n")
        self.has(run, "a", {0: 1, 1: 2, 2: 3, 3: 4})
        self.has(run, "b", {2: 7, 4: 8})
        run = self.imported("step,a,b\n0,1,NaN\n1,2,NaN\n2,NaN,3\n")
        self.has(run, "a", {0: 1, 1: 2})
        self.has(run, "b", {2: 3})

    def test_a_run_that_diverges_keeps_its_nan(self):
        losses = ["4.0", "NaN", "NaN", "NaN", "3.9", "NaN", "NaN"]
        rows = "".join(f'{{"step": {i}, "loss": {x}, "lr": 1}}\n' for i, x in enumerate(losses))
        self.has(self.imported(self.write("a.jsonl", rows)), "loss", {i: float(x) for i, x in enumerate(losses)})
        printed = "".join(f"step {i}, loss: {x}, lr: 0.1\n" for i, x in enumerate(losses))
        self.has(self.imported(self.write("a.log", printed)), "loss", {i: float(x) for i, x in enumerate(losses)})

    def test_long_lines_take_no_longer_than_short_ones(self):
        bars = "100%| it/s " + "abc 12 " * 8000
        other = "step 2 " + "a" * 60000
        for line in (bars, other, "x = " * 20000):
            began = time.process_time()
            self.run_importer(
                "--output=none.h5", "--dry-run", self.write("a.log", f"step 1 loss=2.5\n{line}\nstep 2 loss=2\n")
            )
            self.assertLess(time.process_time() - began, 20)
        for part in ("hi5s7_", "._-", "layer1.", ":l1"):
            began = time.process_time()
            self.imported('{"step": 1, "loss": 2, "max_logit_' + part * (60000 // len(part)) + '{l}": 3}\n')
            self.assertLess(time.process_time() - began, 5)
        runs = self.write("runs.csv", "step,run,loss\n" + "".join(f"0,r{i},1\n" for i in range(20000)))
        steps = self.write("steps.log", "step 1," * 300000 + " loss: 2.0\n")
        epoch = self.write("epoch.log", "epoch 1 loss: 2\n" + "".join(f"step {i} loss: 2\n" for i in range(60000)))
        for log in (runs, steps, epoch):
            began = time.process_time()
            self.assertEqual(self.run_importer("--output=none/", "--dry-run", log), 0, self.err)
            self.assertLess(time.process_time() - began, 12, log)

    def test_a_comma_in_a_number_of_a_table(self):
        for separator in (";", "\t", " "):
            for number, wanted in (("2,345", 2345), ("0,999", None), ("2,5", None), ("-12,345e-1", None)):
                table = self.write("c.csv", f"step;loss\n1;1.5\n2;{number}\n".replace(";", separator))
                self.refused(f"c.csv:3: loss: the comma of '{number}' is ambiguous; --decimal=, .* --decimal=. as", table)
                run = self.imported(table, decimal=",")
                self.has(run, "loss", {1: 1.5, 2: float(number.replace(",", "."))})
                if wanted:
                    self.has(self.imported(table, decimal="."), "loss", {1: 1.5, 2: wanted})
            table = "step;loss\n0;1,234,567\n1;-1,234.5\n"
            self.has(self.imported(table.replace(";", separator)), "loss", {0: 1234567, 1: -1234.5})
        self.has(self.imported('step,loss\n"1,000","2,345"\n', decimal="."), "loss", {1000: 2345})
        self.has(self.imported('step,loss\n"1,000","1,234,567"\n'), "loss", {1000: 1234567})
        run = self.imported("step;loss;tokens\n1.000;2,5;1.234\n2.000;2,25;1.234.567,5\n", decimal=",")
        self.has(run, "loss", {1000: 2.5, 2000: 2.25})
        self.has(run, "tokens", {1000: 1234, 2000: 1234567.5})
        mixed = self.write("c.csv", "step;loss\n1;1.5\n2;1.125\n")
        self.refused("c.csv:3: loss: the points of '1.5' and '1.125' differ", mixed, "--decimal=,")
        steps = self.write("c.csv", "step;loss\n1,000;1.5\n")
        self.refused("c.csv:2: step: the comma of '1,000'", steps)
        self.has(self.imported(steps, decimal="."), "loss", {1000: 1.5})
        quoted = self.write("c.csv", 'step,loss\n1,"2,345"\n2,"0,999"\n')
        self.refused("c.csv:2: loss: the comma of '2,345' is ambiguous", quoted)
        self.has(self.imported('step,gpus,loss\n0,"0,1",3\n'), "loss", {0: 3})
        self.has(self.imported(quoted, decimal=","), "loss", {1: 2.345, 2: 0.999})

    def test_numbers_as_torch_prints_them(self):
        text = "{'loss': tensor(2.), 'step': 1}\n{'loss': tensor(1.5), 'step': 2}\n"
        self.has(self.imported(text), "loss", {1: 2, 2: 1.5})
        self.imported(self.write("a.log", "step:9/50 train_loss:10.9\nstep:10/50 train_loss:1"))
        self.assertRegex(self.err, "the last line has no end")

    def test_fast_and_slow_reading_agree(self):
        random.seed(1)
        some = ["", "nan", "-inf", "1e-3", "7", "-2.5", "1.5e+10", ".5", "Infinity"]
        plain = ["7", "-2.5", ".5", "-.125", "0.1", "3.14159265358979", "123456789.123456", "5.", "-0", "000.30"]
        for separator, cells in (
            (",", some),
            (";", some),
            ("\t", some),
            (",", plain),
            ("\t", [*plain, "12345678901234567.5"]),
        ):
            cell = lambda: random.choice(cells)  # noqa: B023, E731
            rows = [separator.join([str(n), *(cell() for _ in range(5))]) for n in range(500)]
            text = separator.join(["step", *"abcde"]) + "\n" + "\n".join(rows) + "\n"
            fast = self.imported(text)
            values = {name: (fast[name].steps, fast[name].values) for name in "abcde"}
            slow = self.imported(text.replace("\n0" + separator, '\n"0"' + separator, 1))
            for name, (steps, wanted) in values.items():
                np.testing.assert_array_equal(slow[name].steps, steps)
                np.testing.assert_array_equal(slow[name].values, wanted)

    def test_refused(self):
        for pattern, text in {
            "b.csv:1: no column of steps; --step": "it\tq\n1\t2\n",
            "^maxlogit: b.csv:3: loss: 'x' is not a number; --map '-=loss'": "step,loss\n1,2\n2,x\n",
            "b.csv:3: 1 columns where the first line names 2": "step,loss\n1,2\n2\n3,4\n",
            "b.csv:2: step '1.5' is not a whole number": "step,loss\n1.5,2\n",
            "b.csv:2: step '-1'": "step,loss\n-1,2\n",
            'b.csv:1: a " without its end': 'step,"loss\n1,2\n',
            'b.csv:.*a " without its end': 'step,loss\n1,"2\n',
            "no number of any step": "step,loss\n",
            "no number": "step,loss\n\n\n",
            "b.csv:1: two columns are called 'loss'": "step,loss,loss\n1,2,3\n",
        }.items():
            with self.subTest(pattern=pattern):
                self.refused(pattern, self.write("b.csv", text))
        for n in ("65536", "99999999999999999999"):
            self.refused("that is no layer", self.write("b.csv", f"step,model.layers.{n}.attn.max_logit\n1,2\n"))
        self.imported("step,loss\n0,1\n1,2\n2")
        self.assertRegex(self.err, "the last line was cut short")

    def test_many_columns(self):
        places = [f"attn/max_logit:l{n // 240}h{n % 240}" for n in range(60000)]
        rows = "".join(f"{n}," + ",".join(map(str, range(60000))) + "\n" for n in (1, 2))
        self.assertEqual(self.imported("step," + ",".join(places) + "\n" + rows)["attn/max_logit"].values[1, 249, 239], 59999)
        names = self.write(
            "n.csv", "step," + ",".join(f"name{n}x{n}" for n in range(5000)) + "\n1," + ",".join(["1"] * 5000) + "\n"
        )
        self.refused("more than 4096 series", names)


class Objects(Importing):
    def test_nested_values_lists_and_texts(self):
        text = """{"_step": 0, "train": {"loss": 2.5, "lr": 1e-3}, "attn_max_logits": [[1, 2], [3, NaN]], "l": 0}
{"_step": 1, "train": {"loss": 2.25}, "eval_loss": "2.75", "note": "text", "h": {"_type": "histogram", "values": [1]}}
{"train_runtime": 12.5}
{"_step": 2, "train": {"loss": Infinity}, "attn_max_logits": [[1, null], [3, -Infinity, 7]]}
"""
        run = self.imported(text)
        self.has(run, "loss", {0: 2.5, 1: 2.25, 2: np.inf})
        self.has(run, "lr", {0: 1e-3})
        self.has(run, "val_loss", {1: 2.75})
        self.has(run, "attn/max_logit", {0: [[1, 2, None], [3, np.nan, None]], 2: [[1, None, None], [3, -np.inf, 7]]})
        self.assertNotIn("h/values", run)
        self.assertRegex(self.err, "1 line without a step: left out")
        self.assertRegex(self.err, "columns of texts are left out: note")

    def test_python_and_other_layouts(self):
        text = """{"step": "7", "max_logits": [3, 4.5], "text": "a \\"NaN\\", it's \\\\", "flag": true, "q": 6}
{'step': 8, 'max_logits': [5, nan], 'text': 'it\\'s "True", \\\\', 'flag': True, 'n': None, 'q': -inf, 'z': np.float64(1.5)}
"""
        run = self.imported(self.write("l.jsonl", text))
        self.has(run, "attn/max_logit", {7: [3, 4.5], 8: [5, np.nan]})
        self.has(run, "q", {7: 6, 8: -np.inf})
        self.has(run, "z", {8: 1.5})
        self.assertNotRegex(self.out, "flag|none|text")
        swift = self.write("s.jsonl", '{"loss": 2.0, "grad_norm": 1.5, "global_step/max_steps": "5/100"}\n')
        run = self.imported(swift, "step,val_loss\n5,3\n6,4\n")
        self.has(run, "grad_norm", {5: 1.5})
        self.has(run, "val_loss", {5: 3, 6: 4})
        run = self.imported('{"epoch": 1, "train_loss": 3, "val_loss": 4}\n{"epoch": 2, "train_loss": 2, "val_loss": 3}\n')
        self.has(run, "val_loss", {1: 4, 2: 3})
        self.assertRegex(self.err, "no steps, only epochs: they are the steps")
        rows = "{'loss': 2.5, 'epoch': 0.5}\n{'eval_loss': 3, 'epoch': 0.5}\n{'loss': 2, 'epoch': 0.75}\n"
        run = self.imported(self.write("t.log", rows))
        self.has(run, "loss", {1: 2.5, 2: 2})
        self.has(run, "val_loss", {1: 3})
        self.assertRegex(self.err, "rows with a loss are numbered")

    def test_refused(self):
        for pattern, text in {
            "b.jsonl:2: no JSON object": '{"step": 1, "loss": 2}\n{"step": 2, "loss": \n{"step": 3}\n',
            "b.jsonl:2: no JSON object: something else": '{"step": 1, "loss": 2}\n[1]\n',
            "b.jsonl: no number with a step in 1 line; --step": '{"a": 1}\n',
        }.items():
            with self.subTest(pattern=pattern):
                self.refused(pattern, self.write("b.jsonl", text))
        self.refused("nothing.log: no number with a step in", self.write("nothing.log", "nothing of interest\n"))
        self.imported(self.write("cut.jsonl", '{"step": 1, "loss": 2}\n{"step": 2, "lo'))
        self.assertRegex(self.err, "the last line was cut short")
        self.refused("no JSON object", self.write("b.jsonl", "[" * 100000))


class Names(Importing):
    def test_places(self):
        for name, series, shape in (
            ("transformer.h.3.attn.max_logit", "attn/max_logit", (4,)),
            ("attn.0.1.max_logit", "attn/max_logit", (1, 2)),
            ("model.layers.2.self_attn/max_attn_logit/1", "attn/max_logit", (3, 2)),
            ("decoder.layers.0.self_attention.core_attention.max_logit.1", "attn/max_logit", (1, 2)),
            ("transformer.h.0.attn.head.1.max_logit", "attn/max_logit", (1, 2)),
            ("max_logit/layer_2/head_1", "attn/max_logit", (3, 2)),
            ("blocks.0.heads.1.max_abs_logit", "max_abs_logit", (1, 2)),
            ("layers.0.experts.2.load", "load", (1, 3)),
            ("Layer 1 entropy", "entropy", (2,)),
            ("lm_loss", "loss", ()),
            ("reduced_train_loss", "loss", ()),
            ("learning/loss", "loss", ()),
            ("train_loss_step", "loss", ()),
            ("train/CrossEntropyLoss", "loss", ()),
            ("eval_c4_7/loss", "eval_c4_7/loss", ()),
            ("step/x", "step_x", ()),
            ("layer", "layer_", ()),
            ("l1_loss", "l1_loss", ()),
            ("l2_norm", "l2_norm", ()),
            ("loss/l1", "loss/l1", ()),
            ("mlp_l1", "mlp_l1", ()),
            ("layers.3.l2_norm", "l2_norm", (4,)),
            ("l0_h1_max_logit", "attn/max_logit", (1, 2)),
            ("attn.l1.entropy", "attn.entropy", (2,)),
        ):
            with self.subTest(name=name):
                self.assertEqual(self.imported(f"step,{name}\n0,7\n")[series].values.shape[1:], shape)
        for name in "max_router_logit max_logit_mean argmax_logit_accuracy attn_grad_max attn_max_prob max_attention_memory_gb".split():
            self.assertNotIn("attn/max_logit", self.imported(f"step,loss,{name}\n0,1,2\n"), name)
        run = self.imported("step,loss,loss/aux,train/loss,layers.0.max_logit,layers.0.heads.0.max_logit\n0,1,2,3,4,5\n")
        for name, value in (("loss", 1), ("loss_aux", 2), ("train/loss", 3), ("attn/max_logit", [[5]]), ("max_logit", [4])):
            self.has(run, name, {0: value})

    def test_the_largest_logits_of_every_layer_and_head(self):
        heads = {"layers.0.attn.max_logit": [1, 2, 3, 4], "layers.1.attn.max_logit": [5, 6, 80]}
        wanted = [[1, 2, 3, 4], [5, 6, 80, None]]
        for row in (heads, {"max_logit": {"layer_0": wanted[0], "layer_1": [5, 6, 80]}}):
            log = self.write("m.jsonl", json.dumps({"step": 0, "loss": 4, **row}) + "\n")
            run = self.imported(log)
            self.has(run, "attn/max_logit", {0: wanted})
            self.assertEqual(run["attn/max_logit"].axes, ("layer", "head"))
            found = re.search("^--map '(.*)'$", self.out, re.MULTILINE)[1]
            self.has(self.imported(log, map=found), "attn/max_logit", {0: wanted})
        rule = "attn/max_logit[l]=layers.{l}.attn.max_logit"
        self.refused(
            "is a list; .*:h{h} if it is one of heads",
            self.write("m.jsonl", json.dumps({"step": 0, **heads})),
            f"--map={rule}",
        )
        for names in ("max_logit_L0,max_logit_L1", "l0_max_logit,l1_max_logit", "max_attn_logit_l0,max_attn_logit_l1"):
            self.has(self.imported(f"step,{names}\n0,1,333\n"), "attn/max_logit", {0: [1, 333]})
        self.has(self.imported("step,L0H0_max_logit,L0H1_max_logit\n0,1,333\n"), "attn/max_logit", {0: [[1, 333]]})
        pairs = self.write("p.csv", "step,max_attn_logit_0_0,max_attn_logit_0_1\n0,1,333\n")
        self.refused("max_attn_logit_0_0 and max_attn_logit_0_1 could both be attn/max_logit", pairs)
        self.has(self.imported(pairs, map="attn/max_logit[l,h]=max_attn_logit_{l}_{h}"), "attn/max_logit", {0: [[1, 333]]})
        pair = self.write("p.csv", "step,max_qk_logit,max_attn_logit\n0,1,2\n")
        self.refused("max_qk_logit and max_attn_logit could both be", pair)
        for name, value in (("max_qk_logit", 1), ("max_attn_logit", 2)):
            self.has(self.imported(pair, map=f"attn/max_logit={name}"), "attn/max_logit", {0: value})
        text = json.dumps({"step": 0, "layers.0.attn.max_logit": 1, "layers.1.attn.max_logit": 2, "max_logit": 3}) + "\n"
        asked = self.imported(self.write("m.jsonl", text), map="attn/max_logit=max_logit")
        self.has(asked, "attn/max_logit", {0: 3})
        self.has(self.imported("step,max_logit_ema,max_logit\n0,1,2\n"), "attn/max_logit", {0: 2})
        for values in ("10.0 11.0 99.0", "[10.0, 11.0, 99.0]", "[10.0 11.0]"):
            run = self.imported(self.write("a.log", f"step 10 loss=2.5 max_logits: {values}\nstep 20 loss=2.4\n"))
            self.assertNotIn("attn/max_logit", run)
            self.assertRegex(self.err, r"left out: max_logits \(\[?10\.0")

    def test_rules(self):
        text = "step,train/loss,model.layers.0.attn.1.max,model.layers.1.attn.0.max\n10,2.5,3,7\n"
        a = self.write("a.csv", text)
        first = self.imported(a)["attn/max_logit"].values
        found = re.search("^--map '(.*)'$", self.out, re.MULTILINE)[1]
        self.assertEqual(found, "loss=train/loss,attn/max_logit[l,h]=model.layers.{l}.attn.{h}.max")
        np.testing.assert_array_equal(self.imported(a, map=found)["attn/max_logit"].values, first)
        run = self.imported(a, map="x/y[h,l]=model.layers.{l}.attn.{h}.max,-=train/loss")
        self.has(run, "x/y", {10: [[None, 7], [3, None]]})
        self.assertNotIn("loss", run)
        lists = self.write("l.jsonl", '{"step": 0, "m": [[1, 2, 3], [4, 5, 6]], "loss": 1}\n')
        self.has(self.imported(lists, map="t[h,l]=m:l{l}h{h}"), "t", {0: [[1, 4], [2, 5], [3, 6]]})
        self.has(self.imported(lists, map="one=m:l1h0"), "one", {0: 4})
        self.assertNotIn("m", self.imported(lists, map="-=m"))
        for pattern, rule in {
            "no column is train/los; did you mean 'train/loss'": "loss=train/los",
            "SERIES=NAME": "loss",
            r"{l} is in the pattern alone; q\[l\]=": "q=x.{l}",
            "in brackets": "q[z]=x.{z}",
            "train/loss is of two rules": "x=train/loss,y=train/loss",
            "letters": "a b=train/loss",
        }.items():
            self.refused(pattern, a, f"--map={rule}")
        self.refused("no series is called so", a, "--unit=los=bit")
        self.refused("KEY=VALUE", a, "--set=optimizer")

    def test_configurations(self):
        a = self.write("a.csv", "step,loss\n0,1\n")
        self.write("c.json", '{"optimizer": "muon", "train": {"lr": 0.02, "seed": 4}, "flag": true, "list": [1, "b"]}\n')
        config = self.imported(a, config="c.json", set="train.lr=0.03").config
        for key, value in {"optimizer": "muon", "train.lr": "0.03", "train.seed": "4", "flag": "1", "list.1": "b"}.items():
            self.assertEqual(config[key], value)
        self.refused("bad.json:", a, "--config", self.write("bad.json", '{"a": \n'))
        try:
            import yaml  # noqa: F401
        except ImportError:
            self.skipTest("no yaml here")
        self.write("c.yaml", "optimizer: muon\ntrain:\n  lr: 0.02\n  betas: [0.9, 0.95]\n")
        config = self.imported(a, config="c.yaml").config
        self.assertEqual((config["train.lr"], config["train.betas.1"]), ("0.02", "0.95"))
        self.refused("bad.yaml:2:", a, "--config", self.write("bad.yaml", "a: [1\n"))
        self.refused("deeper than 32", a, "--config", self.write("bad.yaml", "a: &x [*x, *x]\n"))
        levels = "".join(f"{to}: &{to} [{', '.join(['*' + of] * 7)}]\n" for of, to in zip("abcde", "bcdef"))
        self.refused("more than 10000", a, "--config", self.write("bad.yaml", "a: &a [1, 2]\n" + levels))


class Lines(Importing):
    def test_numbers_that_are_printed_as_texts(self):
        rows = "".join(
            f" {n}%|#| {n}/30 [00:10<01:30,  2.0s/it]\r{{'loss': '{n}.5', 'epoch': '{n / 10}'}}\n"
            f" {n}%|#| {n}/30 [00:10<01:30,  2.0s/it]\r {n}%|#| {n + 1}/30 [00:10<01:30,  2.0s/it]\r"
            for n in range(2, 30, 2)
        )
        self.has(self.imported(self.write("hf.log", rows)), "loss", {n: n + 0.5 for n in range(2, 30, 2)})

    def test_bars_of_evaluations_and_bars_at_0(self):
        bar = "{}: {}%|#| {}/2 [00:10<00:10, 10.0s/it, loss={}]\n".format
        text = "".join(bar(f"Epoch {e}", 50 * n, n, 10 * e + n) for e in (0, 1) for n in (0, 1, 2)) + bar("Val", 50, 1, 99)
        self.has(self.imported(self.write("bars.log", text)), "loss", {0: 0, 1: 1, 2: 2, 3: 11, 4: 12})
        self.assertRegex(self.err, "1 progress bar not of the training left out, as 'Val'")
        for other in ("Validating", "val_epoch 0", "Sampling", "Computing FID"):
            text = bar("Finetune", 50, 1, 2) + bar(other, 50, 1, 99) + bar("Finetune", 100, 2, 1)
            self.has(self.imported(self.write("bars.log", text)), "loss", {1: 2, 2: 1})
        self.has(self.imported(self.write("bars.log", bar("Epoch 3", 50, 1, 5))), "loss", {5: 5})
        self.assertRegex(self.err, "the first epoch of its progress bars is 3: steps are counted from epoch 1 on")

    def test_what_is_said_of_an_earlier_step_is_no_row(self):
        text = "step 100: loss: 4.5\nstep 200: loss: 3.5\n"
        many = "".join(f"Epoch {n}/3, loss: {n}, val_loss: 9, best epoch: 1\n" for n in (1, 2, 3))
        self.has(self.imported(self.write("a.log", many)), "loss", {1: 1, 2: 2, 3: 3})
        for more in ("Best checkpoint: step 100, loss: 2.35\n", "Restored best weights from step 100 (loss: 2.35)\n"):
            self.has(self.imported(self.write("a.log", text + more)), "loss", {100: 4.5, 200: 3.5})
        text = "Epoch 1: loss: 4.5\nEpoch 2: loss: 3.5\nBest epoch: 1, loss: 2.35\n"
        self.has(self.imported(self.write("a.log", text)), "loss", {1: 4.5, 2: 3.5})

    def test_words_of_sets_behind_the_numbers_or_before_the_level(self):
        for line in (
            "step 10: loss 2.5 (val 2.6)",
            "step 10: loss 2.5 (next eval in 90 steps)",
            "12:00:00 [dev] INFO step 10: loss 2.5",
        ):
            self.has(self.imported(self.write("a.log", line + "\n")), "loss", {10: 2.5})
        for line in (
            "[loss best at epoch 0] step 10: loss 2.5",
            "INFO:restored.trainer: step: 10 loss: 2.5",
            "[resumed] step 10: loss 2.5",
        ):
            self.has(self.imported(self.write("a.log", line + "\n")), "loss", {10: 2.5})
        for line in (
            "epoch 1, step 10, time: 12.0, val, loss: 2.5",
            "step 10 loss=2.5 (validation)",
            "x - eval - INFO - step 10 loss 2.5",
            "INFO [eval] step 10: loss 2.5",
            "step 10 | validation | loss 2.5",
            "Validation step 10: loss 2.5",
        ):
            self.has(self.imported(self.write("a.log", line + "\n")), "val_loss", {10: 2.5})

    def test_json_of_a_metric_for_each_row(self):
        rows = [("train/loss", 0, 1), ("val/loss", 5, 9), ("train/loss", 10, 2)]
        for key in ("key", "metric", "name", "tag"):
            text = "".join(json.dumps({key: name, "step": step, "value": value}) + "\n" for name, step, value in rows)
            run = self.imported(self.write("a.jsonl", text))
            self.has(run, "loss", {0: 1, 10: 2})
            self.has(run, "val_loss", {5: 9})
        run = self.imported(self.write("a.jsonl", '{"step": 1, "tag": "reward", "reward": 2, "value": 0.5, "kl": 0.25}\n'))
        for name, value in (("reward", 2), ("value", 0.5), ("kl", 0.25)):
            self.has(run, name, {1: value})

    def test_decimal_commas_are_refused(self):
        for rows in ("loss=2,345\nStep 2: loss=0,998\n", "loss: 2,345 | lr: 0,998\n"):
            self.refused("the comma of '0,998' is a decimal one", self.write("a.log", "Step 1: " + rows))
        self.has(self.imported(self.write("a.log", "Step 1: loss=2.5 tokens=2,345 gpus: 0,1\n")), "tokens", {1: 2345})

    """Lines of programs that have no format of their own."""

    def lines(self, *lines, **options):
        return self.imported(self.write("l.log", "\n".join(lines) + "\n"), **options)

    def test_training_and_validation_in_one_line(self):
        for row in (
            "train: loss=2.5 acc=0.5 | val: loss=2.75 acc=0.25",
            "val: loss=2.75 acc=0.25 | train: loss=2.5 acc=0.5",
            "(train) loss: 2.5, acc: 0.5; (val) loss: 2.75, acc: 0.25",
            "Train(loss=2.5 acc=0.5) Val(loss=2.75 acc=0.25)",
            "- loss: 2.5 - acc: 0.5 - Val - loss: 2.75 - acc: 0.25",
            "| train | loss=2.5 acc=0.5 | validation | loss=2.75 acc=0.25",
        ):
            run = self.lines(f"Epoch 1 {row}")
            for name, value in (("loss", 2.5), ("acc", 0.5), ("val_loss", 2.75), ("val/acc", 0.25)):
                self.has(run, name, {1: value})
        for row in (
            "step 10, next eval in 90 steps, loss=2.5",
            "step 10 (last val 2.9) loss=2.5",
            "INFO:dev:step 10 loss=2.5",
        ):
            self.has(self.lines(row), "loss", {10: 2.5})

    def test_what_is_no_set_and_no_unit(self):
        for lines, wanted in (
            (["Epoch 1 step 10 D loss: 0.5 G loss: 1.5"], {"D_loss": {10: 0.5}, "G_loss": {10: 1.5}}),
            (["INFO:train:step 10 loss=3", "INFO:eval:step 10 loss=2"], {"loss": {10: 3}, "val_loss": {10: 2}}),
            (["step 10: loss 3", "step 10 last validation: loss 2"], {"loss": {10: 3}, "val_loss": {10: 2}}),
            (["| epoch 001: 100 / 300 loss=5.5, num_updates=5100, lr=0.5"], {"loss": {5100: 5.5}, "lr": {5100: 0.5}}),
            (["epoch=1, steps=100, loss=2.5"], {"loss": {100: 2.5}}),
            (["step 1 loss=3 max_attn_logit=12.5, 0.35 s/it"], {"attn/max_logit": {1: 12.5}}),
            (["Epoch 1 iter 3 192/60000 loss: 3.5"], {"loss": {3: 3.5}}),
            (
                ["epoch 1 | train: loss=2.5 | val: loss=2.25 acc=0.5 | lr=0.5"],
                {"val/acc": {1: 0.5}, "lr": {1: 0.5}, "loss": {1: 2.5}},
            ),
            (["train step 100: loss 2.5 (eval skipped), lr: 0.5"], {"loss": {100: 2.5}, "lr": {100: 0.5}}),
            (["INFO [epoch=2][step=4500/10500]", "    train/loss=2.5"], {"loss": {4500: 2.5}}),
            (["step 1 loss: 2 devices: 0,1 tokens: 4096"], {"tokens": {1: 4096}}),
        ):
            with self.subTest(lines=lines):
                run = self.lines(*lines)
                for name, rows in wanted.items():
                    self.has(run, name, rows)
        run = self.imported(self.write("l.log", "step 1 loss 2.5 time: 950ms\n"), unit="time=ms")
        self.has(run, "time", {1: 950})

    def test_numbers_with_blanks(self):
        run = self.lines("step 10 | loss: 2.5 | tok/s: 950", "step 20 | loss: 2.4 | tok/s: 1.25 K | x=10.5 G")
        self.has(run, "tok/s", {10: 950, 20: 1250})
        for row in ("loss: 2.5 | tokens: 1 048 576 | x: 1", "loss: 2.5 | tokens: 1\u202f048", "loss: 2.5 tokens: 1'048'576"):
            self.assertNotIn("tokens", self.lines(f"step 10 | {row}"))
            self.assertIn("tokens (1", self.err)
        self.refused("no number with a step", self.write("l.log", "step 1 000/10 000 | loss: 2.5\n"))

    def test_a_line_with_the_step_twice(self):
        for line in ("Saving dict for global step 150: loss = 2.3, global_step = 150", "starting, global_step: 0, step: 7"):
            run = self.lines("loss = 3.5, step = 0", line, "loss = 2.5, step = 200", "loss = 2.25, step = 300")
            self.assertEqual(
                {0: 3.5, 200: 2.5, 300: 2.25}, {s: x for s, x in zip(run["loss"].steps, run["loss"].values) if s != 150}
            )

    def test_steps_are_counted_through_epochs(self):
        for steps, *lines in (
            (
                (1, 200, 201),
                "Epoch [1/2], Step [1/200], Loss: 3",
                "Epoch [1/2], Step [200/200], Loss: 2",
                "Epoch [2/2], Step [1/200], Loss: 1",
            ),
            (
                (0, 64, 600),
                "Train Epoch: 1 [0/600 (0%)]\tLoss: 3",
                "Train Epoch: 1 [64/600 (11%)]\tLoss: 2",
                "Train Epoch: 2 [0/600 (0%)]\tLoss: 1",
            ),
            ((200, 1200, 1400), "[1,  200] loss: 3", "[1, 1200] loss: 2", "[2,  200] loss: 1"),
            ((1, 2), "Epoch 1/9 - loss: 3 - acc: 0.5", "Epoch 2/9 - loss: 1 - acc: 0.6"),
            (
                (10, 20),
                "Epoch 1/2",
                "10/10 [=====] - 5s 2ms/step - loss: 3",
                "Epoch 2/2",
                " 5/10 [==>..] - loss: 2\b\b10/10 [=====] - loss: 1",
            ),
            ((135, 181), "| epoch 002:    45 / 90 loss=3, lr=1e-3, clip=50%", "| epoch 003:   1 / 90 loss=1"),
            ((50, 100), "INFO - Epoch [1][50/90]\tlr: 1e-2, eta: 1 day, 4:05:50, loss: 3", "INFO - Epoch [2][10/90] loss: 1"),
            (
                (0, 50, 91),
                "Train: 0 [ 0/90 (  0%)]  Loss: 3 (6.9)",
                "Train: 0 [ 50/90 ( 55%)]  Loss: 2 (6)",
                "Train: 1 [ 1/90 ( 1%)]  Loss: 1 (5)",
            ),
            (
                (30, 60, 90),
                "1epoch:train:1-30batch: loss=3, lr_0=0.1",
                "1epoch:train:31-60batch: loss=2",
                "2epoch:train:1-30batch: loss=1",
            ),
            ((20, 40), "epoch: 1, iter: 20/90, loss: 3", "epoch: 2, iter: 40/90, loss: 1"),
            ((44, 90), "| epoch 001:  45 / 90 loss=3, num_updates=44", "| epoch 002:  1 / 90 loss=1, num_updates=90"),
        ):
            with self.subTest(lines=lines):
                run = self.lines(*lines)
                self.assertEqual(run["loss"].steps.tolist(), list(steps), self.out)
                self.assertEqual(run["loss"].values.tolist(), [3, 2, 1] if len(steps) == 3 else [3, 1])
                self.assertNotIn("eta", run)
        self.lines("[1, 200] loss: 2", "[2, 100] loss: 1")
        self.assertRegex(self.err, "epochs of 200 steps .their largest step")
        run = self.lines(
            "Epoch(train) [1][80/90] loss: 3", "Epoch(val) [1][45/45] loss: 2", "Epoch(train) [2][10/90] loss: 1"
        )
        self.has(run, "loss", {80: 3, 100: 1})
        self.has(run, "val_loss", {90: 2})
        run = self.lines("step 1 loss: 3", "eval step 1 loss: 2", "step 2 loss: 2.5", "[Validation] epoch 1 loss: 1.5")
        self.has(run, "loss", {1: 3, 2: 2.5})
        self.has(run, "val_loss", {1: 2, 2: 1.5})

    def test_pairs_before_a_step_and_between_bars(self):
        for line, values in {
            "INFO:x:loss = 2.5, step = 7 (3.4 sec)": {"loss": 2.5},
            "Iter 7: Train loss 2.5, Learning Rate 1.000e-05, Peak mem 9.5 GB": {"loss": 2.5, "lr": 1e-5, "Peak_mem": 9.5e9},
            "[10:00:00 INFO] Step 7/100; acc:  0.5; ppl: 92.5; xent: 4.5; lr: 0.1; 69/72 tok/s;  20 sec": {
                "ppl": 92.5,
                "lr": 0.1,
            },
            "[10:00:00] Ep. 1 : Up. 7 : Sen. 128 : Cost 2.5 : Time 72.5s : 44.5 words/s": {"Cost": 2.5, "Time": 72.5},
            "[Rank 0] step=7, skipped=2, lr=[5e-05], mom=[[0.9, 0.999]]": {"lr": 5e-5, "skipped": 2},
            "Epoch 1, batch 7, loss[loss=2.5, other=1, over 5 frames.], tot[loss=3.5, over 9 frames.], lr: 0.1": {
                "loss/loss": 2.5,
                "tot/loss": 3.5,
            },
            "Epoch 1 | iter 14 step 7 | loss train: 2.5, val: n/a | iter time: 45.5 ms (step)": {
                "loss": 2.5,
                "iter_time": 0.0455,
            },
        }.items():
            with self.subTest(line=line):
                run = self.lines(line)
                for name, value in values.items():
                    self.has(run, name, {7: value})
        self.has(self.lines("[batch=7/9]:", "\t Train loss/train/total: 2.5"), "Train_loss/train/total", {7: 2.5})
        for line in (
            "7 | loss 2.5 | lr 0.1 | 500.0ms",
            "[7 | 25.43] loss=2.5 avg=3",
            "train 7.0it/9it rate:1.5it/s postfix:loss=2.5",
        ):
            self.has(self.lines(line), "loss", {7: 2.5})
        self.has(self.lines("[7]\ttrain-rmse:0.5\teval-rmse:0.75"), "eval-rmse", {7: 0.75})
        self.has(
            self.imported(self.write("f.log", "epoch   train_loss  time\n0   2.5  00:12\n1    2.25  00:12\n")),
            "loss",
            {0: 2.5, 1: 2.25},
        )
        self.lines("step 1 loss: 2", "then loss: 1", "step 2 loss: 1")
        self.assertRegex(self.err, "1 line with a loss but no step or epoch left out, as line 2")
        for line in ("warmup steps: 100, lr: 0.1", "step 5: saved", "Best loss: 2 at epoch 1.5", "time per step: 5, loss: 1"):
            self.refused("a line needs a step or an epoch", self.write("n.log", line + "\n"))
        for text in ('{"current_steps": 7, "total_steps": 9, "loss": 2}\n', '{"num_updates": 7, "epoch": 1, "loss": "2"}\n'):
            self.has(self.imported(self.write("l.jsonl", text)), "loss", {7: 2})

    def test_lines_of_more_trainers(self):
        """A line whose count is another than that of the rows around belongs to the step of these; sources are no series."""
        litgpt = (
            "Epoch 1 | iter 1 step 0 | loss train: 2.500, val: n/a | iter time: 350.01 ms\n"
            "Epoch 1 | iter 16 step 1 | loss train: 2.250, val: n/a | iter time: 340.01 ms (step)\n"
            "iter 600: val loss 2.1250, val time: 5000.00 ms\n"
        )
        t5x = "I0301 10:00:00.123456 140000000000000 logging_writer.py:48] [100] collection=train loss=2.75, learning_rate=0.01\n"
        fairseq = (
            '2023-03-01 10:00:10 | INFO | train_inner | {"epoch": 1, "update": 0.5, "loss": "14.5", "num_updates": "100"}\n'
            '2023-03-01 10:00:20 | INFO | valid | {"epoch": 1, "valid_loss": "10.5", "valid_num_updates": "100"}\n'
            '2023-03-01 10:00:30 | INFO | train_inner | {"epoch": 2, "update": 1.5, "loss": "13.5", "num_updates": "200"}\n'
        )
        espnet = "[host] 2022-05-01 10:05:00,123 (trainer:732) INFO: 1epoch:train:1-100batch: acc=0.25, loss=101.5\n"
        yolox = "2021-07-28 10:00:00 | INFO     | yolox.core.trainer:245 - epoch: 1/300, iter: 10/1849, total_loss: 19.5\n"
        for text, wanted in (
            (litgpt, {"loss": {0: 2.5, 1: 2.25}, "val_loss": {1: 2.125}}),
            (t5x, {"loss": {100: 2.75}, "lr": {100: 0.01}}),
            (fairseq, {"loss": {100: 14.5, 200: 13.5}, "val_loss": {100: 10.5}}),
            (espnet, {"loss": {100: 101.5}, "acc": {100: 0.25}}),
            (yolox, {"total_loss": {10: 19.5}}),
        ):
            with self.subTest(text):
                run = self.lines(*text.splitlines())
                for name, values in wanted.items():
                    self.has(run, name, values)

    def test_names_that_meet_another(self):
        path = self.write("c.csv", "step,loss,loss/aux,loss_aux,val_step,layer,layer/x\n0,1,2,3,7,8,9\n1,4,5,6,7,8,9\n")
        run = self.imported(path)
        for name, first in {"loss": 1, "loss_aux_": 2, "loss_aux": 3, "val_step_": 7, "layer_": 8, "layer_x": 9}.items():
            self.assertEqual(run[name].values[0], first)

    def test_steps_with_separators(self):
        for line, at in (
            ("step 500: loss=2", 500),
            ("step 1,000: loss=2", 1000),
            ("Step [12,345/20,000] loss=2", 12345),
            ("iter=1,234,567/2,000,000, loss: 2", 1234567),
            ("step 1_000_000 loss=2", 1000000),
            ("step 7,0.5 loss=2", 7),
            ("step 7,123.5 ms, loss=2", 7),
        ):
            with self.subTest(line=line):
                self.has(self.lines(line), "loss", {at: 2})
        run = self.lines("step 1 loss=2", "step: 1e3 loss=3")  # is none that can be read
        self.has(run, "loss", {1: 2})

    def test_blocks_of_composer_in_epochs(self):
        run = self.lines(
            *(
                f"[epoch={epoch}][batch={at}/100]:\n\t Train loss/train/total: {epoch}.{at}"
                for epoch in (1, 2)
                for at in (10, 20)
            )
        )
        self.assertEqual(run[[*run][0]].steps.tolist(), [10, 20, 110, 120])

    def test_numbers_with_units(self):
        for text, value, unit in (
            ("900K", 900e3, "1"),
            ("1.2M", 1.2e6, "1"),
            ("3.5B", 3.5e9, "1"),
            ("1_000", 1000, "1"),
            ("12,345", 12345, "1"),
            ("900ms", 0.9, "s"),
            ("12.5s", 12.5, "s"),
            ("1h", 3600, "s"),
            ("85%", 85, "%"),
            ("3.2GiB", 3.2 * 2**30, "B"),
            ("5.5 GB", 5.5e9, "B"),
            ("np.float64(1.5)", 1.5, "1"),
            ("nanms", np.nan, "s"),
        ):
            with self.subTest(text=text):
                run = self.lines(f"step 1 loss: 2.5, x: {text}, y=1")
                self.has(run, "x", {1: value})
                self.has(run, "y", {1: 1})
                self.assertEqual(run["x"].unit, unit)
        run = self.lines(
            "step 1 loss: 2 x: 900ms y: 2GiB", "step 2 loss: 1 x: 1.5s y: 512MiB", "step 3 loss: 1 x: 1min y: 7%"
        )
        self.has(run, "x", {1: 0.9, 2: 1.5, 3: 60})
        self.has(run, "y", {1: 2**31, 2: 2**29})
        self.assertRegex(self.err, r"do not end with a known unit are left out: y \(7%\)")
        run = self.lines("step 1 loss: 2 x: 12parsec z: 1/2 eta: 8:05:12 d: 2 days, 1:00", "step 2 loss: 1 x: 5 z=0,5")
        self.has(run, "x", {2: 5})
        self.assertEqual([name for name in ("z", "eta", "d") if name in run], [])
        self.assertRegex(self.err, r"left out: x \(12parsec\), z \(1/2\)\n")


class Safe(Importing):
    """Nothing is left half written, nothing waits, and no file takes all memory or makes a traceback."""

    def test_several_runs_are_written_all_or_not_at_all(self):
        text = "step,run,loss,x\n0,a,1,5\n0,b,2,\n0,c,3,6\n"
        both = self.write("r.csv", text)
        os.mkdir("out")
        self.assertEqual(self.run_importer(self.write("b.csv", "step,loss\n0,9\n"), "--output=out/"), 0)
        theirs = Path("out/b.h5").read_bytes()
        self.assertEqual(self.run_importer(both, "--output=out/"), 2)
        self.assertRegex(self.err, "out/b.h5 exists; --overwrite")
        self.assertEqual(os.listdir("out"), ["b.h5"])
        self.assertEqual(self.run_importer(both, "--output=new/folder/", "--unit=loss=no"), 0, self.err)
        shutil.rmtree("new")
        before = table._write

        def full(path, *rest):
            if path.endswith("1.h5"):
                raise OSError(28, "No space left")
            before(path, *rest)

        table._write = full
        try:
            self.assertEqual(self.run_importer(both, "--output=new/folder/"), 1)
            self.assertEqual(self.run_importer(both, "--output=out/", "--overwrite"), 1)
        finally:
            table._write = before
        self.assertFalse(Path("new").exists())
        self.assertEqual(os.listdir("out"), ["b.h5"])
        link = os.link

        def failing(a, b, **places):
            if b == "c.h5":
                raise OSError(5, "Input/output error")
            link(a, b, **places)

        with mock.patch("os.link", failing):
            self.assertEqual(self.run_importer(both, "--output=out/", "--overwrite"), 1, self.err)
        self.assertEqual(os.listdir("out"), ["b.h5"])
        self.assertEqual(Path("out/b.h5").read_bytes(), theirs)
        with mock.patch("os.link", side_effect=PermissionError(1, "no links here")):
            self.assertEqual(self.run_importer(both, "--output=out/", "--overwrite"), 0, self.err)
        self.assertEqual(self.run_importer(both, "--output=out/", "--overwrite", "--map=y=x", "--unit=y=m"), 0, self.err)
        self.assertEqual(sorted(os.listdir("out")), ["a.h5", "b.h5", "c.h5"])
        self.assertRegex(self.err, "--map: x is in 2 of 3 runs\n.*--unit: y is in 2 of 3 runs\n")
        self.has(maxlogit.open("out/c.h5"), "y", {0: 6})
        self.assertEqual(self.run_importer(both, "--output=out/", "--overwrite", "--map=y=z"), 2)
        self.assertRegex(self.err, "no column is z")

    def test_blanks_in_cells(self):
        log = self.write("b.csv", "step,loss,lr\n0,1 5,2\n1, ,3\n")
        self.assertEqual(self.run_importer(log, "--output=b.h5"), 0, self.err)
        self.has(maxlogit.open("b.h5"), "lr", {0: 2, 1: 3})
        self.assertRegex(self.err, "columns of texts are left out: loss")
        log = self.write("d.csv", "step,loss\n0,1" + " " * 300000 + "2\n")
        self.assertEqual(self.run_importer(log, "--output=d.h5"), 2)  # in seconds
        log = self.write("c.csv", "step; loss ;lr\n0; 1 ;2\n1; ;3 \n 2;4;5\n")
        self.assertEqual(self.run_importer(log, "--output=c.h5"), 0, self.err)
        self.has(maxlogit.open("c.h5"), "loss", {0: 1, 2: 4})
        self.has(maxlogit.open("c.h5"), "lr", {0: 2, 1: 3, 2: 5})

    def test_a_replaced_run_keeps_its_rights(self):
        log = self.write("t.csv", "step,loss\n0,3\n1,2\n")
        self.assertEqual(self.run_importer(log, "--output=p.h5"), 0)
        os.chmod("p.h5", 0o640)
        with contextlib.suppress(OSError, AttributeError):  # a file system or system without attributes
            os.setxattr("p.h5", "user.of", b"mine")
        had = os.listxattr("p.h5") if hasattr(os, "listxattr") else []
        if not os.getuid():
            os.chown("p.h5", -1, 12345)
        self.assertEqual(self.run_importer(log, "--output=p.h5", "--overwrite"), 0, self.err)
        now = os.stat("p.h5")
        self.assertEqual((now.st_mode & 0o7777, now.st_gid in (12345, os.getgid())), (0o640, True))
        if not os.getuid():
            self.assertEqual(now.st_gid, 12345)
        self.assertEqual(os.listxattr("p.h5") if had else [], had)

    def test_lists_of_other_lengths_take_no_memory(self):
        long = "[" + ",".join(["0"] * 9000) + "]"
        column = "[" + ",".join(["[0]"] * 9000) + "]"
        for rows in (f'"a": {column}', f'"a": [{long}]'), (f'"a": {column[:-1]},{long}]',):
            log = self.write("r.jsonl", "".join(f'{{"step": {i}, {row}}}\n' for i, row in enumerate(rows)))
            self.refused("lists of other lengths: .* numbers would fill .* places", log)

    def meanwhile(self, method, what, *arguments):
        """Runs the importer; before this method of the folder is called, `what` happens."""
        real, happened = getattr(Folder, method), []

        def late(*given):
            if not happened:
                happened.append(method)
                what()
            return real(*given)

        with mock.patch.object(Folder, method, late):
            return self.run_importer(*arguments)

    def test_what_others_write_meanwhile_stays(self):
        log = self.write("r.csv", "step,run,loss\n0,a,1\n0,b,2\n")
        self.write("b.csv", "step,loss\n0,9\n")

        def others():
            self.write("out/thesis.txt", "theirs")
            self.assertEqual(self.run_importer("b.csv", "--output=out/"), 0, self.err)

        self.assertEqual(self.meanwhile("make_beside", others, log, "--output=out/"), 2)
        self.assertRegex(self.err, "out/b.h5.*exists")
        self.assertEqual(sorted(os.listdir("out")), ["b.h5", "thesis.txt"])
        self.has(maxlogit.open("out/b.h5"), "loss", {0: 9})
        shutil.copy("out/b.h5", "theirs.h5")
        with mock.patch.object(table, "_claim"):  # it comes between the last look and the link
            copy = lambda: shutil.copy("theirs.h5", "new/a.h5")
            status = self.meanwhile("publish", copy, log, "--output=new/deep/../")
        self.assertEqual(status, 2)
        self.assertRegex(self.err, "new/deep/../a.h5: another process has written it meanwhile")
        self.assertEqual(os.listdir("new"), ["a.h5"])
        self.has(maxlogit.open("new/a.h5"), "loss", {0: 9})

    def test_an_interrupt_at_any_call_leaves_what_was_there(self):
        log = self.write("r.csv", "step,run,loss\n0,a,1\n0,b,2\n")
        self.assertEqual(self.run_importer(log, "--output=out/"), 0, self.err)
        before = {name: Path("out", name).read_bytes() for name in ("a.h5", "b.h5")}
        self.write("r.csv", "step,run,loss\n0,a,3\n0,b,4\n")
        calls = []

        def interrupted(name, number, is_done):
            real = getattr(os, name)

            def call(*given, **places):
                if not places or name == "open":
                    return real(*given, **places)
                calls.append(name)
                if len(calls) == number and not is_done:
                    raise KeyboardInterrupt(2)
                result = real(*given, **places)
                if len(calls) == number:
                    raise KeyboardInterrupt(2)
                return result

            return call

        met, publishing = 0, Folder.publish
        for number in range(1, 20):
            for is_done in (False, True):
                calls.clear()

                def publish(*given, number=number, is_done=is_done):
                    with contextlib.ExitStack() as stack:
                        for name in ("link", "rename", "stat", "unlink"):
                            stack.enter_context(mock.patch("os." + name, interrupted(name, number, is_done)))
                        publishing(*given)

                with mock.patch.object(Folder, "publish", publish):
                    status = self.run_importer(log, "--output=out/", "--overwrite")
                if status == 0:
                    break
                met += 1
                self.assertEqual(status, 130, self.err)
                self.assertEqual(
                    {name: Path("out", name).read_bytes() for name in os.listdir("out")}, before, (number, is_done)
                )
        self.assertGreaterEqual(met, 12)

    def test_files_that_cannot_be_put_back_are_kept(self):
        log = self.write("r.csv", "step,run,loss\n0,a,1\n0,b,2\n")
        self.assertEqual(self.run_importer(log, "--output=out/"), 0, self.err)
        before = Path("out/a.h5").read_bytes()
        real, calls = os.rename, []

        def stale(*given, **places):
            calls.append(given)
            if len(calls) > 1:
                raise OSError(116, "Stale file handle")
            real(*given, **places)

        with mock.patch("os.rename", stale):
            self.assertEqual(self.run_importer(log, "--output=out/", "--overwrite"), 1)
        self.assertRegex(self.err, "out/.import-[0-9a-f]*: the files that were replaced")
        folder = next(Path("out").glob(".import-*"))
        self.assertEqual((folder / "0.h5.before").read_bytes(), before)

    def test_no_link_leads_out_of_any_folder(self):
        for format in FORMATS:
            if not format.folder:
                continue
            path = self.example(format)
            folder = path if path.is_dir() else path.parent
            files = [path for path in folder.rglob("*") if path.is_file()]
            self.assertEqual(self.run_importer(str(folder), f"--output={format.name}.h5"), 0, self.err)
            os.unlink(f"{format.name}.h5")
            for i, path in enumerate(files):
                os.rename(path, f"{format.name}-{i}")
                path.symlink_to(Path(f"{format.name}-{i}").resolve())
            with self.subTest(format.name):
                self.refused("a symbolic link leads out of", str(folder))

    def test_what_a_file_repeats_is_bounded(self):
        name = "x" * 1001
        self.refused(
            "an object's name of more than 1000 letters: xxx", self.write("r.jsonl", f'{{"step": 1, "{name}": {{"a": 1}}}}\n')
        )
        shape = b"\x08\x01\x12\x05\x12\x03\x08\x80\x20\x2a\x04\x00\x00\x80\x3f"  # 4096 floats, of which one is there
        value = b"\x0a\x01a\x42" + bytes([len(shape)]) + shape
        summary = b"\x0a" + bytes([len(value)]) + value
        events = b"".join(
            record_of(event)
            for event in (b"\x10" + bytes([i % 100]) + b"\x2a" + bytes([len(summary)]) + summary for i in range(400))
        )
        Path("events.out.tfevents.1.x").write_bytes(events)
        self.refused("its tensors state [0-9]* numbers or more, and hold almost none", "events.out.tfevents.1.x")

    @unittest.skipUnless(PROGRAM, "MAXLOGIT_PROGRAM is not set")
    def test_checkpoints_stay_until_their_run_is_replaced(self):
        log = self.write("r.csv", "step,run,loss\n0,a,1\n0,b,2\n")
        arguments = ["model.width=16", "train.steps=6", "checkpoint.every=2", "record.path=out/a.h5"]
        subprocess.run([PROGRAM, "run", "-q", *arguments], check=True)
        Path("out/a.journal").write_bytes(b"maxlogit journal 2 of a killed run")
        before = sorted(os.listdir("out/a.ckpt"))
        self.assertTrue(before)
        with mock.patch.object(table, "_write", side_effect=OSError(28, "No space left")):
            self.assertEqual(self.run_importer(log, "--output=out/", "--overwrite"), 1)
        self.assertEqual(sorted(os.listdir("out/a.ckpt")), before)
        self.assertTrue(Path("out/a.journal").exists())
        self.assertEqual(self.run_importer(log, "--output=out/", "--overwrite"), 0, self.err)
        self.assertEqual([os.listdir("out/a.ckpt"), Path("out/a.journal").exists()], [[], False])

    def test_a_folder_that_becomes_a_link_leads_nowhere(self):
        log = self.write("r.csv", "step,run,loss\n0,a,1\n0,b,2\n")
        self.write("home/runs/precious/thesis.txt", "thesis")
        self.write("home/runs/a.h5", "a run")

        def swap():
            os.rename("shared", "moved")
            os.symlink("home", "shared")

        for before in ("_write", "_claim"):
            os.mkdir("shared")
            real, calls = getattr(table, before), []

            def late(path, *rest, real=real, calls=calls):
                calls.append(path)
                if len(calls) == 2:
                    swap()
                return real(path, *rest)

            with mock.patch.object(table, before, late):
                self.assertNotEqual(self.run_importer(log, "--output=shared/runs/", "--overwrite"), 0)
            self.assertEqual(Path("home/runs/a.h5").read_text(), "a run")
            self.assertEqual(Path("home/runs/precious/thesis.txt").read_text(), "thesis")
            self.assertEqual(os.listdir("moved"), [])
            os.unlink("shared")
            os.rmdir("moved")

    def test_names_of_files_are_any_bytes(self):
        name = os.fsdecode(b"l\xf6g.csv")
        self.write(name, "step,loss\n0,1\n")
        self.assertEqual(self.run_importer(name), 0, self.err)
        self.assertEqual(self.run_importer(name, os.fsdecode(b"--output=o\xf6/")), 0, self.err)
        self.assertTrue(Path(os.fsdecode(b"o\xf6/l\xf6g.h5")).exists())
        self.refused("cannot read n.x: No such file", os.fsdecode(b"n\xf6x"))

    def test_deep_values(self):
        deep = '{"a":' * 100000 + "1" + "}" * 100000
        for name, text in (("d.json", deep), ("d.jsonl", '{"step": 1, "loss": 1}\n' + deep + "\n")):
            self.refused("nested too deep", self.write(name, text))
        a = self.write("a.csv", "step,loss\n0,1\n")
        self.refused("c.json: its values are nested too deep", a, "--config", self.write("c.json", deep))

    def test_what_a_compressed_file_may_become(self):
        before, source.MOST_EXPANDED = source.MOST_EXPANDED, 1 << 20
        try:
            data = bytes(3 << 20)
            files = {"gz": gzip.compress(data), "xz": lzma.compress(data), "bz2": bz2.compress(data)}
            if shutil.which("zstd"):
                files["zst"] = subprocess.run(["zstd", "-qc"], input=data, capture_output=True, check=True).stdout
            for name, packed in files.items():
                self.refused("when it is expanded, .* expand it first", self.write("a.csv." + name, packed))
        finally:
            source.MOST_EXPANDED = before

    def test_arrays_are_compared_with_the_bytes_there_are(self):
        for shape in ((1 << 40,), (1 << 60, 0), (-1, 4), (3, 1 << 30), (60, 60)):
            head = io.BytesIO()
            np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": shape})
            self.refused("a: cannot be read", self.write("a.npy", head.getvalue() + bytes(64)))
        for wrong, text in ((np.inf, "inf"), (np.nan, "nan"), (-1, "-1"), (1.5, "1.5"), (1e300, "1e.300")):
            np.savez("s.npz", step=[0, wrong], loss=[1, 2])
            self.refused(f"step: {text} is not a whole number from 0 on", "s.npz")

    def test_damaged_events(self):
        for fields in (b"\x10" + b"\x80" * 5000 + b"\1", b"\x2a\x7fabc"):
            self.refused("damaged", self.write("x.tfevents", record_of(fields)))

    def test_checksums_of_events(self):
        def masked(data):
            crc = 0xFFFFFFFF
            for bit in (byte >> i & 1 for byte in data for i in range(8)):
                crc = crc >> 1 ^ (0x82F63B78 if (crc ^ bit) & 1 else 0)
            crc ^= 0xFFFFFFFF
            return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

        self.assertEqual(masked(b"123456789"), struct.pack("<I", 0xC78AB0E5))  # of 0xE3069283
        for size in (0, 1, 2, 7, 8, 1023, 1024, 1025, 2048, 5000):
            data = random.Random(size).randbytes(size)
            length = struct.pack("<Q", size)
            self.assertEqual(record_of(data), length + masked(length) + data + masked(data), size)
        loss = b"\x0a\x0b\x0a\x04loss\x15" + struct.pack("<f", 2.5)
        event = b"\x10%c\x2a" + bytes([len(loss)]) + loss
        records = [record_of(event % i) for i in range(100)]
        size = len(records[0])
        for record, place in ((3, 30), (3, 2), (3, 8), (99, 7), (3, size - 1)):
            for bit in (1, 64):
                data = bytearray(b"".join(records))
                data[record * size + place] ^= bit
                self.has(self.imported(self.write("x.tfevents", data)), "loss", dict.fromkeys(range(record), 2.5))
                self.assertRegex(self.err, f"^maxlogit: x.tfevents: the checksum of record {record + 1} differs: it and all")
                self.assertNotIn("cut short", self.err)
        for at in (0, 8, 30, size - 1):
            data = bytearray(b"".join(records))
            data[at] ^= 1
            self.refused("no event file of TensorBoard, or a damaged one", self.write("x.tfevents", data))
        self.write("tb/a.tfevents.2", data)
        self.write("tb/a.tfevents.1", b"".join(records)[:-1])
        self.has(self.imported("tb"), "loss", dict.fromkeys(range(99), 2.5))
        self.assertRegex(self.err, "tb/a.tfevents.1: its last record was cut short: left out\n")
        self.assertRegex(self.err, "tb/a.tfevents.2: the checksum of record 1 differs")
        with mock.patch.object(tensorboard, "_AT_ONCE", 7):
            self.has(self.imported(self.write("x.tfevents", b"".join(records))), "loss", dict.fromkeys(range(100), 2.5))
            self.assertEqual(self.err, "")
            self.imported(self.write("x.tfevents", b"".join(records) + data))
            self.assertRegex(self.err, "the checksum of record 101 differs")

    def test_checksums_take_little_time(self):
        event = record_of(b"\x10\1\x2a\x0d\x0a\x0b\x0a\x04loss\x15" + struct.pack("<f", 2.5))
        for data in (record_of(b"\x1a" + b"\x80\x80\x80\x0a" + bytes(20 << 20)) + event, event * 50000):
            self.write("x.tfevents", data)
            began = time.process_time()
            self.has(self.imported("x.tfevents"), "loss", {1: 2.5})
            self.assertLess(time.process_time() - began, 8)

    def test_pipes_and_devices_are_not_waited_for(self):
        for name in ("ml/metrics/loss", "tb/events.out.tfevents.1", "ck/trainer_state.json"):
            os.makedirs(os.path.dirname(name))
            os.mkfifo(name)
            self.refused("a named pipe|a folder without", name.split("/")[0])
        for name in ("/dev/zero", "/dev/null"):
            self.refused("not a file", name)
        a = self.write("a.csv", "step,loss\n0,1\n")
        self.refused("a named pipe", a, "--config=tb/events.out.tfevents.1")

    def test_some_seconds_of_mutated_logs(self):
        fuzz = str(Path(__file__).parent / "fuzz_import.py")
        done = subprocess.run([sys.executable, fuzz, "--seconds=4"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^\d+ logs, 0 wrong\n$")


@unittest.skipUnless(PROGRAM, "MAXLOGIT_PROGRAM names no program")
class Program(Importing):
    """The command of the program."""

    def call(self, *arguments, status=0, **environment):
        done = subprocess.run(
            [PROGRAM, *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHON": sys.executable, **environment},
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_what_export_writes_is_read(self):
        small = "model.layers=2 model.width=16 model.heads=2 model.context=16 train.batch=4 train.steps=40 train.warmup=5"
        small += (
            " train.val_every=10 record.spectra_every=10 device.threads=1 record.path=run.h5 preset=muonclip qk_clip.tau=2"
        )
        self.call("run", "--quiet", *small.split())
        series = [
            "loss",
            "val_loss",
            "lr",
            "grad_norm",
            "attn/max_logit",
            "attn/max_abs_logit",
            "attn/entropy",
            "qk_clip/gamma",
            "head_q/spectral_norm",
        ]
        run = maxlogit.open("run.h5")
        for form in ("csv", "tsv", "columns"):
            self.write("all." + form, self.call("export", "run.h5", *series, f"--format={form}"))
            again = self.imported("all." + form, form="csv")
            for name in series:
                np.testing.assert_array_equal(again[name].steps, run[name].steps)
                np.testing.assert_allclose(again[name].values, run[name].values, rtol=1e-6)
                self.assertEqual(again[name].axes, run[name].axes)
        for name in series:
            self.write("one.csv", self.call("export", "run.h5", name))
            self.assertEqual(self.imported("one.csv")[name].unit, run[name].unit)
        for arm in "ab":
            for seed in "12":
                self.call(
                    "import",
                    "all.csv",
                    "--set",
                    f"optimizer={arm}",
                    "--set",
                    f"train.seed={seed}",
                    "-o",
                    f"arms/{arm}{seed}.h5",
                )
        self.assertRegex(
            self.call("compare", "arms", "optimizer=a", "optimizer=b", "--of", "loss:last"), r"B - A  *0 .*n=2 pairs"
        )
        self.assertRegex(self.call("show", "arms", "--by", "optimizer", "--of", "peak"), r"(?m)^a  *2 ")
        self.assertRegex(self.call("note", "arms/a1.h5"), "imported from all.csv")
        self.assertRegex(self.call("resume", "arms/a1.h5", status=2), "another program")
        self.call("report", "arms/a1.h5", "run.h5", "-o", "page")
        peak = [self.call("show", name, "--of", "peak").splitlines()[-1].split()[-2] for name in ("run.h5", "arms/a1.h5")]
        self.assertEqual(*peak)

    def test_missing_values_and_nan_are_told_apart(self):
        text = "step,l0.h0.max_logit,l0.h1.max_logit\n0,1,2\n1,,7\n2,3,5\n3,4,\n"
        self.call("import", self.write("gap.csv", text), "--set", "train.lr=nan")
        metrics = "peak,last,attn/max_logit:all:min,attn/max_logit:all:median,attn/max_logit:all:above=6"
        self.assertRegex(self.call("show", "gap.h5", "--csv", "--of", metrics), ",7,4,1,3.5,1")
        self.assertNotRegex(self.call("show", "gap.h5"), "(?i)nan")
        self.assertEqual(
            re.sub("(?s)^.*?\n(?=0)", "", self.call("export", "gap.h5", "attn/max_logit", "--format=csv")),
            text.split("\n", 1)[1],
        )
        for comparison in ("<=1", ">=1", "<1", ">1"):
            self.call("show", "gap.h5", "--where", "train.lr" + comparison, status=2)
        self.call("import", self.write("gap.csv", text + "4,nan,1\n"), "--overwrite")
        self.assertRegex(self.call("show", "gap.h5", "--csv", "--of", "peak"), "(?i)nan")

    def test_rows_of_series_with_other_steps(self):
        self.call("import", self.write("v.csv", "step,a,val_b,c,val_d\n1,1,,,\n2,1,2,,3\n3,1,,2,\n4,1,2,3,4\n"))
        rows = self.call("export", "v.h5", "a", "val_b", "c", "val_d").splitlines()[-4:]
        self.assertEqual(rows, ["1 1 NaN NaN NaN", "2 1 2 NaN 3", "3 1 NaN 2 NaN", "4 1 2 3 4"])
        self.assertEqual(self.call("export", "v.h5", "val_b").splitlines()[-2:], ["2 2", "4 2"])

    def test_series_of_other_sizes(self):
        for n, columns in enumerate(("l0.h0.max_logit", "l0.h0.max_logit,l0.h1.max_logit")):
            self.call("import", self.write(f"m{n}.csv", f"step,{columns}\n1{',2' * (n + 1)}\n"), "--set", "optimizer=x")
        told = self.call("export", "m0.h5", "m1.h5", "attn/max_logit", "--band", "--by", "optimizer", status=2)
        self.assertRegex(told, "m1.h5: its columns differ from those of m0.h5")

    def test_options_files_and_exit_statuses(self):
        text = "step,loss\n0,1\n1,2\n"
        self.write("a.csv", text)
        self.assertRegex(self.call("import", "a.csv", "-n"), "--map loss=loss\n$")
        self.assertFalse(Path("a.h5").exists())
        self.assertRegex(self.call("import", "a.csv", "--data", "my text"), "a.h5\n$")
        self.assertRegex(self.call("import", "a.csv", status=2), "a.h5 exists; --overwrite")
        self.call("import", "a.csv", "--overwrite", "--keep-later", "--form=csv", "--decimal=.", "--tag", "a.csv=val")
        self.has(maxlogit.open("a.h5"), "val_loss", {0: 1, 1: 2})
        self.write("comma.csv", "step;loss\n0;2,345\n")
        self.assertRegex(self.call("import", "comma.csv", status=2), "comma.csv:2: loss: the comma of '2,345'")
        self.call("import", "comma.csv", "--decimal=,")
        self.has(maxlogit.open("comma.h5"), "loss", {0: 2.345})
        self.assertRegex(self.call("import", status=2), "which logs")
        self.write("-x.csv", text)
        self.call("import", "--", "-x.csv")
        done = subprocess.run(["bash", "-c", f'"{PROGRAM}" import <(cat a.csv) -o pipe.h5'], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        os.mkdir("full")
        os.chmod("full", 0o500)
        if os.geteuid():
            self.call("import", "a.csv", "-o", "full/a.h5", status=1)

    def test_python_or_the_package_is_missing(self):
        self.write("a.csv", "step,loss\n0,1\n")
        self.assertRegex(
            self.call("import", "a.csv", PYTHON="/nowhere", status=2), "^maxlogit: import needs Python, .*install .*\n$"
        )
        self.write("python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        os.chmod("python", 0o755)
        self.assertRegex(
            self.call("import", "a.csv", PYTHON=f"{self.folder}/python", status=2),
            "^maxlogit: import needs numpy, .*install .*\n$",
        )
        os.mkdir("empty")
        told = self.call("import", "a.csv", MAXLOGIT_PYTHON=f"{self.folder}/empty", PYTHONPATH="", status=2)
        self.assertRegex(told, "^maxlogit: import needs the Python package maxlogit .*make install.*\n$")
        for name in ("json.py", "numpy.py", "maxlogit.py", "sitecustomize.py"):
            self.write(name, "open('RAN', 'w')")
        self.call("import", "a.csv", PYTHONPATH=".:")
        self.assertFalse(Path("RAN").exists(), "something of the current folder ran")


def line(example):
    """The first line of an example that has numbers, for a cell of the manual."""
    first = next(x for x in re.split("[\r\n]", re.sub(r"\x1b\[[0-9;]*m", "", example)) if re.search(r"\d", x)).strip()
    return (first if len(first) < 90 else first[:90].rsplit(" ", 1)[0] + " ..").replace("|", "\\|")


if __name__ == "__main__":
    unittest.main()
