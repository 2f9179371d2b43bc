/* tests/base: the contracts of proto/base in tables. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/arena.h"
#include "proto/base/bits.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"
#include "proto/base/map.h"
#include "proto/base/pool.h"
#include "proto/base/seed.h"

Test(base, err)
{
	struct mu_err err = {0};
	cr_assert_eq(mu_fail(&err, MU_EINVAL, "%s is %d", "x", 7), MU_EINVAL);
	cr_assert_str_eq(err.text, "x is 7");
	cr_assert_eq(mu_wrap(&err, "reading %s", "f"), MU_EINVAL);
	cr_assert_str_eq(err.text, "reading f: x is 7");
	cr_assert_eq(mu_fail(&err, MU_EIO, "again: %s", err.text), MU_EIO);
	cr_assert_str_eq(err.text, "again: reading f: x is 7");
	cr_assert_eq(mu_fail(NULL, MU_EIO, "nobody"), MU_EIO);
	cr_assert_eq(mu_wrap(NULL, "nobody"), MU_EINTERNAL);
	char longer[3 * MU_ERR_TEXT];
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	mu_fail(&err, MU_EIO, "%s", longer);
	cr_assert_eq(strlen(err.text), MU_ERR_TEXT - 1);
	mu_wrap(&err, "%s", longer);
	cr_assert_eq(strlen(err.text), MU_ERR_TEXT - 1);
	cr_assert_str_eq(mu_strerror(MU_EPARTITION), "Invalid partition name specified");
	cr_assert_str_eq(mu_errname(MU_EPARTITION), "EPARTITION");
	cr_assert_str_eq(mu_errname(-99999), "?");
	cr_assert_str_eq(mu_strerror(-99999), "Unspecified error");
}

Test(base, buf_arena_pool)
{
	struct mu_buf buf = {0};
	mu_buf_str(&buf, "ab");
	mu_buf_printf(&buf, "%0200d", 5);
	mu_buf_add(&buf, "", 0);
	cr_assert_eq(buf.len, 202);
	cr_assert_eq(buf.data[202], 0);
	mu_buf_reset(&buf);
	cr_assert_eq(buf.data[0], 0);
	mu_buf_free(&buf);
	cr_assert_null(buf.data);

	struct mu_arena arena = {0};
	cr_assert_null(mu_arena_strdup(&arena, NULL));
	for (int i = 0; i < 1000; i++) {
		uint8_t *p = mu_arena_alloc(&arena, (size_t)i * 7);
		cr_assert_eq((uintptr_t)p % 16, 0);
		for (int k = 0; k < i * 7; k++)
			cr_assert_eq(p[k], 0);
		memset(p, 0xff, (size_t)i * 7);
	}
	cr_assert_str_eq(mu_arena_printf(&arena, "%d-%s", 3, "x"), "3-x");
	mu_arena_reset(&arena);
	cr_assert_eq(arena.used_bytes, 0);
	uint64_t *zero = mu_arena_alloc(&arena, 8);
	cr_assert_eq(*zero, 0, "memory that comes again is zeroed again");
	mu_arena_free(&arena);
	cr_assert_null(arena.chunks);

	struct mu_pool pool;
	mu_pool_init(&pool, 40);
	void *item[5000];
	for (int i = 0; i < 5000; i++) {
		item[i] = mu_pool_get(&pool);
		memset(item[i], 0xee, 40);
	}
	cr_assert_eq(pool.live, 5000);
	size_t total = pool.total;
	for (int i = 0; i < 5000; i++)
		mu_pool_put(&pool, item[i]);
	for (int i = 0; i < 5000; i++) {
		uint8_t *p = mu_pool_get(&pool);
		cr_assert(p[0] == 0 && p[39] == 0);
	}
	cr_assert_eq(pool.total, total, "records are used again");
	mu_pool_free(&pool);
	cr_assert_eq(pool.live, 0);
}

Test(base, bits)
{
	static const struct {
		const char *text, *printed;
		int code;
	} row[] = {
	    {"", "", 0},
	    {"0", "0", 0},
	    {"0-3,8", "0-3,8", 0},
	    {"8,0,1", "0-1,8", 0},
	    {"63-64", "63-64", 0},
	    {"200", "200", 0},
	    {"1-1", "1", 0},
	    {"3-1", NULL, MU_ESYNTAX},
	    {",", NULL, MU_ESYNTAX},
	    {"1,", NULL, MU_ESYNTAX},
	    {"1,,2", NULL, MU_ESYNTAX},
	    {"a", NULL, MU_ESYNTAX},
	    {"1-", NULL, MU_ESYNTAX},
	    {"-1", NULL, MU_ESYNTAX},
	    {"1001", NULL, MU_ELIMIT},
	    {"0-1001", NULL, MU_ELIMIT},
	    {"99999999999999999999999", NULL, MU_ELIMIT},
	    {"1 2", NULL, MU_ESYNTAX},
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct mu_bits b = {0};
		cr_assert_eq(mu_bits_parse(&b, row[i].text, 1000), row[i].code, "%s", row[i].text);
		char out[64];
		if (!row[i].code) {
			cr_assert_eq(mu_bits_print(&b, out, sizeof(out)), strlen(row[i].printed));
			cr_assert_str_eq(out, row[i].printed);
		}
		mu_bits_free(&b);
	}
	struct mu_bits a = {0}, b = {0};
	mu_bits_set(&a, 5);
	mu_bits_set(&a, 700);
	cr_assert(!mu_bits_test(&b, 5) && !mu_bits_intersects(&a, &b));
	cr_assert_eq(mu_bits_next(&a, 6), 700);
	cr_assert_eq(mu_bits_next(&a, 701), UINT32_MAX);
	cr_assert_eq(mu_bits_next_clear(&a, 5), 6);
	cr_assert_eq(mu_bits_next_clear(&a, 5000), 5000);
	mu_bits_or(&b, &a);
	cr_assert_eq(mu_bits_count(&b), 2);
	mu_bits_clear(&b, 5);
	mu_bits_clear(&b, 100000);
	cr_assert(mu_bits_intersects(&a, &b));
	mu_bits_andnot(&a, &b);
	cr_assert_eq(mu_bits_count(&a), 1);
	mu_bits_copy(&b, &a);
	cr_assert(mu_bits_test(&b, 5) && !mu_bits_test(&b, 700));
	char tiny[2];
	mu_bits_set(&b, 6);
	cr_assert_eq(mu_bits_print(&b, tiny, sizeof(tiny)), 3, "the length is that of the whole text");
	cr_assert_str_eq(tiny, "5");
	mu_bits_free(&a);
	mu_bits_free(&b);
}

/* Vectors: "abc" and the empty text from published BLAKE2b-256 tables; the long one was made with Python's
 * hashlib. */
