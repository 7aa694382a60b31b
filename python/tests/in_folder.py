"""A test that has a folder of its own, and a run's path there."""

import tempfile
import unittest
from pathlib import Path


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.path = self.folder / "run.h5"
