package policies

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

const defaultMemory = "gpuquota.io/default-gpu-memory"

func defaultMemoryActs(t *testing.T, labelled string) func() bool {
	return func() bool {
		pod := mustTry(t, labelled, newPod(t, "containers: ["+limits("main", "gpu: 1")+"]"))
		return len(pod.Spec.Containers[0].Resources.Limits) == 2
	}
}

// podOf gives the pod spec in a workload of any kind.
func podOf(t *testing.T, object *unstructured.Unstructured) corev1.PodSpec {
	t.Helper()
	for _, path := range [][]string{{"spec", "template", "spec"}, {"template", "spec"},
		{"spec", "jobTemplate", "spec", "template", "spec"}} {
		if found, ok, _ := unstructured.NestedMap(object.Object, path...); ok {
			var ret corev1.PodSpec
			parse(t, flow(t, found), &ret)
			return ret
		}
	}
	t.Fatalf("no pod in %v", object.Object)
	return corev1.PodSpec{}
}

func TestVGPUDefaultMemoryInTemplates(t *testing.T) {
	namespace := newNamespace(t, map[string]string{defaultMemory: "true"})
	plain := newNamespace(t, nil)
	inForce(t, "vgpu-default-memory.yaml", defaultMemoryActs(t, namespace))
	other, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	const spec = `
initContainers:
- {name: first, image: none, resources: {limits: {nvidia.com/gpucores: 20}}}
containers:
- {name: idle, image: none}
- {name: main, image: none, resources: {limits: {nvidia.com/gpu: 1, cpu: 1}, requests: {cpu: 1}}}
- {name: both, image: none, resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}}
- {name: says, image: none, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 100}, requests: {nvidia.com/gpu: 1}}}
- {name: percent, image: none, resources: {limits: {nvidia.com/gpu: 1, nvidia.com/gpumem-percentage: 100}}}`
	// Limits are not copied to requests in templates.
	want := map[string]string{"first": "gpucores=20 gpumem=8192 | ", "idle": " | ",
		"main": "cpu=1 gpu=1 gpumem=8192 | cpu=1", "both": "gpu=1 gpumem=8192 | gpu=1 gpumem=8192",
		"says": "gpu=1 gpumem=100 | gpu=1", "percent": "gpu=1 gpumem-percentage=100 | "}
	check := func(what string, object *unstructured.Unstructured) {
		t.Helper()
		pod := podOf(t, object)
		for _, container := range append(pod.InitContainers, pod.Containers...) {
			if have := list(container.Resources.Limits) + " | " + list(container.Resources.Requests); have != want[container.Name] {
				t.Errorf("%s, %s: have %q, want %q", what, container.Name, have, want[container.Name])
			}
		}
	}
	for resource, object := range templates(t, spec) {
		all := other.Resource(resource).Namespace(namespace)
		created, err := all.Create(t.Context(), object, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", resource.Resource, err)
		}
		check(resource.Resource, created)
		// What was written once, written again, changes nothing: not even of a Job, whose template is for ever.
		if resource.Resource == "jobs" { // the API server wrote its own labels and selector
			object.SetLabels(created.GetLabels())
			for _, path := range [][]string{{"spec", "selector"}, {"spec", "template", "metadata"}} {
				found, _, _ := unstructured.NestedMap(created.Object, path...)
				_ = unstructured.SetNestedMap(object.Object, found, path...)
			}
		}
		replaced, err := all.Update(t.Context(), object, metav1.UpdateOptions{})
		if err != nil {
			t.Errorf("%s, replaced: %v", resource.Resource, err)
			continue
		}
		check(resource.Resource+", replaced", replaced)
		if replaced.GetGeneration() != created.GetGeneration() {
			t.Errorf("%s: written again, it has another template", resource.Resource)
		}
		elsewhere, err := other.Resource(resource).Namespace(plain).Create(t.Context(), templates(t, spec)[resource], dry)
		if err != nil {
			t.Fatal(err)
		}
		if have := list(podOf(t, elsewhere).Containers[1].Resources.Limits); have != "cpu=1 gpu=1" {
			t.Errorf("%s in a namespace without the label: %s", resource.Resource, have)
		}
		another, err := other.Resource(resource).Namespace(namespace).Create(t.Context(),
			withName(templates(t, "schedulerName: kai-scheduler\n"+spec)[resource], "another"), dry)
		if err != nil {
			t.Fatal(err)
		}
		if have := list(podOf(t, another).Containers[1].Resources.Limits); have != "cpu=1 gpu=1" {
			t.Errorf("%s of another scheduler: %s", resource.Resource, have)
		}
	}

	// As large as templates get.
	var containers []string
	for i := range 40 {
		containers = append(containers, "- "+limits(fmt.Sprintf("c%d", i), "gpu: 1"))
	}
	for resource, object := range templates(t, "initContainers:\n"+strings.Join(containers, "\n")+
		"\ncontainers:\n"+strings.ReplaceAll(strings.Join(containers, "\n"), "name: c", "name: m")) {
		withName(object, "large")
		created, err := other.Resource(resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("a large one of %s: %v", resource.Resource, err)
		}
		for _, container := range podOf(t, created).InitContainers {
			if have := list(container.Resources.Limits); have != "gpu=1 gpumem=8192" {
				t.Errorf("a large one of %s, %s: %s", resource.Resource, container.Name, have)
			}
		}
		if resource.Resource == "deployments" {
			if _, err := other.Resource(resource).Namespace(namespace).Update(t.Context(), object, metav1.UpdateOptions{}); err != nil {
				t.Errorf("a large Deployment, again: %v", err)
			}
		}
	}
}

