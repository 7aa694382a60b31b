"""A callback for the Trainer of Lightning.

trainer = lightning.Trainer(..., callbacks=[maxlogit.lightning.MaxLogitCallback("run.h5", clip={"tau": 100})])
"""

from __future__ import annotations

from typing import Any, Optional

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback  # type: ignore[assignment]

from maxlogit._callback import Training


class MaxLogitCallback(Callback):  # type: ignore[misc]
    """Watches the module of a Trainer and logs every step of the optimizer; with ``clip``, a mapping of QKClip's arguments
    (``{}``: all as they are), it clips behind each. Other arguments: those of Recorder, and ``every``, ``spectra_every``,
    ``layouts``, ``on_error`` of watch. The trainer's logger gets the largest logit."""

    def __init__(self, path: Any, *, clip: Optional[dict[str, Any]] = None, **options: Any) -> None:
        self.training = Training(path, clip, options)
        self._losses: list[Any] = []  # of batches whose gradients are accumulated

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self._losses = []
        self.training.begin(pl_module, trainer.optimizers, trainer.global_step, trainer.global_rank, dict(pl_module.hparams))

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = trainer.global_step - 1
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:  # of a batch, divided by how many are accumulated
            self._losses.append(loss.detach() if hasattr(loss, "detach") else loss)
        if step == self.training.last:
            return  # gradients are accumulated
        losses, self._losses = self._losses, []
        self.training.step(step)
        divided = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
        self.training.flush(
            {"loss": sum(losses) * divided / len(losses)} if losses else {}
        )  # an epoch's last ones may be fewer
        for logger in trainer.loggers:
            logger.log_metrics(self.training.latest, step=step)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        loss = trainer.callback_metrics.get("val_loss")
        if loss is not None and not trainer.sanity_checking:
            self.training.flush({"val_loss": loss})

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.training.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.training.end("stopped")
