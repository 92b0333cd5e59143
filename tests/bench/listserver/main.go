// The listserver answers the lists and watches of gpuquota over HTTPS on loopback as an API server
// would, from text that it has ready before it listens, so that it is hardly ever what one waits
// for. Its watches never end. POST /bench/events (lines of "A NAMESPACE/NAME OBJECT" or
// "D NAMESPACE/NAME OBJECT", divided by tabs) adds and deletes pods.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gpuquota.io/tests/bench/objects"
)

const (
	bufferBytes = 1 << 20
	batchesKept = 4096
	bookmarks   = 30 * time.Second
)

// collection is a list of objects that never changes, and what happened since.
type collection struct {
	kind   string
	items  []byte // one behind the other, each without kind and apiVersion
	ends   []int
	mu     sync.Mutex
	first  int // number of batches[0]
	events [][]byte
	grown  chan struct{} // closed when events grow
	live   map[string][]byte
	// encode, when not nil, makes the text of item i anew, each time, as an API server does.
	encode func(i int) []byte
}

func newCollection(kind string) *collection {
	return &collection{kind: kind, grown: make(chan struct{}), live: map[string][]byte{}}
}

func (c *collection) add(object any) {
	text, err := json.Marshal(object)
	if err != nil {
		log.Fatal(err)
	}
	c.items = append(c.items, text...)
	c.ends = append(c.ends, len(c.items))
}

func (c *collection) item(i int) []byte {
	if c.encode != nil {
		return c.encode(i)
	}
	begin := 0
	if i > 0 {
		begin = c.ends[i-1]
	}
	return c.items[begin:c.ends[i]]
}

// The resourceVersion of the collection counts its batches of events, from a base.
const versionBase = 500000000

func (c *collection) version() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return versionBase + c.first + len(c.events)
}

func (c *collection) publish(batch []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, batch)
	if len(c.events) > batchesKept {
		drop := len(c.events) - batchesKept
		c.events = append([][]byte(nil), c.events[drop:]...)
		c.first += drop
	}
	close(c.grown)
	c.grown = make(chan struct{})
}

// since returns the events behind version, or a channel to wait on when there are none.
func (c *collection) since(version int) (batches [][]byte, grown chan struct{}, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := version - versionBase - c.first
	if at < 0 || at > len(c.events) {
		return nil, nil, false
	}
	return c.events[at:], c.grown, true
}

