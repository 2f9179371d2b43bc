/* proto/why.c: a WaitRow as a paragraph. */
#include "proto/why.h"

#include <inttypes.h>
#include <string.h>

#include "proto/states.h"

static const struct {
	uint32_t reason;
	const char *meaning, *help;
} rows[] = {
#define MU_WHY(reason, meaning, help) {REASON_##reason, meaning, help},
#include "proto/why.def"
};

/* A reason that is a limit of accounts or QOS. */
static bool is_limit(uint32_t reason)
{
	const char *word = mu_job_reason_word(reason);
	return word && (strncmp(word, "Assoc", 5) == 0 || strncmp(word, "QOS", 3) == 0);
}

const char *mu_why_meaning(uint32_t reason)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].reason == reason)
			return rows[i].meaning;
	return is_limit(reason) ? "A limit of its account or QOS is used up." : NULL;
}

const char *mu_why_help(uint32_t reason)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].reason == reason)
			return rows[i].help;
	return is_limit(reason) ? "The end of the jobs that count there, a smaller request, another QOS or "
				  "account, or a higher limit."
				: NULL;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void when(int64_t usec, const struct mu_zone *zone, struct mu_buf *out)
{
	char text[32];
	mu_date_print(usec, zone, text);
	mu_buf_str(out, text);
}

/* ---- jobs ---- */

static void print_holding(const Mu__WaitJob *j, struct mu_buf *out)
{
	char mem[24];
	mu_buf_printf(out, "%u CPU%s", j->cpus, plural(j->cpus));
	if (j->mem_mib) {
		mu_mem_print(j->mem_mib, 0, mem);
		mu_buf_printf(out, ", %s", mem);
	}
	if (j->devices)
		mu_buf_printf(out, ", %" PRIu64 " device%s", j->devices, plural(j->devices));
	if (j->node_list)
		mu_buf_printf(out, " on %s", j->node_list);
}

static void print_holders(const Mu__WaitRow *w, const struct mu_zone *zone, struct mu_buf *out)
{
	if (!w->n_holder)
		return;
	mu_buf_printf(out, w->limit ? " Job%s that count there: " : " What it needs is held by job%s ",
		      plural(w->holder_count));
	for (size_t i = 0; i < w->n_holder; i++) {
		const Mu__WaitJob *j = w->holder[i];
		mu_buf_printf(out, "%s%u (%s, ", i ? "; " : "", j->job, j->user ? j->user : "?");
		print_holding(j, out);
		if (j->state == JOB_COMPLETING)
			mu_buf_str(out, ", ending now");
		else if (j->until_usec) {
			mu_buf_str(out, ", until ");
			when(j->until_usec, zone, out);
		} else {
			mu_buf_str(out, ", without a time limit");
		}
		mu_buf_str(out, ")");
	}
	if (w->holder_count > w->n_holder)
		mu_buf_printf(out, " and %zu more", w->holder_count - w->n_holder);
	mu_buf_str(out, ".");
}

static void print_ahead(const Mu__WaitRow *w, const struct mu_zone *zone, struct mu_buf *out)
{
	if (!w->ahead_count)
		return;
	mu_buf_printf(out, " %u job%s before it wait%s for the same nodes: ", w->ahead_count,
		      plural(w->ahead_count), w->ahead_count == 1 ? "s" : "");
	for (size_t i = 0; i < w->n_ahead; i++) {
		const Mu__WaitJob *j = w->ahead[i];
		mu_buf_printf(out, "%s%u (%s, priority %u", i ? "; " : "", j->job, j->user ? j->user : "?",
			      j->priority);
		if (j->plan_usec) {
			mu_buf_str(out, ", expected at ");
			when(j->plan_usec, zone, out);
		}
		mu_buf_str(out, ")");
	}
	if (w->ahead_count > w->n_ahead)
		mu_buf_printf(out, " and %zu more", w->ahead_count - w->n_ahead);
	mu_buf_str(out, ".");
}

/* ---- nodes ---- */

