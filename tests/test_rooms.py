"""The house goes one way: who may import whom, drawn from the source, also inside functions and for types only."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

from bncl_pyg.estimator import BNCLClassifier
from bncl_pyg.features import Features, write_features
from bncl_pyg.graph import SignedLabelGraph
from bncl_pyg.priors import Priors

TOP = Path(__file__).parents[1]
LIBRARY, COMMANDS = "bncl_pyg", "bncl_cli"
START = ("__main__", "train")
"""`python -m bncl_pyg` and `torchrun -m bncl_pyg.train` are the command line."""
ROOMS = (
    "errors",
    "demo",
    "persistence",
    "corpus",
    "priors",
    "scorers",
    "label_check",
    "sparse",
    "ranks",
    "features",
    "graph",
    "explanation",
    "nn",
    "training",
    "active",
    "predictor",
    "sharing",
    "relabel",
    "estimator",
    "classify",
    "evaluation",
    "report",
    "serve",
    "distributed",
    "doctor",
)
"""From the lowest to the highest: a room imports only those before it. CONTRIBUTING.md says what each holds."""
LEAVES = ("errors", "demo")
"""These import nothing of ours."""
OUTSIDE = {
    COMMANDS: (LIBRARY,),
    "benchmarks": (LIBRARY,),
    "examples": (LIBRARY,),
    "tests": (LIBRARY, COMMANDS, "benchmarks"),
}
"""What stands around the library, and which of our packages it may import besides itself."""
HEAVY = (
    *("transformers", "gensim", "matplotlib", "networkx", "onnxruntime", "faiss"),
    *("pyarrow", "openpyxl", "zstandard", "ray", "fsspec"),
)
"""What takes long to import, or may not be installed: imported where it is used."""
PYG, PYG_ROOMS = "torch_geometric", ("graph", "nn")
"""It takes seconds to import, and classes inherit from it: in modules behind the doors of these rooms, which open them
when they are asked for a name."""


@dataclass(frozen=True)
class Import:
    """One import of one of our modules.

    Args:
        where: file and line.
        module: who imports.
        target: the module that is imported, or that a name is imported from.
        name: what is imported from it; empty for the module itself.
        at_once: whether it happens when the module is imported, not in a function or for types only.
    """

    where: str
    module: str
    target: str
    name: str
    at_once: bool

    @property
    def outside(self) -> str:
        """The package that imports."""
        return self.module.split(".")[0]

    @property
    def room(self) -> str:
        """The room that imports; empty for the library's front door and for what stands around the library."""
        return room_of(self.module)

    @property
    def target_room(self) -> str:
        """The room that is imported; empty for the front door and for what is not of the library."""
        return room_of(self.target)


