/* exec/shepherd_pmi.c: the process manager's side of PMI-1 and PMI-2: how the tasks of an MPI program find
 * each other. Each task has a socket of its own (PMI_FD). What tasks put is told to srun when all tasks here
 * wait at a fence; srun gathers all nodes' words and hands them back, and the fence opens. Owns: keys and
 * values, the two wire formats. Leaves to srun: who is still missing.
 *
 * PMI-1: one line, "cmd=put kvsname=X key=K value=V\n". PMI-2: after a first such line, six characters with
 * the length, then "cmd=kvs-put;key=K;value=V;" where ";;" stands for a semicolon. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/shepherd_step.h"
#include "log/stream.h"
#include "proto/base/map.h"
#include "proto/states.h"

enum {
	LINE_MAX_BYTES = 64 * 1024,
	FIELDS_MAX = 32,
	VALUES_MAX = 1 << 20,
	FRESH_MAX = 4 << 20,
	LENGTH_CHARS = 6
};

struct shep_pmi {
	int fd, task_fd; /* ours; the task's, until it was started; -1: closed */
	bool v2, waits;
	struct mu_buf in, out;
	char wanted[128]; /* key of a node attribute that this task waits for; "": none */
	char thread[32];
};

/* Of the step: keys to values (heap strings), and what was put here since the last fence. */
struct shep_pmi_step {
	struct mu_map value, node_value;
	struct mu_buf fresh, from_srun;
	size_t waiting;
	uint32_t size;
	char job_id[32], mapping[1024];
};

struct field {
	char *name, *value;
};
struct words {
	struct field field[FIELDS_MAX];
	size_t count;
};

static const char *get(const struct words *w, const char *name)
{
	for (size_t i = 0; i < w->count; i++)
		if (strcmp(w->field[i].name, name) == 0)
			return w->field[i].value;
	return "";
}

static void store(struct mu_map *map, const char *key, const char *value)
{
	if (map->count >= VALUES_MAX)
		return;
	char *copy = strdup(value);
	if (!copy)
		abort();
	free(mu_map_put_str(map, key, copy));
}

/* ---- reading ---- */

/* LINE is cut into its fields. */
static void read_v1(char *line, struct words *w)
{
	for (char *save = NULL, *word = strtok_r(line, " ", &save); word && w->count < FIELDS_MAX;
	     word = strtok_r(NULL, " ", &save)) {
		char *equals = strchr(word, '=');
		if (!equals)
			continue;
		*equals = 0;
		w->field[w->count++] = (struct field){word, equals + 1};
	}
}

static void read_v2(char *text, struct words *w)
{
	for (char *p = text; *p && w->count < FIELDS_MAX;) {
		char *equals = strchr(p, '='), *to, *from;
		if (!equals)
			return;
		*equals = 0;
		w->field[w->count++] = (struct field){p, equals + 1};
		for (to = from = equals + 1; *from && (*from != ';' || from[1] == ';'); from++) {
			from += *from == ';';
			*to++ = *from;
		}
		bool more = *from != 0;
		*to = 0;
		if (!more)
			return;
		p = from + 1;
	}
}

/* ---- answering ---- */

static void send_out(struct shep_pmi *p)
{
	while (p->fd >= 0 && p->out.len) {
		ssize_t n = send(p->fd, p->out.data, p->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return;
		memmove(p->out.data, p->out.data + n, p->out.len - (size_t)n);
		p->out.len -= (size_t)n;
	}
}

static void say_v1(struct shep_pmi *p, const char *line)
{
	mu_buf_str(&p->out, line);
	mu_buf_str(&p->out, "\n");
	send_out(p);
}

static void add_v2(struct mu_buf *b, const char *name, const char *value)
{
	mu_buf_printf(b, "%s=", name);
	for (; *value; value++)
		mu_buf_printf(b, *value == ';' ? ";;" : "%c", *value);
	mu_buf_str(b, ";");
}

/* "cmd=WHAT-response;...": NAME may be NULL. */
static void say_v2(struct shep_pmi *p, const char *what, int rc, const char *more, const char *name,
		   const char *value)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	mu_buf_printf(&b, "cmd=%s-response;", what);
	if (p->thread[0])
		add_v2(&b, "thrid", p->thread);
	mu_buf_printf(&b, "rc=%d;%s", rc, more);
	if (name)
		add_v2(&b, name, value);
	mu_buf_printf(&p->out, "%6zu", b.len);
	mu_buf_add(&p->out, b.data, b.len);
	send_out(p);
}

/* ---- fences ---- */

