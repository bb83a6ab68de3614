package bundle

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/websocket"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
)

// planted is an API server whose objects, answers, logs and databases all have secrets in them.
type planted struct {
	*httptest.Server
	t *testing.T
	// secrets are what was planted, by where.
	secrets map[string]string
	// forbidden are parts of paths that the user may not read.
	forbidden []string
	// asked are the paths that were asked for.
	asked []string
}

// token makes a secret that is nowhere else.
func (p *planted) token(where string) string {
	text := fmt.Sprintf("PLANTED%03dQ", len(p.secrets))
	p.secrets[where] = text
	return text
}

const key = "-----BEGIN RSA PRIVATE KEY-----\n%s\nMIIEow==\n-----END RSA PRIVATE KEY-----\n"

// object is one of a kind, with secrets wherever people put them.
func (p *planted) object(kind, namespace, name string) map[string]any {
	in := func(where string) string { return p.token(kind + ": " + where) }
	return map[string]any{
		"kind": kind, "apiVersion": "v1",
		"metadata": map[string]any{
			"name": name, "namespace": namespace, "labels": map[string]any{"app": "web"},
			"annotations": map[string]any{
				"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"x":"` + in("last applied") + `"}}`,
				"example.com/anything":                             in("an annotation"),
				"atoll.dev/nics":                                   `[{"ip":"10.0.0.7","note":"token=` + in("a token in ours") + `"}]`,
			},
			"managedFields": []any{map[string]any{"manager": in("managed fields")}},
		},
		"data":    map[string]any{"plain": in("data")},
		"message": "refused: Authorization: Bearer " + in("a header in words") + "AAAA; see https://jo:" + in("a URL") + "@db.example.com/x",
		"note":    "eyJhbGciOiJSUzI1NiJ9." + in("a web token") + ".c2ln",
		"spec": map[string]any{
			"password": in("a key"), "adminToken": []any{in("a list")}, "pem": fmt.Sprintf(key, in("a private key")),
			"encoded": "LS0tLS1CRUdJTi" + in("an encoded key"),
			"containers": []any{map[string]any{
				"env": []any{
					map[string]any{"name": "DSN", "value": in("a variable")}, map[string]any{
						"name": "X", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "kept-name"}},
					},
				},
				"args":    []any{"--listen=:80", "--token", in("the word after a flag"), "--api-key=" + in("a flag")},
				"command": []any{"sh", "-c", "run --password " + in("a flag in a script") + " && export SECRET_X=" + in("a variable in a script")},
				"livenessProbe": map[string]any{"httpGet": map[string]any{
					"path": "/healthz", "httpHeaders": []any{map[string]any{"name": "Cookie", "value": in("a header")}},
				}},
			}},
		},
	}
}

