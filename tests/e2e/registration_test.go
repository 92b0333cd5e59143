package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gpuquota.io/tests/install"
)

const systemNamespace = install.Namespace

func manifestDir() string { return install.ManifestDir(repository) }

// manifests reads all objects of manifests/, moved to the given namespace.
func (s *scope) manifests(namespace string) []runtime.Object {
	s.Helper()
	objects, err := install.Manifests(manifestDir(), namespace)
	if err != nil {
		s.Fatal(err)
	}
	return objects
}

// applyIdentity creates the service account of the program and gives it the rights, and the
// objects, that manifests/ give it, and nothing more.
func (s *scope) applyIdentity(namespace string) (serviceAccount string) {
	s.Helper()
	ctx := s.Context()
	rename := func(name string) string { return s.id + "-" + name }
	for _, object := range s.manifests(namespace) {
		var err error
		switch o := object.(type) {
		case *corev1.ServiceAccount:
			serviceAccount = o.Name
			_, err = client.CoreV1().ServiceAccounts(namespace).Create(ctx, o, metav1.CreateOptions{})
		case *corev1.ConfigMap:
			if o.Name == policyName {
				continue
			}
			_, err = client.CoreV1().ConfigMaps(namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.Role:
			_, err = client.RbacV1().Roles(namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			if o.Namespace != namespace {
				o.Name = rename(o.Name)
				s.deleteLater("RoleBinding "+o.Name, func(ctx context.Context) error {
					return client.RbacV1().RoleBindings(o.Namespace).Delete(ctx, o.Name, metav1.DeleteOptions{})
				})
			}
			_, err = client.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRole:
			o.Name = rename(o.Name)
			s.deleteLater("ClusterRole "+o.Name, func(ctx context.Context) error {
				return client.RbacV1().ClusterRoles().Delete(ctx, o.Name, metav1.DeleteOptions{})
			})
			_, err = client.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			o.Name = rename(o.Name)
			if !strings.HasPrefix(o.RoleRef.Name, "system:") {
				o.RoleRef.Name = rename(o.RoleRef.Name)
			}
			s.deleteLater("ClusterRoleBinding "+o.Name, func(ctx context.Context) error {
				return client.RbacV1().ClusterRoleBindings().Delete(ctx, o.Name, metav1.DeleteOptions{})
			})
			_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		}
		if err != nil {
			s.Fatalf("%T: %v", object, err)
		}
	}
	if serviceAccount == "" {
		s.Fatalf("no ServiceAccount in %s", manifestDir())
	}
	return serviceAccount
}

func (s *scope) deleteLater(what string, f func(context.Context) error) {
	s.Cleanup(func() {
		if err := f(context.Background()); err != nil && !apierrors.IsNotFound(err) {
			s.Logf("delete %s: %v", what, err)
		}
	})
}

// registration gives the registrations of manifests/, changed so that they reach a program on
// this machine and concern the namespaces of one test only.
func (p *program) registration() *admissionregistrationv1.ValidatingWebhookConfiguration {
	p.Helper()
	var ret *admissionregistrationv1.ValidatingWebhookConfiguration
	for _, object := range p.manifests(p.namespace) {
		if configuration, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
			if ret != nil {
				ret.Webhooks = append(ret.Webhooks, configuration.Webhooks...)
			} else {
				ret = configuration
			}
		}
	}
	if ret == nil {
		p.Fatalf("no ValidatingWebhookConfiguration in %s", manifestDir())
	}
	ret.Name = "e2e-" + p.id
	for i := range ret.Webhooks {
		webhook := &ret.Webhooks[i]
		if webhook.ClientConfig.Service == nil || webhook.ClientConfig.Service.Path == nil {
			p.Fatalf("the registration %s names no service with a path", webhook.Name)
		}
		url := p.url + *webhook.ClientConfig.Service.Path
		if p.front != "" {
			url = p.front + *webhook.ClientConfig.Service.Path
		}
		webhook.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: webhookCA.PEM}
		if webhook.NamespaceSelector == nil {
			webhook.NamespaceSelector = &metav1.LabelSelector{}
		}
		webhook.NamespaceSelector.MatchExpressions = append(webhook.NamespaceSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: scopeLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{p.id}})
	}
	return ret
}

// register registers the webhooks, but for those named, and waits until the API server asks.
func (p *program) register(without ...string) {
	p.Helper()
	configuration := p.registration()
	configuration.Webhooks = slices.DeleteFunc(configuration.Webhooks,
		func(w admissionregistrationv1.ValidatingWebhook) bool { return slices.Contains(without, w.Name) })
	all := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	if p.registered {
		p.eventually("change the registration", func() error {
			old, err := all.Get(p.Context(), configuration.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			configuration.ResourceVersion = old.ResourceVersion
			_, err = all.Update(p.Context(), configuration, metav1.UpdateOptions{})
			return err
		})
	} else {
		if _, err := all.Create(p.Context(), configuration, metav1.CreateOptions{}); err != nil {
			p.Fatalf("register the webhooks: %v", err)
		}
		p.registered = true
	}
	if slices.Contains(without, "policy.gpuquota.io") {
		p.eventually("the policy is no longer checked", func() error {
			return p.tryPolicy("not a policy", metav1.DryRunAll)
		})
	} else {
		p.eventually("the policy is checked", func() error {
			err := p.tryPolicy("not a policy", metav1.DryRunAll)
			if err == nil {
				return errors.New("a broken policy was accepted")
			}
			if !strings.Contains(err.Error(), "policy.gpuquota.io") {
				return err
			}
			return nil
		})
	}
	// All entries are of one object, so the API server takes them up together. This one is seen
	// by the count of reviews, whatever the policy says about the pod.
	before := p.reviews()
	p.eventually("the API server asks about pods", func() error {
		_, err := client.CoreV1().Pods(p.probe).Create(p.Context(), newPod("probe", 1),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), `"quota.gpuquota.io"`) {
			return nil
		}
		if now := p.reviews(); now > before {
			return nil
		}
		return fmt.Errorf("it did not ask: %v", err)
	})
}

// unregister removes the webhooks.
func (p *program) unregister(ctx context.Context) error {
	if !p.registered {
		return nil
	}
	p.registered = false
	return client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, "e2e-"+p.id, metav1.DeleteOptions{})
}
