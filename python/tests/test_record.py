"""The recorder and the reader, without PyTorch: what is logged is read again, by this package, h5py and maxlogit."""

import errno
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
import unittest
import unittest.mock
import unittest.mock
from pathlib import Path

import numpy as np

import maxlogit
from in_folder import InFolder


def logits_at(step):
    return np.arange(6, dtype=np.float32).reshape(2, 3) * 0.5 + step


class Recording(InFolder):
    def record(self, steps, path=None, config=None, **more):
        with maxlogit.Recorder(path or self.path, config, **more) as recorder:
            for step in range(recorder.last_step + 1, steps):
                recorder.log(step, loss=1 / (step + 1), **{"attn/max_logit": logits_at(step)})
                if step % 4 == 0:
                    recorder.event(step, "clip", 1, 2, 0.5)
                    recorder.put("val_loss", 2.0)

    def test_what_is_logged_is_read(self):
        config = {"optimizer": "muon", "train": {"lr": 0.02, "seed": 3, "nesterov": True}, "betas": [0.9, 0.95]}
        self.record(10, config=config)
        run = maxlogit.open(self.path)
        self.assertEqual((run.state, run.steps, len(run)), ("finished", 10, 3))
        self.assertEqual(run.config["train.lr"], "0.02")
        self.assertEqual(run.config["train.nesterov"], "1")
        self.assertEqual(run.config["betas"], "0.9+0.95")
        logits = run["attn/max_logit"]
        self.assertEqual(logits.axes, ("layer", "head"))
        np.testing.assert_array_equal(logits.values, [logits_at(s) for s in range(10)])
        np.testing.assert_array_equal(logits.steps, range(10))
        np.testing.assert_array_equal(run["loss"].values, [1 / (s + 1) for s in range(10)])
        np.testing.assert_array_equal(run["val_loss"].steps, [1, 5, 9])
        self.assertEqual([e.step for e in run.events], [0, 4, 8])
        self.assertEqual((run.events[1].kind, run.events[1].layer, run.events[1].head), ("clip", 1, 2))
        with self.assertRaisesRegex(KeyError, "did you mean attn/max_logit"):
            run["attn/max_logits"]

    def test_axes_units_definitions_places(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.define("moe/load", (2, 4), ("layer", "expert"), unit="1", definition="tokens over their mean")
            recorder.define("weight/norm", (3,), ("tensor",), rows="spectra")
            recorder.axis("layer", ["blocks.0", "blocks.1"])
            recorder.axis("tensor", ["a", "b", "c"])
            recorder.log(0, {"moe/load": np.ones((2, 4))}, loss=1)
            recorder.log(5, {"weight/norm": [1, 2, 3]}, loss=1)
            recorder.note("halfway")
        run = maxlogit.open(self.path)
        load = run["moe/load"]
        self.assertEqual((load.axes, load.definition), (("layer", "expert"), "tokens over their mean"))
        self.assertEqual(load.places, {"layer": ["blocks.0", "blocks.1"]})
        self.assertEqual(run["weight/norm"].steps.tolist(), [5])
        self.assertEqual(run["weight/norm"].places, {"tensor": ["a", "b", "c"]})
        self.assertTrue(np.isnan(load.values[1]).all())
        self.assertEqual(run.notes[0][1], "halfway")

    def test_what_is_missing_is_no_nan(self):
        for bad, wanted in ((maxlogit.MISSING, 7.0), (float("nan"), "NaN")):
            with maxlogit.Recorder(self.path, mode="replace") as recorder:
                recorder.log(0, loss=1, **{"attn/max_logit": [[1, bad], [7, 2]]})
                recorder.log(1, loss=1)  # nothing of the heads
            self.assertTrue(np.isnan(maxlogit.open(self.path)["attn/max_logit"].values).any(axis=(1, 2)).all())
            if "MAXLOGIT_PROGRAM" in os.environ:
                shown = subprocess.run(
                    [os.environ["MAXLOGIT_PROGRAM"], "show", "--json", self.path], capture_output=True, text=True, check=True
                )
                self.assertEqual(json.loads(shown.stdout)[0]["peak_max_logit"]["value"], wanted)

    def test_h5py_and_maxlogit_read_it(self):
        self.record(8, config={"optimizer": "muon", "train.seed": 1})
        try:
            import h5py
        except ImportError:
            self.skipTest("no h5py here")
        with h5py.File(self.path) as file:
            data = file["series/attn/max_logit"]
            self.assertEqual(data.dims[2].label, "head")
            np.testing.assert_array_equal(data[3], logits_at(3))
            self.assertEqual(file["parameters"].attrs["train.seed"], 1)

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "no maxlogit program here")
    def test_an_edited_recording_is_accepted(self):
        self.record(3)
        try:
            import h5py
        except ImportError:
            self.skipTest("no h5py here")
        with h5py.File(self.path, "r+") as file:
            file["series/loss"][1] = 7.5
        accept = [os.environ["MAXLOGIT_PROGRAM"], "note", "--accept-edit", self.path]
        subprocess.run(accept, check=True, capture_output=True)
        self.assertEqual(maxlogit.open(self.path)["loss"].values[1], 7.5)

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "no maxlogit program here")
    def test_a_page_says_what_it_has_no_room_for(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(0, wide=np.arange(65537.0))
        report = [os.environ["MAXLOGIT_PROGRAM"], "report", "-o", self.folder / "page", self.path]
        self.assertIn("no map of heads of wide", subprocess.run(report, check=True, capture_output=True, text=True).stderr)

    def test_an_unfinished_recording_goes_on_with_warnings(self):
        recorder = maxlogit.Recorder(self.path, {"train.lr": 1, "out": "runs/monday"})
        for step in range(3):
            recorder.log(step, loss=1.0)
        recorder.close("stopped")
        with self.assertWarnsRegex(UserWarning, "unfinished recording with train.lr=1, now 2, goes on"):
            maxlogit.Recorder(self.path, {"train.lr": 2}).close("stopped")
        self.assertEqual(maxlogit.open(self.path)["loss"].values.size, 3)
        with maxlogit.Recorder(self.path, {"train.lr": 2, "out": "runs/tuesday"}) as recorder:
            with self.assertWarnsRegex(UserWarning, "rows of steps 0 to 2 are replaced"):
                recorder.log(0, loss=1.0)

    def test_a_finished_run_is_not_replaced_by_the_way(self):
        self.record(3)
        with self.assertRaisesRegex(maxlogit.UsageError, "mode='replace'"):
            self.record(3)
        self.record(5, mode="resume")
        self.assertEqual(maxlogit.open(self.path)["loss"].values.size, 5)
        self.record(2, mode="replace")
        self.assertEqual(maxlogit.open(self.path)["loss"].values.size, 2)

    def test_what_cannot_be_is_said(self):
        with maxlogit.Recorder(self.path) as recorder:
            with self.assertRaisesRegex(maxlogit.UsageError, "step -5: steps count from 0"):
                recorder.log(-5, other=7)
            recorder.log(0, loss=1.0, val_loss=1.0)
            for message, wrong in {
                r"loss has shape \(\), not \(2,\)": lambda: recorder.log(1, loss=[1, 2]),
                "letters": lambda: recorder.put("a b", 1),
                "x: 'one' is neither a number": lambda: recorder.log(1, x="one"),
                f"step {1 << 63}: ": lambda: recorder.log(1 << 63, loss=2),
            }.items():
                with self.assertRaisesRegex(ValueError, message):
                    wrong()
            with self.assertRaisesRegex(maxlogit.MaxlogitError, "this process writes it already"):
                maxlogit.Recorder(self.path, mode="resume")
            for wrong in (
                lambda: recorder.log(1, loss=2, other="x"),
                lambda: recorder.log(1, loss=2, val_loss=[1]),
                lambda: recorder.log(1.5, loss=2),
                lambda: recorder.log(1, accuracy=[1, 2], loss="x"),
            ):
                with self.assertRaises((TypeError, ValueError)):
                    wrong()
            recorder.log(1, other=3, accuracy=0.5)
        run = maxlogit.open(self.path)  # has nothing of what was refused
        self.assertTrue(np.isnan(run["loss"].values[1]) and np.isnan(run["other"].values[0]))
        for wrong in (
            lambda: recorder.log(2, loss=1),
            lambda: recorder.event(2, "clip"),
            lambda: recorder.note("x"),
            recorder.snapshot,
        ):
            with self.assertRaisesRegex(maxlogit.UsageError, "is closed"):
                wrong()
        recorder.close()
        with self.assertRaisesRegex(FileNotFoundError, "none.h5: there is no such run file") as missing:
            maxlogit.open(self.folder / "none.h5")
        self.assertIsInstance(missing.exception, maxlogit.UsageError)
        for problem in (missing.exception, pickle.loads(pickle.dumps(missing.exception))):
            self.assertEqual((problem.errno, str(problem.filename)), (errno.ENOENT, str(self.folder / "none.h5")))
        with self.assertRaisesRegex(maxlogit.UsageError, "auto, new"):
            maxlogit.Recorder(self.path, mode="append")

    def test_a_file_that_cannot_be_opened_again_for_a_moment(self):
        """A second row of a step opens the file anew. Where that fails, the row is refused, and later ones are recorded."""
        for late, wanted in {"log": [1, 2, 4], "log_rows": [1, 2, 4, 5], "close": [1, 2]}.items():
            folder, away = f"{self.folder}/{late}", f"{self.folder}/away"
            recorder = maxlogit.Recorder(f"{folder}/r.h5")
            recorder.log(0, loss=1.0, other=7.0)
            recorder.log(1, loss=2.0)
            os.rename(folder, away)
            Path(folder).touch()
            for step in (1, 2):
                with self.assertRaises(maxlogit.MaxlogitError):
                    recorder.log(step, loss=2.5, other=8.0)
            os.remove(folder)
            os.rename(away, folder)
            if late == "log":
                recorder.log(3, loss=4.0)
            elif late == "log_rows":
                recorder.log_rows({"loss": ([3, 4], [4, 5])})
            recorder.close()
            run = maxlogit.open(f"{folder}/r.h5")
            self.assertEqual(run.state, "finished")
            self.assertEqual(run["loss"].values.tolist(), wanted)
            self.assertTrue(np.isnan(run["other"].values[1:]).all())

    def test_rows_in_parts(self):
        """What is logged of one step twice is one row, with its events; W&B's order, nested names, None."""
        with maxlogit.Recorder(self.path) as recorder:
            for step in range(3):
                recorder.log({"train": {"loss": 3.0 - step, "lr": None}}, step=step)
                recorder.event(step, "clip", 0, 1, 0.5)
                recorder.log({"grad_norm": step, "val_loss": 1 + step}, step=step)
                recorder.log(step, {"train/loss": 9.0 - step} if step == 1 else None, x=[step, 1])
            with self.assertRaisesRegex(maxlogit.UsageError, "step 1 after one of step 2: steps grow"):
                recorder.log({"train": {"loss": 1}}, step=1)
        run = maxlogit.open(self.path)
        self.assertEqual(sorted(run), ["grad_norm", "train/loss", "val_loss", "x"])
        self.assertEqual(run["train/loss"].values.tolist(), [3, 8, 1])
        self.assertEqual((run["grad_norm"].values.tolist(), run["val_loss"].values.tolist()), ([0, 1, 2], [1, 2, 3]))
        self.assertEqual(run["x"].values.tolist(), [[0, 1], [1, 1], [2, 1]])
        self.assertEqual([(e.step, e.kind, e.head) for e in run.events], [(n, "clip", 1) for n in range(3)])

    def test_rows_at_once_follow_and_are_followed(self):
        with maxlogit.Recorder(self.folder / "a.h5") as recorder:
            recorder.log(0, loss=1, lr=9)
            with self.assertRaisesRegex(maxlogit.UsageError, "steps are whole numbers"):
                recorder.log_rows({"loss": ([0.5, 1.5], [1.0, 2.0])})
            with self.assertRaisesRegex(maxlogit.UsageError, "a row of step 0 after one of step 0"):
                recorder.log_rows({"loss": ([0], [5.0])})
            recorder.log_rows({"loss": ([1], [2.0]), "lr": ([1], [8.0])})
            recorder.log(1, loss=3)
        run = maxlogit.open(self.folder / "a.h5")
        self.assertEqual((run["loss"].values.tolist(), run["lr"].values.tolist()), ([1, 3], [9, 8]))
        with maxlogit.Recorder(self.folder / "b.h5", whole=True) as recorder:
            recorder.log(0, loss=1)
            recorder.log(1, loss=2)
            with self.assertRaisesRegex(maxlogit.UsageError, "step 1 has its row"):
                recorder.log(1, loss=3)
        self.assertEqual(maxlogit.open(self.folder / "b.h5")["loss"].values.tolist(), [1, 2])

    def test_more_axes(self):
        value = np.arange(24.0).reshape(2, 3, 4)
        with maxlogit.Recorder(self.path) as recorder:
            recorder.define("a", (2, 3, 4), ("layer", "expert", "bin"))
            recorder.log(0, a=value, b=value[..., None])
            recorder.log(1, a=-value)
            with self.assertRaisesRegex(maxlogit.UsageError, r"a has shape \(2, 3, 4\)"):
                recorder.log(2, a=value[0])
        with maxlogit.open(self.path) as run:
            self.assertEqual(run["a"].axes, ("layer", "expert", "bin"))
            np.testing.assert_array_equal(run["a"], [value, -value])
            np.testing.assert_array_equal(run["b"][0], value[..., None])

    def test_configurations(self):
        import argparse
        import dataclasses
        import types

        @dataclasses.dataclass
        class Inner:
            lr: float = 0.5

        @dataclasses.dataclass
        class Config:
            inner: Inner = dataclasses.field(default_factory=Inner)
            name: str = "x"

        config = Config()
        for given in (
            {"inner": {"lr": 0.5}, "name": "x"},
            config,
            argparse.Namespace(inner=config.inner, name="x"),
            types.MappingProxyType({"inner": config.inner, "name": "x"}),
        ):
            with maxlogit.Recorder(self.path, given, mode="replace") as recorder:
                recorder.log(0, loss=1)
            found = maxlogit.open(self.path).config
            self.assertEqual((found["inner.lr"], found["name"]), ("0.5", "x"))
        with self.assertRaisesRegex(TypeError, "config: a mapping, a dataclass or a Namespace"):
            maxlogit.Recorder(self.path, 7, mode="replace")

    def test_rows_are_forwarded(self):
        told = []

        class Wandb:
            def log(self, values, step):
                told.append(("wandb", step, values))

        class Board:
            def add_scalar(self, name, value, step):
                told.append(("board", step, {name: value}))

        class Mlflow:
            def log_metrics(self, values, step):
                told.append(("mlflow", step, values))

        def broken(step, values):
            raise ZeroDivisionError

        receivers = [Wandb(), Board(), Mlflow(), lambda step, values: told.append(("function", step, values)), broken]
        with maxlogit.Recorder(self.path, forward=receivers) as recorder:
            with self.assertWarnsRegex(UserWarning, "not forwarded"):
                recorder.log(0, x=[1.0, maxlogit.MISSING])
            recorder.log(1, x=[3.0, 2.0])
            del told[8:]
            recorder.define("least", (2,), summary="min")
            recorder.log(2, least=[3.0, 2.0])
        self.assertEqual([t[2] for t in told[8:11]], [{"least": 2.0}] * 3)
        del told[8:]
        for name in ("wandb", "board", "mlflow"):
            self.assertEqual([t[1:] for t in told if t[0] == name], [(0, {"x": 1.0}), (1, {"x": 3.0})])
        self.assertEqual([t[2]["x"].tolist() for t in told if t[0] == "function" and t[1]], [[3.0, 2.0]])
        with maxlogit.Recorder(self.path, mode="replace", rank=1, forward=receivers) as recorder:
            recorder.log(0, loss=1.0)
        self.assertEqual(len(told), 8)

    def test_an_interrupted_row_leaves_nothing_to_the_next(self):
        call = maxlogit._record.library.call
        for late in (False, True):

            def interrupted(name, *arguments):
                if name != "record_row":
                    return call(name, *arguments)
                if late:
                    call(name, *arguments)
                raise KeyboardInterrupt

            with maxlogit.Recorder(self.path, mode="replace") as recorder:
                recorder.log(0, loss=1.0, val_loss=1.0)
                with unittest.mock.patch("maxlogit._record.library.call", interrupted):
                    with self.assertRaises(KeyboardInterrupt):
                        recorder.log(1, loss=2.0, val_loss=2.0)
                recorder.log(1, loss=3.0)
                recorder.log(2, loss=4.0)
            run = maxlogit.open(self.path)
            self.assertEqual(list(run["loss"]), [1, 3, 4])
            self.assertEqual(list(run["val_loss"])[: 1 + late], [1, 2][: 1 + late])
            self.assertFalse((run["val_loss"].values > 1 + late).any())

    def test_a_nan_is_forwarded(self):
        told = []
        with maxlogit.Recorder(self.path, forward=types.SimpleNamespace(log=lambda values, step: told.append(values))) as r:
            r.log(0, loss=float("nan"), x=[1.0, float("nan")], y=[2.0, maxlogit.MISSING], z=maxlogit.MISSING)
        self.assertEqual(str(told), "[{'loss': nan, 'x': nan, 'y': 2.0}]")

    def recorded_to(self, tracker):
        with maxlogit.Recorder(self.path, mode="replace", forward=tracker) as recorder:
            recorder.log(0, loss=1.5)
            recorder.log(1, loss=0.25, x=[1.0, 3.0])

    def test_offline_tensorboard(self):
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            self.skipTest("no TensorBoard here")
        with SummaryWriter(self.folder / "board") as board:
            self.recorded_to(board)
        self.assertTrue(list((self.folder / "board").iterdir()))

    def test_offline_wandb(self):
        try:
            import wandb
        except ImportError:
            self.skipTest("no wandb here")
        with wandb.init(mode="offline", dir=str(self.folder), project="test"):
            self.recorded_to(wandb)
        (kept,) = self.folder.glob("wandb/offline-run-*/*.wandb")
        for text in (b"loss", b"1.5", b"0.25"):
            self.assertIn(text, kept.read_bytes())

    def test_offline_mlflow(self):
        try:
            import mlflow
        except ImportError:
            self.skipTest("no mlflow here")
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        mlflow.set_tracking_uri(self.folder.as_uri())
        mlflow.set_experiment("test")
        with mlflow.start_run() as run:
            self.recorded_to(mlflow)
        history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
        self.assertEqual([(m.step, m.value) for m in history], [(0, 1.5), (1, 0.25)])

    def test_series_are_arrays(self):
        import copy
        import pickle

        self.record(6, config={"a": 1})
        with maxlogit.open(self.path) as run:
            loss, logits = run["loss"], run["attn/max_logit"]
            truth = np.array([1 / (s + 1) for s in range(6)])
            for found in (np.asarray(loss), loss.to_numpy(), loss[:], np.array(list(loss)), loss + 0, np.array(loss)):
                np.testing.assert_array_equal(found, truth)
                self.assertEqual(found.shape, (6,))
            self.assertEqual((len(loss), loss.shape, loss.dtype, loss.ndim), (6, (6,), np.float64, 1))
            self.assertEqual((np.max(loss), np.mean(logits), loss[0], loss[-1]), (1, np.mean(logits.values), 1, truth[5]))
            self.assertEqual((loss == 1).tolist(), [True] + [False] * 5)
            np.testing.assert_array_equal(2 * logits - loss[:, None, None], 2 * logits.values - truth[:, None, None])
            np.testing.assert_array_equal(np.stack([loss, loss]), [truth, truth])
            np.testing.assert_array_equal(np.exp(loss), np.exp(truth))
            self.assertEqual(np.asarray(loss, np.float32).dtype, np.float32)
            with self.assertRaises(ValueError):
                bool(loss)
            for change in (lambda: loss.__iadd__(1), lambda: np.add(truth, 1, out=loss)):
                with self.assertRaisesRegex(TypeError, "loss: a recorded series cannot be changed"):
                    change()
            out = np.zeros(6)
            self.assertIs(np.add(loss, 1, out=out), out)
            self.assertEqual(repr(logits), "<maxlogit series attn/max_logit: 6 rows x 2 layer x 3 head, 0 to 7.5>")
            self.assertRegex(loss._repr_html_(), "<svg.*polyline.*points=.0.0,2.0 ")
            for other in (pickle.loads(pickle.dumps(logits)), copy.deepcopy(logits)):
                np.testing.assert_array_equal(other, logits)
            for other in (pickle.loads(pickle.dumps(run)), copy.deepcopy(run)):
                np.testing.assert_array_equal(other["loss"], truth)
            self.assertEqual([name for name, _ in run.items()], run.keys())
            self.assertEqual([s.name for s in run.values()], run.keys())
            self.assertEqual((run.get("none"), run.get("none", 3), run.get("loss").name), (None, 3, "loss"))
            try:
                import torch

                self.assertEqual(torch.as_tensor(loss).tolist(), truth.tolist())
            except ImportError:
                pass
            try:
                import pandas

                self.assertEqual(pandas.Series(loss).tolist(), truth.tolist())
            except ImportError:
                pass
        run.close()
        with self.assertRaisesRegex(maxlogit.UsageError, "is closed"):
            run["loss"]

    def test_a_row_is_whole_or_not_at_all(self):
        with maxlogit.Recorder(self.path) as recorder:
            mine = np.zeros(2)

            def source(step):
                recorder.put("source", step)
                if step == 1:
                    raise ZeroDivisionError

            recorder.add_source(source)
            recorder.log(0, loss=1)
            recorder.put("mine", mine)  # by hand: of the row that comes
            mine[:] = 7
            with self.assertRaises(ZeroDivisionError):
                recorder.log(1, loss=2)
            recorder.log(2, other=3)
            recorder.put("mine", mine)  # its row never comes
        run = maxlogit.open(self.path)
        for name, wanted in {
            "loss": [1, np.nan],
            "other": [np.nan, 3],
            "source": [0, 2],
            "mine": [[np.nan] * 2, [0] * 2],
        }.items():
            np.testing.assert_array_equal(run[name].values, wanted, name)
        self.assertEqual(run["loss"].steps.tolist(), [0, 2])

    def test_settings_and_validation_by_their_kind(self):
        with maxlogit.Recorder(self.path, {"a": (1, "b"), "b": [2], "c": True}) as recorder:
            recorder.log(0, {"loss": 1, "val/loss": 2})
            recorder.log(1, loss=1)
        run = maxlogit.open(self.path)
        self.assertEqual([run.config[key] for key in "abc"], ["1+b", "2", "1"])
        self.assertEqual((run["loss"].steps.tolist(), run["val/loss"].steps.tolist()), ([0, 1], [0]))

    def test_an_exception_stops_it(self):
        with self.assertRaises(ZeroDivisionError), maxlogit.Recorder(self.path) as recorder:
            recorder.log(0, loss=1)
            recorder.log(1, loss=1 / 0)
        run = maxlogit.open(self.path)
        self.assertEqual((run.state, run["loss"].values.size), ("stopped", 1))

    def test_killed_it_goes_on(self):
        script = """
            import itertools, sys
            import maxlogit
            recorder = maxlogit.Recorder(sys.argv[1], {"optimizer": "muon"})
            for step in itertools.count(max(0, recorder.last_step - 3)):  # back to a checkpoint
                recorder.log(step, loss=1 / (step + 1))
                print(step, flush=True)
        """
        told = -1
        for life in range(3):
            child = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(script), str(self.path)], stdout=subprocess.PIPE, text=True
            )
            for line in child.stdout:
                told = int(line)
                if told >= 20 * (life + 1):
                    break
            child.send_signal(signal.SIGKILL)
            told = int(([str(told), *child.communicate()[0].split()])[-1])
        recorder = maxlogit.Recorder(self.path)
        self.assertGreaterEqual(recorder.last_step, told)
        last = recorder.last_step
        recorder.close()
        np.testing.assert_array_equal(maxlogit.open(self.path)["loss"].values, [1 / (s + 1) for s in range(last + 1)])

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_the_program_takes_the_journal_of_a_killed_recording(self):
        script = """if 1:
            import maxlogit, os, sys
            recorder = maxlogit.Recorder(sys.argv[1], {"optimizer": "muon"})
            for step in range(9): recorder.log(step, loss=9 - step)
            os.kill(os.getpid(), 9)
        """
        self.path = self.folder / "a run.h5"
        subprocess.run([sys.executable, "-c", script, str(self.path)])
        done = subprocess.run([os.environ["MAXLOGIT_PROGRAM"], "show", self.path], capture_output=True, text=True)
        self.assertRegex(done.stderr, "may have more steps: `maxlogit resume '[^' ]*a run.h5'` puts them into the file")
        done = subprocess.run([os.environ["MAXLOGIT_PROGRAM"], "resume", self.path], capture_output=True, text=True)
        self.assertRegex(done.stderr, "all 9 steps of its journal are in the file")
        self.assertEqual(maxlogit.open(self.path)["loss"].values.tolist(), list(range(9, 0, -1)))
        for state in ("stopped", "finished"):
            self.assertEqual(self.shown(self.path)[0]["state"], state)
            done = subprocess.run([os.environ["MAXLOGIT_PROGRAM"], "resume", self.path], capture_output=True, text=True)
            self.assertEqual((done.returncode, "only that one can go on" in done.stderr), (2, True))
            with maxlogit.Recorder(self.path, mode="resume") as recorder:
                recorder.log(9, loss=0.5)

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_a_loss_of_several_values_is_none_of_the_run(self):
        with maxlogit.Recorder(self.path) as recorder:
            for step in range(10):
                recorder.log(step, loss=[10.0 * step, 10 * step + 1, 10 * step + 2])
        show = [os.environ["MAXLOGIT_PROGRAM"], "show", "--json", self.path]
        shown = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        self.assertIsNone(json.loads(shown)[0]["loss"])
        shown = subprocess.run([*show, "--why"], capture_output=True, text=True, check=True).stdout
        self.assertIsNone(json.loads(shown)[0]["why"]["loss"])

    def printed(self, *words):
        command = [os.environ["MAXLOGIT_PROGRAM"], *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=self.folder).stdout

    def shown(self, *words):
        return json.loads(self.printed("show", "--json", *words))

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_runs_without_a_loss(self):
        for optimizer in ("adam", "muon"):
            for seed in (1, 2, 3):
                path = f"{self.folder}/{optimizer}-{seed}.h5"
                with maxlogit.Recorder(path, {"optimizer": optimizer, "seed": seed, "steps": 7}) as recorder:
                    for step in range(3):
                        recorder.log(step, {"attn/max_logit": [[seed, 2 * step]]})
        runs = [f"{optimizer}-{seed}.h5" for optimizer in ("adam", "muon") for seed in (1, 2, 3)]
        groups = self.shown("--group", *runs)
        self.assertEqual([(g["seeds"], g["loss"]["n"], g["peak_max_logit_geometric"]["n"]) for g in groups], [(3, 0, 3)] * 2)
        self.assertEqual([run["seed"] for run in self.shown("--where", "seed=2", *runs)], [2, 2])
        self.assertEqual(
            len(self.shown("--where", "steps=3", *runs)), 6
        )  # which is a fact of a run, whatever it has recorded
        self.assertRegex(self.printed("show", "--csv", runs[0]), "(?m),1,finished,,,4,4,0$")
        self.assertRegex(self.printed("compare", *runs, "--of=peak", "kind=muon", "kind=adam"), "n=3 pairs")
        self.printed("plot", "-t", "--series=attn/max_logit", *runs)

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_the_last_row_may_lack_values(self):
        with maxlogit.Recorder(self.path, {"optimizer": "muon"}) as recorder:
            for step in range(5):
                recorder.log(step, {} if step > 2 else {"loss": 4 - step}, **{"attn/max_logit": logits_at(step)})
            recorder.log(5, {"attn/max_logit": np.full((2, 3), maxlogit.MISSING)})
        self.assertIn("step 5\n", self.printed("watch", self.path))
        (group,) = self.shown("--group", self.path)
        (run,) = self.shown(self.path)
        self.assertEqual((run["loss"], group["loss"]["mean"]), (2, 2))
        self.assertEqual(run["last_max_logit"], {"value": 6.5, "step": 4, "layer": 1, "head": 2})
        self.assertRegex(self.printed("show", "--csv", "--of=loss,last", self.path), ",2,6.5\n")

    def test_numbers_that_are_missing_or_none(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(0, {"a": np.ma.array([1, 2], mask=[0, 1]), "b": [1.5, None]})
            for wrong in (np.array([1 + 2j, 3]), np.array(["2020-01-01"], "M8[D]"), np.array([5], "m8[s]")):
                with self.assertRaisesRegex(TypeError, "neither a number nor an array of numbers .complex, or a time"):
                    recorder.log(1, {"c": wrong})
        run = maxlogit.open(self.path)
        for name, first in (("a", 1), ("b", 1.5)):
            values = run[name].values
            self.assertEqual(values[0, 0], first)
            self.assertEqual(values[0, 1].astype(np.float64).tobytes(), np.float64(maxlogit.MISSING).tobytes())

    def test_the_wall_time_of_merged_rows(self):
        with maxlogit.Recorder(self.path) as recorder:
            for step in range(4):
                time.sleep(0.1)
                recorder.log(step, loss=1)
                recorder.log(step, accuracy=1)
        self.assertGreaterEqual(maxlogit.open(self.path).wall_seconds, 0.4)

    def test_places_keep_their_names(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.define("x", (2,))
            recorder.axis("layer", ["enc", "dec"])
            recorder.log(0, x=[1, 2])
        with maxlogit.Recorder(self.path, mode="resume") as recorder:
            recorder.define("x", (2,))
            self.assertEqual(recorder.places_of("x", "layer"), ["enc", "dec"])
            with self.assertRaisesRegex(maxlogit.UsageError, "axis 'layer': place 0 is called enc in this file, not dec"):
                recorder.axis("layer", ["dec", "enc"])
            recorder.axis("layer", ["enc", "dec"])
            recorder.log(1, x=[3, 4])
        self.assertEqual(maxlogit.open(self.path)["x"].places, {"layer": ["enc", "dec"]})

    def test_what_is_refused_leaves_nothing(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(9, loss=9, a=1)
        with maxlogit.Recorder(self.path, mode="resume") as recorder:
            recorder.event(10, "spike")
            with self.assertRaisesRegex(maxlogit.UsageError, "steps grow"):
                recorder.log(5, loss=555, b=5)
            with self.assertRaisesRegex(maxlogit.UsageError, "'a' is there with other axes"):
                recorder.define("a", (2,))
            recorder.log(12, lr=0.5)
            recorder.log(12, c=1)
        run = maxlogit.open(self.path)
        np.testing.assert_array_equal(run["loss"].values, [9, np.nan])
        np.testing.assert_array_equal(run["c"].values, [np.nan, 1])

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_runs_that_nothing_names_are_no_seeds(self):
        for name, config in (("a", {}), ("b", {}), ("c", {"seed": 1}), ("d", {"seed": 2}), ("e", {"seed": 2})):
            with maxlogit.Recorder(f"{self.folder}/{name}.h5", config) as recorder:
                recorder.log(0, loss=1)
        shutil.copy(f"{self.folder}/a.h5", f"{self.folder}/copy.h5")
        self.assertEqual([g["seeds"] for g in self.shown("--group", "a.h5", "b.h5", "c.h5", "d.h5")], [1, 1, 2])
        self.assertEqual([run["kind"] for run in self.shown("a.h5", "b.h5")], ["a", "b"])
        program = os.environ["MAXLOGIT_PROGRAM"]
        done = subprocess.run([program, "show", "--group", "d.h5", "e.h5"], capture_output=True, text=True, cwd=self.folder)
        self.assertIn("d.h5 and e.h5 have the same seed, 2, and count as two", done.stderr)
        done = subprocess.run([program, "plot", "-t", "a.h5", "copy.h5"], capture_output=True, text=True, cwd=self.folder)
        self.assertRegex(done.stderr, "a.h5 and copy.h5 are the same run .*; give it once")
        done = subprocess.run(
            [program, "report", "a.h5", "copy.h5", "-o", "page"], capture_output=True, text=True, cwd=self.folder
        )
        self.assertIn("left out of the page: copy.h5 is a copy of a.h5", done.stderr)
        self.assertNotIn('"path":"copy.h5"', (self.folder / "page/data/index.js").read_text())

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_the_first_row_may_lack_values(self):
        for name, loss in (("grown", 40), ("held", 1)):
            with maxlogit.Recorder(f"{self.folder}/{name}.h5", {"optimizer": "muon"}) as recorder:
                recorder.log(0, {"attn/max_logit": [[maxlogit.MISSING, 1]]})
                for step in range(1, 30):
                    recorder.log(step, {"attn/max_logit": [[9 if step < 9 else 0.01, 1]]}, loss=loss if step > 9 else 2)
        self.assertEqual([run["state"] for run in self.shown("grown.h5", "held.h5")], ["blown-up", "finished"])
        self.assertRegex(self.printed("show", "--dead", "held.h5"), "0 0 attn/max_logit 9 9 0.01 no")

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_keys_of_other_programs(self):
        for rate in ("0.001", "0.1"):
            for seed in (1, 2):
                config = {
                    "optimizer": "adamw",
                    "seed": seed,
                    "learning_rate": rate,
                    "run_name": f"{rate}-{seed}",
                    "optim": "x",
                }
                if rate == "0.1" and seed == 2:
                    config["optim"] = "y"
                with maxlogit.Recorder(f"{self.folder}/{rate}-{seed}.h5", config) as recorder:
                    recorder.log(0, loss=float(rate) + seed)
        command = [os.environ["MAXLOGIT_PROGRAM"], "show", "--group", "."]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        self.assertRegex(done.stderr, "runs of one group differ in (learning_rate, optim|optim, learning_rate): --by ")
        groups = self.shown("--group", "--by", "learning_rate", ".")
        self.assertEqual([(g["group"], g["seeds"]) for g in groups], [("learning_rate=0.001", 2), ("learning_rate=0.1", 2)])
        self.assertEqual(len(self.shown("--where", "learning_rate<0.01", ".")), 2)
        self.assertEqual([run["seed"] for run in self.shown("--sort", "-learning_rate", ".")][:2], [1, 2])
        self.assertIn("training loss", self.printed("plot", ".", "-t", "--x", "learning_rate", "--y", "loss"))
        for words in (["show", "--by", "learnin_rate"], ["plot", "-t", "--x", "learnin_rate", "--y", "loss"]):
            done = subprocess.run([command[0], *words, "."], capture_output=True, text=True, cwd=self.folder)
            self.assertEqual(done.returncode, 2)
            self.assertIn("learnin_rate: no such key", done.stderr)

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_large_losses_have_all_their_digits(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(0, loss=-1.5e308)
        self.assertRegex(self.printed("show", self.path), r" -1\.5e\+308 ")

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_a_band_is_of_equal_columns(self):
        for name, loss in (("a.h5", 1.0), ("b.h5", [1.0] * 9)):
            with maxlogit.Recorder(f"{self.folder}/{name}", {"optimizer": "x"}) as recorder:
                recorder.log(0, loss=loss)
        plot = [os.environ["MAXLOGIT_PROGRAM"], "plot", "-t", "--by=optimizer", "--figure=loss", "a.h5", "b.h5"]
        done = subprocess.run(plot, capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "b.h5: its loss has other columns than that of a.h5")

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_watch_prints_max_logits_that_are_there(self):
        for values, wanted in (
            ({}, "step 0  loss 1.0000"),
            ({"attn/max_logit": [2, 5]}, "step 0  loss 1.0000  max logit 5 (L1)"),
        ):
            with maxlogit.Recorder(self.path, mode="replace") as recorder:
                recorder.log(0, values, loss=1)
            watch = [os.environ["MAXLOGIT_PROGRAM"], "watch", self.path]
            told = subprocess.run(watch, capture_output=True, text=True, check=True).stdout
            self.assertEqual(told.splitlines()[0], wanted)

    @unittest.skipUnless("MAXLOGIT_PROGRAM" in os.environ, "the program is not here")
    def test_the_page_has_max_logits_of_a_run_that_is_written(self):
        with maxlogit.Recorder(self.path) as recorder:
            for step, peak in enumerate((None, None, {"value": 3.5, "step": 2, "layer": 1, "head": 2})):
                recorder.log(step, loss=1, **({"attn/max_logit": logits_at(1)} if peak else {}))
                subprocess.run(
                    [os.environ["MAXLOGIT_PROGRAM"], "report", self.path, "-o", f"{self.path}.{step}"],
                    capture_output=True,
                    check=True,
                )
                with open(f"{self.path}.{step}/data/index.js") as f:
                    self.assertIn(f'"peak":{json.dumps(peak, separators=(",", ":"))}', f.read())

    def test_a_program_may_change_its_folder(self):
        above = os.getcwd()
        self.addCleanup(os.chdir, above)
        os.chdir(self.folder)
        os.mkdir("other")
        self.record(1, "other/rel.h5", config={"of": "another run"})
        with maxlogit.Recorder("rel.h5") as recorder:
            recorder.log(0, loss=1.0)
            recorder.snapshot()
            before = maxlogit.open("rel.h5")
            os.chdir("other")
            recorder.log(1, loss=2.0)
            self.assertEqual(pickle.loads(pickle.dumps(before)).config, {})
            self.assertEqual(list(before["loss"]), [1.0])
            self.assertEqual(list(before["loss"]), [1.0])
        self.assertEqual(list(maxlogit.open(self.folder / "rel.h5")["loss"]), [1.0, 2.0])

    def test_numbers_of_another_run_are_not_those_of_this_one(self):
        self.record(2)
        run = maxlogit.open(self.path)
        self.assertEqual(len(run["loss"]), 2)
        self.record(3, mode="replace", config={"of": "another run"})
        with self.assertRaisesRegex(maxlogit.MaxlogitError, "was replaced by another run while it was read"):
            run["loss"]

    def test_a_refused_row_leaves_no_values(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(10, val_loss=1.0)
            with self.assertRaisesRegex(maxlogit.UsageError, "a row of step 5 after one of step 10"):
                recorder.log(5, val_loss=2.0, loss=3.0)
            recorder.log(11, lr=0.1)
            with self.assertRaisesRegex(maxlogit.UsageError, "below 2\\^53"):
                recorder.log_rows({"q": ([12, 1 << 60], [1.0, 2.0])})
            recorder.log(13, lr=0.2)
        run = maxlogit.open(self.path)
        self.assertEqual((list(run["val_loss"].steps), list(run["lr"].steps)), ([10], [11, 12, 13]))
        self.assertNotIn("loss", run)
        np.testing.assert_array_equal(run["q"].values, [np.nan, 1, np.nan])

    def test_of_two_new_recordings_of_one_name_none_is_lost(self):
        """The second is refused, or goes on in the file if the first is done."""
        program = """if 1:
            import maxlogit, sys
            print("begun", flush=True)
            sys.stdin.readline()
            try:
                with maxlogit.Recorder(sys.argv[1], mode=sys.argv[2]) as r:
                    r.log(int(sys.argv[3]), loss=1.0)
            except maxlogit.MaxlogitError as problem:
                sys.exit(f"{problem}")
        """
        for mode in ("new", "auto"):
            for trial in range(5):
                path = self.folder / f"{mode}{trial}.h5"
                command = [sys.executable, "-c", program, path, mode]
                two = [subprocess.Popen([*command, str(i)], stdin=-1, stdout=-1, stderr=-1, text=True) for i in range(2)]
                for one in two:
                    one.stdout.readline()
                for one in two:
                    one.stdin.write("\n")
                    one.stdin.flush()
                said = [one.communicate()[1] for one in two]
                done = [step for step, one in enumerate(two) if one.returncode == 0]
                self.assertEqual(maxlogit.open(path)["loss"].steps.tolist(), done, said)
                self.assertTrue(len(done) == 1 or mode == "auto", said)

    def test_a_process_forked_while_a_thread_writes_can_read(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(0, loss=1.0)
            recorder.snapshot()
            ends = threading.Event()

            def snapshots():
                while not ends.is_set():
                    recorder.snapshot()

            thread = threading.Thread(target=snapshots)
            thread.start()
            try:
                children = []
                for _ in range(20):
                    child = os.fork()
                    if not child:
                        signal.alarm(20)
                        try:
                            os._exit(int(maxlogit.open(self.path)["loss"][0] != 1))
                        finally:
                            os._exit(2)
                    children.append(child)
                self.assertEqual([os.waitpid(child, 0)[1] for child in children], [0] * 20)
            finally:
                ends.set()
                thread.join()

    def test_a_private_run_keeps_its_rows_private(self):
        def mask():
            now = os.umask(0o22)
            os.umask(now)
            return now

        self.record(1)
        os.chmod(self.path, 0o600)
        before = mask()
        for mode in ("resume", "replace"):
            with maxlogit.Recorder(self.path, mode=mode) as recorder:
                recorder.log(recorder.last_step + 1, loss=1.0)
                for file in self.folder.glob("run.*5"), self.folder.glob("run.journal"):
                    self.assertEqual([one.stat().st_mode & 0o77 for one in file], [0])
            self.assertEqual((mask(), self.path.stat().st_mode & 0o777), (before, 0o600))

    def test_a_link_stays(self):
        real, link = self.folder / "real", self.folder / "link.h5"
        real.mkdir()
        program = """if 1:
            import maxlogit, os, sys
            recorder = maxlogit.Recorder(sys.argv[1])
            for step in range(9):
                recorder.log(step, loss=1.0)
            os._exit(0)
        """
        subprocess.run([sys.executable, "-c", program, real / "run.h5"], check=True)
        link.symlink_to("real/run.h5")
        with maxlogit.Recorder(link) as recorder:
            self.assertEqual(recorder.last_step, 8)
            recorder.log(9, loss=2.0)
        self.assertTrue(link.is_symlink())
        self.assertEqual(len(maxlogit.open(real / "run.h5")["loss"]), 10)
        self.assertEqual(sorted(one.name for one in real.iterdir()), ["run.h5"])

    def test_a_close_that_failed_is_tried_again(self):
        for whole in (False, True):
            recorder = maxlogit.Recorder(self.folder / f"{whole}.h5", whole=whole)
            recorder.log(0, loss=1.0)
            with self.assertRaisesRegex(maxlogit.UsageError, "is not a state"):
                recorder.close("gone")
            (self.folder / f"{whole}.lock").rename(self.folder / "moved")
            with self.assertRaisesRegex(maxlogit.MaxlogitError, "another process has taken this run over"):
                recorder.close()
            (self.folder / "moved").rename(self.folder / f"{whole}.lock")
            recorder.close()
            recorder.close()
            self.assertEqual(list(maxlogit.open(self.folder / f"{whole}.h5")["loss"]), [1.0])

    def test_files_of_other_programs_are_not_replaced(self):
        try:
            import h5py
        except ImportError:
            self.skipTest("no h5py here")
        with h5py.File(self.path, "w") as file:
            file["images"] = [1, 2, 3]
        with self.assertRaisesRegex(maxlogit.UsageError, "exists, and is not a run file"):
            maxlogit.Recorder(self.path, mode="replace")

    def test_rows_of_all_kinds_of_a_step_stay(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(15, loss=3.0)
            recorder.log(16, val_loss=0.5)
            recorder.log(16, loss=2.0)
            recorder.log(16, lr=0.1)
            recorder.log_rows({"q": ([17, 18], [1.0, 2.0])})
            recorder.log(18, val_loss=0.25)
            recorder.log(18, q=3.0)
            recorder.log(19, val_loss=0.125)
            with self.assertRaisesRegex(maxlogit.UsageError, "a row of step 18 after one of step 19"):
                recorder.log(18, loss=1.0)
        run = maxlogit.open(self.path)
        self.assertEqual((list(run["val_loss"].steps), list(run["val_loss"])), ([16, 18, 19], [0.5, 0.25, 0.125]))
        np.testing.assert_array_equal(run["loss"].values, [3, 2, np.nan, np.nan])
        np.testing.assert_array_equal(run["lr"].values, [np.nan, 0.1, np.nan, np.nan])
        np.testing.assert_array_equal(run["q"].values, [np.nan, np.nan, 1, 3])

    def test_a_path_is_wanted(self):
        with self.assertRaisesRegex(maxlogit.UsageError, "the path of the run file is empty"):
            maxlogit.Recorder("")

    def test_a_forked_process_leaves_it_alone(self):
        recorder = maxlogit.Recorder(self.path)
        recorder.log(0, loss=1)
        child = os.fork()
        if not child:
            recorder.__del__()
            os._exit(0)
        os.waitpid(child, 0)
        with self.assertRaises(maxlogit.MaxlogitError):
            maxlogit.Recorder(self.path, mode="resume")
        recorder.log(1, loss=1)
        recorder.close()
        self.assertEqual(maxlogit.open(self.path).steps, 2)

    def test_a_forked_process_does_not_end_it(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(0, loss=1)
            child = os.fork()
            if not child:
                status = 1
                try:
                    recorder.log(1, loss=7)
                except maxlogit.UsageError as problem:
                    status = "forked from" not in str(problem)
                recorder.close()
                os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(maxlogit.open(self.path).state, "running")
            recorder.log(1, loss=2)
        run = maxlogit.open(self.path)
        self.assertEqual((run.state, run["loss"].values.tolist()), ("finished", [1, 2]))

    def test_threads_share_them(self):
        self.record(40)
        shared, problems = maxlogit.open(self.path), []
        recorder = maxlogit.Recorder(f"{self.folder}/threads.h5", {})

        def work(number):
            try:
                for i in range(60):
                    np.testing.assert_array_equal(shared["attn/max_logit"].values[3], logits_at(3))
                    len(shared.events)
                    recorder.event(0, f"kind{number}", value=i)
                    recorder.put(f"x{number}", i)
            except BaseException as problem:
                problems.append(problem)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.log(0, loss=1)
        recorder.close()
        self.assertEqual(problems, [])
        run = maxlogit.open(recorder.path)
        self.assertEqual(
            sorted((e.kind, e.value) for e in run.events), [(f"kind{n}", i) for n in range(4) for i in range(60)]
        )
        self.assertEqual([float(run[f"x{n}"].values[0]) for n in range(4)], [59] * 4)

    def test_names_with_dots_are_places(self):
        axes = {"my.axis": ["a", "b"], "your.axis": ["0.1", "1.0"], "a.b.c": ["0", "1"]}
        with maxlogit.Recorder(self.path) as recorder:
            for axis, places in axes.items():
                recorder.define(f"of/{axis}", (2, 2), ("layer", axis))
                recorder.axis(axis, places)
            recorder.log(0, {f"of/{axis}": [[1, 2], [3, 4]] for axis in axes})
        run = maxlogit.open(self.path)
        for axis, places in axes.items():
            series = run[f"of/{axis}"]
            self.assertEqual((series.axes, series.shape, series.places[axis]), (("layer", axis), (1, 2, 2), places))

    def log_with_fault(self, call, first, rows):
        """In a process of its own, which then dies: log rows, while one call that reaches the disk fails."""
        child = os.fork()
        if child:
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            return json.loads((self.folder / "returned").read_text())
        returned = {}
        try:
            os.environ["MAXLOGIT_FAULT"] = f"io:{call}:eio"
            recorder = maxlogit.Recorder(self.path, mode="resume" if first else "new")
            for step, values in rows:
                try:
                    recorder.log(step, values)
                except maxlogit.MaxlogitError:
                    returned.update((f"{step} {name}", None) for name in values)  # either is right
                else:
                    returned.update((f"{step} {name}", value) for name, value in values.items())
        except maxlogit.MaxlogitError:
            pass  # it could not be opened
        finally:
            (self.folder / "returned").write_text(json.dumps(returned))
            os._exit(0)

    def test_rows_that_replace_others_survive_a_failed_write(self):
        merged = [(0, {"a": 1.0}), (0, {"b": 2.0}), (0, {"a": 3.0}), (0, {"a": 3.5}), (1, {"a": 4.0})]
        again = [(5, {"a": 105.0}), (5, {"a": 106.0}), (6, {"a": 107.0})]
        for rows, before in ((merged, 0), (again, 10)):
            for call in range(8, 56, 3):
                for left in self.folder.glob("run.*"):
                    left.unlink()
                if before:
                    recorder = maxlogit.Recorder(self.path)
                    for step in range(before):
                        recorder.log(step, a=step)
                    recorder.close()
                returned = self.log_with_fault(call, before, rows)
                with maxlogit.Recorder(self.path, mode="resume"):
                    pass
                run = maxlogit.open(self.path)
                kept = {f"{step:g} {name}": v for name in run for step, v in zip(run[name].steps, run[name].values)}
                for place, value in returned.items():
                    if value is not None:
                        self.assertEqual(kept.get(place), value, f"call {call}: {place}")

    def test_a_merge_keeps_rows_that_could_not_be_written(self):
        recorder = maxlogit.Recorder(self.path)
        recorder.log(0, a=0)
        with unittest.mock.patch.dict(os.environ, MAXLOGIT_FAULT="io:1:enospc"):
            for step in (1, 2):
                self.assertRaises(maxlogit.MaxlogitError, recorder.log, step, a=step)
        recorder.log(2, a=20)
        recorder.close()
        self.assertEqual(maxlogit.open(self.path)["a"].values.tolist(), [0, 1, 20])

    def test_a_close_that_cannot_open_its_file_is_tried_again(self):
        recorder = maxlogit.Recorder(self.path)
        recorder.log(1, loss=1)
        with unittest.mock.patch.object(recorder, "_reopen", side_effect=OSError(28, "full")):
            with self.assertRaises(OSError):
                recorder.log(1, loss=2)
            with self.assertRaises(OSError):
                recorder.close()
        recorder.close()
        self.assertEqual(maxlogit.open(self.path).state, "finished")

    def test_no_rows_are_no_first_rows(self):
        self.record(2)
        with maxlogit.Recorder(self.path, mode="resume") as recorder:
            recorder.log_rows({})
            with self.assertWarnsRegex(UserWarning, "its rows of steps 1 to 1"):
                recorder.log(1, loss=5)

    def test_an_interrupt_before_the_row_is_kept(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(1, loss=1.5)
            with unittest.mock.patch.object(recorder, "_keep_last", side_effect=KeyboardInterrupt):
                with self.assertRaises(KeyboardInterrupt):
                    recorder.log(2, loss=2.5)
            with self.assertRaisesRegex(maxlogit.UsageError, "step 2 has its row"):
                recorder.log(2, late=9)
            recorder.log(3, loss=3.5)
        self.assertEqual(maxlogit.open(self.path)["loss"].values.tolist(), [1.5, 2.5, 3.5])

    def test_an_interrupt_while_it_is_closed(self):
        library, call = maxlogit._record.library, maxlogit._record.library.call

        def interrupted(name, *given):
            call(name, *given)
            raise KeyboardInterrupt

        for whole in (False, True):
            recorder = maxlogit.Recorder(self.path, mode="replace", whole=whole)
            recorder.log(0, loss=1)
            with unittest.mock.patch.object(library, "call", interrupted), self.assertRaises(KeyboardInterrupt):
                recorder.close()
            recorder.close()
            with self.assertRaisesRegex(maxlogit.UsageError, "is closed"):
                recorder.log(1, loss=2)
            del recorder
            self.assertEqual((maxlogit.open(self.path).state, len(maxlogit.open(self.path)["loss"])), ("finished", 1))

    def test_other_ranks_write_nothing(self):
        with maxlogit.Recorder(self.path, rank=1) as recorder:
            recorder.log(0, loss=1)
            recorder.event(0, "clip")
            self.assertEqual(recorder.last_step, 0)
        self.assertFalse(self.path.exists())

    @unittest.skipUnless(os.geteuid() == 0, "only root makes links of others")
    def test_a_link_of_another_user_is_left_out(self):
        self.record(2, path=f"{self.folder}/a.h5")
        for name in ("own", "theirs"):
            os.symlink("a.h5", f"{self.folder}/{name}.h5")
        os.lchown(f"{self.folder}/theirs.h5", 65534, 65534)
        with self.assertWarnsRegex(UserWarning, "theirs.h5 is a symbolic link of another user"):
            self.assertEqual([Path(run.path).name for run in maxlogit.open_all(self.folder)], ["a.h5", "own.h5"])

    def test_open_all(self):
        for optimizer in ("adam", "muon"):
            for lr in (0.001, 0.02):
                self.record(2, self.folder / f"{optimizer}-{lr}.h5", {"optimizer": optimizer, "train.lr": lr})
        (self.folder / "other.h5").write_text("no run")

        def names(where):
            return [os.path.basename(run.path) for run in maxlogit.open_all(self.folder, where)]

        self.assertEqual(len(names("")), 4)
        self.assertEqual(names("optimizer=muon & train.lr<0.01"), ["muon-0.001.h5"])
        self.assertEqual(names("train.lr=2e-2 & optimizer=muon, adam"), ["adam-0.02.h5", "muon-0.02.h5"])
        self.assertEqual(len(names("no.key != 3 & state=finished")), 4)
        with open(self.folder / "muon-0.02.h5", "r+b") as damaged:
            damaged.seek(3000)
            damaged.write(b"something else")
        os.symlink("nowhere", self.folder / "gone.h5")
        with self.assertWarnsRegex(UserWarning, "left out: .*muon-0.02.h5"):
            self.assertEqual(names("optimizer=muon"), ["muon-0.001.h5"])
        with self.assertRaisesRegex(maxlogit.UsageError, "is not a condition"):
            names("muon")
        with self.assertRaisesRegex(maxlogit.UsageError, "a number is wanted"):
            names("train.lr<small")

    def test_frames(self):
        try:
            import pandas  # noqa: F401
            import xarray  # noqa: F401
        except ImportError:
            self.skipTest("no pandas and xarray here")
        self.record(6)
        run = maxlogit.open(self.path)
        frame = run["attn/max_logit"].to_pandas()
        self.assertEqual(frame.loc[3, (1, 2)], logits_at(3)[1, 2])
        self.assertEqual(run.to_pandas().loc[5, "loss"], 1 / 6)
        data = run.to_xarray()
        self.assertEqual(float(data["attn/max_logit"].sel(step=3, layer=1, head=2)), logits_at(3)[1, 2])
        self.assertEqual(data.attrs["state"], "finished")


class Numbers(unittest.TestCase):
    def test_attention(self):
        rng = np.random.default_rng(1)
        q, k = rng.normal(size=(2, 4, 50, 8)), rng.normal(size=(2, 2, 70, 8))
        half, whole = np.float16, np.float32
        for q_kind, k_kind in ((whole, whole), (half, half), (half, whole), (whole, half)):  # each as exact as it comes
            q_, k_ = q.astype(q_kind).astype(float), k.astype(k_kind).astype(float)
            s = np.einsum("bhid,bhjd->bhij", q_, np.repeat(k_, 2, axis=1)) * 0.3
            see = np.arange(70) <= np.arange(50)[:, None] + 20
            s = np.where(see, s, -np.inf)
            p = np.exp(s - s.max(-1, keepdims=True))
            p /= p.sum(-1, keepdims=True)
            entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1).mean((0, 2))
            found = maxlogit.attention_maxima(q.astype(q_kind), k.astype(k_kind), scale=0.3, causal=True)
            np.testing.assert_allclose(found[0], s.max((0, 2, 3)), rtol=1e-5)
            np.testing.assert_allclose(found[1], np.abs(np.where(see, s, 0)).max((0, 2, 3)), rtol=1e-5)
            np.testing.assert_allclose(found[2], entropy, rtol=1e-5)
        with self.assertRaises(maxlogit.UsageError):
            maxlogit.attention_maxima(q, k[:, :, :, :7])

    def test_spectra(self):
        rng = np.random.default_rng(2)
        w_q, w_k = rng.normal(size=(32, 20)), rng.normal(size=(16, 20))
        own, form = maxlogit.spectra(w_q, 4), maxlogit.spectra(w_q, 4, w_k, 2)
        for h in range(4):
            block, key = w_q[8 * h : 8 * h + 8], w_k[8 * (h // 2) : 8 * (h // 2) + 8]
            np.testing.assert_allclose(own.spectral_norm[h], np.linalg.norm(block, 2), rtol=1e-5)
            np.testing.assert_allclose(form.spectral_norm[h], np.linalg.norm(block.T @ key, 2), rtol=1e-5)
            np.testing.assert_allclose(form.frobenius_norm[h], np.linalg.norm(block.T @ key), rtol=1e-5)
        bound = maxlogit.form_bounds(w_q, 4, w_k, 2, 0.5)
        self.assertTrue((bound >= 0.5 * 20 * form.spectral_norm).all())
        with self.assertRaises(maxlogit.UsageError):
            maxlogit.spectra(w_q, 5)

    def test_clip_factors(self):
        q, k, gamma = maxlogit.clip_factors([50, 200, 100, 400], 2, tau=100, gqa="q_only")
        np.testing.assert_array_equal(q, np.float32([1, 0.5, 1, 0.25]))
        np.testing.assert_array_equal(k, [1, 1])
        np.testing.assert_array_equal(gamma, q)
        q, k, gamma = maxlogit.clip_factors([50, 400], tau=100, alpha=0.5)
        np.testing.assert_array_equal((q, k, gamma), [[1, 0.5], [1, 0.5], [1, 0.25]])
        q, k, rope, shared, _ = maxlogit.clip_factors_mla([50, 400], tau=100)
        self.assertEqual((q[1], k[1], rope[1], shared), (0.5, 0.5, 0.25, 1))
        with self.assertRaisesRegex(maxlogit.UsageError, "q_only, group_max"):
            maxlogit.clip_factors([1], tau=100, gqa="none")


if __name__ == "__main__":
    unittest.main()