func withName(object *unstructured.Unstructured, name string) *unstructured.Unstructured {
	object.SetName(name)
	return object
}

// As users apply a workload, again and again, whatever it said before.
func TestVGPUDefaultMemoryApplied(t *testing.T) {
	namespace := newNamespace(t, map[string]string{defaultMemory: "true"})
	inForce(t, "vgpu-default-memory.yaml", defaultMemoryActs(t, namespace))
	for kind, fields := range workloads {
		restart := ""
		if strings.HasSuffix(kind, "Job") {
			restart = "restartPolicy: Never\n"
		}
		steps := []struct{ asks, want string }{
			{"gpu: 1", "gpu=1 gpumem=8192"},
			{"gpu: 1", "gpu=1 gpumem=8192"},
			{"gpu: 2, gpucores: 50", "gpu=2 gpucores=50 gpumem=8192"},
			{"gpu: 1, gpumem-percentage: 100", "gpu=1 gpumem-percentage=100"},
			{"gpu: 1, gpumem-percentage: 100", "gpu=1 gpumem-percentage=100"},
			{"gpu: 1", "gpu=1 gpumem=8192"},
			{"gpu: 1, gpumem: 4096", "gpu=1 gpumem=4096"},
			{"gpu: 1", "gpu=1 gpumem=8192"},
			{"", ""},
			{"gpumem: 8192", "gpumem=8192"},
			{"gpumem: 8192", "gpumem=8192"},
		}
		if kind == "Job" {
			steps = steps[:2] // its template is for ever
		} else if kind != "Deployment" {
			steps = steps[:4]
		}
		before, asked := "", ""
		for _, step := range steps {
			containers, _ := apply(t, namespace, kind, fields, restart+"containers: [{name: idle, image: none}, "+limits("main", step.asks)+"]")
			if have := list(containers[1].Resources.Limits); have != step.want {
				t.Errorf("%s %q: have %s, want %s", kind, step.asks, have, step.want)
			}
			generation, err := kubectl(t, "", "get", "-n", namespace, kind, "workload", "-o", "jsonpath={.metadata.generation}")
			if err != nil {
				t.Fatal(generation)
			}
			if before != "" && asked == step.asks && before != generation {
				t.Errorf("%s %q: applied again, it has another template", kind, step.asks)
			}
			before, asked = generation, step.asks
		}
	}
	text := func(asks string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: server-side}\nspec: {replicas: 0, selector: {matchLabels: {a: b}}, " +
			"template: {metadata: {labels: {a: b}}, spec: {containers: [" + limits("main", asks) + "]}}}"
	}
	for _, step := range []struct{ asks, want, generation string }{
		{"gpu: 1", "gpu=1 gpumem=8192", "1"}, {"gpu: 1", "gpu=1 gpumem=8192", "1"},
		{"gpu: 1, gpumem-percentage: 100", "gpu=1 gpumem-percentage=100", "2"}, {"", "", "3"}, {"gpu: 1", "gpu=1 gpumem=8192", "4"},
	} {
		if out, err := kubectl(t, text(step.asks), "apply", "--server-side", "-n", namespace, "-f", "-"); err != nil {
			t.Fatal(out)
		}
		stored, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "server-side", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if have := list(stored.Spec.Template.Spec.Containers[0].Resources.Limits); have != step.want || fmt.Sprint(stored.Generation) != step.generation {
			t.Errorf("server-side %q: have %s in generation %d, want %s in %s", step.asks, have, stored.Generation, step.want, step.generation)
		}
	}
}