func status(w http.ResponseWriter, code int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`,
		reason, reason, code)
}

func (c *collection) list(w http.ResponseWriter, r *http.Request) {
	begin, _ := strconv.Atoi(r.FormValue("continue"))
	end := len(c.ends)
	if limit, _ := strconv.Atoi(r.FormValue("limit")); limit > 0 && begin+limit < end {
		end = begin + limit
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, bufferBytes)
	defer out.Flush()
	fmt.Fprintf(out, `{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"%d"`, c.kind, c.version())
	if end < len(c.ends) {
		fmt.Fprintf(out, `,"continue":"%d","remainingItemCount":%d`, end, len(c.ends)-end)
	}
	out.WriteString(`},"items":[`)
	for i := begin; i < end; i++ {
		if i > begin {
			out.WriteByte(',')
		}
		out.Write(c.item(i))
	}
	out.WriteString("]}\n")
}

func (c *collection) bookmark(out io.Writer, version int, marker string) {
	fmt.Fprintf(out, `{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":"%d"%s}}}`+"\n",
		c.kind, version, marker)
}

func (c *collection) watch(w http.ResponseWriter, r *http.Request) {
	version, err := strconv.Atoi(r.FormValue("resourceVersion"))
	stream := r.FormValue("sendInitialEvents") == "true"
	if stream || err != nil {
		version = c.version()
	}
	if _, _, ok := c.since(version); !ok {
		status(w, http.StatusGone, "Expired")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, bufferBytes)
	flush := func() {
		out.Flush()
		w.(http.Flusher).Flush()
	}
	if stream {
		head := fmt.Sprintf(`{"type":"ADDED","object":{"kind":%q,"apiVersion":"v1",`, c.kind)
		for i := range c.ends {
			out.WriteString(head)
			out.Write(c.item(i)[1:])
			out.WriteString("}\n")
		}
		c.bookmark(out, version, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
	}
	flush()
	if r.Header.Get("Bench-Close") != "" { // so that curl ends
		return
	}
	tick := time.NewTicker(bookmarks)
	defer tick.Stop()
	for {
		batches, grown, ok := c.since(version)
		if !ok {
			return
		}
		for _, batch := range batches {
			out.Write(batch)
		}
		version += len(batches)
		flush()
		if len(batches) > 0 {
			continue
		}
		select {
		case <-grown:
		case <-tick.C:
			c.bookmark(out, version, "")
			flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (c *collection) serve(w http.ResponseWriter, r *http.Request) {
	if watch := r.FormValue("watch"); watch == "1" || watch == "true" {
		c.watch(w, r)
	} else {
		c.list(w, r)
	}
}

func (c *collection) get(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	object := c.live[r.PathValue("namespace")+"/"+r.PathValue("name")]
	c.mu.Unlock()
	if object == nil {
		status(w, http.StatusNotFound, "NotFound")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(object)
}

// change reads the lines of POST /bench/events.
func (c *collection) change(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		status(w, http.StatusBadRequest, "BadRequest")
		return
	}
	batch := make([]byte, 0, len(text)+len(text)/16)
	for line := range bytes.Lines(text) {
		fields := bytes.SplitN(bytes.TrimSuffix(line, []byte("\n")), []byte("\t"), 3)
		if len(fields) != 3 {
			status(w, http.StatusBadRequest, "BadRequest")
			return
		}
		key, kind := string(fields[1]), "ADDED"
		c.mu.Lock()
		if fields[0][0] == 'A' {
			c.live[key] = fields[2]
		} else {
			kind = "DELETED"
			delete(c.live, key)
		}
		c.mu.Unlock()
		batch = append(batch, `{"type":"`...)
		batch = append(batch, kind...)
		batch = append(batch, `","object":`...)
		batch = append(batch, fields[2]...)
		batch = append(batch, "}\n"...)
	}
	c.publish(batch)
}

// podValues: the node is of the product that the pod's selector asks for, every fourth.
func podValues(i, nodes int) *objects.Values {
	return &objects.Values{Name: fmt.Sprintf("bench-%08d", i), UID: objects.UID("a", uint64(i)),
		Team: objects.Team(i), Version: fmt.Sprintf("%09d", 100000000+i),
		Node: fmt.Sprintf("node-%04d", i*4%max(nodes, 1))}
}

func pods(n, gpuEvery, nodes int) *collection {
	c := newCollection("Pod")
	gpu, other := objects.NewTemplate(objects.ListedPod(true)), objects.NewTemplate(objects.ListedPod(false))
	c.items = make([]byte, 0, n*max(gpu.Size(), other.Size()))
	for i := range n {
		template := other
		if i%gpuEvery == 0 {
			template = gpu
		}
		c.items = template.Append(c.items, podValues(i, nodes))
		c.ends = append(c.ends, len(c.items))
	}
	return c
}

func encoder(gpuEvery, nodes int) func(i int) []byte {
	gpu, other := objects.ListedPod(true), objects.ListedPod(false)
	return func(i int) []byte {
		pod := *other
		if i%gpuEvery == 0 {
			pod = *gpu
		}
		values := podValues(i, nodes)
		pod.Name, pod.UID, pod.Namespace = values.Name, types.UID(values.UID), values.Team
		pod.ResourceVersion, pod.Spec.NodeName = values.Version, values.Node
		text, err := json.Marshal(&pod)
		if err != nil {
			log.Fatal(err)
		}
		return text
	}
}

func main() {
	var (
		cert     = flag.String("cert", "", "certificate file")
		key      = flag.String("key", "", "key file")
		nPods    = flag.Int("pods", 0, "pods")
		gpuEvery = flag.Int("gpu-every", 1, "every how many-th pod asks for a GPU")
		nNodes   = flag.Int("nodes", 100, "nodes")
		stream   = flag.Bool("watch-list", true, "know sendInitialEvents")
		rules    = flag.Bool("rules", false, "a policy with every rule")
		encode   = flag.Bool("encode", false, "encode each pod each time, as an API server does")
	)
	flag.Parse()
	all := pods(*nPods, *gpuEvery, *nNodes)
	if *encode {
		all.encode = encoder(*gpuEvery, *nNodes)
	}
	nodes, namespaces, maps := newCollection("Node"), newCollection("Namespace"), newCollection("ConfigMap")
	for i := range *nNodes {
		nodes.add(objects.Node(i))
	}
	for _, namespace := range objects.Namespaces() {
		namespaces.add(namespace)
	}
	policy := objects.Policy(*rules)
	maps.add(policy)

	mux := http.NewServeMux()
	for path, c := range map[string]*collection{"/api/v1/pods": all, "/api/v1/nodes": nodes,
		"/api/v1/namespaces": namespaces, "/api/v1/namespaces/gpuquota-system/configmaps": maps} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if !*stream && r.FormValue("sendInitialEvents") != "" {
				status(w, http.StatusUnprocessableEntity, "Invalid")
				return
			}
			c.serve(w, r)
		})
	}
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods/{name}", all.get)
	mux.HandleFunc("POST /bench/events", all.change)
	const configMaps = "/api/v1/namespaces/gpuquota-system/configmaps"
	kept := newOwn(policy)
	mux.HandleFunc("POST "+configMaps, kept.serve)
	for _, method := range []string{"GET ", "PUT ", "PATCH "} {
		mux.HandleFunc(method+configMaps+"/{name}", kept.serve)
	}
	// Events, and the mark on a pod that is not there.
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { status(w, http.StatusNotFound, "NotFound") })

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s bytes=%d pods=%d\n", strings.TrimPrefix(listener.Addr().String(), "127.0.0.1:"), len(all.items), *nPods)
	server := &http.Server{Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	log.Fatal(server.ServeTLS(listener, *cert, *key))
}
