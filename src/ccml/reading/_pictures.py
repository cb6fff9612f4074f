"""A folder of images, with a subfolder for each class, to arrays."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ccml._validation import reason
from ccml.reading._rows import DataFileError, Rows

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def read_pictures(folder: Path, size: tuple[int, int] | None) -> Rows:
    """Read all images; the name of an image's folder below ``folder`` is its label."""
    paths = sorted(path for path in _files(folder) if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise DataFileError(
            f"{folder} has no images ({', '.join(SUFFIXES)}). Put them into a subfolder per class."
        )
    pictures = [_read(path, size) for path in paths]
    shapes = {picture.shape for picture in pictures}
    if len({shape[1:] for shape in shapes}) > 1:
        height, width = min(shape[1:] for shape in shapes)
        raise DataFileError(
            f"{folder} has images of {len(shapes)} sizes, such as {height} x {width}. Give "
            "image_size= to bring them to one."
        )
    if len(shapes) > 1:  # grey ones among colour ones
        pictures = [np.broadcast_to(picture, (3, *picture.shape[1:])) for picture in pictures]
    stack = np.stack(pictures)
    X = stack[:, 0] if stack.shape[1] == 1 else stack
    names = [str(path.relative_to(folder)) for path in paths]
    has_labels = all(path.parent != folder for path in paths)
    labels = np.array([path.relative_to(folder).parts[0] for path in paths]) if has_labels else None
    return Rows("images", X, labels, names)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and those below it, links to folders too, each folder once."""
    seen = set()
    for place, below, files in os.walk(folder, followlinks=True):
        below[:] = [name for name in below if os.path.realpath(f"{place}/{name}") not in seen]
        seen |= {os.path.realpath(f"{place}/{name}") for name in below}
        yield from (Path(place) / name for name in files)


def _eight_bits(image: "Image.Image") -> "Image.Image":
    """Make an image grey or RGB, with what is transparent in it white."""
    from PIL import Image

    if image.mode.startswith("I;16"):  # Pillow would clip at 255
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"mode {image.mode}: what is white in it isn't known; save it as 8 bits")
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        flat = Image.alpha_composite(white, layers).convert("RGB")
        return flat.convert("L") if image.mode in ("1", "L", "LA") else flat
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _read(path: Path, size: tuple[int, int] | None) -> NDArray[np.uint8]:
    """One image as (channels, height, width): one channel if it is grey, else three."""
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"):  # of metadata: bad pixels are errors
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                plain = _eight_bits(image)
    except Exception as error:  # each format has its own decoder, and ways to fail
        raise DataFileError(
            f"{path} can't be read as an image ({reason(error)}). Remove it."
        ) from None
    if size is not None:
        plain = plain.resize((size[1], size[0]), Image.Resampling.BOX)
    pixels = np.asarray(plain)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
