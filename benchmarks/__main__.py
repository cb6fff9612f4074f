"""Run the benchmarks: ``python -m benchmarks [search] [growth] [speed] ...``."""

import inspect
import sys
import warnings

from sklearn.exceptions import ConvergenceWarning

from benchmarks import (
    commands,
    conv,
    dask_gallery,
    defaults,
    gallery,
    growth,
    learners,
    memory,
    norb,
    online,
    search,
    speed,
    survivors,
    torchrun,
)

BENCHMARKS = {
    "search": search.run,
    "growth": growth.run,
    "survivors": survivors.run,
    "speed": speed.run,
    "learners": learners.run,
    "conv": conv.run,
    "online": online.run,
    "norb": norb.run,
    "commands": commands.run,
    "dask": dask_gallery.run,
    "gallery": gallery.run,
    "gallery-growth": gallery.grow,
    "memory": memory.run,
    "torchrun": torchrun.run,
    "defaults": defaults.run,
}


def main(names: list[str]) -> None:
    if unknown := set(names) - set(BENCHMARKS):
        sys.exit(f"No benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}.")
    # The peer's max_iter is part of the task.
    warnings.filterwarnings("ignore", message=".*NCA did not converge", category=ConvergenceWarning)
    for name in names or BENCHMARKS:
        print(f"\n## {name}\n\n{inspect.getdoc(BENCHMARKS[name])}\n", flush=True)
        try:
            BENCHMARKS[name]()
        except FileNotFoundError as error:  # the data isn't here and can't be fetched
            print(f"skipped: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
