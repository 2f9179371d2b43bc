/* exec/env.c: building environments from the table. */
#include "exec/env.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/array.h"
#include "proto/conf.h"
#include "proto/het.h"

struct env_list {
	struct mu_arena *arena;
	ProtobufCBinaryData *word;
	size_t count, cap;
};

static bool same_name(const ProtobufCBinaryData *w, const char *name, size_t len)
{
	return w->len > len && w->data[len] == '=' && memcmp(w->data, name, len) == 0;
}

static const char *lookup(const struct env_list *l, const char *name)
{
	for (size_t i = 0; i < l->count; i++)
		if (same_name(&l->word[i], name, strlen(name)))
			return (const char *)l->word[i].data + strlen(name) + 1;
	return NULL;
}

static void put_text(struct env_list *l, const char *name, const char *value)
{
	if (!value)
		return;
	char *text = mu_arena_printf(l->arena, "%s=%s", name, value);
	ProtobufCBinaryData word = {strlen(text), (uint8_t *)text};
	for (size_t i = 0; i < l->count; i++)
		if (same_name(&l->word[i], name, strlen(name))) {
			l->word[i] = word;
			return;
		}
	if (l->count < l->cap)
		l->word[l->count++] = word;
}
static void put_U(struct env_list *l, const char *name, uint32_t value)
{
	char text[16];
	snprintf(text, sizeof text, "%u", value);
	put_text(l, name, text);
}
static void put_D(struct env_list *l, const char *name, int64_t value)
{
	char text[24];
	snprintf(text, sizeof text, "%lld", (long long)value);
	put_text(l, name, text);
}
static void put_S(struct env_list *l, const char *name, const char *value)
{
	put_text(l, name, value && value[0] ? value : NULL);
}

/* What a step takes over as the job was given it. */
static const char *hint_of(const Mu__JobSpec *spec, const char *name)
{
	for (size_t i = 0; i < spec->n_hint; i++)
		if (strcmp(spec->hint[i]->name, name) == 0)
			return spec->hint[i]->value;
	return NULL;
}

/* "4(x2),2": counts of neighbours that are equal folded. */
static const char *fold_counts(struct mu_arena *arena, const Mu__AttemptOrder *o, bool tasks)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	for (size_t i = 0, run; i < o->n_alloc; i += run) {
		uint32_t n = tasks ? o->alloc[i]->tasks : o->alloc[i]->cpus;
		for (run = 1; i + run < o->n_alloc &&
			      (tasks ? o->alloc[i + run]->tasks : o->alloc[i + run]->cpus) == n;)
			run++;
		mu_buf_printf(&b, run > 1 ? "%s%u(x%zu)" : "%s%u", i ? "," : "", n, run);
	}
	return b.len ? mu_arena_strdup(arena, (char *)b.data) : NULL;
}

static bool is_gpu(const Mu__GresGot *got)
{
	return got->name && strcmp(got->name, "gpu") == 0;
}

/* The node's indexes of what was given. */
static const char *gpu_list(struct mu_arena *arena, Mu__GresGot *const *got, size_t count,
			    uint32_t *ret_count)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	uint32_t n = 0;
	for (size_t g = 0; g < count; g++)
		for (size_t i = 0; is_gpu(got[g]) && i < got[g]->n_index; i++, n++)
			mu_buf_printf(&b, "%s%u", n ? "," : "", got[g]->index[i]);
	*ret_count = n;
	return n ? mu_arena_strdup(arena, (char *)b.data) : NULL;
}

/* How the devices are named to a job: as its runtime counts what it sees. */
enum naming { BY_NUMBER, BY_UUID };

static void put_unit(struct mu_buf *b, const struct exe_unit *u, const struct exe_env_words *w,
		     enum naming naming, uint32_t seen, uint32_t index)
{
	const char *comma = b->len ? "," : "";
	if (naming == BY_UUID)
		mu_buf_printf(b, "%s%s", comma, u->card->uuid);
	else if (!w->open_devices)
		mu_buf_printf(b, "%s%u", comma, seen);
	else
		mu_buf_printf(b, "%s%u", comma, u && u->card ? u->card->number : index);
}

/* The units with ENV among what was given; NULL where there is none. The fence leaves only these to be
 * counted: 0, 1, ... */
static const char *visible(struct mu_arena *arena, const struct exe_env_words *w, Mu__GresGot *const *got,
			   size_t count, uint32_t env, enum naming naming)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	uint32_t seen = 0;
	for (size_t g = 0; g < count; g++)
		for (size_t i = 0; is_gpu(got[g]) && i < got[g]->n_index; i++) {
			const struct exe_unit *u =
			    w->inventory ? exe_inventory_unit(w->inventory, "gpu", got[g]->index[i]) : NULL;
			if (u && !(u->env & env))
				continue;
			if (naming == BY_UUID && !(u && u->card && u->card->uuid))
				return NULL;
			put_unit(&b, u, w, naming, seen++, got[g]->index[i]);
		}
	return b.len ? mu_arena_strdup(arena, (char *)b.data) : NULL;
}

