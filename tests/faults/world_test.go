package faults

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"gpuquota.io/tests/controlplane"
	"gpuquota.io/tests/install"
)

const (
	systemNamespace = install.Namespace
	programName     = install.Name
	journalName     = "gpuquota-journal"
	policyName      = "gpuquota-policy"
	policyKey       = "policy.yaml"
	policyWebhook   = "policy.gpuquota.io"
	leaderLabel     = "gpuquota.io/leader"
	standInNode     = "stand-in"
	// scopeLabel marks the namespaces of the workload.
	scopeLabel = "faults.gpuquota.io/workload"
	// patience bounds what has no bound of its own.
	patience = 30 * time.Second
)

// world is a control plane with gpuquota registered through a Service, in our network namespace.
type world struct {
	*testing.T
	begin     time.Time
	dir       string
	cluster   *controlplane.ControlPlane
	client    kubernetes.Interface
	webhookCA *controlplane.CA
	replicas  []*replica
}

// logf prints at once and with the time of the run, also while the test goes on.
func (w *world) logf(format string, args ...any) {
	w.Helper()
	w.Logf("%6.1f s  %s", time.Since(w.begin).Seconds(), fmt.Sprintf(format, args...))
}

// newWorld starts the control plane with its nodes and with everything of manifests/ but a
// Deployment: replicas are processes.
func newWorld(t *testing.T, nodes string) *world {
	t.Helper()
	needNamespaces(t)
	w := &world{T: t, begin: time.Now(), dir: t.TempDir()}
	var err error
	if *keepDir != "" {
		if w.dir, err = filepath.Abs(filepath.Join(*keepDir, t.Name())); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.RemoveAll(w.dir), os.MkdirAll(w.dir, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if w.webhookCA, err = controlplane.NewCA("gpuquota webhook"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	w.cluster, err = controlplane.Start(ctx, controlplane.Options{
		Dir:     filepath.Join(w.dir, "controlplane"),
		Address: bridgeAddress,
		Fsync:   true,
		// The API server reaches the Service by its EndpointSlices, as no proxy serves cluster IPs.
		APIServerArgs: []string{"--enable-aggregator-routing=true"},
		// Nobody reports for the node of the stand-in pods; its pods stay ready all the same.
		ControllerManagerArgs: []string{"--node-monitor-grace-period=24h"},
		KwokNodes:             "!" + standInNode,
	})
	if err != nil {
		t.Fatalf("control plane: %v", err)
	}
	t.Cleanup(w.cluster.Stop)
	w.client = w.cluster.Client()
	specs, err := controlplane.ParseNodes(nodes)
	if err != nil {
		t.Fatal(err)
	}
	if err := controlplane.CreateNodes(ctx, w.client, specs); err != nil {
		t.Fatalf("nodes: %v", err)
	}
	w.createStandInNode(ctx)
	w.applyManifests(ctx)
	w.logf("a control plane with %d GPU nodes is up", len(specs))
	return w
}

// eventually asks until there is no error.
func (w *world) eventually(what string, f func() error) {
	w.Helper()
	w.within(patience, what, f)
}

func (w *world) within(limit time.Duration, what string, f func() error) {
	w.Helper()
	if err := controlplane.Poll(context.Background(), limit, f); err != nil {
		w.Fatalf("%s: not within %v: %v", what, limit, err)
	}
}

// manifests reads all objects of manifests/.
func (w *world) manifests() []runtime.Object {
	w.Helper()
	objects, err := install.Manifests(install.ManifestDir(repository), systemNamespace)
	if err != nil {
		w.Fatal(err)
	}
	return objects
}

// applyManifests creates what an admin applies, but for the Deployment, the sample policy and the
// registrations, which come when replicas run.
func (w *world) applyManifests(ctx context.Context) {
	w.Helper()
	options := metav1.CreateOptions{}
	core, rbac, flow := w.client.CoreV1(), w.client.RbacV1(), w.client.FlowcontrolV1()
	for _, object := range w.manifests() {
		var err error
		switch o := object.(type) {
		case *corev1.Namespace:
			_, err = core.Namespaces().Create(ctx, o, options)
		case *corev1.ServiceAccount:
			_, err = core.ServiceAccounts(o.Namespace).Create(ctx, o, options)
		case *corev1.ConfigMap:
			if o.Name == policyName {
				continue
			}
			_, err = core.ConfigMaps(o.Namespace).Create(ctx, o, options)
		case *corev1.Service:
			if o.Name == programName {
				o.Spec.Selector = map[string]string{"app.kubernetes.io/name": programName, leaderLabel: "true"}
			}
			_, err = core.Services(o.Namespace).Create(ctx, o, options)
		case *rbacv1.Role:
			_, err = rbac.Roles(o.Namespace).Create(ctx, o, options)
		case *rbacv1.RoleBinding:
			_, err = rbac.RoleBindings(o.Namespace).Create(ctx, o, options)
		case *rbacv1.ClusterRole:
			_, err = rbac.ClusterRoles().Create(ctx, o, options)
		case *rbacv1.ClusterRoleBinding:
			_, err = rbac.ClusterRoleBindings().Create(ctx, o, options)
		case *flowcontrolv1.FlowSchema:
			_, err = flow.FlowSchemas().Create(ctx, o, options)
		case *flowcontrolv1.PriorityLevelConfiguration:
			_, err = flow.PriorityLevelConfigurations().Create(ctx, o, options)
		}
		if err != nil {
			w.Fatalf("%T: %v", object, err)
		}
	}
}

// register registers the webhooks at the Service and waits until the API server asks about the
// policy, so about everything: all entries but that of the policy are in one object with it.
func (w *world) register() {
	w.Helper()
	all := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	w.eventually("register", func() error {
		configuration := w.registration()
		old, err := all.Get(w.Context(), configuration.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = all.Create(w.Context(), configuration, metav1.CreateOptions{})
			return err
		} else if err != nil {
			return err
		}
		configuration.ResourceVersion = old.ResourceVersion
		_, err = all.Update(w.Context(), configuration, metav1.UpdateOptions{})
		return err
	})
	w.eventually("the policy is checked through the Service", func() error {
		err := w.tryPolicy("not a policy", metav1.DryRunAll)
		if err == nil {
			return errors.New("a broken policy was accepted")
		}
		if !strings.Contains(err.Error(), policyWebhook) {
			return err
		}
		return nil
	})
}

// unregisterPolicy lets any policy pass, as if gpuquota had been away when it was applied.
func (w *world) unregisterPolicy() {
	w.Helper()
	all := w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	w.eventually("unregister the policy", func() error {
		configuration := w.registration()
		old, err := all.Get(w.Context(), configuration.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		configuration.ResourceVersion = old.ResourceVersion
		configuration.Webhooks = slices.DeleteFunc(configuration.Webhooks,
			func(h admissionregistrationv1.ValidatingWebhook) bool { return h.Name == policyWebhook })
		_, err = all.Update(w.Context(), configuration, metav1.UpdateOptions{})
		return err
	})
	w.eventually("the policy is no longer checked", func() error {
		return w.tryPolicy("not a policy", metav1.DryRunAll)
	})
}

func (w *world) registration() *admissionregistrationv1.ValidatingWebhookConfiguration {
	w.Helper()
	for _, object := range w.manifests() {
		configuration, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
		if !ok {
			continue
		}
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].ClientConfig.CABundle = w.webhookCA.PEM
		}
		return configuration
	}
	w.Fatal("no ValidatingWebhookConfiguration in manifests/")
	return nil
}

func (w *world) tryPolicy(policy string, dryRun ...string) error {
	maps := w.client.CoreV1().ConfigMaps(systemNamespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: policyName},
		Data: map[string]string{policyKey: policy}}
	_, err := maps.Update(w.Context(), object, metav1.UpdateOptions{DryRun: dryRun})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(w.Context(), object, metav1.CreateOptions{DryRun: dryRun})
	}
	return err
}

