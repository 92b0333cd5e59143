package faults

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// etcd speaks to etcd's JSON gateway: what the API server stored, in the order in which it did,
// whether it is up or not. https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/
type etcd struct{ url string }

func (e etcd) post(ctx context.Context, path string, body any) (*http.Response, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		response.Body.Close()
		return nil, fmt.Errorf("etcd %s answers %s: %s", path, response.Status, text)
	}
	return response, nil
}

// etcdEvent is one change of one key.
type etcdEvent struct {
	Type string `json:"type"` // empty: PUT
	KV   struct {
		Key      []byte `json:"key"`
		Value    []byte `json:"value"`
		Revision string `json:"mod_revision"`
	} `json:"kv"`
}

// watch calls f for every change under a prefix since the given revision, until the context ends.
func (e etcd) watch(ctx context.Context, prefix string, revision int64, f func(etcdEvent) error) error {
	end := []byte(prefix)
	end[len(end)-1]++
	response, err := e.post(ctx, "/v3/watch", map[string]any{"create_request": map[string]any{
		"key":            base64.StdEncoding.EncodeToString([]byte(prefix)),
		"range_end":      base64.StdEncoding.EncodeToString(end),
		"start_revision": strconv.FormatInt(revision, 10),
	}})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	decoder := json.NewDecoder(response.Body)
	for {
		var message struct {
			Result struct {
				Canceled bool        `json:"canceled"`
				Reason   string      `json:"cancel_reason"`
				Events   []etcdEvent `json:"events"`
			} `json:"result"`
			Error json.RawMessage `json:"error"`
		}
		if err := decoder.Decode(&message); err != nil {
			return err
		}
		if message.Result.Canceled || message.Error != nil {
			return fmt.Errorf("etcd ended the watch: %s %s", message.Result.Reason, message.Error)
		}
		for _, event := range message.Result.Events {
			if err := f(event); err != nil {
				return err
			}
		}
	}
}

// size gives the size of the database file and what of it is in use.
func (e etcd) size(ctx context.Context) (bytes, inUse int64, err error) {
	response, err := e.post(ctx, "/v3/maintenance/status", struct{}{})
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	var status struct {
		Size  string `json:"dbSize"`
		InUse string `json:"dbSizeInUse"`
	}
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return 0, 0, err
	}
	if bytes, err = strconv.ParseInt(status.Size, 10, 64); err != nil {
		return 0, 0, err
	}
	inUse, err = strconv.ParseInt(status.InUse, 10, 64)
	return bytes, inUse, err
}

// storedMagic begins what the API server stores as protobuf; a runtime.Unknown follows.
var storedMagic = []byte("k8s\x00")

func decodeStoredPod(value []byte) (*corev1.Pod, error) {
	content, found := bytes.CutPrefix(value, storedMagic)
	if !found {
		return nil, fmt.Errorf("not stored as protobuf: %.16q", value)
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(content); err != nil {
		return nil, err
	}
	var pod corev1.Pod
	if err := pod.Unmarshal(unknown.Raw); err != nil {
		return nil, err
	}
	return &pod, nil
}
