package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gpuquota.io/tests/controlplane"
	"gpuquota.io/tests/install"
)

const (
	systemNamespace = install.Namespace
	programName     = install.Name
	policyName      = "gpuquota-policy"
	webhookPort     = install.WebhookPort
	metricsPort     = install.MetricsPort
	// apiAddress and those of the replicas are addresses of this network namespace: EndpointSlices
	// take no loopback address.
	apiAddress = "10.98.0.1"
	// nodeLabel is on the one node, so that no simulated kubelet looks after it.
	nodeLabel = "bench.gpuquota.io/node"
	// scopeLabel is on the namespaces whose pods gpuquota is asked about.
	scopeLabel = "bench.gpuquota.io/asked"
	nodeName   = "node"
	product    = controlplane.ProductA100x80
	// limit of each namespace's quota, so high that nothing is refused.
	limit = 1_000_000
	// usersGroup may do anything, but is no exempt group: its requests queue as those of users do.
	usersGroup = "bench.gpuquota.io/users"
)

var replicaAddresses = []string{"10.98.0.11", "10.98.0.12"}

// world is a control plane with gpuquota registered through a Service.
type world struct {
	dir       string
	cluster   *controlplane.ControlPlane
	client    kubernetes.Interface
	webhookCA *controlplane.CA
	replicas  []*replica
	etcd      etcd
	probes    int
}

func (w *world) start(ctx context.Context, program, manifests string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var err error
	if w.webhookCA, err = controlplane.NewCA("gpuquota webhook"); err != nil {
		return err
	}
	w.cluster, err = controlplane.Start(ctx, controlplane.Options{
		Dir:     filepath.Join(w.dir, "controlplane"),
		Address: apiAddress,
		Fsync:   true,
		// The API server reaches the Service by its EndpointSlices, as no proxy serves cluster IPs.
		APIServerArgs: []string{"--enable-aggregator-routing=true", "--delete-collection-workers=10"},
		// Nobody reports for the node; its pods stay ready all the same.
		ControllerManagerArgs: []string{"--node-monitor-grace-period=24h"},
		KwokNodes:             "!" + nodeLabel,
	})
	if err != nil {
		return fmt.Errorf("control plane: %w", err)
	}
	w.client, w.etcd = w.cluster.Client(), etcd{w.cluster.EtcdURL}
	if err := w.createNode(ctx); err != nil {
		return err
	}
	for _, name := range []string{"00-namespace", "rbac", "flowcontrol", "service"} {
		if err := command(w.cluster.Kubectl(), "--kubeconfig", w.cluster.Kubeconfig, "apply",
			"-f", filepath.Join(manifests, name+".yaml")); err != nil {
			return err
		}
	}
	if err := command(w.cluster.Kubectl(), "--kubeconfig", w.cluster.Kubeconfig, "create", "clusterrolebinding",
		"bench-users", "--clusterrole=cluster-admin", "--group="+usersGroup); err != nil {
		return err
	}
	if err := w.createNamespaces(ctx); err != nil {
		return err
	}
	for i, address := range replicaAddresses {
		r := &replica{world: w, name: fmt.Sprintf("%s-%d", programName, i), address: address}
		if err := r.prepare(ctx, program); err != nil {
			return err
		}
		w.replicas = append(w.replicas, r)
		if err := r.launch(); err != nil {
			return err
		}
	}
	if _, err := w.waitLeader(); err != nil {
		return err
	}
	if err := w.register(ctx, manifests); err != nil {
		return err
	}
	return w.waitAsked(ctx)
}

func (w *world) createNode(ctx context.Context) error {
	now := metav1.Now()
	capacity := corev1.ResourceList{
		"nvidia.com/gpu":      resource.MustParse("8"),
		corev1.ResourcePods:   resource.MustParse("1000"),
		corev1.ResourceCPU:    resource.MustParse("128"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
	}
	labels := controlplane.GPULabels(product, 8)
	labels[nodeLabel] = "true"
	_, err := w.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: labels},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue,
				LastHeartbeatTime: now, LastTransitionTime: now}}},
	}, metav1.CreateOptions{})
	return err
}

