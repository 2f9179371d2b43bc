/* cli/reservation.c: reservations and licences as scontrol and sinfo show and change them. */
#include "cli/reservation.h"

#include <grp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "cli/model.h"
#include "cli/model_parts.h"
#include "proto/base/bits.h"
#include "proto/conf.h"
#include "proto/hostlist.h"
#include "proto/states.h"

/* ---- reading ---- */

int cli_reservations(struct cli *c, Mu__ReservationRow ***ret, size_t *ret_count, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	int rc;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_RESERVATIONS;
	rc = cli_query_all(c, &ask, &mu__reservation_row__descriptor, &rows, ret_count, err);
	*ret = (Mu__ReservationRow **)rows;
	return rc;
}

static const char *date(struct mu_arena *a, int64_t usec)
{
	char text[32];

	mu_date_print(usec, &cli_zone, text);
	return mu_arena_strdup(a, text);
}

static const char *span(struct mu_arena *a, int64_t usec)
{
	char text[32];

	mu_span_print(usec / 1000000, 0, text);
	return mu_arena_strdup(a, text);
}

static const char *or_null(const char *text)
{
	return text && *text ? text : "(null)";
}

/* One that keeps a distance begins so long after now. */
static int64_t start_of(const struct cli *c, const Mu__ReservationRow *r)
{
	return r->flags & RESV_FLAG_TIME_FLOAT ? c->now_usec + r->float_usec : r->start_usec;
}

static const char *state_of(const struct cli *c, const Mu__ReservationRow *r)
{
	return start_of(c, r) <= c->now_usec && r->end_usec > c->now_usec ? "ACTIVE" : "INACTIVE";
}

static const char *flags_of(struct mu_arena *a, const Mu__ReservationRow *r)
{
	char *text = mu_arena_strdup(a, "");

	for (unsigned bit = 0; bit < 64; bit++) {
		const char *word = r->flags >> bit & 1 ? mu_resv_flag_word(bit) : NULL;

		if (!word)
			continue;
		text = mu_arena_printf(a, "%s%s%s", text, *text ? "," : "", word);
		if (UINT64_C(1) << bit == RESV_FLAG_PURGE_COMP)
			text = mu_arena_printf(a, "%s=%s", text, span(a, r->purge_sec * 1000000));
	}
	return text;
}

static const char *names(struct mu_arena *a, char *const *list, size_t count, bool deny)
{
	char *text = mu_arena_strdup(a, count ? "" : "(null)");

	for (size_t i = 0; i < count; i++)
		text = mu_arena_printf(a, "%s%s%s%s", text, i ? "," : "", deny ? "-" : "", list[i]);
	return text;
}

/* Cores and CPUs that it keeps. */
static void sizes(const Mu__ReservationRow *r, void **nodes, size_t count, uint32_t *ret_nodes,
		  uint32_t *ret_cores, uint32_t *ret_cpus)
{
	struct mu_arena arena = {0};
	char **name = NULL;
	size_t n = 0;

	*ret_nodes = *ret_cores = *ret_cpus = 0;
	if (r->nodes && mu_hostlist_expand(r->nodes, 1 << 20, &arena, &name, &n, NULL))
		n = 0;
	*ret_nodes = (uint32_t)n;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < count; k++) {
			const Mu__NodeRow *row = nodes[k];
			uint32_t tpc = row->threads_per_core ? row->threads_per_core : 1, cpus = row->cpus;

			if (strcmp(row->name, name[i]) != 0)
				continue;
			for (size_t p = 0; p < r->n_cores; p++) {
				struct mu_bits bits = {0};

				if (strcmp(r->cores[p]->node, name[i]) == 0 &&
				    !mu_bits_parse(&bits, r->cores[p]->cpu_list, 65535))
					cpus = mu_bits_count(&bits);
				mu_bits_free(&bits);
			}
			*ret_cpus += cpus;
			*ret_cores += cpus / tpc;
		}
	}
	mu_arena_free(&arena);
}

