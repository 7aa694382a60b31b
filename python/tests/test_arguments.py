"""Every argument of the recorder, the reader and the instruments, and every error that they say: against the documented
definitions, written out again by numpy."""

import ast
import math
import os
import subprocess
import sys
import types
import unittest
from datetime import datetime, timezone
from pathlib import Path
from unittest import mock

import numpy as np

import in_folder
import maxlogit
from maxlogit import _library, _record


class InFolder(in_folder.InFolder):
    def said(self, message, call, kind=maxlogit.UsageError):
        with self.assertRaisesRegex(kind, message):
            call()


class Sources(unittest.TestCase):
    def test_grammar(self):
        """Of Python 3.9, the oldest that is supported."""
        files = sorted((Path(__file__).parent.parent).glob("**/*.py"))
        self.assertGreater(len(files), 20)
        for file in files:
            with self.subTest(file.name):
                ast.parse(file.read_text(), feature_version=(3, 9))


class Settings(unittest.TestCase):
    def test_flat(self):
        config = {"a": {"b": {"c": None, "d": False}, "e": 1.5}, "f": (), "g": [1], "h": ["x", 2], 3: "three", "i": True}
        wanted = {"a.b.c": "", "a.b.d": "0", "a.e": "1.5", "f": "", "g": "1", "h": "x+2", "3": "three", "i": "1"}
        self.assertEqual(_record.flat(config), wanted)

    def test_missing_is_a_nan_of_its_own(self):
        self.assertTrue(math.isnan(maxlogit.MISSING))
        self.assertEqual(np.float64(maxlogit.MISSING).view(np.uint64), 0x7FF8000020000000)
        self.assertNotEqual(np.float32(maxlogit.MISSING).view(np.uint32), np.float32("nan").view(np.uint32))


