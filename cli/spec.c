/* cli/spec.c: see spec.h. Options with a plain field are set by their row; those with a meaning of their own
 * are here, one case each. */
#include "cli/spec.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/hostlist.h"
#include "proto/layout/layout.h"

enum {
	NICE_MOST = 2147483645,
	NICE_DEFAULT = 100,
	SIGNAL_BEFORE_SEC = 60,
	NAME_MAX_BYTES = 1024,
	TEXT_MAX_BYTES = 65536
};

static int bad(const struct cli_given *g, const char *allowed, struct mu_err *err)
{
	return mu_fail(err, MU_EINVAL, "Invalid --%s specification: \"%s\" (%s)", g->option->name,
		       g->value ? g->value : "", allowed);
}

static int number(const struct cli_given *g, int64_t min, int64_t max, int64_t *ret, struct mu_err *err)
{
	char what[64];

	snprintf(what, sizeof what, "--%s", g->option->name);
	if (!g->value || mu_number_parse(what, g->value, min, max, ret, NULL))
		return mu_fail(err, MU_EINVAL, "Invalid numeric value \"%s\" for %s.",
			       g->value ? g->value : "", what);
	return 0;
}

int cli_spec_range(const char *what, const char *text, uint32_t *ret_min, uint32_t *ret_max,
		   struct mu_err *err)
{
	char *end;
	unsigned long min = strtoul(text, &end, 10), max = min;

	if (!isdigit((unsigned char)*text))
		goto bad;
	if (*end == '-') {
		const char *second = end + 1;

		max = strtoul(second, &end, 10);
		if (!isdigit((unsigned char)*second))
			goto bad;
	}
	if (*end || min < 1 || max < min || max > INT_MAX)
		goto bad;
	*ret_min = (uint32_t)min;
	*ret_max = (uint32_t)max;
	return 0;
bad:
	return mu_fail(err, MU_ENODECOUNT, "Invalid %s specification: \"%s\" (a count, or least-most)", what,
		       text);
}

int cli_spec_signal(const char *text, Mu__JobSpec *spec, struct mu_err *err)
{
	const char *p = text, *at;
	char name[32];
	uint32_t signal;
	unsigned long before = SIGNAL_BEFORE_SEC;
	bool batch = false;

	while (strncasecmp(p, "B:", 2) == 0 || strncasecmp(p, "R:", 2) == 0 ||
	       strncasecmp(p, "BR:", 3) == 0 || strncasecmp(p, "RB:", 3) == 0) {
		size_t len = strcspn(p, ":");

		batch = batch || memchr(p, 'B', len) || memchr(p, 'b', len);
		p += len + 1;
	}
	at = strchrnul(p, '@');
	snprintf(name, sizeof name, "%.*s", (int)(at - p), p);
	if (cli_signal_parse(name, &signal, NULL))
		goto bad;
	if (*at) {
		char *end;

		before = strtoul(at + 1, &end, 10);
		if (!isdigit((unsigned char)at[1]) || *end || before > 65535)
			goto bad;
	}
	spec->has_signal_number = spec->has_signal_before_sec = spec->has_signal_batch = 1;
	spec->signal_number = signal;
	spec->signal_before_sec = (uint32_t)before;
	spec->signal_batch = batch;
	return 0;
bad:
	return mu_fail(err, MU_EINVAL,
		       "Invalid --signal specification: \"%s\" ([B:]SIGNAL[@SECONDS], up to 65535 seconds)",
		       text);
}

static int set_mail_type(const struct cli_given *g, struct mu_arena *arena, Mu__JobSpec *spec,
			 struct mu_err *err)
{
	static const char *const known[] = {
	    "NONE",	      "BEGIN",	     "END",	   "FAIL",	    "REQUEUE",
	    "INVALID_DEPEND", "STAGE_OUT",   "TIME_LIMIT", "TIME_LIMIT_90", "TIME_LIMIT_80",
	    "TIME_LIMIT_50",  "ARRAY_TASKS", "ALL"};
	struct mu_buf list MU_CLEANUP(mu_buf_free) = {0};
	size_t count;
	char **words = cli_split(arena, g->value, &count);

	/* Words that are not known are passed over as long as one is: scripts in use say START,END. */
	for (size_t i = 0; i < count; i++) {
		for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
			if (strcasecmp(words[i], known[k]) == 0)
				mu_buf_printf(&list, "%s%s", list.len ? "," : "", known[k]);
		}
	}
	if (!list.len)
		return bad(g,
			   "NONE, BEGIN, END, FAIL, REQUEUE, INVALID_DEPEND, TIME_LIMIT, TIME_LIMIT_90, "
			   "TIME_LIMIT_80, TIME_LIMIT_50, "
			   "ARRAY_TASKS or ALL",
			   err);
	spec->mail_type = mu_arena_strdup(arena, (char *)list.data);
	return 0;
}

