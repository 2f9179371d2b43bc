/* cli/logview.c: muster log dump, tail, verify: the archive as any controller gives it. With a directory
 * behind the word the archive on this host's disk is meant, which is the business of muster-history. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/dump.h"
#include "cli/muster.h"
#include "log/entry.h"
#include "proto/event.pb-c.h"
#include "proto/pb.h"

enum { FOLLOW_MSEC = 20000, PAGE_BYTES = 2 << 20, TAIL_DEFAULT = 10 };

struct logview {
	struct cli *cli;
	uint64_t from, to; /* to 0: to the end */
	uint64_t last;	   /* how far the archive goes */
	bool json, verify, follow, chained;
	struct mu_hash chain;
	uint64_t bad;
};

static void print_part(struct logview *v, uint64_t pos, uint32_t n, const struct log_entry *e,
		       const struct log_part *part)
{
	struct mu_arena arena = {0};
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	ProtobufCMessage *event = NULL;
	char when[32];

	mu_date_print(e->time_usec, &cli_zone, when);
	if (part->kind == LOG_PART_EVENT)
		event = mu_pb_unpack(&mu__event__descriptor, part->bytes.data, part->bytes.len, &arena);
	if (v->json) {
		struct cli_json j = {.out = &out};

		json_object(&j, NULL);
		json_number(&j, "pos", (int64_t)pos);
		json_number(&j, "part", n);
		json_number(&j, "time_usec", e->time_usec);
		json_number(&j, "term", (int64_t)e->term);
		json_text(&j, "kind",
			  part->kind == LOG_PART_EVENT	? "event"
			  : part->kind == LOG_PART_BLOB ? "blob"
							: "forgotten");
		json_number(&j, "bytes", (int64_t)part->bytes.len);
		if (event)
			cli_dump_json(&j, "event", event);
		json_object_end(&j);
		for (size_t i = 0; i < out.len;
		     i++) /* one line each; text inside has its line ends escaped */
			out.data[i] = out.data[i] == '\n' ? ' ' : out.data[i];
	} else {
		mu_buf_printf(&out, "@%" PRIu64 ".%u %s.%06d term %" PRIu64 " ", pos, n, when,
			      (int)(e->time_usec % 1000000), e->term);
		if (event)
			cli_dump_text(event, &out);
		else
			mu_buf_printf(&out, "%s of %zu bytes",
				      part->kind == LOG_PART_BLOB    ? "blob"
				      : part->kind == LOG_PART_EVENT ? "event of an unknown type"
								     : "forgotten part",
				      part->bytes.len);
	}
	mu_buf_str(&out, "\n");
	fwrite(out.data, 1, out.len, stdout);
	mu_arena_free(&arena);
}

static int take_entry(struct logview *v, uint64_t pos, ProtobufCBinaryData raw, struct mu_err *err)
{
	struct log_entry e;
	struct log_part part;
	size_t cursor = 0;

	if (log_entry_parse_kept(raw.data, raw.len, &e))
		return mu_fail(err, MU_ECORRUPT, "The entry at @%" PRIu64 " cannot be read", pos);
	if (v->verify) {
		log_chain_next(&v->chain, &e);
		return 0;
	}
	for (uint32_t n = 0; log_entry_next(&e, &cursor, &part) == 1; n++)
		print_part(v, pos, n, &e, &part);
	return 0;
}

/* One page from V->from on; *RET_MORE false at the end. */
static int take_page(struct logview *v, bool *ret_more, struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__LogAsk ask = MU__LOG_ASK__INIT;
	const Mu__LogReply *log;
	Mu__Reply *reply;
	int rc;

	ask.has_from = ask.has_to = ask.has_max_bytes = ask.has_wait_msec = 1;
	ask.from = v->from;
	ask.to = v->to;
	ask.max_bytes = PAGE_BYTES;
	ask.wait_msec = v->follow ? FOLLOW_MSEC : 0;
	request.ask_case = MU__REQUEST__ASK_LOG;
	request.log = &ask;
	rc = v->follow ? cli_ask_within(v->cli, &request, FOLLOW_MSEC + 10000, &reply, err)
		       : cli_ask(v->cli, &request, &reply, err);
	if (rc)
		return rc;
	if (reply->code)
		return mu_fail(err, reply->code, "%s", reply->text ? reply->text : mu_strerror(reply->code));
	if (reply->answer_case != MU__REPLY__ANSWER_LOG)
		return mu_fail(err, MU_EPROTO, "A controller answered without entries");
	log = reply->log;
	if (log->n_entry && log->first > v->from)
		v->from = log->first;
	if (v->verify && log->cut && !v->chained) {
		rc = slice_cut(v->cli, log->cut, log->chain_before.len == MU_HASH_BYTES ? log->chain_before.data : NULL, err);
		if (rc)
			return rc;
	}
	if (v->verify && log->chain_before.len == MU_HASH_BYTES) {
		/* Where the last page ended the next one must begin. */
		if (v->chained && memcmp(v->chain.b, log->chain_before.data, MU_HASH_BYTES) != 0)
			return mu_fail(err, MU_ECORRUPT, "The chain breaks before @%" PRIu64, v->from);
		memcpy(v->chain.b, log->chain_before.data, MU_HASH_BYTES);
		v->chained = true;
	}
	for (size_t i = 0; i < log->n_entry; i++) {
		rc = take_entry(v, v->from, log->entry[i], err);
		if (rc)
			return rc;
		v->from++;
	}
	if (!log->n_entry && log->cut && v->to && v->to <= log->cut->pos) {
		char when[32];

		mu_date_print(log->cut->time_usec, &cli_zone, when);
		return mu_fail(err, MU_ENOENT, "Entries up to @%" PRIu64 " (%s) are no longer kept", log->cut->pos, when);
	}
	v->last = log->last;
	*ret_more = log->n_entry > 0 && (!v->to || v->from <= v->to);
	return 0;
}