/* All tasks here wait: what they have put goes to srun. */
static void pass_on(struct shep_step *s)
{
	struct shep_pmi_step *g = s->pmi;
	if (g->waiting < s->task_count || s->srun.fd < 0)
		return;
	stream_put(&s->srun.out, STREAM_PMI, 0, g->fresh.data ? (void *)g->fresh.data : (void *)"",
		   g->fresh.len);
	mu_buf_reset(&g->fresh);
	g->waiting = 0;
}

static void wait_at_fence(struct shep_step *s, struct shep_pmi *p)
{
	if (p->waits)
		return;
	p->waits = true;
	s->pmi->waiting++;
	pass_on(s);
}

void shep_pmi_frame(struct shep_step *s, const struct stream_frame *f)
{
	struct shep_pmi_step *g = s->pmi;
	if (!g || stream_join(&g->from_srun, f) != 1)
		return;
	const char *p = (const char *)g->from_srun.data, *end = p + g->from_srun.len;
	while (p && p < end) {
		const char *key = p, *value = memchr(p, 0, (size_t)(end - p));
		value = value ? value + 1 : end;
		const char *stop = value < end ? memchr(value, 0, (size_t)(end - value)) : NULL;
		if (!stop)
			break;
		store(&g->value, key, value);
		p = stop + 1;
	}
	mu_buf_reset(&g->from_srun);
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_pmi *t = s->task[i].pmi;
		if (!t->waits)
			continue;
		t->waits = false;
		if (t->v2)
			say_v2(t, "kvs-fence", 0, "", NULL, NULL);
		else
			say_v1(t, "cmd=barrier_out");
	}
}

/* ---- commands ---- */

static void put(struct shep_step *s, const char *key, const char *value)
{
	struct shep_pmi_step *g = s->pmi;
	store(&g->value, key, value);
	if (g->fresh.len + strlen(key) + strlen(value) + 2 > FRESH_MAX)
		return;
	mu_buf_add(&g->fresh, key, strlen(key) + 1);
	mu_buf_add(&g->fresh, value, strlen(value) + 1);
}

static const char *look_up(struct shep_step *s, const char *key)
{
	if (strcmp(key, "PMI_process_mapping") == 0)
		return s->pmi->mapping[0] ? s->pmi->mapping : NULL;
	return mu_map_get_str(&s->pmi->value, key);
}

static void abort_step(struct shep_step *s, const struct shep_task *t, const char *code)
{
	char text[96];
	snprintf(text, sizeof text, "task %u called for the step's end by PMI, exit code %.16s", t->number,
		 code);
	shep_say(s, "%s", text);
	shep_end(s, END_NONE, 0, true);
}

static void obey_v1(struct shep_step *s, struct shep_task *t, const struct words *w)
{
	struct shep_pmi *p = t->pmi;
	char line[256];
	const char *cmd = get(w, "cmd"), *found;
	if (strcmp(cmd, "init") == 0) {
		p->v2 = strcmp(get(w, "pmi_version"), "2") == 0;
		say_v1(p, p->v2 ? "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0"
				: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0");
	} else if (strcmp(cmd, "get_maxes") == 0) {
		say_v1(p, "cmd=maxes kvsname_max=256 keylen_max=256 vallen_max=1024");
	} else if (strcmp(cmd, "get_appnum") == 0) {
		say_v1(p, "cmd=appnum appnum=0");
	} else if (strcmp(cmd, "get_my_kvsname") == 0) {
		snprintf(line, sizeof line, "cmd=my_kvsname kvsname=%s", s->pmi->job_id);
		say_v1(p, line);
	} else if (strcmp(cmd, "get_universe_size") == 0) {
		snprintf(line, sizeof line, "cmd=universe_size size=%u", s->pmi->size);
		say_v1(p, line);
	} else if (strcmp(cmd, "put") == 0) {
		put(s, get(w, "key"), get(w, "value"));
		say_v1(p, "cmd=put_result rc=0 msg=success");
	} else if (strcmp(cmd, "get") == 0) {
		found = look_up(s, get(w, "key"));
		mu_buf_str(&p->out, found ? "cmd=get_result rc=0 msg=success value="
					  : "cmd=get_result rc=-1 msg=key_not_found value=unknown");
		say_v1(p, found ? found : "");
	} else if (strcmp(cmd, "barrier_in") == 0) {
		wait_at_fence(s, p);
	} else if (strcmp(cmd, "finalize") == 0) {
		say_v1(p, "cmd=finalize_ack");
	} else if (strcmp(cmd, "abort") == 0) {
		abort_step(s, t, get(w, "exitcode"));
	} else {
		snprintf(line, sizeof line, "cmd=%.64s_result rc=-1 msg=not_supported", cmd);
		say_v1(p, line);
	}
}

static void job_attribute(struct shep_step *s, struct shep_pmi *p, const char *cmd, const char *key)
{
	char number[16];
	const char *found = look_up(s, key);
	snprintf(number, sizeof number, "%u", s->pmi->size);
	if (strcmp(key, "universeSize") == 0)
		found = number;
	say_v2(p, cmd, 0, found ? "found=TRUE;" : "found=FALSE;", found ? "value" : NULL, found);
}

static void put_node_value(struct shep_step *s, const char *key, const char *value)
{
	store(&s->pmi->node_value, key, value);
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_pmi *t = s->task[i].pmi;
		if (t->wanted[0] && strcmp(t->wanted, key) == 0) {
			t->wanted[0] = 0;
			say_v2(t, "info-getnodeattr", 0, "found=TRUE;", "value", value);
		}
	}
}

