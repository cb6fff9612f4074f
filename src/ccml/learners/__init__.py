"""Learners: scikit-learn transformers into a space where nearest neighbours are of one's class."""

from ccml.learners._ccml import CCML, ConvCCML
from ccml.learners._convnet import ConvNetClassifier
from ccml.learners._drlim import DrLIM
from ccml.learners._itml import ITML
from ccml.learners._knca import KNCA
from ccml.learners._lmnn import LMNN
from ccml.learners._nca import NCA
from ccml.learners._ncmc import NCMC

__all__ = ["CCML", "ITML", "KNCA", "LMNN", "NCA", "NCMC", "ConvCCML", "ConvNetClassifier", "DrLIM"]
