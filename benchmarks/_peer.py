"""An environment for metric-learn, which doesn't work with today's scikit-learn."""

import subprocess
import sys
from pathlib import Path

import pooch

PACKAGES = ("metric-learn==0.7.0", "scikit-learn==1.7.2")


class PeerUnavailableError(Exception):
    """The peer's environment can't be made here."""


def peer_python() -> Path:
    """Return the interpreter of an environment with metric-learn, made once in the cache folder."""
    folder = Path(pooch.os_cache("ccml")) / "bench" / "-".join(PACKAGES)
    python = folder / "bin" / "python"
    if _works(python):
        return python
    print(f"making an environment for {PACKAGES[0]} in {folder} ...", flush=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerUnavailableError(f"{PACKAGES[0]} can't be installed ({error})") from None
    if not _works(python):
        raise PeerUnavailableError(f"{PACKAGES[0]} doesn't import in {folder}")
    return python


def _works(python: Path) -> bool:
    return (
        python.exists()
        and subprocess.run([python, "-c", "import metric_learn"], capture_output=True).returncode
        == 0
    )