static int set_extra_node_info(const struct cli_given *g, Mu__JobSpec *spec, struct mu_err *err)
{
	uint32_t *field[] = {&spec->sockets_per_node, &spec->cores_per_socket, &spec->threads_per_core};
	protobuf_c_boolean *has[] = {&spec->has_sockets_per_node, &spec->has_cores_per_socket,
				     &spec->has_threads_per_core};
	const char *p = g->value;

	for (int i = 0; *p; i++) {
		size_t len = strcspn(p, ":");
		char *end = NULL;
		unsigned long n = strtoul(p, &end, 10);

		if (i == 3 || len == 0 ||
		    (*p != '*' && (!isdigit((unsigned char)*p) || end != p + len || n < 1 || n > 65535)) ||
		    (*p == '*' && len != 1))
			return bad(g, "sockets[:cores[:threads]], numbers or *", err);
		if (*p != '*') {
			*field[i] = (uint32_t)n;
			*has[i] = 1;
		}
		p += len + (p[len] == ':');
	}
	return 0;
}

int cli_host_file(const char *path, struct mu_arena *arena, char ***ret, size_t *ret_count,
		  struct mu_err *err)
{
	char *text;
	size_t len;
	int rc = cli_read_file(path, 1 << 20, arena, &text, &len, err);

	if (rc)
		return rc;
	for (size_t i = 0; i < len; i++) {
		if (isspace((unsigned char)text[i]))
			text[i] = ',';
	}
	text = mu_arena_strdup(arena, text + strspn(text, ","));
	for (len = strlen(text); len && text[len - 1] == ','; len--)
		text[len - 1] = 0;
	rc = mu_hostlist_expand(text, 65536, arena, ret, ret_count, err);
	return rc ? mu_wrap(err, "%s", path) : 0;
}

static int set_nodefile(const struct cli_given *g, struct mu_arena *arena, Mu__JobSpec *spec,
			struct mu_err *err)
{
	struct mu_buf folded MU_CLEANUP(mu_buf_free) = {0};
	char **names;
	size_t count;
	int rc = cli_host_file(g->value, arena, &names, &count, err);

	if (rc)
		return rc;
	mu_hostlist_fold((const char *const *)names, count, &folded);
	spec->nodes_required = mu_arena_strdup(arena, (char *)folded.data);
	return 0;
}

static int set_gres(const char *what, const char *value, struct mu_arena *arena, Mu__JobSpec *spec,
		    struct mu_err *err)
{
	size_t n_gres = 0;
	Mu__GresAsk **gres = NULL;
	int rc = mu_gres_parse(value, arena, &gres, &n_gres, err);

	if (rc)
		return mu_fail(err, rc,
			       "Invalid --%s specification: \"%s\" (name[:type][:count], divided by commas)",
			       what, value);
	spec->gres = gres;
	spec->n_gres = n_gres;
	return 0;
}

static int set_priority(const struct cli_given *g, Mu__JobSpec *spec, struct mu_err *err)
{
	int64_t n = UINT32_MAX - 1;

	if (strcasecmp(g->value, "TOP") != 0 && number(g, 0, UINT32_MAX - 2, &n, NULL))
		return bad(g, "a number up to 4294967293, or TOP", err);
	spec->has_priority = 1;
	spec->priority = (uint32_t)n;
	return 0;
}

static int set_nice(const struct cli_given *g, Mu__JobSpec *spec, struct mu_err *err)
{
	int64_t n = NICE_DEFAULT;

	if (g->value && number(g, -NICE_MOST, NICE_MOST, &n, NULL))
		return mu_fail(err, MU_EINVAL, "Invalid --nice value \"%s\": a number between -%d and %d",
			       g->value, NICE_MOST, NICE_MOST);
	spec->has_nice = 1;
	spec->nice = (int32_t)n;
	return 0;
}

static int set_no_kill(const struct cli_given *g, Mu__JobSpec *spec, struct mu_err *err)
{
	bool off = g->value && (strcasecmp(g->value, "off") == 0 || strcasecmp(g->value, "no") == 0);

	if (g->value && *g->value && !off && g->level != CLI_ENVIRONMENT)
		return mu_fail(err, MU_EINVAL, "Invalid --no-kill specification: \"%s\" (nothing, or off)",
			       g->value);
	spec->has_no_kill = 1;
	spec->no_kill = !off;
	return 0;
}

