"""The callbacks of trainers: rows of every step of the optimizer, with accumulation, evaluation and resume."""

import importlib.util
import unittest
import warnings

import numpy as np

try:
    import torch
    from torch import nn
except ImportError:
    raise unittest.SkipTest("no PyTorch here") from None

import maxlogit
from in_folder import InFolder
from maxlogit._callback import Training
from test_clip import WIDTH, Base
from test_torch import VOCAB, T


def has(name):
    return importlib.util.find_spec(name) is not None


class Ids(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        ids = torch.randint(3, VOCAB, (T,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids}


class Rows(InFolder):
    def test_each_row_has_the_maxima_of_its_step(self):
        """Whatever the trainer reports of it, and when."""
        for every in (1, 3, 100):
            with self.subTest(every=every):
                training = Training(self.path, None, {"spectra_every": 0, "mode": "replace"})
                torch.manual_seed(0)
                model, x = Base(), torch.randn(2, 5, WIDTH)
                training.begin(model, None, 0, 0, {})
                passes = []
                for step in range(8):
                    passes.append(float(model.logits(x * (step + 1)).max()))
                    model(x * (step + 1))
                    training.step(step)
                    if (step + 1) % every == 0:
                        training.flush({"loss": step})
                        self.assertAlmostEqual(training.latest["attn/max_logit"], passes[-1], 4)
                training.end()
                run = maxlogit.open(self.path)
                np.testing.assert_allclose(run["attn/max_logit"].values.max((1, 2)), passes, rtol=1e-5)
                if every < 100:
                    np.testing.assert_array_equal(run["loss"].values[every - 1 :: every], np.arange(8)[every - 1 :: every])


@unittest.skipUnless(has("transformers") and has("accelerate"), "no transformers with accelerate here")
class Transformers(InFolder):
    def train(self, steps, resume=False, **options):
        import transformers

        from maxlogit.transformers import MaxLogitCallback
        from test_torch import SMALL

        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL))
        arguments = transformers.TrainingArguments(
            str(self.folder / "out"),
            max_steps=steps,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            eval_strategy="steps",
            eval_steps=2,
            save_steps=2,
            logging_steps=1,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        callback = MaxLogitCallback(self.path, spectra_every=0, **options)
        trainer = transformers.Trainer(model, arguments, train_dataset=Ids(), eval_dataset=Ids(), callbacks=[callback])
        callback.attach(trainer)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer.train(resume_from_checkpoint=resume)
        return trainer

    def test_training_and_resume(self):
        trainer = self.train(4, clip={"tau": 0.02})
        run = maxlogit.open(self.path)
        self.assertEqual((run.state, run["attn/max_logit"].shape), ("finished", (4, 2, 4)))
        self.assertFalse(np.isnan(run["attn/max_logit"]).any())
        self.assertTrue((run["qk_clip/gamma"].values < 1).any())
        self.assertEqual(run["val_loss"].steps.tolist(), [1, 3])
        self.assertEqual(int((~np.isnan(run["loss"])).sum()), 4)
        logged = [entry for entry in trainer.state.log_history if "loss" in entry]
        self.assertEqual(len(logged), 4)
        self.assertTrue(all(entry["attn/max_logit"] > 0 for entry in logged))
        self.train(6, resume=True)
        run = maxlogit.open(self.path)
        self.assertEqual(run["attn/max_logit"].steps.tolist(), list(range(6)))
        self.assertFalse(np.isnan(run["attn/max_logit"]).any())


@unittest.skipUnless(has("lightning") or has("pytorch_lightning"), "no Lightning here")
class Lightning(InFolder):
    def train(self, steps, checkpoint=None, automatic=True, rows=None, **options):
        try:
            import lightning.pytorch as lightning
        except ImportError:
            import pytorch_lightning as lightning

        from maxlogit.lightning import MaxLogitCallback
        from test_torch import Nano

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = automatic
                torch.manual_seed(0)
                self.net = Nano()

            def loss(self, batch):
                return nn.functional.cross_entropy(self.net(batch["input_ids"]).flatten(0, 1), batch["labels"].flatten())

            def training_step(self, batch, i):
                losses.append(self.loss(batch))
                if not self.automatic_optimization:
                    self.manual_backward(losses[-1] / 2)
                    if i % 2:
                        self.optimizers().step()
                        self.optimizers().zero_grad()
                return losses[-1]

            def validation_step(self, batch, i):
                self.log("val_loss", self.loss(batch))

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=1e-3)

        losses = []
        data = Ids() if rows is None else torch.utils.data.Subset(Ids(), range(rows))
        loader = torch.utils.data.DataLoader(data, batch_size=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = lightning.Trainer(
                max_steps=steps,
                accumulate_grad_batches=2 if automatic else 1,
                val_check_interval=4 if rows is None else None,
                accelerator="cpu",
                logger=lightning.loggers.CSVLogger(self.folder),
                log_every_n_steps=1,
                enable_progress_bar=False,
                enable_model_summary=False,
                default_root_dir=self.folder,
                callbacks=[MaxLogitCallback(self.path, spectra_every=0, **options)],
            )
            trainer.fit(Module(), loader, loader, **({"ckpt_path": checkpoint} if checkpoint else {}))
        losses = torch.stack(losses).detach()
        return trainer, losses if rows else losses.unflatten(0, (-1, 2)).mean(1)

    def test_an_epoch_that_ends_within_an_accumulation(self):
        _, losses = self.train(4, rows=6)  # batches of two epochs: two, and the last alone
        wanted = [(losses[0] + losses[1]) / 2, losses[2], (losses[3] + losses[4]) / 2, losses[5]]
        np.testing.assert_allclose(maxlogit.open(self.path)["loss"].values, wanted, rtol=1e-6)

    def test_gradients_that_a_module_accumulates_itself(self):
        _, losses = self.train(4, automatic=False)
        np.testing.assert_allclose(maxlogit.open(self.path)["loss"].values, losses, rtol=1e-6)

    def test_training_and_resume(self):
        trainer, losses = self.train(4, clip={"tau": 3})
        trainer.save_checkpoint(self.folder / "at.ckpt")
        run = maxlogit.open(self.path)
        self.assertEqual((run.state, run["attn/max_logit"].shape), ("finished", (4, 2, 4)))
        self.assertFalse(np.isnan(run["attn/max_logit"]).any())
        np.testing.assert_allclose(run["loss"].values, losses, rtol=1e-6)
        self.assertTrue((run["qk_clip/gamma"].values < 1).any())
        self.assertIn("val_loss", run)
        logged = "".join(path.read_text() for path in self.folder.rglob("metrics.csv"))
        self.assertIn("attn/max_logit", logged)
        self.train(6, checkpoint=self.folder / "at.ckpt", clip={"tau": 3})
        run = maxlogit.open(self.path)
        self.assertEqual(run["attn/max_logit"].steps.tolist(), list(range(6)))


if __name__ == "__main__":
    unittest.main()
