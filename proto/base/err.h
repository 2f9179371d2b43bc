/* base/err.h: error codes and the sentence that a person will read.
 * Owns: the enumeration made from errors.def, struct mu_err. Leaves to others: printing. */
#ifndef PROTO_BASE_ERR_H
#define PROTO_BASE_ERR_H

#include <stdarg.h>

/* Every fallible function returns zero or one of these, negated already. */
enum mu_code {
#define MU_ERROR(name, number, text) MU_##name = (number),
#include "proto/errors.def"
#undef MU_ERROR
};

enum { MU_ERR_TEXT = 512 };

/* One clear sentence naming the thing, the value and what is allowed. Zeroed means "no error". Plain data. */
struct mu_err {
	int code;
	char text[MU_ERR_TEXT];
};

/* Stores CODE and the formatted sentence in ERR (which may be NULL) and returns CODE, so that a
 * caller writes `return mu_fail(err, MU_EINVAL, "...")`. Too long a text is cut. Pure but for ERR. */
int mu_fail(struct mu_err *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int mu_vfail(struct mu_err *err, int code, const char *format, va_list args);

/* Puts "what we were doing: " before the sentence in ERR and returns ERR's code (MU_EINTERNAL when ERR is NULL). */
int mu_wrap(struct mu_err *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Slurm's fixed text for CODE where scripts grep for it, else ours. Never NULL; static. Pure. */
const char *mu_strerror(int code);

/* The registry's name of CODE ("EINVAL"), or "?" for a number that is no row. Static. Pure. */
const char *mu_errname(int code);

#endif