static int set_yes_no(const struct cli_given *g, protobuf_c_boolean *has, protobuf_c_boolean *field,
		      struct mu_err *err)
{
	if (strcasecmp(g->value, "yes") != 0 && strcasecmp(g->value, "no") != 0)
		return bad(g, "yes or no", err);
	*has = 1;
	*field = strcasecmp(g->value, "yes") == 0;
	return 0;
}

static int set_open_mode(const struct cli_given *g, Mu__JobSpec *spec, struct mu_err *err)
{
	size_t len = strlen(g->value);

	if (!len ||
	    (strncasecmp(g->value, "append", len) != 0 && strncasecmp(g->value, "truncate", len) != 0))
		return bad(g, "append or truncate", err);
	spec->has_open_append = 1;
	spec->open_append = tolower((unsigned char)*g->value) == 'a';
	return 0;
}

static void add_hint(const struct mu_option *o, const char *value, struct mu_arena *arena, Mu__JobSpec *spec)
{
	Mu__Hint *hint = mu_arena_alloc(arena, sizeof *hint);
	Mu__Hint **more;

	for (size_t i = 0; i < spec->n_hint; i++) {
		if (strcmp(spec->hint[i]->name, o->name) == 0) {
			spec->hint[i]->value = mu_arena_strdup(arena, value ? value : "");
			return;
		}
	}
	mu__hint__init(hint);
	hint->name = (char *)o->name;
	hint->value = mu_arena_strdup(arena, value ? value : "");
	more = mu_arena_alloc(arena, (spec->n_hint + 1) * sizeof *more);
	if (spec->n_hint)
		memcpy(more, spec->hint, spec->n_hint * sizeof *more);
	more[spec->n_hint++] = hint;
	spec->hint = more;
}

static int set_exclusive(const struct cli_given *g, struct mu_arena *arena, Mu__JobSpec *spec,
			 struct mu_err *err)
{
	if (!g->value || strcasecmp(g->value, "exclusive") == 0) {
		spec->has_exclusive = spec->exclusive = 1;
	} else if (strcasecmp(g->value, "user") == 0) {
		spec->has_exclusive_user = spec->exclusive_user = 1;
	} else if (strcasecmp(g->value, "mcs") == 0 || strcasecmp(g->value, "topo") == 0) {
		add_hint(g->option, g->value, arena, spec);
	} else if (strcasecmp(g->value, "no") != 0) {
		return bad(g, "nothing, user, mcs or topo", err);
	}
	return 0;
}

static int set_hint_kind(const struct cli_given *g, struct mu_err *err)
{
	static const char *const known[] = {"compute_bound", "memory_bound", "multithread", "nomultithread"};
	size_t count = sizeof known / sizeof *known;

	for (size_t i = 0; g->value && i < count; i++) {
		if (strcasecmp(g->value, known[i]) == 0)
			return 0;
	}
	return g->value ? bad(g, "compute_bound, memory_bound, multithread or nomultithread", err) : 0;
}

/* "2", "2@1:00:00" */
static int set_switches(const struct cli_given *g, Mu__JobSpec *spec, struct mu_err *err)
{
	const char *at = strchr(g->value, '@');
	char count[24];
	int64_t number;

	snprintf(count, sizeof count, "%.*s", (int)strcspn(g->value, "@"), g->value);
	if (mu_number_parse("--switches", count, 1, INT32_MAX, &number, err))
		return MU_EINVAL;
	spec->has_switches = 1;
	spec->switches = (uint32_t)number;
	spec->has_switches_wait_sec = at != NULL;
	if (at && (mu_pause_parse(at + 1, &spec->switches_wait_sec, NULL) || spec->switches_wait_sec < 0))
		return bad(g, "count[@time]", err);
	return 0;
}

static int set_gres_flags(const struct cli_given *g, struct mu_arena *arena, Mu__JobSpec *spec,
			  struct mu_err *err)
{
	size_t count;
	char **words = cli_split(arena, g->value, &count);

	for (size_t i = 0; i < count; i++) {
		if (strcasecmp(words[i], "enforce-binding") == 0)
			spec->has_near_gpus = spec->near_gpus = 1;
		else if (strcasecmp(words[i], "disable-binding") == 0)
			spec->has_any_cpus = spec->any_cpus = 1;
		else if (strcasecmp(words[i], "allow-task-sharing") == 0)
			spec->has_task_sharing = spec->task_sharing = 1;
		else
			return bad(
			    g, "enforce-binding, disable-binding or allow-task-sharing; no device is shared",
			    err);
	}
	return spec->near_gpus && spec->any_cpus ? bad(g, "one of enforce-binding and disable-binding", err)
						 : 0;
}

