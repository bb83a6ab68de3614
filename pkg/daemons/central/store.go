package central

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-net/atoll/pkg/kube/shutout"
)

// apiPatience bounds a call of the API server: a member that serves must not hang on it.
const apiPatience = 5 * time.Second

// errMoved says that somebody else has written the record first.
var errMoved = errors.New("the record has changed meanwhile")

// Store is where the Record is kept.
type Store struct {
	Client    kubernetes.Interface
	Namespace string
}

// Get reads a database's part of the record.
func (s Store) Get(ctx context.Context, kind Kind) (Database, error) {
	_, d, err := s.read(ctx, kind)
	return d, err
}

// read returns nil for a ConfigMap that does not exist.
func (s Store) read(ctx context.Context, kind Kind) (*corev1.ConfigMap, Database, error) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	object, err := s.Client.CoreV1().ConfigMaps(s.Namespace).Get(ctx, RecordName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, Database{}, nil
	}
	if err != nil {
		return nil, Database{}, fmt.Errorf("read ConfigMap %s: %w", RecordName, err)
	}
	d, err := ParseDatabase(object.Data[string(kind)])
	if err != nil {
		return nil, Database{}, fmt.Errorf("ConfigMap %s, key %s: %w", RecordName, kind, err)
	}
	return object, d, nil
}

// Swap writes a database's part of the record if it still is what was read; else errMoved.
func (s Store) Swap(ctx context.Context, kind Kind, from, to Database) error {
	if err := to.validate(); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	object, current, err := s.read(ctx, kind)
	if err != nil {
		return err
	}
	if !current.equal(from) {
		return errMoved
	}
	text, err := json.MarshalIndent(to, "", "  ")
	if err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	maps := s.Client.CoreV1().ConfigMaps(s.Namespace)
	if object == nil {
		object = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: RecordName, Labels: map[string]string{"app.kubernetes.io/part-of": "atoll"}},
			Data:       map[string]string{string(kind): string(text)},
		}
		_, err = maps.Create(ctx, object, metav1.CreateOptions{})
	} else {
		if object.Data == nil {
			object.Data = map[string]string{}
		}
		object.Data[string(kind)] = string(text)
		// It names the version that was read, so that of two writers one is refused.
		_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return errMoved
	}
	if err != nil {
		return fmt.Errorf("write ConfigMap %s: %w", RecordName, err)
	}
	return nil
}

// Servers says where a database's servers are now, by the record: what ovsdb.Config.Find asks.
func (s Store) Servers(kind Kind, port uint16) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		record, err := s.Get(ctx, kind)
		if err != nil {
			return nil, err
		}
		remotes := record.Remotes(port)
		if remotes == "" {
			return nil, fmt.Errorf("ConfigMap %s names no server of it yet", RecordName)
		}
		return strings.Split(remotes, ","), nil
	}
}

// Open lets a southbound database that was held serve nodes.
func (s Store) Open(ctx context.Context) error {
	for {
		d, err := s.Get(ctx, Southbound)
		if err != nil || !d.Held {
			return err
		}
		to := d
		to.Held = false
		if err := s.Swap(ctx, Southbound, d, to); !errors.Is(err, errMoved) {
			return err
		}
	}
}

// shutOut are the nodes that are shut out.
func (s Store) shutOut(ctx context.Context) (shutout.List, error) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	return shutout.Read(ctx, s.Client)
}

// nodeGone reports whether the API server knows no such node.
func (s Store) nodeGone(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	_, err := s.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	return false, nil
}

// warn sends an Event about this pod, or about the record where the pod's name is unknown.
func (s Store) warn(ctx context.Context, node, reason, message string) error {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: s.Namespace, Name: RecordName}
	if pod := os.Getenv("POD_NAME"); pod != "" {
		about.Kind, about.Name = "Pod", pod
	}
	const longest = 1024
	if len(message) > longest {
		message = message[:longest]
	}
	now := metav1.Now()
	_, err := s.Client.CoreV1().Events(s.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: RecordName + "-", Namespace: s.Namespace},
		InvolvedObject: about,
		Reason:         reason,
		Message:        message,
		Type:           corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: "atoll-ovn", Host: node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("send Event: %w", err)
	}
	return nil
}
