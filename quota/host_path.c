#include "quota/host_path.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A path of the tables below is compared part by part. PID stands for a process of /proc (a number,
 * self, thread-self), UID for a number; a part that ends in '*' is a beginning. What lies below a
 * path counts as the path. */

/* Sockets of container runtimes, and what else of them lets one take over containers. These
 * directories belong to their runtime wholly: those of shims, bundles and plugins below /run, and
 * the storage of images and containers below /var/lib. */
static const char *const sockets[] = {
    "/run/containerd/containerd.sock",
    "/run/containerd/containerd.sock.ttrpc",
    "/run/containerd",
    "/run/docker.sock",
    "/run/docker", /* its own containerd, plugins */
    "/run/crio/crio.sock",
    "/run/crio",
    "/run/podman/podman.sock",
    "/run/podman",
    "/run/cri-dockerd.sock",
    "/run/dockershim.sock",
    "/var/lib/containerd",
    "/var/lib/docker",
    "/var/lib/containers",
    "/run/k3s/containerd/containerd.sock", /* RKE2 has it there too */
    "/run/k3s",
    "/run/k0s/containerd.sock",
    "/run/k0s",
    /* not all of "common": its default-storage holds volumes */
    "/var/snap/microk8s/common/run/containerd.sock",
    "/var/snap/microk8s/common/run",
    "/run/nri/nri.sock", /* plugins of the runtime: they may add devices */
    "/run/nri",
    "/run/buildkit/buildkitd.sock",
    "/run/buildkit",
    "/run/user/UID/docker.sock",
    "/run/user/UID/docker",
    "/run/user/UID/podman",
    "/run/user/UID/containerd-rootless",
    "/run/user/UID/k3s",
    "/run/user/UID/buildkit",
    "/run/cri-resmgr",
    "/run/balena-engine.sock",
    "/run/host-containerd/containerd.sock",
    "/run/isulad.sock",
    "/run/balena-engine.sock",
    "/run/host-containerd/containerd.sock",
    "/run/frakti.sock",
    "/run/rktlet.sock",
    "/run/pouchcri.sock",
    "/run/pouchd.sock",
    "/var/snap/docker/*/run",
    "/var/lib/k0s/containerd",
    "/var/lib/rancher/k3s/agent/containerd",
    "/var/lib/rancher/rke2/agent/containerd",
    "/var/snap/microk8s/common/var/lib/containerd",
    /* a process of the node leads to all of its files */
    "/proc/PID/root",
    "/proc/PID/task/PID/root",
    "/proc/PID/fd",
    "/proc/PID/task/PID/fd",
    "/proc/PID/map_files",
    "\\\\.\\pipe\\docker_engine*",
    "\\\\.\\pipe\\containerd-*",
    "\\\\.\\pipe\\cri-dockerd",
    "\\\\.\\pipe\\dockershim",
    "c:\\programdata\\docker",
    "c:\\programdata\\containerd",
};

/* Collectors of logs read the files of single containers. */
static const char docker_logs[] = "/var/lib/docker/containers";

/* Ways to a device: the devices and their registers, the directories by which device plugins and
 * DRA drivers talk to the kubelet, specifications of devices to inject, and what GPU drivers and
 * sharing systems keep on the node. */
static const char *const devices[] = {
    "/dev",
    "/sys",
    "/proc/driver/nvidia*",
    "/var/lib/kubelet",
    "/var/lib/k0s/kubelet",
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/run/nvidia*",
    "/run/cdi",
    "/etc/cdi",
    "/proc/sys", /* core_pattern names a program that the kernel runs as root */
    "/proc/sysrq-trigger",
    /* what lies there the kubelet, or a distribution's server, runs with every right */
    "/etc/kubernetes",
    "/var/lib/rancher/k3s/agent/pod-manifests",
    "/var/lib/rancher/k3s/server/manifests",
    "/var/lib/rancher/rke2/agent/pod-manifests",
    "/var/lib/rancher/rke2/server/manifests",
    "/var/lib/k0s/manifests",
    "/usr/local/vgpu", /* HAMi's libraries and the counters that it enforces by */
    "c:\\var\\lib\\kubelet",
};

/* Of two paths; NESTED: one lies in the other. */
enum relation { APART, NESTED, SAME };

static bool is_number(const char *part, size_t len)
{
	return len > 0 && strspn(part, "0123456789") >= len;
}

static bool is_text(const char *part, size_t len, const char *text)
{
	return strlen(text) == len && memcmp(part, text, len) == 0;
}

/* Whether a part of a path below /proc names a process. */
static bool is_process(const char *part, size_t len)
{
	return is_number(part, len) || is_text(part, len, "self") ||
	       is_text(part, len, "thread-self");
}

static bool is_part(const char *part, size_t len, const char *pattern, size_t pattern_len)
{
	if (is_text(pattern, pattern_len, "PID"))
		return is_process(part, len);
	if (is_text(pattern, pattern_len, "UID"))
		return is_number(part, len);
	if (pattern_len && pattern[pattern_len - 1] == '*')
		return len >= pattern_len - 1 && memcmp(part, pattern, pattern_len - 1) == 0;
	return len == pattern_len && memcmp(part, pattern, len) == 0;
}

/* pattern: a path of the tables. */
static enum relation relate(const char *clean, const char *pattern)
{
	const char *separator = *pattern == '/' ? "/" : "\\";

