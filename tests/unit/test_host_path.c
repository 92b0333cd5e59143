#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "quota/host_path.h"

#define LEN(array) (sizeof(array) / sizeof *(array))

static void paths_have_one_form(void **state)
{
	static const struct {
		const char *path, *clean;
	} cases[] = {
	    {"/", "/"},
	    {"", "/"},
	    {"//", "/"},
	    {".", "/"},
	    {"..", "/"},
	    {"/../..", "/"},
	    {"/data", "/data"},
	    {"/data/", "/data"},
	    {"//data///x//", "/data/x"},
	    {"/./data/./x/.", "/data/x"},
	    {"/data/../etc/x/../..", "/"},
	    {"/a/b/../c", "/a/c"},
	    {"/..a/b..", "/..a/b.."},
	    {"/.../x", "/.../x"},
	    {"data/x", "/data/x"},
	    {"../run/docker.sock", "/run/docker.sock"},
	    {"/Dev", "/Dev"},
	    /* links that every node has */
	    {"/var/run", "/run"},
	    {"/var/run/docker.sock", "/run/docker.sock"},
	    {"/var//run/./docker.sock", "/run/docker.sock"},
	    {"/var/run/../dev", "/dev"},
	    {"/x/../var/run/containerd", "/run/containerd"},
	    {"/var/lock/x", "/run/lock/x"},
	    {"/var/runner", "/var/runner"},
	    {"/data/var/run", "/data/var/run"},
	    /* processes */
	    {"/proc/1/root", "/"},
	    {"/proc/1/root/", "/"},
	    {"/proc/1/root/run/docker.sock", "/run/docker.sock"},
	    {"/proc/self/root/dev", "/dev"},
	    {"/proc/thread-self/root/dev", "/dev"},
	    {"/proc/1/task/1/root/var/run/docker.sock", "/run/docker.sock"},
	    {"/proc/self/task/77/cwd/dev", "/dev"},
	    {"/proc/1/cwd/dev", "/dev"},
	    {"/proc/1/root/proc/1/root/proc/1/cwd", "/"},
	    {"/proc/1/root/../dev", "/dev"},
	    {"/proc/./1//root", "/"},
	    {"/proc/1/rooted", "/proc/1/rooted"},
	    {"/proc/1x/root", "/proc/1x/root"},
	    {"/proc/sys/root", "/proc/sys/root"},
	    {"/data/proc/1/root", "/data/proc/1/root"},
	    {"/proc/1/fd/3", "/proc/1/fd/3"},
	    {"/proc/PID/root", "/proc/PID/root"},
	    /* Windows */
	    {"\\\\.\\pipe\\docker_engine", "\\\\.\\pipe\\docker_engine"},
	    {"\\\\.\\PIPE\\Docker_Engine", "\\\\.\\pipe\\docker_engine"},
	    {"//./pipe/docker_engine", "\\\\.\\pipe\\docker_engine"},
	    {"\\\\?\\pipe\\docker_engine", "\\\\.\\pipe\\docker_engine"},
	    {"//./pipe\\x\\..\\docker_engine\\", "\\\\.\\pipe\\docker_engine"},
	    {"//./pipe/x/../docker_engine", "\\\\.\\pipe\\docker_engine"},
	    {"//./pipe", "\\\\.\\pipe"},
	    {"C:\\ProgramData\\docker", "c:\\programdata\\docker"},
	    {"c:/ProgramData//docker/", "c:\\programdata\\docker"},
	    {"C:\\a\\..\\..\\b", "c:\\b"},
	    {"C:\\", "c:"},
	    {"C:", "c:"},
	    {"\\\\?\\C:\\ProgramData", "c:\\programdata"},
	    /* which are others on Linux */
	    {"//./pipe/../run/docker.sock", "/run/docker.sock"},
	    {"//./pipe/x/../../dev/nvidia0", "/dev/nvidia0"},
	    {"\\\\.\\pipe\\x/../../dev", "/dev"},
	    {"c:/../dev/nvidia0", "/dev/nvidia0"},
	    {"//./dev/nvidia0", "/dev/nvidia0"},
	    {"/pipe/docker_engine", "/pipe/docker_engine"},
	    {"//./run/\\docker.sock", "/run/\\docker.sock"},
	    {"\\x", "/\\x"},
	    {"cc:/x", "/cc:/x"},
	    {"c:x", "/c:x"},
	};
	char clean[GQ_HOST_PATH_MAX + 1], again[GQ_HOST_PATH_MAX + 1];

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		print_message("%s\n", cases[i].path);
		assert_true(gq_host_path_clean(cases[i].path, clean));
		assert_string_equal(clean, cases[i].clean);
		assert_true(gq_host_path_clean(clean, again));
		assert_string_equal(again, clean);
	}
}

