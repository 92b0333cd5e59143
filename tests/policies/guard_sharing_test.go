package policies

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

const disables = "env: [{name: CUDA_DISABLE_CONTROL, value: 'true'}]"

// part writes a container that asks for part of a GPU.
func part(fields string) string {
	return main(fields + ", resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 1024}}")
}

// annotated writes a pod with an annotation.
func annotated(key, spec string) string {
	return fmt.Sprintf("metadata: {annotations: {%s: x}}\n%s", key, spec)
}

var quantityOne = resource.MustParse("1")

var whole = "containers: [" + limits("main", "gpu: 1") + "]"

// The pods that the policy refuses, and what it says.
var unshared = []struct{ spec, says string }{
	{"metadata: {labels: {hami.io/webhook: ignore}}\n" + plainPod, "hami.io/webhook: ignore makes HAMi pass the pod over"},
	{"metadata: {labels: {hami.io/webhook: ignore}}\n" + whole, "remove the label"},
	{main(disables), "container main turns the limits of its GPU off"},
	{part(disables), "container main turns"},
	{inits(disables), "container first turns"},
	{main("env: [{name: CUDA_DISABLE_CONTROL, value: '1'}]"), "container main turns"},
	{main("env: [{name: CUDA_DISABLE_CONTROL, value: ' false'}]"), "container main turns"},
	{main("env: [{name: A, value: 'true'}, {name: CUDA_DISABLE_CONTROL, value: $(A)}]"), "container main turns"},
	{main("env: [{name: CUDA_DISABLE_CONTROL, valueFrom: {secretKeyRef: {name: a, key: b}}}]"), "container main turns"},
	{main("env: [{name: CUDA_DISABLE_CONTROL, value: 'false'}, {name: CUDA_DISABLE_CONTROL, value: 'true'}]"), "container main turns"},
	{main("env: [{name: GPU_CORE_UTILIZATION_POLICY, value: Disable}]"), "container main turns"},
	{main("env: [{name: GPU_CORE_UTILIZATION_POLICY, value: dis$(A)}]"), "container main turns"},
	{main("env: [{name: GPU_CORE_UTILIZATION_POLICY, valueFrom: {configMapKeyRef: {name: a, key: b}}}]"), "container main turns"},
	{part("envFrom: [{prefix: CUDA_, configMapRef: {name: a}}]"), "envFrom of container main has a prefix"},
	{inits("envFrom: [{prefix: GPU_CORE_, secretRef: {name: a}}]"), "envFrom of container first has a prefix"},
	{part("envFrom: [{prefix: NVIDIA_, configMapRef: {name: a}}]"), "envFrom of container main has a prefix"},
	{part(seesAll), "container main asks for GPUs and sets NVIDIA_VISIBLE_DEVICES"},
	{part(seesGiven), "leave the variable out"},
	{main(seesAll + ", resources: {limits: {nvidia.com/gpu: 1}}"), "container main asks for GPUs and sets"},
	{main(seesAll + ", resources: {limits: {nvidia.com/mig-1g.5gb: 1}}"), "container main asks for GPUs and sets"},
	{main(seesAll + ", resources: {limits: {nvidia.com/gpu.shared: 1}}"), "container main asks for GPUs and sets"},
	{"schedulerName: kai-scheduler\nmetadata: {annotations: {gpu-fraction: \"0.5\"}}\n" + part(seesGiven), "leave the variable out"},
	{annotated("hami.io/vgpu-node", whole), "hami.io/vgpu-node is for the scheduler of HAMi to write"},
	{annotated("hami.io/vgpu-time", whole), "remove it"},
	{annotated("hami.io/bind-phase", whole), "remove it"},
	{annotated("hami.io/bind-time", whole), "remove it"},
	{annotated("hami.io/vgpu-devices-to-allocate", whole), "remove it"},
	{annotated("hami.io/amd-devices-allocated", whole), "remove it"},
	{annotated("hami.io/dcu-devices-to-allocate", whole), "remove it"},
	{annotated("hami.io/vgpu-node", "schedulerName: kai-scheduler\n"+whole), "remove it"},
	{annotated("hami.io/vgpu-node", plainPod), "the annotation hami.io/vgpu-node is for the scheduler of HAMi to write"},
	{annotated("nvidia.com/use-gputype", plainPod), "the annotation nvidia.com/use-gputype and asks for no GPU"},
	{annotated("nvidia.com/nouse-gpuuuid", plainPod), "asks for no GPU"},
	{annotated("nvidia.com/vgpu-mode", main("resources: {limits: {cpu: 1}}")), "asks for no GPU"},
	{"schedulerName: hami-scheduler\n" + plainPod, "schedulerName: hami-scheduler and asks for no GPU"},
	{"schedulerName: kai-scheduler\n" + plainPod, "schedulerName: kai-scheduler and asks for no GPU"},
	{"schedulerName: hami-scheduler\n" + main("resources: {limits: {nvidia.com/gpu: 0}}"), "asks for no GPU"},
	{"schedulerName: hami-scheduler\n" + main("resources: {limits: {nvidia.com/hostdev: 1, example.com/gpunk: 1}}"), "asks for no GPU"},
}

