/* cli/slice.c: proofs that need no cluster: slices of the log, and receipts of submissions. Both rest on the
 * hash chain of the log and on a controller's signature of one of its values (log/auth.h, auth_chain_sign).
 *
 * A slice: "MUSLICE1", be64 first, be64 last, chain before first, chain at last, signature of it; then each
 * entry as be32 length and bytes. A receipt is text: a word and a value on each line, bytes in hex: the chain
 * before the entry, its header and leaves, the submission itself, the chain behind it and the signature. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/dump.h"
#include "cli/muster.h"
#include "log/auth.h"
#include "log/entry.h"
#include "proto/base/map.h"
#include "proto/event.pb-c.h"
#include "proto/keep.h"
#include "proto/pb.h"

enum { PAGE_BYTES = 2 << 20, HEAD = 8 + 16 + 2 * MU_HASH_BYTES + AUTH_SIGN_BYTES, RECEIPT_MAX = 4 << 20 };
static const char magic[] = "MUSLICE1";

struct slice {
	uint64_t first, last;
	bool all; /* from the first entry that there is */
	struct mu_hash before, chain, told;
	uint8_t signature[AUTH_SIGN_BYTES];
};

static int say(struct cli *c, const struct mu_err *err)
{
	cli_error(c, "%s", err->text);
	return 1;
}

static int load_key(struct cli *c, const char *path, uint8_t ret[32], struct mu_err *err)
{
	if (!path) {
		struct cli_conf conf;
		int rc = cli_conf_read(&c->arena, &conf, err);
		if (rc)
			return mu_fail(err, rc, "Name the cluster's public key by --key: %s", err->text);
		path = mu_arena_printf(&c->arena, "%s/cluster.pub", conf.key_dir);
	}
	return auth_load_public(path, ret, err);
}

/* ---- export ---- */

static void head_pack(const struct slice *s, uint8_t out[HEAD])
{
	memcpy(out, magic, 8);
	mu_put_be64(out + 8, s->first);
	mu_put_be64(out + 16, s->last);
	memcpy(out + 24, s->before.b, MU_HASH_BYTES);
	memcpy(out + 24 + MU_HASH_BYTES, s->told.b, MU_HASH_BYTES);
	memcpy(out + 24 + 2 * MU_HASH_BYTES, s->signature, AUTH_SIGN_BYTES);
}

static int export_page(struct cli *c, struct slice *s, uint64_t to, FILE *f, bool *ret_more,
		       struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__LogAsk ask = MU__LOG_ASK__INIT;
	Mu__Reply *reply;
	uint8_t length[4];

	ask.has_from = ask.has_to = ask.has_max_bytes = ask.has_sign = ask.sign = 1;
	ask.from = s->last + 1;
	ask.to = to;
	ask.max_bytes = PAGE_BYTES;
	request.ask_case = MU__REQUEST__ASK_LOG;
	request.log = &ask;
	int rc = cli_ask_done(c, &request, &reply, err);
	if (rc)
		return rc;
	const Mu__LogReply *log = reply->answer_case == MU__REPLY__ANSWER_LOG ? reply->log : NULL;
	if (log && s->all && s->last + 1 == s->first) {
		s->first = log->first;
		s->last = log->first - 1;
	}
	if (log && log->first > s->last + 1) {
		char from[32];

		mu_date_print(log->cut ? log->cut->time_usec : 0, &cli_zone, from);
		return mu_fail(
		    err, MU_ENOENT,
		    "Entries before %s are no longer kept; the first that can be exported is @%" PRIu64, from,
		    log->first);
	}
	*ret_more = log && log->n_entry > 0;
	if (!*ret_more)
		return 0;
	if (log->signature.len != AUTH_SIGN_BYTES || log->chain_last.len != MU_HASH_BYTES)
		return mu_fail(err, MU_EPROTO, "The controller signed nothing");
	if (s->last + 1 == s->first && log->chain_before.len == MU_HASH_BYTES)
		memcpy(s->before.b, log->chain_before.data, MU_HASH_BYTES);
	for (size_t i = 0; i < log->n_entry; i++) {
		mu_put_be32(length, (uint32_t)log->entry[i].len);
		fwrite(length, 1, 4, f);
		fwrite(log->entry[i].data, 1, log->entry[i].len, f);
	}
	s->last = log->last;
	memcpy(s->told.b, log->chain_last.data, MU_HASH_BYTES);
	memcpy(s->signature, log->signature.data, AUTH_SIGN_BYTES);
	*ret_more = !to || s->last < to;
	return ferror(f) ? mu_fail(err, MU_EIO, "The slice cannot be written") : 0;
}

