package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// asks gives a container of the pod its limits: "nvidia.com/gpu", "1", …
func asks(limits ...string) podOption {
	return func(pod *corev1.Pod) {
		list := corev1.ResourceList{}
		for i := 0; i+1 < len(limits); i += 2 {
			list[corev1.ResourceName(limits[i])] = resource.MustParse(limits[i+1])
		}
		pod.Spec.Containers[0].Resources.Limits = list
	}
}

// Parts of devices by HAMi's names, on A100 of 81920 MiB. No node of this cluster offers the names
// to the scheduler, so the pods wait.
func TestVGPU(t *testing.T) {
	t.Parallel()
	const (
		gpu, mem     = "nvidia.com/gpu", "nvidia.com/gpumem"
		percent, sms = "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"
	)
	s := newScope(t)
	ns, byMemory := s.namespace("ns", nil), s.namespace("by-memory", nil)
	p := s.start(policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      A100: {gpus: 1}
  - name: team-b
    namespaces: [%s]
    quota:
      A100: {memory: 40Gi}
`, ns, byMemory))
	empty := func() {
		t.Helper()
		for _, pod := range s.pods(ns) {
			s.deletePod(ns, pod.Name)
		}
		p.waitUsage("team-a", "A100", "used=0 reserved=0 free=1 mused=0")
	}

	// Two pods share one device.
	s.mustCreate(ns, newPod("one", 0, on(a100), held, asks(gpu, "1", mem, "20480")))
	s.mustCreate(ns, newPod("two", 0, on(a100), held, asks(gpu, "1", mem, "40960")))
	p.waitUsage("team-a", "A100", "limit=1 used=0.75 pending=0.75 free=0.25 mused=61440")
	s.mustRefuse(ns, newPod("three", 0, on(a100), held, asks(gpu, "1", mem, "30720")),
		"team-a may hold 1 A100 GPU and holds 0.75", "asks for 0.375: 0.125 too many")
	s.mustRefuse(ns, newPod("whole", 0, on(a100), held, asks(gpu, "1")), "asks for 1: 0.75 too many")
	s.mustCreate(ns, newPod("rest", 0, on(a100), held, asks(mem, "20480")))
	p.waitUsage("team-a", "A100", "used=1 free=0 mused=81920")
	empty()

	// The cores count when they are the larger part, and alone leave the whole memory.
	s.mustCreate(ns, newPod("cores", 0, on(a100), held, asks(gpu, "1", mem, "8192", sms, "50")))
	p.waitUsage("team-a", "A100", "used=0.5 mused=8192")
	s.mustRefuse(ns, newPod("only-cores", 0, on(a100), held, asks(gpu, "1", sms, "10")), "asks for 1: 0.5 too many")
	empty()

	// Each of several vGPUs has the memory that is written once.
	s.mustCreate(ns, newPod("several", 0, on(a100), held, asks(gpu, "2", mem, "2048")))
	p.waitUsage("team-a", "A100", "used=0.05 mused=4096")
	empty()

	s.mustCreate(ns, newPod("percent", 0, on(a100), held, asks(gpu, "1", percent, "25")))
	p.waitUsage("team-a", "A100", "used=0.25 mused=20480")
	s.mustCreate(ns, newPod("two-percents", 0, on(a100), held, asks(gpu, "2", percent, "30")))
	p.waitUsage("team-a", "A100", "used=0.85 mused=69632")
	empty()
	// More than everything is everything, and nothing given is everything, never nothing.
	s.mustCreate(ns, newPod("much", 0, on(a100), held, asks(gpu, "1", percent, "250")))
	p.waitUsage("team-a", "A100", "used=1 mused=81920")
	empty()
	s.mustCreate(ns, newPod("zero", 0, on(a100), held, asks(gpu, "1", percent, "0")))
	p.waitUsage("team-a", "A100", "used=1 mused=81920")
	empty()

	// An init container that asks for nothing hides nothing.
	idle := newPod("idle-init", 0, on(a100), held, asks(gpu, "1", mem, "40960"))
	idle.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "none"}}
	s.mustCreate(ns, idle)
	p.waitUsage("team-a", "A100", "used=0.5 mused=40960")

	s.mustCreate(byMemory, newPod("one", 0, on(a100), held, asks(gpu, "1", mem, "30720")))
	p.waitUsage("team-b", "A100", "limit=none used=0.375 mlimit=40960 mused=30720 mfree=10240")
	s.mustRefuse(byMemory, newPod("two", 0, on(a100), held, asks(gpu, "1", mem, "20480")),
		"team-b may hold 40Gi of A100 memory and holds 30Gi", "asks for 20Gi: 10Gi too much")
	s.mustRefuse(byMemory, newPod("two", 1, on(a100), held), "asks for 80Gi")
	s.mustCreate(byMemory, newPod("two", 0, on(a100), held, asks(gpu, "1", mem, "10240")))
	p.waitUsage("team-b", "A100", "used=0.5 mused=40960 mfree=0")
}
