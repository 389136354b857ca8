"""What the models are asked: which faults are allowed, which rule is broken on purpose, and what must come of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FAILS, HOLDS = "fails", "holds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One run of the checker; ``options`` are the model's, without ``-D``."""

    name: str
    model: str = "dispatch"
    options: str
    expected: str
    is_long: bool = False


def _broken(name: str, options: str, *, model: str = "dispatch") -> Variant:
    """Return a variant in which the rule that its name begins with is broken."""
    return Variant(name=name, model=model, options=options, expected=FAILS)


def _kept(name: str, options: str, *, model: str = "dispatch", is_long: bool = False) -> Variant:
    return Variant(name=name, model=model, options=options, expected=HOLDS, is_long=is_long)


VARIANTS: Final = (
    _broken("I2-no-guard", "I2_NO_GUARD B_TAKE=1"),
    _broken("I5-one-statement", "I2_ONE_STATEMENT B_TAKE=1 B_EDIT=1"),
    _broken("I9-release-first", "I9_RELEASE_FIRST B_STOP=1"),
    _broken("P1-no-deadline", "P1_NO_DEADLINE B_TAKE=1 B_SLOW=1"),
    _broken("P1-no-margin", "MARGIN=0 B_TAKE=1 B_SLOW=1"),
    _broken("P1-from-reply", "P1_FROM_REPLY B_TAKE=1 B_SLOW=3"),
    _broken("P2-by-id", "P2_BY_ID B_CRASH=1 B_FREEZE=1"),
    _broken("P2-claimed-only", "P2_CLAIMED_ONLY AT_MOST_ONCE B_TAKE=1 B_FREEZE=1"),
    _broken("P2-backward", "P2_BACKWARD WORKERS"),
    _broken("A1-ids-only", "A1_IDS_ONLY WORKERS B_TAKE=1 B_FREEZE=1"),
    _broken("A2-any", "A2_ANY"),
    _broken("A2-deadline-passed", "A2_DEADLINE_PASSED MARGIN=0 B_SLOW=1"),
    _broken("A2-queued", "A2_QUEUED"),
    _broken("A2-own-old-term", "A2_OWN_OLD_TERM B_TAKE=3 B_SLOW=2"),
    _broken("A2-forgets-old-term", "A2_FORGETS_OLD_TERM O=2 TIMEOUT=3 BULK=2 B_TAKE=1 B_SLOW=1"),
    _broken("A3-no-wait", "A3_NO_WAIT B_TAKE=1"),
    _broken("A3-short", "A3_SHORT B_TAKE=1 B_SLOW=1"),
    _broken("A3-from-sending", "A3_FROM_SENDING B_TAKE=1 B_SLOW=1"),
    _broken("A3-database-clock", "A3_DATABASE_CLOCK B_TAKE=1 B_CLOCK=1"),
    _broken("A4-never", "A4_NEVER B_DB=1"),
    _broken("A4-by-id", "A4_BY_ID A4_ONCE B_DB=1 B_SLOW=1"),
    _broken("A4-once", "A4_ONCE O=2 B_DB=1"),
    _broken("A4-unguarded", "A4_UNGUARDED B_DB=1"),
    _broken("A4-passes-locked", "A4_PASSES_LOCKED B_DB=1 B_LOCK=1"),
    _broken("A4-forgets-accepted", "A4_FORGETS_ACCEPTED O=2 B_DB=1"),
    _broken("A5-half-of-one", "A5_HALF_OF_ONE B_SLOW=1"),
    _broken("A6-skips-all", "A6_SKIPS_ALL B_CRASH=1 B_EDIT=1"),
    _broken("A6-superseded-any", "SUPERSEDED=1 O=2 B_SLOW=1"),
    _broken("A6-superseded-by-now", "SUPERSEDED=2 O=2 B_LATE=1 B_BROKER=1 B_STOP=1"),
    _broken("A7-tries-again", "A7_TRIES_AGAIN AT_MOST_ONCE B_BROKER=1"),
    _broken("lock-is-a-cause", "LOCK_IS_NO_EXCUSE B_LOCK=1 B_TAKE=1"),
    _kept("take-slow-db", "B_TAKE=2 B_SLOW=1 B_DB=1"),
    _kept("take-crash", "B_TAKE=1 B_CRASH=1 B_SLOW=1"),
    _kept("take-freeze-broker", "B_TAKE=1 B_FREEZE=1 B_BROKER=1"),
    _kept("crash-db-broker", "B_CRASH=1 B_DB=1 B_BROKER=1"),
    _kept("deleted", "B_DELETE=1 B_TAKE=1 B_BROKER=1 B_EDIT=1"),
    _kept("three-processes", "N=3 B_TAKE=1 B_SLOW=1"),
    _kept("stop", "O=2 B_STOP=1 B_BROKER=1"),
    _kept("stop-and-return", "RETURNS B_STOP=1 B_DB=1 B_SLOW=1"),
    _kept("named-successor", "B_SUCCESSOR=2 B_SLOW=1"),
    _kept("at-most-once-freeze", "AT_MOST_ONCE B_TAKE=1 B_FREEZE=1 B_BROKER=1"),
    _kept("at-most-once-crash", "AT_MOST_ONCE B_CRASH=1 B_DB=1 B_BROKER=1 B_EDIT=1"),
    _kept("workers-locks", "WORKERS B_LOCK=1 B_TAKE=1 B_DB=1"),
    _kept("poison", "WORKERS B_POISON=1 B_BROKER=1 B_TAKE=1"),
    _kept("superseded", "SUPERSEDED=3 O=2 B_LATE=1 B_BROKER=1 B_STOP=1"),
    _kept("overlap", "OVERLAP_SKIP O=2 B_TAKE=1 B_BROKER=1"),
    _kept("one-in-hand", "HANDS=1 O=2 B_TAKE=1 B_SLOW=1"),
    _kept("batch-confirm", "BULK=1 O=2 TIMEOUT=3 B_TAKE=1 B_SLOW=1"),
    _kept("batches-confirm", "BULK=2 O=2 TIMEOUT=3 B_TAKE=1 B_SLOW=1"),
    _kept("read-back-always", "A4_ALWAYS O=2 B_DB=1"),
    _kept("confirm-without-lease-lock", "P2_NO_LEASE_LOCK B_TAKE=1 B_FREEZE=1"),
    _kept("paused-clock", "PAUSED_CLOCK B_TAKE=1 B_FREEZE=1 B_SLOW=1"),
    _broken("owed-stays", "OWED_STAYS HOLDER_DIES", model="rescue"),
    _broken("no-rest", "NO_REST BROKER_BACK=6", model="rescue"),
    _broken("no-broker-check", "NO_BROKER_CHECK BROKER_BACK=6", model="rescue"),
    _kept("rescue", "HOLDER_DIES", model="rescue"),
    _kept("broker-away", "BROKER_BACK=6", model="rescue"),
    _kept("broker-away-holder-dies", "BROKER_BACK=6 HOLDER_DIES", model="rescue"),
    _broken("plan-unguarded", "PLAN_UNGUARDED", model="plans"),
    _broken("plan-by-job", "PLAN_BY_JOB TWO_PLANNERS", model="plans"),
    _broken("plan-forgets-due", "PLAN_FORGETS_DUE", model="plans"),
    _broken("I5-claims-old-terms", "CLAIMS_OLD_TERMS=true", model="plans"),
    _kept("plans", "TWO_PLANNERS", model="plans"),
    _broken("worker-unguarded", "UNGUARDED", model="worker"),
    _broken("worker-runs-unanswered", "RUNS_UNANSWERED", model="worker"),
    _broken("worker-drops-unanswered", "DROPS_UNANSWERED", model="worker"),
    _kept("worker", "", model="worker"),
    _kept("worker-acks-late", "LATE", model="worker"),
    _kept("long-take-crash-freeze", "B_TAKE=1 B_CRASH=1 B_FREEZE=1 B_EDIT=1", is_long=True),
    _kept("long-crash-db-broker-edit", "B_CRASH=1 B_DB=2 B_BROKER=1 B_EDIT=1", is_long=True),
    _kept("long-three-processes", "N=3 B_TAKE=1 B_CRASH=1 B_SLOW=1", is_long=True),
    _kept("long-three-processes-db", "N=3 B_TAKE=1 B_DB=1 B_BROKER=1", is_long=True),
    _kept("long-two-due-freeze", "O=2 B_FREEZE=1 B_BROKER=1", is_long=True),
    _kept("long-two-due-crash", "O=2 B_CRASH=1 B_DB=1", is_long=True),
    _kept("long-two-due-locks", "O=2 WORKERS B_LOCK=1 B_TAKE=1 B_DB=1", is_long=True),
    _kept("long-three-due", "O=3 B_TAKE=1", is_long=True),
    _kept("long-at-most-once", "O=2 AT_MOST_ONCE B_TAKE=1 B_DB=1 B_BROKER=1", is_long=True),
    _kept("long-confirm-slow", "TIMEOUT=3 CONFIRM=1 B_TAKE=1 B_CRASH=1 B_FREEZE=1 B_SLOW=1", is_long=True),
    _kept("long-superseded", "SUPERSEDED=3 O=2 B_LATE=1 B_BROKER=1 B_CRASH=1", is_long=True),
    _kept("long-crash-freeze-db", "B_CRASH=1 B_FREEZE=1 B_DB=1 B_EDIT=1", is_long=True),
)