static void get_node_value(struct shep_step *s, struct shep_pmi *p, const struct words *w)
{
	const char *key = get(w, "key"), *found = mu_map_get_str(&s->pmi->node_value, key);
	if (!found && strcmp(get(w, "wait"), "TRUE") == 0)
		snprintf(p->wanted, sizeof p->wanted, "%s", key);
	else
		say_v2(p, "info-getnodeattr", 0, found ? "found=TRUE;" : "found=FALSE;",
		       found ? "value" : NULL, found);
}

static void obey_v2(struct shep_step *s, struct shep_task *t, const struct words *w)
{
	struct shep_pmi *p = t->pmi;
	char more[256];
	const char *cmd = get(w, "cmd"), *found;
	snprintf(p->thread, sizeof p->thread, "%s", get(w, "thrid"));
	if (strcmp(cmd, "fullinit") == 0) {
		snprintf(more, sizeof more,
			 "pmi-version=2;pmi-subversion=0;rank=%u;size=%u;appnum=0;debugged=FALSE;"
			 "pmiverbose=FALSE;",
			 t->number, s->pmi->size);
		say_v2(p, cmd, 0, more, NULL, NULL);
	} else if (strcmp(cmd, "job-getid") == 0) {
		say_v2(p, cmd, 0, "", "jobid", s->pmi->job_id);
	} else if (strcmp(cmd, "info-getjobattr") == 0) {
		job_attribute(s, p, cmd, get(w, "key"));
	} else if (strcmp(cmd, "info-putnodeattr") == 0) {
		put_node_value(s, get(w, "key"), get(w, "value"));
		say_v2(p, cmd, 0, "", NULL, NULL);
	} else if (strcmp(cmd, "info-getnodeattr") == 0) {
		get_node_value(s, p, w);
	} else if (strcmp(cmd, "kvs-put") == 0) {
		put(s, get(w, "key"), get(w, "value"));
		say_v2(p, cmd, 0, "", NULL, NULL);
	} else if (strcmp(cmd, "kvs-get") == 0) {
		found = look_up(s, get(w, "key"));
		say_v2(p, cmd, 0, found ? "found=TRUE;" : "found=FALSE;", found ? "value" : NULL, found);
	} else if (strcmp(cmd, "kvs-fence") == 0) {
		wait_at_fence(s, p);
	} else if (strcmp(cmd, "finalize") == 0) {
		say_v2(p, cmd, 0, "", NULL, NULL);
	} else if (strcmp(cmd, "abort") == 0) {
		abort_step(s, t, get(w, "exitcode"));
	} else {
		say_v2(p, cmd, 1, "errmsg=not supported;", NULL, NULL);
	}
}

/* ---- a task's socket ---- */

