/* tests/exec/orders.c: the tables of what an order set means for what is held. */
#include "exec/orders.h"

#include "tests/exec/check.h"

struct row {
	const char *name;
	int ordered;  /* 0: not, 1: run, 2: end */
	uint64_t seq; /* of its signal */
	int held;     /* -1: not, else enum exe_phase */
	uint64_t held_seq;
	int act; /* -1: none, else enum exe_act */
};

static const struct row table[] = {
    {"new", 1, 0, -1, 0, EXE_START},
    {"new with a signal", 1, 3, -1, 0, EXE_START},
    {"end of what is not here", 2, 0, -1, 0, EXE_REPORT_LOST},
    {"starting", 1, 0, EXE_STARTING, 0, -1},
    {"running", 1, 0, EXE_RUNNING, 0, -1},
    {"a signal", 1, 2, EXE_RUNNING, 1, EXE_SIGNAL},
    {"a signal delivered", 1, 2, EXE_RUNNING, 2, -1},
    {"an older signal", 1, 1, EXE_RUNNING, 2, -1},
    {"a signal for what starts", 1, 1, EXE_STARTING, 0, -1},
    {"a signal for what ends", 1, 1, EXE_ENDING, 0, -1},
    {"end of what starts", 2, 0, EXE_STARTING, 0, EXE_END},
    {"end of what runs", 2, 0, EXE_RUNNING, 0, EXE_END},
    {"end and signal", 2, 5, EXE_RUNNING, 0, EXE_END},
    {"end of what ends", 2, 0, EXE_ENDING, 0, -1},
    {"end of what has ended", 2, 0, EXE_ENDED, 0, -1},
    {"run of what has ended", 1, 0, EXE_ENDED, 0, -1},
    {"starting, not ordered", 0, 0, EXE_STARTING, 0, EXE_END},
    {"running, not ordered", 0, 0, EXE_RUNNING, 0, EXE_END},
    {"ending, not ordered", 0, 0, EXE_ENDING, 0, -1},
    {"ended, not ordered", 0, 0, EXE_ENDED, 0, EXE_FORGET},
};

static Mu__AttemptOrder order(uint32_t job, uint32_t attempt, const struct row *r)
{
	Mu__AttemptOrder o = MU__ATTEMPT_ORDER__INIT;
	o.job = job;
	o.attempt = attempt;
	o.phase = r->ordered == 2 ? MU__PHASE__PHASE_END : MU__PHASE__PHASE_RUN;
	o.signal_seq = r->seq;
	return o;
}

static void each_row_alone(void)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const struct row *r = &table[i];
		Mu__AttemptOrder o = order(5, 2, r), *list = &o;
		Mu__OrderSet set = MU__ORDER_SET__INIT;
		struct exe_held held = {5, 2, (enum exe_phase)r->held, r->held_seq};
		struct exe_todo todo[4];
		set.attempt = &list;
		set.n_attempt = r->ordered ? 1 : 0;
		size_t n = exe_orders_compare(&set, &held, r->held >= 0, todo, 4);
		CHECK(n == (r->act >= 0), "%s: %zu acts", r->name, n);
		CHECK(n == 0 || (int)todo[0].act == r->act, "%s: act %d", r->name, todo[0].act);
		CHECK(n == 0 || (todo[0].order != NULL) == (r->ordered != 0), "%s: order", r->name);
	}
}

static void attempts_are_told_apart_and_sorted(void)
{
	const struct row run = {.ordered = 1};
	Mu__AttemptOrder a = order(9, 1, &run), b = order(5, 2, &run), c = order(7, 1, &run),
			 *list[] = {&a, &b, &c};
	Mu__OrderSet set = MU__ORDER_SET__INIT;
	struct exe_held held[] = {{5, 1, EXE_RUNNING, 0}, {7, 1, EXE_RUNNING, 0}};
	struct exe_todo todo[8];
	set.attempt = list;
	set.n_attempt = 3;
	size_t n = exe_orders_compare(&set, held, 2, todo, 8);
	CHECK(n == 3, "%zu acts", n);
	CHECK(todo[0].act == EXE_END && todo[0].job == 5 && todo[0].attempt == 1,
	      "the old attempt is not ended");
	CHECK(todo[1].act == EXE_START && todo[1].job == 5 && todo[1].attempt == 2,
	      "the new attempt is not started");
	CHECK(todo[2].act == EXE_START && todo[2].job == 9, "job 9 is not started");
	n = exe_orders_compare(&set, held, 2, todo, 1);
	CHECK(n == 3, "with little room: %zu acts", n);
}

int main(void)
{
	each_row_alone();
	attempts_are_told_apart_and_sorted();
	return check_done();
}
