/* exec/shepherd_task.c: what the site and the user run before and behind each task, in a child that is the
 * user already. Owns: the meaning of a prolog's output. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/shepherd_step.h"

enum { OUTPUT_MAX = 256 * 1024, EXPORTS_MAX = 1024 };

static char *program_path(struct mu_arena *arena, const ProtobufCBinaryData *word)
{
	return mu_arena_printf(arena, "%.*s", (int)word->len, (const char *)word->data);
}

/* Runs PROGRAM with its output in OUT (NULL: nowhere) and waits for it. Its wait status, or -1. */
static int run(const char *program, char **env, struct mu_buf *out)
{
	char *argv[] = {(char *)program, NULL}, chunk[4096];
	int fd[2] = {-1, -1}, status = -1;
	if (out && pipe2(fd, O_CLOEXEC))
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		dup2(null_fd, 0);
		dup2(out ? fd[1] : null_fd, 1);
		if (!out)
			dup2(null_fd, 2);
		execve(program, argv, env);
		_exit(127);
	}
	if (out) {
		close(fd[1]);
		for (ssize_t n; (n = read(fd[0], chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR);)
			if (n > 0 && out->len < OUTPUT_MAX)
				mu_buf_add(out, chunk, (size_t)n);
		close(fd[0]);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return pid > 0 ? status : -1;
}

/* Index of the entry that sets NAME (LEN bytes), or the number of entries. */
static size_t find(char **env, const char *name, size_t len)
{
	size_t i = 0;
	while (env[i] && !(strncmp(env[i], name, len) == 0 && env[i][len] == '='))
		i++;
	return i;
}

/* One line of a prolog's output. ENV has room for *ROOM entries more. */
static void obey(struct mu_arena *arena, char **env, size_t *room, const char *line)
{
	if (strncmp(line, "export ", 7) == 0 && strchr(line + 7, '=')) {
		const char *entry = line + 7 + strspn(line + 7, " ");
		size_t at = find(env, entry, strcspn(entry, "="));
		if (!env[at] && (*room)-- == 0) {
			*room = 0;
			return;
		}
		if (!env[at])
			env[at + 1] = NULL;
		env[at] = mu_arena_strdup(arena, entry);
	} else if (strncmp(line, "unset ", 6) == 0) {
		const char *name = line + 6 + strspn(line + 6, " ");
		size_t at = find(env, name, strcspn(name, " "));
		for (; env[at]; at++)
			env[at] = env[at + 1];
	} else if (strncmp(line, "print ", 6) == 0) {
		dprintf(1, "%s\n", line + 6);
	}
}

void shep_task_prologs(struct shep_step *s, struct shep_plan *plan)
{
	size_t count = 0, room = EXPORTS_MAX;
	while (plan->env[count])
		count++;
	char **env = mu_arena_alloc(&s->arena, (count + EXPORTS_MAX + 1) * sizeof *env);
	memcpy(env, plan->env, count * sizeof *env);
	for (size_t i = 0; i < s->order->n_task_prolog; i++) {
		MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
		const char *program = program_path(&s->arena, &s->order->task_prolog[i]);
		int status = run(program, env, &out);
		if (status != 0)
			dprintf(2, "slurmstepd: error: task_prolog %s failed status=%d\n", program, status);
		for (char *line = out.len ? (char *)out.data : NULL; line && *line;) {
			char *end = line + strcspn(line, "\n");
			bool more = *end != 0;
			*end = 0;
			obey(&s->arena, env, &room, line);
			line = more ? end + 1 : end;
		}
	}
	plan->env = env;
}

void shep_task_epilogs(const struct shep_step *s, const struct shep_plan *plan)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	for (size_t i = 0; i < s->order->n_task_epilog; i++)
		run(program_path(&arena, &s->order->task_epilog[i]), plan->env, NULL);
}
