package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// outcome is what a user of a tenant without any GPU sees when a pod asks for something.
type outcome int

const (
	unseen  outcome = iota // created; the program is not even asked
	ruled                  // created; the program is asked, on behalf of the rules, of which there are none
	counted                // refused, for the quota
	refused                // refused, with a sentence about the name
)

// gpuNames are the ways to ask for GPUs, and names beside them that ask for none.
var gpuNames = []struct {
	name string // of a resource
	want outcome
	says string // in a sentence about the name
}{
	{"cpu", unseen, ""},
	{"nvidia.com/gpu", counted, ""},
	{"nvidia.com/gpumem", counted, ""},
	{"nvidia.com/gpumem-percentage", counted, ""},
	{"nvidia.com/gpucores", counted, ""},
	{"amd.com/gpu", counted, ""},
	{"nvidia.com/priority", unseen, ""},
	{"nvidia.com/gpu.shared", refused, "time slices"},
	{"nvidia.com/mig-1g.5gb", refused, "MIG"},
	{"nvidia.com/mig-1g.5gb.me", refused, "MIG"},
	{"nvidia.com/mig-1g.18gb", refused, "MIG"},
	{"nvidia.com/mig-1g.23gb", refused, "MIG"},
	{"nvidia.com/gpu-memory", refused, "HAMi does not offer"},
	{"nvidia.com/GPU", refused, "nvidia.com/GPU"},
	{"nvidia.com/new-thing", refused, "an NVIDIA resource that is not known"},
	{"nvidia.com/rdma_shared_device_a", unseen, ""},
	{"amd.com/gpumem", refused, "AMD vGPU"},
	{"volcano.sh/vgpu-number", refused, "Volcano vGPU"},
	{"volcano.sh/vgpu-memory", refused, "Volcano vGPU"},
	{"volcano.sh/vgpu-memory-percentage", refused, "Volcano vGPU"},
	{"volcano.sh/vgpu-cores", refused, "Volcano vGPU"},
	{"volcano.sh/gpu-memory", refused, "Volcano GPU share"},
	{"volcano.sh/gpu-number", refused, "Volcano GPU share"},
	{"aliyun.com/gpu-mem", refused, "Alibaba GPU share"},
	{"aliyun.com/gpu-count", refused, "Alibaba GPU share"},
	{"koordinator.sh/gpu-core", refused, "Koordinator"},
	{"koordinator.sh/gpu-memory", refused, "Koordinator"},
	{"koordinator.sh/gpu-memory-ratio", refused, "Koordinator"},
	{"koordinator.sh/gpu.shared", refused, "Koordinator"},
	{"example.com/our-gpu", refused, "a GPU device plugin that is not known"},
	{"example.com/gpunk", unseen, ""},
	{"deviceclass.resource.kubernetes.io/gpu.nvidia.com", refused, "gpu.nvidia.com"},
}

var gpuAnnotations = []struct {
	key, value string
	want       outcome
}{
	{"gpu-fraction", "0.5", refused},
	{"gpu-memory", "2048", refused},
	{"gpu-fraction-num-devices", "2", refused},
	{"gpu-fraction-container-name", "main", unseen},
	{"nvidia.com/use-gputype", "A100", ruled},
	{"nvidia.com/nouse-gputype", "A100", ruled},
	{"nvidia.com/use-gpuuuid", "GPU-1", ruled},
	{"nvidia.com/nouse-gpuuuid", "GPU-1", ruled},
	{"nvidia.com/vgpu-mode", "hami-core", ruled},
	{"hami.io/vgpu-devices-allocated", "GPU-1,NVIDIA,1024,10:;", ruled},
	{"hami.io/vgpu-node", "node", ruled},
}

