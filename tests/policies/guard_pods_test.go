package policies

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const plainPod = "containers: [{name: main, image: none}]"

// withPath writes a pod with one hostPath volume that nobody mounts.
func withPath(path string) string {
	return fmt.Sprintf("volumes: [{name: host, hostPath: {path: %q}}]\n%s", path, plainPod)
}

func main(fields string) string { return "containers: [{name: main, image: none, " + fields + "}]" }
func inits(fields string) string {
	return "initContainers: [{name: first, image: none, " + fields + "}]\n" + plainPod
}

// logs writes a pod with the logs of docker's containers.
func logs(fields string) string {
	return "volumes: [{name: logs, hostPath: {path: /var/lib/docker/containers/}}]\n" + main(fields)
}

const (
	seesAll   = "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]"
	seesGiven = "env: [{name: NVIDIA_VISIBLE_DEVICES, valueFrom: {configMapKeyRef: {name: a, key: b}}}]"
)

// The pods that the policy refuses, and what it says.
var guarded = []struct{ spec, says string }{
	{main("securityContext: {privileged: true}"), "container main is privileged"},
	{inits("securityContext: {privileged: true}"), "container first is privileged"},
	{inits("restartPolicy: Always, securityContext: {privileged: true}"), "container first is privileged"},
	{"hostUsers: false\n" + main("securityContext: {privileged: true}"), "container main is privileged"},
	{"hostPID: true\n" + main("securityContext: {capabilities: {add: [CHOWN, SYS_PTRACE]}}"), "container main could enter every process"},
	{"hostPID: true\n" + main("securityContext: {capabilities: {add: [SYS_ADMIN]}}"), "leave out hostPID"},
	{"hostPID: true\n" + main("securityContext: {capabilities: {add: [cap_sys_admin]}}"), "leave out hostPID"},
	{"hostPID: true\n" + inits("securityContext: {capabilities: {add: [ALL]}}"), "container first could enter"},
	{withPath("/"), "volume host (/)"},
	{withPath("/dev"), "volume host (/dev) reaches devices"},
	{withPath("/dev/"), "volume host"},
	{withPath("//dev"), "volume host"},
	{withPath("/./dev/."), "volume host"},
	{withPath("dev"), "volume host"},
	{withPath("/dev/nvidia0"), "volume host"},
	{withPath("/dev//nvidiactl"), "volume host"},
	{withPath("/dev/dri"), "volume host"},
	{withPath("/dev/kfd"), "volume host"},
	{withPath("/proc"), "volume host"},
	{withPath("/proc/driver/nvidia/gpus"), "volume host"},
	{withPath("/proc/1/root"), "volume host"},
	{withPath("/sys/class"), "volume host"},
	{withPath("/var"), "volume host"},
	{withPath("/var/lib"), "volume host"},
	{withPath("/var/lib/kubelet/device-plugins"), "volume host"},
	{withPath("/var/lib/kubelet/pod-resources/"), "volume host"},
	{withPath("/etc"), "volume host"},
	{withPath("/etc/kubernetes/manifests"), "volume host"},
	{withPath("/run"), "volume host"},
	{withPath("/var/run"), "volume host"},
	{withPath("/var//run/"), "volume host"},
	{withPath("/run/docker.sock"), "volume host"},
	{withPath("/var/run/docker.sock"), "volume host (/var/run/docker.sock)"},
	{withPath("/var/./run//docker.sock"), "volume host"},
	{withPath("/run/containerd/containerd.sock"), "volume host"},
	{withPath("/run/containerd"), "volume host"},
	{withPath("/run/crio/crio.sock"), "volume host"},
	{withPath("/run/k3s/containerd/containerd.sock"), "volume host"},
	{withPath("/proc/sys/kernel"), "volume host (/proc/sys/kernel) reaches devices"},
	{withPath("/proc/1/root/proc/1/root/proc/1/root/data"), "volume host"}, // deeper than anybody goes
	{withPath("/proc/1/task/1/fd/3"), "reaches the socket or the files"},
	{withPath("/run/nvidia-persistenced/socket"), "volume host"},
	{withPath("/run/user"), "volume host"},
	{withPath("/run/user/1000"), "volume host"},
	{withPath("/var/lib/rancher/k3s/server/manifests"), "reaches devices, the kubelet"},
	{withPath("/var/lib/rancher/k3s/agent/pod-manifests"), "reaches devices, the kubelet"},
	{withPath("/var/lib/rancher/rke2/agent/pod-manifests"), "reaches devices, the kubelet"},
	{withPath("/var/lib/rancher/rke2/server/manifests"), "reaches devices, the kubelet"},
	{withPath("/var/lib/rancher"), "volume host"},
	{withPath("/var/snap/microk8s/current/args"), "reaches devices, the kubelet"},
	{withPath("/var/snap/microk8s/7000"), "reaches devices, the kubelet"},
	{withPath("/var/lib/docker"), "reaches the socket or the files"},
	{withPath("/var/lib/docker/overlay2"), "reaches the socket or the files"},
	{withPath("/var/lib/docker/containers.d"), "reaches the socket or the files"},
	{logs("volumeMounts: [{name: logs, mountPath: /logs}]"), "mounted with readOnly: true"},
	{logs("volumeMounts: [{name: logs, mountPath: /logs, readOnly: true}, {name: logs, mountPath: /again}]"), "volume logs"},
	{withPath(`\\.\pipe\containerd-containerd`), "volume host"},
	{withPath(`C:\ProgramData\docker\config`), "reaches the socket or the files"},
	{withPath(`C:\data\..\ProgramData\docker`), "volume host"},
	{withPath(`C:\`), "volume host"},
	{withPath(`c:/var/lib/kubelet/pods`), "reaches devices, the kubelet"},
	{withPath(`\\?\C:\var\lib`), "reaches devices, the kubelet"},
	{withPath(`//./PIPE/docker_engine`), "volume host"},
	{"volumes: [{name: a, hostPath: {path: /srv}}, {name: b, hostPath: {path: /srv/gpu, type: CharDevice}}]\n" + plainPod, "volume b (/srv/gpu)"},
	{"volumes: [{name: a, hostPath: {path: /dev}}, {name: b, hostPath: {path: /sys}}]\n" + plainPod, "volume a (/dev), b (/sys)"},
	{main(seesAll), "container main sets NVIDIA_VISIBLE_DEVICES"},
	{inits(seesAll), "container first sets NVIDIA_VISIBLE_DEVICES"},
	{main("env: [{name: NVIDIA_VISIBLE_DEVICES, value: \"0,1\"}]"), "write resources.limits"},
	{main("env: [{name: NVIDIA_VISIBLE_DEVICES, value: \" \"}]"), "write resources.limits"},
	{main("env: [{name: A, value: all}, {name: NVIDIA_VISIBLE_DEVICES, value: $(A)}]"), "write resources.limits"},
	{main("env: [{name: NVIDIA_VISIBLE_DEVICES, value: none}, {name: NVIDIA_VISIBLE_DEVICES, value: all}]"), "write resources.limits"},
	{main("env: [{name: NVIDIA_VISIBLE_DEVICES, valueFrom: {configMapKeyRef: {name: a, key: b}}}]"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {cpu: 1}}"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {nvidia.com/gpu: 0}}"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {nvidia.com/hostdev: 1}}"), "write resources.limits"},
	{"metadata: {annotations: {gpu-fraction: \"0.5\"}}\n" + main(seesAll), "write resources.limits"},
	{"schedulerName: kai-scheduler\nmetadata: {annotations: {gpu-fraction: \"0.5\"}}\n" + main(seesAll), "write resources.limits"},
	{"schedulerName: kai-scheduler\nmetadata: {annotations: {gpu-fraction: \"0.5\"}}\n" +
		main("env: [{name: NVIDIA_VISIBLE_DEVICES, valueFrom: {secretKeyRef: {name: a, key: b}}}]"), "write resources.limits"},
	{"schedulerName: kai-scheduler\n" + main(seesGiven), "write resources.limits"},
	{"metadata: {annotations: {gpu-fraction: \"0.5\"}}\n" + main(seesGiven), "write resources.limits"},
	// What no device plugin of NVIDIA's answers.
	{main(seesAll + ", resources: {limits: {nvidia.com/gpumem: 1024}}"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {nvidia.com/gpu.other: 1}}"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {nvidia.com/mig-1g.5gb: 0}}"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {xnvidia.com/gpu: 1}}"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {koordinator.sh/gpu: 100}}"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {volcano.sh/vgpu-number: 1}}"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {aliyun.com/gpu-mem: 1}}"), "write resources.limits"},
	{main(seesAll + ", resources: {limits: {amd.com/gpu: 1}}"), "write resources.limits"},
	{"resourceClaims: [{name: gpu, resourceClaimName: gpu}]\n" + main(seesAll+", resources: {claims: [{name: gpu}]}"), "write resources.limits"},
	{main("envFrom: [{prefix: NVIDIA_, configMapRef: {name: a}}]"), "envFrom of container main has a prefix"},
	{inits("envFrom: [{secretRef: {name: a}}, {prefix: 'N', secretRef: {name: b}}]"), "envFrom of container first has a prefix"},
	{main("envFrom: [{prefix: NVIDIA_DRIVER_, configMapRef: {name: a}}]"), "choose another prefix"},
	// A GPU of the neighbour is not one's own.
	{"containers: [" + limits("one", "gpu: 1") + ", {name: two, image: none, " + seesAll + "}]", "container two sets"},
}