static int set_own(const struct cli_given *g, struct mu_arena *arena, Mu__JobSpec *spec, struct mu_err *err)
{
	switch (g->option->id) {
	case OPT_nodes: {
		int rc = cli_spec_range("--nodes", g->value, &spec->nodes_min, &spec->nodes_max, err);

		spec->has_nodes_min = spec->has_nodes_max = rc == 0;
		return rc;
	}
	case OPT_exclusive:
		return set_exclusive(g, arena, spec, err);
	case OPT_extra_node_info:
		return set_extra_node_info(g, spec, err);
	case OPT_gres:
		return set_gres("gres", g->value, arena, spec, err);
	case OPT_gres_flags:
		return set_gres_flags(g, arena, spec, err);
	case OPT_gpus_per_node:
		return set_gres("gpus-per-node", mu_arena_printf(arena, "gpu:%s", g->value), arena, spec,
				err);
	case OPT_kill_on_invalid_dep:
		return set_yes_no(g, &spec->has_kill_on_invalid_dep, &spec->kill_on_invalid_dep, err);
	case OPT_mail_type:
		return set_mail_type(g, arena, spec, err);
	case OPT_nice:
		return set_nice(g, spec, err);
	case OPT_no_kill:
		return set_no_kill(g, spec, err);
	case OPT_nodefile:
		return set_nodefile(g, arena, spec, err);
	case OPT_open_mode:
		return set_open_mode(g, spec, err);
	case OPT_priority:
		return set_priority(g, spec, err);
	case OPT_signal:
		return cli_spec_signal(g->value, spec, err);
	case OPT_switches:
		return set_switches(g, spec, err);
	default:
		return 0; /* the command's own: parsable, wrap, wait ... ; counts of GPUs follow when all is
			     known */
	}
}

/* Options that the environment of the job repeats as they were given. */
static bool is_remembered(int option)
{
	static const int list[] = {
	    OPT_gpus,	      OPT_gpus_per_node, OPT_gpus_per_task, OPT_gpus_per_socket,
	    OPT_cpus_per_gpu, OPT_mem_per_gpu,	 OPT_tres_per_task, OPT_gres_flags};

	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		if (list[i] == option)
			return true;
	}
	return false;
}

/* ---- what options mean together ---- */

/* Of several options that exclude each other the one of the strongest level stands; two of one level are an
 * error. */
static int one_memory(const struct cli_args *args, Mu__JobSpec *spec, struct mu_err *err)
{
	static const int kinds[] = {OPT_mem, OPT_mem_per_cpu, OPT_mem_per_gpu};
	const struct cli_given *best = NULL;

	for (int i = 0; i < 3; i++) {
		const struct cli_given *g = cli_args_last(args, kinds[i]);

		if (g && best && g->level == best->level)
			return mu_fail(err, MU_EINVAL,
				       "--mem, --mem-per-cpu, and --mem-per-gpu are mutually exclusive.");
		if (g && (!best || g->level > best->level))
			best = g;
	}
	if (best && best->option->id != OPT_mem)
		spec->has_mem_node_mib = 0;
	if (best && best->option->id != OPT_mem_per_cpu)
		spec->has_mem_cpu_mib = 0;
	if (best && best->option->id != OPT_mem_per_gpu)
		spec->has_mem_gpu_mib = 0;
	return 0;
}

/* "a100:2", "a100", "2" to a type and a count. */
static int gpu_ask(const struct cli_given *g, struct mu_arena *arena, char **ret_type, uint64_t *ret_count,
		   struct mu_err *err)
{
	const char *colon = strrchr(g->value, ':'), *digits = colon ? colon + 1 : g->value;
	char *end;
	unsigned long n = strtoul(digits, &end, 10);

	if (!isdigit((unsigned char)*digits) || *end || n < 1 || n > 65535 || strchr(g->value, ','))
		return bad(g, "[type:]count", err);
	*ret_type = colon ? mu_arena_printf(arena, "%.*s", (int)(colon - g->value), g->value) : NULL;
	*ret_count = n;
	return 0;
}

static int64_t count_gpus(Mu__GresAsk *const *gres, size_t count)
{
	int64_t n = 0;

	for (size_t i = 0; i < count; i++) {
		if (strcmp(gres[i]->name, "gpu") == 0)
			n += (int64_t)gres[i]->count;
	}
	return n;
}