/* The position at which the archive ends now. */
static int find_end(struct logview *v, struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__DigestAsk ask = MU__DIGEST_ASK__INIT;
	Mu__Reply *reply;
	int rc;

	request.ask_case = MU__REQUEST__ASK_DIGEST;
	request.digest = &ask;
	rc = cli_ask_done(v->cli, &request, &reply, err);
	if (rc)
		return rc;
	if (reply->answer_case != MU__REPLY__ANSWER_DIGEST)
		return mu_fail(err, MU_EPROTO, "A controller answered without a position");
	v->last = reply->digest->pos;
	if (v->verify && reply->digest->chain.len == MU_HASH_BYTES && !v->to)
		v->to = v->last;
	return 0;
}

static int run_pages(struct logview *v, struct mu_err *err)
{
	struct mu_arena page = {0}, keep;
	bool more = true;
	int rc = cli_open(v->cli, err);

	while (!rc && (more || v->follow)) {
		/* Each page in an arena of its own: a year of entries must not stay in memory. */
		keep = v->cli->arena;
		v->cli->arena = page;
		rc = take_page(v, &more, err);
		page = v->cli->arena;
		v->cli->arena = keep;
		mu_arena_reset(&page);
		fflush(stdout);
	}
	mu_arena_free(&page);
	return rc;
}

/* Digits only: no sign, and no more than a position can have. */
static bool read_position(const char *text, char **ret_end, uint64_t *ret)
{
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*ret = strtoull(text, ret_end, 10);
	return errno == 0;
}

static bool read_range(const char *text, uint64_t *from, uint64_t *to)
{
	char *end;

	text += *text == '@';
	if (!read_position(text, &end, from))
		return false;
	*to = *from;
	if (*end == '-') {
		const char *second = end + 1 + (end[1] == '@');

		*to = 0;
		end = (char *)second;
		if (*second && (!read_position(second, &end, to) || *to < *from))
			return false;
	}
	return !*end;
}

static int log_export(struct cli *c, size_t count, char **words)
{
	uint64_t from = 0, to = 0;

	if (count < 1 || count > 2 || (count == 2 && !read_range(words[1], &from, &to))) {
		cli_error(c, "usage: muster log export FILE [FROM[-TO]]");
		return 1;
	}
	return slice_export(c, words[0], from, to);
}

static int slice_words(struct cli *c, size_t count, char **words)
{
	const char *key = NULL;
	const struct muster_word list[] = {{"key", MUSTER_VALUE, &key}};
	int left = muster_words(c, count, words, list, 1);

	if (left < 0)
		return 1;
	if (left != 1) {
		cli_error(c, "usage: muster log verify SLICE [--key PUBLIC_KEY_FILE]");
		return 1;
	}
	return slice_verify(c, words[0], key);
}

int muster_log(struct cli *c, size_t count, char **words)
{
	struct logview v = {.cli = c, .from = 1};
	struct mu_err err = {0};
	const char *verb = count ? words[0] : "";
	uint64_t tail = TAIL_DEFAULT;
	bool tails = strcmp(verb, "tail") == 0;
	int rc;

	if (strcmp(verb, "export") == 0)
		return log_export(c, count - 1, words + 1);
	if (strcmp(verb, "verify") == 0 && count > 1 && slice_is(words[1]))
		return slice_words(c, count - 1, words + 1);
	if (strcmp(verb, "dump") != 0 && strcmp(verb, "verify") != 0 && !tails) {
		cli_error(c, "usage: muster log dump|verify [FROM[-TO]|DIR] [--json], muster log tail [-n "
			     "COUNT] [-f]");
		return 1;
	}
	v.verify = strcmp(verb, "verify") == 0;
	for (size_t i = 1; i < count; i++) {
		if (strchr(words[i], '/') || words[i][0] == '.')
			return muster_history(c, "log", count, words);
		if (strcmp(words[i], "--json") == 0)
			v.json = true;
		else if (strcmp(words[i], "-f") == 0 && tails)
			v.follow = true;
		else if (strcmp(words[i], "-n") == 0 && tails) {
			char *end = "";

			if (i + 1 == count || !read_position(words[i + 1], &end, &tail) || *end) {
				cli_error(c, "-n takes a number of entries, not \"%s\"",
					  i + 1 < count ? words[i + 1] : "");
				return 1;
			}
			i++;
		} else if (tails || !read_range(words[i], &v.from, &v.to)) {
			cli_error(c, "\"%s\" is no range of positions such as 5-20", words[i]);
			return 1;
		}
	}
	rc = tails || v.verify ? find_end(&v, &err) : 0;
	if (!rc && tails)
		v.from = v.last > tail ? v.last - tail + 1 : 1;
	if (!rc)
		rc = run_pages(&v, &err);
	if (rc) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	if (v.verify) {
		char chain[2 * MU_HASH_BYTES + 1];

		mu_hash_print(&v.chain, chain);
		printf("the chain holds up to @%" PRIu64 ": %s\n", v.from - 1, chain);
	}
	return 0;
}