static void show_one(struct scontrol *s, const Mu__ReservationRow *r, void **nodes, size_t node_count)
{
	struct mu_arena *a = &s->cli->arena;
	const char *sep = s->oneline ? " " : "\n   ";
	uint32_t n, cores, cpus;
	int64_t start = start_of(s->cli, r), length = r->end_usec - r->start_usec;

	sizes(r, nodes, node_count, &n, &cores, &cpus);
	printf("ReservationName=%s StartTime=%s EndTime=%s Duration=%s", r->name, date(a, start),
	       date(a, start + length), span(a, length));
	printf("%sNodes=%s NodeCnt=%u CoreCnt=%u Features=%s PartitionName=%s Flags=%s", sep,
	       or_null(r->nodes), n, cores, or_null(r->features), or_null(r->partition), flags_of(a, r));
	for (size_t i = 0; i < r->n_cores; i++)
		printf("%s  NodeName=%s CoreIDs=%s", sep, r->cores[i]->node, r->cores[i]->cpu_list);
	if (cpus)
		printf("%sTRES=cpu=%u", sep, cpus);
	else
		printf("%sTRES=(null)", sep);
	printf("%sUsers=%s Groups=%s Accounts=%s Licenses=%s State=%s BurstBuffer=(null) Watts=n/a", sep,
	       names(a, r->user, r->n_user, r->deny_users), names(a, r->group, r->n_group, false),
	       names(a, r->account, r->n_account, r->deny_accounts), or_null(r->licenses),
	       state_of(s->cli, r));
	printf("%sMaxStartDelay=(null)", sep);
	if (r->comment && *r->comment)
		printf("%sComment=%s", sep, r->comment);
	printf(s->oneline ? "\n" : "\n\n");
}

static void put_json(struct cli_json *j, const struct cli *c, const Mu__ReservationRow *r, void **nodes,
		     size_t node_count)
{
	struct mu_arena arena = {0};
	uint32_t n, cores, cpus;
	size_t words;
	char **flags = cli_split(&arena, flags_of(&arena, r), &words);

	sizes(r, nodes, node_count, &n, &cores, &cpus);
	json_object(j, NULL);
	json_text(j, "name", r->name);
	when(j, "start_time", start_of(c, r));
	when(j, "end_time", start_of(c, r) + r->end_usec - r->start_usec);
	json_text(j, "node_list", r->nodes);
	json_number(j, "node_count", n);
	json_number(j, "core_count", cores);
	json_array(j, "core_specializations");
	for (size_t i = 0; i < r->n_cores; i++) {
		json_object(j, NULL);
		json_text(j, "node", r->cores[i]->node);
		json_text(j, "core", r->cores[i]->cpu_list);
		json_object_end(j);
	}
	json_array_end(j);
	json_text(j, "tres", mu_arena_printf(&arena, "cpu=%u", cpus));
	json_text(j, "partition", r->partition);
	json_text(j, "features", r->features);
	json_text(j, "licenses", r->licenses);
	json_text(j, "burst_buffer", "");
	texts(j, "flags", flags, words);
	json_object(j, "purge_completed");
	json_triple(j, "time", r->purge_sec != 0, false, r->purge_sec);
	json_object_end(j);
	json_text(j, "users", r->n_user ? names(&arena, r->user, r->n_user, r->deny_users) : "");
	json_text(j, "groups", r->n_group ? names(&arena, r->group, r->n_group, false) : "");
	json_text(j, "accounts",
		  r->n_account ? names(&arena, r->account, r->n_account, r->deny_accounts) : "");
	json_text(j, "state", state_of(c, r));
	json_object_end(j);
	mu_arena_free(&arena);
}

int scontrol_show_reservations(struct scontrol *s, char **words, size_t count)
{
	Mu__Query ask = MU__QUERY__INIT;
	Mu__ReservationRow **rows;
	struct cli_model m = {0};
	struct mu_err err = {0};
	void **nodes;
	size_t n, node_count, shown = 0;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_NODES;
	if (cli_reservations(s->cli, &rows, &n, &err) ||
	    cli_query_all(s->cli, &ask, &mu__node_row__descriptor, &nodes, &node_count, &err)) {
		fprintf(stderr, "slurm_load_reservations error: %s\n", err.text);
		return 1;
	}
	if (s->json) {
		cli_model_begin(s->cli, &m);
		json_array(&m.json, "reservations");
	}
	for (size_t i = 0; i < n; i++) {
		if (count && strcmp(rows[i]->name, words[0]) != 0)
			continue;
		shown++;
		if (s->json)
			put_json(&m.json, s->cli, rows[i], nodes, node_count);
		else
			show_one(s, rows[i], nodes, node_count);
	}
	if (s->json) {
		json_array_end(&m.json);
		return cli_model_end(&m);
	}
	if (!shown && count)
		printf("Reservation %s not found\n", words[0]);
	else if (!shown)
		printf("No reservations in the system\n");
	return count && !shown;
}

