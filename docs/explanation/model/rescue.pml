/* Rescue: when a lease changes hands, and when it must not. One tick is 0.5 s, one POLL_INTERVAL.
 *
 * Process 0 claimed a batch at 0 and published none of it; the tenant has no other work. 1 and 2 are standbys.
 * HOLDER_DIES: 0 died right after its claim. BROKER_BACK=t: the broker is away for everybody until t.
 * As in dispatch.pml, comments name the functions below django_leased_cron/.
 */
#define RESCUE_AFTER 2
#define TIMEOUT 10         /* PUBLISH_TIMEOUT */
#define BACK_OFF 1         /* core/timing.py LeaseTiming.longest_back_off_s */
#ifdef NO_REST
#define REST 0
#else
#define REST 3             /* core/timing.py LeaseTiming.rescue_rest_s */
#endif
#ifndef BROKER_BACK
#define BROKER_BACK 0
#endif
#define ANSWERS (now>=BROKER_BACK)

byte now = 0, holder = 0, epoch = 1, progressed = 0, owed = 0, first = 0;
byte seen_above[3];        /* when a process first saw the lease above epoch 1; 0: not yet */
byte rest_until[3];
bool done = false, retries = false;

inline poll(p) {
  if
  :: p!=holder ->
     /* supervision/standby.py StandbyPoll.poll, core/adoption.py EpochSightings.note */
     if :: epoch>1 && seen_above[p]==0 -> seen_above[p]=now :: else fi;
     if
     /* core/bidding.py _needs_rescue */
     :: now>=owed+RESCUE_AFTER && now>=progressed+RESCUE_AFTER ->
        if
        /* supervision/standby.py StandbyPoll._may_rescue */
#ifndef NO_BROKER_CHECK
        :: !ANSWERS -> rest_until[p]=now+REST
        :: ANSWERS && now<rest_until[p] -> skip
#endif
        :: else ->
           /* lease_store/store.py _ACQUIRE: an acquire counts as progress */
           holder=p; epoch++; progressed=now;
           if :: seen_above[p]==0 -> seen_above[p]=now :: else fi;
           /* supervision/claimer.py Claimer.order_work, outbox/guard.py LeaseGuard.move_owed: a claim at once, even an empty one */
#ifndef OWED_STAYS
           owed=seen_above[p]+TIMEOUT;
#endif
           printf("%d: process %d rescues, epoch %d\n",now,p,epoch)
        fi
     :: else
     fi
  :: else
  fi
}

inline work() {
  if
  :: !ANSWERS -> skip      /* supervision/dispatcher.py TermDispatcher._may_retry: no claim, so no progress */
  :: ANSWERS && holder==0 ->
#ifndef HOLDER_DIES
     if :: retries -> done=true; printf("%d: 0 publishes\n",now) :: !retries -> retries=true fi   /* within BACK_OFF */
#else
     skip
#endif
  /* supervision/predecessors.py Predecessors.find_ready (A3) */
  :: ANSWERS && holder!=0 && now>=seen_above[holder]+TIMEOUT -> done=true; printf("%d: process %d adopts\n",now,holder)
  :: else
  fi
}

active proctype world() {
  do
  :: done -> break
  /* world: a tick; who acts first in it is open */
  :: atomic { !done ->
       now++;
       if :: first=1 :: first=2 fi;
       if
       :: true -> poll(first); poll(3-first); work()
       :: true -> poll(first); work(); if :: !done -> skip; poll(3-first) :: else fi
       :: true -> work(); if :: !done -> skip; poll(first); poll(3-first) :: else fi
       fi;
       first=0;
#ifdef HOLDER_DIES
       assert(epoch<=2);                                            /* one rescue is enough */
       assert(now<=BROKER_BACK+REST+RESCUE_AFTER+1+TIMEOUT);        /* and what was in hand goes out */
#else
       assert(epoch==1);                                            /* a broker that is away is no reason to move */
       assert(now<=BROKER_BACK+BACK_OFF+1)
#endif
     }
  od
}
