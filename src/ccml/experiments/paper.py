"""The figures of the paper's Table I."""

# data set -> row -> error in percent of KNN and of CCKNN. ConvNet has one, its own.
TABLE1: dict[str, dict[str, tuple[float, float]]] = {
    "wine": {
        "Euclidean": (3.99, 3.29),
        "Euclidean-best-PCA": (4.31, 3.67),
        "ITML": (4.44, 3.71),
        "NCMC": (3.51, 2.96),
        "LMNN": (2.59, 2.59),
        "NCA": (2.74, 2.60),
        "CCML": (2.13, 2.04),
    },
    "isolet": {
        "Euclidean": (8.79, 7.12),
        "Euclidean-best-PCA": (8.66, 6.80),
        "ITML": (9.49, 7.45),
        "NCMC": (5.13, 5.06),
        "LMNN": (5.33, 5.38),
        "NCA": (4.24, 4.05),
        "CCML": (3.66, 3.60),
    },
    "mnist": {
        "Euclidean": (2.91, 2.71),
        "Euclidean-best-PCA": (2.48, 2.19),
        "ITML": (2.93, 2.75),
        "NCMC": (3.21, 3.09),
        "LMNN": (2.11, 2.10),
        "NCA": (2.65, 2.45),
        "CCML": (1.91, 1.77),
        "ConvNet-1": (1.13, 1.13),
        "ConvNet-2": (1.12, 1.12),
        "ConvCCML-1": (1.36, 1.30),
        "ConvCCML-2": (0.91, 0.83),
    },
    "norb": {
        "Euclidean": (22.13, 22.13),
        "Euclidean-best-PCA": (19.75, 19.40),
        "ITML": (20.73, 20.53),
        "NCMC": (20.87, 20.34),
        "LMNN": (15.14, 14.61),
        "NCA": (13.00, 12.83),
        "CCML": (12.15, 11.89),
        "ConvNet-1": (9.25, 9.25),
        "ConvNet-2": (7.96, 7.96),
        "ConvCCML-1": (6.84, 6.80),
        "ConvCCML-2": (6.59, 6.65),
    },
}
