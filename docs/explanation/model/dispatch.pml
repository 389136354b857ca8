/* Claim, publish, confirm and adopt: one tenant's lease row, N processes, O due occurrences, a broker, and faults.
 *
 * Every option of a process carries the function that it stands for, by file and name below django_leased_cron/, or
 * "world" where it is nobody's code: a fault, a person, the database's or the broker's side. Options of -D are listed
 * in tests/model/variants.py: faults allowed (B_...), rules broken on purpose (named after the rule), and what else a
 * run looks at.
 *
 * Time passes in ticks, for every process alike, frozen or not. A tick waits for what a healthy process does at once.
 * All faults have budgets, so every run ends, and "finally" is what holds when nothing more can happen. (While somebody
 * else keeps a row locked, reading back goes on; sooner or later they let go.)
 */
#ifndef N
#define N 2                /* processes */
#endif
#ifndef O
#define O 1                /* due occurrences; where rules compare them, 0 is older than 1 and of the same job */
#endif
#ifndef TIMEOUT
#define TIMEOUT 2          /* PUBLISH_TIMEOUT, ticks */
#endif
#ifndef WRITE
#define WRITE 1            /* a publication that has begun ends within this many ticks */
#endif
#ifndef CONFIRM
#define CONFIRM 0          /* and is confirmed within this many more */
#endif
#ifndef MARGIN
#define MARGIN (WRITE+CONFIRM)  /* core/timing.py LeaseTiming.start_margin_s: the part in which nothing may start */
#endif
#define LAST_EPOCH 6

/* How often each fault may happen. */
#ifndef B_CRASH
#define B_CRASH 0
#endif
#ifndef B_FREEZE
#define B_FREEZE 0
#endif
#ifndef B_TAKE
#define B_TAKE 0           /* takeovers from a healthy holder, and trust that ran out */
#endif
#ifndef B_DB
#define B_DB 0             /* commits and replies of the database lost */
#endif
#ifndef B_BROKER
#define B_BROKER 0         /* connections to the broker that broke */
#endif
#ifndef B_POISON
#define B_POISON 0         /* a message given up because the broker ends the connection on it */
#endif
#ifndef B_EDIT
#define B_EDIT 0           /* the job is disabled, enabled again */
#endif
#ifndef B_DELETE
#define B_DELETE 0         /* the job is deleted */
#endif
#ifndef B_SLOW
#define B_SLOW 0           /* a healthy process dawdles past a deadline */
#endif
#ifndef B_STOP
#define B_STOP 0           /* polite stops */
#endif
#ifndef B_SUCCESSOR
#define B_SUCCESSOR 0      /* hand-overs that name a successor */
#endif
#ifndef B_LOCK
#define B_LOCK 0           /* somebody else locks an occurrence's row for as long as they like */
#endif
#ifndef B_LATE
#define B_LATE 0           /* occurrence 0 becomes so late that it counts as missed */
#endif
#ifndef B_CLOCK
#define B_CLOCK 0          /* the database's clock steps forward */
#endif

/* An occurrence's row. */
#define DUE 0
#define CLAIMED 1
#define SENT 2
#define UNCERTAIN 3
#define SKIPPED 4
#define RUNNING 5          /* a worker has started it */
byte state[O], epoch_of[O], attempt[O], edits[O];
bit deleted[O], foreign_lock[O];

/* The lease row; `life` tells a process from the one that had its number before. */
byte holder = 1, holder_life = 0, epoch = 1, lock = 0;

/* The broker; sets of attempts, attempt n is bit n-1. */
byte arrived[O], adrift[O], excused[O];

/* A process. */
bit alive[N], frozen[N], gone[N], stopping[N];
byte life[N];
byte term[N];              /* the epoch it believes in, 0: standby */
bit unsure[N];             /* a claim's outcome is unknown: read back (A4) */
byte seen[N];              /* the highest epoch that a reply has shown it, and ... */
byte wait[N*8];            /* ... how much of TIMEOUT is left since it saw one above epoch e */

/* Its claim transaction. */
#define IDLE 0
#define SNAPSHOT 1         /* I2_ONE_STATEMENT only */
#define GUARDED 2
#define SELECTED 3         /* A1_IDS_ONLY only */
#define DECIDED 4
#define COMMITTING 5
#define COMMITTED 6        /* its reply is on the way */
#define ROLLED_BACK 7
#define ABANDONED 8        /* the process gave up waiting; the outcome is open, the lock still held */
byte tx[N], tx_right[N], tx_epoch[N];
#define NOTHING 0
#define CLAIM 1
#define SKIP 2
#define GIVE_UP 3
byte verdict[N*O], tx_attempt[N*O], terms_read[N*O], terms_at_lock[N*O];

/* What it has in hand. */
#define NONE 0
#define HELD 1             /* claimed, not begun, its publisher will come to it */
#define LEFT 2             /* not begun, and its publisher no longer will */
#define CHECKED 3          /* past the deadline's check, nothing written */
#define WRITTEN 4          /* the broker has it, the reply is under way */
#define ACCEPTED 5         /* to be confirmed */
#define REPEATED 6         /* to be confirmed again */
#define UNKNOWN 7          /* it may have arrived, arrive later, or never */
#define DOUBTED 8          /* to be recorded as uncertain, or as skipped where the job was deleted */
byte hand[N*O], h_attempt[N*O], h_epoch[N*O], right[N*O], age[N*O];

byte b_crash = B_CRASH, b_freeze = B_FREEZE, b_take = B_TAKE, b_db = B_DB, b_broker = B_BROKER,
     b_poison = B_POISON, b_edit = B_EDIT,
     b_delete = B_DELETE, b_slow = B_SLOW, b_stop = B_STOP, b_successor = B_SUCCESSOR, b_lock = B_LOCK,
     b_late = B_LATE, b_clock = B_CLOCK;
bit late, late_at_first_claim, late_at_claim;   /* of occurrence 0 */
#ifdef A3_DATABASE_CLOCK
byte claim_age[O];
#endif
#ifdef A3_FROM_SENDING
byte asked[N];
#endif

