// Package policies holds the admission policies of manifests/policies/ to what they say, on a real
// control plane. Each policy is in force for the whole cluster while its test runs, so tests run one
// after the other.
package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gpuquota.io/tests/controlplane"
)

var (
	cluster    *controlplane.ControlPlane
	client     kubernetes.Interface // of an admin, of system:masters
	repository string

	webhookCA   *controlplane.CA
	webhookPort int
)

// patience bounds how long anything may take that should take a moment.
const patience = 30 * time.Second

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	var err error
	if repository, err = filepath.Abs("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if webhookCA, err = controlplane.NewCA("gpuquota webhook"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// The API server's connections are kept by address, so one serves every gpuquota of this package.
	if webhookPort, err = controlplane.FreePort(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if cluster, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		fmt.Fprintf(os.Stderr, "control plane: %v\n", err)
		return 1
	}
	defer cluster.Stop()
	client = cluster.Client()
	return m.Run()
}

func policyFile(name string) string { return filepath.Join(repository, "manifests/policies", name) }

// kubectl runs kubectl as an admin and returns what it prints, on both streams.
func kubectl(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), cluster.Kubectl(), append([]string{"--kubeconfig=" + cluster.Kubeconfig}, args...)...)
	command.Stdin = strings.NewReader(stdin)
	out, err := command.CombinedOutput()
	return string(out), err
}

// inForce applies a file of manifests/policies/ for the time of the test, and waits until the API
// server acts by it and, at the end, no longer does: acts makes a request that shows it.
func inForce(t *testing.T, file string, acts func() bool) {
	t.Helper()
	inForceAs(t, file, "Deny", acts)
}

// inForceAs does so with another action than the file's.
func inForceAs(t *testing.T, file, action string, acts func() bool) {
	t.Helper()
	content, err := os.ReadFile(policyFile(file))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(content), "validationActions: [Deny]", "validationActions: ["+action+"]")
	if out, err := kubectl(t, text, "apply", "-f", "-"); err != nil {
		t.Fatalf("apply %s: %s", file, out)
	}
	until := func(want bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s in force: %v", file, want), func() error {
			if have := acts(); have != want {
				return fmt.Errorf("in force: %v", have)
			}
			return nil
		})
	}
	t.Cleanup(func() {
		command := exec.Command(cluster.Kubectl(), "--kubeconfig="+cluster.Kubeconfig, "delete", "-f", policyFile(file))
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("delete %s: %s", file, out)
		}
		until(false)
	})
	until(true)
}

// eventually polls until f returns nil.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	if err := controlplane.Poll(context.Background(), patience, f); err != nil {
		t.Fatalf("%s: not within %v: %v", what, patience, err)
	}
}

// newNamespace makes a namespace with what pods need in it.
func newNamespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	name := fmt.Sprintf("policies-%06x", rand.IntN(1<<24))
	createNamespace(t, name, labels)
	return name
}

func createNamespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	namespaces := client.CoreV1().Namespaces()
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	t.Cleanup(func() { _ = namespaces.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	eventually(t, "the service account of "+name, func() error {
		_, err := client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// newPod reads a pod's spec as a user would write it; metadata may be part of it.
func newPod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "tried"}}
	parse(t, text, &pod.Spec)
	var more struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := yaml.Unmarshal([]byte(text), &more); err != nil {
		t.Fatal(err)
	}
	pod.Annotations, pod.Labels = more.Metadata.Annotations, more.Metadata.Labels
	return pod
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

var dry = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// try gives the pod as the API server would store it.
func try(t *testing.T, namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return client.CoreV1().Pods(namespace).Create(context.Background(), pod, dry) // at the end of a test, too
}

func mustTry(t *testing.T, namespace string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	ret, err := try(t, namespace, pod)
	if err != nil {
		t.Fatal(err)
	}
	return ret
}

// warnings collects what the API server warns one client about.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take gives what came since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ret := w.texts
	w.texts = nil
	return ret
}

// as gives a client of another user, and what that one is warned about.
func as(t *testing.T, user string, groups ...string) (kubernetes.Interface, *warnings) {
	t.Helper()
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: user,
		Groups: append(slices.Clone(groups), "system:authenticated")}
	told := &warnings{}
	config.WarningHandler = told
	ret, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return ret, told
}

// grant gives a user the rights of a ClusterRole in a namespace, or everywhere when it is empty.
func grant(t *testing.T, user, role, namespace string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: fmt.Sprintf("%s-%s", role, user)}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	var err error
	if namespace != "" {
		_, err = client.RbacV1().RoleBindings(namespace).Create(t.Context(),
			&rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = client.RbacV1().ClusterRoleBindings().Create(t.Context(),
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
		t.Cleanup(func() {
			_ = client.RbacV1().ClusterRoleBindings().Delete(context.Background(), meta.Name, metav1.DeleteOptions{})
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantRefused checks that an error is the refusal of a policy, with all of the texts; what the user tried
// "is forbidden", and not "is invalid".
func wantRefused(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("allowed, want a refusal with %q", texts)
	}
	if !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'gpuquota-") {
		t.Errorf("not refused by a policy: %v", err)
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), " is forbidden: ") {
		t.Errorf("the refusal does not say that it is forbidden: %v", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the refusal lacks %q: %v", text, err)
		}
	}
}

// wantNoTypeWarnings checks what kube-controller-manager found when it type-checked a policy.
func wantNoTypeWarnings(t *testing.T, name string) {
	t.Helper()
	eventually(t, "type check of "+name, func() error {
		policy, err := client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if policy.Status.TypeChecking == nil {
			return fmt.Errorf("not type-checked yet")
		}
		for _, warning := range policy.Status.TypeChecking.ExpressionWarnings {
			t.Errorf("%s: %s: %s", name, warning.FieldRef, warning.Warning)
		}
		return nil
	})
}

// manifest reads one object as a user would write it.
func manifest(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	ret := &unstructured.Unstructured{}
	parse(t, text, &ret.Object)
	return ret
}

// flow writes an object in one line of YAML.
func flow(t *testing.T, object any) string {
	t.Helper()
	ret, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(ret)
}
