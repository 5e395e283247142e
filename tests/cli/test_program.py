"""The command line: what it writes is what the library reads, errors are one line, and exit codes mean something."""

import csv
import json
import re
import shlex
import subprocess
import sys

import minari
import pytest
import torch
from gymnasium.error import DependencyNotInstalled
from PIL import Image
from support.data_files import random_episodes, step_columns, write_lerobot, write_robomimic
from support.episodes import make_episodes, make_packed_episodes

from pyro_options.cli import main
from pyro_options.cli.program import _commands
from pyro_options.data import Trajectories, from_csv, from_lerobot
from pyro_options.errors import NumericalError
from pyro_options.skills import Skills

EPISODES = random_episodes(lengths=(4, 7, 5, 6))
QUICK = ("--epochs", "2", "--num-options", "2", "--quiet")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder with steps.csv in it."""
    import pyarrow as pa
    import pyarrow.csv as pc

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    pc.write_csv(pa.table(step_columns(EPISODES, discrete=True)), "steps.csv")
    return tmp_path


@pytest.fixture
def run(capsys):
    """Runs a command in this process; returns its exit code, JSON result or output, and messages."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        out, messages = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments and out else out, messages

    return call


@pytest.fixture
def skills(here):
    assert main(["discover", "steps.csv", "--out", "found", *QUICK]) == 0
    return here / "found"


