package policies

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// list writes resources as "gpu=1 gpumem=8192", sorted, without the domain.
func list(resources corev1.ResourceList) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		quantity := resources[name]
		words = append(words, strings.TrimPrefix(string(name), "nvidia.com/")+"="+quantity.String())
	}
	return strings.Join(words, " ")
}

// resourcesOf also checks that limits and requests are equal.
func resourcesOf(t *testing.T, container corev1.Container) string {
	t.Helper()
	limits, requests := list(container.Resources.Limits), list(container.Resources.Requests)
	if limits != requests {
		t.Errorf("%s: limits %s, requests %s", container.Name, limits, requests)
	}
	return limits
}

// limits writes a container that asks: limits("main", "gpu: 0.5, gpu-memory: 8Gi").
func limits(name, asks string) string {
	var resources []string
	for _, ask := range strings.Split(asks, ", ") {
		if ask != "" {
			resources = append(resources, "nvidia.com/"+ask)
		}
	}
	return fmt.Sprintf("{name: %s, image: none, resources: {limits: {%s}}}", name, strings.Join(resources, ", "))
}

func hamiActs(t *testing.T, namespace string) func() bool {
	return func() bool {
		_, err := try(t, namespace, newPod(t, "containers: ["+limits("main", "gpu: 0.5")+"]"))
		return err == nil
	}
}

