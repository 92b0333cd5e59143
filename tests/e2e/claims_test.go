package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deviceClass creates a DeviceClass with those selectors.
func (s *scope) deviceClass(name string, expressions ...string) string {
	s.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, expression := range expressions {
		class.Spec.Selectors = append(class.Spec.Selectors,
			resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}})
	}
	if _, err := client.ResourceV1().DeviceClasses().Create(s.Context(), class, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.deleteLater("DeviceClass "+name, func(ctx context.Context) error {
		return client.ResourceV1().DeviceClasses().Delete(ctx, name, metav1.DeleteOptions{})
	})
	return name
}

// claimOf asks for a device of the first class that there is.
func claimOf(classes ...string) resourcev1.ResourceClaimSpec {
	request := resourcev1.DeviceRequest{Name: "device"}
	if len(classes) == 1 {
		request.Exactly = &resourcev1.ExactDeviceRequest{DeviceClassName: classes[0]}
	}
	for i, class := range classes {
		if len(classes) > 1 {
			request.FirstAvailable = append(request.FirstAvailable,
				resourcev1.DeviceSubRequest{Name: fmt.Sprintf("choice-%d", i), DeviceClassName: class})
		}
	}
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}}
}

func (s *scope) claim(namespace, name string, classes ...string) {
	s.Helper()
	if _, err := client.ResourceV1().ResourceClaims(namespace).Create(s.Context(), &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimOf(classes...)}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *scope) claimTemplate(namespace, name string, classes ...string) {
	s.Helper()
	if _, err := client.ResourceV1().ResourceClaimTemplates(namespace).Create(s.Context(), &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: claimOf(classes...)},
	}, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// claiming makes the pod name a claim, or a template.
func claiming(entry, claim, template string) podOption {
	return func(pod *corev1.Pod) {
		named := corev1.PodResourceClaim{Name: entry}
		if claim != "" {
			named.ResourceClaimName = &claim
		} else {
			named.ResourceClaimTemplateName = &template
		}
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, named)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	ns, nobodys := s.namespace("ns", nil), s.namespace("nobodys", nil)
	p := s.start(policyText(`
unassigned: allow
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 2}
`, ns))
	const may = "which may be a GPU"
	s.deviceClass("gpu.nvidia.com", `device.driver == "gpu.nvidia.com"`)
	nic := s.deviceClass(s.id+"-nic", `device.driver == "dra.example-nic"`)
	narrow := s.deviceClass(s.id+"-narrow", `device.driver == "dra.example-nic" && device.attributes["dra.example-nic"].speed == "400"`)
	anything := s.deviceClass(s.id + "-anything")
	disguised := s.deviceClass(s.id+"-disguised", `device.driver == "gpu.example.com"`)
	either := s.deviceClass(s.id+"-either", `device.driver == "dra.example-nic" || device.driver == "other.example.com"`)

	for _, tc := range []struct {
		name    string
		classes []string
		culprit string // "": the pod passes
	}{
		{"gpu", []string{"gpu.nvidia.com"}, "gpu.nvidia.com"},
		{"nic", []string{nic}, ""},
		{"narrow", []string{narrow}, ""},
		{"anything", []string{anything}, anything},
		{"disguised", []string{disguised}, disguised},
		{"either", []string{either}, either},
		{"choice", []string{nic, "gpu.nvidia.com"}, "gpu.nvidia.com"},
		{"harmless-choice", []string{nic, narrow}, ""},
	} {
		s.claim(ns, tc.name, tc.classes...)
		s.claimTemplate(ns, tc.name, tc.classes...)
		for form, option := range map[string]podOption{
			"claim": claiming("entry", tc.name, ""), "template": claiming("entry", "", tc.name)} {
			pod := newPod(tc.name+"-"+form, 0, held, option)
			if tc.culprit == "" {
				s.mustCreate(ns, pod)
			} else {
				s.mustRefuse(ns, pod, "The resource claim entry asks for a device of class "+tc.culprit+", "+may)
			}
		}
	}

	// What does not exist yet, and then does.
	late := newPod("late", 0, held, claiming("network", "late", ""))
	s.mustRefuse(ns, late, "The resource claim network could not be read", "does not exist yet: create it first")
	s.mustRefuse(ns, newPod("late", 0, held, claiming("network", "", "late")), "does not exist yet: create it first")
	s.claim(ns, "late", nic)
	s.mustCreate(ns, late)
	s.claim(ns, "later", s.id+"-later")
	classless := newPod("later", 0, held, claiming("network", "later", ""))
	s.mustRefuse(ns, classless, "The resource claim network asks for a device of class "+s.id+"-later",
		"the DeviceClass "+s.id+"-later does not exist or may not be read")
	s.deviceClass(s.id+"-later", `device.driver == "dra.example-nic"`)
	s.mustCreate(ns, classless)

	// One of several claims is enough to be refused; a claim for no GPU changes no charge.
	s.mustRefuse(ns, newPod("two", 0, held, claiming("network", "nic", ""), claiming("model", "gpu", "")),
		"The resource claim model asks for a device of class gpu.nvidia.com")
	s.mustCreate(ns, newPod("both", 1, on(a100), held, claiming("network", "nic", "")))
	p.waitUsage("team-a", "A100", "used=1 pending=1 reserved=0 free=1")
	s.mustRefuse(ns, newPod("more", 2, on(a100), held, claiming("network", "nic", "")), "holds 1", "asks for 2: 1 too many")

	s.claim(nobodys, "gpu", "gpu.nvidia.com")
	s.mustCreate(nobodys, newPod("gpu", 0, held, claiming("entry", "gpu", "")))
	s.mustCreate(nobodys, newPod("missing", 0, held, claiming("entry", "missing", "")))
}
