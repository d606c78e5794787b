import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is slow, and that says nothing about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real data sets and recordings, which the project does not contain."""
    default = Path(__file__).parents[3] / "shared" / "data"
    folder = Path(os.environ.get("REFLEXION_DATA", default))
    if not folder.is_dir():
        pytest.skip(
            f"no data at {folder}: set REFLEXION_DATA to a folder with humaneval/, replay/, raw_outputs/"
        )
    return folder
