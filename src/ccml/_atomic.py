"""Files that are there complete, or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
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
    temporary = NamedTemporaryFile(  # noqa: SIM115 - renamed while it must still exist
        dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False
    )
    try:
        with temporary as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary.name, path)
    except BaseException:
        Path(temporary.name).unlink(missing_ok=True)
        raise
