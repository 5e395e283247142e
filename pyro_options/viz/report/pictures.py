"""Frames of episodes as images embedded in the page."""

import base64
import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check

#: frames of each episode (``None`` for an episode without), or a function that returns them, given the states and
#: actions of an episode
Frames = Sequence[Any] | Callable[[np.ndarray, np.ndarray], Any]


_CHANNELS = (1, 3, 4)  # grey, colours, or four stacked grey frames


def _picture(frame: Any, width: int) -> Image.Image:
    """A frame as an image, scaled down if it is wider than ``width``."""
    pixels = np.asarray(frame)
    shape = pixels.shape[2:] in ((), (3,)) and pixels.ndim in (2, 3) and pixels.size > 0
    check(shape and pixels.dtype == np.uint8, "frames (height, width, 3) of bytes", f"{pixels.dtype} {pixels.shape}")
    picture = Image.fromarray(pixels)
    if picture.width > width:
        height = max(1, round(picture.height * width / picture.width))
        picture = picture.resize((width, height), Image.Resampling.BOX)
    return picture


def _encoded(picture: Image.Image) -> str:
    """A data URI: lossless PNG for up to 256 colours, such as Atari screens, otherwise JPEG."""
    few = picture.getcolors(256) is not None
    file = io.BytesIO()
    if few and picture.mode == "RGB":
        picture = picture.quantize(256, dither=Image.Dither.NONE)
    picture.save(file, "PNG" if few else "JPEG", optimize=True)
    return f"data:image/{'png' if few else 'jpeg'};base64,{base64.b64encode(file.getvalue()).decode()}"


def state_pictures(data: Trajectories) -> Frames | None:
    """Frames from states that are images of bytes, of stacked ones the last; ``None`` for other states."""
    shape = data.state_shape
    if shape is None or data.state_steps.dtype != torch.uint8 or len(shape) not in (2, 3):
        return None
    first = len(shape) == 3 and shape[0] in _CHANNELS and shape[-1] not in _CHANNELS  # channels come first

    def pictures(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        images = states.reshape(len(states), *shape)
        images = np.moveaxis(images, 1, -1) if first else images
        return images if images.ndim == 3 or images.shape[-1] == 3 else images[..., -1]

    return pictures


def frames_of(frames: Frames | None, data: Trajectories, episode: int, num_steps: int) -> list[np.ndarray] | None:
    """The frames of the first ``num_steps`` steps of an episode, or ``None``."""
    if frames is None:
        return None
    if callable(frames):
        stores = data.state_steps, data.given_actions()
        found = frames(*(steps.episode(episode)[:num_steps].cpu().numpy() for steps in stores))
    else:
        found = frames[episode] if episode < len(frames) else None
    if found is None:
        return None
    check(len(found) >= num_steps, f"{num_steps} frames for episode {episode}", len(found), "One for each step shown.")
    return list(found[:num_steps])


def embed(frames: Sequence[np.ndarray], width: int) -> dict[str, list]:
    """The distinct images, and the index of the image of each step."""
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
