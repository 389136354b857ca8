/* The worker's guard: two attempts of one occurrence, each a message of its own, and the row that says who owns it.
 * Workers die, the broker loses a message, the database does not answer. LATE: messages are acknowledged after the run
 * (acks_late), not before.
 * As in dispatch.pml, comments name the functions below django_leased_cron/.
 */
#define QUEUED 0
#define TAKEN 1            /* delivered, not acknowledged */
#define GONE 2
byte message[2];
#define NOWHERE 0
#define STARTING 1
#define RUNS 2
byte stage[2];
byte owner = 0, ran = 0;   /* the attempt that owns the row; the set of attempts that ran */
bit done = 0, has_cause = 0;
byte b_dies = 1, b_lost = 1, b_db = 1;     /* how often each fault may happen */

#ifdef UNGUARDED
#define MINE(i) true
#else
#define MINE(i) (owner==0 || owner==i+1)
#endif

inline begin(i) { stage[i]=RUNS; ran = ran | (1<<i); assert(ran!=3) }     /* I4: one attempt runs */

#ifdef RUNS_UNANSWERED
#define unanswered(i) begin(i)
#elif defined(DROPS_UNANSWERED)
#define unanswered(i) message[i]=GONE; stage[i]=NOWHERE
#else
#define unanswered(i) skip
#endif

proctype attempt(byte i) {
  do
  /* world: a worker takes the message */
  :: d_step { message[i]==QUEUED && stage[i]==NOWHERE ->
#ifdef LATE
       message[i]=TAKEN;
#else
       message[i]=GONE;
#endif
       stage[i]=STARTING }
  /* worker.py RunRecord._start: this attempt owns the row, or did before */
  :: d_step { stage[i]==STARTING && MINE(i) -> owner=i+1; begin(i) }
  /* worker.py guard_task: another attempt does; acknowledged and dropped */
  :: d_step { stage[i]==STARTING && !MINE(i) -> message[i]=GONE; stage[i]=NOWHERE }
  /* worker.py RunRecord._insist: no answer, and nothing was written; it asks again */
  :: d_step { stage[i]==STARTING && b_db>0 -> b_db--; unanswered(i) }
  /* worker.py RunRecord._insist: no answer, but it was written */
  :: d_step { stage[i]==STARTING && b_db>0 && owner==0 -> b_db--; owner=i+1; unanswered(i) }
  /* worker.py RunRecord.finish */
  :: d_step { stage[i]==RUNS -> done=1; message[i]=GONE; stage[i]=NOWHERE }
  /* world: the worker dies; what was not acknowledged is delivered again */
  :: d_step { stage[i]!=NOWHERE && b_dies>0 -> b_dies--;
       if :: message[i]==TAKEN -> message[i]=QUEUED :: else -> has_cause=1 fi; stage[i]=NOWHERE }
  /* world: the broker loses the message */
  :: d_step { message[i]!=GONE && b_lost>0 -> b_lost--; message[i]=GONE; has_cause=1 }
  od
}
init {
  atomic { run attempt(0); run attempt(1) }
  timeout -> assert(done || has_cause)       /* a run is lost only with a worker or a message */
}
