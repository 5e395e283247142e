"""What notebooks show of skills: a card for each option, and how far the discovery can be trusted."""

from typing import TYPE_CHECKING

from pyro_options.display.fragments import bars, card, cards, facts, panel
from pyro_options.display.palette import option_color

from .summary import top_actions

if TYPE_CHECKING:
    from .option import Option
    from .skills import Skills

_CARDS = 24  # shown, at most


def option_html(option: "Option") -> str:
    """The card of one option."""
    skills, k = option.skills, option.number
    lines, parts = [f"weight {option.weight:.3f}"], []
    if skills.summary is not None:
        summary = skills.summary
        lines[:0] = [f"{100 * float(summary.usage[k]):.1f}% of steps"]
        lines.append(f"lasts {float(summary.mean_length[k]):.1f} steps on average")
        if skills.discrete:
            parts.append(bars(top_actions(summary.actions[k], skills.action_columns), option_color(k)))
        else:
            means = zip(skills.action_columns, summary.actions[k].tolist())
            lines += [f"{name} {value:+.3g} on average" for name, value in list(means)[:4]]
    if skills.places is not None:
        lines += skills.places[k].describe()
    return card(k, option.name, option_color(k), facts(lines), *parts)


def skills_html(skills: "Skills") -> str:
    """Cards of the options, the trust record below them."""
    shown = cards(option_html(skills[k]) for k in range(min(skills.num_options, _CARDS)))
    left = skills.num_options - _CARDS
    more = facts([f"{left} more options not shown"]) if left > 0 else ""
    trust = "" if skills.trust is None else facts(skills.trust.describe().splitlines())
    return panel(repr(skills), shown, more, trust)