// What it lets pass.
var harmless = []string{
	plainPod,
	main("securityContext: {privileged: false, capabilities: {add: [SYS_PTRACE]}}"),
	"hostPID: true\n" + main("securityContext: {capabilities: {add: [CHOWN], drop: [SYS_ADMIN]}}"),
	"hostUsers: false\n" + main("securityContext: {procMount: Unmasked}"),
	withPath("/data"), withPath("/device"), withPath("/devices/dev"), withPath("/srv/dev"), withPath("/system"),
	withPath("/var/log"), withPath("/var/lib/data"), withPath("/var/running"), withPath("/run/mine"), withPath("/Dev"),
	withPath("/etc/localtime"), withPath("/usr/share/zoneinfo"), withPath("/data/pipe/x"), withPath("/proc2"),
	withPath("/proc/cpuinfo"), withPath("/proc/1/status"), withPath("/proc/1/root/data"), withPath("/proc/driver/rtc"),
	withPath("/run/user/1000/app"), withPath("/run/user/me/docker.sock"), withPath("/run/nvidi"), withPath("/var/lock/mine"),
	withPath("/var/lib/rancher/k3s/storage/a"), withPath("/var/snap/microk8s/common/default-storage/a"),
	withPath("/var/snap/docker/common/data"), withPath("/var/lib/docker/containers"), withPath("//./pipe/mine"),
	withPath(`C:\data`), withPath(`D:\var\lib\kubelet`), withPath("/c:/programdata/docker"), withPath("/data/c:/programdata"),
	logs("volumeMounts: [{name: logs, mountPath: /logs, readOnly: true}]"),
	"volumes: [{name: a, hostPath: {path: /srv/app.sock, type: Socket}}]\n" + plainPod,
	"volumes: [{name: dev, emptyDir: {}}, {name: b, configMap: {name: b}}]\n" + main("volumeMounts: [{name: dev, mountPath: /dev/shm}]"),
	main("env: [{name: NVIDIA_VISIBLE_DEVICES, value: none}]"),
	main("env: [{name: NVIDIA_VISIBLE_DEVICES, value: void}]"),
	main("env: [{name: NVIDIA_VISIBLE_DEVICES}]"),
	main("env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: all}, {name: nvidia_visible_devices, value: all}]"),
	main(seesAll + ", resources: {limits: {nvidia.com/gpu: 1}}"),
	main(seesAll + ", resources: {limits: {nvidia.com/mig-1g.5gb: 1}}"),
	main(seesAll + ", resources: {limits: {nvidia.com/gpu.shared: 1}}"),
	main("envFrom: [{prefix: NVIDIA_, configMapRef: {name: a}}], resources: {limits: {nvidia.com/gpu: 1}}"),
	main("envFrom: [{configMapRef: {name: a}}, {prefix: \"\", secretRef: {name: a}}, {prefix: NVIDIA_X, configMapRef: {name: a}}, " +
		"{prefix: NVIDIA_VISIBLE_DEVICES, configMapRef: {name: a}}, {prefix: nvidia_, configMapRef: {name: a}}]"),
	"schedulerName: kai-scheduler\nmetadata: {annotations: {gpu-fraction: \"0.5\"}}\n" + main(seesGiven),
	"schedulerName: kai-scheduler\nmetadata: {annotations: {gpu-memory: \"2000\"}}\n" + main(seesGiven),
}

