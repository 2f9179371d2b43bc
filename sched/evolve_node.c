/* sched/evolve_node.c: what nodes say of themselves, what operators say of nodes, silence and fencing.
 * A node that fails ends its jobs in the accounts, but what they hold of it stays held until the node's word
 * or its fencing. */
#include "sched/state.h"

#include <stdlib.h>

static void set_reason(struct sch_ev *ev, struct sch_node *n, const char *reason, const char *user,
		       uint32_t uid)
{
	sch__replace(&n->row->reason, reason);
	sch__replace(&n->row->reason_user, reason ? user : NULL);
	SCH_SET(n->row, reason_uid, reason ? uid : 0);
	SCH_SET(n->row, reason_usec, reason ? ev->now : 0);
}

static void state_changed(struct sch_ev *ev, struct sch_node *n)
{
	sch__touch(ev->st, &n->rec);
	sch__node_index(ev->st, n);
	sch__node_moments_index(ev->st, n);
}

/* Jobs that hold something of N, in ARENA; each once. Folding may change the node's own list. */
static struct sch_hold *holds_of(struct sch_ev *ev, const struct sch_node *n, uint32_t *ret_count)
{
	*ret_count = n->hold_count;
	return mu_arena_dup(ev->arena, n->hold, n->hold_count * sizeof(n->hold[0]));
}

void sch__node_down(struct sch_ev *ev, struct sch_node *n, const char *reason, const char *user, uint32_t uid)
{
	uint32_t count;
	struct sch_hold *hold = holds_of(ev, n, &count);
	n->row->base_state = NODE_DOWN;
	set_reason(ev, n, reason, user, uid);
	state_changed(ev, n);
	for (uint32_t i = 0; i < count; i++)
		if (hold[i].attempt == hold[i].job->attempt)
			sch__job_node_failed(ev, hold[i].job, n);
}

/* Nothing of attempt HOLD is left on N. */
static void release(struct sch_ev *ev, struct sch_node *n, const struct sch_hold *hold)
{
	struct sch_job *j = hold->job;
	if (hold->attempt == j->attempt)
		sch__job_node_failed(ev, j, n);
	struct sch_alloc *a = sch__alloc_on(j, hold->attempt, n);
	if (a)
		sch__alloc_released(ev, j, a);
}

void sch__node_release_all(struct sch_ev *ev, struct sch_node *n)
{
	uint32_t count;
	struct sch_hold *hold = holds_of(ev, n, &count);
	for (uint32_t i = 0; i < count; i++)
		release(ev, n, &hold[i]);
}

/* ---- registration ---- */

static bool is_held(const Mu__NodeRegistered *r, const struct sch_hold *h)
{
	for (size_t i = 0; i < r->n_held; i++)
		if (r->held[i]->job == h->job->id && r->held[i]->attempt == h->attempt)
			return true;
	return false;
}

/* Attempts that were lost with the node and that it no longer has are over there. Others it may just not have
 * pulled yet. */
static void release_lost(struct sch_ev *ev, struct sch_node *n, const Mu__NodeRegistered *r)
{
	uint32_t count;
	struct sch_hold *hold = holds_of(ev, n, &count);
	for (uint32_t i = 0; i < count; i++) {
		struct sch_alloc *a = sch__alloc_on(hold[i].job, hold[i].attempt, n);
		if (a && a->lost && !is_held(r, &hold[i]))
			release(ev, n, &hold[i]);
	}
}

static void set_bytes(ProtobufCBinaryData *dst, protobuf_c_boolean *has, const ProtobufCBinaryData *src)
{
	free(dst->data);
	dst->data = NULL;
	dst->len = 0;
	*has = src->len > 0;
	if (!src->len)
		return;
	dst->data = malloc(src->len);
	if (!dst->data)
		abort();
	memcpy(dst->data, src->data, src->len);
	dst->len = src->len;
}

