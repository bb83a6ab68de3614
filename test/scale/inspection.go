package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	api "github.com/atoll-net/atoll/pkg/apis/inspect/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/certs"
	"github.com/atoll-net/atoll/test/lab"
)

// inspected is what atoll-inspect held, in units of 10^6 bytes, and what it answered.
type inspected struct {
	// IdleMB is with all objects and no rows of OVN; RowsMB after an explanation; MostMB the most while operators asked all at once.
	IdleMB float64 `json:"idleMB"`
	RowsMB float64 `json:"rowsMB"`
	MostMB float64 `json:"mostMB"`
	// RowsSeconds is the time until the first explanation came, which has all rows read.
	RowsSeconds float64 `json:"rowsSeconds"`
	// Answered, Refused and Late are questions of those who asked all at once. Refused are those that found no place, Late those
	// whose answer would have taken longer than one may.
	Answered int `json:"answered"`
	Refused  int `json:"refused"`
	Late     int `json:"late"`
	// LargestMB is the largest answer.
	LargestMB float64 `json:"largestMB"`
}

const (
	// askers is how many operators ask at once. From one address that is no API server's, atoll-inspect takes 16 connections.
	askers = 15
	// askFor is how long they do.
	askFor = 30 * time.Second
	// asker is their ServiceAccount.
	asker = "asks-everything"
)

// inspection is atoll-inspect as it runs in a cluster, and somebody who may ask it about everything.
type inspection struct {
	*lab.Child
	client *http.Client
	host   string
	token  string
	// pod is one whose connections are explained.
	pod model.PodKey
}

// inspection measures the memory of atoll-inspect at the full size.
func (s *scale) inspection(ctx context.Context) error {
	i, err := s.startInspection(ctx)
	if err != nil {
		return err
	}
	defer i.End()
	out := &s.out.Inspection
	held := func(to *float64) error {
		got, err := i.ResidentMB()
		*to = got
		return err
	}
	if err := held(&out.IdleMB); err != nil {
		return err
	}
	start := time.Now()
	if err := i.firstExplanation(ctx); err != nil {
		return err
	}
	out.RowsSeconds = time.Since(start).Seconds()
	if err := held(&out.RowsMB); err != nil {
		return err
	}
	if err := i.askAll(ctx, out); err != nil {
		return err
	}
	memory, err := lab.MemoryOf(i.PID())
	if err != nil {
		return err
	}
	out.MostMB = memory.MostMB
	s.progress.Say("atoll-inspect: %.0f MB, with rows %.0f MB after %.1f s, at most %.0f MB; %d answers, %d refused, %d late",
		out.IdleMB, out.RowsMB, out.RowsSeconds, out.MostMB, out.Answered, out.Refused, out.Late)
	return nil
}

// startInspection runs atoll-inspect with the rights that it has in a cluster, and waits until it knows all objects.
func (s *scale) startInspection(ctx context.Context) (_ *inspection, err error) {
	last := s.made - 1
	i := &inspection{pod: model.PodKey{Namespace: networkName(last % s.o.networks), Name: fmt.Sprintf("pod-%06d", last)}}
	if i.token, err = s.operator(ctx); err != nil {
		return nil, err
	}
	if i.host, err = lab.FreeAddress(); err != nil {
		return nil, err
	}
	metrics, err := lab.FreeAddress()
	if err != nil {
		return nil, err
	}
	node := fmt.Sprintf("node-%03d", 0)
	kubeconfig, err := s.KubeconfigOn(lab.InspectUser, node)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, "inspect")
	if i.Child, err = lab.StartChild(ctx, filepath.Join(s.Dir, "inspect.log"), s.o.inspect, "--kubeconfig="+kubeconfig, "--node-name="+node,
		"--inspect-address="+i.host, "--metrics-address="+metrics, "--certificate-dir="+dir,
		"--nb-address="+s.Database.NBAddress(), "--sb-address="+s.Database.SBAddress(), "--log-level=warn"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	state := "nothing was asked"
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-i.Done():
			return false, i.Ended()
		default:
		}
		// The authority comes with the first certificate.
		authority, err := os.ReadFile(filepath.Join(dir, "client", certs.FileAgentCA))
		if err != nil {
			state = err.Error()
			return false, nil //nolint:nilerr // It is not there yet.
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		i.client = &http.Client{Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{RootCAs: roots, ServerName: "atoll-inspect.atoll-system.svc", MinVersion: tls.VersionTLS12},
			MaxIdleConnsPerHost: askers,
		}}
		status, answer, err := i.ask(ctx, http.MethodGet, api.ResourceNetworks, nil)
		if err == nil && status == http.StatusOK {
			return true, nil
		}
		state = fmt.Sprintf("status %d, %d bytes, %v", status, answer, err)
		return false, nil
	})
	if err != nil {
		i.End()
		return nil, fmt.Errorf("wait until atoll-inspect answers (%s): %w", state, err)
	}
	return i, nil
}

