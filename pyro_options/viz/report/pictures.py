"""Frames of episodes as small embedded images."""

import base64
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check

#: pictures of each episode, ``None`` where there are none; or a function of an episode's states and actions that gives
#: its pictures, or ``None``
Frames = Sequence[Any] | Callable[[np.ndarray, np.ndarray], Any]


def _picture(frame: Any, width: int) -> Image.Image:
    """At most so wide; pixels are kept as they are where it fits."""
    pixels = np.asarray(frame)
    shape = pixels.shape[2:] in ((), (3,)) and pixels.ndim in (2, 3) and pixels.size > 0
    check(shape and pixels.dtype == np.uint8, "frames (height, width, 3) of bytes", f"{pixels.dtype} {pixels.shape}")
    picture = Image.fromarray(pixels)
    if picture.width > width:
        height = max(1, round(picture.height * width / picture.width))
        picture = picture.resize((width, height), Image.Resampling.BOX)
    return picture


def _encoded(picture: Image.Image) -> str:
    """A data URI: few colours, as games have, without loss and others as a photograph."""
    few = picture.getcolors(256) is not None
    file = io.BytesIO()
    if few and picture.mode == "RGB":
        picture = picture.quantize(256, dither=Image.Dither.NONE)
    picture.save(file, "PNG" if few else "JPEG", optimize=True)
    return f"data:image/{'png' if few else 'jpeg'};base64,{base64.b64encode(file.getvalue()).decode()}"


def frames_of(frames: Frames | None, data: Trajectories, episode: int, num_steps: int) -> list[np.ndarray] | None:
    """The frames of the first steps of an episode, if there are any."""
    if frames is None:
        return None
    if callable(frames):
        assert data.actions is not None
        found = frames(data.stored[episode, :num_steps].cpu().numpy(), data.actions[episode, :num_steps].cpu().numpy())
    else:
        found = frames[episode] if episode < len(frames) else None
    if found is None:
        return None
    check(len(found) >= num_steps, f"{num_steps} frames for episode {episode}", len(found), "One for each step shown.")
    return list(found[:num_steps])


def embed(frames: Sequence[np.ndarray], width: int) -> dict[str, list]:
    """Each picture once, and which of them is shown at each step."""
    known: dict[bytes, int] = {}
    images: list[str] = []
    steps = []
    for frame in frames:
        picture = _picture(frame, width)
        key = picture.tobytes()
        if key not in known:
            known[key] = len(images)
            images.append(_encoded(picture))
        steps.append(known[key])
    return {"images": images, "frames": steps}
