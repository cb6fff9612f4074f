"""The files that `tests.fuzz` starts from, and how it changes them."""

import gzip
import hashlib
import io
import json
import random
import re
import struct
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

GROUPS = {  # a case's seed is the one at its number, over and over
    "model": ["pipeline.ccml"] * 4 + ["table.ccml"],  # this one takes longer to read
    "data": [
        *["csv", "tsv", "parquet", "feather", "npz", "npy", "txt"],
        *["images", "norb", "norb-gz", "idx"],
    ],
    "checkpoint": ["checkpoint"],
    "trap": ["trap"],  # what has to be found, to see that it is
}
_MODEL, _CHECKPOINT = b"ccml model\n", b"ccml checkpoint 1\n"  # how the files begin
Files = dict[str, bytes]  # by their names in a folder


# ---------------------------------------------------------------------------------------- the seeds


def write_seeds(folder: Path) -> None:
    """Write one small file, or folder, of each kind."""
    import numpy as np
    import pandas as pd
    import torch
    from PIL import Image
    from sklearn.datasets import load_wine
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    import ccml
    from ccml.datasets import write_small_norb
    from ccml.modelling import Options, make
    from ccml.reading import Rows
    from ccml.training import Checkpoint

    for name in sorted({name for names in GROUPS.values() for name in names}):
        (folder / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    labels = np.array(["oak", "elm"])[np.arange(12) % 2]
    frame = pd.DataFrame({"height": rng.normal(size=12), "leaf": list("abc") * 4})
    X, y = load_wine(return_X_y=True)
    X, y = X[::9, :3], y[::9]
    metric = ccml.CCML(2, max_epochs=2, random_state=0)
    model = make_pipeline(StandardScaler(), metric, ccml.CCKNNClassifier(2)).fit(X, y)
    ccml.save(model, folder / "pipeline.ccml" / "m.ccml")
    few = Options(n_neighbors=1, n_components=2, parameters={"max_epochs": 2})
    made = make(Rows("table", frame, labels), few)
    ccml.save(made.model, folder / "table.ccml" / "m.ccml", about=made.about)
    for path in folder.glob("*.ccml/m.ccml"):
        path.write_bytes(_reproducible(path.read_bytes()))
    table = frame.assign(kind=labels, day=pd.date_range("2024-02-28", periods=12), n=range(12))
    table.to_csv(folder / "csv" / "t.csv", index=False)
    table.to_csv(folder / "tsv" / "t.tsv", index=False, sep="\t")
    table.to_parquet(folder / "parquet" / "t.parquet")
    table.to_feather(folder / "feather" / "t.feather")
    np.savez_compressed(folder / "npz" / "a.npz", X=X, y=y)
    np.save(folder / "npy" / "a.npy", X)
    np.save(folder / "npy" / "y.npy", labels.repeat(2)[: len(X)])
    np.save(folder / "txt" / "a.npy", X)
    (folder / "txt" / "y.txt").write_text("\n".join(labels.repeat(2)[: len(X)]))
    for i, suffix in enumerate(["png", "gif", "jpg", "bmp", "tiff", "webp"]):
        path = folder / "images" / "ab"[i % 2] / f"{i}.{suffix}"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(256, size=(9, 7), dtype=np.uint8)).save(path)
    one = dict.fromkeys(["n_instances", "n_elevations", "n_azimuths", "n_lightings"], 1)
    for path in write_small_norb(folder / "norb", **one):
        zipped = folder / "norb-gz" / f"{path.name}.gz"
        zipped.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    pixels = rng.integers(256, size=(3, 4, 5), dtype=np.uint8)
    (folder / "idx" / "i.idx").write_bytes(
        struct.pack(">4B3I", 0, 0, 8, 3, 3, 4, 5) + bytes(pixels)
    )
    state = {"epoch": 3, "rng": (1, 2.5), "weights": {"W": torch.arange(6.0).reshape(2, 3)}}
    Checkpoint(folder / "checkpoint" / "run.ckpt", 60, {"learner": "CCML"}).save(state)


