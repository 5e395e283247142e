"""Skills on the Hugging Face Hub, through its own helpers: a safetensors file and a model card."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyro_options.errors import FileError, check, require

from .glossary import legend

if TYPE_CHECKING:
    from .skills import Skills

#: name of the file in a repository
FILE = "skills.safetensors"

_DOWNLOAD = ("revision", "cache_dir", "force_download", "local_files_only", "token")  # settings of a download

_TAGS = ["pyro-options", "reinforcement-learning", "imitation-learning", "skill-discovery"]

_CARD = """# {title}

{skills}, discovered from demonstrations by [pyro_options](https://pypi.org/project/pyro-options/).

```python
from pyro_options import Skills

skills = Skills.from_pretrained("{repo_id}")
action = skills.predict(observation, option=0)
```

The file holds numbers and a JSON header; loading it cannot execute code.

## Options

```
{table}
```

{legend}

## How far can this be trusted?

{trust}

## Training

{training}
"""


def _training(metadata: dict[str, Any]) -> str:
    """A few lines on how the skills were made, from what their metadata say."""
    method, episodes = metadata.get("method") or {}, metadata.get("episodes") or {}
    likelihood = metadata.get("log_likelihood") or {}
    lines = [f"- method: {method['name']}"] if method.get("name") else []
    lines += [f"- episodes, {key.replace('_', ' ')}: {n}" for key, n in episodes.items() if n]
    lines += [f"- log-likelihood, {key.replace('_', ' ')}: {x:.4f} nats per step" for key, x in likelihood.items()]
    names = metadata.get("state_names")
    lines += [f"- entries of a state: {', '.join(names)}"] if names else []
    return "\n".join(lines) or "Not recorded."


def model_card(skills: "Skills", repo_id: str = "user/skills", title: str = "Skills") -> str:
    """The text of a model card, written from the metadata of skills."""
    data = require("huggingface_hub", "hub").ModelCardData(library_name="pyro-options", license=None, tags=_TAGS)
    described = skills.describe() if skills.summary is not None else "No statistics are stored with these skills."
    trust = "Not measured." if skills.trust is None else skills.trust.describe().replace("\n", "\n\n")
    text = _CARD.format(
        title=title,
        skills=repr(skills),
        repo_id=repo_id,
        table=described.split("\n\n")[0],
        legend="\n".join(f"- {line}" for line in legend().splitlines()),
        trust=trust,
        training=_training(skills.metadata),
    )
    return f"---\n{data.to_yaml()}\n---\n\n{text}"


def _config(skills: "Skills") -> dict[str, Any]:
    """What the Hub shows and counts downloads by; :meth:`Skills.load` does not need it."""
    sizes = {"num_options": skills.num_options, "state_dim": skills.state_dim, "action_dim": skills.action_dim}
    return {"library_name": "pyro-options"} | sizes


@cache
def _hub_class() -> Any:
    """A class with the Hub's methods, made when it is first used: the Hub's package is optional."""
    hub = require("huggingface_hub", "hub")

    class OnHub(hub.ModelHubMixin):  # type: ignore[name-defined]
        """Skills with what the Hub asks for: how they are saved in a folder, and loaded from one."""

        repo_id = "user/skills"  # for the card; the mixin would write an argument to the config

        def __init__(self, skills: "Skills"):
            self.skills = skills

        def _save_pretrained(self, save_directory: Path) -> None:
            self.skills.save(save_directory / FILE)
            (save_directory / "README.md").write_text(model_card(self.skills, self.repo_id), encoding="utf-8")

        @classmethod
        def _from_pretrained(cls, *, model_id, **given):
            from .skills import Skills

            path = Path(model_id) / FILE
            if not Path(model_id).is_dir():
                asked = {name: given[name] for name in _DOWNLOAD if given.get(name) is not None}
                path = Path(hub.hf_hub_download(repo_id=model_id, filename=FILE, **asked))
            check(path.is_file(), f"a folder with {FILE}", model_id, "Skills.save_pretrained writes one.", FileError)
            return cls(Skills.load(path))

    return OnHub


def save_pretrained(skills: "Skills", folder: str | Path, **settings: Any) -> None:
    """Writes skills and their model card into a folder; ``settings`` are those of the Hub's ``save_pretrained``."""
    _hub_class()(skills).save_pretrained(folder, config=_config(skills), **settings)


def push_to_hub(skills: "Skills", repo_id: str, **settings: Any) -> str:
    """Uploads skills and their model card; ``settings`` are those of the Hub's ``push_to_hub``."""
    named = _hub_class()(skills)
    named.repo_id = repo_id
    return str(named.push_to_hub(repo_id, config=_config(skills), **settings))


def from_pretrained(name: str | Path, **settings: Any) -> "Skills":
    """Loads skills from a repository of the Hub or a folder; ``settings`` are those of its ``from_pretrained``."""
    return _hub_class().from_pretrained(str(name), **settings).skills
