package main

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// own is what gpuquota writes for itself: the ConfigMaps of its namespace, with resourceVersions.
type own struct {
	mu      sync.Mutex
	version int
	objects map[string]map[string]any
}

func newOwn(shown *corev1.ConfigMap) *own {
	o := &own{objects: map[string]map[string]any{}}
	policy := map[string]any{}
	text, err := json.Marshal(shown)
	if err == nil {
		err = json.Unmarshal(text, &policy)
	}
	if err != nil {
		panic(err) // it is made by us
	}
	o.put("gpuquota-policy", policy)
	return o
}

// put stores the object with a version of its own. The lock is held, or nobody knows o yet.
func (o *own) put(name string, object map[string]any) {
	o.version++
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{"name": name}
		object["metadata"] = metadata
	}
	metadata["resourceVersion"] = strconv.Itoa(o.version)
	o.objects[name] = object
}

func version(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	text, _ := metadata["resourceVersion"].(string)
	return text
}

func name(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	text, _ := metadata["name"].(string)
	return text
}

func (o *own) serve(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := r.PathValue("name")
	object := map[string]any{}
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			status(w, http.StatusBadRequest, "BadRequest")
			return
		}
	}
	if r.Method == http.MethodPost {
		key = name(object)
	}
	found, ok := o.objects[key]
	switch {
	case r.Method == http.MethodPost && ok:
		status(w, http.StatusConflict, "AlreadyExists")
		return
	case r.Method != http.MethodPost && !ok:
		status(w, http.StatusNotFound, "NotFound")
		return
	case r.Method == http.MethodPut && version(object) != version(found):
		status(w, http.StatusConflict, "Conflict")
		return
	case r.Method != http.MethodGet:
		o.put(key, object)
	default:
		object = found
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object)
}