static void print_demand(const Mu__WaitRow *w, struct mu_buf *out)
{
	char mem[24], span[32];
	mu_buf_printf(out, " It asks for %u node%s with %u CPU%s", w->nodes, plural(w->nodes), w->cpus,
		      plural(w->cpus));
	if (w->mem_mib) {
		mu_mem_print(w->mem_mib, 0, mem);
		mu_buf_printf(out, ", %s of memory %s", mem, w->mem_per_cpu ? "per CPU" : "per node");
	}
	if (w->devices)
		mu_buf_printf(out, ", %" PRIu64 " %s per node", w->devices,
			      w->device ? w->device : "devices");
	mu_span_print(w->time_limit_sec, 0, span);
	mu_buf_printf(out, w->time_limit_sec < 0 ? " without a time limit" : " for %s", span);
	if (w->partition)
		mu_buf_printf(out, " in partition %s", w->partition);
	mu_buf_str(out, ".");
}

static void print_short(uint32_t n, const char *what, bool *some, struct mu_buf *out)
{
	if (!n)
		return;
	mu_buf_printf(out, "%s%u lack%s %s", *some ? ", " : " (", n, n == 1 ? "s" : "", what);
	*some = true;
}

static void print_nodes(const Mu__WaitRow *w, struct mu_buf *out)
{
	bool some = false;
	if (!w->has_nodes_able)
		return;
	if (!w->nodes_able) {
		mu_buf_str(out, " No node there could serve it, even when empty.");
		return;
	}
	mu_buf_printf(out, " Of %u node%s that could serve it %u %s in service and %u ha%s room for it now",
		      w->nodes_able, plural(w->nodes_able), w->nodes_up, w->nodes_up == 1 ? "is" : "are",
		      w->nodes_free, w->nodes_free == 1 ? "s" : "ve");
	print_short(w->short_cpus, "CPUs", &some, out);
	print_short(w->short_mem, "memory", &some, out);
	print_short(w->short_devices, w->device ? w->device : "devices", &some, out);
	mu_buf_str(out, some ? ")." : ".");
}

static void print_away(const Mu__WaitRow *w, const struct mu_zone *zone, struct mu_buf *out)
{
	char state[128];
	if (!w->n_away)
		return;
	mu_buf_str(out, w->reason == REASON_Cleaning ? " Not gone from: " : " Not in service: ");
	for (size_t i = 0; i < w->n_away; i++) {
		const Mu__WaitNode *n = w->away[i];
		mu_node_state_scontrol(n->base_state, n->flags, 0, 1, state);
		mu_buf_printf(out, "%s%s (%s", i ? "; " : "", n->name, state);
		if (n->reason)
			mu_buf_printf(out, ", \"%s\"", n->reason);
		if (n->reason_user)
			mu_buf_printf(out, " by %s", n->reason_user);
		if (n->reason_usec) {
			mu_buf_str(out, " since ");
			when(n->reason_usec, zone, out);
		}
		mu_buf_str(out, ")");
	}
	if (w->away_count > w->n_away)
		mu_buf_printf(out, " and %zu more", w->away_count - w->n_away);
	mu_buf_str(out, ".");
}

/* ---- limits, dependencies, partition ---- */

static void print_amount(const Mu__WaitLimit *l, int64_t value, struct mu_buf *out)
{
	char span[32];
	if (l->seconds) {
		mu_span_print(value, 0, span);
		mu_buf_str(out, span);
	} else {
		mu_buf_printf(out, "%" PRId64, value);
	}
}

static void print_limit(const Mu__WaitLimit *l, struct mu_buf *out)
{
	mu_buf_printf(out, " The limit %s%s%s of %s %s", l->name, l->tres ? " of " : "",
		      l->tres ? l->tres : "", l->owner_kind, l->owner ? l->owner : "?");
	if (l->whose)
		mu_buf_printf(out, " for %s", l->whose);
	mu_buf_str(out, " is ");
	print_amount(l, l->limit, out);
	mu_buf_str(out, l->of_job ? ", whatever else runs; this job has " : "; ");
	if (!l->of_job) {
		print_amount(l, l->used, out);
		mu_buf_str(out, " is used and this job would add ");
	}
	print_amount(l, l->wanted, out);
	mu_buf_str(out, ".");
}

static void print_items(const Mu__WaitRow *w, struct mu_buf *out)
{
	for (size_t i = 0; i < w->n_item; i++) {
		const Mu__WaitItem *item = w->item[i];
		mu_buf_printf(out, "%s%s", i ? "; " : " It depends on ", item->item);
		if (item->never)
			mu_buf_str(out, ", which can never come true");
		else if (item->has_state)
			mu_buf_printf(out, ", and job %u is %s", item->job, mu_job_state_long(item->state));
	}
	mu_buf_str(out, w->n_item ? "." : "");
}

