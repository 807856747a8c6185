"""A journal file is locked against a second program, between all interpreters, until its process ends."""

from errno import EAGAIN
from pathlib import Path

import pytest

from host_tests.processes import running
from inflight import FileFlash

SCRIPT = Path(__file__).parent / "device_scripts" / "hold_flash.py"


def test_lock_ends_with_its_process(runtime, tmp_path):
    path = str(tmp_path / "journal.bin")
    with running(runtime, SCRIPT, path) as holder:
        assert holder.stdout.readline() == "in use\n"
        with pytest.raises(OSError, match="stop the other program") as caught:
            FileFlash(path, 4, 512)
        assert caught.value.errno == EAGAIN
        with running(runtime, SCRIPT, path) as other:
            assert "stop the other program" in other.stdout.read()
        holder.kill()
        holder.wait()
        FileFlash(path, 4, 512).close()