static void copy_words(struct sch_node *n, const Mu__NodeRow *said)
{
	sch__replace(&n->row->arch, said->arch);
	sch__replace(&n->row->os, said->os);
	sch__replace(&n->row->version, said->version);
	sch__replace(&n->row->addr, said->addr);
	SCH_SET(n->row, port, said->port);
	SCH_SET(n->row, boot_usec, said->boot_usec);
	SCH_SET(n->row, agent_start_usec, said->agent_start_usec);
	SCH_SET(n->row, emulated, said->emulated);
	set_bytes(&n->row->boot_id, &n->row->has_boot_id, &said->boot_id);
}

/* ReturnToService: 0 never by itself, 1 only a node that was down for its silence, 2 always. */
static bool comes_back(const struct sch_ev *ev, const struct sch_node *n)
{
	uint32_t rule = sch__conf(ev->st)->return_to_service;
	return rule >= 2 || (rule == 1 && sch__same(n->row->reason, SCH_NOT_RESPONDING));
}

static void registered_state(struct sch_ev *ev, struct sch_node *n, bool rebooted, const char *too_little)
{
	if (n->row->base_state == NODE_UNKNOWN) {
		n->row->base_state = NODE_IDLE;
	} else if (n->row->base_state == NODE_DOWN && comes_back(ev, n) && !too_little) {
		n->row->base_state = NODE_IDLE;
		if (!(n->row->flags & (NODE_FLAG_DRAIN | NODE_FLAG_FAIL)))
			set_reason(ev, n, NULL, NULL, 0);
	} else if (n->row->base_state == NODE_IDLE && rebooted && sch__conf(ev->st)->return_to_service < 2) {
		n->row->base_state = NODE_DOWN;
		set_reason(ev, n, "Node unexpectedly rebooted", "slurm", 0);
	}
	if (too_little) {
		n->row->flags |= NODE_FLAG_INVALID_REG | NODE_FLAG_DRAIN;
		set_reason(ev, n, too_little, "slurm", 0);
	} else if (n->row->flags & NODE_FLAG_INVALID_REG) {
		n->row->flags &= ~(uint32_t)(NODE_FLAG_INVALID_REG | NODE_FLAG_DRAIN);
		set_reason(ev, n, NULL, NULL, 0);
	}
	n->row->flags &= ~(uint32_t)NODE_FLAG_NO_RESPOND;
	n->row->heard_usec = ev->now;
	state_changed(ev, n);
}

/* Partitions of N count its CPUs anew; not all their nodes. */
static void part_cpus(struct sch_state *st, const struct sch_node *n, uint32_t before)
{
	for (uint32_t i = 0; i < st->part_count && n->row->cpus != before; i++) {
		struct sch_part *p = st->part[i];
		if (!mu_bits_test(&p->nodes, n->rank))
			continue;
		SCH_SET(p->row, total_cpus, p->row->total_cpus - before + n->row->cpus);
		sch__touch(st, &p->rec);
	}
}

