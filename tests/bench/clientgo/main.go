// The clientgo program is what a controller in Go does for its pods: a shared informer of client-go.
// Prints as JSON how long its first list took and what memory the process has then.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gpuquota.io/tests/bench/process"
)

// strip keeps what gpuquota reads: what a controller that minds its memory would do.
func strip(object any) (any, error) {
	if pod, ok := object.(*corev1.Pod); ok {
		pod.ManagedFields, pod.Annotations, pod.Labels = nil, nil, nil
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase}
		pod.Spec.Volumes = nil
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			*c = corev1.Container{Name: c.Name, Resources: c.Resources}
		}
	}
	return object, nil
}

func main() {
	server := flag.String("server", "", "https://…")
	ca := flag.String("ca", "", "certificate authority")
	trim := flag.Bool("strip", false, "drop from each pod what gpuquota does not read")
	flag.Parse()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: *server,
		TLSClientConfig: rest.TLSClientConfig{CAFile: *ca, NextProtos: []string{"http/1.1"}}, QPS: -1})
	if err != nil {
		log.Fatal(err)
	}
	begin := time.Now()
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	if *trim {
		if err := informer.SetTransform(strip); err != nil {
			log.Fatal(err)
		}
	}
	stop := make(chan struct{})
	factory.Start(stop)
	for !informer.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	took := time.Since(begin)
	cpu, err := process.CPU(os.Getpid())
	if err != nil {
		log.Fatal(err)
	}
	time.Sleep(5 * time.Second) // the garbage collector gets its chance
	memory, err := process.Memory(os.Getpid())
	if err != nil {
		log.Fatal(err)
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"pods": len(informer.GetStore().ListKeys()),
		"sync_ms": took.Milliseconds(), "cpu_ms": cpu.Milliseconds(),
		"rss_kib": memory.ResidentKiB, "peak_kib": memory.PeakKiB})
}