#define AT(p,o) ((p)*O+(o))
#define BIT(n) (1<<((n)-1))
#define UP(p) (alive[p] && !frozen[p])
#define NAMES(p) (holder==(p)+1 && holder_life==life[p])
#define MINE(p) (NAMES(p) && epoch==term[p])
#define DISABLED(o) ((edits[o]&1)==1)
#define IN_FLIGHT(p,o) (hand[AT(p,o)]==CHECKED||hand[AT(p,o)]==WRITTEN||hand[AT(p,o)]==ACCEPTED||hand[AT(p,o)]==REPEATED)
#define PUBLISHING(p,o) (hand[AT(p,o)]==HELD||hand[AT(p,o)]==CHECKED||hand[AT(p,o)]==WRITTEN)
#define UNRECORDED(p,o) (IN_FLIGHT(p,o)||hand[AT(p,o)]==DOUBTED)
/* Nobody works for this lease: it is free, or its holder is dead, frozen, another life, or knows nothing of it. */
#define HOLDER_AWAY (holder==0 || !alive[holder-1] || frozen[holder-1] || holder_life!=life[holder-1] || term[holder-1]!=epoch)

#if O==1
#define SOME(P,p) (P(p,0))
#elif O==2
#define SOME(P,p) (P(p,0)||P(p,1))
#else
#define SOME(P,p) (P(p,0)||P(p,1)||P(p,2))
#endif

/* A2: of the claims of its own term, those that are through its publisher: not begun, or failed.
 * supervision/hand.py Hand.find_adoptions */
#ifdef A2_ANY
#define IS_THROUGH(p,o) (hand[AT(p,o)]!=NONE)
#elif defined(A2_DEADLINE_PASSED)
#define IS_THROUGH(p,o) (hand[AT(p,o)]!=NONE && right[AT(p,o)]==0)
#elif defined(A2_QUEUED)
#define IS_THROUGH(p,o) (hand[AT(p,o)]==HELD || hand[AT(p,o)]==LEFT || hand[AT(p,o)]==UNKNOWN)
#else
#define IS_THROUGH(p,o) (hand[AT(p,o)]==LEFT || hand[AT(p,o)]==UNKNOWN)
#endif
#define IN_HAND(p,o) (hand[AT(p,o)]!=NONE && h_attempt[AT(p,o)]==attempt[o] && h_epoch[AT(p,o)]==epoch_of[o])
/* A4: claimed in this epoch, and this attempt is not in hand.
 * outbox/claims.py ClaimTransaction._with_read_back, supervision/claimer.py Claimer._names */
#ifdef A4_NEVER
#define A4_ONCE
#define READ_BACK(p,o) (false)
#elif defined(A4_BY_ID)
#define READ_BACK(p,o) (unsure[p] && hand[AT(p,o)]==NONE)
#elif defined(A4_FORGETS_ACCEPTED)
#define READ_BACK(p,o) (unsure[p] && (!IN_HAND(p,o) || hand[AT(p,o)]==ACCEPTED))
#elif defined(A4_ALWAYS)
#define READ_BACK(p,o) (!IN_HAND(p,o))
#else
#define READ_BACK(p,o) (unsure[p] && !IN_HAND(p,o))
#endif
/* A3: TIMEOUT has passed since this process was shown an epoch above the claim's.
 * core/adoption.py EpochSightings.adoptable_at, supervision/predecessors.py Predecessors.find_ready */
#ifdef A3_NO_WAIT
#define WAITED(p,o) (true)
#elif defined(A3_DATABASE_CLOCK)
#define WAITED(p,o) (claim_age[o]==0 || (seen[p]>epoch_of[o] && wait[(p)*8+epoch_of[o]]==0))
#else
#define WAITED(p,o) (seen[p]>epoch_of[o] && wait[(p)*8+epoch_of[o]]==0)
#endif
#ifdef A2_OWN_OLD_TERM
#define OWN_OLD_TERM(p,o) (epoch_of[o]<term[p] && (hand[AT(p,o)]==HELD||hand[AT(p,o)]==UNKNOWN))
#else
#define OWN_OLD_TERM(p,o) (false)
#endif
#define OWN(p,o) (epoch_of[o]==term[p] && ((IN_HAND(p,o) && IS_THROUGH(p,o)) || READ_BACK(p,o)))
/* A2, for whatever term: what this process knows the broker to have, or knows better about, it records.
 * supervision/predecessors.py Predecessors.read */
#ifdef A2_FORGETS_OLD_TERM
#define OWN_TO_RECORD(p,o) (false)
#else
#define OWN_TO_RECORD(p,o) (IN_HAND(p,o) && UNRECORDED(p,o))
#endif
#define PREDECESSORS(p,o) (epoch_of[o]<term[p] && !OWN_TO_RECORD(p,o) && (WAITED(p,o) || OWN_OLD_TERM(p,o)))
#ifdef A5_HALF_OF_ONE
#define ELIGIBLE(p,o) (state[o]==DUE)
#else
#define ELIGIBLE(p,o) (state[o]==DUE || (state[o]==CLAIMED && !foreign_lock[o] && (OWN(p,o)||PREDECESSORS(p,o))))
#endif
/* Known not to have begun: not begun in hand, or claimed by a transaction whose reply never came. */
#define NEVER_STARTED(p,o) (epoch_of[o]==term[p] && (hand[AT(p,o)]==LEFT || hand[AT(p,o)]==HELD || !IN_HAND(p,o)))

/* A row changed by a claim that has not committed. */
#define TOUCHED(q,o) (verdict[AT(q,o)]!=NOTHING && (tx[q]==DECIDED||tx[q]==COMMITTING||tx[q]==ABANDONED))
#if N==2
#define ROW_LOCKED(o) (foreign_lock[o] || TOUCHED(0,o) || TOUCHED(1,o))
#else
#define ROW_LOCKED(o) (foreign_lock[o] || TOUCHED(0,o) || TOUCHED(1,o) || TOUCHED(2,o))
#endif

/* How many batches may be in hand; 0: any number. Two is less than that, so what holds for any number holds for two. */
#ifndef HANDS
#define HANDS 0
#endif
#define MAY_CLAIM(p) (HANDS==0 || !SOME(PUBLISHING,p))

