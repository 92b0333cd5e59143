// Package objects makes what the benchmarks send and serve: pods, nodes, namespaces, a policy and
// AdmissionReviews, all from the types of k8s.io/api, so that they look like the real ones.
package objects

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Marks stand in templates for what differs from one object to the next. Values that replace them
// are as long as they are.
const (
	MarkName    = "bench-@@@@@@@@"
	MarkUID     = "@@@@@@@@-@@@@-4aaa-8aaa-@@@@@@@@@@@@"
	MarkRequest = "@@@@@@@@-@@@@-4bbb-8bbb-@@@@@@@@@@@@"
	MarkTeam    = "team-@@"
	MarkVersion = "@@@@@@@@@"
	MarkNode    = "node-@@@@"
)

// Teams is how many namespaces, each of a tenant of its own, there are.
const Teams = 50

// Products of the nodes, as GPU feature discovery names them, and their device memory in MiB.
var products = []struct {
	label string
	mib   string
}{
	{"NVIDIA-H100-80GB-HBM3", "81559"},
	{"NVIDIA-A100-SXM4-40GB", "40960"},
	{"NVIDIA-A100-SXM4-80GB", "81920"},
	{"NVIDIA-H200", "143771"},
}

var birth = metav1.NewTime(time.Date(2026, 11, 30, 8, 40, 24, 0, time.UTC))

// Values replace the marks.
type Values struct{ Name, UID, Request, Team, Version, Node string }

// UID number n. kind: one hexadecimal digit per family of objects.
func UID(kind string, n uint64) string {
	return fmt.Sprintf("%s%07x-%04x-4%s-8%s-%012x", kind, n>>48&0xfffffff, n>>32&0xffff,
		strings.Repeat(kind, 3), strings.Repeat(kind, 3), n&0xffffffffffff)
}

// Team is the name of a namespace.
func Team(n int) string { return fmt.Sprintf("team-%02d", n%Teams) }

// Template is a JSON text with marks.
type Template struct {
	parts [][]byte
	marks []func(*Values) string // behind each part but the last
	size  int
}

var marks = []struct {
	text  string
	value func(*Values) string
}{
	{MarkName, func(v *Values) string { return v.Name }},
	{MarkUID, func(v *Values) string { return v.UID }},
	{MarkRequest, func(v *Values) string { return v.Request }},
	{MarkTeam, func(v *Values) string { return v.Team }},
	{MarkNode, func(v *Values) string { return v.Node }},
	{MarkVersion, func(v *Values) string { return v.Version }},
}

// NewTemplate marshals object and finds its marks.
func NewTemplate(object any) *Template {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	t := &Template{size: len(text)}
	for {
		at, which := len(text), -1
		for i, mark := range marks {
			if found := bytes.Index(text, []byte(mark.text)); found >= 0 && found < at {
				at, which = found, i
			}
		}
		t.parts = append(t.parts, text[:at])
		if which < 0 {
			return t
		}
		t.marks = append(t.marks, marks[which].value)
		text = text[at+len(marks[which].text):]
	}
}

// Size of what Append appends.
func (t *Template) Size() int { return t.size }

// Append appends the text with its marks replaced.
func (t *Template) Append(to []byte, values *Values) []byte {
	for i, part := range t.parts {
		to = append(to, part...)
		if i < len(t.marks) {
			to = append(to, t.marks[i](values)...)
		}
	}
	return to
}

// fields renders the paths of a manager's fields as FieldsV1.
func fields(paths ...string) *metav1.FieldsV1 {
	root := map[string]any{}
	for _, path := range paths {
		at := root
		for _, step := range strings.Split(path, "|") {
			next, ok := at[step].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[step] = next
			}
			at = next
		}
	}
	raw, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return &metav1.FieldsV1{Raw: raw}
}

func entry(manager string, f *metav1.FieldsV1) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: "v1", Time: &birth, FieldsType: "FieldsV1", FieldsV1: f}
}

