"""No test leaves our environment variables otherwise than it found them, which the next ones in its process would have."""

import pytest
from test_skips import fails, failures


# Breaks if the change of a test, or of its module's import, goes unnoticed; or if one that is taken back, or is not of ours, is refused.
@pytest.mark.parametrize("text, failed", [
    ('import os\ndef test(): os.environ["TENSMITH_EAGER_KERNELS"] = "off"\n', True),
    ('import os\nos.environ["TENSMITH_EAGER_KERNELS"] = "off"\ndef test(): pass\n', True),
    ('import os\ndef test(): del os.environ["TENSMITH_BUILD"]\n', True),
    ('def test(monkeypatch): monkeypatch.setenv("TENSMITH_EAGER_KERNELS", "off")\n', False),
    ('import os\nos.environ["OMP_NUM_THREADS"] = "1"\ndef test(): pass\n', False),
])  # fmt: skip
def test_who_leaves_a_variable_changed_fails(tmp_path, text, failed):
    (tmp_path / "build/python").mkdir(parents=True)
    assert fails(tmp_path, text) == failed


# Breaks if the tests that come after a change have it, too.
def test_a_change_ends_with_its_test(tmp_path):
    (tmp_path / "build/python").mkdir(parents=True)
    change = 'import os\ndef test_a(): os.environ["TENSMITH_X"] = "1"\ndef test_b(): assert "TENSMITH_X" not in os.environ\n'
    assert failures(tmp_path, change) == ["test_a"]