/* A batch is confirmed when all of it (BULK=1), or of all batches in hand (BULK=2), is through the publisher. */
#ifdef BULK
#define BEFORE(p,o,r) (PUBLISHING(p,r) && right[AT(p,r)]>MARGIN && (BULK==2 || right[AT(p,r)]==right[AT(p,o)]))
#define MAY_CONFIRM(p,o) (!BEFORE(p,o,0) && !BEFORE(p,o,O-1))
#else
#define MAY_CONFIRM(p,o) true
#endif
#ifdef P2_NO_LEASE_LOCK
#define CONFIRM_FREE(o) (!ROW_LOCKED(o))
#else
#define CONFIRM_FREE(o) (lock==0 && !ROW_LOCKED(o))
#endif

#define UNFINISHED(o) (state[o]==CLAIMED||state[o]==SENT||state[o]==RUNNING)

byte i_, n_, some_, set_;

inline arrive(o,n) {
  assert((arrived[o] & BIT(n))==0);
  arrived[o] = arrived[o] | BIT(n);
  set_ = arrived[o]; n_ = 0;
  do :: (set_ >> n_) > 1 -> n_++ :: else -> break od;
  set_ = set_ & ~(1<<n_);                    /* all copies but the one of the latest attempt */
#ifdef AT_MOST_ONCE
  assert(set_==0);                           /* A7 */
#else
  assert((set_ & ~excused[o])==0);           /* I4 */
#endif
  set_ = 0; n_ = 0
}

inline excuse(p,o) { excused[o] = excused[o] | BIT(h_attempt[AT(p,o)]) }
inline put_down(p,o) { hand[AT(p,o)]=NONE; h_attempt[AT(p,o)]=0; h_epoch[AT(p,o)]=0; right[AT(p,o)]=0; age[AT(p,o)]=0 }
inline forget_tx(p) {
  i_=0;
  do
  :: i_<O -> verdict[AT(p,i_)]=NOTHING; tx_attempt[AT(p,i_)]=0; terms_read[AT(p,i_)]=0; terms_at_lock[AT(p,i_)]=0; i_++
  :: else -> break
  od;
  i_=0; tx_right[p]=0; tx_epoch[p]=0; tx[p]=IDLE
}
inline end_term(p) { term[p]=0; unsure[p]=0 }
inline see(p) {
  do
  :: seen[p]<epoch ->
#ifdef A3_FROM_SENDING
     wait[p*8+seen[p]] = (asked[p]>0 -> asked[p]-1 : TIMEOUT);
#elif defined(A3_SHORT)
     wait[p*8+seen[p]] = TIMEOUT-1;
#else
     wait[p*8+seen[p]] = TIMEOUT;
#endif
     seen[p]++
  :: else -> break
  od
}

/* A6. outbox/adoptions.py AdoptionStatements._examine */
#if SUPERSEDED==1          /* whatever has a newer one */
#define SUPERSEDES(p) true
#elif SUPERSEDED==2        /* a predecessor's, late by the time of its latest claim */
#define SUPERSEDES(p) (epoch_of[0]<term[p] && late_at_claim)
#elif SUPERSEDED==3        /* a predecessor's first attempt, late by the time of that claim */
#define SUPERSEDES(p) (epoch_of[0]<term[p] && attempt[0]==1 && late_at_claim)
#endif

/* What the rows say now: any part of what may be claimed, so every batch size and every order is looked at. */
inline decide(p) {
  set_=0; i_=0; some_=0;
  do :: i_<O -> if :: ELIGIBLE(p,i_) -> set_ = set_ | (1<<i_) :: else fi; i_++ :: else -> break od;
  i_=0;
  do
  :: i_<O ->
     if
     :: (set_ & (1<<i_))!=0 ->
        some_=1;
        if
        :: state[i_]==DUE ->                 /* outbox/claims.py ClaimTransaction._examine_due */
#ifndef I2_ONE_STATEMENT
           terms_read[AT(p,i_)]=edits[i_];
#endif
           if
           :: deleted[i_] || (terms_read[AT(p,i_)]&1)==1 -> verdict[AT(p,i_)]=SKIP
#ifdef OVERLAP_SKIP
           :: else ->
              if
              :: i_==1 && UNFINISHED(0) -> verdict[AT(p,i_)]=SKIP
              :: i_==1 && state[0]==DUE && verdict[AT(p,0)]==CLAIM -> skip     /* one firing of the job at a time */
              :: else -> verdict[AT(p,i_)]=CLAIM
              fi
#else
           :: else -> verdict[AT(p,i_)]=CLAIM
#endif
           fi
        :: else ->                           /* outbox/adoptions.py AdoptionStatements.run, outbox/adoptions.py _decide: A6, A7 */
           if
           :: deleted[i_] -> verdict[AT(p,i_)]=SKIP
           :: !deleted[i_] && DISABLED(i_) ->
#ifdef A6_SKIPS_ALL
              verdict[AT(p,i_)]=SKIP
#else
              if :: NEVER_STARTED(p,i_) && attempt[i_]==1 -> verdict[AT(p,i_)]=SKIP :: else -> verdict[AT(p,i_)]=GIVE_UP fi
#endif
           :: else ->
              if
#ifdef AT_MOST_ONCE
#ifdef A7_TRIES_AGAIN
              :: !NEVER_STARTED(p,i_) && epoch_of[i_]<term[p] -> verdict[AT(p,i_)]=GIVE_UP
#else
              :: !NEVER_STARTED(p,i_) -> verdict[AT(p,i_)]=GIVE_UP
#endif
#endif
#ifdef SUPERSEDED
              :: SUPERSEDES(p) && i_==0 && O>1 && UNFINISHED(O-1) ->
                 assert(late_at_first_claim);           /* I3: what was claimed in time is sent */
                 verdict[AT(p,i_)]=GIVE_UP
#endif
              :: else -> verdict[AT(p,i_)]=CLAIM
              fi
           fi
        fi
     :: (set_ & (1<<i_))!=0 && (some_ || (set_ >> (i_+1))!=0) -> skip
     :: (set_ & (1<<i_))==0 -> skip
     fi;
     i_++
  :: else -> break
  od;
  set_=0; i_=0; some_=0
}
inline apply(p) {
  i_=0; some_=0;
  do
  :: i_<O ->
     if
     :: verdict[AT(p,i_)]==CLAIM ->          /* outbox/claims.py ClaimTransaction._insert, outbox/adoptions.py AdoptionStatements._adopt */
        some_=1;
        assert(state[i_]!=DUE || terms_read[AT(p,i_)]>=terms_at_lock[AT(p,i_)]);   /* I5 */
        assert(state[i_]==DUE || state[i_]==CLAIMED);                              /* P2: states only move forward */
        if :: i_==0 && state[0]==DUE -> late_at_first_claim=late :: else fi;
        if :: i_==0 -> late_at_claim=late :: else fi;
#ifdef OVERLAP_SKIP
        assert(i_!=1 || state[1]!=DUE || !UNFINISHED(0));
#endif
        attempt[i_]++; state[i_]=CLAIMED; epoch_of[i_]=tx_epoch[p]; tx_attempt[AT(p,i_)]=attempt[i_];
#ifdef A3_DATABASE_CLOCK
        claim_age[i_]=TIMEOUT+2;
#endif
        assert(attempt[i_]<=7)
     :: verdict[AT(p,i_)]==SKIP -> some_=1; state[i_]=SKIPPED
     :: verdict[AT(p,i_)]==GIVE_UP -> some_=1; state[i_]=UNCERTAIN   /* outbox/adoptions.py AdoptionStatements._settle */
     :: else
     fi;
     i_++
  :: else -> break
  od;
  assert(!some_ || (epoch==tx_epoch[p] && NAMES(p)));                              /* I2 */
  some_=0; i_=0
}

