package client

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/inspect/flows"
)

// TestWhoFollowsGoesOn: who follows does not notice that an answer ends which has lasted as long as one may: the next one has
// what came meanwhile, and nothing of it is told twice. The control is an end for another reason, which is told.
func TestWhoFollowsGoesOn(t *testing.T) {
	t.Parallel()
	line := func(l api.FlowLine) string {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	flow := func(port uint16, name string) string {
		return line(api.FlowLine{Flow: &api.Flow{Network: "red", Port: port, From: api.FlowEnd{Address: "10.0.0.5", Name: name}}})
	}
	renew := line(api.FlowLine{Renew: true, Error: "ask again"})
	answers := []string{
		"{}\n" + flow(1, "") + flow(2, "") + renew, "busy", "{}\n" + flow(2, "red/web") + flow(3, "red/web") + renew,
		flow(3, "") + flow(4, "") + line(api.FlowLine{Error: "you may no more"}),
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		again := r.URL.Query().Get(api.FlowAgain)
		if (again != "") != (asked > 0) || r.URL.Query().Get(api.FlowFollow) != "true" {
			t.Errorf("question %d is %s", asked, r.URL.RawQuery)
		}
		text := answers[asked]
		if asked++; text == "busy" {
			w.WriteHeader(http.StatusTooManyRequests)
			text = `{"kind":"Status","code":429,"message":"there are 16 questions about flows already"}`
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	config := &rest.Config{Host: server.URL}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var told []uint16
	_, err = (&Remote{config, client}).Flows(t.Context(), FlowScope{Network: "red"},
		flows.Question{FlowQuestion: model.FlowQuestion{Follow: true, Since: 1}}, func(f api.Flow) error {
			told = append(told, f.Port)
			return nil
		}, func(api.SilentNode) {})
	if !slices.Equal(told, []uint16{1, 2, 3, 4}) || err == nil || err.Error() != "you may no more" || asked != len(answers) {
		t.Errorf("told is %v, and then %v, by %d answers", told, err, asked)
	}
}
