package install

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestManifests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Manifests(dir, "ns"); err == nil || !strings.Contains(err.Error(), dir) {
		t.Fatalf("an empty directory: %v", err)
	}
	write("b.yaml", "---\n# nothing\n---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: second, namespace: "+Namespace+"}\n")
	write("a.yaml", "kind: Namespace\napiVersion: v1\nmetadata: {name: "+Namespace+"}\n")
	objects, err := Manifests(dir, "ns")
	if err != nil || len(objects) != 2 {
		t.Fatalf("%d objects: %v", len(objects), err)
	}
	if first, ok := objects[0].(*corev1.Namespace); !ok || first.Name != "ns" {
		t.Fatalf("the first is %v", objects[0])
	}
	if second, ok := objects[1].(*corev1.ConfigMap); !ok || second.Name != "second" || second.Namespace != "ns" {
		t.Fatalf("the second is %v", objects[1])
	}
	write("c.yaml", "kind: Nonsense\napiVersion: v1\n")
	if _, err := Manifests(dir, "ns"); err == nil || !strings.Contains(err.Error(), "c.yaml") {
		t.Fatalf("an unknown kind: %v", err)
	}
}

func TestProgram(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("GPUQUOTA_BIN", missing)
	if _, err := Program("/"); err == nil || !strings.Contains(err.Error(), missing) {
		t.Fatalf("a program that is not there: %v", err)
	}
	t.Setenv("GPUQUOTA_BIN", "install_test.go")
	if program, err := Program("/"); err != nil || !filepath.IsAbs(program) {
		t.Fatalf("%q: %v", program, err)
	}
}