int cli_list_reservations(struct cli *c, bool header)
{
	Mu__ReservationRow **rows;
	struct mu_err err = {0};
	size_t n;
	int width = 9;

	if (cli_reservations(c, &rows, &n, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	if (!n) {
		printf("No reservations in the system\n");
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		width = (int)strlen(rows[i]->name) > width ? (int)strlen(rows[i]->name) : width;
	if (header)
		printf("%-*s  %8s  %19s  %19s  %11s  %s\n", width, "RESV_NAME", "STATE", "START_TIME",
		       "END_TIME", "DURATION", "NODELIST");
	for (size_t i = 0; i < n; i++) {
		int64_t start = start_of(c, rows[i]), length = rows[i]->end_usec - rows[i]->start_usec;

		printf("%-*s  %8s  %19s  %19s  %11s  %s\n", width, rows[i]->name, state_of(c, rows[i]),
		       date(&c->arena, start), date(&c->arena, start + length), span(&c->arena, length),
		       rows[i]->nodes ? rows[i]->nodes : "");
	}
	return 0;
}

/* ---- licences ---- */

/* How many of NAME the list TEXT has. */
static uint64_t count_in(struct mu_arena *a, const char *text, const char *name)
{
	size_t n;
	uint64_t sum = 0;
	char **words = cli_split(a, text ? text : "", &n);

	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(words[i], ":=");

		if (len == strlen(name) && strncmp(words[i], name, len) == 0)
			sum += words[i][len] ? strtoull(words[i] + len + 1, NULL, 10) : 1;
	}
	return sum;
}

int scontrol_show_licenses(struct scontrol *s, char **words, size_t count)
{
	Mu__Query config = MU__QUERY__INIT, jobs = MU__QUERY__INIT;
	struct mu_arena *a = &s->cli->arena;
	uint32_t states[] = {JOB_RUNNING, JOB_SUSPENDED};
	Mu__ReservationRow **resv;
	struct cli_model m = {0};
	struct mu_err err = {0};
	void **conf, **job;
	size_t confs, n, resvs, kinds = 0, shown = 0;
	char **list;

	config.has_what = jobs.has_what = 1;
	config.what = MU__WHAT__WHAT_CONFIG;
	jobs.what = MU__WHAT__WHAT_JOBS;
	jobs.state = states;
	jobs.n_state = 2;
	jobs.has_slim = jobs.slim = 1;
	if (cli_query_all(s->cli, &config, &mu__config_row__descriptor, &conf, &confs, &err) ||
	    cli_query_all(s->cli, &jobs, &mu__job_row__descriptor, &job, &n, &err) ||
	    cli_reservations(s->cli, &resv, &resvs, &err)) {
		fprintf(stderr, "slurm_load_licenses error: %s\n", err.text);
		return 1;
	}
	list = cli_split(a, confs ? mu_conf_get(((Mu__ConfigRow *)conf[0])->config, "Licenses", "") : "",
			 &kinds);
	if (s->json) {
		cli_model_begin(s->cli, &m);
		json_array(&m.json, "licenses");
	}
	for (size_t i = 0; i < kinds; i++) {
		char *name = mu_arena_printf(a, "%.*s", (int)strcspn(list[i], ":="), list[i]);
		uint64_t total = count_in(a, list[i], name), used = 0, kept = 0;

		if (!*name || (count && strcmp(name, words[0]) != 0))
			continue;
		for (size_t k = 0; k < n; k++)
			used += count_in(a, cli_job_spec(job[k])->licenses, name);
		for (size_t k = 0; k < resvs; k++)
			kept += resv[k]->active ? count_in(a, resv[k]->licenses, name) : 0;
		shown++;
		if (s->json) {
			json_object(&m.json, NULL);
			json_text(&m.json, "LicenseName", name);
			json_number(&m.json, "Total", (int64_t)total);
			json_number(&m.json, "Used", (int64_t)used);
			json_number(&m.json, "Free", (int64_t)(total > used ? total - used : 0));
			json_number(&m.json, "Reserved", (int64_t)kept);
			json_object_end(&m.json);
			continue;
		}
		printf("LicenseName=%s%sTotal=%" PRIu64 " Used=%" PRIu64 " Free=%" PRIu64 " Reserved=%" PRIu64
		       " Remote=no\n",
		       name, s->oneline ? " " : "\n    ", total, used, total > used ? total - used : 0, kept);
	}
	if (s->json) {
		json_array_end(&m.json);
		return cli_model_end(&m);
	}
	if (!shown && count)
		printf("License name %s not found.\n", words[0]);
	else if (!shown)
		printf("No licenses configured in Slurm.\n");
	return count && !shown;
}

/* ---- changing ---- */

struct change {
	struct scontrol *s;
	Mu__ReservationChanged *event;
	Mu__ReservationRow *row, *old; /* old: what is there now; NULL: a new one */
	bool place;		       /* nodes, cores or licences were named */
	struct mu_err *err;
};

static int invalid(struct change *c, const char *key, const char *value)
{
	return mu_fail(c->err, MU_EINVAL, "Invalid %s: %s", key, value);
}

/* A list that replaces the old one, or is added to it or taken from it. */
static void list_value(struct change *c, const char *value, char sign, char *const *had, size_t had_count,
		       char ***ret, size_t *ret_count, bool *ret_deny)
{
	struct mu_arena *a = &c->s->cli->arena;
	size_t n;
	char **words = cli_split(a, value, &n);

	*ret = mu_arena_alloc(a, (n + had_count + 1) * sizeof **ret);
	*ret_count = 0;
	for (size_t i = 0; sign && i < had_count; i++) {
		bool gone = false;

		for (size_t k = 0; k < n; k++)
			gone = gone || strcmp(words[k], had[i]) == 0;
		if (!gone)
			(*ret)[(*ret_count)++] = had[i];
	}
	for (size_t i = 0; sign != '-' && i < n; i++) {
		*ret_deny = words[i][0] == '-';
		(*ret)[(*ret_count)++] = words[i] + (words[i][0] == '-' || words[i][0] == '+');
	}
}

static int set_groups(struct change *c, const char *value, char sign)
{
	bool deny = false;

	list_value(c, value, sign, c->old ? c->old->group : NULL, c->old ? c->old->n_group : 0,
		   &c->row->group, &c->row->n_group, &deny);
	c->row->gid = mu_arena_alloc(&c->s->cli->arena, (c->row->n_group + 1) * sizeof *c->row->gid);
	for (size_t i = 0; i < c->row->n_group; i++) {
		struct group group, *g = NULL;
		char text[16384];

		if (getgrnam_r(c->row->group[i], &group, text, sizeof text, &g) || !g)
			return mu_fail(c->err, MU_EINVAL, "Invalid group id");
		c->row->gid[c->row->n_gid++] = g->gr_gid;
	}
	c->event->has_set_groups = c->event->set_groups = 1;
	return 0;
}

static const uint64_t repeats =
    RESV_FLAG_HOURLY | RESV_FLAG_DAILY | RESV_FLAG_WEEKLY | RESV_FLAG_WEEKDAY | RESV_FLAG_WEEKEND;

static int set_flags(struct change *c, const char *value, char sign)
{
	const uint64_t own = RESV_FLAG_SPEC_NODES | RESV_FLAG_ALL_NODES;
	size_t n;
	char **words = cli_split(&c->s->cli->arena, value, &n);
	uint64_t flags = 0;

	for (size_t i = 0; i < n; i++) {
		char *word = words[i], *more = strchr(word, '=');
		char how = *word == '+' || *word == '-' ? *word++ : 0;
		uint64_t flag = mu_resv_flag_parse(word, more ? (size_t)(more - word) : strlen(word));

		if (!flag || (more && flag != RESV_FLAG_PURGE_COMP))
			return invalid(c, "flag", words[i]);
		if (more && mu_span_parse(more + 1, &c->row->purge_sec, NULL))
			return invalid(c, "PURGE_COMP", more + 1);
		c->row->has_purge_sec = c->row->has_purge_sec || more != NULL;
		sign = how ? how : sign;
		flags |= flag;
	}
	c->event->has_flags_clear = c->row->has_flags = 1;
	if (sign == '-') {
		c->event->flags_clear |= flags;
		return 0;
	}
	if (!sign)
		c->event->flags_clear = ~own;
	else if (flags & repeats)
		c->event->flags_clear |= repeats;
	c->row->flags |= flags;
	return 0;
}

static int set_nodes(struct change *c, const char *value, char sign)
{
	struct mu_arena *a = &c->s->cli->arena;
	struct mu_buf out = {0};
	char **had = NULL, **named, **all;
	size_t had_count = 0, n, count = 0;

	c->place = true;
	c->row->nodes = (char *)value;
	if (!sign)
		return 0;
	if ((c->old && c->old->nodes &&
	     mu_hostlist_expand(c->old->nodes, 1 << 20, a, &had, &had_count, NULL)) ||
	    mu_hostlist_expand(value, 1 << 20, a, &named, &n, NULL))
		return mu_fail(c->err, MU_ENODENAME, "%s", mu_strerror(MU_ENODENAME));
	all = mu_arena_alloc(a, (n + had_count + 1) * sizeof *all);
	for (size_t i = 0; i < had_count; i++) {
		bool gone = false;

		for (size_t k = 0; k < n; k++)
			gone = gone || strcmp(named[k], had[i]) == 0;
		if (!gone)
			all[count++] = had[i];
	}
	for (size_t i = 0; sign == '+' && i < n; i++)
		all[count++] = named[i];
	mu_hostlist_fold_sorted((const char *const *)all, count, &out);
	c->row->nodes = mu_arena_strdup(a, out.data ? (const char *)out.data : "");
	mu_buf_free(&out);
	return count ? 0 : mu_fail(c->err, MU_ENODENAME, "%s", mu_strerror(MU_ENODENAME));
}

static int set_number(struct change *c, const char *key, const char *value, uint32_t *ret,
		      protobuf_c_boolean *has)
{
	int64_t n;

	if (mu_number_parse(key, value, 1, INT32_MAX, &n, NULL))
		return invalid(c, key, value);
	*ret = (uint32_t)n;
	*has = 1;
	c->place = true;
	return 0;
}

static int set_tres(struct change *c, const char *value)
{
	struct mu_arena *a = &c->s->cli->arena;
	size_t n;
	char **words = cli_split(a, value, &n);
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++) {
		char *eq = strchr(words[i], '=');

		if (!eq)
			return invalid(c, "TRES", value);
		if (strncasecmp(words[i], "cpu=", 4) == 0)
			rc = set_number(c, "cpu", eq + 1, &c->row->core_cnt, &c->row->has_core_cnt);
		else if (strncasecmp(words[i], "node=", 5) == 0)
			rc = set_number(c, "node", eq + 1, &c->row->node_cnt, &c->row->has_node_cnt);
		else if (strncasecmp(words[i], "license/", 8) == 0)
			c->row->licenses = mu_arena_printf(
			    a, "%s%s%.*s:%s", c->row->licenses ? c->row->licenses : "",
			    c->row->licenses ? "," : "", (int)(eq - words[i] - 8), words[i] + 8, eq + 1);
		else
			return mu_fail(c->err, MU_EINVAL,
				       "Invalid TRES: %s (a reservation keeps cpu, node and license/NAME)",
				       words[i]);
	}
	c->place = true;
	c->row->tres = (char *)value;
	return rc;
}

static int set_time(struct change *c, const char *key, const char *value, char sign, int64_t now, int64_t had,
		    int64_t *ret, protobuf_c_boolean *has)
{
	int64_t by;

	*has = 1;
	if (sign) {
		if (mu_span_parse(value, &by, NULL))
			return invalid(c, key, value);
		*ret = had + (sign == '+' ? by : -by) * 1000000;
		return 0;
	}
	if (mu_date_parse(value, now, 1, &cli_zone, ret, NULL))
		return invalid(c, key, value);
	if (strcasecmp(value, "now") == 0)
		*ret = now - now % 1000000; /* whole seconds, as dates are */
	return 0;
}

static int set_duration(struct change *c, const char *value, char sign)
{
	int64_t sec;

	if (strcasecmp(value, "infinite") == 0 || strcasecmp(value, "unlimited") == 0)
		sec = -1;
	else if (mu_span_parse(value, &sec, NULL) || sec == 0)
		return invalid(c, "duration", value);
	if (sign) {
		int64_t had = c->old ? (c->old->end_usec - c->old->start_usec) / 1000000 : 0;

		sec = sign == '+' ? had + sec : had - sec;
	}
	c->event->has_duration_sec = 1;
	c->event->duration_sec = sec;
	return 0;
}

static bool is(const char *key, const char *name, size_t least)
{
	size_t len = strlen(key);

	return len >= least && strncasecmp(key, name, len) == 0;
}

static int set_key(struct change *c, const char *key, const char *value, char sign)
{
	Mu__ReservationRow *r = c->row;
	const Mu__ReservationRow *old = c->old;
	int64_t now = cli_now_usec();
	bool deny = false;

	if (is(key, "StartTime", 1))
		return set_time(c, "start time", value, sign, now, old ? old->start_usec : now,
				&r->start_usec, &r->has_start_usec);
	if (is(key, "EndTime", 1))
		return set_time(c, "end time", value, sign, now, old ? old->end_usec : now, &r->end_usec,
				&r->has_end_usec);
	if (is(key, "Duration", 1))
		return set_duration(c, value, sign);
	if (is(key, "Nodes", 5) || strcasecmp(key, "NodeList") == 0)
		return set_nodes(c, value, sign);
	if (is(key, "NodeCnt", 5))
		return set_number(c, "node count", value, &r->node_cnt, &r->has_node_cnt);
	if (is(key, "CoreCnt", 4))
		return set_number(c, "core count", value, &r->core_cnt, &r->has_core_cnt);
	if (is(key, "TRES", 1))
		return set_tres(c, value);
	if (is(key, "Flags", 2))
		return set_flags(c, value, sign);
	if (is(key, "Features", 2)) {
		r->features = (char *)value;
		return 0;
	}
	if (is(key, "PartitionName", 1)) {
		r->partition = (char *)value;
		return 0;
	}
	if (is(key, "Licenses", 1)) {
		r->licenses = (char *)value;
		c->place = true;
		return 0;
	}
	if (is(key, "Comment", 3)) {
		r->comment = (char *)value;
		return 0;
	}
	if (is(key, "Groups", 1))
		return set_groups(c, value, sign);
	if (is(key, "Users", 1)) {
		list_value(c, value, sign, old ? old->user : NULL, old ? old->n_user : 0, &r->user,
			   &r->n_user, &deny);
		c->event->has_set_users = c->event->set_users = r->has_deny_users = 1;
		r->deny_users = sign ? old && old->deny_users : deny;
		return 0;
	}
	if (is(key, "Accounts", 1)) {
		list_value(c, value, sign, old ? old->account : NULL, old ? old->n_account : 0, &r->account,
			   &r->n_account, &deny);
		c->event->has_set_accounts = c->event->set_accounts = r->has_deny_accounts = 1;
		r->deny_accounts = sign ? old && old->deny_accounts : deny;
		return 0;
	}
	if (is(key, "BurstBuffer", 1) || is(key, "Watts", 1) || is(key, "MaxStartDelay", 1))
		return mu_fail(c->err, MU_EDISABLED, "%s is not supported in a reservation", key);
	return mu_fail(c->err, MU_EINVAL, "Unknown keyword %s=%s", key, value);
}

/* What a new reservation must say. NULL: nothing is missing. */
static const char *missing(const struct change *c)
{
	const Mu__ReservationRow *r = c->row;

	if (!r->has_start_usec)
		return "A start time must be given.";
	if (!r->has_end_usec && !c->event->has_duration_sec)
		return "An end time or duration must be given.";
	if (!c->place)
		return "Nodes, CoreCnt, NodeCnt, TRES or Licenses must be specified.";
	if (!r->n_user && !r->n_account && !r->n_group)
		return "Either Users/Groups and/or Accounts must be specified.";
	return NULL;
}

static int find_old(struct change *c, const char *name)
{
	Mu__ReservationRow **rows;
	size_t n;
	int rc = cli_reservations(c->s->cli, &rows, &n, c->err);

	for (size_t i = 0; i < n && !rc; i++)
		if (strcmp(rows[i]->name, name) == 0)
			c->old = rows[i];
	return rc;
}

static int send(struct scontrol *s, Mu__ReservationChanged *change, Mu__Reply **ret, struct mu_err *err)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__Request request = MU__REQUEST__INIT;
	Mu__EventAsk ask = MU__EVENT_ASK__INIT;

	e.kind_case = MU__EVENT__KIND_RESERVATION_CHANGED;
	e.reservation_changed = change;
	ask.event = &e;
	request.ask_case = MU__REQUEST__ASK_EVENT;
	request.event = &ask;
	return cli_ask_done(s->cli, &request, ret, err);
}

