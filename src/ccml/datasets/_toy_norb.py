"""A stand-in for small NORB: the same factorial design, of toys that are drawn, not photographed.

A toy stands on a turntable before two cameras, under four lamps that are on in six combinations.
"""

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccml._validation import check_count
from ccml.datasets._dataset import Dataset
from ccml.datasets._files import Arrays, folders, keep
from ccml.datasets._norb import (
    CATEGORIES,
    IMAGE,
    LEVELS,
    PARTS,
    STAND_IN,
    Part,
    as_dataset,
    check_image_size,
    file_name,
    reduced,
)  # fmt: skip
from ccml.datasets._norb_files import write_matrix
from ccml.datasets._scene import Floats, Scene
from ccml.datasets._toys import Toy, about_z, make_toy

KEPT_AS = "norb-stand-in-1.npz"  # the number is of the toys and how they are rendered
_DISTANCE = 6.0  # of the cameras; a toy has radius 1
_EYES = (-0.4, 0.4)  # the left one and the right one
_VIEW = 1.1  # half the width of what is seen
_LAMPS = np.array([[0.55, 0.6, 0.75], [0.55, -0.6, 0.75], [-0.5, 0.35, 0.9], [0.25, -0.1, 1.0]])
_BRIGHTNESS = np.array(  # of each lamp in each lighting
    [
        [0.8, 0.0, 0.0, 0.2],
        [0.0, 0.8, 0.0, 0.2],
        [0.0, 0.0, 0.6, 0.2],
        [0.0, 0.0, 0.0, 0.9],
        [0.5, 0.5, 0.0, 0.1],
        [0.3, 0.3, 0.2, 0.3],
    ]
)


def make_toy_norb(
    *,
    n_instances: int = 5,
    n_elevations: int = 9,
    n_azimuths: int = 18,
    n_lightings: int = 6,
    image_size: int = 32,
    random_state: Any = 0,
) -> Dataset:
    """Render the stand-in for small NORB: stereo pairs of toys in five categories.

    Four-legged animals, humans, aeroplanes, trucks and cars, each instance with its own
    proportions, seen from every elevation and azimuth under every lighting. The instances of the
    test rows are others than those of the training rows. All 48,600 pairs take a few minutes.

    Parameters
    ----------
    n_instances : int, default=5
        Toys of each category for training, and as many for test; at most 5.
    n_elevations : int, default=9
        How many of the elevations 30, 35, ..., 70 degrees, spread over that range.
    n_azimuths : int, default=18
        How many of the azimuths 0, 20, ..., 340 degrees, spread over the circle.
    n_lightings : int, default=6
        How many lightings.
    image_size : int, default=32
        Side of the images, which are rendered with 96 x 96 pixels and averaged: a divisor of 96.
    random_state : int, RandomState instance or None, default=0
        Seed of the toys. The same seed gives the same toys, whatever else is asked for.

    Returns
    -------
    Dataset
        As of ``load("norb")``, but named ``"norb (stand-in)"``: nothing found on it is a result on
        NORB.

    Examples
    --------
    >>> from ccml.datasets import make_toy_norb
    >>> toys = make_toy_norb(n_instances=2, n_elevations=1, n_azimuths=3, n_lightings=1)
    >>> toys
    Dataset('norb (stand-in)': 60 rows of 2048 features, 5 classes; 15 train, 15 validation, 30
    test)
    >>> toys.image_shape, sorted(toys.factors)
    ((2, 32, 32), ['azimuth', 'elevation', 'instance', 'lighting'])
    """
    image_size = check_image_size("make_toy_norb", image_size)
    turntable = _Turntable(n_instances, n_elevations, n_azimuths, n_lightings, random_state)
    return as_dataset(STAND_IN, turntable.parts(image_size))


def load_stand_in() -> Dataset:
    """Load what ``make_toy_norb()`` makes; it is made once, and kept in the cache folder."""
    return as_dataset(STAND_IN, _kept_or_made())


def _kept_or_made() -> dict[str, Part]:
    places = folders()
    for folder in places:
        if (folder / KEPT_AS).is_file() and (kept := _read_parts(folder / KEPT_AS)):
            return kept
    parts = _Turntable().parts(image_size=32)
    arrays: Arrays = {}
    for part in PARTS:
        arrays |= {f"{part}_{name}": array for name, array in parts[part]._asdict().items()}
    keep(places[-1] / KEPT_AS, arrays, "the stand-in will be rendered again next time")
    return parts


