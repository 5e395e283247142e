"""From a CSV and a Parquet file to an opened report, by the commands of the docs, each in a process of its own."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from selenium.webdriver.common.by import By
from support.browser import BROWSER, DRIVER, MISSING, open_browser

from pyro_options.cli.program import _commands

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"


def commands(page=PAGE):
    """All commands in the blocks of the page."""
    blocks = re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line]


def walks(num_episodes=24):
    """Walks to the left wall, then to the right one."""
    rows = []
    for episode in range(num_episodes):
        position = 0.3 + 0.4 * episode / num_episodes
        for direction, action in ((-1, "left"), (1, "right")):
            while 0 < position < 1:
                wind = "north" if episode % 2 else "south"
                rows.append({"episode": episode, "position": position, "wind": wind, "action": action})
                position += 0.05 * direction
            position = 0.01
    return pa.Table.from_pylist(rows)


def test_the_page_needs_three_commands_and_all_of_them_parse():
    install, discover, opened = commands()[:3]
    assert install.startswith("pip install") and "[cli]" in install and opened.endswith("results/report.html")
    assert discover == "pyro-options discover demonstrations.csv --out results"
    import tyro

    known = _commands()
    for line in commands()[1:]:
        program, name, *arguments = shlex.split(line)
        if program == "pyro-options":
            tyro.cli(known[name], args=arguments, config=(tyro.conf.OmitArgPrefixes,))


@pytest.mark.slow
@pytest.mark.skipif(not (BROWSER and DRIVER), reason=MISSING)
def test_the_report_of_a_file_opens_in_a_browser(tmp_path):
    pyarrow.csv.write_csv(walks(), tmp_path / "demonstrations.csv")
    pyarrow.parquet.write_table(walks(), tmp_path / "demonstrations.parquet")
    quick = ["--epochs", "4", "--num-options", "2", "--no-trust", "--quiet"]
    for kind in ("csv", "parquet"):
        arguments = ["discover", f"demonstrations.{kind}", "--out", kind]
        subprocess.run([sys.executable, "-m", "pyro_options", *arguments, *quick], cwd=tmp_path, check=True)
    with open_browser(tmp_path / "profile") as page:
        for kind in ("csv", "parquet"):
            page.get((tmp_path / kind / "report.html").as_uri())
            assert page.title.startswith(f"demonstrations.{kind}")
            assert len(page.find_elements(By.CSS_SELECTOR, ".card")) == 2
            text = page.find_element(By.TAG_NAME, "body").text
            assert "left" in text and "position" in text
            assert page.get_log("browser") == []