Test(base, hash)
{
	static const struct {
		const char *text;
		int repeat;
		const char *hex;
	} row[] = {
	    {"", 1, "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"},
	    {"abc", 1, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319"},
	    {"a", 128, "ae2aa48507885c4c950fb809b2076f959cde9f8ea6da260d9a3587df33dac450"},
	    {"a", 129, "2f64744a6de0d2c0b56e64cf6e29a5aaa255010d415d51c75ccc82f73dccd865"},
	    {"abcdefgh", 16, "603f182e2e8674c84cb7ec016416ee8acfce06aec736703b42525f8c07860988"},
	    {"abcdefghijklm", 1000, "d1c254b65a84c42650e294b58cc1b3a5c615b6b9e7d2acbd835d26fb91bc0706"},
	};
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct mu_hasher s;
		struct mu_hash h, back;
		char hex[2 * MU_HASH_BYTES + 1];
		mu_hasher_init(&s);
		for (int k = 0; k < row[i].repeat; k++)
			mu_hasher_add(&s, row[i].text, strlen(row[i].text));
		mu_hasher_done(&s, &h);
		mu_hash_print(&h, hex);
		cr_assert_str_eq(hex, row[i].hex);
		cr_assert_eq(mu_hash_parse(hex, &back), 0);
		cr_assert_arr_eq(back.b, h.b, MU_HASH_BYTES);
	}
	struct mu_hash a, b, sum = {0}, zero = {0};
	mu_hash_bytes("a", 1, &a);
	mu_hash_bytes("b", 1, &b);
	mu_hash_sum_sub(&sum, &a); /* Below zero on the way: modulo 2^256. */
	mu_hash_sum_add(&sum, &b);
	mu_hash_sum_add(&sum, &a);
	cr_assert_arr_eq(sum.b, b.b, MU_HASH_BYTES);
	mu_hash_sum_sub(&sum, &b);
	cr_assert_arr_eq(sum.b, zero.b, MU_HASH_BYTES);
	cr_assert_eq(mu_hash_parse("00", &a), MU_ESYNTAX);
	cr_assert_eq(mu_hash_parse("", &a), MU_ESYNTAX);
	cr_assert_eq(mu_hash_parse("bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319a", &a),
		     MU_ESYNTAX);
}

