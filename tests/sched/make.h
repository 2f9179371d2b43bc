/* tests/sched/make.h: how the programs around the core make their messages. */
#ifndef TESTS_SCHED_MAKE_H
#define TESTS_SCHED_MAKE_H

/* An optional number of a message, with its flag. */
#define SET(row, field, v)              \
	do {                            \
		(row)->field = (v);     \
		(row)->has_##field = 1; \
	} while (0)
/* A message of TYPE in W's arena. */
#define NEW(w, type, init)                                            \
	({                                                            \
		type *m_ = mu_arena_alloc(&(w)->arena, sizeof(type)); \
		init(m_);                                             \
		m_;                                                   \
	})

#endif