// What it lets pass.
var shared = []string{
	plainPod, whole, "schedulerName: hami-scheduler\n" + whole, "schedulerName: volcano\n" + plainPod,
	"schedulerName: hami-scheduler\ninitContainers: [" + limits("first", "gpu: 1") + "]\n" + plainPod,
	"schedulerName: hami-scheduler\n" + main("resources: {limits: {huawei.com/Ascend910A: 1}}"),
	"schedulerName: hami-scheduler\n" + main("resources: {limits: {example.com/my-gpu: 1}}"),
	"schedulerName: kai-scheduler\nmetadata: {annotations: {gpu-fraction: \"0.5\"}}\n" + main(seesGiven),
	"schedulerName: kai-scheduler\nresourceClaims: [{name: gpu, resourceClaimName: gpu}]\n" + main("resources: {claims: [{name: gpu}]}"),
	"metadata: {labels: {hami.io/webhook: Ignore, nvidia.com/use-gputype: a}}\n" + plainPod,
	annotated("hami.io/webhook", plainPod), annotated("hami.io/other", whole), annotated("xhami.io/vgpu-node", whole),
	annotated("nvidia.com/use-gputype", whole), annotated("nvidia.com/vgpu-mode", part("tty: true")),
	part("env: [{name: CUDA_DISABLE_CONTROL, value: 'false'}, {name: GPU_CORE_UTILIZATION_POLICY, value: force}]"),
	part("env: [{name: CUDA_DISABLE_CONTROL, value: '0'}, {name: NVIDIA_VISIBLE_DEVICES, value: void}]"),
	part("env: [{name: CUDA_DISABLE_CONTROL}, {name: NVIDIA_VISIBLE_DEVICES, value: none}, {name: NVIDIA_DRIVER_CAPABILITIES, value: all}]"),
	part("envFrom: [{configMapRef: {name: a}}, {prefix: NVIDIA_DRIVER_, configMapRef: {name: a}}, {prefix: CUDA_DISABLE_CONTROL, configMapRef: {name: a}}]"),
	main(seesAll), main("envFrom: [{prefix: NVIDIA_, configMapRef: {name: a}}]"), // for guard-pods.yaml
}

func guardSharing(t *testing.T, namespace string) {
	t.Helper()
	inForce(t, "guard-sharing.yaml", func() bool {
		_, err := try(t, namespace, newPod(t, unshared[0].spec))
		return err != nil && strings.Contains(err.Error(), unshared[0].says)
	})
}

