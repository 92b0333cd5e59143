package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gpuquota.io/tests/rulecases"
)

// userNamespacesLabel has the API server ask about every pod of a namespace.
const userNamespacesLabel = "gpuquota.io/require-user-namespaces"

// ruleCase is one of them with what it is tried with.
type ruleCase struct {
	rulecases.Case

	namespace string
	pod       *corev1.Pod
	ephemeral []corev1.EphemeralContainer
}

// ruleGroup are the cases under one policy.
type ruleGroup struct {
	policy string
	cases  []*ruleCase
}

// loadRuleCases makes namespaces and objects for the cases of a rule and groups them.
func (p *program) loadRuleCases(rule string) (groups []*ruleGroup) {
	p.Helper()
	name, texts, err := rulecases.Read(filepath.Join(repository, "tests/data/rules", rule+".json"))
	if err != nil || name != rule {
		p.Fatalf("%s.json: %q, %v", rule, name, err)
	}
	namespaces := map[string]string{}
	for i, text := range texts {
		p.addRuleCase(&groups, namespaces, rule, text, i+1)
	}
	return groups
}

func (p *program) addRuleCase(groups *[]*ruleGroup, namespaces map[string]string, rule string, written rulecases.Text, number int) {
	p.Helper()
	var c ruleCase
	raw := written.JSON
	if err := rulecases.Strictly(raw, &c); err != nil {
		p.Fatalf("%s: %v", raw, err)
	}
	// Those of one policy share a namespace, but for those whose objects would meet there.
	key := fmt.Sprintf("%s %s %v", c.Policy, c.Tenant, c.Labelled)
	if bytes.Contains(raw, []byte(`"PersistentVolume`)) || bytes.Contains(raw, []byte(`"ConfigMap"`)) {
		key = fmt.Sprintf("objects of %d", number)
	}
	namespace := namespaces[key]
	if namespace == "" {
		labels := map[string]string{}
		if c.Labelled {
			labels[userNamespacesLabel] = "true"
		}
		namespace = p.scope.namespace(fmt.Sprintf("n%d", len(namespaces)), labels)
		namespaces[key] = namespace
	}
	text := strings.NewReplacer("$NS", namespace, "$GPU", "a100-1", "$CPU", "cpu-1").Replace(string(raw))
	c = ruleCase{}
	if err := rulecases.Strictly([]byte(text), &c); err != nil {
		p.Fatalf("%s: %v", text, err)
	}
	c.Name = written.Name
	c.namespace = namespace
	c.complete(p, number)
	for _, object := range c.Objects {
		p.createRuleObject(namespace, object)
	}
	policy := policyText(`
tenants:
  - name: team
    namespaceSelector: {matchLabels: {%s: %s}}
    quota: {"*": {gpus: 1000}}
    rules: %s
rules: {%s: %s}
`, scopeLabel, p.id, orElse(c.Tenant, "{}"), rule, orElse(c.Policy, "enforce"))
	i := slices.IndexFunc(*groups, func(g *ruleGroup) bool { return g.policy == policy })
	if i < 0 {
		i = len(*groups)
		*groups = append(*groups, &ruleGroup{policy: policy})
	}
	(*groups)[i].cases = append((*groups)[i].cases, &c)
}

func orElse(text json.RawMessage, otherwise string) string {
	if text == nil {
		return otherwise
	}
	return string(text)
}

// complete fills in what every pod has and no case is about.
func (c *ruleCase) complete(p *program, number int) {
	p.Helper()
	c.pod = &corev1.Pod{}
	if err := rulecases.Strictly(c.Pod, c.pod); err != nil {
		p.Fatalf("%s: pod: %v", c.Name, err)
	}
	c.pod.Name = fmt.Sprintf("p%d", number)
	spec := &c.pod.Spec
	if spec.Containers == nil {
		spec.Containers = []corev1.Container{{Name: "c"}}
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			completeContainer(&list[i])
		}
	}
	for i := range spec.Volumes {
		if ephemeral := spec.Volumes[i].Ephemeral; ephemeral != nil {
			completeClaim(&ephemeral.VolumeClaimTemplate.Spec)
		}
	}
	if c.Ephemeral == nil {
		return
	}
	if err := rulecases.Strictly(c.Ephemeral, &c.ephemeral); err != nil {
		p.Fatalf("%s: ephemeral: %v", c.Name, err)
	}
	for _, list := range [][]corev1.EphemeralContainer{spec.EphemeralContainers, c.ephemeral} {
		for i := range list {
			common := corev1.Container(list[i].EphemeralContainerCommon)
			completeContainer(&common)
			list[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(common)
		}
	}
	spec.NodeName = "cpu-1"
}