Test(base, map)
{
	struct mu_map map = {0};
	int v[4];
	mu_map_put_str(&map, "b", &v[0]);
	mu_map_put_str(&map, "ab", &v[1]);
	mu_map_put_str(&map, "", &v[2]);
	cr_assert_eq(mu_map_put_str(&map, "b", &v[3]), &v[0], "the former value comes back");
	const uint8_t *key;
	size_t len;
	cr_assert_eq(mu_map_seek(&map, NULL, 0, 0, &key, &len), &v[2]);
	cr_assert_eq(len, 0);
	cr_assert_eq(mu_map_seek(&map, key, len, 1, &key, &len), &v[1]);
	cr_assert_eq(mu_map_seek(&map, "a", 1, 0, NULL, NULL), &v[1], "a shorter key comes first");
	cr_assert_eq(mu_map_seek(&map, "ab", 2, 1, NULL, NULL), &v[3]);
	cr_assert_null(mu_map_seek(&map, "b", 1, 1, NULL, NULL));
	cr_assert_null(mu_map_del_str(&map, "c"));
	cr_assert_eq(mu_map_del_str(&map, "ab"), &v[1]);
	cr_assert_null(mu_map_get_str(&map, "ab"));
	mu_map_clear(&map);
	cr_assert_eq(map.count, 0);
	cr_assert_null(mu_map_get_str(&map, "b"));

	/* Random puts and deletes against a plain array. */
	enum { RANGE = 300 };
	void *model[RANGE] = {0};
	struct mu_seed g;
	mu_seed_init(&g, 1);
	for (int i = 0; i < 30000; i++) {
		uint32_t k = mu_seed_below(&g, RANGE);
		if (mu_seed_below(&g, 2)) {
			cr_assert_eq(mu_map_put_u64(&map, k, &model[k]), model[k]);
			model[k] = &model[k];
		} else {
			cr_assert_eq(mu_map_del_u64(&map, k), model[k]);
			model[k] = NULL;
		}
		if (i % 100)
			continue;
		uint64_t at = 0, count = 0;
		for (uint32_t n = 0; n < RANGE; n++)
			count += model[n] != NULL;
		cr_assert_eq(map.count, count);
		for (uint32_t n = 0; n < RANGE; n++) {
			if (!model[n])
				continue;
			uint64_t found;
			cr_assert_eq(mu_map_next_u64(&map, at, &found), model[n]);
			cr_assert_eq(found, n);
			at = found + 1;
		}
		cr_assert_null(mu_map_next_u64(&map, at, NULL));
	}
	mu_map_clear(&map);
}

Test(base, seed)
{
	struct mu_seed a, b;
	mu_seed_init(&a, 42);
	mu_seed_init(&b, 42);
	uint32_t seen = 0;
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(mu_seed_next(&a), mu_seed_next(&b));
		uint32_t n = mu_seed_below(&a, 7);
		cr_assert_eq(n, mu_seed_below(&b, 7));
		cr_assert_lt(n, 7);
		seen |= 1u << n;
	}
	cr_assert_eq(seen, 0x7f);
	cr_assert_eq(mu_seed_below(&a, 0), 0);
	mu_seed_init(&b, 43);
	cr_assert_neq(mu_seed_next(&a), mu_seed_next(&b));
}