func TestFractionsHAMi(t *testing.T) {
	namespace := newNamespace(t, nil)
	inForce(t, "fractions-hami.yaml", hamiActs(t, namespace))
	for _, tc := range []struct{ asks, want string }{
		{"gpu: 0.5, gpu-memory: 8Gi", "gpu=1 gpucores=50 gpumem=8192"},
		{"gpu: 500m, gpu-memory: 8192Mi", "gpu=1 gpucores=50 gpumem=8192"},
		{"gpu: 5e-1, gpu-memory: 8589934592", "gpu=1 gpucores=50 gpumem=8192"},
		{"gpu: 0.25, gpu-memory: 0.5Gi", "gpu=1 gpucores=25 gpumem=512"},
		// Rounded up, and only where there is something to round.
		{"gpu: 0.07, gpu-memory: 1G", "gpu=1 gpucores=7 gpumem=954"},
		{"gpu: 0.29, gpu-memory: 1Mi", "gpu=1 gpucores=29 gpumem=1"},
		{"gpu: 0.57, gpu-memory: 1048577", "gpu=1 gpucores=57 gpumem=2"},
		{"gpu: 0.333, gpu-memory: 8Gi", "gpu=1 gpucores=34 gpumem=8192"},
		{"gpu: 0.330000001, gpu-memory: 8Gi", "gpu=1 gpucores=34 gpumem=8192"},
		{"gpu: 0.000000001, gpu-memory: 8Gi", "gpu=1 gpucores=1 gpumem=8192"},
		{"gpu: 0.999, gpu-memory: 8Gi", "gpu=1 gpucores=100 gpumem=8192"},
		// A fraction without memory is that much of the memory, too.
		{"gpu: 0.5", "gpu=1 gpucores=50 gpumem-percentage=50"},
		{"gpu: 0.125", "gpu=1 gpucores=13 gpumem-percentage=13"},
		// HAMi's own words stay where they say something else.
		{"gpu: 0.5, gpumem: 4096", "gpu=1 gpucores=50 gpumem=4096"},
		{"gpu: 0.5, gpumem-percentage: 20", "gpu=1 gpucores=50 gpumem-percentage=50"},
		{"gpu: 0.5, gpu-memory: 8Gi, gpucores: 30", "gpu=1 gpucores=50 gpumem=8192"},
		{"gpu: 1, gpu-memory: 8Gi, gpumem: 4096", "gpu=1 gpumem=8192"},
		{"gpu-memory: 8Gi, gpumem-percentage: 10, gpucores: 5", "gpu=1 gpucores=5 gpumem=8192"},
		{"gpu: 1, gpumem: 8192, gpucores: 50", "gpu=1 gpucores=50 gpumem=8192"},
		{"gpu: 2, gpumem-percentage: 30", "gpu=2 gpumem-percentage=30"},
		{"gpumem: 4096", "gpumem=4096"},
		{"mig-1g.5gb: 1", "mig-1g.5gb=1"},
		// Memory without a fraction.
		{"gpu-memory: 8Gi", "gpu=1 gpumem=8192"},
		{"gpu: 1, gpu-memory: 8Gi", "gpu=1 gpumem=8192"},
		{"gpu: 2, gpu-memory: 8Gi", "gpu=2 gpumem=8192"},
		{"gpu: 1", "gpu=1"},
		{"gpu: 8", "gpu=8"},
		{"", ""},
		// Left for gpuquota to refuse: it does not know what these are.
		{"gpu: 1, gpu-memory: 8", "gpu=1 gpu-memory=8"},
		{"gpu-memory: 1048575", "gpu-memory=1048575"},
		{"gpu: 0, gpu-memory: 8Gi", "gpu=0 gpu-memory=8Gi"},
	} {
		pod, err := try(t, namespace, newPod(t, "containers: ["+limits("main", tc.asks)+"]"))
		if err != nil {
			t.Errorf("%s: %v", tc.asks, err)
			continue
		}
		if have := resourcesOf(t, pod.Spec.Containers[0]); have != tc.want {
			t.Errorf("%s: have %s, want %s", tc.asks, have, tc.want)
		}
		// What came out goes in again and comes out the same.
		pod.ObjectMeta = newPod(t, "").ObjectMeta
		if have := resourcesOf(t, mustTry(t, namespace, pod).Spec.Containers[0]); have != tc.want {
			t.Errorf("%s, again: have %s, want %s", tc.asks, have, tc.want)
		}
	}

	for _, asks := range []string{"gpu: 1.5", "gpu: 1.5, gpu-memory: 8Gi", "gpu: 2500m, gpu-memory: 8Gi",
		"gpu: -0.5", "gpu: -1, gpu-memory: 8Gi", "gpu: 0.5, gpu-memory: 8",
		"gpu: 0.5, gpu-memory: 1048576500m"} {
		if pod, err := try(t, namespace, newPod(t, "containers: ["+limits("main", asks)+"]")); err == nil {
			t.Errorf("%s is allowed as %s", asks, resourcesOf(t, pod.Spec.Containers[0]))
		}
	}
	// Limits and requests that differ are no request.
	if _, err := try(t, namespace, newPod(t, `containers: [{name: main, image: none, resources: {
		limits: {nvidia.com/gpu: 0.5}, requests: {nvidia.com/gpu: 0.25}}}]`)); err == nil {
		t.Error("limits and requests that differ are allowed")
	}
	if _, err := try(t, namespace, newPod(t, `containers: [{name: main, image: none, resources: {
		requests: {nvidia.com/gpu: 0.5}}}]`)); err == nil {
		t.Error("a request without a limit is allowed")
	}
	// Another scheduler's pods are not HAMi's.
	if _, err := try(t, namespace, newPod(t, "schedulerName: kai-scheduler\ncontainers: ["+limits("main", "gpu: 0.5")+"]")); err == nil {
		t.Error("a pod of another scheduler is rewritten")
	}

	pod := mustTry(t, namespace, newPod(t, `
initContainers:
- `+limits("first", "gpu: 0.1, gpu-memory: 1Gi")+`
- {name: idle, image: none}
- {name: sidecar, image: none, restartPolicy: Always, resources: {limits: {nvidia.com/gpu: 0.2, cpu: 1}}}
containers:
- {name: idle-main, image: none}
- `+limits("one", "gpu: 0.5, gpu-memory: 8Gi")+`
- `+limits("two", "gpu: 2, gpu-memory: 4Gi")+`
- `+limits("whole", "gpu: 1")))
	var have []string
	for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		have = append(have, container.Name+": "+resourcesOf(t, container))
	}
	want := []string{"first: gpu=1 gpucores=10 gpumem=1024", "idle: ",
		"sidecar: cpu=1 gpu=1 gpucores=20 gpumem-percentage=20", "idle-main: ",
		"one: gpu=1 gpucores=50 gpumem=8192", "two: gpu=2 gpumem=4096", "whole: gpu=1"}
	if !slices.Equal(have, want) {
		t.Errorf("have %q\nwant %q", have, want)
	}
}