func TestGuardSharing(t *testing.T) {
	namespace := newNamespace(t, nil)
	exempt := newNamespace(t, map[string]string{"gpuquota.io/guard": "exempt"})
	old := newPod(t, "metadata: {labels: {hami.io/webhook: ignore}}\nschedulerName: hami-scheduler\n"+main(disables))
	old.Name = "old"
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	guardSharing(t, namespace)
	for _, tc := range unshared {
		if _, err := try(t, exempt, newPod(t, tc.spec)); err != nil {
			t.Errorf("in an exempt namespace: %v", err)
		}
		if _, err := try(t, namespace, newPod(t, tc.spec)); err == nil {
			t.Errorf("allowed:\n%s", tc.spec)
		} else {
			wantRefused(t, err, tc.says)
		}
	}
	for _, spec := range shared {
		if _, err := try(t, namespace, newPod(t, spec)); err != nil {
			t.Errorf("%v for\n%s", err, spec)
		}
	}
	// As large as pods get, with as many names to look at.
	bad := newPod(t, large())
	bad.Annotations = map[string]string{}
	for i := range 40 {
		bad.Annotations[fmt.Sprintf("hami.io/of-devices-%d", i)] = "x"
	}
	for _, list := range [][]corev1.Container{bad.Spec.InitContainers, bad.Spec.Containers} {
		for i := range list {
			list[i].Resources.Limits = corev1.ResourceList{}
			for _, name := range []string{"nvidia.com/rdma-a", "nvidia.com/hostdev-b", "example.com/gpunk", "example.com/a"} {
				list[i].Resources.Limits[corev1.ResourceName(name)] = quantityOne
			}
			list[i].EnvFrom = []corev1.EnvFromSource{{Prefix: "MINE_", SecretRef: &corev1.SecretEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}}
		}
	}
	if _, err := try(t, namespace, bad.DeepCopy()); err != nil {
		t.Errorf("a large pod: %v", err)
	}
	bad.Spec.SchedulerName = "hami-scheduler"
	_, err := try(t, namespace, bad.DeepCopy())
	wantRefused(t, err, "asks for no GPU")
	bad.Spec.Containers[19].Resources.Limits["nvidia.com/gpu"] = quantityOne
	bad.Spec.Containers[19].Env[1].Value = "all"
	_, err = try(t, namespace, bad)
	wantRefused(t, err, "container m19 asks for GPUs")

	// Of a debug container only what it brings.
	debug := func(fields string) error {
		t.Helper()
		pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), old.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var container corev1.EphemeralContainer
		parse(t, "{name: debug, image: none, "+fields+"}", &container)
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, container)
		_, err = client.CoreV1().Pods(namespace).UpdateEphemeralContainers(t.Context(), pod.Name, pod, metav1.UpdateOptions{DryRun: dry.DryRun})
		return err
	}
	wantRefused(t, debug(disables), "container debug turns")
	if err := debug("tty: true"); err != nil {
		t.Errorf("a harmless debug container: %v", err)
	}
}

// The label and the annotations are those of the template; what an old one has is left alone.
func TestGuardSharingTemplates(t *testing.T) {
	namespace := newNamespace(t, nil)
	other, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	const offence = "metadata: {labels: {hami.io/webhook: ignore}, annotations: {hami.io/vgpu-node: x, nvidia.com/use-gputype: y}}\n"
	for resource, object := range templates(t, offence+whole) {
		if _, err := other.Resource(resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", resource.Resource, err)
		}
	}
	guardSharing(t, namespace)
	for _, tc := range []struct{ spec, says string }{
		{offence + whole, "the label hami.io/webhook"},
		{annotated("hami.io/vgpu-node", whole), "hami.io/vgpu-node is for the scheduler"},
		{annotated("nvidia.com/use-gputype", plainPod), "asks for no GPU"},
		{"schedulerName: hami-scheduler\n" + plainPod, "asks for no GPU"},
		{part(disables), "container main turns"},
		{part(seesAll), "container main asks for GPUs and sets"},
	} {
		for resource, object := range templates(t, tc.spec) {
			object.SetName("another")
			_, err := other.Resource(resource).Namespace(namespace).Create(t.Context(), object, dry)
			if err == nil {
				t.Errorf("%s is allowed:\n%s", resource.Resource, tc.spec)
				continue
			}
			wantRefused(t, err, tc.says)
		}
	}
	for resource := range templates(t, whole) {
		all := other.Resource(resource).Namespace(namespace)
		patch := func(text string) error {
			_, err := all.Patch(t.Context(), "workload", "application/merge-patch+json", []byte(text), metav1.PatchOptions{DryRun: dry.DryRun})
			return err
		}
		if err := patch(`{"metadata":{"labels":{"a":"b"}}}`); err != nil {
			t.Errorf("label an old one of %s: %v", resource.Resource, err)
		}
		switch resource.Resource {
		case "deployments", "statefulsets", "daemonsets":
			if err := patch(`{"spec":{"template":{"metadata":{"annotations":{"restarted":"now"}}}}}`); err != nil {
				t.Errorf("restart an old one of %s: %v", resource.Resource, err)
			}
			wantRefused(t, patch(`{"spec":{"template":{"metadata":{"annotations":{"hami.io/bind-phase":"x"}}}}}`), "the label hami.io/webhook")
			wantRefused(t, patch(`{"spec":{"template":{"metadata":{"labels":{"hami.io/webhook":null}}}}}`), "hami.io/vgpu-node is for")
			if err := patch(`{"spec":{"template":{"metadata":{"labels":{"hami.io/webhook":null},"annotations":{"hami.io/vgpu-node":null}}}}}`); err != nil {
				t.Errorf("mend an old one of %s: %v", resource.Resource, err)
			}
		}
	}
}
