"""``pyro-options play``: skills at work in a Gymnasium environment, as an animation."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import Positional, arg

from pyro_options.errors import check, require

from .command import Command, parent_of, read_skills

_WIDTH = 320  # narrower frames are enlarged to about this, in pixels


@dataclass(frozen=True, kw_only=True)
class Play(Command):
    """Let skills act in an environment, and write a GIF.

    By default all options act together: they imitate the demonstrator, and the name of the most probable one is shown.
    """

    EXAMPLES = (
        "pyro-options play breakout Breakout --out play.gif",
        "pyro-options play skills CartPole-v1 --option 2 --steps 100",
    )

    skills: Annotated[Positional[Path], arg(metavar="SKILLS")]
    """a file of skills, or the folder that discover wrote"""
    env: Annotated[Positional[str], arg(metavar="ENV")]
    """id of a Gymnasium environment, or an Atari game, with the states and actions of the demonstrations"""
    out: Path = Path("play.gif")
    """the file to write"""
    option: int | None = None
    """let this option alone act, to the end"""
    steps: int = 300
    """at most this many"""
    seed: int = 0

    def run(self) -> dict[str, Any]:
        require("PIL", "cli")
        from pyro_options.envs import play
        from pyro_options.viz import save_gif

        skills = read_skills(self.skills)
        played = play(self.env, skills, self.option, self.steps, self.seed)
        check(len(played.frames) >= 1, "at least one step", "none")
        scale = max(1, round(_WIDTH / played.frames[0].shape[1]))
        save_gif(parent_of(self.out), played.frames, played.options, skills.names, scale=scale)
        used = sorted(set(played.options))
        return {
            "steps": len(played.options),
            "return": round(float(sum(played.rewards)), 4),
            "terminated": played.terminated,
            "options": [skills.names[k] for k in used],
            "gif": str(self.out),
        }

    def text(self, result: dict[str, Any]) -> str:
        names = ", ".join(result["options"])
        return f"{result['steps']} steps, return {result['return']:g}, with {names}\nwritten: {result['gif']}"
