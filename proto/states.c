/* proto/states.c: words for the numbers of states.def. See states.h. */
#include "proto/states.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/base/err.h"

const char *mu_job_state_compact(uint32_t state)
{
	switch (state) {
#define MU_JOB_STATE(name, number, compact, word, ended) \
	case number:                                     \
		return compact;
#include "proto/states.def"
#undef MU_JOB_STATE
	}
	return "?";
}

const char *mu_job_state_long(uint32_t state)
{
	switch (state) {
#define MU_JOB_STATE(name, number, compact, word, ended) \
	case number:                                     \
		return word;
#include "proto/states.def"
#undef MU_JOB_STATE
	}
	return "?";
}

bool mu_job_state_ended(uint32_t state)
{
	switch (state) {
#define MU_JOB_STATE(name, number, compact, word, ended) \
	case number:                                     \
		return ended;
#include "proto/states.def"
#undef MU_JOB_STATE
	}
	return false;
}

int mu_job_state_parse(const char *word, uint32_t *ret_state)
{
	static const struct {
		uint32_t number;
		const char *compact, *word;
	} table[] = {
#define MU_JOB_STATE(name, number, compact, word, ended) {number, compact, word},
#include "proto/states.def"
#undef MU_JOB_STATE
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcasecmp(word, table[i].compact) || !strcasecmp(word, table[i].word)) {
			*ret_state = table[i].number;
			return 0;
		}
	return MU_EINVAL;
}

const char *mu_job_reason_word(uint32_t reason)
{
	switch (reason) {
#define MU_JOB_REASON(name, number, word) \
	case number:                      \
		return word;
#include "proto/states.def"
#undef MU_JOB_REASON
	}
	return "?";
}

const char *mu_end_cause_word(uint32_t cause)
{
	switch (cause) {
#define MU_END_CAUSE(name, number, word) \
	case number:                     \
		return word;
#include "proto/states.def"
#undef MU_END_CAUSE
	}
	return "?";
}

const char *mu_resv_flag_word(unsigned bit)
{
	switch (bit) {
#define MU_RESV_FLAG(name, bit, word) \
	case bit:                     \
		return word;
#include "proto/states.def"
#undef MU_RESV_FLAG
	}
	return NULL;
}

uint64_t mu_resv_flag_parse(const char *word, size_t len)
{
	uint64_t found = 0;
	for (unsigned bit = 0; bit < 64 && len >= 3; bit++) {
		const char *name = mu_resv_flag_word(bit);
		if (!name || strncasecmp(name, word, len) != 0)
			continue;
		if (!name[len])
			return UINT64_C(1) << bit;
		if (!found)
			found = UINT64_C(1) << bit;
	}
	return found;
}

/* The base as it shows: what is allocated decides between idle, mixed and allocated. */
static uint32_t shown_base(uint32_t base, uint32_t cpus_alloc, uint32_t cpus_total)
{
	if (base != NODE_IDLE && base != NODE_ALLOCATED && base != NODE_MIXED)
		return base;
	if (!cpus_alloc)
		return NODE_IDLE;
	return cpus_alloc < cpus_total ? NODE_MIXED : NODE_ALLOCATED;
}

static const char *base_word(uint32_t base, bool compact)
{
	switch (base) {
#define MU_NODE_BASE(name, number, short_word, word) \
	case number:                                 \
		return compact ? short_word : word;
#include "proto/states.def"
#undef MU_NODE_BASE
	}
	return compact ? "unk" : "unknown";
}

/* The word that stands for base and flags together. */
static const char *node_word(uint32_t base, uint32_t flags, bool compact)
{
	bool busy = base == NODE_ALLOCATED || base == NODE_MIXED || flags & NODE_FLAG_COMPLETING;
	if (flags & NODE_FLAG_INVALID_REG)
		return "inval";
	if (base == NODE_FUTURE || (base == NODE_DOWN && !(flags & NODE_FLAG_DRAIN)))
		return base_word(base, compact);
	if (flags & NODE_FLAG_FAIL)
		return busy ? (compact ? "failg" : "failing") : "fail";
	if (flags & NODE_FLAG_DRAIN)
		return busy ? (compact ? "drng" : "draining") : (compact ? "drain" : "drained");
	if (base == NODE_UNKNOWN || base == NODE_ERROR)
		return base_word(base, compact);
	if (base == NODE_IDLE && flags & NODE_FLAG_COMPLETING)
		return compact ? "comp" : "completing";
	if (base == NODE_IDLE && flags & NODE_FLAG_MAINT)
		return "maint";
	if (base == NODE_IDLE && flags & NODE_FLAG_RES)
		return compact ? "resv" : "reserved";
	if (base == NODE_IDLE && flags & NODE_FLAG_PLANNED)
		return compact ? "plnd" : "planned";
	return base_word(base, compact);
}

void mu_node_state_print(uint32_t base, uint32_t flags, uint32_t cpus_alloc, uint32_t cpus_total,
			 bool compact, char *out)
{
	const char *word = node_word(shown_base(base, cpus_alloc, cpus_total), flags, compact);
	char suffix = 0;
	/* One suffix at most: not answering outweighs the others. */
	if (flags & NODE_FLAG_NO_RESPOND)
		suffix = '*';
	else if (flags & NODE_FLAG_MAINT && strcmp(word, "maint"))
		suffix = '$';
	else if (flags & NODE_FLAG_REBOOT)
		suffix = '@';
	else if (flags & NODE_FLAG_PLANNED && strcmp(word, "plnd") && strcmp(word, "planned"))
		suffix = '-';
	snprintf(out, 64, "%s%.1s", word, &suffix);
}

void mu_node_state_scontrol(uint32_t base, uint32_t flags, uint32_t cpus_alloc, uint32_t cpus_total,
			    char *out)
{
	const char *word = base_word(shown_base(base, cpus_alloc, cpus_total), false);
	size_t len = 0;
	for (; word[len]; len++)
		out[len] = (char)(word[len] >= 'a' && word[len] <= 'z' ? word[len] - 'a' + 'A' : word[len]);
	out[len] = 0;
#define MU_NODE_FLAG(name, bit, suffix, flag_word) \
	if (flags & NODE_FLAG_##name)              \
		len += (size_t)snprintf(out + len, 128 - len, "+%s", flag_word);
#include "proto/states.def"
#undef MU_NODE_FLAG
}
