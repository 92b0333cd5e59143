package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gpuquota.io/tests/controlplane"
)

// scopeLabel is on every namespace of a test; the test's registrations select on it.
const scopeLabel = "e2e.gpuquota.io/scope"

// patience bounds how long anything may take that should take a moment.
const patience = 30 * time.Second

// scope is what one test has for itself.
type scope struct {
	*testing.T
	id string
}

var notLower = regexp.MustCompile(`[^a-z0-9]+`)

func newScope(t *testing.T) *scope {
	t.Helper()
	name := strings.Trim(notLower.ReplaceAllString(strings.ToLower(strings.TrimPrefix(t.Name(), "Test")), "-"), "-")
	if len(name) > 24 {
		name = strings.Trim(name[:24], "-")
	}
	return &scope{T: t, id: fmt.Sprintf("%s-%04x", name, rand.IntN(1<<16))}
}

// namespace creates a namespace of the test, with what pods need in it.
func (s *scope) namespace(name string, labels map[string]string) string {
	s.Helper()
	full := s.id + "-" + name
	s.createNamespace(full, labels)
	return full
}

func (s *scope) createNamespace(full string, labels map[string]string) {
	s.Helper()
	all := map[string]string{scopeLabel: s.id}
	maps.Copy(all, labels)
	if _, err := client.CoreV1().Namespaces().Create(s.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: full, Labels: all}}, metav1.CreateOptions{}); err != nil {
		s.Fatalf("create namespace: %v", err)
	}
	s.Cleanup(func() {
		// In the background: nobody waits for the namespace to be gone.
		if err := client.CoreV1().Namespaces().Delete(context.Background(), full, metav1.DeleteOptions{}); err != nil {
			s.Logf("delete namespace %s: %v", full, err)
		}
	})
	s.eventually("the service account of "+full, func() error {
		_, err := client.CoreV1().ServiceAccounts(full).Get(s.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// eventually polls until f returns nil.
func (s *scope) eventually(what string, f func() error) {
	s.Helper()
	s.within(patience, what, f)
}

func (s *scope) within(limit time.Duration, what string, f func() error) {
	s.Helper()
	if err := controlplane.Poll(s.Context(), limit, f); err != nil {
		s.Fatalf("%s: not within %v: %v", what, limit, err)
	}
}

// throughout checks that f returns nil again and again for that long.
func (s *scope) throughout(duration time.Duration, what string, f func() error) {
	s.Helper()
	deadline := time.Now().Add(duration)
	for time.Now().Before(deadline) {
		if err := f(); err != nil {
			s.Fatalf("%s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

type podOption func(*corev1.Pod)

// newPod makes a pod that asks for GPUs of any model.
func newPod(name string, gpus int, options ...podOption) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "none"}},
		},
	}
	if gpus > 0 {
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
			"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	}
	for _, option := range options {
		option(pod)
	}
	return pod
}

// on makes the pod ask for a model by the label of GPU feature discovery.
func on(products ...string) podOption {
	return func(pod *corev1.Pod) {
		if len(products) == 1 {
			if pod.Spec.NodeSelector == nil {
				pod.Spec.NodeSelector = map[string]string{}
			}
			pod.Spec.NodeSelector[controlplane.LabelProduct] = products[0]
			return
		}
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: controlplane.LabelProduct, Operator: corev1.NodeSelectorOpIn, Values: products}}}}}}}
	}
}

// held leaves the pod without a node: no scheduler feels responsible.
func held(pod *corev1.Pod) { pod.Spec.SchedulerName = "nobody" }

// generated leaves the name to the API server.
func generated(pod *corev1.Pod) { pod.GenerateName, pod.Name = pod.Name+"-", "" }

// finalized makes the deletion wait until the test allows it.
func finalized(pod *corev1.Pod) { pod.Finalizers = []string{"e2e.gpuquota.io/wait"} }

// tolerating lets the pod on nodes that the test keeps for itself.
func tolerating(s *scope) podOption {
	return func(pod *corev1.Pod) {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: scopeLabel, Operator: corev1.TolerationOpEqual, Value: s.id, Effect: corev1.TaintEffectNoSchedule})
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = map[string]string{}
		}
		pod.Spec.NodeSelector[scopeLabel] = s.id
	}
}

// node creates a node that only tolerating pods of this test use.
func (s *scope) node(name, product string, gpus int) string {
	s.Helper()
	full := s.id + "-" + name
	if err := controlplane.CreateNode(s.Context(), client, controlplane.GPUNode{
		Name: full, Product: product, GPUs: gpus,
		Labels: map[string]string{scopeLabel: s.id, "e2e.gpuquota.io/node": name},
		Taints: []corev1.Taint{{Key: scopeLabel, Value: s.id, Effect: corev1.TaintEffectNoSchedule}},
	}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		err := client.CoreV1().Nodes().Delete(context.Background(), full, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			s.Logf("delete node %s: %v", full, err)
		}
	})
	return full
}

