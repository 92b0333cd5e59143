package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const statusName = "gpuquota-status"

// status gives the status as people read it.
func (p *program) status() (string, error) {
	status, err := client.CoreV1().ConfigMaps(p.namespace).Get(p.Context(), statusName, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return status.Data["status.yaml"], nil
}

// statusShows waits for texts in the status, which follows within a few seconds.
func (p *program) statusShows(wants ...string) {
	p.Helper()
	p.within(6*time.Second, "the status shows it", func() error {
		status, err := p.status()
		if err == nil && !containsAll(status, wants...) {
			err = fmt.Errorf("want %q in\n%s", wants, status)
		}
		return err
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, nobody := s.namespace("ns", nil), s.namespace("nobody", nil)
	policy := policyText(`
unassigned: allow
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 4, memory: 320Gi}
`, ns)
	p := s.start(policy)
	s.mustCreate(nobody, newPod("free", 1, on(h100), held))
	s.mustRun(ns, newPod("one", 1, on(a100)))
	s.mustCreate(ns, newPod("two", 1, on(a100), held))
	p.statusShows("gpus: {limit: 4, used: 2, bound: 1, pending: 1, terminating: 0, reserved: 0, free: 2, unready: 0}",
		"memory: {limit: 320Gi, used: 160Gi,", "- {namespace: "+nobody+", pods: 1, ambiguous: false}",
		"leader: "+p.identity+"\n", "over: []\n", "journal:\n  held: false\n  problem: \"\"\n", "last: never\n")

	out, err := s.kubectl("", "-n", p.namespace, "get", "configmap", statusName, "-o", "yaml")
	if err != nil {
		t.Fatal(out)
	}
	// A block, line by line as it was written, not one quoted string.
	for _, want := range []string{"  status.yaml: |\n    leader: " + p.identity + "\n",
		"\n    - name: team-a\n      mode: enforce\n      limits:\n      - class: A100\n        gpus: {limit: 4, used: 2,"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}

	// Somebody who may read the status, and nothing else.
	if _, err := client.CoreV1().ServiceAccounts(ns).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := cluster.WriteServiceAccountKubeconfig(t.Context(), kubeconfig, ns, "reader", ""); err != nil {
		t.Fatal(err)
	}
	usage := func(more ...string) (string, error) {
		return p.run(append([]string{"usage", "--namespace", p.namespace, "--kubeconfig", kubeconfig}, more...)...)
	}
	if out, err := usage(); err == nil || !containsAll(out, "forbidden", "gpuquota-reader", "rolebinding") {
		t.Errorf("without the right: %v\n%s", err, out)
	}
	if _, err := client.RbacV1().RoleBindings(p.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.id + "-gpuquota-reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "reader"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	rows := []*regexp.Regexp{
		regexp.MustCompile(`(?m)^TENANT +CLASS +LIMIT +USED +BOUND +PENDING +TERMINATING +RESERVED +FREE$`),
		regexp.MustCompile(`(?m)^team-a +A100 +4 +2 +1 +1 +0 +0 +2$`),
		regexp.MustCompile(`(?m)^team-a +A100 memory +320Gi +160Gi +80Gi +80Gi +0 +0 +160Gi$`),
		regexp.MustCompile(`(?m)^leader: ` + regexp.QuoteMeta(p.identity) + `$`),
	}
	s.eventually("the reader reads", func() error {
		out, err := usage()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		for _, row := range rows {
			if !row.MatchString(out) {
				return fmt.Errorf("no %v in\n%s", row, out)
			}
		}
		return nil
	})
	if out, err := usage("--recount"); err == nil || !containsAll(out, "forbidden", "gpuquota-operator") {
		t.Errorf("a recount without the right: %v\n%s", err, out)
	}

	// What a person does to it is undone by the next change.
	if err := s.patch(client.CoreV1().ConfigMaps(p.namespace), statusName, map[string]string{"status.yaml": "nothing"}); err != nil {
		t.Fatal(err)
	}
	s.deletePod(ns, "two")
	p.statusShows("gpus: {limit: 4, used: 1, bound: 1, pending: 0,")
}

// A model warms up or crashes: its GPUs are held all the same, and everybody sees that nobody is served.
func TestNotReady(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 4, memory: 320Gi}
`, ns))
	const series = `{tenant="team-a",class="A100"}`
	shows := func(gpus, mib int) {
		t.Helper()
		p.waitUsage("team-a", "A100", fmt.Sprintf("bound=3 free=1 unready=%d munready=%d", gpus, mib))
		p.eventually("the metrics of the leader", func() error {
			return errors.Join(p.metricIs("gpuquota_unready_gpus"+series, float64(gpus)),
				p.metricIs("gpuquota_unready_memory_bytes"+series, float64(mib)*(1<<20)))
		})
	}
	s.mustRun(ns, newPod("serves", 1, on(a100)))
	s.mustRun(ns, newPod("model", 2, on(a100)))
	shows(0, 0)
	s.setReady(ns, "model", corev1.ConditionFalse)
	shows(2, 163840)
	s.setReady(ns, "model", corev1.ConditionTrue)
	shows(0, 0)
	s.setReady(ns, "model", corev1.ConditionUnknown) // its node is lost
	shows(2, 163840)
	p.checkMetricsPage()

	// The status tells it with whatever else changes.
	s.mustCreate(ns, newPod("waits", 1, on(a100), held))
	p.statusShows("bound: 3, pending: 1, terminating: 0, reserved: 0, free: 0, unready: 2}",
		"free: 0, unready: 160Gi}")
	out, err := p.run("usage", "--namespace", p.namespace)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, row := range []string{`(?m) FREE +UNREADY$`, `(?m)^team-a +A100 +4 +4 +3 +1 +0 +0 +0 +2$`,
		`(?m)^team-a +A100 memory +320Gi +320Gi +240Gi +80Gi +0 +0 +0 +160Gi$`} {
		if !regexp.MustCompile(row).MatchString(out) {
			t.Errorf("no %s in\n%s", row, out)
		}
	}
	// It is not counted twice: what is refused is told what was refused before.
	s.mustRefuse(ns, newPod("more", 1, on(a100)), "team-a may hold 4 A100 GPUs and holds 4 (3 bound, 1 pending, 0 reserved)")
	s.deletePod(ns, "waits")
	s.waitGone(ns, "waits")

	// A process that finds it so knows it, too.
	p.stop()
	p.launch()
	p.waitReady()
	shows(2, 163840)
	s.deletePod(ns, "model")
	p.waitUsage("team-a", "A100", "bound=1 unready=0 munready=0")
}
