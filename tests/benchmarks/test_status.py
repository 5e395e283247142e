"""Every result on a page has a command, and its age is known."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.tiny_runs import BENCHMARKS, ROOT, load_script

from pyro_options.experiments import provenance, run_grid, source_digest, unfinished_results, write_results


@pytest.fixture
def artifacts(monkeypatch):
    return load_script(monkeypatch, BENCHMARKS / "artifacts.py")


def test_every_result_that_a_page_shows_belongs_to_a_command(artifacts):
    # the paper's experiments are made by reproduce.py, which writes a page of its own
    orphans = [path for path in artifacts.shown() if artifacts.artifact_of(path) is None and "/reproduce/" not in path]
    assert not orphans


def test_every_artifact_is_made_by_a_script_that_exists(artifacts):
    assert all((ROOT / one.command.split()[0]).exists() for one in artifacts.ARTIFACTS)
    assert len({one.results for one in artifacts.ARTIFACTS}) == len(artifacts.ARTIFACTS)


def job(seed):
    return {"double": 2 * seed}


def test_a_result_is_stale_when_the_library_has_changed(artifacts, tmp_path):
    path = tmp_path / "grid.json"
    run_grid(job, {"seed 0": {"seed": 0}}, path, progress=False)
    assert artifacts.state(path).word == "fresh"
    record = json.loads(path.read_text())
    record["origins"][0]["source"] = "of another version"
    path.write_text(json.dumps(record))
    assert artifacts.state(path).word == "stale"
    run_grid(job, {"seed 0": {"seed": 0}, "seed 1": {"seed": 1}}, path, progress=False)
    assert artifacts.state(path).word == "stale"  # the first run still is
    del record["origins"][0]["source"]
    path.write_text(json.dumps(record))
    assert artifacts.state(path).word == artifacts.state(tmp_path / "none.json").word == "missing"


def test_unfinished_results_of_other_code_are_not_continued(artifacts, tmp_path):
    path = tmp_path / "folder" / "results.json"
    write_results(path, {"runs": [1]})
    assert unfinished_results(path)["runs"] == [1] and artifacts.state(path).word == "fresh"
    write_results(path, {"runs": [1], "provenance": provenance() | {"source": "of another version"}})
    assert unfinished_results(path) == unfinished_results(tmp_path / "none.json") == {}
    assert artifacts.state(path).word == "stale"


def test_status_lists_what_the_readme_shows(run_script):
    printed = run_script(BENCHMARKS / "status.py", "--all")
    assert "benchmarks/results/recovery.json" in printed and "README.md" in printed


def test_all_replaces_results_when_a_command_is_done(monkeypatch, tmp_path, capsys):
    script = load_script(monkeypatch, BENCHMARKS / "all.py")
    args = script.Args(hours=0.1, dry_run=True)
    assert script.main(args) == [] and "to make" in capsys.readouterr().out
    writer = tmp_path / "writer.py"
    writer.write_text("import json, sys; json.dump({'made': True}, open(sys.argv[1], 'w'))")
    one = script.Artifact("benchmarks/results/made.json", f"{writer} {{out}}", 1)
    monkeypatch.setattr(script, "ARTIFACTS", (one, script.Artifact("benchmarks/results/long.json", "none", 1e6)))
    args = script.Args(hours=0.1, work=tmp_path / "work", root=tmp_path / "root")
    assert script.main(args) == [one.results]
    assert json.loads((tmp_path / "root" / one.results).read_text()) == {"made": True}
    assert source_digest()[:12] in [path.name for path in (tmp_path / "work").iterdir()]


@pytest.fixture
def closure(monkeypatch):
    return load_script(monkeypatch, BENCHMARKS / "closure.py")


def test_a_script_depends_on_what_it_imports_and_on_nothing_else(closure, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from pyro_options.mixtures import GaussianComponents\nfrom beside import number\n")
    (tmp_path / "beside.py").write_text("from pyro_options import errors\n")
    found = {path.relative_to(ROOT).as_posix() for path in closure.library_files(script)}
    assert {"pyro_options/mixtures/gaussian_components.py", "pyro_options/errors.py"} <= found
    assert not any(name.startswith(("pyro_options/envs", "pyro_options/discovery", "models/option")) for name in found)
    whole = {path.relative_to(ROOT).as_posix() for path in closure.library_files(BENCHMARKS / "suite.py")}
    assert {"models/option_hmm.py", "guides/exact.py", "pyro_options/kernels/path_marginal.py"} <= whole
    assert "pyro_options/rl/ppo.py" not in whole


def test_the_imports_that_are_read_are_those_that_happen(closure, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from pyro_options.infer import MixtureTrainer\nimport pyro_options.models.mixture\n")
    check = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import script\n"
        "print(*[m.__file__ for n, m in sys.modules.items() if n.startswith('pyro_options') and m.__file__])"
    )
    printed = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split()
    assert len(printed) > 20 and {Path(name).resolve() for name in printed} <= closure.library_files(script)


def test_a_script_that_runs_other_code_depends_on_the_whole_library(closure, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import subprocess\n")
    assert {ROOT / "pyro_options/rl/ppo.py", ROOT / "guides/gem.py"} <= closure.library_files(script)


def test_a_change_elsewhere_in_the_library_leaves_a_result_fresh(artifacts, closure, monkeypatch):
    commit = closure._git("rev-parse", "HEAD").strip()
    changed = {ROOT / "pyro_options/errors.py"}
    monkeypatch.setattr(closure, "_changed_since", lambda commit: frozenset(changed))
    monkeypatch.setattr(closure, "_git", lambda *arguments: "x = 1")
    script = BENCHMARKS / "mixtures.py"
    assert not closure.unchanged_since(commit, script)
    changed.clear()
    changed.add(ROOT / "pyro_options/envs/atari.py")
    closure.unchanged_since.cache_clear()
    assert closure.unchanged_since(commit, script)
