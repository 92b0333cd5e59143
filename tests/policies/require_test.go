package policies

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRequireGPUMemory(t *testing.T) {
	labelled := newNamespace(t, map[string]string{"gpuquota.io/require-gpu-memory": "true"})
	plain := newNamespace(t, map[string]string{"gpuquota.io/require-gpu-memory": "false"})
	inForce(t, "require-gpu-memory.yaml", func() bool {
		_, err := try(t, labelled, newPod(t, whole))
		return err != nil && strings.Contains(err.Error(), "how much memory")
	})
	wantNoTypeWarnings(t, "gpuquota-require-gpu-memory")
	for asks, says := range map[string]string{
		"gpu: 1":                        "container main asks for nvidia.com/gpu and does not say how much memory",
		"gpu: 2, gpucores: 50":          "write resources.limits with nvidia.com/gpumem or nvidia.com/gpumem-percentage",
		"gpu: 1, gpumem: 0":             "container main asks",
		"gpu: 1, gpumem: 100":           "",
		"gpu: 1, gpumem-percentage: 50": "",
		"gpu: 0":                        "",
		"gpumem: 100":                   "",
		"mig-1g.5gb: 1":                 "",
		"":                              "",
	} {
		pod := newPod(t, "containers: ["+limits("main", asks)+"]")
		_, err := try(t, labelled, pod)
		if says != "" {
			wantRefused(t, err, says)
		} else if err != nil {
			t.Errorf("%s: %v", asks, err)
		}
		if _, err := try(t, plain, pod); err != nil {
			t.Errorf("in a namespace without the label: %v", err)
		}
	}
	_, err := try(t, labelled, newPod(t, "initContainers: ["+limits("first", "gpu: 1")+"]\ncontainers: ["+
		limits("one", "gpu: 1, gpumem: 5")+", "+limits("two", "gpu: 1")+"]"))
	wantRefused(t, err, "container two, first asks")
	if _, err := try(t, labelled, newPod(t, large())); err != nil {
		t.Errorf("a large pod: %v", err)
	}

	// What is given an amount has one.
	both := newNamespace(t, map[string]string{"gpuquota.io/require-gpu-memory": "true", "gpuquota.io/default-gpu-memory": "true"})
	inForce(t, "vgpu-default-memory.yaml", func() bool {
		_, err := try(t, both, newPod(t, whole))
		return err == nil
	})
	_, err = try(t, labelled, newPod(t, whole))
	wantRefused(t, err, "how much memory")
}

func TestRequireUserNamespaces(t *testing.T) {
	labelled := newNamespace(t, map[string]string{"gpuquota.io/user-namespaces": "true"})
	plain := newNamespace(t, nil)
	old := newPod(t, "schedulerName: nobody\n"+plainPod)
	old.Name = "old"
	if _, err := client.CoreV1().Pods(labelled).Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	inForce(t, "require-user-namespaces.yaml", func() bool {
		_, err := try(t, labelled, newPod(t, plainPod))
		return err != nil
	})
	wantNoTypeWarnings(t, "gpuquota-require-user-namespaces")
	for spec, says := range map[string]string{
		plainPod:                                    "write hostUsers: false in the spec",
		"hostUsers: true\n" + plainPod:              "write hostUsers: false in the spec",
		"hostUsers: true\n" + whole:                 "write hostUsers: false in the spec",
		"hostNetwork: true\n" + plainPod:            "cannot work with hostNetwork: remove that",
		"hostPID: true\nhostIPC: true\n" + plainPod: "cannot work with hostPID, hostIPC",
		"os: {name: windows}\n" + plainPod:          "which Windows does not have",
		"hostUsers: false\n" + plainPod:             "",
		"hostUsers: false\n" + whole:                "",
	} {
		_, err := try(t, labelled, newPod(t, spec))
		if says != "" {
			wantRefused(t, err, "pods of this namespace run in a user namespace", says)
		} else if err != nil {
			t.Errorf("%v for\n%s", err, spec)
		}
		if _, err := try(t, plain, newPod(t, spec)); err != nil {
			t.Errorf("in a namespace without the label: %v", err)
		}
	}
	// What exists stays.
	if _, err := client.CoreV1().Pods(labelled).Patch(t.Context(), old.Name, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("label an old pod: %v", err)
	}

	// Beside user-namespaces.yaml those are left that it leaves alone.
	inForce(t, "user-namespaces.yaml", func() bool {
		_, err := try(t, labelled, newPod(t, plainPod))
		return err == nil
	})
	_, err := try(t, labelled, newPod(t, whole))
	wantRefused(t, err, "write hostUsers: false in the spec")
}

// Two labels: by the one a pod is given hostUsers: false, by the other gpuquota's rule asks for it, of
// templates as well, which the policy leaves as they are.
func TestUserNamespacesAndRule(t *testing.T) {
	const given, required = "gpuquota.io/user-namespaces", "gpuquota.io/require-user-namespaces"
	both := newNamespace(t, map[string]string{given: "true", required: "true"})
	ruled := newNamespace(t, map[string]string{required: "true"})
	labelled := newNamespace(t, map[string]string{given: "true"})
	serve(t, fmt.Sprintf(`apiVersion: config.gpuquota.io/v1alpha1
kind: QuotaPolicy
tenants:
  - name: tenant
    namespaces: [%s, %s, %s]
    quota: {A100: {gpus: 1}}
    rules: {requireUserNamespace: enforce}
`, both, ruled, labelled))
	inForce(t, "user-namespaces.yaml", func() bool {
		pod, err := try(t, labelled, newPod(t, plainPod))
		return err == nil && pod.Spec.HostUsers != nil
	})
	const network = "hostNetwork: true\n" + plainPod
	const says = "hostUsers: false\n" + plainPod
	for _, tc := range []struct {
		namespace, spec string
		pod, template   bool // allowed
	}{
		{both, plainPod, true, false}, {both, network, false, false}, {both, says, true, true},
		{ruled, plainPod, false, false}, {ruled, says, true, true},
		{labelled, plainPod, true, true}, {labelled, network, true, true},
	} {
		_, err := try(t, tc.namespace, newPod(t, tc.spec))
		if (err == nil) != tc.pod || err != nil && !strings.Contains(err.Error(), "gpuquota.io\" denied") {
			t.Errorf("%s in %s: %v", tc.spec, tc.namespace, err)
		}
		out, err := kubectl(t, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: workload}\nspec: {selector: {matchLabels: {a: b}}, "+
			"template: {metadata: {labels: {a: b}}, spec: "+flow(t, newPod(t, tc.spec).Spec)+"}}", "create", "-n", tc.namespace, "-f", "-", "--dry-run=server")
		if (err == nil) != tc.template || err != nil && !strings.Contains(out, "gpuquota.io\" denied") {
			t.Errorf("a Deployment of %s in %s: %s", tc.spec, tc.namespace, out)
		}
	}
}
