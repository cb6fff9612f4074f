"""Rendering the stand-in for NORB, and normalising its contrast."""

import time

from ccml.datasets import make_toy_norb
from ccml.preprocessing import LocalContrastNormalization


def run() -> None:
    """Seconds for all 48,600 stereo pairs of 32 x 32 pixels."""
    start = time.perf_counter()
    toys = make_toy_norb()
    print(f"make_toy_norb                {time.perf_counter() - start:6.1f} s", flush=True)
    start = time.perf_counter()
    LocalContrastNormalization(image_shape=toys.image_shape).fit_transform(toys.X)
    print(f"LocalContrastNormalization   {time.perf_counter() - start:6.1f} s")
