"""A checkpoint that cannot be written: refused at the start, later survived, with a message of what was not saved."""

import logging
import os
import resource
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.small_trainings import DATA, finished, make_trainer

from pyro_options.discovery import discover
from pyro_options.errors import FileError, Interrupted, NumericalError
from pyro_options.infer import Callback
from pyro_options.persistence import Checkpoint

QUICK = {"epochs": 3, "batch_size": 7, "check_every": 3, "progress": False, "device": "cpu"}


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 256 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"mounting a tiny disk is not permitted: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)  # tensors of a resumed run may still be mapped


@contextmanager
def file_limit(num_bytes):
    """No file may become larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def read_only(folder):
    """Nobody may write to a folder; root gives up its privileges for the time."""
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)


def open_to_others(folder):
    """Lets other users pass to a folder that pytest made for this one alone."""
    for one in (folder, *folder.parents):
        if one == Path(tempfile.gettempdir()):
            break
        one.chmod(0o755)


class Fill(Callback):
    """Fills a disk after some steps, and empties it after some more."""

    def __init__(self, place, full, empty=10**9):
        self.file, self.full, self.empty = place / "filler", full, empty

    def on_step(self, trainer):
        if trainer.num_steps == self.full:
            with open(self.file, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(512))
                except OSError:
                    pass
        elif trainer.num_steps == self.empty:
            self.file.unlink()


def test_a_full_disk_does_not_stop_a_training(tiny_disk, caplog):
    path, expected = tiny_disk / "run.safetensors", finished(make_trainer())
    fill = Fill(tiny_disk, 5)
    trainer = make_trainer(checkpoint=Checkpoint(path, every_steps=4), callbacks=[fill])
    assert finished(trainer) == expected
    *during, last = [record.message for record in caplog.records if "Not saved" in record.message]
    assert len(during) == 3 and all("The run goes on" in message for message in during)
    assert "8 steps and 2 of 4 epochs are done, but" in during[0] and "No space left" in during[0]
    assert "holds the first 4 steps alone" in last and "its result is returned" in last
    fill.file.unlink()
    resumed = make_trainer(checkpoint=Checkpoint(path, resume=True))
    assert resumed.num_steps == 4  # the last checkpoint that fitted is intact
    assert finished(resumed) == expected


def test_saving_goes_on_when_there_is_space_again(tiny_disk, caplog):
    path = tiny_disk / "run.safetensors"
    fill = Fill(tiny_disk, 5, empty=9)
    trainer = make_trainer(checkpoint=Checkpoint(path, every_steps=4), callbacks=[fill])
    trainer.run()
    assert len([record for record in caplog.records if "Not saved" in record.message]) == 1
    assert trainer.saver.up_to_date and make_trainer(checkpoint=Checkpoint(path, resume=True)).settled


def test_discover_returns_its_skills_when_the_disk_is_full(tiny_disk, caplog):
    saved = Checkpoint(tiny_disk / "run.safetensors", every_steps=4)
    skills = discover(DATA, checkpoint=saved, callbacks=[Fill(tiny_disk, 5)], **QUICK)
    assert skills.num_options >= 1 and len(skills.metadata["history"]["objective"]) == 3
    assert "Not saved" in caplog.text and "its result is returned" in caplog.text


def test_a_state_that_does_not_fit_is_refused_at_the_start(tiny_disk):
    Fill(tiny_disk, 0).on_step(make_trainer())
    assert (tiny_disk / "filler").stat().st_size > 200_000
    with pytest.raises(FileError, match=r"write .* bytes to .*No space left.*or save to another place"):
        make_trainer(checkpoint=tiny_disk / "run.safetensors")
    with pytest.raises(FileError, match="No space left"):
        discover(DATA, checkpoint=tiny_disk / "run.safetensors", **QUICK)
    assert [path.name for path in tiny_disk.iterdir()] == ["filler"]


def test_a_limit_on_files_is_survived_too(tmp_path, caplog):
    expected = finished(make_trainer())
    trainer = make_trainer(checkpoint=Checkpoint(tmp_path / "run", every_steps=4))
    with file_limit(1000):
        assert finished(trainer) == expected
    assert "File too large" in caplog.text and "holds no checkpoint" in caplog.text
    assert list(tmp_path.iterdir()) == []
    with file_limit(1000), pytest.raises(FileError, match="File too large"):
        make_trainer(checkpoint=tmp_path / "run")


def test_a_read_only_folder_is_refused_at_the_start_and_survived_later(tmp_path, caplog):
    folder = tmp_path / "place"
    folder.mkdir()
    open_to_others(folder)
    with read_only(folder):
        with pytest.raises(FileError, match="Permission denied"):
            make_trainer(checkpoint=folder / "run")
        with pytest.raises(FileError, match="Permission denied"):
            discover(DATA, checkpoint=folder / "run", **QUICK)
    trainer = make_trainer(checkpoint=Checkpoint(folder / "run", every_steps=4))
    with read_only(folder):
        trainer.run()
    assert trainer.settled and "Permission denied" in caplog.text


def test_a_finished_run_is_read_from_a_read_only_folder(tmp_path, caplog):
    folder = tmp_path / "place"
    folder.mkdir()
    open_to_others(folder)
    expected = finished(make_trainer(checkpoint=folder / "run"))
    with read_only(folder):
        assert finished(make_trainer(checkpoint=Checkpoint(folder / "run", resume=True))) == expected
    assert "Not saved" not in caplog.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_on_a_full_disk_saves_elsewhere(tiny_disk, tmp_path, number, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    class Stop(Fill):
        def on_step(self, trainer):
            super().on_step(trainer)
            if trainer.num_steps == 7:
                os.kill(os.getpid(), number)

    path, expected = tiny_disk / "run.safetensors", finished(make_trainer())
    with pytest.raises(Interrupted, match=r"Not saved.*Everything is in .* instead") as caught:
        make_trainer(checkpoint=path, callbacks=[Stop(tiny_disk, 5)]).run()
    assert caught.value.signal == number
    rescued = next(tmp_path.glob("pyro_options-*/run.safetensors"))
    assert str(rescued) in str(caught.value)
    resumed = make_trainer(checkpoint=Checkpoint(rescued, resume=True))
    assert resumed.num_steps == 7 and finished(resumed) == expected


def test_a_stop_that_cannot_be_saved_anywhere_says_so(tiny_disk, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tiny_disk))

    class Stop(Fill):
        def on_step(self, trainer):
            super().on_step(trainer)
            if trainer.num_steps == 7:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted, match=r"Not saved.*Nor could it be saved for now: No space left"):
        make_trainer(checkpoint=tiny_disk / "run", callbacks=[Stop(tiny_disk, 5)]).run()


def test_a_numerical_failure_is_still_explained_on_a_full_disk(tiny_disk):
    trainer = make_trainer(checkpoint=tiny_disk / "run")
    Fill(tiny_disk, 0).on_step(make_trainer())
    next(trainer.model.parameters()).data.fill_(float("nan"))
    with pytest.raises(NumericalError, match="could not be saved: No space left"):
        trainer.run()


def test_a_failed_write_is_logged_as_a_warning(tiny_disk, caplog):
    make_trainer(checkpoint=tiny_disk / "run", callbacks=[Fill(tiny_disk, 5)]).run()
    assert [record.levelno for record in caplog.records if "Not saved" in record.message] == [logging.WARNING]
