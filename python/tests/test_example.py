"""The example of README trains, records and clips."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import maxlogit


class Example(unittest.TestCase):
    def test_tiny_llama(self):
        script = Path(__file__).parent.parent / "examples" / "tiny_llama.py"
        with tempfile.TemporaryDirectory() as folder:
            options = ["--steps", "12", "--tau", "0.5", "--folder", folder]
            subprocess.run([sys.executable, script, *options], check=True, capture_output=True)
            free, clipped = (maxlogit.open(f"{folder}/{name}-seed1.h5") for name in ("muon", "muonclip"))
            events = clipped.events
            logits, last = free["attn/max_logit"], clipped["attn/max_logit"].values[-1]
        self.assertEqual((free.state, clipped.state, free.config["optimizer"]), ("finished", "finished", "muon"))
        self.assertEqual((logits.values.shape, logits.places["layer"]), ((12, 2, 4), ["layers.0", "layers.1"]))
        self.assertGreater(logits.values[-1].max(), logits.values[0].max())
        self.assertTrue(any(e.kind == "clip" for e in events))
        self.assertLess(last.max(), logits.values[-1].max())


if __name__ == "__main__":
    unittest.main()
