"""Statistics of every option on given demonstrations, and tables of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from pyro_options.options.families import ActionLayout

from .segmentation import Segmentation


@dataclass(frozen=True)
class Summary:
    """Statistics of K options over demonstrations; zeros for an option that is never active."""

    usage: Tensor  # (K,) share of the steps
    mean_length: Tensor  # (K,) mean number of steps of a segment
    termination_rate: Tensor  # (K,) mean ψ_k(s_t) over the steps t with option k active at t - 1
    actions: (
        Tensor  # (K, A) share of each discrete action, or the mean continuous action; :attr:`Skills.action_columns`
    )

    def select(self, index: Tensor) -> "Summary":
        """The statistics of the options at ``index``, in that order."""
        return Summary(*(value[index] for value in self.tensors().values()))

    def tensors(self) -> dict[str, Tensor]:
        """All fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _mean_by(options: Tensor, parts: Iterable[Tensor], num_options: int) -> Tensor:
    """The mean of values over the points of each option ``(K, ...)``, zero for an unused option.

    :param parts: parts ``(points, ...)`` of the values
    """
    total, start = torch.zeros(()), 0
    for values in parts:
        total = total if total.dim() else torch.zeros(num_options, *values.shape[1:])
        total.index_add_(0, options[start : start + len(values)], values)
        start += len(values)
    count = torch.bincount(options, minlength=num_options).clamp(min=1)
    return total / count.view(-1, *[1] * (total.dim() - 1))


def options_before(segmentation: Segmentation) -> Tensor:
    """The option of the step before each, ``(steps,)``; at the first step of an episode any."""
    return segmentation.flat_options.roll(1)


def summarize(segmentation: Segmentation, actions: Tensor, termination: Tensor) -> Summary:
    """Statistics of a segmentation.

    :param actions: encoded actions ``(N, T, A)``
    :param termination: ψ_k(s_t) of the option k that was active at the previous step, ``(N, T)``
    """
    mask = segmentation.mask
    return summarize_flat(segmentation, [actions[mask]], termination[mask])


def summarize_flat(segmentation: Segmentation, actions: Iterable[Tensor], termination: Tensor) -> Summary:
    """The same without padding.

    :param actions: parts of the encoded actions of all steps in order, ``(steps, A)``
    :param termination: ψ_k(s_t) of the option k that was active at the previous step, ``(steps,)``
    """
    K, options = segmentation.num_options, segmentation.flat_options
    owner, lengths = segmentation.segment_lengths()
    arrived = torch.ones_like(options, dtype=torch.bool)
    arrived[segmentation.places.first] = False  # no option is active before the first step
    return Summary(
        usage=segmentation.usage().float(),
        mean_length=_mean_by(owner, [lengths.float()], K),
        termination_rate=_mean_by(options_before(segmentation)[arrived], [termination[arrived]], K),
        actions=_mean_by(options, actions, K),
    )


def _mean(row: Tensor) -> str:
    return "mean " + " ".join(f"{value:+.2f}" for value in row.tolist())


def _mixed(row: Tensor, layout: ActionLayout, names: Sequence[str] | None) -> str:
    """The mean of the Gaussian dimensions, then the most frequent value of each of the others."""
    real, *shares = row.split(layout.sizes)
    parts = [_mean(real)] if layout.real else []
    for (d, values), share in zip(layout.values.items(), shares):
        best = int(share.argmax())
        parts.append(f"{names[d] if names else f'[{d}]'} {values[best]:g} {100 * float(share[best]):.0f}%")
    return ", ".join(parts)


def top_actions(row: Tensor, names: Sequence[str], most: int = 3) -> list[tuple[str, float]]:
    """The most frequent actions of an option and their shares, those below 5 % left out."""
    return [(names[int(a)], float(row[a])) for a in row.argsort(descending=True)[:most] if row[a] >= 0.05]


def _actions(row: Tensor, discrete: bool, names: Sequence[str] | None, layout: ActionLayout | None) -> str:
    """The three most frequent actions, or the mean of continuous ones."""
    if layout is not None:
        return _mixed(row, layout, names)
    if not discrete:
        return _mean(row)
    best = top_actions(row, names or [str(a) for a in range(len(row))])
    return ", ".join(f"{name} {100 * share:.0f}%" for name, share in best)


def option_names(summary: Summary, discrete: bool, names: Sequence[str] | None) -> list[str]:
    """A short name for each option: its index and its most frequent action."""
    rows = summary.actions
    if not discrete:
        return [f"option {k}" for k in range(len(rows))]
    best = rows.argmax(-1).tolist()
    return [f"option {k}: {names[a] if names else f'action {a}'}" for k, a in enumerate(best)]


def table(
    summary: Summary,
    log_weights: Tensor,
    discrete: bool,
    names: Sequence[str] | None,
    layout: ActionLayout | None = None,
    titles: Sequence[str | None] | None = None,
) -> str:
    """A plain-text table with a line for each option.

    :param layout: of actions whose dimensions belong to different families
    :param titles: names of options, ``None`` for those that have none
    """
    header = ("option", "usage", "weight", "mean length", "termination", "actions")
    given = [None] * len(log_weights) if titles is None else titles
    rows = [
        (
            str(k) if given[k] is None else f"{k} {given[k]}",
            f"{100 * float(summary.usage[k]):.1f}%",
            f"{float(log_weights[k].exp()):.3f}",
            f"{float(summary.mean_length[k]):.1f}",
            f"{float(summary.termination_rate[k]):.3f}",
            _actions(summary.actions[k], discrete, names, layout) if summary.usage[k] > 0 else "never on",
        )
        for k in range(len(log_weights))
    ]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header) - 1)]
    lines = ["  ".join([*(cell.rjust(w) for cell, w in zip(row, widths)), row[-1]]) for row in [header, *rows]]
    return "\n".join(lines)