static bool has_parts(const struct exe_env_words *w, Mu__GresGot *const *got, size_t count)
{
	for (size_t g = 0; w->inventory && g < count; g++)
		for (size_t i = 0; is_gpu(got[g]) && i < got[g]->n_index; i++) {
			const struct exe_unit *u = exe_inventory_unit(w->inventory, "gpu", got[g]->index[i]);
			if (u && u->card && u->card->mig)
				return true;
		}
	return false;
}

/* Parts of a card have no numbers. A container's runtime is outside of the fence: to it a UUID says it all.
 */
static void fill_visible(struct exe_env_words *w, Mu__GresGot *const *got, size_t count,
			 struct mu_arena *arena)
{
	enum naming cuda = has_parts(w, got, count) ? BY_UUID : BY_NUMBER;
	w->gpus_cuda = visible(arena, w, got, count, MU_GPU_ENV_NVIDIA, cuda);
	w->gpus_nvidia = visible(arena, w, got, count, MU_GPU_ENV_NVIDIA, BY_UUID);
	w->gpus_nvidia = w->gpus_nvidia ? w->gpus_nvidia : w->gpus_cuda;
	w->gpus_rocr = visible(arena, w, got, count, MU_GPU_ENV_AMD, BY_NUMBER);
	w->gpus_ze = visible(arena, w, got, count, MU_GPU_ENV_INTEL, BY_NUMBER);
	w->gpus_ordinal = visible(arena, w, got, count, MU_GPU_ENV_OPENCL, BY_NUMBER);
}

static const char *hint(const Mu__JobSpec *spec, const char *name)
{
	for (size_t i = 0; i < spec->n_hint; i++)
		if (spec->hint[i]->name && strcmp(spec->hint[i]->name, name) == 0)
			return spec->hint[i]->value;
	return NULL;
}

/* As --tres-per-task would say it, also of what --cpus-per-task and --gpus-per-task said. */
static const char *tres_per_task(struct mu_arena *arena, const Mu__JobSpec *spec)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	if (spec->has_cpus_per_task)
		mu_buf_printf(&b, "cpu=%u", spec->cpus_per_task);
	for (size_t i = 0; i < spec->n_gres_task; i++) {
		const Mu__GresAsk *g = spec->gres_task[i];
		mu_buf_printf(&b, "%sgres/%s%s%s=%llu", b.len ? "," : "", g->name ? g->name : "",
			      g->type && *g->type ? ":" : "", g->type ? g->type : "",
			      (unsigned long long)g->count);
	}
	return b.len ? mu_arena_strdup(arena, (char *)b.data) : NULL;
}

/* "plane=4" is a distribution and a size. */
static void fill_distribution(struct exe_env_words *w, const Mu__JobSpec *spec, struct mu_arena *arena)
{
	const char *text = hint(spec, "distribution");
	if (!text || strncasecmp(text, "plane=", 6) != 0) {
		w->distribution = text;
		return;
	}
	w->distribution = "plane";
	w->plane_size = mu_arena_strdup(arena, text + 6);
}

static const char *task_list(struct mu_arena *arena, const Mu__StepOrder *step)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	for (size_t i = 0; i < step->n_task; i++)
		mu_buf_printf(&b, "%s%u", i ? "," : "", step->task[i]);
	return b.len ? mu_arena_strdup(arena, (char *)b.data) : NULL;
}

static void fill_array(struct exe_env_words *w, const Mu__AttemptOrder *o)
{
	struct mu_tasks tasks;
	if (!o->spec->array || mu_tasks_parse(o->spec->array, UINT32_MAX, &tasks, NULL))
		return;
	w->array_count = tasks.total;
	w->array_min = mu_tasks_index(&tasks, 0);
	w->array_max = mu_tasks_index(&tasks, tasks.total - 1);
	w->array_step = tasks.step;
	mu_tasks_free(&tasks);
}

static void fill_words(struct exe_env_words *w, const Mu__AttemptOrder *o, const Mu__StepOrder *step,
		       struct mu_arena *arena)
{
	w->tres_per_task = tres_per_task(arena, o->spec);
	fill_distribution(w, o->spec, arena);
	w->cpus_per_node = fold_counts(arena, o, false);
	w->tasks_per_node = fold_counts(arena, o, true);
	if (o->spec->work_dir.len)
		w->submit_dir = mu_arena_printf(arena, "%.*s", (int)o->spec->work_dir.len,
						(char *)o->spec->work_dir.data);
	w->umask = mu_arena_printf(arena, "%04o", o->spec->has_umask ? o->spec->umask : 022);
	if (o->has_array_task)
		fill_array(w, o);
	if (o->here) {
		w->gpus = gpu_list(arena, o->here->gres, o->here->n_gres, &w->gpu_count);
		fill_visible(w, o->here->gres, o->here->n_gres, arena);
	}
	if (step && step->n_gres) {
		w->step_gpus = gpu_list(arena, step->gres, step->n_gres, &w->gpu_count);
		fill_visible(w, step->gres, step->n_gres, arena);
	}
	if (step) {
		w->step_ntasks = step->step_ntasks ? step->step_ntasks : (uint32_t)step->n_task;
		w->step_tasks_per_node = step->step_tasks_per_node
					     ? step->step_tasks_per_node
					     : mu_arena_printf(arena, "%u", w->step_ntasks);
	}
	if (step)
		w->step_gtids = task_list(arena, step);
}

