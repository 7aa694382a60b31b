"""What README and doc/python.md have in Python does, copied to the letter, what is said of it."""

import importlib.util
import os
import re
import shutil
import tempfile
import unittest
from pathlib import Path

import numpy as np

import maxlogit

TOP = Path(__file__).parent.parent.parent


def example(file, begin):
    """The block of code that has this text."""
    blocks = re.findall(r"^```python\n(.*?)^```", (TOP / file).read_text(), re.M | re.S)
    return next(block for block in blocks if begin in block)


class Docs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def test_recorder_and_reading(self):
        logits = np.arange(6.0).reshape(2, 3)
        known = {"steps": 5, "loss": 2.5, "logits": logits}
        exec(example("doc/python.md", "maxlogit.Recorder("), known)
        os.mkdir("runs")
        shutil.copy("run.h5", "runs")
        reading = example("doc/python.md", "run.to_xarray()")
        if not all(importlib.util.find_spec(name) for name in ("pandas", "xarray")):
            print("no pandas, or no xarray: to_pandas and to_xarray were not tried")
            reading = reading.replace("series.to_pandas(); series.to_xarray(); run.to_xarray()", "")
        exec(reading.replace("maxlogit.open_all(", "found = maxlogit.open_all("), known)
        run, series = known["run"], known["series"]
        self.assertEqual((run.state, run.config["train.lr"], sorted(run)), ("finished", "0.02", ["attn/max_logit", "loss"]))
        np.testing.assert_array_equal(series.values, np.broadcast_to(logits, (5, 2, 3)))
        self.assertEqual(series.axes, ("layer", "head"))
        self.assertEqual(known["found"], [])  # its rate is not below 0.01
        self.assertEqual(len(maxlogit.open_all("runs", where="optimizer=muon & train.lr<0.1")), 1)

    def test_two_lines(self):
        try:
            import maxlogit.torch
        except ImportError as error:
            if importlib.util.find_spec("torch"):
                self.assertRegex(str(error), r"maxlogit\.torch needs PyTorch 2\.5 or later, this is \d")
            self.skipTest(str(error))
        import torch
        import torch.nn.functional as F
        from torch import nn

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.c_attn, self.c_proj = nn.Linear(32, 96), nn.Linear(32, 32)

            def forward(self, x):
                q, k, v = (y.unflatten(-1, (4, 8)).transpose(1, 2) for y in self.c_attn(x).chunk(3, -1))
                return self.c_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed, self.head = nn.Embedding(20, 32), nn.Linear(32, 20)
                self.layers = nn.ModuleList(Attention() for _ in range(2))

            def forward(self, ids):
                x = self.embed(ids)
                for layer in self.layers:
                    x = x + layer(x)
                return F.cross_entropy(self.head(x[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

        torch.manual_seed(0)
        model = Model()
        with torch.no_grad():
            model.layers[1].c_attn.weight.mul_(20)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        exec(
            example("README.md", "maxlogit.torch.watch("),
            {"model": model, "optimizer": optimizer, "batches": torch.randint(20, (5, 3, 12))},
        )
        run = maxlogit.open("run.h5")
        logits, gamma = run["attn/max_logit"].values, run["qk_clip/gamma"].values
        self.assertEqual((run.state, logits.shape, gamma.shape), ("finished", (5, 2, 4), (5, 2, 4)))
        self.assertTrue((logits[0, 1] > 100).any() and (logits[1:] < 200).all(), logits)  # of other batches
        self.assertEqual(len(run.events), (gamma < 1).sum())
        self.assertEqual(run["head_qk/spectral_norm"].steps.tolist(), [0])


if __name__ == "__main__":
    unittest.main()