/* A7: what may have been published is uncertain at once; else it may be adopted (A2). supervision/batch.py Batch.note */
#if defined(AT_MOST_ONCE) && !defined(A7_TRIES_AGAIN)
#define doubt(p,o) hand[AT(p,o)]=DOUBTED; age[AT(p,o)]=0; right[AT(p,o)]=0
#else
#define doubt(p,o) hand[AT(p,o)]=UNKNOWN; age[AT(p,o)]=0; right[AT(p,o)]=0
#endif

/* I9. supervision/seat.py TenantSeat.is_drained */
#ifdef I9_RELEASE_FIRST
#define DRAINED(p) true
#else
#define DRAINED(p) (!SOME(PUBLISHING,p) && !SOME(UNRECORDED,p))
#endif

proctype scheduler(byte p) {
  do
  /* lease_store/store.py SqlLeaseStore.try_acquire, core/bidding.py find_takeover */
  :: d_step { UP(p) && !stopping[p] && lock==0 && epoch<LAST_EPOCH && !MINE(p) && HOLDER_AWAY && (tx[p]==IDLE||tx[p]==COMMITTED||tx[p]==ROLLED_BACK) ->
       holder=p+1; holder_life=life[p]; epoch++; see(p); term[p]=epoch; unsure[p]=0; printf("p%d takes over, epoch %d\n",p,epoch) }
  /* lease_store/store.py SqlLeaseStore.try_acquire: from a holder that works; rescue or expiry misjudged it */
  :: d_step { UP(p) && !stopping[p] && lock==0 && epoch<LAST_EPOCH && !NAMES(p) && !HOLDER_AWAY && b_take>0 && (tx[p]==IDLE||tx[p]==COMMITTED||tx[p]==ROLLED_BACK) ->
       b_take--; holder=p+1; holder_life=life[p]; epoch++; see(p); term[p]=epoch; unsure[p]=0; printf("p%d takes over from a healthy holder, epoch %d\n",p,epoch) }
  /* lease_store/store.py SqlLeaseStore.try_acquire: done, and its reply lost */
  :: d_step { UP(p) && !stopping[p] && lock==0 && epoch<LAST_EPOCH && !MINE(p) && HOLDER_AWAY && b_db>0 && tx[p]==IDLE ->
       b_db--; holder=p+1; holder_life=life[p]; epoch++; end_term(p); printf("p%d takes over without knowing, epoch %d\n",p,epoch) }
  /* supervision/standby.py StandbyPoll.poll, core/adoption.py EpochSightings.note */
  :: d_step { UP(p) && seen[p]<epoch -> see(p); printf("p%d sees epoch %d\n",p,epoch) }
  /* supervision/seat.py TenantSeat.denied: a poll, a renewal or a guard finds the lease another's */
  :: d_step { UP(p) && tx[p]==IDLE && term[p]!=0 && !MINE(p) -> end_term(p); printf("p%d lost its term\n",p) }
  /* core/lease_machine.py step: trust ran out, whoever the row names */
  :: d_step { UP(p) && b_take>0 && term[p]!=0 && MINE(p) -> b_take--; end_term(p); printf("p%d trusts its term no more\n",p) }
#ifdef A3_FROM_SENDING
  /* supervision/standby.py StandbyPoll.poll: the question is on its way */
  :: d_step { UP(p) && asked[p]==0 && seen[p]==epoch && epoch<LAST_EPOCH -> asked[p]=TIMEOUT+1; printf("p%d asks\n",p) }
#endif

#ifdef I2_ONE_STATEMENT
  /* world: guard and claim in one statement, whose snapshot is older than its wait for the lock */
  :: d_step { UP(p) && !stopping[p] && tx[p]==IDLE && term[p]!=0 && (SOME(ELIGIBLE,p) || unsure[p]) ->
       tx[p]=SNAPSHOT; tx_right[p]=TIMEOUT; tx_epoch[p]=term[p];
       i_=0; do :: i_<O -> terms_read[AT(p,i_)]=edits[i_]; i_++ :: else -> break od; i_=0; printf("p%d takes its snapshot\n",p) }
  /* world: the same, granted */
  :: d_step { UP(p) && tx[p]==SNAPSHOT && lock==0 && MINE(p) ->
       lock=p+1; tx[p]=GUARDED; i_=0; do :: i_<O -> terms_at_lock[AT(p,i_)]=edits[i_]; i_++ :: else -> break od; i_=0; printf("p%d has the lock\n",p) }
  /* world: the same, refused */
  :: d_step { UP(p) && tx[p]==SNAPSHOT && lock==0 && !MINE(p) -> forget_tx(p); end_term(p) }
#elif defined(I2_NO_GUARD)
  /* world: a claim without a guard */
  :: d_step { UP(p) && !stopping[p] && tx[p]==IDLE && term[p]!=0 && (SOME(ELIGIBLE,p) || unsure[p]) ->
       tx[p]=GUARDED; tx_right[p]=TIMEOUT; tx_epoch[p]=term[p]; printf("p%d claims without a guard\n",p) }
#else
  /* outbox/guard.py LeaseGuard.hold; the right to publish counts from before it was sent (P1): supervision/claimer.py Claimer.claim */
  :: d_step { UP(p) && !stopping[p] && tx[p]==IDLE && MINE(p) && lock==0 && (SOME(ELIGIBLE,p) || unsure[p]) && MAY_CLAIM(p) ->
       lock=p+1; tx[p]=GUARDED; tx_right[p]=TIMEOUT; tx_epoch[p]=term[p];
       i_=0; do :: i_<O -> terms_at_lock[AT(p,i_)]=edits[i_]; i_++ :: else -> break od; i_=0; printf("p%d holds the lease row, epoch %d\n",p,epoch) }
#endif
#ifdef A1_IDS_ONLY
  /* world: ids are chosen, their rows neither locked nor checked again */
  :: atomic { UP(p) && tx[p]==GUARDED -> decide(p); tx[p]=SELECTED; printf("p%d selects %d %d\n",p,verdict[AT(p,0)],verdict[AT(p,O-1)]) }
  /* world: and changed after whatever happened to them */
  :: d_step { UP(p) && tx[p]==SELECTED -> tx[p]=DECIDED; printf("p%d updates\n",p) }
#else
  /* outbox/claims.py ClaimTransaction._decide, outbox/row_locks.py RowLocks.take; what is asked for: supervision/claimer.py Claimer.order_work (A5) */
  :: atomic { UP(p) && tx[p]==GUARDED -> decide(p); tx[p]=DECIDED; printf("p%d decides %d %d\n",p,verdict[AT(p,0)],verdict[AT(p,O-1)]) }
#endif
  /* database/session.py Session.transaction: COMMIT is sent */
  :: d_step { UP(p) && tx[p]==DECIDED -> tx[p]=COMMITTING; printf("p%d sends COMMIT\n",p) }
  /* supervision/read_back.py ReadBack.outcome_unknown: no answer in time, the outcome is still open */
  :: d_step { UP(p) && tx[p]==COMMITTING && b_db>0 -> b_db--; tx[p]=ABANDONED; unsure[p]=(term[p]==tx_epoch[p]); printf("p%d gives up waiting for COMMIT\n",p) }
  /* supervision/read_back.py ReadBack.outcome_unknown: the reply, or what is read after the commit, is lost */
  :: d_step { UP(p) && (tx[p]==COMMITTED||tx[p]==ROLLED_BACK) && b_db>0 -> b_db--; unsure[p]=(term[p]==tx_epoch[p] && term[p]!=0); forget_tx(p); printf("p%d loses the reply to COMMIT\n",p) }
  /* supervision/seat.py TenantSeat.step: rolled back, and known to be */
  :: d_step { UP(p) && tx[p]==ROLLED_BACK -> forget_tx(p); printf("p%d sees the rollback\n",p) }
  /* supervision/claimer.py Claimer._note_reply, supervision/batch.py Batch.build_publications, supervision/read_back.py ReadBack.note */
  :: d_step { UP(p) && tx[p]==COMMITTED ->
       i_=0;
       do
       :: i_<O ->
          if
          :: verdict[AT(p,i_)]==CLAIM ->
             if :: hand[AT(p,i_)]==CHECKED -> adrift[i_]=adrift[i_]|BIT(h_attempt[AT(p,i_)]) :: else fi;  /* its publisher still writes it */
             h_attempt[AT(p,i_)]=tx_attempt[AT(p,i_)]; h_epoch[AT(p,i_)]=tx_epoch[p]; age[AT(p,i_)]=0;
             if
             :: deleted[i_] -> hand[AT(p,i_)]=DOUBTED; right[AT(p,i_)]=0
             :: else -> hand[AT(p,i_)]=HELD;
#ifdef P1_FROM_REPLY
                right[AT(p,i_)]=TIMEOUT
#else
                right[AT(p,i_)]=tx_right[p]
#endif
             fi
          :: verdict[AT(p,i_)]==SKIP || verdict[AT(p,i_)]==GIVE_UP -> put_down(p,i_)
          :: else
          fi; i_++
       :: else -> break
       od;
       i_=0;
       do                                     /* an order that named claims which are nobody's by now */
       :: i_<O -> if :: (hand[AT(p,i_)]==LEFT||hand[AT(p,i_)]==UNKNOWN) && state[i_]!=CLAIMED -> put_down(p,i_) :: else fi; i_++
       :: else -> break
       od;
       i_=0;
#ifdef A4_ONCE
       unsure[p]=0;
#else
       if
       :: unsure[p] ->
          unsure[p]=0;
          do
#ifdef A4_PASSES_LOCKED
          :: i_<O -> if :: state[i_]==CLAIMED && epoch_of[i_]==term[p] && !IN_HAND(p,i_) && !foreign_lock[i_] -> unsure[p]=1 :: else fi; i_++
#else
          :: i_<O -> if :: state[i_]==CLAIMED && epoch_of[i_]==term[p] && !IN_HAND(p,i_) -> unsure[p]=1 :: else fi; i_++
#endif
          :: else -> break
          od;
          i_=0
       :: else
       fi;
#endif
       forget_tx(p); printf("p%d has its reply\n",p) }
#ifdef A4_UNGUARDED
  /* world: read back without the lease lock, before the outcome is decided */
  :: d_step { UP(p) && unsure[p] && (tx[p]==ABANDONED||tx[p]==IDLE) && !(state[0]==CLAIMED && epoch_of[0]==term[p] && hand[AT(p,0)]==NONE) -> unsure[p]=0; printf("p%d reads back nothing\n",p) }
#endif

  /* supervision/supervisor.py Supervisor.run: a first signal */
  :: d_step { UP(p) && b_stop>0 && !stopping[p] -> b_stop--; stopping[p]=1; printf("p%d is asked to stop\n",p) }
  /* supervision/supervisor.py Supervisor._release, lease_store/store.py SqlLeaseStore.release (I9) */
  :: d_step { UP(p) && stopping[p] && tx[p]==IDLE && lock==0 && DRAINED(p) ->
       if :: NAMES(p) && term[p]==epoch -> holder=0; holder_life=0 :: else fi;
       i_=0; do :: i_<O -> if :: hand[AT(p,i_)]==CHECKED -> adrift[i_]=adrift[i_]|BIT(h_attempt[AT(p,i_)]) :: else fi; put_down(p,i_); i_++ :: else -> break od; i_=0;
       end_term(p); stopping[p]=0; alive[p]=0; gone[p]=1; printf("p%d releases and exits\n",p) }
#ifdef RETURNS
  /* world: it is started again, or was asked to hand over and goes on as a standby: like a new process */
  :: d_step { gone[p] && tx[p]==IDLE -> gone[p]=0; alive[p]=1; life[p]++; seen[p]=0; i_=0; do :: i_<8 -> wait[p*8+i_]=0; i_++ :: else -> break od; i_=0; printf("p%d is back\n",p) }
#endif
  /* supervision/seat.py TenantSeat._try_to_give, lease_store/store.py SqlLeaseStore.hand_over; a batch in hand or not */
  :: d_step { UP(p) && b_successor>0 && tx[p]==IDLE && lock==0 && epoch<LAST_EPOCH && MINE(p) && !gone[(p+1)%N] ->
       b_successor--; holder=((p+1)%N)+1; holder_life=life[(p+1)%N]; epoch++; see(p); end_term(p); printf("p%d hands over\n",p) }
  /* supervision/standby.py StandbyPoll._take_up */
  :: d_step { UP(p) && B_SUCCESSOR>0 && !stopping[p] && tx[p]==IDLE && NAMES(p) && term[p]!=epoch -> see(p); term[p]=epoch; unsure[p]=0; printf("p%d finds itself named, epoch %d\n",p,epoch) }
  od
}

