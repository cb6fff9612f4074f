"""A lasting collection of embedded items in Milvus: a file, a server or a cluster."""

from ccml.gallery._connection import GalleryError
from ccml.gallery._gallery import Gallery, Match

__all__ = ["Gallery", "GalleryError", "Match"]