func specFields(envs int) *metav1.FieldsV1 {
	const container = `f:spec|f:containers|k:{"name":"main"}|`
	paths := []string{container + "f:image", container + "f:imagePullPolicy", container + "f:name",
		container + "f:resources|f:limits|f:nvidia.com/gpu", container + "f:terminationMessagePath",
		container + "f:terminationMessagePolicy", "f:spec|f:dnsPolicy", "f:spec|f:nodeSelector",
		"f:spec|f:restartPolicy", "f:spec|f:schedulerName", "f:spec|f:securityContext",
		"f:spec|f:terminationGracePeriodSeconds"}
	for i := range envs {
		env := fmt.Sprintf(`%sf:env|k:{"name":"SETTING_%d"}|`, container, i)
		paths = append(paths, env+"f:name", env+"f:value")
	}
	return fields(paths...)
}

// Pod is one as the API server hands it to a webhook on its creation: defaulted, not stored yet. It
// asks for one GPU. envs sets its size: about 1.6 KB with none, 160 bytes more for each.
func Pod(envs int) *corev1.Pod {
	gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	mode, grace, notReady := int32(420), int64(30), int64(300)
	links, zero := true, int32(0)
	never := corev1.PreemptLowerPriority
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: MarkName, Namespace: MarkTeam, UID: MarkUID,
			CreationTimestamp: birth, Labels: map[string]string{"app": "train"},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("kubectl-create", specFields(envs))}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/ai/train:2026.11",
				Resources:                corev1.ResourceRequirements{Limits: gpu, Requests: gpu},
				TerminationMessagePath:   "/dev/termination-log",
				TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				ImagePullPolicy:          corev1.PullIfNotPresent,
				VolumeMounts: []corev1.VolumeMount{{Name: "kube-api-access", ReadOnly: true,
					MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}}},
			Volumes: []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode,
					Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{
						LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
						Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}}}}}}},
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			DNSPolicy: corev1.DNSClusterFirst, ServiceAccountName: "default",
			SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
			NodeSelector: map[string]string{"nvidia.com/gpu.product": products[0].label},
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists,
					Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &notReady},
				{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists,
					Effect: corev1.TaintEffectNoSchedule}},
			Priority: &zero, EnableServiceLinks: &links, PreemptionPolicy: &never},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort},
	}
	for i := range envs {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{
			Name:  fmt.Sprintf("SETTING_%d", i),
			Value: fmt.Sprintf("a value that nobody in front of a kubelet reads, %d", i)})
	}
	return pod
}

// BigPod is a pod of about 64 KB: 190 variables, and once more as kubectl apply keeps them, in an
// annotation full of escaped quotes.
func BigPod() *corev1.Pod {
	pod := Pod(190)
	last, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	pod.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: string(last)}
	return pod
}

// ListedPod is a running pod as lists and watches deliver it, about 8 KB. A pod without GPUs has the
// same size.
func ListedPod(gpu bool) *corev1.Pod {
	pod := Pod(24)
	pod.TypeMeta = metav1.TypeMeta{}
	pod.ResourceVersion = MarkVersion
	pod.GenerateName = "bench-"
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "bench",
		UID: "f4a5f369-b28b-481f-8125-c33b0e7fd798", Controller: &yes, BlockOwnerDeletion: &yes}}
	pod.ManagedFields = append(pod.ManagedFields, entry("kubelet", fields(
		`f:status|f:conditions|k:{"type":"Ready"}|f:lastTransitionTime`,
		`f:status|f:conditions|k:{"type":"Ready"}|f:status`,
		`f:status|f:conditions|k:{"type":"Initialized"}|f:lastTransitionTime`,
		`f:status|f:conditions|k:{"type":"Initialized"}|f:status`,
		`f:status|f:conditions|k:{"type":"ContainersReady"}|f:lastTransitionTime`,
		`f:status|f:conditions|k:{"type":"ContainersReady"}|f:status`,
		"f:status|f:containerStatuses", "f:status|f:hostIP", "f:status|f:phase",
		"f:status|f:podIP", "f:status|f:podIPs", "f:status|f:startTime")))
	pod.Spec.NodeName = MarkNode
	if !gpu {
		cpu := corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: cpu, Requests: cpu}
		pod.Spec.NodeSelector = nil
	}
	pod.Status.Phase = corev1.PodRunning
	for _, condition := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady,
		corev1.ContainersReady, corev1.PodScheduled} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition,
			Status: corev1.ConditionTrue, LastTransitionTime: birth})
	}
	pod.Status.HostIP, pod.Status.PodIP = "10.0.0.1", "10.244.0.7"
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.7"}}
	pod.Status.StartTime = &birth
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Ready: true, Started: &yes,
		Image:       "registry.example/ai/train:2026.11",
		ImageID:     "registry.example/ai/train@sha256:" + strings.Repeat("0123456789abcdef", 4),
		ContainerID: "containerd://" + strings.Repeat("0123456789abcdef", 4),
		State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: birth}}}}
	return pod
}

