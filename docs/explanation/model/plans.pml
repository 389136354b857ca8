/* Plan writes: one job, edited twice (every 4, every 2, every 3 ticks). The holder of epoch 1 may be frozen anywhere
 * between reading and writing; epoch 2 takes over, plans and claims. Each slot that comes due under the plan that fits
 * the job's row is claimed or recorded (I3).
 * As in dispatch.pml, comments name the functions below django_leased_cron/.
 */
#ifndef CLAIMS_OLD_TERMS
#define CLAIMS_OLD_TERMS false
#endif
#define LAST 9
#define EVERY(v) (v==1 -> 4 : (v==2 -> 2 : 3))
byte now = 0, row = 1, epoch = 1;
byte planned = 1, next_due = 4;      /* JobState: the version of the row that it was planned from, and the slot */
short recorded = 0, due = 0;         /* sets of slots */

proctype holder(byte mine) {
  byte read, computed, old_planned, old_due;
  do
  /* outbox/changes.py Changes.find, supervision/planner.py Planner.run: the row differs from what was planned from */
  :: atomic { planned!=row && now<LAST && (mine==1 || epoch==2) ->
       read=row; old_planned=planned; old_due=next_due; computed=((now/EVERY(read))+1)*EVERY(read) }
     /* outbox/plans.py Plans.write, outbox/plans.py Plans._write: the guard, and the plan that is replaced, by name */
     atomic {
       if
#ifdef PLAN_UNGUARDED
       :: true ->
#elif defined(PLAN_BY_JOB)
       :: epoch==mine ->
#else
       :: epoch==mine && planned==old_planned && next_due==old_due ->
#endif
#ifndef PLAN_FORGETS_DUE
          if :: old_due<=now -> recorded = recorded | (1<<old_due) :: else fi;
#endif
          planned=read; next_due=computed; printf("%d: epoch %d plans version %d, next %d\n",now,mine,read,computed)
       :: else -> skip
       fi;
       read=0; computed=0; old_planned=0; old_due=0 }
  /* outbox/claims.py _examine, outbox/claims.py ClaimTransaction._advance: due, and planned from the row as it is */
  :: atomic { (CLAIMS_OLD_TERMS || planned==row) && next_due<=now && epoch==mine && now<LAST ->
       assert(planned==row);                                        /* I5 */
       recorded = recorded | (1<<next_due); printf("%d: epoch %d claims %d\n",now,mine,next_due); next_due=next_due+EVERY(planned) }
  :: now>=LAST -> break
  od
}
active proctype world() {
  run holder(1); run holder(2);
#ifdef TWO_PLANNERS
  run holder(2);             /* a second thread of the same term */
#endif
  do
  /* world: a tick */
  :: atomic { now<LAST -> now++; if :: planned==row && next_due==now && now<LAST-1 -> due = due | (1<<now); printf("%d is due\n",now) :: else fi }
  /* world: somebody edits the job */
  :: atomic { row<3 && now<7 -> row++; printf("%d: edit, version %d\n",now,row) }
  /* world: a takeover */
  :: atomic { epoch==1 -> epoch=2; printf("%d: takeover\n",now) }
  :: now>=LAST -> break
  od;
  atomic { (_nr_pr==1) -> assert((due & ~recorded & ((1<<next_due)-1))==0) }      /* I3 */
}
