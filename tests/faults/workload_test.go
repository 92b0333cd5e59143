package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	usersGroup = "users"
	// clientTimeout is longer than the API server works on one request (34 s).
	clientTimeout = 40 * time.Second
)

// user gives a client of an ordinary user that shows every error: nothing is tried again.
func (w *world) user(name string) rest.Interface {
	w.Helper()
	config := w.cluster.Admin()
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: []string{usersGroup, "system:authenticated"}}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		w.Fatal(err)
	}
	return client.CoreV1().RESTClient()
}

// allowUsers lets users make pods wherever they like.
func (w *world) allowUsers() {
	w.Helper()
	rbac := w.client.RbacV1()
	_, err := rbac.ClusterRoles().Create(w.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: usersGroup},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"},
			Verbs: []string{"create", "delete", "get", "list"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	if _, err = rbac.ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: usersGroup},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: usersGroup},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: usersGroup}},
	}, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
}

func createPod(ctx context.Context, client rest.Interface, namespace string, pod *corev1.Pod) error {
	return client.Post().Namespace(namespace).Resource("pods").Body(pod).MaxRetries(0).Do(ctx).Error()
}

func deletePod(ctx context.Context, client rest.Interface, namespace, name string, grace *int64) error {
	err := client.Delete().Namespace(namespace).Resource("pods").Name(name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: grace}).MaxRetries(0).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// spot is a place where a client may create pods, and of which model.
type spot struct{ namespace, class string }

// What the clients do.
const (
	churning int32 = iota // they create and delete
	draining              // they delete
	filling               // they create, faster
)

// workload is what the clients share.
type workload struct {
	*world
	answers answers
	spots   []spot

	mode atomic.Int32

	mu     sync.Mutex
	begun  map[int]time.Time // by client: its create that is going on
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// startWorkload lets clients create and delete pods until stop.
func (w *world) startWorkload(clients int, spots []spot, seed uint64) *workload {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &workload{world: w, spots: spots, begun: map[int]time.Time{}, cancel: cancel}
	w.Cleanup(l.stop)
	for i := range clients {
		c := &workloadClient{workload: l, index: i, rand: newRand(seed, uint64(100+i)),
			client: w.user(fmt.Sprintf("user-%d", i)), owners: map[string]*metav1.OwnerReference{}}
		for _, spot := range spots {
			c.owner(spot.namespace)
		}
		l.wait.Go(func() { c.run(ctx) })
	}
	return l
}

// stop ends the clients once their last requests are answered.
func (l *workload) stop() {
	l.cancel()
	l.wait.Wait()
}

// waitAnswered waits until no create is going on that began before now.
func (l *workload) waitAnswered() {
	l.Helper()
	now := time.Now()
	l.within(clientTimeout+5*time.Second, "creates of before are answered", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for index, begun := range l.begun {
			if begun.Before(now) {
				return fmt.Errorf("client %d waits for %v", index, time.Since(begun))
			}
		}
		return nil
	})
}

type createdPod struct{ namespace, name string }

type workloadClient struct {
	*workload
	index  int
	rand   *rand.Rand
	client rest.Interface
	owners map[string]*metav1.OwnerReference
	pods   []createdPod
	count  int
}

// owner makes the object that owns some of this client's pods in a namespace.
func (c *workloadClient) owner(namespace string) {
	c.Helper()
	if c.owners[namespace] != nil {
		return
	}
	object, err := c.world.client.CoreV1().ConfigMaps(namespace).Create(c.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("owner-%d", c.index)}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	yes := true
	c.owners[namespace] = &metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: object.Name,
		UID: object.UID, Controller: &yes}
}

