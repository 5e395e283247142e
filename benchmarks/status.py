"""How old is every figure and table that README and docs show? Run it with::

    python benchmarks/status.py            # what pages show
    python benchmarks/status.py --all      # every committed result

A result is fresh if what its script imports from the library is as it was at the commit that made it (comments and
docstrings aside), stale if it has changed since, and missing if the file does not say.
``python benchmarks/all.py --hours 2`` makes stale ones again.
"""

from dataclasses import dataclass

import tyro
from artifacts import ARTIFACTS, artifact_of, shown, state


@dataclass(frozen=True)
class Args:
    """List results by age."""

    all: bool = False
    """also results that no page shows"""
    strict: bool = False
    """exit with 1 if README shows a result that is not fresh"""


def main(args: Args) -> dict[str, str]:
    pages: dict[str, set[str]] = {}
    for path, where in shown().items():
        owner = artifact_of(path)
        pages.setdefault(path if owner is None else owner.results, set()).update(where)
    if args.all:
        for one in ARTIFACTS:
            pages.setdefault(one.results, set())
    words = {}
    for path, where in sorted(pages.items(), key=lambda item: ("README.md" not in item[1], item[0])):
        found = state(path) if path.endswith(".json") else None
        words[path] = "missing" if found is None else found.word
        commits = "" if found is None else " ".join(found.commits)
        print(f"{words[path]:8s} {path:58s} {commits:20s} {', '.join(sorted(where))}")
    old = [path for path, where in pages.items() if "README.md" in where and words[path] != "fresh"]
    count = sum(word == "fresh" for word in words.values())
    print(f"{count} of {len(words)} fresh; {len(old)} of those in the README are not")
    if args.strict and old:
        raise SystemExit(1)
    return words


if __name__ == "__main__":
    main(tyro.cli(Args))