func TestFractionsHAMiCost(t *testing.T) {
	namespace := newNamespace(t, nil)
	inForce(t, "fractions-hami.yaml", hamiActs(t, namespace))
	var containers []string
	for i := range 20 {
		containers = append(containers, "- "+limits(fmt.Sprintf("c%d", i), "gpu: 0.5, gpu-memory: 8Gi"))
	}
	pod := mustTry(t, namespace, newPod(t, "initContainers:\n"+strings.Join(containers, "\n")+
		"\ncontainers:\n"+strings.ReplaceAll(strings.Join(containers, "\n"), "name: c", "name: m")))
	for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if have := resourcesOf(t, container); have != "gpu=1 gpucores=50 gpumem=8192" {
			t.Errorf("%s: %s", container.Name, have)
		}
	}
}

func TestFractionsKAI(t *testing.T) {
	namespace := newNamespace(t, nil)
	const scheduler = "schedulerName: kai-scheduler\n"
	inForce(t, "fractions-kai.yaml", func() bool {
		_, err := try(t, namespace, newPod(t, scheduler+"containers: ["+limits("main", "gpu: 0.5")+"]"))
		_, left := try(t, namespace, newPod(t, scheduler+"containers: ["+limits("main", "gpu-memory: 8")+"]"))
		return err == nil && left != nil
	})
	wantNoTypeWarnings(t, "gpuquota-fractions-kai-left")
	for _, tc := range []struct{ asks, annotations, left string }{
		{"gpu: 0.5", "gpu-fraction=0.5", ""},
		{"gpu: 0.333", "gpu-fraction=0.333", ""},
		{"gpu-memory: 8Gi", "gpu-memory=8192", ""},
		{"gpu-memory: 1G", "gpu-memory=954", ""},
		{"gpu: 0.5, gpu-memory: 8Gi", "gpu-memory=8192", ""},
		{"gpu: 1, gpu-memory: 8Gi", "gpu-memory=8192", ""},
		{"gpu: 2, gpu-memory: 8Gi", "gpu-fraction-num-devices=2 gpu-memory=8192", ""},
		{"gpu: 1", "", "gpu=1"},
		{"gpu: 4", "", "gpu=4"},
		{"", "", ""},
	} {
		for _, metadata := range []string{"", "metadata: {annotations: {mine: here}}\n"} {
			pod, err := try(t, namespace, newPod(t, scheduler+metadata+
				"containers: [{name: idle, image: none}, "+limits("main", tc.asks)+"]"))
			if err != nil {
				t.Errorf("%s: %v", tc.asks, err)
				continue
			}
			var have []string
			for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
				if strings.HasPrefix(key, "gpu-") && key != "gpu-fraction-container-name" {
					have = append(have, key+"="+pod.Annotations[key])
				}
			}
			if text := strings.Join(have, " "); text != tc.annotations {
				t.Errorf("%s: annotations %s, want %s", tc.asks, text, tc.annotations)
			}
			if name := pod.Annotations["gpu-fraction-container-name"]; (name == "main") != (tc.annotations != "") {
				t.Errorf("%s: for the container %q", tc.asks, name)
			}
			if metadata != "" && pod.Annotations["mine"] != "here" {
				t.Errorf("%s: the pod lost its own annotation: %v", tc.asks, pod.Annotations)
			}
			if left := resourcesOf(t, pod.Spec.Containers[1]); left != tc.left {
				t.Errorf("%s: leaves %q, want %q", tc.asks, left, tc.left)
			}
			pod.Name, pod.ResourceVersion, pod.UID = "again", "", ""
			if again := mustTry(t, namespace, pod); !maps.Equal(again.Annotations, pod.Annotations) ||
				resourcesOf(t, again.Spec.Containers[1]) != tc.left {
				t.Errorf("%s, again: %v %s", tc.asks, again.Annotations, resourcesOf(t, again.Spec.Containers[1]))
			}
		}
	}
	// One that starts before the others may be the one.
	pod := mustTry(t, namespace, newPod(t, scheduler+"initContainers: ["+limits("first", "gpu: 0.5")+
		"]\ncontainers: [{name: main, image: none}]"))
	if pod.Annotations["gpu-fraction-container-name"] != "first" || resourcesOf(t, pod.Spec.InitContainers[0]) != "" {
		t.Errorf("an init container: %v %s", pod.Annotations, resourcesOf(t, pod.Spec.InitContainers[0]))
	}

	// The API server refuses what is left of fractions, the second policy what is left of memory.
	for _, containers := range []string{
		limits("one", "gpu: 0.5") + ", " + limits("two", "gpu: 0.5"),
		limits("one", "gpu: 0.5, gpu-memory: 8Gi") + ", " + limits("two", "gpu: 1"),
		limits("one", "gpu: 1.5"), limits("one", "gpu: -0.5"), limits("one", "gpu: 0.5, gpu-memory: 8"),
		"{name: one, image: none, resources: {limits: {nvidia.com/gpu: 0.5}, requests: {nvidia.com/gpu: 0.25}}}",
	} {
		if _, err := try(t, namespace, newPod(t, scheduler+"containers: ["+containers+"]")); err == nil {
			t.Errorf("%s is allowed", containers)
		}
	}
	for _, spec := range []string{
		"containers: [" + limits("one", "gpu-memory: 8Gi") + ", " + limits("two", "gpu-memory: 4Gi") + "]",
		"containers: [" + limits("one", "gpu: 0, gpu-memory: 8Gi") + "]",
		"containers: [" + limits("one", "gpu-memory: 8") + "]",
	} {
		_, err := try(t, namespace, newPod(t, scheduler+spec))
		wantRefused(t, err, "nvidia.com/gpu-memory of container one", "only one container of a pod may ask")
	}
	// A pod that KAI does not schedule would run without its GPU.
	if _, err := try(t, namespace, newPod(t, "containers: ["+limits("main", "gpu: 0.5")+"]")); err == nil {
		t.Error("a pod of the default scheduler is rewritten")
	}
	pod = mustTry(t, namespace, newPod(t, "containers: ["+limits("main", "gpu-memory: 8Gi")+"]"))
	if resourcesOf(t, pod.Spec.Containers[0]) != "gpu-memory=8Gi" {
		t.Errorf("a pod of the default scheduler is rewritten: %s", resourcesOf(t, pod.Spec.Containers[0]))
	}
}

