/* proto/preempt.c: the words that say how jobs give way to others. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/conf.h"

int mu_preempt_mode_check(const char *words, struct mu_err *err)
{
	static const char *const known[] = {"OFF", "CANCEL", "REQUEUE", "SUSPEND", "GANG", "WITHIN"};
	enum { MODES = 4, SUSPEND = 3, GANG = 4, KNOWN = 6 };
	unsigned seen = 0, modes = 0;
	for (const char *p = words; *p;) {
		size_t n = strcspn(p, ","), i = 0;
		while (i < KNOWN && !(strlen(known[i]) == n && strncasecmp(known[i], p, n) == 0))
			i++;
		if (i == KNOWN)
			return mu_fail(err, MU_EINVAL,
				       "PreemptMode is \"%.80s\", but must be among OFF CANCEL REQUEUE "
				       "SUSPEND GANG WITHIN",
				       words);
		modes += i < MODES && !(seen & 1u << i);
		seen |= 1u << i;
		p += n + (p[n] == ',');
	}
	if (modes > 1)
		return mu_fail(err, MU_EINVAL, "PreemptMode is \"%.80s\": a job gives way in one way", words);
	if ((seen & 1u << GANG) && !(seen & 1u << SUSPEND))
		return mu_fail(
		    err, MU_EINVAL,
		    "PreemptMode is \"%.80s\": jobs do not take turns, GANG goes with SUSPEND only", words);
	return 0;
}
