#include <munge.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "log/auth.h"
#include "log/auth_parts.h"

static char *socket_path;

void auth_munge_socket(const char *path)
{
	free(socket_path);
	socket_path = path ? strdup(path) : NULL;
}

void auth_munge_info(const char *info)
{
	for (const char *p = info; p && *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
		char path[256];
		if (strncasecmp(p, "socket=", 7) != 0)
			continue;
		snprintf(path, sizeof path, "%.*s", (int)strcspn(p + 7, ","), p + 7);
		auth_munge_socket(path);
	}
}

static munge_ctx_t new_context(void)
{
	munge_ctx_t m = munge_ctx_create();
	if (!m)
		abort();
	if (socket_path)
		munge_ctx_set(m, MUNGE_OPT_SOCKET, socket_path);
	return m;
}

int auth__munge_encode(const struct mu_hash *mark, struct mu_buf *out, struct mu_err *err)
{
	char *text = NULL;
	munge_ctx_t m = new_context();
	/* The mark is no secret: the credential need not be encrypted, only authenticated. */
	munge_ctx_set(m, MUNGE_OPT_CIPHER_TYPE, MUNGE_CIPHER_NONE);
	munge_ctx_set(m, MUNGE_OPT_TTL, AUTH_WINDOW_SEC);
	munge_err_t r = munge_encode(&text, m, mark->b, sizeof mark->b);
	int code = 0;
	if (r != EMUNGE_SUCCESS) {
		const char *why = munge_ctx_strerror(m);
		code =
		    mu_fail(err, MU_EAUTH, "MUNGE gives no credential: %s (is munged running on this host?)",
			    why ? why : munge_strerror(r));
	} else {
		mu_buf_str(out, text);
	}
	free(text);
	munge_ctx_destroy(m);
	return code;
}

int auth__munge_decode(struct mu_view credential, const struct mu_hash *mark, uint32_t *ret_uid,
		       uint32_t *ret_gid, bool *ret_again, struct mu_err *err)
{
	uid_t uid = (uid_t)-1;
	gid_t gid = (gid_t)-1;
	void *payload = NULL;
	int len = 0, code = 0;
	struct mu_buf text = {0};
	mu_buf_add(&text, credential.data, credential.len);
	munge_ctx_t m = new_context();
	munge_err_t r = munge_decode((char *)text.data, m, &payload, &len, &uid, &gid);
	if (r != EMUNGE_SUCCESS && r != EMUNGE_CRED_REPLAYED) {
		const char *why = munge_ctx_strerror(m);
		code =
		    mu_fail(err, MU_EAUTH, "MUNGE refuses the credential: %s", why ? why : munge_strerror(r));
	} else if (len != (int)sizeof mark->b || memcmp(payload, mark->b, sizeof mark->b) != 0) {
		code = mu_fail(err, MU_EAUTH, "the MUNGE credential belongs to another request");
	} else {
		*ret_uid = uid;
		*ret_gid = gid;
		*ret_again = r == EMUNGE_CRED_REPLAYED;
	}
	free(payload);
	mu_buf_free(&text);
	munge_ctx_destroy(m);
	return code;
}
