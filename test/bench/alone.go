package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ovn-kubernetes/libovsdb/client"
	dbmodel "github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-net/atoll/pkg/domain/model"
	"github.com/atoll-net/atoll/pkg/ovn/nb"
	"github.com/atoll-net/atoll/test/lab"
)

// alonePods and alonePorts are how many are made to see what a server can do without us.
const (
	alonePods  = 2000
	alonePorts = 2000
	perBatch   = 100
)

// apiAlone measures how many pods per second the API server takes while nobody watches.
func (b *bench) apiAlone(ctx context.Context) (float64, error) {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rawNamespace}}
	if _, err := b.Kube.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	start := time.Now()
	load := lab.Load{Count: alonePods, Workers: creators}
	err := load.Run(ctx, func(ctx context.Context, i int) error {
		key := model.PodKey{Namespace: rawNamespace, Name: fmt.Sprintf("raw-%06d", i)}
		return b.CreatePod(ctx, lab.Pod{Key: key, Node: nodeName(i)})
	})
	if err != nil {
		return 0, err
	}
	rate := alonePods / time.Since(start).Seconds()
	return rate, b.removeRaw(ctx)
}

// removeRaw removes the pods that nobody watched.
func (b *bench) removeRaw(ctx context.Context) error {
	now := int64(0)
	return b.Kube.CoreV1().Pods(rawNamespace).DeleteCollection(ctx,
		metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{})
}

// databaseAlone measures how many ports per second the database takes from one client.
func (b *bench) databaseAlone(ctx context.Context, out *results) error {
	c, err := lab.Connect(ctx, b.Database.NBAddress(), map[string]dbmodel.Model{
		nb.TableLogicalSwitch.String():     &nb.LogicalSwitch{},
		nb.TableLogicalSwitchPort.String(): &nb.LogicalSwitchPort{},
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if out.DatabaseSingle, err = insertPorts(ctx, c, "single", 1); err != nil {
		return err
	}
	out.DatabaseBatched, err = insertPorts(ctx, c, "batched", perBatch)
	return err
}

// insertPorts makes a switch, fills it with ports, so many in one transaction, and removes it.
func insertPorts(ctx context.Context, c client.Client, name string, batch int) (float64, error) {
	sw := &nb.LogicalSwitch{UUID: nb.UUID(nb.TableLogicalSwitch, name), Name: name}
	create, err := c.Create(sw)
	if err != nil {
		return 0, err
	}
	if err := transact(ctx, c, create); err != nil {
		return 0, err
	}
	start := time.Now()
	for i := 0; i < alonePorts; i += batch {
		var ops []ovsdb.Operation
		var uuids []string
		for j := i; j < i+batch; j++ {
			portName := fmt.Sprintf("%s-%d", name, j)
			address := fmt.Sprintf("0a:00:00:00:%02x:%02x 10.0.%d.%d", j/256, j%256, j/256, j%256)
			p := &nb.LogicalSwitchPort{
				UUID: nb.UUID(nb.TableLogicalSwitchPort, portName), Name: portName,
				Addresses: []string{address}, PortSecurity: []string{address},
				Options:     map[string]string{"requested-chassis": "node1"},
				ExternalIDs: map[string]string{"owner": "bench", "uid": portName},
			}
			insert, err := c.Create(p)
			if err != nil {
				return 0, err
			}
			ops, uuids = append(ops, insert...), append(uuids, p.UUID)
		}
		join, err := c.Where(sw).Mutate(sw, dbmodel.Mutation{
			Field: &sw.Ports, Mutator: ovsdb.MutateOperationInsert, Value: uuids,
		})
		if err != nil {
			return 0, err
		}
		if err := transact(ctx, c, append(ops, join...)); err != nil {
			return 0, err
		}
	}
	rate := alonePorts / time.Since(start).Seconds()
	remove, err := c.Where(sw).Delete()
	if err != nil {
		return 0, err
	}
	return rate, transact(ctx, c, remove)
}

func transact(ctx context.Context, c client.Client, ops []ovsdb.Operation) error {
	answers, err := c.Transact(ctx, ops...)
	if err != nil {
		return err
	}
	_, err = ovsdb.CheckOperationResults(answers, ops)
	return err
}
