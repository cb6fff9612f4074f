"""Where a result comes from: the code, its commit, and the machine."""

import platform
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path

from ccml import __version__

_PACKAGE = Path(__file__).parents[1]
_SOURCES = (
    "_dask.py",
    "_images.py",
    "_validation.py",
    "centroids.py",
    "classifiers",
    "datasets",
    "embeddings.py",
    "experiments/cells.py",
    "experiments/protocol.py",
    "learners",
    "neighbors",
    "objectives",
    "preprocessing.py",
    "training",
)


@cache
def code() -> str:
    """Digest of the source files that take part."""
    digest = sha256()
    for name in _SOURCES:
        path = _PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(_PACKAGE).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


@cache
def commit() -> str:
    """Of the clone that the library runs from; its version, where it is installed."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(_PACKAGE), *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        if not git("ls-files", __file__):  # another project's, around ours
            raise FileNotFoundError
        changed = "-changed" if git("status", "--porcelain", "--", str(_PACKAGE)) else ""
        return git("rev-parse", "--short=10", "HEAD") + changed
    except (OSError, subprocess.CalledProcessError):
        return f"ccml {__version__}"


@cache
def machine() -> str:
    """Name the processor, the system and the version of Python."""
    cpu = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{cpu}, {platform.system()}, Python {platform.python_version()}"
