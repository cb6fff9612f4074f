"""The data sets by name."""

from collections.abc import Callable
from pathlib import Path

from ccml._validation import check_option
from ccml.datasets._bundled import load_digits, load_wine
from ccml.datasets._dataset import Dataset
from ccml.datasets._files import folders
from ccml.datasets._isolet import load_isolet
from ccml.datasets._mnist import load_mnist
from ccml.datasets._norb import MD5, file_name, load_small_norb
from ccml.datasets._toy_norb import KEPT_AS, load_stand_in

_LOADERS: dict[str, Callable[[], Dataset]] = {
    "wine": load_wine,
    "digits": load_digits,
    "isolet": load_isolet,
    "mnist": load_mnist,
    "norb": load_small_norb,
    "norb-stand-in": load_stand_in,
}
_FILES = {  # that each of the others is read from
    "isolet": ["isolet.npz"],
    "mnist": ["mnist.npz"],
    "norb": [file_name(*key) for key in MD5],
    "norb-stand-in": [KEPT_AS],
}


def names() -> list[str]:
    """Names that `load` knows.

    Examples
    --------
    >>> from ccml.datasets import names
    >>> names()
    ['wine', 'digits', 'isolet', 'mnist', 'norb', 'norb-stand-in']
    """
    return list(_LOADERS)


def is_here(name: str) -> bool:
    """Whether `load` needs neither a connection nor minutes for a data set.

    Examples
    --------
    >>> from ccml.datasets import is_here
    >>> is_here("wine")
    True
    """
    files = _FILES.get(check_option("is_here", "name", name, _LOADERS), ())
    return any(all(_has(folder, file) for file in files) for folder in folders())


def _has(folder: Path, file: str) -> bool:
    return (folder / file).is_file() or (folder / f"{file}.gz").is_file()


def load(name: str) -> Dataset:
    """Load a data set, with its rows already split.

    The same name always gives the same arrays in the same order, from whatever copy they came.

    Parameters
    ----------
    name : {"wine", "digits", "isolet", "mnist", "norb", "norb-stand-in"}
        - ``"wine"``: 178 wines of 3 growers, 13 measurements, float64. Split 70 to 30.
        - ``"digits"``: 1,797 digits of 8 x 8 pixels, 0 to 16, float64. Split 70 to 30.
        - ``"isolet"``: 7,797 spoken letters, 617 features in [-1, 1], float32. The 30 speakers of
          the test rows spoke none of the others; ``factors["speakers"]`` has which of five groups
          of 30 speakers spoke a row, 5 in the test.
        - ``"mnist"``: 70,000 handwritten digits of 28 x 28 pixels, 0 to 255, uint8.
        - ``"norb"``: small NORB, 48,600 stereo pairs of 50 toys in 5 categories, 32 x 32 pixels,
          0 to 255, uint8; as :func:`load_small_norb` gives it. The toys of the test rows are
          others.
        - ``"norb-stand-in"``: what :func:`make_toy_norb` makes by default, kept in the cache
          folder. The first time takes a few minutes.

    Returns
    -------
    Dataset
        ``validation`` is the last 10,000 training rows of MNIST, one training toy of each of NORB's
        categories, and elsewhere a fifth of the training rows with the same classes in the same
        proportions.

    Raises
    ------
    FileNotFoundError
        The data is not on this computer and could not be downloaded.
    OSError
        A file, or a download, does not hold the data it should.

    Notes
    -----
    ISOLET and MNIST are read from ``isolet.npz`` and ``mnist.npz`` in the folder ``$CCML_DATA``,
    or else in the cache folder (``~/.cache/ccml`` on Linux). If neither has the file, the originals
    are downloaded and the file is written to the cache. For a computer without a connection, load
    once on one that has it and copy the file. What is read is compared with a known SHA-256.
    NORB is read from its six original files in the same folders.

    ISOLET's originals come in the order of the speakers, and copies of it in others; here its rows
    are in the order of their values. Take the rows of its training part in the order of ``train``
    and ``validation``, which are shuffled.

    Examples
    --------
    >>> from ccml.datasets import load
    >>> digits = load("digits")
    >>> digits.X.shape, digits.image_shape
    ((1797, 64), (8, 8))
    >>> load("digit")
    Traceback (most recent call last):
        ...
    ValueError: load(name='digit') is not an option; did you mean 'digits'? The options are 'wine',
    'digits', 'isolet', 'mnist', 'norb',
    'norb-stand-in'.
    """
    return _LOADERS[check_option("load", "name", name, _LOADERS)]()
