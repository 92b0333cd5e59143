package policies

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestVGPUDefaultMemory(t *testing.T) {
	labelled := newNamespace(t, map[string]string{"gpuquota.io/default-gpu-memory": "true"})
	plain := newNamespace(t, nil)
	main := func(asks string) *corev1.Pod { return newPod(t, "containers: ["+limits("main", asks)+"]") }
	inForce(t, "vgpu-default-memory.yaml", func() bool {
		pod := mustTry(t, labelled, main("gpu: 1"))
		return len(pod.Spec.Containers[0].Resources.Limits) == 2
	})
	for _, tc := range []struct{ asks, want string }{
		{"gpu: 1", "gpu=1 gpumem=8192"},
		{"gpu: 3, gpucores: 20", "gpu=3 gpucores=20 gpumem=8192"},
		{"gpucores: 20", "gpucores=20 gpumem=8192"},
		{"gpu: 1, gpumem: 100", "gpu=1 gpumem=100"},
		{"gpu: 1, gpumem-percentage: 100", "gpu=1 gpumem-percentage=100"},
		{"gpu: 1, gpu-memory: 8Gi", "gpu=1 gpu-memory=8Gi"},
		{"gpumem: 100", "gpumem=100"},
		{"gpu: 0", "gpu=0"},
		{"mig-1g.5gb: 1", "mig-1g.5gb=1"},
		{"", ""},
	} {
		pod := mustTry(t, labelled, main(tc.asks))
		if have := resourcesOf(t, pod.Spec.Containers[0]); have != tc.want {
			t.Errorf("%s: have %s, want %s", tc.asks, have, tc.want)
		}
		pod.ObjectMeta = main("").ObjectMeta
		if have := resourcesOf(t, mustTry(t, labelled, pod).Spec.Containers[0]); have != tc.want {
			t.Errorf("%s, again: have %s, want %s", tc.asks, have, tc.want)
		}
	}
	if have := resourcesOf(t, mustTry(t, plain, main("gpu: 1")).Spec.Containers[0]); have != "gpu=1" {
		t.Errorf("in a namespace without the label: %s", have)
	}
	pod := mustTry(t, labelled, newPod(t, `
initContainers:
- `+limits("first", "gpu: 1")+`
containers:
- `+limits("one", "gpu: 1")+`
- {name: idle, image: none}
- `+limits("two", "gpu: 1, gpumem: 5")))
	for i, want := range []string{"gpu=1 gpumem=8192", "gpu=1 gpumem=8192", "", "gpu=1 gpumem=5"} {
		container := append(pod.Spec.InitContainers, pod.Spec.Containers...)[i]
		if have := resourcesOf(t, container); have != want {
			t.Errorf("%s: have %s, want %s", container.Name, have, want)
		}
	}

	// Beside fractions-hami.yaml, whichever the API server asks first: a fraction keeps its own share.
	inForce(t, "fractions-hami.yaml", hamiActs(t, labelled))
	for _, tc := range []struct{ asks, want string }{
		{"gpu: 0.5", "gpu=1 gpucores=50 gpumem-percentage=50"},
		{"gpu: 0.5, gpu-memory: 1Gi", "gpu=1 gpucores=50 gpumem=1024"},
		{"gpu-memory: 1Gi", "gpu=1 gpumem=1024"},
		{"gpu: 2", "gpu=2 gpumem=8192"},
	} {
		if have := resourcesOf(t, mustTry(t, labelled, main(tc.asks)).Spec.Containers[0]); have != tc.want {
			t.Errorf("both policies, %s: have %s, want %s", tc.asks, have, tc.want)
		}
	}
}

