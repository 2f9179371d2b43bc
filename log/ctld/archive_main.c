/* ctld/archive_main.c: `muster archive export` and `import`: all that an archive holds, in one file, and back
 * to where it can be read.
 *
 * A file: "MUARCH1\n", be64 first, be64 last position, chain before first, chain at last, the cluster's
 * signature of that (as `muster log export` has it), 64 bytes with the cluster's name; then zstd over frames
 * of u8 kind, be32 length, bytes: BASE is a page of what lies below the cut (query/base.c), ENTRY the next
 * entry as the archive gives it, END nothing.
 *
 * An import reads the file twice: first chain and signature, then it takes it. It makes or goes on with
 * DIR/NAME of the cluster, which is what a follower keeps, so that a follower answers sacct and --at out of
 * it. */
#include "log/ctld/archive.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/ctld/entry_fold.h"
#include "log/ctld/setup.h"
#include "log/entry.h"
#include "proto/conf.h"
#include "proto/units.h"
#include "query/frames.h"
#include "query/keep.h"

static const char USAGE[] =
    "Usage: muster archive export FILE [DIR] [--to POS]    all that the archive in DIR holds, up to POS\n"
    "       muster archive import FILE DIR [--key FILE]    into what a follower keeps in DIR\n"
    "DIR of an export is a controller's StateSaveLocation (default: this host's). What is exported is signed "
    "by the cluster's key, which is\n"
    "read from MusterKeyDir; an import checks that with cluster.pub there, or the file of --key. Files are "
    "imported in the order of their\n"
    "positions. `musterd --follower` with MusterFollowerDir=DIR then answers sacct, and squeue --at, of "
    "them.\n"
    "  -f FILE   configuration file\n";
static const char MAGIC[] = "MUARCH1\n";

enum { NAME_BYTES = 64, HEAD = 8 + 16 + 2 * MU_HASH_BYTES + AUTH_SIGN_BYTES + NAME_BYTES };
enum { FRAME_END = 0, FRAME_BASE = 1, FRAME_ENTRY = 2 };
enum { PAGE_BYTES = 1 << 20, BATCH = 64 };

struct args {
	const char *verb, *file, *dir, *conf, *key;
	uint64_t to;
};

struct archive {
	uint64_t first, last;
	struct mu_hash before, chain;
	uint8_t signature[AUTH_SIGN_BYTES];
	char name[NAME_BYTES];
};

/* ---- the head ---- */
static void head_pack(const struct archive *a, uint8_t out[HEAD])
{
	memcpy(out, MAGIC, 8);
	mu_put_be64(out + 8, a->first);
	mu_put_be64(out + 16, a->last);
	memcpy(out + 24, a->before.b, MU_HASH_BYTES);
	memcpy(out + 24 + MU_HASH_BYTES, a->chain.b, MU_HASH_BYTES);
	memcpy(out + 24 + 2 * MU_HASH_BYTES, a->signature, AUTH_SIGN_BYTES);
	memcpy(out + HEAD - NAME_BYTES, a->name, NAME_BYTES);
}

static int head_read(FILE *f, struct archive *a, struct mu_err *err)
{
	uint8_t head[HEAD];

	if (fseek(f, 0, SEEK_SET) || fread(head, 1, sizeof head, f) != sizeof head ||
	    memcmp(head, MAGIC, 8) != 0)
		return mu_fail(err, MU_EPROTO, "This is no archive of a cluster");
	a->first = mu_get_be64(head + 8);
	a->last = mu_get_be64(head + 16);
	memcpy(a->before.b, head + 24, MU_HASH_BYTES);
	memcpy(a->chain.b, head + 24 + MU_HASH_BYTES, MU_HASH_BYTES);
	memcpy(a->signature, head + 24 + 2 * MU_HASH_BYTES, AUTH_SIGN_BYTES);
	memcpy(a->name, head + HEAD - NAME_BYTES, NAME_BYTES);
	if (!a->first || a->last < a->first || a->name[NAME_BYTES - 1] || !a->name[0] ||
	    strchr(a->name, '/') || a->name[0] == '.')
		return mu_fail(err, MU_EPROTO, "The archive's head means nothing");
	return 0;
}

