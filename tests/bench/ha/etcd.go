package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// storedMagic begins what the API server stores as protobuf; a runtime.Unknown follows.
var storedMagic = []byte("k8s\x00")

// operationsMost is how many operations etcd takes in one transaction.
const operationsMost = 128

// etcd speaks to etcd's JSON gateway. https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/
type etcd struct{ url string }

func (e etcd) post(path string, body, answer any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	response, err := http.Post(e.url+path, "application/json", bytes.NewReader(content))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return fmt.Errorf("etcd %s answers %s: %s", path, response.Status, text)
	}
	if answer == nil {
		_, err := io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// copyPod stores n further pods like one that is there, past the API server, whose cache learns of
// them as of any other write.
func (e etcd) copyPod(namespace, name string, n int) error {
	key := "/registry/pods/" + namespace + "/"
	var found struct {
		KVs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	if err := e.post("/v3/kv/range", map[string]any{"key": []byte(key + name)}, &found); err != nil {
		return err
	}
	if len(found.KVs) != 1 {
		return fmt.Errorf("etcd has no pod %s/%s", namespace, name)
	}
	content, isProtobuf := bytes.CutPrefix(found.KVs[0].Value, storedMagic)
	var unknown runtime.Unknown
	var pod corev1.Pod
	if !isProtobuf {
		return fmt.Errorf("%s/%s is not stored as protobuf", namespace, name)
	}
	if err := unknown.Unmarshal(content); err != nil {
		return err
	}
	if err := pod.Unmarshal(unknown.Raw); err != nil {
		return err
	}
	type put struct {
		Put map[string]string `json:"request_put"`
	}
	encode := base64.StdEncoding.EncodeToString
	var puts []put
	for i := range n {
		pod.Name, pod.UID = fmt.Sprintf("copy-%06d", i), types.UID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", i))
		var err error
		if unknown.Raw, err = pod.Marshal(); err != nil {
			return err
		}
		value, err := unknown.Marshal()
		if err != nil {
			return err
		}
		puts = append(puts, put{map[string]string{"key": encode([]byte(key + pod.Name)),
			"value": encode(append(storedMagic[:len(storedMagic):len(storedMagic)], value...))}})
		if len(puts) == operationsMost || i == n-1 {
			if err := e.post("/v3/kv/txn", map[string]any{"success": puts}, nil); err != nil {
				return err
			}
			puts = nil
		}
	}
	return nil
}

// histogram of how long etcd took to sync its log: cumulative counts by upper bound.
type histogram struct{ bounds, counts []float64 }

var syncBucket = regexp.MustCompile(`(?m)^etcd_disk_wal_fsync_duration_seconds_bucket\{le="([^"]+)"\} (\S+)$`)

func (e etcd) syncs() (ret histogram, err error) {
	page, err := get(e.url + "/metrics")
	for _, match := range syncBucket.FindAllStringSubmatch(page, -1) {
		bound, _ := strconv.ParseFloat(match[1], 64)
		count, _ := strconv.ParseFloat(match[2], 64)
		ret.bounds, ret.counts = append(ret.bounds, bound), append(ret.counts, count)
	}
	if err == nil && len(ret.bounds) == 0 {
		err = fmt.Errorf("etcd shows no durations of syncs")
	}
	return ret, err
}

// quantile of what was added since, in seconds, as Prometheus works it out.
func (h histogram) quantile(since histogram, q float64) float64 {
	n := len(h.counts)
	added := func(i int) float64 { return h.counts[i] - since.counts[i] }
	wanted := q * added(n-1)
	below, from := 0.0, 0.0
	for i, bound := range h.bounds {
		if in := added(i) - below; added(i) >= wanted && in > 0 {
			if math.IsInf(bound, 1) {
				return from
			}
			return from + (bound-from)*(wanted-below)/in
		}
		below, from = added(i), bound
	}
	return math.NaN()
}

func (h histogram) total() float64 { return h.counts[len(h.counts)-1] }