int sch__evolve_node_registered(struct sch_ev *ev)
{
	const Mu__NodeRegistered *r = ev->event->node_registered;
	const Mu__NodeRow *said = r->inventory;
	struct sch_node *n = said ? sch__node(ev->st, said->name) : NULL;
	if (!n)
		return sch__refuse(&ev->err, MU_ENODENAME);
	if (!sch__same(ev->author->node, said->name))
		return sch__refuse(&ev->err, MU_EPERM);
	if (said->cpus > SCH_CPUS_PER_NODE || said->n_gres > SCH_GRES_PER_NODE || said->boot_id.len > 64 ||
	    !said->boot_id.len)
		return mu_fail(&ev->err, MU_EINVAL,
			       "Node %s sent an inventory without a boot id or beyond any bound", said->name);
	for (size_t i = 0; i < said->n_gres; i++)
		if (!said->gres[i]->name || said->gres[i]->count > SCH_CPUS_PER_NODE)
			return mu_fail(&ev->err, MU_EINVAL,
				       "Node %s sent a gres entry without a name or beyond any bound",
				       said->name);
	/* Delivered late, it would speak for a boot that is over and give away what runs now. */
	if (r->has_seen_pos && r->seen_pos < n->row->registered_pos)
		return mu_fail(
		    &ev->err, MU_ESTALE,
		    "Node %s registers by what it saw at position %llu, before its last registration",
		    said->name, (unsigned long long)r->seen_pos);
	const ProtobufCBinaryData *boot = &n->row->boot_id;
	bool rebooted = boot->len && (boot->len != said->boot_id.len ||
				      memcmp(boot->data, said->boot_id.data, boot->len) != 0);
	if (rebooted)
		sch__node_release_all(ev, n);
	else
		release_lost(ev, n, r);
	copy_words(n, said);
	n->row->has_registered_pos = 1;
	n->row->registered_pos = ev->at->pos;
	uint32_t cpus = n->row->cpus;
	sch__node_unclass(ev->st, n);
	const char *fault = sch__inventory_faults(ev, n, said);
	sch__policy_node(ev->st, n, -1);
	sch__inventory_set(n, said);
	sch__policy_node(ev->st, n, 1);
	sch__node_class(ev->st, n);
	part_cpus(ev->st, n, cpus);
	registered_state(ev, n, rebooted, sch__inventory_short(n, said, ev->arena));
	if (fault)
		sch__node_drain(ev, n, fault);
	sch__wake(ev->st);
	return 0;
}

/* ---- heartbeats ---- */

static bool heard_bit(const ProtobufCBinaryData *b, uint32_t bit)
{
	return bit / 8 < b->len && b->data[bit / 8] >> (bit % 8) & 1;
}

/* Missing for a third of SlurmdTimeout: shown as not responding and given nothing new. */
static void missed(struct sch_ev *ev, struct sch_node *n, int64_t last_usec)
{
	const Mu__Config *c = sch__conf(ev->st);
	int64_t span = (c->has_slurmd_timeout_sec ? c->slurmd_timeout_sec : 300) * SCH_USEC;
	if (n->row->heard_usec == 0) {
		n->row->heard_usec = last_usec > 0 ? last_usec : ev->now;
		state_changed(ev, n);
	}
	int64_t from = n->row->heard_usec > ev->st->cluster->leader_since_usec
			   ? n->row->heard_usec
			   : ev->st->cluster->leader_since_usec;
	if (span && !(n->row->flags & NODE_FLAG_NO_RESPOND) && ev->now - from >= span / 3) {
		n->row->flags |= NODE_FLAG_NO_RESPOND;
		state_changed(ev, n);
	}
}

int sch__evolve_nodes_heard(struct sch_ev *ev)
{
	const Mu__NodesHeard *h = ev->event->nodes_heard;
	struct sch_state *st = ev->st;
	int64_t last = st->cluster->heard_usec;
	if (h->has_config_pos && h->config_pos != st->config.row->since_pos)
		return mu_fail(&ev->err, MU_EVOID, "The summary was made under another configuration");
	for (uint32_t i = 0; i < st->node_count; i++) {
		struct sch_node *n = st->node[i];
		if (n->row->base_state == NODE_UNKNOWN || n->row->base_state == NODE_FUTURE)
			continue;
		if (!heard_bit(&h->heard, i))
			missed(ev, n, last);
		else if (n->row->heard_usec || n->row->flags & NODE_FLAG_NO_RESPOND)
			sch__node_heard(st, n, 0);
	}
	st->cluster->heard_usec = ev->now;
	for (size_t i = 0; i < h->n_beat; i++) {
		struct sch_node *n = sch__node(st, h->beat[i]->node);
		if (!n)
			continue;
		n->row->load_centi = h->beat[i]->load_centi;
		n->row->free_mem_mib = h->beat[i]->free_mem_mib;
		sch__touch(st, &n->rec);
	}
	return 0;
}

/* ---- operators ---- */

enum node_word {
	WORD_NONE,
	WORD_DOWN,
	WORD_DRAIN,
	WORD_FAIL,
	WORD_RESUME,
	WORD_UNDRAIN,
	WORD_IDLE,
	WORD_NO_RESP,
	WORD_UNKNOWN
};

