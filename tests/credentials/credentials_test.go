package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gpuquota.io/tests/apiproxy"
	"gpuquota.io/tests/install"
	"gpuquota.io/tests/signer"
)

// remembered is how long the API server lets in a token that it has let in before.
const remembered = 10 * time.Second

// life is how long a short-lived token is good.
const life = 6 * time.Second

const (
	saysRefused  = "the API server refuses our credentials (401)"
	saysAccepted = "the API server takes our credentials again"
	saysUnusable = "the token file is of no use"
)

// mustBeQuiet checks that no request of the program was refused, and that it complained of no token.
func (p *program) mustBeQuiet() {
	p.Helper()
	for _, status := range []int{401, 403} {
		if refused := p.asked(time.Time{}, with(status)); len(refused) > 0 {
			p.Errorf("%d requests got a %d, such as %s %s", len(refused), status, refused[0].method, refused[0].path)
		}
	}
	for _, text := range []string{saysRefused, saysUnusable, "Unauthorized", "no token"} {
		if lines := p.logLines(text); len(lines) > 0 {
			p.Errorf("the log has %q", lines)
		}
	}
}

// refuses says whether the API server refuses a token by now.
func refuses(token string) error {
	config := rest.AnonymousClientConfig(cluster.Admin())
	config.BearerToken = token
	who, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err = who.CoreV1().Namespaces().Get(context.Background(), "default", metav1.GetOptions{}); apierrors.IsUnauthorized(err) {
		return nil
	}
	return fmt.Errorf("want a 401, have: %v", err)
}

// watches is how many collections the program watches.
const watches = 6

func isWatch(s seen) bool { return s.watch }

// cutWatches breaks all watches off and says when.
func (p *program) cutWatches() time.Time {
	begin := time.Now()
	p.proxy.Cut(apiproxy.Watches)
	return begin
}

// waitWatches waits until all watches are there again, with that token.
func (p *program) waitWatches(limit time.Duration, since time.Time, token string) {
	p.Helper()
	p.within(limit, "every watch is back", func() error {
		good := p.asked(since, func(s seen) bool { return s.watch && s.status == 200 && s.token == token })
		if live := p.proxy.Live(apiproxy.Watches); len(good) < watches || live < watches {
			return fmt.Errorf("%d have come, %d go on", len(good), live)
		}
		return nil
	})
}

// lastToken is the one that the program's last request showed.
func (p *program) lastToken() string {
	all := p.asked(time.Time{}, func(seen) bool { return true })
	return all[len(all)-1].token
}

func (p *program) waitToken(token string) {
	p.Helper()
	p.eventually("the new token is shown", func() error {
		if p.lastToken() != token {
			return errors.New("the last request showed another")
		}
		return nil
	})
}