class House:
    """The modules of a source tree and what they import of each other."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.files = dict(sorted(_modules(top)))
        self.doors = {module for module, path in self.files.items() if path.name == "__init__.py"}
        self.imports = [entry for module, path in self.files.items() for entry in self._imports(module, path, top)]

    def _imports(self, module: str, path: Path, top: Path) -> Iterator[Import]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_once = set(_at_import(tree))
        for node in ast.walk(tree):
            where = f"{path.relative_to(top)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                found = [(alias.name, "") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                start = self._absolute(module, node)
                found = [self._module_or_name(start, alias.name) for alias in node.names]
            elif isinstance(node, ast.Call) and _is_import_module(node):
                found = [(argument.value, "") for argument in node.args[:1] if isinstance(argument, ast.Constant)]
            else:
                continue
            for target, name in found:
                if target.split(".")[0] in (LIBRARY, *OUTSIDE):
                    yield Import(where, module, target, name, node in at_once)

    def _absolute(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        start = parts[: len(parts) - node.level + (module in self.doors)]
        return ".".join([*start, *([node.module] if node.module else [])])

    def _module_or_name(self, start: str, name: str) -> tuple[str, str]:
        """Tell `from room import module` from `from room import function`, also where both have the same name."""
        inner = f"{start}.{name}"
        is_module = inner in self.files and not (start in self.doors and name in self._offered(start))
        return (inner, "") if is_module else (start, name)

    def unknown_rooms(self) -> Iterator[str]:
        """Yield what lies in the library and has no place in the order."""
        for room in sorted({room_of(module) for module in self.files} - {"", *START}):
            if room not in ROOMS:
                yield f"{LIBRARY}/{room}: this room has no place in the order; add it to ROOMS where it belongs."

    def back_edges(self) -> Iterator[str]:
        """Yield imports of a higher room, of the front door from within, and of what stands around."""
        for entry in self.imports:
            target = entry.target.split(".")[0]
            if entry.outside != LIBRARY:
                if target not in (entry.outside, *OUTSIDE[entry.outside]):
                    yield f"{entry.where}: {entry.outside} may not import {target}."
            elif entry.room in START:
                continue
            elif target != LIBRARY:
                yield f"{entry.where}: the library may not import {target}."
            elif not entry.room or entry.room == entry.target_room:
                continue  # the front door imports all rooms
            elif not entry.target_room:
                yield f"{entry.where}: inside the library, import from the room, not from {LIBRARY} itself."
            elif entry.room in LEAVES:
                yield f"{entry.where}: {entry.room} imports nothing of the library, but here {entry.target}."
            elif {entry.room, entry.target_room} <= set(ROOMS) and _place(entry.target_room) > _place(entry.room):
                yield f"{entry.where}: {entry.room} imports {entry.target_room}, which is a higher room."

    def past_doors(self) -> Iterator[str]:
        """Yield imports of a room's module from outside, of what its door does not offer, and of private names."""
        for entry in self.imports:
            if entry.name.startswith("_") and not entry.name.startswith("__"):
                yield f"{entry.where}: '{entry.name}' is private to {entry.target}."
            if not entry.target_room:
                continue
            if entry.room == entry.target_room or _tests_of(entry.module) == entry.target_room:
                if entry.target == f"{LIBRARY}.{entry.room}":
                    yield f"{entry.where}: inside a room, import from the module, not from the door {entry.target}."
            elif entry.target not in self.doors and entry.target.count(".") > 1:
                yield f"{entry.where}: {entry.target} lies behind the door; import from {self._door(entry.target)}."
            elif entry.name and entry.target in self.doors and entry.name not in self._offered(entry.target):
                yield f"{entry.where}: {entry.target} does not offer '{entry.name}' (it is not in its __all__)."

    def cycles(self) -> Iterator[str]:
        """Yield circles of modules; a door, which imports its room's modules, is left out."""
        graph: dict[str, set[str]] = {}
        for entry in self.imports:
            if not {entry.module, entry.target} & self.doors:
                graph.setdefault(entry.module, set()).add(entry.target)
        while circle := _circle(graph):
            edges = list(pairwise(circle))
            lines = [next(e.where for e in self.imports if (e.module, e.target) == edge) for edge in edges]
            yield f"These import each other: {' → '.join(circle)} ({', '.join(lines)})."
            graph[edges[0][0]].remove(edges[0][1])

    def _door(self, module: str) -> str:
        while module not in self.doors:
            module = module.rpartition(".")[0]
        return module

    def _offered(self, door: str) -> set[str]:
        """Return what a door offers: its `__all__`, or, where it has none, what it defines and imports."""
        content = ast.parse(self.files[door].read_text(encoding="utf-8")).body
        assigned = {ast.unparse(node.targets[0]): node.value for node in content if isinstance(node, ast.Assign)}
        if "__all__" in assigned:
            return set(ast.literal_eval(assigned["__all__"]))
        defined = {node.name for node in content if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        aliases = [alias for node in content if isinstance(node, ast.ImportFrom) for alias in node.names]
        return {*assigned, *defined, *(alias.asname or alias.name for alias in aliases)}

    def heavy(self) -> Iterator[str]:
        """Yield imports of heavy packages that happen when a module of ours is imported."""
        for module, path in self.files.items():
            if module.split(".")[0] not in (LIBRARY, COMMANDS):
                continue
            for node in _at_import(ast.parse(path.read_text(encoding="utf-8"))):
                for name in _imported(node):
                    package, where = name.split(".")[0], f"{path.relative_to(self.top)}:{node.lineno}"
                    if package in HEAVY or (package == PYG and not self._may_need_pyg(module)):
                        yield f"{where}: import {name} inside the function that uses it."

    def pyg_at_once(self) -> Iterator[str]:
        """Yield imports that import PyG as soon as a room is entered or a command starts."""
        needing = self._needing_pyg()
        for entry in self.imports:
            target = self._opened(entry)
            is_ours = entry.outside in (LIBRARY, COMMANDS) and not self._may_need_pyg(entry.module)
            if is_ours and entry.at_once and self._may_need_pyg(target) and target in needing:
                yield f"{entry.where}: {entry.name or target} needs {PYG}; import it inside the function that uses it."

    def _may_need_pyg(self, module: str) -> bool:
        """Return whether a module lies behind a door that opens it only when it is asked for."""
        return room_of(module) in PYG_ROOMS and module not in self.doors

    def _needing_pyg(self) -> set[str]:
        """Return the modules that cannot be imported without PyG."""
        needing = {
            module
            for module, path in self.files.items()
            for node in _at_import(ast.parse(path.read_text(encoding="utf-8")))
            if any(name.split(".")[0] == PYG for name in _imported(node))
        }
        edges = [(entry.module, self._opened(entry)) for entry in self.imports if entry.at_once]
        while more := {module for module, target in edges if target in needing} - needing:
            needing |= more
        return needing

    def _opened(self, entry: Import) -> str:
        """Return the module behind a door that has the name that is imported; without such a door, the target."""
        behind = (each.target for each in self.imports if (each.module, each.name) == (entry.target, entry.name))
        return next(behind, entry.target) if entry.target in self.doors and entry.name else entry.target


def room_of(module: str) -> str:
    """Return the room of a module of the library; empty for its front door and for other packages."""
    parts = module.split(".")
    return parts[1] if parts[0] == LIBRARY and len(parts) > 1 else ""


def _modules(top: Path) -> Iterator[tuple[str, Path]]:
    """Yield (name as it is imported, file)."""
    for package in (LIBRARY, *OUTSIDE):
        # `cli` is installed as `bncl_cli`.
        folder = top / ("cli" if package == COMMANDS else package)
        for path in folder.rglob("*.py"):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _circle(graph: dict[str, set[str]]) -> list[str]:
    """Return modules of which each imports the next and the last is the first; empty if there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def _at_import(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield what is executed when a module is imported: all but the bodies of functions and `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from _at_import(child)


def _imported(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []


def _is_import_module(node: ast.Call) -> bool:
    return ast.unparse(node.func) in ("import_module", "importlib.import_module", "__import__")


def _tests_of(module: str) -> str:
    """Return the room that a module of tests is about: tests/graph may look behind the door of graph."""
    parts = module.split(".")
    return parts[1] if parts[0] == "tests" and len(parts) > 2 else ""


def _place(room: str) -> int:
    return ROOMS.index(room)


@pytest.fixture(scope="module")
def house() -> House:
    return House(TOP)


def test_every_room_has_its_place(house: House) -> None:
    assert not list(house.unknown_rooms())


def test_no_room_imports_a_higher_one(house: House) -> None:
    wrong = list(house.back_edges())
    assert not wrong, "\n" + "\n".join(wrong)


def test_rooms_are_entered_by_their_doors(house: House) -> None:
    wrong = list(house.past_doors())
    assert not wrong, "\n" + "\n".join(wrong)


def test_no_modules_import_each_other(house: House) -> None:
    wrong = list(house.cycles())
    assert not wrong, "\n" + "\n".join(wrong)


def test_heavy_packages_are_imported_where_they_are_used(house: House) -> None:
    wrong = [*house.heavy(), *house.pyg_at_once()]
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_rooms_are_entered_without_pyg() -> None:
    rooms = ", ".join(f"{LIBRARY}.{room}" for room in ROOMS)
    assert not _heavy_after(f"import {rooms}, {LIBRARY}.evaluation.baselines, {COMMANDS}.main")


def test_predicting_imports_nothing_heavy(
    features: Features, graph: SignedLabelGraph, priors: Priors, tmp_path: Path
) -> None:
    """With the default recipe, which needs the label graph to train only."""
    BNCLClassifier(prevalence=priors, graph=graph).fit(features).save_pretrained(tmp_path / "model")
    write_features(features, tmp_path / "features")
    command = ["bncl", "-q", "predict", "model", "features", "--out", "predictions.jsonl"]
    code = f"import sys; sys.argv = {command}\nfrom {COMMANDS}.main import main\ntry: main()\nexcept SystemExit: pass"
    assert not _heavy_after(code, tmp_path)
    assert len((tmp_path / "predictions.jsonl").read_text().splitlines()) == len(features)


def _heavy_after(code: str, folder: Path | None = None) -> str:
    """Run Python anew and return which heavy packages it has imported when it ends."""
    # Where they are installed, scikit-learn imports pandas, and that pyarrow.
    heavy = {*HEAVY, PYG} - {"pyarrow"}
    code += f"\nimport sys; print('imported:', *({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1].removeprefix("imported:").strip()


_ON_PYG = "from torch_geometric.data import Data\ndef f(): ...\n"


@pytest.mark.parametrize(
    ("files", "check", "sentence"),
    [
        (
            {"bncl_pyg/corpus/a.py": "def f():\n    from bncl_pyg.graph import g\n"},
            House.back_edges,
            "bncl_pyg/corpus/a.py:2: corpus imports graph, which is a higher room.",
        ),
        (
            {"bncl_pyg/errors.py": "import bncl_pyg.persistence\n"},
            House.back_edges,
            "bncl_pyg/errors.py:1: errors imports nothing of the library, but here bncl_pyg.persistence.",
        ),
        (
            {"bncl_pyg/nn/a.py": "from bncl_pyg import Features\n"},
            House.back_edges,
            "bncl_pyg/nn/a.py:1: inside the library, import from the room, not from bncl_pyg itself.",
        ),
        (
            {"bncl_pyg/nn/a.py": "from importlib import import_module\nimport_module('bncl_cli.main')\n"},
            House.back_edges,
            "bncl_pyg/nn/a.py:2: the library may not import bncl_cli.",
        ),
        (
            {"examples/a.py": "import benchmarks.results\n"},
            House.back_edges,
            "examples/a.py:1: examples may not import benchmarks.",
        ),
        (
            {"cli/a.py": "from bncl_pyg.graph import signed\n"},
            House.past_doors,
            "cli/a.py:1: bncl_pyg.graph.signed lies behind the door; import from bncl_pyg.graph.",
        ),
        (
            {"bncl_pyg/nn/a.py": "from bncl_pyg.graph import hidden\n"},
            House.past_doors,
            "bncl_pyg/nn/a.py:1: bncl_pyg.graph does not offer 'hidden' (it is not in its __all__).",
        ),
        (
            {"tests/graph/test_a.py": "from bncl_pyg.graph.signed import _hidden\n"},
            House.past_doors,
            "tests/graph/test_a.py:1: '_hidden' is private to bncl_pyg.graph.signed.",
        ),
        (
            {"bncl_pyg/graph/a.py": "from . import g\n"},
            House.past_doors,
            "bncl_pyg/graph/a.py:1: inside a room, import from the module, not from the door bncl_pyg.graph.",
        ),
        (
            {"bncl_pyg/graph/a.py": "from .b import x\n", "bncl_pyg/graph/b.py": "from bncl_pyg.graph.a import y\n"},
            House.cycles,
            "(bncl_pyg/graph/a.py:1, bncl_pyg/graph/b.py:1).",
        ),
        (
            {"cli/a.py": "class A:\n    import faiss.contrib\n    def f(self):\n        import gensim\n"},
            House.heavy,
            "cli/a.py:2: import faiss.contrib inside the function that uses it.",
        ),
        (
            {"bncl_pyg/corpus/a.py": "import torch_geometric.data\n"},
            House.heavy,
            "bncl_pyg/corpus/a.py:1: import torch_geometric.data inside the function that uses it.",
        ),
        (
            {"bncl_pyg/nn/__init__.py": "from bncl_pyg.nn.a import f\n", "bncl_pyg/nn/a.py": _ON_PYG},
            House.pyg_at_once,
            "bncl_pyg/nn/__init__.py:1: f needs torch_geometric; import it inside the function that uses it.",
        ),
        (
            {"bncl_pyg/training/a.py": "from bncl_pyg.graph import G\n"},
            House.pyg_at_once,
            "bncl_pyg/training/a.py:1: G needs torch_geometric; import it inside the function that uses it.",
        ),
        (
            {"bncl_pyg/attic/a.py": ""},
            House.unknown_rooms,
            "bncl_pyg/attic: this room has no place in the order; add it to ROOMS where it belongs.",
        ),
    ],
)
def test_what_is_wrong_is_found(files: dict[str, str], check: object, sentence: str, tmp_path: Path) -> None:
    """In a small house that is right but for what is added to it."""
    right = {
        "bncl_pyg/__init__.py": "from bncl_pyg.graph import g\n",
        "bncl_pyg/graph/__init__.py": "from bncl_pyg.graph.signed import g, signed\nif TYPE_CHECKING:\n"
        "    from bncl_pyg.graph.transforms import G\n__all__ = ['g', 'G']\n",
        "bncl_pyg/graph/pyg.py": "import torch_geometric\n",
        "bncl_pyg/graph/transforms.py": "import bncl_pyg.graph.pyg\nclass G: ...\n",
        "bncl_pyg/graph/signed.py": "from bncl_pyg.corpus import c\ndef g(): ...\n",
        "bncl_pyg/corpus/__init__.py": "def c(): ...\n",
        "cli/main.py": "from bncl_pyg.graph import g\nfrom .show import s\n",
        "cli/show.py": "def s(): ...\n",
        "tests/graph/test_signed.py": "from bncl_pyg.graph.signed import g\nfrom bncl_pyg.corpus import c\n",
    }
    _write(tmp_path, right)
    assert not _all_wrong(House(tmp_path))
    _write(tmp_path, files)
    assert callable(check)
    wrong = list(check(House(tmp_path)))
    assert len(wrong) == 1
    assert wrong[0].endswith(sentence)
    assert _all_wrong(House(tmp_path)) == wrong


def _all_wrong(house: House) -> list[str]:
    rules = (House.unknown_rooms, House.back_edges, House.past_doors, House.cycles, House.heavy, House.pyg_at_once)
    return [sentence for rule in rules for sentence in rule(house)]


def _write(top: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(content)