/* "a100:2" or "2" behind --gpus and the like, to a list of one. */
static int set_gpus(const struct cli_given *g, uint64_t times, struct mu_arena *arena, Mu__GresAsk ***ret,
		    size_t *ret_count, struct mu_err *err)
{
	char *type = NULL;
	uint64_t count = 0;
	int rc = gpu_ask(g, arena, &type, &count, err);

	if (rc)
		return rc;
	Mu__GresAsk *ask = mu_arena_alloc(arena, sizeof *ask);
	mu__gres_ask__init(ask);
	ask->name = mu_arena_strdup(arena, "gpu");
	ask->type = type;
	ask->has_count = 1;
	ask->count = count * times;
	*ret = mu_arena_dup(arena, &ask, sizeof ask);
	*ret_count = 1;
	return 0;
}

/* Each as it was given: what they make of counts of tasks and nodes is for the scheduler. */
static int place_gpus(const struct cli_args *args, struct mu_arena *arena, Mu__JobSpec *spec,
		      struct mu_err *err)
{
	const struct cli_given *job = cli_args_last(args, OPT_gpus),
			       *task = cli_args_last(args, OPT_gpus_per_task),
			       *socket = cli_args_last(args, OPT_gpus_per_socket);
	int rc = job ? set_gpus(job, 1, arena, &spec->gres_job, &spec->n_gres_job, err) : 0;

	if (!rc && task)
		rc = set_gpus(task, 1, arena, &spec->gres_task, &spec->n_gres_task, err);
	if (!rc && socket && !spec->sockets_per_node)
		rc = mu_fail(err, MU_EINVAL,
			     "--gpus-per-socket option requires --sockets-per-node specification");
	if (!rc && socket)
		rc = set_gpus(socket, spec->sockets_per_node, arena, &spec->gres, &spec->n_gres, err);
	if (!rc && count_gpus(spec->gres_task, spec->n_gres_task) && !spec->has_ntasks && !job &&
	    !spec->ntasks_per_node)
		rc =
		    mu_fail(err, MU_EINVAL,
			    "--gpus-per-task or --tres-per-task used without either --gpus or -n/--ntasks is "
			    "not allowed.");
	return rc;
}

/* Of --cpus-per-gpu and --cpus-per-task the one of the stronger level stands. */
static int one_cpus(const struct cli_args *args, Mu__JobSpec *spec, struct mu_err *err)
{
	const struct cli_given *gpu = cli_args_last(args, OPT_cpus_per_gpu),
			       *task = cli_args_last(args, OPT_cpus_per_task);
	int64_t n;
	int rc;

	if (!gpu)
		return 0;
	if (task && task->level == gpu->level)
		return mu_fail(err, MU_EINVAL, "--cpus-per-gpu is mutually exclusive with --cpus-per-task");
	if (task && task->level > gpu->level)
		return 0;
	rc = number(gpu, 1, 65535, &n, err);
	if (rc)
		return rc;
	spec->has_cpus_per_task = 0;
	spec->cpus_per_task = 0;
	spec->has_cpus_per_gpu = 1;
	spec->cpus_per_gpu = (uint32_t)n;
	return 0;
}

static int per_gpu(const struct cli_args *args, Mu__JobSpec *spec, struct mu_err *err)
{
	const struct cli_given *cpus = cli_args_last(args, OPT_cpus_per_gpu),
			       *mem = cli_args_last(args, OPT_mem_per_gpu);
	bool some = spec->n_gres_job || count_gpus(spec->gres, spec->n_gres) ||
		    count_gpus(spec->gres_task, spec->n_gres_task) || spec->ntasks_per_gpu;
	uint64_t mib;

	if (cpus && spec->cpus_per_gpu && !some)
		return mu_fail(err, MU_EINVAL, "--cpus-per-gpu=%s needs a number of GPUs", cpus->value);
	if (!mem || spec->has_mem_node_mib || spec->has_mem_cpu_mib)
		return 0;
	if (mu_mem_parse(mem->value, &mib, NULL))
		return bad(mem, "a number with K, M, G or T", err);
	if (!some)
		return mu_fail(err, MU_EINVAL, "--mem-per-gpu=%s needs a number of GPUs", mem->value);
	spec->has_mem_gpu_mib = 1;
	spec->mem_gpu_mib = mib;
	return 0;
}

/* "cpu=4", "gres/gpu=2", "gres/gpu:a100=2", "gres/gpu:a100:2" */
static int per_task(const struct cli_args *args, struct mu_arena *arena, Mu__JobSpec *spec,
		    struct mu_err *err)
{
	const struct cli_given *g = cli_args_last(args, OPT_tres_per_task);
	struct mu_buf list MU_CLEANUP(mu_buf_free) = {0};
	size_t count;
	char **words;