proctype publisher(byte p; byte o) {
  do
#ifdef P1_NO_DEADLINE
  /* world: no deadline */
  :: d_step { UP(p) && hand[AT(p,o)]==HELD -> hand[AT(p,o)]=CHECKED; age[AT(p,o)]=0; printf("p%d begins %d.%d\n",p,o,h_attempt[AT(p,o)]) }
#else
  /* publishing/write_gate.py WriteGate._pass (P1) */
  :: d_step { UP(p) && hand[AT(p,o)]==HELD && right[AT(p,o)]>MARGIN -> hand[AT(p,o)]=CHECKED; age[AT(p,o)]=0; printf("p%d begins %d.%d\n",p,o,h_attempt[AT(p,o)]) }
  /* publishing/celery_publisher.py CeleryPublisher.publish, supervision/batch.py Batch.note: too late to begin */
  :: d_step { UP(p) && hand[AT(p,o)]==HELD && right[AT(p,o)]<=MARGIN -> hand[AT(p,o)]=LEFT; right[AT(p,o)]=0; printf("p%d leaves %d.%d\n",p,o,h_attempt[AT(p,o)]) }
#endif
  /* publishing/celery_publisher.py _end, supervision/batch.py Batch.note: no connection, the rest is not begun */
  :: d_step { UP(p) && hand[AT(p,o)]==HELD && b_broker>0 -> b_broker--; hand[AT(p,o)]=LEFT; right[AT(p,o)]=0; printf("p%d has no connection for %d.%d\n",p,o,h_attempt[AT(p,o)]) }
  /* world: the message reaches the broker */
  :: d_step { UP(p) && hand[AT(p,o)]==CHECKED -> hand[AT(p,o)]=WRITTEN; printf("%d.%d of p%d arrives\n",o,h_attempt[AT(p,o)],p); arrive(o,h_attempt[AT(p,o)]) }
  /* publishing/celery_publisher.py CeleryPublisher._judge, supervision/batch.py Batch.note: the connection broke under the write */
  :: d_step { UP(p) && hand[AT(p,o)]==CHECKED && b_broker>0 -> b_broker--; adrift[o]=adrift[o]|BIT(h_attempt[AT(p,o)]); excuse(p,o); doubt(p,o); printf("p%d does not know of %d.%d\n",p,o,h_attempt[AT(p,o)]) }
  /* publishing/celery_publisher.py CeleryPublisher._judge, supervision/batch.py Batch.note: the broker's reply is lost */
  :: d_step { UP(p) && hand[AT(p,o)]==WRITTEN && b_broker>0 -> b_broker--; excuse(p,o); doubt(p,o); printf("p%d loses the reply of %d.%d\n",p,o,h_attempt[AT(p,o)]) }
  /* supervision/hand.py Hand.note_break, supervision/batch.py Batch._give_up */
  :: d_step { UP(p) && hand[AT(p,o)]==UNKNOWN && b_poison>0 && tx[p]==IDLE -> b_poison--; hand[AT(p,o)]=DOUBTED; printf("p%d gives up %d.%d\n",p,o,h_attempt[AT(p,o)]) }
  /* supervision/batch.py Batch._accept, supervision/confirmer.py Confirmer.add */
  :: d_step { UP(p) && hand[AT(p,o)]==WRITTEN -> hand[AT(p,o)]=ACCEPTED; age[AT(p,o)]=0; printf("%d.%d of p%d is accepted\n",o,h_attempt[AT(p,o)],p) }
  /* outbox/confirms.py Confirmation.confirm, outbox/guard.py LeaseGuard.lock, supervision/confirmer.py Confirmer.flush (P2) */
  :: d_step { UP(p) && (hand[AT(p,o)]==ACCEPTED||hand[AT(p,o)]==REPEATED) && MAY_CONFIRM(p,o) && CONFIRM_FREE(o) ->
       printf("p%d confirms %d.%d\n",p,o,h_attempt[AT(p,o)]);
       if
#ifdef P2_BY_ID
       :: state[o]==CLAIMED -> state[o]=SENT
#else
       :: state[o]==CLAIMED && IN_HAND(p,o) -> state[o]=SENT
#endif
#ifdef P2_CLAIMED_ONLY
       :: state[o]==UNCERTAIN && IN_HAND(p,o) -> assert(false)       /* known to be sent, and stays uncertain */
#else
       :: state[o]==UNCERTAIN && IN_HAND(p,o) -> state[o]=SENT
#endif
#ifdef P2_BACKWARD
       :: state[o]==RUNNING && IN_HAND(p,o) -> state[o]=SENT; assert(false)
#endif
       :: else
       fi;
       put_down(p,o) }
  /* outbox/confirms.py Confirmation.confirm: what is uncertain, or has no job any more, is recorded like what was sent (A7) */
  :: d_step { UP(p) && hand[AT(p,o)]==DOUBTED && CONFIRM_FREE(o) ->
       printf("p%d records its doubt of %d.%d\n",p,o,h_attempt[AT(p,o)]);
       if :: (state[o]==CLAIMED||state[o]==UNCERTAIN) && IN_HAND(p,o) -> state[o]=(deleted[o] -> SKIPPED : UNCERTAIN) :: else fi;
       put_down(p,o) }
  /* supervision/confirmer.py Confirmer.flush: not carried out, or not known to be; it stays on the list */
  :: d_step { UP(p) && hand[AT(p,o)]==ACCEPTED && b_db>0 -> b_db--; excuse(p,o); hand[AT(p,o)]=REPEATED; age[AT(p,o)]=0; printf("p%d cannot confirm %d.%d\n",p,o,h_attempt[AT(p,o)]) }
  /* supervision/confirmer.py Confirmer.flush: carried out, its reply lost */
  :: d_step { UP(p) && hand[AT(p,o)]==ACCEPTED && b_db>0 && CONFIRM_FREE(o) -> b_db--; excuse(p,o); hand[AT(p,o)]=REPEATED; age[AT(p,o)]=0;
       if :: (state[o]==CLAIMED||state[o]==UNCERTAIN) && IN_HAND(p,o) -> state[o]=SENT :: else fi;
       printf("p%d confirms %d.%d without knowing\n",p,o,h_attempt[AT(p,o)]) }
  od
}
/* A tick waits for what a healthy process, and the database, do at once. */
#define URGENT_PUB(p,o) (UP(p) && ( ((hand[AT(p,o)]==CHECKED||hand[AT(p,o)]==WRITTEN) && age[AT(p,o)]>=WRITE) \
   || ((hand[AT(p,o)]==ACCEPTED) && MAY_CONFIRM(p,o) && !foreign_lock[o] && age[AT(p,o)]>=CONFIRM) \
   || (hand[AT(p,o)]==HELD && right[AT(p,o)]==MARGIN+1 && b_slow==0 && !stopping[p])))
