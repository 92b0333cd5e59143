package faults

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	delayedLabel = "faults.gpuquota.io/delayed"
	refusal      = "refused by the test after gpuquota was asked"
)

// slowStore is a validating webhook that answers late about some pods. The API server asks all
// webhooks at once and stores a pod when the last has answered, so those pods are stored long after
// gpuquota allowed them.
type slowStore struct {
	mu      sync.Mutex
	rand    *rand.Rand
	share   float64 // of the creates that wait
	most    time.Duration
	refuse  float64 // of the creates that are refused in the end
	held    map[types.UID]heldPod
	late    int
	refused int
}

type heldPod struct {
	arrived, until time.Time
	refused        bool
}

func (w *world) startSlowStore(seed uint64) *slowStore {
	w.Helper()
	s := &slowStore{rand: newRand(seed, 1), held: map[types.UID]heldPod{}}
	pair, err := w.webhookCA.Server("slow-store", bridgeAddress)
	if err != nil {
		w.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		w.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(bridgeAddress, "0"))
	if err != nil {
		w.Fatal(err)
	}
	server := &http.Server{Handler: s, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
		ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	w.Cleanup(func() { _ = server.Close() })

	url := "https://" + listener.Addr().String()
	fail, none, seconds := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(10)
	_, err = w.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(w.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "slow-store"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name:                    "store.faults.gpuquota.io",
				AdmissionReviewVersions: []string{"v1"},
				ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: w.webhookCA.PEM},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"pods"}},
				}},
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{delayedLabel: "true"}},
				FailurePolicy:     &fail,
				SideEffects:       &none,
				TimeoutSeconds:    &seconds,
			}},
		}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// set says which share of the creates waits for how long at most, and which is refused.
func (s *slowStore) set(share float64, most time.Duration, refuse float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share, s.most, s.refuse = share, most, refuse
}

func (s *slowStore) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	var pod metav1.PartialObjectMetadata
	err := json.NewDecoder(io.LimitReader(request.Body, 1<<20)).Decode(&review)
	if err != nil || review.Request == nil || json.Unmarshal(review.Request.Object.Raw, &pod) != nil {
		http.Error(writer, "not a review of a pod", http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if s.hold(request, pod.UID) {
		review.Response.Allowed = false
		review.Response.Result = &metav1.Status{Code: http.StatusForbidden, Message: refusal}
	}
	review.Request = nil
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(&review)
}

// hold waits as long as that pod has to and says whether it is refused then.
func (s *slowStore) hold(request *http.Request, uid types.UID) (refused bool) {
	s.mu.Lock()
	now := time.Now()
	pod := heldPod{arrived: now, until: now, refused: s.rand.Float64() < s.refuse}
	if s.most > 0 && (pod.refused || s.rand.Float64() < s.share) {
		pod.until = now.Add(time.Duration(s.rand.Int64N(int64(s.most))))
		s.held[uid] = pod
		s.late++
	}
	s.mu.Unlock()
	if pod.until.After(now) {
		select {
		case <-time.After(pod.until.Sub(now)):
		case <-request.Context().Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, uid)
	if pod.refused {
		s.refused++
	}
	return pod.refused
}

// waiting gives the pods that were asked about at least so long ago and are stored between so soon
// and so late from now.
func (s *slowStore) waiting(age, soon, late time.Duration) (uids []types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for uid, pod := range s.held {
		left := pod.until.Sub(now)
		if !pod.refused && now.Sub(pod.arrived) >= age && left >= soon && left <= late {
			uids = append(uids, uid)
		}
	}
	return uids
}
