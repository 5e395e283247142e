"""What the docs say is run."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def snippet(name):
    return re.search(r"```python\n(.*?)```", (DOCS / name).read_text(), re.DOTALL).group(1)


def test_a_users_own_model_grows_as_the_docs_say(capsys):
    scope: dict = {}
    exec(compile(snippet("growing_truncation.md"), "growing_truncation.md", "exec"), scope)
    assert capsys.readouterr().out.startswith("3 kinds of days")
    rates = sorted(scope["model"].log_rate.exp().tolist())
    for rate, truth in zip(rates, (2.0, 15.0, 60.0)):
        assert abs(rate - truth) < 0.15 * truth


def test_the_page_keeps_its_promise_of_thirty_lines():
    code = snippet("growing_truncation.md").split("class Calls")[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 32