// A label on a namespace rolls nothing out, and makes nothing fail that is there.
func TestVGPUDefaultMemoryOfOldWorkloads(t *testing.T) {
	namespace := newNamespace(t, nil)
	other, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	const spec = "containers: [{name: main, image: none, resources: {limits: {nvidia.com/gpu: 1}}}]"
	for resource, object := range templates(t, spec) {
		if _, err := other.Resource(resource).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", resource.Resource, err)
		}
	}
	inForce(t, "vgpu-default-memory.yaml", defaultMemoryActs(t, newNamespace(t, map[string]string{defaultMemory: "true"})))
	if _, err := client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+defaultMemory+`":"true"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the label counts", func() error {
		if !defaultMemoryActs(t, namespace)() {
			return errors.New("not yet")
		}
		return nil
	})

	patch := func(resource schema.GroupVersionResource, kind types.PatchType, text string) string {
		t.Helper()
		changed, err := other.Resource(resource).Namespace(namespace).Patch(t.Context(), "workload", kind, []byte(text), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("%s, %s: %v", resource.Resource, text, err)
		}
		return list(podOf(t, changed).Containers[0].Resources.Limits)
	}
	for resource := range templates(t, spec) {
		if have := patch(resource, types.MergePatchType, `{"metadata":{"labels":{"x":"y"}}}`); have != "gpu=1" {
			t.Errorf("%s that is labelled: %s", resource.Resource, have)
		}
	}
	// As queues send a Job that waits to its nodes.
	if have := patch(batchv1.SchemeGroupVersion.WithResource("jobs"), types.MergePatchType,
		`{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}`); have != "gpu=1" {
		t.Errorf("a Job that gets a nodeSelector: %s", have)
	}

	// A Deployment makes a ReplicaSet again, knows it for its own, and makes no other.
	deployments, sets := client.AppsV1().Deployments(namespace), client.AppsV1().ReplicaSets(namespace)
	one := func(what string, not types.UID) types.UID {
		t.Helper()
		var uid types.UID
		eventually(t, what, func() error {
			deployment, err := deployments.Get(t.Context(), "workload", metav1.GetOptions{})
			if err != nil {
				return err
			}
			all, err := sets.List(t.Context(), metav1.ListOptions{LabelSelector: appsv1.DefaultDeploymentUniqueLabelKey})
			if err != nil {
				return err
			}
			if len(all.Items) != 1 || all.Items[0].UID == not ||
				deployment.Status.UpdatedReplicas != *deployment.Spec.Replicas || deployment.Status.ObservedGeneration < deployment.Generation {
				return fmt.Errorf("%d ReplicaSets, status %+v", len(all.Items), deployment.Status)
			}
			uid = all.Items[0].UID
			if have := list(all.Items[0].Spec.Template.Spec.Containers[0].Resources.Limits); have != "gpu=1" {
				t.Errorf("%s, that has another template than the Deployment: %s", what, have)
			}
			return nil
		})
		return uid
	}
	before := one("the Deployment has a ReplicaSet", "")
	patch(appsv1.SchemeGroupVersion.WithResource("deployments"), types.MergePatchType, `{"spec":{"replicas":1}}`)
	if uid := one("it is scaled", ""); uid != before {
		t.Error("scaling it rolled it out")
	}
	if err := sets.DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: appsv1.DefaultDeploymentUniqueLabelKey}); err != nil {
		t.Fatal(err)
	}
	one("the Deployment has a ReplicaSet again", before)
	eventually(t, "its new pods get the amount", func() error {
		pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if have := resourcesOf(t, pod.Spec.Containers[0]); have == "gpu=1 gpumem=8192" {
				return nil
			}
		}
		return fmt.Errorf("%d pods", len(pods.Items))
	})

	for resource := range templates(t, spec) {
		path, ok := map[string]string{"jobs": "", "podtemplates": "/template/spec",
			"cronjobs": "/spec/jobTemplate/spec/template/spec"}[resource.Resource]
		if !ok {
			path = "/spec/template/spec"
		}
		if path == "" {
			continue // for ever as it is
		}
		if have := patch(resource, types.JSONPatchType,
			`[{"op":"replace","path":"`+path+`/containers/0/image","value":"next"}]`); have != "gpu=1 gpumem=8192" {
			t.Errorf("%s with a new image: %s", resource.Resource, have)
		}
	}
}

// gpuquota judges templates: with the policy it lets those pass whose pods pass.
func TestVGPUDefaultMemoryAndProgram(t *testing.T) {
	vgpuNodes(t, 1, 1)
	namespace := newNamespace(t, nil)
	p := serve(t, fmt.Sprintf(`apiVersion: config.gpuquota.io/v1alpha1
