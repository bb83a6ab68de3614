package shutout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

const (
	// Namespace and Name are those of the ConfigMap that has the list: a key for each node, whose value is since when (RFC 3339).
	Namespace = "atoll-system"
	// Name is the ConfigMap's.
	Name = "atoll-nodes-shut-out"
)

// List says since when nodes are shut out, by their names.
type List map[string]time.Time

// Names are the nodes, sorted.
func (l List) Names() []string { return slices.Sorted(maps.Keys(l)) }

// Read reads the list. Without the ConfigMap nobody is shut out. A node whose value is no time is shut out since ever.
func Read(ctx context.Context, client kubernetes.Interface) (List, error) {
	object, err := client.CoreV1().ConfigMaps(Namespace).Get(ctx, Name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of nodes that are shut out: %w", err)
	}
	out := List{}
	for node, text := range object.Data {
		since, _ := time.Parse(time.RFC3339, text)
		out[node] = since
	}
	return out, nil
}

// Now is the time by the clock of the API server, which dates all objects. The clock of the machine on which a person works may be wrong.
func Now(ctx context.Context, client kubernetes.Interface) (time.Time, error) {
	probe := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Namespace: Namespace, GenerateName: Name + "-clock-"}}
	// It is not stored.
	made, err := client.CoreV1().ConfigMaps(Namespace).Create(ctx, probe, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the API server's clock: %w", err)
	}
	if made.CreationTimestamp.IsZero() {
		return time.Time{}, errors.New("read the API server's clock: it has not dated an object")
	}
	return made.CreationTimestamp.Time, nil
}

// CredentialLife is how long kubelets' certificates last if nobody has said otherwise (kube-controller-manager,
// --cluster-signing-duration). Kubernetes takes none back before it ends.
const CredentialLife = 365 * 24 * time.Hour

// CredentialsUntil is until when credentials that a listed node had when it was listed may be good. It is the zero time if nobody knows.
func (l List) CredentialsUntil(node string) time.Time {
	if l[node].IsZero() {
		return time.Time{}
	}
	return l[node].Add(CredentialLife)
}

// Add lists a node, and says since when it is listed.
func Add(ctx context.Context, client kubernetes.Interface, node string, now time.Time) (time.Time, error) {
	since := now.UTC().Truncate(time.Second)
	err := change(ctx, client, func(data map[string]string) {
		if before, err := time.Parse(time.RFC3339, data[node]); err == nil {
			since = before
			return
		}
		data[node] = since.Format(time.RFC3339)
	})
	return since, err
}

// Admit takes a node off the list.
func Admit(ctx context.Context, client kubernetes.Interface, node string) error {
	return change(ctx, client, func(data map[string]string) { delete(data, node) })
}

// change changes the list, once more when somebody else did so meanwhile.
func change(ctx context.Context, client kubernetes.Interface, with func(map[string]string)) error {
	objects := client.CoreV1().ConfigMaps(Namespace)
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err := retry.OnError(retry.DefaultBackoff, again, func() error {
		object, err := objects.Get(ctx, Name, meta.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			object, err = &core.ConfigMap{
				ObjectMeta: meta.ObjectMeta{Namespace: Namespace, Name: Name, Labels: map[string]string{"app.kubernetes.io/part-of": "atoll"}},
			}, nil
		}
		if err != nil {
			return err
		}
		before := maps.Clone(object.Data)
		if object.Data == nil {
			object.Data = map[string]string{}
		}
		with(object.Data)
		switch {
		case maps.Equal(before, object.Data):
		case missing:
			_, err = objects.Create(ctx, object, meta.CreateOptions{})
		default:
			_, err = objects.Update(ctx, object, meta.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write the list of nodes that are shut out: %w", err)
	}
	return nil
}
