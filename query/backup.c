/* query/backup.c: the view as it is at one position, copied while it is in use. */
#include "query/store.h"

int view_backup(struct view *v, const char *dir, struct mu_err *err)
{
	char *why = NULL;
	rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(v->db, &why);

	if (!why)
		rocksdb_checkpoint_create(c, dir, 0, &why);
	if (c)
		rocksdb_checkpoint_object_destroy(c);
	if (!why)
		return 0;
	int code = mu_fail(err, MU_EIO, "the view cannot be copied to %s: %s", dir, why);
	rocksdb_free(why);
	return code;
}
