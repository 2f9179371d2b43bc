/* ctld/sim_picture.c: who held which nodes when, as a picture: nodes (of a cluster of one node: its CPUs) from top to
 * bottom, time from left to right. Few pieces are drawn one by one, in a colour for each user; many as shades of how full
 * a row was, because nobody sees a million rectangles. */
#include "log/ctld/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/bits.h"
#include "proto/hostlist.h"

enum { WIDTH = 1200, HEIGHT = 400, LEFT = 60, TOP = 30, ROWS_MAX = 200, PIECES_ONE_BY_ONE = 4000 };

struct piece {
	int64_t from_usec, until_usec; /* until: 0 while it runs */
	uint32_t job, row, rows;
	float share; /* of each row */
};
struct sim_picture {
	struct mu_map nodes; /* name -> index + 1 */
	uint32_t units;	     /* nodes, or CPUs of the only node */
	bool one;
	uint32_t *cpus; /* by node */
	struct piece *piece;
	size_t count, cap;
	struct mu_map open; /* job -> its first piece + 1; its pieces lie together */
};

struct sim_picture *sim_picture_new(const Mu__Config *conf)
{
	struct sim_picture *p = calloc(1, sizeof *p);

	if (!p)
		abort();
	p->cpus = calloc(conf->n_node + 1, sizeof p->cpus[0]);
	if (!p->cpus)
		abort();
	for (size_t i = 0; i < conf->n_node; i++) {
		const Mu__NodeConf *n = conf->node[i];
		uint32_t threads = n->threads_per_core ? n->threads_per_core : 1;
		mu_map_put_str(&p->nodes, n->name, (void *)(i + 1));
		p->cpus[i] = n->cpus ? n->cpus : (n->sockets ? n->sockets : 1) * (n->cores_per_socket ? n->cores_per_socket : 1) * threads;
	}
	p->one = conf->n_node == 1;
	p->units = p->one ? p->cpus[0] : (uint32_t)conf->n_node;
	return p;
}

struct sim_picture *sim_picture_free(struct sim_picture *p)
{
	if (!p)
		return NULL;
	mu_map_clear(&p->nodes);
	mu_map_clear(&p->open);
	free(p->cpus);
	free(p->piece);
	free(p);
	return NULL;
}

static void add(struct sim_picture *p, uint32_t job, uint32_t row, uint32_t rows, float share, int64_t now)
{
	struct piece *last = p->count ? &p->piece[p->count - 1] : NULL;

	if (last && last->job == job && !last->until_usec && last->from_usec == now && last->row + last->rows == row && last->share >= share &&
	    last->share <= share) {
		last->rows += rows;
		return;
	}
	if (p->count == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 4096;
		p->piece = realloc(p->piece, p->cap * sizeof p->piece[0]);
		if (!p->piece)
			abort();
	}
	p->piece[p->count++] = (struct piece){now, 0, job, row, rows, share};
}

void sim_picture_start(struct sim_picture *p, uint32_t job, const Mu__Start *start, int64_t now_usec)
{
	struct mu_arena arena = {0};
	size_t first = p->count;

	for (size_t i = 0; i < start->n_alloc; i++) {
		const Mu__AllocNode *a = start->alloc[i];
		struct mu_bits cpus = {0};
		char **names;
		size_t count;
		if (p->one && !mu_bits_parse(&cpus, a->cpu_list, p->units ? p->units - 1 : 0)) {
			for (uint32_t b = mu_bits_next(&cpus, 0); b != UINT32_MAX; b = mu_bits_next(&cpus, b + 1))
				add(p, job, b, 1, 1, now_usec);
		} else if (!p->one && !mu_hostlist_expand(a->node, p->units, &arena, &names, &count, NULL)) {
			for (size_t k = 0; k < count; k++) {
				size_t node = (size_t)mu_map_get_str(&p->nodes, names[k]);
				if (node && p->cpus[node - 1])
					add(p, job, (uint32_t)node - 1, 1, (float)a->cpus / (float)p->cpus[node - 1], now_usec);
			}
		}
		mu_bits_free(&cpus);
	}
	if (p->count > first)
		mu_map_put_u64(&p->open, job, (void *)(first + 1));
	mu_arena_free(&arena);
}

void sim_picture_end(struct sim_picture *p, uint32_t job, int64_t now_usec)
{
	size_t at = (size_t)mu_map_del_u64(&p->open, job);

	for (; at && at <= p->count && p->piece[at - 1].job == job && !p->piece[at - 1].until_usec; at++)
		p->piece[at - 1].until_usec = now_usec;
}