def _reproducible(content: bytes) -> bytes:
    """Take out of a model file what differs from run to run: the time, and addresses as names."""
    members = _unzipped(content[len(_MODEL) + 65 :])
    about = json.loads(members["about.json"]) | {"saved": "", "seconds": 0}
    inner = _unzipped(members["model.skops"])
    names: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        return names.setdefault(match[0], str(10**6 + len(names)))

    schema = re.sub(r"\b\d{9,}\b", renamed, json.dumps(json.loads(inner.pop("schema.json"))))
    arrays = {re.sub(r"\d{9,}", renamed, name): data for name, data in inner.items()}
    payload = _zipped({"schema.json": schema.encode()} | dict(sorted(arrays.items())))
    return _sealed(_zipped({"about.json": json.dumps(about).encode(), "model.skops": payload}))


# ------------------------------------------------------------------------------------ the mutations


def mutated(name: str, files: Files, rng: random.Random) -> Files:
    """Change one of the files that belong together."""
    path = rng.choice(sorted(files))
    content = files[path]
    if name.endswith(".ccml"):
        content = _mutated_model(content, rng)
    elif name == "checkpoint" and rng.random() < 0.8:  # behind a right checksum
        n = len(_CHECKPOINT)
        payload = mutated_bytes(content[n + 32 :], rng)
        content = content[:n] + hashlib.sha256(payload).digest() + payload
    elif path.endswith(".gz") and rng.random() < 0.5:
        content = gzip.compress(mutated_bytes(gzip.decompress(content), rng), mtime=0)
    else:
        content = mutated_bytes(content, rng)
    return files | {path: content}