int slice_export(struct cli *c, const char *path, uint64_t from, uint64_t to)
{
	struct slice s = {.first = from ? from : 1, .last = from ? from - 1 : 0, .all = !from};
	uint8_t head[HEAD] = {0};
	struct mu_err err = {0};
	FILE *f = fopen(path, "wxe");
	bool more = true;

	if (!f) {
		cli_error(c, "%s cannot be made: %m", path);
		return 1;
	}
	fwrite(head, 1, sizeof head, f);
	int rc = cli_open(c, &err);
	while (!rc && more)
		rc = export_page(c, &s, to, f, &more, &err);
	if (!rc && s.last < s.first)
		rc = mu_fail(&err, MU_ENOENT, "The log has no entries there");
	head_pack(&s, head);
	if (!rc && (fseek(f, 0, SEEK_SET) || fwrite(head, 1, sizeof head, f) != sizeof head))
		rc = mu_fail(&err, MU_EIO, "The slice cannot be written");
	if (fclose(f) && !rc)
		rc = mu_fail(&err, MU_EIO, "The slice cannot be written");
	if (rc) {
		remove(path);
		return say(c, &err);
	}
	printf("%s: entries @%" PRIu64 " to @%" PRIu64 ", signed\n", path, s.first, s.last);
	return 0;
}

/* ---- verify ---- */

bool slice_is(const char *path)
{
	char text[8] = "";
	FILE *f = fopen(path, "re");
	bool yes = f && fread(text, 1, 8, f) == 8 && memcmp(text, magic, 8) == 0;

	if (f)
		fclose(f);
	return yes;
}

static int read_head(FILE *f, struct slice *s, struct mu_err *err)
{
	uint8_t head[HEAD];

	if (fread(head, 1, sizeof head, f) != sizeof head || memcmp(head, magic, 8) != 0)
		return mu_fail(err, MU_EPROTO, "This is no slice of a log");
	s->first = mu_get_be64(head + 8);
	s->last = mu_get_be64(head + 16);
	memcpy(s->before.b, head + 24, MU_HASH_BYTES);
	memcpy(s->told.b, head + 24 + MU_HASH_BYTES, MU_HASH_BYTES);
	memcpy(s->signature, head + 24 + 2 * MU_HASH_BYTES, AUTH_SIGN_BYTES);
	s->chain = s->before;
	return s->first && s->last >= s->first
		   ? 0
		   : mu_fail(err, MU_EPROTO, "The slice's positions mean nothing");
}

static int check_entries(FILE *f, struct slice *s, uint8_t *raw, struct mu_err *err)
{
	uint8_t length[4];
	struct log_entry e;

	for (uint64_t pos = s->first; pos <= s->last; pos++) {
		uint32_t len = fread(length, 1, 4, f) == 4 ? mu_get_be32(length) : 0;
		if (!len || len > LOG_ENTRY_MAX || fread(raw, 1, len, f) != len ||
		    log_entry_parse_kept(raw, len, &e))
			return mu_fail(err, MU_ECORRUPT, "The entry at @%" PRIu64 " cannot be read", pos);
		log_chain_next(&s->chain, &e);
	}
	if (fgetc(f) != EOF)
		return mu_fail(err, MU_ECORRUPT, "The slice goes on behind its last entry");
	return memcmp(s->chain.b, s->told.b, MU_HASH_BYTES) == 0
		   ? 0
		   : mu_fail(err, MU_ECORRUPT,
			     "An entry of the slice is not the one that was signed: the chain differs");
}

int slice_verify(struct cli *c, const char *path, const char *key_path)
{
	struct slice s = {0};
	struct mu_err err = {0};
	uint8_t key[32], *raw = mu_arena_alloc(&c->arena, LOG_ENTRY_MAX);
	FILE *f = fopen(path, "re");
	int rc = f ? load_key(c, key_path, key, &err) : mu_fail(&err, MU_ENOENT, "%s cannot be read", path);

	if (!rc)
		rc = read_head(f, &s, &err);
	if (!rc)
		rc = check_entries(f, &s, raw, &err);
	if (!rc && !auth_chain_check(key, s.last, &s.chain, s.signature))
		rc = mu_fail(&err, MU_EAUTH, "The signature is not that of this cluster's key");
	if (f)
		fclose(f);
	if (rc)
		return say(c, &err);
	printf("%s: entries @%" PRIu64 " to @%" PRIu64 " are whole, and signed by the cluster\n", path,
	       s.first, s.last);
	return 0;
}