func guardPods(t *testing.T, namespace string) {
	t.Helper()
	inForce(t, "guard-pods.yaml", func() bool {
		_, err := try(t, namespace, newPod(t, guarded[0].spec))
		return err != nil && strings.Contains(err.Error(), guarded[0].says)
	})
}

func TestGuardPods(t *testing.T) {
	namespace := newNamespace(t, nil)
	exempt := newNamespace(t, map[string]string{"gpuquota.io/guard": "exempt"})
	nearly := newNamespace(t, map[string]string{"gpuquota.io/guard": "Exempt"})
	guardPods(t, namespace)
	wantNoTypeWarnings(t, "gpuquota-guard-pods")
	for _, tc := range guarded {
		if _, err := try(t, exempt, newPod(t, tc.spec)); err != nil {
			t.Errorf("in an exempt namespace: %v", err)
		}
		for _, guarded := range []string{namespace, nearly} {
			if _, err := try(t, guarded, newPod(t, tc.spec)); err == nil {
				t.Errorf("allowed:\n%s", tc.spec)
			} else {
				wantRefused(t, err, tc.says)
			}
		}
	}
	for _, spec := range harmless {
		if _, err := try(t, namespace, newPod(t, spec)); err != nil {
			t.Errorf("%v for\n%s", err, spec)
		}
	}
	several := newPod(t, "volumes: [{name: host, hostPath: {path: /dev}}]\n"+
		main("securityContext: {privileged: true}, "+seesAll))
	_, err := try(t, namespace, several)
	wantRefused(t, err, "container main is privileged")
	if _, err := try(t, "kube-system", newPod(t, guarded[0].spec)); err != nil {
		t.Errorf("in kube-system: %v", err)
	}
	// Windows: the API server knows more about such pods than we do.
	for spec, says := range map[string]string{
		"hostNetwork: true\nos: {name: windows}\nsecurityContext: {windowsOptions: {hostProcess: true}}\n" + plainPod: "hostProcess of the pod",
		"hostNetwork: true\nos: {name: windows}\n" + main("securityContext: {windowsOptions: {hostProcess: true}}"):   "hostProcess of container main",
	} {
		_, err := try(t, namespace, newPod(t, spec))
		wantRefused(t, err, says)
	}
	runtimeClass(t, "nvidia-cdi")
	runtimeClass(t, "kata-nvidia")
	const capabilities = "env: [{name: NVIDIA_DRIVER_CAPABILITIES, value: utility}]"
	_, err = try(t, namespace, newPod(t, "runtimeClassName: nvidia-cdi\n"+main(capabilities)))
	wantRefused(t, err, "container main sets NVIDIA_DRIVER_CAPABILITIES under runtimeClassName nvidia-cdi")
	_, err = try(t, namespace, newPod(t, "runtimeClassName: nvidia-cdi\n"+
		inits("env: [{name: NVIDIA_DRIVER_CAPABILITIES, valueFrom: {configMapKeyRef: {name: a, key: b}}}]")))
	wantRefused(t, err, "container first sets NVIDIA_DRIVER_CAPABILITIES")
	for _, spec := range []string{
		"runtimeClassName: nvidia-cdi\n" + plainPod,
		"runtimeClassName: nvidia-cdi\n" + main("env: [{name: NVIDIA_DRIVER_CAPABILITIES}]"),
		"runtimeClassName: nvidia-cdi\n" + main(capabilities+", resources: {limits: {nvidia.com/gpu: 1}}"),
		"runtimeClassName: kata-nvidia\n" + main(capabilities),
		"runtimeClassName: nvidia-cdi\nschedulerName: kai-scheduler\nmetadata: {annotations: {gpu-fraction: \"0.5\"}}\n" + main(capabilities),
	} {
		if _, err := try(t, namespace, newPod(t, spec)); err != nil {
			t.Errorf("%v for\n%s", err, spec)
		}
	}
	// As large as pods get, and with the last volume and the last container wrong.
	if _, err := try(t, namespace, newPod(t, large())); err != nil {
		t.Errorf("a large pod: %v", err)
	}
	bad := newPod(t, large())
	for i := range bad.Spec.Volumes {
		bad.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: fmt.Sprintf("/srv/a//rather/./long/path/of/some/steps/%d", i)}}
	}
	if _, err := try(t, namespace, bad.DeepCopy()); err != nil {
		t.Errorf("a large pod with host paths: %v", err)
	}
	bad.Spec.Volumes[39].HostPath.Path = "/dev"
	_, err = try(t, namespace, bad)
	wantRefused(t, err, "volume v39 (/dev)")
	// At worst each path is compared with all, and each container's every mount is looked at.
	bad = newPod(t, large())
	for i := range bad.Spec.Volumes {
		bad.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: fmt.Sprintf("/proc/1/root/proc/1/cwd/var/lib/docker/containers/%d", i)}}
	}
	for i := range bad.Spec.Containers {
		bad.Spec.Containers[i].EnvFrom = []corev1.EnvFromSource{{Prefix: "MINE_", ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}}
	}
	_, err = try(t, namespace, bad)
	wantRefused(t, err, "volume v0 (", "v39 (")
	bad = newPod(t, large())
	bad.Spec.Containers[19].Env[1].Value = "all"
	_, err = try(t, namespace, bad)
	wantRefused(t, err, "container m19 sets")

	// On the way to Deny: everything is told and nothing refused.
	if out, err := kubectl(t, "", "patch", "validatingadmissionpolicybinding", "gpuquota-guard-pods", "--type=merge", "-p",
		`{"spec":{"validationActions":["Warn","Audit"]}}`); err != nil {
		t.Fatal(out)
	}
	warned, told := as(t, "warned", "system:masters")
	eventually(t, "warnings in place of refusals", func() error {
		told.take()
		if _, err := warned.CoreV1().Pods(namespace).Create(t.Context(), several, dry); err != nil {
			return err
		}
		text := strings.Join(told.take(), "\n")
		for _, want := range []string{"container main is privileged", "volume host (/dev)", "NVIDIA_VISIBLE_DEVICES"} {
			if !strings.Contains(text, want) {
				t.Errorf("the warning lacks %q: %s", want, text)
			}
		}
		return nil
	})
	if out, err := kubectl(t, "", "apply", "-f", policyFile("guard-pods.yaml")); err != nil {
		t.Fatal(out)
	}
	eventually(t, "refusals again", func() error {
		if _, err := try(t, namespace, several); err == nil {
			return fmt.Errorf("allowed")
		}
		return nil
	})
}

