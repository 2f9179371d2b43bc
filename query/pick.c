/* query/pick.c: a walk over protobuf's encoding. */
#include "query/pick.h"

#include <assert.h>
#include <string.h>

#include "proto/states.h"

enum { /* fields of JobRow and JobSpec, see proto/rows.proto and proto/spec.proto */
       JOB_ID = 1,
       JOB_SPEC = 2,
       JOB_UID = 3,
       JOB_USER = 5,
       JOB_STATE = 8,
       JOB_ATTEMPT = 13,
       JOB_RESTARTS = 14,
       JOB_PARTITION = 20,
       JOB_ACCOUNT = 21,
       JOB_QOS = 22,
       JOB_SUBMIT = 40,
       JOB_ELIGIBLE = 41,
       JOB_START = 42,
       JOB_END = 43,
       JOB_NODE_LIST = 51,
       JOB_END_STATE = 66,
       JOB_END_POS = 73,
       JOB_KEY = 77,
       JOB_ARRAY_JOB = 140,
       JOB_HET_JOB = 150,
       JOB_HET_COUNT = 152,
       JOB_SPECIAL_EXIT_FLAG = 166,
       SPEC_ENV_HASH = 62,
       SPEC_ARGV = 63,
       SPEC_EXPORT = 75,
       SPEC_SUBMIT_LINE = 77,
};

static bool varint(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	uint64_t value = 0;

	/* Most are one byte long. */
	if (*p < end && !(**p & 0x80)) {
		*ret = *(*p)++;
		return true;
	}
	for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
		uint8_t byte = *(*p)++;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret = value;
			return true;
		}
	}
	return false;
}

bool pick_next(struct mu_view *rest, struct pick *ret)
{
	const uint8_t *p = rest->data, *end = p + rest->len;
	uint64_t tag, n = 0;

	if (rest->len == 0 || !varint(&p, end, &tag))
		return false;
	ret->number = (uint32_t)(tag >> 3);
	ret->type = tag & 7;
	ret->bytes = (struct mu_view){0};
	ret->value = 0;
	switch (ret->type) {
	case 0:
		if (!varint(&p, end, &ret->value))
			return false;
		break;
	case 2:
		if (!varint(&p, end, &n) || n > (size_t)(end - p))
			return false;
		ret->bytes = (struct mu_view){p, n};
		p += n;
		break;
	case 1:
	case 5:
		n = ret->type == 1 ? 8 : 4;
		if ((size_t)(end - p) < n)
			return false;
		for (size_t i = n; i-- > 0;)
			ret->value = ret->value << 8 | p[i];
		p += n;
		break;
	default:
		return false;
	}
	ret->begin = rest->data;
	ret->end = p;
	rest->len = (size_t)(end - p);
	rest->data = p;
	return true;
}

void pick_job(struct mu_view row, struct pick_job *ret)
{
	pick_job_head(row, PICK_JOB_ALL, ret);
}

void pick_job_head(struct mu_view row, uint32_t last, struct pick_job *ret)
{
	struct pick f;

	memset(ret, 0, sizeof *ret);
	while (pick_next(&row, &f) && f.number <= last) {
		switch (f.number) {
		case JOB_ID:
			ret->id = (uint32_t)f.value;
			break;
		case JOB_SPEC:
			ret->spec = f.bytes;
			break;
		case JOB_UID:
			ret->uid = (uint32_t)f.value;
			break;
		case JOB_USER:
			ret->user = f.bytes;
			break;
		case JOB_STATE:
			ret->state = (uint32_t)f.value;
			break;
		case JOB_ATTEMPT:
			ret->attempt = (uint32_t)f.value;
			break;
		case JOB_RESTARTS:
			ret->restarts = (uint32_t)f.value;
			break;
		case JOB_PARTITION:
			ret->partition = f.bytes;
			break;
		case JOB_ACCOUNT:
			ret->account = f.bytes;
			break;
		case JOB_QOS:
			ret->qos = f.bytes;
			break;
		case JOB_SUBMIT:
			ret->submit_usec = (int64_t)f.value;
			break;
		case JOB_ELIGIBLE:
			ret->eligible_usec = (int64_t)f.value;
			break;
		case JOB_START:
			ret->start_usec = (int64_t)f.value;
			break;
		case JOB_END:
			ret->end_usec = (int64_t)f.value;
			break;
		case JOB_NODE_LIST:
			ret->node_list = f.bytes;
			break;
		case JOB_END_STATE:
			ret->end_state = (uint32_t)f.value;
			break;
		case JOB_END_POS:
			ret->end_pos = f.value;
			break;
		case JOB_SPECIAL_EXIT_FLAG:
			ret->special_exit = f.value != 0;
			break;
		case JOB_ARRAY_JOB:
			ret->array_job = (uint32_t)f.value;
			break;
		case JOB_HET_JOB:
			ret->het_job = (uint32_t)f.value;
			break;
		case JOB_HET_COUNT:
			ret->het_count = (uint32_t)f.value;
			break;
		default:
			break;
		}
	}
	if (pick_job_ran(ret))
		return;
	ret->node_list = (struct mu_view){0};
	if (!mu_job_state_ended(ret->state))
		ret->end_usec = 0;
}

