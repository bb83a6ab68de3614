package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
)

// maxPackets bounds a line with packets, in bytes.
const maxPackets = 1 << 20

// Capture asks for one part of a capture of a pod's packets, and tells of each line. Its error is that there is none, or that the
// answer is not whole.
func (r *Remote) Capture(ctx context.Context, pod model.PodKey, spec api.PodCaptureSpec, each func(api.PodCaptureLine) error) error {
	var in api.PodCapture
	in.APIVersion, in.Kind, in.Namespace, in.Name, in.Spec = api.GroupVersion().String(), "PodCapture", pod.Namespace, pod.Name, spec
	body, err := r.post(ctx, podPath(pod, api.SubresourceCapture), in)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return readCapture(body, each)
}

// readCapture reads an answer.
func readCapture(from io.Reader, each func(api.PodCaptureLine) error) error {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(make([]byte, 64<<10), maxPackets)
	for scanner.Scan() {
		var line api.PodCaptureLine
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return fmt.Errorf("read the answer of %s: %w", api.GroupName, err)
		}
		if line.Error != "" {
			return errors.New(line.Error)
		}
		if err := each(line); err != nil {
			return err
		}
		if line.End != nil {
			return nil
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("read the answer of %s: %w", api.GroupName, err)
	}
	return fmt.Errorf("read the answer of %s: it is not whole", api.GroupName)
}