/* ---- cuts ---- */

int slice_cut(struct cli *c, const Mu__Cut *cut, const uint8_t *chain, struct mu_err *err)
{
	struct mu_hash statement;
	uint8_t key[32];
	char when[32];

	if (chain && (cut->chain.len != MU_HASH_BYTES || memcmp(cut->chain.data, chain, MU_HASH_BYTES) != 0))
		return mu_fail(err, MU_ECORRUPT,
			       "The archive does not go on from the chain value at its cut, @%" PRIu64,
			       cut->pos);
	int rc = load_key(c, NULL, key, err);
	mu_cut_hash(cut, &statement);
	if (!rc && (cut->signature.len != AUTH_SIGN_BYTES ||
		    !auth_chain_check(key, cut->pos, &statement, cut->signature.data)))
		rc = mu_fail(err, MU_EAUTH,
			     "The statement of the archive's cut at @%" PRIu64
			     " is not signed by this cluster",
			     cut->pos);
	if (rc)
		return rc;
	mu_date_print(cut->time_usec, &cli_zone, when);
	printf("entries up to @%" PRIu64 " (%s) are no longer kept: %s, configured by %s at @%" PRIu64
	       "; signed by the cluster\n",
	       cut->pos, when, cut->rule ? cut->rule : "?",
	       cut->author && *cut->author ? cut->author : "the founding", cut->conf_pos);
	return 0;
}

/* ---- receipts ---- */

static void put_hex(FILE *f, const char *word, const uint8_t *data, size_t len)
{
	fprintf(f, "%s ", word);
	for (size_t i = 0; i < len; i++)
		fprintf(f, "%02x", data[i]);
	fprintf(f, "\n");
}

int receipt_write(struct cli *c, const char *path, uint32_t job, uint64_t pos, ProtobufCBinaryData script)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__ReceiptAsk ask = MU__RECEIPT_ASK__INIT;
	Mu__Reply *reply;
	struct mu_err err = {0};

	ask.has_pos = ask.has_script_hash = 1;
	ask.pos = pos;
	ask.script_hash = script;
	request.ask_case = MU__REQUEST__ASK_RECEIPT;
	request.receipt = &ask;
	if (cli_ask_done(c, &request, &reply, &err))
		return say(c, &err);
	const Mu__ReceiptReply *r = reply->answer_case == MU__REPLY__ANSWER_RECEIPT ? reply->receipt : NULL;
	FILE *f = r ? fopen(path, "wxe") : NULL;
	if (!f) {
		cli_error(c, r ? "%s cannot be made: %m" : "A controller answered without a receipt", path);
		return 1;
	}
	fprintf(f, "muster-receipt 1\ncluster %s\njob %u\npos %" PRIu64 "\n", c->conf.cluster, job, pos);
	put_hex(f, "before", r->chain_before.data, r->chain_before.len);
	put_hex(f, "header", r->header.data, r->header.len);
	for (size_t i = 0; i < r->n_leaf; i++)
		put_hex(f, i == r->part ? "own" : "leaf", r->leaf[i].data, r->leaf[i].len);
	put_hex(f, "event", r->event.data, r->event.len);
	put_hex(f, "chain", r->chain.data, r->chain.len);
	put_hex(f, "signature", r->signature.data, r->signature.len);
	if (fclose(f)) {
		cli_error(c, "%s cannot be written: %m", path);
		return 1;
	}
	return 0;
}

