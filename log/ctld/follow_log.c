/* ctld/follow_log.c: follows the log of one cluster: asks, folds, writes. See follow.h. */
#include "log/ctld/follow.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "log/ctld/entry_fold.h"
#include "log/ctld/setup.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "proto/version.h"

enum { PAGE_BYTES = 2 << 20, BATCH = 128, ASK_MSEC = 10000, LOCAL_MSEC = 2000, IDLE_MSEC = 300, AWAY_MSEC = 1000 };

/* ---- asking ---- */

static void connect_to(struct followed *f)
{
	const char *run = mu_conf_get(f->conf, "MusterRunDir", "/run/muster"), *ipc[LOG_MEMBERS_MAX], *tcp[LOG_MEMBERS_MAX];
	size_t ipcs = 0, tcps = 0;

	for (size_t i = 0; i < f->conf->n_controller && i < LOG_MEMBERS_MAX; i++) {
		const Mu__ControllerConf *k = f->conf->controller[i];
		ipc[ipcs++] = mu_arena_printf(&f->arena, "ipc://%s/musterd.%s.sock", run, k->name);
		tcp[tcps++] = mu_arena_printf(&f->arena, "tcp://%s:%u", k->addr && *k->addr ? k->addr : k->name, k->port);
	}
	f->local = ipcs && access(run, X_OK) == 0 ? wire_client_new(ipc, ipcs) : NULL;
	f->remote = tcps ? wire_client_new(tcp, tcps) : NULL;
}

static int ask_by(struct followed *f, bool local, struct mu_view body, struct mu_arena *arena, Mu__Reply **ret, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf in = {0};
	struct auth_sent sent = {0};
	struct mu_view opened;
	int code = auth_seal_user(local ? NULL : &f->keys, body, !local, &out, local ? NULL : &sent, err);

	if (!code)
		code = wire_request(local ? f->local : f->remote, (struct mu_view){out.data, out.len}, local ? LOCAL_MSEC : ASK_MSEC, &in, err);
	if (!code)
		code = auth_open_reply(local ? NULL : &f->keys, local ? NULL : &sent, (struct mu_view){in.data, in.len}, arena, &opened, err);
	if (code)
		return code;
	*ret = (Mu__Reply *)mu_pb_unpack(&mu__reply__descriptor, opened.data, opened.len, arena);
	if (!*ret)
		return mu_fail(err, MU_EPROTO, "A controller of %s sent a reply that cannot be read", f->name);
	if ((*ret)->code)
		return mu_fail(err, (*ret)->code, "%s", (*ret)->text ? (*ret)->text : mu_strerror((*ret)->code));
	return 0;
}

/* The entries behind F's position, as many as fit a page. Sockets of this host first. */
static int ask(struct followed *f, struct mu_arena *arena, Mu__LogReply **ret, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0};
	Mu__Request request = MU__REQUEST__INIT;
	Mu__RequestId id = MU__REQUEST_ID__INIT;
	Mu__LogAsk log = MU__LOG_ASK__INIT;
	Mu__Reply *reply = NULL;
	uint8_t nonce[16];
	int code = MU_ECONNECT;

	if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
		return mu_fail(err, MU_EIO, "No random bytes for the request's id: %m");
	id.has_birth_usec = id.has_nonce = 1;
	id.birth_usec = ctl_wall_usec(f->ctl);
	id.nonce = (ProtobufCBinaryData){sizeof nonce, nonce};
	request.id = &id;
	request.client = "muster-follower " MU_VERSION;
	request.ask_case = MU__REQUEST__ASK_LOG;
	request.log = &log;
	log.has_from = log.has_max_bytes = 1;
	log.from = view_pos(f->view) + 1;
	log.max_bytes = PAGE_BYTES;
	mu_pb_pack(&request.base, &body);
	if (f->local)
		code = ask_by(f, true, (struct mu_view){body.data, body.len}, arena, &reply, err);
	if (code && f->remote && f->keys.has_public)
		code = ask_by(f, false, (struct mu_view){body.data, body.len}, arena, &reply, err);
	if (code)
		return code;
	if (reply->answer_case != MU__REPLY__ANSWER_LOG)
		return mu_fail(err, MU_EPROTO, "A controller of %s answered another question", f->name);
	*ret = reply->log;
	return 0;
}

/* ---- taking ---- */