#define URGENT_TX(p) (tx[p]==COMMITTING || tx[p]==ABANDONED || (UP(p) && (tx[p]==GUARDED||tx[p]==SELECTED||tx[p]==DECIDED)) \
   || (UP(p) && b_slow==0 && (tx[p]==COMMITTED||tx[p]==ROLLED_BACK)))
#define RUNS_PUB(p,o) (right[AT(p,o)]>0)
#define WAITS(p) (wait[(p)*8]>0||wait[(p)*8+1]>0||wait[(p)*8+2]>0||wait[(p)*8+3]>0||wait[(p)*8+4]>0||wait[(p)*8+5]>0)
#define URGENT_P(p) (SOME(URGENT_PUB,p)||URGENT_TX(p))
#define RUNS_P(p) (tx_right[p]>0||WAITS(p)||SOME(RUNS_PUB,p))
#if N==2
#define URGENT (URGENT_P(0)||URGENT_P(1))
#define RUNS (RUNS_P(0)||RUNS_P(1))
#else
#define URGENT (URGENT_P(0)||URGENT_P(1)||URGENT_P(2))
#define RUNS (RUNS_P(0)||RUNS_P(1)||RUNS_P(2))
#endif
#ifdef A3_DATABASE_CLOCK
#define AGES (claim_age[0]>0||claim_age[O-1]>0)
#else
#define AGES false
#endif
#ifdef PAUSED_CLOCK        /* a paused virtual machine: its boot clock stands still too */
#define CLOCK_RUNS(p) (!frozen[p])
#else
#define CLOCK_RUNS(p) true
#endif

