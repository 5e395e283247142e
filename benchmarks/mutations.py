"""Mutation tests: change one critical line at a time and check that the tests fail.

Run it with::

    python benchmarks/mutations.py

The tree is copied, and for each mutation only the tests that should fail are run, first on the unchanged code, where
they must pass. Mutations that are in the results already are not repeated. It writes
``benchmarks/results/mutations.json`` and fails if a mutation is not caught.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tyro

from pyro_options.experiments import unfinished_results, write_results

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutation:
    """A source line, its mutated version, and the tests that should fail."""

    what: str
    file: str
    line: str
    mutated: str
    tests: tuple[str, ...]


MUTATIONS = (
    Mutation(
        "a sign: an option stays with the probability of stopping",
        "pyro_options/options/path.py",
        "log_stay = log_mix(h[..., :-1, :], logsigmoid(-logits))",
        "log_stay = log_mix(h[..., :-1, :], logsigmoid(logits))",
        ("options/test_path.py",),
    ),
    Mutation(
        "off by one in time: who stops is asked at the step before",
        "pyro_options/options/recursion.py",
        "arrived, log_switch = arrive(weights(t), log_stop[t], log_stay[t], alpha)",
        "arrived, log_switch = arrive(weights(t), log_stop[t - 1], log_stay[t], alpha)",
        ("options/test_marginal.py", "options/test_path.py"),
    ),
    Mutation(
        "off by one in time, in the compiled kernel",
        "pyro_options/kernels/path_marginal.py",
        "mass += stop[now + k] * raw[k]",
        "mass += stop[before + k] * raw[k]",
        ("options/test_marginal.py", "options/test_path.py"),
    ),
    Mutation(
        "a drawn path whose steps share a random number",
        "pyro_options/kernels/path_choice.py",
        "rest = uniform[t - 1] * predicted[t, option] - stayed[t, option]",
        "rest = uniform[t] * predicted[t, option] - stayed[t, option]",
        ("options/test_marginal.py",),
    ),
    Mutation(
        "a fit that keeps the outputs of other rows",
        "pyro_options/nn/shared_product.py",
        "fit is not None and fit.known is not None and fit.known[0] is features",
        "fit is not None and fit.known is not None and fit.known[0].shape == features.shape",
        ("nn/test_shared_product.py",),
    ),
    Mutation(
        "a missing mask: padded steps count",
        "pyro_options/options/marginal.py",
        "return logits.masked_fill(padding, NEVER), emission.masked_fill(padding, 0)",
        "return logits, emission",
        ("options/test_marginal.py", "options/test_path.py"),
    ),
    Mutation(
        "η instead of log η",
        "models/gem.py",
        'return log_stick_breaking(sample_sticks("sticks", prior), self.remainder)',
        'return log_stick_breaking(sample_sticks("sticks", prior), self.remainder).exp()',
        ("models/test_option_hmm.py",),
    ),
    Mutation(
        "each stick breaks what is left after itself",
        "pyro_options/distributions/sticks.py",
        "return logsigmoid(logits) + log_before[..., :-1]",
        "return logsigmoid(logits) + log_left",
        ("distributions/test_sticks.py",),
    ),
    Mutation(
        "the Jacobian of the logit is left out of a density",
        "pyro_options/distributions/sticks.py",
        "a * logsigmoid(value) + (b - 1) * log_1mva + logsigmoid(-value)",
        "a * logsigmoid(value) + (b - 1) * log_1mva",
        ("distributions/test_sticks.py",),
    ),
    Mutation(
        "Adam's moments are lost when K grows",
        "pyro_options/growth/resizing.py",
        "state[name] = _joined(select(value, axes, keep), fill, axes)",
        "state[name] = _joined(0 * select(value, axes, keep), fill, axes)",
        ("growth/test_resizing.py::test_moments_move_with_their_components",),
    ),
    Mutation(
        "a birth is kept when it does harm",
        "pyro_options/growth/verdict.py",
        "total, error = total_and_error(after - before)\n        return Verdict(total > least",
        "total, error = total_and_error(before - after)\n        return Verdict(total > least",
        ("growth/test_growth.py::test_evidence_keeps_a_needed_option_and_refuses_a_useless_one",),
    ),
    Mutation(
        "gradients of packed bits are in the wrong order",
        "pyro_options/kernels/bit_product.py",
        "out[o + bit * stride + j] += tables[high + j]",
        "out[o + (_SEVEN - bit) * stride + j] += tables[high + j]",
        ("nn/test_packed_bits.py",),
    ),
    Mutation(
        "a minibatch is not scaled to its population",
        "pyro_options/data/trajectories.py",
        "return self.batch(index, device)._replace(population=population, dataset_size=len(self))",
        "return self.batch(index, device)",
        ("data/test_trajectories.py",),
    ),
    Mutation(
        "the first reward inside a skill is discounted",
        "pyro_options/envs/skill_wrapper.py",
        "total, discount, duration, state = 0.0, 1.0, 0, self._seen()",
        "total, discount, duration, state = 0.0, self.gamma, 0, self._seen()",
        ("envs/test_skill_wrapper.py::test_a_skill_is_one_step_with_discounted_rewards",),
    ),
    Mutation(
        "a long step is discounted like a short one",
        "pyro_options/rl/rollout_buffer.py",
        "exact = self.gamma**self.durations",
        "exact = self.gamma ** np.ones_like(self.durations)",
        ("rl/test_ppo.py::test_advantages_equal_brute_force",),
    ),
    Mutation(
        "a resumed training forgets the order of the data",
        "pyro_options/infer/trainer.py",
        'self.total, self.epoch_generator_state = (float(objective), episodes), tensors["order"]',
        "self.total = float(objective), episodes",
        (
            "persistence/test_checkpoint.py::test_never_more_is_lost_than_one_interval",
            "persistence/test_interrupt.py::test_ctrl_c_saves_and_says_how_to_go_on",
        ),
    ),
    Mutation(
        "a checksum that nobody compares",
        "pyro_options/persistence/storage.py",
        'intact = header.get("checksum") == checksum(text, tensors)',
        'intact = header.get("checksum") is not None',
        ("persistence/test_fuzz.py::test_a_damaged_file_is_read_as_it_was_or_refused",),
    ),
    Mutation(
        "a bad gradient is followed",
        "pyro_options/infer/svi_training.py",
        "if not math.isfinite(loss + float(norm)):",
        "if not math.isfinite(loss):",
        ("infer/test_health.py::test_a_bad_gradient_of_a_finite_loss_stops_the_run_before_it_does_harm",),
    ),
)


@dataclass(frozen=True)
class Args:
    """Mutate and test."""

    only: tuple[int, ...] = ()
    """indices of the mutations to run; by default all"""
    out: Path = ROOT / "benchmarks/results/mutations.json"


def copy_tree(target: Path) -> None:
    """Copies the tests and the package, with models and guides inside it as in an installation."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "pyro_options", target / "pyro_options", ignore=ignored)
    for name in ("models", "guides"):
        shutil.copytree(ROOT / name, target / "pyro_options" / name, ignore=ignored)
    shutil.copytree(ROOT / "tests", target / "tests", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", target)


def place(target: Path, file: str) -> Path:
    """The path of a source file in the copy."""
    return target / file if file.startswith("pyro_options") else target / "pyro_options" / file


def run_tests(target: Path, tests: tuple[str, ...]) -> tuple[bool, str]:
    """Whether the tests pass, and the name of the first that fails."""
    paths = [str(target / "tests" / name) for name in tests]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow and not benchmark", *paths]
    environment = os.environ | {"PYTHONPATH": str(target)}
    done = subprocess.run(command, cwd=target, env=environment, capture_output=True, text=True)
    failed = re.search(r"^(?:FAILED|ERROR) \S*?([^/\s]+::\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return done.returncode == 0, "" if failed is None else failed.group(1)


def main(args: Args) -> dict:
    results = unfinished_results(args.out).get("mutations", {})
    chosen = [m for i, m in enumerate(MUTATIONS) if not args.only or i in args.only]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder)
        copy_tree(target)
        sound: dict[tuple[str, ...], bool] = {}
        for mutation in chosen:
            if mutation.what in results:
                continue
            path = place(target, mutation.file)
            text = path.read_text()
            if text.count(mutation.line) != 1:
                raise RuntimeError(f"Expected the line of {mutation.what!r} once in {mutation.file}. Update it.")
            if mutation.tests not in sound:
                sound[mutation.tests] = run_tests(target, mutation.tests)[0]
            path.write_text(text.replace(mutation.line, mutation.mutated))
            passed, first = run_tests(target, mutation.tests)
            path.write_text(text)
            found = {"sound_without": sound[mutation.tests], "caught": not passed, "by": first}
            results[mutation.what] = {"file": mutation.file, "tests": list(mutation.tests)} | found
            write_results(args.out, {"mutations": results})
            print(f"{'caught' if not passed else 'MISSED'}  {mutation.what}: {first}", flush=True)
    caught = sum(one["caught"] and one["sound_without"] for one in results.values())
    print(f"{caught} of {len(results)} caught")
    return results


if __name__ == "__main__":
    found = main(tyro.cli(Args))
    sys.exit(not all(one["caught"] and one["sound_without"] for one in found.values()))