class Recording(InFolder):
    def test_what_is_defined_is_read(self):
        of_rows = {"step": [0, 3, 4], "spectra": [3], "validation": [0, 4], "probe": [4]}
        with maxlogit.Recorder(self.path, data="a text") as recorder:
            for rows in of_rows:
                for shape, axes in (
                    ((), None),
                    ((2,), None),
                    ((2, 3), None),
                    ((4,), ("expert",)),
                    ((2, 5), ("layer", "bin")),
                ):
                    name = f"of_{rows}/{'_'.join(axes or ('plain',))}{len(shape)}"
                    recorder.define(
                        name,
                        shape,
                        axes,
                        unit=f"u{len(shape)}",
                        long_name=f"long {name}",
                        definition=f"def {name}",
                        rows=rows,
                    )
            recorder.define("bare")
            recorder.axis("expert", ["a", "b", "c", "d"])
            for step in (0, 3, 4):
                for rows, steps in of_rows.items():
                    if step in steps:
                        recorder.put(f"of_{rows}/plain0", step + 0.1)
                        recorder.put(f"of_{rows}/plain1", np.full(2, step, np.float32))
                        recorder.put(f"of_{rows}/plain2", np.arange(6).reshape(2, 3).T[::-1].T + step)
                        recorder.put(f"of_{rows}/expert1", range(4))
                        recorder.put(f"of_{rows}/layer_bin2", np.asfortranarray(np.arange(10.0).reshape(2, 5)))
                recorder.log(step, bare=step)
        run = maxlogit.open(self.path)
        self.assertEqual((run.data, len(run)), ("a text", 21))
        for rows, steps in of_rows.items():
            plain = [run[f"of_{rows}/plain{n}"] for n in range(3)]
            for n, series in enumerate(plain):
                self.assertEqual(series.steps.tolist(), steps)
                self.assertEqual(series.steps.dtype, np.int64)
                self.assertEqual(series.axes, ((), ("layer",), ("layer", "head"))[n])
                self.assertEqual(series.places, {})
                told = (series.name, series.unit, series.long_name, series.definition)
                self.assertEqual(
                    told, (f"of_{rows}/plain{n}", f"u{n}", f"long of_{rows}/plain{n}", f"def of_{rows}/plain{n}")
                )
            np.testing.assert_array_equal(plain[0].values, [step + 0.1 for step in steps])
            np.testing.assert_array_equal(plain[1].values, [[step, step] for step in steps])
            np.testing.assert_array_equal(plain[2].values, [np.arange(6).reshape(2, 3)[:, ::-1] + step for step in steps])
            other = run[f"of_{rows}/layer_bin2"]
            self.assertEqual(other.axes, ("layer", "bin"))
            np.testing.assert_array_equal(other.values, [np.arange(10).reshape(2, 5)] * len(steps))
            self.assertEqual(run[f"of_{rows}/expert1"].places, {"expert": ["a", "b", "c", "d"]})
        self.assertEqual((run["bare"].unit, run["bare"].long_name), ("1", "bare"))

    def test_what_is_not_defined_has_its_shape(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(np.int64(2), {"a": 1, "val_a": 2, "value": 4}, val_b=np.float32(3), b=[1, 2], a=7)
        run = maxlogit.open(self.path)
        self.assertEqual(sorted(run), ["a", "b", "val_a", "val_b", "value"])
        self.assertEqual(run["a"].values.tolist(), [7])  # a keyword is the later one
        self.assertEqual((run["b"].axes, run["b"].values.tolist()), (("layer",), [[1, 2]]))
        if "MAXLOGIT_PROGRAM" in os.environ:
            command = [os.environ["MAXLOGIT_PROGRAM"], "export", "--list", str(self.path)]
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            self.assertEqual(sum(line.startswith("val") for line in said.splitlines()), 3)

    def test_wrong_definitions(self):
        for rank in (0, 1):
            with maxlogit.Recorder(self.path, mode="replace", rank=rank) as recorder:
                recorder.define("a", [np.int64(2)])
                for message, call in (
                    (r"x: shape \(1,\) with axes \(\)", lambda: recorder.define("x", (1,), ())),
                    (r"x: shape \(1, 2, 3\) with axes", lambda: recorder.define("x", (1, 2, 3), ("a", "b"))),
                    ("x: rows 'steps': step, spectra, validation, probe", lambda: recorder.define("x", rows="steps")),
                    (r"a has shape \(2,\), not \(\)", lambda: recorder.put("a", 1)),
                    (r"a has shape \(2,\), not \(3,\)", lambda: recorder.log(0, a=[1, 2, 3])),
                    (r"step -1: steps count from 0", lambda: recorder.log(-1)),
                    (r"step 9007199254740992: .* below 2\^53", lambda: recorder.log(1 << 53)),
                ):
                    self.said(message, call)
                for wrong in (lambda: recorder.log(1.0), lambda: recorder.log("1"), lambda: recorder.put("x", "one")):
                    self.said("", wrong, (TypeError, ValueError))
                self.assertEqual(recorder.last_step, -1)
                recorder.log(0, a=[1, 2])
                recorder.log(5, a=[1, 2])
                for step in (0, np.int32(4)):
                    self.said(f"a row of step {step} after one of step 5: steps grow", lambda step=step: recorder.log(step))
                self.assertEqual(recorder.last_step, 5)
            self.said("is closed", lambda: recorder.log(6))
            self.said("is closed", lambda: recorder.put("a", [1, 2]))
            self.said("is closed", lambda: recorder.define("b"))
            self.said("is closed", lambda: recorder.axis("layer", ["a", "b"]))
            self.assertEqual(self.path.exists(), rank == 0)
            self.path.unlink(missing_ok=True)
        with maxlogit.Recorder(self.path) as recorder:
            recorder.define("a", (2,))
            self.said("", lambda: recorder.axis("layer", ["a"]))
            self.said("", lambda: recorder.define("a", (3,)))
            self.said("NUL", lambda: recorder.note("a\0b"))
            self.said("NUL", lambda: recorder.define("a\0b"))
            self.said("", lambda: recorder.event(0, "x" * 24))
            recorder.event(0, "x" * 23, 1)

    def test_places_of_axes(self):
        """What would lie where an axis lies in the file is refused before there is anything to lose."""
        with maxlogit.Recorder(self.path) as recorder:
            recorder.define("a", (2, 3))
            recorder.define("free/b")
            for name in (
                "layer",
                "layer/x",
                "head/x/y",
                "layer_name",
                "layer_name/x",
                "step/x",
                "spectra_step/x",
                "a/b",
                "free",
            ):
                self.said(f"series '{name}'", lambda name=name: recorder.define(name))
                self.said(f"series '{name}'", lambda name=name: recorder.log(0, {name: 1}))
            self.said("two things are called 'own'", lambda: recorder.define("own/x", (2,), ("own",)))
            self.said("axis 'free': series 'free/b' has its place", lambda: recorder.define("c", (2,), ("free",)))
            self.said("axis 'a': that is a series", lambda: recorder.define("c", (2,), ("a",)))
            self.said("'step'", lambda: recorder.define("c", (2,), ("step",)))
            recorder.log(0, {"layers/x": 1, "a_b": 2, "head_q/x": 3})
        self.assertEqual(sorted(maxlogit.open(self.path)), ["a", "a_b", "free/b", "head_q/x", "layers/x"])

    def test_modes(self):
        def losses():
            run = maxlogit.open(self.path)
            return run.state, run["loss"].values.tolist()

        for mode in ("auto", "new", "resume", "replace"):
            self.path.unlink(missing_ok=True)
            with maxlogit.Recorder(self.path, mode=mode) as recorder:
                self.assertEqual(recorder.last_step, -1)
                recorder.log(0, loss=1)
                recorder.log(1, loss=2)
                recorder.close("stopped")
            self.assertEqual(losses(), ("stopped", [1, 2]))
        self.said("exists", lambda: maxlogit.Recorder(self.path, mode="new"))
        with maxlogit.Recorder(self.path) as recorder:
            self.assertEqual(recorder.last_step, 1)
            recorder.log(1, loss=3)  # what is logged first replaces what is there of it and of later ones
            recorder.log(2, loss=4)
        self.assertEqual(losses(), ("finished", [1, 3, 4]))
        self.said("is finished: mode='replace' writes", lambda: maxlogit.Recorder(self.path))
        self.assertEqual(losses(), ("finished", [1, 3, 4]))
        for state in ("stopped", "diverged"):
            recorder = maxlogit.Recorder(self.path, mode="resume")
            recorder.log(0, loss=5)
            recorder.close(state)
            recorder.close("finished")  # a second does nothing
            self.assertEqual(losses(), (state, [5]))
        self.said("state", lambda: maxlogit.Recorder(self.path).close("ended"))
        self.said("mode 'x': auto, new, resume, replace", lambda: maxlogit.Recorder(self.path, mode="x"))
        self.said("mode 'x'", lambda: maxlogit.Recorder(self.path, mode="x", rank=1))

    def test_folders_are_made(self):
        path = self.folder / "a" / "b" / "run.h5"
        with maxlogit.Recorder(path, rank=0) as recorder:
            recorder.log(0, loss=1)
        self.assertEqual(maxlogit.open(str(path)).steps, 1)

    def test_a_snapshot_is_read_meanwhile(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(0, loss=1)
            recorder.snapshot()
            run = maxlogit.open(self.path)
            self.assertEqual((run.state, run["loss"].values.tolist()), ("running", [1]))
            recorder.log(1, loss=2)
        self.assertEqual(maxlogit.open(self.path)["loss"].values.tolist(), [1, 2])

    def test_sources_put_their_own(self):
        for rank in (0, 1):
            told = []
            with maxlogit.Recorder(self.path, mode="replace", rank=rank) as recorder:
                recorder.add_source(lambda step, told=told, r=recorder: told.append(("a", step, r.last_step)))
                recorder.add_source(lambda step, told=told, r=recorder: (told.append("b"), r.put("b", 10 * step)))
                recorder.log(3, loss=1)
                self.said("steps grow", lambda: recorder.log(2))
                recorder.log(4, b=7)  # the source comes later
            self.assertEqual(told, [("a", 3, -1), "b", ("a", 4, 3), "b"])
        self.assertFalse(os.path.exists(str(self.path) + ".none"))
        with maxlogit.Recorder(self.path, mode="replace") as recorder:
            recorder.add_source(lambda step: recorder.put("b", 10 * step))
            recorder.log(3, b=1)
        self.assertEqual(maxlogit.open(self.path)["b"].values.tolist(), [30])

    def test_what_is_dropped_is_no_finished_run(self):
        recorder = maxlogit.Recorder(self.path)
        recorder.log(0, loss=1)
        del recorder
        with maxlogit.Recorder(self.path) as recorder:  # goes on: nothing has ended it, and nobody holds it
            self.assertEqual(recorder.last_step, 0)
            recorder.log(1, loss=2)
        self.assertEqual(maxlogit.open(self.path)["loss"].values.tolist(), [1, 2])


class Reading(InFolder):
    def make(self, name="run", config=None, state="finished", steps=2):
        path = self.folder / f"{name}.h5"
        recorder = maxlogit.Recorder(path, config, data="of a test")
        for step in range(steps):
            recorder.log(step, loss=step + 0.5)
        recorder.event(1, "spike")
        recorder.event(2, "clip", 1, 2, 0.25)
        recorder.event(0, "nonfinite", 3, value=math.inf)
        recorder.note("one")
        recorder.note("two\nlines")
        recorder.close(state)
        return path

    def test_facts(self):
        path = self.make(config={"b": 1, "a": {"c": "x y"}}, state="stopped", steps=3)
        run = maxlogit.open(path)
        self.assertEqual((run.path, run.state, run.steps, run.data), (str(path), "stopped", 3, "of a test"))
        self.assertRegex(run.id, "^[0-9a-f]{12}$")
        began = datetime.fromisoformat(run.date.replace("Z", "+00:00"))
        began = began if began.tzinfo else began.replace(tzinfo=timezone.utc)
        self.assertLess(abs((datetime.now(timezone.utc) - began).total_seconds()), 600)
        self.assertTrue(0 <= run.wall_seconds < 600)
        self.assertEqual({key: run.config[key] for key in ("b", "a.c")}, {"b": "1", "a.c": "x y"})
        self.assertEqual([text for _, text in run.notes], ["one", "two\nlines"])
        self.assertRegex(run.notes[0][0], r"^\d{4}-\d\d-\d\d")
        self.assertEqual((list(run), run.keys(), len(run)), (["loss"], ["loss"], 1))
        self.assertTrue("loss" in run and "lr" not in run and 3 not in run)
        self.assertEqual(repr(run), f"<maxlogit run {path}: stopped, 3 steps, 1 series>")
        events = [(e.step, e.kind, e.layer, e.head) for e in run.events]
        self.assertEqual(events, [(1, "spike", -1, -1), (2, "clip", 1, 2), (0, "nonfinite", 3, -1)])
        self.assertTrue(math.isnan(run.events[0].value) and run.events[1].value == 0.25 and run.events[2].value == math.inf)
        self.said("no series", lambda: run["nothing"], KeyError)
        self.said("", lambda: run["a\0b"], KeyError)

    def test_nothing_recorded(self):
        with maxlogit.Recorder(self.path) as recorder:
            recorder.define("a", (2, 3))
        run = maxlogit.open(self.path)
        self.assertEqual((run.steps, run.events, run.notes), (0, [], []))
        if "a" in run:
            self.assertEqual((run["a"].values.shape, run["a"].steps.shape), ((0, 2, 3), (0,)))

    def test_conditions(self):
        for name, lr, tag, state in (
            ("a", 0.01, "x", "finished"),
            ("b", 0.02, "y", "stopped"),
            ("c", "1e-2", "z", "diverged"),
        ):
            self.make(name, {"lr": lr, "tag": tag, "only_" + name: "1", "nan": "nan"}, state)

        def names(where):
            return "".join(Path(run.path).stem for run in maxlogit.open_all(str(self.folder), where))

        date = maxlogit.open(self.folder / "a.h5").date
        for where, wanted in {
            "": "abc",
            "  ": "abc",
            "lr=0.01": "ac",
            "lr = 1e-2 , 5": "ac",
            "lr!=0.01": "b",
            "lr!=0.01,0.02": "",
            "lr<0.02": "ac",
            "lr<=0.02": "abc",
            "lr>0.01": "b",
            "lr>=0.01": "abc",
            "lr > 0.01 & tag=y": "b",
            "lr>0.01&tag=x": "",
            "tag=x,z": "ac",
            "tag!=x": "bc",
            "only_a=1": "a",
            "only_a!=1": "bc",
            "only_a!=2": "abc",
            "only_a<2": "a",
            "state=finished,stopped": "ab",
            "state!=finished": "bc",
            "nan<1": "",
            "nan>=1": "",
            "tag<1": "",
            "date>2000-01-01": "abc",
            "date<2000-01-01": "",
            "date<2999-01-01": "abc",
            "date<=2999-01-01": "abc",
            "date>2999-01-01": "",
            f"date<={date} & tag=x": "a",
            f"date<{date} & tag=x": "",
            f"date>={date} & tag=x": "a",
            f"date>{date} & tag=x": "",
            f"date={date} & tag=x": "a",
            f"id={maxlogit.open(self.folder / 'b.h5').id}": "b",
        }.items():
            self.assertEqual(names(where), wanted, where)
        for where, message in {
            "lr": "'lr' is not a condition: KEY=VALUE, !=, <, <=, >, >=",
            "lr=1 &": "'' is not a condition",
            "tag<x": "tag < 'x': a number is wanted",
            "=1": "is not a condition",
        }.items():
            self.said(message, lambda where=where: names(where))
        self.said("is not a folder", lambda: maxlogit.open_all(self.folder / "a.h5"))
        self.said("is not a folder", lambda: maxlogit.open_all(self.folder / "nowhere"))
        (self.folder / "a0.h5").write_text("no run")
        self.assertEqual(names(""), "abc")

    def make_frames(self):
        with maxlogit.Recorder(self.path, {"x": 1}) as recorder:
            recorder.define("load", (2, 3), ("layer", "expert"), unit="1", definition="share", long_name="a load")
            recorder.define("norm", (2,), ("tensor",), rows="spectra", unit="nat")
            recorder.axis("tensor", ["first", "second"])
            recorder.log(1, {"load": np.arange(6).reshape(2, 3)}, loss=0.5)
            recorder.log(4, {"load": np.arange(6).reshape(2, 3) + 10, "norm": [5, 6]}, loss=0.25, val_loss=2)
        return maxlogit.open(self.path)

    def test_what_frames_are_made_of(self):
        """By stand-ins for pandas and xarray, which tell what they were given."""

        def tell(what):
            return lambda *args, **more: (
                what,
                [np.asarray(x).tolist() if isinstance(x, np.ndarray) else x for x in args],
                more,
            )

        pandas, xarray = types.ModuleType("pandas"), types.ModuleType("xarray")
        for name in ("Series", "DataFrame", "Index", "RangeIndex"):
            setattr(pandas, name, tell(name))
        pandas.MultiIndex = types.SimpleNamespace(from_product=lambda of, names: ([list(x) for x in of], names))
        xarray.DataArray, xarray.Dataset = tell("DataArray"), tell("Dataset")
        run = self.make_frames()
        with mock.patch.dict(sys.modules, pandas=pandas, xarray=xarray):
            index = ("Index", [[1, 4]], {"name": "step"})
            self.assertEqual(run["loss"].to_pandas(), ("Series", [[0.5, 0.25]], {"index": index, "name": "loss"}))
            norm = run["norm"].to_pandas()
            self.assertEqual(norm[:2], ("DataFrame", [[[5, 6]]]))
            self.assertEqual(norm[2]["columns"], ("RangeIndex", [2], {"name": "tensor"}))
            self.assertEqual(norm[2]["index"], ("Index", [[4]], {"name": "step"}))
            load = run["load"].to_pandas()
            self.assertEqual(load[1], [[[0, 1, 2, 3, 4, 5], [10, 11, 12, 13, 14, 15]]])
            self.assertEqual(load[2], {"index": index, "columns": ([[0, 1], [0, 1, 2]], ("layer", "expert"))})
            (both,) = run.to_pandas()[1]
            self.assertEqual({name: x[2]["name"] for name, x in both.items()}, {"loss": "loss", "val_loss": "val_loss"})
            data = run["norm"].to_xarray()[2]
            self.assertEqual((data["dims"], data["name"]), (("step", "tensor"), "norm"))
            self.assertEqual(data["attrs"], {"units": "nat", "long_name": "norm", "definition": ""})
            coords = {name: x if isinstance(x, tuple) else x.tolist() for name, x in data["coords"].items()}
            self.assertEqual(coords, {"step": [4], "tensor": [0, 1], "tensor_name": ("tensor", ["first", "second"])})
            data = run["load"].to_xarray()[2]
            coords = {name: x.tolist() for name, x in data["coords"].items()}
            self.assertEqual(coords, {"step": [1, 4], "layer": [0, 1], "expert": [0, 1, 2]})
            self.assertEqual(data["attrs"], {"units": "1", "long_name": "a load", "definition": "share"})
            _, (series,), more = run.to_xarray()
            self.assertEqual(sorted(series), ["load", "loss", "norm", "val_loss"])
            self.assertTrue(all(x[2]["name"] == name for name, x in series.items()))
            wanted = {"x": "1", "state": "finished", "id": run.id}
            self.assertEqual({key: more["attrs"][key] for key in wanted}, wanted)

    def test_frames(self):
        try:
            import pandas  # noqa: F401
            import xarray  # noqa: F401
        except ImportError:
            self.skipTest("no pandas and xarray here")
        run = self.make_frames()
        load, norm, loss = (run[name].to_pandas() for name in ("load", "norm", "loss"))
        self.assertEqual((load.index.name, list(load.index), load.columns.names), ("step", [1, 4], ["layer", "expert"]))
        self.assertEqual([load.loc[4, (i, k)] for i in range(2) for k in range(3)], [10, 11, 12, 13, 14, 15])
        self.assertEqual((norm.columns.name, list(norm.columns), norm.loc[4].tolist()), ("tensor", [0, 1], [5, 6]))
        self.assertEqual((loss.name, loss.index.name, loss.to_dict()), ("loss", "step", {1: 0.5, 4: 0.25}))
        both = run.to_pandas()
        self.assertEqual(sorted(both.columns), ["loss", "val_loss"])
        self.assertTrue(np.isnan(both.loc[1, "val_loss"]) and both.loc[4, "val_loss"] == 2)
        data = run["load"].to_xarray()
        self.assertEqual((data.dims, data.name), (("step", "layer", "expert"), "load"))
        self.assertEqual(data.attrs, {"units": "1", "long_name": "a load", "definition": "share"})
        self.assertEqual([data.coords[c].values.tolist() for c in data.dims], [[1, 4], [0, 1], [0, 1, 2]])
        self.assertEqual(run["norm"].to_xarray().coords["tensor_name"].values.tolist(), ["first", "second"])
        every = run.to_xarray()
        self.assertEqual(sorted(every.data_vars), ["load", "loss", "norm", "val_loss"])
        self.assertEqual((every.attrs["x"], every.attrs["state"], every.attrs["id"]), ("1", "finished", run.id))
        self.assertTrue(np.isnan(every["norm"].sel(step=1)).all() and float(every["norm"].sel(step=4, tensor=1)) == 6)


class Library(InFolder):
    def test_errors_by_their_kind(self):
        self.assertTrue(
            issubclass(maxlogit.UsageError, maxlogit.MaxlogitError) and issubclass(maxlogit.UsageError, ValueError)
        )
        self.assertTrue(issubclass(maxlogit.MaxlogitError, RuntimeError))
        with maxlogit.Recorder(self.path) as recorder:
            recorder.log(0, loss=1)
        hurt = bytearray(self.path.read_bytes())
        hurt[len(hurt) // 2] ^= 1
        self.path.write_bytes(hurt)
        with self.assertRaises(maxlogit.MaxlogitError) as damaged:
            maxlogit.open(self.path)["loss"]
        self.assertNotIsInstance(damaged.exception, maxlogit.UsageError)

    def test_where_the_library_is(self):
        self.assertEqual(maxlogit.library_path(), os.environ["MAXLOGIT_LIBRARY"])
        there = {k: v for k, v in os.environ.items() if k != "MAXLOGIT_LIBRARY"}
        code = "from maxlogit import _library"
        said = subprocess.run(
            [sys.executable, "-c", code], env={**there, "MAXLOGIT_LIBRARY": "/no/such"}, capture_output=True
        )
        self.assertIn(b"maxlogit: /no/such cannot be loaded", said.stderr)
        self.assertIn(b"ImportError", said.stderr)

    def test_texts(self):
        self.assertEqual(_library.text("\u00e9"), "\u00e9".encode())
        self.assertEqual(_library.text(3), b"3")


def spectrum(w):
    """The definitions, of a matrix in double."""
    sigma = np.linalg.svd(np.asarray(w, float), compute_uv=False)
    p, r = sigma**2 / (sigma**2).sum(), sigma / sigma.sum()

    def entropy(x):
        return -(x[x > 0] * np.log(x[x > 0])).sum()

    n = len(sigma)
    norm = np.sqrt((sigma**2).sum())
    whole = entropy(p) / math.log(n) if n > 1 else 0
    return sigma[0], norm, whole, math.exp(entropy(p)), math.exp(entropy(r)), norm**2 / sigma[0] ** 2


class Numbers(unittest.TestCase):
    def said(self, message, call):
        with self.assertRaisesRegex(maxlogit.UsageError, message):
            call()

    def close(self, found, wanted, tolerance=1e-5):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=1e-6)

    def test_spectra(self):
        rng = np.random.default_rng(3)
        for rows, cols, heads in ((6, 9, 1), (9, 4, 1), (12, 5, 3), (12, 20, 2)):
            w = rng.normal(size=(rows, cols))
            found = maxlogit.spectra(w) if heads == 1 else maxlogit.spectra(w, heads)
            self.assertEqual(len(found.svd_entropy), heads)
            for h, block in enumerate(np.split(w, heads)):
                self.close([field[h] for field in found], spectrum(block))
            # a transposed view, and another type of numbers
            self.close(maxlogit.spectra(np.asfortranarray(w).astype(np.float32), heads).svd_entropy, found.svd_entropy)
        w_q, w_k = rng.normal(size=(24, 10)), rng.normal(size=(12, 10))
        for keys, kv_heads in ((w_k, 2), (rng.normal(size=(24, 10)), 0), (w_k[:6], 1)):
            found = maxlogit.spectra(w_q, 4, keys, kv_heads)
            for h in range(4):
                own = h * (kv_heads or 4) // 4
                q, k = w_q[6 * h : 6 * h + 6], keys[6 * own : 6 * own + 6]
                core = np.linalg.svd(q.T @ k, compute_uv=False)[:6]  # of rank 6: n is the head's size
                self.close([field[h] for field in found], spectrum(np.diag(core)), 1e-4)
        for message, call in (
            (r"a matrix has shape \(3,\)", lambda: maxlogit.spectra(np.ones(3))),
            (r"a matrix has shape \(0, 3\)", lambda: maxlogit.spectra(np.ones((0, 3)))),
            (r"a matrix has shape \(2, 3\, 4\)", lambda: maxlogit.spectra(np.ones((2, 3, 4)))),
            ("24 rows are no 5 heads", lambda: maxlogit.spectra(w_q, 5)),
            ("24 rows are no 0 heads", lambda: maxlogit.spectra(w_q, 0)),
            (r"w_k has shape \(12, 10\): 4 heads of 6 by 10", lambda: maxlogit.spectra(w_q, 4, w_k)),
            (r"w_k has shape \(12, 9\): 2 heads of 6 by 10", lambda: maxlogit.spectra(w_q, 4, w_k[:, :9], 2)),
        ):
            self.said(message, call)

    def test_form_bounds(self):
        rng = np.random.default_rng(4)
        w_q, w_k, gain = rng.normal(size=(20, 7)), rng.normal(size=(10, 7)), rng.normal(size=7)
        for g, scale in ((None, 0.5), (gain, 0.25), (gain.astype(np.float32), -2.0)):
            d = np.diag(np.ones(7) if g is None else g)
            found = maxlogit.form_bounds(w_q, 4, w_k, 2, scale, g)
            for h in range(4):
                q, k = w_q[5 * h : 5 * h + 5], w_k[5 * (h // 2) : 5 * (h // 2) + 5]
                bound = abs(scale) * 7 * np.linalg.norm(d @ q.T @ k @ d, 2)
                self.assertLessEqual(bound, found[h] * (1 + 1e-5))
                reach = [np.linalg.norm(x @ d, 2) for x in (q, k)]
                self.assertLessEqual(found[h], abs(scale) * 7 * reach[0] * reach[1] * (1 + 1e-5))
        self.said("sizes do not fit", lambda: maxlogit.form_bounds(w_q, 4, w_k, 2, 1, gain[:6]))
        self.said("sizes do not fit", lambda: maxlogit.form_bounds(w_q, 4, w_k[:, :6], 2, 1))
        self.said("sizes do not fit", lambda: maxlogit.form_bounds(w_q, 4, w_k, 4, 1))
        self.said("20 rows are no 3 heads", lambda: maxlogit.form_bounds(w_q, 3, w_k, 2, 1))

    def test_attention_maxima(self):
        rng = np.random.default_rng(5)
        q, k = rng.normal(size=(3, 4, 12, 6)), rng.normal(size=(3, 2, 17, 6))
        first, end = rng.integers(0, 9, (3, 12)), rng.integers(9, 18, (3, 12))
        own, key = np.arange(12)[:, None] + 5, np.arange(17)
        everything = np.ones((3, 12, 17), bool)
        of_range = (key >= first[..., None]) & (key < end[..., None])
        for options, seen in (
            ({}, everything),
            ({"scale": -0.7}, everything),
            ({"causal": True}, everything & (key <= own)),
            ({"causal": True, "window": 3}, everything & (key <= own) & (key > own - 3)),
            ({"first": first}, everything & (key >= first[..., None])),
            ({"end": end}, everything & (key < end[..., None])),
            ({"first": first, "end": end}, of_range),
            ({"first": 2, "end": [9] * 12}, everything & (key >= 2) & (key < 9)),
            ({"first": first, "end": end, "causal": True}, of_range & (key <= own)),
        ):
            s = np.einsum("bhid,bhjd->bhij", q, np.repeat(k, 2, 1)) * options.get("scale", 6**-0.5)
            s = np.where(seen[:, None], s, -np.inf)
            with np.errstate(invalid="ignore"):
                p = np.exp(s - s.max(-1, keepdims=True))
                p /= p.sum(-1, keepdims=True)
            entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(-1)
            found = maxlogit.attention_maxima(np.asfortranarray(q), k[:, :, ::-1][:, :, ::-1], **options)
            self.assertEqual([x.dtype for x in found], [np.float32, np.float32, np.float64])
            self.close(found[0], s.max((0, 2, 3)))
            self.close(found[1], np.abs(np.where(np.isfinite(s), s, 0)).max((0, 2, 3)))
            if np.isfinite(s.max(-1)).all():
                self.close(found[2], entropy.mean((0, 2)))
        for message, call in (
            (r"q \(12, 6\), k", lambda: maxlogit.attention_maxima(q[0, 0], k)),
            (r"q .*, k \(2, 17, 6\): \[batch, heads", lambda: maxlogit.attention_maxima(q, k[0])),
            ("q ", lambda: maxlogit.attention_maxima(q[:2], k)),
            ("", lambda: maxlogit.attention_maxima(q[:, :3], k)),
        ):
            self.said(message, call)
        with self.assertRaises(ValueError):
            maxlogit.attention_maxima(q, k, first=np.zeros((2, 12)))

    def test_clip_factors(self):
        s, tau, alpha = np.array([150.0, 50, 400, 200]), 100, 0.3
        gamma = np.minimum(1, tau / s)
        low = np.repeat(gamma.reshape(2, 2).min(1), 2)
        rules = {
            "q_only": (gamma, [1, 1], gamma),
            "group_max": (low**alpha, low[::2] ** (1 - alpha), low),
            "own_q_min_k": (gamma**alpha, low[::2] ** (1 - alpha), gamma**alpha * low ** (1 - alpha)),
            "compensated": (low**alpha * gamma / low, low[::2] ** (1 - alpha), gamma),
        }
        for rule, wanted in rules.items():
            for found, truth in zip(maxlogit.clip_factors(s, 2, tau=tau, alpha=alpha, gqa=rule), wanted):
                self.close(found, truth)
                self.assertEqual(found.dtype, np.float32)
        self.close(maxlogit.clip_factors(s, 2, tau=tau)[0], gamma)  # q_only is the default
        least = gamma.min()
        for found, truth in zip(
            maxlogit.clip_factors(s, tau=tau, scope="layer", alpha=0.25), (least**0.25, least**0.75, least)
        ):
            self.close(found, np.full(4, truth))
        self.close(maxlogit.clip_factors(s, tau=tau)[:2], [gamma**0.5] * 2)  # halves are the default
        for odd in (np.nan, np.inf, -np.inf, -500, 100):
            self.close(maxlogit.clip_factors([odd, 200], tau=tau)[2], [1, 0.5])
        self.close(maxlogit.clip_factors(s.reshape(2, 2), 4, tau=tau)[2], gamma)
        mla = {
            "exact": (gamma**alpha, gamma ** (1 - alpha), gamma, 1),
            "kr_layer": (gamma**alpha, gamma ** (1 - alpha), gamma**alpha, least ** (1 - alpha)),
            "kr_head": (gamma**alpha, gamma ** (1 - alpha), gamma**alpha, np.prod(gamma ** (1 - alpha))),
        }
        for rule, wanted in mla.items():
            *found, after = maxlogit.clip_factors_mla(s, tau=tau, alpha=alpha, mla=rule)
            for x, truth in zip(found, wanted):
                self.close(x, truth)
            self.assertEqual(after.shape, (4,))
        for message, call in (
            ("scope 'x': head, layer", lambda: maxlogit.clip_factors(s, tau=1, scope="x")),
            ("gqa 'x': q_only, group_max, own_q_min_k, compensated", lambda: maxlogit.clip_factors(s, tau=1, gqa="x")),
            ("mla 'x': exact, kr_layer, kr_head", lambda: maxlogit.clip_factors_mla(s, tau=1, mla="x")),
            ("tau is 0", lambda: maxlogit.clip_factors(s, tau=0)),
            ("tau is inf", lambda: maxlogit.clip_factors_mla(s, tau=math.inf)),
            ("alpha is 1.5", lambda: maxlogit.clip_factors(s, tau=1, alpha=1.5)),
            ("4 heads with 3 keys", lambda: maxlogit.clip_factors(s, 3, tau=1)),
        ):
            self.said(message, call)


if __name__ == "__main__":
    unittest.main()