// createNamespaces makes the namespaces of all loads and the policy that gives each of gpuquota's a
// tenant of the same limit as the native quota.
func (w *world) createNamespaces(ctx context.Context) error {
	policy := "apiVersion: config.gpuquota.io/v1alpha1\nkind: QuotaPolicy\ntenants:\n"
	tenant := func(namespace string) {
		policy += fmt.Sprintf("  - {name: %s, namespaces: [%s], quota: {A100: {gpus: %d}}}\n", namespace, namespace, limit)
	}
	names := map[string]map[string]string{probeNamespace: {scopeLabel: "true"}, filledNamespace: {scopeLabel: "true"}}
	tenant(probeNamespace)
	tenant(filledNamespace)
	for i := range namespacesEach {
		names[none.namespace(i)], names[native.namespace(i)] = nil, nil
		names[quota.namespace(i)] = map[string]string{scopeLabel: "true"}
		tenant(quota.namespace(i))
	}
	for name, labels := range names {
		if _, err := w.client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := eventually("the service account of "+name, func() error {
			_, err := w.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	for i := range namespacesEach {
		hard := corev1.ResourceList{"requests.nvidia.com/gpu": *resource.NewQuantity(limit, resource.DecimalSI)}
		namespace := native.namespace(i)
		if _, err := w.client.CoreV1().ResourceQuotas(namespace).Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := eventually("the native quota counts", func() error { return w.nativeIsEmpty(ctx, namespace) }); err != nil {
			return err
		}
	}
	_, err := w.client.CoreV1().ConfigMaps(systemNamespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: policyName}, Data: map[string]string{"policy.yaml": policy}}, metav1.CreateOptions{})
	return err
}

// nativeIsEmpty says why a native quota does not say 0.
func (w *world) nativeIsEmpty(ctx context.Context, namespace string) error {
	object, err := w.client.CoreV1().ResourceQuotas(namespace).Get(ctx, "gpus", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if used, known := object.Status.Used["requests.nvidia.com/gpu"]; !known || !used.IsZero() {
		return fmt.Errorf("%s used in %s", used.String(), namespace)
	}
	return nil
}

// register registers what manifests/ has, for the namespaces of gpuquota only.
func (w *world) register(ctx context.Context, manifests string) error {
	content, err := os.ReadFile(filepath.Join(manifests, "webhooks.yaml"))
	if err != nil {
		return err
	}
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := yaml.Unmarshal(content, &configuration); err != nil {
		return err
	}
	if len(configuration.Webhooks) == 0 {
		return errors.New("webhooks.yaml does not begin with a registration")
	}
	for i := range configuration.Webhooks {
		hook := &configuration.Webhooks[i]
		hook.ClientConfig.CABundle = w.webhookCA.PEM
		if hook.NamespaceSelector == nil {
			hook.NamespaceSelector = &metav1.LabelSelector{}
		}
		hook.NamespaceSelector.MatchExpressions = append(hook.NamespaceSelector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: scopeLabel, Operator: metav1.LabelSelectorOpExists})
	}
	_, err = w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &configuration, metav1.CreateOptions{})
	return err
}

// waitAsked waits until the API server asks gpuquota: a pod that no tenant may have is refused.
func (w *world) waitAsked(ctx context.Context) error {
	client, err := w.user("nobody")
	if err != nil {
		return err
	}
	return eventually("the API server asks gpuquota", func() error {
		pod := gpuPod("too-large")
		pod.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = *resource.NewQuantity(2*limit, resource.DecimalSI)
		err := create(ctx, client, probeNamespace, pod)
		if err == nil {
			return errors.Join(errors.New("a pod over its limit was created"), w.empty(ctx, probeNamespace))
		}
		if !strings.Contains(err.Error(), "quota."+programName) {
			return err
		}
		return nil
	})
}

// user gives a client of a user of that name, which shows every error: nothing is tried again.
func (w *world) user(name string) (rest.Interface, error) {
	config := w.cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{usersGroup, "system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.CoreV1().RESTClient(), nil
}

// empty deletes the pods of a namespace at once.
func (w *world) empty(ctx context.Context, namespace string) error {
	now := int64(0)
	return w.client.CoreV1().Pods(namespace).DeleteCollection(ctx,
		metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
}

// gpuPod gives a pod of one GPU that no scheduler looks for a node for.
func gpuPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: "none",
			NodeSelector:  map[string]string{controlplane.LabelProduct: product},
			Containers: []corev1.Container{{Name: "main", Image: "none",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
					"nvidia.com/gpu": *resource.NewQuantity(1, resource.DecimalSI)}}}},
		},
	}
}

