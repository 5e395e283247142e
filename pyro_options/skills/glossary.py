"""What the figures of options mean, in one place for tables, reports and pages."""

#: columns of :meth:`Skills.describe`
COLUMNS = {
    "usage": "share of the steps at which the option is active",
    "weight": "probability of the option when one is chosen",
    "mean length": "steps from its start to the start of another option",
    "termination": "mean probability of ending, per step",
    "actions": "most frequent actions while it is active, or their mean",
}

#: what a report shows beyond that
TERMS = {
    "option": "a behaviour that recurs: a policy, and a termination function that decides in which states it ends",
    "in use": "covers at least 1 % of the steps",
    "nats per step": "log-likelihood of the demonstrated actions given the states; higher is better, and for discrete "
    "actions 0 would be certainty",
    "held out": "measured on episodes that the skills were not trained on",
    "p(new choice)": "probability that an option was chosen at this step, given all actions of the episode; the same "
    "option may be chosen again",
    "starts where": "entries of the state that differ most from the usual where the option starts: the middle 80 % of "
    "their values, or the share of the larger of two values. The first option of an episode does not count",
    "stops where": "the same for the states in which it ends, compared with those in which it is active",
    "then comes": "the option of the next segment, or the end of the episode",
}


def legend() -> str:
    """The columns of the table, a line each."""
    width = max(map(len, COLUMNS))
    return "\n".join(f"{name:<{width}}  {meaning}" for name, meaning in COLUMNS.items())
