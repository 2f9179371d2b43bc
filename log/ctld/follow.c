/* ctld/follow.c: the follower's start, and its answers. See follow.h. */
#include "log/ctld/follow.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "log/ctld/setup.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "query/rows.h"

enum { AWAY_MSEC = 3000, ADDRESSES_MAX = 8 }; /* a cluster that was not heard for so long is away */

struct ctl_follow {
	struct followed cluster[FOLLOW_CLUSTERS_MAX];
	size_t clusters;
	const char *address[ADDRESSES_MAX];
	size_t addresses;
	_Atomic bool stop;
};

/* ---- start ---- */

/* MusterFollower=/run/muster/follower.sock,10.0.0.5:6830 */
static int read_addresses(struct ctl *c, struct mu_err *err)
{
	char *text = mu_arena_strdup(&c->conf_arena, mu_conf_get(c->conf, "MusterFollower", "")), *save = NULL;
	struct ctl_follow *f = c->follow;

	for (char *w = strtok_r(text, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
		if (f->addresses == ADDRESSES_MAX)
			return mu_fail(err, MU_ELIMIT, "MusterFollower names more than %d addresses.", ADDRESSES_MAX);
		if (*w == '/' && strlen(w) > 100)
			return mu_fail(err, MU_ELIMIT, "The socket path %s is longer than the 100 bytes a Unix socket may have.", w);
		if (*w == '/')
			c->socket_path = w;
		f->address[f->addresses++] = mu_arena_printf(&c->conf_arena, *w == '/' ? "ipc://%s" : "tcp://%s", w);
		if (*w != '/' && !c->keys.has_secret) {
			char path[4096];
			(void)snprintf(path, sizeof path, "%s/cluster.secret", mu_conf_get(c->conf, "MusterKeyDir", "/etc/muster/keys"));
			int code = auth_load_secret(path, c->keys.cluster_secret, c->keys.cluster_public, err);
			if (code)
				return mu_wrap(err, "Reading the key that signs answers over the network");
			c->keys.has_secret = c->keys.has_public = true;
		}
	}
	return f->addresses ? 0
			    : mu_fail(err, MU_EINVAL, "MusterFollower in %s says where a follower listens: a socket's path, ADDRESS:PORT, or both.",
				      c->opt.conf_path);
}

static int read_clusters(struct ctl *c, struct mu_err *err)
{
	char *text = mu_arena_strdup(&c->conf_arena, mu_conf_get(c->conf, "MusterFollow", "")), *save = NULL;
	struct ctl_follow *f = c->follow;

	for (char *w = strtok_r(text, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
		if (f->clusters == FOLLOW_CLUSTERS_MAX)
			return mu_fail(err, MU_ELIMIT, "MusterFollow names more than %d clusters.", FOLLOW_CLUSTERS_MAX);
		f->cluster[f->clusters].ctl = c;
		f->cluster[f->clusters++].conf_path = w;
	}
	return f->clusters ? 0
			   : mu_fail(err, MU_EINVAL, "MusterFollow in %s names the clusters to follow, each by the path of its muster.conf.",
				     c->opt.conf_path);
}

int ctl_follow_setup(struct ctl *c, struct mu_err *err)
{
	int code;

	(void)snprintf(c->opt.name, sizeof c->opt.name, "follower");
	c->follow = calloc(1, sizeof *c->follow);
	if (!c->follow)
		return mu_fail(err, MU_ENOMEM, "No memory for a follower.");
	c->opt.conf_path = ctl_conf_path(c->opt.conf_path);
	code = ctl_load_conf(c->opt.conf_path, &c->conf_arena, &c->conf, err);
	if (!code)
		code = ctl_slurm_user(c, err);
	if (!code)
		code = read_clusters(c, err);
	if (!code)
		code = read_addresses(c, err);
	if (code)
		return code;
	auth_munge_info(mu_conf_get(c->conf, "AuthInfo", NULL));
	c->state_dir = c->raft_dir = c->view_dir =
		mu_arena_strdup(&c->conf_arena, mu_conf_get(c->conf, "MusterFollowerDir", "/var/spool/muster-follower"));
	return ctl_own_dir(c, c->state_dir, err);
}

int ctl_follow_run(struct ctl *c)
{
	struct ctl_follow *f = c->follow;
	struct mu_err err = {0};
	sigset_t wanted;
	int got = 0;

	/* Blocked before there are threads: one place takes them. */
	(void)sigemptyset(&wanted);
	(void)sigaddset(&wanted, SIGTERM);
	(void)sigaddset(&wanted, SIGINT);
	(void)sigaddset(&wanted, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &wanted, NULL);
	atomic_store(&c->founded, true);
	for (size_t i = 0; i < f->clusters; i++) {
		if (followed_open(&f->cluster[i], c->state_dir, &err))
			diag_fatal("%s", err.text);
		for (size_t k = 0; k < i; k++)
			if (strcasecmp(f->cluster[k].name, f->cluster[i].name) == 0)
				diag_fatal("%s and %s are both of cluster %s.", f->cluster[k].conf_path, f->cluster[i].conf_path, f->cluster[i].name);
	}
	if (ctl_reply_start(c, &err) || ctl_readers_start(c, &err) || ctl_edge_listen(c, f->address, f->addresses, &err))
		diag_fatal("%s", err.text);
	for (size_t i = 0; i < f->clusters; i++)
		if (followed_start(&f->cluster[i], &f->stop, &err))
			diag_fatal("%s", err.text);
	diag_info("The follower of %zu clusters starts.", f->clusters);
	while (!sigwait(&wanted, &got) && got == SIGHUP)
		(void)diag_reopen();
	atomic_store(&f->stop, true);
	wire_server_close(c->server);
	ctl_readers_stop(c);
	ctl_reply_stop(c);
	for (size_t i = 0; i < f->clusters; i++)
		followed_close(&f->cluster[i]);
	diag_info("The follower has stopped (signal %d).", got);
	mu_arena_free(&c->conf_arena);
	free(f);
	return 0;
}

/* ---- answers ---- */

static struct followed *named(struct ctl_follow *f, const char *name)
{
	for (size_t i = 0; name && i < f->clusters; i++)
		if (strcasecmp(f->cluster[i].name, name) == 0)
			return &f->cluster[i];
	return NULL;
}

/* How long ago the cluster was heard; 0: just now. */
static int64_t away_usec(const struct followed *f)
{
	int64_t heard = atomic_load(&((struct followed *)f)->heard_msec), since = ctl_mono_msec() - heard;

	if (heard && since < AWAY_MSEC && !atomic_load(&((struct followed *)f)->lost))
		return 0;
	/* Never heard since the start: as old as what is kept. */
	struct mu_hash chain, digest;
	int64_t last = 0;
	view_tip(f->view, &chain, &digest, &last);
	int64_t age = heard ? since * 1000 : ctl_wall_usec(f->ctl) - last;
	return age > 0 ? age : 1;
}

/* WHAT_FOLLOWED: a row for each cluster. */
static void answer_followed(struct ctl *c, struct ctl_req *req)
{
	struct ctl_follow *f = c->follow;
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__Rows rows = MU__ROWS__INIT;

	rows.row = mu_arena_alloc(&req->arena, (f->clusters + 1) * sizeof *rows.row);
	for (size_t i = 0; i < f->clusters; i++) {
		MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
		struct followed *k = &f->cluster[i];
		Mu__FollowedRow row = MU__FOLLOWED_ROW__INIT;
		char trouble[sizeof k->trouble];
		pthread_mutex_lock(&k->lock);
		memcpy(trouble, k->trouble, sizeof trouble);
		pthread_mutex_unlock(&k->lock);
		row.name = (char *)k->name;
		row.has_pos = row.has_age_usec = 1;
		row.pos = view_pos(k->view);
		row.age_usec = away_usec(k);
		row.trouble = *trouble ? trouble : NULL;
		mu_pb_pack(&row.base, &out);
		rows.row[rows.n_row++] = (ProtobufCBinaryData){.len = out.len, .data = mu_arena_dup(&req->arena, out.data, out.len)};
	}
	rows.has_now_usec = 1;
	rows.now_usec = ctl_wall_usec(c);
	reply.answer_case = MU__REPLY__ANSWER_ROWS;
	reply.rows = &rows;
	ctl_req_answer(c, req, &reply);
}

static void answer(struct ctl *c, void *arg)
{
	struct ctl_req *req = arg;
	struct followed *f = named(c->follow, req->request->cluster);
	struct query_caller caller = {.uid = req->author->uid, .operator = req->author->operator_, .user = req->author->user};
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__Rows rows = MU__ROWS__INIT;
	struct mu_err err = {0};
	int code = f ? query_rows(f->view, req->request->query, &caller, &req->arena, &rows, &err)
		     : mu_fail(&err, MU_ENOENT, "'%s' is no cluster that is followed here", req->request->cluster ? req->request->cluster : "");

	if (code) {
		ctl_req_fail(c, req, code, err.text);
		return;
	}
	rows.age_usec = away_usec(f);
	rows.has_age_usec = rows.age_usec > 0;
	reply.answer_case = MU__REPLY__ANSWER_ROWS;
	reply.rows = &rows;
	ctl_req_answer(c, req, &reply);
}

void ctl_follow_route(struct ctl *c, struct ctl_req *req)
{
	if (req->request->ask_case != MU__REQUEST__ASK_QUERY) {
		ctl_req_fail(c, req, MU_EDISABLED, "A follower answers questions about clusters; it changes nothing in them.");
		return;
	}
	if (req->request->query->what == MU__WHAT__WHAT_FOLLOWED)
		answer_followed(c, req);
	else if (ctl_read_full(c))
		ctl_req_fail(c, req, MU_EBUSY, "The follower has too many queries waiting; try again");
	else
		ctl_read_task(c, answer, req);
}