func (c *workloadClient) run(ctx context.Context) {
	for {
		mode := c.mode.Load()
		pause := time.Duration(100+c.rand.IntN(600)) * time.Millisecond
		if mode != churning {
			pause /= 3
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		likely := 30 + 20*len(c.pods) // in percent
		if mode == draining {
			likely = 100
		} else if mode == filling {
			likely = 0
		}
		if len(c.pods) > 0 && c.rand.IntN(100) < likely {
			c.delete()
			continue
		}
		if mode == draining {
			continue
		}
		if class := c.create(); class != allowed && class != denied {
			// As kubectl's users do: not at once.
			time.Sleep(time.Duration(c.rand.IntN(300)) * time.Millisecond)
		}
	}
}

func (c *workloadClient) create() string {
	spot := c.spots[c.rand.IntN(len(c.spots))]
	name := fmt.Sprintf("pod-%d-%d", c.index, c.count)
	c.count++
	pod := gpuPod(name, 1+c.rand.IntN(4), spot.class)
	if c.rand.IntN(3) == 0 {
		pod.OwnerReferences = []metav1.OwnerReference{*c.owners[spot.namespace]}
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	begin := time.Now()
	c.mu.Lock()
	c.begun[c.index] = begin
	c.mu.Unlock()
	err := createPod(ctx, c.client, spot.namespace, pod)
	c.mu.Lock()
	delete(c.begun, c.index)
	c.mu.Unlock()
	class := c.answers.add(begin, err)
	// An answer that got lost may have been a success.
	if class == allowed || class == unreachable || class == hung {
		c.pods = append(c.pods, createdPod{namespace: spot.namespace, name: name})
	}
	return class
}

func (c *workloadClient) delete() {
	i := c.rand.IntN(len(c.pods))
	pod := c.pods[i]
	var grace *int64
	if c.rand.IntN(3) == 0 {
		grace = new(int64)
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientTimeout)
	defer cancel()
	if err := deletePod(ctx, c.client, pod.namespace, pod.name, grace); err != nil {
		return // the API server is away: later
	}
	c.pods[i] = c.pods[len(c.pods)-1]
	c.pods = c.pods[:len(c.pods)-1]
}

// startControllers lets the real controllers of Deployments and Jobs create pods in a namespace.
func (l *workload) startControllers(namespace, class string, seed uint64) {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	rand := newRand(seed, 2)
	selector := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector}, Spec: gpuPod("", 1, class).Spec}
	replicas := int32(2)
	deployments, jobs := l.client.AppsV1().Deployments(namespace), l.client.BatchV1().Jobs(namespace)
	if _, err := deployments.Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: template},
	}, metav1.CreateOptions{}); err != nil {
		l.Fatal(err)
	}
	stop := l.cancel
	l.cancel = func() {
		cancel()
		stop()
	}
	l.wait.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if scale, err := deployments.GetScale(ctx, "web", metav1.GetOptions{}); err == nil {
				scale.Spec.Replicas = int32(rand.IntN(7))
				_, _ = deployments.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
			}
			job := gpuPod("", 1+rand.IntN(2), class).Spec
			job.RestartPolicy = corev1.RestartPolicyNever
			parallel, keep := int32(1+rand.IntN(2)), int32(0)
			_, _ = jobs.Create(ctx, &batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("job-%d", i)},
				Spec: batchv1.JobSpec{Parallelism: &parallel, Completions: &parallel, TTLSecondsAfterFinished: &keep,
					Template: corev1.PodTemplateSpec{Spec: job}},
			}, metav1.CreateOptions{})
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(1000+rand.IntN(2000)) * time.Millisecond):
			}
		}
	})
}

// removeAll deletes what made pods, and all pods, of those namespaces, and waits until the watcher
// has seen the last one go.
func (w *watcher) removeAll(namespaces []string) {
	w.Helper()
	now, background := int64(0), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}
	w.within(2*patience, "all pods are gone", func() error {
		for _, ns := range namespaces {
			for _, err := range []error{
				w.client.AppsV1().Deployments(ns).DeleteCollection(w.Context(), options, metav1.ListOptions{}),
				w.client.BatchV1().Jobs(ns).DeleteCollection(w.Context(), options, metav1.ListOptions{}),
				w.client.CoreV1().Pods(ns).DeleteCollection(w.Context(), options, metav1.ListOptions{}),
			} {
				if err != nil {
					return err
				}
			}
		}
		time.Sleep(200 * time.Millisecond)
		if n := w.holding(); n > 0 {
			return fmt.Errorf("%d pods hold GPUs", n)
		}
		return nil
	})
}
