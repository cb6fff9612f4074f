"""What a figure shows can be read back from it."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from ccml import CCKNNClassifier
from ccml.plotting import explain, plot_images, plot_neighbors


def test_links_lead_to_the_nearest_and_show_other_classes_in_red():
    X = [[0.0, 0.0], [1.0, 0.0], [1.5, 0.0], [9.0, 0.0], [9.5, 0.0]]
    ax = plot_neighbors(X, ["a", "a", "b", "b", "b"], ax=Figure().subplots())
    links, *classes = ax.collections
    ends = [segment[1, 0] for segment in links.get_segments()]
    assert ends == [1.0, 1.5, 1.0, 9.5, 9.0]
    reds = [to_hex(colour) == "#cc0000" for colour in links.get_colors()]
    assert reds == [False, True, True, False, False]
    assert [collection.get_label() for collection in classes] == ["a", "b"]
    assert [len(collection.get_offsets()) for collection in classes] == [2, 3]


def test_more_links_than_one():
    X = np.random.default_rng(0).normal(size=(10, 2))
    ax = plot_neighbors(X, np.arange(10) % 2, n_neighbors=3, ax=Figure().subplots())
    assert len(ax.collections[0].get_segments()) == 30


def test_no_link_where_there_is_no_other_point():
    ax = plot_neighbors(np.eye(3)[:, :2], [0, 1, 1], n_neighbors=5, ax=Figure().subplots())
    assert len(ax.collections[0].get_segments()) == 6


def test_points_have_to_be_in_the_plane():
    with pytest.raises(ValueError, match=r"points in the plane, \(n, 2\); got \(3, 5\)"):
        plot_neighbors(np.ones((3, 5)), [0, 1, 1], ax=Figure().subplots())


class TestImages:
    def test_rows_and_columns(self):
        images = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
        ax = plot_images(images, row_names=["one", "two"], ax=Figure().subplots())
        sheet = ax.images[0].get_array()
        assert sheet.shape == (5, 8)
        np.testing.assert_allclose(sheet[:2, :2], [[0, 1 / 3], [2 / 3, 1]])
        np.testing.assert_allclose(sheet[3:, 6:], [[0, 1 / 3], [2 / 3, 1]])
        assert (sheet[2] == 1).all()
        assert [label.get_text() for label in ax.get_yticklabels()] == ["one", "two"]

    def test_a_constant_image_is_black(self):
        ax = plot_images(np.full((1, 1, 3, 3), 7), ax=Figure().subplots())
        assert (ax.images[0].get_array() == 0).all()

    def test_other_shapes_are_refused(self):
        with pytest.raises(ValueError, match=r"\(rows, columns, height, width\); got \(3, 4\)"):
            plot_images(np.zeros((3, 4)), ax=Figure().subplots())


class TestExplain:
    @pytest.fixture
    def model(self):
        self.images = np.arange(6 * 4, dtype=float).reshape(6, 4)
        return CCKNNClassifier(2).fit(self.images, ["a", "a", "b", "b", "b", "c"])

    def test_the_query_then_the_neighbours_of_the_leading_classes(self, model):
        queries = self.images[[0, 4]] + 0.1
        explanation = model.explain(queries)
        figure = explain(queries, self.images, explanation, image_shape=(2, 2), figure=Figure())
        pictures = [ax.images[0].get_array() for ax in figure.axes]
        assert len(pictures) == 2 * (1 + 2 * 2) - 1  # "c" has one image
        np.testing.assert_array_equal(pictures[0].ravel(), queries[0])
        np.testing.assert_array_equal(pictures[1].ravel(), self.images[0])
        np.testing.assert_array_equal(pictures[2].ravel(), self.images[1])
        assert figure.axes[1].get_title() == "0.04"
        assert figure.axes[1].get_ylabel().startswith("a")
        assert figure.axes[3].get_ylabel().startswith("b")

    def test_stereo_pairs_show_the_left_image(self, model):
        explanation = model.explain(self.images[:1])
        figure = explain(
            self.images[:1], self.images, explanation, image_shape=(2, 1, 2), figure=Figure()
        )
        assert figure.axes[0].images[0].get_array().shape == (1, 2)

    def test_other_images_than_the_classifier_has(self, model):
        explanation = model.explain(self.images[:1])
        outside = model.explain(self.images[5:])
        with pytest.raises(ValueError, match="5 gallery images"):
            explain(self.images[:1], self.images[:5], outside, image_shape=(2, 2), figure=Figure())
        with pytest.raises(ValueError, match="2 queries"):
            explain(self.images[:2], self.images, explanation, image_shape=(2, 2), figure=Figure())