// A debug container is looked at, and what the pod had before is not.
func TestGuardEphemeralContainers(t *testing.T) {
	namespace := newNamespace(t, nil)
	pods := client.CoreV1().Pods(namespace)
	// From before the policy.
	old := newPod(t, "schedulerName: nobody\nhostPID: true\nvolumes: [{name: host, hostPath: {path: /dev}}, {name: own, emptyDir: {}}]\n"+
		main("securityContext: {privileged: true}"))
	old.Name = "old"
	if _, err := pods.Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	guardPods(t, namespace)
	debug := func(name, fields string) error {
		t.Helper()
		pod, err := pods.Get(t.Context(), old.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var container corev1.EphemeralContainer
		parse(t, "{name: "+name+", image: none, "+fields+"}", &container)
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, container)
		_, err = pods.UpdateEphemeralContainers(t.Context(), pod.Name, pod, metav1.UpdateOptions{})
		return err
	}
	if err := debug("first", "tty: true, volumeMounts: [{name: own, mountPath: /own}]"); err != nil {
		t.Errorf("a harmless debug container: %v", err)
	}
	for fields, says := range map[string]string{
		"securityContext: {privileged: true}":                  "container second is privileged",
		"securityContext: {capabilities: {add: [SYS_PTRACE]}}": "container second could enter",
		seesAll: "container second sets NVIDIA_VISIBLE_DEVICES",
		"volumeMounts: [{name: host, mountPath: /host}]": "volume host (/dev)",
	} {
		wantRefused(t, debug("second", fields), says)
	}
	if err := debug("second", "tty: true"); err != nil {
		t.Errorf("another harmless debug container: %v", err)
	}
	// What exists can still be changed and deleted.
	if _, err := pods.Patch(t.Context(), old.Name, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("label an old pod: %v", err)
	}
	if err := pods.Delete(t.Context(), old.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("delete an old pod: %v", err)
	}
}

