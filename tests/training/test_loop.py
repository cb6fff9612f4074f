"""The loop: it descends, stops, keeps the best, and reports."""

from functools import partial

import numpy as np
import pytest
import torch

from ccml import objectives
from ccml.embeddings import Linear
from ccml.training import Rows, TrainingOptions, ccknn_score, train

OBJECTIVE = partial(objectives.local, n_neighbors=3)


def two_stripes(n=120, seed=0):
    """Classes that differ along the first axis only; the second is wide noise."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = np.column_stack([y + 0.1 * rng.normal(size=n), 3 * rng.normal(size=n)])
    return Rows(X.astype(np.float32), y)


def options(**changes):
    defaults = {
        "batch_size": 40,
        "pool_size": 120,
        "max_epochs": 60,
        "learning_rate": 0.1,
        "weight_decay": 0.0,
        "n_epochs_no_change": 5,
    }
    return TrainingOptions(**(defaults | changes))


def fit(rows=None, validation=None, objective=OBJECTIVE, **changes):
    embedding = Linear(np.eye(2))
    rows = two_stripes() if rows is None else rows
    result = train(
        embedding,
        objective,
        rows,
        validation,
        ccknn_score(n_neighbors=3),
        options(**changes),
        np.random.default_rng(0),
    )
    return embedding.components.detach().numpy(), result


def test_it_learns_which_axis_matters():
    A, _ = fit(max_epochs=300)
    assert np.linalg.norm(A[:, 0]) > 2 * np.linalg.norm(A[:, 1])


def test_it_ends_when_the_validation_error_stands_still():
    _, result = fit(validation=two_stripes(seed=1))
    assert result.ended == "converged"
    assert result.validation_error.min() <= 0.05
    assert len(result.loss) == len(result.validation_error) < 60


def test_a_perfect_start_is_kept():
    rows = two_stripes()
    separated = Rows(rows.X * np.float32([100, 1]), rows.y)
    A, result = fit(separated, validation=separated, n_epochs_no_change=1)
    np.testing.assert_array_equal(A, np.eye(2))
    assert len(result.loss) == 3


def test_the_weights_are_those_of_the_best_epoch():
    """At a wild rate the last epoch is seldom the best; validating again shows which was kept."""
    seen = []
    A, _ = fit(
        validation=two_stripes(seed=1),
        max_epochs=8,
        learning_rate=1.0,
        callbacks=[lambda epoch, loss, error: seen.append(error)],
    )
    from ccml.evaluation import ccknn_error

    train_rows, test_rows = two_stripes(), two_stripes(seed=1)
    error = ccknn_error(
        train_rows.X @ A.T, train_rows.y, test_rows.X @ A.T, test_rows.y, n_neighbors=3
    )
    assert error == pytest.approx(min(seen))


def test_without_validation_the_loss_decides():
    _, result = fit(max_epochs=300)
    assert result.ended == "converged"
    assert len(result.validation_error) == 0


def test_max_epochs_is_reported():
    assert fit(max_epochs=2)[1].ended == "max_epochs"


def test_callbacks_get_every_epoch():
    seen = []
    _, result = fit(validation=two_stripes(seed=1), callbacks=[lambda *report: seen.append(report)])
    epochs, losses, errors = zip(*seen, strict=True)
    assert list(epochs) == list(range(1, len(result.loss) + 1))
    np.testing.assert_array_equal(losses, result.loss)
    np.testing.assert_array_equal(errors, result.validation_error)


def test_interruption_keeps_the_best_so_far():
    def interrupt(epoch, loss, error):
        if epoch == 3:
            raise KeyboardInterrupt

    A, result = fit(callbacks=[interrupt])
    assert result.ended == "interrupted"
    assert len(result.loss) == 3
    assert not np.array_equal(A, np.eye(2))


def test_divergence_keeps_the_last_good_weights():
    calls = []

    def failing(z, labels, *, sample_weight, pool):
        calls.append(1)
        return OBJECTIVE(z, labels, pool=pool) * (1 if len(calls) <= 6 else float("nan"))

    A, result = fit(objective=failing)
    assert result.ended == "diverged"
    assert np.isfinite(A).all()


def test_weight_decay_makes_the_map_smaller():
    norms = [np.linalg.norm(fit(weight_decay=cost)[0]) for cost in (0.0, 0.1, 1.0)]
    assert norms[0] > norms[1] > norms[2]


def test_dropout_hides_columns_from_the_objective_but_not_from_validation():
    """Shown or not, all rows agree on it; what is shown makes up for what isn't."""
    spans = []

    def spy(z, labels, *, sample_weight, pool):
        spans.append(pool.embeddings.detach().abs().max(0).values.numpy())
        return OBJECTIVE(z, labels, pool=pool)

    rows = two_stripes()
    fit(rows, objective=spy, dropout=0.5, learning_rate=1e-9, max_epochs=30)
    spans, full = np.array(spans), np.abs(rows.X).max(0)
    hidden = spans < 1e-5
    assert 0.35 < hidden.mean() < 0.65
    np.testing.assert_allclose(
        spans[~hidden], np.broadcast_to(2**0.5 * full, spans.shape)[~hidden], rtol=1e-5
    )


def test_the_loss_of_an_epoch_is_the_weighted_mean_over_its_rows():
    """Whatever the batches: a batch of light rows counts as little as its rows do."""
    rows = two_stripes()
    weight = np.random.default_rng(5).exponential(size=len(rows.y)).astype(np.float32)
    weighted = Rows(rows.X, rows.y, weight / weight.mean())
    full = OBJECTIVE(
        torch.tensor(rows.X), torch.tensor(rows.y), sample_weight=torch.tensor(weight)
    ).item()
    for batch_size in (120, 40, 7):
        result = fit(weighted, max_epochs=1, learning_rate=1e-9, batch_size=batch_size)[1]
        assert result.loss[0] == pytest.approx(full, rel=1e-4)


def test_validation_rows_count_by_their_weight():
    rows, validation = two_stripes(), two_stripes(seed=1)
    weight = np.where(validation.y == 0, 2.0, 0.0).astype(np.float32)
    once = {"max_epochs": 1, "learning_rate": 1e-9}
    weighted = fit(rows, Rows(validation.X, validation.y, weight), **once)[1].validation_error[0]
    first = validation.y == 0
    only_first = fit(rows, Rows(validation.X[first], validation.y[first]), **once)[1]
    assert weighted == pytest.approx(only_first.validation_error[0])


def test_same_seed_same_bits():
    rows = two_stripes(3000)  # large enough for torch to use several threads
    first, second = (fit(rows, max_epochs=3, pool_size=1500, batch_size=500)[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_the_global_random_state_is_left_alone():
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    fit(max_epochs=1)
    assert torch.equal(torch.rand(1), expected)


def test_progress_bar_shows_what_happens(capsys):
    fit(validation=two_stripes(seed=1), verbose=True, max_epochs=3, title="CCML")
    shown = capsys.readouterr().out
    assert "CCML" in shown
    assert "3/3" in shown
    assert "validation error" in shown
    fit(max_epochs=1)
    assert capsys.readouterr().out == ""