static int nibble(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* HEX in place of itself; its length in bytes, or -1. */
static long unhex(char *text)
{
	size_t n = strlen(text) / 2;

	if (strlen(text) % 2)
		return -1;
	for (size_t i = 0; i < n; i++) {
		int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return -1;
		text[i] = (char)(high << 4 | low);
	}
	return (long)n;
}

struct receipt {
	const char *cluster;
	uint64_t job, pos;
	struct mu_hash chain, told, own;
	const uint8_t *event, *signature;
	size_t event_len;
	struct mu_hasher h;
	bool header, has_own;
};

static bool receipt_line(struct receipt *r, const char *word, char *value)
{
	if (strcmp(word, "muster-receipt") == 0)
		return strcmp(value, "1") == 0;
	if (strcmp(word, "cluster") == 0)
		return (r->cluster = value) != NULL;
	if (strcmp(word, "job") == 0)
		return (r->job = strtoull(value, NULL, 10)) != 0;
	if (strcmp(word, "pos") == 0)
		return (r->pos = strtoull(value, NULL, 10)) != 0;
	long len = unhex(value);
	if (strcmp(word, "event") == 0) {
		r->event = (uint8_t *)value;
		r->event_len = len > 0 ? (size_t)len : 0;
		return len > 0;
	}
	if (strcmp(word, "signature") == 0)
		return (r->signature = (uint8_t *)value) && len == AUTH_SIGN_BYTES;
	if (len != MU_HASH_BYTES)
		return false;
	if (strcmp(word, "chain") == 0)
		memcpy(r->told.b, value, MU_HASH_BYTES);
	else if (strcmp(word, "before") == 0) {
		mu_hasher_init(&r->h);
		mu_hasher_add(&r->h, value, MU_HASH_BYTES);
		r->header = false;
	} else if (strcmp(word, "header") == 0 ||
		   ((strcmp(word, "leaf") == 0 || strcmp(word, "own") == 0) && r->header)) {
		mu_hasher_add(&r->h, value, MU_HASH_BYTES); /* a header is as long as a hash */
		r->header = true;
		if (word[0] == 'o') {
			memcpy(r->own.b, value, MU_HASH_BYTES);
			r->has_own = true;
		}
	} else {
		return false;
	}
	return true;
}

static int check_receipt(struct receipt *r, const uint8_t key[32], struct mu_err *err)
{
	struct mu_hash leaf;
	struct log_part part = {LOG_PART_EVENT, {r->event, r->event_len}};

	if (!r->event || !r->signature || !r->has_own || !r->pos)
		return mu_fail(err, MU_EPROTO, "The receipt lacks a line");
	log_leaf(&part, &leaf);
	mu_hasher_done(&r->h, &r->chain);
	if (memcmp(leaf.b, r->own.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "The submission in the receipt is not the one that was signed");
	if (memcmp(r->chain.b, r->told.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "The receipt's entry does not give the chain that was signed");
	return auth_chain_check(key, r->pos, &r->chain, r->signature)
		   ? 0
		   : mu_fail(err, MU_EAUTH, "The signature is not that of this cluster's key");
}

static int receipt_verify(struct cli *c, const char *path, const char *key_path)
{
	struct receipt r = {0};
	struct mu_err err = {0};
	uint8_t key[32];
	char *text, *line;
	size_t len;

	if (load_key(c, key_path, key, &err) ||
	    cli_read_file(path, RECEIPT_MAX, &c->arena, &text, &len, &err))
		return say(c, &err);
	while ((line = strsep(&text, "\n"))) {
		char *value = strchr(line, ' ');
		if (!*line)
			continue;
		if (value)
			*value++ = 0;
		if (!value || !receipt_line(&r, line, value)) {
			cli_error(c, "%s: the line \"%.40s\" belongs to no receipt", path, line);
			return 1;
		}
	}
	if (check_receipt(&r, key, &err))
		return say(c, &err);
	struct mu_buf what MU_CLEANUP(mu_buf_free) = {0};
	const Mu__Event *e =
	    (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, r.event, r.event_len, &c->arena);
	if (e)
		cli_dump_text(&e->base, &what);
	printf("%s: the log of the cluster holds this submission at @%" PRIu64 ", signed\n%s\n", path, r.pos,
	       what.data ? (char *)what.data : "");
	return 0;
}

int muster_receipt(struct cli *c, size_t count, char **words)
{
	const char *key = NULL;
	const struct muster_word list[] = {{"key", MUSTER_VALUE, &key}};
	int left = muster_words(c, count, words, list, 1);

	if (left < 0)
		return 1;
	if (left != 2 || strcmp(words[0], "verify") != 0) {
		cli_error(c, "usage: muster receipt verify FILE [--key PUBLIC_KEY_FILE]");
		return 1;
	}
	return receipt_verify(c, words[1], key);
}