/* ---- export ---- */
static int put_base(struct frames *s, struct view *v)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf cursor = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf page = {0};
	struct view_image *im = NULL;
	bool more = true;
	uint64_t pos;
	int code = view_image_open(v, &im, &pos, s->err);

	while (!code && more) {
		mu_buf_reset(&page);
		code = view_base_read(im, &cursor, PAGE_BYTES, &page, &more, s->err);
		if (!code && page.len)
			code = frames_put(s, FRAME_BASE, (struct mu_view){page.data, page.len});
	}
	view_image_close(im);
	return code;
}

static int put_all(struct frames *s, struct view *v, const struct archive *a)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf raw = {0};
	int code = a->first > 1 ? put_base(s, v) : 0;

	for (uint64_t pos = a->first; !code && pos <= a->last; pos++) {
		mu_buf_reset(&raw);
		code = view_entry_get(v, pos, &raw, NULL, s->err);
		if (!code)
			code = frames_put(s, FRAME_ENTRY, (struct mu_view){raw.data, raw.len});
	}
	if (!code)
		code = frames_put(s, FRAME_END, (struct mu_view){0});
	return code ? code : frames_end(s);
}

/* What the head says, signed with the secret that the configuration names. */
static int describe(const struct args *args, const Mu__Config *conf, struct view *v, struct archive *a,
		    struct mu_err *err)
{
	uint8_t secret[64], public[32];
	char path[4096];
	struct mu_hash digest;
	int64_t usec;
	bool known;
	int code = 0;

	a->first = view_archive_first(v);
	a->last = args->to && args->to < view_pos(v) ? args->to : view_pos(v);
	if (!a->first || a->last < a->first)
		return mu_fail(err, MU_ENOENT,
			       "The archive has no entries up to position %llu; it begins at %llu",
			       (unsigned long long)a->last, (unsigned long long)a->first);
	(void)snprintf(path, sizeof path, "%s/cluster.secret",
		       mu_conf_get(conf, "MusterKeyDir", "/etc/muster/keys"));
	code = auth_load_secret(path, secret, public, err);
	if (code)
		return mu_wrap(err, "Signing the archive");
	if (a->first > 1)
		code = view_mark(v, a->first - 1, &a->before, &digest, &known, &usec, err);
	if (!code)
		code = view_mark(v, a->last, &a->chain, &digest, &known, &usec, err);
	if (!code)
		auth_chain_sign(secret, a->last, &a->chain, a->signature);
	memset(secret, 0, sizeof secret);
	(void)snprintf(a->name, sizeof a->name, "%s", conf->cluster_name);
	return code;
}

static int export(const struct args *args, const Mu__Config *conf, struct mu_arena *arena, struct mu_err *err)
{
	struct archive a = {0};
	struct view *v = NULL;
	struct frames s;
	uint8_t head[HEAD];
	FILE *f = NULL;
	int code = ctl_archive_open(args->dir ? args->dir : ctl_archive_dir(conf, NULL, arena), NULL, NULL,
				    arena, &v, err);

	if (!code)
		code = describe(args, conf, v, &a, err);
	if (!code && !(f = fopen(args->file, "wxe")))
		code = mu_fail(err, MU_EIO, "%s cannot be made: %s", args->file, strerror(errno));
	if (f) {
		(void)fchmod(fileno(f), 0600);
		head_pack(&a, head);
		frames_open(&s, f, true, err);
		if (fwrite(head, 1, sizeof head, f) != sizeof head)
			code = mu_fail(err, MU_EIO, "%s cannot be written", args->file);
		if (!code)
			code = put_all(&s, v, &a);
		frames_close(&s);
		bool bad = fflush(f) || fsync(fileno(f));
		if ((fclose(f) || bad) && !code)
			code = mu_fail(err, MU_EIO, "%s cannot be written", args->file);
		if (code)
			(void)unlink(args->file);
	}
	view_close(v);
	if (!code)
		printf("%s: cluster %s, positions %llu to %llu, signed\n", args->file, a.name,
		       (unsigned long long)a.first, (unsigned long long)a.last);
	return code;
}

/* ---- import ---- */