// templates wraps a pod's spec into each kind of workload.
func templates(t *testing.T, spec string) map[schema.GroupVersionResource]*unstructured.Unstructured {
	t.Helper()
	const kinds = `
- {r: replicationcontrollers, g: "", o: {apiVersion: v1, kind: ReplicationController, spec: {replicas: 0, selector: {a: b}, template: TEMPLATE}}}
- {r: podtemplates, g: "", o: {apiVersion: v1, kind: PodTemplate, template: TEMPLATE}}
- {r: deployments, g: apps, o: {apiVersion: apps/v1, kind: Deployment, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: TEMPLATE}}}
- {r: replicasets, g: apps, o: {apiVersion: apps/v1, kind: ReplicaSet, spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: TEMPLATE}}}
- {r: statefulsets, g: apps, o: {apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: 0, serviceName: a, selector: {matchLabels: {a: b}}, template: TEMPLATE}}}
- {r: daemonsets, g: apps, o: {apiVersion: apps/v1, kind: DaemonSet, spec: {selector: {matchLabels: {a: b}}, template: TEMPLATE}}}
- {r: jobs, g: batch, o: {apiVersion: batch/v1, kind: Job, spec: {suspend: true, template: NEVER}}}
- {r: cronjobs, g: batch, o: {apiVersion: batch/v1, kind: CronJob, spec: {suspend: true, schedule: "1 1 1 1 1", jobTemplate: {spec: {template: NEVER}}}}}
`
	pod := newPod(t, spec)
	template := func(policy string) string {
		pod.Spec.RestartPolicy = corev1.RestartPolicy(policy)
		labels := map[string]string{"a": "b"}
		maps.Copy(labels, pod.Labels)
		return fmt.Sprintf("{metadata: {labels: %s, annotations: %s}, spec: %s}", flow(t, labels), flow(t, pod.Annotations), flow(t, pod.Spec))
	}
	var list []struct {
		R string         `json:"r"`
		G string         `json:"g"`
		O map[string]any `json:"o"`
	}
	parse(t, strings.NewReplacer("TEMPLATE", template("Always"), "NEVER", template("Never")).Replace(kinds), &list)
	ret := map[schema.GroupVersionResource]*unstructured.Unstructured{}
	for _, item := range list {
		item.O["metadata"] = map[string]any{"name": "workload"}
		ret[schema.GroupVersionResource{Group: item.G, Version: "v1", Resource: item.R}] = &unstructured.Unstructured{Object: item.O}
	}
	return ret
}

