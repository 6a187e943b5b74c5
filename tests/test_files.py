import os

import pytest

from luong.errors import UserError
from luong.files import write_whole


def test_the_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "a.json"
    write_whole(path, b"old")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch, error):
    path = tmp_path / "a.json"
    write_whole(path, b"old")

    def fail(_):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError if isinstance(error, OSError) else KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UserError, match=r"missing.a\.json cannot be written: No such file"):
        write_whole(tmp_path / "missing" / "a.json", b"")
