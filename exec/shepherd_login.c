/* exec/shepherd_login.c: --get-user-env: what the user's own login shell sets on this node, had by su in a
 * child that is root still and in the job's group already. Owns: reading it, and what it must not replace.
 * The child waits here, the shepherd does not. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/shepherd.h"
#include "exec/shepherd_step.h"
#include "exec/spool.h"

/* Profiles may print anything: what counts lies between these two. */
#define BEGIN_MARK "_muster_environment_begins_\n"
#define END_MARK "_muster_environment_ends_\n"
enum { LOGIN_MAX = 3 << 20 };

/* In a child of the child. No variable of the job's may reach a program that runs as root. */
static void run_su(const Mu__StepOrder *o, int out)
{
	static const char command[] = "/bin/echo "
				      "_muster_environment_begins_"
				      "; /usr/bin/env -0; /bin/echo "
				      "_muster_environment_ends_";
	char *env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=dumb",
		       NULL};
	char *login[] = {"su", "-", o->user, "-c", (char *)command, NULL};
	char *plain[] = {"su", o->user, "-c", (char *)command, NULL};
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (dup2(null_fd, 0) < 0 || dup2(out, 1) < 0 || dup2(null_fd, 2) < 0 || chdir("/"))
		_exit(126);
	execve("/bin/su", o->login_plain ? plain : login, env);
	_exit(127);
}

/* su becomes the shepherd's child: the script must not find one that it did not start. The id of its group,
 * or -1. */
static pid_t start_su(const Mu__StepOrder *o, int out)
{
	pid_t pid = fork();
	int status;
	if (pid == 0) {
		setsid();
		pid_t su = fork();
		if (su == 0)
			run_su(o, out);
		_exit(su < 0);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return pid > 0 && status == 0 ? pid : -1;
}

/* The block between the marks, NUL behind each entry; NULL while it has not come whole. */
static char *find_block(const struct mu_buf *b, size_t *ret_len)
{
	char *begin = b->len ? memmem(b->data, b->len, BEGIN_MARK, sizeof BEGIN_MARK - 1) : NULL;
	if (!begin)
		return NULL;
	begin += sizeof BEGIN_MARK - 1;
	size_t rest = b->len - (size_t)(begin - (char *)b->data);
	char *end = memmem(begin, rest, END_MARK, sizeof END_MARK - 1);
	*ret_len = end ? (size_t)(end - begin) : 0;
	return end;
}

static bool read_login(const Mu__StepOrder *o, struct mu_buf *out, const char **ret_why)
{
	int64_t deadline = exe_boot_usec() + (int64_t)o->login_sec * 1000000, left;
	size_t len;
	char chunk[16384];
	int fd[2];
	*ret_why = "su said nothing that can be used";
	if (pipe2(fd, O_CLOEXEC))
		return false;
	pid_t group = start_su(o, fd[1]);
	close(fd[1]);
	while (group > 0 && !find_block(out, &len) && out->len < LOGIN_MAX) {
		struct pollfd p = {fd[0], POLLIN, 0};
		left = deadline - exe_boot_usec();
		if (left <= 0) {
			*ret_why = "it took too long";
			break;
		}
		if (poll(&p, 1, (int)(left / 1000 + 1)) <= 0)
			continue;
		ssize_t n = read(fd[0], chunk, sizeof chunk);
		if (n > 0)
			mu_buf_add(out, chunk, (size_t)n);
		else if (n == 0 || errno != EINTR)
			break;
	}
	close(fd[0]);
	bool found = find_block(out, &len) != NULL;
	if (group > 0 && !found)
		kill(-group, SIGTERM);
	return found;
}

static bool has(char *const *env, size_t count, const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;
	for (size_t i = 0; i < count; i++)
		if (strncmp(env[i], entry, len) == 0)
			return true;
	return false;
}

/* What belongs to the shell that su started, or to Muster. */
static bool is_passing(const char *entry)
{
	static const char *const name[] = {"_=", "SHLVL=", "PWD=", "OLDPWD=", "TERM=", "SLURM_", "PMI_"};
	for (size_t i = 0; i < sizeof name / sizeof *name; i++)
		if (strncmp(entry, name[i], strlen(name[i])) == 0)
			return true;
	return !strchr(entry, '=') || entry[0] == '=';
}

void shep_login(struct shep_step *s, struct shep_plan *p, size_t room, int say_fd)
{
	const Mu__StepOrder *o = s->order;
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	const char *why;
	size_t len = 0, defaults = o->login_defaults < p->env_count ? o->login_defaults : p->env_count;
	size_t own = p->env_count - defaults, count = own, entries = 0;
	if (!p->root || !o->user || !read_login(o, &out, &why)) {
		dprintf(say_fd,
			"slurmstepd: error: Failed to load the login environment of %s: %s; the job goes on "
			"with what it was submitted with\n",
			o->user ? o->user : "the user", p->root && o->user ? why : "the agent is not root");
		return;
	}
	char *end = find_block(&out, &len), *block = mu_arena_dup(&s->arena, end - len, len + 1);
	for (size_t at = 0; at < len; at++)
		entries += block[at] == 0;
	char **env = mu_arena_alloc(&s->arena, (p->env_count + entries + room + 1) * sizeof *env);
	memcpy(env, p->env, own * sizeof *env);
	for (size_t at = 0; at < len && entries; at += strlen(block + at) + 1)
		if (!is_passing(block + at) && !has(env, count, block + at))
			env[count++] = block + at;
	for (size_t i = own; i < p->env_count; i++)
		if (!has(env, count, p->env[i]))
			env[count++] = p->env[i];
	env[count] = NULL;
	p->env = env;
	p->env_count = count;
}