/* n times part. */
static char *repeat(const char *part, size_t n, const char *end)
{
	size_t len = strlen(part);
	char *path = malloc(n * len + strlen(end) + 1);

	assert_non_null(path);
	for (size_t i = 0; i < n; i++)
		memcpy(path + i * len, part, len + 1);
	memcpy(path + n * len, end, strlen(end) + 1);
	return path;
}

static void long_paths(void **state)
{
	static const struct {
		const char *part;
		size_t n;
		const char *end;
		size_t clean_len; /* 0: too long */
	} cases[] = {
	    {"/a", 2048, "", 4096}, {"/a", 2048, "/", 4096},       {"/a", 2048, "/.", 4096},
	    {"/a", 2048, "b", 0},   {"/a", 2048, "/b", 0},         {"/a", 2049, "", 0},
	    {"a/", 2049, "..", 0}, /* what could be cut short is not followed that far */
	    {"/", 65536, "x", 2},   {"/./", 65536, "x", 2},        {"/a/..", 65536, "/x", 2},
	    {"C:\\a", 1, "", 4},    {"\\\\.\\pipe\\", 1, "x", 10},
	};
	char clean[GQ_HOST_PATH_MAX + 1];

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *path = repeat(cases[i].part, cases[i].n, cases[i].end);
		print_message("%zu times %s%s\n", cases[i].n, cases[i].part, cases[i].end);
		assert_int_equal(gq_host_path_clean(path, clean), cases[i].clean_len > 0);
		if (cases[i].clean_len)
			assert_int_equal(strlen(clean), cases[i].clean_len);
		free(path);
	}
	for (size_t n = 4080; n < 4110; n++) {
		char *letters = repeat("a", n, "");
		char *file = repeat("C:\\", 1, letters), *pipe = repeat("//./pipe/", 1, letters);
		assert_int_equal(gq_host_path_clean(letters, clean), n + 1 <= GQ_HOST_PATH_MAX);
		assert_int_equal(gq_host_path_clean(file, clean), n + 3 <= GQ_HOST_PATH_MAX);
		assert_int_equal(gq_host_path_clean(pipe, clean), n + 9 <= GQ_HOST_PATH_MAX);
		free(letters);
		free(file);
		free(pipe);
	}
}

static void directories_hold_whole_names(void **state)
{
	static const struct {
		const char *clean, *base;
		bool inside;
	} cases[] = {
	    {"/data", "/data", true},
	    {"/data/x", "/data", true},
	    {"/data/x/y", "/data/x", true},
	    {"/database", "/data", false},
	    {"/dat", "/data", false},
	    {"/", "/data", false},
	    {"/data", "/", true},
	    {"/", "/", true},
	    {"/data\\x", "/data", false},
	    {"\\\\.\\pipe\\x", "\\\\.\\pipe", true},
	    {"\\\\.\\pipe\\x", "/", false},
	    {"c:\\data\\x", "c:\\data", true},
	    {"c:\\data\\x", "c:", true},
	    {"c:\\data/x", "c:\\data", false},
	    {"c:\\database", "c:\\data", false},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		print_message("%s in %s\n", cases[i].clean, cases[i].base);
		assert_int_equal(gq_host_path_inside(cases[i].clean, cases[i].base),
				 cases[i].inside);
	}
}

