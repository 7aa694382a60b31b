"""The example trains, records and clips; it is a program and a notebook, of one source."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import maxlogit

FOLDER = Path(__file__).parent.parent / "examples"
has_figures = importlib.util.find_spec("matplotlib") is not None
spec = importlib.util.spec_from_file_location("notebook", FOLDER / "notebook.py")
notebook = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebook)


class Example(unittest.TestCase):
    def test_tiny_llama(self):
        with tempfile.TemporaryDirectory() as folder:
            settings = {**os.environ, "STEPS": "12", "TAU": "0.5", "FOLDER": folder}
            command = [sys.executable, FOLDER / "notebook.py", FOLDER / "tiny_llama.py", "-o", f"{folder}/book.ipynb"]
            subprocess.run(command, check=True, capture_output=True, env=settings)
            free, clipped = (maxlogit.open(f"{folder}/{name}-seed1.h5") for name in ("muon", "muonclip"))
            events = clipped.events
            logits, last = free["attn/max_logit"], clipped["attn/max_logit"].values[-1]
            book = json.loads(Path(folder, "book.ipynb").read_text())
            if importlib.util.find_spec("nbformat"):
                import nbformat

                nbformat.validate(nbformat.from_dict(book))
        self.assertEqual((free.state, clipped.state, free.config["optimizer"]), ("finished", "finished", "muon"))
        self.assertEqual((logits.values.shape, logits.places["layer"]), ((12, 2, 4), ["layers.0", "layers.1"]))
        self.assertGreater(logits.values[-1].max(), logits.values[0].max())
        self.assertTrue(any(e.kind == "clip" for e in events))
        self.assertLess(last.max(), logits.values[-1].max())
        outputs = [o for cell in book["cells"] for o in cell.get("outputs", ())]
        printed = "".join("".join(o["text"]) for o in outputs if o["output_type"] == "stream")
        self.assertIn(f"max logit: last {logits.values[-1].max():.1f}, peak", printed)
        pictures = [o["data"]["image/png"] for o in outputs if o["output_type"] == "display_data"]
        self.assertEqual(len(pictures), 2 if has_figures else 0)
        self.assertTrue(all(len(p) > 5000 for p in pictures))
        if not has_figures:
            print("no matplotlib here: the notebook's figures were not tried")

    def test_the_notebook_that_is_kept_is_of_this_program(self):
        """`python notebook.py tiny_llama.py` makes it anew."""
        kept = json.loads((FOLDER / "tiny_llama.ipynb").read_text())
        made = notebook.notebook_of((FOLDER / "tiny_llama.py").read_text(), "", run=False)

        def told(book):
            return [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]

        self.assertEqual(told(kept), told(made))
        self.assertTrue(any("image/png" in o.get("data", {}) for cell in kept["cells"] for o in cell.get("outputs", ())))


if __name__ == "__main__":
    unittest.main()