// apply applies a workload as a user does, again and again, and gives the containers of its template.
func apply(t *testing.T, namespace, kind, fields, pod string) (containers []corev1.Container, annotations map[string]string) {
	t.Helper()
	apiVersion := map[string]string{"Deployment": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1",
		"CronJob": "batch/v1", "PodTemplate": "v1"}[kind]
	template := "{metadata: {labels: {a: b}}, spec: " + flow(t, newPod(t, pod).Spec) + "}"
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: workload}\n%s\n", apiVersion, kind,
		strings.ReplaceAll(fields, "TEMPLATE", template))
	if out, err := kubectl(t, text, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatalf("apply %s with %s: %s", kind, pod, out)
	}
	out, err := kubectl(t, "", "get", "-n", namespace, kind, "workload", "-o", "yaml")
	if err != nil {
		t.Fatal(out)
	}
	object := manifest(t, out)
	path := map[string][]string{"PodTemplate": {"template"}, "CronJob": {"spec", "jobTemplate", "spec", "template"}}[kind]
	if path == nil {
		path = []string{"spec", "template"}
	}
	found, _, _ := unstructured.NestedMap(object.Object, path...)
	var stored corev1.PodTemplateSpec
	parse(t, flow(t, found), &stored)
	return stored.Spec.Containers, stored.Annotations
}