proctype time_passes() {
  byte p, o;
  do
  /* world: a tick */
  :: d_step { !URGENT && (RUNS || AGES) ->
       printf("tick\n");
       p=0;
       do
       :: p<N ->
          o=0; do :: o<8 -> if :: wait[p*8+o]>0 && CLOCK_RUNS(p) -> wait[p*8+o]-- :: else fi; o++ :: else -> break od;
#ifdef A3_FROM_SENDING
          if :: asked[p]>1 -> asked[p]-- :: else fi;
#endif
          if :: UP(p) && b_slow>0 && (tx[p]==COMMITTED||tx[p]==ROLLED_BACK) -> b_slow-- :: else fi;
          if :: tx_right[p]>0 && CLOCK_RUNS(p) -> tx_right[p]-- :: else fi;
          if :: !UP(p) && (tx[p]==GUARDED||tx[p]==SELECTED||tx[p]==DECIDED) -> /* the server ends an idle transaction */
                tx[p]=ROLLED_BACK; if :: lock==p+1 -> lock=0 :: else fi
             :: else fi;
          o=0;
          do
          :: o<O ->
             if :: hand[AT(p,o)]==HELD && UP(p) && right[AT(p,o)]==MARGIN+1 && b_slow>0 && !stopping[p] -> b_slow-- :: else fi;
             if :: (hand[AT(p,o)]==CHECKED||hand[AT(p,o)]==WRITTEN||(hand[AT(p,o)]==ACCEPTED && MAY_CONFIRM(p,o) && !foreign_lock[o])) && UP(p) -> age[AT(p,o)]++ :: else fi;
#ifdef PAUSED_CLOCK
             if :: frozen[p] && tx[p]==COMMITTED && verdict[AT(p,o)]==CLAIM -> excused[o]=excused[o]|BIT(tx_attempt[AT(p,o)]) :: else fi;
#endif
             if :: hand[AT(p,o)]!=NONE && frozen[p] -> excuse(p,o) :: else fi;
#ifndef LOCK_IS_NO_EXCUSE
             if :: hand[AT(p,o)]==ACCEPTED && foreign_lock[o] -> excuse(p,o) :: else fi;
#endif
             if :: right[AT(p,o)]>0 && CLOCK_RUNS(p) -> right[AT(p,o)]-- :: else fi;
             o++
          :: else -> break
          od;
          p++
       :: else -> break
       od;
#ifdef A3_DATABASE_CLOCK
       o=0; do :: o<O -> if :: claim_age[o]>0 -> claim_age[o]-- :: else fi; o++ :: else -> break od;
#endif
       p=0; o=0 }
#ifdef A3_DATABASE_CLOCK
  /* world: the database's clock steps forward */
  :: d_step { b_clock>0 && AGES -> b_clock--; claim_age[0]=0; claim_age[O-1]=0; printf("the database's clock steps\n") }
#endif
  /* world: occurrence 0 is by now as late as only missed ones are */
  :: d_step { b_late>0 -> b_late--; late=1; printf("0 counts as missed from now on\n") }
  od
}

