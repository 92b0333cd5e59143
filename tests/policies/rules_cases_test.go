package policies

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gpuquota.io/tests/rulecases"
)

// ruleOf tells by a policy and words of its message which of gpuquota's rules it stands for.
var ruleOf = []struct{ policy, says, rule string }{
	{"gpuquota-guard-pods", " is privileged ", "privileged"},
	{"gpuquota-guard-pods", " could enter every process ", "privileged"},
	{"gpuquota-guard-pods", " has procMount: Unmasked", "privileged"},
	{"gpuquota-guard-pods", "windowsOptions.hostProcess ", "privileged"},
	{"gpuquota-guard-pods", " reaches the socket or the files of a container runtime ", "containerRuntimeSockets"},
	{"gpuquota-guard-pods", " reaches devices, ", "hostDevices"},
	{"gpuquota-guard-pods", " sets NVIDIA_VISIBLE_DEVICES ", "gpuWithoutRequest"},
	{"gpuquota-guard-pods", " sets NVIDIA_DRIVER_CAPABILITIES ", "gpuWithoutRequest"},
	{"gpuquota-guard-pods", " has a prefix ", "gpuWithoutRequest"},
	{"gpuquota-guard-sharing", " and asks for no GPU", "gpuWithoutRequest"},
	{"gpuquota-guard-sharing", " makes HAMi pass the pod over ", "bypassLabels"},
	{"gpuquota-guard-sharing", " turns the limits of its GPU off ", "bypassLabels"},
	{"gpuquota-guard-sharing", " takes the place of the GPUs ", "bypassLabels"},
	{"gpuquota-guard-sharing", " has a prefix ", "bypassLabels"},
	{"gpuquota-guard-sharing", " is for the scheduler of HAMi to write ", "bypassLabels"},
	{"gpuquota-guard-host-paths", "hostPath of volume ", "hostPath"},
	{"gpuquota-require-gpu-memory", " how much memory", "requireGpuMemory"},
	{"gpuquota-require-user-namespaces", " run in a user namespace", "requireUserNamespace"},
}

// Rules that the policies do not have at all.
var rulesOfTheProgram = map[string]string{
	"podLimit":              "counts by classes, which hang on nodes",
	"requireReadinessProbe": "advice, and for owners that only the program knows",
}

// Cases that policies judge otherwise than the program, by rule and name.
var exceptions = map[string]string{
	"gpuWithoutRequest/in a container that asks for what this version does not count":             "refused for what it asks for, which is no rule",
	"gpuWithoutRequest/onto a node with GPUs by its name":                                         "which nodes have GPUs is not in the pod",
	"gpuWithoutRequest/onto a node with GPUs, and names that it does not have":                    "what a node offers is not in the pod",
	"gpuWithoutRequest/onto a node with GPUs, and a share past the scheduler that gives them out": "which nodes have GPUs is not in the pod",
	"requireUserNamespace/any other pod":                                                          "every pod of a labelled namespace is looked at, and none elsewhere",
}

// ruleCase is one of them, to be held against the policies.
type ruleCase struct{ rulecases.Case }

// allowedPath is one of the policy's: a path, or a path with readOnly.
type allowedPath struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readOnly"`
}

func (a *allowedPath) UnmarshalJSON(content []byte) error {
	if err := json.Unmarshal(content, &a.Path); err == nil {
		return nil
	}
	type plain allowedPath
	return json.Unmarshal(content, (*plain)(a))
}

// hostPaths gives the allow-list of a case as guard-host-paths.yaml has it; ok is false
// when the policy of the case says something that no policy here can: another mode, exemptions, lists.
func (c *ruleCase) hostPaths() (lists allowed, ok bool) {
	if c.Tenant != nil {
		return lists, false
	}
	var mode string
	if c.Policy == nil || json.Unmarshal(c.Policy, &mode) == nil {
		return lists, mode != "disabled"
	}
	var policy struct {
		Mode  string        `json:"mode"`
		Allow []allowedPath `json:"allow"`
	}
	if err := rulecases.Strictly(c.Policy, &policy); err != nil || policy.Mode != "enforce" {
		return lists, false
	}
	for _, path := range policy.Allow {
		if path.ReadOnly {
			lists.ReadOnly = append(lists.ReadOnly, path.Path)
		} else {
			lists.ReadWrite = append(lists.ReadWrite, path.Path)
		}
	}
	return lists, true
}

