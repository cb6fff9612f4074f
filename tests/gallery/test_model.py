"""A model is known again: by what it does, not by how it is stored."""

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ccml
from ccml.gallery._model import embed, embedding_of, fingerprint, is_same
from ccml.preprocessing import Flatten

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(50, 6)) + 1000
IMAGES = rng.normal(size=(50, 4, 5))
TABLE = pd.DataFrame({"a": ROWS[:, 0], "b": ["x", "y"] * 25, "c": ROWS[:, 1]})


def of_table(table):
    from skrub import TableVectorizer

    return make_pipeline(TableVectorizer(), SimpleImputer(), StandardScaler(), PCA(2)).fit(table)


MODELS = {
    "rows": lambda X=ROWS: make_pipeline(StandardScaler(), PCA(2)).fit(X),
    "images": lambda X=IMAGES: make_pipeline(Flatten(), PCA(2)).fit(X),
    "table": lambda X=TABLE: of_table(X),
    "names": lambda X=TABLE: PCA(2).fit(X[["a", "c"]]),
}
OTHERS = {"rows": ROWS[5:], "images": IMAGES[5:], "table": TABLE[5:], "names": TABLE[5:]}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_known_again(kind, tmp_path):
    model = MODELS[kind]()
    mine = fingerprint(embedding_of(model))
    ccml.save(model, tmp_path / "model.ccml")
    assert is_same(mine, fingerprint(embedding_of(ccml.load(tmp_path / "model.ccml"))))
    assert not is_same(mine, fingerprint(embedding_of(MODELS[kind](OTHERS[kind]))))


def test_rounding_makes_no_other_model():
    model, again = MODELS["rows"](), MODELS["rows"]()
    again[-1].components_ = again[-1].components_.astype(np.float32)
    assert is_same(fingerprint(model), fingerprint(again))


def test_other_categories_are_another_model():
    renamed = TABLE.assign(b=TABLE["b"].replace("y", "z"))
    assert not is_same(fingerprint(of_table(TABLE)), fingerprint(of_table(renamed)))


def test_the_classifier_is_left_out():
    y = np.arange(50) % 2
    model = make_pipeline(StandardScaler(), PCA(2), ccml.CCKNNClassifier(1)).fit(ROWS, y)
    Z = embed(embedding_of(model), ROWS)
    np.testing.assert_allclose(Z, model[:-1].transform(ROWS), rtol=1e-5)
    assert is_same(fingerprint(embedding_of(model)), fingerprint(MODELS["rows"]()))
