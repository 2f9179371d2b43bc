/* log/identity.c: see identity.h. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/identity.h"
#include "proto/base/hash.h"

enum { IDENTITY_MAX = 4096, PATH_LEN = 4096 };

static int path_of(const char *dir, const char *name, char ret[PATH_LEN], struct mu_err *err)
{
	int n = snprintf(ret, PATH_LEN, "%s/%s", dir, name);
	if (n < 0 || n >= PATH_LEN)
		return mu_fail(err, MU_EPATH, "the path %s is too long", dir);
	return 0;
}

uint64_t log_identity_draw(void)
{
	uint64_t id = 0;
	while (!id) {
		randombytes_buf(&id, sizeof id);
		id >>= 1;
	}
	return id;
}

static int by_id(const void *a, const void *b)
{
	const struct log_member *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

void log_identity_sort(struct log_member *members, unsigned count)
{
	qsort(members, count, sizeof *members, by_id);
}

void log_identity_cluster(const struct log_member *members, unsigned count, uint8_t ret[16])
{
	struct mu_hasher h;
	struct mu_hash sum;
	mu_hasher_init(&h);
	mu_hasher_add(&h, "muster cluster", 14);
	for (unsigned i = 0; i < count; i++) {
		char line[200];
		int n = snprintf(line, sizeof line, "%" PRIu64 " %s %s\n", members[i].id, members[i].address,
				 members[i].name);
		mu_hasher_add(&h, line, (size_t)n);
	}
	mu_hasher_done(&h, &sum);
	memcpy(ret, sum.b, 16);
}

bool log_identity_is_zero(const uint8_t cluster[16])
{
	return sodium_is_zero(cluster, 16);
}

static void print(const struct log_identity *self, struct mu_buf *out)
{
	struct mu_hash sum;
	char hex[2 * MU_HASH_BYTES + 1];
	mu_buf_printf(out, "muster-replica 1\nid %" PRIu64 "\ncluster ", self->id);
	for (unsigned i = 0; i < 16; i++)
		mu_buf_printf(out, "%02x", self->cluster[i]);
	mu_buf_printf(out, "\ngeneration %" PRIu64 "\njoined %d\n", self->generation, self->joined ? 1 : 0);
	if (self->shut_out)
		mu_buf_printf(out, "shut-out %" PRIu64 "\n", self->shut_out);
	for (unsigned i = 0; i < self->founders; i++)
		mu_buf_printf(out, "founder %" PRIu64 " %s %s\n", self->founder[i].id,
			      self->founder[i].address, self->founder[i].name);
	mu_hash_bytes(out->data, out->len, &sum);
	mu_hash_print(&sum, hex);
	mu_buf_printf(out, "sum %s\n", hex);
}

static int parse_line(const char *line, struct log_identity *self)
{
	char cluster[33];
	int joined;
	struct log_member m = {.voter = true};
	if (sscanf(line, "id %" SCNu64, &self->id) == 1)
		return self->id ? 0 : -1;
	if (sscanf(line, "generation %" SCNu64, &self->generation) == 1)
		return 0;
	if (sscanf(line, "shut-out %" SCNu64, &self->shut_out) == 1)
		return 0;
	if (sscanf(line, "joined %d", &joined) == 1) {
		self->joined = joined != 0;
		return 0;
	}
	if (sscanf(line, "cluster %32[0-9a-f]", cluster) == 1) {
		size_t n;
		return sodium_hex2bin(self->cluster, 16, cluster, strlen(cluster), NULL, &n, NULL) || n != 16
			   ? -1
			   : 0;
	}
	if (sscanf(line, "founder %" SCNu64 " %63s %63s", &m.id, m.address, m.name) == 3 &&
	    self->founders < LOG_MEMBERS_MAX) {
		self->founder[self->founders++] = m;
		return 0;
	}
	return -1;
}

/* TEXT is changed. 0, MU_ECORRUPT or MU_EVERSION. */
static int parse(char *text, struct log_identity *ret)
{
	struct log_identity self;
	struct mu_hash want, have;
	memset(&self, 0, sizeof self);
	if (strncmp(text, "muster-replica ", 15))
		return MU_ECORRUPT;
	if (strncmp(text + 15, "1\n", 2))
		return MU_EVERSION;
	char *sum = strstr(text, "\nsum ");
	if (!sum)
		return MU_ECORRUPT;
	sum++;
	char hex[2 * MU_HASH_BYTES + 1];
	if (sscanf(sum, "sum %64[0-9a-f]", hex) != 1 || mu_hash_parse(hex, &want) ||
	    strcmp(sum + 4 + 64, "\n"))
		return MU_ECORRUPT;
	mu_hash_bytes(text, (size_t)(sum - text), &have);
	if (memcmp(&want, &have, sizeof want))
		return MU_ECORRUPT;
	*sum = 0;
	char *save, *line = strtok_r(text + 17, "\n", &save);
	for (; line; line = strtok_r(NULL, "\n", &save))
		if (parse_line(line, &self))
			return MU_ECORRUPT;
	if (!self.id || !self.generation)
		return MU_ECORRUPT;
	*ret = self;
	return 0;
}

