/* base/err.c: error sentences. See err.h. */
#include "proto/base/err.h"

#include <stdio.h>
#include <string.h>

int mu_vfail(struct mu_err *err, int code, const char *format, va_list args)
{
	if (!err)
		return code;
	char text[MU_ERR_TEXT]; /* The arguments may point into err->text. */
	vsnprintf(text, sizeof(text), format, args);
	memcpy(err->text, text, sizeof(text));
	err->code = code;
	return code;
}

int mu_fail(struct mu_err *err, int code, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	mu_vfail(err, code, format, args);
	va_end(args);
	return code;
}

int mu_wrap(struct mu_err *err, const char *format, ...)
{
	if (!err)
		return MU_EINTERNAL;
	char head[MU_ERR_TEXT];
	va_list args;
	va_start(args, format);
	vsnprintf(head, sizeof(head), format, args);
	va_end(args);
	char text[MU_ERR_TEXT * 2 + 4];
	snprintf(text, sizeof(text), "%s: %s", head, err->text);
	text[MU_ERR_TEXT - 1] = 0;
	memcpy(err->text, text, strlen(text) + 1);
	return err->code;
}

const char *mu_strerror(int code)
{
	switch (code) {
#define MU_ERROR(name, number, sentence) \
	case number:                     \
		return sentence;
#include "proto/errors.def"
#undef MU_ERROR
	}
	return "Unspecified error";
}

const char *mu_errname(int code)
{
	switch (code) {
#define MU_ERROR(name, number, sentence) \
	case number:                     \
		return #name;
#include "proto/errors.def"
#undef MU_ERROR
	}
	return "?";
}
