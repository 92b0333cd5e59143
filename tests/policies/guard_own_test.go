package policies

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gpuquota.io/tests/controlplane"
	"gpuquota.io/tests/install"
)

// userKubeconfig gives a file with the credentials of a user.
func userKubeconfig(t *testing.T, user string) string {
	t.Helper()
	pair, err := cluster.CA.Client(user)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(file, controlplane.Credentials{Server: cluster.Server, CA: cluster.CA.PEM,
		ClientCert: pair.CertPEM, ClientKey: pair.KeyPEM}); err != nil {
		t.Fatal(err)
	}
	return file
}

// With gpuquota at work: nothing of its own is refused, and somebody with the role admin in its
// namespace changes nothing of it.
func TestGuardOwnObjects(t *testing.T) {
	const tenant, operator, administrator, clusterAdmin = "tenant-admin", "recounts", "decides", "cluster-admin-user"
	namespace := newNamespace(t, nil)
	policy := fmt.Sprintf(`apiVersion: config.gpuquota.io/v1alpha1
kind: QuotaPolicy
tenants:
  - name: busy
    namespaces: [%s]
    quota:
      "*": {gpus: 150}
`, namespace)
	p := serve(t, policy)
	grant(t, tenant, "admin", install.Namespace)
	grant(t, operator, "gpuquota-operator", install.Namespace)
	grant(t, clusterAdmin, "cluster-admin", "")
	tenantClient, _ := as(t, tenant)
	maps := func(user string) func(name string) *corev1.ConfigMap {
		c, _ := as(t, user)
		return func(name string) *corev1.ConfigMap {
			t.Helper()
			ret, err := c.CoreV1().ConfigMaps(install.Namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return ret
		}
	}
	merge := func(user, name, patch string) error {
		c, _ := as(t, user)
		_, err := c.CoreV1().ConfigMaps(install.Namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	if out, err := kubectl(t, "", "apply", "-f", filepath.Join(install.ManifestDir(repository), "deployment.yaml")); err != nil {
		t.Fatal(out)
	}
	inForce(t, "guard-own-objects.yaml", func() bool {
		_, err := tenantClient.CoreV1().Services(install.Namespace).Create(context.Background(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "gpuquota-metrics"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}, dry)
		return err != nil && strings.Contains(err.Error(), "belongs to gpuquota")
	})
	// Its namespace goes while the policy is in force, so this is cleaned up first.
	t.Cleanup(func() { removeNamespace(t) })
	wantNoTypeWarnings(t, "gpuquota-guard-own-objects")
	grant(t, administrator, "gpuquota-administrator", install.Namespace)
	before := maps(tenant)("gpuquota-journal").ResourceVersion

	// Many creates at once, half of them over the quota. What gpuquota itself is refused is in its log, which is looked at in the end.
	var work sync.WaitGroup
	var mu sync.Mutex
	allowed, refused := 0, 0
	for worker := range 20 {
		work.Go(func() {
			for i := range 15 {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d-%d", worker, i)}, Spec: corev1.PodSpec{
					SchedulerName: "nobody", Containers: []corev1.Container{{Name: "main", Image: "none",
						Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}}}}
				_, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
				mu.Lock()
				if err == nil {
					allowed++
				} else if refused++; !strings.Contains(err.Error(), "busy may hold 150") {
					t.Errorf("refused otherwise: %v", err)
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if allowed != 150 || refused != 150 {
		t.Errorf("%d allowed, %d refused", allowed, refused)
	}
	if after := maps(tenant)("gpuquota-journal").ResourceVersion; after == before {
		t.Error("the journal was not written")
	}
	eventually(t, "the status is written", func() error {
		if text := maps(tenant)("gpuquota-status").Data; !strings.Contains(fmt.Sprint(text), "150") {
			return fmt.Errorf("it says %v", text)
		}
		return nil
	})
	leader, err := client.CoreV1().Pods(install.Namespace).Get(t.Context(), "gpuquota-stand-in", metav1.GetOptions{})
	if err != nil || leader.Labels["gpuquota.io/leader"] != "true" {
		t.Errorf("the leader's label: %v %v", err, leader.Labels)
	}

	// Somebody with the role admin in the namespace, who may do all of this by RBAC.
	for _, name := range []string{"gpuquota-policy", "gpuquota-policy-accepted", "gpuquota-journal", "gpuquota-status"} {
		says := "configmaps " + name + " belongs to gpuquota: tenant-admin may not "
		wantRefused(t, merge(tenant, name, `{"data":{"policy.yaml":"x"}}`), says+"change it")
		wantRefused(t, merge(tenant, name, `{"metadata":{"labels":{"a":"b"}}}`), says+"change it")
		wantRefused(t, merge(tenant, name, `{"immutable":true}`), says+"change it")
		wantRefused(t, merge(tenant, name, `{"metadata":{"finalizers":["a.example/b"]}}`), says+"change it")
		wantRefused(t, tenantClient.CoreV1().ConfigMaps(install.Namespace).Delete(t.Context(), name, metav1.DeleteOptions{}), says+"delete it")
	}
	if _, err := tenantClient.CoreV1().ConfigMaps(install.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "gpuquota-policy"}}, dry); err == nil || !strings.Contains(err.Error(), "may not create it") {
		t.Errorf("create the policy: %v", err)
	}
	// All at once is each by itself; others go.
	if _, err := client.CoreV1().ConfigMaps(install.Namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a-bystander"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err = tenantClient.CoreV1().ConfigMaps(install.Namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
	wantRefused(t, err, "belongs to gpuquota")
	maps(clusterAdmin)("gpuquota-policy")
	maps(clusterAdmin)("gpuquota-journal")
	if err := tenantClient.CoreV1().ConfigMaps(install.Namespace).Delete(t.Context(), "a-bystander", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("another ConfigMap: %v", err)
	}
	scale := []byte(`{"spec":{"replicas":0}}`)
	deployments, services := tenantClient.AppsV1().Deployments(install.Namespace), tenantClient.CoreV1().Services(install.Namespace)
	_, err = deployments.Patch(t.Context(), "gpuquota", types.MergePatchType, scale, metav1.PatchOptions{})
	wantRefused(t, err, "deployments gpuquota belongs to gpuquota")
	_, err = deployments.Patch(t.Context(), "gpuquota", types.MergePatchType, scale, metav1.PatchOptions{}, "scale")
	wantRefused(t, err, "deployments/scale gpuquota belongs to gpuquota")
	wantRefused(t, deployments.Delete(t.Context(), "gpuquota", metav1.DeleteOptions{}), "may not delete it")
	_, err = services.Patch(t.Context(), "gpuquota", types.MergePatchType, []byte(`{"spec":{"selector":{"a":"b"}}}`), metav1.PatchOptions{})
	wantRefused(t, err, "services gpuquota belongs to gpuquota")
	wantRefused(t, tenantClient.RbacV1().Roles(install.Namespace).Delete(t.Context(), "gpuquota", metav1.DeleteOptions{}), "roles gpuquota")
	wantRefused(t, tenantClient.CoreV1().ServiceAccounts(install.Namespace).Delete(t.Context(), "gpuquota", metav1.DeleteOptions{}), "serviceaccounts gpuquota")
	_, err = tenantClient.CoreV1().ServiceAccounts(install.Namespace).CreateToken(t.Context(), "gpuquota", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	wantRefused(t, err, "serviceaccounts/token gpuquota belongs to gpuquota")
	_, err = tenantClient.CoreV1().Secrets(install.Namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "gpuquota-tls"}}, dry)
	wantRefused(t, err, "secrets gpuquota-tls belongs to gpuquota")
	pods := tenantClient.CoreV1().Pods(install.Namespace)
	_, err = pods.Patch(t.Context(), "gpuquota-stand-in", types.MergePatchType, []byte(`{"metadata":{"labels":{"gpuquota.io/leader":null}}}`), metav1.PatchOptions{})
	wantRefused(t, err, "the label gpuquota.io/leader belongs to gpuquota")
	impostor := leader.DeepCopy()
	impostor.ObjectMeta = metav1.ObjectMeta{Name: "impostor", Labels: map[string]string{"gpuquota.io/leader": "true"}}
	_, err = pods.Create(t.Context(), impostor, dry)
	wantRefused(t, err, "the label gpuquota.io/leader belongs to gpuquota")
	impostor.Labels = nil
	if _, err = pods.Create(t.Context(), impostor, dry); err != nil {
		t.Errorf("another pod: %v", err)
	}
	if _, err := pods.Patch(t.Context(), "gpuquota-stand-in", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("another label: %v", err)
	}
	// Other ways to a label of a pod. An admin of the namespace is not given the rights for these, but
	// controllers and schedulers of one's own are.
	grantRules(t, "labels", "policies-test-labels", rbacv1.PolicyRule{APIGroups: []string{""},
		Resources: []string{"pods/status", "pods/binding", "bindings", "pods/ephemeralcontainers", "pods/resize"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}})
	labelling, _ := as(t, "labels")
	pods = labelling.CoreV1().Pods(install.Namespace)
	stand := func() *corev1.Pod {
		t.Helper()
		ret, err := client.CoreV1().Pods(install.Namespace).Get(t.Context(), "gpuquota-stand-in", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return ret
	}
	const noLeader = `{"metadata":{"labels":{"gpuquota.io/leader":null}}}`
	_, err = pods.Patch(t.Context(), "gpuquota-stand-in", types.MergePatchType, []byte(noLeader), metav1.PatchOptions{}, "status")
	wantRefused(t, err, "the label gpuquota.io/leader belongs to gpuquota: labels may not change it")
	idle := impostor.DeepCopy()
	if _, err := client.CoreV1().Pods(install.Namespace).Create(t.Context(), idle, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const leads = `{"metadata":{"labels":{"gpuquota.io/leader":"true"}}}`
	_, err = pods.Patch(t.Context(), idle.Name, types.MergePatchType, []byte(leads), metav1.PatchOptions{}, "status")
	wantRefused(t, err, "the label gpuquota.io/leader belongs to gpuquota: labels may not change it")
	_, err = pods.Patch(t.Context(), idle.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}},"status":{"message":"x"}}`),
		metav1.PatchOptions{}, "status")
	if err != nil {
		t.Errorf("another label, by the status: %v", err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: idle.Name, Labels: map[string]string{"gpuquota.io/leader": "true"}},
		Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"}}
	wantRefused(t, pods.Bind(t.Context(), binding, metav1.CreateOptions{}), "the label gpuquota.io/leader belongs")
	wantRefused(t, labelling.CoreV1().RESTClient().Post().Namespace(install.Namespace).Resource("bindings").Body(binding).
		Do(t.Context()).Error(), "the label gpuquota.io/leader belongs")
	for _, subresource := range []string{"ephemeralcontainers", "resize"} {
		_, _ = pods.Patch(t.Context(), idle.Name, types.StrategicMergePatchType, []byte(leads), metav1.PatchOptions{}, subresource)
		if have, err := client.CoreV1().Pods(install.Namespace).Get(t.Context(), idle.Name, metav1.GetOptions{}); err != nil ||
			have.Labels["gpuquota.io/leader"] != "" {
			t.Errorf("labelled by %s: %v %v", subresource, err, have.Labels)
		}
	}
	// These are ways indeed: other labels go by them.
	binding.Labels = map[string]string{"bound": "yes"}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Errorf("another binding: %v", err)
	}
	if have, err := client.CoreV1().Pods(install.Namespace).Get(t.Context(), idle.Name, metav1.GetOptions{}); err != nil ||
		have.Labels["a"] != "b" || have.Labels["bound"] != "yes" {
		t.Errorf("other labels: %v %v", err, have.Labels)
	}
	// No kubelet is there to see it off.
	if err := client.CoreV1().Pods(install.Namespace).Delete(t.Context(), idle.Name, *metav1.NewDeleteOptions(0)); err != nil {
		t.Error(err)
	}
	if stand().Labels["gpuquota.io/leader"] != "true" {
		t.Errorf("the leader is no leader any more: %v", stand().Labels)
	}
	// Somebody who may change registrations, and so could keep gpuquota from being asked.
	grantRules(t, "registers", "policies-test-registers", rbacv1.PolicyRule{APIGroups: []string{"admissionregistration.k8s.io"},
		Resources: []string{"validatingwebhookconfigurations"}, Verbs: []string{"*"}})
	grant(t, "system:serviceaccount:cert-manager:cert-manager-cainjector", "policies-test-registers", "")
	registering, _ := as(t, "registers")
	all := registering.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = all.Patch(t.Context(), "gpuquota", types.MergePatchType, []byte(`{"webhooks":[]}`), metav1.PatchOptions{})
	wantRefused(t, err, "validatingwebhookconfigurations gpuquota belongs to gpuquota: registers may not change it")
	wantRefused(t, all.Delete(t.Context(), "gpuquota", metav1.DeleteOptions{}), "may not delete it")
	wantRefused(t, all.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}), "may not delete it")
	if _, err := all.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "another"}}, dry); err != nil {
		t.Errorf("another registration: %v", err)
	}
	injector, _ := as(t, "system:serviceaccount:cert-manager:cert-manager-cainjector")
	all = injector.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if _, err := all.Patch(t.Context(), "gpuquota", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("cert-manager's injector: %v", err)
	}
	wantRefused(t, all.Delete(t.Context(), "gpuquota", metav1.DeleteOptions{}), "may not delete it")

	grant(t, "system:serviceaccount:cert-manager:cert-manager", "admin", install.Namespace)
	certifying, _ := as(t, "system:serviceaccount:cert-manager:cert-manager")
	if _, err := certifying.CoreV1().Secrets(install.Namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "gpuquota-tls"}}, dry); err != nil {
		t.Errorf("cert-manager: %v", err)
	}
	_, err = certifying.CoreV1().ConfigMaps(install.Namespace).Patch(t.Context(), "gpuquota-policy", types.MergePatchType, []byte(`{"data":null}`), metav1.PatchOptions{})
	wantRefused(t, err, "configmaps gpuquota-policy belongs to gpuquota")

	// In another namespace the names are anybody's.
	grant(t, tenant, "admin", namespace)
	if _, err := tenantClient.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "gpuquota-policy"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("in another namespace: %v", err)
	}

	// Asking for a recount is all that an operator may do, and it is done.
	if out, err := p.run(t, userKubeconfig(t, operator), "usage", "--recount"); err != nil || !strings.Contains(out, "no drift") {
		t.Errorf("gpuquota usage --recount: %v %s", err, out)
	}
	wantRefused(t, merge(operator, "gpuquota-status", `{"data":{"status.yaml":"x"}}`), "recounts may not change it")
	wantRefused(t, merge(operator, "gpuquota-status", `{"metadata":{"annotations":{"gpuquota.io/recount-requested":"x","a":"b"}}}`), "recounts may not change it")
	wantRefused(t, merge(operator, "gpuquota-status", `{"immutable":true,"metadata":{"annotations":{"gpuquota.io/recount-requested":"y"}}}`), "recounts may not change it")

	// Administrators decide: by the verb, and by having every verb.
	for _, user := range []string{administrator, clusterAdmin} {
		if err := merge(user, "gpuquota-policy", fmt.Sprintf(`{"metadata":{"annotations":{"by":%q}}}`, user)); err != nil {
			t.Errorf("%s: %v", user, err)
		}
	}
	if err := merge("system:serviceaccount:gpuquota-system:gpuquota", "gpuquota-policy", `{"data":null}`); err == nil {
		t.Error("gpuquota may change its policy")
	}
	impersonated, _ := as(t, "system:serviceaccount:gpuquota-system:gpuquota")
	_, err = impersonated.CoreV1().ConfigMaps(install.Namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "gpuquota-policy"}}, dry)
	wantRefused(t, err, "configmaps gpuquota-policy belongs to gpuquota")

	// The Deployment's controller does its work: it numbers what an administrator rolls out.
	rolled, _ := as(t, clusterAdmin)
	if _, err := rolled.AppsV1().Deployments(install.Namespace).Patch(t.Context(), "gpuquota", types.MergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"rolled":"out"}}}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Deployment is rolled out anew", func() error {
		deployment, err := client.AppsV1().Deployments(install.Namespace).Get(t.Context(), "gpuquota", metav1.GetOptions{})
		if err == nil && deployment.Annotations["deployment.kubernetes.io/revision"] != "2" {
			err = fmt.Errorf("the revision is not 2: %v", deployment.Annotations)
		}
		return err
	})
}
