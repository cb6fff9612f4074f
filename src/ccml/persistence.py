"""Models in files that can't run code: `save` and `load`.

A file is a line that says what it is, the SHA-256 of all that follows, and an archive of two
members: ``about.json``, what the model is, and ``model.skops``, its parameters and arrays.
"""

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile

from ccml._atomic import whole_file
from ccml._validation import one_line, reason
from ccml.neighbors import PartitionedIndex

FORMAT = 1
_FIRST_LINE = b"ccml model\n"
_N_DIGEST = 65  # 64 hexadecimal digits and the end of the line
_LIBRARIES = ("ccml", "numpy", "scipy", "scikit-learn", "skops", "skrub", "torch")

# What a file may hold beside numbers, text and what skops trusts of numpy, SciPy and scikit-learn.
_TRUSTED = frozenset(
    [
        "ccml.classifiers._ccknn.CCKNNClassifier",
        "ccml.classifiers._nbnn.NBNNClassifier",
        "ccml.classifiers._nearest_mean.NearestMeanClassifier",
        "ccml.embeddings.Conv",
        "ccml.embeddings.MLP",
        "ccml.learners._ccml.CCML",
        "ccml.learners._convnet.ConvNetClassifier",
        "ccml.learners._drlim.DrLIM",
        "ccml.learners._itml.ITML",
        "ccml.learners._knca.KNCA",
        "ccml.learners._lmnn.LMNN",
        "ccml.learners._nca.NCA",
        "ccml.learners._ncmc.NCMC",
        "ccml.neighbors._class_index.ClassIndex",
        "ccml.preprocessing.Flatten",
        "ccml.preprocessing.LocalContrastNormalization",
        # skrub's TableVectorizer, with which tables of text, categories and dates begin
        "numpy.dtype",
        "skrub._apply_to_each_col.ApplyToEachCol",
        "skrub._check_input.CheckInputDataFrame",
        "skrub._clean_categories.CleanCategories",
        "skrub._clean_null_strings.CleanNullStrings",
        "skrub._dataframe._common.is_any_date",
        "skrub._dataframe._common.is_categorical",
        "skrub._dataframe._common.is_numeric",
        "skrub._datetime_encoder.DatetimeEncoder",
        "skrub._drop_uninformative.DropUninformative",
        "skrub._duration_to_float.DurationToFloat",
        "skrub._string_encoder.StringEncoder",
        "skrub._table_vectorizer.PassThrough",
        "skrub._table_vectorizer.ShortReprDict",
        "skrub._table_vectorizer.TableVectorizer",
        "skrub._table_vectorizer._created_by_predicate",
        "skrub._to_datetime.ToDatetime",
        "skrub._to_float.ToFloat",
        "skrub._to_str.ToStr",
        "skrub.selectors._base.All",
        "skrub.selectors._base.And",
        "skrub.selectors._base.Cols",
        "skrub.selectors._base.Filter",
        "skrub.selectors._base.Sub",
        "skrub.selectors._selectors._cardinality_below",
    ]
)


class ModelFileError(ValueError):
    """A model can't be written, or a file isn't one that can be read; the message says why."""


