import os
import subprocess
import sys

from engine.inference.startup import EngineLog, environment
from engine.inference.vllm_backend import _advice


def test_the_log_keeps_what_processes_write_later_and_finds_the_first_error() -> None:
    log = EngineLog()
    errors = "(Core pid=1) ERROR x.y.DeepError: first\nValueError: then"
    script = f"import sys; sys.stdin.read(); print({errors!r}, file=sys.stderr)"
    with log.capture():
        process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    process.communicate()
    assert log.causes() == ["DeepError: first", "ValueError: then"]
    log.begin()
    assert log.causes() == []
    log.close()


def test_the_environment_is_put_back_whoever_changed_it() -> None:
    os.environ["SET_BEFORE"] = "1"
    try:
        with environment({"SET_BEFORE": "2", "SET_INSIDE": "3"}):
            assert os.environ["SET_BEFORE"] == "1"
            assert os.environ["SET_INSIDE"] == "3"
            os.environ["LD_PRELOAD_LIKE"] = "x"
        assert "SET_INSIDE" not in os.environ
        assert "LD_PRELOAD_LIKE" not in os.environ
    finally:
        del os.environ["SET_BEFORE"]


def test_a_known_cause_comes_with_the_option_that_helps() -> None:
    assert "backend.gpu_memory_utilization" in _advice(["OutOfMemoryError: CUDA out of memory. Tried to …"])
    assert "backend.kv_cache_memory_bytes" in _advice(
        ["ValueError: No available memory for the cache blocks. x"]
    )
    assert _advice(["KeyError: 'x'"]) == "KeyError: 'x'"