func completeContainer(container *corev1.Container) {
	container.Image = "none"
	for i := range container.VolumeMounts {
		if mount := &container.VolumeMounts[i]; mount.MountPath == "" {
			mount.MountPath = "/mnt/" + mount.Name
		}
	}
}

// A claim that names no volume gets none: its class has neither volumes nor a provisioner.
func completeClaim(spec *corev1.PersistentVolumeClaimSpec) {
	class := ""
	if spec.VolumeName == "" {
		class = "nobodys"
	}
	spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	spec.StorageClassName = &class
}

func (p *program) createRuleObject(namespace string, raw json.RawMessage) {
	p.Helper()
	var meta metav1.TypeMeta
	if err := json.Unmarshal(raw, &meta); err != nil {
		p.Fatal(err)
	}
	ctx, err := p.Context(), error(nil)
	decode := func(into any) {
		p.Helper()
		if err := rulecases.Strictly(raw, into); err != nil {
			p.Fatalf("%s: %v", raw, err)
		}
	}
	switch meta.Kind {
	case "ServiceAccount":
		var object corev1.ServiceAccount
		decode(&object)
		_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, &object, metav1.CreateOptions{})
	case "RuntimeClass":
		object := nodev1.RuntimeClass{Handler: "none"}
		decode(&object)
		p.deleteRuleObject("RuntimeClass", client.NodeV1().RuntimeClasses().Delete, object.Name)
		_, err = client.NodeV1().RuntimeClasses().Create(ctx, &object, metav1.CreateOptions{})
	case "ConfigMap":
		var object corev1.ConfigMap
		decode(&object)
		_, err = client.CoreV1().ConfigMaps(namespace).Create(ctx, &object, metav1.CreateOptions{})
	case "PersistentVolumeClaim":
		var object corev1.PersistentVolumeClaim
		decode(&object)
		completeClaim(&object.Spec)
		_, err = client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &object, metav1.CreateOptions{})
	case "PersistentVolume":
		var object corev1.PersistentVolume
		decode(&object)
		object.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		object.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		if object.Spec.Local != nil {
			object.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"cpu-1"}}}}}}}
		}
		p.deleteRuleObject("PersistentVolume", client.CoreV1().PersistentVolumes().Delete, object.Name)
		_, err = client.CoreV1().PersistentVolumes().Create(ctx, &object, metav1.CreateOptions{})
	default:
		p.Fatalf("a case has a %q", meta.Kind)
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		p.Fatalf("%s: %v", raw, err)
	}
}

func (p *program) deleteRuleObject(kind string, remove func(context.Context, string, metav1.DeleteOptions) error, name string) {
	p.deleteLater(kind+" "+name, func(ctx context.Context) error { return remove(ctx, name, metav1.DeleteOptions{}) })
}

// warned is a client that keeps the warnings of its last answer.
type warned struct {
	kubernetes.Interface
	texts []string
}

func (w *warned) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

func (s *scope) warnedClient() *warned {
	s.Helper()
	w := &warned{}
	config := cluster.Admin()
	config.WarningHandler = w
	var err error
	if w.Interface, err = kubernetes.NewForConfig(config); err != nil {
		s.Fatal(err)
	}
	return w
}

// prepareEphemeral makes the pods that run already. Nobody is asked about them yet.
func (c *ruleCase) prepareEphemeral(p *program) {
	p.Helper()
	if c.ephemeral == nil {
		return
	}
	had := c.pod.Spec.EphemeralContainers
	c.pod.Spec.EphemeralContainers = nil
	c.pod = p.mustCreate(c.namespace, c.pod)
	c.pod.ResourceVersion = "" // its status changes meanwhile
	if had == nil {
		return
	}
	c.pod.Spec.EphemeralContainers = had
	var err error
	c.pod, err = client.CoreV1().Pods(c.namespace).UpdateEphemeralContainers(p.Context(), c.pod.Name, c.pod, metav1.UpdateOptions{})
	if err != nil {
		p.Fatalf("%s: %v", c.Name, err)
	}
	c.pod.ResourceVersion = ""
}

