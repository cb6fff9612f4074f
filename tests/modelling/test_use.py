"""What a model says of other rows, and which rows it refuses."""

import numpy as np
import pandas as pd
import pytest

from ccml.modelling import Options, embed, evaluate, make, predict, search
from ccml.reading import DataFileError, Rows

RNG = np.random.default_rng(0)
KINDS = np.arange(90) % 3
OPTIONS = Options(learner="ITML")


def dates(form):
    return pd.Series(pd.date_range("2020-01-01", periods=90)).dt.strftime(form)


def made(frame):
    result = make(Rows("table", frame, KINDS), OPTIONS)
    return result.model, result.about


@pytest.fixture(scope="module")
def vectors():
    X = RNG.normal(size=(90, 4)) + 3 * KINDS[:, None]
    return X, make(Rows("vectors", X, KINDS, names=[f"row {i}" for i in range(90)]), OPTIONS)


class TestColumns:
    sizes = RNG.normal(size=90) + KINDS

    @pytest.mark.parametrize(
        ("before", "after", "form", "example"),
        [
            (dates("%Y-%m-%d"), dates("%d/%m/%Y"), "dates like 2020-12-31", "01/01/2020"),
            (dates("%d.%m.%Y"), dates("%Y-%m-%d"), r"dates like 31\.12\.2020", "2020-01-01"),
            (dates("%Y-%m-%d"), np.arange(90) + 20200101, "dates like 2020-12-31", "20200101"),
            (pd.to_datetime(dates("%Y-%m-%d")), np.arange(90), "dates", "0"),
            (pd.to_datetime(dates("%Y-%m-%d")), ["soon"] * 90, "dates", "soon"),
            (np.arange(90).astype(str), ["many"] * 90, "numbers", "many"),
        ],
    )
    def test_another_way_to_write_them_is_refused(self, before, after, form, example):
        model, about = made(pd.DataFrame({"size": self.sizes, "when": before}))
        others = Rows("table", pd.DataFrame({"size": self.sizes, "when": after}))
        message = f"'when' has to be of {form}, as when the model was made; it has '{example}'"
        for use in (embed, predict):
            with pytest.raises(DataFileError, match=message):
                use(model, about, others)

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (dates("%Y-%m-%d"), pd.to_datetime(dates("%Y-%m-%d"))),
            (pd.to_datetime(dates("%Y-%m-%d")), dates("%Y-%m-%d")),
            (np.arange(90).astype(str), np.arange(90)),
        ],
    )
    def test_the_same_in_another_type_is_the_same(self, before, after):
        model, about = made(pd.DataFrame({"size": self.sizes, "when": before}))
        one, two = (
            embed(model, about, Rows("table", pd.DataFrame({"size": self.sizes, "when": column})))
            for column in (before, after)
        )
        np.testing.assert_allclose(one[0], two[0])

    def test_missing_dates_are_no_other_way_to_write_them(self):
        frame = pd.DataFrame({"size": self.sizes, "when": dates("%Y-%m-%d")})
        model, about = made(frame)
        frame.loc[:50, "when"] = None
        frame.loc[51, "when"] = "N/A"
        Z, _ = embed(model, about, Rows("table", frame))
        assert np.isfinite(Z).all()

    def test_fit_says_what_it_takes_for_missing(self):
        """A date among the held-out rows alone that is none doesn't make text of the others."""
        for i in range(90):
            when = dates("%Y-%m-%d")
            when[i] = "soon"
            frame = pd.DataFrame({"size": self.sizes, "when": when})
            notes = make(Rows("table", frame, KINDS), OPTIONS).notes
            if notes:
                break
        assert notes == [
            "1 values of column 'when' aren't dates like 2020-12-31, as the others are, and count "
            "as missing"
        ]


class TestPredict:
    def test_names_stay_whole(self, vectors):
        X, result = vectors
        columns, notes = predict(result.model, result.about, Rows("vectors", X[:5]), explain=2)
        assert notes == []
        assert columns["row"] == [0, 1, 2, 3, 4]
        assert [names[0] for names in columns["label_rows"]] == [f"row {i}" for i in range(5)]
        assert [distances[0] for distances in columns["label_distances"]] == [0] * 5
        for who in ("label", "runner_up"):
            of_class = [[KINDS[int(n[4:])] for n in names] for names in columns[f"{who}_rows"]]
            assert of_class == [[kind] * 2 for kind in columns[who]]

    def test_no_more_neighbours_than_there_are(self, vectors):
        X, result = vectors
        columns, _ = predict(result.model, result.about, Rows("vectors", X[:1]), explain=1000)
        assert len(columns["label_rows"][0]) == len(columns["label_distances"][0]) == 30

    def test_rejected_is_not_a_class(self, vectors):
        X, result = vectors
        strange = Rows("vectors", np.vstack([X[:1], X[:1] + 1000]))
        columns, _ = predict(result.model, result.about, strange, reject=1)
        assert columns["label"].tolist() == ["0", "unknown"]
        assert columns["rejected"].tolist() == [False, True]


class TestSearch:
    def test_the_models_own_rows(self, vectors):
        X, result = vectors
        columns, _ = search(result.model, result.about, Rows("vectors", X[:2]), k=3)
        assert columns["query"].tolist() == [0, 0, 0, 1, 1, 1]
        assert columns["rank"].tolist() == [1, 2, 3] * 2
        assert columns["row"][[0, 3]].tolist() == ["row 0", "row 1"]
        assert columns["label"].tolist() == [KINDS[int(name[4:])] for name in columns["row"]]

    def test_a_gallery_has_its_own_names_and_no_labels(self, vectors):
        X, result = vectors
        gallery = Rows("vectors", X[10:14], names=list("abcd"))
        columns, _ = search(
            result.model, result.about, Rows("vectors", X[12:13]), k=9, gallery=gallery
        )
        assert columns["row"][0] == "c"
        assert sorted(columns["row"]) == list("abcd")
        assert (np.diff(columns["distance"]) >= 0).all()
        assert "label" not in columns


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_are_refused(value):
    X = RNG.normal(size=(90, 2)) + KINDS[:, None]
    strange = X.copy()
    strange[7, 1] = value
    for kind, message in [("table", "column 'b' has an infinite"), ("vectors", "data has an inf")]:
        good, bad = (
            Rows(kind, pd.DataFrame(x, columns=list("ab")) if kind == "table" else x, KINDS)
            for x in (X, strange)
        )
        with pytest.raises(DataFileError, match=message):
            make(bad, OPTIONS)
        result = make(good, OPTIONS)
        with pytest.raises(DataFileError, match=message):
            predict(result.model, result.about, bad)


def test_more_neighbours_than_rows_are_all_rows():
    X = RNG.normal(size=(12, 2)) + KINDS[:12, None]
    result = make(Rows("vectors", X, KINDS[:12]), Options(learner="ITML", n_neighbors=100))
    assert result.errors is not None


def test_messages_name_parameters(vectors):
    X, result = vectors
    with pytest.raises(DataFileError, match=r"Give target= for a table, labels= for arrays"):
        evaluate(result.model, result.about, Rows("vectors", X), k=3)
    with pytest.raises(ValueError, match=r"Options\(learner='CMML'\) is not an option"):
        make(Rows("vectors", X, KINDS), Options(learner="CMML"))
    with pytest.raises(ValueError, match=r"Options\(seed=-1\) must be a whole number"):
        make(Rows("vectors", X, KINDS), Options(seed=-1))
    with pytest.raises(DataFileError, match=r"Use embedding='linear'"):
        make(Rows("vectors", X, KINDS), Options(learner="ITML", embedding="mlp"))
