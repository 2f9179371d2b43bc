#include "log/fdpass.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(FDPASS_MAX * sizeof(int))];
};

int fdpass_send(int sock, const void *data, size_t len, const int *fds, size_t fd_count, struct mu_err *err)
{
	if (fd_count > FDPASS_MAX || len == 0)
		return mu_fail(err, MU_ELIMIT, "a message carries 1 byte or more and at most %d descriptors",
			       FDPASS_MAX);
	union control control = {0};
	struct iovec iov = {.iov_base = (void *)data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (fd_count > 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
	}
	while (iov.iov_len > 0) {
		ssize_t n = sendmsg(sock, &msg, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return mu_fail(err, MU_EIO, "cannot pass descriptors: %s", strerror(errno));
		iov.iov_base = (char *)iov.iov_base + n;
		iov.iov_len -= (size_t)n;
		msg.msg_control = NULL;
		msg.msg_controllen = 0;
	}
	return 0;
}

/* Takes the descriptors out of MSG: the first FD_CAP into FDS, the others are closed. Returns how many there
 * were. */
static size_t take(struct msghdr *msg, int *fds, size_t fd_cap)
{
	size_t got = 0;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++, got++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
			if (got < fd_cap)
				fds[got] = fd;
			else
				close(fd);
		}
	}
	return got;
}

int fdpass_receive(int sock, void *data, size_t cap, size_t *ret_len, int *fds, size_t fd_cap,
		   size_t *ret_count, struct mu_err *err)
{
	union control control;
	struct iovec iov = {.iov_base = data, .iov_len = cap};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof control.bytes};
	ssize_t n;
	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return mu_fail(err, MU_ENOTREADY, "no message is waiting");
	if (n < 0)
		return mu_fail(err, MU_EIO, "cannot receive descriptors: %s", strerror(errno));
	size_t got = take(&msg, fds, fd_cap);
	if (got > fd_cap || msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) {
		for (size_t i = 0; i < got && i < fd_cap; i++)
			close(fds[i]);
		return mu_fail(err, MU_EPROTO, "a message with more bytes or descriptors than agreed");
	}
	*ret_len = (size_t)n;
	*ret_count = got;
	return 0;
}
