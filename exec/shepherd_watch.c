/* exec/shepherd_watch.c: sattachs: more terminals of a step that runs. The agent checks who asks and passes
 * the connection. Each gets what the tasks say from then on, against credit of its own, so nothing is lost
 * and nothing grows without bound; one that does not read holds the step up for SHEP_STALL_USEC at most. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "exec/shepherd_step.h"
#include "exec/spool.h"

enum { READ_BYTES = 16 * 1024 };

static size_t waiting(const struct shep_watch *w)
{
	return w->peer.out.len - w->peer.out_used;
}

static uint32_t room_of(const struct shep_watch *w)
{
	return waiting(w) < SHEP_OUT_MAX ? stream_may_send(&w->out) : 0;
}

void shep_watch_add(struct shep_step *s, int fd)
{
	struct shep_watch *w = NULL;
	for (size_t i = 0; i < SHEP_WATCHERS && !w; i++)
		if (s->watch[i].peer.fd < 0)
			w = &s->watch[i];
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	struct shep_peer refused = {.fd = fd};
	if (!w) {
		static const char text[] = "slurmstepd: error: the step has as many sattachs as it can\n";
		stream_put(&refused.out, STREAM_TEXT, 0, text, sizeof text - 1);
		shep_peer_flush(&refused);
		shep_peer_close(&refused);
		return;
	}
	*w = (struct shep_watch){.peer = refused};
	stream_credit_init(&w->out, STREAM_CREDIT);
	stream_credit_init(&w->in, STREAM_CREDIT);
	for (size_t i = 0; i < s->task_count; i++)
		if (s->task[i].ended)
			shep_flow_put_end(s, &s->task[i], &w->peer.out);
}

bool shep_watched(const struct shep_step *s)
{
	for (size_t i = 0; i < SHEP_WATCHERS; i++)
		if (s->watch[i].peer.fd >= 0)
			return true;
	return false;
}

uint32_t shep_watch_room(const struct shep_step *s)
{
	uint32_t least = UINT32_MAX;
	for (size_t i = 0; i < SHEP_WATCHERS; i++)
		if (s->watch[i].peer.fd >= 0 && room_of(&s->watch[i]) < least)
			least = room_of(&s->watch[i]);
	return least;
}

void shep_watch_put(struct shep_step *s, uint8_t kind, uint16_t channel, const void *payload, size_t len,
		    bool spends)
{
	for (size_t i = 0; i < SHEP_WATCHERS; i++) {
		struct shep_watch *w = &s->watch[i];
		if (w->peer.fd < 0)
			continue;
		stream_put(&w->peer.out, kind, channel, payload, len);
		if (spends)
			stream_sent(&w->out, (uint32_t)len);
	}
}

static bool take_frame(struct shep_step *s, struct shep_watch *w, const struct stream_frame *f)
{
	uint32_t word = 0;
	switch (f->kind) {
	case STREAM_STDIN:
		if (stream_received(&w->in, (uint32_t)f->payload.len))
			return false;
		w->in_owed += (uint32_t)f->payload.len;
		/* The end of its input is its own: srun's goes on. */
		if (f->payload.len)
			shep_flow_input(s, f);
		return true;
	case STREAM_CREDIT_GRANT:
		return stream_get_u32(f, &word) == 0 && stream_granted(&w->out, word) == 0;
	case STREAM_PING:
		stream_put(&w->peer.out, STREAM_PING, 0, NULL, 0);
		return true;
	default:
		return false;
	}
}

void shep_watch_read(struct shep_step *s, struct shep_watch *w)
{
	uint8_t chunk[READ_BYTES];
	struct stream_frame f;
	ssize_t n = recv(w->peer.fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		shep_peer_close(&w->peer);
		return;
	}
	stream_feed(&w->peer.reader, chunk, (size_t)n);
	for (int code; w->peer.fd >= 0 && (code = stream_next(&w->peer.reader, &f)) != 0;)
		if (code < 0 || !take_frame(s, w, &f))
			shep_peer_close(&w->peer);
}

void shep_watch_turn(struct shep_step *s, int64_t now)
{
	for (size_t i = 0; i < SHEP_WATCHERS; i++) {
		struct shep_watch *w = &s->watch[i];
		if (w->peer.fd < 0)
			continue;
		if (w->in_owed && shep_flow_backlog(s) < STREAM_CREDIT) {
			uint32_t more = stream_consumed(&w->in, w->in_owed);
			w->in_owed = 0;
			if (more)
				stream_put_u32(&w->peer.out, STREAM_CREDIT_GRANT, 0, more);
		}
		shep_peer_flush(&w->peer);
		if (w->peer.fd < 0 || room_of(w))
			w->full_boot_usec = 0;
		else if (!w->full_boot_usec)
			w->full_boot_usec = now;
		else if (now - w->full_boot_usec >= SHEP_STALL_USEC)
			shep_peer_close(&w->peer);
	}
}

int64_t shep_watch_due(const struct shep_step *s)
{
	int64_t due = INT64_MAX;
	for (size_t i = 0; i < SHEP_WATCHERS; i++) {
		const struct shep_watch *w = &s->watch[i];
		if (w->peer.fd >= 0 && w->full_boot_usec && w->full_boot_usec + SHEP_STALL_USEC < due)
			due = w->full_boot_usec + SHEP_STALL_USEC;
	}
	return due;
}

void shep_watch_last(struct shep_step *s)
{
	int64_t until = exe_boot_usec() + SHEP_STALL_USEC;
	for (size_t i = 0; i < SHEP_WATCHERS; i++) {
		struct shep_peer *p = &s->watch[i].peer;
		for (int64_t now;
		     p->fd >= 0 && shep_peer_flush(p) && p->out.len && (now = exe_boot_usec()) < until;) {
			struct pollfd wait = {p->fd, POLLOUT, 0};
			if (poll(&wait, 1, (int)((until - now) / 1000) + 1) < 0 && errno != EINTR)
				break;
		}
		shep_peer_close(p);
	}
}
