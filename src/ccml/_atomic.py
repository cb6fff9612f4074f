"""Files that are there complete, or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write; it gets its name, and replaces what had it, when the block ends well.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "file"
    ...     with whole_file(path) as file:
    ...         n_bytes = file.write(b"all of it")
    ...         existed = path.exists()
    ...     existed, path.read_bytes()
    (False, b'all of it')
    """
    if path.exists() and not path.is_file():  # a device would be replaced too
        raise OSError(f"{path} isn't a file that can be replaced.")
    # Not tempfile's, which nobody else may read, whatever the folder is for.
    unfinished = path.with_name(f".{path.name}.{token_hex(4)}.part")
    try:
        with open(unfinished, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
