// Package access asks the API server who may do what, for programs that serve requests themselves.
//
//	a request's bearer token ──▶ Whose (TokenReview) ──▶ User.Asks ──▶ May (SubjectAccessReview) ──▶ a verdict, which Verdicts remembers
//
// What must stay true: an error is never a verdict; and a verdict is used no longer than its age allows. How many reviews are asked for at
// once, and for how long one may take, the callers bound.
package access

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// maxToken is the longest token that the API server is asked about, in bytes.
const maxToken = 8 << 10

// User is who asks, as the API server knows them.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string]authorization.ExtraValue
}

// Asks is a question whether the user may do something. What, its caller adds.
func (u User) Asks() authorization.SubjectAccessReviewSpec {
	return authorization.SubjectAccessReviewSpec{User: u.Name, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
}

// Token is a request's bearer token; empty where it has none that can be one.
func Token(r *http.Request) string {
	token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token = strings.TrimSpace(token); !bearer || len(token) > maxToken {
		return ""
	}
	return token
}

// Whose is the user whose token it is; not known: nobody's. Its error is that the API server does not say.
func Whose(ctx context.Context, client kubernetes.Interface, token string) (who User, known bool, err error) {
	review := &authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}}
	answer, err := client.AuthenticationV1().TokenReviews().Create(ctx, review, meta.CreateOptions{})
	if err != nil {
		return User{}, false, fmt.Errorf("review token: %w", err)
	}
	if !answer.Status.Authenticated {
		return User{}, false, nil
	}
	user := answer.Status.User
	who = User{Name: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorization.ExtraValue{}}
	for key, values := range user.Extra {
		who.Extra[key] = authorization.ExtraValue(values)
	}
	return who, true, nil
}

// May reports whether somebody may do something. Its error is that the API server does not say.
func May(ctx context.Context, client kubernetes.Interface, question authorization.SubjectAccessReviewSpec) (bool, error) {
	review := &authorization.SubjectAccessReview{Spec: question}
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, meta.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	return answer.Status.Allowed, nil
}