var workloads = map[string]string{
	"Deployment":  "spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: TEMPLATE}",
	"StatefulSet": "spec: {replicas: 0, serviceName: a, selector: {matchLabels: {a: b}}, template: TEMPLATE}",
	"Job":         "spec: {suspend: true, template: TEMPLATE}",
	"CronJob":     "spec: {suspend: true, schedule: '1 1 1 1 1', jobTemplate: {spec: {template: TEMPLATE}}}",
	"PodTemplate": "template: TEMPLATE",
}

// A workload's template is refused like a pod, so it is rewritten like one, and stays so however often
// it is applied and whatever it said before.
func TestFractionsInTemplates(t *testing.T) {
	namespace := newNamespace(t, nil)
	inForce(t, "fractions-hami.yaml", hamiActs(t, namespace))
	inForce(t, "fractions-kai.yaml", func() bool {
		_, err := try(t, namespace, newPod(t, "schedulerName: kai-scheduler\ncontainers: ["+limits("main", "gpu: 0.5")+"]"))
		return err == nil
	})
	for kind, fields := range workloads {
		restart := "restartPolicy: Always\n"
		if strings.HasSuffix(kind, "Job") {
			restart = "restartPolicy: Never\n"
		}
		steps := []struct{ asks, want string }{
			{"gpu: 0.5, gpu-memory: 8Gi", "gpu=1 gpucores=50 gpumem=8192"},
			{"gpu: 0.5, gpu-memory: 8Gi", "gpu=1 gpucores=50 gpumem=8192"},
			{"gpu: 0.25, gpu-memory: 4Gi", "gpu=1 gpucores=25 gpumem=4096"},
		}
		if kind == "Job" {
			steps = steps[:2] // its template is for ever
		}
		for _, step := range steps {
			containers, _ := apply(t, namespace, kind, fields, restart+"containers: [{name: idle, image: none}, "+limits("main", step.asks)+"]")
			if have := list(containers[1].Resources.Limits); have != step.want {
				t.Errorf("%s %s: have %s, want %s", kind, step.asks, have, step.want)
			}
		}
		if out, err := kubectl(t, "", "delete", "-n", namespace, kind, "workload"); err != nil {
			t.Fatal(out)
		}
	}
	for _, asks := range []string{"gpu: 0.5=gpu=1 gpucores=50 gpumem-percentage=50", "gpu: 0.2=gpu=1 gpucores=20 gpumem-percentage=20",
		"gpu: 0.2, gpu-memory: 1Gi=gpu=1 gpucores=20 gpumem=1024"} {
		asks, want, _ := strings.Cut(asks, "=")
		containers, _ := apply(t, namespace, "Deployment", workloads["Deployment"], "containers: ["+limits("main", asks)+"]")
		if have := list(containers[0].Resources.Limits); have != want {
			t.Errorf("a Deployment that says %s: have %s, want %s", asks, have, want)
		}
	}
	for _, kind := range []string{"PodTemplate", "CronJob", "StatefulSet"} {
		restart := map[string]string{"CronJob": "restartPolicy: Never\n"}[kind]
		for _, step := range []struct{ asks, want string }{
			{"gpu: 0.5", "gpu-fraction=0.5"}, {"gpu: 0.5", "gpu-fraction=0.5"}, {"gpu: 0.25", "gpu-fraction=0.25"},
			{"gpu: 0.25, gpu-memory: 1Gi", "gpu-memory=1024"}, {"gpu: 2, gpu-memory: 1Gi", "gpu-fraction-num-devices=2 gpu-memory=1024"},
			{"gpu-memory: 2Gi", "gpu-memory=2048"},
		} {
			containers, annotations := apply(t, namespace, kind, workloads[kind], restart+"schedulerName: kai-scheduler\n"+
				"containers: ["+limits("main", step.asks)+"]")
			delete(annotations, "gpu-fraction-container-name")
			var have []string
			for _, key := range slices.Sorted(maps.Keys(annotations)) {
				have = append(have, key+"="+annotations[key])
			}
			if text := strings.Join(have, " "); text != step.want || len(containers[0].Resources.Limits) != 0 {
				t.Errorf("%s for KAI, %s: have %s and %v, want %s", kind, step.asks, text, containers[0].Resources.Limits, step.want)
			}
		}
	}
	out, err := kubectl(t, `{"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "left"}, "template": {"spec":
		{"schedulerName": "kai-scheduler", "containers": [`+flow(t, newPod(t, "containers: ["+limits("main", "gpu-memory: 8")+"]").Spec.Containers[0])+`]}}}`,
		"apply", "-n", namespace, "-f", "-")
	if err == nil || !strings.Contains(out, "container main could not be rewritten") {
		t.Errorf("gpu-memory that is left in a template: %s", out)
	}
}