bool pick_job_ran(const struct pick_job *job)
{
	return job->attempt > 0 && job->start_usec > 0;
}

struct mu_view pick_bytes(struct mu_view message, uint32_t number)
{
	struct pick f;

	while (pick_next(&message, &f))
		if (f.number == number && f.type == 2)
			return f.bytes;
	return (struct mu_view){0};
}

uint64_t pick_number(struct mu_view message, uint32_t number)
{
	struct pick f;
	uint64_t value = 0;

	while (pick_next(&message, &f))
		if (f.number == number)
			value = f.value;
	return value;
}

static size_t put_varint(uint8_t *out, uint64_t value)
{
	size_t n = 0;

	do {
		out[n] = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
		value >>= 7;
		n++;
	} while (value);
	return n;
}

static bool slim_drops(uint32_t number)
{
	return number == SPEC_ENV_HASH || number == SPEC_ARGV || number == SPEC_EXPORT ||
	       number == SPEC_SUBMIT_LINE;
}

/* The spec without what SLIM leaves out; never longer than it was. */
static size_t slim_spec(const struct pick *spec, uint8_t *out)
{
	enum { RUNS = 16 }; /* four kinds of fields are dropped, each in one run as a rule */
	struct mu_view run[RUNS], rest = spec->bytes;
	struct pick f;
	size_t runs = 0, dropped = 0, n;
	const uint8_t *from = rest.data;

	while (pick_next(&rest, &f)) {
		if (!slim_drops(f.number))
			continue;
		bool joins = runs && run[runs - 1].data + run[runs - 1].len == f.begin;
		if (!joins && runs == RUNS)
			continue;
		if (!joins)
			run[runs++] = (struct mu_view){f.begin, 0};
		run[runs - 1].len += (size_t)(f.end - f.begin);
		dropped += (size_t)(f.end - f.begin);
	}
	n = put_varint(out, (uint64_t)JOB_SPEC << 3 | 2);
	n += put_varint(out + n, (uint64_t)(rest.data - from) - dropped);
	for (size_t i = 0; i <= runs; i++) {
		const uint8_t *to = i < runs ? run[i].data : rest.data;
		if (to > from)
			memcpy(out + n, from, (size_t)(to - from));
		n += (size_t)(to - from);
		from = i < runs ? to + run[i].len : to;
	}
	return n;
}

size_t pick_job_public(struct mu_view row, bool slim, uint8_t *out)
{
	const uint8_t *from = row.data;
	struct pick f;
	size_t n = 0;

	/* Runs of kept fields are copied whole. */
	while (pick_next(&row, &f)) {
		if (f.number != JOB_KEY && !(slim && f.number == JOB_SPEC && f.type == 2))
			continue;
		memcpy(out + n, from, (size_t)(f.begin - from));
		n += (size_t)(f.begin - from);
		if (f.number == JOB_SPEC)
			n += slim_spec(&f, out + n);
		from = f.end;
	}
	/* What follows the last well-formed field is left out: it could hide the secret. */
	if (row.data > from) {
		memcpy(out + n, from, (size_t)(row.data - from));
		n += (size_t)(row.data - from);
	}
	return n;
}

void pick_put_bytes(struct mu_buf *out, uint32_t number, struct mu_view bytes)
{
	uint8_t head[20];
	size_t n = put_varint(head, (uint64_t)number << 3 | 2);

	n += put_varint(head + n, bytes.len);
	mu_buf_add(out, head, n);
	mu_buf_add(out, bytes.data, bytes.len);
}

void pick_put_number(struct mu_buf *out, uint32_t number, uint64_t value)
{
	uint8_t head[20];
	size_t n = put_varint(head, (uint64_t)number << 3);

	n += put_varint(head + n, value);
	mu_buf_add(out, head, n);
}

bool pick_equals(struct mu_view bytes, const char *text)
{
	return strlen(text) == bytes.len && (bytes.len == 0 || memcmp(bytes.data, text, bytes.len) == 0);
}