func (w *world) applyPolicy(policy string) {
	w.Helper()
	w.eventually("apply the policy", func() error { return w.tryPolicy(policy) })
}

// waitPolicy waits until whoever decides does so by this policy.
func (w *world) waitPolicy(policy string) {
	w.Helper()
	hash := fmt.Sprintf(`gpuquota_policy_info{hash="%x"}`, sha256.Sum256([]byte(policy)))
	w.eventually("the policy is in force", func() error {
		leader := w.leader()
		if leader == nil {
			return errors.New("nobody leads")
		}
		if value := leader.metric(hash); value != 1 {
			return fmt.Errorf("%s of %s is %v", hash, leader.name, value)
		}
		return nil
	})
}

func (w *world) createNamespace(name string, labels map[string]string) {
	w.Helper()
	all := map[string]string{scopeLabel: "true"}
	for key, value := range labels {
		all[key] = value
	}
	_, err := w.client.CoreV1().Namespaces().Create(w.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: all}}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	w.eventually("the service account of "+name, func() error {
		_, err := w.client.CoreV1().ServiceAccounts(name).Get(w.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// createStandInNode makes the node of the pods that stand for our processes. KWOK leaves it alone,
// so nobody but us writes the status of those pods.
func (w *world) createStandInNode(ctx context.Context) {
	w.Helper()
	now := metav1.Now()
	_, err := w.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: standInNode, Labels: map[string]string{standInNode: "true"}},
		Spec:       corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady,
			Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatalf("node of the stand-in pods: %v", err)
	}
}
