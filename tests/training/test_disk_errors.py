"""What a person is told to do when the disk fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import UserError
from training.run.directory import STATE, check_output, disk_errors_as_user_errors


@pytest.mark.parametrize("saved", [False, True])
def test_the_advice_of_a_full_disk_works(saved: bool, tmp_path: Path) -> None:
    """--resume is named only if there is a state, which it then finds."""
    if saved:
        (tmp_path / STATE).touch()
    with pytest.raises(UserError) as caught, disk_errors_as_user_errors(tmp_path):
        raise OSError(28, "No space left on device")
    assert ("--resume" in str(caught.value)) == saved
    check_output(tmp_path, resume=saved)
