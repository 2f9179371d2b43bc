/* tests/exec/fakectl.h: a controller for tests of the agent alone: it speaks the wire, verifies the node's
 * key, gives orders that the test writes, and remembers what it is told. One node. Thread-safe. */
#ifndef TESTS_EXEC_FAKECTL_H
#define TESTS_EXEC_FAKECTL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

struct fakectl;

/* Listens on "ipc:///path" with the cluster's and the node's keys of KEY_DIR. */
int fakectl_open(const char *address, const char *key_dir, const char *node, struct fakectl **ret,
		 struct mu_err *err);
struct fakectl *fakectl_close(struct fakectl *f);

struct fakectl_job {
	uint32_t job;
	const char *script, *std_out, *work_dir;
	const char *env; /* one NAME=VALUE, or NULL */
	uint32_t uid;
	const char *cpu_list;
	uint32_t cpus;
	uint64_t mem_mib;
	int64_t time_limit_sec;
	int gpu;	 /* index of the one device it gets, or -1 */
	bool allocation; /* no batch script */
};
void fakectl_run(struct fakectl *f, const struct fakectl_job *job);
void fakectl_end(struct fakectl *f, uint32_t job, uint32_t cause);
void fakectl_signal(struct fakectl *f, uint32_t job, uint32_t number, uint32_t flags);
void fakectl_limit(struct fakectl *f, uint32_t job, int64_t time_limit_sec);
void fakectl_drop(struct fakectl *f, uint32_t job);  /* no longer ordered */
void fakectl_refuse(struct fakectl *f, bool refuse); /* answers reports with an error */

struct fakectl_end_seen {
	unsigned count; /* reports of it */
	int32_t code, signal;
	uint32_t cause, oom_kills, steps;
	char detail[256];
	bool released, batch;
};
/* Waits until an end of JOB was reported, at most MSEC. */
bool fakectl_wait_end(struct fakectl *f, uint32_t job, unsigned msec, struct fakectl_end_seen *ret);
bool fakectl_wait_registered(struct fakectl *f, unsigned count, unsigned msec);
bool fakectl_held(struct fakectl *f, uint32_t job); /* named in the last registration */
unsigned fakectl_steps_seen(struct fakectl *f, uint32_t job);

#endif
