"""Every result on a page has a command, and its age is known."""

import json

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