static int take_page(struct followed *f, const Mu__LogReply *page, struct mu_arena *arena, struct mu_err *err)
{
	uint64_t pos = view_pos(f->view);
	int code = 0;

	if (page->n_entry && page->first != pos + 1)
		return mu_fail(err, MU_ECORRUPT, "the archive of cluster %s begins behind position %llu; copy a controller's view directory to here",
			       f->name, (unsigned long long)pos + 1);
	if (pos && (page->chain_before.len != MU_HASH_BYTES || memcmp(page->chain_before.data, f->chain.b, MU_HASH_BYTES) != 0))
		return mu_fail(err, page->n_entry ? MU_ECORRUPT : MU_ENOTREADY,
			       "the log of cluster %s is not the one that was followed up to position %llu", f->name, (unsigned long long)pos);
	for (size_t i = 0; i < page->n_entry && !code;) {
		struct view_entry batch[BATCH];
		size_t n = 0;
		for (; i < page->n_entry && n < BATCH && !code; i++, n++)
			code = ctl_entry_fold(f->st, &f->chain, ++pos, (struct mu_view){page->entry[i].data, page->entry[i].len}, arena, &batch[n], err);
		if (!code)
			code = view_apply(f->view, batch, n, err);
	}
	return code;
}

/* The number of entries taken, or an error. */
static int follow_once(struct followed *f, struct mu_err *err)
{
	struct mu_arena arena = {0};
	Mu__LogReply *page = NULL;
	int code = ask(f, &arena, &page, err);

	if (!code) {
		atomic_store(&f->heard_msec, ctl_mono_msec());
		code = take_page(f, page, &arena, err);
		/* What was folded and could not be written cannot be folded again. */
		if (code && code != MU_ENOTREADY)
			atomic_store(&f->lost, true);
	}
	code = code ? code : (int)page->n_entry;
	mu_arena_free(&arena);
	return code;
}

/* ---- the thread ---- */

struct work {
	struct followed *f;
	const _Atomic bool *stop;
};

static void note_trouble(struct followed *f, const char *text)
{
	bool news;

	pthread_mutex_lock(&f->lock);
	news = strncmp(f->trouble, text, sizeof f->trouble - 1) != 0;
	(void)snprintf(f->trouble, sizeof f->trouble, "%s", text);
	pthread_mutex_unlock(&f->lock);
	if (news && *text)
		diag_error("Cluster %s: %s", f->name, text);
	else if (news)
		diag_info("Cluster %s is followed from position %llu.", f->name, (unsigned long long)view_pos(f->view));
}

static void rest(const _Atomic bool *stop, unsigned msec)
{
	for (unsigned waited = 0; waited < msec && !atomic_load(stop); waited += 50)
		(void)nanosleep(&(struct timespec){.tv_nsec = 50 * 1000000L}, NULL);
}

static void *follow(void *arg)
{
	struct work *w = arg;
	struct followed *f = w->f;

	while (!atomic_load(w->stop) && !atomic_load(&f->lost)) {
		struct mu_err err = {0};
		int n = follow_once(f, &err);
		note_trouble(f, n < 0 ? err.text : "");
		if (n <= 0)
			rest(w->stop, n < 0 ? AWAY_MSEC : IDLE_MSEC);
	}
	free(w);
	return NULL;
}

int followed_open(struct followed *f, const char *dir, struct mu_err *err)
{
	char path[4096], key[4096];
	int code = ctl_load_conf(f->conf_path, &f->arena, &f->conf, err);

	if (code)
		return code;
	pthread_mutex_init(&f->lock, NULL);
	f->name = f->conf->cluster_name;
	(void)snprintf(key, sizeof key, "%s/cluster.pub", mu_conf_get(f->conf, "MusterKeyDir", "/etc/muster/keys"));
	f->keys.has_public = access(key, F_OK) == 0;
	if (f->keys.has_public && (code = auth_load_public(key, f->keys.cluster_public, err)))
		return code;
	(void)snprintf(path, sizeof path, "%s/%s", dir, f->name);
	if (mkdir(path, 0700) && access(path, W_OK))
		return mu_fail(err, MU_EIO, "The directory %s cannot be made: %m.", path);
	code = view_open(path, false, &f->view, err);
	if (!code)
		code = view_load_state(f->view, &f->st, err);
	if (code)
		return mu_wrap(err, "Opening what is kept of cluster %s", f->name);
	view_tip(f->view, &f->chain, NULL, NULL);
	connect_to(f);
	return 0;
}

int followed_start(struct followed *f, const _Atomic bool *stop, struct mu_err *err)
{
	struct work *w = calloc(1, sizeof *w);

	if (!w)
		return mu_fail(err, MU_ENOMEM, "No memory to follow %s.", f->name);
	*w = (struct work){f, stop};
	if (pthread_create(&f->thread, NULL, follow, w)) {
		free(w);
		return mu_fail(err, MU_EINTERNAL, "A thread to follow %s could not be started.", f->name);
	}
	f->started = true;
	return 0;
}

void followed_close(struct followed *f)
{
	if (f->started)
		pthread_join(f->thread, NULL);
	f->local = f->local ? wire_client_free(f->local) : NULL;
	f->remote = f->remote ? wire_client_free(f->remote) : NULL;
	f->st = sch_state_free(f->st);
	f->view = view_close(f->view);
	mu_arena_free(&f->arena);
}