// operator is the token of somebody who may ask about everything.
func (s *scale) operator(ctx context.Context) (string, error) {
	const namespace = "atoll-system"
	meta := metav1.ObjectMeta{Name: asker, Namespace: namespace}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	if _, err := s.Kube.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("make an operator: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: asker},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: asker}},
	}
	if _, err := s.Kube.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("make an operator: %w", err)
	}
	token, err := s.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, asker, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("make an operator's token: %w", err)
	}
	return token.Status.Token, nil
}

// ask returns the status of an answer and its length.
func (i *inspection) ask(ctx context.Context, method, resource string, body any) (status int, length int64, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, 0, fmt.Errorf("ask for %s: %w", resource, err)
	}
	url := "https://" + i.host + "/apis/" + api.GroupVersion().String() + "/" + resource
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(text))
	if err != nil {
		return 0, 0, fmt.Errorf("ask for %s: %w", resource, err)
	}
	request.Header.Set("Authorization", "Bearer "+i.token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := i.client.Do(request)
	if err != nil {
		return 0, 0, fmt.Errorf("ask for %s: %w", resource, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode >= http.StatusBadRequest && answer.StatusCode != http.StatusTooManyRequests {
		text, err := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return answer.StatusCode, 0, errors.Join(fmt.Errorf("ask for %s: %s: %s", resource, answer.Status, text), err)
	}
	length, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, length, err
}

// explain asks for the way between two pods of a Network.
func (i *inspection) explain(ctx context.Context) (status int, length int64, err error) {
	question := api.Explanation{Spec: api.ExplanationSpec{
		From: i.pod.String(), To: "10.0.0.20", Protocol: "tcp", Port: 80,
	}}
	question.APIVersion, question.Kind = api.GroupVersion().String(), "Explanation"
	return i.ask(ctx, http.MethodPost, api.ResourceExplanations, question)
}

// firstExplanation asks until there is an explanation: with many rows, who asks first is told to ask again.
func (i *inspection) firstExplanation(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	var last error
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		status, _, err := i.explain(ctx)
		if status == http.StatusServiceUnavailable {
			last = err
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return errors.Join(err, last)
	}
	return nil
}

// askAll has many operators ask everything there is to read about the whole cluster at once, and for explanations.
func (i *inspection) askAll(ctx context.Context, out *inspected) error {
	ctx, cancel := context.WithTimeout(ctx, 10*askFor)
	defer cancel()
	resources := []string{
		api.ResourceNetworks, api.ResourceIPAMs, api.ResourceIPAMChecks, api.ResourceTopologies, api.ResourcePods, api.ResourceClusters, "",
	}
	until := time.Now().Add(askFor)
	var lock sync.Mutex
	var asking sync.WaitGroup
	var failed error
	for n := range askers {
		asking.Go(func() {
			for turn := n; time.Now().Before(until) && ctx.Err() == nil; turn++ {
				resource := resources[turn%len(resources)]
				ask := i.explain
				if resource != "" {
					ask = func(ctx context.Context) (int, int64, error) { return i.ask(ctx, http.MethodGet, resource, nil) }
				}
				status, length, err := ask(ctx)
				lock.Lock()
				switch {
				case status == http.StatusServiceUnavailable:
					out.Late++
				case err != nil:
					failed = err
				case status < http.StatusMultipleChoices:
					out.Answered++
					out.LargestMB = max(out.LargestMB, float64(length)/1e6)
				default:
					out.Refused++
				}
				lock.Unlock()
			}
		})
	}
	asking.Wait()
	return failed
}
