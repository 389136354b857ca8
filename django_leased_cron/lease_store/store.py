"""The lease store: every act on the lease row, decided by the database.

Rules it keeps:

* One act is one conditional statement in a short transaction of its own, and the count of matched rows decides. A
  takeover and a claim are never one statement.
* Every condition stands on the row that the statement changes, where it is checked again after a wait for the row's
  lock; a condition in a subquery is not, and stole a lease that had just been renewed.
* Acquire names the row version that the bidder saw; renew, release, hand over and a request to hand over name the exact
  term (I10).
* The database's clock is read and checked by a statement of its own, before the act, and handed to it as a number: a
  clock that reads zero or NULL decides nothing, and an old reading only errs in the safe direction (a shorter lease,
  a reason that is harder to meet). No table is read before the act.
* An error is never an answer (I7). A row that stays locked raises; it is not "held by other".

Not promised: that a bidder who was told ``Acquired`` still holds by the time it reads the answer. The guard of the
claim (I2) is what counts.

A vendor's module says what differs there; SQLite needs none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django_leased_cron.core.database_clock import is_plausible
from django_leased_cron.core.lease import (
    FREE,
    Acquired,
    Bid,
    HeldByOther,
    LeaseReading,
    LeaseRow,
    ProcessReport,
    Renewal,
    SeenProcess,
    TakeoverReason,
)
from django_leased_cron.database.dialect import Columns
from django_leased_cron.database.session import Session, SessionPool
from django_leased_cron.database.tables import LEASE, PROCESS
from django_leased_cron.exceptions import DatabaseClockError, StoreError

_TENANT: Final[Columns] = {"tenant_key": "text"}
TERM: Final[Columns] = {"tenant_key": "text", "epoch": "integer"}
_VERSION: Final[Columns] = {
    "holder_id": "text",
    "tenant_key": "text",
    "epoch": "integer",
    "expires_at_ms": "integer",
    "progressed_at_ms": "integer",
}
_ROW: Final = (
    "tenant_key",
    "holder_id",
    "epoch",
    "acquired_at_ms",
    "expires_at_ms",
    "progressed_at_ms",
    "owed_since_ms",
    "hand_over_requested_at_ms",
)
_PROCESS_GONE_AFTER_TTLS: Final = 10
_NEWS_MS: Final = 5000
"""A takeover is notable for this long: each process reads it at several polls, one of which may fail."""

# Of any number of bidders that saw one row version, one matches it; the epoch is the fencing token (I2).
# Another session renews, claims or takes it first, or while this waits for the row's lock: nothing matches any more.
# This process stops here for a minute: the server ends the transaction; whoever acts next finds the row as it was.
# The reply is lost: the caller is told so, and the next reading shows whose the row is.
_ACQUIRE: Final = """UPDATE {lease}
    SET holder_id = %(holder_id)s, epoch = epoch + 1, acquired_at_ms = %(now_ms)s, expires_at_ms = %(expires_at_ms)s,
        progressed_at_ms = %(now_ms)s, hand_over_requested_at_ms = NULL
    WHERE tenant_key = %(tenant_key)s AND holder_id = %(seen_holder_id)s AND epoch = %(seen_epoch)s
        AND expires_at_ms = %(seen_expires_at_ms)s AND progressed_at_ms = %(seen_progressed_at_ms)s"""

# The reason once more, by the database's clock and on the row itself: that clock may have stepped since the reading.
# Which of the two rescue rules applied was judged on the row version named; the shorter bound holds for both.
_STILL: Final[Mapping[TakeoverReason, str]] = {
    TakeoverReason.FREE: " AND holder_id = ''",
    TakeoverReason.EXPIRED: " AND expires_at_ms <= %(now_ms)s",
    TakeoverReason.UNCHANGED: "",
    TakeoverReason.RESCUE: """ AND owed_since_ms = %(seen_owed_since_ms)s
        AND owed_since_ms <= %(rescue_bound_ms)s AND progressed_at_ms <= %(rescue_bound_ms)s""",
}

# I10: names the term, so a message of an old one finds nothing; the epoch stays, the next acquire moves it.
# Another session takes the lease first: nothing matches. This process stops here: the lease stays held and is taken
# over by the ordinary rules. The reply is lost: at worst it is released, which is what was wanted.
_RELEASE: Final = """UPDATE {lease} SET holder_id = '', expires_at_ms = 0, hand_over_requested_at_ms = NULL
    WHERE tenant_key = %(tenant_key)s AND holder_id = %(holder_id)s AND epoch = %(epoch)s"""

# I10: names the term that was seen, so that of two people who ask at once neither moves the lease a second time.
# Another session takes or releases the lease first: nothing matches, and there is nobody to ask. This process stops
# here: nobody was asked. The reply is lost: perhaps the lease moves, which is what was wanted.
_REQUEST_HAND_OVER: Final = """UPDATE {lease} SET hand_over_requested_at_ms = %(now_ms)s
    WHERE tenant_key = %(tenant_key)s AND holder_id = %(holder_id)s AND epoch = %(epoch)s
        AND expires_at_ms > %(now_ms)s"""

# I10, and the epoch moves with the holder: from here on the giver's guard matches nothing, and the successor's does. It
# counts as progress of the successor, which has RESCUE_AFTER to take it up, and answers a request to hand over. That
# the successor is there is politeness: one that goes down at this moment is rescued from like any dead one.
# Another session takes the lease first: nothing matches. This process stops here: the lease stays held and is taken
# over by the ordinary rules. The reply is lost: the giver's next claim is refused, or is not.
_HAND_OVER: Final = """UPDATE {lease}
    SET holder_id = %(successor_id)s, epoch = epoch + 1, acquired_at_ms = %(now_ms)s,
        expires_at_ms = %(expires_at_ms)s, progressed_at_ms = %(now_ms)s, hand_over_requested_at_ms = NULL
    WHERE tenant_key = %(tenant_key)s AND holder_id = %(holder_id)s AND epoch = %(epoch)s
        AND EXISTS (SELECT 1 FROM {process}
            WHERE holder_id = %(successor_id)s AND NOT draining AND last_seen_at_ms >= %(seen_since_ms)s)"""

_SEEN: Final = ("holder_id", "last_seen_at_ms", "draining", "tenants")

# Only the process itself writes its row, so these need no condition; each may be repeated.
_REPORT: Final = """UPDATE {process}
    SET host = %(host)s, pid = %(pid)s, version = %(version)s, last_seen_at_ms = %(now_ms)s, draining = %(draining)s,
        tenants = %(tenants)s
    WHERE holder_id = %(holder_id)s"""
_INTRODUCE_COLUMNS: Final = (
    "holder_id",
    "host",
    "pid",
    "version",
    "started_at_ms",
    "last_seen_at_ms",
    "draining",
    "tenants",
)
_INTRODUCE: Final = """SELECT %(holder_id)s, %(host)s, %(pid)s, %(version)s, %(now_ms)s, %(now_ms)s, %(draining)s,
    %(tenants)s"""
_FORGET: Final = "DELETE FROM {process} WHERE holder_id = %(holder_id)s OR last_seen_at_ms < %(gone_before_ms)s"


class SqlLeaseStore:
    """The leases of one database, in SQL that every vendor understands; see the port ``LeaseStore``."""

    def __init__(self, pool: SessionPool, *, lease_ttl_ms: int, rescue_after_ms: int | None) -> None:
        self.alias = pool.alias
        self._pool = pool
        self._dialect = pool.dialect
        self._lease_ttl_ms = lease_ttl_ms
        self._rescue_after_ms = rescue_after_ms
        self._lease, process = self._dialect.shared(LEASE), self._dialect.shared(PROCESS)
        self._read_clock = f"SELECT {self._dialect.now_ms}"
        self._acquire = _ACQUIRE.format(lease=self._lease)
        self._release = _RELEASE.format(lease=self._lease)
        self._request_hand_over = _REQUEST_HAND_OVER.format(lease=self._lease)
        self._hand_over = _HAND_OVER.format(lease=self._lease, process=process)
        self._read_processes = f"SELECT {', '.join(_SEEN)} FROM {process}"
        self._report, self._forget = _REPORT.format(process=process), _FORGET.format(process=process)
        # From the clock outwards: it is read whether or not there is a row.
        self._read_leases = f"""SELECT clock.now_ms, {", ".join(f"l.{column}" for column in _ROW)}
            FROM (SELECT {self._dialect.now_ms} AS now_ms) AS clock
            LEFT JOIN {self._lease} AS l ON {self._is_one_of("tenant_keys", _TENANT)}"""
        # Of two processes that create a row at once, one does; the other waits for it and leaves it alone.
        self._create = self._dialect.insert_or_ignore(
            self._lease,
            columns=("tenant_key", "holder_id", "epoch", "acquired_at_ms", "expires_at_ms", "progressed_at_ms"),
            select=f"SELECT tenant_key, '', 0, 0, 0, 0 FROM {self._dialect.rows('wanted', _TENANT, alias='wanted')}",
            conflict=("tenant_key",),
        )
        # I10, and nobody's row is waited for: a locked one is being renewed by its own claim, or being taken.
        # Another session takes a row before this locks it: holder or epoch no longer match. After: it waits for us.
        # This process stops here for a minute: the server ends the transaction, nothing is renewed. The reply is
        # lost: the leases may last longer than the keeper believes, which is the safe side.
        self._renew = self._dialect.update_from(
            self._lease,
            rows=f"({self._free_rows('terms', TERM, 'holder_id = %(holder_id)s')}) AS free_terms",
            assignments={"expires_at_ms": "%(expires_at_ms)s"},
            where="t.id = free_terms.id AND t.epoch = free_terms.epoch AND t.holder_id = %(holder_id)s",
        )
        # As for one lease, and in one order for all; a row that somebody has locked is left to the next poll. The
        # version names all that the reasons were judged by, and owed_since_ms moves with progressed_at_ms.
        self._acquire_many = self._dialect.update_from(
            self._lease,
            rows=f"({self._free_rows('bids', _VERSION)}) AS free_rows",
            assignments={
                "holder_id": "%(holder_id)s",
                "epoch": "t.epoch + 1",
                "acquired_at_ms": "%(now_ms)s",
                "expires_at_ms": "%(new_expires_at_ms)s",
                "progressed_at_ms": "%(now_ms)s",
                "hand_over_requested_at_ms": "NULL",
            },
            where=" AND ".join(["t.id = free_rows.id", *(f"t.{name} = free_rows.{name}" for name in _VERSION)]),
        )
        self._read_notable = f"""SELECT clock.now_ms, notable.* FROM (SELECT {self._dialect.now_ms} AS now_ms) AS clock
            LEFT JOIN (
                SELECT {", ".join(f"l.{column}" for column in _ROW)},
                    holders.progressed_at_ms AS holder_progressed_at_ms
                FROM {self._lease} AS l JOIN (
                    SELECT holder_id, MAX(progressed_at_ms) AS progressed_at_ms FROM {self._lease} GROUP BY holder_id
                ) AS holders ON holders.holder_id = l.holder_id
            ) AS notable ON notable.holder_id = '' OR notable.expires_at_ms <= clock.now_ms + %(within_ms)s
                OR notable.expires_at_ms > clock.now_ms + 2 * %(lease_ttl_ms)s
                OR notable.acquired_at_ms > clock.now_ms - %(news_ms)s
                OR notable.owed_since_ms <= clock.now_ms - %(rescue_after_ms)s + %(within_ms)s
                OR notable.hand_over_requested_at_ms IS NOT NULL"""
        self._read_terms = f"""SELECT tenant_key, expires_at_ms FROM {self._lease}
            WHERE holder_id = %(holder_id)s AND {self._is_one_of("terms", TERM)}"""
        self._introduce = self._dialect.insert_or_ignore(
            process, columns=_INTRODUCE_COLUMNS, select=_INTRODUCE, conflict=("holder_id",)
        )

    def read(self, tenant_keys: Sequence[str]) -> LeaseReading:
        """Read the leases of these tenants in one query, creating (free, epoch 0) rows that are missing."""
        wanted = sorted(set(tenant_keys))
        reading = self._read(wanted)
        missing = [tenant_key for tenant_key in wanted if tenant_key not in reading.leases]
        if not missing:
            return reading
        with self._pool.transaction() as session:
            session.execute(self._create, {"wanted": _as_json({"tenant_key": key} for key in missing)})
        reading = self._read(wanted)
        lacking = [tenant_key for tenant_key in missing if tenant_key not in reading.leases]
        if lacking:
            detail = f"no lease row for {lacking!r} even after creating it: is it another tenant's key in other case?"
            raise StoreError(self.alias, detail)
        return reading

    def read_notable(self, *, within_ms: int) -> LeaseReading:
        """Read the leases that there is a reason to look at, whosever tenants they are, in one query."""
        parameters = {
            "lease_ttl_ms": self._lease_ttl_ms,
            "news_ms": _NEWS_MS,
            "rescue_after_ms": self._rescue_after_ms,
            "within_ms": within_ms,
        }
        rows = self._pool.glance(self._read_notable, parameters)
        now_ms = self._checked(rows[0][0])
        progress: dict[str, int] = {}
        leases: dict[str, LeaseRow] = {}
        for _, *columns, holder_progressed_at_ms in rows:
            if columns[0] is not None:
                lease = LeaseRow(**dict(zip(_ROW, columns, strict=True)))
                leases[lease.tenant_key] = lease
                progress[lease.holder_id] = holder_progressed_at_ms
        return LeaseReading(now_ms=now_ms, leases=leases, progress=progress)

    def try_acquire(self, seen: LeaseRow, *, holder_id: str, reason: TakeoverReason) -> Acquired | HeldByOther:
        """Take a lease whose row is still exactly ``seen``, if ``reason`` still holds by the database's clock."""
        with self._pool.transaction() as session:
            now_ms = self._now_ms(session)
            parameters = {
                "tenant_key": seen.tenant_key,
                "holder_id": holder_id,
                "now_ms": now_ms,
                "expires_at_ms": now_ms + self._lease_ttl_ms,
                "rescue_bound_ms": None if self._rescue_after_ms is None else now_ms - self._rescue_after_ms,
                "seen_holder_id": seen.holder_id,
                "seen_epoch": seen.epoch,
                "seen_expires_at_ms": seen.expires_at_ms,
                "seen_progressed_at_ms": seen.progressed_at_ms,
                "seen_owed_since_ms": seen.owed_since_ms,
            }
            matched = session.execute(self._acquire + _STILL[reason], parameters)
        if matched == 0:
            return HeldByOther(tenant_key=seen.tenant_key)
        return Acquired(tenant_key=seen.tenant_key, epoch=seen.epoch + 1, now_ms=now_ms)

    def try_acquire_many(self, bids: Sequence[Bid], *, holder_id: str) -> Sequence[Acquired]:
        """Take the leases whose rows are still as they were read, in one statement that waits for nobody's row."""
        with self._pool.transaction() as session:
            now_ms = self._now_ms(session)
            standing = {bid.row.tenant_key: bid.row for bid in bids if self._stands(bid, now_ms=now_ms)}
            if not standing:
                return ()
            parameters = {
                "bids": self._as_list(
                    [{name: getattr(row, name) for name in _VERSION} for _, row in sorted(standing.items())]
                ),
                "holder_id": holder_id,
                "now_ms": now_ms,
                "new_expires_at_ms": now_ms + self._lease_ttl_ms,
            }
            taken: Iterable[str] = standing
            if session.execute(self._acquire_many, parameters) < len(standing):
                terms = [{"tenant_key": key, "epoch": row.epoch + 1} for key, row in sorted(standing.items())]
                found = session.fetch(self._read_terms, {"holder_id": holder_id, "terms": self._as_list(terms)})
                taken = {tenant_key for tenant_key, _ in found}
        return [
            Acquired(tenant_key=tenant_key, epoch=row.epoch + 1, now_ms=now_ms)
            for tenant_key, row in standing.items()
            if tenant_key in taken
        ]

    def _stands(self, bid: Bid, *, now_ms: int) -> bool:
        """Return whether the reason still holds by the database's clock, which may have stepped since the reading."""
        row = bid.row
        match bid.reason:
            case TakeoverReason.FREE:
                return row.holder_id == FREE
            case TakeoverReason.EXPIRED:
                return row.expires_at_ms <= now_ms
            case TakeoverReason.UNCHANGED:
                return True
            case TakeoverReason.RESCUE:
                if self._rescue_after_ms is None or row.owed_since_ms is None:
                    return False
                return max(row.owed_since_ms, row.progressed_at_ms) <= now_ms - self._rescue_after_ms

    def renew(self, *, holder_id: str, epochs: Mapping[str, int]) -> Renewal:
        """Renew all terms of one holder (tenant key to epoch) in one statement that waits for nobody's row."""
        named = frozenset(epochs)
        if not named:
            return Renewal(renewed=named, lost=named, busy=named)
        terms = [{"tenant_key": tenant_key, "epoch": epoch} for tenant_key, epoch in sorted(epochs.items())]
        with self._pool.transaction() as session:
            expires_at_ms = self._now_ms(session) + self._lease_ttl_ms
            parameters = {"holder_id": holder_id, "terms": self._as_list(terms), "expires_at_ms": expires_at_ms}
            if session.execute(self._renew, parameters) == len(named):
                ours = dict.fromkeys(named, expires_at_ms)
            else:
                ours = dict(session.fetch(self._read_terms, parameters))
        renewed = frozenset(tenant_key for tenant_key, at_ms in ours.items() if at_ms == expires_at_ms)
        return Renewal(renewed=renewed, lost=named - ours.keys(), busy=frozenset(ours) - renewed)

    def release(self, *, tenant_key: str, holder_id: str, epoch: int) -> bool:
        """Free the lease if it is still this term's, and tell the standbys where the database can."""
        with self._pool.transaction() as session:
            parameters = {"tenant_key": tenant_key, "holder_id": holder_id, "epoch": epoch}
            released = session.execute(self._release, parameters) == 1
            if released:
                self._announce(session)
        return released

    def request_hand_over(self, seen: LeaseRow) -> bool:
        """Ask the holder of this very term to hand over, at once where the database can tell it."""
        with self._pool.transaction() as session:
            parameters = {
                "tenant_key": seen.tenant_key,
                "holder_id": seen.holder_id,
                "epoch": seen.epoch,
                "now_ms": self._now_ms(session),
            }
            requested = session.execute(self._request_hand_over, parameters) == 1
            if requested:
                self._announce(session)
        return requested

    def hand_over(self, *, tenant_key: str, holder_id: str, epoch: int, successor_id: str) -> bool:
        """Make a live process the holder if the lease is still this term's, and tell it where the database can."""
        with self._pool.transaction() as session:
            now_ms = self._now_ms(session)
            parameters = {
                "tenant_key": tenant_key,
                "holder_id": holder_id,
                "epoch": epoch,
                "successor_id": successor_id,
                "now_ms": now_ms,
                "expires_at_ms": now_ms + self._lease_ttl_ms,
                "seen_since_ms": now_ms - self._lease_ttl_ms,
            }
            given = session.execute(self._hand_over, parameters) == 1
            if given:
                self._announce(session)
        return given

    def read_processes(self) -> Sequence[SeenProcess]:
        """Read the rows of all processes, dead ones included."""
        return [
            SeenProcess(
                holder_id=holder_id,
                last_seen_at_ms=last_seen_at_ms,
                draining=bool(draining),
                tenants=frozenset(json.loads(tenants)),
            )
            for holder_id, last_seen_at_ms, draining, tenants in self._pool.glance(self._read_processes)
        ]

    def report_process(self, report: ProcessReport) -> None:
        """Insert or update the process's row with the database's time."""
        with self._pool.transaction() as session:
            parameters = {
                "holder_id": report.holder_id,
                "host": report.host,
                "pid": report.pid,
                "version": report.version,
                "draining": report.draining,
                "tenants": json.dumps(list(report.tenants)),
                "now_ms": self._now_ms(session),
            }
            if session.execute(self._report, parameters) == 0:
                session.execute(self._introduce, parameters)

    def forget_process(self, *, holder_id: str) -> None:
        """Delete the process's row, and those of processes long gone."""
        with self._pool.transaction() as session:
            gone_before_ms = self._now_ms(session) - _PROCESS_GONE_AFTER_TTLS * self._lease_ttl_ms
            session.execute(self._forget, {"holder_id": holder_id, "gone_before_ms": gone_before_ms})

    def close(self) -> None:
        """Give up connections; never raises."""
        self._pool.close()

    def _read(self, tenant_keys: Sequence[str]) -> LeaseReading:
        parameters = {"tenant_keys": self._as_list([{"tenant_key": tenant_key} for tenant_key in tenant_keys])}
        rows = self._pool.glance(self._read_leases, parameters)
        now_ms = self._checked(rows[0][0])
        leases = [LeaseRow(**dict(zip(_ROW, row[1:], strict=True))) for row in rows if row[1] is not None]
        return LeaseReading(now_ms=now_ms, leases={lease.tenant_key: lease for lease in leases})

    def _now_ms(self, session: Session) -> int:
        ((reading_ms,),) = session.fetch(self._read_clock)
        return self._checked(reading_ms)

    def _checked(self, reading_ms: object) -> int:
        if not is_plausible(reading_ms):
            raise DatabaseClockError(self.alias, reading_ms)
        return reading_ms

    def _free_rows(self, parameter: str, columns: Columns, *conditions: str) -> str:
        """Return the SELECT of the named rows that nobody has locked, now locked by us, in one order for all."""
        return f"""SELECT id, {", ".join(columns)} FROM {self._lease}
            WHERE {" AND ".join([*conditions, self._is_one_of(parameter, columns)])}
            ORDER BY tenant_key{self._dialect.skip_locked}"""

    def _is_one_of(self, parameter: str, columns: Columns) -> str:
        """Return the condition that these columns are among the rows of a parameter made by :meth:`_as_list`."""
        names = ", ".join(columns)
        return f"({names}) IN (SELECT {names} FROM {self._dialect.rows(parameter, columns, alias=parameter)})"

    def _as_list(self, rows: Sequence[Mapping[str, Any]]) -> Any:
        return _as_json(rows)

    def _announce(self, session: Session) -> None:
        """Tell all processes to look, in the transaction that gives them reason to; without a way to, they poll."""


def _as_json(rows: Iterable[Mapping[str, Any]]) -> str:
    return json.dumps(list(rows))