// A Deployment that was there before the policy makes a ReplicaSet again, and no others without end.
func TestFractionsOfOldWorkloads(t *testing.T) {
	for _, c := range []struct{ file, scheduler, want string }{
		{"fractions-hami.yaml", "default-scheduler", "gpu=1 gpumem=8192"},
		{"fractions-kai.yaml", "kai-scheduler", ""},
	} {
		t.Run(c.file, func(t *testing.T) {
			namespace := newNamespace(t, nil)
			deployments, sets := client.AppsV1().Deployments(namespace), client.AppsV1().ReplicaSets(namespace)
			const asks = "gpu: 1, gpu-memory: 8Gi"
			if out, err := kubectl(t, `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "old", "namespace": "`+namespace+`"},
				"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec":
				{"schedulerName": "`+c.scheduler+`", "containers": [`+limits("main", asks)+`]}}}}`, "apply", "-f", "-"); err != nil {
				t.Fatal(out)
			}
			settled := func(what string, not types.UID) types.UID {
				t.Helper()
				var uid types.UID
				eventually(t, what, func() error {
					deployment, err := deployments.Get(t.Context(), "old", metav1.GetOptions{})
					if err != nil {
						return err
					}
					all, err := sets.List(t.Context(), metav1.ListOptions{})
					if err != nil {
						return err
					}
					if len(all.Items) != 1 || all.Items[0].UID == not || deployment.Status.UpdatedReplicas != 1 {
						return fmt.Errorf("%d ReplicaSets, status %+v", len(all.Items), deployment.Status)
					}
					uid = all.Items[0].UID
					if have := list(all.Items[0].Spec.Template.Spec.Containers[0].Resources.Limits); have != "gpu=1 gpu-memory=8Gi" {
						t.Errorf("%s, that has another template than the Deployment: %s", what, have)
					}
					return nil
				})
				return uid
			}
			before := settled("the Deployment has a ReplicaSet", "")
			inForce(t, c.file, func() bool {
				pod, err := try(t, namespace, newPod(t, "schedulerName: "+c.scheduler+"\ncontainers: ["+limits("main", asks)+"]"))
				return err == nil && list(pod.Spec.Containers[0].Resources.Limits) == c.want
			})
			if err := sets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			settled("the Deployment has a ReplicaSet again", before)
			eventually(t, "its new pod is rewritten", func() error {
				pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
				if err != nil {
					return err
				}
				for _, pod := range pods.Items {
					if resourcesOf(t, pod.Spec.Containers[0]) == c.want {
						return nil
					}
				}
				return fmt.Errorf("%d pods", len(pods.Items))
			})
		})
	}
}