def _read_parts(path: Path) -> dict[str, Part] | None:
    """Read what was kept; None if it is damaged, or something else."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            parts = {
                part: Part(*(archive[f"{part}_{name}"] for name in Part._fields)) for part in PARTS
            }
    except Exception:  # a damaged archive fails in a dozen ways
        return None
    turntable = _Turntable()
    for part, (images, *table) in parts.items():
        wanted = turntable.table(part)
        if images.dtype != np.uint8 or images.shape != (len(wanted[0]), 2, 32, 32):
            return None
        if not all(map(np.array_equal, table, wanted)):
            return None
    return parts


def write_small_norb(
    folder: str | PathLike[str],
    *,
    n_instances: int = 5,
    n_elevations: int = 9,
    n_azimuths: int = 18,
    n_lightings: int = 6,
    random_state: Any = 0,
) -> list[Path]:
    """Write the stand-in for small NORB as the six files that NORB comes in.

    Parameters
    ----------
    folder : path
        Made if it isn't there. Files of these names that are in it are replaced, each when its
        successor is complete.
    n_instances, n_elevations, n_azimuths, n_lightings, random_state
        As of :func:`make_toy_norb`.

    Returns
    -------
    list of Path
        The files. ``load_small_norb(folder)`` reads them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from ccml.datasets import load_small_norb, write_small_norb
    >>> with TemporaryDirectory() as folder:
    ...     files = write_small_norb(
    ...         folder, n_instances=1, n_elevations=1, n_azimuths=2, n_lightings=3
    ...     )
    ...     toys = load_small_norb(folder)
    >>> files[0].name
    'smallnorb-5x46789x9x18x6x2x96x96-training-dat.mat'
    >>> toys
    Dataset('norb (stand-in)': 60 rows of 2048 features, 5 classes; 0 train, 30 validation, 30 test)
    """
    turntable = _Turntable(n_instances, n_elevations, n_azimuths, n_lightings, random_state)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for part in PARTS:
        categories, info = turntable.table(part)
        matrices: dict[str, tuple[Any, ...]] = {
            "dat": ((len(info), *IMAGE), np.uint8, turntable.blocks(part)),
            "cat": (categories.shape, np.int32, [categories]),
            "info": (info.shape, np.int32, [info]),
        }
        for kind, matrix in matrices.items():
            written.append(folder / file_name(part, kind))
            write_matrix(written[-1], *matrix)
    return written


class _Turntable:
    """Which toys are photographed how, and the photographs."""

    def __init__(
        self,
        n_instances: int = 5,
        n_elevations: int = 9,
        n_azimuths: int = 18,
        n_lightings: int = 6,
        random_state: Any = 0,
    ) -> None:
        from sklearn.utils import check_random_state

        self._n_instances = _check_at_most("n_instances", n_instances, len(PARTS["training"]))
        counts = {"elevation": n_elevations, "azimuth": n_azimuths, "lighting": n_lightings}
        self._levels = []
        for factor, count in counts.items():
            levels = LEVELS[factor]
            _check_at_most(f"n_{factor}s", count, len(levels))
            self._levels.append([levels[i * len(levels) // count] for i in range(count)])
        self._seed = int(check_random_state(random_state).randint(2**31))

    def table(self, part: str) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Category of each row, (n,), and its instance, elevation, azimuth and lighting, (n, 4).

        As in NORB, the category is what changes from row to row.
        """
        instances = PARTS[part][: self._n_instances]
        rows = np.array(list(product(instances, *self._levels, range(len(CATEGORIES)))), np.int32)
        return rows[:, -1], rows[:, :-1]

    def parts(self, image_size: int) -> dict[str, Part]:
        """All images, of some size, and what is on them."""
        return {
            part: Part(
                np.concatenate([reduced(block, image_size) for block in self.blocks(part)]),
                *self.table(part),
            )
            for part in PARTS
        }

    def blocks(self, part: str) -> Iterator[NDArray[np.uint8]]:
        """Yield the images of the rows of `table`, those of one instance at a time."""
        for instance in PARTS[part][: self._n_instances]:
            yield self._block(instance)

    def _block(self, instance: int) -> NDArray[np.uint8]:
        elevations, azimuths, lightings = self._levels
        n_categories = len(CATEGORIES)
        shape = (len(elevations), len(azimuths), len(lightings), n_categories, *IMAGE)
        images = np.empty(shape, dtype=np.uint8)
        toys = [
            make_toy(category, np.random.RandomState([self._seed, category, instance]))
            for category in range(n_categories)
        ]

        def photograph(place: tuple[int, int, int]) -> None:
            e, a, category = place
            views = _photograph(toys[category], 30 + 5 * elevations[e], 10 * azimuths[a])
            images[e, a, :, category] = views[lightings]

        places = product(range(len(elevations)), range(len(azimuths)), range(n_categories))
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as threads:
            deque(threads.map(photograph, places), maxlen=0)  # or the error of a thread
        return images.reshape(-1, *IMAGE)


def _check_at_most(name: str, value: Any, most: int) -> int:
    if check_count("make_toy_norb", name, value) > most:
        raise ValueError(f"make_toy_norb({name}={value}) must be at most {most}.")
    return int(value)


def _photograph(toy: Toy, elevation: float, azimuth: float) -> NDArray[np.uint8]:
    """Images of one pose, (n_lightings, 2, 96, 96)."""
    scene = Scene([solid.moved(about_z(azimuth)) for solid in toy])
    middle = max(solid.corners()[:, 2].max() for solid in toy) / 2
    lamps = (_LAMPS / np.linalg.norm(_LAMPS, axis=1, keepdims=True)).astype(np.float32)
    views = []
    for aside in _EYES:
        eye, rays = _camera(middle, elevation, aside)
        light = scene.light(eye, rays, lamps, _BRIGHTNESS)
        views.append(np.rint(255 * np.clip(light, 0, 1)).astype(np.uint8))
    return np.stack(views, axis=1).reshape(len(_BRIGHTNESS), *IMAGE)


def _camera(middle: float, elevation: float, aside: float) -> tuple[NDArray[np.float64], Floats]:
    """Where a camera is, and a ray for each of its pixels, (3, n), from the upper left on."""
    angle = np.deg2rad(elevation)
    target = np.array([0, 0, middle])
    eye = target + _DISTANCE * np.array([np.cos(angle), 0, np.sin(angle)]) + [0, aside, 0]
    ahead = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(ahead, [0, 0, 1])
    right /= np.linalg.norm(right)
    up = np.cross(right, ahead)
    side = IMAGE[-1]
    places = _VIEW / _DISTANCE * ((np.arange(side) + 0.5) * 2 / side - 1)
    across, down = (grid.ravel() for grid in np.meshgrid(places, places))
    rays = ahead[:, None] + across * right[:, None] - down * up[:, None]
    return eye, rays.astype(np.float32)