// readRuleCases gives the cases of a rule, one for each value of those that stand for several.
func readRuleCases(t *testing.T, file string) (rule string, cases []*ruleCase) {
	t.Helper()
	rule, texts, err := rulecases.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		c := &ruleCase{}
		if err := rulecases.Strictly(text.JSON, c); err != nil {
			t.Fatalf("%s: %v", text.JSON, err)
		}
		cases = append(cases, c)
	}
	return rule, cases
}

// fill gives a pod of a case what every pod has and no case is about.
func fill(t *testing.T, c *ruleCase, namespace, name string) (*corev1.Pod, []corev1.EphemeralContainer) {
	t.Helper()
	pod, added := &corev1.Pod{}, []corev1.EphemeralContainer(nil)
	text := strings.NewReplacer("$NS", namespace, "$GPU", "no-such-node", "$CPU", "no-such-node").Replace(string(c.Pod))
	if err := json.Unmarshal([]byte(text), pod); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if c.Ephemeral != nil {
		if err := json.Unmarshal(c.Ephemeral, &added); err != nil {
			t.Fatalf("%s: %v", c.Ephemeral, err)
		}
	}
	pod.Name = name
	spec := &pod.Spec
	if spec.Containers == nil {
		spec.Containers = []corev1.Container{{Name: "c"}}
	}
	if spec.SchedulerName == "" && c.Ephemeral != nil {
		spec.SchedulerName = "nobody"
	}
	complete := func(container *corev1.Container) {
		container.Image = "none"
		for i := range container.VolumeMounts {
			if mount := &container.VolumeMounts[i]; mount.MountPath == "" {
				mount.MountPath = "/mnt/" + mount.Name
			}
		}
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			complete(&list[i])
		}
	}
	for _, list := range [][]corev1.EphemeralContainer{spec.EphemeralContainers, added} {
		for i := range list {
			common := corev1.Container(list[i].EphemeralContainerCommon)
			complete(&common)
			list[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(common)
		}
	}
	return pod, added
}

// found gives the rules that warnings tell of, each once.
func found(t *testing.T, texts []string) map[string]string {
	t.Helper()
	ret := map[string]string{}
	for _, text := range texts {
		if !strings.Contains(text, "ValidatingAdmissionPolicy") {
			continue
		}
		known := false
		for _, of := range ruleOf {
			if strings.Contains(text, "'"+of.policy+"'") && strings.Contains(text, of.says) {
				ret[of.rule], known = text, true
			}
		}
		if !known {
			t.Errorf("no rule says %q", text)
		}
	}
	return ret
}

// aboutThePod tells whether no more than the pod decides it: no claim, and no object that the API server
// wants first.
func (c *ruleCase) aboutThePod() bool {
	for _, object := range c.Objects {
		if bytes.Contains(object, []byte("PersistentVolume")) || bytes.Contains(object, []byte(`"ConfigMap"`)) {
			return false
		}
	}
	return !c.APIServer && !bytes.Contains(c.Pod, []byte("volumeClaimTemplate"))
}

// caseRun is a case with its pod.
type caseRun struct {
	*ruleCase
	rule, namespace string
	pod             *corev1.Pod
	added           []corev1.EphemeralContainer
}

func (r *caseRun) String() string {
	return fmt.Sprintf("%s, %s\n%s %s", r.rule, r.Name, r.Pod, r.Ephemeral)
}

// start makes a pod that runs already, of a case about an ephemeral container.
func (r *caseRun) start(t *testing.T) {
	t.Helper()
	pods := client.CoreV1().Pods(r.namespace)
	had := r.pod.Spec.EphemeralContainers
	r.pod.Spec.EphemeralContainers = nil
	var err error
	if r.pod, err = pods.Create(t.Context(), r.pod, metav1.CreateOptions{}); err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	if had == nil {
		return
	}
	r.pod.Spec.EphemeralContainers = had
	if r.pod, err = pods.UpdateEphemeralContainers(t.Context(), r.pod.Name, r.pod, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("%s: %v", r, err)
	}
}