/* First reading: chain and signature. */
static int check(FILE *f, const struct archive *a, const uint8_t key[32], struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf bytes = {0};
	struct mu_hash chain = a->before;
	uint64_t pos = a->first;
	struct log_entry e;
	struct frames s;
	uint8_t kind = FRAME_BASE;
	int code = 0;

	frames_open(&s, f, false, err);
	while (!code && kind != FRAME_END) {
		code = frames_get(&s, &kind, &bytes);
		if (code || kind != FRAME_ENTRY)
			continue;
		if (pos > a->last || log_entry_parse_kept(bytes.data, bytes.len, &e))
			code = mu_fail(err, MU_ECORRUPT, "The archive's entry at position %llu cannot be",
				       (unsigned long long)pos);
		else
			log_chain_next(&chain, &e);
		pos++;
	}
	frames_close(&s);
	if (!code && (pos != a->last + 1 || memcmp(chain.b, a->chain.b, MU_HASH_BYTES) != 0))
		code = mu_fail(err, MU_ECORRUPT,
			       "The archive's entries do not lead to the chain value that was signed");
	if (!code && !auth_chain_check(key, a->last, &a->chain, a->signature))
		code = mu_fail(err, MU_EAUTH, "The signature is not that of this cluster's key");
	return code;
}

struct import {
	struct view *v;
	struct sch_state *st;
	struct mu_hash chain; /* of the view at its position */
	struct mu_hash file;  /* of the file at POS */
	uint64_t pos;
	struct mu_arena arena;
	struct view_entry batch[BATCH];
	size_t count;
	bool base; /* what lies below the file's first entry is wanted */
};

static int flush(struct import *in, struct mu_err *err)
{
	int code = in->count ? view_apply(in->v, in->batch, in->count, err) : 0;

	in->count = 0;
	mu_arena_reset(&in->arena);
	return code;
}

/* The view's State and chain, which the next entry is folded over. */
static int load(struct import *in, struct mu_err *err)
{
	int code = view_load_state(in->v, &in->st, err);

	view_tip(in->v, &in->chain, NULL, NULL);
	return code;
}

static int begin_above(struct import *in, struct mu_err *err)
{
	int code = view_base_begin(in->v, err);

	in->base = false;
	in->st = sch_state_free(in->st);
	if (!code)
		code = load(in, err);
	if (!code && memcmp(in->chain.b, in->file.b, MU_HASH_BYTES) != 0)
		code =
		    mu_fail(err, MU_ECORRUPT, "The archive's entries do not go on from what lies below them");
	return code;
}

static int take_entry(struct import *in, const struct mu_buf *bytes, struct mu_err *err)
{
	struct mu_view raw = {mu_arena_dup(&in->arena, bytes->data, bytes->len), bytes->len};
	struct log_entry e;
	int code = 0;

	if (in->base)
		code = begin_above(in, err);
	if (code)
		return code;
	if (++in->pos <= view_pos(in->v)) { /* it is there already, and must be the same */
		if (log_entry_parse_kept(raw.data, raw.len, &e))
			return MU_ECORRUPT;
		log_chain_next(&in->file, &e);
		mu_arena_reset(&in->arena);
		return in->pos < view_pos(in->v) || memcmp(in->file.b, in->chain.b, MU_HASH_BYTES) == 0
			   ? 0
			   : mu_fail(err, MU_ECORRUPT,
				     "What is there already at position %llu is another history",
				     (unsigned long long)in->pos);
	}
	code = ctl_entry_fold(in->st, &in->chain, in->pos, raw, &in->arena, &in->batch[in->count], err);
	in->count += !code;
	return !code && in->count == BATCH ? flush(in, err) : code;
}

/* Second reading. */
static int take(FILE *f, struct import *in, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf bytes = {0};
	struct frames s;
	uint8_t kind = FRAME_BASE;
	int code = 0;

	frames_open(&s, f, false, err);
	while (!code && kind != FRAME_END) {
		code = frames_get(&s, &kind, &bytes);
		if (!code && kind == FRAME_BASE && in->base)
			code = view_base_take(in->v, (struct mu_view){bytes.data, bytes.len}, err);
		else if (!code && kind == FRAME_ENTRY)
			code = take_entry(in, &bytes, err);
	}
	frames_close(&s);
	if (!code)
		code = flush(in, err);
	return code ? code : view_sync(in->v, err);
}

static int open_target(const struct args *args, const struct archive *a, struct import *in,
		       struct mu_err *err)
{
	char path[4096];

