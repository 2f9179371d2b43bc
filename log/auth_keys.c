/* Key files and what is derived from keys. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/auth.h"
#include "log/auth_parts.h"
#include "proto/base/map.h"

enum { SECRET_DIGITS = 128, PUBLIC_DIGITS = 64 };

static void start_sodium(void)
{
	if (sodium_init() < 0)
		abort(); /* No random numbers: nothing that follows would be safe. */
}

void auth__sodium(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, start_sodium);
}

/* Writes TEXT and a newline to a file that must not exist. */
static int write_new(const char *path, mode_t mode, const char *text, struct mu_err *err)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return mu_fail(err, errno == EEXIST ? MU_EEXIST : MU_EIO, "cannot make key file '%s': %s",
			       path, strerror(errno));
	size_t len = strlen(text);
	int bad = fchmod(fd, mode) < 0 || write(fd, text, len) != (ssize_t)len || write(fd, "\n", 1) != 1 ||
		  fsync(fd) < 0;
	int why = errno;
	close(fd);
	if (!bad)
		return 0;
	unlink(path);
	return mu_fail(err, MU_EIO, "cannot write key file '%s': %s", path, strerror(why));
}

int auth_keygen(const char *secret_path, const char *public_path, struct mu_err *err)
{
	uint8_t public_key[32], secret[64];
	char text[SECRET_DIGITS + 1];
	auth__sodium();
	if (access(public_path, F_OK) == 0)
		return mu_fail(err, MU_EEXIST, "key file '%s' exists already", public_path);
	crypto_sign_keypair(public_key, secret);
	sodium_bin2hex(text, sizeof text, secret, sizeof secret);
	int code = write_new(secret_path, 0600, text, err);
	if (!code) {
		auth_public_print(public_key, text);
		code = write_new(public_path, 0644, text, err);
		if (code)
			unlink(secret_path);
	}
	sodium_memzero(secret, sizeof secret);
	sodium_memzero(text, sizeof text);
	return code;
}