func (r *caseRun) ask(t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	pods := client.CoreV1().Pods(r.namespace)
	if r.added == nil {
		_, err := pods.Create(t.Context(), r.pod, dry)
		return err
	}
	pod := r.pod.DeepCopy()
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, r.added...)
	_, err := pods.UpdateEphemeralContainers(t.Context(), pod.Name, pod, metav1.UpdateOptions{DryRun: dry.DryRun})
	return err
}

// check holds a case against what the policies warn of.
func (r *caseRun) check(t *testing.T, warned kubernetes.Interface, told *warnings) {
	t.Helper()
	told.take()
	err := r.ask(t, warned)
	text, is := found(t, told.take())[r.rule]
	switch want := r.Refused || r.Found != ""; {
	case err != nil:
		t.Errorf("%s: %v", r, err)
	case want && !is:
		t.Errorf("not found: %s", r)
	case !want && is:
		t.Errorf("found, and is harmless: %s\n%s", r, text)
	}
}

// gather prepares the cases that policies can judge, grouped by the allow-list of hostPath.
func gather(t *testing.T, namespaces map[string]string) map[string][]*caseRun {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "tests/data/rules/*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("rules: %v, %v", files, err)
	}
	runs, used := map[string][]*caseRun{}, map[string]bool{}
	for _, file := range files {
		rule, cases := readRuleCases(t, file)
		if rulesOfTheProgram[rule] != "" {
			continue
		}
		for i, c := range cases {
			key := rule + "/" + c.Name
			lists, ok := c.hostPaths()
			if exceptions[key] != "" {
				used[key] = true
				continue
			}
			if !ok || !c.aboutThePod() {
				continue
			}
			r := &caseRun{ruleCase: c, rule: rule, namespace: namespaces[rule]}
			if r.namespace == "" {
				r.namespace = namespaces[""]
			}
			r.pod, r.added = fill(t, c, namespaces[""], fmt.Sprintf("%s-%d", strings.ToLower(rule), i))
			if r.added != nil {
				r.start(t)
			}
			runs[flow(t, lists)] = append(runs[flow(t, lists)], r)
		}
	}
	for key := range exceptions {
		if !used[key] {
			t.Errorf("an exception that no case needs: %s", key)
		}
	}
	return runs
}

// runtimeClass makes one for the time of the test, and waits until pods may name it.
func runtimeClass(t *testing.T, name string) {
	t.Helper()
	classes := client.NodeV1().RuntimeClasses()
	if _, err := classes.Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: "none"},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = classes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	namespace := newNamespace(t, nil)
	eventually(t, "pods with a runtime class", func() error {
		_, err := try(t, namespace, newPod(t, "runtimeClassName: "+name+"\n"+plainPod))
		return err
	})
}

// allowed are the lists of guard-host-paths.yaml.
type allowed struct{ ReadWrite, ReadOnly []string }

