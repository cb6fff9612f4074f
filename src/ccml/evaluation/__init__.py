"""Arrays to numbers: error rates of the two rules, and the quality of retrieval.

Every function takes a gallery with labels and queries with labels, already embedded. Without
queries, each row of the gallery is a query against all the others (leave-one-out). Memory is
bounded: nothing of the size of queries x gallery is ever held. If the gallery or the queries are
dask collections the result is a lazy dask number; the labels of a dask gallery are read at once.
"""

from ccml.evaluation._measures import (
    ccknn_error,
    knn_error,
    map_at_r,
    ndcg,
    precision,
    r_precision,
)

__all__ = ["ccknn_error", "knn_error", "map_at_r", "ndcg", "precision", "r_precision"]
