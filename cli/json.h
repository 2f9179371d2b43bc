/* cli/json.h: writes JSON, or the same as YAML, into a buffer, two blanks a level. Pure. Names are given
 * inside objects and NULL inside arrays. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buf.h"

struct cli_json {
	struct mu_buf *out;
	unsigned depth;
	bool some; /* the open object or array has a member already */
	bool yaml;
	bool dashed; /* YAML: the dash of the open list or map stands; its first member goes behind it */
};

void json_object(struct cli_json *j, const char *name);
void json_object_end(struct cli_json *j);
void json_array(struct cli_json *j, const char *name);
void json_array_end(struct cli_json *j);
void json_text(struct cli_json *j, const char *name,
	       const char *text); /* NULL: "" ; broken UTF-8 becomes U+FFFD */
void json_bytes(struct cli_json *j, const char *name, const void *data, size_t len);
void json_number(struct cli_json *j, const char *name, int64_t value);
void json_real(struct cli_json *j, const char *name, double value);
void json_bool(struct cli_json *j, const char *name, bool value);
void json_null(struct cli_json *j, const char *name);
/* The model's numbers that may be missing: {"set": , "infinite": , "number": }. */
void json_triple(struct cli_json *j, const char *name, bool set, bool infinite, int64_t value);

void json_triple_real(struct cli_json *j, const char *name, bool set, bool infinite, double value);

#endif