	if (snprintf(path, sizeof path, "%s/%s", args->dir, a->name) >= (int)sizeof path)
		return mu_fail(err, MU_EINVAL, "The name of the directory is too long");
	if (mkdir(args->dir, 0700) && errno != EEXIST)
		return mu_fail(err, MU_EIO, "The directory %s cannot be made: %s", args->dir,
			       strerror(errno));
	int code = view_open(path, false, &in->v, err);
	uint64_t there = code ? 0 : view_pos(in->v);
	if (!code && there && there + 1 < a->first)
		return mu_fail(
		    err, MU_EINVAL,
		    "%s ends at position %llu and the file begins at %llu: import what lies between first",
		    path, (unsigned long long)there, (unsigned long long)a->first);
	in->base = !there && a->first > 1;
	in->pos = a->first - 1;
	in->file = a->before;
	if (!code)
		code = load(in, err);
	if (!code && there && there == in->pos && memcmp(in->chain.b, a->before.b, MU_HASH_BYTES) != 0)
		code = mu_fail(err, MU_ECORRUPT, "%s holds another history at position %llu", path,
			       (unsigned long long)there);
	return code;
}

static int import(const struct args *args, const Mu__Config *conf, struct mu_arena *arena, struct mu_err *err)
{
	struct import *in = mu_arena_alloc(arena, sizeof *in);
	struct archive a = {0};
	uint8_t key[32];
	const char *path = args->key ? args->key
				     : mu_arena_printf(arena, "%s/cluster.pub",
						       mu_conf_get(conf, "MusterKeyDir", "/etc/muster/keys"));
	FILE *f = fopen(args->file, "re");
	int code = f ? head_read(f, &a, err)
		     : mu_fail(err, MU_ENOENT, "%s cannot be read: %s", args->file, strerror(errno));

	memset(in, 0, sizeof *in);
	if (!code)
		code = auth_load_public(path, key, err);
	if (!code)
		code = check(f, &a, key, err);
	if (!code)
		code = head_read(f, &a, err);
	if (!code)
		code = open_target(args, &a, in, err);
	if (!code)
		code = take(f, in, err);
	if (!code)
		printf("%s/%s holds the history of cluster %s from position %llu to %llu\n", args->dir,
		       a.name, a.name, (unsigned long long)view_archive_first(in->v),
		       (unsigned long long)view_pos(in->v));
	view_close(in->v);
	sch_state_free(in->st);
	mu_arena_free(&in->arena);
	if (f)
		fclose(f);
	return code;
}

/* ---- words ---- */
static int usage(void)
{
	fputs(USAGE, stderr);
	return 1;
}

int archive_main(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"to", 1, NULL, 't'}, {"key", 1, NULL, 'k'}, {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
	struct args a = {0};
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Config *conf = NULL;
	int64_t n = 0;
	int o;

	while ((o = getopt_long(argc, argv, "f:h", longs, NULL)) != -1) {
		if (o == 'h') {
			fputs(USAGE, stdout);
			return 0;
		}
		if (o == '?') {
			fputs("Try \"muster archive --help\" for more information\n", stderr);
			return 1;
		}
		if (o == 't' && mu_number_parse("--to", optarg + (*optarg == '@'), 1, INT64_MAX, &n, &err)) {
			fprintf(stderr, "muster: error: archive: %s\n", err.text);
			return 1;
		}
		a.to = (uint64_t)n;
		if (o == 'k')
			a.key = optarg;
		if (o == 'f')
			a.conf = optarg;
	}
	if (argc - optind < 2 || argc - optind > 3)
		return usage();
	a.verb = argv[optind];
	a.file = argv[optind + 1];
	a.dir = argc - optind == 3 ? argv[optind + 2] : NULL;
	bool out = !strcmp(a.verb, "export");
	if (!out && (strcmp(a.verb, "import") != 0 || !a.dir))
		return usage();
	int code = ctl_load_conf(ctl_conf_path(a.conf), &arena, &conf, &err);
	if (!code)
		code = out ? export(&a, conf, &arena, &err) : import(&a, conf, &arena, &err);
	mu_arena_free(&arena);
	if (code)
		fprintf(stderr, "muster: error: archive: %s\n", err.text);
	return code ? 1 : 0;
}