static enum node_word node_word(const char *word)
{
	static const char *const words[] = {"",	      "DOWN",	 "DRAIN", "FAIL",
					    "RESUME", "UNDRAIN", "IDLE",  "NO_RESP"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(word ? word : "", words[i]) == 0)
			return (enum node_word)i;
	return WORD_UNKNOWN;
}

static int check_update(const struct sch_ev *ev, const Mu__NodeUpdate *u, enum node_word word,
			struct mu_err *err)
{
	bool has_reason = u->reason && *u->reason;
	if (!ev->author->operator_)
		return sch__refuse(err, MU_EUSER);
	if (!u->n_node)
		return sch__refuse(err, MU_ENODENAME);
	if (word == WORD_UNKNOWN)
		return mu_fail(err, MU_EINVAL,
			       "Invalid node state specified: this version knows DOWN, DRAIN, FAIL, IDLE, "
			       " NO_RESP, RESUME and UNDRAIN; nodes are neither powered nor rebooted");
	for (size_t i = 0; i < u->n_node; i++) {
		const struct sch_node *n = sch__node(ev->st, u->node[i]);
		if (!n)
			return sch__refuse(err, MU_ENODENAME);
		if ((word == WORD_DOWN || word == WORD_DRAIN || word == WORD_FAIL) && !has_reason &&
		    !n->row->reason)
			return sch__refuse(err, MU_EREASON);
		if (u->fenced && word != WORD_DOWN && n->row->base_state != NODE_DOWN)
			return mu_fail(err, MU_EINVAL,
				       "Node %s is not down; only a node that is down can be declared fenced",
				       u->node[i]);
	}
	return 0;
}

static void resume(struct sch_ev *ev, struct sch_node *n, bool undrain)
{
	if (undrain)
		n->row->flags &= ~(uint32_t)(NODE_FLAG_DRAIN | NODE_FLAG_FAIL | NODE_FLAG_INVALID_REG);
	if (n->row->base_state == NODE_DOWN) {
		n->row->base_state = n->row->boot_id.len ? NODE_IDLE : NODE_UNKNOWN;
		n->row->heard_usec = ev->now;
	}
	if (!(n->row->flags & (NODE_FLAG_DRAIN | NODE_FLAG_FAIL)))
		set_reason(ev, n, NULL, NULL, 0);
}

static void update_state(struct sch_ev *ev, struct sch_node *n, const Mu__NodeUpdate *u, enum node_word word)
{
	const char *reason = u->reason && *u->reason ? u->reason : NULL;
	uint32_t uid = u->has_reason_uid ? u->reason_uid : ev->author->uid;
	if (reason)
		set_reason(ev, n, reason, u->has_reason_uid ? u->reason_user : ev->author->user, uid);
	switch (word) {
	case WORD_DOWN:
		sch__node_down(ev, n, n->row->reason ? mu_arena_strdup(ev->arena, n->row->reason) : reason,
			       ev->author->user, ev->author->uid);
		break;
	case WORD_DRAIN:
		n->row->flags |= NODE_FLAG_DRAIN;
		break;
	case WORD_FAIL:
		n->row->flags |= NODE_FLAG_FAIL;
		break;
	case WORD_RESUME:
	case WORD_IDLE:
		resume(ev, n, word == WORD_RESUME);
		break;
	case WORD_UNDRAIN:
		n->row->flags &= ~(uint32_t)NODE_FLAG_DRAIN;
		break;
	case WORD_NO_RESP:
		n->row->flags |= NODE_FLAG_NO_RESPOND;
		break;
	default:
		break;
	}
	if (u->fenced)
		sch__node_release_all(ev, n);
	if (u->has_resume_after_sec || word == WORD_RESUME || word == WORD_IDLE)
		SCH_SET(n->row, resume_usec,
			u->resume_after_sec ? ev->now + u->resume_after_sec * SCH_USEC : 0);
	state_changed(ev, n);
}

