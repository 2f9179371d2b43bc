/* proto/layout/near.c: memory nodes and GPUs for tasks. See near.h. */
#include "proto/layout/near.h"

#include <string.h>
#include <strings.h>

#include "proto/units.h"

/* Steps over the word WORD of LEN bytes, and the comma behind it, at *P. */
static bool skip(const char **p, const char *word)
{
	size_t len = strcspn(*p, ",");
	if (len != strlen(word) || strncasecmp(*p, word, len) != 0)
		return false;
	*p += len + ((*p)[len] == ',');
	return true;
}

static bool take_list(const char *p, const char *map, const char *mask, struct mu_arena *arena,
		      struct mu_near *out)
{
	bool is_map = strncasecmp(p, map, strlen(map)) == 0;
	if (!is_map && strncasecmp(p, mask, strlen(mask)) != 0)
		return false;
	out->kind = is_map ? MU_NEAR_MAP : MU_NEAR_MASK;
	return mu_bind_list_parse(p + strlen(is_map ? map : mask), !is_map, arena, &out->list);
}

static int finish(bool good, struct mu_near *out, struct mu_near *ret, const char *text, const char *forms,
		  struct mu_err *err)
{
	if (!good) {
		mu_bind_free(&out->list);
		return mu_fail(err, MU_EINVAL, "\"%.80s\" is no %s", text, forms);
	}
	*ret = *out;
	return 0;
}

int mu_mem_bind_parse(const char *text, struct mu_arena *arena, struct mu_near *ret, struct mu_err *err)
{
	struct mu_near out = {0};
	const char *p = text;
	bool good = *p;
	for (bool more = good; more && *p;) {
		bool loud = skip(&p, "verbose") || skip(&p, "v"),
		     calm = !loud && (skip(&p, "quiet") || skip(&p, "q")),
		     prefer = !loud && !calm && (skip(&p, "prefer") || skip(&p, "p"));
		more = loud || calm || prefer || skip(&p, "sort") || skip(&p, "nosort");
		out.verbose = loud || (out.verbose && !calm);
		out.prefer = out.prefer || prefer;
	}
	if (!*p || skip(&p, "none") || skip(&p, "no"))
		out.kind = MU_NEAR_NONE;
	else if (skip(&p, "local"))
		out.kind = MU_NEAR_LOCAL;
	else if (skip(&p, "rank"))
		out.kind = MU_NEAR_RANK;
	else if (take_list(p, "map_mem:", "mask_mem:", arena, &out))
		p = "";
	return finish(good && !*p, &out, ret, text,
		      "memory binding; write none, local, rank, map_mem:NODE,... or mask_mem:MASK,..., with "
		      "verbose, or prefer, before it",
		      err);
}

static bool take_number(const char *p, const char *word, uint32_t *ret)
{
	size_t len = strlen(word);
	int64_t n = 0;
	if (strncasecmp(p, word, len) != 0 || mu_number_parse("", p + len, 1, MU_NEAR_GPUS, &n, NULL))
		return false;
	*ret = (uint32_t)n;
	return true;
}

int mu_gpu_bind_parse(const char *text, struct mu_arena *arena, struct mu_near *ret, struct mu_err *err)
{
	struct mu_near out = {0};
	const char *p = text;
	bool good = true;
	if (strncasecmp(p, "gres/gpu:", 9) == 0)
		p += 9;
	while (skip(&p, "verbose") || skip(&p, "v"))
		out.verbose = true;
	if (strcasecmp(p, "none") == 0)
		out.kind = MU_NEAR_NONE;
	else if (strcasecmp(p, "closest") == 0)
		out.kind = MU_NEAR_CLOSEST;
	else if (take_number(p, "single:", &out.each))
		out.kind = MU_NEAR_SINGLE;
	else if (take_number(p, "per_task:", &out.each))
		out.kind = MU_NEAR_PER_TASK;
	else if (*p || !out.verbose)
		good = take_list(p, "map_gpu:", "mask_gpu:", arena, &out);
	return finish(good, &out, ret, text,
		      "GPU binding; write none, closest, single:TASKS, per_task:GPUS, map_gpu:GPU,... or "
		      "mask_gpu:MASK,..., with verbose before it",
		      err);
}

uint64_t mu_near_mems(const struct mu_near *near, uint32_t k)
{
	uint32_t node = k;
	switch (near->kind) {
	case MU_NEAR_MASK:
		return near->list.mask[k % near->list.count].words
			   ? near->list.mask[k % near->list.count].word[0]
			   : 0;
	case MU_NEAR_MAP:
		node = near->list.map[k % near->list.count];
		break;
	case MU_NEAR_RANK:
		break;
	default:
		return 0;
	}
	return node < MU_NEAR_NODES ? 1ULL << node : 0;
}

/* EACH GPUs that nobody has, near ones first; when all are given out it begins again. */
static void give(const struct mu_near *near, uint32_t count, const bool *close, bool *given,
		 struct mu_bits *ret)
{
	uint32_t left = 0, want = near->each;
	for (uint32_t i = 0; i < count; i++)
		left += !given[i];
	if (left == 0)
		memset(given, 0, count * sizeof *given);
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t i = 0; i < count && want; i++)
			if (!given[i] && (pass || close[i])) {
				given[i] = true;
				mu_bits_set(ret, i);
				want--;
			}
}

static void take_close(const struct mu_near *near, uint32_t k, uint32_t count, const bool *close,
		       struct mu_bits *ret)
{
	uint32_t some = 0, at = 0;
	for (uint32_t i = 0; i < count; i++)
		some += close[i];
	uint32_t turn = near->kind == MU_NEAR_SINGLE ? k / near->each % (some ? some : count) : 0;
	for (uint32_t i = 0; i < count; i++)
		if (!some || close[i]) {
			if (near->kind == MU_NEAR_CLOSEST || at == turn)
				mu_bits_set(ret, i);
			at++;
		}
}

void mu_near_gpus(const struct mu_near *near, uint32_t k, uint32_t count, const bool *close, bool *given,
		  struct mu_bits *ret)
{
	if (count == 0 || count > MU_NEAR_GPUS)
		return;
	if (near->kind == MU_NEAR_PER_TASK) {
		give(near, count, close, given, ret);
	} else if (near->kind == MU_NEAR_CLOSEST || near->kind == MU_NEAR_SINGLE) {
		take_close(near, k, count, close, ret);
	} else if (near->kind == MU_NEAR_MAP) {
		uint32_t gpu = near->list.map[k % near->list.count];
		if (gpu < count)
			mu_bits_set(ret, gpu);
	} else {
		const struct mu_bits *mask =
		    near->kind == MU_NEAR_MASK ? &near->list.mask[k % near->list.count] : NULL;
		for (uint32_t i = 0; i < count; i++)
			if (!mask || mu_bits_test(mask, i))
				mu_bits_set(ret, i);
	}
}
