"""Models in files: what comes back, what is refused, and that nothing in a file is ever run."""

import hashlib
import json
import os
import pickle
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import pytest
import skops.io
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

import ccml
from ccml import CCML, CCKNNClassifier, ConvCCML, ConvNetClassifier, NBNNClassifier, persistence
from ccml.persistence import FORMAT, ModelFileError, describe
from ccml.preprocessing import Flatten, LocalContrastNormalization

X, Y = load_wine(return_X_y=True)
NAMES = np.array(["barolo", "grignolino", "barbera"])[Y]


class Mine(TransformerMixin, BaseEstimator):
    """A type that nobody trusts."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


@pytest.fixture
def model():
    metric = CCML(2, max_epochs=3, random_state=0)
    pipeline = make_pipeline(StandardScaler(), metric, CCKNNClassifier())
    with pytest.warns(ConvergenceWarning):
        return pipeline.fit(X, NAMES)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.ccml"


def sealed(members, *, compression=ZIP_STORED):
    """A file with a right checksum, whatever is in it."""
    archive = BytesIO()
    with ZipFile(archive, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return with_checksum(archive.getvalue())


def with_checksum(content):
    return b"ccml model\n" + hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def members_of(path):
    content = path.read_bytes()
    with ZipFile(BytesIO(content[len("ccml model\n") + 65 :])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


class TestRoundTrip:
    def test_a_pipeline(self, model, path):
        ccml.save(model, path)
        again = ccml.load(path)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))

    @pytest.mark.parametrize(
        "network", [ConvCCML(4, layers=1, max_epochs=2, random_state=0),
                    ConvNetClassifier(4, layers=1, max_epochs=2, random_state=0)],
        ids=["ConvCCML", "ConvNetClassifier"],
    )  # fmt: skip
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_networks(self, network, path):
        images, labels = load_digits().images[:200], load_digits().target[:200]
        pipeline = make_pipeline(LocalContrastNormalization(), network).fit(images, labels)
        ccml.save(pipeline, path)
        again = ccml.load(path)
        np.testing.assert_array_equal(again.transform(images), pipeline.transform(images))

    def test_nbnn_of_lists(self, path):
        rng = np.random.default_rng(0)
        bags = [rng.normal(i % 2, size=(3 + i % 4, 5)) for i in range(20)]
        bag_model = NBNNClassifier().fit(bags, np.arange(20) % 2)
        ccml.save(bag_model, path)
        np.testing.assert_array_equal(ccml.load(path).predict(bags), bag_model.predict(bags))

    def test_rows_and_classes_come_to_a_loaded_model(self, path):
        first = CCKNNClassifier(1).fit(X[:100], NAMES[:100])
        ccml.save(first, path)
        again = ccml.load(path).partial_fit(X[100:], NAMES[100:])
        first.partial_fit(X[100:], NAMES[100:])
        np.testing.assert_array_equal(again.predict(X), first.predict(X))
        for found, expected in zip(again.class_neighbors(X), first.class_neighbors(X), strict=True):
            np.testing.assert_array_equal(found, expected)

    def test_a_stream_goes_on(self, path):
        stream = CCML(2, random_state=0).partial_fit(X[::2], Y[::2])
        ccml.save(stream, path)
        again = ccml.load(path).partial_fit(X[1::2], Y[1::2])
        stream.partial_fit(X[1::2], Y[1::2])
        np.testing.assert_array_equal(again.transform(X), stream.transform(X))

    def test_a_file_of_the_first_format(self):
        """Written once, to stay readable."""
        again = ccml.load(Path(__file__).parent / "data" / "wine-format-1.ccml")
        assert (again.predict(X) == NAMES).mean() > 0.95

    def test_the_list_of_trusted_types_is_that_of_our_estimators(self):
        from ccml.embeddings import MLP, Conv
        from ccml.neighbors import ClassIndex

        ours = [getattr(ccml, name) for name in ccml.__all__]
        classes = {item for item in ours if isinstance(item, type)} - {ccml.Gallery}
        classes |= {MLP, Conv, ClassIndex, Flatten, LocalContrastNormalization}
        assert {f"{item.__module__}.{item.__name__}" for item in classes} == {
            name for name in persistence._TRUSTED if name.startswith("ccml.")
        }


class TestAbout:
    def test_what_a_file_says_of_itself(self, model, path):
        ccml.save(model, path, about={"data": {"rows": 178}, "error": 0.02})
        about = describe(path)
        assert about["format"] == FORMAT
        assert about["features"] == 13
        assert about["classes"] == ["barbera", "barolo", "grignolino"]
        assert about["data"] == {"rows": 178}
        assert about["versions"]["ccml"] == ccml.__version__
        assert {"python", "numpy", "scikit-learn", "torch"} <= set(about["versions"])
        assert about["saved"].endswith("+00:00")
        assert "CCML" in about["model"]

    def test_it_can_be_looked_at_without_making_the_model(self, model, path, monkeypatch):
        ccml.save(model, path)
        monkeypatch.setattr(skops.io, "loads", None)
        assert describe(path)["features"] == 13

    def test_what_the_file_says_itself(self, model, path):
        with pytest.raises(ValueError, match="save keeps 'versions' by itself"):
            ccml.save(model, path, about={"versions": "x"})

    def test_what_json_cannot_hold(self, model, path):
        with pytest.raises(TypeError, match="JSON"):
            ccml.save(model, path, about={"rows": {1, 2}})
        assert not path.exists()


class TestSaving:
    def test_nothing_is_left_of_a_file_that_could_not_be_written(self, model, path, monkeypatch):
        ccml.save(model, path)
        kept = path.read_bytes()

        def full(descriptor):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            ccml.save(model, path)
        assert path.read_bytes() == kept
        assert list(path.parent.iterdir()) == [path]

    def test_others_may_read_it(self, model, path):
        ccml.save(model, path)
        (path.parent / "ordinary").touch()
        assert path.stat().st_mode == (path.parent / "ordinary").stat().st_mode

    def test_no_such_folder(self, model, path):
        with pytest.raises(FileNotFoundError):
            ccml.save(model, path / "in" / "it")

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize(
        "network", [nn.Linear(13, 3), lambda shape: nn.Linear(*shape, 3)], ids=["module", "lambda"]
    )
    def test_a_network_of_ones_own(self, network, path):
        metric = CCML(embedding=network, max_epochs=2, random_state=0).fit(X, Y)
        with pytest.raises(ModelFileError, match="Use MLP or Conv instead"):
            ccml.save(metric, path)
        assert not path.exists()

    def test_a_function_that_cannot_be_imported(self, path):
        with pytest.raises(ModelFileError, match="functions that can be imported"):
            ccml.save(FunctionTransformer(lambda X: X), path)


class TestRefused:
    def check(self, path, message):
        with pytest.raises(ModelFileError, match=message) as error:
            ccml.load(path)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)

    def test_no_such_file(self, path):
        with pytest.raises(FileNotFoundError):
            ccml.load(path)

    @pytest.mark.parametrize(
        "content",
        [b"", b"ccml", b"PK\x03\x04", pickle.dumps(CCKNNClassifier()), b"id,name\n1,x\n"],
        ids=["empty", "short", "zip", "pickle", "csv"],
    )
    def test_something_else(self, path, content):
        path.write_bytes(content)
        self.check(path, "isn't a model that ccml has saved")

    @pytest.mark.parametrize("fraction", [0.0005, 0.1, 0.5, 0.9, 0.9999])
    def test_truncated(self, model, path, fraction):
        ccml.save(model, path)
        content = path.read_bytes()
        path.write_bytes(content[: max(11, int(fraction * len(content)))])
        self.check(path, "damaged or incomplete")

    def test_any_changed_bit(self, model, path):
        ccml.save(model, path)
        content = path.read_bytes()
        rng = np.random.default_rng(0)
        for place in [*range(80), *rng.integers(len(content), size=300)]:
            changed = bytearray(content)
            changed[place] ^= 1 << rng.integers(8)
            path.write_bytes(changed)
            self.check(path, "isn't a model|damaged or incomplete")

    def test_too_new(self, model, path):
        ccml.save(model, path)
        members = members_of(path)
        about = json.loads(members["about.json"]) | {"format": FORMAT + 1}
        about["versions"]["ccml"] = "9.9"
        path.write_bytes(sealed(members | {"about.json": json.dumps(about)}))
        self.check(path, f"is of format {FORMAT + 1}, from ccml 9.9; .* Install the newer one")

    def test_a_type_that_is_not_trusted(self, path):
        ccml.save(Mine().fit(X), path)
        (name,) = {f"{Mine.__module__}.Mine"}
        self.check(path, f"aren't trusted: {name}")
        assert ccml.load(path, trusted=[name]).fitted_

    def test_a_function_that_is_not_trusted(self, path):
        ccml.save(make_pipeline(FunctionTransformer(os.path.getsize), PCA()), path)
        self.check(path, "aren't trusted: .*getsize")

    def test_code_in_a_pickle_in_the_archive(self, model, path, tmp_path):
        class Evil:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "was run"),)

        ccml.save(model, path)
        members = members_of(path)
        schema = BytesIO()
        with ZipFile(BytesIO(members["model.skops"])) as inner, ZipFile(schema, "w") as forged:
            for name in inner.namelist():
                data = inner.read(name)
                forged.writestr(name, pickle.dumps(Evil()) if name.endswith(".npy") else data)
        path.write_bytes(sealed(members | {"model.skops": schema.getvalue()}))
        self.check(path, "can't be loaded here")
        assert not (tmp_path / "was run").exists()

    @pytest.mark.parametrize(
        "members",
        [
            {},
            {"about.json": "{}"},
            {"model.skops": ""},
            {"about.json": "[]", "model.skops": ""},
            {"about.json": "{", "model.skops": ""},
            {"about.json": '{"format": "x", "versions": {"ccml": "1"}}', "model.skops": ""},
        ],
    )
    def test_forged(self, path, members):
        path.write_bytes(sealed(members))
        self.check(path, "isn't a model that ccml has saved")

    def test_not_an_archive(self, path):
        path.write_bytes(with_checksum(b"nothing"))
        self.check(path, "isn't a model that ccml has saved")

    def test_an_archive_that_could_be_of_any_size(self, model, path):
        ccml.save(model, path)
        path.write_bytes(sealed(members_of(path), compression=ZIP_DEFLATED))
        self.check(path, "compressed member")

    def test_a_model_that_could_be_of_any_size(self, model, path):
        ccml.save(model, path)
        bomb = BytesIO()
        with ZipFile(bomb, "w", ZIP_DEFLATED) as archive:
            archive.writestr("schema.json", b" " * 10**6)
        path.write_bytes(sealed(members_of(path) | {"model.skops": bomb.getvalue()}))
        self.check(path, "compressed member")

    def test_what_a_file_says_is_one_line(self, model, path):
        """And nothing that a terminal would obey."""
        name = "two\nlines \x1b[2J"
        ccml.save(model, path)
        about = json.dumps({"format": FORMAT + 1, "versions": {"ccml": name}})
        path.write_bytes(sealed(members_of(path) | {"about.json": about}))
        self.check(path, r"from ccml two lines \[2J; this is")
        with ZipFile(BytesIO(skops.io.dumps(model))) as archive, ZipFile(path, "w") as forged:
            for member in archive.namelist():
                text = archive.read(member)
                forged.writestr(
                    member, text.replace(b'"StandardScaler"', json.dumps(name).encode())
                )
        payload = path.read_bytes()
        ccml.save(model, path)
        path.write_bytes(sealed(members_of(path) | {"model.skops": payload}))
        self.check(path, r"aren't trusted: .*two lines \[2J\.")

    def test_an_empty_model(self, model, path):
        ccml.save(model, path)
        path.write_bytes(sealed(members_of(path) | {"model.skops": b""}))
        self.check(path, "can't be read")

    def test_mutated_behind_a_right_checksum(self, model, path):
        """As somebody who means harm would do it: errors, or a model; nothing else."""
        ccml.save(model, path)
        members = members_of(path)
        rng = np.random.default_rng(1)
        for _ in range(150):
            changed = bytearray(members["model.skops"])
            for place in rng.integers(len(changed), size=rng.integers(1, 20)):
                changed[place] = rng.integers(256)
            path.write_bytes(sealed(members | {"model.skops": bytes(changed)}))
            with suppress(ModelFileError):
                ccml.load(path)
