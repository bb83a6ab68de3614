package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// maxLine bounds a line of a streamed answer, maxRefusal what is read of a refusal, in bytes.
const maxLine, maxRefusal = 16 << 10, 64 << 10

// UnsentError says that nobody answers who could ask the nodes' agents.
type UnsentError struct{ Note string }

// Error implements error.
func (e *UnsentError) Error() string {
	return e.Note + ". The nodes' agents do it, which it asks"
}

// BusyError says that somebody could have packets sent, and not now: there are too many already.
type BusyError struct{ What string }

// Error implements error.
func (e *BusyError) Error() string { return e.What }

// Ping has packets sent from a pod, and tells of each. Its error is that they could not be sent, or that the answer is not whole.
func (r *Remote) Ping(ctx context.Context, from model.PodKey, spec api.PodPingSpec, each func(api.PodPingReply)) error {
	var in api.PodPing
	in.APIVersion, in.Kind, in.Namespace, in.Name, in.Spec = api.GroupVersion().String(), "PodPing", from.Namespace, from.Name, spec
	body, err := r.post(ctx, podPath(from, api.SubresourcePing), in)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return readPing(body, each)
}

// podPath is that of a subresource of a pod, below the version.
func podPath(pod model.PodKey, subresource string) string {
	return fmt.Sprintf("/namespaces/%s/%s/%s/%s", url.PathEscape(pod.Namespace), api.ResourcePods, url.PathEscape(pod.Name), subresource)
}

// post posts a question, and is the body of its answer. Its error is why there is none.
func (r *Remote) post(ctx context.Context, path string, in any) (io.ReadCloser, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("write the question: %w", err)
	}
	// The body of a refusal is ours to read, which is why it is not client-go's request that is sent.
	client, err := rest.HTTPClientFor(r.config)
	if err != nil {
		return nil, fmt.Errorf("make API client: %w", err)
	}
	to := r.client.Discovery().RESTClient().Post().AbsPath("/apis/" + api.GroupVersion().String() + path).URL()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the API server at %s: %w", r.config.Host, err)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		defer func() { _ = answer.Body.Close() }()
		return nil, unsent(answer, "does it")
	}
	return answer.Body, nil
}

// unsent is why nobody does what an API does that would, in words.
func unsent(answer *http.Response, does string) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxRefusal))
	var said meta.Status
	if json.Unmarshal(text, &said) == nil && said.Kind == "Status" && said.Code == http.StatusTooManyRequests {
		return &BusyError{said.Message}
	}
	if json.Unmarshal(text, &said) == nil && said.Kind == "Status" &&
		(said.Code != http.StatusNotFound || said.Details != nil && said.Details.Name != "") {
		return &apierrors.StatusError{ErrStatus: said}
	}
	switch answer.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return &UnsentError{
			fmt.Sprintf("the cluster has no API %s that %s: it is not installed (dist/inspect), or older than this program", api.GroupName, does),
		}
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return &UnsentError{
			fmt.Sprintf("the API %s does not answer (kubectl describe apiservice %s.%s)", api.GroupName, api.Version, api.GroupName),
		}
	}
	return &UnsentError{fmt.Sprintf("the API server answers: %s: %.200s", answer.Status, text)}
}

// readPing reads an answer.
func readPing(from io.Reader, each func(api.PodPingReply)) error {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(make([]byte, maxLine), maxLine)
	for scanner.Scan() {
		var line api.PodPingLine
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return fmt.Errorf("read the answer of %s: %w", api.GroupName, err)
		}
		switch {
		case line.End:
			return nil
		case line.Reply == nil:
			return errors.New(line.Error)
		}
		each(*line.Reply)
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the answer of %s: %w", api.GroupName, err)
	}
	return fmt.Errorf("read the answer of %s: it is not whole", api.GroupName)
}