def mutated_bytes(content: bytes, rng: random.Random) -> bytes:
    """Make one to four changes: of bits, bytes, chunks, numbers."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4])):
        # Headers and tables of contents are at the ends; in the middle are only values.
        near = rng.choice([len(data), len(data), 64])
        at = min(rng.randrange(near + 1), len(data))
        at = rng.choice([at, len(data) - at])
        chunk = data[at : at + rng.choice([1, 4, 16, 300])]
        kind = rng.randrange(8)
        if kind == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(data):
            data[at] = rng.choice([0, 10, 13, 34, 44, 48, 57, 127, 255, rng.randrange(256)])
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at : at + len(chunk)]
        elif kind == 4:
            data[at:at] = chunk * rng.choice([1, 1, 1, 1000])
        elif kind == 5:
            data[at:at] = rng.randbytes(rng.choice([1, 2, 8, 64]))
        elif kind == 6:
            other = rng.randrange(len(data) + 1)
            data[at : at + len(chunk)], data[other : other + len(chunk)] = (
                data[other : other + len(chunk)],
                chunk,
            )
        else:
            n = rng.choice([1, 2, 4, 8])
            extreme = rng.choice([0, 1, (1 << 8 * n - 1) - 1, 1 << 8 * n - 1, (1 << 8 * n) - 1])
            data[at : at + n] = extreme.to_bytes(n, rng.choice(["little", "big"]))
    return bytes(data)


def _mutated_model(content: bytes, rng: random.Random) -> bytes:
    """Change a model file as damage does, or behind a right checksum as somebody with intent."""
    depth = rng.choice(
        ["file", "archive", "about", "payload", "array", "exchange", "text", *["schema"] * 5]
    )
    if depth == "file":
        return mutated_bytes(content, rng)
    archive = content[len(_MODEL) + 65 :]
    if depth == "archive":
        return _sealed(mutated_bytes(archive, rng))
    members = _unzipped(archive)
    inner = _unzipped(members["model.skops"])
    if depth == "about":
        change = rng.choice([mutated_bytes, _mutated_json])
        members["about.json"] = change(members["about.json"], rng)
    elif depth == "payload":
        members["model.skops"] = mutated_bytes(members["model.skops"], rng)
    elif depth == "exchange":  # sound arrays that don't go together
        one, other = rng.sample(sorted(inner.keys() - {"schema.json"}), k=2)
        members["model.skops"] = _zipped(inner | {one: inner[other]})
    else:
        arrays = sorted(inner.keys() - {"schema.json"})
        name = rng.choice(arrays) if depth == "array" else "schema.json"
        change = _mutated_json if depth == "schema" else mutated_bytes
        members["model.skops"] = _zipped(inner | {name: change(inner[name], rng)})
    return _sealed(_zipped(members))


def _node(loader: str, module: str, name: str, **content: Any) -> dict[str, Any]:
    return {"__loader__": loader, "__module__": module, "__class__": name, **content}


_COMMAND = _node("JsonNode", "builtins", "str", content='"echo run"')
_ARGUMENTS = _node("TupleNode", "builtins", "tuple", content=[_COMMAND])
_SYSTEM = _node("FunctionNode", "os", "system")
_KEYS = _node("ListNode", "builtins", "list", content=[_SYSTEM])
_FORGED = [  # ways to have a function called, or its module imported
    _SYSTEM,
    _node("TypeNode", "builtins", "eval"),
    _node("TypeNode", "subprocess", "Popen"),
    _node("ObjectNode", "subprocess", "Popen", content=_ARGUMENTS),
    _node("ConstructorFromReduceNode", "os", "system", content=_ARGUMENTS),
    _node("OperatorFuncNode", "operator", "methodcaller", attrs=_ARGUMENTS),
    _node("MethodNode", "os", "system", content={"func": "__call__", "obj": _SYSTEM}),
    _node("ListNode", "os", "system", content=["echo run"]),
    _node("DictNode", "builtins", "dict", content={"echo run": _COMMAND}, key_types=_KEYS),
    _node("TypeNode", "antigravity", "geohash"),
    _node("FunctionNode", "skrub._dataframe._common", "is_numeric"),
]
_VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63, -(2**63), 10**30, 1e308, float("nan"), "", "x", "-1", "1e9",
    "two\nlines \x1b[2J", "[]", "null", "NaN", "[" * 10**5, [], {}, [[]], ["x"], "numpy", "dtype",
    "ndarray", "builtins", "str", "tuple", "ccml.neighbors._class_index", "ClassIndex",
    "sklearn.pipeline", "Pipeline",
    "NdArrayNode", "ObjectNode", "TypeNode", "JsonNode", "CachedNode", "SliceNode", "BytesNode",
    "RandomStateNode", "RandomGeneratorNode", "DefaultDictNode", "PartialNode", "SparseMatrixNode",
    "TreeNode", "LossNode", "json", "schema.json", "../x", "1000001.npy", "1000005.npy",
]  # fmt: skip


def _mutated_json(content: bytes, rng: random.Random) -> bytes:
    """Change one to three values of a document, whatever they mean."""
    document = json.loads(content)
    places, pending = [], [document]
    while pending:
        branch = pending.pop()
        keys = list(branch) if isinstance(branch, dict) else range(len(branch))
        places += [(branch, key) for key in keys]
        pending += [branch[key] for key in keys if isinstance(branch[key], dict | list)]
    for branch, key in rng.choices(places, k=rng.choice([1, 1, 2, 3])):
        kind = rng.randrange(5)
        if kind == 0 and isinstance(branch, dict):
            branch.pop(key, None)
        elif kind == 1:
            branch[key] = rng.choice(_FORGED)
        elif kind == 2:
            source, name = rng.choice(places)
            if not isinstance(source, dict) or name in source:
                # A copy, through text: a document in itself would have no end.
                branch[key] = json.loads(json.dumps(source[name]))
        else:
            branch[key] = rng.choice(_VALUES)
    return json.dumps(document).encode()


def _sealed(archive: bytes) -> bytes:
    return _MODEL + hashlib.sha256(archive).hexdigest().encode() + b"\n" + archive


def _unzipped(content: bytes) -> Files:
    with ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(members: Files) -> bytes:
    buffer = io.BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(ZipInfo(name), content)  # without the time of day
    return buffer.getvalue()
