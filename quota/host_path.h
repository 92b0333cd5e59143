#ifndef GQ_QUOTA_HOST_PATH_H
#define GQ_QUOTA_HOST_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* What a path of a node leads to. Rules compare paths as the kubelet would resolve them, not as
 * they are written. */

#define GQ_HOST_PATH_MAX 4096 /* Linux' own; Kubernetes sets none */

/* Writes the path in one form: no "//", "." and "..", no slash at the end; /var/run is /run and
 * /var/lock is /run/lock, as on every system with systemd; /proc/PID/root and /proc/PID/cwd are the
 * root directory; a Windows pipe is \\.\pipe\NAME and a Windows file C:\DIR\FILE, in lower case. A
 * relative path starts at the root, an empty one is the root. Returns false when it is longer than
 * GQ_HOST_PATH_MAX: it may lead anywhere then. */
bool gq_host_path_clean(const char *path, char ret_clean[GQ_HOST_PATH_MAX + 1]);

/* clean is base or lies below it. */
bool gq_host_path_inside(const char *clean, const char *base);

/* What mounting a path gives. Each is an entry of a table, static: the socket or device that the
 * path is, that lies somewhere below it, or, for a directory of devices or one that is a runtime's
 * alone, that it lies in. NULL: none. An entry may have placeholders: /proc/PID/root,
 * /run/user/UID/podman, /run/nvidia*. Source: the default sockets of docker, containerd, CRI-O,
 * podman, cri-dockerd, k3s, RKE2, k0s and MicroK8s; the kubelet's device plugin API. */
struct gq_host_path_reading {
	/* Of a container runtime, or a directory by which it is taken over:
	 * "/run/containerd/containerd.sock", "/var/lib/docker". */
	const char *socket;
	const char *device; /* devices, the kubelet's directories, /sys: "/dev" */
};
/* clean: as gq_host_path_clean() gives it. written: it may be written to, which makes a difference
 * where collectors of logs read. */
struct gq_host_path_reading gq_host_path_read(const char *clean, bool written);

#endif
