"""A folder of images, with a subfolder for each class, to arrays."""

import warnings
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ccml.reading._rows import DataFileError, Rows, reason

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


def read_pictures(folder: Path, size: tuple[int, int] | None) -> Rows:
    """Read all images; the name of an image's folder below ``folder`` is its label."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise DataFileError(
            f"{folder} has no images ({', '.join(SUFFIXES)}). Put them into a subfolder per class."
        )
    pictures = [_read(path, size) for path in paths]
    shapes = {picture.shape for picture in pictures}
    if len({shape[1:] for shape in shapes}) > 1:
        height, width = min(shape[1:] for shape in shapes)
        raise DataFileError(
            f"{folder} has images of {len(shapes)} sizes, such as {height} x {width}. Use "
            "--image-size to bring them to one."
        )
    if len(shapes) > 1:  # grey ones among colour ones
        pictures = [np.broadcast_to(picture, (3, *picture.shape[1:])) for picture in pictures]
    stack = np.stack(pictures)
    X = stack[:, 0] if stack.shape[1] == 1 else stack
    names = [str(path.relative_to(folder)) for path in paths]
    has_labels = all(path.parent != folder for path in paths)
    labels = np.array([path.relative_to(folder).parts[0] for path in paths]) if has_labels else None
    return Rows("images", X, labels, names)


def _read(path: Path, size: tuple[int, int] | None) -> NDArray[np.uint8]:
    """One image as (channels, height, width): one channel if it is grey, else three."""
    from PIL import Image

    try:
        with warnings.catch_warnings(action="ignore"):  # of metadata: bad pixels are errors
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                is_grey = image.mode in ("1", "L", "LA", "I;16", "I", "F")
                plain = image.convert("L" if is_grey else "RGB")
    except Exception as error:  # each format has its own decoder, and ways to fail
        raise DataFileError(
            f"{path} can't be read as an image ({reason(error)}). Remove it."
        ) from None
    if size is not None:
        plain = plain.resize((size[1], size[0]), Image.Resampling.BOX)
    pixels = np.asarray(plain)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