func TestUserNamespaces(t *testing.T) {
	labelled := newNamespace(t, map[string]string{"gpuquota.io/user-namespaces": "true"})
	plain := newNamespace(t, map[string]string{"gpuquota.io/user-namespaces": "false"})
	const main = "containers: [{name: main, image: none}]"
	hostUsers := func(namespace, spec string) string {
		t.Helper()
		pod, err := try(t, namespace, newPod(t, spec))
		switch {
		case err != nil:
			return err.Error()
		case pod.Spec.HostUsers == nil:
			return "unset"
		}
		return fmt.Sprint(*pod.Spec.HostUsers)
	}
	inForce(t, "user-namespaces.yaml", func() bool { return hostUsers(labelled, main) == "false" })
	container := func(fields string) string { return "containers: [{name: main, image: none, " + fields + "}]" }
	for _, spec := range []string{
		main,
		container("resources: {limits: {cpu: 1, memory: 1Gi, ephemeral-storage: 1Gi}}"),
		container("securityContext: {privileged: false, runAsUser: 65535, capabilities: {add: [NET_ADMIN, CAP_CHOWN], drop: [ALL]}}"),
		container("securityContext: {procMount: Default}"),
		"securityContext: {fsGroup: 2000, supplementalGroups: [1, 65535]}\n" + main,
		"volumes: [{name: a, emptyDir: {}}, {name: b, persistentVolumeClaim: {claimName: b}}]\n" + main,
		"hostNetwork: false\nhostPID: false\nos: {name: linux}\nnodeSelector: {kubernetes.io/os: linux}\n" + main,
		"metadata: {annotations: {a: b}}\n" + main,
	} {
		if have := hostUsers(labelled, spec); have != "false" {
			t.Errorf("%s\nhostUsers is %s, want false", spec, have)
		}
	}
	if have := hostUsers(plain, main); have != "unset" {
		t.Errorf("in a namespace without the label: %s", have)
	}
	if have := hostUsers(labelled, "hostUsers: true\n"+main); have != "true" {
		t.Errorf("a pod that says true: %s", have)
	}
	if have := hostUsers(labelled, "hostUsers: false\n"+main); have != "false" {
		t.Errorf("a pod that says false: %s", have)
	}
	for _, spec := range []string{
		container("resources: {limits: {nvidia.com/gpu: 1}}"),
		container("resources: {limits: {example.com/rdma: 1}}"),
		"initContainers: [" + limits("first", "gpu: 1") + "]\n" + main,
		"resourceClaims: [{name: gpu, resourceClaimName: gpu}]\n" + main,
		"metadata: {annotations: {gpu-fraction: \"0.5\"}}\n" + main,
		"hostNetwork: true\n" + main,
		"hostPID: true\n" + main,
		"hostIPC: true\n" + main,
		"volumes: [{name: a, emptyDir: {}}, {name: b, hostPath: {path: /data}}]\n" + main,
		"volumes: [{name: b, nfs: {server: s, path: /data}}]\n" + main,
		"volumes: [{name: b, persistentVolumeClaim: {claimName: b}}]\n" + container("volumeDevices: [{name: b, devicePath: /dev/b}]"),
		container("securityContext: {privileged: true}"),
		"initContainers: [{name: first, image: none, securityContext: {privileged: true}}]\n" + main,
		container("securityContext: {capabilities: {add: [IPC_LOCK]}}"),
		container("securityContext: {capabilities: {add: [cap_sys_admin]}}"),
		container("securityContext: {capabilities: {add: [ALL]}}"),
		container("securityContext: {runAsUser: 1000700000}"),
		"securityContext: {fsGroup: 65536}\n" + main,
		"securityContext: {supplementalGroups: [1, 70000]}\n" + main,
		"nodeSelector: {kubernetes.io/os: windows}\n" + main,
		"os: {name: windows}\n" + main,
	} {
		if have := hostUsers(labelled, spec); have != "unset" {
			t.Errorf("%s\nhostUsers is %s, want it unset", spec, have)
		}
	}
	// Not made possible behind its owner's back.
	if have := hostUsers(labelled, container("securityContext: {procMount: Unmasked}")); !strings.Contains(have, "hostUsers") {
		t.Errorf("procMount: Unmasked: %s", have)
	}
	if out, err := kubectl(t, `{"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}`,
		"apply", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	eventually(t, "a pod with a runtime class is left alone", func() error {
		if have := hostUsers(labelled, "runtimeClassName: kata\n"+main); have != "unset" {
			return errors.New(have)
		}
		return nil
	})
	if have := hostUsers(labelled, large()); have != "false" {
		t.Errorf("a large pod: %s", have)
	}
}

// large writes a pod of 20 containers, 20 init containers and 40 volumes, everything mounted
// everywhere, with which nothing is wrong.
func large() string {
	var volumes, mounts, containers, inits []string
	for i := range 40 {
		volumes = append(volumes, fmt.Sprintf("- {name: v%d, emptyDir: {}}", i))
		mounts = append(mounts, fmt.Sprintf("{name: v%d, mountPath: /mnt/%d}", i, i))
	}
	const container = "- {name: %s%d, image: none, volumeMounts: [%s], env: [{name: A, value: b}, " +
		"{name: NVIDIA_VISIBLE_DEVICES, value: void}], securityContext: {capabilities: {drop: [ALL], add: [CHOWN]}}}"
	for i := range 20 {
		containers = append(containers, fmt.Sprintf(container, "m", i, strings.Join(mounts, ", ")))
		inits = append(inits, fmt.Sprintf(container, "i", i, strings.Join(mounts, ", ")))
	}
	return "volumes:\n" + strings.Join(volumes, "\n") + "\ninitContainers:\n" + strings.Join(inits, "\n") +
		"\ncontainers:\n" + strings.Join(containers, "\n")
}