/* ---- drawing ---- */

struct frame {
	int64_t from, span;
	double row; /* height of a unit */
};

static void one_by_one(const struct sim_picture *p, const struct sim_work *w, const struct frame *f, FILE *out)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct piece *k = &p->piece[i];
		const struct sch_sim_job *j = &w->job[k->job];
		int64_t until = k->until_usec ? k->until_usec : f->from + f->span;
		double x = LEFT + (double)(k->from_usec - f->from) * WIDTH / (double)f->span,
		       width = (double)(until - k->from_usec) * WIDTH / (double)f->span;
		fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"hsl(%u,60%%,60%%)\" stroke=\"#fff\" stroke-width=\".3\"><title>job %u, %s, %lld s</title></rect>\n",
			x, TOP + k->row * f->row, width > .5 ? width : .5, k->rows * f->row, j->author->uid * 137 % 360, j->id,
			j->author->user, (long long)(until - k->from_usec) / 1000000);
	}
}

static void shade(const struct sim_picture *p, const struct frame *f, uint32_t bands, double *cell)
{
	double column = (double)f->span / WIDTH, units = (double)p->units / bands;

	for (size_t i = 0; i < p->count; i++) {
		const struct piece *k = &p->piece[i];
		int64_t until = k->until_usec ? k->until_usec : f->from + f->span;
		double from = (double)(k->from_usec - f->from) / column, to = (double)(until - f->from) / column;
		for (uint32_t r = k->row; r < k->row + k->rows; r++) {
			uint32_t band = (uint32_t)(r / units);
			for (int c = (int)from; c < to && c < WIDTH; c++) {
				double a = c > from ? c : from, b = c + 1 < to ? c + 1 : to;
				cell[(band < bands ? band : bands - 1) * WIDTH + c] += (b - a) * k->share / units;
			}
		}
	}
}

/* Neighbours of the same shade become one rectangle. */
static void shades(const struct sim_picture *p, const struct frame *f, FILE *out)
{
	uint32_t bands = p->units < ROWS_MAX ? p->units : ROWS_MAX;
	double *cell = calloc((size_t)bands * WIDTH, sizeof *cell), height = (double)HEIGHT / bands;

	if (!cell)
		abort();
	shade(p, f, bands, cell);
	for (uint32_t b = 0; b < bands; b++)
		for (int c = 0, end; c < WIDTH; c = end) {
			int level = (int)(cell[b * WIDTH + c] * 8 + .5);
			for (end = c + 1; end < WIDTH && (int)(cell[b * WIDTH + end] * 8 + .5) == level; end++)
				;
			if (level > 0)
				fprintf(out, "<rect x=\"%d\" y=\"%.2f\" width=\"%d\" height=\"%.2f\" fill=\"hsl(215,60%%,%d%%)\"/>\n", LEFT + c,
					TOP + b * height, end - c, height, 95 - (level > 8 ? 8 : level) * 7);
		}
	free(cell);
}

int sim_picture_write(const struct sim_picture *p, const char *path, const struct sim_work *w, const char *title, struct mu_err *err)
{
	FILE *out = fopen(path, "we");
	struct frame f = {.from = w->begin_usec, .span = 1, .row = (double)HEIGHT / (p->units ? p->units : 1)};

	if (!out)
		return mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno));
	if (p->count)
		f.from = p->piece[0].from_usec;
	for (size_t i = 0; i < p->count; i++)
		if (p->piece[i].until_usec - f.from > f.span)
			f.span = p->piece[i].until_usec - f.from;
	fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n", LEFT + WIDTH + 20,
		TOP + HEIGHT + 30);
	fprintf(out, "<text x=\"%d\" y=\"18\" font-size=\"13\">%s</text>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\"/>\n", LEFT,
		title, LEFT, TOP, WIDTH, HEIGHT);
	if (p->count <= PIECES_ONE_BY_ONE)
		one_by_one(p, w, &f, out);
	else
		shades(p, &f, out);
	fprintf(out, "<text x=\"8\" y=\"%d\">%s 0</text><text x=\"8\" y=\"%d\">%u</text>\n", TOP + 10, p->one ? "CPU" : "node", TOP + HEIGHT,
		p->units ? p->units - 1 : 0);
	for (int d = 0; d <= 10; d++)
		fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.1f d</text>\n", LEFT + WIDTH * d / 10, TOP + HEIGHT + 16,
			(double)f.span * d / 10 / 86400e6);
	fputs("</svg>\n", out);
	bool bad = fflush(out) || ferror(out);
	(void)fclose(out);
	return bad ? mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno)) : 0;
}
