/* cli/model_parts.h: members that many kinds of rows have in the data model. Private to cli/model*.c and
 * those that write rows of their own. */
#ifndef CLI_MODEL_PARTS_H
#define CLI_MODEL_PARTS_H

#include "cli/model.h"
#include "proto/states.h"

static inline void some(struct cli_json *j, const char *name, int64_t value)
{
	json_triple(j, name, value != 0, false, value);
}

static inline void when(struct cli_json *j, const char *name, int64_t usec)
{
	json_triple(j, name, true, false, usec / 1000000);
}

static inline void exit_code(struct cli_json *j, const char *name, int32_t code, int32_t signal)
{
	json_object(j, name);
	json_array(j, "status");
	json_text(j, NULL, signal ? "SIGNALED" : code ? "ERROR" : "SUCCESS");
	json_array_end(j);
	json_triple(j, "return_code", true, false, code);
	json_object(j, "signal");
	json_triple(j, "id", signal != 0, false, signal);
	json_text(j, "name", signal ? cli_signal_name(signal) : "");
	json_object_end(j);
	json_object_end(j);
}

static inline void state(struct cli_json *j, const char *name, uint32_t value)
{
	json_array(j, name);
	json_text(j, NULL, mu_job_state_long(value));
	json_array_end(j);
}

static inline void with(struct cli_json *j, const char *name, const struct mu_buf *text)
{
	json_bytes(j, name, text->data, text->len);
}

static inline void texts(struct cli_json *j, const char *name, char *const *list, size_t count)
{
	json_array(j, name);
	for (size_t i = 0; i < count; i++)
		json_text(j, NULL, list[i]);
	json_array_end(j);
}

#endif