func (s *scope) create(namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	return client.CoreV1().Pods(namespace).Create(s.Context(), pod, metav1.CreateOptions{})
}

// mustCreate creates a pod that has to be allowed.
func (s *scope) mustCreate(namespace string, pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	created, err := s.create(namespace, pod)
	if err != nil {
		s.Fatalf("pod %s%s/%s: %v", pod.GenerateName, namespace, pod.Name, err)
	}
	return created
}

// mustRun creates a pod that has to be allowed and waits until it runs.
func (s *scope) mustRun(namespace string, pod *corev1.Pod) *corev1.Pod {
	s.Helper()
	created := s.mustCreate(namespace, pod)
	return s.waitRunning(namespace, created.Name)
}

func (s *scope) waitRunning(namespace, name string) *corev1.Pod {
	s.Helper()
	var ret *corev1.Pod
	s.eventually(fmt.Sprintf("pod %s/%s runs", namespace, name), func() error {
		pod, err := client.CoreV1().Pods(namespace).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s, node %q, conditions %v", pod.Status.Phase, pod.Spec.NodeName, pod.Status.Conditions)
		}
		ret = pod
		return nil
	})
	return ret
}

// denial checks that an error is a refusal of ours as a user sees it, and gives its text.
func (s *scope) denial(err error, entry string, wants ...string) string {
	s.Helper()
	if err == nil {
		s.Fatalf("allowed, want a denial with %q", wants)
	}
	if !apierrors.IsForbidden(err) {
		s.Errorf("refused, but not as Forbidden: %v", err)
	}
	return s.denialText(err.Error(), entry, wants...)
}

func (s *scope) denialText(text, entry string, wants ...string) string {
	s.Helper()
	if !strings.Contains(text, fmt.Sprintf("admission webhook %q denied the request: ", entry)) {
		s.Errorf("not refused by %s: %s", entry, text)
	}
	for _, want := range wants {
		if !strings.Contains(text, want) {
			s.Errorf("the denial lacks %q: %s", want, text)
		}
	}
	return text
}

// mustRefuse creates a pod that the quota has to refuse.
func (s *scope) mustRefuse(namespace string, pod *corev1.Pod, wants ...string) string {
	s.Helper()
	_, err := s.create(namespace, pod)
	return s.denial(err, "quota.gpuquota.io", wants...)
}

func (s *scope) deletePod(namespace, name string) {
	s.Helper()
	if err := client.CoreV1().Pods(namespace).Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatalf("delete pod %s/%s: %v", namespace, name, err)
	}
}

func (s *scope) waitGone(namespace, name string) {
	s.Helper()
	s.eventually(fmt.Sprintf("pod %s/%s is gone", namespace, name), func() error {
		_, err := client.CoreV1().Pods(namespace).Get(s.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = errors.New("still there")
		}
		return err
	})
}

// pods lists what exists in a namespace of the test, read from etcd.
func (s *scope) pods(namespace string) []corev1.Pod {
	s.Helper()
	list, err := client.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}

func (s *scope) setPhase(namespace, name string, phase corev1.PodPhase) {
	s.Helper()
	s.eventually("set the phase of "+name, func() error {
		pod, err := client.CoreV1().Pods(namespace).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Phase = phase
		_, err = client.CoreV1().Pods(namespace).UpdateStatus(s.Context(), pod, metav1.UpdateOptions{})
		return err
	})
}

// setReady says in a kubelet's place whether a pod serves.
func (s *scope) setReady(namespace, name string, ready corev1.ConditionStatus) {
	s.Helper()
	s.eventually("set the condition Ready of "+name, func() error {
		pod, err := client.CoreV1().Pods(namespace).Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady
		})
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: ready})
		_, err = client.CoreV1().Pods(namespace).UpdateStatus(s.Context(), pod, metav1.UpdateOptions{})
		return err
	})
}

// kubectl runs kubectl as an admin and returns what it prints, on both streams.
func (s *scope) kubectl(stdin string, args ...string) (string, error) {
	s.Helper()
	command := exec.CommandContext(s.Context(), cluster.Kubectl(), append([]string{"--kubeconfig=" + cluster.Kubeconfig}, args...)...)
	if stdin != "" {
		command.Stdin = strings.NewReader(stdin)
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

// manifest gives an object as YAML, as a user would write it.
func (s *scope) manifest(kind, apiVersion string, object any) string {
	s.Helper()
	content, err := yaml.Marshal(object)
	if err != nil {
		s.Fatal(err)
	}
	return fmt.Sprintf("apiVersion: %s\nkind: %s\n%s", apiVersion, kind, content)
}