func create(ctx context.Context, client rest.Interface, namespace string, pod *corev1.Pod) error {
	return client.Post().Namespace(namespace).Resource("pods").Body(pod).MaxRetries(0).Do(ctx).Error()
}

// replica is one process of gpuquota with the pod that stands for it.
type replica struct {
	*world
	name    string
	address string
	args    []string
	log     string
	process *controlplane.Process
}

func (r *replica) prepare(ctx context.Context, program string) error {
	file := func(suffix string) string { return filepath.Join(r.dir, r.name+suffix) }
	r.log = file(".log")
	pair, err := r.webhookCA.Server(programName, r.address, programName+"."+systemNamespace+".svc")
	if err != nil {
		return err
	}
	if err := pair.WriteFiles(file(".crt"), file(".key")); err != nil {
		return err
	}
	if err := r.cluster.WriteServiceAccountKubeconfig(ctx, file(".kubeconfig"), systemNamespace, programName, ""); err != nil {
		return err
	}
	r.args = []string{program, "serve",
		"--kubeconfig", file(".kubeconfig"),
		"--namespace", systemNamespace,
		"--listen", fmt.Sprintf("%s:%d", r.address, webhookPort),
		"--metrics-listen", fmt.Sprintf("%s:%d", r.address, metricsPort),
		"--tls-cert", file(".crt"), "--tls-key", file(".key"),
		"--identity", r.name,
		"--log-format", "text"}
	return r.createStandIn(ctx)
}

// createStandIn makes the pod that stands for the process and is ready at its address.
func (r *replica) createStandIn(ctx context.Context) error {
	return install.StandIn{Name: r.name, Address: r.address, Node: nodeName}.Create(ctx, r.client)
}

// replaceStandIn makes another pod of that name, once the one that is being deleted is gone.
func (r *replica) replaceStandIn(ctx context.Context) error {
	pods, now := r.client.CoreV1().Pods(systemNamespace), int64(0)
	if err := pods.Delete(ctx, r.name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		return err
	}
	return eventually(r.name+" is made again", func() error { return r.createStandIn(ctx) })
}

func (r *replica) launch() (err error) {
	r.process, err = controlplane.StartProcess(r.name, r.log, nil, r.args...)
	return err
}

func (r *replica) running() bool { return r.process != nil && r.process.Running() }

// waitReady waits until its caches have synced.
func (r *replica) waitReady() error {
	return eventually(r.name+" is ready", func() error {
		if !r.running() {
			return fmt.Errorf("it ended:\n%s", r.process.Log(4096))
		}
		_, err := r.page("/readyz")
		return err
	})
}

// plainClient keeps no connection: the other end may be gone the next time.
var plainClient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (r *replica) page(path string) (string, error) {
	return get(fmt.Sprintf("http://%s:%d%s", r.address, metricsPort, path))
}

func get(url string) (string, error) {
	response, err := plainClient.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, response.Status)
	}
	return string(body), err
}

// metrics of a page, summed over the series that begin with a name or with a name and labels.
type metrics string

func (r *replica) metrics() (metrics, error) {
	page, err := r.page("/metrics")
	return metrics(page), err
}

func (m metrics) sum(series string) (sum float64) {
	for line := range strings.Lines(string(m)) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), series)
		if !found || !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "{") {
			continue
		}
		if value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64); err == nil {
			sum += value
		}
	}
	return sum
}

// apiMetrics gives those of the API server.
func (w *world) apiMetrics(ctx context.Context) (metrics, error) {
	page, err := w.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	return metrics(page), err
}

// leader gives the replica that says that it leads.
func (w *world) leader() (*replica, error) {
	for _, r := range w.replicas {
		if !r.running() {
			continue
		}
		if m, err := r.metrics(); err == nil && m.sum("gpuquota_leader") == 1 {
			return r, nil
		}
	}
	return nil, errors.New("nobody leads")
}

func (w *world) waitLeader() (r *replica, err error) {
	err = eventually("one leads", func() (err error) {
		r, err = w.leader()
		return err
	})
	return r, err
}

func (r *replica) other() *replica {
	for _, other := range r.replicas {
		if other != r {
			return other
		}
	}
	return nil
}