	if ((*clean == '/') != (*pattern == '/'))
		return APART;
	if (strcmp(clean, "/") == 0)
		return NESTED;
	for (;;) {
		size_t len = strcspn(clean, separator), pattern_len = strcspn(pattern, separator);
		if (!is_part(clean, len, pattern, pattern_len))
			return APART;
		clean += len;
		pattern += pattern_len;
		if (!*clean || !*pattern)
			return *clean || *pattern ? NESTED : SAME;
		clean++;
		pattern++;
	}
}

static const char *find(const char *const *places, size_t n, const char *clean)
{
	for (size_t i = 0; i < n; i++)
		if (relate(clean, places[i]) != APART)
			return places[i];
	return NULL;
}

struct gq_host_path_reading gq_host_path_read(const char *clean, bool written)
{
	return (struct gq_host_path_reading){
	    .socket = !written && gq_host_path_inside(clean, docker_logs)
			  ? NULL
			  : find(sockets, COUNT(sockets), clean),
	    .device = find(devices, COUNT(devices), clean),
	};
}

bool gq_host_path_inside(const char *clean, const char *base)
{
	size_t len = strlen(base);

	if (strcmp(base, "/") == 0)
		return *clean == '/';
	return strncmp(clean, base, len) == 0 &&
	       (!clean[len] || clean[len] == (*base == '/' ? '/' : '\\'));
}

/* A path while it is put together: "" is the root. */
struct way {
	char *text;
	size_t len;
	char separator;
};

static bool push(struct way *way, const char *part, size_t len)
{
	if (len + 1 > GQ_HOST_PATH_MAX - way->len)
		return false;
	way->text[way->len] = way->separator;
	memcpy(way->text + way->len + 1, part, len);
	way->len += len + 1;
	way->text[way->len] = '\0';
	return true;
}

static void pop(struct way *way)
{
	while (way->len && way->text[--way->len] != way->separator)
		;
	way->text[way->len] = '\0';
}

static void restart(struct way *way, const char *text)
{
	way->len = strlen(text);
	memcpy(way->text, text, way->len + 1);
}

/* Goes where a link of the system leads, at once, as the kernel does: what ".." means behind it
 * hangs on that. */
static void follow(struct way *way)
{
	static const char *const to_root[] = {
	    "/proc/PID/root",
	    "/proc/PID/cwd",
	    "/proc/PID/task/PID/root",
	    "/proc/PID/task/PID/cwd",
	};

	if (strcmp(way->text, "/var/run") == 0)
		restart(way, "/run");
	else if (strcmp(way->text, "/var/lock") == 0)
		restart(way, "/run/lock");
	for (size_t i = 0; i < COUNT(to_root); i++)
		if (relate(way->text, to_root[i]) == SAME)
			restart(way, "");
}

/* Appends the parts of path, the way staying behind its first root bytes. */
static bool walk(struct way *way, const char *path, const char *separators)
{
	size_t root = way->len;

	while (*(path += strspn(path, separators))) {
		size_t len = strcspn(path, separators);
		if (is_text(path, len, "..")) {
			if (way->len > root)
				pop(way);
		} else if (!is_text(path, len, ".")) {
			if (!push(way, path, len))
				return false;
			if (way->separator == '/')
				follow(way);
		}
		path += len;
	}
	return true;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_slash(char c)
{
	return c == '/' || c == '\\';
}

/* The bytes of path that name a device or a drive of Windows; 0: it is none. */
static size_t windows_root(const char *path)
{
	char c = lower(path[0]);

	if (is_slash(path[0]) && is_slash(path[1]) && (path[2] == '.' || path[2] == '?') &&
	    is_slash(path[3]))
		return 4;
	if (c >= 'a' && c <= 'z' && path[1] == ':' && (!path[2] || is_slash(path[2])))
		return 2;
	return 0;
}

/* Whether ".." stands in it as Linux sees it. There backslashes and colons are letters, so that
 * "c:/../dev" and "\\.\pipe\x/../../dev" lead to devices. */
static bool goes_up(const char *path)
{
	for (; *(path += strspn(path, "/")); path += strcspn(path, "/"))
		if (is_text(path, strcspn(path, "/"), ".."))
			return true;
	return false;
}

/* ret_windows: whether it is one of Windows' paths, and then in ret_clean unless it is too long. */
static bool clean_windows(const char *path, char *ret_clean, bool *ret_windows)
{
	static const char pipe[] = "\\\\.\\pipe";
	struct way way = {.text = ret_clean, .separator = '\\'};
	size_t root = windows_root(path);

	*ret_windows = false;
	if (root == 4 && windows_root(path + root) == 2) { /* \\?\C:\ */
		path += root;
		root = 2;
	}
	if (root == 0 || ((root == 2 || strchr(path, '\\')) && goes_up(path)))
		return true;
	restart(&way, root == 4 ? "\\\\." : (const char[]){lower(path[0]), ':', '\0'});
	bool fits = walk(&way, path + root, "/\\");
	for (size_t i = 0; i < way.len; i++)
		ret_clean[i] = lower(ret_clean[i]);
	/* "//./" stands in front of Linux' paths too */
	*ret_windows = root == 2 || gq_host_path_inside(ret_clean, pipe);
	return fits;
}

bool gq_host_path_clean(const char *path, char ret_clean[GQ_HOST_PATH_MAX + 1])
{
	struct way way = {.text = ret_clean, .separator = '/'};
	bool windows;
	bool fits = clean_windows(path, ret_clean, &windows);

	if (windows)
		return fits;
	restart(&way, "");
	if (!walk(&way, path, "/"))
		return false;
	if (way.len == 0)
		restart(&way, "/");
	return true;
}
