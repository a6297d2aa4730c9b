import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import new_folder, read_json, write_bytes, write_file, write_json, write_manifest


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a" / "f.json"
    write_json(path, {"x": "κ"})

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_file(path, fail)
    assert read_json(path) == {"x": "κ"}
    assert list(path.parent.iterdir()) == [path]


def test_a_folder_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with pytest.raises(RuntimeError), new_folder(path, "graph") as folder:  # noqa: PT012 (both lines are the point)
        write_bytes(folder / "x", b"1")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    with new_folder(path, "graph") as folder:
        write_manifest(folder, "graph", {"n": 1})
    with pytest.raises(RuntimeError), new_folder(path, "graph", overwrite=True) as folder:  # noqa: PT012
        write_manifest(folder, "graph", {"n": 2})
        raise RuntimeError
    assert read_json(path / "manifest.json")["n"] == 1
    with new_folder(path, "graph", overwrite=True) as folder:
        write_manifest(folder, "graph", {"n": 2})
    assert read_json(path / "manifest.json")["n"] == 2
    assert list(tmp_path.iterdir()) == [path]


def test_files_have_ordinary_permissions(tmp_path: Path) -> None:
    previous = os.umask(0o022)
    try:
        write_bytes(tmp_path / "f", b"1")
        with new_folder(tmp_path / "d", "graph") as folder:
            write_manifest(folder, "graph", {})
    finally:
        os.umask(previous)
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o755


def test_json_that_is_no_object_is_named(tmp_path: Path) -> None:
    (tmp_path / "l.json").write_text("[1]")
    with pytest.raises(InputError, match=r"l\.json must hold one JSON object, but holds a list"):
        read_json(tmp_path / "l.json")
    (tmp_path / "b.json").write_bytes(b"\xff")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_json(tmp_path / "b.json")
    with pytest.raises(InputError, match=r"none\.json does not exist"):
        read_json(tmp_path / "none.json")


def test_a_pipe_is_written_to_and_a_link_stays_a_link(tmp_path: Path) -> None:
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_bytes(pipe, b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_bytes(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    with pytest.raises(InputError, match="is a folder, but a file is to be written"):
        write_bytes(tmp_path, b"x")


def test_the_umask_decides_who_may_read(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with new_folder(tmp_path / "f", "graph") as folder:
            (folder / "inner").mkdir(mode=0o700)
            save_file({"x": torch.zeros(1)}, folder / "inner" / "x.safetensors")
            write_manifest(folder, "graph", {})
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "f").rglob("*")}
    assert modes == {"inner": 0o750, "x.safetensors": 0o640, "manifest.json": 0o640}
