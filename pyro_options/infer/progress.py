"""The progress display of a training."""

from typing import TYPE_CHECKING

from tqdm import tqdm

from .callbacks import Callback, Callbacks, Phase

if TYPE_CHECKING:
    from .trainer import Trainer


class ProgressBar(Callback):
    """One line per training in the terminal: its phase, epochs, objective, K, and what runs now.

    ``progress=True`` of :class:`~pyro_options.infer.TrainConfig` and :func:`~pyro_options.discover` adds one.
    """

    def __init__(self) -> None:
        self._phase, self._status, self._figures = "", "", ""
        self._bar: tqdm | None = None

    def on_phase(self, phase: Phase) -> None:
        self._phase = str(phase)

    def on_start(self, trainer: "Trainer", epochs: int) -> None:
        self.on_end(trainer)
        self._figures = ""
        self._bar = tqdm(total=epochs, unit="epoch", desc=self._phase or None, dynamic_ncols=True)
        self._show()

    def on_status(self, status: str) -> None:
        self._status = status
        self._show(refresh=True)

    def on_epoch(self, trainer: "Trainer") -> None:
        if self._bar is not None:
            self._figures = f"objective={trainer.history.objective[-1]:.3f}, K={trainer.model.num_options}"
            self._show()
            self._bar.update()

    def on_end(self, trainer: "Trainer") -> None:
        if self._bar is not None:
            self._status = ""
            self._show()
            self._bar.close()
            self._bar = None

    def _show(self, refresh: bool = False) -> None:
        if self._bar is not None:
            self._bar.set_postfix_str(", ".join(part for part in (self._figures, self._status) if part), refresh)


def with_progress(callbacks: Callbacks, shown: bool) -> Callbacks:
    """The callbacks with a progress bar, if one is wanted and not there yet."""
    there = any(isinstance(one, ProgressBar) for one in callbacks.members)
    return Callbacks([*callbacks.members, ProgressBar()]) if shown and not there else callbacks
