package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func privileged(pod *corev1.Pod) {
	yes := true
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes}
}

func seesAll(pod *corev1.Pod) {
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"}}
}

func hostPath(path string) podOption {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("v%d", len(pod.Spec.Volumes)),
			VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}})
	}
}

func claimed(claim string) podOption {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "claimed", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}})
	}
}

func (s *scope) apply(namespace string, pod *corev1.Pod) (string, error) {
	s.Helper()
	return s.kubectl(s.manifest("Pod", "v1", pod), "apply", "-n", namespace, "-f", "-")
}

func (s *scope) tryDry(namespace string, pod *corev1.Pod) error {
	_, err := client.CoreV1().Pods(namespace).Create(s.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// What each mode does to a pod, and who is told.
func TestRuleModes(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	const text = `
tenants:
  - name: team-a
    namespaces: [%s]
    quota: {A100: {gpus: 1}}
rules: {privileged: %s}
`
	counted := func(p *program, format string, args ...any) float64 {
		t.Helper()
		page, err := p.fetch("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		n, _ := metric(page, fmt.Sprintf(format, args...))
		return n
	}
	const reviews, findings = `gpuquota_reviews_total{decision="allow",reason=%q}`, `gpuquota_rule_findings_total{rule="privileged",mode=%q}`
	p := s.start(policyText(text, ns, "audit"))
	out, err := s.apply(ns, newPod("audit", 0, held, privileged))
	if err != nil || strings.Contains(out, "Warning") {
		t.Errorf("audit: %v %s", err, out)
	}
	if n, found := counted(p, reviews, "privileged"), counted(p, findings, "audit"); n != 1 || found != 1 {
		t.Errorf("audit: counted %v times, found %v times", n, found)
	}

	p.setPolicy(policyText(text, ns, "warn"))
	out, err = s.apply(ns, newPod("warn", 0, held, privileged))
	if err != nil || !strings.Contains(out, "Warning: Would be refused in mode enforce: containers/main is privileged, ") {
		t.Errorf("warn: %v %s", err, out)
	}
	if n, found := counted(p, reviews, "privileged"), counted(p, findings, "warn"); n != 2 || found != 1 {
		t.Errorf("warn: counted %v times, found %v times", n, found)
	}

	p.setPolicy(policyText(text, ns, "disabled"))
	before := counted(p, reviews, "no_gpu")
	out, err = s.apply(ns, newPod("disabled", 0, held, privileged))
	if err != nil || strings.Contains(out, "Warning") {
		t.Errorf("disabled: %v %s", err, out)
	}
	if n := counted(p, reviews, "no_gpu") - before; n != 1 {
		t.Errorf("disabled: counted %v times", n)
	}

	p.setPolicy(policyText(text, ns, "enforce"))
	out, err = s.apply(ns, newPod("enforce", 0, held, privileged))
	if err == nil {
		t.Errorf("enforce: %s", out)
	}
	s.denialText(out, "rules.gpuquota.io", "Error from server (Forbidden)", "containers/main is privileged")
	if found := counted(p, findings, "enforce"); found != 1 {
		t.Errorf("enforce: found %v times", found)
	}
	if n := len(s.pods(ns)); n != 3 {
		t.Errorf("%d pods, want 3", n)
	}
	// The pods that run already stay, and may be changed.
	if out, err := s.kubectl("", "label", "pod", "-n", ns, "audit", "x=y"); err != nil {
		t.Errorf("an older pod: %v %s", err, out)
	}
}

// Who breaks several rules, with a GPU or without, reads of all at once.
func TestRuleFindings(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, zh, nobodys := s.namespace("ns", nil), s.namespace("zh", nil), s.namespace("nobodys", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota: {A100: {gpus: 1}}
  - name: team-zh
    namespaces: [%s]
    locale: zh
    quota: {A100: {gpus: 1}}
rules:
  gpuWithoutRequest: enforce
  hostDevices: enforce
  privileged: enforce
  podLimit: {mode: enforce, gpus: 1}
`, ns, zh))
	bad := newPod("bad", 0, privileged, seesAll, hostPath("/dev"))
	_, err := s.create(ns, bad)
	text := s.denial(err, "rules.gpuquota.io")
	const want = "containers/main is privileged, which opens every device of the node to it: remove securityContext.privileged.\n" +
		"Volume v0 (hostPath /dev) opens /dev of the node to the pod, and with it devices that nobody asked for: " +
		"remove the volume, or ask who runs the cluster to exempt the namespace. GPUs are asked for in resources.limits " +
		"(nvidia.com/gpu: 1), shared memory by an emptyDir with medium: Memory.\n" +
		"containers/main sets NVIDIA_VISIBLE_DEVICES to all and asks for no nvidia.com/gpu, so it would use GPUs that are not counted: " +
		"remove the variable, or ask for GPUs in resources.limits (nvidia.com/gpu: 1)."
	if !strings.HasSuffix(text, want) {
		t.Errorf("want\n%s\nhave\n%s", want, text)
	}
	_, err = s.create(nobodys, bad)
	s.denial(err, "rules.gpuquota.io", want)
	_, err = s.create(zh, bad)
	s.denial(err, "rules.gpuquota.io", "containers/main 是特权容器", "卷 v0（hostPath /dev）", "containers/main 将 NVIDIA_VISIBLE_DEVICES 设为 all")

	// A pod with GPUs is refused before it is counted: it holds nothing, and the quota is not the word.
	s.mustRefuse(ns, newPod("gpu", 2, on(a100), privileged, seesAll),
		"containers/main is privileged", "One pod of this cluster may ask for at most 1 GPU; this pod asks for 2")
	if err := p.usageIs("team-a", "A100", "used=0 reserved=0 free=1"); err != nil {
		t.Error(err)
	}
	s.mustRun(ns, newPod("gpu", 1, on(a100), seesAll))
	p.waitUsage("team-a", "A100", "used=1 reserved=0 free=0")
}

// kubectl debug adds containers to pods that run.
func TestRulesOfDebugging(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	policy := policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota: {A100: {gpus: 1}}
rules: {privileged: enforce, gpuWithoutRequest: enforce, hostPath: enforce}
`, ns)
	p := s.prepare(policy)
	s.mustRun(ns, newPod("bad", 0, privileged, seesAll, hostPath("/data")))
	p.launch()
	p.waitReady()
	p.waitPolicy(policy)
	p.register()
	s.mustRun(ns, newPod("plain", 0))
	s.mustRun(ns, newPod("gpu", 1, on(a100)))
	debug := func(pod, container, profile string, more ...string) (string, error) {
		return s.kubectl("", append([]string{"debug", "-n", ns, pod, "--image=none", "-c", container, "--profile=" + profile}, more...)...)
	}
	for _, pod := range []string{"plain", "gpu", "bad"} {
		out, err := debug(pod, "root", "sysadmin")
		if err == nil {
			t.Errorf("%s: %s", pod, out)
		}
		s.denialText(out, "rules.gpuquota.io", "ephemeralContainers/root is privileged")
		if strings.Contains(out, "containers/main") || strings.Contains(out, "hostPath") {
			t.Errorf("%s: what was there before is told: %s", pod, out)
		}
		for _, profile := range []string{"general", "baseline", "restricted"} {
			if out, err := debug(pod, profile, profile); err != nil {
				t.Errorf("%s, %s: %v %s", pod, profile, err, out)
			}
		}
		out, err = debug(pod, "sees", "general", "--env=NVIDIA_VISIBLE_DEVICES=all")
		if err == nil {
			t.Errorf("%s: %s", pod, out)
		}
		s.denialText(out, "rules.gpuquota.io", "ephemeralContainers/sees sets NVIDIA_VISIBLE_DEVICES (all), and an ephemeral container can ask for no GPU")
	}
	// A copy is a new pod. The node's debugger is one, too.
	out, err := debug("bad", "copied", "general", "--copy-to=copy")
	if err == nil {
		t.Errorf("a copy: %s", out)
	}
	s.denialText(out, "rules.gpuquota.io", "containers/main is privileged")
	out, err = s.kubectl("", "debug", "-n", ns, "node/cpu-1", "--image=none", "--profile=sysadmin")
	if err == nil {
		t.Errorf("the node: %s", out)
	}
	s.denialText(out, "rules.gpuquota.io", "containers/debugger is privileged", "hostPath /")
}

// Static pods are shown by their kubelets and run whatever we say.
func TestRulesOfMirrorPods(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns := s.namespace("ns", nil)
	p := s.start(policyText("rules: {privileged: enforce}\n"))
	config := cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:a100-1", Groups: []string{"system:nodes", "system:authenticated"}}
	kubelet, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	before := p.reviews()
	pod := newPod("static", 0, privileged, mirror("a100-1"))
	if _, err := kubelet.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Errorf("a kubelet's: %v", err)
	}
	if p.reviews() == before {
		t.Error("nobody was asked")
	}
	pod.Name = "no-kubelets"
	_, err = s.create(ns, pod)
	s.denial(err, "rules.gpuquota.io", "containers/main is privileged")
}

// An outage stops pods that could break a rule, and no others.
func TestRulesWhileAway(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, labelled := s.namespace("ns", nil), s.namespace("labelled", map[string]string{userNamespacesLabel: "true"})
	p := s.start(policyText("rules: {privileged: enforce, requireUserNamespace: enforce, gpuWithoutRequest: enforce}\n"))
	alone := false
	apart := func(pod *corev1.Pod) { pod.Spec.HostUsers = &alone }
	const refused = `gpuquota_reviews_total{decision="deny",reason="require_user_namespace"}`
	count := func() (all, denied float64) {
		page, err := p.fetch("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		all, _ = metric(page, "gpuquota_reviews_total")
		denied, _ = metric(page, refused)
		return all, denied
	}
	allBefore, deniedBefore := count()
	s.mustRun(ns, newPod("plain", 0))
	s.mustRun(labelled, newPod("apart", 0, apart))
	_, err := s.create(labelled, newPod("plain", 0))
	s.denial(err, "user-namespaces.gpuquota.io", "set hostUsers: false in its spec")
	_, err = s.create(ns, newPod("claim", 0, claimed("none")))
	s.denial(err, "references.gpuquota.io", "set hostUsers: false in its spec")
	s.mustCreate(ns, newPod("claim-apart", 0, claimed("none"), apart))
	// Besides the three: the scheduler's bindings of the two that run.
	if all, denied := count(); denied-deniedBefore != 2 || all-allBefore != 5 {
		t.Errorf("asked %v times, of which %v refused", all-allBefore, denied-deniedBefore)
	}

	p.leadNowhere()
	for name, pod := range map[string]*corev1.Pod{
		"plain":     newPod("plain-2", 0),
		"claim":     newPod("claim-2", 0, claimed("none")),
		"scheduler": newPod("scheduler", 0, held),
	} {
		if _, err := s.create(ns, pod); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.create(labelled, newPod("apart-2", 0, apart)); err != nil {
		t.Errorf("in a user namespace: %v", err)
	}
	for _, tc := range []struct {
		namespace, entry string
		pod              *corev1.Pod
	}{
		{ns, "rules", newPod("privileged", 0, privileged)},
		{ns, "rules", newPod("devices", 0, seesAll)},
		{ns, "rules", newPod("path", 0, hostPath("/data"), claimed("none"))},
		{ns, "quota", newPod("gpu", 1)},
		{labelled, "user-namespaces", newPod("plain-2", 0)},
	} {
		_, err := s.create(tc.namespace, tc.pod)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("failed calling webhook %q", tc.entry+".gpuquota.io")) {
			t.Errorf("%s was to wait for %s: %v", tc.pod.Name, tc.entry, err)
		}
	}
	if out, err := s.kubectl("", "debug", "-n", ns, "plain", "--image=none", "-c", "debug", "--profile=general"); err != nil {
		t.Errorf("debugging a plain pod: %v %s", err, out)
	}
}

// The API server bounds what the evaluation of conditions may cost; a pod at the far end of what
// people write stays below.
func TestRulesOfLargePods(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, labelled := s.namespace("ns", nil), s.namespace("labelled", map[string]string{userNamespacesLabel: "true"})
	s.start(policyText("rules: {privileged: enforce, gpuWithoutRequest: enforce}\n"))
	large := func(options ...podOption) *corev1.Pod {
		pod := newPod("large", 0)
		pod.Annotations, pod.Labels = map[string]string{}, map[string]string{}
		for i := range 40 {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprintf("volume-%d", i)})
			pod.Annotations[fmt.Sprintf("example.com/annotation-%d", i)] = strings.Repeat("x", 200)
			pod.Labels[fmt.Sprintf("example.com/label-%d", i)] = "x"
		}
		for i := range 20 {
			container := corev1.Container{Name: fmt.Sprintf("container-%d", i), Image: "none"}
			for e := range 100 {
				container.Env = append(container.Env, corev1.EnvVar{
					Name: fmt.Sprintf("A_VARIABLE_OF_SOME_LENGTH_%d", e), Value: strings.Repeat("x", 100)})
			}
			for v := range 40 {
				container.VolumeMounts = append(container.VolumeMounts,
					corev1.VolumeMount{Name: fmt.Sprintf("volume-%d", v), MountPath: fmt.Sprintf("/mnt/%d", v)})
			}
			container.Resources.Limits = corev1.ResourceList{}
			for r := range 4 {
				container.Resources.Limits[corev1.ResourceName(fmt.Sprintf("example.com/a-device-%d", r))] = resource.MustParse("1")
			}
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
		for _, option := range options {
			option(pod)
		}
		return pod
	}
	last := func(pod *corev1.Pod) *corev1.Container { return &pod.Spec.Containers[len(pod.Spec.Containers)-1] }
	for _, namespace := range []string{ns, labelled} {
		if err := s.tryDry(namespace, large()); err != nil {
			t.Errorf("a harmless one: %v", err)
		}
		if err := s.tryDry(namespace, large(claimed("none"))); err != nil {
			t.Errorf("one with a claim: %v", err)
		}
		s.denial(s.tryDry(namespace, large(func(pod *corev1.Pod) {
			last(pod).Env = append(last(pod).Env, corev1.EnvVar{Name: "NVIDIA_VISIBLE_DEVICES", Value: "all"})
		})), "rules.gpuquota.io", "containers/container-19 sets NVIDIA_VISIBLE_DEVICES to all")
		s.denial(s.tryDry(namespace, large(func(pod *corev1.Pod) {
			yes := true
			last(pod).SecurityContext = &corev1.SecurityContext{Privileged: &yes}
		})), "rules.gpuquota.io", "containers/container-19 is privileged")
		err := s.tryDry(namespace, large(func(pod *corev1.Pod) { asks("nvidia.com/gpu", "1")(pod) }))
		s.denial(err, "quota.gpuquota.io", "belongs to no tenant")
	}
}