// What users read is what docs/policies.md shows.
func TestGuardPodsPrinted(t *testing.T) {
	namespace := newNamespace(t, nil)
	guardPods(t, namespace)
	page, err := os.ReadFile(filepath.Join(repository, "docs/policies.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```\nError from server")
	shown, _, ok := strings.Cut(shown, "…")
	if !ok {
		t.Fatal("docs/policies.md shows no refusal")
	}
	want := "Error from server" + strings.NewReplacer("\n", " ", "build.yaml", "STDIN").Replace(shown)
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: build}\nspec: " + flow(t, newPod(t, withPath("/var/run/docker.sock")).Spec)
	out, err := kubectl(t, pod, "create", "-n", namespace, "-f", "-")
	if err == nil || !strings.Contains(out, want) {
		t.Errorf("kubectl prints\n%swant\n%s", out, want)
	}
}

func TestGuardTemplates(t *testing.T) {
	namespace := newNamespace(t, nil)
	other, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	const offence = "volumes: [{name: host, hostPath: {path: /var/run/docker.sock}}]\n"
	// From before the policy.
	for resource, object := range templates(t, offence+plainPod) {
		if _, err := other.Resource(resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", resource.Resource, err)
		}
	}
	guardPods(t, namespace)
	for _, tc := range []struct{ spec, says string }{
		{offence + plainPod, "volume host (/var/run/docker.sock)"},
		{main("securityContext: {privileged: true}"), "container main is privileged"},
		{main("securityContext: {procMount: Unmasked}"), "container main has procMount"},
		{main(seesAll), "container main sets NVIDIA_VISIBLE_DEVICES"},
	} {
		for resource, object := range templates(t, tc.spec) {
			object.SetName("another")
			_, err := other.Resource(resource).Namespace(namespace).Create(t.Context(), object, dry)
			if err != nil && strings.Contains(tc.spec, "Unmasked") && strings.Contains(err.Error(), "`hostUsers` must be false") {
				continue // the API server was first
			}
			if err == nil {
				t.Errorf("%s is allowed:\n%s", resource.Resource, tc.spec)
				continue
			}
			wantRefused(t, err, tc.says)
		}
	}
	for resource, object := range templates(t, plainPod) {
		object.SetName("another")
		if _, err := other.Resource(resource).Namespace(namespace).Create(t.Context(), object, dry); err != nil {
			t.Errorf("%s: %v", resource.Resource, err)
		}
	}
	for resource := range templates(t, plainPod) {
		all := other.Resource(resource).Namespace(namespace)
		patch := func(text string) error {
			_, err := all.Patch(t.Context(), "workload", "application/merge-patch+json", []byte(text), metav1.PatchOptions{})
			return err
		}
		// Untouched, an old one can be labelled, scaled and deleted.
		if err := patch(`{"metadata":{"labels":{"a":"b"}}}`); err != nil {
			t.Errorf("label an old one of %s: %v", resource.Resource, err)
		}
		switch resource.Resource {
		case "deployments", "replicasets", "statefulsets", "replicationcontrollers":
			if err := patch(`{"spec":{"replicas":0,"minReadySeconds":1}}`); err != nil {
				t.Errorf("scale an old one of %s: %v", resource.Resource, err)
			}
			err := patch(`{"spec":{"template":{"spec":{"priorityClassName":"system-node-critical"}}}}`)
			wantRefused(t, err, "volume host")
			if err := patch(`{"spec":{"template":{"spec":{"volumes":null}}}}`); err != nil {
				t.Errorf("mend an old one of %s: %v", resource.Resource, err)
			}
		}
		if err := all.Delete(context.Background(), "workload", metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete an old one of %s: %v", resource.Resource, err)
		}
	}
}