def save(model: Any, path: str | PathLike[str], *, about: Mapping[str, Any] | None = None) -> None:
    """Write a fitted estimator or pipeline to a file that only data can be read from.

    Parameters
    ----------
    model : estimator
        Of this library, of scikit-learn, or a pipeline of them.
    path : path
        By custom it ends with ``.ccml``. What has this name is replaced when the new file is
        complete.
    about : mapping, optional
        What else to remember, such as what the model was trained on: anything that JSON can hold.
        `describe` gives it back.

    Raises
    ------
    ModelFileError
        The model has a part that can't be kept without code, such as a torch module of one's own.

    Examples
    --------
    >>> import ccml, tempfile
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_wine(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ccml.CCML(random_state=0), ccml.CCKNNClassifier())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ccml.save(model.fit(X, y), f"{folder}/wine.ccml")
    ...     again = ccml.load(f"{folder}/wine.ccml")
    >>> (again.predict(X) == model.predict(X)).all().item()
    True
    """
    import skops.io

    own, more = _about(model), dict(about or {})
    if clash := own.keys() & more.keys():
        raise ValueError(f"save keeps {min(clash)!r} by itself; call yours otherwise in about=.")
    for _, step in getattr(model, "steps", [("", model)]):
        if isinstance(getattr(step, "index_", None), PartitionedIndex):
            raise ModelFileError(
                f"The gallery of {type(step).__name__} is a dask collection, which a model file "
                "can't hold. Save the steps before it, and fit it again where the gallery is."
            )
    try:
        payload = skops.io.dumps(model)
        skops.io.loads(payload, trusted=skops.io.get_untrusted_types(data=payload))
    except Exception as error:  # whatever a type that isn't made for it does
        raise ModelFileError(
            f"{type(model).__name__} can't be kept without code ({reason(error)}). Use MLP or "
            "Conv instead of a network of your own, and functions that can be imported."
        ) from error
    archive = BytesIO()
    with ZipFile(archive, "w", ZIP_STORED) as file:
        file.writestr("about.json", json.dumps(own | more, indent=1))
        file.writestr("model.skops", payload)
    content = archive.getvalue()
    with whole_file(Path(path)) as file:
        file.write(_FIRST_LINE + hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def load(path: str | PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Read a model that `save` has written.

    Nothing in the file is run. Of classes, only those of this library and of scikit-learn are made.

    Parameters
    ----------
    path : path
    trusted : sequence of str
        Names of other types to make, such as ``"some_package.Scaler"``, if you know whose file it
        is.

    Returns
    -------
    estimator
        It gives what the saved one gave, up to rounding on another machine.

    Raises
    ------
    ModelFileError
        The file is something else, damaged, of a newer version, or has a type that isn't trusted.
    """
    import skops.io

    about, payload = _read(Path(path))
    try:
        with ZipFile(BytesIO(payload)) as archive:
            _check_stored(archive)
        unknown = set(skops.io.get_untrusted_types(data=payload)) - _TRUSTED - set(trusted)
    except Exception as error:  # as in `_read`
        raise ModelFileError(f"{path} can't be read ({reason(error)}).") from error
    if unknown:
        raise ModelFileError(
            f"{path} has types that aren't trusted: {one_line(', '.join(sorted(unknown)))}. If "
            "you know whose file it is, use load(path, trusted=[...])."
        )
    try:
        return skops.io.loads(payload, trusted=[*_TRUSTED, *trusted])
    except Exception as error:  # whatever a class does with attributes that aren't its own
        written = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
        raise ModelFileError(
            f"{path} can't be loaded here ({reason(error)}). It was written with "
            f"{one_line(written)}."
        ) from error


def describe(path: str | PathLike[str]) -> dict[str, Any]:
    """Return what a model file says of itself, without making the model.

    Examples
    --------
    >>> import ccml, tempfile
    >>> from ccml.persistence import describe
    >>> model = ccml.CCKNNClassifier().fit([[0.0], [1.0]], ["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ccml.save(model, f"{folder}/model.ccml", about={"data": "two numbers"})
    ...     about = describe(f"{folder}/model.ccml")
    >>> about["model"], about["classes"], about["data"]
    ('CCKNNClassifier()', ['a', 'b'], 'two numbers')
    """
    return _read(Path(path))[0]


def _about(model: Any) -> dict[str, Any]:
    """Say what can be said of any model."""
    about: dict[str, Any] = {
        "format": FORMAT,
        "model": " ".join(repr(model).split()),
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **_versions()},
    }
    for name, attribute in [("features", "n_features_in_"), ("classes", "classes_")]:
        if hasattr(model, attribute):
            value = getattr(model, attribute)
            about[name] = value.tolist() if hasattr(value, "tolist") else value
    return about


def _versions() -> dict[str, str]:
    found = {}
    for library in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[library] = version(library)
    return found


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    """Check a file and take it apart."""
    content = path.read_bytes()
    if not content.startswith(_FIRST_LINE):
        raise ModelFileError(f"{path} isn't a model that ccml has saved.")
    start = len(_FIRST_LINE) + _N_DIGEST
    digest = hashlib.sha256(content[start:]).hexdigest().encode() + b"\n"
    if content[len(_FIRST_LINE) : start] != digest:
        raise ModelFileError(f"{path} is damaged or incomplete: its checksum is another.")
    try:
        with ZipFile(BytesIO(content[start:])) as archive:
            _check_stored(archive)
            about, payload = json.loads(archive.read("about.json")), archive.read("model.skops")
        written_in, written_by = about["format"], about["versions"]["ccml"]
        is_newer = written_in > FORMAT
    except Exception as error:  # nothing that `save` writes: made by somebody else
        raise ModelFileError(
            f"{path} isn't a model that ccml has saved ({reason(error)})."
        ) from error
    if is_newer:
        raise ModelFileError(
            f"{path} is of format {written_in}, from ccml {one_line(str(written_by))}; this is "
            f"ccml {version('ccml')}, which reads up to format {FORMAT}. Install the newer one."
        )
    return about, payload


def _check_stored(archive: ZipFile) -> None:
    if any(member.compress_type != ZIP_STORED for member in archive.infolist()):
        raise ValueError("a compressed member")  # which could be of any size
