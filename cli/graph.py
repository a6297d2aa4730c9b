"""`bncl graph`: labels to a signed graph, and what it looks like."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Address, Engine, Json, Overwrite, Workers, check_engine
from .terminal import echo

if TYPE_CHECKING:
    from bncl_pyg.graph import BlockEngine, GraphStatistics, LabelVectors

app = typer.Typer(no_args_is_help=True, help="Build and inspect the signed label graph.")

GraphFolder = Annotated[Path, typer.Argument(metavar="GRAPH", help="A folder that 'bncl graph build' wrote.")]


@app.command()
def build(
    labels: Annotated[
        Path,
        typer.Argument(metavar="LABELS", help="Labels: rows with label and description, or a .txt of names."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    embeddings: Annotated[
        str,
        typer.Option(
            metavar="VECTORS",
            help="Word vectors: a file (GloVe or word2vec text, .bin, .kv, .npy with .vocab.txt), a gensim-data name, "
            "or 'embedded': the vectors of the embedded sentence encoder.",
        ),
    ] = "embedded",
    percentiles: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="Pairs below the first percentile are enemies, above the second friends; 5 95 if not given.",
            show_default=False,
        ),
    ] = None,
    neighbours: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Instead of percentiles: each label's N nearest are friends, its N farthest enemies. For many labels.",
        ),
    ] = None,
    hops: Annotated[int, typer.Option(min=1, help="Over how many hops neighbourhoods reach: the model's layers.")] = 2,
    max_neighbours: Annotated[
        int | None,
        typer.Option(metavar="K", min=1, help="At each hop, each label keeps its K strongest friends and K enemies."),
    ] = None,
    memory: Annotated[float, typer.Option(metavar="GB", help="How much memory the build may take.")] = 8,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it is there.")] = False,
) -> None:
    """Connect labels that mean alike (friends) and labels that are far apart (enemies)."""
    from bncl_pyg.corpus import LabelSet
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import check_free

    from .show import blocks_bar

    if percentiles is not None and neighbours is not None:
        raise InputError("--percentiles and --neighbours exclude each other: give one of them.")
    check_engine(engine, address, workers)
    check_free(out, "graph", overwrite=overwrite)
    label_set = LabelSet.read(labels)

    from bncl_pyg.graph import EMBEDDED, build_graph, check_options, embed_labels, graph_statistics, work_folder

    if embeddings == EMBEDDED:  # which gives every label a vector, but takes its time
        with _flags_named():
            check_options(len(label_set), percentiles, hops, neighbours, max_neighbours, memory)
    with _flags_named(), work_folder(out) as work, _resumable():
        with _blocks_engine(engine, address, workers) as computing, blocks_bar() as advance:
            vectors = embed_labels(label_set, embeddings, work=work, progress=advance, engine=computing)
            _show_missing_words(vectors)
            graph = build_graph(
                label_set,
                vectors,
                percentiles,
                hops,
                neighbours=neighbours,
                max_neighbours=max_neighbours,
                memory=memory,
                work=work,
                progress=advance,
                engine=computing,
            )
        graph.save(out, overwrite=overwrite)
    statistics = graph_statistics(graph, triangles=False)
    pairs = f"{statistics.friends} pairs of friends, {statistics.enemies} pairs of enemies"
    echo(f"{out}: {statistics.labels} labels, {pairs}.")
    if (recall := graph.provenance.get("recall")) is not None:
        echo(
            f"Searched by faiss: its recall on {recall['sample']} labels is {recall['friends']:.1%} of the nearest and "
            f"{recall['enemies']:.1%} of the farthest."
        )
    _warn(statistics)


@app.command()
def stats(
    graph: GraphFolder,
    hops: Annotated[int | None, typer.Option(min=1, help="Over how many hops; the graph's own if not given.")] = None,
    json: Json = None,
    overwrite: Overwrite = False,
) -> None:
    """Show how dense and how balanced the graph and its neighbourhoods are."""
    from bncl_pyg.persistence import read_manifest

    from .outputs import check_file, write_figures
    from .show import console, table

    check_file(json, graph, overwrite=overwrite)
    read_manifest(graph, "graph", check_files=False)

    from bncl_pyg.graph import SignedLabelGraph, abbreviate, graph_statistics

    out = console()
    loaded = SignedLabelGraph.load(graph)
    with _flags_named():
        statistics = graph_statistics(loaded, hops)
    write_figures(json, statistics.as_dict())
    pairs = statistics.labels * (statistics.labels - 1) // 2
    out.print(
        f"{statistics.labels} labels, {pairs} pairs: {statistics.friends} friends, {statistics.enemies} enemies",
        highlight=False,
    )
    balanced = statistics.balanced_triangles
    shown = "" if balanced is None else f", {balanced:.1%} balanced (an even number of enemies)"
    if statistics.triangles is not None:
        out.print(f"{statistics.triangles} triangles{shown}", highlight=False)
    table(
        "Balanced neighbourhoods",
        ["hop", "friends", "enemies", "both", "without friends", "without enemies"],
        [
            [
                hop.hop,
                f"{hop.friend_density:.3%}" if loaded.pruned else f"{hop.friend_density:.1%}",
                f"{hop.enemy_density:.3%}" if loaded.pruned else f"{hop.enemy_density:.1%}",
                hop.ambivalent_pairs,
                len(hop.labels_without_friends),
                len(hop.labels_without_enemies),
            ]
            for hop in statistics.hops
        ],
    )
    out.print(
        "friends, enemies: share of all ordered pairs; both: pairs that are friend and enemy at once",
        style="dim",
    )
    first = statistics.hops[0]
    for name, labels in (("friend", first.labels_without_friends), ("enemy", first.labels_without_enemies)):
        if labels:
            out.print(f"Labels without any {name} at hop 1: {abbreviate(labels)}", highlight=False, markup=False)
    _warn(statistics)


@app.command()
def export(
    graph: GraphFolder,
    out: Annotated[Path, typer.Option(help="The .graphml file to write; - is standard output.")],
    overwrite: Overwrite = False,
) -> None:
    """Write the graph as GraphML, for Gephi, Cytoscape or networkx."""
    from bncl_pyg.persistence import read_manifest

    from .outputs import STANDARD_OUTPUT, check_file, shown
    from .show import say

    check_file(out, graph, overwrite=overwrite)
    read_manifest(graph, "graph", check_files=False)

    from bncl_pyg.graph import SignedLabelGraph

    loaded = SignedLabelGraph.load(graph)
    loaded.write_graphml(Path("/dev/stdout") if out == STANDARD_OUTPUT else out)
    say(f"{shown(out)}: {loaded.num_nodes} nodes, {loaded.num_edges // 2} edges with sign and weight.")


@app.command()
def plot(
    graph: GraphFolder,
    out: Annotated[Path, typer.Option(help="The picture to write (.png, .svg or .pdf).")],
    most: Annotated[int, typer.Option(min=2, help="How many labels to draw at the most.")] = 60,
    overwrite: Overwrite = False,
) -> None:
    """Draw the graph: friends green and close together, enemies faint red."""
    from bncl_pyg.errors import InputError
    from bncl_pyg.persistence import read_manifest

    from .outputs import check_file

    if out.suffix not in {".png", ".svg", ".pdf"}:
        raise InputError(f"{out}: the name of the picture must end in .png, .svg or .pdf.")
    check_file(out, graph, overwrite=overwrite)
    read_manifest(graph, "graph", check_files=False)

    from bncl_pyg.graph import SignedLabelGraph, plot_graph

    loaded = SignedLabelGraph.load(graph)
    drawn = plot_graph(loaded, out, most)
    echo(f"{out}: {drawn} of {loaded.num_nodes} labels.")


@contextmanager
def _blocks_engine(engine: str, address: str | None, workers: int | None) -> "Iterator[BlockEngine | None]":
    """Give who computes the blocks: nobody but this process, or a cluster."""
    if engine == "local":
        yield None
        return
    from bncl_pyg.distributed import RayOptions, ray_blocks

    with ray_blocks(RayOptions(address, workers)) as blocks:
        yield blocks


@contextmanager
def _resumable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        echo("Stopped; the same command goes on after the last finished block.", err=True)
        raise


def _show_missing_words(vectors: "LabelVectors") -> None:
    if vectors.missing_words:
        words = sorted({word for missing in vectors.missing_words.values() for word in missing})
        shown = ", ".join(words[:20]) + (", …" if len(words) > 20 else "")
        echo(f"{len(words)} words of {len(vectors.missing_words)} labels have no vector: {shown}", err=True)


def _warn(statistics: "GraphStatistics") -> None:
    for sentence in statistics.warnings():
        echo(f"Warning: {_with_flags(sentence)}", err=True)


@contextmanager
def _flags_named() -> Iterator[None]:
    """Let an error that advises on an argument of the library name the flag."""
    from bncl_pyg.errors import InputError

    try:
        yield
    except InputError as error:
        raise InputError(_with_flags(str(error))) from None


def _with_flags(sentence: str) -> str:
    sentence = sentence.replace("max_neighbours=", "--max-neighbours ").replace("max_neighbours", "--max-neighbours")
    return re.sub(r"(?<![\w-])(hops|neighbours)=", r"--\1 ", sentence)
