"""Learning from a stream of chunks."""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from torch import Tensor, nn

from ccml._validation import check_same_kind_of_label
from ccml.embeddings import Linear
from ccml.learners._base import MetricLearner
from ccml.learners._checks import check_classes, check_labelled
from ccml.learners._units import Units, as_floats
from ccml.training import OnlineTraining, Rows, refuse_several

_MEMORY_ROWS, _MEMORY_ELEMENTS = 10_000, 2**25
_LARGE = 10**6  # rows of a stream, as far as is known: its steps take the largest batches


class PartialFit(MetricLearner):
    """Adds `partial_fit` to a learner.

    All that a chunk depends on is in ``stream_``, a dict of arrays: the rows that are remembered,
    their units, the labels in the order of their first appearance, and the optimiser.
    """

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Go on learning from one more chunk of a stream.

        Each step is on new rows and as many remembered ones, so that the map doesn't forget. Up
        to 10,000 rows are remembered, fewer if they are large, those of all classes alike.
        Neighbours are looked for among them (with an embedding other than "linear", among the
        rows of the step). New classes may appear at any time.

        After `fit` it goes on from the fitted map. The rows of that `fit` aren't remembered: put
        some of them into the first chunk.

        ``max_epochs``, ``callbacks``, ``verbose`` and ``checkpoint`` are for `fit`. To save a
        stream, pickle the learner.

        Parameters
        ----------
        X, y
            As for `fit`, of any number of rows. The first chunk needs rows of at least two classes:
            it sets the units of the columns and the start of the map.
        classes : array-like, optional
            All labels that may appear. Once they were given, others are refused.

        Returns
        -------
        self
        """
        refuse_several(f"{type(self).__name__}.partial_fit")
        self._check_parameters()
        stream = getattr(self, "stream_", {})
        X, y = self._check_chunk(X, y, stream)
        labels = self._labels(stream, y, classes)
        codes = np.argsort(labels)[np.searchsorted(np.sort(labels), y)]
        seed = stream.get("seed")
        if seed is None:
            seed = np.array(check_random_state(self.random_state).randint(2**31))
        n_chunks = stream.get("n_chunks", np.array(0))
        rng = np.random.default_rng([int(seed), int(n_chunks)])
        units, embedding = self._restored(stream) if stream else self._begin(X, codes, rng)
        rows = Rows(units(X), codes)
        trainer = OnlineTraining(
            embedding,
            self._objective(embedding, rows, rng),
            self._training_options(_LARGE, X.shape[1:], None),
            rng,
            max(1, min(_MEMORY_ROWS, _MEMORY_ELEMENTS // max(1, X[0].size))),
        )
        if stream:
            trainer.load_state(stream)
        loss = trainer.learn(rows)
        if not (np.isfinite(loss) and trainer.is_finite()):
            warnings.warn(
                f"{type(self).__name__} diverged on this chunk and goes on from before it; lower "
                f"learning_rate={trainer.options.learning_rate}.",
                ConvergenceWarning,
                stacklevel=2,
            )
            return self
        self._publish_map(units, embedding, X)
        self.stream_: dict[str, NDArray[Any]] = {
            **trainer.state(),
            **units._asdict(),
            "seed": seed,
            "n_chunks": n_chunks + 1,
            "labels": labels,
            "is_closed": np.array(classes is not None or bool(stream.get("is_closed", False))),
        }
        return self

    def _check_chunk(
        self, X: ArrayLike, y: ArrayLike, stream: dict[str, NDArray[Any]]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        is_fitted = self._is_fitted()
        if stream and not (is_fitted and self.n_components in (None, self._n_features_out)):
            raise ValueError(
                f"{type(self).__name__}.partial_fit can't change embedding or n_components in the "
                "middle of a stream. Begin a new one with a clone."
            )
        if is_fitted and not self._is_linear():
            self._check_input_shape(X)
        X, y, _ = check_labelled(self, X, y, images=self._takes_images(), reset=not is_fitted)
        if not stream:
            check_classes(self, y)
            if self._is_linear():
                self._check_width(X)
        return as_floats(X), y

    def _begin(
        self, X: NDArray[Any], classes: NDArray[np.intp], rng: np.random.Generator
    ) -> tuple[Units, nn.Module]:
        # A chunk is too small for LDA: on MNIST it cost more than a percent at the end of a pass.
        return self._start(Rows(X, classes), rng, warm=self._is_fitted(), auto_init="pca")

    def _labels(
        self, stream: dict[str, NDArray[Any]], y: NDArray[Any], classes: ArrayLike | None
    ) -> NDArray[Any]:
        """All labels so far, each new one behind the others."""
        name = type(self).__name__
        known = stream.get("labels", np.unique(y)[:0])
        allowed = known if stream.get("is_closed", False) else None
        if classes is not None:
            given = np.unique(np.asarray(classes))
            is_wider = allowed is not None and len(given) > len(allowed)
            if is_wider or not np.isin(known, given).all():
                raise ValueError(
                    f"{name}.partial_fit knows the classes {np.sort(known)}; they can't become "
                    f"classes={given}."
                )
            allowed = given
        if len(known):
            check_same_kind_of_label(f"{name}.partial_fit", y, known)
        if allowed is not None:
            unseen = np.setdiff1d(y, allowed)
            if len(unseen):
                raise ValueError(
                    f"{name}.partial_fit got labels {unseen} that aren't among the given classes, "
                    f"{np.sort(allowed)}. Name all classes in the first call, or none."
                )
        new = y if allowed is None else allowed
        return np.concatenate([known, np.setdiff1d(new, known)])

    def _restored(self, stream: dict[str, NDArray[Any]]) -> tuple[Units, nn.Module]:
        units = Units(stream["centre"], stream["scale"])
        if self._is_linear():
            return units, Linear(self.components_ / units.scale)
        return units, self._fitted_module()

    def _publish_objective(self, objective: Callable[..., Tensor], labels: NDArray[Any]) -> None:
        if hasattr(self, "stream_"):
            del self.stream_  # a fit begins anew
