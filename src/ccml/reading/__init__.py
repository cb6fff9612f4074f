"""Files of one's own to rows and labels: tables, arrays, folders of images."""

from ccml.reading._read import read
from ccml.reading._rows import DataFileError, Rows

__all__ = ["DataFileError", "Rows", "read"]