	if (!g)
		return 0;
	words = cli_split(arena, g->value, &count);
	for (size_t i = 0; i < count; i++) {
		char *sign = strrchr(words[i], '=');
		int64_t n = 0;

		if (!sign)
			sign = strrchr(words[i], ':');
		if (!sign || mu_number_parse("--tres-per-task", sign + 1, 1, 65535, &n, NULL))
			return bad(g, "cpu=count or gres/name[:type]=count", err);
		*sign = 0;
		if (strcasecmp(words[i], "cpu") == 0) {
			spec->has_cpus_per_task = 1;
			spec->cpus_per_task = (uint32_t)n;
		} else if (strncasecmp(words[i], "gres/", 5) == 0 && words[i][5]) {
			mu_buf_printf(&list, "%s%s:%" PRId64, list.len ? "," : "", words[i] + 5, n);
		} else {
			return bad(g, "cpu=count or gres/name[:type]=count", err);
		}
	}
	if (list.len && mu_gres_parse((char *)list.data, arena, &spec->gres_task, &spec->n_gres_task, NULL))
		return bad(g, "cpu=count or gres/name[:type]=count", err);
	return 0;
}

static bool one_node(const Mu__JobSpec *spec)
{
	return !spec->has_nodes_min || (spec->nodes_min == 1 && spec->nodes_max <= 1);
}

/* Tasks on each node where the options say so exactly; 0: they do not. */
static uint32_t tasks_each(const Mu__JobSpec *spec)
{
	if (spec->ntasks_per_node)
		return spec->ntasks_per_node;
	if (one_node(spec))
		return spec->ntasks ? spec->ntasks : 1;
	if (spec->nodes_min == spec->nodes_max && spec->ntasks % spec->nodes_min == 0)
		return spec->ntasks / spec->nodes_min;
	return 0;
}

/* A step is placed on nodes that are known: counts per job or task become counts per node. */
static int flatten_gpus(struct mu_arena *arena, Mu__JobSpec *spec, struct mu_err *err)
{
	uint64_t nodes = spec->has_nodes_min ? spec->nodes_min : 1, times = tasks_each(spec);
	Mu__GresAsk *ask = spec->n_gres_job    ? spec->gres_job[0]
			   : spec->n_gres_task ? spec->gres_task[0]
					       : NULL;

	if (!ask || spec->n_gres)
		return 0;
	if (spec->n_gres_job ? ask->count % nodes != 0 : times == 0)
		return mu_fail(
		    err, MU_EINVAL,
		    "The GPUs of a step cannot be spread evenly over its nodes; use --gpus-per-node");
	ask->count = spec->n_gres_job ? ask->count / nodes : ask->count * times;
	spec->gres = mu_arena_dup(arena, &ask, sizeof(ask));
	spec->n_gres = 1;
	return 0;
}

int cli_spec_step(struct mu_arena *arena, Mu__JobSpec *spec, struct mu_err *err)
{
	int rc = flatten_gpus(arena, spec, err);
	uint64_t gpus = (uint64_t)count_gpus(spec->gres, spec->n_gres);

	if (rc || !gpus)
		return rc;
	if (spec->cpus_per_gpu && tasks_each(spec)) {
		uint64_t cpus = spec->cpus_per_gpu * gpus / tasks_each(spec);

		spec->has_cpus_per_task = 1;
		spec->cpus_per_task = cpus ? (uint32_t)cpus : 1;
	}
	if (spec->has_mem_gpu_mib) {
		spec->has_mem_node_mib = 1;
		spec->mem_node_mib = spec->mem_gpu_mib * gpus;
	}
	return 0;
}

/* What kind of program it is says how many threads of a core and tasks of a socket it can use. */
static int apply_hint(const struct cli_args *args, Mu__JobSpec *spec, struct mu_err *err)
{
	static const int rivals[] = {OPT_ntasks_per_core, OPT_threads_per_core, OPT_extra_node_info,
				     OPT_cpu_bind};
	const struct cli_given *g = cli_args_last(args, OPT_hint);

	if (!g || !g->value)
		return 0;
	for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++) {
		const struct cli_given *r = cli_args_last(args, rivals[i]);

		if (r && r->level == g->level && g->level != CLI_ENVIRONMENT)
			return mu_fail(err, MU_EINVAL, "--hint and --%s are mutually exclusive.",
				       r->option->name);
		if (r && r->level >= g->level)
			return 0;
	}
	if (strcasecmp(g->value, "multithread") == 0)
		return 0;
	spec->has_threads_per_core = spec->threads_per_core = 1;
	if (strcasecmp(g->value, "memory_bound") == 0 && !spec->has_ntasks_per_socket)
		spec->has_ntasks_per_socket = spec->ntasks_per_socket = 1;
	return 0;
}

static int together(const struct cli_args *args, struct mu_arena *arena, Mu__JobSpec *spec,
		    struct mu_err *err)
{
	int rc;

