package policies

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
)

// mounting writes a pod whose init container reads a path of the node and whose container mounts it so.
func mounting(path, how string) string {
	return fmt.Sprintf(`volumes: [{name: host, hostPath: {path: %q}}, {name: own, emptyDir: {}}]
initContainers: [{name: first, image: none, volumeMounts: [{name: host, mountPath: /a, readOnly: true}, {name: own, mountPath: /b}]}]
containers: [{name: main, image: none, volumeMounts: [{name: host, mountPath: /a%s}]}]`, path, how)
}

func TestGuardHostPaths(t *testing.T) {
	namespace := newNamespace(t, nil)
	exempt := newNamespace(t, map[string]string{"gpuquota.io/guard": "exempt"})
	refusal := func() string {
		_, err := try(t, namespace, newPod(t, withPath("/anything")))
		return fmt.Sprint(err)
	}
	inForce(t, "guard-host-paths.yaml", func() bool { return strings.Contains(refusal(), "is outside of what pods may mount") })
	wantNoTypeWarnings(t, "gpuquota-guard-host-paths")

	// As installed: the time zone, to be read.
	for path, ok := range map[string]bool{"/etc/localtime": true, "/usr/share/zoneinfo/Europe": true, "/data": false, "/etc": false} {
		if _, err := try(t, namespace, newPod(t, mounting(path, ", readOnly: true"))); (err == nil) != ok {
			t.Errorf("as installed, %s: %v", path, err)
		}
	}
	allowHostPaths(t, "Deny", allowed{ReadWrite: []string{"/data/", "/var/run/thing"}, ReadOnly: []string{"//mnt/./models"}}, refusal)
	const outside, read = "is outside of what pods may mount of a node here (", "write readOnly: true at each"
	for _, tc := range []struct{ path, how, says string }{
		{"/data", "", ""},
		{"/data/a/b/", "", ""},
		{"//data/./a", "", ""},
		{"data", "", ""},
		{"/run/thing/x", "", ""},
		{"/var/run/thing", "", ""},
		{"/mnt/models/llama", ", readOnly: true", ""},
		{"/mnt/models", ", readOnly: true, subPath: llama", ""},
		{"/mnt/models", "", read},
		{"/mnt/models/llama", ", readOnly: false", read},
		{"/", ", readOnly: true", outside},
		{"/dat", ", readOnly: true", outside},
		{"/data2", ", readOnly: true", outside},
		{"/DATA", ", readOnly: true", outside},
		{"/mnt", ", readOnly: true", outside},
		{"/var/run", ", readOnly: true", outside},
		{"/proc/1/root", ", readOnly: true", outside},
	} {
		_, err := try(t, namespace, newPod(t, mounting(tc.path, tc.how)))
		if tc.says != "" {
			wantRefused(t, err, "hostPath of volume host ("+tc.path+")", tc.says)
		} else if err != nil {
			t.Errorf("%s: %v", tc.path, err)
		}
		if _, err := try(t, exempt, newPod(t, mounting(tc.path, tc.how))); err != nil {
			t.Errorf("in an exempt namespace: %v", err)
		}
	}
	if _, err := try(t, namespace, newPod(t, large())); err != nil {
		t.Errorf("a large pod: %v", err)
	}
	// As large as pods get, and each path is compared with all.
	bad := newPod(t, large())
	for i := range bad.Spec.Volumes {
		bad.Spec.Volumes[i].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: fmt.Sprintf("/mnt//models/./of/somebody/whose/name/is/long/%d", i)}}
	}
	_, err := try(t, namespace, bad.DeepCopy())
	wantRefused(t, err, "volume v0 (", "v39 (", read)
	for _, list := range [][]corev1.Container{bad.Spec.InitContainers, bad.Spec.Containers} {
		for i := range list {
			for j := range list[i].VolumeMounts {
				list[i].VolumeMounts[j].ReadOnly = true
			}
		}
	}
	if _, err := try(t, namespace, bad); err != nil {
		t.Errorf("a large pod that reads: %v", err)
	}
	other, err := dynamic.NewForConfig(cluster.Admin())
	if err != nil {
		t.Fatal(err)
	}
	for resource, object := range templates(t, withPath("/srv")) {
		_, err := other.Resource(resource).Namespace(namespace).Create(t.Context(), object, dry)
		wantRefused(t, err, "volume host (/srv) is outside")
	}
	for resource, object := range templates(t, withPath("/data")) {
		if _, err := other.Resource(resource).Namespace(namespace).Create(t.Context(), object, dry); err != nil {
			t.Errorf("%s: %v", resource.Resource, err)
		}
	}

	// A large list is no trouble, and an empty one allows nothing.
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("/srv/shared/of/somebody/%d", i))
	}
	allowHostPaths(t, "Deny", allowed{ReadWrite: many}, refusal)
	_, err = try(t, namespace, bad)
	wantRefused(t, err, "is outside of what pods may mount") // too many to name them
	allowHostPaths(t, "Deny", allowed{}, refusal)
	_, err = try(t, namespace, newPod(t, mounting("/data", "")))
	wantRefused(t, err, outside)
}
