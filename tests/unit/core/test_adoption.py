"""From when a predecessor's claim may be adopted (A3)."""

from __future__ import annotations

from django_leased_cron.core.adoption import EpochSightings
from django_leased_cron.core.clock import BootTime

TIMEOUT_S = 5


def test_claim_waits_from_the_first_reply_that_shows_a_higher_epoch() -> None:
    """Not from the acquire, nor from any later reply."""
    sightings = EpochSightings(publish_timeout_s=TIMEOUT_S)
    for epoch, at in ((3, 100), (4, 110), (4, 112), (5, 113)):
        sightings.note(epoch, at=BootTime(at))
    assert sightings.adoptable_at(2) == BootTime(105)
    assert sightings.adoptable_at(3) == BootTime(115)
    assert sightings.adoptable_at(4) == BootTime(118)


def test_claim_of_the_newest_epoch_is_nobodys_to_adopt() -> None:
    """Nothing shows yet that its claimer is fenced off."""
    sightings = EpochSightings(publish_timeout_s=TIMEOUT_S)
    assert sightings.adoptable_at(0) is None
    sightings.note(3, at=BootTime(100))
    assert sightings.adoptable_at(3) is None


def test_short_terms_do_not_start_the_wait_again() -> None:
    """Takeover after takeover, one a second: the claim of epoch 1 still becomes adoptable in time."""
    sightings = EpochSightings(publish_timeout_s=TIMEOUT_S)
    for epoch in range(2, 100):
        sightings.note(epoch, at=BootTime(100 + epoch))
    adoptable_at = sightings.adoptable_at(1)
    assert adoptable_at is not None
    assert adoptable_at <= 199


def test_memory_is_bounded_by_the_changes_within_one_timeout() -> None:
    """A thousand changes of holder, one a second: six are remembered."""
    sightings = EpochSightings(publish_timeout_s=TIMEOUT_S)
    for epoch in range(1000):
        sightings.note(epoch, at=BootTime(epoch))
    assert len(sightings._sightings) <= TIMEOUT_S + 1


def test_claim_that_has_waited_long_enough_does_not_wait_again() -> None:
    """Whichever sightings are forgotten to bound the memory."""
    sightings = EpochSightings(publish_timeout_s=TIMEOUT_S)
    for epoch, at in ((4, 100), (5, 101), (6, 110)):
        sightings.note(epoch, at=BootTime(at))
    assert sightings.adoptable_at(4) == BootTime(106)


def test_replies_noted_out_of_order_err_on_the_late_side() -> None:
    """Two threads may note theirs in either order."""
    sightings = EpochSightings(publish_timeout_s=TIMEOUT_S)
    sightings.note(3, at=BootTime(101))
    sightings.note(4, at=BootTime(100))
    assert sightings.adoptable_at(3) == BootTime(106)
