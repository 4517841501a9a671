"""The count of wrongly judged pictures, on a few photos. The whole count is `python tests/campaigns/drawings.py`."""

from campaigns.drawings import FORMS, count
from helpers.fixtures import FIXTURES


def test_photos_and_their_edges_are_told_apart() -> None:
    counts = count(FIXTURES / "faces32.zip", 32)
    images = counts.pop("images")
    assert images >= 30 and counts.keys() == {"photos", *FORMS, "inexact lines"}
    assert counts["photos"] == counts["edges"] == counts["inexact lines"] == 0
    assert max(counts.values()) <= 0.1 * images