// journalVersion changes with each write of the journal.
func (p *program) journalVersion() string {
	p.Helper()
	journal, err := client.CoreV1().ConfigMaps(p.namespace).Get(p.Context(), "gpuquota-journal", metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return journal.ResourceVersion
}

// Tokens are signed outside the API server, by keys that come and go.
func TestSigner(t *testing.T) {
	t.Parallel()
	p := start(t)
	if signing.Signed() == 0 {
		t.Fatal("nobody has asked the signer")
	}
	journal := p.journalVersion()
	end := p.creating()
	for range 2 {
		if err := signing.Rotate(); err != nil {
			t.Fatal(err)
		}
		token := p.requestToken()
		if _, id, err := signer.Read(token); err != nil || id != signing.SignsBy() {
			t.Fatalf("signed by %q, want %q (%v)", id, signing.SignsBy(), err)
		}
		p.writeToken(token)
		p.waitToken(token)
		time.Sleep(300 * time.Millisecond) // some pods by this key
	}
	if n := end(); n < 5 {
		t.Errorf("only %d pods", n)
	}
	if p.journalVersion() == journal {
		t.Error("the journal was not written")
	}
	p.mustBeQuiet()
}

// Tokens live for seconds and are replaced in time, as a kubelet does it.
func TestShortLived(t *testing.T) {
	t.Parallel()
	p := start(t)
	first := p.expiring(life)
	p.writeToken(first)
	p.waitWatches(patience, p.cutWatches(), first)
	begin := time.Now()
	end := p.creating()
	var last string
	for refuses(first) != nil || time.Since(begin) < remembered {
		last = p.expiring(life)
		p.writeToken(last)
		time.Sleep(2 * time.Second)
	}
	if len(p.asked(begin, isWatch)) > 0 || p.proxy.Live(apiproxy.Watches) < watches {
		t.Errorf("the API server has ended watches whose token ended")
	}
	t.Logf("watches go on %.1f s after the end of their token", (time.Since(begin) - life).Seconds())
	last = p.expiring(time.Minute)
	p.writeToken(last)
	t.Logf("%d pods", end()) // before pods come and go unseen
	p.waitWatches(patience, p.cutWatches(), last)
	if refused := p.asked(time.Time{}, with(401)); len(refused) > 0 {
		t.Errorf("%d requests were refused, such as %s %s", len(refused), refused[0].method, refused[0].path)
	}
}

// The account is deleted and made anew: no token of the old one is good any more.
func TestRevoked(t *testing.T) {
	t.Parallel()
	p := start(t)
	accounts := client.CoreV1().ServiceAccounts(p.namespace)
	if err := accounts.Delete(t.Context(), install.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.apply(func(object runtime.Object) bool { _, ok := object.(*corev1.ServiceAccount); return ok })
	p.waitLog(" error ", saysRefused, "credentials=token", "file="+p.tokenFile(), "do=")
	begin := p.cutWatches()
	p.eventually("pods with GPUs are refused for now", func() error {
		err := p.create()
		if err == nil {
			return errors.New("one was allowed")
		}
		if text := err.Error(); !strings.Contains(text, `"`+quotaEntry+`"`) {
			return fmt.Errorf("not by us: %w", err)
		}
		return nil
	})
	p.eventually("every watch has failed three times", func() error {
		failed := map[string]int{}
		for _, request := range p.asked(time.Time{}, func(s seen) bool { return s.status == 401 && s.method == "GET" }) {
			failed[request.path]++
		}
		for _, path := range []string{"/api/v1/pods", "/api/v1/nodes", "/api/v1/namespaces"} {
			if failed[path] < 3 {
				return fmt.Errorf("%v", failed)
			}
		}
		return nil
	})
	// By now every pause has grown.
	window := 5 * time.Second
	time.Sleep(max(0, window-time.Since(begin)))
	if refused := len(p.asked(time.Now().Add(-window), with(401))); refused > 20 {
		t.Errorf("%d requests in %v, though all are refused", refused, window)
	} else {
		t.Logf("%d requests in %v", refused, window)
	}
	if lines := p.logLines(saysRefused); len(lines) != 1 {
		t.Errorf("it is told %d times", len(lines))
	}

	token := p.requestToken()
	p.writeToken(token)
	given := time.Now()
	p.waitWatches(4*time.Second, given, token) // sooner than after the pause that the refusals led to
	p.eventually("pods are allowed again", p.create)
	t.Logf("recovered after %.1f s", time.Since(given).Seconds())
	p.waitLog(" info ", saysAccepted)
	if refused := p.asked(given.Add(100*time.Millisecond), with(401)); len(refused) > 0 {
		t.Errorf("the refused token was shown again")
	}
	if other := p.logLines(" warn ", "Unauthorized"); len(other) > 12 {
		t.Errorf("besides the one line there are %d:\n%s", len(other), strings.Join(other, ""))
	}
}

// Rights are taken and given back.
func TestRights(t *testing.T) {
	t.Parallel()
	p := start(t)
	bindings := client.RbacV1().RoleBindings(p.namespace)
	if err := bindings.Delete(t.Context(), install.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	all := client.RbacV1().ClusterRoleBindings()
	if err := all.Delete(t.Context(), install.Name+"-"+p.id, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.cutWatches()
	created := make(chan error, 1)
	go func() { created <- p.create() }()
	p.waitLog(" warn ", `cannot watch resource \"`)
	p.waitLog(" warn ", `cannot update resource \"configmaps\"`, "gpuquota-journal")
	p.waitLog(" warn ", `cannot update resource \"leases\"`)
	if lines := p.logLines(saysRefused); len(lines) > 0 {
		t.Errorf("a 403 is no 401: %q", lines)
	}
	given := time.Now()
	p.apply(func(object runtime.Object) bool {
		switch object.(type) {
		case *rbacv1.RoleBinding, *rbacv1.ClusterRoleBinding:
			return true
		}
		return false
	})
	// Either it has waited for that, or nobody was told anything but that we could not decide.
	if err := <-created; err != nil && !strings.Contains(err.Error(), `"`+quotaEntry+`"`) {
		t.Errorf("a pod that was created meanwhile: %v", err)
	}
	p.eventually("pods are allowed again", p.create)
	p.waitWatches(patience, given, p.lastToken())
	t.Logf("recovered after %.1f s", time.Since(given).Seconds())
}

// The token file is gone, or empty, for a while.
func TestUnusable(t *testing.T) {
	t.Parallel()
	p := start(t)
	token := p.lastToken()
	end := p.creating()
	for i, spoil := range []func() error{
		func() error { return os.WriteFile(p.tokenFile(), nil, 0o600) },
		func() error { return os.Remove(p.tokenFile()) },
	} {
		begin := time.Now()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		p.eventually("the log says so", func() error {
			if len(p.logLines(saysUnusable, "problem=", p.tokenFile(), "the last token that was in it serves")) == i {
				return errors.New("no new line")
			}
			return nil
		})
		time.Sleep(time.Second)
		if n := len(p.logLines(saysUnusable)); n != i+1 {
			t.Errorf("it was told %d times", n-i)
		}
		if asked := p.asked(begin, func(s seen) bool { return s.token == token && s.status < 300 }); len(asked) == 0 {
			t.Error("the last token was not shown")
		}
		if err := os.Remove(p.tokenFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		p.turn = 0
		if err := errors.Join(os.Remove(p.dir+"/..data"), os.RemoveAll(p.dir+"/..version-1")); err != nil {
			t.Fatal(err)
		}
		token = p.requestToken()
		p.writeToken(token)
		p.waitToken(token)
		p.eventually("the log says that it is over", func() error {
			if n := len(p.logLines(" info ", "the token file is of use again")); n != i+1 {
				return fmt.Errorf("%d times", n)
			}
			return nil
		})
	}
	end()
	if refused := p.asked(time.Time{}, with(401)); len(refused) > 0 {
		t.Errorf("%d requests were refused", len(refused))
	}
}

// The old key is trusted no more, after the program has got a token of the new one.
func TestForgottenKey(t *testing.T) {
	// Not beside the others: it is their key, too.
	p := start(t)
	// The API server remembers those that it has let in, so none is used twice.
	var old []string
	for range 100 {
		old = append(old, p.expiring(10*time.Minute))
	}
	end := p.creating()
	if err := signing.Rotate(); err != nil {
		t.Fatal(err)
	}
	token := p.requestToken()
	p.writeToken(token)
	p.waitToken(token)
	signing.Forget()
	p.eventually("the old key is forgotten", func() error {
		time.Sleep(100 * time.Millisecond)
		token := old[0]
		old = old[1:]
		return refuses(token)
	})
	time.Sleep(time.Second) // some pods by the new key alone
	t.Logf("%d pods", end())
	p.mustBeQuiet()
}
