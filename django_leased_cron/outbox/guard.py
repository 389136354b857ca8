"""The first act of every transaction that changes a tenant's plan or outbox."""

from __future__ import annotations

from typing import Any

from django_leased_cron.core.outbox import TermKey
from django_leased_cron.database.dialect import Dialect
from django_leased_cron.database.session import Session
from django_leased_cron.database.tables import LEASE, OCCURRENCE, STATE


class LeaseGuard:
    """Statements on the lease row.

    Every transaction that uses one of them holds the row's lock until it ends, so a tenant's claims, confirms and
    plan writes come one after another, and what a later statement of the transaction reads is newer than the lock.
    """

    def __init__(self, dialect: Dialect, *, lease_ttl_ms: int) -> None:
        self._lease_ttl_ms = lease_ttl_ms
        now, lease = dialect.now_ms, dialect.shared(LEASE)
        # I2: alone in its statement. In one statement with the claim, the claim's snapshot would be older than its
        # wait for this lock, and a job disabled meanwhile would fire. An UPDATE, because EXISTS and FOR KEY SHARE
        # both let a stale claim commit after a takeover.
        # Another session takes over between two claims: no row matches, nothing is claimed. This process stops here
        # for a minute: the server ends the transaction (PostgreSQL, MariaDB) or the connection (MySQL). The reply is
        # lost: the connection is closed, the server rolls back.
        self._guard = f"""UPDATE {lease}
            SET expires_at_ms = {now} + %(lease_ttl_ms)s, progressed_at_ms = {now}
            WHERE tenant_key = %(tenant_key)s AND holder_id = %(holder_id)s AND epoch = %(epoch)s"""
        # P2 (i): locks the row whoever holds it, moves its times only if the term still does.
        mine = "holder_id = %(holder_id)s AND epoch = %(epoch)s"
        self._lock_and_renew = f"""UPDATE {lease}
            SET expires_at_ms = CASE WHEN {mine} THEN {now} + %(lease_ttl_ms)s ELSE expires_at_ms END,
                progressed_at_ms = CASE WHEN {mine} THEN {now} ELSE progressed_at_ms END
            WHERE tenant_key = %(tenant_key)s"""
        # Owed: the earliest of the next firing, the term's own unconfirmed claims, what people asked for by hand,
        # and, for earlier terms' claims, the moment at which this process may adopt them.
        # By the index on state and due time, which finds the first row at once however many are sent: one batch has one
        # claim time. What earlier terms left is looked for only where this process knows of some (I2: none are added).
        own = f"""SELECT claimed_at_ms FROM {OCCURRENCE} WHERE state = 'claimed' AND epoch = %(epoch)s
            ORDER BY due_at_ms LIMIT 1"""
        since = f"""SELECT MIN(fire_at_ms) AS since_ms FROM {STATE}
            UNION ALL SELECT ({own})
            UNION ALL SELECT MIN(due_at_ms) FROM {OCCURRENCE} WHERE state = 'requested'"""
        predecessors = f"""UNION ALL SELECT MIN({now} + %(adoptable_in_ms)s) FROM {OCCURRENCE}
            WHERE state = 'claimed' AND epoch < %(epoch)s"""
        move_owed = f"""UPDATE {lease} SET owed_since_ms = (SELECT MIN(since_ms) FROM ({{}}) AS owed)
            WHERE tenant_key = %(tenant_key)s AND holder_id = %(holder_id)s AND epoch = %(epoch)s"""
        self._move_owed = move_owed.format(since)
        self._move_owed_with_predecessors = move_owed.format(f"{since} {predecessors}")

    def hold(self, session: Session, term: TermKey) -> bool:
        """Take the lease lock and renew; ``False``: the term is over, and nothing may follow but the end."""
        return session.execute(self._guard, self._parameters(term)) == 1

    def lock(self, session: Session, term: TermKey) -> None:
        """Take the lease lock whoever holds the lease; renew only for its holder."""
        session.execute(self._lock_and_renew, self._parameters(term))

    def move_owed(self, session: Session, term: TermKey, *, predecessors_adoptable_in_ms: int | None) -> None:
        """Say from when the holder has something to answer for; the last statement before COMMIT."""
        parameters = self._parameters(term)
        if predecessors_adoptable_in_ms is None:
            session.execute(self._move_owed, parameters)
        else:
            parameters["adoptable_in_ms"] = predecessors_adoptable_in_ms
            session.execute(self._move_owed_with_predecessors, parameters)

    def _parameters(self, term: TermKey) -> dict[str, Any]:
        return {
            "tenant_key": term.tenant_key,
            "holder_id": term.holder_id,
            "epoch": term.epoch,
            "lease_ttl_ms": self._lease_ttl_ms,
        }
