"""Shares of work: all are done once, on torch's threads or on others, and errors reach the caller."""

import multiprocessing
import threading

import pytest
import torch

from pyro_options.kernels import threads
from pyro_options.kernels.threads import run_shares


@pytest.fixture(params=["torch's threads", "other threads"])
def kind(request, monkeypatch):
    if request.param == "other threads":
        monkeypatch.setattr(threads, "_parallel_region", lambda: None)
    elif threads._parallel_region() is None:
        pytest.skip("torch does not use GNU OpenMP here")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("num_shares", [1, 2, 5])
def test_every_share_is_done_once(kind, num_shares):
    done = []
    run_shares(lambda first, last: done.extend(range(first, last)), [(3 * i, 3 * i + 3) for i in range(num_shares)])
    assert sorted(done) == list(range(3 * num_shares))


def test_two_shares_run_at_the_same_time(kind):
    both_here = threading.Barrier(2, timeout=60)
    run_shares(lambda _: both_here.wait(), [(0,), (1,)])
    assert not both_here.broken


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_a_share_is_raised(kind, error):
    def fail(share):
        if share == 1:
            raise error("share 1")

    with pytest.raises(error, match="share 1"):
        run_shares(fail, [(0,), (1,)])


def _square_in_child(queue):
    squares = [None, None]
    run_shares(lambda i: squares.__setitem__(i, i * i), [(0,), (1,)])
    queue.put(squares)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_threads_it_does_not_have(kind):
    run_shares(lambda _: None, [(0,), (1,)])  # torch's threads exist
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_square_in_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=60) == [0, 1]
    finally:
        child.kill()
        child.join()


def test_the_library_of_torch_is_preferred_and_a_doubtful_one_is_not_used():
    own = str(threads.Path(torch.__file__).parent / "lib" / "libgomp.so.1")
    assert threads._torch_openmp({own, "/other/libgomp-1.so.1", "/lib/libc.so.6"}) == own
    assert threads._torch_openmp({"/env/lib/libgomp.so.1"}) == "/env/lib/libgomp.so.1"
    assert threads._torch_openmp({"/a/libgomp.so.1", "/b/libgomp.so.1"}) is None
    assert threads._torch_openmp({"/lib/libomp.so"}) is None