func newPlanted(t *testing.T) *planted {
	t.Helper()
	p := &planted{t: t, secrets: map[string]string{}}
	answers := map[string]any{}
	list := func(path string, objects ...map[string]any) {
		of := path[strings.LastIndex(path, "/")+1:]
		answers[path] = map[string]any{
			"kind": map[string]string{"namespaces": "Namespace", "pods": "Pod"}[of] + "List", "apiVersion": "v1", "metadata": map[string]any{},
			"items": objects,
		}
	}
	for _, k := range kinds() {
		path := "/apis/" + k.Group + "/" + k.Version + "/" + k.Resource
		if k.Group == "" {
			path = "/api/" + k.Version + "/" + k.Resource
		}
		list(path, p.object(k.Resource, "red", "one"))
		if k.spaced {
			list(strings.Replace(path, "/"+k.Resource, "/namespaces/one/"+k.Resource, 1), p.object(k.Resource+" of one", "one", "two"))
		}
	}
	event, other := p.object("Event", "red", "one.1"), p.object("Foreign", "red", "foreign")
	event["source"] = map[string]any{"component": "atoll-controller"}
	other["metadata"].(map[string]any)["name"] = "somebody-elses-event"
	list("/api/v1/events", event, other)
	list("/api/v1/namespaces/one/events", event)
	pod := p.object("Pod", "atoll-system", "atoll-agent-x")
	pod["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["name"] = "agent"
	pod["status"] = map[string]any{"containerStatuses": []any{map[string]any{"name": "agent", "restartCount": 1}}}
	list("/api/v1/namespaces/atoll-system/pods", pod)
	for _, resource := range []string{"networks", "ipams", "ipamchecks", "topologies", "pods"} {
		answer := map[string]any{
			"metadata": map[string]any{"name": "one", "annotations": map[string]any{"example.com/x": p.token("answer " + resource)}},
		}
		answers["/apis/inspect.atoll.dev/v1alpha1/"+resource] = map[string]any{"items": []any{answer}}
	}
	answers["/apis/inspect.atoll.dev/v1alpha1/networks/one"] = map[string]any{
		"metadata": map[string]any{"name": "one"}, "status": map[string]any{
			"message": "password=" + p.token("details"), "detail": map[string]any{"namespaces": []any{"one"}},
		},
	}
	answers["/apis/inspect.atoll.dev/v1alpha1/namespaces/one/pods"] = map[string]any{
		"items": []any{map[string]any{"metadata": map[string]any{"name": "mine"}}},
	}
	answers["/apis/inspect.atoll.dev/v1alpha1/clusters/cluster"] = map[string]any{
		"metadata": map[string]any{"name": "cluster", "annotations": map[string]any{"example.com/x": p.token("status")}},
	}
	answers["/version"] = map[string]any{"gitVersion": "v1.36.2", "major": "1", "minor": "36"}
	log := "2026-01-01T00:00:00Z it begins\n2026-01-01T00:00:01Z password=" + p.token("a log") + "\n2026-01-01T00:00:02Z {\"token\":\"" +
		p.token("JSON in a log") + "\"}\n" +
		strings.ReplaceAll(fmt.Sprintf(key, p.token("a key in a log")), "\n", "\n2026-01-01T00:00:03Z ") + "it ends\n"
	previous := "2026-01-01T00:00:00Z " + p.token("the rest of a key in a log") +
		"\n-----END PRIVATE KEY-----\n2026-01-01T00:00:01Z before the restart, curl -H 'Authorization: Basic " + p.token("a header in a log") +
		"=='\n"
	rows := map[string]any{"_uuid": []any{"uuid", "u"}, "name": "red/front", "options": []any{"map", []any{
		[]any{"password", p.token("a row")}, []any{"note", "token=" + p.token("a note in a row")}, []any{"requested-chassis", "n1"},
	}}}
	p.Server = httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, answers, log, previous, rows) }))
	t.Cleanup(p.Close)
	return p
}

func (p *planted) serve(w http.ResponseWriter, r *http.Request, answers map[string]any, log, previous string, row map[string]any) {
	p.asked = append(p.asked, r.URL.Path)
	for _, part := range p.forbidden {
		if strings.HasPrefix(r.URL.Path, part) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w,
				`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"`+r.URL.Path+
					` is forbidden","details":{"name":"x"}}`)
			return
		}
	}
	switch answer, there := answers[r.URL.Path]; {
	case strings.HasSuffix(r.URL.Path, "/proxy"):
		websocket.Server{Handshake: func(
			c *websocket.Config, _ *http.Request,
		) error {
			c.Protocol = []string{api.ProxyProtocol}
			return nil
		}, Handler: func(ws *websocket.Conn) {
			ws.PayloadType = websocket.BinaryFrame
			database(ws, row)
		}}.ServeHTTP(w, r)
	case strings.HasSuffix(r.URL.Path, "/log") && r.URL.Query().Get("previous") == "true":
		_, _ = io.WriteString(w, previous)
	case strings.HasSuffix(r.URL.Path, "/log"):
		_, _ = io.WriteString(w, log)
	case !there:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			p.t.Error(err)
		}
	}
}

// database is a server with one table.
func database(on io.ReadWriter, row map[string]any) {
	questions, answers := json.NewDecoder(on), json.NewEncoder(on)
	for {
		var q struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
		}
		if questions.Decode(&q) != nil {
			return
		}
		var result any = map[string]any{"tables": map[string]any{"Logical_Switch": map[string]any{}, "Logical_Flow": map[string]any{}}}
		if q.Method == "transact" {
			result = []any{map[string]any{"rows": []any{row}}}
		}
		// A server asks whether the client is still there.
		_ = answers.Encode(map[string]any{"id": "echo", "method": "echo", "params": []any{}})
		if answers.Encode(map[string]any{"id": q.ID, "result": result, "error": nil}) != nil {
			return
		}
	}
}

func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text :=
		`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"` + server + `"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