// Review asks about the creation of pod.
func Review(pod *corev1.Pod, dryRun bool) *admissionv1.AdmissionReview {
	raw, err := json.Marshal(pod)
	if err != nil {
		panic(err)
	}
	pods := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"},
		Request: &admissionv1.AdmissionRequest{UID: MarkRequest, Kind: kind, Resource: pods,
			RequestKind: &kind, RequestResource: &pods, Name: MarkName, Namespace: MarkTeam,
			Operation: admissionv1.Create, DryRun: &dryRun,
			UserInfo: authenticationv1.UserInfo{Username: "user-of-" + MarkTeam,
				Groups: []string{"system:authenticated"}},
			Object:  runtime.RawExtension{Raw: raw},
			Options: runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`)},
		},
	}
}

// Node number i of 50 sets of labels (apart from the host name). Each has 8 GPUs.
func Node(i int) *corev1.Node {
	product := products[i%len(products)]
	name := fmt.Sprintf("node-%04d", i)
	eight := resource.MustParse("8")
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(UID("c", uint64(i))),
			ResourceVersion: fmt.Sprint(i + 1), CreationTimestamp: birth,
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux",
				corev1.LabelArchStable: "amd64", "nvidia.com/gpu.product": product.label,
				"nvidia.com/gpu.memory": product.mib, "nvidia.com/gpu.count": "8",
				"nvidia.com/gpu.replicas":    "1",
				corev1.LabelTopologyZone:     fmt.Sprintf("zone-%02d", i%50),
				"node.kubernetes.io/pool-id": fmt.Sprintf("pool-%02d", i%50)}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "nvidia.com/gpu",
			Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("128"),
			"memory": resource.MustParse("1Ti"), "pods": resource.MustParse("110"),
			"nvidia.com/gpu": eight}},
	}
	node.Status.Capacity = node.Status.Allocatable
	return node
}

// Namespaces of the teams.
func Namespaces() []*corev1.Namespace {
	var all []*corev1.Namespace
	for i := range Teams {
		all = append(all, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Team(i),
			UID: types.UID(UID("d", uint64(i))), ResourceVersion: fmt.Sprint(i + 1),
			CreationTimestamp: birth, Labels: map[string]string{corev1.LabelMetadataName: Team(i)}},
			Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// everyRule lets the pods here pass, and finds something in them where that does not refuse.
const everyRule = `rules:
  privileged: enforce
  containerRuntimeSockets: enforce
  hostDevices: enforce
  hostPath: {mode: enforce, allow: [{path: /var/log, readOnly: true}]}
  gpuWithoutRequest: enforce
  bypassLabels: {mode: enforce, schedulerNames: [default-scheduler]}
  podLimit: {mode: enforce, gpus: 1000}
  requireGpuMemory: audit
  requireUserNamespace: audit
  requireReadinessProbe: audit
`

// Policy gives each team a tenant below one parent, with limits that nothing here reaches, and
// switches every rule on if asked to.
func Policy(rules bool) *corev1.ConfigMap {
	var text strings.Builder
	text.WriteString("apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\ntenants:\n" +
		"  - name: all\n    quota: {A100: {gpus: 4000000}, H100: {gpus: 4000000}}\n")
	for i := range Teams {
		fmt.Fprintf(&text, "  - name: %s\n    parent: all\n    namespaces: [%s]\n    quota:\n"+
			"      A100: {gpus: 1000000}\n      H100: {gpus: 1000000}\n      \"*\": {gpus: 2000000}\n",
			Team(i), Team(i))
	}
	if rules {
		text.WriteString(everyRule)
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "gpuquota-policy",
		Namespace: "gpuquota-system", UID: types.UID(UID("e", 1)), ResourceVersion: "1",
		CreationTimestamp: birth}, Data: map[string]string{"policy.yaml": text.String()}}
}
