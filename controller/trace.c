#include "controller/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"

#define LINE_MAX_BYTES (256u << 10)

/* Set before other threads start, and read only from then on. */
static int trace_fd = -1;
static const char *trace_by;

void gq_trace_open(const char *by)
{
	const char *path = getenv("GPUQUOTA_TRACE");

	if (!path || !path[0])
		return;
	trace_by = by;
	trace_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (trace_fd < 0)
		gq_log(GQ_LOG_ERROR, "the trace can't be written", GQ_S("file", path),
		       GQ_S("problem", strerror(errno)));
}

bool gq_trace_on(void)
{
	return trace_fd >= 0;
}

static void begin(struct gq_buf *line, const char *event, uint64_t epoch, uint64_t seq)
{
	gq_buf_printf(line, "{\"ns\":%lld,\"by\":", (long long)gq_clock_mono_ns(&gq_clock_real));
	gq_buf_json_string(line, trace_by, strlen(trace_by));
	gq_buf_printf(line, ",\"event\":\"%s\",\"epoch\":%llu,\"seq\":%llu,\"uids\":[", event,
		      (unsigned long long)epoch, (unsigned long long)seq);
}

static void end(struct gq_buf *line)
{
	gq_buf_puts(line, "]}\n");
	if (line->code || write(trace_fd, line->data, line->len) != (ssize_t)line->len)
		gq_log(GQ_LOG_ERROR, "a line of the trace is lost");
}

void gq_trace(const char *event, uint64_t epoch, uint64_t seq, const char *const *uids, size_t n)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);

	if (trace_fd < 0)
		return;
	begin(&line, event, epoch, seq);
	for (size_t i = 0; i < n; i++) {
		gq_buf_puts(&line, i ? "," : "");
		gq_buf_json_string(&line, uids[i], strlen(uids[i]));
	}
	end(&line);
}

void gq_trace_lines(const char *event, uint64_t epoch, uint64_t seq, const struct gq_buf *uids)
{
	struct gq_buf line GQ_BUF_CLEANUP = GQ_BUF_INIT(LINE_MAX_BYTES);
	const char *at = uids->data ? uids->data : "";

	if (trace_fd < 0)
		return;
	begin(&line, event, epoch, seq);
	while (*at) {
		size_t len = strcspn(at, "\n");
		gq_buf_puts(&line, at > uids->data ? "," : "");
		gq_buf_json_string(&line, at, len);
		at += len + (at[len] == '\n');
	}
	end(&line);
}