static void shut(struct shep_pmi *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Length of the first whole message and of what stands before it; 0: more bytes are needed; -1: malformed. */
static long whole(const struct shep_pmi *p, size_t *ret_head)
{
	*ret_head = 0;
	if (!p->v2) {
		const uint8_t *end = p->in.len ? memchr(p->in.data, '\n', p->in.len) : NULL;
		return end ? end - p->in.data + 1 : p->in.len > LINE_MAX_BYTES ? -1 : 0;
	}
	char length[LENGTH_CHARS + 1] = "";
	if (p->in.len < LENGTH_CHARS)
		return 0;
	memcpy(length, p->in.data, LENGTH_CHARS);
	long n = strtol(length, NULL, 10);
	*ret_head = LENGTH_CHARS;
	if (n <= 0 || n > LINE_MAX_BYTES)
		return -1;
	return p->in.len >= LENGTH_CHARS + (size_t)n ? n : 0;
}

void shep_pmi_serve(struct shep_step *s, struct shep_task *t)
{
	struct shep_pmi *p = t->pmi;
	uint8_t chunk[4096];
	size_t head;
	long len;
	send_out(p);
	ssize_t n = recv(p->fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		shut(p);
		return;
	}
	mu_buf_add(&p->in, chunk, (size_t)n);
	while (p->fd >= 0 && (len = whole(p, &head)) != 0) {
		struct words w = {.count = 0};
		bool v2 = p->v2;
		if (len < 0) {
			shut(p);
			return;
		}
		char *text = strndup((char *)p->in.data + head, (size_t)len);
		if (!text)
			abort();
		text[strcspn(text, "\n")] = 0;
		size_t used = head + (size_t)len;
		memmove(p->in.data, p->in.data + used, p->in.len - used);
		p->in.len -= used;
		if (v2)
			read_v2(text, &w);
		else
			read_v1(text, &w);
		if (v2)
			obey_v2(s, t, &w);
		else
			obey_v1(s, t, &w);
		free(text);
	}
}

int shep_pmi_fd(const struct shep_task *t)
{
	return t->pmi ? t->pmi->fd : -1;
}

bool shep_pmi_has_output(const struct shep_task *t)
{
	return t->pmi && t->pmi->out.len > 0;
}

int shep_pmi_open(struct shep_step *s, struct mu_err *err)
{
	const Mu__StepOrder *o = s->order;
	if (!o->pmi)
		return 0;
	s->pmi = mu_arena_alloc(&s->arena, sizeof *s->pmi);
	s->pmi->size = o->step_ntasks ? o->step_ntasks : (uint32_t)o->n_task;
	snprintf(s->pmi->job_id, sizeof s->pmi->job_id, "%u.%u", o->job, o->step);
	if (o->pmi_mapping && strlen(o->pmi_mapping) < sizeof s->pmi->mapping)
		snprintf(s->pmi->mapping, sizeof s->pmi->mapping, "%s", o->pmi_mapping);
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_pmi *p = s->task[i].pmi = mu_arena_alloc(&s->arena, sizeof *p);
		int pair[2];
		p->fd = p->task_fd = -1;
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
			return mu_fail(err, MU_EIO, "no socket for PMI: %s", strerror(errno));
		p->fd = pair[0];
		p->task_fd = pair[1];
	}
	return 0;
}

size_t shep_pmi_env(struct shep_step *s, const struct shep_task *t, char **env)
{
	for (size_t i = 0; i < t->pmix_env_count; i++)
		env[i] = t->pmix_env[i];
	if (t->pmix_env_count)
		return t->pmix_env_count;
	if (!t->pmi)
		return 0;
	fcntl(t->pmi->task_fd, F_SETFD, 0);
	env[0] = mu_arena_printf(&s->arena, "PMI_FD=%d", t->pmi->task_fd);
	env[1] = mu_arena_printf(&s->arena, "PMI_RANK=%u", t->number);
	env[2] = mu_arena_printf(&s->arena, "PMI_SIZE=%u", s->pmi->size);
	env[3] = mu_arena_printf(&s->arena, "PMI_JOBID=%s", s->pmi->job_id);
	env[4] = "PMI_SPAWNED=0";
	return 5;
}

void shep_pmi_started(struct shep_task *t)
{
	if (t->pmi && t->pmi->task_fd >= 0)
		close(t->pmi->task_fd);
	if (t->pmi)
		t->pmi->task_fd = -1;
}

static void free_values(struct mu_map *map)
{
	const uint8_t *key;
	size_t len;
	for (char *value = mu_map_seek(map, NULL, 0, 0, &key, &len); value;
	     value = mu_map_seek(map, key, len, 1, &key, &len))
		free(value);
	mu_map_clear(map);
}

void shep_pmi_close(struct shep_step *s)
{
	for (size_t i = 0; s->pmi && i < s->task_count; i++) {
		struct shep_pmi *p = s->task[i].pmi;
		if (!p)
			continue;
		shep_pmi_started(&s->task[i]);
		shut(p);
		mu_buf_free(&p->in);
		mu_buf_free(&p->out);
	}
	if (!s->pmi)
		return;
	free_values(&s->pmi->value);
	free_values(&s->pmi->node_value);
	mu_buf_free(&s->pmi->fresh);
	mu_buf_free(&s->pmi->from_srun);
}
