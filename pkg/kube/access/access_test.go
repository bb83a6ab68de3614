package access

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"
)

func TestToken(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxToken)
	for header, want := range map[string]string{
		"": "", "Basic c2NyYXBlcg==": "", "Bearer ": "", "bearer x": "", "Bearer  x ": "x", "Bearer " + long: long, "Bearer " + long + "x": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", header)
		if got := Token(r); got != want {
			t.Errorf("%.30q has token %.30q, want %.30q", header, got, want)
		}
	}
}

// Whoever a token is of is asked about with all that the API server says of them.
func TestAUserIsAskedAboutAsTheAPIServerKnowsThem(t *testing.T) {
	t.Parallel()
	client, away := fake.NewClientset(), false
	client.PrependReactor("create", "tokenreviews", func(a kubetest.Action) (bool, runtime.Object, error) {
		if away {
			return true, nil, errors.New("away")
		}
		review := a.(kubetest.CreateAction).GetObject().(*authentication.TokenReview)
		review.Status = authentication.TokenReviewStatus{Authenticated: review.Spec.Token == "good", User: authentication.UserInfo{
			Username: "jo", UID: "u1", Groups: []string{"a", "b"}, Extra: map[string]authentication.ExtraValue{"k": {"v", "w"}},
		}}
		return true, review, nil
	})
	var asked authorization.SubjectAccessReviewSpec
	client.PrependReactor("create", "subjectaccessreviews", func(a kubetest.Action) (bool, runtime.Object, error) {
		if away {
			return true, nil, errors.New("away")
		}
		review := a.(kubetest.CreateAction).GetObject().(*authorization.SubjectAccessReview)
		asked = review.Spec
		review.Status.Allowed = asked.NonResourceAttributes.Verb == "get"
		return true, review, nil
	})
	who, known, err := Whose(t.Context(), client, "good")
	if err != nil || !known {
		t.Fatalf("known %t, error %v", known, err)
	}
	for verb, want := range map[string]bool{"get": true, "put": false} {
		question := who.Asks()
		question.NonResourceAttributes = &authorization.NonResourceAttributes{Path: "/x", Verb: verb}
		if may, err := May(t.Context(), client, question); may != want || err != nil {
			t.Errorf("%s: allowed %t, error %v", verb, may, err)
		}
		if d := cmp.Diff(authorization.SubjectAccessReviewSpec{
			User: "jo", UID: "u1", Groups: []string{"a", "b"}, Extra: map[string]authorization.ExtraValue{"k": {"v", "w"}},
			NonResourceAttributes: &authorization.NonResourceAttributes{Path: "/x", Verb: verb},
		}, asked); d != "" {
			t.Error(d)
		}
	}
	if who, known, err := Whose(t.Context(), client, "made up"); known || err != nil || who.Name != "" {
		t.Errorf("a made up token is of %q, known %t, error %v", who.Name, known, err)
	}
	away = true
	if _, known, err := Whose(t.Context(), client, "good"); known || err == nil {
		t.Errorf("while the API server is away: known %t, error %v", known, err)
	}
	if may, err := May(t.Context(), client, who.Asks()); may || err == nil {
		t.Errorf("while the API server is away: allowed %t, error %v", may, err)
	}
}

func TestVerdictsAreBoundedInAgeAndNumber(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const good, bad = 10 * time.Second, 2 * time.Second
		v := &Verdicts[bool]{Good: true, GoodAge: good, BadAge: bad, Most: 100}
		recalls := func(when, question string, wantKnown bool) {
			t.Helper()
			if is, known := v.Recall(question); known != wantKnown || known && is != (question == "yes") {
				t.Errorf("%s: %q is %t, known %t", when, question, is, known)
			}
		}
		recalls("at first", "yes", false)
		v.Remember("yes", true)
		v.Remember("no", false)
		recalls("at once", "yes", true)
		recalls("at once", "no", true)
		<-time.After(bad)
		recalls("later", "yes", true)
		recalls("later", "no", false)
		<-time.After(good - bad)
		recalls("at last", "yes", false)
		for i := range 3 * v.Most {
			v.Remember(strconv.Itoa(i), false)
			if len(v.given) > v.Most {
				t.Fatalf("%d verdicts are remembered", len(v.given))
			}
		}
		v.Remember("yes", true)
		v.Forget()
		recalls("forgotten", "yes", false)
	})
}
