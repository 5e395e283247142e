"""Animated GIFs of episodes with the active option written below each frame."""

import os
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pyro_options.display.palette import option_color
from pyro_options.errors import check

_BAR, _STRIP = 22, 8  # heights in pixels of the option's name, and of the strip with the options of all steps


def annotate(frame: np.ndarray, options: Sequence[int], time: int, name: str, scale: int = 2) -> Image.Image:
    """A frame with the name of its option, and a strip with the options of the whole episode and a mark at ``time``.

    :param frame: ``(height, width, 3)`` uint8
    :param options: option of each step of the episode
    :param time: step of this frame
    :param name: of the active option
    :param scale: factor to enlarge the frame by
    """
    picture = Image.fromarray(frame).resize((frame.shape[1] * scale, frame.shape[0] * scale), Image.Resampling.NEAREST)
    width, height = picture.size
    canvas = Image.new("RGB", (width, height + _BAR + _STRIP), "black")
    canvas.paste(picture, (0, 0))
    draw = ImageDraw.Draw(canvas)
    color = option_color(options[time])
    draw.rectangle((0, height, 12, height + _BAR), fill=color)
    draw.text((18, height + 3), name, fill="white", font=ImageFont.load_default(14))
    edges = np.linspace(0, width, len(options) + 1)
    for t, option in enumerate(options):
        draw.rectangle((edges[t], height + _BAR, edges[t + 1], height + _BAR + _STRIP), fill=option_color(option))
    draw.line((edges[time], height + _BAR - 2, edges[time], height + _BAR + _STRIP), fill="white", width=2)
    return canvas


def save_gif(
    path: str | os.PathLike,
    frames: Sequence[np.ndarray],
    options: Sequence[int],
    names: Sequence[str],
    milliseconds: int = 66,
    scale: int = 2,
) -> None:
    """Writes an animated GIF of an episode.

    :param frames: the screen at each step
    :param options: the option of each step
    :param names: name of each option, by its index
    :param milliseconds: duration of a frame
    :param scale: factor to enlarge the frames by
    """
    check(len(frames) == len(options) >= 1, "one option for each frame", f"{len(options)} for {len(frames)}")
    shown = [annotate(frame, options, t, names[options[t]], scale) for t, frame in enumerate(frames)]
    first, *rest = [picture.quantize(64, dither=Image.Dither.NONE) for picture in shown]
    first.save(path, save_all=True, append_images=rest, duration=milliseconds, loop=0, optimize=True)