static void print_partition(const Mu__WaitRow *w, struct mu_buf *out)
{
	char most[32], own[32];
	mu_span_print(w->part_max_sec, 0, most);
	mu_span_print(w->time_limit_sec, 0, own);
	if (w->reason == REASON_PartitionTimeLimit)
		mu_buf_printf(out, " Partition %s allows %s, the job asks for %s.", w->partition, most, own);
	else if (w->reason == REASON_PartitionNodeLimit && w->part_max_nodes)
		mu_buf_printf(out, " Partition %s allows %u to %u nodes, the job asks for %u.", w->partition,
			      w->part_min_nodes, w->part_max_nodes, w->nodes);
	else if (w->reason == REASON_PartitionNodeLimit)
		mu_buf_printf(out, " Partition %s wants at least %u nodes, the job asks for %u.",
			      w->partition, w->part_min_nodes, w->nodes);
	else if (w->part_state && strcmp(w->part_state, "UP") != 0)
		mu_buf_printf(out, " Partition %s is %s.", w->partition, w->part_state);
}

static void print_start(const Mu__WaitRow *w, const struct mu_zone *zone, struct mu_buf *out)
{
	if (w->reason == REASON_BeginTime && w->eligible_usec) {
		mu_buf_str(out, " It may start from ");
		when(w->eligible_usec, zone, out);
		mu_buf_str(out, " on.");
	}
	if (!w->start_usec || (w->reason != REASON_Resources && w->reason != REASON_Priority))
		return;
	mu_buf_str(out, w->planned ? " It is planned to start at " : " As things are it would start at ");
	when(w->start_usec, zone, out);
	if (w->start_nodes)
		mu_buf_printf(out, " on %s", w->start_nodes);
	mu_buf_str(out, ".");
}

static void print_preemption(const Mu__WaitRow *w, const struct mu_zone *zone, struct mu_buf *out)
{
	if (w->preempted_by)
		mu_buf_printf(out, " In its last run it gave way to job %u.", w->preempted_by);
	for (size_t i = 0; i < w->n_victim; i++)
		mu_buf_printf(out, "%s%s%u",
			      i			? ","
			      : w->n_victim > 1 ? " Jobs"
						: " Job",
			      i ? " " : " ", w->victim[i]->job);
	if (w->n_victim)
		mu_buf_printf(out, " give%s way to it.", w->n_victim > 1 ? "" : "s");
	if (w->exempt_usec) {
		mu_buf_str(out, " Jobs that would have to give way to it are exempt until ");
		when(w->exempt_usec, zone, out);
		mu_buf_str(out, ".");
	}
}

void mu_why_print(const Mu__WaitRow *w, const struct mu_zone *zone, struct mu_buf *out)
{
	const char *meaning = mu_why_meaning(w->reason), *help = mu_why_help(w->reason);
	bool nodes = w->reason == REASON_Resources || w->reason == REASON_Priority ||
		     w->reason == REASON_ReqNodeNotAvail || w->reason == REASON_BadConstraints ||
		     w->reason == REASON_PartitionConfig || w->reason == REASON_NodeDown;
	mu_buf_printf(out, "%s", mu_job_reason_word(w->reason));
	if (w->detail)
		mu_buf_printf(out, " (%s)", w->detail);
	mu_buf_printf(out, ": %s", meaning ? meaning : "It waits.");
	if (w->limit)
		print_limit(w->limit, out);
	if (w->reason == REASON_Dependency || w->reason == REASON_DependencyNeverSatisfied)
		print_items(w, out);
	print_partition(w, out);
	if (nodes) {
		print_demand(w, out);
		print_nodes(w, out);
	}
	if (nodes || w->reason == REASON_Cleaning)
		print_away(w, zone, out);
	if (w->limit || w->reason == REASON_Resources || w->reason == REASON_Priority)
		print_holders(w, zone, out);
	if (w->reason == REASON_Resources || w->reason == REASON_Priority)
		print_ahead(w, zone, out);
	print_preemption(w, zone, out);
	print_start(w, zone, out);
	if (help)
		mu_buf_printf(out, " It would start sooner with: %s", help);
}
