"""Embeddings: shapes, sizes, shifts, and what is said of inputs that don't fit."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from ccml import objectives
from ccml.embeddings import MLP, Conv, Linear, RandomShift, build


def n_weights(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("layers", "shape", "expected"),
    [
        # filters + biases, then the linear map from what is left of the image after pooling
        (1, (28, 28), 10 * 25 + 10 + (10 * 12 * 12 + 1) * 64),
        (2, (28, 28), 10 * 25 + 10 + 10 * 90 + 10 + (10 * 5 * 5 + 1) * 64),
        (1, (2, 32, 32), 2 * 10 * 25 + 10 + (10 * 14 * 14 + 1) * 64),
        (2, (2, 32, 32), 2 * 10 * 25 + 10 + 10 * 90 + 10 + (10 * 6 * 6 + 1) * 64),
        (2, (3, 32, 32), 3 * 10 * 25 + 10 + 10 * 90 + 10 + (10 * 6 * 6 + 1) * 64),
    ],
)
def test_the_papers_architectures(layers, shape, expected):
    module = Conv(layers).build(shape, 64)
    assert n_weights(module) == expected
    assert module(torch.zeros(3, *shape)).shape == (3, 64)
    kinds = [type(part) for part in module]
    assert kinds.count(nn.Conv2d) == kinds.count(nn.MaxPool2d) == layers


def test_it_computes_what_the_paper_writes():
    """Eq. `conv` and `subsam`: the activation, and then the maximum of 2 x 2."""
    images = torch.randn(4, 1, 28, 28)
    module = Conv(2, activation="tanh").build((28, 28), 5)
    first, second = (part for part in module if isinstance(part, nn.Conv2d))
    maps = nn.functional.max_pool2d(torch.tanh(first(images)), 2)
    maps = nn.functional.max_pool2d(torch.tanh(second(maps)), 2)
    torch.testing.assert_close(module(images), module[-1](maps.flatten(1)))


def test_flat_rows_are_the_same_images():
    images = torch.randn(4, 2, 16, 16)
    torch.manual_seed(0)
    module = Conv().build((2, 16, 16), 3)
    torch.manual_seed(0)
    flat = Conv(image_shape=(2, 16, 16)).build((512,), 3)
    torch.testing.assert_close(module(images), flat(images.flatten(1)))


def test_gradients_through_a_convolutional_embedding():
    torch.manual_seed(0)
    module = Conv(1, n_filters=2, activation="tanh").build((8, 8), 3).double()
    images, labels = torch.randn(8, 8, 8, dtype=torch.float64), torch.arange(8) % 2

    def loss(*weights):
        names = [name for name, _ in module.named_parameters()]
        points = torch.func.functional_call(module, dict(zip(names, weights, strict=True)), images)
        return objectives.local(points, labels, 2)

    assert torch.autograd.gradcheck(
        loss, [p.detach().requires_grad_() for p in module.parameters()]
    )


def test_random_shifts_are_shifts():
    images = torch.rand(50, 2, 9, 7) + 1
    shifted = RandomShift(2).train()(images)
    seen = set()
    for image, moved in zip(images, shifted, strict=True):
        padded = nn.functional.pad(image, (2, 2, 2, 2))
        places = [
            (i, j)
            for i in range(5)
            for j in range(5)
            if torch.equal(moved, padded[:, i : i + 9, j : j + 7])
        ]
        assert len(places) == 1
        seen.update(places)
    assert len(seen) > 15
    assert torch.equal(RandomShift(2).eval()(images), images)


def test_mlp_takes_images_too():
    assert MLP((5,)).build((4, 4), 2)(torch.zeros(3, 4, 4)).shape == (3, 2)
    assert n_weights(MLP((30, 20), "tanh").build((10,), 2)) == 11 * 30 + 31 * 20 + 21 * 2


EMBEDDINGS = [Linear(np.eye(2)), MLP((8,)), MLP([8, 4], "tanh"), Conv(1), Conv(image_shape=(8, 8))]


@pytest.mark.parametrize("embedding", EMBEDDINGS, ids=repr)
def test_pickle_and_copy(embedding):
    for twin in (pickle.loads(pickle.dumps(embedding)), copy.deepcopy(embedding)):
        assert repr(twin) == repr(embedding)


def test_a_module_is_copied():
    module = nn.Linear(4, 2)
    assert build(module, (4,), None) is not module
    assert build(lambda shape: nn.Linear(*shape, 3), (4,), 3).out_features == 3


@pytest.mark.parametrize(
    ("embedding", "shape", "n_components", "message"),
    [
        (Conv(3), (28, 28), 2, r"layers=3\) must be 1 or 2"),
        (Conv(n_filters=0), (28, 28), 2, "n_filters=0"),
        (Conv(activation="rely"), (28, 28), 2, "did you mean 'relu'"),
        (Conv(max_shift=-1), (28, 28), 2, "max_shift=-1"),
        (Conv(), (784,), 2, r"flat rows and image_shape=; X is of shape \(n, 784\)"),
        (Conv(image_shape=(28, 27)), (784,), 2, "756 numbers; an input is of shape .784,., 784"),
        (Conv(image_shape=(14, 56)), (28, 28), 2, "image_shape"),
        (Conv(image_shape=28), (784,), 2, r"must be \(height, width\)"),
        (Conv(2), (11, 30), 2, "at least 12 x 12 pixels; .* are 11 x 30 pixels in 1 channel"),
        (Conv(1), (32, 32, 3), 2, r"32 channels.*X.transpose\(0, 3, 1, 2\)"),
        (MLP(hidden=(0,)), (4,), 2, "hidden=0"),
        (MLP(hidden=64), (4,), 2, "must be a sequence"),
        (MLP(activation="gelu"), (4,), 2, "gelu"),
        (nn.Linear(5, 2), (4,), None, r"can't map inputs of shape \(n, 4\)"),
        (nn.Identity(), (4, 4), None, r"to \(2, 4, 4\); it has to give one vector"),
        (Conv(2.0), (28, 28), 2, r"layers=2.0\) must be 1 or 2"),
        (nn.LSTM(4, 2), (3, 4), None, "to tuple; it has to give one vector"),
        (nn.Linear(4, 3), (4,), 2, "n_components=2, but the embedding gives 3"),
        (lambda shape: "net", (4,), None, "a function that takes the shape"),
        (nn.Linear, (4,), None, "must be 'linear', an embedding such as"),
        (7, (4,), None, "embedding=7 must be"),
    ],
)
def test_what_does_not_fit_is_explained(embedding, shape, n_components, message):
    with pytest.raises(ValueError, match=message):
        build(embedding, shape, n_components)