	if (cli_args_has(args, OPT_core_spec) && cli_args_has(args, OPT_thread_spec))
		return mu_fail(err, MU_EINVAL, "--core-spec and --thread-spec are mutually exclusive.");
	if (spec->has_begin_usec && spec->has_deadline_usec && spec->begin_usec >= spec->deadline_usec)
		return mu_fail(err, MU_EINVAL, "Incompatible begin and deadline time specification");
	if (spec->has_time_min_sec && spec->has_time_limit_sec && spec->time_limit_sec > 0 &&
	    spec->time_min_sec > spec->time_limit_sec)
		return mu_fail(err, MU_EINVAL, "Invalid --time-min specification: it is longer than --time");
	rc = one_memory(args, spec, err);
	if (!rc)
		rc = apply_hint(args, spec, err);
	if (!rc)
		rc = per_task(args, arena, spec, err);
	if (!rc)
		rc = place_gpus(args, arena, spec, err);
	if (!rc)
		rc = one_cpus(args, spec, err);
	return rc ? rc : per_gpu(args, spec, err);
}

/* Most hints have no effect, but a value that means nothing is refused all the same. */
static int check_hint(const struct cli_given *g, struct mu_err *err)
{
	struct mu_distribution distribution;
	struct mu_login login;
	int64_t number;

	switch (g->option->id) {
	case OPT_wait_all_nodes:
		return mu_number_parse("--wait-all-nodes", g->value, 0, 1, &number, err);
	case OPT_distribution:
		return mu_distribution_parse(g->value, &distribution, err);
	case OPT_get_user_env:
		return mu_login_parse(g->value ? g->value : "", &login, err);
	case OPT_propagate:
		return g->value ? cli_environment_check_limits(g->value, err) : 0;
	case OPT_hint:
		return set_hint_kind(g, err);
	default:
		return 0;
	}
}

const char *cli_propagate(const struct cli_args *args)
{
	const struct cli_given *g = cli_args_last(args, OPT_propagate);

	return g ? g->value ? g->value : "" : NULL;
}

enum { CLI_PATH_MAX = 4095 }; /* what the kernel takes as one path */

/* What no path or name list may be, whatever the option. */
static int check_text(const struct cli_given *g, struct mu_err *err)
{
	if (g->option->kind == MU_KIND_PATH && g->value && strlen(g->value) > CLI_PATH_MAX)
		return mu_fail(err, MU_EPATH, "--%s: %s (%zu bytes, at most %d)", g->option->name,
			       mu_strerror(MU_EPATH), strlen(g->value), CLI_PATH_MAX);
	if (g->option->kind == MU_KIND_WORDS && g->value && !*g->value)
		return mu_fail(err, MU_EINVAL, "--%s has an empty value; leave it out or name something",
			       g->option->name);
	return 0;
}

int cli_spec_make(const struct cli_args *args, struct mu_arena *arena, Mu__JobSpec *spec, struct mu_err *err)
{
	for (size_t i = 0; i < args->count; i++) {
		const struct cli_given *g = &args->given[i];
		int rc = check_text(g, err);

		if (rc)
			return rc;
		if (g->option->kind == MU_KIND_HINT) {
			rc = check_hint(g, err);
			if (rc)
				return rc;
			add_hint(g->option, g->value, arena, spec);
		} else if (g->option->kind == MU_KIND_OWN) {
			rc = set_own(g, arena, spec, err);
			if (!rc && is_remembered(g->option->id))
				add_hint(g->option, g->value, arena, spec);
		} else {
			rc = cli_field_set(&spec->base, g->option, g->value, arena, err);
		}
		if (rc)
			return rc;
	}
	return together(args, arena, spec, err);
}

const char *cli_spec_by_file(const struct cli_args *args, bool alone)
{
	const char *path = getenv("SLURM_HOSTFILE"), *how = cli_args_value(args, OPT_distribution);
	bool asked = how && strncasecmp(how, "arbitrary", 9) == 0;

	if (!path || !*path || (!asked && (!alone || cli_args_has(args, OPT_nodelist))))
		return NULL;
	return path;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int cli_spec_hosts(const struct cli_args *args, bool alone, struct mu_arena *arena, Mu__JobSpec *spec,
		   struct mu_err *err)
{
	struct mu_buf folded MU_CLEANUP(mu_buf_free) = {0};
	const char *path = cli_spec_by_file(args, alone);
	char **names;
	size_t count;
	uint32_t nodes = 0;
	int rc;

	if (!path || spec->nodes_required)
		return 0;
	rc = cli_host_file(path, arena, &names, &count, err);
	if (rc)
		return rc;
	if (!count)
		return mu_fail(err, MU_EINVAL, "%s names no host", path);
	if (!spec->has_ntasks) {
		spec->has_ntasks = 1;
		spec->ntasks = (uint32_t)count;
	}
	if (count > spec->ntasks)
		count = spec->ntasks;
	qsort(names, count, sizeof *names, by_name);
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || strcmp(names[nodes - 1], names[i]) != 0)
			names[nodes++] = names[i];
	}
	mu_hostlist_fold((const char *const *)names, nodes, &folded);
	spec->nodes_required = mu_arena_strdup(arena, (char *)folded.data);
	if (!spec->has_nodes_min) {
		spec->has_nodes_min = spec->has_nodes_max = 1;
		spec->nodes_min = spec->nodes_max = nodes;
	}
	return 0;
}

