import os
import stat
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bncl_pyg.errors import InputError
from bncl_pyg.persistence import (
    check_new_file,
    check_own_folder,
    is_stream,
    new_folder,
    read_json,
    write_bytes,
    write_file,
    write_json,
    write_manifest,
)


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


def test_streams_are_told_from_files_by_whatever_way_they_are_named(tmp_path: Path) -> None:
    link = tmp_path / "link"
    for way in ("/dev/stdout", "/proc/self/fd/1", "/dev/../proc/self/fd/1", "/dev/fd/1", "/dev/null"):
        assert is_stream(Path(way)), way
        link.symlink_to(way)
        assert is_stream(link), way
        link.unlink()
    link.symlink_to("../../../../../../../../../proc/self/fd/1")
    assert is_stream(link)
    assert not is_stream(tmp_path / "new")
    assert not is_stream(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices, and only root could replace one")
def test_a_device_is_written_to_and_never_replaced(tmp_path: Path) -> None:
    device, link = tmp_path / "null", tmp_path / "link"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no devices can be made here")
    link.symlink_to(device)
    for path in (device, link):
        check_new_file(path, overwrite=False)
        try:
            write_bytes(path, b"gone")
        except PermissionError:
            pytest.skip("devices cannot be opened here")
    assert stat.S_ISCHR(device.stat().st_mode)
    assert link.is_symlink()


def test_what_is_there_is_replaced_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "f"
    check_new_file(path, overwrite=False)
    path.write_text("mine")
    with pytest.raises(InputError, match="already exists; choose another name, or replace it with overwrite=True"):
        check_new_file(path, overwrite=False)
    check_new_file(path, overwrite=True)
    with pytest.raises(InputError, match="is a folder"):
        check_new_file(tmp_path, overwrite=True)


def test_a_folder_of_ones_own_is_new_empty_or_of_the_kind(tmp_path: Path) -> None:
    check_own_folder(tmp_path / "new", "work")
    check_own_folder(tmp_path, "work")
    write_manifest(tmp_path, "work", {}, {})
    check_own_folder(tmp_path, "work")
    with pytest.raises(InputError, match="is a bncl work folder, but a graph folder is needed"):
        check_own_folder(tmp_path, "graph")