def test_discover_writes_skills_report_and_segments(here, run):
    code, result, _ = run("discover", "steps.csv", "--out", "found", *QUICK, "--json")
    assert code == 0 and result["episodes"] == 4 and result["steps"] == 22
    found = Skills.load("found/skills.safetensors")
    assert found.num_options == result["options"] and found.names == result["names"]
    assert found.state_names == ("x", "y", "z") and found.action_names == ("left", "right")
    assert "<title>steps.csv" in (here / "found" / "report.html").read_text()
    data = from_csv("steps.csv")
    with open("found/segments.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    starts = [segment.start for segment in found.segment(data).segments(1)]
    assert [int(row["start"]) for row in rows if row["episode"] == data.episode_names[1]] == starts


def test_other_kinds_of_files_and_their_columns(here, run):
    write_robomimic("demo.hdf5", EPISODES)
    write_lerobot(here / "robot", EPISODES)
    make_episodes(8).save("demos.npz")
    for source, more, names in (
        ("demo.hdf5", ["--states", "object"], ["object[0]", "object[1]"]),
        ("robot", ["--states", "timestamp"], ["timestamp"]),
        ("demos.npz", [], None),
        (
            "steps.csv",
            ["--states", "x", "z", "--actions", "action", "--episode", "episode", "--step", "step"],
            ["x", "z"],
        ),
    ):
        code, result, messages = run("describe", source, *more, "--json")
        assert code == 0 and result["state_names"] == names, messages
    code, result, _ = run("discover", "demos.npz", "--held-out", "0.25", *QUICK, "--json")
    assert code == 0 and "held_out" in result["log_likelihood"]


def test_segments_in_every_format(skills, here, run):
    code, result, _ = run("segment", skills, "steps.csv", "--out", "new/segments.csv", "--json", "--quiet")
    assert code == 0 and sum(result["usage"].values()) == pytest.approx(1, abs=1e-3)
    assert (here / "new" / "segments.csv").read_text() == (skills / "segments.csv").read_text()
    more = "--out", "segments.parquet", "--minari", "new/options-v0", "--quiet"
    assert run("segment", skills, "steps.csv", *more)[0] == 0
    infos = [episode.infos["option"] for episode in minari.load_dataset("new/options-v0").iterate_episodes()]
    expected = Skills.load(skills / "skills.safetensors").segment(from_csv("steps.csv"))
    assert [row.tolist() for row in infos] == [expected.episode(i)[0].tolist() for i in range(4)]
    write_lerobot(here / "robot", EPISODES)
    assert run("discover", "robot", "--out", "robot-skills", *QUICK)[0] == 0
    assert run("segment", "robot-skills", "robot", "--out", "annotated", "--quiet")[0] == 0
    assert from_lerobot("annotated", states=["observation.state", "subtask_index"]).state_dim == 4
    code, _, messages = run("segment", skills, "steps.csv", "--out", "segments.xml", "--quiet")
    assert code == 1 and "ending .csv or .parquet" in messages


def test_reports_and_descriptions(skills, here, run):
    assert run("report", skills, "steps.csv", "--other", skills, "--out", "two.html", "--quiet")[0] == 0
    assert '"agreement":1.0' in (here / "two.html").read_text()
    assert run("report", skills, "steps.csv", "--out", "a/b.html", "--title", "Mine", "--quiet")[0] == 0
    assert "<title>Mine" in (here / "a" / "b.html").read_text()
    code, out, _ = run("describe", skills)
    assert code == 0 and "option" in out and "left" in out
    assert len(run("describe", skills / "skills.safetensors", "steps.csv", "--json", "--quiet")[1]["usage"]) >= 1
    code, result, _ = run("describe", "steps.csv", "--json")
    assert code == 0 and result["lengths"] == [4, 7] and result["action_names"] == ["left", "right"]


@pytest.mark.parametrize("target", ["new.npz", "new.csv", "new.parquet", "new/demos-v0", "folder"])
def test_conversions_keep_every_number(target, here, run):
    assert run("convert", "steps.csv", target, "--quiet")[0] == 0
    code, result, messages = run("describe", target, "--json")
    assert code == 0 and result["steps"] == 22, messages
    if target != "new/demos-v0":
        from pyro_options.data import open_trajectories

        again, first = open_trajectories(target), from_csv("steps.csv")
        assert torch.equal(again.states, first.states) and torch.equal(again.actions, first.actions)
        assert again.state_names == first.state_names and again.action_names == first.action_names


def lean(observation):
    return int(observation[2] > 0)


@pytest.mark.slow
def test_collect_discover_and_play(here, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", sys.modules[__name__])
    more = "--episodes", "6", "--max-steps", "20", "--quiet"
    assert run("collect", "CartPole-v1", "mine:lean", "--out", "demos.npz", *more)[0] == 0
    assert run("collect", "CartPole-v1", "random", "--out", "random.csv", *more)[0] == 0
    assert len(from_csv("random.csv")) == 6
    assert run("collect", "pyro_options/Switches-v0", "expert", "--out", "switches.npz", *more)[0] == 0
    assert int(Trajectories.load("switches.npz").lengths.max()) <= 20
    assert run("discover", "demos.npz", "--out", "found", *QUICK)[0] == 0
    code, result, _ = run("play", "found", "CartPole-v1", "--out", "play.gif", "--steps", "7", "--json")
    assert code == 0 and result["steps"] == 7 and result["return"] == 7.0
    with Image.open("play.gif") as picture:
        assert picture.n_frames == 7 and picture.size[0] == 600
    assert run("play", "found", "CartPole-v1", "--out", "one.gif", "--steps", "3", "--option", "0", "--quiet")[0] == 0
    for arguments, message in (
        (("play", "found", "Nowhere-v0"), "the id of a Gymnasium environment"),
        (("play", "found", "CartPole-v1", "--option", "9"), "an option in"),
        (("play", "found", "Pendulum-v1"), "skills that act in Box"),
        (("collect", "Nowhere-v0", "random"), "the id of a Gymnasium environment"),
        (("collect", "CartPole-v1", "expert"), "an expert of .*Switches-v0.*Breakout"),
        (("collect", "CartPole-v1", "mine:nothing"), "a policy as module:function"),
    ):
        code, _, messages = run(*arguments)
        assert code == 1 and messages.count("\n") <= 2, messages
        assert re.search(message, messages), messages


@pytest.mark.slow
def test_play_reads_packed_ram(here, run):
    make_packed_episodes(8, num_bytes=128, num_actions=4).save("ram.npz")
    assert run("discover", "ram.npz", "--out", "found", *QUICK)[0] == 0
    code, result, messages = run("play", "found", "ALE/Breakout-v5", "--out", "play.gif", "--steps", "3", "--json")
    assert code == 0 and result["steps"] == 3, messages
    assert run("play", "found", "Breakout", "--out", "play.gif", "--steps", "2", "--quiet")[0] == 0


def test_doctor_finds_nothing_wrong(run):
    code, result, _ = run("doctor", "--json")
    assert code == 0 and result["ok"] and result["self_test"]["agreement"] >= 0.95
    assert result["packages"]["torch"] and all(result["kernels"].values())
    assert "self-test" not in run("doctor", "--no-self-test")[1]


def test_doctor_names_what_is_missing(run, monkeypatch):
    from pyro_options.cli import doctor

    monkeypatch.setitem(doctor.PACKAGES, "no-such-package", "tables")
    assert 'missing: pip install "pyro-options[tables]"' in run("doctor", "--no-self-test")[1]
    monkeypatch.setattr(doctor.Doctor, "_self_test", lambda self: {"ok": False, "agreement": 0.5, "seconds": 1.0})
    code, out, _ = run("doctor")
    assert code == 1 and "FAILED" in out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("discover", "missing.csv"), 1, "error: missing.csv: No such file"),
        (("discover", "steps.csv", "--actions", "nope"), 1, "error: steps.csv: Expected 'nope' for the actions"),
        (("discover", "steps.csv", "--method", "nope"), 1, "error: Expected method to be one of"),
        (("discover", "steps.csv", "--device", "cpu", "--cuda-graph"), 1, "a CUDA device for cuda_graph"),
        (("discover", "notes.txt"), 1, "a known kind of file or a Minari id"),
        (("segment", "missing", "steps.csv"), 1, "a file of skills, or the folder that discover wrote"),
        (("convert", "steps.csv", "steps.xlsx"), 1, "ends in .npz, .csv or .parquet"),
        (("describe", "steps.csv", "--keys"), 2, "keys"),
        (("nonsense",), 2, "nonsense"),
        ((), 2, "Missing subcommand"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(arguments, code, message, here, run):
    found, out, messages = run(*arguments)
    assert found == code and message in messages + out
    assert "Traceback" not in messages


def test_debug_shows_where_and_bugs_are_told_apart(here, run, monkeypatch):
    assert "Traceback" in run("discover", "missing.csv", "--debug")[2]
    from pyro_options.cli import report

    for error, code in (
        (RuntimeError("boom"), 4),
        (NumericalError("NaN"), 3),
        (KeyboardInterrupt(), 130),
        (DependencyNotInstalled("pygame"), 1),
    ):

        def fail(self, error=error):
            raise error

        monkeypatch.setattr(report.Describe, "run", fail)
        assert run("describe", "steps.csv")[0] == code
    assert "This should not happen" not in run("describe", "steps.csv")[2]


@pytest.mark.parametrize("name", _commands())
def test_help_has_examples_that_parse(name, run):
    code, out, _ = run(name, "--help")
    examples = _commands()[name].EXAMPLES
    assert code == 0 and examples and all(example in out for example in examples)
    import tyro

    for example in examples:
        program, command, *arguments = shlex.split(example)
        assert (program, command) == ("pyro-options", name)
        tyro.cli(_commands()[name], args=arguments, config=(tyro.conf.OmitArgPrefixes,))


def test_a_missing_tyro_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tyro", None)
    assert main(["doctor"]) == 1
    assert 'pip install "pyro-options[cli]"' in capsys.readouterr().err


def test_the_module_runs_and_help_is_quick_to_import():
    code = "import sys; from pyro_options.cli.program import _commands; _commands(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    done = subprocess.run([sys.executable, "-m", "pyro_options", "--help"], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in _commands())


def test_output_into_a_closed_pipe_is_no_error(here):
    command = f"{shlex.quote(sys.executable)} -m pyro_options describe steps.csv --json | head -c 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert done.returncode == 0 and "error" not in done.stderr