static void put_table(struct env_list *l, const Mu__AttemptOrder *o, const struct exe_env_words *w,
		      const Mu__StepOrder *step)
{
	const Mu__JobSpec *spec = o->spec;
	const Mu__AllocNode *here = o->here;
	enum { JOB, STEP, BATCH };
#define EXE_ENV(scope, name, kind, condition, expression)                       \
	if ((scope == JOB || (scope == STEP) == (step != NULL)) && (condition)) \
		put_##kind(l, #name, expression);
#include "exec/env.def"
#undef EXE_ENV
}

static void put_variable(void *arg, const char *name, const char *value)
{
	put_S(arg, name, value);
}

/* A user who sent no environment (--export=NONE) has a home and a shell all the same. */
static void put_login(struct env_list *l, const Mu__AttemptOrder *o)
{
	struct passwd entry, *found = NULL;
	char text[4096];
	bool known = lookup(l, "HOME") && lookup(l, "USER") && lookup(l, "SHELL");
	if (!known)
		getpwuid_r(o->uid, &entry, text, sizeof text, &found);
	const struct {
		const char *name, *value;
	} row[] = {{"HOME", found ? found->pw_dir : "/"},
		   {"SHELL", found && found->pw_shell[0] ? found->pw_shell : "/bin/sh"},
		   {"USER", o->user},
		   {"LOGNAME", o->user},
		   {"PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"},
		   {"TMPDIR", "/tmp"}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (!lookup(l, row[i].name))
			put_text(l, row[i].name, row[i].value);
}

static bool is_in(const char *list, const char *name, size_t len)
{
	for (const char *p = list; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
		const char *word = p + strspn(p, " ");
		size_t n = strcspn(word, ", ");
		if (n > 7 && strncasecmp(word, "RLIMIT_", 7) == 0) {
			word += 7;
			n -= 7;
		}
		if (n == len && strncasecmp(word, name, len) == 0)
			return true;
	}
	return false;
}

/* A limit of the submitting process that jobs here do not take along. */
static bool is_kept_back(const struct exe_env_words *w, const char *entry)
{
	if (strncmp(entry, EXE_RLIMIT_PREFIX, sizeof EXE_RLIMIT_PREFIX - 1) != 0)
		return false;
	const char *name = entry + sizeof EXE_RLIMIT_PREFIX - 1;
	size_t len = strcspn(name, "=");
	if (name[len] && name[len + 1] == 'U') /* asked for by name */
		return false;
	if (w->propagate_except)
		return is_in(w->propagate_except, "ALL", 3) || is_in(w->propagate_except, name, len);
	return w->propagate && !is_in(w->propagate, "ALL", 3) && !is_in(w->propagate, name, len);
}

void exe_env_build(const Mu__AttemptOrder *o, const struct exe_env_words *words, const Mu__StepOrder *step,
		   struct mu_view base, struct mu_arena *arena, ProtobufCBinaryData **ret, size_t *ret_count)
{
	const size_t table_max = 128 + o->n_het * MU_HET_VARIABLES;
	struct exe_env_words w = *words;
	size_t sent = 0;
	for (size_t i = 0; i < base.len; i++)
		sent += base.data[i] == 0;
	struct env_list l = {arena, mu_arena_alloc(arena, (sent + table_max) * sizeof *l.word), 0,
			     sent + table_max};
	for (size_t at = 0; at < base.len;) {
		size_t len = strnlen((const char *)base.data + at, base.len - at);
		if (at + len < base.len && memchr(base.data + at, '=', len) &&
		    !is_kept_back(words, (const char *)base.data + at))
			l.word[l.count++] =
			    (ProtobufCBinaryData){len, mu_arena_dup(arena, base.data + at, len + 1)};
		at += len + 1;
	}
	fill_words(&w, o, step, arena);
	put_table(&l, o, &w, step);
	for (uint32_t k = 0; k < o->n_het; k++)
		mu_het_variables(o->het[k], k, arena, put_variable, &l);
	sent = l.count;
	put_login(&l, o);
	if (words->ret_defaults)
		*words->ret_defaults = (uint32_t)(l.count - sent);
	*ret = l.word;
	*ret_count = l.count;
}
