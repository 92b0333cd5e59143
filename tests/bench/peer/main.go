// The peer is the webhook that people write today: net/http, AdmissionReview and Pod from
// k8s.io/api, and a cap on the GPUs of one pod. It knows nothing of other pods.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	maxBody = 8 << 20
	maxGPUs = 8
)

func gpus(pod *corev1.Pod) int64 {
	var sum, largest int64
	for i := range pod.Spec.Containers {
		sum += pod.Spec.Containers[i].Resources.Limits.Name("nvidia.com/gpu", "").Value()
	}
	for i := range pod.Spec.InitContainers {
		largest = max(largest, pod.Spec.InitContainers[i].Resources.Limits.Name("nvidia.com/gpu", "").Value())
	}
	return max(sum, largest)
}

func decide(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	var pod corev1.Pod
	if err := json.Unmarshal(request.Object.Raw, &pod); err != nil {
		response.Allowed = false
		response.Result = &metav1.Status{Code: http.StatusBadRequest, Message: err.Error()}
	} else if n := gpus(&pod); n > maxGPUs {
		response.Allowed = false
		response.Result = &metav1.Status{Code: http.StatusForbidden,
			Message: fmt.Sprintf("a pod may ask for %d GPUs, not %d", maxGPUs, n)}
	}
	return response
}

func validate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	answer, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: decide(review.Request)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(answer)
}

func main() {
	cert := flag.String("cert", "", "certificate file")
	key := flag.String("key", "", "key file")
	flag.Parse()
	http.HandleFunc("POST /validate", validate)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.TrimPrefix(listener.Addr().String(), "127.0.0.1:"))
	log.Fatal(http.ServeTLS(listener, nil, *cert, *key))
}
