package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podTemplate is what stands below "template:" of a workload, indented by n.
func podTemplate(n int, gpus, more string) string {
	text := fmt.Sprintf(`metadata: {labels: {app: test}}
spec:
  restartPolicy: RESTART
  schedulerName: nobody
  nodeSelector: {nvidia.com/gpu.product: %s}
  containers:
    - name: main
      image: none
      resources: {limits: {nvidia.com/gpu: %q}}
%s`, a100, gpus, more)
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+strings.Repeat(" ", n))
}

// A workload of each kind, by how many GPUs one of its pods asks for and what its container has
// besides.
var workloadKinds = []struct {
	kind, text, restart string
}{
	{"Deployment", `apiVersion: apps/v1
kind: Deployment
metadata: {name: w}
spec:
  replicas: 1
  selector: {matchLabels: {app: test}}
  template:
    %s
`, "Always"},
	{"ReplicaSet", `apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: w}
spec:
  replicas: 1
  selector: {matchLabels: {app: test}}
  template:
    %s
`, "Always"},
	{"StatefulSet", `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: w}
spec:
  replicas: 1
  serviceName: w
  selector: {matchLabels: {app: test}}
  template:
    %s
`, "Always"},
	{"DaemonSet", `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: w}
spec:
  selector: {matchLabels: {app: test}}
  template:
    %s
`, "Always"},
	{"Job", `apiVersion: batch/v1
kind: Job
metadata: {name: w}
spec:
  template:
    %s
`, "Never"},
	{"CronJob", `apiVersion: batch/v1
kind: CronJob
metadata: {name: w}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate:
    spec:
      template:
        %s
`, "Never"},
	{"ReplicationController", `apiVersion: v1
kind: ReplicationController
metadata: {name: w}
spec:
  replicas: 1
  selector: {app: test}
  template:
    %s
`, "Always"},
	{"PodTemplate", `apiVersion: v1
kind: PodTemplate
metadata: {name: w}
template:
  %s
`, "Always"},
}

func workloadText(text, restart, gpus, more string) string {
	indent := strings.Index(text, "%s") - strings.LastIndex(text[:strings.Index(text, "%s")], "\n") - 1
	return strings.Replace(fmt.Sprintf(text, podTemplate(indent, gpus, more)), "RESTART", restart, 1)
}

const templateEntry = "workloads.gpuquota.io"

// Whoever applies a workload is told at once, and not its controller pod by pod.
func TestTemplates(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, nobodys := s.namespace("ns", nil), s.namespace("nobodys", nil)
	s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota: {A100: {gpus: 4}}
rules:
  privileged: enforce
`, ns))
	privileged := "      securityContext: {privileged: true}\n"
	for _, w := range workloadKinds {
		t.Run(w.kind, func(t *testing.T) {
			apply := func(namespace, gpus, more string) (string, error) {
				return s.kubectl(workloadText(w.text, w.restart, gpus, more), "create", "--dry-run=server", "-n", namespace, "-f", "-")
			}
			refused := func(out string, err error, wants ...string) {
				t.Helper()
				if err == nil {
					t.Errorf("created: %s", out)
					return
				}
				s.denialText(out, templateEntry, append(wants, w.kind+" w: ")...)
			}
			out, err := apply(ns, "1", privileged)
			refused(out, err, "containers/main is privileged", "remove securityContext.privileged")
			out, err = apply(ns, "5", "")
			refused(out, err, "team-a may hold 4 A100 GPUs", "asks for 5", "1 too many")
			out, err = apply(nobodys, "1", "")
			refused(out, err, "Namespace "+nobodys+" belongs to no tenant")
			out, err = apply(ns, "1", "")
			if err != nil || (strings.Contains(out, "Warning: ") && w.kind != "DaemonSet") {
				t.Errorf("one that fits: %v %s", err, out)
			}
		})
	}
}

func TestTemplateOverTime(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	const text = `
tenants:
  - name: team-a
    namespaces: [%s]
    quota: {A100: {gpus: 4}}
%s`
	p := s.start(policyText(text, ns, ""))
	kubectl := func(args ...string) (string, error) {
		t.Helper()
		return s.kubectl("", append([]string{"-n", ns}, args...)...)
	}
	silent := func(what, out string, err error) {
		t.Helper()
		if err != nil || strings.Contains(out, "Warning: ") {
			t.Errorf("%s: %v %s", what, err, out)
		}
	}
	warned := func(what, out string, err error, wants ...string) {
		t.Helper()
		if err != nil || !containsAll(out, append(wants, "Warning: ")...) {
			t.Errorf("%s: want a warning with %q: %v %s", what, wants, err, out)
		}
	}
	deployment := workloadText(workloadKinds[0].text, "Always", "1", "      securityContext: {privileged: true}\n")

	// All replicas, and one more while it rolls.
	out, err := s.kubectl(strings.Replace(deployment, "replicas: 1", "replicas: 4", 1), "create", "-n", ns, "-f", "-")
	warned("four and one", out, err, "team-a may hold 4 A100 GPUs and has 4 free", "needs 5", "4 pods of 1", "1 too few", "maxSurge")
	s.within(patience, "its pods are there", func() error { return p.usageIs("team-a", "A100", "used=4 reserved=0 free=0") })

	out, err = kubectl("scale", "deployment/w", "--replicas=6")
	warned("scaled", out, err, "team-a may hold 4 A100 GPUs and has 0 free", "2 too few")
	out, err = kubectl("scale", "deployment/w", "--replicas=2")
	silent("scaled down", out, err)
	s.within(patience, "its pods are gone", func() error { return p.usageIs("team-a", "A100", "used=2 reserved=0 free=2") })
	out, err = kubectl("patch", "deployment", "w", "-p", `{"spec":{"replicas":7}}`)
	warned("more replicas", out, err, "has 2 free", "3 too few")
	out, err = kubectl("scale", "deployment/w", "--replicas=2")
	silent("scaled down again", out, err)

	// What has not changed is not judged by a rule that came later.
	p.setPolicy(policyText(text, ns, "rules:\n  privileged: enforce\n"))
	out, err = kubectl("annotate", "deployment/w", "a=b")
	silent("annotated", out, err)
	out, err = kubectl("patch", "deployment", "w", "-p", `{"spec":{"paused":true}}`)
	silent("paused", out, err)
	out, err = kubectl("patch", "deployment", "w", "-p", `{"spec":{"template":{"metadata":{"labels":{"c":"d"}}}}}`)
	if err == nil {
		t.Errorf("a template that changed and breaks a rule: %s", out)
	} else {
		s.denialText(out, templateEntry, "Deployment w: ", "containers/main is privileged")
	}
	out, err = kubectl("scale", "deployment/w", "--replicas=3")
	warned("scaled under the rule", out, err, "Deployment w: Its new pods are refused:", "containers/main is privileged")
	out, err = kubectl("delete", "deployment/w", "--cascade=foreground", "--timeout=30s")
	silent("deleted", out, err)
	if _, err = client.AppsV1().Deployments(ns).Get(t.Context(), "w", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment is there: %v", err)
	}

	// Nobody waits for the program.
	p.stop()
	out, err = s.kubectl(deployment, "create", "-n", ns, "-f", "-")
	silent("in an outage", out, err)
}