// check creates the pod without a trace, through the real matchConditions, and then shows it to
// the program past them: both have to agree.
func (p *program) checkName(c *testing.T, pod *corev1.Pod, want outcome, says ...string) {
	c.Helper()
	before := p.reviews()
	_, err := client.CoreV1().Pods(p.probe).Create(c.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	asked := p.reviews() - before
	if created := want == unseen || want == ruled; created {
		if err != nil {
			c.Errorf("refused: %v", err)
		}
		if (asked != 0) != (want == ruled) {
			c.Errorf("the program was asked %v times", asked)
		}
	} else {
		if asked != 1 {
			c.Errorf("the program was asked %v times", asked)
		}
		if err == nil {
			c.Error("allowed")
		} else if !containsAll(err.Error(), append(says, `admission webhook "quota.gpuquota.io" denied the request: `)...) {
			c.Errorf("want a refusal with %q: %v", says, err)
		}
	}
	object := pod.DeepCopy()
	object.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	object.Namespace, object.UID = p.probe, "pod-of-a-review"
	content, err := json.Marshal(object)
	if err != nil {
		c.Fatal(err)
	}
	http := webhookClient(true)
	answer, err := p.post(http, "/validate-ai-pod", []byte(podReview("name", p.probe, object.Name, true, string(content))))
	if err != nil {
		c.Fatal(err)
	}
	if answer.status != 200 || answer.allowed != (want == unseen || want == ruled) {
		c.Errorf("past the matchConditions: %d %s", answer.status, answer.body)
	}
	for _, text := range says {
		if quoted, _ := json.Marshal(text); !strings.Contains(answer.body, strings.Trim(string(quoted), `"`)) {
			c.Errorf("past the matchConditions, without %q: %s", text, answer.body)
		}
	}
}

// podReview makes the body of an AdmissionReview about the creation of a pod.
func podReview(uid, namespace, name string, dryRun bool, object string) string {
	return fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":%q,`+
		`"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},`+
		`"name":%q,"namespace":%q,"operation":"CREATE","userInfo":{"username":"admin"},"object":%s,"dryRun":%v}}`,
		uid, name, namespace, object, dryRun)
}

func TestGPUNames(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	p := s.prepare("")
	policy := policyText(`
tenants:
  - name: team-a
    namespaces: [%s]
    quota:
      "*": {gpus: 0}
`, p.probe)
	p.applyPolicy(policy)
	p.launch()
	p.waitReady()
	p.waitPolicy(policy)
	p.register()

	const overQuota = "team-a may hold 0 GPUs of any model and holds 0"
	for _, tc := range gpuNames {
		t.Run(tc.name, func(t *testing.T) {
			says := []string{tc.says, "so the pod is refused"}
			if tc.want == counted {
				says = []string{overQuota}
			} else if tc.want == unseen {
				says = nil
			}
			limits := corev1.ResourceList{corev1.ResourceName(tc.name): resource.MustParse("1")}
			inMain := newPod("main", 0)
			inMain.Spec.Containers[0].Resources.Limits = limits
			p.checkName(t, inMain, tc.want, says...)

			inInit := newPod("init", 0)
			inInit.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "none",
				Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits}}}
			if tc.want == refused && !strings.HasPrefix(tc.name, "deviceclass.") {
				says = append(says, "initContainers/first asks for "+tc.name)
			}
			p.checkName(t, inInit, tc.want, says...)
		})
	}
	for _, tc := range gpuAnnotations {
		t.Run(tc.key, func(t *testing.T) {
			pod := newPod("annotated", 0)
			pod.Annotations = map[string]string{tc.key: tc.value}
			var says []string
			if tc.want == refused {
				says = []string{"The annotation " + tc.key + " asks for GPUs", "so the pod is refused"}
			}
			p.checkName(t, pod, tc.want, says...)
		})
	}
	t.Run("label of KAI", func(t *testing.T) {
		pod := newPod("labelled", 0)
		pod.Labels = map[string]string{"kai.scheduler/queue": "a"}
		p.checkName(t, pod, unseen)
	})
	t.Run("overhead", func(t *testing.T) {
		class, err := client.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: s.id}, Handler: "none",
			Overhead: &nodev1.Overhead{PodFixed: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.deleteLater("RuntimeClass", func(ctx context.Context) error {
			return client.NodeV1().RuntimeClasses().Delete(ctx, class.Name, metav1.DeleteOptions{})
		})
		pod := newPod("overhead", 0)
		pod.Spec.RuntimeClassName = &class.Name
		pod.Spec.Overhead = class.Overhead.PodFixed
		s.eventually("the runtime class is known", func() error {
			_, err := client.CoreV1().Pods(p.namespace).Create(t.Context(), restricted(pod), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		})
		p.checkName(t, pod, counted, overQuota)
	})
	if err := p.usageIs("team-a", "*", "limit=0 used=0 reserved=0"); err != nil {
		t.Error(err)
	}
}

// restricted makes a pod that Pod Security admits to the program's own namespace.
func restricted(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	yes, no := true, false
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{
			RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
	}
	return pod
}