/* Nodes that were to come back after a while. */
void sch__nodes_resume(struct sch_ev *ev)
{
	struct sch_state *st = ev->st;
	for (uint32_t i = 0; i < st->node_count; i++) { /* Each at most once. */
		struct sch_node *n = mu_map_seek(&st->resumes, NULL, 0, 0, NULL, NULL);
		if (!n || n->resume_key > ev->now)
			return;
		SCH_SET(n->row, resume_usec, 0);
		resume(ev, n, true);
		state_changed(ev, n);
		sch__wake(st);
	}
}

static void update_notes(struct sch_node *n, const Mu__NodeUpdate *u)
{
	if (u->comment)
		sch__replace(&n->row->comment, u->comment);
	if (u->extra)
		sch__replace(&n->row->extra, u->extra);
	if (u->instance_id)
		sch__replace(&n->row->instance_id, u->instance_id);
	if (u->instance_type)
		sch__replace(&n->row->instance_type, u->instance_type);
}

static void update_features(struct sch_ev *ev, struct sch_node *n, const Mu__NodeUpdate *u)
{
	Mu__NodeConf conf = *n->row->conf;
	conf.n_feature = u->n_feature;
	conf.feature = u->feature;
	Mu__NodeConf *copy = sch__copy_message(&conf.base);
	sch__node_unclass(ev->st, n);
	mu__node_conf__free_unpacked(n->row->conf, NULL);
	n->row->conf = copy;
	sch__node_class(ev->st, n);
	sch__wake(ev->st);
}

int sch__evolve_node_update(struct sch_ev *ev)
{
	const Mu__NodeUpdate *u = ev->event->node_update;
	enum node_word word = node_word(u->state);
	int rc = check_update(ev, u, word, &ev->err);
	if (rc)
		return rc;
	for (size_t i = 0; i < u->n_node; i++) {
		struct sch_node *n = sch__node(ev->st, u->node[i]);
		update_state(ev, n, u, word);
		update_notes(n, u);
		if (u->has_weight)
			SCH_SET(n->row->conf, weight, u->weight);
		if (u->set_feature)
			update_features(ev, n, u);
	}
	if (u->has_weight) {
		sch__rank_all(ev->st);
		sch__pass_restart(ev->st);
	}
	return 0;
}

int sch__evolve_node_fenced(struct sch_ev *ev)
{
	struct sch_node *n = sch__node(ev->st, ev->event->node_fenced->node);
	if (!n)
		return sch__refuse(&ev->err, MU_ENODENAME);
	sch__node_release_all(ev, n);
	sch__touch(ev->st, &n->rec);
	return 0;
}

int sch__evolve_node_enrolled(struct sch_ev *ev)
{
	const Mu__NodeEnrolled *e = ev->event->node_enrolled;
	struct sch_state *st = ev->st;
	struct sch_key_rec *k = e->node ? mu_map_get_str(&st->node_key, e->node) : NULL;
	if (!ev->author->operator_)
		return sch__refuse(&ev->err, MU_EPERM);
	if (!e->node || !*e->node || strlen(e->node) > SCH_KEY_MAX || (e->remove && !k) ||
	    (!e->remove && e->public_key.len != 32))
		return sch__refuse(&ev->err, e->node && !e->remove && *e->node ? MU_EINVAL : MU_ENODENAME);
	if (e->remove) {
		mu_map_del_str(&st->node_key, e->node);
		sch__gone(st, &k->rec);
		return 0;
	}
	Mu__NodeKeyRow row = MU__NODE_KEY_ROW__INIT;
	row.node = e->node;
	row.has_public_key = true;
	row.public_key = e->public_key;
	SCH_SET(&row, since_pos, ev->at->pos);
	row.author = ev->author->user;
	if (k) {
		mu__node_key_row__free_unpacked(k->row, NULL);
	} else {
		k = sch__alloc(st, sizeof(*k));
		k->rec.kind = SCH_ROW_NODE_KEY;
		k->rec.change = UINT32_MAX;
		mu_map_put_str(&st->node_key, e->node, k);
	}
	k->row = sch__copy_message(&row.base);
	sch__touch(st, &k->rec);
	return 0;
}