kind: QuotaPolicy
tenants:
  - name: sharing
    namespaces: [%s]
    quota:
      A100: {gpus: 0.5, memory: 40Gi}
    rules: {requireGpuMemory: enforce}
`, namespace))
	const fields = "spec: {replicas: 2, selector: {matchLabels: {a: b}}, template: TEMPLATE}"
	pod := "containers: [" + limits("main", "gpu: 1") + "]"
	create := func() (string, error) {
		t.Helper()
		return kubectl(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: workload}\n"+strings.ReplaceAll(fields,
			"TEMPLATE", "{metadata: {labels: {a: b}}, spec: "+flow(t, newPod(t, pod).Spec)+"}"), "create", "-n", namespace, "-f", "-", "--dry-run=server")
	}
	if out, err := create(); err == nil || !strings.Contains(out, "nvidia.com/gpumem") {
		t.Errorf("without the policy: %s", out)
	}
	if _, err := client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+defaultMemory+`":"true"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	inForce(t, "vgpu-default-memory.yaml", func() bool {
		created, err := try(t, namespace, newPod(t, pod))
		return err == nil && len(created.Spec.Containers[0].Resources.Limits) == 2
	})
	for range 2 {
		containers, _ := apply(t, namespace, "Deployment", fields, pod)
		if have := list(containers[0].Resources.Limits); have != "gpu=1 gpumem=8192" {
			t.Errorf("the Deployment says %s", have)
		}
	}
	p.waitUsage(t, "sharing", "0.2", 2*8192) // of 81920 MiB each
	eventually(t, "its pods run", func() error {
		all, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Running"})
		if err == nil && len(all.Items) != 2 {
			err = fmt.Errorf("%d run", len(all.Items))
		}
		return err
	})
}