// ask has the API server ask, and leaves no trace.
func (c *ruleCase) ask(ctx context.Context, client kubernetes.Interface) error {
	pods := client.CoreV1().Pods(c.namespace)
	if c.ephemeral == nil {
		_, err := pods.Create(ctx, c.pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	pod := c.pod.DeepCopy()
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, c.ephemeral...)
	_, err := pods.UpdateEphemeralContainers(ctx, pod.Name, pod, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

func (c *ruleCase) entry() string {
	name, _ := c.Sent.(string)
	return name
}

// check holds the case against a program that decides.
func (c *ruleCase) check(t *testing.T, p *program, client *warned) {
	t.Helper()
	client.texts = nil
	before := p.reviews()
	err := c.ask(t.Context(), client)
	asked := p.reviews() - before
	if c.APIServer {
		if !apierrors.IsInvalid(err) || asked != 0 {
			t.Errorf("the API server was to refuse it: %v (asked %v times)", err, asked)
		}
		return
	}
	want := 1.0
	if c.entry() == "" {
		want = 0
	}
	if asked != want {
		t.Errorf("the program was asked %v times, want %v", asked, want)
	}
	warnings := strings.Join(client.texts, "\n")
	switch {
	case c.Refused:
		if err == nil {
			t.Errorf("let pass, want a refusal with %q", c.Says)
		} else if !containsAll(err.Error(), append(c.Says, fmt.Sprintf(`admission webhook "%s.gpuquota.io" denied the request: `, c.entry()))...) {
			t.Errorf("want a refusal by %s with %q: %v", c.entry(), c.Says, err)
		}
	case err != nil:
		t.Errorf("refused: %v", err)
	case c.Found == "warn":
		if !containsAll(warnings, c.Says...) {
			t.Errorf("want a warning with %q: %q", c.Says, warnings)
		}
	case strings.Contains(warnings, "enforce"):
		t.Errorf("warned: %s", warnings)
	}
}

// checkAway holds it against one that is away: what the API server waits for, and nothing else,
// shows who asks.
func (c *ruleCase) checkAway(t *testing.T) {
	t.Helper()
	err := c.ask(t.Context(), client)
	switch entry := c.entry(); {
	case c.APIServer:
	case entry != "" && entry != "references":
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("failed calling webhook %q", entry+".gpuquota.io")) {
			t.Errorf("%s was to be asked: %v", entry, err)
		}
	case err != nil:
		t.Errorf("it waits for the program: %v", err)
	}
}

// leadNowhere has the API server ask where nobody listens.
func (p *program) leadNowhere() {
	p.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { listener.Close() })
	p.front = "https://" + listener.Addr().String()
	listener.Close()
	p.eventually("change the registration", func() error {
		configuration := p.registration()
		all := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		old, err := all.Get(p.Context(), configuration.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		configuration.ResourceVersion = old.ResourceVersion
		_, err = all.Update(p.Context(), configuration, metav1.UpdateOptions{})
		return err
	})
	p.eventually("the program is away", func() error {
		_, err := client.CoreV1().Pods(p.probe).Create(p.Context(), newPod("probe", 1),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), `failed calling webhook "quota.gpuquota.io"`) {
			return nil
		}
		return fmt.Errorf("it was asked: %v", err)
	})
}

// mayReadEnvironments gives the right that manifests/rbac.yaml has and binds to nobody.
func (p *program) mayReadEnvironments() {
	p.Helper()
	name := p.id + "-environment"
	p.deleteRuleObject("ClusterRoleBinding", client.RbacV1().ClusterRoleBindings().Delete, name)
	if _, err := client.RbacV1().ClusterRoleBindings().Create(p.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: p.id + "-gpuquota-environment"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.namespace, Name: p.account}},
	}, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
}

// Every case of tests/data/rules, by the real registrations: what the matchConditions keep away is
// harmless, and what they let through is told as the rule says.
func TestRuleCases(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(repository, "tests/data/rules/*.json"))
	if err != nil || len(files) != 10 {
		t.Fatalf("rules: %v, %v", files, err)
	}
	for _, file := range files {
		rule := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			s := newScope(t)
			p := s.prepare("")
			p.mayReadEnvironments()
			groups := p.loadRuleCases(rule)
			for _, group := range groups {
				for _, c := range group.cases {
					c.prepareEphemeral(p)
				}
			}
			p.applyPolicy(groups[0].policy)
			p.launch()
			p.waitReady()
			p.waitPolicy(groups[0].policy)
			p.register()
			client := s.warnedClient()
			for _, group := range groups {
				p.setPolicy(group.policy)
				for _, c := range group.cases {
					t.Run(c.Name, func(t *testing.T) { c.check(t, p, client) })
				}
			}
			p.leadNowhere()
			t.Run("away", func(t *testing.T) {
				for _, group := range groups {
					for _, c := range group.cases {
						t.Run(c.Name, c.checkAway)
					}
				}
			})
		})
	}
}