static int sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	int rv = fsync(fd);
	close(fd);
	return rv;
}

static int write_file(const char *path, const struct mu_buf *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	ssize_t n = write(fd, text->data, text->len);
	int rv = n == (ssize_t)text->len ? fsync(fd) : -1;
	close(fd);
	return rv;
}

int log_identity_store(const char *dir, const struct log_identity *self, struct mu_err *err)
{
	char path[PATH_LEN], fresh[PATH_LEN];
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	int rv = path_of(dir, "identity", path, err);
	if (!rv)
		rv = path_of(dir, "identity.new", fresh, err);
	if (rv)
		return rv;
	print(self, &text);
	if (write_file(fresh, &text) || rename(fresh, path) || sync_dir(dir))
		return mu_fail(err, MU_EIO, "cannot write %s: %s", path, strerror(errno));
	return 0;
}

static int take_lock(const char *dir, int *ret, struct mu_err *err)
{
	char path[PATH_LEN];
	int rv = path_of(dir, "lock", path, err);
	if (rv)
		return rv;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return mu_fail(err, MU_EIO, "cannot use the data directory %s: %s", dir, strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		int code = errno;
		close(fd);
		if (code == EWOULDBLOCK)
			return mu_fail(err, MU_EBUSY, "the data directory %s is in use by another controller",
				       dir);
		return mu_fail(err, MU_EIO, "cannot lock %s: %s", path, strerror(code));
	}
	*ret = fd;
	return 0;
}

/* Does the log's directory hold anything of libraft's? */
static int look_at_log(const char *path, bool *ret_empty, struct mu_err *err)
{
	if (mkdir(path, 0700) && errno != EEXIST)
		return mu_fail(err, MU_EIO, "cannot make %s: %s", path, strerror(errno));
	DIR *d = opendir(path);
	if (!d)
		return mu_fail(err, MU_EIO, "cannot read %s: %s", path, strerror(errno));
	*ret_empty = true;
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		if (isdigit((unsigned char)e->d_name[0]) || !strncmp(e->d_name, "snapshot-", 9) ||
		    !strncmp(e->d_name, "metadata", 8))
			*ret_empty = false;
	closedir(d);
	return 0;
}

static int read_identity(const char *dir, struct log_identity *ret, bool *ret_new, struct mu_err *err)
{
	char path[PATH_LEN], text[IDENTITY_MAX + 1];
	int rv = path_of(dir, "identity", path, err);
	if (rv)
		return rv;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		*ret_new = true;
		return 0;
	}
	if (fd < 0)
		return mu_fail(err, MU_EIO, "cannot read %s: %s", path, strerror(errno));
	ssize_t n = read(fd, text, IDENTITY_MAX);
	close(fd);
	if (n < 0)
		return mu_fail(err, MU_EIO, "cannot read %s: %s", path, strerror(errno));
	text[n] = 0;
	rv = parse(text, ret);
	if (rv == MU_EVERSION)
		return mu_fail(err, rv, "%s was written by a newer version of this program", path);
	if (rv)
		return mu_fail(
		    err, rv,
		    "%s is damaged: this controller does not start; remove it from the cluster, empty the "
		    "directory and add it again",
		    path);
	*ret_new = false;
	return 0;
}

int log_identity_open(const char *dir, struct log_identity *ret, int *ret_lock, bool *ret_empty,
		      struct mu_err *err)
{
	char raft[PATH_LEN];
	struct log_identity self;
	bool fresh = false, empty = true;
	int lock = -1, rv;
	memset(&self, 0, sizeof self);
	if (sodium_init() < 0)
		return mu_fail(err, MU_EINTERNAL, "the random generator cannot be started");
	rv = path_of(dir, "raft", raft, err);
	if (!rv)
		rv = take_lock(dir, &lock, err);
	if (rv)
		return rv;
	rv = read_identity(dir, &self, &fresh, err);
	if (!rv)
		rv = look_at_log(raft, &empty, err);
	if (!rv && fresh && !empty)
		rv = mu_fail(err, MU_ECORRUPT,
			     "%s holds a log, but %s/identity is missing: whose it is cannot be told", raft,
			     dir);
	if (!rv && self.joined && empty)
		rv = mu_fail(err, MU_ECORRUPT,
			     "the log of replica %" PRIu64
			     " is gone from %s: an id belongs to a disk and must not vote "
			     "again; remove it from the cluster, empty %s and add it again",
			     self.id, raft, dir);
	if (!rv && fresh) {
		self.id = log_identity_draw();
		self.generation = 1;
		rv = log_identity_store(dir, &self, err);
	}
	if (rv) {
		close(lock);
		return rv;
	}
	*ret = self;
	*ret_lock = lock;
	*ret_empty = empty;
	return 0;
}
