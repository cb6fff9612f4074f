"""Run the benchmarks: ``python -m benchmarks [search] [growth] [speed] ...``.

Without a name all but ``choose``, which compares settings on validation rows and takes long.
"""

import inspect
import sys
import warnings

from sklearn.exceptions import ConvergenceWarning

from benchmarks import (
    choose,
    commands,
    conv,
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
    "gallery": gallery.run,
    "memory": memory.run,
    "defaults": defaults.run,
    "choose": choose.run,
}


def main(names: list[str]) -> None:
    if unknown := set(names) - set(BENCHMARKS):
        sys.exit(f"No benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}.")
    # The peer's max_iter is part of the task.
    warnings.filterwarnings("ignore", message=".*NCA did not converge", category=ConvergenceWarning)
    for name in names or [name for name in BENCHMARKS if name != "choose"]:
        print(f"\n## {name}\n\n{inspect.getdoc(BENCHMARKS[name])}\n", flush=True)
        try:
            BENCHMARKS[name]()
        except FileNotFoundError as error:  # the data isn't here and can't be fetched
            print(f"skipped: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