void cli_spec_nodes(const struct cli *c, const struct cli_args *args, Mu__JobSpec *spec)
{
	const struct cli_given *tasks = cli_args_last(args, OPT_ntasks),
			       *nodes = cli_args_last(args, OPT_nodes);

	/* The environment tells of the job around, not of what is wanted now. */
	if (!tasks || !nodes || tasks->level != nodes->level || tasks->level == CLI_ENVIRONMENT)
		return;
	if (!spec->has_ntasks || !spec->has_nodes_min || !spec->ntasks || spec->ntasks >= spec->nodes_min)
		return;
	cli_say(c, "Warning: can't run %u processes on %u nodes, setting nnodes to %u", spec->ntasks,
		spec->nodes_min, spec->ntasks);
	spec->nodes_min = spec->nodes_max = spec->ntasks;
}

static bool is_utf8(const char *p)
{
	while (*p) {
		unsigned char c = (unsigned char)*p++;
		int more = c < 0x80		   ? 0
			   : c >= 0xc2 && c < 0xe0 ? 1
			   : (c & 0xf0) == 0xe0	   ? 2
			   : c >= 0xf0 && c < 0xf5 ? 3
						   : -1;

		if (more < 0)
			return false;
		for (; more > 0; more--) {
			if (((unsigned char)*p++ & 0xc0) != 0x80)
				return false;
		}
	}
	return true;
}

int cli_spec_check(const Mu__JobSpec *spec, struct mu_err *err)
{
	const ProtobufCMessageDescriptor *d = spec->base.descriptor;

	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		const char *text;
		size_t most = strcmp(f->name, "name") == 0 ? NAME_MAX_BYTES : TEXT_MAX_BYTES;

		if (f->type != PROTOBUF_C_TYPE_STRING || f->label == PROTOBUF_C_LABEL_REPEATED)
			continue;
		text = *(char *const *)((const char *)spec + f->offset);
		if (!text)
			continue;
		if (strlen(text) > most)
			return mu_fail(err, MU_EPATH, "%s", mu_strerror(MU_EPATH));
		if (!is_utf8(text))
			return mu_fail(err, MU_EINVAL, "The job's %s is not text in UTF-8", f->name);
	}
	for (size_t i = 0; i < spec->n_partition; i++) {
		if (!is_utf8(spec->partition[i]))
			return mu_fail(err, MU_EPARTITION, "%s", mu_strerror(MU_EPARTITION));
	}
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	const struct cli_given *const *x = a, *const *y = b;

	return strcmp((*x)->option->name, (*y)->option->name);
}

void cli_spec_dump(const struct cli *c, const struct cli_args *args)
{
	const struct cli_given **list = calloc(args->count + 1, sizeof *list);
	size_t count = 0;

	for (size_t i = 0; list && i < args->count; i++) {
		if (cli_args_last(args, args->given[i].option->id) == &args->given[i])
			list[count++] = &args->given[i];
	}
	if (!list)
		return;
	qsort(list, count, sizeof *list, compare_names);
	cli_say(c, "defined options");
	cli_say(c, "-------------------- --------------------");
	for (size_t i = 0; i < count; i++) {
		const struct mu_option *o = list[i]->option;
		char text[32];
		int64_t sec;

		if (o->id == OPT_verbose)
			cli_say(c, "%-20s: %u", o->name, c->verbose);
		else if (o->kind == MU_KIND_SPAN && !mu_span_parse(list[i]->value, &sec, NULL)) {
			mu_span_print(sec, 0, text);
			cli_say(c, "%-20s: %s", o->name, text);
		} else
			cli_say(c, "%-20s: %s", o->name, list[i]->value ? list[i]->value : "set");
	}
	cli_say(c, "-------------------- --------------------");
	cli_say(c, "end of defined options");
	free(list);
}