proctype machine(byte p) {
  do
  /* world: the process is frozen */
  :: d_step { UP(p) && b_freeze>0 -> b_freeze--; frozen[p]=1; printf("p%d freezes\n",p) }
  /* world: and goes on */
  :: d_step { frozen[p] -> frozen[p]=0; printf("p%d goes on\n",p) }
  /* world: the process dies */
  :: d_step { alive[p] && b_crash>0 -> b_crash--; alive[p]=0; frozen[p]=0;
       i_=0;
       do
       :: i_<O ->
          if
          :: hand[AT(p,i_)]!=NONE ->
             excuse(p,i_);
             if :: hand[AT(p,i_)]==CHECKED -> adrift[i_]=adrift[i_]|BIT(h_attempt[AT(p,i_)]) :: else fi;
             put_down(p,i_)
          :: else
          fi; i_++
       :: else -> break
       od;
       i_=0;
       if
       :: tx[p]==GUARDED||tx[p]==SELECTED||tx[p]==DECIDED -> if :: lock==p+1 -> lock=0 :: else fi; forget_tx(p)
       :: tx[p]==COMMITTING -> tx[p]=ABANDONED
       :: tx[p]==ABANDONED -> skip
       :: else -> forget_tx(p)
       fi;
       seen[p]=0; i_=0; do :: i_<8 -> wait[p*8+i_]=0; i_++ :: else -> break od; i_=0;
       end_term(p); stopping[p]=0; printf("p%d dies\n",p) }
  /* world: it is started again, under another name */
  :: d_step { !alive[p] && !gone[p] && tx[p]!=ABANDONED -> alive[p]=1; life[p]++; printf("p%d starts\n",p) }
  /* world: the database commits */
  :: d_step { tx[p]==COMMITTING -> apply(p); if :: lock==p+1 -> lock=0 :: else fi; tx[p]=COMMITTED; printf("the database commits for p%d\n",p) }
  /* world: or commits what nobody waits for any more */
  :: d_step { tx[p]==ABANDONED -> apply(p); if :: lock==p+1 -> lock=0 :: else fi; forget_tx(p); printf("the database commits what p%d abandoned\n",p) }
  /* world: the database rolls back */
  :: d_step { tx[p]==COMMITTING && b_db>0 -> b_db--; if :: lock==p+1 -> lock=0 :: else fi; tx[p]=ROLLED_BACK; printf("the database rolls back for p%d\n",p) }
  /* world: or rolls back what nobody waits for any more */
  :: d_step { tx[p]==ABANDONED -> if :: lock==p+1 -> lock=0 :: else fi; forget_tx(p); printf("the database rolls back what p%d abandoned\n",p) }
  od
}

proctype surroundings(byte o) {
  byte n;
  do
  /* world: somebody disables or enables the job */
  :: d_step { b_edit>0 -> b_edit--; edits[o]++; printf("edit %d of %d\n",edits[o],o) }
  /* world: somebody deletes the job */
  :: d_step { b_delete>0 && !deleted[o] -> b_delete--; deleted[o]=1; printf("%d is deleted\n",o) }
  /* world: somebody locks the occurrence's row */
  :: d_step { b_lock>0 && !ROW_LOCKED(o) -> b_lock--; foreign_lock[o]=1; printf("%d is locked\n",o) }
  /* world: and lets go of it */
  :: d_step { foreign_lock[o] -> foreign_lock[o]=0; printf("%d is unlocked\n",o) }
#ifdef WORKERS
  /* worker.py RunRecord._start: a worker starts it, whatever its row says, without the lease lock */
  :: d_step { arrived[o]!=0 && (state[o]==CLAIMED||state[o]==SENT||state[o]==UNCERTAIN) && !ROW_LOCKED(o) -> state[o]=RUNNING; printf("a worker starts %d\n",o) }
#endif
  /* world: a message that nobody waits for arrives, or does not */
  :: atomic { adrift[o]!=0 ->
       n=1; do :: (adrift[o]&BIT(n))==0 -> n++ :: else -> break od;
       adrift[o]=adrift[o]&~BIT(n);
       if :: printf("%d.%d arrives late\n",o,n); d_step { arrive(o,n) } :: printf("%d.%d never arrives\n",o,n) fi;
       n=0 }
  od
}

init {
  byte p, o;
  atomic {
    p=0; do :: p<N -> alive[p]=1; p++ :: else -> break od;
    term[0]=1; seen[0]=1; p=0;
    do :: p<N -> run scheduler(p); run machine(p); o=0; do :: o<O -> run publisher(p,o); o++ :: else -> break od; p++ :: else -> break od;
    o=0; do :: o<O -> run surroundings(o); o++ :: else -> break od;
    run time_passes(); p=0; o=0
  }
  timeout ->
    o=0;
    do
    :: o<O ->
       assert(state[o]!=DUE && state[o]!=CLAIMED);                                 /* I3: everything is accounted for */
       assert(state[o]!=SENT || (arrived[o] & BIT(attempt[o]))!=0);                /* P2: sent says which attempt was */
       assert(state[o]!=SKIPPED || deleted[o] || arrived[o]==0);                   /* A6: skipped was not published */
       o++
    :: else -> break
    od
}