// allowHostPaths applies guard-host-paths.yaml with other lists, and waits until the API server goes by
// them: a mark among them that its message names shows it.
func allowHostPaths(t *testing.T, action string, lists allowed, refusal func() string) {
	t.Helper()
	content, err := os.ReadFile(policyFile("guard-host-paths.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	mark := fmt.Sprintf("/mark-%06x", rand.IntN(1<<24))
	text := strings.ReplaceAll(string(content), "validationActions: [Deny]", "validationActions: ["+action+"]")
	for name, list := range map[string][]string{"readWrite": lists.ReadWrite, "readOnly": append(slices.Clone(lists.ReadOnly), mark)} {
		before := regexp.MustCompile("(- name: " + name + "\n +expression: )\".*\"")
		if !before.MatchString(text) {
			t.Fatalf("guard-host-paths.yaml has no list %s", name)
		}
		text = before.ReplaceAllString(text, "${1}'"+flow(t, append([]string{}, list...))+"'")
	}
	if out, err := kubectl(t, text, "apply", "-f", "-"); err != nil {
		t.Fatal(out)
	}
	eventually(t, "the list of host paths", func() error {
		if text := refusal(); !strings.Contains(text, mark) {
			return fmt.Errorf("%q", text)
		}
		return nil
	})
}

// Both fences are held to the same list: what the program refuses of single pods the policies find, and
// what it lets pass they do not. They only warn here, so that each tells what it finds.
func TestRuleCases(t *testing.T) {
	namespace := newNamespace(t, nil)
	for _, name := range []string{"nvidia-" + namespace, "kata-" + namespace} {
		runtimeClass(t, name)
	}
	runs := gather(t, map[string]string{"": namespace,
		"requireUserNamespace": newNamespace(t, map[string]string{"gpuquota.io/user-namespaces": "true"}),
		"requireGpuMemory":     newNamespace(t, map[string]string{"gpuquota.io/require-gpu-memory": "true"})})
	warned, told := as(t, "warned", "system:masters")
	labelled := newNamespace(t, map[string]string{"gpuquota.io/user-namespaces": "true", "gpuquota.io/require-gpu-memory": "true"})
	probe := newPod(t, `metadata: {labels: {hami.io/webhook: ignore}}
volumes: [{name: host, hostPath: {path: /dev}}]
containers: [`+limits("main", "gpu: 1")+"]")
	probed := func() string {
		told.take()
		_, _ = warned.CoreV1().Pods(labelled).Create(context.Background(), probe, dry)
		return strings.Join(told.take(), "\n")
	}
	for _, name := range []string{"guard-pods", "guard-sharing", "guard-host-paths", "require-gpu-memory", "require-user-namespaces"} {
		inForceAs(t, name+".yaml", "Warn", func() bool { return strings.Contains(probed(), "'gpuquota-"+name+"'") })
		wantNoTypeWarnings(t, "gpuquota-"+name)
	}
	n := 0
	for _, data := range slices.Sorted(maps.Keys(runs)) {
		var lists allowed
		parse(t, data, &lists)
		allowHostPaths(t, "Warn", lists, probed)
		for _, r := range runs[data] {
			r.check(t, warned, told)
			n++
		}
	}
	t.Logf("%d cases", n)
	if n < 300 {
		t.Errorf("only %d cases were held against the policies", n)
	}
}

// hostPathTable reads a table of quota/host_path.c.
func hostPathTable(t *testing.T, name string) (paths []string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, "quota/host_path.c"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(content), "const "+name+"[] = {")
	if table, _, ok = strings.Cut(table, "};"); !ok {
		t.Fatalf("no table %s in host_path.c", name)
	}
	for _, quoted := range regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*"|/\*.*?\*/`).FindAllString(table, -1) {
		if quoted[0] == '/' {
			continue // a comment
		}
		path, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// Every path of the program's tables is refused for the same reason, and so is what is below it, what
// is above it, and another way to write it.
func TestHostPathTables(t *testing.T) {
	namespace := newNamespace(t, nil)
	guardPods(t, namespace)
	anything := strings.NewReplacer("PID", "1", "UID", "1000", "*", "x")
	for table, says := range map[string]string{"sockets": "reaches the socket or the files", "devices": "reaches devices"} {
		paths := hostPathTable(t, table)
		if len(paths) < 10 {
			t.Errorf("the table %s is short: %q", table, paths)
		}
		for _, path := range paths {
			path = anything.Replace(path)
			ways := []string{path, "/" + path}
			if !strings.HasSuffix(path, "/root") { // whence everything is as it is without
				ways = append(ways, path+"/x")
			}
			separator := "/"
			if path[0] == '/' {
				ways = append(ways, "/proc/self/root"+path, "/proc/1/cwd/proc/1/task/1/root/"+path)
				if strings.HasPrefix(path, "/run/") {
					ways = append(ways, "/var"+path)
				}
			} else {
				separator = `\`
				ways = []string{path, path + `\x`, strings.ToUpper(path), strings.ReplaceAll(path, `\`, "/")}
			}
			for above := path; strings.Count(above, separator) > 1 && !strings.HasSuffix(above, "pipe"); {
				above = above[:strings.LastIndex(above, separator)]
				ways = append(ways, above)
			}
			for _, way := range ways {
				_, err := try(t, namespace, newPod(t, withPath(way)))
				if err == nil {
					t.Errorf("%s lets pass, of %s: %s", table, path, way)
				} else if table == "sockets" || strings.Contains(err.Error(), says) {
					wantRefused(t, err, says, "volume host")
				} else { // above both; the sockets come first
					wantRefused(t, err, "reaches the socket or the files", "volume host")
				}
			}
		}
	}
}