int scontrol_change_reservation(struct scontrol *s, char **words, size_t count, bool create)
{
	Mu__ReservationChanged event = MU__RESERVATION_CHANGED__INIT;
	Mu__ReservationRow row = MU__RESERVATION_ROW__INIT;
	struct mu_err err = {0};
	struct change c = {.s = s, .event = &event, .row = &row, .err = &err};
	Mu__Reply *reply;
	int rc = 0;

	event.row = &row;
	event.has_create = 1;
	event.create = create;
	for (size_t i = 0; i < count; i++)
		if (strncasecmp(words[i], "Reservation", 11) == 0 && strchr(words[i], '='))
			row.name = strchr(words[i], '=') + 1;
	if (!create && row.name)
		rc = find_old(&c, row.name);
	for (size_t i = 0; i < count && !rc; i++) {
		char *equals = strchr(words[i], '='), *key = words[i], sign = 0;
		size_t len = equals ? (size_t)(equals - key) : strlen(key);

		if (strncasecmp(key, "Reservation", 11) == 0 && equals)
			continue;
		if (strcasecmp(key, "SKIP") == 0) {
			event.has_skip = event.skip = 1;
			continue;
		}
		if (!equals) {
			rc = mu_fail(&err, MU_EINVAL, "Unknown keyword %s", key);
			break;
		}
		if (len > 1 && (equals[-1] == '+' || equals[-1] == '-'))
			sign = key[--len];
		rc = set_key(&c, mu_arena_printf(&s->cli->arena, "%.*s", (int)len, key), equals + 1, sign);
	}
	if (rc) {
		cli_error(s->cli, "%s", err.text);
		fprintf(stderr, "No reservation %s.\n", create ? "created" : "update");
		return 1;
	}
	if (create && missing(&c)) {
		cli_error(s->cli, "%s  No reservation created.", missing(&c));
		return 1;
	}
	if (!create && !row.name) {
		cli_error(s->cli, "Reservation must be given.  No reservation update.");
		return 1;
	}
	if (send(s, &event, &reply, &err)) {
		fprintf(stderr, "Error %s the reservation: %s\n", create ? "creating" : "updating", err.text);
		return 1;
	}
	if (create)
		printf("Reservation created: %s\n", reply->text && *reply->text ? reply->text : row.name);
	else
		printf("Reservation updated.\n");
	return 0;
}

int scontrol_delete_reservation(struct scontrol *s, const char *name)
{
	Mu__ReservationChanged event = MU__RESERVATION_CHANGED__INIT;
	Mu__ReservationRow row = MU__RESERVATION_ROW__INIT;
	struct mu_err err = {0};

	row.name = (char *)name;
	event.row = &row;
	event.has_remove = event.remove = 1;
	if (!send(s, &event, NULL, &err))
		return 0;
	fprintf(stderr, "delete_reservation ReservationName=%s: %s\n", name, err.text);
	return 1;
}