static const struct {
	const char *path, *socket, *device;
} readings[] = {
    {"/run/docker.sock", "/run/docker.sock", ""},
    {"/var/run/docker.sock", "/run/docker.sock", ""},
    {"/var/run/docker.sock/", "/run/docker.sock", ""},
    {"/var/run/../run//docker.sock", "/run/docker.sock", ""},
    {"/run/docker/containerd/containerd.sock", "/run/docker", ""},
    {"/var/run/dockershim.sock", "/run/dockershim.sock", ""},
    {"/run/cri-dockerd.sock", "/run/cri-dockerd.sock", ""},
    {"/run/containerd/containerd.sock", "/run/containerd/containerd.sock", ""},
    {"/run/containerd/containerd.sock.ttrpc", "/run/containerd/containerd.sock.ttrpc", ""},
    {"/run/containerd", "/run/containerd/containerd.sock", ""},
    {"/run/containerd/s", "/run/containerd", ""},
    {"/run/containerd/io.containerd.runtime.v2.task/k8s.io/x/rootfs", "/run/containerd", ""},
    {"/var/run/crio/crio.sock", "/run/crio/crio.sock", ""},
    {"/run/podman/podman.sock", "/run/podman/podman.sock", ""},
    {"/run/user/1000/podman/podman.sock", "/run/user/UID/podman", ""},
    {"/run/user/1000/podman", "/run/user/UID/podman", ""},
    {"/run/user/1000", "/run/user/UID/docker.sock", ""},
    {"/run/user", "/run/user/UID/docker.sock", ""},
    {"/run/k3s/containerd/containerd.sock", "/run/k3s/containerd/containerd.sock", ""},
    {"/run/k3s/containerd", "/run/k3s/containerd/containerd.sock", ""},
    {"/run/k0s/containerd.sock", "/run/k0s/containerd.sock", ""},
    {"/run/k0s/containerd", "/run/k0s", ""},
    {"/var/snap/microk8s/common/run/containerd.sock",
     "/var/snap/microk8s/common/run/containerd.sock", ""},
    {"/var/snap", "/var/snap/microk8s/common/run/containerd.sock",
     "/var/snap/microk8s/common/var/lib/kubelet"},
    {"/var/snap/docker/current/run/docker/containerd/containerd.sock", "/var/snap/docker/*/run",
     ""},
    {"/run/buildkit/buildkitd.sock", "/run/buildkit/buildkitd.sock", ""},
    {"/var/run/nri/nri.sock", "/run/nri/nri.sock", ""},
    {"/var/lib/docker", "/var/lib/docker", ""},
    {"/var/lib/docker/overlay2/x/merged", "/var/lib/docker", ""},
    {"/var/lib/containerd", "/var/lib/containerd", ""},
    {"/var/lib/containers/storage", "/var/lib/containers", ""},
    {"/proc/1/root/run/docker.sock", "/run/docker.sock", ""},
    {"//./pipe/Docker_Engine", "\\\\.\\pipe\\docker_engine*", ""},
    {"\\\\.\\pipe\\docker_engine_windows", "\\\\.\\pipe\\docker_engine*", ""},
    {"\\\\.\\pipe\\containerd-containerd", "\\\\.\\pipe\\containerd-*", ""},
    {"\\\\.\\pipe", "\\\\.\\pipe\\docker_engine*", ""},
    {"C:\\ProgramData", "c:\\programdata\\docker", ""},
    {"C:\\", "c:\\programdata\\docker", "c:\\var\\lib\\kubelet"},
    /* directories that hold many */
    {"/", "/run/containerd/containerd.sock", "/dev"},
    {"", "/run/containerd/containerd.sock", "/dev"},
    {"/proc/self/root", "/run/containerd/containerd.sock", "/dev"},
    {"/run", "/run/containerd/containerd.sock", "/run/nvidia*"},
    {"/var/run/", "/run/containerd/containerd.sock", "/run/nvidia*"},
    {"/var", "/var/lib/containerd", "/var/lib/kubelet"},
    {"/var/lib", "/var/lib/containerd", "/var/lib/kubelet"},
    {"/proc", "/proc/PID/root", "/proc/driver/nvidia*"},
    {"/proc/1", "/proc/PID/root", ""},
    {"/proc/self/task", "/proc/PID/task/PID/root", ""},
    {"/proc/1/fd/7/run/docker.sock", "/proc/PID/fd", ""},
    {"/proc/1/task/1/fd", "/proc/PID/task/PID/fd", ""},
    /* devices */
    {"/dev", "", "/dev"},
    {"/dev/nvidia0", "", "/dev"},
    {"/dev/./dri/renderD128", "", "/dev"},
    {"/sys", "", "/sys"},
    {"/sys/bus/pci", "", "/sys"},
    {"/proc/driver", "", "/proc/driver/nvidia*"},
    {"/proc/driver/nvidia", "", "/proc/driver/nvidia*"},
    {"/proc/driver/nvidia-caps/mig-minors", "", "/proc/driver/nvidia*"},
    {"/var/lib/kubelet", "", "/var/lib/kubelet"},
    {"/var/lib/kubelet/device-plugins", "", "/var/lib/kubelet"},
    {"/var/lib/kubelet/pod-resources/kubelet.sock", "", "/var/lib/kubelet"},
    {"/run/nvidia/driver", "", "/run/nvidia*"},
    {"/run/nvidia-persistenced/socket", "", "/run/nvidia*"},
    {"/var/run/cdi", "", "/run/cdi"},
    {"/etc/cdi/nvidia.yaml", "", "/etc/cdi"},
    {"/etc/kubernetes/manifests/x.yaml", "", "/etc/kubernetes"},
    {"/var/lib/rancher/k3s/server", "", "/var/lib/rancher/k3s/server/manifests"},
    {"/etc", "", "/etc/cdi"},
    {"/usr/local/vgpu/containers", "", "/usr/local/vgpu"},
    {"/usr/local", "", "/usr/local/vgpu"},
    /* nothing of all that */
    {"/var/log", "", ""},
    {"/var/log/pods", "", ""},
    {"/data", "", ""},
    {"/data/run/docker.sock", "", ""},
    {"/tmp", "", ""},
    {"/mnt/dev", "", ""},
    {"/etc/localtime", "", ""},
    {"/etc/machine-id", "", ""},
    {"/etc/docker/certs.d", "", ""},
    {"/run/secrets/kubernetes.io", "", ""},
    {"/run/flannel", "", ""},
    {"/run/lock", "", ""},
    {"/run/user/someone", "", ""},
    {"/lib/modules", "", ""},
    {"/usr/share/zoneinfo", "", ""},
    {"/usr/src", "", ""},
    {"/usr/local/nvidia/lib64", "", ""},
    {"/opt/local-path-provisioner/pvc-1", "", ""},
    {"/var/lib/rancher/k3s/storage/pvc-1", "", ""},
    {"/var/snap/microk8s/common/default-storage/x", "", ""},
    {"/var/lib/docker/containers", "", ""},
    {"/var/lib/docker/containers/x/x-json.log", "", ""},
    {"/var/lib/dockerish", "", ""},
    {"/var/lib/etcd", "", ""},
    {"/proc/sys", "", "/proc/sys"},
    {"/proc/cpuinfo", "", ""},
    {"/proc/1/mounts", "", ""},
    {"/home/x/.docker/run", "", ""},
    {"/device", "", ""},
    {"/DEV", "", ""},
    {"\\\\.\\pipe\\mine", "", ""},
    {"C:\\Users", "", ""},
    {"D:\\", "", ""},
};

