package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/atoll-net/atoll/pkg/agent/world"
	"github.com/atoll-net/atoll/pkg/apis/atoll/v1alpha1"
	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/kube/follow"
	"github.com/atoll-net/atoll/pkg/kube/intake"
	"github.com/atoll-net/atoll/pkg/node/netdev"
)

// Other nodes know of this one what its Node lists and what OVN has. The rest of its addresses, such as that of a storage network, this
// node tells them itself, in its NodeReport; and each agent follows those of all nodes.

// reportEvery is how late an address of the node's may be in its report.
const reportEvery = 5 * time.Second

// reportsOf are the NodeReports of the cluster.
func reportsOf(client dynamic.Interface) dynamic.ResourceInterface {
	return client.Resource(v1alpha1.SchemeGroupVersion.WithResource("nodereports"))
}

// watchReports follows the reports of all nodes. While they cannot be read, the last ones count.
func (a *Agent) watchReports(ctx context.Context, client dynamic.Interface) error {
	const what = "NodeReports"
	follow.Kind[*unstructured.Unstructured, string, model.NodeReport]{
		Name: what, Lister: follow.List(client, reportsOf(client), follow.Options{Failed: a.failed(what)}),
		Key: follow.ByName, Read: follow.Decoded(intake.NodeReport, a.unreadable("NodeReport")),
		Sink: sees(a, world.Reports, func(r *model.NodeReport) {
			a.world.SetReport(r)
			a.retell(r.Node)
		}, func(node string) {
			a.world.DropReport(node)
			a.retell(node)
		}),
	}.Source().Run(ctx)
	return nil
}

// retell sends the agent the signal to compare the node's own report again.
func (a *Agent) retell(node string) {
	if node == a.node {
		a.told.Send()
	}
}

// reportForever keeps the node's report up to date. It ends with ctx.
func (a *Agent) reportForever(ctx context.Context, reports dynamic.ResourceInterface) error {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		if err := a.report(ctx, reports); err != nil && ctx.Err() == nil {
			a.log.Warn("node's report not written; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-a.told:
		}
	}
}

// report writes the node's report, if it says something else than the API server has.
func (a *Agent) report(ctx context.Context, reports dynamic.ResourceInterface) error {
	addresses, err := netdev.AddressesBut(func(link string) bool { return notTheNodes(link, a.bridge) })
	if err != nil {
		return err
	}
	report, news := a.world.Report(addresses)
	if !news {
		return nil
	}
	if len(addresses) > len(report.Addresses) {
		a.log.Warn("node has more addresses than a report can have: list the others' ranges in infraCIDRs of the AtollConfig",
			"addresses", len(addresses), "reported", len(report.Addresses))
	}
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(intake.ReportOf(report))
	if err != nil {
		return fmt.Errorf("render report: %w", err)
	}
	object := &unstructured.Unstructured{Object: want}
	there, err := reports.Get(ctx, a.node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = reports.Create(ctx, object, metav1.CreateOptions{})
	case err == nil:
		object.SetResourceVersion(there.GetResourceVersion())
		_, err = reports.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("write node report %s: %w", a.node, err)
	}
	return nil
}

// reportTime bounds the writing of one.
const reportTime = 10 * time.Second

// notTheNodes reports whether a link's addresses are not the node's own. These are Atoll's, which all nodes know, and those that
// kube-proxy and a DNS cache add so that packets to Services end at the node.
func notTheNodes(link, bridge string) bool {
	return strings.HasPrefix(link, "atoll") || link == bridge || link == "kube-ipvs0" || link == "nodelocaldns"
}