/* Reads at most CAP-1 bytes of a regular file whose mode has none of the bits FORBIDDEN. */
static int read_key(const char *path, mode_t forbidden, const char *cure, char *text, size_t cap,
		    struct mu_err *err)
{
	struct stat st;
	int code = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return mu_fail(err,
			       errno == ENOENT	 ? MU_ENOENT
			       : errno == EACCES ? MU_EPERM
						 : MU_EIO,
			       "cannot read key file '%s': %s", path, strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		code = mu_fail(err, MU_ESYNTAX, "key file '%s' is not a regular file", path);
	else if (st.st_mode & forbidden)
		code = mu_fail(
		    err, MU_EPERM, "key file '%s' has mode %04o and so others can %s it; run: chmod %s '%s'",
		    path, (unsigned)st.st_mode & 07777, forbidden & 044 ? "read" : "write", cure, path);
	else if (forbidden & 044 && st.st_uid != geteuid() && st.st_uid != 0)
		code = mu_fail(err, MU_EPERM, "key file '%s' belongs to uid %u; run: chown %u '%s'", path,
			       (unsigned)st.st_uid, (unsigned)geteuid(), path);
	ssize_t n = code ? 0 : read(fd, text, cap - 1);
	if (n < 0)
		code = mu_fail(err, MU_EIO, "cannot read key file '%s': %s", path, strerror(errno));
	close(fd);
	if (!code)
		text[n] = '\0';
	return code;
}

/* DIGITS hex digits, then nothing but white space. */
static int parse_hex(const char *text, size_t digits, uint8_t *ret)
{
	size_t got = 0;
	if (strspn(text, "0123456789abcdefABCDEF") != digits ||
	    text[digits + strspn(text + digits, " \t\r\n")] != '\0')
		return MU_ESYNTAX;
	if (sodium_hex2bin(ret, digits / 2, text, digits, NULL, &got, NULL) != 0 || got != digits / 2)
		return MU_ESYNTAX;
	return 0;
}

int auth_load_secret(const char *path, uint8_t ret_secret[64], uint8_t ret_public[32], struct mu_err *err)
{
	char text[SECRET_DIGITS + 16];
	uint8_t secret[64], again[64], public_key[32];
	auth__sodium();
	int code = read_key(path, 077, "600", text, sizeof text, err);
	if (!code && parse_hex(text, SECRET_DIGITS, secret))
		code = mu_fail(err, MU_ESYNTAX,
			       "key file '%s' is not one line of %d hex digits, as a secret key is", path,
			       SECRET_DIGITS);
	if (!code) {
		crypto_sign_seed_keypair(public_key, again, secret);
		if (sodium_memcmp(secret, again, sizeof secret) != 0)
			code = mu_fail(err, MU_ESYNTAX,
				       "the halves of the secret key in '%s' do not fit each other", path);
	}
	if (!code) {
		memcpy(ret_secret, secret, sizeof secret);
		if (ret_public)
			memcpy(ret_public, public_key, sizeof public_key);
	}
	sodium_memzero(text, sizeof text);
	sodium_memzero(secret, sizeof secret);
	sodium_memzero(again, sizeof again);
	return code;
}

int auth_load_public(const char *path, uint8_t ret_public[32], struct mu_err *err)
{
	char text[PUBLIC_DIGITS + 16];
	auth__sodium();
	int code = read_key(path, 022, "644", text, sizeof text, err);
	if (!code && auth_public_parse(text, ret_public))
		code = mu_fail(err, MU_ESYNTAX,
			       "key file '%s' is not one line of %d hex digits, as a public key is", path,
			       PUBLIC_DIGITS);
	return code;
}

void auth_public_print(const uint8_t key[32], char ret[65])
{
	sodium_bin2hex(ret, 65, key, 32);
}

int auth_public_parse(const char *text, uint8_t ret[32])
{
	uint8_t key[32], curve[32];
	auth__sodium();
	/* A point of small order, or none at all, would make sealing to it worthless. */
	if (parse_hex(text, PUBLIC_DIGITS, key) || crypto_sign_ed25519_pk_to_curve25519(curve, key) != 0)
		return MU_ESYNTAX;
	memcpy(ret, key, sizeof key);
	return 0;
}

void auth_peer_key(const uint8_t secret[64], uint8_t ret[32])
{
	static const char context[] = "muster-peers-1";
	struct mu_hasher h;
	struct mu_hash out;
	mu_hasher_init(&h);
	mu_hasher_add(&h, context, sizeof context);
	mu_hasher_add(&h, secret, 32); /* the seed; the other half is public */
	mu_hasher_done(&h, &out);
	memcpy(ret, out.b, sizeof out.b);
	sodium_memzero(&h, sizeof h);
}

/* What is signed names what it is for, so that no other signature can be taken for it. */
static void chain_statement(uint64_t pos, const struct mu_hash *chain, uint8_t out[16 + 8 + MU_HASH_BYTES])
{
	memcpy(out, "muster chain 1\n\0", 16);
	mu_put_be64(out + 16, pos);
	memcpy(out + 24, chain->b, MU_HASH_BYTES);
}

void auth_chain_sign(const uint8_t secret[64], uint64_t pos, const struct mu_hash *chain, uint8_t ret[AUTH_SIGN_BYTES])
{
	uint8_t said[16 + 8 + MU_HASH_BYTES];

	start_sodium();
	chain_statement(pos, chain, said);
	crypto_sign_detached(ret, NULL, said, sizeof said, secret);
}

bool auth_chain_check(const uint8_t public[32], uint64_t pos, const struct mu_hash *chain,
		      const uint8_t signature[AUTH_SIGN_BYTES])
{
	uint8_t said[16 + 8 + MU_HASH_BYTES];

	start_sodium();
	chain_statement(pos, chain, said);
	return crypto_sign_verify_detached(signature, said, sizeof said, public) == 0;
}