static void paths_lead_to_sockets_and_devices(void **state)
{
	char clean[GQ_HOST_PATH_MAX + 1];

	(void)state;
	for (size_t i = 0; i < LEN(readings); i++) {
		print_message("%s\n", readings[i].path);
		assert_true(gq_host_path_clean(readings[i].path, clean));
		struct gq_host_path_reading reading = gq_host_path_read(clean, false);
		assert_string_equal(reading.socket ? reading.socket : "", readings[i].socket);
		assert_string_equal(reading.device ? reading.device : "", readings[i].device);
	}
}

/* Logs are collected by reading; who writes there could plant them, or reach what is beside. */
static void logs_may_be_read(void **state)
{
	static const struct {
		const char *path, *read, *written;
	} cases[] = {
	    {"/var/lib/docker/containers", "", "/var/lib/docker"},
	    {"/var/lib/docker/containers/x", "", "/var/lib/docker"},
	    {"/var/lib/docker", "/var/lib/docker", "/var/lib/docker"},
	    {"/var/lib/docker/containersx", "/var/lib/docker", "/var/lib/docker"},
	    {"/var/log/pods", "", ""},
	    {"/run/docker.sock", "/run/docker.sock", "/run/docker.sock"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++)
		for (int written = 0; written < 2; written++) {
			const char *socket = gq_host_path_read(cases[i].path, written).socket;
			assert_string_equal(socket ? socket : "",
					    written ? cases[i].written : cases[i].read);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(paths_have_one_form),
	    cmocka_unit_test(long_paths),
	    cmocka_unit_test(directories_hold_whole_names),
	    cmocka_unit_test(paths_lead_to_sockets_and_devices),
	    cmocka_unit_test(logs_may_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
