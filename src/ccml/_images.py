"""What images are: their shape, flat or not."""

from collections.abc import Sequence
from math import prod

from ccml._validation import check_count

Shape = tuple[int, ...]


def image_of(owner: str, input_shape: Shape, image_shape: Shape | None) -> Shape:
    """(channels, height, width) of an input, flat or not.

    Examples
    --------
    >>> image_of("Conv", (28, 28), None)
    (1, 28, 28)
    >>> image_of("Conv", (2048,), (2, 32, 32))
    (2, 32, 32)
    """
    if image_shape is None:
        shape = input_shape
        if len(shape) not in (2, 3):
            raise ValueError(
                f"{owner} needs images of shape (n, height, width) or (n, channels, height, "
                f"width), or flat rows and image_shape=; X is of shape (n, "
                f"{', '.join(map(str, input_shape))})."
            )
    else:
        if not isinstance(image_shape, Sequence) or len(image_shape) not in (2, 3):
            raise ValueError(
                f"{owner}(image_shape={image_shape!r}) must be (height, width) or (channels, "
                "height, width)."
            )
        shape = tuple(check_count(owner, "image_shape", side) for side in image_shape)
        is_flat = len(input_shape) == 1 and prod(shape) == prod(input_shape)
        if not is_flat and with_channel(shape) != with_channel(input_shape):
            raise ValueError(
                f"{owner}(image_shape={image_shape!r}) is {prod(shape)} numbers; an input is of "
                f"shape {input_shape}, {prod(input_shape)} numbers."
            )
    return with_channel(shape)


def with_channel(shape: Shape) -> Shape:
    """Put the one channel of a grey image before its height and width."""
    return (1, *shape) if len(shape) == 2 else shape
